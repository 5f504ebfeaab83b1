"""A factorization on ranks: ratings laid out, first factors, epochs, and the state gathered.

    shards, schedules ─► lay_out ─► ratings in their order ─┐
    state (or nothing) ─► first factors, or its own ────────┴─► model ─► epoch, epoch … ─► rows

What an epoch is stands in `pasgd`, how it is validated in `held_out`; here is what the base asks of
every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskpart.collectives import MAX, Communicator, PerRank, PreparedPlan, allreduce, barrier
from daskpart.models.base.early_stopping import Seen, Watch, seen_before
from daskpart.models.base.held_out import LABEL as VALIDATION
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.text import Step, Text
from daskpart.models.optimisation.learning_rates import LearningRate

from .held_out import held_out_of_ranks, loss_of, placed, validated
from .negatives import Pairs
from .pasgd import LABELS, PreparedSchedule, RankRatings, compile_kernels, run_epoch
from .plan import MFPlan
from .problem import Validation, check_counts
from .rank_data import (
    arrange_ratings,
    final_rows,
    in_unit,
    odd_answers,
    resumed_model,
    starting_model,
    with_answers,
)
from .scaling import Summary, rank_ends, rank_sums, refuse_rounded_off, summary_of
from .state import MFState
from .yes_or_no import log_odds, refuse_odd

# what epochs read: ratings, messages, and what is held out with the messages for that
Fixed = tuple[PerRank, PreparedSchedule, tuple[PerRank, PreparedPlan] | None]
# what they change: the model, the rows of the best epoch (if somebody watches), memory of the rate
Changing = tuple[PerRank, PerRank | None, dict[str, float], Seen]


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
    loss : {"squared", "logistic", "bpr"}
    nonnegative : bool
    weights : list of ndarray, one a rank, or None
        Of the ratings of each shard.
    seen_before : list of (users, items), one a rank, or None
        What users had in an earlier fit, so that BPR draws none of it.
    validation : Validation or None
        What `held_out` of the plan is made for.
    clip : bool or (low, high)
        The range of those predictions; True: that of the ratings.
    watch : Watch or None
        What says which epoch is the best: each rank keeps the rows that it answers for.
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
        seen_before: list[Pairs] | None = None,
        validation: Validation | None = None,
        clip: Any = False,
        watch: Watch | None = None,
    ) -> None:
        self.session, self._plan, self._rate = comm, plan, learning_rate
        self._clip, self._watch, self.watches = clip, watch, watch is not None
        self._init_scale, self._loss, self._nonnegative = init_scale, loss, nonnegative
        # the shards are let go of as soon as the ratings stand in their order
        shards = comm.values(plan.shards if plan.shards.is_lazy else list(plan.shards.compute()))
        self._ratings, numbering, self._summary, self._unit = comm.run(
            lay_out,
            shards,
            comm.values(plan.rank_schedules),
            comm.values([None] * plan.n_ranks if weights is None else weights),
            comm.values([None] * plan.n_ranks if seen_before is None else seen_before),
            n_components=plan.layout.n_components,
            random_state=plan.random_state,
            centred=plan.layout.biases,
            unit=unit if loss == "squared" else 1.0,
            loss=loss,
            axis=plan.axis,
            first_item=plan.shards.shape[0] if plan.axis == "nonzeros" else 0,
        )
        del shards
        plans = [*plan.reduces, *plan.expands]
        labels = [LABELS[0]] * plan.eta + [LABELS[1]] * plan.eta
        if plan.held_out is not None:
            plans, labels = [*plans, plan.held_out.expand], [*labels, VALIDATION]
        prepared = comm.prepare_all(plans, numbering, labels)
        used = [
            entry if plan.total_rows else None for plan, entry in zip(plans, prepared, strict=True)
        ]
        schedule = tuple(zip(used[: plan.eta], used[plan.eta : 2 * plan.eta], strict=True))
        held_out: tuple[PerRank, PreparedPlan] | None = None
        n_held_out = 0
        if plan.held_out is not None and validation is not None:
            of_ranks = comm.values(held_out_of_ranks(plan, validation))
            held_out = (comm.map(placed, of_ranks, self._ratings), prepared[-1])
            n_held_out = validation.values.size
        self.fixed: Fixed = (self._ratings, schedule, held_out)
        self.step = epoch
        self.static = {
            "rate": learning_rate,
            "regularization": regularization,
            "nonnegative": nonnegative,
            "n_ratings": self._summary.count,
            "n_held_out": n_held_out,
            "loss": loss,
            "axis": plan.axis,
            "unit": self._unit,
            "watch": watch,
        }

    def begin_from(self, state: MFState) -> None:  # type: ignore[override]
        """Draw the first factors, or hand out those of a state."""
        layout, comm, plan = self._plan.layout, self.session, self._plan
        watched = self._watch is not None
        best = None
        if watched and state.best:
            best = comm.values(state.at_best().cut(plan.rows_answered, plan.n_ranks))
        in_state = {"axis": plan.axis, "unit": self._unit}
        if state.epoch:
            self._mean, self._rating_mean = state.global_mean, state.rating_mean
            parts = comm.values(state.cut(plan.rows_held, plan.n_ranks))
            mean = self._mean / self._unit
            model = comm.map(
                resumed_model, self._ratings, parts, layout=layout, mean=mean, **in_state
            )
        else:
            overall = self._first_score()
            self._mean, self._rating_mean = overall if layout.biases else 0.0, overall
            # without biases the products themselves must reach the ratings: begin at their mean
            lift = 0.0 if layout.biases else max(overall / self._unit, 0.0)
            model = comm.map(
                starting_model,
                self._ratings,
                layout=layout,
                mean=self._mean / self._unit,
                center=float(np.sqrt(lift / layout.n_components)),
                scale=self._init_scale,
                random_state=plan.random_state,
                nonnegative=self._nonnegative,
            )
        model, best, self.memory = comm.run(
            ready, self.fixed, model, best, watched=watched, **in_state
        )
        memory = dict(state.learning_rate_state) or self._rate.start()
        self.changing: Changing = (model, best, memory, seen_before(self._watch, state))
        self._range = (
            min(self._summary.lowest, state.lowest),
            max(self._summary.highest, state.highest),
        )
        self.static["ends"] = self._range if self._clip is True else self._clip or None

    def _first_score(self) -> float:
        """What is predicted of everything as long as nothing is learnt."""
        if self._loss == "bpr":  # in the middle of a difference, whatever the events count
            return 0.0
        mean = self._summary.mean
        return log_odds(mean) if self._loss == "logistic" else mean

    def gather(self, state: MFState) -> MFState:  # type: ignore[override]
        """The factors as they are on the ranks, and those of the best epoch."""
        comm, answered = self.session, self._plan.rows_answered
        model, best, memory, seen = self.changing
        parts = comm.gather(
            comm.map(final_rows, model, self._ratings, axis=self._plan.axis, unit=self._unit)
        )
        new = state.assembled(
            parts,
            answered,
            global_mean=self._mean,
            rating_mean=self._rating_mean,
            unit=self._unit,
            lowest=self._range[0],
            highest=self._range[1],
            learning_rate_state=dict(memory),
        )
        return new.with_best(seen.step, lambda: new.assembled(comm.gather(best), answered).answers)

    def advice(self, step: Step) -> str:
        """What to do when factors diverged."""
        told = f"factors became NaN or infinite at learning rate {step.measured['learning_rate']:g}"
        if step.number == 1 and self._init_scale > 1:  # beyond what ratings differ by
            return f"{told}, from init_scale={self._init_scale:g}. Lower that, or the rate."
        return f"{told}. Lower initial_learning_rate."


# -- texts ---


def lay_out(
    comm: Communicator,
    shards: PerRank,
    schedules: PerRank,
    weights: PerRank,
    seen_before: PerRank,
    *,
    n_components: int,
    random_state: int,
    centred: bool,
    unit: float | None,
    loss: str,
    axis: str,
    first_item: int,
) -> tuple[PerRank, PerRank, Summary, float]:
    """Ratings in the order of SGD and in their unit, the items of each rank, all in numbers."""
    ratings = comm.map(
        arrange_ratings, shards, schedules, weights, seen_before, n_components=n_components,
        random_state=random_state, first_item=first_item, triples=loss == "bpr",
    )  # fmt: skip
    if loss == "logistic":
        odd = comm.fold(comm.map(odd_answers, ratings, axis=axis), list)
        ratings = comm.settle(comm.map(with_answers, ratings))
        refuse_odd(odd.result())
    items = comm.map(_items_of, ratings)
    sums = allreduce(comm, comm.map(_sums_of, ratings))
    ends = allreduce(comm, comm.map(_ends_of, ratings, shards), MAX)
    ratings, items, sums, ends = comm.settle(ratings, items, sums, ends)
    lowest, highest, largest = ends.result()
    summary = summary_of(sums.result(), np.array([lowest, highest]))
    if loss == "bpr":
        check_counts(summary.lowest)
    else:
        refuse_rounded_off(largest)
    unit = summary.unit(centred) if unit is None else unit
    if unit != 1:
        ratings = comm.map(in_unit, ratings, unit=unit)
        ratings = comm.settle(ratings)
    return ratings, items, summary, unit


def ready(
    comm: Communicator,
    fixed: Fixed,
    model: PerRank,
    best: PerRank | None,
    *,
    watched: bool,
    axis: str,
    unit: float,
) -> tuple[PerRank, PerRank | None, list[int]]:
    """A model with its kernels compiled, the rows of the best epoch, and the bytes of each rank."""
    ratings, _, held_out = fixed
    model, _ = comm.settle(model, comm.map(compile_kernels, model, ratings))
    held = [model, ratings]
    if held_out is not None:
        comm.settle(comm.map(loss_of, model, held_out[0], ratings, unit=1.0, ends=None))
        held.append(held_out[0])
    if watched:
        if best is None:
            best = comm.settle(comm.map(final_rows, model, ratings, axis=axis, unit=unit))
        held.append(best)
    memory = comm.fold(comm.map(bytes_of, *held), list)
    barrier(comm)  # so that the first epoch does not count who was longer at its set-up
    return model, best, memory.result()


def epoch(
    comm: Communicator,
    fixed: Fixed,
    changing: Changing,
    *,
    number: int,
    rate: LearningRate,
    regularization: float,
    nonnegative: bool,
    n_ratings: float,
    n_held_out: int,
    loss: str,
    axis: str,
    unit: float,
    ends: tuple[float, float] | None,
    watch: Watch | None,
) -> tuple[Changing, Step]:
    """One epoch, and the memory of the learning rate after it; then what is held out."""
    (ratings, schedule, held_out), (model, best, memory, seen) = fixed, changing
    model, totals = run_epoch(
        comm, model, ratings, schedule, memory["rate"], regularization, nonnegative, number
    )
    finite = totals.finite and bool(np.isfinite(totals.loss))
    mean = totals.loss / (n_ratings or 1)
    held_out_mean = float("nan")
    if held_out is not None and finite:
        model, held_out_mean = validated(
            comm, model, held_out, ratings, n_held_out=n_held_out, unit=unit, ends=ends
        )
    if loss == "squared":
        measured = {
            "train_rmse": unit * float(np.sqrt(mean)),
            "validation_rmse": float(np.sqrt(held_out_mean)),
        }
    else:
        measured = {"train_loss": mean}
        if loss == "logistic":  # by BPR it is a ranking that is measured, elsewhere
            measured["validation_loss"] = held_out_mean
    measured["learning_rate"] = memory["rate"]
    if watch is not None:
        seen = watch.after(seen, number, measured)
        if seen.step == number:
            best = comm.settle(comm.map(final_rows, model, ratings, axis=axis, unit=unit))
    step = Step(
        measured,
        finite=finite,
        enough=watch is not None and watch.ran_out(seen),
        counted={"staleness": totals.stale_rows},
    )
    return (model, best, rate.advance(memory, number, totals.loss), seen), step


# -- steps on one rank ---


def _sums_of(ratings: RankRatings) -> np.ndarray:
    return rank_sums(ratings.values, ratings.weights)


def _ends_of(ratings: RankRatings, shard: Any) -> np.ndarray:
    """Both ends of the ratings, and the larger one in size before they were float32."""
    return np.append(rank_ends(ratings.values), rank_ends(shard.values).max())


def _items_of(ratings: RankRatings) -> np.ndarray:
    return ratings.items.copy()
