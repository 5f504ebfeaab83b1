"""What happens after steps besides training: progress, checkpoints, early stopping, callbacks.

The one file that touches `sklearn.callback`, which is new and may move. How a fit calls it:

    with epoch_contexts(self, first, last, own=[…], history=rows_of_earlier_steps) as epochs:
        while epochs.go_on():
            rows = trainer.run(epochs.begin())       # to the step at which somebody must look
            epochs.done(rows, snapshot=trainer.state)     # asked for only where needed

`snapshot` gives the `State` after the last of these steps; it is called at most once, and only when
a checkpoint is due or a user's callback asks for `fitted_estimator`. Callbacks may keep what it
gives: later steps must not overwrite those arrays. The loop ends early when any callback says so;
`epochs.stopped_by` names it.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

from sklearn.callback import CallbackSupportMixin, with_callbacks

from daskpart.errors import InputError

from .checkpoints import CheckpointWriter
from .early_stopping import Seen, Watch
from .progress import Display, Measure, display_for
from .state import State

__all__ = [
    "CallbackSupportMixin",
    "Checkpoint",
    "EarlyStopping",
    "EpochCallback",
    "EpochContexts",
    "Epochs",
    "Tolerance",
    "TrainingProgress",
    "epoch_contexts",
    "with_callbacks",
]

_EPOCH_TASK = "epoch"


class EpochCallback:
    """A callback told of each whole epoch; works inside `fit` and through `set_callbacks`.

    Subclasses override `start`, `epoch_done`, `next_look` and `finish`. The other methods are
    scikit-learn's `FitCallback` protocol, translated.

    Attributes
    ----------
    measures : tuple of Measure
        What the estimator of the fit measures; set when the fit begins.
    enough : bool
        What `start` said, set when a fit begins that was handed the callback by `set_callbacks`.
    """

    measures: tuple[Measure, ...] = ()
    enough: bool = False

    def next_look(self, epoch: int) -> int | None:
        """The next epoch, after `epoch`, at whose end this callback must be called at once.

        Until then epochs may be run together and told of together. None: it only listens.
        """
        return epoch + 1

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Training is about to begin after `first_epoch` epochs.

        `history` are the rows of those of the same fit: none where it begins from what another fit
        has learnt, of other data or parameters.

        Returns
        -------
        stop : bool
            True when those epochs were enough, as when a fit that stopped early is resumed.
        """
        return False

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """One epoch is done; return True to stop training here.

        Parameters
        ----------
        row : dict
            This epoch's row of `history_`.
        snapshot : callable
            Gives the `State` after this epoch; costs a gather on a cluster. Only to be called at
            an epoch that `next_look` named.
        """
        return False

    def finish(self) -> None:
        """Training is over, by success, error or Ctrl-C."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin; of scikit-learn's protocol."""
        first_epoch, history = getattr(estimator, "_epochs_before", (0, []))
        self.measures = tuple(getattr(estimator, "_measures", ()))
        last_epoch = first_epoch + (context.max_subtasks or 0)
        self.enough = self.start(first_epoch, last_epoch, history)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to do; of scikit-learn's protocol."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: Any = None) -> bool:
        """Pass the end of an epoch on; of scikit-learn's protocol."""
        if context.task_name != _EPOCH_TASK or not metadata:
            return False
        return self.epoch_done(metadata["history"], metadata["snapshot"])

    def teardown(self, estimator: Any, context: Any) -> None:
        """End; of scikit-learn's protocol."""
        self.finish()


class TrainingProgress(EpochCallback):
    """Show epoch, what is measured and seconds while training runs.

    A bar by rich, or by click where rich is not installed; in a notebook it is text. Silent where
    nobody looks (not a terminal, not a notebook) unless forced; then each epoch prints one line,
    fit for a batch job's log, and of more than 50 quick ones some dozens do. Training that ends
    within `delay` shows nothing.

    Parameters
    ----------
    force : bool, default=False
        Write also where the output is not a terminal.
    delay : float, default=1.0
        Seconds before anything is shown.
    file : text stream or None
        None: standard error.

    Examples
    --------
    ``verbose=True`` of a model is ``TrainingProgress(force=True)``. Other settings:

    >>> import sys
    >>> from daskpart import MLPRegressor
    >>> from daskpart.models import TrainingProgress
    >>> model = MLPRegressor((2,), max_iter=2, n_ranks=1, transport="local")
    >>> told = TrainingProgress(force=True, delay=0.0, file=sys.stdout)
    >>> model.set_callbacks(told).fit([[0.0], [1.0]], [0.0, 1.0])
    epoch 1/2  loss ...
    epoch 2/2  loss ...
    MLPRegressor(hidden_layer_sizes=(2,), max_iter=2, n_ranks=1, transport='local')
    """

    def __init__(self, *, force: bool = False, delay: float = 1.0, file: Any = None) -> None:
        self.force, self.delay, self.file = force, delay, file
        self._display: Display | None = None

    def next_look(self, epoch: int) -> None:
        """It only listens."""

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Get ready; the display appears after `delay` seconds."""
        self.finish()
        self._display = display_for(self.file, self.force, self.delay, self.measures)
        self._display.open(first_epoch, max_epochs)
        return False

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Show the row."""
        if self._display is not None:
            self._display.update(row)
        return False

    def finish(self) -> None:
        """Leave the last state on the screen."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_display": None, "file": None}  # screens do not travel


class Checkpoint(EpochCallback):
    """Write the state each `every` epochs, keep the last `keep`; see `CheckpointWriter`.

    Parameters
    ----------
    path : path
        ``run.npz`` or ``run.zarr`` gives ``run.epoch-000012.npz``; without suffix: a folder.
    every, keep : int
    """

    def __init__(self, path: str | os.PathLike, every: int = 1, keep: int = 2) -> None:
        self._writer = CheckpointWriter(path, State, every, keep)
        self.path, self.every, self.keep = path, self._writer.every, self._writer.keep

    def next_look(self, epoch: int) -> int:
        """When the next one is due."""
        return (epoch // self.every + 1) * self.every

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Refuse a path before hours of training, not after.

        There are checkpoints of another fit, or it cannot be written to.
        """
        self._writer.check_free(first_epoch)
        self._writer.check_folder()
        return False

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Write when it is due."""
        if self._writer.due(int(row["epoch"])):
            self._writer.write(snapshot())
        return False


class EarlyStopping(EpochCallback):
    """Stop after `patience` epochs in which a measure did not fall by more than `min_delta`.

    The rows of earlier epochs are counted when a fit resumes, so that it stops where the
    uninterrupted fit stops. It only stops: the model is that of the last epoch. The parameter
    `patience` of a model also gives it the weights of its best.

    Parameters
    ----------
    patience : int, default=3
        Epochs without improvement that are borne; at least 1.
    min_delta : float, default=0.0
        Smallest fall that counts, in the unit of the measure.
    monitor : str, default="validation_rmse"
        Column of `history_`.
    rising : bool, default=False
        Whether more is better: of an accuracy or an NDCG, a rise is what counts.

    Attributes
    ----------
    best : float
        Best value so far, ±inf before the first epoch.
    best_epoch : int
        Where it was reached.
    waited : int
        Epochs since the last fall (or rise) that counts.

    Raises
    ------
    InputError
        At once for `patience` < 1 or `min_delta` < 0; in training when rows lack the measure.

    Examples
    --------
    >>> from daskpart import MLPRegressor
    >>> from daskpart.models import EarlyStopping
    >>> model = MLPRegressor((2,), max_iter=500, tol=0, n_ranks=1, transport="local")
    >>> model = model.set_callbacks(EarlyStopping(patience=2, min_delta=0.5, monitor="loss"))
    >>> model.fit([[0.0], [1.0]], [0.0, 1.0]).n_iter_
    3
    """

    def __init__(
        self,
        patience: int = 3,
        min_delta: float = 0.0,
        monitor: str = "validation_rmse",
        rising: bool = False,
    ) -> None:
        if int(patience) != patience or patience < 1:
            raise InputError(f"patience must be a whole number of at least 1, got {patience!r}.")
        if not min_delta >= 0:
            raise InputError(f"min_delta must be at least 0, got {min_delta!r}.")
        self.patience, self.min_delta, self.monitor = int(patience), float(min_delta), monitor
        self.rising = rising
        lowest, highest = ((), (monitor,)) if rising else ((monitor,), ())
        self._watch = Watch(self.patience, lowest, highest, self.min_delta)
        self._seen = Seen()
        self._ways: list[str] = []  # in which the estimator is given what it validates on

    @property
    def best(self) -> float:
        """Best value so far."""
        if not self._seen.values:
            return -math.inf if self.rising else math.inf
        return self._seen.values[0]

    @property
    def best_epoch(self) -> int:
        """Where it was reached."""
        return self._seen.step

    @property
    def waited(self) -> int:
        """Epochs since then."""
        return self._seen.since

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin, and look how this estimator validates; of scikit-learn's protocol."""
        takes = inspect.signature(estimator.fit).parameters
        ways = ("validation", "validation_mask", "eval_set")
        self._ways = [f"{name}=…" for name in takes if name in ways]
        if hasattr(estimator, "validation_fraction"):
            self._ways.append("validation_fraction > 0")
        super().setup(estimator, context)

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Forget the last fit, and count the rows before this one."""
        self._seen = self._watch.over(history)
        return self._watch.ran_out(self._seen)

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Whether patience has run out."""
        if not self._watch.measures(row):
            columns = (measure.column for measure in self.measures)
            measured = [repr(name) for name in columns if Watch(1, (name,)).measures(row)]
            advice = [f"watch {' or '.join(measured)}"] if measured else []
            if self.monitor.startswith("validation") and self._ways:
                advice.insert(0, f"give {' or '.join(self._ways)}")
            raise InputError(
                f"early stopping watches {self.monitor!r}, which this fit does not measure: "
                f"{', or '.join(advice) or 'watch a column of history_'}"
            )
        self._seen = self._watch.after(self._seen, int(row["epoch"]), row)
        return self._watch.ran_out(self._seen)


class Tolerance(EpochCallback):
    """Stop after a step that changed a measure by less than a tolerance.

    The text of the model stops by itself, in the middle of a run; this tells the loop so, and a fit
    that resumes behind its end.

    Parameters
    ----------
    tolerance : float
        Of the absolute change; 0 never stops.
    column : str
        Column of `history_` that holds the change.
    """

    def __init__(self, tolerance: float, column: str) -> None:
        self.tolerance, self.column = tolerance, column

    def next_look(self, epoch: int) -> None:
        """It only listens."""

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Whether the steps before were enough."""
        return bool(history) and self.reached(history[-1])

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Whether this step was enough."""
        return self.reached(row)

    def reached(self, row: dict[str, Any]) -> bool:
        """Whether a row of the history changed too little (NaN, of the first one, did not)."""
        return abs(row[self.column]) < self.tolerance


class Epochs:
    """The epochs of a fit, run by run, until the last or until a callback stops it.

    Attributes
    ----------
    stopped_by : str or None
        Name of the callback that stopped training.
    """

    def __init__(
        self,
        estimator: Any,
        first_epoch: int,
        max_epochs: int,
        X: Any,
        own: list[EpochCallback],
    ) -> None:
        self.stopped_by: str | None = None
        self._estimator, self._done, self._last = estimator, first_epoch, max_epochs
        self._X, self._own = X, own
        self._task: Any = None
        n_epochs = max(0, max_epochs - first_epoch)
        self._root = estimator._init_callback_context(max_subtasks=n_epochs)
        for callback in getattr(estimator, "_skl_callbacks", []):
            if isinstance(callback, EpochCallback) and callback.enough:
                self.stopped_by = type(callback).__name__
        self._root.call_on_fit_task_begin(estimator=estimator, X=X)

    def go_on(self) -> bool:
        """Whether there is another epoch to run."""
        return self.stopped_by is None and self._done < self._last

    def begin(self) -> int:
        """Begin a run; gives the epoch that it may go to, as somebody must look then."""
        self._begin_task()
        others = getattr(self._estimator, "_skl_callbacks", [])
        looks = [
            # what is not ours says nothing, and may look at every epoch
            each.next_look(self._done) if isinstance(each, EpochCallback) else self._done + 1
            for each in (*others, *self._own)
        ]
        return min([self._last, *(epoch for epoch in looks if epoch is not None)])

    def done(self, rows: Sequence[dict[str, Any]], snapshot: Callable[[], Any]) -> bool:
        """Tell all callbacks that the epochs of a run are whole.

        Parameters
        ----------
        rows : sequence of dict
            Their rows of `history_`.
        snapshot : callable
            Gives the `State` after the last of them; called at most once, and only if needed.

        Returns
        -------
        stop : bool
            Whether a callback wants to stop.
        """
        state = cache(snapshot)
        for row in rows:
            if self._task is None:
                self._begin_task()
            task, self._task = self._task, None
            self._done += 1
            self._tell(task, row, state)
        return self.stopped_by is not None

    def end(self) -> None:
        """Tell all callbacks that the fit is over."""
        self._root.call_on_fit_task_end(estimator=self._estimator, X=self._X)

    def _begin_task(self) -> None:
        self._task = self._root.subcontext(task_name=_EPOCH_TASK)
        self._task.call_on_fit_task_begin(estimator=self._estimator, X=self._X)

    def _tell(self, task: Any, row: dict[str, Any], snapshot: Callable[[], Any]) -> None:
        for callback in self._own:  # first: what others tell of is in the checkpoint
            if callback.epoch_done(row, snapshot):
                self.stopped_by = type(callback).__name__
        if task.call_on_fit_task_end(
            estimator=self._estimator,
            X=self._X,
            metadata={"history": row, "snapshot": snapshot},
            reconstruction_attributes=lambda: {"state_": snapshot()},
        ):
            self.stopped_by = self.stopped_by or "callback"


EpochContexts = Callable[[], AbstractContextManager[Epochs]]  # `epoch_contexts` of a fit


@contextmanager
def epoch_contexts(
    estimator: Any,
    first_epoch: int,
    max_epochs: int,
    *,
    X: Any = None,
    own: Sequence[EpochCallback] = (),
    history: Sequence[dict[str, Any]] = (),
) -> Iterator[Epochs]:
    """The epochs of a fit with all callbacks around them (see the module's head).

    Parameters
    ----------
    estimator : CallbackSupportMixin
        In a method decorated by `with_callbacks`.
    first_epoch : int
        Whole epochs done before (0 unless the fit resumes).
    max_epochs : int
        Number of the last epoch.
    X : container, optional
        Handed to callbacks that ask for it.
    own : sequence of EpochCallback
        The estimator's own, told before the user's.
    history : sequence of dict
        Rows of the epochs before, as far as they are of the same fit.

    Yields
    ------
    Epochs
        See the module's head.
    """
    estimator._epochs_before = (first_epoch, list(history))
    started: list[EpochCallback] = []
    try:
        epochs = Epochs(estimator, first_epoch, max_epochs, X, list(own))
        for callback in own:
            started.append(callback)
            callback.measures = tuple(getattr(estimator, "_measures", ()))
            if callback.start(first_epoch, max_epochs, list(history)):
                epochs.stopped_by = type(callback).__name__
        yield epochs
        epochs.end()
    finally:
        del estimator._epochs_before
        for callback in reversed(started):
            callback.finish()
