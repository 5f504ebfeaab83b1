"""MTTKRP of a sparse tensor: the matricized tensor times the Khatri-Rao product of the factors.

    out[i_m, :] += Σ x · Π_{k ≠ m} U_k[i_k, :]        over the nonzeros x at (i_0, …, i_{M-1})

Nonzeros that differ in one mode only, the leaf, form a fibre. The ways to take them:

    add_nonzeros    x · U_a · U_b                  ─►  row of out      short fibres: each by itself
    add_fibres      (Σ x · U_leaf) · U_a           ─►  row of out      long fibres: other factors
                     └ product, may be kept                            are read once a fibre
    add_pieces      Σ x · U_leaf                   ─►  product         very long ones: in pieces
    add_products    product · U_a                  ─►  row of out      the sums as kept
    add_to_leaves   x · (U_a · U_b)                ─►  rows of out     out is the leaf's own matrix

A product does not depend on the mode that is asked for: while the leaf's factor stands, all other
modes share it. Rows are `Lanes`, taken in panels of the template's width; the order of additions is
that of the nonzeros, so the bits are the same every time. One rank is one thread: no atomics.

Sources: Kolda and Bader, "Tensor decompositions and applications", SIAM Review 51 (2009), §3.4;
Smith et al., "SPLATT", IPDPS 2015 (fibres); Phan, Tichavský and Cichocki, IEEE Trans. Signal
Process. 61 (2013), §III, and Kaya and Uçar, SIAM J. Sci. Comput. 40 (2018) (products kept between
modes).
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import (
    add,
    add_row,
    add_scaled,
    load,
    multiply,
    prefetch_bytes,
    store,
    zeros,
)

# rows are bytes apart, positions index `coordinates`; unsigned indices spare numba's wrap-around

# terms of one sum in registers: a float32 sum of millions, as in a mode of few rows or along a long
# fibre, would lose what it adds
MOST_SUMMED = 4096


@kernel(inline="always")
def product_of_rows(zero, coordinates, others, addresses, row_bytes, count, n):
    """Π U_k[i_k] over the modes in `others`, at least one, for nonzero or fibre n."""
    first = addresses[0] + np.int64(coordinates[others[0], n]) * row_bytes
    lanes = load(zero, first, count)
    for k in range(1, len(others)):
        address = addresses[k] + np.int64(coordinates[others[k], n]) * row_bytes
        lanes = multiply(lanes, load(zero, address, count))
    return lanes


@kernel(inline="always")
def sum_of_leaves(zero, count, begin, end, leaves, values, leaf_address, row_bytes):
    """Σ x · U_leaf over the nonzeros begin:end, sums of a few thousand added up."""
    most = np.uint64(MOST_SUMMED)
    total, stop = zero, min(end, begin + most)
    for n in range(begin, stop):
        row = load(zero, leaf_address + np.int64(leaves[n]) * row_bytes, count)
        total = add_scaled(total, values[n], row)
    while stop != end:  # apart, as most fibres are short
        part, begin, stop = zero, stop, min(end, stop + most)
        for n in range(begin, stop):
            row = load(zero, leaf_address + np.int64(leaves[n]) * row_bytes, count)
            part = add_scaled(part, values[n], row)
        total = add(total, part)
    return total


@kernel
def add_nonzeros(
    template, count, start, stop, coordinates, values, others, addresses, target, out, row_bytes,
    ahead,
):  # fmt: skip
    """Every nonzero by itself; with `ahead` > 0 its rows are asked for that many nonzeros before.

    Parameters
    ----------
    template : tuple of width zeros
        Type and width of the lanes.
    count : int
        Columns of this panel, at most the width.
    start, stop : int
        The nonzeros to take, at least one.
    coordinates : ndarray of unsigned integers of shape (n_modes, nnz)
        Rows in the factors.
    values : ndarray of shape (nnz,)
    others : tuple of unsigned int
        Rows of `coordinates` to multiply by; one specialisation for each number of them.
    addresses : tuple of int
        Of the first row of each of them, and of the panel's first column.
    target : unsigned int
        Row of `coordinates` that says where a product goes.
    out : int
        Address of the result.
    row_bytes : int
        From one row of a factor, or of the result, to the next.
    ahead : int
        Nonzeros from the request for a row to its use; 0 for none.
    """
    zero = zeros(template)
    total, n_summed = zero, 0
    current = coordinates[target, np.uint64(start)]
    last = np.int64(values.size) - 1
    for n in range(np.uint64(start), np.uint64(stop)):
        if ahead > 0:
            later = np.uint64(min(np.int64(n) + ahead, last))
            for k in range(len(others)):
                row = np.int64(coordinates[others[k], later]) * row_bytes
                prefetch_bytes(addresses[k] + row, count * values.itemsize)
        i = coordinates[target, n]
        if i != current or n_summed == MOST_SUMMED:  # a row of the result is summed in registers
            add_row(zero, out + np.int64(current) * row_bytes, total, count)
            total, n_summed = zero, 0
            current = i
        n_summed += 1
        rows = product_of_rows(zero, coordinates, others, addresses, row_bytes, count, n)
        total = add_scaled(total, values[n], rows)
    add_row(zero, out + np.int64(current) * row_bytes, total, count)


@kernel
def add_fibres(
    template, count, start, stop, begin, leaves, values, leaf_address, coordinates, others,
    addresses, target, out, row_bytes, products,
):  # fmt: skip
    """Fibre by fibre; where `products`, an address, is not 0 the sums over fibres are kept there.

    The fibres start:stop are taken, at least one; f has the nonzeros begin[f]:begin[f + 1], and
    `coordinates` holds one column a fibre, for all modes but the leaf. Other parameters as in
    `add_nonzeros`; products are [n_fibres, R] in C order.
    """
    zero = zeros(template)
    total, n_summed = zero, 0
    current = coordinates[target, np.uint64(start)]
    for f in range(np.uint64(start), np.uint64(stop)):
        first, end = np.uint64(begin[f]), np.uint64(begin[f + np.uint64(1)])
        fibre = sum_of_leaves(zero, count, first, end, leaves, values, leaf_address, row_bytes)
        if products != 0:
            store(products + np.int64(f) * row_bytes, fibre, count)
        rows = product_of_rows(zero, coordinates, others, addresses, row_bytes, count, f)
        i = coordinates[target, f]
        if i != current or n_summed == MOST_SUMMED:
            add_row(zero, out + np.int64(current) * row_bytes, total, count)
            total, n_summed = zero, 0
            current = i
        n_summed += 1
        total = add(total, multiply(fibre, rows))
    add_row(zero, out + np.int64(current) * row_bytes, total, count)


@kernel
def add_pieces(template, count, begin, pieces, leaves, values, leaf_address, products, row_bytes):
    """The sums of `add_fibres`, added to `products` piece by piece.

    Piece p is of fibre pieces[p] and has the nonzeros begin[p]:begin[p + 1]. Other parameters as in
    `add_fibres`.
    """
    zero = zeros(template)
    for p in range(np.uint64(pieces.size)):
        address = products + np.int64(pieces[p]) * row_bytes
        first, end = np.uint64(begin[p]), np.uint64(begin[p + np.uint64(1)])
        piece = sum_of_leaves(zero, count, first, end, leaves, values, leaf_address, row_bytes)
        add_row(zero, address, piece, count)


@kernel
def add_products(
    template, count, start, stop, products, coordinates, others, addresses, target, out, row_bytes
):
    """The sums over fibres as kept, for any mode: the same bits as from the nonzeros."""
    zero = zeros(template)
    total, n_summed = zero, 0
    current = coordinates[target, np.uint64(start)]
    for f in range(np.uint64(start), np.uint64(stop)):
        fibre = load(zero, products + np.int64(f) * row_bytes, count)
        rows = product_of_rows(zero, coordinates, others, addresses, row_bytes, count, f)
        i = coordinates[target, f]
        if i != current or n_summed == MOST_SUMMED:
            add_row(zero, out + np.int64(current) * row_bytes, total, count)
            total, n_summed = zero, 0
            current = i
        n_summed += 1
        total = add(total, multiply(fibre, rows))
    add_row(zero, out + np.int64(current) * row_bytes, total, count)


@kernel
def add_to_leaves(
    template, count, start, stop, begin, leaves, values, coordinates, others, addresses, out,
    row_bytes,
):  # fmt: skip
    """For the leaf's own mode: `others` are all modes that `coordinates` holds."""
    zero = zeros(template)
    for f in range(np.uint64(start), np.uint64(stop)):
        rows = product_of_rows(zero, coordinates, others, addresses, row_bytes, count, f)
        for n in range(np.uint64(begin[f]), np.uint64(begin[f + np.uint64(1)])):
            address = out + np.int64(leaves[n]) * row_bytes
            store(address, add_scaled(load(zero, address, count), values[n], rows), count)
