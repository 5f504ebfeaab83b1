"""An implicit factorization on ranks: events and rows handed out, iterations, rows gathered.

What an iteration is stands in `als`; here is what the base asks of every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, PerRank, PreparedPlan, allreduce, barrier
from daskpart.collectives.messages import RankMessages
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step, Text

from .als import SIDES, Events, RankFactors, Solve, compile_kernels, count, iterate
from .plan import LABEL, ImplicitPlan
from .state import ImplicitState


class ImplicitText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    plan : ImplicitPlan
    events : list of dict, one a rank
        From `events_of_ranks`.
    solve : Solve
    n_events : int
    tolerance : float
        Of the change of the loss.
    init_scale : float
        Of the first rows.
    """

    def __init__(
        self,
        comm: Communicator,
        plan: ImplicitPlan,
        events: list[dict[str, Events]],
        *,
        solve: Solve,
        n_events: int,
        tolerance: float,
        init_scale: float,
    ) -> None:
        self.session, self._plan, self._init_scale = comm, plan, init_scale
        self._events = comm.values(events)
        self.step = iteration
        self.static = {"solve": solve, "n_events": n_events, "tolerance": tolerance}
        self.fixed: dict[str, PreparedPlan] = {
            side: comm.prepare(expand, comm.values(plan.numberings[side].of_ranks()), LABEL)
            for side, expand in plan.expands.items()
        }

    def begin_from(self, state: ImplicitState) -> None:  # type: ignore[override]
        """Hand out the rows of a state."""
        held = {side: each.of_ranks() for side, each in self._plan.numberings.items()}
        factors, self.memory = self.session.run(
            begin,
            self._events,
            self.session.values(state.cut(held, self._plan.n_ranks)),
            self.fixed,
            solve=self.static["solve"],
        )
        rows = state.compared
        self.changing = (factors, rows[-1]["loss"] if rows else float("nan"))

    def gather(self, state: ImplicitState) -> ImplicitState:  # type: ignore[override]
        """The rows as they are on the ranks."""
        owned = {side: each.first_groups() for side, each in self._plan.numberings.items()}
        parts = self.session.gather(self.session.map(owned_rows, self.changing[0]))
        return state.assembled(parts, owned)

    def advice(self, step: Step) -> str:
        """What to do when rows are not finite."""
        if step.number == 1 and self._init_scale > 1:
            return (
                f"rows became NaN or infinite, from init_scale={self._init_scale:g}. Lower that, "
                "or raise regularization."
            )
        return (
            "the equations of a row were singular to rounding: regularization is too weak for so "
            "many components, or the row's counts are too far apart. Raise regularization, lower "
            "alpha, or scale the counts, as by their logarithm."
        )


# -- texts ---


def begin(
    comm: Communicator,
    events: PerRank,
    parts: PerRank,
    plans: dict[str, PreparedPlan],
    *,
    solve: Solve,
) -> tuple[PerRank, list[int]]:
    """Rows of a state on every rank, kernels compiled; and the bytes that each rank holds."""
    factors = comm.map(rows_of_part, parts, events)
    factors, _ = comm.settle(factors, comm.map(compile_kernels, factors, solve=solve))
    messages = [plan.rounds[0].messages for plan in plans.values()]
    held = comm.fold(comm.map(bytes_held, factors, *messages), list)
    barrier(comm)  # so that the first iteration does not count who was longer at its set-up
    return factors, held.result()


def iteration(
    comm: Communicator,
    plans: dict[str, PreparedPlan],
    changing: tuple[PerRank, float],
    *,
    number: int,
    solve: Solve,
    n_events: int,
    tolerance: float,
) -> tuple[tuple[PerRank, float], Step]:
    """One iteration, the loss after it, and whether that changed little enough to stop."""
    factors, before = changing
    factors = iterate(comm, plans, factors, solve)
    sums = allreduce(comm, comm.map(count, factors))
    factors, sums = comm.settle(factors, sums)
    objective, wrong = sums.result()
    loss = float(objective) / max(1, n_events)
    step = Step(
        {"loss": loss, "loss_change": loss - before},
        finite=wrong == 0 and bool(np.isfinite(loss)),
        enough=abs(before - loss) < tolerance,
    )
    return (factors, loss), step


# -- steps on one rank ---


def rows_of_part(part: Part, events: dict[str, Events]) -> RankFactors:
    """The rows of a rank's part of a state, as its own."""
    rows = [np.array(part[f"{side}_factors"], np.float32) for side in SIDES]
    return RankFactors(rows[0], rows[1], events)


def owned_rows(factors: RankFactors) -> dict[str, NDArray[Any]]:
    """What a rank answers for; what does not change is given too, as parts are whole."""
    part: dict[str, NDArray[Any]] = {}
    for side in SIDES:
        n_owned = factors.events[side].n_owned
        part[f"{side}_factors"] = getattr(factors, side)[:n_owned].copy()
        for name in ("bias", "gradient"):
            part[f"{side}_{name}"] = np.zeros(n_owned, np.float32)
    return part


def bytes_held(factors: RankFactors, *messages: list[RankMessages]) -> int:
    """Bytes of a rank's events and rows, of places of rows that travel, and those rows."""
    on_way = [
        sum(map(len, own.out_positions)) + sum(map(len, own.in_positions)) for (own,) in messages
    ]
    row_bytes = factors.user.itemsize * factors.user.shape[1]
    return bytes_of(factors) + 8 * sum(on_way) + row_bytes * max(on_way)
