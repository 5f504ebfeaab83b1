"""The best n of each row of scores, ties in order of position, in tiles that stay in cache.

               longest items first                           shortest
    rows 512 │ product of a tile ─► `take_tile` ─► a heap a row  ┊  never multiplied: none
             │    512 × 512, in cache                            ┊  of these can come in
             └──────────────────────────────── items ───►

⟨w, h⟩ ≤ ‖w‖ ‖h‖, so that with items in order of falling length a block of rows is done at the first
tile whose ‖h‖ could bring none of its rows a score above the least of their best (the bound of
Teflioudi, Gemulla, Mykytiuk, "LEMP: Fast Retrieval of Large Entries in a Matrix Product", SIGMOD
2015). Few rows take the items as they lie: sorting would cost more than it saves.

Blocks of rows go to threads, as both the product and the kernel release the GIL. Scores are
⟨w, h⟩ + level, where −inf as a level keeps an item out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.cores import n_cores

from .kernels.top_n import LANES, in_order, take_tile

ROWS, ITEMS = 512, 512  # of a tile: 1 MiB of scores
_THREAD_ROWS = 2 * ROWS  # of a task; below two of them threads gain nothing
_SLACK = 1e-3  # of a bound: above what float32 products of 10⁴ components can be off by


@dataclass(frozen=True)
class Catalogue:
    """Items to rank, and what each has at most to offer.

    Attributes
    ----------
    rows : float32 ndarray of shape (N, F)
    level : float32 ndarray of shape (N,), or None
        Added to the scores of each item; −inf keeps it out.
    positions : int32 ndarray of shape (N,)
        Where each stood in what was given.
    lengths : float64 ndarray of shape (N,), or None
        ‖h‖, falling; None: the items lie as they were given.
    levels : float64 ndarray of shape (N,)
        At least the largest level of an item and those behind it.
    """

    rows: np.ndarray
    level: np.ndarray | None
    positions: np.ndarray
    lengths: np.ndarray | None
    levels: np.ndarray

    @classmethod
    def of(cls, items: np.ndarray, level: np.ndarray | None, n_rows: int) -> Catalogue:
        """Items and levels in the order that suits so many rows."""
        if level is not None and not level.any():
            level = None  # adding it would be a tenth of the time
        order, lengths = np.arange(len(items), dtype=np.int32), None
        if n_rows > ROWS:
            lengths = np.sqrt(np.einsum("ij,ij->i", items, items, dtype=np.float64))
            order = np.argsort(-lengths, kind="stable").astype(np.int32)
            items, lengths = items[order], lengths[order]
            level = level if level is None else level[order]
        levels = np.zeros(len(items)) if level is None else level.astype(np.float64)
        levels *= np.where(levels > 0, 1 + _SLACK, 1 - _SLACK)
        return cls(items, level, order, lengths, np.maximum.accumulate(levels[::-1])[::-1])

    def __len__(self) -> int:
        return len(self.rows)

    def places(self, pattern: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """A pattern over what was given as one over the items as they lie, sorted."""
        indices = pattern.indices
        if self.lengths is not None:
            places = np.empty_like(self.positions)
            places[self.positions] = np.arange(len(self), dtype=np.int32)
            indices = places[indices]
        found = scipy.sparse.csr_array((pattern.data, indices, pattern.indptr), pattern.shape)
        found.sort_indices()
        return found

    def reach(self, lengths: np.ndarray, first: int) -> np.ndarray:
        """What rows of these lengths could score at most with the items from `first` on."""
        if self.lengths is None:
            return np.full(lengths.size, np.inf)
        return lengths * (self.lengths[first] * (1 + _SLACK)) + self.levels[first]


def top_n(
    rows: np.ndarray,
    items: Catalogue,
    n: int,
    left_out: scipy.sparse.csr_array | None = None,
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the `n` items of largest ⟨row, item⟩ + level.

    Parameters
    ----------
    rows : float32 ndarray of shape (n_rows, F)
    items : Catalogue
        N items, with their levels.
    n : int
    left_out : csr_array of shape (n_rows, N), optional
        Stored entries are kept out.
    n_threads : int, optional
        Default: as many as this process has cores.

    Returns
    -------
    found : int32 ndarray of shape (n_rows, n)
        Best first, equal scores in rising position; −1 where fewer are left.
    scores : float32 ndarray of the same shape
        −inf where fewer are left.
    """
    n_rows, n = len(rows), min(n, len(items))
    found, scores = np.empty((n_rows, n), np.int32), np.empty((n_rows, n), np.float32)
    pointer, outside = np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32)
    if left_out is not None:
        left_out = items.places(left_out)
        pointer = left_out.indptr.astype(np.int64, copy=False)
        outside = left_out.indices.astype(np.int32, copy=False)

    def work(begin: int) -> None:
        end = min(begin + _THREAD_ROWS, n_rows)
        own = pointer[begin : end + 1]
        _rank_rows(rows[begin:end], items, outside, own, scores[begin:end], found[begin:end])

    in_threads(work, range(0, n_rows, _THREAD_ROWS), n_threads)
    return found, scores


@one_blas_thread  # with one thread of work too: tasks of Dask may run beside each other
def in_threads(work: Callable[[int], Any], tasks: range, n_threads: int | None = None) -> None:
    """Do ``work(task)`` for each, some at a time, each with a single-threaded BLAS."""
    n_threads = min(n_threads or n_cores(), len(tasks))
    if n_threads <= 1:
        for task in tasks:
            work(task)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, tasks))


def _rank_rows(
    rows: np.ndarray,
    items: Catalogue,
    left_out: np.ndarray,
    pointer: np.ndarray,
    scores: np.ndarray,
    found: np.ndarray,
) -> None:
    width = -(-min(ITEMS, len(items)) // LANES) * LANES
    tile = np.empty((min(ROWS, len(rows)), width), np.float32)
    for begin in range(0, len(rows), ROWS):
        block = rows[begin : begin + ROWS]
        own = pointer[begin : begin + len(block) + 1]
        at, filled = own[:-1].copy(), np.zeros(len(block), np.int64)
        best, best_items = scores[begin : begin + ROWS], found[begin : begin + ROWS]
        lengths = np.linalg.norm(block.astype(np.float64), axis=1)
        for first in range(0, len(items), ITEMS):
            full = filled.min() == best.shape[1]
            if full and (items.reach(lengths, first) < best[:, 0]).all():
                break
            product = tile[: len(block)]
            _multiply(block, items, first, product)
            n_items, chunks = min(ITEMS, len(items) - first), product.reshape(len(block), -1, LANES)
            take_tile(
                chunks, items.positions, first, n_items, left_out, own, at, best, best_items, filled
            )
        in_order(best, best_items, filled)


def _multiply(block: np.ndarray, items: Catalogue, first: int, product: np.ndarray) -> None:
    """The scores of the items from `first` on, −inf behind the last."""
    part = items.rows[first : first + ITEMS]
    np.matmul(block, part.T, out=product[:, : len(part)])
    if items.level is not None:
        product[:, : len(part)] += items.level[first : first + len(part)]
    product[:, len(part) :] = -np.inf


def without_order(rows: np.ndarray, level: np.ndarray | None) -> np.ndarray:
    """Which rows give all items the same score: those of zeros, where the levels are alike."""
    if level is not None:
        allowed = level[level > -np.inf]
        if allowed.size and allowed.min() < allowed.max():
            return np.zeros(len(rows), bool)
    return np.asarray(~rows.any(axis=1))


def directions(matrix: np.ndarray) -> np.ndarray:
    """Rows divided by their length, so that products are cosines; rows of zeros stay."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1), matrix.dtype)


def only_itself(positions: np.ndarray, n_columns: int) -> scipy.sparse.csr_array:
    """One entry a row, at its own position: what is not similar to itself."""
    pointer = np.arange(len(positions) + 1)
    entries = (np.ones(len(positions), np.bool_), positions, pointer)
    return scipy.sparse.csr_array(entries, shape=(len(positions), n_columns))
