"""Kernels that use factors without changing them: predictions of pairs, and equations of new rows.

    r̂_ij = μ + b_i + b_j + ⟨w_i, h_j⟩

A new row w with the ratings r_j, j ∈ J, minimises eq. 1 with H held fixed,
Σ_J (r_j − μ − b_j − b − ⟨w, h_j⟩)² + γ |J| (‖w‖² + b²), since eq. 1 counts γ once a rating:

    (Σ_J x_j x_jᵀ + γ |J| I) [w, b] = Σ_J (r_j − μ − b_j) x_j          x_j = [h_j, 1]
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel

from .cholesky import cholesky, substitute


@kernel(fastmath=True)
def predict_pairs(rows, columns, user, item, user_bias, item_bias, mean, predicted):
    """Fill `predicted[n]` with the prediction for row `rows[n]` and column `columns[n]`."""
    for n in range(rows.shape[0]):
        i = rows[n]
        j = columns[n]
        product = np.float32(0.0)
        for f in range(user.shape[1]):
            product += user[i, f] * item[j, f]
        predicted[n] = mean + user_bias[i] + item_bias[j] + product


@kernel(fastmath=True)
def normal_equations(pointer, columns, residuals, weights, known, ridge, left, right):
    """Fill the equations of each new row: `left` (n, D, D), `right` (n, D), both zero at the start.

    `residuals` are r_j − μ − b_j, `weights` c_j, and `known` holds x_j, (N, D), all in float64. A
    row without ratings gets the identity, so that its solution is zero. Four ratings at a time:
    each entry of `left` is then read and written a quarter as often.
    """
    n_unknowns = known.shape[1]
    for row in range(pointer.shape[0] - 1):
        begin, end = pointer[row], pointer[row + 1]
        own, sums, weight = left[row], right[row], 0.0
        whole = begin + (end - begin) // 4 * 4
        for n in range(begin, whole, 4):
            x0, x1 = known[columns[n]], known[columns[n + 1]]
            x2, x3 = known[columns[n + 2]], known[columns[n + 3]]
            r0, r1, r2, r3 = residuals[n], residuals[n + 1], residuals[n + 2], residuals[n + 3]
            c0, c1, c2, c3 = weights[n], weights[n + 1], weights[n + 2], weights[n + 3]
            weight += c0 + c1 + c2 + c3
            for f in range(n_unknowns):
                a0, a1, a2, a3 = c0 * x0[f], c1 * x1[f], c2 * x2[f], c3 * x3[f]
                sums[f] += r0 * a0 + r1 * a1 + r2 * a2 + r3 * a3
                line = own[f]
                for g in range(f + 1):
                    line[g] += a0 * x0[g] + a1 * x1[g] + a2 * x2[g] + a3 * x3[g]
        for n in range(whole, end):
            x, residual, c = known[columns[n]], residuals[n], weights[n]
            weight += c
            for f in range(n_unknowns):
                line, scale = own[f], c * x[f]
                sums[f] += residual * scale
                for g in range(f + 1):
                    line[g] += scale * x[g]
        diagonal = ridge * weight if end > begin else 1.0
        for f in range(n_unknowns):
            own[f, f] += diagonal
            for g in range(f):
                own[g, f] = own[f, g]


@kernel(fastmath=True)
def solve_equations(left, right, solution):
    """Solve ``left[row] x = right[row]`` for each row by Cholesky; NaN where a row is singular."""
    lower = np.empty(left.shape[1:])
    for row in range(left.shape[0]):
        for f in range(right.shape[1]):
            solution[row, f] = right[row, f]
            for g in range(right.shape[1]):
                lower[f, g] = left[row, f, g]
        if cholesky(lower):
            substitute(lower, solution[row])
        else:
            solution[row] = np.nan
