"""Kernels that rank: the best n of scores that come tile by tile, and where wanted items stand.

scores of 512 rows × 512 items, just multiplied, still in cache
  64 at a time: is one as good as the least of the row's best n?      nearly always no: go on
  yes: it takes that one's place in the row's heap, unless it comes behind in order
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel

LANES = 64
_LOWEST = np.finfo(np.float32).min  # every score but −inf and NaN is as good


@kernel(internal=True, _nrt=False)
def _comes_before(score, item, other_score, other_item):
    return score > other_score or (score == other_score and item < other_item)


@kernel(internal=True, _nrt=False)
def _sift_down(scores, items, begin, root, size):
    """Restore the heap of `size` entries from `begin` whose top is the last in order."""
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        a = begin + child
        if child + 1 < size and _comes_before(scores[a], items[a], scores[a + 1], items[a + 1]):
            a += 1
            child += 1
        b = begin + root
        if _comes_before(scores[a], items[a], scores[b], items[b]):
            return
        scores[a], scores[b] = scores[b], scores[a]
        items[a], items[b] = items[b], items[a]
        root = child


@kernel(internal=True, _nrt=False)
def _add(scores, items, begin, size, score, item):
    """Put one more into the heap of `size` entries from `begin`."""
    place = size
    scores[begin + place], items[begin + place] = score, item
    while place > 0:
        a, b = begin + place, begin + (place - 1) // 2
        if _comes_before(scores[a], items[a], scores[b], items[b]):
            return
        scores[a], scores[b] = scores[b], scores[a]
        items[a], items[b] = items[b], items[a]
        place = (place - 1) // 2


@kernel
def take_tile(tile, positions, first, n_items, left_out, pointer, at, best, found, filled):
    """Put what is among the best of each row into its heap.

    Parameters
    ----------
    tile : float32 ndarray of shape (n_rows, chunks, LANES)
        Scores of some rows and of `n_items` items from `first` on, behind them −inf; what is left
        out becomes −inf.
    positions : int32 ndarray of shape (N,)
        By which items are known, and equal scores ordered.
    left_out : int32 ndarray
        Items that a row does not want, rising; those of row r are
        ``left_out[pointer[r]:pointer[r + 1]]``, and ``at[r]`` is the first not passed yet.
    best : float32 ndarray of shape (rows, n), found : int32 ndarray of the same shape
        A heap a row of `filled[r]` entries, the last in order on top.
    """
    n = best.shape[1]
    scores, items = best.reshape(-1), found.reshape(-1)
    for row in range(tile.shape[0]):
        here, end = at[row], pointer[row + 1]
        while here < end and left_out[here] < first + n_items:
            j = left_out[here] - first
            tile[row, j // LANES, j % LANES] = -np.inf
            here += 1
        at[row] = here
        begin, size = row * n, filled[row]
        least = scores[begin] if size == n else _LOWEST
        for chunk in range(tile.shape[1]):
            as_good = False
            for lane in range(tile.shape[2]):  # a loop over vectors
                as_good |= tile[row, chunk, lane] >= least
            if not as_good:
                continue
            for lane in range(tile.shape[2]):
                score = tile[row, chunk, lane]
                if not score >= least:
                    continue
                item = positions[first + chunk * LANES + lane]
                if size < n:
                    _add(scores, items, begin, size, score, item)
                    size += 1
                elif _comes_before(score, item, scores[begin], items[begin]):
                    scores[begin], items[begin] = score, item
                    _sift_down(scores, items, begin, 0, n)
                if size == n:
                    least = scores[begin]
        filled[row] = size


@kernel
def in_order(best, found, filled):
    """Sort each heap, best first; what is not filled becomes −inf and −1."""
    n = best.shape[1]
    scores, items = best.reshape(-1), found.reshape(-1)
    for row in range(best.shape[0]):
        begin = row * n
        for size in range(filled[row] - 1, 0, -1):
            last = begin + size
            scores[begin], scores[last] = scores[last], scores[begin]
            items[begin], items[last] = items[last], items[begin]
            _sift_down(scores, items, begin, 0, size)
        for place in range(begin + filled[row], begin + n):
            scores[place], items[place] = -np.inf, -1


@kernel(internal=True, _nrt=False)
def _n_before(rising, score, with_equal):
    """How many of rising scores are lower than this one, or as high."""
    low, high = 0, rising.size
    while low < high:
        middle = (low + high) // 2
        if rising[middle] < score or (with_equal and rising[middle] == score):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def ranks_of_wanted(scores, rising, at, wanted, pointer, ranks, ties_below, n_ranked):
    """Where the wanted items of each row stand among all whose score is not −inf.

    A pass over the row for each wanted item: a processor compares many scores at once, while to
    search each score among those wanted is a branch that it guesses wrong half of the time. Of a
    row that wants many the scores are there in order, too, so that each wanted item is searched.

    Parameters
    ----------
    scores : float32 ndarray of shape (rows, n_items)
    rising : float32 ndarray of shape (sorted rows, n_items)
        Scores of some rows, sorted.
    at : int64 ndarray of shape (rows,)
        Which of these belongs to a row; −1: none.
    wanted : int32 ndarray
        Items that row r wants: ``wanted[pointer[r]:pointer[r + 1]]``, each once.
    ranks : int64 ndarray of the shape of `wanted`
        For each, how many items come before it, equal scores in rising position; rising in each
        row; −1 for an item that was left out, and those come first.
    ties_below : float64 ndarray of shape (rows,)
        Of all pairs (wanted, not wanted), the number in the right order, ties for a half.
    n_ranked : int64 ndarray of shape (rows,)
        Items whose score is not −inf.
    """
    n_items = scores.shape[1]
    for row in range(scores.shape[0]):
        line, begin, end = scores[row], pointer[row], pointer[row + 1]
        n_there = 0
        for item in range(n_items):
            n_there += line[item] > -np.inf
        n_known, below = 0, 0.0
        for place in range(begin, end):
            own = np.int64(wanted[place])
            score = line[own]
            ranks[place] = -1
            if not score > -np.inf:
                continue
            above, equal, equal_before = 0, 0, 0
            if at[row] >= 0:
                up_to = _n_before(rising[at[row]], score, True)
                above, equal = n_items - up_to, up_to - _n_before(rising[at[row]], score, False)
            else:
                for item in range(n_items):
                    above += line[item] > score
                    equal += line[item] == score
            if equal > 1:
                for item in range(own):
                    equal_before += line[item] == score
            ranks[place] = above + equal_before
            below += n_there - above - 0.5 * equal
            n_known += 1
        ranks[begin:end].sort()
        # wanted items among themselves: one of two in order, or two halves, and a half with itself
        ties_below[row] = below - 0.5 * n_known * n_known
        n_ranked[row] = n_there
