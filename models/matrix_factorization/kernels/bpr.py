"""BPR: SGD over triples (user, seen, unseen), the seen one scored above the other.

For a triple (i, j, n) of weight c the difference of scores is x = b_j − b_n + ⟨w_i, h_j − h_n⟩.
This is descent on c (−ln σ(x) + γ/2 (‖w_i‖² + ‖h_j‖² + ‖h_n‖² + b_j² + b_n²)), with the old w_i in
all lines and s = c σ(−x):

    w_i ← w_i + ε_i (s (h_j − h_n) − c γ w_i)
    h_j ← h_j + ε_j (s w_i − c γ h_j)            b_j ← b_j + ε_j (s − c γ b_j)
    h_n ← h_n − ε_n (s w_i + c γ h_n)            b_n ← b_n − ε_n (s + c γ b_n)

with ε, and its form by AdaGrad, as in `sgd`. The bias of a user would cancel, so there is none.

The unseen item of a triple is drawn from words that are numbered, not from a stream: attempt a of
user i and seen item j in epoch m hashes (seed, m, i, j, a). A triple's draw so depends on nothing
that was drawn before it, and on which rank it is drawn only as far as ranks offer other items.

Source: Rendle, Freudenthaler, Gantner, Schmidt-Thieme, "BPR: Bayesian Personalized Ranking from
Implicit Feedback" (UAI 2009), §4 and Fig. 4.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import add, add_scaled, load_all, multiply, store_all, sum_of, zeros
from daskpart._floor.prefetch import prefetch_line

from .sgd import FLOATS_PER_CACHE_LINE, LINE_BYTES, RATINGS_AHEAD, fetch_ahead, log_loss, project

ATTEMPTS = 16
"""Draws before a triple is given up: its user has seen nearly all that is on offer."""


@kernel(internal=True)
def _unseen(word, candidates, begin, end, seen_items, first_seen, last_seen):
    """An item of candidates[begin:end] that is not in the sorted seen_items[first:last], or −1."""
    size = np.uint64(end - begin)
    for attempt in range(ATTEMPTS):
        drawn = mixed_word(word + np.uint64(attempt + 1) * GOLDEN) >> np.uint64(32)
        item = candidates[begin + np.int64((drawn * size) >> np.uint64(32))]
        low, high = first_seen, last_seen
        while low < high:
            middle = (low + high) // 2
            if seen_items[middle] < item:
                low = middle + 1
            else:
                high = middle
        if low == last_seen or seen_items[low] != item:
            return item
    return -1


@kernel
def draw_unseen(
    rows, columns, user_ids, item_ids, word, candidates, begin, end, seen_pointer, seen_items, drawn
):  # fmt: skip
    """Put the unseen item of each triple into `drawn`, −1 where there is none.

    Parameters
    ----------
    rows, columns : int32 ndarray of shape (n,)
        Local positions of the user and of the item seen.
    user_ids, item_ids : int64 ndarray
        Global ids of both sides, which the draw is numbered by.
    word : uint64
        Of seed and epoch.
    candidates : int32 ndarray
        Items on offer: positions ``candidates[begin:end]``.
    seen_pointer, seen_items : int64 ndarray, int32 ndarray
        For each user the positions of all that it has seen, rising.
    drawn : int32 ndarray of shape (n,)
    """
    for n in range(rows.size):
        i, j = rows[n], columns[n]
        own = mixed_word(word + np.uint64(user_ids[i] + 1) * GOLDEN)
        own = mixed_word(own + np.uint64(item_ids[j] + 1) * GOLDEN)
        drawn[n] = _unseen(
            own, candidates, begin, end, seen_items, seen_pointer[i], seen_pointer[i + 1]
        )


@kernel(internal=True)
def _fetch_unseen(item, row):
    """Have the row of an unseen item fetched."""
    for line in range(item.shape[1] // FLOATS_PER_CACHE_LINE):
        prefetch_line(item, row, line)


@kernel(inline="always")
def _update_rows(addresses, rows, keeps, along, lanes, n_bytes):
    """Each row kept by its share; the user's along h_j − h_n, h_j along the user's, h_n against it.

    The old rows in all lines.
    """
    held, line = zeros(lanes[0]), zeros(lanes[1])
    _update_lanes(held, addresses, rows, keeps, along)
    for place in range(4 * len(lanes[0]), n_bytes, LINE_BYTES):
        there = (addresses[0] + place, addresses[1] + place, addresses[2] + place)
        _update_lanes(line, there, _load_rows(line, there), keeps, along)


@kernel(inline="always")
def _load_rows(zero, addresses):
    return (
        load_all(zero, addresses[0]), load_all(zero, addresses[1]), load_all(zero, addresses[2])
    )  # fmt: skip


@kernel(inline="always")
def _update_lanes(zero, addresses, rows, keeps, along):
    w, h, g = rows
    difference = add_scaled(h, np.float32(-1.0), g)
    store_all(addresses[0], add_scaled(add_scaled(zero, keeps[0], w), along[0], difference))
    store_all(addresses[1], add_scaled(add_scaled(zero, keeps[1], h), along[1], w))
    store_all(addresses[2], add_scaled(add_scaled(zero, keeps[2], g), -along[2], w))


@kernel(inline="always")
def _products(rows):
    """Lanes of ⟨w, h_j − h_n⟩, ⟨w, h_j⟩, ‖w‖², ‖h_j‖², ‖h_n‖², ‖h_j − h_n‖²."""
    w, h, g = rows
    difference = add_scaled(h, np.float32(-1.0), g)
    return (
        multiply(w, difference), multiply(w, h), multiply(w, w), multiply(h, h), multiply(g, g),
        multiply(difference, difference),
    )  # fmt: skip


@kernel(inline="always")
def _added(total, more):
    return (
        add(total[0], more[0]), add(total[1], more[1]), add(total[2], more[2]),
        add(total[3], more[3]), add(total[4], more[4]), add(total[5], more[5]),
    )  # fmt: skip


@kernel(inline="always")
def _sums(products):
    return (
        sum_of(products[0]), sum_of(products[1]), sum_of(products[2]), sum_of(products[3]),
        sum_of(products[4]), sum_of(products[5]),
    )  # fmt: skip


@kernel(inline="always")
def _both(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5]


@kernel(inline="always")
def _sums_of_rows(addresses, rows, lanes, n_bytes):
    """The sums of the products of three rows, those in their further lines among them."""
    sums = _sums(_products(rows))
    if n_bytes > 4 * len(lanes[0]):
        line = zeros(lanes[1])
        products = (line, line, line, line, line, line)
        for place in range(4 * len(lanes[0]), n_bytes, LINE_BYTES):
            there = (addresses[0] + place, addresses[1] + place, addresses[2] + place)
            products = _added(products, _products(_load_rows(line, there)))
        sums = _both(sums, _sums(products))
    return sums


@kernel(inline="always")
def _squared_gradients(sums, s, shrink):
    """The squared norm of each row's gradient, from the sums of their products."""
    product, seen_product, user_square, seen_square, unseen_square, difference_square = sums
    s2, cross, k2 = s * s, np.float32(2.0) * s * shrink, shrink * shrink
    unseen_product = seen_product - product
    return (
        s2 * difference_square - cross * product + k2 * user_square,
        s2 * user_square - cross * seen_product + k2 * seen_square,
        s2 * user_square + cross * unseen_product + k2 * unseen_square,
    )


@kernel(fastmath=True)
def bpr(
    lanes, rows, columns, unseen, weights, cell_weight, user, item, item_bias, user_gradient,
    item_gradient, n_components, rate, regularization, with_biases, adaptive, nonnegative,
):  # fmt: skip
    """One pass over triples; returns Σ −ln σ(x) by weight, each before its own update.

    `lanes` is of the width of `user` and `item`, in C order. `weights` holds what the event of each
    triple counts, in the loss too; c is that times `cell_weight`. A triple with ``unseen < 0`` is
    left out.
    """
    held = zeros(lanes[0])
    n_bytes = 4 * user.shape[1]
    first_user, first_item = user.ctypes.data, item.ctypes.data
    share = np.float32(1.0) / np.float32(n_components)
    one, loss = np.float32(1.0), 0.0
    for t in range(rows.size):
        ahead = min(t + RATINGS_AHEAD, rows.size - 1)
        fetch_ahead(user, item, rows, columns, ahead)
        _fetch_unseen(item, max(unseen[ahead], 0))
        i, j, n = rows[t], columns[t], unseen[t]
        if n < 0:
            continue
        addresses = (
            first_user + np.int64(i) * n_bytes,
            first_item + np.int64(j) * n_bytes,
            first_item + np.int64(n) * n_bytes,
        )
        three = _load_rows(held, addresses)
        sums = _sums_of_rows(addresses, three, lanes, n_bytes)
        x = sums[0]
        if with_biases:
            x += item_bias[j] - item_bias[n]
        c = cell_weight * weights[t]
        own_loss, s = log_loss(x, c)
        loss += weights[t] * own_loss
        shrink = c * regularization
        user_rate, seen_rate, unseen_rate = rate, rate, rate
        if adaptive:
            user_rate = rate / np.sqrt(user_gradient[i])
            seen_rate = rate / np.sqrt(item_gradient[j])
            unseen_rate = rate / np.sqrt(item_gradient[n])
        if with_biases:
            item_bias[j] += seen_rate * (s - shrink * item_bias[j])
            item_bias[n] -= unseen_rate * (s + shrink * item_bias[n])
        _update_rows(
            addresses, three,
            (one - user_rate * shrink, one - seen_rate * shrink, one - unseen_rate * shrink),
            (user_rate * s, seen_rate * s, unseen_rate * s), lanes, n_bytes,
        )  # fmt: skip
        if nonnegative:
            project(user, i)
            project(item, j)
            project(item, n)
        if adaptive:
            of_user, of_seen, of_unseen = _squared_gradients(sums, s, shrink)
            user_gradient[i] += share * of_user
            item_gradient[j] += share * of_seen
            item_gradient[n] += share * of_unseen
    return loss
