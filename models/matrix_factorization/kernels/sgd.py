"""SGD over ratings: the inner loop of matrix factorization, one pass over a run of ratings.

For a rating r_ij the error is e = r_ij − (μ + b_i + b_j + ⟨w_i, h_j⟩) and, with the old w_i in both
lines,

    w_i ← w_i + ε_i (e·h_j − γ w_i)            b_i ← b_i + ε_i (e − γ b_i)
    h_j ← h_j + ε_j (e·w_i − γ h_j)            b_j ← b_j + ε_j (e − γ b_j)

This is descent on eq. 1 of Abubaker et al. (η-PASGD, §2.1); eq. 2 and 3 as printed have the sign of
the regularisation wrong. ε_i = ε for a plain rate, and ε / √G_i for AdaGrad per row, where G_i sums
the mean squared gradient of the row. The gradient of a rating of weight c is multiplied by c, its
part of γ as well.

Of ratings that are yes (1) or no (0) the error may be e = r_ij − σ(r̂_ij) instead, r̂_ij being what
is subtracted above: the same lines then descend on −ln σ(± r̂_ij) + γ/2 (…), + for yes. Which of the
two it is is part of a kernel's type, too: who needs one does not compile the other.

Both rows of a rating are read once, into registers, and written back from there:

    w_i  │ 16, 32 or 64 floats, held │ line │ line │ …    lines behind those that are held, if any,
    h_j  │ 16, 32 or 64 floats, held │ line │ line │ …    are read for the product and to update

They are padded with zeros to whole cache lines (`padded_width`), and zeros stay zero under the
update. What is held is part of the type (`lanes_of`), so there are three compilations, which serve
every number of components.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import (
    add,
    add_scaled,
    load_all,
    multiply,
    store_all,
    sum_of,
    template_of,
    zeros,
)
from daskpart._floor.prefetch import prefetch_line

FLOATS_PER_CACHE_LINE = 16
RATINGS_AHEAD = 8
LINE_BYTES = 4 * FLOATS_PER_CACHE_LINE
_HELD = (64, 32, FLOATS_PER_CACHE_LINE)

Lanes = tuple[tuple[np.float32, ...], tuple[np.float32, ...]]


def padded_width(n_components: int) -> int:
    """Floats in a stored factor row: `n_components` rounded up to whole cache lines."""
    lines = -(-n_components // FLOATS_PER_CACHE_LINE)
    return lines * FLOATS_PER_CACHE_LINE


def lanes_of(width: int) -> Lanes:
    """For rows of `width` floats, what the kernels hold of them and a line, as tuples of zeros."""
    held = next(most for most in _HELD if most <= width)
    return template_of(np.float32, held), template_of(np.float32, FLOATS_PER_CACHE_LINE)


@kernel(internal=True)
def project(factors, row):
    """Put 0 in place of what is below it."""
    for f in range(factors.shape[1]):
        factors[row, f] = max(factors[row, f], np.float32(0.0))


@kernel(internal=True)
def fetch_ahead(user, item, rows, columns, n):
    """Have the rows of a later rating fetched: in one loop, as two take longer."""
    for line in range(user.shape[1] // FLOATS_PER_CACHE_LINE):
        prefetch_line(user, rows[n], line)
        prefetch_line(item, columns[n], line)


@kernel(inline="always")
def update_rows(w_address, h_address, w, h, keep_w, along_h, keep_h, along_w, lanes, n_bytes):
    """w ← keep_w·w + along_h·h and h ← keep_h·h + along_w·w, with the old rows in both."""
    held, line = zeros(lanes[0]), zeros(lanes[1])
    store_all(w_address, add_scaled(add_scaled(held, keep_w, w), along_h, h))
    store_all(h_address, add_scaled(add_scaled(held, keep_h, h), along_w, w))
    for place in range(4 * len(lanes[0]), n_bytes, LINE_BYTES):
        own_w, own_h = load_all(line, w_address + place), load_all(line, h_address + place)
        store_all(w_address + place, add_scaled(add_scaled(line, keep_w, own_w), along_h, own_h))
        store_all(h_address + place, add_scaled(add_scaled(line, keep_h, own_h), along_w, own_w))


@kernel(inline="always")
def log_loss(x, c):
    """−ln σ(x), and c σ(−x), both from what cannot overflow; the loss to 6e-8.

    log1p would be exact, and take as long as all the rest of a step.
    """
    one = np.float32(1.0)
    small = np.exp(-abs(x))
    loss = np.log(one + small) + max(-x, np.float32(0.0))
    return loss, c * (one if x < 0.0 else small) / (one + small)


@kernel(internal=True, fastmath=True)
def _error_and_loss(difference, rating, logistic):
    """e of a rating whose prediction it exceeds by `difference`, and what it adds to the loss."""
    if logistic is None:
        return difference, difference * difference
    sign = np.float32(2.0) * rating - np.float32(1.0)
    loss, error = log_loss(sign * (rating - difference), sign)
    return error, loss


@kernel(fastmath=True)
def sgd_fixed_rate(
    lanes, rows, columns, values, start, stop, n_components, user, item, user_bias, item_bias,
    user_gradient, item_gradient, mean, rate, regularization, with_biases, weights, nonnegative,
    logistic,
):  # fmt: skip
    """One pass over ratings[start:stop] at one rate; returns the loss, each before its own update.

    `lanes` is of the width of `user` and `item`, in C order. `weights` holds c of each rating, or
    nothing: then all are 1. `nonnegative`: factors below 0 become 0 after each update. `logistic`:
    None for squared errors, True for ratings that are 1 or 0.
    `n_components`, `user_gradient` and `item_gradient` are taken, and left alone, so that both
    kernels are called alike.
    """
    held, line = zeros(lanes[0]), zeros(lanes[1])
    n_bytes = 4 * user.shape[1]
    first_user, first_item = user.ctypes.data, item.ctypes.data
    c = np.float32(1.0)
    loss = 0.0
    for n in range(start, stop):
        i = rows[n]
        j = columns[n]
        fetch_ahead(user, item, rows, columns, min(n + RATINGS_AHEAD, stop - 1))
        w_address = first_user + np.int64(i) * n_bytes
        h_address = first_item + np.int64(j) * n_bytes
        w, h = load_all(held, w_address), load_all(held, h_address)
        product = sum_of(multiply(w, h))
        if n_bytes > 4 * len(lanes[0]):
            products = line
            for place in range(4 * len(lanes[0]), n_bytes, LINE_BYTES):
                own_w, own_h = load_all(line, w_address + place), load_all(line, h_address + place)
                products = add(products, multiply(own_w, own_h))
            product += sum_of(products)
        error = values[n] - mean - product
        if weights.size:
            c = weights[n]
        step = c * rate
        if with_biases:
            error -= user_bias[i] + item_bias[j]
        error, own_loss = _error_and_loss(error, values[n], logistic)
        if with_biases:
            user_bias[i] += step * (error - regularization * user_bias[i])
            item_bias[j] += step * (error - regularization * item_bias[j])
        loss += c * own_loss
        keep, along = np.float32(1.0) - step * regularization, step * error
        update_rows(w_address, h_address, w, h, keep, along, keep, along, lanes, n_bytes)
        if nonnegative:
            project(user, i)
            project(item, j)
    return loss


@kernel(inline="always")
def _product_and_squares(w_address, h_address, w, h, lanes, n_bytes):
    """⟨w, h⟩, ‖w‖² and ‖h‖²."""
    product = sum_of(multiply(w, h))
    user_square, item_square = sum_of(multiply(w, w)), sum_of(multiply(h, h))
    if n_bytes > 4 * len(lanes[0]):
        line = zeros(lanes[1])
        products = user_squares = item_squares = line
        for place in range(4 * len(lanes[0]), n_bytes, LINE_BYTES):
            own_w, own_h = load_all(line, w_address + place), load_all(line, h_address + place)
            products = add(products, multiply(own_w, own_h))
            user_squares = add(user_squares, multiply(own_w, own_w))
            item_squares = add(item_squares, multiply(own_h, own_h))
        product += sum_of(products)
        user_square += sum_of(user_squares)
        item_square += sum_of(item_squares)
    return product, user_square, item_square


@kernel(fastmath=True)
def sgd_adagrad(
    lanes, rows, columns, values, start, stop, n_components, user, item, user_bias, item_bias,
    user_gradient, item_gradient, mean, rate, regularization, with_biases, weights, nonnegative,
    logistic,
):  # fmt: skip
    """Like `sgd_fixed_rate`, with AdaGrad per row: rate / √(the row's gradient sum).

    The squared gradient of w is ‖e·h − γw‖² = e²‖h‖² − 2eγ⟨w, h⟩ + γ²‖w‖²: its sums are taken with
    the product, so that nothing waits for the error but the update itself.
    """
    held = zeros(lanes[0])
    n_bytes = 4 * user.shape[1]
    first_user, first_item = user.ctypes.data, item.ctypes.data
    share = np.float32(1.0) / np.float32(n_components)
    c = np.float32(1.0)
    loss = 0.0
    for n in range(start, stop):
        i = rows[n]
        j = columns[n]
        fetch_ahead(user, item, rows, columns, min(n + RATINGS_AHEAD, stop - 1))
        w_address = first_user + np.int64(i) * n_bytes
        h_address = first_item + np.int64(j) * n_bytes
        w, h = load_all(held, w_address), load_all(held, h_address)
        product, user_square, item_square = _product_and_squares(
            w_address, h_address, w, h, lanes, n_bytes
        )
        error = values[n] - mean - product
        user_rate = rate / np.sqrt(user_gradient[i])
        item_rate = rate / np.sqrt(item_gradient[j])
        if weights.size:
            c = weights[n]
            user_rate *= c
            item_rate *= c
        if with_biases:
            error -= user_bias[i] + item_bias[j]
        error, own_loss = _error_and_loss(error, values[n], logistic)
        if with_biases:
            user_bias[i] += user_rate * (error - regularization * user_bias[i])
            item_bias[j] += item_rate * (error - regularization * item_bias[j])
        loss += c * own_loss
        update_rows(
            w_address, h_address, w, h,
            np.float32(1.0) - user_rate * regularization, user_rate * error,
            np.float32(1.0) - item_rate * regularization, item_rate * error, lanes, n_bytes,
        )  # fmt: skip
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
    return loss


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
