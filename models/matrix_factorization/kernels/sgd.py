"""SGD over ratings: the inner loop of matrix factorization, one pass over a run of ratings.

For a rating r_ij the error is e = r_ij − (μ + b_i + b_j + ⟨w_i, h_j⟩) and, with the old w_i in both
lines,

    w_i ← w_i + ε_i (e·h_j − γ w_i)            b_i ← b_i + ε_i (e − γ b_i)
    h_j ← h_j + ε_j (e·w_i − γ h_j)            b_j ← b_j + ε_j (e − γ b_j)

This is descent on eq. 1 of Abubaker et al. (η-PASGD, §2.1); eq. 2 and 3 as printed have the sign of
the regularisation wrong. ε_i = ε for a plain rate, and ε / √G_i for AdaGrad per row, where G_i sums
the mean squared gradient of the row. The gradient of a rating of weight c is multiplied by c, its
part of γ as well.

Rows are padded with zeros to whole cache lines (`padded_width`): the inner loops then run over full
vectors, and zeros stay zero under the update. The loop bound is the array's own width, so one
compilation serves every number of components; a constant bound made LLVM unroll instead of
vectorise and ran at half the speed for 32 components.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart._floor.prefetch import prefetch_line

FLOATS_PER_CACHE_LINE = 16
RATINGS_AHEAD = 8


def padded_width(n_components: int) -> int:
    """Floats in a stored factor row: `n_components` rounded up to whole cache lines."""
    lines = -(-n_components // FLOATS_PER_CACHE_LINE)
    return lines * FLOATS_PER_CACHE_LINE


@kernel(internal=True)
def project(factors, row):
    """Put 0 in place of what is below it."""
    for f in range(factors.shape[1]):
        factors[row, f] = max(factors[row, f], np.float32(0.0))


@kernel(fastmath=True)
def sgd_fixed_rate(
    rows, columns, values, start, stop, n_components, user, item, user_bias, item_bias,
    user_gradient, item_gradient, mean, rate, regularization, with_biases, weights, nonnegative,
):  # fmt: skip
    """One pass over ratings[start:stop] at one rate; returns the sum of squared errors before each
    update.

    `weights` holds c of each rating, or nothing: then all are 1. `nonnegative`: factors below 0
    become 0 after each update. `n_components`, `user_gradient` and `item_gradient` are taken, and
    left alone, so that both kernels are called alike.
    """
    width = user.shape[1]
    c = np.float32(1.0)
    squared_error = 0.0
    for n in range(start, stop):
        i = rows[n]
        j = columns[n]
        ahead = min(n + RATINGS_AHEAD, stop - 1)
        for line in range(width // FLOATS_PER_CACHE_LINE):
            prefetch_line(user, rows[ahead], line)
            prefetch_line(item, columns[ahead], line)
        product = np.float32(0.0)
        for f in range(width):
            product += user[i, f] * item[j, f]
        error = values[n] - mean - product
        if weights.size:
            c = weights[n]
        step = c * rate
        if with_biases:
            error -= user_bias[i] + item_bias[j]
            user_bias[i] += step * (error - regularization * user_bias[i])
            item_bias[j] += step * (error - regularization * item_bias[j])
        squared_error += c * (error * error)
        for f in range(width):
            w = user[i, f]
            h = item[j, f]
            user[i, f] = w + step * (error * h - regularization * w)
            item[j, f] = h + step * (error * w - regularization * h)
        if nonnegative:
            project(user, i)
            project(item, j)
    return squared_error


@kernel(fastmath=True)
def sgd_adagrad(
    rows, columns, values, start, stop, n_components, user, item, user_bias, item_bias,
    user_gradient, item_gradient, mean, rate, regularization, with_biases, weights, nonnegative,
):  # fmt: skip
    """Like `sgd_fixed_rate`, with AdaGrad per row: rate / √(the row's gradient sum).

    The squared gradient of w is ‖e·h − γw‖² = e²‖h‖² − 2eγ⟨w, h⟩ + γ²‖w‖²: its sums are taken in
    the first loop, so that nothing waits for the error but the update itself.
    """
    width = user.shape[1]
    share = np.float32(1.0) / np.float32(n_components)
    c = np.float32(1.0)
    squared_error = 0.0
    for n in range(start, stop):
        i = rows[n]
        j = columns[n]
        ahead = min(n + RATINGS_AHEAD, stop - 1)
        for line in range(width // FLOATS_PER_CACHE_LINE):
            prefetch_line(user, rows[ahead], line)
            prefetch_line(item, columns[ahead], line)
        product = np.float32(0.0)
        user_square = np.float32(0.0)
        item_square = np.float32(0.0)
        for f in range(width):
            w = user[i, f]
            h = item[j, f]
            product += w * h
            user_square += w * w
            item_square += h * h
        error = values[n] - mean - product
        user_rate = rate / np.sqrt(user_gradient[i])
        item_rate = rate / np.sqrt(item_gradient[j])
        if weights.size:
            c = weights[n]
            user_rate *= c
            item_rate *= c
        if with_biases:
            error -= user_bias[i] + item_bias[j]
            user_bias[i] += user_rate * (error - regularization * user_bias[i])
            item_bias[j] += item_rate * (error - regularization * item_bias[j])
        squared_error += c * (error * error)
        user_keep = np.float32(1.0) - user_rate * regularization
        item_keep = np.float32(1.0) - item_rate * regularization
        for f in range(width):
            w = user[i, f]
            h = item[j, f]
            user[i, f] = user_keep * w + user_rate * error * h
            item[j, f] = item_keep * h + item_rate * error * w
        e2 = error * error
        cross = np.float32(2.0) * error * regularization * product
        g2 = regularization * regularization
        if weights.size:
            e2, cross, g2 = c * c * e2, c * c * cross, c * c * g2
        user_gradient[i] += share * (e2 * item_square - cross + g2 * user_square)
        item_gradient[j] += share * (e2 * user_square - cross + g2 * item_square)
        if nonnegative:
            project(user, i)
            project(item, j)
    return squared_error


@kernel
def counting_sort(keys, n_keys, sequence):
    """Order `sequence` (positions into `keys`) by key, stable, in two passes.

    Returns the ordered positions and the pointer of each key into them, int64 of shape (n_keys +
    1,).
    """
    pointer = np.zeros(n_keys + 1, np.int64)
    for key in keys:
        pointer[key + 1] += 1
    for k in range(n_keys):
        pointer[k + 1] += pointer[k]
    place = pointer[:-1].copy()
    ordered = np.empty_like(sequence)
    for position in sequence:
        key = keys[position]
        ordered[place[key]] = position
        place[key] += 1
    return ordered, pointer


@kernel
def pack_rows(factors, bias, gradient, positions, n_components, with_bias, with_gradient):
    """Copy rows into one message: components, then bias and gradient sum where in use."""
    words = n_components + int(with_bias) + int(with_gradient)
    message = np.empty((positions.size, words), np.float32)
    for m in range(positions.size):
        p = positions[m]
        for f in range(n_components):
            message[m, f] = factors[p, f]
        if with_bias:
            message[m, n_components] = bias[p]
        if with_gradient:
            message[m, words - 1] = gradient[p]
    return message


@kernel
def unpack_rows(
    message, factors, bias, gradient, positions, n_components, with_bias, with_gradient
):
    """Write a message made by `pack_rows` into place."""
    last = message.shape[1] - 1
    for m in range(positions.size):
        p = positions[m]
        for f in range(n_components):
            factors[p, f] = message[m, f]
        if with_bias:
            bias[p] = message[m, n_components]
        if with_gradient:
            gradient[p] = message[m, last]


@kernel
def add_weighted(total, slots, message, weights):
    """total[slots] += weights · message, row by row; the slots of one message are distinct."""
    for m in range(slots.size):
        s = slots[m]
        for f in range(message.shape[1]):
            total[s, f] += weights[m] * message[m, f]
