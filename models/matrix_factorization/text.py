"""A factorization on ranks: ratings laid out, first factors, epochs, and the state gathered.

    shards, schedules ─► lay_out ─► ratings in their order ─┐
    state (or nothing) ────────────► begin … go_on ─────────┴─► model ─► epoch, epoch … ─► rows

What an epoch is stands in `pasgd`; here is what the base asks of every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskpart.collectives import Communicator, PerRank, allreduce, barrier
from daskpart.models.base.text import Step, Text, run_steps
from daskpart.models.optimisation.learning_rates import LearningRate

from .pasgd import LABELS, PreparedSchedule, RankRatings, RowLayout, compile_kernels, run_epoch
from .plan import MFPlan
from .rank_data import (
    arrange_ratings,
    count_ratings,
    final_rows,
    own_and_state,
    resumed_model,
    starting_model,
)
from .state import MFState


class MFText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    plan : MFPlan
    learning_rate : LearningRate
    regularization, init_scale : float
    """

    def __init__(
        self,
        comm: Communicator,
        plan: MFPlan,
        learning_rate: LearningRate,
        regularization: float,
        init_scale: float,
    ) -> None:
        self.session, self._plan, self._rate = comm, plan, learning_rate
        self._regularization, self._init_scale = regularization, init_scale
        # the shards are let go of as soon as the ratings stand in their order
        shards = comm.values(plan.shards if plan.shards.is_lazy else list(plan.shards.compute()))
        self._ratings, numbering, (total, count) = comm.run(
            lay_out,
            shards,
            comm.values(plan.rank_schedules),
            n_components=plan.layout.n_components,
            random_state=plan.random_state,
        )
        del shards
        plans = [*plan.reduces, *plan.expands]
        labels = [LABELS[0]] * plan.eta + [LABELS[1]] * plan.eta
        prepared = comm.prepare_all(plans, numbering, labels)
        used = [
            entry if plan.total_rows else None for plan, entry in zip(plans, prepared, strict=True)
        ]
        self._schedule = PreparedSchedule(used[: plan.eta], used[plan.eta :])
        self._n_ratings = int(count)
        self._overall = float(total / count) if count else 0.0

    def begin_from(self, state: MFState) -> None:  # type: ignore[override]
        """Draw the first factors, or hand out those of a state."""
        layout, comm, axis = self._plan.layout, self.session, self._plan.axis
        if state.epoch:
            self._mean = state.global_mean
            parts = comm.values(state.cut(self._rows_held(), self._plan.n_ranks))
            self._model, self.memory = comm.run(
                go_on, self._ratings, parts, layout=layout, mean=self._mean, axis=axis
            )
        else:
            self._mean = self._overall if layout.biases else 0.0
            # without biases the products themselves must reach the ratings: begin at their mean
            lift = 0.0 if layout.biases else max(self._overall, 0.0)
            self._model, self.memory = comm.run(
                begin,
                self._ratings,
                layout=layout,
                mean=self._mean,
                center=float(np.sqrt(lift / layout.n_components)),
                scale=self._init_scale,
                random_state=self._plan.random_state,
            )
        self._memory = dict(state.learning_rate_state) or self._rate.start()

    def run(self, first: int, last: int) -> list[Step]:
        """Train epochs `first` to `last`."""
        (self._model, self._memory), steps = self.session.run(
            run_steps,
            (self._ratings, self._schedule),
            (self._model, self._memory),
            step=epoch,
            first=first,
            last=last,
            rate=self._rate,
            regularization=self._regularization,
            n_ratings=self._n_ratings,
        )
        return steps

    def gather(self, state: MFState) -> MFState:  # type: ignore[override]
        """The factors as they are on the ranks."""
        comm, axis = self.session, self._plan.axis
        parts = comm.gather(comm.map(final_rows, self._model, self._ratings, axis=axis))
        return state.assembled(
            parts,
            self._rows_answered(),
            global_mean=self._mean,
            learning_rate_state=dict(self._memory),
        )

    def advice(self, step: Step) -> str:
        """What to do when factors diverged."""
        return (
            "factors became NaN or infinite at learning rate "
            f"{step.measured['learning_rate']:g}. Lower initial_learning_rate (or scale the "
            "ratings down)."
        )

    def _rows_held(self) -> dict[str, list[Any]]:
        """For each side of the ratings what every rank holds, in its local order."""
        shards, ranks = self._plan.shards, range(self._plan.n_ranks)
        (_, users), (_, items) = own_and_state(self._plan.axis)
        return {
            users: [shards.rows_of(rank) for rank in ranks],
            items: [shards.items_of(rank) for rank in ranks],
        }

    def _rows_answered(self) -> dict[str, list[Any]]:
        """The same for what every rank answers for between epochs."""
        (_, items) = own_and_state(self._plan.axis)[1]
        home = [schedule.home for schedule in self._plan.rank_schedules]
        return {**self._rows_held(), items: home}


# -- texts ---


def lay_out(
    comm: Communicator, shards: PerRank, schedules: PerRank, *, n_components: int, random_state: int
) -> tuple[PerRank, PerRank, tuple[float, float]]:
    """Ratings in the order of SGD, the items of each rank, and sum and number of all ratings."""
    ratings = comm.map(
        arrange_ratings, shards, schedules, n_components=n_components, random_state=random_state
    )
    items = comm.map(_items_of, ratings)
    totals = allreduce(comm, comm.map(count_ratings, ratings))
    ratings, items, totals = comm.settle(ratings, items, totals)
    total, count = totals.result()
    return ratings, items, (float(total), float(count))


def begin(
    comm: Communicator, ratings: PerRank, *, layout: RowLayout, mean: float, **start: Any
) -> tuple[PerRank, list[int]]:
    """The first model of every rank, with its kernels compiled, and the bytes that it holds."""
    model = comm.map(starting_model, ratings, layout=layout, mean=mean, **start)
    return _ready(comm, model, ratings)


def go_on(
    comm: Communicator,
    ratings: PerRank,
    parts: PerRank,
    *,
    layout: RowLayout,
    mean: float,
    axis: str,
) -> tuple[PerRank, list[int]]:
    """The same from the parts of a state."""
    model = comm.map(resumed_model, ratings, parts, layout=layout, mean=mean, axis=axis)
    return _ready(comm, model, ratings)


def _ready(comm: Communicator, model: PerRank, ratings: PerRank) -> tuple[PerRank, list[int]]:
    model, _ = comm.settle(model, comm.map(compile_kernels, model, ratings))
    held = comm.fold(comm.map(_bytes_held, model, ratings), list)
    barrier(comm)  # so that the first epoch does not count who was longer at its set-up
    return model, held.result()


def epoch(
    comm: Communicator,
    fixed: tuple[PerRank, PreparedSchedule],
    changing: tuple[PerRank, dict[str, float]],
    *,
    number: int,
    rate: LearningRate,
    regularization: float,
    n_ratings: int,
) -> tuple[tuple[PerRank, dict[str, float]], Step]:
    """One epoch, and the memory of the learning rate after it."""
    (ratings, schedule), (model, memory) = fixed, changing
    model, totals = run_epoch(comm, model, ratings, schedule, memory["rate"], regularization)
    finite = totals.finite and bool(np.isfinite(totals.squared_error))
    measured = {
        "train_rmse": float(np.sqrt(totals.squared_error / max(1, n_ratings))),
        "validation_rmse": float("nan"),
        "learning_rate": memory["rate"],
    }
    step = Step(measured, finite=finite, counted={"staleness": totals.stale_rows})
    return (model, rate.advance(memory, number, totals.squared_error)), step


# -- steps on one rank ---


def _items_of(ratings: RankRatings) -> np.ndarray:
    return ratings.items.copy()


def _bytes_held(model: Any, ratings: RankRatings) -> int:
    return model.nbytes + ratings.nbytes
