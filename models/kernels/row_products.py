"""Products of a factor's rows with R × R matrices, and of the rows with themselves, in registers.

    multiply_rows     out[i] = products[i] @ V⁻¹       four rows at a time share each row of V⁻¹
    gram_of_rows      Σ_i rows[i]ᵀ rows[i]             four components at a time share each row

Not BLAS: its sums depend on how many threads it has, which differs between a notebook and a worker
process, and every transport must give the same bits. A row's product is the same whichever rows
stand beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._jit import kernel
from daskpart.errors import InputError

from .lanes import add_row, add_scaled, aligned_rows, load, panels, store, zeros

_ROWS_IN_CACHE = 64  # of 32 components in float64: half the first-level cache


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


def gram_of_rows(rows: NDArray) -> NDArray[np.float64]:
    """AᵀA of rows of shape (n, R), float32 or float64; added up in float64, of shape (R, R)."""
    n_components = rows.shape[1]
    gram = np.zeros((n_components, n_components))
    block = aligned_rows(_ROWS_IN_CACHE, n_components, np.float64)
    for template, count, offset in panels(gram):
        _add_gram_panel(
            template, count, rows, offset, block, gram.ctypes.data + offset, gram.strides[0]
        )
    return gram


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
def _add_gram_panel(template, count, rows, offset, block, gram, gram_step):
    """`block` is room for some rows in float64, `offset` the panel's first byte in a row of it."""
    n_rows, n_components = rows.shape
    step = n_components * block.itemsize
    address = block.ctypes.data + offset
    for start in range(0, n_rows, block.shape[0]):
        stop = min(start + block.shape[0], n_rows)
        for i in range(start, stop):
            for r in range(n_components):
                block[i - start, r] = rows[i, r]
        for r in range(0, n_components, 4):
            _add_four_rows(template, count, block, stop - start, address, step, r, gram, gram_step)


@kernel
def _add_four_rows(template, count, block, n_rows, address, step, r, gram, gram_step):
    """Components r … r + 3 of the Gram; beyond the last they are computed, not written."""
    zero = zeros(template)
    last = np.uint64(block.shape[1] - 1)
    first = np.uint64(r)
    second = min(first + np.uint64(1), last)
    third = min(first + np.uint64(2), last)
    fourth = min(first + np.uint64(3), last)
    a, b, c, d = zero, zero, zero, zero
    for row in range(n_rows):
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
