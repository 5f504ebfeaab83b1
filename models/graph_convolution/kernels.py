"""Products over the edges of a graph: a sparse matrix in CSR times rows, and attention over edges.

    row i of the matrix    (j, a) (j', a') …         its entries
                             │      │
                           H[j]   H[j']              rows, one for each column
                             └──┬───┘
    spmm                   out[i] += Σ a · H[j]      forward, and Âᵀ G where Âᵀ is stored
    spmm_transposed        out[j] += a · G[i]        by the same entries, where it is not
    sddmm                  out[n]  = G[i] · H[j]     gradient of the entry n, which is a at (i, j)

Pieces of a row of the result stay in registers over all entries of its row (`Lanes`). Columns that
fill no piece are taken by two that overlap, of which the last ends with the row:

    7 columns    │ 0   1   2   3 │              11 in two pieces of 8, and so on
                         │ 3   4   5   6 │

A column in both comes out the same, which takes less time than masks: a processor without mask
registers makes one anew at each entry, and waits for a masked row to be written before it reads the
next. With each entry goes a request for the same bytes of the row of an entry some places on, so
that requests are spread evenly over the work. Rows that begin with a cache line (`aligned_rows`)
are read faster, as they touch fewer of them. The order of additions is that of the entries, and of
a very long row sums of a few thousand are added up, so the bits are the same every time, and do not
depend on the number of columns.

With several heads an entry has a value for each, and a row is cut into as many equal pieces:

    entry n   a[n, 0]         a[n, 1]         …
    H[j]      │ head 0 │       │ head 1 │

The attention of GAT is a softmax over the entries of each row,

    a[n, h] = softmax_n LeakyReLU(left[i, h] + right[j, h])

for which the entries are gone through once for all heads, the rows of `right` asked for as well.

Indices are not looked at: one that lies outside reads memory that is not H's.

Sources: Demirci et al., VLDB 2022, equations 1 to 4; Veličković et al., "Graph attention networks",
ICLR 2018, equation 3; Rahman, Sujon, Azad, "FusedMM", IPDPS 2021 (SDDMM).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import (
    add,
    add_scaled,
    ask_for,
    ask_for_two,
    bytes_of,
    keep_rolled,
    load,
    load_all,
    multiply,
    prefetch_bytes,
    store_all,
    sum_of,
    zeros,
)
from daskpart._floor.prefetch import prefetch_byte
from daskpart.errors import InputError

_LONG = 1 << 16  # a row of more entries is cut: one sum of millions would lose what it adds
_PIECE = 4096  # entries of one sum of these
_AHEAD = 32  # entries from the request for a row to its use
_PIECES = {
    np.dtype(dtype): tuple(
        (dtype(0),) * max(n_bytes // np.dtype(dtype).itemsize, 1)
        for n_bytes in (256, 128, 64, 32, 16, 8, 4)
    )
    for dtype in (np.float32, np.float64)
}

# -- sparse times dense -------------------------------------------------------------------------


def spmm(indptr: NDArray, indices: NDArray, data: NDArray, H: NDArray, out: NDArray) -> None:
    """Add the product of a sparse matrix and `H` to `out`.

    Parameters
    ----------
    indptr : int32 or int64 ndarray of shape (n + 1,)
    indices : int32 ndarray of shape (nnz,)
        In [0, m), which is not checked.
    data : ndarray of shape (nnz,) or (nnz, n_heads)
        Of the type of `H`.
    H : C-contiguous float32 or float64 ndarray of shape (m, d)
        Of several heads, d is n_heads times the columns of each.
    out : C-contiguous ndarray of shape (n, d)
        Of the type of `H`.

    Raises
    ------
    InputError
        Shapes or types do not fit.
    """
    _check(indptr, indices, data, out, H)
    if not indices.size or not H.shape[1]:
        return
    long, done = np.flatnonzero(np.diff(indptr) > _LONG), 0
    pieces, indptr, *entries = _arguments(indptr, indices, data, H)
    for row in long:
        _add_products(pieces, indptr[done : row + 1], *entries, out[done:row])
        begin, end = indptr[row], indptr[row + 1]
        cuts = np.append(np.arange(begin, end, _PIECE), end)
        sums = np.zeros((cuts.size - 1, out.shape[1]), out.dtype)
        _add_products(pieces, cuts, *entries, sums)
        out[row] += sums.sum(axis=0)
        done = int(row) + 1
    _add_products(pieces, indptr[done:], *entries, out[done:])


def spmm_transposed(
    indptr: NDArray, indices: NDArray, data: NDArray, G: NDArray, out: NDArray
) -> None:
    """Add the product of the transpose of a sparse matrix and `G` to `out`; nothing is stored.

    It writes where `spmm` reads, and takes up to twice as long as `spmm` by a stored transpose.

    Parameters
    ----------
    indptr, indices, data
        As in `spmm`: of the matrix, not of its transpose.
    G : C-contiguous float32 or float64 ndarray of shape (n, d)
    out : C-contiguous ndarray of shape (m, d)
    """
    _check(indptr, indices, data, G, out)
    if indices.size and G.shape[1]:
        _scatter_products(*_arguments(indptr, indices, data, G), out)


def sddmm(indptr: NDArray, indices: NDArray, G: NDArray, H: NDArray, out: NDArray) -> None:
    """Put the product of row i of `G` and row j of `H` into `out`, for each entry (i, j).

    The gradient of the loss with respect to the `data` of ``Z = spmm(…, data, H)``, G that of Z.

    Parameters
    ----------
    indptr, indices
        As in `spmm`.
    G : C-contiguous ndarray of shape (n, d)
    H : C-contiguous ndarray of shape (m, d)
    out : C-contiguous ndarray of shape (nnz,) or (nnz, n_heads)
    """
    _check(indptr, indices, out, G, H)
    if not out.flags.c_contiguous:
        raise InputError("out: give a C-contiguous array")
    _dot_rows(*_arguments(indptr, indices, out, H), G)


def _check(
    indptr: NDArray, indices: NDArray, data: NDArray, of_row: NDArray, of_column: NDArray
) -> None:
    dtype, n_columns = of_row.dtype, of_row.shape[-1]
    if dtype not in (np.float32, np.float64) or not dtype == data.dtype == of_column.dtype:
        raise InputError(
            f"values, rows and result are {data.dtype}, {of_column.dtype} and {dtype}: give all as "
            "float32, or all as float64"
        )
    if indices.dtype != np.int32:
        raise InputError(f"indices are {indices.dtype}: give int32")
    if not (of_row.flags.c_contiguous and of_column.flags.c_contiguous):
        raise InputError("rows and result: give C-contiguous arrays")
    n_rows, n_entries = indptr.size - 1, int(indptr[-1])
    fits = of_row.shape == (n_rows, n_columns) and of_column.shape[1:] == (n_columns,)
    if not fits or data.shape[0] != n_entries or indices.shape != (n_entries,):
        raise InputError(
            f"a matrix of {n_rows} rows and {n_entries} entries does not fit rows of shape "
            f"{of_row.shape} and {of_column.shape}, {indices.size} indices and values of shape "
            f"{data.shape}"
        )
    if data.ndim > 2 or n_columns % (data.shape[1] if data.ndim == 2 else 1):
        raise InputError(f"values of shape {data.shape} do not cut {n_columns} columns into heads")


def _arguments(indptr: NDArray, indices: NDArray, data: NDArray, rows: NDArray) -> tuple:
    """What the kernels take: shapes of pieces, entries and their heads, rows."""
    n_heads = data.shape[1] if data.ndim == 2 else 1
    values = np.ascontiguousarray(data).reshape(-1)
    return _PIECES[rows.dtype], _int64(indptr), indices, values, n_heads, rows


def _int64(indptr: NDArray) -> NDArray[np.int64]:
    """Pointers in the type that kernels are compiled for; they are few beside rows."""
    return indptr.astype(np.int64, copy=False)


@kernel(inline="always")
def _row_ahead(indices, n):
    """Row of the entry that is some places behind entry n, or of the last one."""
    return np.int64(indices[np.uint64(min(np.int64(n) + _AHEAD, np.int64(indices.size) - 1))])


@kernel(inline="always")
def _gather(like, in_line, n_bytes, read, write, row_bytes, indices, values, entries):
    """Add to `n_bytes` of a row of the result: two pieces like `like`, which may overlap."""
    begin, end, ahead, head, step = entries
    apart = n_bytes - bytes_of(like)
    first, last = load_all(like, write), load_all(like, write + apart)
    for n in range(begin, end):
        next_row = read + np.int64(indices[n + ahead]) * row_bytes
        if in_line:
            prefetch_byte(next_row)
        else:
            ask_for_two(like, next_row, apart)
        row = read + np.int64(indices[n]) * row_bytes
        value = values[n * step + head]
        first = add_scaled(first, value, load_all(like, row))
        last = add_scaled(last, value, load_all(like, row + apart))
    store_all(write, first)
    store_all(write + apart, last)


@kernel(inline="always")
def _gather_short(like, in_line, n_bytes, read, write, row_bytes, indices, values, entries):
    """`_gather`, compiled for both answers: a branch at each entry would cost more."""
    if in_line:
        _gather(like, True, n_bytes, read, write, row_bytes, indices, values, entries)
    else:
        _gather(like, False, n_bytes, read, write, row_bytes, indices, values, entries)


@kernel
def _add_products(pieces, indptr, indices, values, n_heads, rows, out):
    keep_rolled()
    p128, p64, p32 = zeros(pieces[1]), zeros(pieces[2]), zeros(pieces[3])
    p16, p8, p4 = zeros(pieces[4]), zeros(pieces[5]), zeros(pieces[6])
    row_bytes = np.int64(rows.strides[0])
    head_bytes = row_bytes // n_heads
    source, target = rows.ctypes.data, out.ctypes.data
    step = np.uint64(n_heads)
    in_line = source % 64 == 0 and 64 % head_bytes == 0
    for i in range(np.uint64(indptr.size - 1)):
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        ahead = min(np.uint64(_AHEAD), np.uint64(indices.size) - end)
        for head in range(step):
            read = source + np.int64(head) * head_bytes
            write = target + np.int64(i) * row_bytes + np.int64(head) * head_bytes
            entries = begin, end, ahead, head, step
            left = head_bytes
            while left >= 256:
                _gather(p128, False, 256, read, write, row_bytes, indices, values, entries)
                read, write, left = read + 256, write + 256, left - 256
            if left > 128:
                _gather(p128, False, left, read, write, row_bytes, indices, values, entries)
            elif left > 64:
                _gather(p64, False, left, read, write, row_bytes, indices, values, entries)
            elif left > 32:
                _gather_short(p32, in_line, left, read, write, row_bytes, indices, values, entries)
            elif left > 16:
                _gather_short(p16, in_line, left, read, write, row_bytes, indices, values, entries)
            elif left > 8:
                _gather(p8, False, left, read, write, row_bytes, indices, values, entries)
            elif left > 0:
                _gather(p4, False, left, read, write, row_bytes, indices, values, entries)


@kernel(inline="always")
def _scatter(like, byte, stop, read, write, row_bytes, indices, values, entries):
    """Add pieces like `like` of a row, from `byte` on; returns where the next begin."""
    begin, end, head, step = entries
    while byte + bytes_of(like) <= stop:
        row = load_all(like, read + byte)
        for n in range(begin, end):
            ask_for(like, write + byte + _row_ahead(indices, n) * row_bytes)
            place = write + byte + np.int64(indices[n]) * row_bytes
            store_all(place, add_scaled(load_all(like, place), values[n * step + head], row))
        byte += bytes_of(like)
    return byte


@kernel(inline="always")
def _scatter_two(like, n_bytes, read, write, row_bytes, indices, values, entries):
    """Add the last `n_bytes` of a row: two pieces like `like`, which may overlap."""
    begin, end, head, step = entries
    apart = n_bytes - bytes_of(like)
    first, last = load_all(like, read), load_all(like, read + apart)
    for n in range(begin, end):
        ask_for_two(like, write + _row_ahead(indices, n) * row_bytes, apart)
        row, value = write + np.int64(indices[n]) * row_bytes, values[n * step + head]
        upper, lower = load_all(like, row), load_all(like, row + apart)
        store_all(row, add_scaled(upper, value, first))
        store_all(row + apart, add_scaled(lower, value, last))


@kernel
def _scatter_products(pieces, indptr, indices, values, n_heads, rows, out):
    p256, p128, p64, p32 = zeros(pieces[0]), zeros(pieces[1]), zeros(pieces[2]), zeros(pieces[3])
    p16, p8, p4 = zeros(pieces[4]), zeros(pieces[5]), zeros(pieces[6])
    row_bytes = np.int64(rows.strides[0])
    stop = row_bytes // n_heads
    source, target = rows.ctypes.data, out.ctypes.data
    step = np.uint64(n_heads)
    for i in range(np.uint64(indptr.size - 1)):
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        for head in range(step):
            read = source + np.int64(i) * row_bytes + np.int64(head) * stop
            write = target + np.int64(head) * stop
            entries = begin, end, head, step
            at = _scatter(p256, 0, stop, read, write, row_bytes, indices, values, entries)
            at = _scatter(p128, at, stop, read, write, row_bytes, indices, values, entries)
            at = _scatter(p64, at, stop, read, write, row_bytes, indices, values, entries)
            at = _scatter(p32, at, stop, read, write, row_bytes, indices, values, entries)
            left = stop - at
            read, write = read + at, write + at
            if left > 16:
                _scatter_two(p16, left, read, write, row_bytes, indices, values, entries)
            elif left > 8:
                _scatter_two(p8, left, read, write, row_bytes, indices, values, entries)
            elif left > 0:
                _scatter_two(p4, left, read, write, row_bytes, indices, values, entries)


@kernel
def _dot_rows(pieces, indptr, indices, out, n_heads, rows, others):
    wide, line, narrow = zeros(pieces[1]), zeros(pieces[2]), zeros(pieces[3])
    row_bytes = np.int64(rows.strides[0])
    head_bytes = row_bytes // n_heads
    n_left = rows.shape[1] // n_heads % len(pieces[3])
    source, other = rows.ctypes.data, others.ctypes.data
    for i in range(np.uint64(indptr.size - 1)):
        for n in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            ahead = source + _row_ahead(indices, n) * row_bytes
            left = other + np.int64(i) * row_bytes
            right = source + np.int64(indices[n]) * row_bytes
            for byte in range(0, row_bytes, bytes_of(line)):
                ask_for(line, ahead + byte)
            for head in range(np.uint64(n_heads)):
                dot = rows.dtype.type(0)
                byte = 0
                if head_bytes >= bytes_of(wide):
                    total = wide
                    while byte + bytes_of(wide) <= head_bytes:
                        pair = multiply(load_all(wide, left + byte), load_all(wide, right + byte))
                        total = add(total, pair)
                        byte += bytes_of(wide)
                    dot += sum_of(total)
                part = narrow
                while byte + bytes_of(narrow) <= head_bytes:
                    pair = multiply(load_all(narrow, left + byte), load_all(narrow, right + byte))
                    part = add(part, pair)
                    byte += bytes_of(narrow)
                if n_left > 0:
                    pair = load(narrow, left + byte, n_left)
                    part = add(part, multiply(pair, load(narrow, right + byte, n_left)))
                if head_bytes % bytes_of(wide) > 0:
                    dot += sum_of(part)
                out[n * np.uint64(n_heads) + head] = dot
                left += head_bytes
                right += head_bytes


# -- attention over edges -----------------------------------------------------------------------


def edge_softmax(
    indptr: NDArray, indices: NDArray, left: NDArray, right: NDArray, slope: float = 0.2
) -> NDArray[Any]:
    """Attention: softmax over the entries of each row of LeakyReLU(left[i] + right[j]).

    Parameters
    ----------
    indptr : int32 or int64 ndarray of shape (n + 1,)
    indices : int32 ndarray of shape (nnz,)
        In [0, m), which is not checked.
    left : ndarray of shape (n, n_heads)
        What the reading vertex adds to a score.
    right : ndarray of shape (m, n_heads)
        What the vertex that is read adds.
    slope : float
        Of LeakyReLU below 0, from 0.

    Returns
    -------
    ndarray of shape (nnz, n_heads)
        Each row's entries add up to 1, head by head.
    """
    scores = np.empty((indices.size, left.shape[1]), left.dtype)
    _scores_below_most(_int64(indptr), indices, left, right, left.dtype.type(slope), scores)
    np.exp(scores, out=scores)
    _divide_by_sums(_int64(indptr), scores)
    return scores


def edge_softmax_backward(
    indptr: NDArray, indices: NDArray, left: NDArray, right: NDArray, attention: NDArray,
    gradient: NDArray, into_left: NDArray, into_right: NDArray, slope: float = 0.2,
) -> None:  # fmt: skip
    """Add the gradients of `left` and `right` to `into_left` and `into_right`.

    With g the gradient of the attention a, that of a score is a (g − Σ a g), the sum over the row.

    Parameters
    ----------
    indptr, indices, left, right, slope
        As in `edge_softmax`.
    attention : ndarray of shape (nnz, n_heads)
        What it gave.
    gradient : ndarray of shape (nnz, n_heads)
        Of the attention, for example from `sddmm`.
    into_left, into_right : ndarrays of the shapes of `left` and `right`
    """
    _gradients_of_scores(
        _int64(indptr), indices, left, right, left.dtype.type(slope), attention, gradient,
        into_left, into_right,
    )  # fmt: skip


@kernel
def _scores_below_most(indptr, indices, left, right, slope, scores):
    """LeakyReLU(left + right) minus the most of its row, so that no power overflows."""
    n_heads, row_bytes, source = left.shape[1], right.strides[0], right.ctypes.data
    most = np.empty(n_heads, left.dtype)
    for i in range(indptr.size - 1):
        most[:] = -np.inf
        for n in range(indptr[i], indptr[i + 1]):
            prefetch_bytes(source + _row_ahead(indices, n) * row_bytes, row_bytes)
            j = indices[n]
            for h in range(n_heads):
                score = left[i, h] + right[j, h]
                score = score if score > 0 else slope * score
                most[h] = max(most[h], score)
                scores[n, h] = score
        for n in range(indptr[i], indptr[i + 1]):
            for h in range(n_heads):
                scores[n, h] -= most[h]


@kernel
def _divide_by_sums(indptr, scores):
    n_heads = scores.shape[1]
    totals = np.empty(n_heads, scores.dtype)
    for i in range(indptr.size - 1):
        totals[:] = 0
        for n in range(indptr[i], indptr[i + 1]):
            for h in range(n_heads):
                totals[h] += scores[n, h]
        for n in range(indptr[i], indptr[i + 1]):
            for h in range(n_heads):
                scores[n, h] /= totals[h]


@kernel
def _gradients_of_scores(
    indptr, indices, left, right, slope, attention, gradient, into_left, into_right
):
    n_heads, row_bytes, into_bytes = left.shape[1], right.strides[0], into_right.strides[0]
    source, target = right.ctypes.data, into_right.ctypes.data
    totals = np.empty(n_heads, left.dtype)
    for i in range(indptr.size - 1):
        totals[:] = 0
        for n in range(indptr[i], indptr[i + 1]):
            for h in range(n_heads):
                totals[h] += attention[n, h] * gradient[n, h]
        for n in range(indptr[i], indptr[i + 1]):
            prefetch_bytes(source + _row_ahead(indices, n) * row_bytes, row_bytes)
            prefetch_bytes(target + _row_ahead(indices, n) * into_bytes, into_bytes)
            j = indices[n]
            for h in range(n_heads):
                change = attention[n, h] * (gradient[n, h] - totals[h])
                if left[i, h] + right[j, h] <= 0:
                    change *= slope
                into_left[i, h] += change
                into_right[j, h] += change
