"""Delayed block proximal gradient on the parameter server: logistic regression with an L1 penalty.

    rank r, task t: block b = t mod n_blocks of the coordinates, those that its rows touch

        g ← gradient of its rows ── push ─▶ shard:  w ← shrink(w − g / D, λ / D)
        advance: at most τ tasks ahead of the slowest
        w  ◀───────── pull ── shard,  and its scores follow:  z ← z + X (w − w before)

A block is fetched and sent as soon as the rank is there, so nobody waits for the slowest unless it
is more than τ tasks behind. D bounds the curvature: ¼ Σ_i s_i |x_ij| Σ_k |x_ik|, k over the block,
so a step over a whole block never overshoots. Rows of the server hold D w, in which every
coordinate has the same step and the same threshold; the intercept's scale is 2^40 times as large,
so its threshold is nothing. With several outputs a coordinate is a row of as many numbers; of one
softmax the bound is ½ in place of ¼.

τ = 0     pushes of a task are summed, and one step is made: its bits are those of one rank
τ > 0     each push is a step by itself. A part of the gradient alone would pull towards the optimum
          of that rank's rows, so ranks push how their part has changed, and the shard keeps the sum
          of all parts beside w: the step is along the whole gradient, some of it old.

M. Li, D. Andersen, A. Smola (Parsa), 2015, §6: the solver that placement makes faster. M. Li et
al., "Communication efficient distributed machine learning with the parameter server", NIPS 2014. A.
Aytekin, H. Feyzmahdavian, M. Johansson, "Analysis and implementation of an asynchronous
optimization algorithm for the parameter server", 2016: the sum of gradients, parts of it old.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from daskpart.collectives import (
    Communicator,
    PerRank,
    ServerEndpoint,
    UpdateRule,
    allreduce,
    proximal_step,
)
from daskpart.models.optimisation.log_loss import log_losses
from daskpart.models.samples.rows import Rows

from .columns import add_products, add_scores
from .coordinate_blocks import CoordinateBlocks, Piece, add_curvature, parts_of

_UNPENALISED = 2.0**40


@dataclass(frozen=True)
class DelayedBlocks:
    """What a fit is, equal on all ranks.

    Attributes
    ----------
    n_samples, n_features, n_outputs : int
    joint : bool
        Whether the outputs are one softmax.
    intercept : bool
    n_blocks : int
    delay : float
    l1, l2 : float
        Strengths of the penalty, of the mean loss.
    """

    n_samples: int
    n_features: int
    n_outputs: int
    joint: bool
    intercept: bool
    n_blocks: int
    delay: float
    l1: float
    l2: float


@dataclass(eq=False)
class Block:
    """The coordinates of one block that a rank's rows touch.

    Attributes
    ----------
    ids : int64 ndarray of shape (n,)
        Rising.
    pieces : iterable of Piece
        The entries of these coordinates, some rows after the other.
    scale : float64 ndarray of shape (n, 1)
        What rows of the server are multiples of.
    share : float64 ndarray of shape (n, 1)
        One over the number of ranks that touch a coordinate; 0 where it is not penalised.
    weights, pushed : float64 ndarray of shape (n, n_outputs)
        As pulled last, unscaled; and the part of the gradient that was pushed last.
    """

    ids: NDArray[np.int64]
    pieces: Iterable[Piece]
    scale: NDArray[np.float64]
    share: NDArray[np.float64]
    weights: NDArray[np.float64]
    pushed: NDArray[np.float64]


@dataclass(eq=False)
class RankSolver:
    """A rank's rows and how far it is; a program may change it.

    Attributes
    ----------
    fit : DelayedBlocks
    blocks : list of Block
    hot : bool ndarray of shape (n_rows, n_outputs)
        Whether a row is of an output's class.
    weight : float64 ndarray of shape (n_rows,)
        Of the mean loss over all samples.
    scores : float64 ndarray of shape (n_rows, n_outputs)
    piece_bytes : int
        Of the pieces that are in memory at a time.
    """

    fit: DelayedBlocks
    blocks: list[Block]
    hot: NDArray[np.bool_]
    weight: NDArray[np.float64]
    scores: NDArray[np.float64]
    piece_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of all that goes with them."""
        held = sum(24 * len(each.ids) + 2 * each.weights.nbytes for each in self.blocks)
        of_rows = self.hot.nbytes + self.weight.nbytes + self.scores.nbytes
        return self.piece_bytes + held + of_rows

    def refresh(self) -> None:
        """Scores anew from the weights: what is added up block by block drifts by rounding."""
        self.scores = np.zeros(self.hot.shape)
        for block in self.blocks:
            self._add(block, block.weights)

    def _add(self, block: Block, weights: NDArray[np.float64]) -> None:
        if weights.any():  # of an L1 penalty most blocks stand still at last: none is read
            for piece in block.pieces:
                add_scores(*piece.entries, weights, self.scores[piece.own])

    def gradient(self, block: Block) -> NDArray[np.float64]:
        """Of the smooth part of the loss, by this rank's rows."""
        products = np.zeros(block.weights.shape)
        for piece in block.pieces:
            add_products(*piece.entries, self._slopes(piece.own), products)
        return products + self.fit.l2 * block.share * block.weights

    def _slopes(self, rows: slice) -> NDArray[np.float64]:
        scores = self.scores[rows]
        chance = softmax(scores, axis=1) if self.fit.joint else expit(scores)
        return self.weight[rows, None] * (chance - self.hot[rows])

    def move(self, block: Block, rows: NDArray[np.float64]) -> None:
        """Take new weights."""
        weights = rows / block.scale
        self._add(block, weights - block.weights)
        block.weights = weights

    def objective(self) -> float:
        """This rank's part of the loss with the penalty."""
        if self.fit.joint:
            each = logsumexp(self.scores, axis=1) - self.scores[self.hot]
        else:
            each = log_losses(self.hot, self.scores).sum(axis=1)
        loss = float(self.weight @ each)
        for block in self.blocks:
            size = self.fit.l1 * np.abs(block.weights) + 0.5 * self.fit.l2 * block.weights**2
            loss += float((block.share * size).sum())
        return loss


# -- set up on the ranks; a text ---


def set_up(
    comm: Communicator, rows: PerRank, *, fit: DelayedBlocks
) -> tuple[PerRank, NDArray[np.float64], NDArray[np.bool_]]:
    """Each rank's solver, and of every coordinate its scale and whether it is visited; a text.

    Parameters
    ----------
    comm : Communicator
    rows : PerRank of RankRows or StoredRows
        Of rows on disk some are in memory at a time.
    fit : DelayedBlocks

    Returns
    -------
    solvers : PerRank of RankSolver
    scale : float64 ndarray of shape (n_features + 1,)
        The intercept's is the last.
    touched : bool ndarray like scale
        Whether rows of any rank have an entry.
    """
    entries = comm.map(entries_of, rows, fit=fit)
    counts = allreduce(comm, comm.map(counts_of, entries)).result()
    how = {"block": blocks_of(counts[0], fit.n_blocks), "fit": fit}
    bound = allreduce(comm, comm.map(curvature_of, rows, **how)).result()
    with np.errstate(over="ignore"):  # it is told
        scale = (bound + fit.l2) * steps_at_once(counts[1], fit.delay, fit.n_blocks)
        scale[-1] *= _UNPENALISED
    scale[scale == 0] = 1.0
    solvers = comm.map(solver_of, rows, entries, ranks=counts[1], scale=scale, **how)
    return solvers, scale, counts[1] > 0


def entries_of(rows: Rows, *, fit: DelayedBlocks) -> NDArray[np.int64]:
    """Of each coordinate how many entries a rank's rows store, repeated ones too."""
    found = np.zeros(fit.n_features + 1, np.int64)
    for _, matrix in parts_of(rows, fit.n_features, fit.intercept):
        found += np.bincount(matrix.indices, minlength=len(found))
    return found


def counts_of(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, and whether there are any; (2, n)."""
    return np.stack([entries, entries > 0])


def curvature_of(
    rows: Rows, *, block: NDArray[np.int32], fit: DelayedBlocks
) -> NDArray[np.float64]:
    """A rank's part of D, for each coordinate; see the top."""
    bound, mass = np.zeros(len(block)), np.zeros(fit.n_blocks)
    for part, matrix in parts_of(rows, fit.n_features, fit.intercept):
        share = (0.5 if fit.joint else 0.25) * part.weight / fit.n_samples
        arrays = matrix.indptr, matrix.indices, matrix.data
        add_curvature(*arrays, share, block, mass, bound)
    return bound


def solver_of(
    rows: Rows,
    entries: NDArray[np.int64],
    *,
    block: NDArray[np.int32],
    ranks: NDArray[np.int64],
    scale: NDArray[np.float64],
    fit: DelayedBlocks,
) -> RankSolver:
    """A rank's solver, with weights of 0."""
    share = 1.0 / np.maximum(ranks, 1)
    share[-1] = 0.0
    cut = CoordinateBlocks(rows, entries > 0, block, fit.n_blocks)
    classes = np.arange(fit.n_outputs)
    hots, weights = [], []
    for part, matrix in parts_of(rows, fit.n_features, fit.intercept):
        cut.add(matrix)
        hots.append(part.target > 0 if fit.n_outputs == 1 else part.target == classes)
        weights.append(part.weight / fit.n_samples)
    blocks = []
    for ids, pieces in zip(cut.ids, cut.pieces, strict=True):
        zeros = np.zeros((2, len(ids), fit.n_outputs))
        blocks.append(Block(ids, pieces, scale[ids, None], share[ids, None], *zeros))
    hot, weight = np.concatenate(hots), np.concatenate(weights)
    return RankSolver(fit, blocks, hot, weight, np.zeros(hot.shape), cut.nbytes)


def blocks_of(counts: NDArray[np.int64], n_blocks: int) -> NDArray[np.int32]:
    """The block of each coordinate: dealt out by popularity, so that all weigh alike."""
    block = np.empty(len(counts), np.int32)
    block[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % n_blocks
    return block


def steps_at_once(
    ranks: NDArray[np.int64], delay: float, n_blocks: int
) -> NDArray[np.float64] | float:
    """By how much steps are shortened: for each rank that pushes, and each block under way.

    Half a step for each further block, as few blocks share much; measured on a9a, where ranks that
    run as far ahead as they may still converge with a quarter, and do not with none.
    """
    if delay == 0:
        return 1.0
    return np.maximum(ranks, 1) * (1.0 + 0.5 * min(delay, n_blocks - 1))


def update_rule(l1: float, delay: float) -> UpdateRule:
    """What a push does to rows of the server."""
    if delay == 0:
        return proximal_step(1.0, l1)
    step = partial(_step_along_sum, threshold=l1)
    return UpdateRule("proximal step along the sum of gradients", step, distinct=True, kinds="f")


def _step_along_sum(
    values: NDArray[Any], slots: NDArray[np.int32], rows: NDArray[Any], *, threshold: float
) -> None:
    half = rows.shape[1] // 2
    values[slots, half:] += rows[:, half:]
    moved = values[slots, :half] - values[slots, half:]
    values[slots, :half] = np.copysign(np.maximum(np.abs(moved) - threshold, 0.0), moved)


# -- programs of the ranks ---


def begin(endpoint: ServerEndpoint, solver: RankSolver) -> int:
    """Take the weights of the server; gives the bytes held."""
    for block in solver.blocks:
        rows = endpoint.pull(block.ids)
        block.weights = rows[:, : block.weights.shape[1]] / block.scale
        block.pushed = np.zeros(block.weights.shape)
    return solver.nbytes


def epoch(endpoint: ServerEndpoint, solver: RankSolver) -> tuple[float, float]:
    """One pass over all blocks; gives this rank's part of the objective after it, and seconds."""
    begun = perf_counter()
    solver.refresh()
    for block in solver.blocks:
        _visit(endpoint, solver, block)
    return solver.objective(), perf_counter() - begun


def _visit(endpoint: ServerEndpoint, solver: RankSolver, block: Block) -> None:
    gradient = solver.gradient(block)
    scaled = gradient * np.where(block.share, 1.0, _UNPENALISED)
    if endpoint.delay == 0:
        endpoint.push(block.ids, scaled)
        endpoint.advance()
        solver.move(block, endpoint.pull(block.ids))
        return
    endpoint.push(block.ids, np.hstack([np.zeros(scaled.shape), scaled - block.pushed]))
    block.pushed = scaled
    endpoint.advance()
    solver.move(block, endpoint.pull(block.ids)[:, : scaled.shape[1]])
