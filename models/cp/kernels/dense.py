"""Dense steps on factor rows: sums of squares, R × R inverses, nonnegative least squares.

    Σ_i a_ir b_ir        sums over rows, in float64 whatever the rows are
    a_ir / λ_r           what would be subnormal becomes 0: on some CPUs it takes a hundred times
                         as long to compute with, and components of a graph are full of it
    V⁻¹                  by Cholesky
    HALS                 each row by itself, component after component

Products of rows with R × R matrices stand in `row_products`.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel


@kernel(fastmath=True)
def add_column_products(left, right, sums):
    """Add Σ_i left[i, r]·right[i, r] to ``sums[r]``, float64."""
    for i in range(left.shape[0]):
        for r in range(left.shape[1]):
            sums[r] += np.float64(left[i, r]) * np.float64(right[i, r])


@kernel
def divide_columns(rows, norms, smallest):
    """Divide each column, in place; what is less than `smallest` becomes 0, and NaN stays."""
    for i in range(rows.shape[0]):
        for r in range(rows.shape[1]):
            quotient = rows[i, r] / norms[r]
            if abs(quotient) < smallest:
                quotient = quotient - quotient
            rows[i, r] = quotient


@kernel(internal=True)
def factorise(matrix, added, smallest, lower):
    """Cholesky of matrix + added I into `lower`; False where a pivot counts as 0, see `invert`."""
    n = matrix.shape[0]
    for j in range(n):
        diagonal = matrix[j, j] + added
        pivot = diagonal
        for k in range(j):
            pivot -= lower[j, k] * lower[j, k]
        if not pivot > smallest * diagonal:
            return False
        lower[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= lower[i, k] * lower[j, k]
            lower[i, j] = entry / lower[j, j]
    return True


@kernel
def invert(matrix, smallest):
    """Inverse of a symmetric positive definite matrix by Cholesky, and whether it is one.

    A pivot below `smallest` times its diagonal entry counts as 0: the matrix is singular.
    """
    n = matrix.shape[0]
    lower = np.zeros((n, n))
    if not factorise(matrix, 0.0, smallest, lower):
        return lower, False
    inverse = np.zeros((n, n))
    for column in range(n):
        for i in range(column, n):
            entry = 1.0 if i == column else 0.0
            for k in range(column, i):
                entry -= lower[i, k] * inverse[k, column]
            inverse[i, column] = entry / lower[i, i]
        for i in range(n - 1, -1, -1):
            entry = inverse[i, column]
            for k in range(i + 1, n):
                entry -= lower[k, i] * inverse[k, column]
            inverse[i, column] = entry / lower[i, i]
    return inverse, True


@kernel(fastmath=True, inline="always")
def hals_row(products, system, n_sweeps, row):
    """Some sweeps over the components of one row, in place: min u V uᵀ / 2 − u·products, u ≥ 0."""
    for _ in range(n_sweeps):
        for r in range(system.shape[0]):
            slope = np.float64(products[r])
            for s in range(system.shape[0]):
                slope -= row[s] * system[r, s]
            if system[r, r] > 0.0:
                row[r] = max(0.0, row[r] + slope / system[r, r])


@kernel(fastmath=True)
def hals_rows(products, system, weights, n_sweeps, rows):
    """Nonnegative least squares of each row, some sweeps over its components, in place.

    Minimises u V uᵀ / 2 − u·products[i] over u ≥ 0, from u = rows[i] ∗ weights, one component at a
    time (Cichocki, Phan 2009).
    """
    n_components = system.shape[0]
    row = np.empty(n_components, np.float64)
    for i in range(rows.shape[0]):
        for r in range(n_components):
            row[r] = rows[i, r] * weights[r]
        hals_row(products[i], system, n_sweeps, row)
        for r in range(n_components):
            rows[i, r] = row[r]
