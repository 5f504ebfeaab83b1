"""Kernels that combine sparse vectors: sorted indices beside values, in and out.

    merge     1 4 7   ⊕   4 9     →  1 4 7 9      two vectors, the lower and the upper half at once;
                                                  no branch depends on the data
    marked    k vectors: `mark` sets a bit for each index, and counts; `spread` says how many bits
              come before each word, so `add_marked` knows an entry's place in the sum

              |a··b··|······|    vector 0
              |d·····|·e··f·|    vector 1    values of an index combine in the order of vectors
              |*··*··|·*··*·|    bits
              |0     |2     |    before      of the words; the sum: a⊕d, b, e, f

Renggli 2017 §4.1.3. Indices are uint32 or uint64 here (`stream` widens smaller ones: those vectors
are short), and every reduction compiles its own set on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba  # noqa: F401 - before its parts, see test_packaging
import numpy as np
from numba.core.errors import NumbaError
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from daskpart._floor.kernels import jitted, kernel
from daskpart.errors import InputError

Indices = NDArray[Any]
Values = NDArray[Any]


class SparseKernels(NamedTuple):
    """Compiled for one way of combining values; see `sparse_kernels`."""

    merge: Callable[..., int]
    add_marked: Callable[..., None]
    scatter: Callable[..., None]


@cache
def sparse_kernels(combine: Callable[[Any, Any], Any]) -> SparseKernels:
    """The kernels for ``combine(a, b)``: a numpy ufunc, or a function that numba can compile."""
    makers = (_merge, _add_marked, _scatter)
    if isinstance(combine, np.ufunc):
        return SparseKernels(*(make(combine) for make in makers))
    try:
        function = combine if hasattr(combine, "py_func") else jitted(combine)
    except TypeError as error:  # of a built-in function, such as max
        raise _refused(combine, str(error)) from error
    # a jitted function is another one in every process: what is cached would not be found again
    return SparseKernels(*(_told(make(function, cache=False), combine) for make in makers))


def _told(compiled: Any, combine: Any) -> Callable[..., Any]:
    """A kernel of a function of a user's, who is told in words if numba does not compile it."""

    def call(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except NumbaError as error:
            lines = [line for line in str(error).splitlines() if not line.startswith("Failed")]
            raise _refused(combine, lines[0] if lines else str(error)) from error

    return call


def _refused(combine: Any, why: str) -> InputError:
    name = getattr(combine, "__name__", repr(combine))
    return InputError(
        f"combine={name} of a reduction is called with two numbers in a sparse allreduce, by a "
        "kernel; give a numpy ufunc, or a function of two numbers that numba can compile. numba "
        f"says: {why}"
    )


def _merge(combine: Any, **options: Any) -> Any:
    @kernel(**options)
    def merge(i: Indices, x: Values, j: Indices, y: Values, out: Indices, values: Values) -> int:
        """Sorted indices i with values x, and j with y, into one; returns the number of entries."""
        one, a_end = np.uint64(1), np.uint64(len(i) // 2)
        b_end = np.uint64(np.searchsorted(j, i[a_end]) if len(i) else 0)
        a, b, n = np.uint64(0), np.uint64(0), np.uint64(0)
        # the upper half beside the lower: neither waits for the other's comparisons
        c, c_end, d, d_end = a_end, np.uint64(len(i)), b_end, np.uint64(len(j))
        upper = m = a_end + b_end
        while (a < a_end) & (b < b_end) & (c < c_end) & (d < d_end):
            p, q, r, s = i[a], j[b], i[c], j[d]  # all read before anything is written
            u, v, w, z = x[a], y[b], x[c], y[d]
            # selects and sums of comparisons, so that no jump has to be guessed
            out[n], out[m] = min(p, q), min(r, s)
            values[n] = combine(u, v) if p == q else (u if p < q else v)
            values[m] = combine(w, z) if r == s else (w if r < s else z)
            a += np.uint64(p <= q)
            b += np.uint64(q <= p)
            c, d = c + np.uint64(r <= s), d + np.uint64(s <= r)
            n, m = n + one, m + one
        lower_end = n
        for half in range(2):  # what is left of each
            if half == 1:
                lower_end, a, a_end, b, b_end, n = n, c, c_end, d, d_end, m
            while (a < a_end) & (b < b_end):
                p, q, u, v = i[a], j[b], x[a], y[b]
                out[n] = min(p, q)
                values[n] = combine(u, v) if p == q else (u if p < q else v)
                a, b, n = a + np.uint64(p <= q), b + np.uint64(q <= p), n + one
            while a < a_end:
                out[n], values[n] = i[a], x[a]
                a, n = a + one, n + one
            while b < b_end:
                out[n], values[n] = j[b], y[b]
                b, n = b + one, n + one
        for place in range(n - upper if lower_end < upper else np.uint64(0)):
            out[lower_end + np.uint64(place)] = out[upper + np.uint64(place)]
            values[lower_end + np.uint64(place)] = values[upper + np.uint64(place)]
        return int(lower_end + n - upper)

    return merge


def _add_marked(combine: Any, **options: Any) -> Any:
    @kernel(**options)
    def add_marked(
        total: Values, touched: NDArray[np.uint64], before: NDArray[Any], lower: int,
        indices: Indices, values: Values,
    ) -> None:  # fmt: skip
        """Combine entries into those of the sum; each place is the number of bits before it."""
        first, one, low = np.uint64(lower), np.uint64(1), np.uint64(63)
        for p in range(len(indices)):
            place = np.uint64(indices[p]) - first
            word = place >> np.uint64(6)
            n = np.uint64(before[word]) + _n_bits(touched[word] & ((one << (place & low)) - one))
            total[n] = combine(total[n], values[p])

    return add_marked


def _scatter(combine: Any, **options: Any) -> Any:
    @kernel(**options)
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
def mark(touched: NDArray[np.uint64], lower: int, indices: NDArray[Any]) -> int:
    """Set a bit for every entry; gives how many were not set before."""
    first, one, low, n = np.uint64(lower), np.uint64(1), np.uint64(63), 0
    for p in range(len(indices)):
        place = np.uint64(indices[p]) - first
        word, bit = touched[place >> np.uint64(6)], one << (place & low)
        n += (word & bit) == 0
        touched[place >> np.uint64(6)] = word | bit
    return n


@kernel
def spread(
    touched: NDArray[np.uint64], lower: int, before: NDArray[Any], indices: NDArray[Any]
) -> None:
    """Indices of all bits, rising, and how many come before each word."""
    first, n = np.uint64(lower), np.uint64(0)
    for word in range(len(touched)):
        before[word] = n
        left, begin = touched[word], (np.uint64(word) << np.uint64(6)) + first
        while left:
            indices[n] = begin + np.uint64(trailing_zeros(left))
            left &= left - np.uint64(1)
            n += np.uint64(1)


@kernel(internal=True, _nrt=False)
def _n_bits(word: Any) -> Any:
    """How many bits of a word are set; compilers know this form."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


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


@kernel
def largest_of_buckets(values: Values, bucket: int, k: int, chosen: Indices) -> int:
    """Write the indices of the k largest magnitudes of every bucket, rising; gives how many.

    Zeros are never chosen, and of equal magnitudes the lower index is.
    """
    n_chosen = 0
    best = np.empty(min(k, bucket), np.int64)  # by falling magnitude
    for begin in range(0, len(values), bucket):
        held, least = 0, 0.0
        for i in range(begin, min(begin + bucket, len(values))):
            size = abs(values[i])
            if size == 0 or (held == len(best) and size <= least):
                continue
            place = held if held < len(best) else held - 1
            held = place + 1
            while place > 0 and size > abs(values[best[place - 1]]):
                best[place] = best[place - 1]
                place -= 1
            best[place] = i
            least = abs(values[best[held - 1]])
        for i in np.sort(best[:held]):
            chosen[n_chosen] = i
            n_chosen += 1
    return n_chosen
