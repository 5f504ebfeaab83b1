"""Rows of one side from the rows of the other: weighted least squares, one row at a time.

For a row with events on j ∈ J, weights e_j = c_j − 1 and the Gram G = Σ_all h hᵀ of the other side,

    A = G + λI + Σ_J e_j h_j h_jᵀ        b = Σ_J (1 + e_j) h_j        A w = b

so that a row costs its own events only, although all that is not stored counts with c = 1 and p = 0
(Hu, Koren, Volinsky 2008, §4). `solve_exactly` builds A; `solve_by_gradients` does some steps of
conjugate gradients from the row as it is and never builds A (Takács, Pilászy, Tikk 2011);
`solve_by_blocks` builds A for one block of coordinates π at a time and moves w_π to the minimum
there, A_ππ δ = (b − Aw)_π, which for many components is far less work (Rendle, Krichene, Zhang,
Koren, "iALS++: Speeding up Matrix Factorization with Subspace Optimization", 2021).

Each kernel returns Σ (c − wᵀ(b + r)) over the rows, with r = b − Aw: their part of the objective,
Σ c (p − wᵀh)² + λ‖w‖² over all that is stored or not, for wᵀAw − 2bᵀw + Σ c is just that.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart.models.matrix_factorization.kernels.cholesky import cholesky, substitute

UNMOVED = np.float32(2) * np.finfo(np.float32).eps  # of the largest entry of a row


@kernel(internal=True, fastmath=True)
def _build(pointer, columns, weights, other, row, left, right):
    """Add Σ e h hᵀ to the lower half of `left`, put b into `right`; returns Σ c.

    Four events at a time: each entry of `left` is then read and written a quarter as often.
    """
    n_components = other.shape[1]
    for f in range(n_components):
        right[f] = 0.0
    total = 0.0
    begin, end = pointer[row], pointer[row + 1]
    whole = begin + (end - begin) // 4 * 4
    for n in range(begin, whole, 4):
        h0, h1 = other[columns[n]], other[columns[n + 1]]
        h2, h3 = other[columns[n + 2]], other[columns[n + 3]]
        e0, e1, e2, e3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
        total += 4.0 + e0 + e1 + e2 + e3
        for f in range(n_components):
            a0, a1, a2, a3 = e0 * h0[f], e1 * h1[f], e2 * h2[f], e3 * h3[f]
            right[f] += a0 + a1 + a2 + a3 + h0[f] + h1[f] + h2[f] + h3[f]
            line = left[f]
            for g in range(f + 1):
                line[g] += a0 * h0[g] + a1 * h1[g] + a2 * h2[g] + a3 * h3[g]
    for n in range(whole, end):
        h, e = other[columns[n]], weights[n]
        total += 1.0 + e
        for f in range(n_components):
            a = e * h[f]
            right[f] += a + h[f]
            line = left[f]
            for g in range(f + 1):
                line[g] += a * h[g]
    return total


@kernel(internal=True, fastmath=True)
def _descend(left, right, row, n_sweeps):
    """Sweeps of coordinate descent over w ≥ 0 from `row`, in place, until it moves no more."""
    n = left.shape[0]
    for _ in range(n_sweeps):
        largest, furthest = 0.0, 0.0
        for f in range(n):
            slope = right[f]
            for g in range(f + 1):
                slope -= left[f, g] * row[g]
            for g in range(f + 1, n):
                slope -= left[g, f] * row[g]
            before = row[f]
            row[f] = max(before + slope / left[f, f], 0.0)
            largest, furthest = max(largest, row[f]), max(furthest, abs(row[f] - before))
        if furthest <= UNMOVED * largest:  # rounding may go to and fro for ever
            break


@kernel(fastmath=True)
def solve_exactly(pointer, columns, weights, other, gram, regularization, exponent, n_sweeps, rows):
    """Solve rows 0 … len(pointer) − 2 by Cholesky, in place; returns their part of the objective.

    Parameters
    ----------
    pointer : int64 ndarray of shape (n + 1,)
    columns : int32 ndarray, weights : float32 ndarray of shape (nnz,)
        Rows of `other` that a row has events on, and e = c − 1 of each.
    other : float32 or float64 ndarray of shape (m, F)
        Equations are built and solved in its type.
    gram : float64 ndarray of shape (F, F)
    regularization, exponent : float
        λ = regularization · events^exponent.
    n_sweeps : int
        0: any sign, by Cholesky. Else w ≥ 0 by at most that many sweeps of coordinate descent.
    rows : ndarray of the same type, at least n rows
        A row without events becomes 0; one whose A is not positive to rounding NaN, and it adds
        nothing to the objective.
    """
    n_components = other.shape[1]
    left = np.empty((n_components, n_components), other.dtype)
    right, solution = np.empty(n_components, other.dtype), np.empty(n_components, other.dtype)
    objective = 0.0
    for row in range(pointer.size - 1):
        n_events = pointer[row + 1] - pointer[row]
        if n_events == 0:
            rows[row] = 0.0
            continue
        ridge = np.float32(regularization * np.float64(n_events) ** exponent)
        for f in range(n_components):
            for g in range(f + 1):
                left[f, g] = gram[f, g]
            left[f, f] += ridge
        total = _build(pointer, columns, weights, other, row, left, right)
        if n_sweeps:
            _descend(left, right, rows[row], n_sweeps)
            w = rows[row]
            for f in range(n_components):  # wᵀAw − 2bᵀw
                product = np.float32(0.0)
                for g in range(f):
                    product += left[f, g] * w[g]
                total += w[f] * (2.0 * product + left[f, f] * w[f] - 2.0 * right[f])
        elif cholesky(left):
            for f in range(n_components):
                solution[f] = right[f]
            substitute(left, solution)
            for f in range(n_components):
                rows[row, f] = solution[f]
                total -= solution[f] * right[f]
        else:
            rows[row] = np.nan
            continue
        objective += total
    return objective


@kernel(internal=True, fastmath=True)
def _inner(one, other):
    """The inner product, in float32."""
    product = np.float32(0.0)
    for f in range(one.size):
        product += one[f] * other[f]
    return product


@kernel(internal=True, fastmath=True)
def _of_all(gram, ridge, x, image):
    """Put (G + λI) x over `image`: what all rows of the other side say, events or not."""
    for f in range(x.size):
        image[f] = ridge * x[f]
    for f in range(x.size):
        line, scale = gram[f], x[f]
        for g in range(x.size):
            image[g] += scale * line[g]


@kernel(internal=True, fastmath=True)
def _sides(columns, weights, other, gram, ridge, x, right, image):
    """Put b over `right` and A x over `image`; returns Σ c."""
    _of_all(gram, ridge, x, image)
    for f in range(x.size):
        right[f] = 0.0
    total = 0.0
    for n in range(columns.size):
        h, e = other[columns[n]], weights[n]
        total += 1.0 + e
        whole, part = np.float32(1.0) + e, e * _inner(h, x)
        for f in range(x.size):
            right[f] += whole * h[f]
            image[f] += part * h[f]
    return total


@kernel(fastmath=True)
def solve_by_gradients(
    pointer, columns, weights, other, gram, regularization, exponent, n_steps, rows
):
    """The same by `n_steps` of conjugate gradients from `rows` as they are; for `gram` float32."""
    n_components = other.shape[1]
    residual, direction = np.empty(n_components, np.float32), np.empty(n_components, np.float32)
    right, image = np.empty(n_components, np.float32), np.empty(n_components, np.float32)
    objective = 0.0
    for row in range(pointer.size - 1):
        begin, end = pointer[row], pointer[row + 1]
        if begin == end:
            rows[row] = 0.0
            continue
        x = rows[row]
        ridge = np.float32(regularization * np.float64(end - begin) ** exponent)
        total = _sides(columns[begin:end], weights[begin:end], other, gram, ridge, x, right, image)
        square = np.float32(0.0)
        for f in range(n_components):
            residual[f] = right[f] - image[f]
            direction[f] = residual[f]
            square += residual[f] * residual[f]
        for _ in range(n_steps):
            if square < 1e-20:
                break
            _of_all(gram, ridge, direction, image)
            for n in range(begin, end):
                h = other[columns[n]]
                product = weights[n] * _inner(h, direction)
                for f in range(n_components):
                    image[f] += product * h[f]
            step = square / _inner(direction, image)
            after = np.float32(0.0)
            for f in range(n_components):
                x[f] += step * direction[f]
                residual[f] -= step * image[f]
                after += residual[f] * residual[f]
            share = after / square
            square = after
            for f in range(n_components):
                direction[f] = residual[f] + share * direction[f]
        for f in range(n_components):
            total -= x[f] * (right[f] + residual[f])
        objective += total
    return objective


@kernel(internal=True, fastmath=True)
def _build_block(columns, weights, other, products, gram, ridge, image, first, left, right):
    """Put A_ππ over the lower half of `left`, (b − Aw)_π over `right`, from (G + λI)w and wᵀh.

    Two events at a time: each entry of `left` is then read and written half as often.
    """
    size = right.size
    for f in range(size):
        right[f] = -image[first + f]
        for g in range(f + 1):
            left[f, g] = gram[first + f, first + g]
        left[f, f] += ridge
    n_events = columns.size
    for n in range(0, n_events - 1, 2):
        h0 = other[columns[n], first : first + size]
        h1 = other[columns[n + 1], first : first + size]
        e0, e1 = weights[n], weights[n + 1]
        r0 = np.float32(1.0) + e0 - e0 * products[n]
        r1 = np.float32(1.0) + e1 - e1 * products[n + 1]
        for f in range(size):
            right[f] += r0 * h0[f] + r1 * h1[f]
            a0, a1, line = e0 * h0[f], e1 * h1[f], left[f]
            for g in range(f + 1):
                line[g] += a0 * h0[g] + a1 * h1[g]
    if n_events % 2:
        h, e = other[columns[-1], first : first + size], weights[-1]
        r = np.float32(1.0) + e - e * products[n_events - 1]
        for f in range(size):
            right[f] += r * h[f]
            a, line = e * h[f], left[f]
            for g in range(f + 1):
                line[g] += a * h[g]


@kernel(fastmath=True)
def solve_by_blocks(
    pointer, columns, weights, other, gram, regularization, exponent, block_size, rows
):
    """One sweep over blocks of `block_size` coordinates from `rows` as they are, in place.

    Parameters and result are those of `solve_exactly`, `gram` is float32; with one block for all
    coordinates so is the solution.
    """
    n_components = other.shape[1]
    width = min(block_size, n_components)
    square, vector = np.empty((width, width), np.float32), np.empty(width, np.float32)
    image = np.empty(n_components, np.float32)  # (G + λI) w
    longest = 0
    for row in range(pointer.size - 1):
        longest = max(longest, pointer[row + 1] - pointer[row])
    products = np.empty(longest, np.float32)
    objective = 0.0
    for row in range(pointer.size - 1):
        begin, end = pointer[row], pointer[row + 1]
        if begin == end:
            rows[row] = 0.0
            continue
        x = rows[row]
        own, e = columns[begin:end], weights[begin:end]
        ridge = np.float32(regularization * np.float64(end - begin) ** exponent)
        _of_all(gram, ridge, x, image)
        for n in range(own.size):
            products[n] = _inner(other[own[n]], x)
        positive = True
        for first in range(0, n_components, width):
            size = min(width, n_components - first)
            left, right = square[:size, :size], vector[:size]
            _build_block(own, e, other, products, gram, ridge, image, first, left, right)
            positive = cholesky(left)
            if not positive:
                break
            substitute(left, right)
            for f in range(size):
                x[first + f] += right[f]
                image[first + f] += ridge * right[f]
                line, scale = gram[first + f], right[f]
                for g in range(n_components):
                    image[g] += scale * line[g]
            for n in range(own.size):
                h, product = other[own[n], first : first + size], np.float32(0.0)
                for f in range(size):
                    product += h[f] * right[f]
                products[n] += product
        if not positive:
            rows[row] = np.nan
            continue
        for f in range(n_components):
            objective += x[f] * image[f]
        for n in range(own.size):
            product = products[n]
            objective += (1.0 + e[n]) * (1.0 - 2.0 * product) + e[n] * product * product
    return objective


@kernel(fastmath=True)
def squares_of_rows(pointer, regularization, exponent, rows):
    """Σ λ_i ‖w_i‖² over rows with events."""
    total = 0.0
    for row in range(pointer.size - 1):
        n_events = pointer[row + 1] - pointer[row]
        if n_events:
            square = 0.0
            for f in range(rows.shape[1]):
                square += rows[row, f] * rows[row, f]
            total += regularization * np.float64(n_events) ** exponent * square
    return total


@kernel(fastmath=True)
def gram_of(rows, n_rows, gram):
    """Put Σ h hᵀ of the first rows over `gram`, float64; sums of 64 rows are in float32.

    Of no more rows than columns all is in float64: then it is λ alone that makes A positive, and
    it may be less than float32 rounds off. No BLAS: it adds up in an order that depends on its
    threads.
    """
    n_components = rows.shape[1]
    part = np.empty((n_components, n_components), np.float32)
    gram[:] = 0.0
    few = n_rows if n_rows <= n_components else 0
    for n in range(few):
        h = rows[n]
        for f in range(n_components):
            line, whole = gram[f], np.float64(h[f])
            for g in range(f + 1):
                line[g] += whole * h[g]
    for begin in range(few, n_rows, 64):
        part[:] = 0.0
        end = min(begin + 64, n_rows)
        for n in range(begin, end):
            h = rows[n]
            for f in range(n_components):
                line, scale = part[f], h[f]
                for g in range(f + 1):
                    line[g] += scale * h[g]
        for f in range(n_components):
            for g in range(f + 1):
                gram[f, g] += part[f, g]
    for f in range(n_components):
        for g in range(f):
            gram[g, f] = gram[f, g]
