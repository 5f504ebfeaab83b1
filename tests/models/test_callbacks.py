"""Callbacks around epochs, on a toy estimator that trains as the real one does."""

from __future__ import annotations

import io
import pickle
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, clone

import daskpart
from daskpart.errors import InputError
from daskpart.models.base import callbacks, progress
from daskpart.models.base.callbacks import (
    CallbackSupportMixin,
    Checkpoint,
    EarlyStopping,
    EpochCallback,
    TrainingProgress,
    epoch_contexts,
    with_callbacks,
)
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import same_bits
from daskpart.models.matrix_factorization.state import MFState


class Toy(CallbackSupportMixin, BaseEstimator):
    """Halves its factors each epoch; validation RMSE falls, then stays at `floor`."""

    def __init__(self, max_iter=6, floor=0.0, own=(), seconds=0.0, fail_at=None):
        self.max_iter = max_iter
        self.floor = floor
        self.own = own
        self.seconds = seconds
        self.fail_at = fail_at

    @with_callbacks
    def fit(self, X=None, y=None, start=None):
        self.snapshots = self.runs = 0
        self.state_ = start.copy() if start is not None else self._first()
        with epoch_contexts(
            self,
            self.state_.epoch,
            self.max_iter,
            X=X,
            own=self.own,
            history=self.state_.history,
        ) as epochs:
            while epochs.go_on():
                last = epochs.begin()
                rows = [self._train(n) for n in range(self.state_.epoch + 1, last + 1)]
                self.runs += 1
                epochs.done(rows, self._snapshot)
        self.stopped_by_ = epochs.stopped_by
        return self

    _measures = (
        Measure("train_rmse", "train", "RMSE"),
        Measure("validation_rmse", "validation", "RMSE"),
    )

    def _first(self):
        ones = np.ones((2, 2), np.float32)
        return MFState(ones, ones.copy(), ones[0].copy(), ones[1].copy())

    def _train(self, number):
        time.sleep(self.seconds)
        if number == self.fail_at:
            raise KeyboardInterrupt
        self.state_.user_factors *= np.float32(0.5)
        self.state_.epoch = number
        loss = max(0.5**number, self.floor)
        row = {"epoch": number, "train_rmse": loss, "validation_rmse": loss}
        row |= {"seconds": 1.25, "seconds_computing": 1.0, "seconds_communicating": 0.2}
        self.state_.history.append(row)
        return row

    def _snapshot(self):
        self.snapshots += 1
        return self.state_.copy()


class Witness:
    """A user's own callback, written against scikit-learn's protocol alone."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.calls = []
        self.epochs = []

    def setup(self, estimator, context):
        self.calls.append(("setup", context.max_subtasks))

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.calls.append(("begin", context.task_name, X))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, metadata=None):
        self.calls.append(("end", context.task_name))
        if context.task_name == "epoch":
            self.epochs.append((metadata["history"], fitted_estimator.state_))
            return len(self.epochs) == self.stop_after
        return False

    def teardown(self, estimator, context):
        self.calls.append(("teardown",))


def test_a_users_callback_is_called_every_epoch():
    witness = Witness()
    Toy(max_iter=3).set_callbacks(witness).fit("ratings")
    inside = [("begin", "epoch", "ratings"), ("end", "epoch")] * 3
    assert witness.calls == [
        ("setup", 3), ("begin", "fit", "ratings"), *inside, ("end", "fit"), ("teardown",)
    ]  # fmt: skip


def test_a_users_callback_reads_the_state_of_its_epoch():
    witness = Witness()
    Toy(max_iter=3).set_callbacks(witness).fit()
    assert [factors.user_factors[0, 0] for _, factors in witness.epochs] == [0.5, 0.25, 0.125]
    assert [row["train_rmse"] for row, _ in witness.epochs] == [0.5, 0.25, 0.125]


def test_a_users_callback_stops_the_fit():
    toy = Toy().set_callbacks(Witness(stop_after=2)).fit()
    assert toy.state_.epoch == 2 and toy.stopped_by_ == "callback"


def test_the_state_is_gathered_once_an_epoch_and_only_when_asked_for(tmp_path):
    assert Toy(own=[EarlyStopping(2), TrainingProgress()]).fit().snapshots == 0
    assert Toy(own=[Checkpoint(tmp_path / "a.npz", every=3)]).fit().snapshots == 2
    both = Toy(own=[Checkpoint(tmp_path / "b.npz", every=3)])
    assert both.set_callbacks(Witness(), Witness()).fit().snapshots == 6


def test_epochs_run_together_until_somebody_must_look(tmp_path):
    """Progress only listens, a checkpoint looks when it is due, all else at every epoch."""
    listening = TrainingProgress()
    assert Toy(own=[listening]).fit().runs == 1
    assert Toy(own=[listening, Checkpoint(tmp_path / "a.npz", every=4)]).fit().runs == 2
    assert Toy(own=[listening]).set_callbacks(Witness()).fit().runs == 6
    witness = Witness()
    Toy(own=[EarlyStopping(2)]).set_callbacks(witness).fit()
    assert [row["epoch"] for row, _ in witness.epochs] == [1, 2, 3, 4, 5, 6]
    last = Witness()
    Toy(max_iter=20, floor=0.2, own=[EarlyStopping(2)]).set_callbacks(last).fit()
    assert [row["epoch"] for row, _ in last.epochs] == [1, 2, 3, 4, 5]  # that of the stop, too


def test_checkpoints_are_due_by_the_number_of_the_epoch_wherever_a_fit_begins(tmp_path):
    begun = Toy(max_iter=2).fit().state_
    toy = Toy(max_iter=10, own=[Checkpoint(tmp_path / "a.npz", every=4.0, keep=9)])
    assert toy.fit(start=begun).runs == 3
    written = CheckpointWriter(tmp_path / "a.npz", MFState)
    assert written.epochs() == [4, 8] and written.latest().user_factors[0, 0] == 0.5**8


class Begun(TrainingProgress):
    """Remembers between which epochs it was told that the fit runs, and with which rows."""

    def start(self, first_epoch, max_epochs, history):
        self.told = first_epoch, max_epochs, len(history)
        return super().start(first_epoch, max_epochs, history)


def test_a_fit_that_goes_on_says_where_it_is():
    own, handed, begun = Begun(), Begun(), Toy(max_iter=2).fit().state_
    Toy(max_iter=10, own=[own]).set_callbacks(handed).fit(start=begun)
    assert own.told == handed.told == (2, 10, 2)


def test_own_callbacks_also_work_through_set_callbacks(tmp_path):
    stopping = EarlyStopping(2)
    toy = Toy(max_iter=20, floor=0.2)
    toy.set_callbacks(stopping, Checkpoint(tmp_path / "run.npz"), TrainingProgress()).fit()
    assert (stopping.best_epoch, toy.state_.epoch) == (3, 5)
    assert CheckpointWriter(tmp_path / "run.npz", MFState).epochs() == [4, 5]


def test_early_stopping_bears_patience_epochs_without_improvement():
    toy = Toy(max_iter=20, floor=0.2, own=[EarlyStopping(4)]).fit()
    assert toy.state_.epoch == 3 + 4 and toy.stopped_by_ == "EarlyStopping"
    assert Toy(max_iter=20, own=[EarlyStopping(4)]).fit().stopped_by_ is None


def test_early_stopping_min_delta():
    stopping = EarlyStopping(1, min_delta=0.1)
    toy = Toy(max_iter=20, own=[stopping]).fit()  # 0.5, 0.25, 0.125, 0.0625: fell by 0.0625
    assert toy.state_.epoch == 4 and stopping.best == 0.125


def test_early_stopping_takes_a_rise_for_better_where_it_is_told_so():
    stopping = EarlyStopping(2, rising=True)  # of an error that only falls
    toy = Toy(max_iter=20, own=[stopping]).fit()
    assert (stopping.best_epoch, stopping.best, toy.state_.epoch) == (1, 0.5, 3)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("split", range(8))
def test_early_stopping_resumes_where_it_would_have_stopped(split, own):
    def toy(max_iter):
        stopping = EarlyStopping(4)
        made = Toy(max_iter=max_iter, floor=0.2, own=[stopping] if own else ())
        return made if own else made.set_callbacks(stopping)

    whole, half = toy(20).fit(), toy(split).fit()
    rest = toy(20).fit(start=half.state_)
    assert same_bits(rest.state_, whole.state_)
    assert not own or rest.stopped_by_ == "EarlyStopping"


def test_checkpoint_resumes_to_the_same_bits(tmp_path):
    whole = Toy(max_iter=9).fit()
    Toy(max_iter=5, own=[Checkpoint(tmp_path / "run.npz", every=2)]).fit()
    state = CheckpointWriter(tmp_path / "run.npz", MFState).latest()
    assert state.epoch == 4
    assert same_bits(Toy(max_iter=9).fit(start=state).state_, whole.state_)


def test_checkpoints_of_another_fit_are_refused_before_training(tmp_path):
    toy = Toy(own=[Checkpoint(tmp_path / "run.npz", every=4)]).fit()
    assert toy.state_.epoch == 6
    with pytest.raises(InputError, match=r"epoch-000004.npz is of a later epoch than 0.*resume"):
        toy.fit()
    assert toy.state_.epoch == 0  # nothing was trained


def test_checkpoints_of_another_fit_are_refused_before_planning(tmp_path, monkeypatch):
    X = scipy.sparse.random_array((30, 20), density=0.3, random_state=0)
    options = {"n_ranks": 2, "transport": "local", "checkpoint_path": tmp_path / "run.npz"}
    whole = daskpart.MatrixFactorization(2, max_iter=4, warm_start=True, **options).fit(X)
    whole.set_params(max_iter=1).fit(X)  # its own are no other fit's
    assert whole.state_.epoch == 5
    other = daskpart.MatrixFactorization(2, max_iter=2, **options)
    monkeypatch.setattr(type(other), "_make_plan", lambda *_, **__: 1 / 0)
    for call in (other.fit, other.partial_fit):
        with pytest.raises(InputError, match=r"epoch-000005.npz is of a later epoch than 0"):
            call(X)


@pytest.mark.parametrize("path", ["file/run.npz", "file", "file/below"])
def test_a_checkpoint_path_that_cannot_be_is_told_before_anything_is_planned(path, tmp_path):
    (tmp_path / "file").write_text("of somebody")
    model = daskpart.MatrixFactorization(2, n_ranks=1, checkpoint_path=tmp_path / path)
    with pytest.raises(OSError, match="nothing can be written to the folder"):
        model.fit("what is no matrix")
    assert (tmp_path / "file").read_text() == "of somebody"


def test_wrong_settings_and_missing_measures_are_refused():
    for wrong in (0, 1.5, -1):
        with pytest.raises(InputError, match="patience must be a whole number of at least 1"):
            EarlyStopping(wrong)
    with pytest.raises(InputError, match="min_delta must be at least 0"):
        EarlyStopping(1, min_delta=float("nan"))
    with pytest.raises(InputError, match="watches 'test_rmse', which this fit does not measure"):
        Toy(own=[EarlyStopping(monitor="test_rmse")]).fit()


@pytest.mark.parametrize(
    ("model", "data", "advice"),
    [
        (
            daskpart.GCNClassifier(max_iter=1, n_ranks=1),
            {"X": np.eye(6), "y": [0, 1] * 3},
            "give validation_mask=… or validation_fraction > 0, or watch 'loss'$",
        ),
        (
            daskpart.MatrixFactorization(2, max_iter=1, n_ranks=1),
            {"X": scipy.sparse.eye_array(6).tocsr()},
            "give validation=… or validation_fraction > 0, or watch 'train_rmse'$",
        ),
        (
            daskpart.MLPClassifier(max_iter=1, n_ranks=1),
            {"X": np.eye(6), "y": [0, 1] * 3},
            "give eval_set=… or validation_fraction > 0, or watch 'loss'$",
        ),
    ],
    ids=["gcn", "mf", "mlp"],
)
def test_what_is_not_measured_is_told_by_what_the_model_has(model, data, advice):
    model.set_callbacks(EarlyStopping(monitor="validation_rmse"))
    with pytest.raises(InputError, match=advice):
        model.fit(**data)


def test_everything_is_torn_down_on_ctrl_c():
    class Recorder(EpochCallback):
        finished = 0

        def finish(self):
            self.finished += 1

    own, users, witness = Recorder(), Recorder(), Witness()
    toy = Toy(own=[own], fail_at=3).set_callbacks(users, witness)
    with pytest.raises(KeyboardInterrupt):
        toy.fit()
    assert own.finished == users.finished == 1
    assert witness.calls[-1] == ("teardown",) and ("end", "fit") not in witness.calls
    assert not [name for name in vars(toy) if name.startswith("_epochs")]


def test_scikit_learns_own_progress_bar_runs(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    Toy(max_iter=4).set_callbacks(ProgressBar()).fit()
    assert "Toy - fit" in capsys.readouterr().out


def test_callbacks_can_be_pickled_and_cloned():
    toy = Toy(own=[EarlyStopping(2)]).set_callbacks(TrainingProgress(file=sys.__stderr__))
    again = pickle.loads(pickle.dumps(toy))
    assert again.fit().state_.epoch == 6
    assert clone(toy).fit().state_.epoch == 6


def test_progress_is_silent_where_nobody_looks(capfd):
    Toy(own=[TrainingProgress(delay=0)]).fit()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("max_iter", "n_done", "most"), [(50, 50, 50), (1000, 1000, 61), (1000, 33, 13)]
)
def test_a_log_of_many_epochs_has_some_dozens_of_lines(max_iter, n_done, most):
    file = io.StringIO()
    display = progress.display_for(file, True, 0.0, ())
    display.open(0, max_iter)
    for epoch in range(1, n_done + 1):
        display.update({"epoch": epoch})
    display.close()
    told = [int(line.split()[1].partition("/")[0]) for line in file.getvalue().splitlines()]
    assert told == sorted(set(told)) and len(told) <= most
    assert told[:10] == [*range(1, 11)] and told[-1] == n_done


def test_progress_prints_lines_when_forced():
    file = io.StringIO()
    Toy(max_iter=2, own=[TrainingProgress(force=True, delay=0, file=file)]).fit()
    assert file.getvalue().splitlines() == [
        "epoch 1/2  train RMSE 0.5000  validation RMSE 0.5000  1.2 s",
        "epoch 2/2  train RMSE 0.2500  validation RMSE 0.2500  1.2 s",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("rich_installed", [True, False])
def test_a_bar_on_a_terminal(monkeypatch, rich_installed):
    if rich_installed:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(progress, "_rich_console", lambda stream: None)
    file = Terminal()
    shown = TrainingProgress(delay=0.02, file=file)
    Toy(max_iter=3, seconds=0.05, own=[shown]).fit()
    assert "3/3" in file.getvalue() and "0.1250" in file.getvalue()
    assert "fit" in file.getvalue()


@pytest.mark.parametrize("n_columns", [100, 64, 40, 25])
@pytest.mark.parametrize("rich_installed", [True, False])
def test_a_bar_takes_one_line_of_a_narrow_terminal(monkeypatch, rich_installed, n_columns):
    """The bar gives way, then the words; how many epochs are done is seen always."""
    if rich_installed:
        pytest.importorskip("rich")
    else:
        monkeypatch.setattr(progress, "_rich_console", lambda stream: None)
    monkeypatch.setenv("COLUMNS", str(n_columns))
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    Toy(max_iter=12, seconds=0.02, own=[TrainingProgress(delay=0.01, file=file)]).fit()
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue()))
    assert max(map(len, lines)) <= n_columns
    last = [line for line in lines if line.strip()][-1]
    assert "12/12" in last and ("validation" in last) == (n_columns >= 64)


@pytest.mark.parametrize(
    ("loss", "seconds", "words"),
    [
        (0.83125, 2.04, "loss 0.8313  2.0 s"),
        (0.0, 0.0, "loss 0.0000  0.0 s"),
        (4.3e-7, 0.0031, "loss 4.3e-07  0.0031 s"),
        (1e40, 1.0, "loss 1e+40  1.0 s"),
    ],
)
def test_a_line_has_digits_that_mean_something_and_no_more(loss, seconds, words):
    row = {"epoch": 3, "loss": loss, "seconds": seconds}
    measures = [progress.Measure("loss", "loss")]
    assert progress.describe(row, 12, measures) == f"epoch 3/12  {words}"


@pytest.mark.parametrize("rich_installed", [True, False])
@pytest.mark.parametrize("force", [True, False])
def test_nothing_under_the_delay(monkeypatch, rich_installed, force):
    if not rich_installed:
        monkeypatch.setattr(progress, "_rich_console", lambda stream: None)
    for file in (Terminal(), io.StringIO()):
        Toy(own=[TrainingProgress(file=file, force=force)]).fit()
        assert file.getvalue() == ""


def test_a_bar_leaves_no_thread_behind():
    import threading

    before = set(threading.enumerate())  # some of other tests may end meanwhile
    for delay in (0.0, 60.0):
        Toy(max_iter=2, own=[TrainingProgress(delay=delay, file=Terminal())]).fit()
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


def test_only_one_file_touches_the_callback_module():
    folder = Path(callbacks.__file__).parent
    users = [
        file.name for file in folder.rglob("*.py") if "from sklearn.callback" in file.read_text()
    ]
    assert users == ["callbacks.py"]
