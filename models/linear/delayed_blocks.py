"""Delayed block proximal gradient on the parameter server: logistic regression with an L1 penalty.

    rank r, task t: block b = t mod n_blocks of the coordinates, those that its rows touch

        g ← gradient of its rows ── push ─▶ shard:  w ← shrink(w − g / D, λ / D)
        advance: at most τ tasks ahead of the slowest
        w  ◀───────── pull ── shard,  and its scores follow:  z ← z + X (w − w before)

A block is fetched and sent as soon as the rank is there, so nobody waits for the slowest unless it
is more than τ tasks behind. D bounds the curvature: ¼ Σ_i s_i |x_ij| Σ_k |x_ik|, k over the block,
so a step over a whole block never overshoots. Rows of the server hold D w, in which every
coordinate has the same step and the same threshold; the intercept's scale is 2^40 times as large,
so its threshold is nothing.

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

from daskpart.collectives import ServerEndpoint, UpdateRule, proximal_step

_UNPENALISED = 2.0**40


@dataclass(frozen=True)
class Penalty:
    """Of the mean loss: ``l1`` ‖w‖₁ + ½ ``l2`` ‖w‖²."""

    l1: float
    l2: float


@dataclass(eq=False)
class Block:
    """The coordinates of one block that a rank's rows touch.

    Attributes
    ----------
    ids : int64 ndarray of shape (n,)
        Rising.
    columns : csc_array of shape (n_rows, n)
    scale : float64 ndarray of shape (n,)
        What rows of the server are multiples of.
    share : float64 ndarray of shape (n,)
        One over the number of ranks that touch a coordinate; 0 where it is not penalised.
    weights, pushed : float64 ndarray of shape (n,)
        As pulled last, unscaled; and the part of the gradient that was pushed last.
    """

    ids: NDArray[np.int64]
    columns: scipy.sparse.csc_array
    scale: NDArray[np.float64]
    share: NDArray[np.float64]
    weights: NDArray[np.float64]
    pushed: NDArray[np.float64]


@dataclass(eq=False)
class RankSolver:
    """A rank's rows and how far it is; a program may change it.

    Attributes
    ----------
    blocks : list of Block
    target : float64 ndarray of shape (n_rows,)
        ±1.
    weight : float64 ndarray of shape (n_rows,)
        Of the mean loss over all samples.
    scores : float64 ndarray of shape (n_rows,)
    """

    blocks: list[Block]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of all that goes with them."""
        held = sum(
            each.columns.data.nbytes + each.columns.indices.nbytes + each.columns.indptr.nbytes
            + 40 * len(each.ids)
            for each in self.blocks
        )  # fmt: skip
        return held + 24 * len(self.target)

    def refresh(self) -> None:
        """Scores anew from the weights: what is added up block by block drifts by rounding."""
        self.scores = np.zeros(len(self.target))
        for block in self.blocks:
            self.scores += block.columns @ block.weights

    def gradient(self, block: Block, penalty: Penalty) -> NDArray[np.float64]:
        """Of the smooth part of the loss, by this rank's rows."""
        slopes = -self.weight * self.target * expit(-self.target * self.scores)
        return block.columns.T @ slopes + penalty.l2 * block.share * block.weights

    def move(self, block: Block, rows: NDArray[np.float64]) -> None:
        """Take new weights."""
        weights = rows / block.scale
        self.scores += block.columns @ (weights - block.weights)
        block.weights = weights

    def objective(self, penalty: Penalty) -> float:
        """This rank's part of the loss with the penalty."""
        loss = float(self.weight @ np.logaddexp(0, -self.target * self.scores))
        for block in self.blocks:
            size = penalty.l1 * np.abs(block.weights) + 0.5 * penalty.l2 * block.weights**2
            loss += float(block.share @ size)
        return loss


def blocks_of(columns: scipy.sparse.csr_array, n_blocks: int) -> NDArray[np.int32]:
    """The block of each coordinate: dealt out by popularity, so that all weigh alike."""
    counts = np.bincount(columns.indices, minlength=columns.shape[1])
    block = np.empty(len(counts), np.int32)
    block[np.argsort(-counts, kind="stable")] = np.arange(len(counts)) % n_blocks
    return block


def curvature(
    X: scipy.sparse.csr_array, weight: NDArray[np.float64], block: NDArray[np.int32], n_blocks: int
) -> NDArray[np.float64]:
    """D of the loss for each coordinate; see the top."""
    sizes = abs(X)
    in_block = np.zeros((len(block), n_blocks))
    in_block[np.arange(len(block)), block] = 1.0
    mass = 0.25 * weight[:, None] * (sizes @ in_block)
    return (sizes.T @ mass)[np.arange(len(block)), block]


def solvers_of(
    X: scipy.sparse.csr_array,
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    members: Sequence[NDArray[np.int64]],
    *,
    n_blocks: int,
    delay: float,
    intercept: bool,
    penalty: Penalty,
) -> tuple[list[RankSolver], NDArray[np.float64]]:
    """Each rank's solver, and the scale of every coordinate.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
    target, weight : float64 ndarray of shape (n_samples,)
        ±1; mean 1.
    members : sequence of int64 ndarray
        The rows of each rank.
    n_blocks : int
    delay : float
    intercept : bool
    penalty : Penalty

    Returns
    -------
    solvers : list of RankSolver
    scale : float64 ndarray of shape (n_features + 1,)
        The intercept's is the last.
    """
    n_samples, n_features = X.shape
    ones = scipy.sparse.csr_array(np.full((n_samples, 1), float(intercept)))
    whole: Any = scipy.sparse.csr_array(scipy.sparse.hstack([X, ones], "csr"), dtype=np.float64)
    whole.eliminate_zeros()
    share_of_row = weight / n_samples
    block = blocks_of(whole, n_blocks)
    touched = [np.unique(whole[own].indices) for own in members]
    ranks = np.zeros(n_features + 1)
    for ids in touched:
        ranks[ids] += 1
    bound = curvature(whole, share_of_row, block, n_blocks) + penalty.l2
    scale = bound * steps_at_once(ranks, delay, n_blocks)
    scale[-1] *= _UNPENALISED
    scale[scale == 0] = 1.0
    share = 1.0 / np.maximum(ranks, 1)
    share[-1] = 0.0
    solvers = []
    for own, ids in zip(members, touched, strict=True):
        rows = scipy.sparse.csc_array(whole[own])
        parts = [ids[block[ids] == number] for number in range(n_blocks)]
        blocks = [
            Block(part, rows[:, part], scale[part], share[part], *np.zeros((2, len(part))))
            for part in parts
        ]
        solvers.append(RankSolver(blocks, target[own], share_of_row[own], np.zeros(len(own))))
    return solvers, scale


def steps_at_once(
    ranks: NDArray[np.float64], delay: float, n_blocks: int
) -> NDArray[np.float64] | float:
    """By how much steps are shortened: for each rank that pushes, and each block under way.

    Half a step for each further block, as few blocks share much; measured on a9a, where ranks that
    run as far ahead as they may still converge with a quarter, and do not with none.
    """
    if delay == 0:
        return 1.0
    return np.maximum(ranks, 1) * (1.0 + 0.5 * min(delay, n_blocks - 1))


def update_rule(penalty: Penalty, delay: float) -> UpdateRule:
    """What a push does to rows of the server."""
    if delay == 0:
        return proximal_step(1.0, penalty.l1)
    step = partial(_step_along_sum, threshold=float(penalty.l1))
    return UpdateRule("proximal step along the sum of gradients", step, distinct=True, kinds="f")


def _step_along_sum(
    values: NDArray[Any], slots: NDArray[np.int32], rows: NDArray[Any], *, threshold: float
) -> None:
    values[slots, 1] += rows[:, 1]
    moved = values[slots, 0] - values[slots, 1]
    values[slots, 0] = np.copysign(np.maximum(np.abs(moved) - threshold, 0.0), moved)


# -- programs of the ranks ---


def begin(endpoint: ServerEndpoint, solver: RankSolver) -> int:
    """Take the weights of the server; gives the bytes held."""
    for block in solver.blocks:
        rows = endpoint.pull(block.ids)
        block.weights = (rows if endpoint.delay == 0 else rows[:, 0]) / block.scale
        block.pushed = np.zeros(len(block.ids))
    return solver.nbytes


def epoch(endpoint: ServerEndpoint, solver: RankSolver, *, penalty: Penalty) -> tuple[float, float]:
    """One pass over all blocks; gives this rank's part of the objective after it, and seconds."""
    begun = perf_counter()
    solver.refresh()
    for block in solver.blocks:
        _visit(endpoint, solver, block, penalty)
    return solver.objective(penalty), perf_counter() - begun


def _visit(endpoint: ServerEndpoint, solver: RankSolver, block: Block, penalty: Penalty) -> None:
    gradient = solver.gradient(block, penalty)
    scaled = gradient * np.where(block.share, 1.0, _UNPENALISED)
    if endpoint.delay == 0:
        endpoint.push(block.ids, scaled)
        endpoint.advance()
        solver.move(block, endpoint.pull(block.ids))
        return
    rows = np.zeros((len(block.ids), 2))
    rows[:, 1] = scaled - block.pushed
    block.pushed = scaled
    endpoint.push(block.ids, rows)
    endpoint.advance()
    solver.move(block, endpoint.pull(block.ids)[:, 0])
