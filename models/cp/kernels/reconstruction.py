"""Values of a decomposition at the nonzeros of a tensor, in the order in which they are laid out.

    out[n] += Σ_r λ_r Π_k U_k[i_k, r]        of the nonzero n at (i_0, …, i_{M-1})

    reconstruct_nonzeros    every nonzero by itself
    reconstruct_fibres      λ ∗ U_a ∗ U_b once a fibre, then its product with each row of the leaf

Rows are `Lanes`, taken in panels of the template's width; the values of all panels add up.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import load, multiply, sum_of, zeros

from .mttkrp import product_of_rows


@kernel
def reconstruct_nonzeros(template, count, weights, coordinates, modes, addresses, row_bytes, out):
    """Every nonzero by itself.

    Parameters
    ----------
    template, count, row_bytes
        As of `mttkrp.add_nonzeros`.
    weights : int
        Address of the panel's first weight.
    coordinates : ndarray of unsigned integers of shape (n_modes, nnz)
        Rows in the factors.
    modes, addresses : tuple of int
        All modes, and the address of the first row of each, at the panel's first column.
    out : ndarray of shape (nnz,)
        Of the type of the factors; added to.
    """
    zero = zeros(template)
    scales = load(zero, weights, count)
    for n in range(np.uint64(out.size)):
        rows = product_of_rows(zero, coordinates, modes, addresses, row_bytes, count, n)
        out[n] += sum_of(multiply(scales, rows))


@kernel
def reconstruct_fibres(
    template, count, weights, begin, leaves, leaf_address, coordinates, modes, addresses,
    row_bytes, out,
):  # fmt: skip
    """Fibre by fibre, or piece by piece; as in `mttkrp.add_fibres`, `modes` without the leaf."""
    zero = zeros(template)
    scales = load(zero, weights, count)
    for f in range(np.uint64(begin.size - 1)):
        rows = product_of_rows(zero, coordinates, modes, addresses, row_bytes, count, f)
        rows = multiply(scales, rows)
        for n in range(np.uint64(begin[f]), np.uint64(begin[f + np.uint64(1)])):
            leaf = load(zero, leaf_address + np.int64(leaves[n]) * row_bytes, count)
            out[n] += sum_of(multiply(rows, leaf))
