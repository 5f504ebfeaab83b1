"""Kernels that combine sparse vectors: sorted indices beside values, in and out.

    merge     1 4 7   ⊕   4 9     →  1 4 7 9      two at a time; no branch depends on the data
    windows   k vectors, one window of indices after another in a small dense buffer:

              |‥a‥‥b‥|‥‥c‥‥‥|    vector 0
              |‥d‥‥‥‥|‥‥e‥f‥|    vector 1    values of an index combine in the order of vectors,
              |‥*‥‥b‥|‥‥*‥f‥|    out         and a bit map says which were touched

    scatter   entries combined with a dense vector; `place` writes them over it
    compress  a dense vector back into entries

Seed 004 §4.1.3. Indices are uint32 or uint64 here (`stream` widens smaller ones: those vectors are
short), and every reduction compiles its own set on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from daskpart._jit import kernel

_WINDOW_BITS = (10, 15)  # smallest and largest window, log2 of indices: it stays in the L2 cache
_ENTRIES_IN_WINDOW = 1024
_NO_INDEX = np.uint64(0xFFFFFFFFFFFFFFFF)  # no vector has so many indices


class SparseKernels(NamedTuple):
    """Compiled for one way of combining values; see `sparse_kernels`."""

    merge: Callable[..., int]
    merge_many: Callable[..., int]
    scatter: Callable[..., None]


@cache
def sparse_kernels(combine: Callable[[Any, Any], Any]) -> SparseKernels:
    """The kernels for ``combine(a, b)``: a numpy ufunc, or a function that numba can compile."""
    if not isinstance(combine, np.ufunc) and not hasattr(combine, "py_func"):
        combine = numba.njit(combine)
    return SparseKernels(_merge(combine), _merge_many(combine), _scatter(combine))


def window_bits(n_indices: int, n_entries: int) -> int:
    """Log2 of the window for `merge_many`: a thousand entries in it if the cache allows."""
    wanted = int(_ENTRIES_IN_WINDOW * n_indices / max(n_entries, 1)).bit_length()
    return min(max(wanted, _WINDOW_BITS[0]), _WINDOW_BITS[1])


def _merge(combine: Any) -> Any:
    @kernel
    def merge(
        first_indices: NDArray[Any],
        first_values: NDArray[Any],
        second_indices: NDArray[Any],
        second_values: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
    ) -> int:
        """Two sorted vectors into one; returns the number of entries written."""
        a, b, n, one = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(1)
        n_first, n_second = np.uint64(len(first_indices)), np.uint64(len(second_indices))
        while (a < n_first) & (b < n_second):
            i, j = first_indices[a], second_indices[b]
            x, y = first_values[a], second_values[b]
            both = combine(x, y)
            # selects and sums of comparisons, so that no jump has to be guessed
            indices[n] = min(i, j)
            values[n] = both if i == j else (x if i < j else y)
            a += np.uint64(i <= j)
            b += np.uint64(j <= i)
            n += one
        while a < n_first:
            indices[n], values[n] = first_indices[a], first_values[a]
            a += one
            n += one
        while b < n_second:
            indices[n], values[n] = second_indices[b], second_values[b]
            b += one
            n += one
        return int(n)

    return merge


def _merge_many(combine: Any) -> Any:
    @kernel
    def merge_many(
        all_indices: NDArray[Any],
        all_values: NDArray[Any],
        pointer: NDArray[np.int64],
        neutral: Any,
        bits: int,
        indices: NDArray[Any],
        values: NDArray[Any],
    ) -> int:
        """Vectors v = pointer[v]:pointer[v + 1] into one; returns the number of entries written."""
        n_vectors, n = len(pointer) - 1, 0
        heads = pointer[:-1].copy()
        window = np.full(1 << bits, neutral, all_values.dtype)
        touched = np.zeros(max((1 << bits) >> 6, 1), np.uint64)
        while True:
            begin = _least_index(all_indices, heads, pointer)
            if begin == _NO_INDEX:
                return n
            size = np.uint64(1 << bits)
            for v in range(n_vectors):
                head, end = heads[v], pointer[v + 1]
                while head < end and np.uint64(all_indices[head]) - begin < size:
                    place = np.uint64(all_indices[head]) - begin
                    window[place] = combine(window[place], all_values[head])
                    touched[place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))
                    head += 1
                heads[v] = head
            for word in range(len(touched)):
                left = touched[word]
                while left:
                    place = (np.uint64(word) << np.uint64(6)) + np.uint64(trailing_zeros(left))
                    indices[n] = begin + place
                    values[n] = window[place]
                    window[place] = neutral
                    left &= left - np.uint64(1)
                    n += 1
                touched[word] = 0

    return merge_many


@kernel
def _least_index(
    all_indices: NDArray[Any], heads: NDArray[np.int64], pointer: NDArray[np.int64]
) -> Any:
    """The least of the vectors' next indices; `_NO_INDEX` when all are through."""
    least = _NO_INDEX
    for v in range(len(heads)):
        if heads[v] < pointer[v + 1]:
            least = min(least, np.uint64(all_indices[heads[v]]))
    return least


def _scatter(combine: Any) -> Any:
    @kernel
    def scatter(
        dense: NDArray[Any], lower: int, indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """``dense[index - lower] ⊕= value`` for every entry."""
        first = np.uint64(lower)
        for n in range(len(indices)):
            place = np.uint64(indices[n]) - first
            dense[place] = combine(dense[place], values[n])

    return scatter


@kernel
def place(dense: NDArray[Any], lower: int, indices: NDArray[Any], values: NDArray[Any]) -> None:
    """``dense[index - lower] = value`` for every entry."""
    first = np.uint64(lower)
    for n in range(len(indices)):
        dense[np.uint64(indices[n]) - first] = values[n]


@kernel
def compress(
    dense: NDArray[Any], lower: int, neutral: Any, indices: NDArray[Any], values: NDArray[Any]
) -> int:
    """Entries of a dense vector that are not neutral; returns their number.

    The outputs need room for one entry more than there are: every place is written, few are kept.
    """
    n = 0
    for place in range(len(dense)):
        value = dense[place]
        indices[n] = place + lower
        values[n] = value
        n += value != neutral
    return n
