"""Products of a factor's rows with R × R matrices, and of the rows with themselves, in registers.

    multiply_rows     out[i] = products[i] @ V⁻¹       four rows at a time share each row of V⁻¹
    gram_of           Σ_i rows[i]ᵀ rows[i]             four components at a time share each row, and
                                                       what lies beyond the diagonal is mirrored

Not BLAS: its sums depend on how many threads it has, which differs between a notebook and a worker
process, and every transport must give the same bits. A row's product is the same whichever rows
stand beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import add_row, add_scaled, aligned_rows, load, panels, store, zeros
from daskpart.errors import InputError

GRAM_WIDTH = 16  # with four components at a time in registers; narrow ones mirror more
_ROWS_IN_CACHE = 64  # of 32 components in float64: half the first-level cache
_ROWS_CONVERTED = 8 * _ROWS_IN_CACHE  # at a time: an eighth of the second-level one


def multiply_rows(products: NDArray, matrix: NDArray[np.float64], out: NDArray) -> None:
    """Put ``products @ matrix`` into `out`, in the precision of the rows.

    Parameters
    ----------
    products : ndarray of float32 or float64 of shape (n, R)
    matrix : ndarray of shape (R, R)
    out : C-contiguous ndarray of the shape and type of `products`
        Another array.

    Raises
    ------
    InputError
        `out` does not fit.
    """
    fits = out.shape == products.shape and out.dtype == products.dtype
    if not (fits and out.flags.c_contiguous):
        raise InputError(
            f"out is {out.dtype} of shape {out.shape}: give a C-contiguous {products.dtype} array "
            f"of shape {products.shape}"
        )
    matrix = np.ascontiguousarray(matrix, products.dtype)
    for template, count, offset in panels(out):
        _multiply_panel(
            template, count, products, matrix.ctypes.data + offset, matrix.strides[0],
            out.ctypes.data + offset, out.strides[0],
        )  # fmt: skip


def gram_of(rows: NDArray) -> NDArray[np.float64]:
    """AᵀA of rows of shape (n, R), float32 or float64; added up in float64, of shape (R, R)."""
    n_components = rows.shape[1]
    gram = np.zeros((n_components, n_components))
    template = (0.0,) * GRAM_WIDTH
    if rows.dtype == np.float64 and rows.flags.c_contiguous:
        add_gram(template, rows, rows.ctypes.data, gram, gram.ctypes.data)
    else:
        room = aligned_rows(_ROWS_CONVERTED, n_components, np.float64)
        _add_converted(template, rows, room, room.ctypes.data, gram, gram.ctypes.data)
    components = np.arange(n_components)
    return np.where(components[:, None] <= components, gram, gram.T)


@kernel
def _multiply_panel(template, count, products, matrix, matrix_step, out, out_step):
    zero = zeros(template)
    n_rows = np.uint64(products.shape[0])
    whole = n_rows - n_rows % np.uint64(4)
    for i in range(np.uint64(0), whole, np.uint64(4)):
        a, b, c, d = zero, zero, zero, zero
        for s in range(np.uint64(products.shape[1])):
            lanes = load(zero, matrix + np.int64(s) * matrix_step, count)
            a = add_scaled(a, products[i, s], lanes)
            b = add_scaled(b, products[i + np.uint64(1), s], lanes)
            c = add_scaled(c, products[i + np.uint64(2), s], lanes)
            d = add_scaled(d, products[i + np.uint64(3), s], lanes)
        address = out + np.int64(i) * out_step
        store(address, a, count)
        store(address + out_step, b, count)
        store(address + 2 * out_step, c, count)
        store(address + 3 * out_step, d, count)
    for i in range(whole, n_rows):
        a = zero
        for s in range(np.uint64(products.shape[1])):
            lanes = load(zero, matrix + np.int64(s) * matrix_step, count)
            a = add_scaled(a, products[i, s], lanes)
        store(out + np.int64(i) * out_step, a, count)


@kernel
def add_gram(template, rows, address, gram, gram_address):
    """Of each block of rows some columns at a time, and these only down to the diagonal."""
    n_rows, n_components = rows.shape
    step = n_components * rows.itemsize
    for start in range(0, n_rows, _ROWS_IN_CACHE):
        block = rows[start : start + _ROWS_IN_CACHE]
        for column in range(0, n_components, len(template)):
            count = min(len(template), n_components - column)
            offset = column * rows.itemsize
            for r in range(0, column + count, 4):
                _add_four_rows(
                    template, count, block, address + start * step + offset, step, r,
                    gram_address + offset, step,
                )  # fmt: skip


@kernel
def _add_converted(template, rows, room, address, gram, gram_address):
    """The same for other rows, some at a time put in float64 into `room`."""
    for start in range(0, rows.shape[0], room.shape[0]):
        n_here = min(room.shape[0], rows.shape[0] - start)
        for i in range(np.uint64(n_here)):
            row = np.uint64(start) + i
            for r in range(np.uint64(rows.shape[1])):
                room[i, r] = rows[row, r]
        add_gram(template, room[:n_here], address, gram, gram_address)


@kernel
def _add_four_rows(template, count, block, address, step, r, gram, gram_step):
    """Components r … r + 3 of the Gram; beyond the last they are computed, not written."""
    zero = zeros(template)
    last = np.uint64(block.shape[1] - 1)
    first = np.uint64(r)
    second = min(first + np.uint64(1), last)
    third = min(first + np.uint64(2), last)
    fourth = min(first + np.uint64(3), last)
    a, b, c, d = zero, zero, zero, zero
    for row in range(block.shape[0]):
        i = np.uint64(row)
        lanes = load(zero, address + row * step, count)
        a = add_scaled(a, block[i, first], lanes)
        b = add_scaled(b, block[i, second], lanes)
        c = add_scaled(c, block[i, third], lanes)
        d = add_scaled(d, block[i, fourth], lanes)
    add_row(zero, gram + r * gram_step, a, count)
    if second == first + np.uint64(1):
        add_row(zero, gram + (r + 1) * gram_step, b, count)
    if third == first + np.uint64(2):
        add_row(zero, gram + (r + 2) * gram_step, c, count)
    if fourth == first + np.uint64(3):
        add_row(zero, gram + (r + 3) * gram_step, d, count)
