"""Ratings that training does not see, on the ranks: who predicts which, and what travels for it.

    held-out rating (i, j)  ─► the rank that has row i of the split side
    after an epoch          home of row j ──► that rank, where it has no final copy     (expand)
                            Σ (r − r̂)² of each rank ──► every rank                      (allreduce)

Of ratings that are yes or no Σ −ln σ(± r̂) takes the place of the squares.

A row without a rating in training has no home, and nothing changes it: a rank that needs it has it
from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.distinct import distinct
from daskpart.collectives import Communicator, PerRank, Plan, PreparedPlan, expand
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.models.base.held_out import mean_loss
from daskpart.models.optimisation.log_loss import log_losses

from .kernels.scoring import predict_pairs
from .pasgd import RankModel, RankRatings, pack, place
from .problem import Validation
from .rank_data import Positions

if TYPE_CHECKING:
    from .plan import MFPlan


@dataclass(frozen=True, eq=False)
class HeldOutPlan:
    """What measuring held-out ratings takes.

    Attributes
    ----------
    nbytes : ndarray of int64, shape (n_ranks,)
        Of the ratings that each rank predicts.
    beside : sequence of ndarray of int32, one a rank
        Rows that it holds for that alone, rising.
    expand : Plan
        Of final rows, after an epoch.
    keeps_best : bool
        Whether each rank keeps the rows of the best epoch, too.
    """

    nbytes: NDArray[np.int64]
    beside: Sequence[NDArray[np.int32]]
    expand: Plan
    keeps_best: bool


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out ratings of one rank.

    Attributes
    ----------
    rows, columns : ndarray of int32, shape (n,)
        Ids of the split and of the shared side; once `placed`, positions in the rank's local order.
    values : ndarray of shape (n,)
        In the units of the ratings.
    """

    rows: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]


def with_held_out(plan: MFPlan, validation: Validation, keeps_best: bool = False) -> MFPlan:
    """A plan whose ranks also predict held-out ratings; trained is as before."""
    rows, columns, rank = _dealt(plan, validation)
    items, ranks = columns, rank
    if plan.axis == "nonzeros":  # rows of both sides are shared
        items, ranks = np.concatenate((rows, columns)), np.tile(rank, 2)
    key = items.astype(np.int64) * plan.n_ranks + ranks
    key = distinct(key, int(key.max(initial=-1)) + 1)
    items, ranks = np.divmod(key, plan.n_ranks)
    lacking = ~plan.schedule.holds(items, ranks)
    beside = cut_by_part(ranks[lacking], plan.n_ranks, items[lacking].astype(np.int32))
    held_out = HeldOutPlan(
        np.bincount(rank, minlength=plan.n_ranks) * (8 + validation.values.itemsize),
        [own for (own,) in beside],
        plan.schedule.final_rows_plan(items, ranks),
        keeps_best,
    )
    return replace(plan, held_out=held_out)


def held_out_of_ranks(plan: MFPlan, validation: Validation) -> list[HeldOut]:
    """The ratings that each rank predicts, in global ids."""
    rows, columns, rank = _dealt(plan, validation)
    return [
        HeldOut(*own) for own in cut_by_part(rank, plan.n_ranks, rows, columns, validation.values)
    ]


def _dealt(plan: MFPlan, validation: Validation) -> tuple[NDArray[Any], ...]:
    """Ids of both rows of each rating, as ranks count them, and the rank that predicts it."""
    assert plan.partition is not None
    rows, columns = validation.rows, validation.columns
    if plan.axis == "columns":
        rows, columns = columns, rows
    if plan.axis != "nonzeros":
        return rows, columns, plan.partition.assignment[rows]
    columns, home = columns + plan.shards.shape[0], plan.schedule.home
    return rows, columns, np.maximum(np.where(home[rows] >= 0, home[rows], home[columns]), 0)


def validated(
    comm: Communicator,
    model: PerRank,
    held_out: tuple[PerRank, PreparedPlan],
    ratings: PerRank,
    *,
    n_held_out: int,
    unit: float,
    ends: tuple[float, float] | None,
) -> tuple[PerRank, float]:
    """Bring the rows that predictions need, and measure; a text.

    Parameters
    ----------
    comm : Communicator
    model : per-rank value of RankModel
        Spent: use the one that is returned.
    held_out : (per-rank value of HeldOut, PreparedPlan)
    ratings : per-rank value of RankRatings
    n_held_out : int
        Of all ranks.
    unit : float
        That the model is in, see `scaling`.
    ends : (low, high) or None
        That predictions are clipped to.

    Returns
    -------
    model : per-rank value of RankModel
    loss : float
        The mean of `loss_of` over all of these ratings.
    """
    entries, to_ranks = held_out
    model = expand(comm, to_ranks, model, pack, place)
    sums = comm.map(loss_of, model, entries, ratings, unit=unit, ends=ends)
    model, sums = comm.settle(model, sums)
    return model, mean_loss(comm, sums, n_held_out)


# -- steps on one rank ---


def placed(held_out: HeldOut, ratings: RankRatings) -> HeldOut:
    """The same with local positions in the place of ids."""
    columns = Positions(ratings.items)
    rows = columns if ratings.first_item else Positions(ratings.users)
    return HeldOut(
        rows(held_out.rows).astype(np.int32),
        columns(held_out.columns).astype(np.int32),
        held_out.values,
    )


def loss_of(
    model: RankModel,
    held_out: HeldOut,
    ratings: RankRatings,
    *,
    unit: float,
    ends: tuple[float, float] | None,
) -> float:
    """Σ (r − r̂)² over a rank's held-out ratings; Σ −ln σ(± r̂) under the logistic loss."""
    side = "item" if ratings.first_item else "user"
    predicted = np.empty(held_out.values.size, np.float32)
    predict_pairs(
        held_out.rows, held_out.columns, getattr(model, side), model.item,
        getattr(model, f"{side}_bias"), model.item_bias, model.mean, predicted,
    )  # fmt: skip
    if ratings.logistic:
        return float(log_losses(held_out.values, predicted).sum())
    predicted *= np.float32(unit)
    if ends is not None:
        np.clip(predicted, *ends, out=predicted)
    errors = np.subtract(held_out.values, predicted, dtype=np.float64)
    return float(np.square(errors).sum())
