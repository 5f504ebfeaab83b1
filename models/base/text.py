"""The text of a model: module-level functions over per-rank values, and the loop that repeats them.

    driver                                    every rank
    ──────                                    ──────────
    values handed out, plans prepared ──►
    session.run(begin, …)             ──►     first model, totals        one run
    session.run(run_steps, …)         ──►     step, step, step …         one run: some steps
    rows of the history               ◄──
    callbacks, checkpoints, Ctrl-C

A text is ``text(comm, *values, **static)``. Values are per-rank or replicated handles, prepared
plans, or tuples, dicts and dataclasses of them; static values are plain. It returns handles and
plain values that are equal on all ranks, changes nothing that the driver holds, and branches only
on static values and on the `result()` of a `Replicated`. It may read a clock; it may not branch on
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from daskpart._floor.memory import give_back_freed_memory, keep_freed_memory
from daskpart.collectives.large_arrays import free_kept_memory

from .state import State


@dataclass(frozen=True)
class Step:
    """What one step measured, the same on every rank.

    Attributes
    ----------
    measured : dict of str to number
        Columns of the history.
    finite : bool
        False: something became NaN or infinite, and the fit ends.
    enough : bool
        True: the tolerance is reached.
    began_finite : bool or None
        Of several batches, whether the loss of the first was finite; None: the "loss" tells.
    counted : dict of str to int
        What was counted besides messages, such as rows merged from stale copies.
    number : int
        From 1; filled in by `run_steps`.
    seconds : float
        By the clock of a rank; filled in by `run_steps`.
    n_rounds : int or None
        Rounds of messages, to count what this step sent; filled in by `run_steps`. None: nobody
        looked, and what a run sent is shared out evenly over its steps.
    """

    measured: Mapping[str, float]
    finite: bool = True
    enough: bool = False
    began_finite: bool | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    number: int = 0
    seconds: float = 0.0
    n_rounds: int | None = None


def run_steps(
    comm: Any,
    fixed: Any,
    changing: Any,
    *,
    step: Callable[..., tuple[Any, Step]],
    first: int,
    last: int,
    **static: Any,
) -> tuple[Any, list[Step]]:
    """Steps `first` to `last`, fewer where a step was enough or diverged; a text.

    Parameters
    ----------
    comm : Communicator
    fixed : handles
        What stays as it is: data, prepared plans.
    changing : handles and plain values
        What each step gives anew; spent.
    step : callable
        ``step(comm, fixed, changing, number=…, **static)`` gives the new `changing` and a `Step`.
    first, last : int

    Returns
    -------
    changing : handles and plain values
    steps : list of Step
    """
    comm.cached("set-up", _let_go_of_set_up)
    keep_freed_memory()
    steps: list[Step] = []
    for number in range(first, last + 1):
        begin, posted = perf_counter(), comm.n_posted
        changing, done = step(comm, fixed, changing, number=number, **static)
        seconds, n_rounds = perf_counter() - begin, comm.n_posted - posted
        steps.append(replace(done, number=number, seconds=seconds, n_rounds=n_rounds))
        if done.enough or not done.finite:
            break
    return changing, steps


def _let_go_of_set_up() -> None:
    """Before the first step: what data are laid out in takes more memory than the steps."""
    free_kept_memory()
    give_back_freed_memory()


class Text(ABC):
    """One attempt of a fit on one session, from one state; made by the driver, used by the trainer.

    What is set up in ``__init__`` (data laid out, kernels compiled, `begin_from`) does not count as
    training. A session is a communicator, or whatever the estimator's ``_connection`` opens.

    Attributes
    ----------
    session : Any
        Has ``counters`` and ``close()``.
    fixed, changing : Any
        What steps read, and what they change: handles, as `run_steps` takes them.
    step : callable
        One step, as `run_steps` takes it.
    static : dict of str to Any
        Plain values that every step is given.
    memory : sequence of int
        Bytes that each rank holds, measured; empty if nobody looked.
    watches : bool
        Whether it ends a run where patience runs out, and `gather` gives the best step, too. Else
        the trainer does so, after each step.
    measures_first : bool
        Whether a step measures the "loss" of the weights before it (of several batches the first
        one does): where that is not finite, what the step before left is as bad, and the state of
        one step earlier is kept. Where it is, and something else diverged, the step before is kept.
    """

    session: Any
    fixed: Any
    changing: Any
    step: Callable[..., tuple[Any, Step]]
    static: dict[str, Any]
    memory: Sequence[int] = ()
    watches: bool = False
    measures_first: bool = False

    @abstractmethod
    def begin_from(self, state: State) -> None:
        """Put the ranks into a state."""

    def run(self, first: int, last: int) -> list[Step]:
        """Do some steps in one run: as `run_steps` does them, where nothing else is said.

        Parameters
        ----------
        first, last : int
            Numbers of the steps, from 1 on. Fewer may be done, in this order.

        Returns
        -------
        list of Step
            What each measured.
        """
        self.changing, steps = self.session.run(
            run_steps,
            self.fixed,
            self.changing,
            step=self.step,
            first=first,
            last=last,
            **self.static,
        )
        return steps

    @abstractmethod
    def gather(self, state: State) -> State:
        """The state of the ranks now: `state` with what they have, as a new one.

        Parameters
        ----------
        state : State
            The one kept before, with the epoch and the history of now.
        """

    def advice(self, step: Step) -> str:
        """What to say and to do when a step was not finite: one or two sentences."""
        return "something became NaN or infinite."
