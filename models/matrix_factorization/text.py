"""A factorization on ranks: ratings laid out, first factors, epochs, and the state gathered.

    shards, schedules ─► lay_out ─► ratings in their order ─┐
    state (or nothing) ────────────► begin … go_on ─────────┴─► model ─► epoch, epoch … ─► rows

What an epoch is stands in `pasgd`; here is what the base asks of every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskpart.collectives import MAX, Communicator, PerRank, allreduce, barrier
from daskpart.models.base.text import Step, Text, run_steps
from daskpart.models.optimisation.learning_rates import LearningRate

from .pasgd import LABELS, PreparedSchedule, RankRatings, RowLayout, compile_kernels, run_epoch
from .plan import MFPlan
from .rank_data import (
    RankSchedule,
    arrange_ratings,
    final_rows,
    in_unit,
    resumed_model,
    starting_model,
)
from .scaling import Summary, rank_ends, rank_sums, summary_of
from .state import MFState


class MFText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    plan : MFPlan
    learning_rate : LearningRate
    regularization, init_scale : float
    unit : float or None
        s of the state that the fit goes on from, see `scaling`; None: that of these ratings.
    loss : {"squared", "bpr"}
    nonnegative : bool
    weights : list of ndarray, one a rank, or None
        Of the ratings of each shard.
    """

    def __init__(
        self,
        comm: Communicator,
        plan: MFPlan,
        learning_rate: LearningRate,
        regularization: float,
        init_scale: float,
        unit: float | None,
        *,
        loss: str = "squared",
        nonnegative: bool = False,
        weights: list[np.ndarray] | None = None,
    ) -> None:
        self.session, self._plan, self._rate = comm, plan, learning_rate
        self._regularization, self._init_scale = regularization, init_scale
        self._triples, self._nonnegative = loss == "bpr", nonnegative
        # the shards are let go of as soon as the ratings stand in their order
        shards = comm.values(plan.shards if plan.shards.is_lazy else list(plan.shards.compute()))
        self._ratings, numbering, self._summary, self._unit = comm.run(
            lay_out,
            shards,
            comm.values(plan.rank_schedules),
            comm.values([None] * plan.n_ranks if weights is None else weights),
            n_components=plan.layout.n_components,
            random_state=plan.random_state,
            centred=plan.layout.biases,
            unit=1.0 if self._triples else unit,
            triples=self._triples,
            first_item=plan.shards.shape[0] if plan.axis == "nonzeros" else 0,
        )
        del shards
        plans = [*plan.reduces, *plan.expands]
        labels = [LABELS[0]] * plan.eta + [LABELS[1]] * plan.eta
        prepared = comm.prepare_all(plans, numbering, labels)
        used = [
            entry if plan.total_rows else None for plan, entry in zip(plans, prepared, strict=True)
        ]
        self._schedule = PreparedSchedule(used[: plan.eta], used[plan.eta :])

    def begin_from(self, state: MFState) -> None:  # type: ignore[override]
        """Draw the first factors, or hand out those of a state."""
        layout, comm, axis = self._plan.layout, self.session, self._plan.axis
        if state.epoch:
            self._mean = state.global_mean
            parts = comm.values(state.cut(self._plan.rows_held, self._plan.n_ranks))
            self._model, self.memory = comm.run(
                go_on, self._ratings, parts, layout=layout, mean=self._mean / self._unit,
                axis=axis, unit=self._unit,
            )  # fmt: skip
        else:
            # what is in the middle of a difference of two scores is 0, whatever the events count
            overall = 0.0 if self._triples else self._summary.mean
            self._mean = overall if layout.biases else 0.0
            # without biases the products themselves must reach the ratings: begin at their mean
            lift = 0.0 if layout.biases else max(overall / self._unit, 0.0)
            self._model, self.memory = comm.run(
                begin,
                self._ratings,
                layout=layout,
                mean=self._mean / self._unit,
                center=float(np.sqrt(lift / layout.n_components)),
                scale=self._init_scale,
                random_state=self._plan.random_state,
                nonnegative=self._nonnegative,
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
            nonnegative=self._nonnegative,
            n_ratings=self._summary.count,
            unit=None if self._triples else self._unit,
        )
        return steps

    def gather(self, state: MFState) -> MFState:  # type: ignore[override]
        """The factors as they are on the ranks."""
        comm, axis = self.session, self._plan.axis
        parts = comm.gather(
            comm.map(final_rows, self._model, self._ratings, axis=axis, unit=self._unit)
        )
        return state.assembled(
            parts,
            self._plan.rows_answered,
            global_mean=self._mean,
            rating_mean=0.0 if self._triples else self._summary.mean,
            unit=self._unit,
            lowest=min(self._summary.lowest, state.lowest),
            highest=max(self._summary.highest, state.highest),
            learning_rate_state=dict(self._memory),
        )

    def advice(self, step: Step) -> str:
        """What to do when factors diverged."""
        return (
            "factors became NaN or infinite at learning rate "
            f"{step.measured['learning_rate']:g}. Lower initial_learning_rate."
        )


# -- texts ---


def lay_out(
    comm: Communicator,
    shards: PerRank,
    schedules: PerRank,
    weights: PerRank,
    *,
    n_components: int,
    random_state: int,
    centred: bool,
    unit: float | None,
    first_item: int,
    triples: bool,
) -> tuple[PerRank, PerRank, Summary, float]:
    """Ratings in the order of SGD and in their unit, the items of each rank, all in numbers."""
    ratings = comm.map(
        _arranged, shards, schedules, weights, n_components=n_components,
        random_state=random_state, first_item=first_item, triples=triples,
    )  # fmt: skip
    items = comm.map(_items_of, ratings)
    sums = allreduce(comm, comm.map(_sums_of, ratings))
    ends = allreduce(comm, comm.map(_ends_of, ratings), MAX)
    ratings, items, sums, ends = comm.settle(ratings, items, sums, ends)
    summary = summary_of(sums.result(), ends.result())
    unit = summary.unit(centred) if unit is None else unit
    if unit != 1:
        ratings = comm.map(in_unit, ratings, unit=unit)
        ratings = comm.settle(ratings)
    return ratings, items, summary, unit


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
    unit: float,
) -> tuple[PerRank, list[int]]:
    """The same from the parts of a state."""
    model = comm.map(resumed_model, ratings, parts, layout=layout, mean=mean, axis=axis, unit=unit)
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
    nonnegative: bool,
    n_ratings: float,
    unit: float | None,
) -> tuple[tuple[PerRank, dict[str, float]], Step]:
    """One epoch, and the memory of the learning rate after it; `unit` is None under BPR."""
    (ratings, schedule), (model, memory) = fixed, changing
    model, totals = run_epoch(
        comm, model, ratings, schedule, memory["rate"], regularization, nonnegative, number
    )
    finite = totals.finite and bool(np.isfinite(totals.loss))
    mean = totals.loss / (n_ratings or 1)
    if unit is None:
        measured = {"train_loss": mean}
    else:
        measured = {"train_rmse": unit * float(np.sqrt(mean)), "validation_rmse": float("nan")}
    measured["learning_rate"] = memory["rate"]
    step = Step(measured, finite=finite, counted={"staleness": totals.stale_rows})
    return (model, rate.advance(memory, number, totals.loss)), step


# -- steps on one rank ---


def _arranged(
    shard: Any, schedule: RankSchedule, weights: np.ndarray | None, **static: Any
) -> RankRatings:
    return arrange_ratings(shard, schedule, weights=weights, **static)


def _sums_of(ratings: RankRatings) -> np.ndarray:
    return rank_sums(ratings.values, ratings.weights)


def _ends_of(ratings: RankRatings) -> np.ndarray:
    return rank_ends(ratings.values)


def _items_of(ratings: RankRatings) -> np.ndarray:
    return ratings.items.copy()


def _bytes_held(model: Any, ratings: RankRatings) -> int:
    return model.nbytes + ratings.nbytes
