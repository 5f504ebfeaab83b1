"""SGD with sparse gradients in plain mpi4py: each rank adds up its range, and all gather the sums.

    entries of g_r cut into K ranges ─ Ialltoallv ─► own range, combined in rank order
    sums of all ranges               ◄─ Iallgatherv ─ …

The batches, the gradient of a batch and the step along the sum are the model's own functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.reduction import SUM
from daskpart.collectives.stream import Stream, combined
from daskpart.models.linear import sgd as steps
from daskpart.models.linear.sgd import Sgd
from daskpart.models.linear.state import LinearState
from daskpart.models.samples.rows import RankRows

from .messages import allreduce, wait

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with."""

    rows: RankRows
    state: LinearState
    sgd: Sgd


def pieces(model: Any, X: Any, y: Any) -> list[Piece]:
    """Rows of each rank as the model's plan has them, and zeros to begin with."""
    problem = model._problem(X, y, {}, 0)
    plan = model.plan(X, y, transport="local")
    state = model._first_state(problem, plan)
    every = problem.rows_of(plan.members)
    given = model._options(plan, problem)
    fit = steps.bounded_by([steps.squares_of(rows, fit=given) for rows in every], fit=given)
    return [Piece(rows, state, fit) for rows in every]


def train(world: MPI.Comm, piece: Piece, n_steps: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each epoch, and the weights."""
    rows, fit = piece.rows, piece.sgd
    ranks = [np.array([rank]) for rank in range(world.size)]
    part = piece.state.cut({"rank": ranks}, world.size)[world.rank]
    model = steps.first_model(part, rows, fit=fit)
    seconds, done = [], 0
    world.Barrier()
    for number in range(1, n_steps + 1):
        begin = perf_counter()
        rates = fit.rates(done + 1, number)
        model = steps.begin_epoch(model, number=number, fit=fit)
        for step in range(fit.n_steps):
            model = steps.forward(model, rows, step=step, fit=fit)
            total = added(world, steps.gradient_of(model))
            done += 1
            model = steps.move(
                model, total, rows, rate=float(rates[step]), step=step, number=done, fit=fit
            )
        model = steps.end_epoch(model, fit=fit)
        allreduce(world, steps.measures_of(model))
        seconds.append(perf_counter() - begin)
    return seconds, {"weights": (np.arange(len(model.weights)), model.weights)}


def added(world: MPI.Comm, own: Stream) -> Stream:
    """The sum of a sparse vector a rank, on every rank."""
    assert own.indices is not None
    bounds = np.array(own.cuts or own.size * np.arange(world.size + 1) // world.size)
    cuts = np.searchsorted(own.indices, bounds[1:-1].astype(own.indices.dtype))
    sent = np.diff(np.concatenate([[0], cuts, [len(own.indices)]]))
    arriving = np.empty_like(sent)
    wait([world.Ialltoall(sent, arriving)])
    indices, values = (
        _moved(world, own.indices, sent, arriving),
        _moved(world, own.values, sent, arriving),
    )
    lower, upper = (int(bounds[world.rank + k]) for k in (0, 1))
    ends = np.cumsum(arriving)
    parts = [
        own.replaced(values[end - n : end], indices[end - n : end], lower, upper)
        for n, end in zip(arriving, ends, strict=True)
    ]
    mine = combined(parts, SUM, 2.0)
    assert mine.indices is not None
    counts = np.empty(world.size, np.int64)
    wait([world.Iallgather(np.array([len(mine.values)]), counts)])
    indices, values = (_gathered(world, array, counts) for array in (mine.indices, mine.values))
    return own.replaced(values, indices, 0, own.size)


def _moved(
    world: MPI.Comm, array: NDArray[Any], sent: NDArray[Any], arriving: NDArray[Any]
) -> NDArray[Any]:
    room = np.empty(arriving.sum(), array.dtype)
    wait([world.Ialltoallv([np.array(array), sent], [room, arriving])])
    return room


def _gathered(world: MPI.Comm, array: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    room = np.empty(counts.sum(), array.dtype)
    wait([world.Iallgatherv(np.array(array), [room, counts])])
    return room
