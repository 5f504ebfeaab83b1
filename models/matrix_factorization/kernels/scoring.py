"""Kernels that use factors without changing them: predictions of pairs, and equations of new rows.

    r̂_ij = μ + b_i + b_j + ⟨w_i, h_j⟩

A new row w with the ratings r_j, j ∈ J, minimises eq. 1 with H held fixed,
Σ_J (r_j − μ − b_j − b − ⟨w, h_j⟩)² + γ |J| (‖w‖² + b²), since eq. 1 counts γ once a rating:

    (Σ_J x_j x_jᵀ + γ |J| I) [w, b] = Σ_J (r_j − μ − b_j) x_j          x_j = [h_j, 1]
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel


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


@kernel
def normal_equations(pointer, columns, residuals, item, with_bias, ridge, left, right):
    """Fill the equations of each new row: `left` (n, D, D), `right` (n, D), both zero at the start.

    `residuals` are r_j − μ − b_j in float64; D is F, or F + 1 with a bias. A row without ratings
    gets the identity, so that its solution is zero.
    """
    n_components = item.shape[1]
    for row in range(pointer.shape[0] - 1):
        begin = pointer[row]
        end = pointer[row + 1]
        for n in range(begin, end):
            j = columns[n]
            for f in range(n_components):
                h = np.float64(item[j, f])
                right[row, f] += residuals[n] * h
                for g in range(f + 1):
                    left[row, f, g] += h * item[j, g]
                if with_bias:
                    left[row, n_components, f] += h
            if with_bias:
                right[row, n_components] += residuals[n]
                left[row, n_components, n_components] += 1.0
        diagonal = ridge * (end - begin) if end > begin else 1.0
        for f in range(left.shape[1]):
            left[row, f, f] += diagonal
            for g in range(f):
                left[row, g, f] = left[row, f, g]
