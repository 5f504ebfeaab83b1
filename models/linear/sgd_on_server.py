"""SGD whose weights lie on a parameter server: the program of an epoch.

    rank r, task t: batch t of its samples, which touch the coordinates ids

    w(ids)  ◀── pull ── shards        g ← gradient of the batch, its share of all ranks
            ─── push ─▶ shards        v ← v − (η / a) g           advance: at most τ tasks ahead

A rank holds its samples and no weights: what it needs of them is what a batch touches. The penalty
shrinks all weights in every step, which nobody could send. So shards hold v with w = a v; a is
known from the rates alone. At the end of an epoch, and whenever a has become small, all ranks stop
and each shrinks the shard beside it.

τ = 0     all ranks compute at the same weights: the steps of data-parallel SGD over an allreduce,
          to rounding, and the same bits on every transport
τ > 0     a gradient is up to τ batches old; who is no further ahead of the slowest does not wait

J. Dean et al., "Large scale distributed deep networks", NIPS 2012 (downpour SGD). M. Li et al.,
"Communication efficient distributed machine learning with the parameter server", NIPS 2014 (bounded
delay).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import entries_of_rows
from daskpart.collectives import ServerEndpoint
from daskpart.collectives.stream import entries_stream
from daskpart.collectives.topk import Compressor, Feedback
from daskpart.models.base.state import Part
from daskpart.models.samples.rows import RankRows, Rows

from .kernels import GRADIENT, SMALLEST_SCALE, WEIGHT, accumulate
from .sgd import LossSteps


@dataclass(frozen=True, kw_only=True)
class ServerSgd(LossSteps):
    """What a fit is, equal on all ranks.

    Attributes
    ----------
    n_features : int
    compressor : TopK, ApproximateTopK or None
    delay : float
        τ in batches.
    """

    n_features: int
    compressor: Compressor | None
    delay: float

    def scales(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """a before each step of these rates, and after the last: each divides it by 1 + η λ."""
        return 1.0 / np.cumprod(np.append(1.0, 1.0 + rates * self.l2))

    def spans(self, rates: NDArray[np.float64]) -> list[tuple[int, int]]:
        """Steps of an epoch of these rates without a shrinking: after each, a is 1 again.

        Under a strong penalty a would become 0 within an epoch, and steps are divided by it.
        """
        spans, begin, scale = [], 0, 1.0
        for end, divisor in enumerate((1.0 + rates * self.l2).tolist(), 1):
            scale /= divisor
            if scale < SMALLEST_SCALE or end == len(rates):
                spans.append((begin, end))
                begin, scale = end, 1.0
        return spans


@dataclass(eq=False)
class RankSolver:
    """A rank's samples, and what it has not sent; a program may change it."""

    rows: Rows
    feedback: Feedback
    epoch: int = 0
    blocks: NDArray[np.int64] = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))
    order: NDArray[np.int64] = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))


def solver_of(rows: Rows, part: Part) -> RankSolver:
    """Of a rank's samples and its part of a state."""
    residual = np.array(part["residual"][0], np.float64)  # as gradients are pushed
    return RankSolver(rows, Feedback(residual, rows.rank, int(part["steps"])))


# -- programs of the ranks ---


def bytes_held(endpoint: ServerEndpoint, solver: RankSolver) -> int:
    """Of a rank: its samples, what it has not sent, and the shard beside it, twice (`Shard`)."""
    shard = 2 * endpoint.pull(endpoint.own_ids).nbytes
    return solver.rows.nbytes + solver.feedback.residual.nbytes + shard


@np.errstate(over="ignore", invalid="ignore")  # a fit that diverges is told at the end
def epoch(
    endpoint: ServerEndpoint, solver: RankSolver, *, number: int, rates: NDArray[Any],
    fit: ServerSgd, first: int = 0,
) -> tuple[float, float]:  # fmt: skip
    """Steps of an epoch from its `first` on; gives the sum of their losses, and seconds."""
    begun, total = perf_counter(), 0.0
    solver.epoch, solver.blocks = number, fit.blocks(number)
    scales = fit.scales(rates).tolist()
    for place, rate in enumerate(rates.tolist()):
        step = first + place
        own, batch = fit.batch(solver.rows, solver, step)
        if len(batch):  # a rank with fewer samples ends its epoch early, and goes on in step
            share = 1.0 / fit.count(step)
            total += _step(endpoint, solver, own, batch, rate, scales[place], share, fit)
        else:  # what is drawn goes by the steps of the fit, which a checkpoint has
            solver.feedback = replace(solver.feedback, step=solver.feedback.step + 1)
        endpoint.advance()
    return total, perf_counter() - begun


@np.errstate(over="ignore", invalid="ignore")  # a fit that diverges is told at the end
def shrink(endpoint: ServerEndpoint, *, scale: float) -> float:
    """Make v of the shard beside the rank what it stands for; gives Σ w², intercepts left out."""
    ids = endpoint.own_ids
    ids = ids[ids < endpoint.n_items - 1]
    rows = endpoint.pull(ids)
    if scale != 1.0:
        endpoint.push(ids, (scale - 1.0) * rows)
    return float(np.square(scale * rows).sum())


def part_of(endpoint: ServerEndpoint, solver: RankSolver) -> Part:
    """What a rank has not sent."""
    return {"residual": solver.feedback.residual[None].copy()}


def _step(
    endpoint: ServerEndpoint, solver: RankSolver, rows: RankRows, batch: NDArray[np.int64],
    rate: float, scale: float, share: float, fit: ServerSgd,
) -> float:  # fmt: skip
    """Pull, compute, push; gives the sum of losses."""
    pointer, entries = entries_of_rows(rows.pointer, batch)
    features, place = np.unique(rows.indices[entries], return_inverse=True)
    ids = np.append(features, fit.n_features)
    n_pulled = len(ids) if fit.intercept else len(features)
    table = np.zeros((len(ids) * fit.n_outputs, GRADIENT + 1))
    table[: n_pulled * fit.n_outputs, WEIGHT] = endpoint.pull(ids[:n_pulled]).ravel()
    table[: -fit.n_outputs, WEIGHT] *= scale
    _, loss = accumulate(
        pointer, place.astype(np.int32), rows.data[entries], rows.target[batch],
        rows.weight[batch], np.arange(len(batch)), share, fit.loss, fit.epsilon, 0.0, 0.0,
        fit.intercept, table, np.array([1.0, 0.0]), np.empty(fit.n_outputs),
        np.zeros(len(ids) // 64 + 1, np.uint64),
    )  # fmt: skip
    gradient = table[:, GRADIENT].reshape(-1, fit.n_outputs)
    moves = gradient.any(axis=1)
    ids, gradient = ids[moves], gradient[moves]
    if fit.compressor is not None:
        ids, gradient = _selected(solver, ids, gradient, fit)
    rates = np.where(ids < fit.n_features, rate / scale, rate)
    endpoint.push(ids, -rates[:, None] * gradient)
    return float(loss)


def _selected(
    solver: RankSolver, ids: NDArray[np.int64], gradient: NDArray[np.float64], fit: ServerSgd
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What TopK sends of a gradient, by coordinates again; the rest is kept."""
    n_outputs, residual = fit.n_outputs, solver.feedback.residual
    flat = (ids[:, None] * n_outputs + np.arange(n_outputs)).ravel()
    stream = entries_stream(flat, gradient.ravel(), len(residual))
    assert fit.compressor is not None
    sent, solver.feedback = fit.compressor.compress(stream, solver.feedback)
    assert sent.indices is not None  # entries, however many
    indices = sent.indices.astype(np.int64)
    ids, place = np.unique(indices // n_outputs, return_inverse=True)
    rows = np.zeros((len(ids), n_outputs))
    rows[place, indices % n_outputs] = sent.values
    return ids, rows
