"""The best n of each row of scores, ties in order of position, in tiles that stay in cache.

    rows 128 │  product of a tile ─► `take_tile` ─► a heap a row          memory: a tile,
             │     128 × 2,048, in cache                                  and n entries a row
             └──────────────────────────────── items ───►

Blocks of rows go to threads, as both the product and the kernel release the GIL. Scores are
⟨w, h⟩ + level, where −inf as a level keeps an item out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.cores import n_cores

from .kernels.top_n import LANES, in_order, take_tile

ROWS, ITEMS = 128, 2048  # of a tile: 1 MiB of scores
_THREAD_ROWS = 8 * ROWS  # of a task; below two of them threads gain nothing


def top_n(
    rows: np.ndarray,
    items: np.ndarray,
    n: int,
    level: np.ndarray | None = None,
    left_out: scipy.sparse.csr_array | None = None,
    n_threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the `n` items of largest ⟨row, item⟩ + level.

    Parameters
    ----------
    rows : float32 ndarray of shape (n_rows, F)
    items : float32 ndarray of shape (N, F)
    n : int
    level : float32 ndarray of shape (N,), optional
        Added to the scores of each item; −inf keeps it out.
    left_out : csr_array of shape (n_rows, N), optional
        Stored entries are kept out; its indices are sorted in place.
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
    if level is not None and not level.any():
        level = None  # adding it would be a tenth of the time
    found, scores = np.empty((n_rows, n), np.int32), np.empty((n_rows, n), np.float32)
    pointer, outside = np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32)
    if left_out is not None:
        left_out.sort_indices()
        pointer = left_out.indptr.astype(np.int64, copy=False)
        outside = left_out.indices.astype(np.int32, copy=False)

    def work(begin: int) -> None:
        end = min(begin + _THREAD_ROWS, n_rows)
        _rank_rows(
            rows[begin:end], items, level, outside, pointer[begin : end + 1], scores[begin:end],
            found[begin:end],
        )  # fmt: skip

    in_threads(work, range(0, n_rows, _THREAD_ROWS), n_threads)
    return found, scores


def in_threads(work: Callable[[int], Any], tasks: range, n_threads: int | None = None) -> None:
    """Do ``work(task)`` for each, some at a time, each with a single-threaded BLAS."""
    n_threads = min(n_threads or n_cores(), len(tasks))
    if n_threads <= 1:
        for task in tasks:
            work(task)
        return
    _some_at_once(work, tasks, n_threads)


@one_blas_thread
def _some_at_once(work: Callable[[int], Any], tasks: range, n_threads: int) -> None:
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, tasks))


def _rank_rows(
    rows: np.ndarray,
    items: np.ndarray,
    level: np.ndarray | None,
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
        for first in range(0, len(items), ITEMS):
            part = items[first : first + ITEMS]
            product = tile[: len(block)]
            np.matmul(block, part.T, out=product[:, : len(part)])
            product[:, len(part) :] = -np.inf
            if level is not None:
                product[:, : len(part)] += level[first : first + len(part)]
            chunks = product.reshape(len(block), -1, LANES)
            take_tile(chunks, first, len(part), left_out, own, at, best, best_items, filled)
        in_order(best, best_items, filled)


def directions(matrix: np.ndarray) -> np.ndarray:
    """Rows divided by their length, so that products are cosines; rows of zeros stay."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1), matrix.dtype)


def only_itself(positions: np.ndarray, n_columns: int) -> scipy.sparse.csr_array:
    """One entry a row, at its own position: what is not similar to itself."""
    pointer = np.arange(len(positions) + 1)
    entries = (np.ones(len(positions), np.bool_), positions, pointer)
    return scipy.sparse.csr_array(entries, shape=(len(positions), n_columns))
