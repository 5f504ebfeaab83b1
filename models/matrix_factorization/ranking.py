"""The best n of each row of scores, ties in order of position, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse

from .state import MFState

_BLOCK_WORDS = 1 << 24  # float32 words of one block of scores: 64 MB


def best(scores: np.ndarray, n: int) -> np.ndarray:
    """Positions of the `n` largest scores, falling; equal scores in rising position.

    −inf marks what must not appear, so fewer than `n` may come back.
    """
    n_wanted = min(n, int((scores > -np.inf).sum()))
    if not n_wanted:
        return np.zeros(0, np.int64)
    threshold = np.partition(scores, scores.size - n_wanted)[scores.size - n_wanted]
    above = np.flatnonzero(scores > threshold)
    level = np.flatnonzero(scores == threshold)[: n_wanted - above.size]
    chosen = np.concatenate([above, level])
    return chosen[np.lexsort((chosen, -scores[chosen]))]


def rank_items(
    rows: np.ndarray,
    row_bias: np.ndarray,
    factors: MFState,
    n: int,
    seen: scipy.sparse.csr_array | None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each row of factors: positions of the best `n` items it has not seen, and their scores.

    Parameters
    ----------
    rows : float32 ndarray of shape (n_rows, F)
    row_bias : float32 ndarray of shape (n_rows,)
    factors : MFState
    n : int
    seen : csr_array of shape (n_rows, N) or None
        Stored entries are left out.

    Yields
    ------
    positions : int64 ndarray of at most n
    scores : float32 ndarray of the same length, falling
    """
    block = max(1, _BLOCK_WORDS // factors.n_items)
    item_level = factors.item_bias + np.float32(factors.global_mean)
    for begin in range(0, len(rows), block):
        scores = rows[begin : begin + block] @ factors.item_factors.T
        scores += item_level
        scores += row_bias[begin : begin + block, None]
        for offset, line in enumerate(scores):
            row = begin + offset
            if seen is not None:
                line[seen.indices[seen.indptr[row] : seen.indptr[row + 1]]] = -np.inf
            chosen = best(line, n)
            yield chosen, line[chosen]


def similar_rows(
    matrix: np.ndarray, positions: np.ndarray, n: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each position: the `n` other rows of largest cosine with it (0 for a zero row)."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    directions = matrix / np.where(lengths > 0, lengths, 1)
    block = max(1, _BLOCK_WORDS // len(matrix))
    for begin in range(0, len(positions), block):
        chosen_rows = positions[begin : begin + block]
        for position, line in zip(chosen_rows, directions[chosen_rows] @ directions.T, strict=True):
            line[position] = -np.inf
            chosen = best(line, n)
            yield chosen, line[chosen]
