"""η-PASGD in plain mpi4py: Alg. 2 of the paper, with the steps of `models.matrix_factorization`.

for t in 0..η−1     SGD over cell (k, t); copies of shared rows to their owner, which averages
                    them; the means to the ranks that work on the rows next
at the end          one allreduce: squared error, stale rows, whether all is finite
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart.collectives.messages import RankMessages
from daskpart.models.matrix_factorization.pasgd import (
    RankModel,
    RankRatings,
    apply_ratings,
    average,
    compile_kernels,
    count_epoch,
    pack,
    place,
    start_epoch,
)
from daskpart.models.matrix_factorization.plan import MFPlan
from daskpart.models.matrix_factorization.rank_data import (
    arrange_ratings,
    final_rows,
    in_unit,
    starting_model,
)
from daskpart.models.matrix_factorization.scaling import rank_ends, rank_sums, summary_of

from .messages import Swap, allreduce, messages_of_ranks

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with."""

    model: RankModel
    ratings: RankRatings
    reduces: list[RankMessages]
    expands: list[RankMessages]
    n_ratings: int
    unit: float
    rate: float
    regularization: float


def pieces(plan: MFPlan, rate: float, regularization: float, scale: float) -> list[Piece]:
    """One a rank; users are split over ranks, rows have biases, and AdaGrad scales the rate."""
    shards, seed, layout = plan.shards.compute(), plan.random_state, plan.layout
    ratings = [
        arrange_ratings(shard, schedule, n_components=layout.n_components, random_state=seed)
        for shard, schedule in zip(shards, plan.rank_schedules, strict=True)
    ]
    sums = np.sum([rank_sums(own.values) for own in ratings], axis=0)
    summary = summary_of(sums, np.max([rank_ends(own.values) for own in ratings], axis=0))
    unit = summary.unit(centred=layout.biases)
    ratings = [in_unit(own, unit=unit) for own in ratings]
    start: dict[str, Any] = {"center": 0.0, "scale": scale, "random_state": seed}
    plans = [*plan.reduces, *plan.expands]
    messages = messages_of_ranks(plans, [own.items for own in ratings])
    return [
        Piece(
            starting_model(own, layout=layout, mean=summary.mean / unit, **start),
            own,
            halves[: plan.eta],
            halves[plan.eta :],
            summary.count,
            unit,
            rate,
            regularization,
        )
        for own, halves in zip(ratings, messages, strict=True)
    ]


def train(world: MPI.Comm, piece: Piece, n_epochs: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each epoch, and the ids and rows that this rank answers for."""
    model, ratings = piece.model, piece.ratings
    words = (model.layout.words,)
    reduces = [Swap(world, half, words, np.float32) for half in piece.reduces]
    expands = [Swap(world, half, words, np.float32) for half in piece.expands]
    compile_kernels(model, ratings)
    world.Barrier()
    seconds = []
    for _ in range(n_epochs):
        begin = perf_counter()
        start_epoch(model)
        for t, (to_owners, to_next) in enumerate(zip(reduces, expands, strict=True)):
            apply_ratings(
                model, ratings, sub_epoch=t, rate=piece.rate, regularization=piece.regularization
            )
            average(model, to_owners(lambda at: pack(model, at)), ratings, sub_epoch=t)
            place(model, to_next(lambda at: pack(model, at)))
        squared_error, _, infinite = allreduce(world, count_epoch(model))
        rmse = float(np.sqrt(squared_error / piece.n_ratings))
        seconds.append(perf_counter() - begin)
        if infinite or not np.isfinite(rmse):
            raise FloatingPointError("factors became NaN or infinite")
    part = final_rows(model, ratings, axis="rows", unit=piece.unit)
    users, items = ratings.users, ratings.items[ratings.home]
    return seconds, {
        "user_factors": (users, part["user_factors"]),
        "item_factors": (items, part["item_factors"]),
    }
