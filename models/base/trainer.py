"""The loop of a fit at the driver: runs of steps, the state that is kept, the way on after a loss.

    run ──► steps on the ranks ──► rows of the history
      │        │ a worker is lost
      │        └─► a warning, a new session, the kept state, the steps since then again
      └─ keep: the state is gathered where a callback asks, and where that costs little

A run does as many steps as fit before a callback must look, and enough of them that the trip to the
ranks does not show. Gathering the state takes a share of a step, so it is done when the steps since
the last time took `KEEP_AFTER` times as long. What is kept lies in the client's process: it is what
is left after Ctrl-C, and where a fit goes on after a loss, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from daskpart._floor.memory import give_back_freed_memory
from daskpart.errors import DivergenceError, InputError, SchedulerLostError, WorkerLostError, warn

from .early_stopping import Watch, seen_before
from .interrupts import interrupts_at_the_end
from .reports import Expected, Traffic
from .session import Connection, transport_of
from .state import State
from .text import Step, Text

MAX_LOSSES = 5
KEEP_AFTER = 20.0
LEAST_SECONDS, MOST_SECONDS = 0.05, 1.0  # of a run, as far as callbacks let it
Result = TypeVar("Result")
Row = dict[str, Any]


class Trainer:
    """Runs steps, and keeps the state after a whole one.

    Parameters
    ----------
    connection : Connection, or anything with its `open` and `can_improve`
    make_text : callable
        ``make_text(session)`` sets a text up, and ``text.begin_from(state)`` is called next.
    state : State
        Where to begin.
    n_ranks : int
    expected : Expected or None
        Says which rounds are counted.
    evaluate : callable or None
        ``evaluate(state)`` gives columns of the history that need the state of each step.
    watch : Watch or None
        What says which step is the best: it is kept beside the last one.

    Attributes
    ----------
    kept : State
        After some whole step.
    memory : list of int
        Bytes that each rank held when it was set up.
    transport : str
        Of the last session.
    earlier : State or None
        The best of earlier starts, for a model that begins several times.
    """

    def __init__(
        self,
        connection: Any,
        make_text: Callable[[Any], Text],
        state: State,
        n_ranks: int,
        expected: Expected | None = None,
        evaluate: Callable[[Any], Row] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._connection: Connection = connection
        self._make_text, self._evaluate, self._watch = make_text, evaluate, watch
        self._n_ranks, self._expected = n_ranks, expected
        self._text: Text | None = None
        self._losses = 0
        self._spoilt = False  # the ranks stopped amid a step, or hold NaN: not to be kept
        self._step_seconds: float | None = None
        self._keeping = 0.0  # seconds that the last gather took
        self.transport = "no"
        self.earlier: State | None = None
        self.memory: list[int] = []
        self._start_at(state)

    def _start_at(self, state: State) -> None:
        self.kept, self._at = state, state.epoch
        self._kept_before = state  # of a text that measures first: `kept` may be what is wrong
        self.history = list(state.history)
        self._untold: list[Row] = []  # of the history, not yet seen by who called
        self.traffic = Traffic(self._n_ranks, self._expected)
        self._unkept = 0.0  # seconds of the steps since the last gather
        self._seen = seen_before(self._watch, state)

    @property
    def unit(self) -> str:
        """What a step is called."""
        return self.kept._unit

    @property
    def _last(self) -> int:
        """Number of the last step that is in the history."""
        return max(self.kept.epoch, int(self.history[-1]["epoch"]) if self.history else 0)

    # -- what a fit calls ---

    def run(self, last: int) -> list[Row]:
        """One run of steps, to step number `last` at most; gives their rows of the history.

        Raises
        ------
        DivergenceError
            When something is NaN or infinite; the last state that gave finite numbers is kept.
        WorkerLostError
            When workers were lost too often, or none is left.
        KeyboardInterrupt
            After the run, when Ctrl-C was pressed in it once; at once when it was pressed twice.
        """
        with interrupts_at_the_end() as interrupted:
            return self._resilient(lambda text: self._run(text, last), interrupted)

    def state(self) -> State:
        """The state after the last step that was run."""
        return self.kept if self.kept.epoch == self._last else self._resilient(self._kept_now)

    def rescue(self) -> None:
        """After Ctrl-C or an error: keep the last step, if it is whole and did not diverge."""
        if self._spoilt or self._text is None or self._at == self.kept.epoch:
            return
        with suppress(Exception):
            self._keep(self._text)

    def begin_again(self, state: State) -> None:
        """Forget what was done and begin from another state, on the same session."""
        self._start_at(state)
        if self._text is not None:
            self._begin(self._text)

    def _begin(self, text: Text) -> None:
        self._spoilt = True
        text.begin_from(self.kept)
        self._at, self._spoilt = self.kept.epoch, False

    def close(self) -> None:
        """Leave nothing behind on the cluster."""
        text, self._text, self._spoilt = self._text, None, False
        if text is not None:
            text.session.close()

    # -- steps ---

    def _run(self, text: Text, last: int) -> list[Row]:
        self._catch_up(text)
        before, one_by_one = self.kept, self._one_by_one(text)
        if not self._untold:  # else a worker was lost while the state behind them was gathered
            steps = self._steps(text, min(last, self._at + self._length(text)))
            self._refuse_divergence(text, steps)
            self._untold = self._counted(text, steps)
        if one_by_one or self._unkept >= KEEP_AFTER * self._keeping:
            self._keep(text)
            if self._connection.can_improve():
                self.close()
        rows, self._untold = self._untold, []
        if self._evaluate is not None:
            rows[-1].update(self._evaluate(self.kept))
        if self._watch is not None:
            for row in rows:
                self._seen = self._watch.after(self._seen, int(row["epoch"]), row)
            if not text.watches:
                self.kept = self.kept.following(before, self._seen.step == self.kept.epoch)
        return rows

    @property
    def ran_out(self) -> bool:
        """Whether patience has run out."""
        return self._watch is not None and self._watch.ran_out(self._seen)

    def _one_by_one(self, text: Text) -> bool:
        """Whether the state of each step is looked at, here."""
        return self._evaluate is not None or (self._watch is not None and not text.watches)

    def _length(self, text: Text) -> int:
        """Steps of the next run."""
        if self._one_by_one(text) or self._step_seconds is None:
            return 1
        seconds = min(max(KEEP_AFTER * self._keeping, LEAST_SECONDS), MOST_SECONDS)
        return max(1, int(seconds / max(self._step_seconds, 1e-9)))

    def _steps(self, text: Text, last: int) -> list[Step]:
        text.session.counters.reset()
        begin, self._spoilt = perf_counter(), True
        steps = text.run(self._at + 1, last)
        seconds = perf_counter() - begin
        self._at += len(steps)
        self._spoilt = not steps[-1].finite
        self._unkept += seconds
        self._step_seconds = seconds / len(steps)
        return steps

    def _catch_up(self, text: Text) -> None:
        """Do again what a loss undid: it is in the history, and counted, already."""
        while self._at < self._last:
            self._steps(text, min(self._last, self._at + self._length(text)))

    def _counted(self, text: Text, steps: list[Step]) -> list[Row]:
        """Rows of the history of some steps, and their traffic added up."""
        counters, n_steps = text.session.counters, len(steps)
        self.traffic.add(counters, steps)
        sent = self.traffic.of_steps(counters, steps)
        rows = [
            {
                "epoch": step.number,
                **step.measured,
                "seconds": step.seconds,
                "seconds_computing": float(counters.seconds_computing.mean()) / n_steps,
                "seconds_communicating": float(counters.seconds_blocked.mean()) / n_steps,
                **step.counted,
                "volume": of_step["rows"],
                "messages": of_step["messages"],
                "bytes": of_step["bytes"],
            }
            for step, of_step in zip(steps, sent, strict=True)
        ]
        self.history += rows
        return rows

    def _refuse_divergence(self, text: Text, steps: list[Step]) -> None:
        wrong = steps[-1]
        if wrong.finite:
            return
        good = wrong.number - 1
        if text.measures_first:
            began_finite = wrong.began_finite
            if began_finite is None:
                began_finite = bool(np.isfinite(wrong.measured["loss"]))
            good -= not began_finite
        if good < self.kept.epoch:
            self.kept = self._kept_before
        if good > self.kept.epoch:  # go to the last good step, and keep that
            self.history = [row for row in self.history if row["epoch"] <= good]
            self._begin(text)
            self._catch_up(text)
            if self._at < good:
                self._counted(text, self._steps(text, good))
            self._keep(text)
        kept = f"The state after {self.unit} {self.kept.epoch} is kept."
        raise DivergenceError(
            f"training diverged in {self.unit} {wrong.number}: {text.advice(wrong)} "
            + (kept if self.kept.epoch else "No state is kept, as none was trained before it.")
        )

    # -- the kept state ---

    def _kept_now(self, text: Text) -> State:
        self._catch_up(text)
        self._keep(text)
        return self.kept

    def _keep(self, text: Text) -> None:
        """Make the step that the ranks are at the kept one; states that others hold stay."""
        begin, self._spoilt = perf_counter(), True
        state = text.gather(replace(self.kept, epoch=self._at, history=list(self.history)))
        self._spoilt = False
        self._keeping, self._unkept = perf_counter() - begin, 0.0
        if text.measures_first:
            self._kept_before = self.kept
        self.kept = state

    # -- losses ---

    def _resilient(
        self, work: Callable[[Text], Result], interrupted: Callable[[], bool] = lambda: False
    ) -> Result:
        """``work(text)``; again on a new session after a loss, unless Ctrl-C was pressed."""
        while True:
            try:
                return work(self._current())
            except WorkerLostError as error:
                self._losses += 1
                nowhere = isinstance(error, SchedulerLostError)
                if nowhere or self._losses > MAX_LOSSES or interrupted():
                    raise
                warn(f"{error} The fit goes on from the end of {self.unit} {self.kept.epoch}.")
                self.close()

    def _opened(self) -> Any:
        """A session; where a loss leaves none to be opened, that is an error of the loss."""
        try:
            return self._connection.open(self._losses > 0)
        except InputError as error:
            if not self._losses:
                raise
            self._losses = MAX_LOSSES  # to wait for workers once is enough
            kept = f" The state after {self.unit} {self.kept.epoch} is kept."
            told = f"{str(error).removesuffix('.')}."
            raise WorkerLostError(f"{told}{kept if self.kept.epoch else ''}") from error

    def _current(self) -> Text:
        if self._text is None:
            session = self._opened()
            self.transport = transport_of(session)
            try:
                text = self._make_text(session)
                self._begin(text)
            except BaseException:
                session.close()
                raise
            self._text = text
            give_back_freed_memory()  # here, too: workers beside this process may need it
            self.memory = [int(held) for held in np.ravel(text.memory)]
        return self._text
