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

from .sgd import project

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


@kernel(internal=True, fastmath=True)
def _products(user, seen, unseen):
    """⟨w, h_j − h_n⟩, ⟨w, h_j⟩, ‖w‖², ‖h_j‖², ‖h_n‖², ‖h_j − h_n‖²."""
    product = np.float32(0.0)
    seen_product = np.float32(0.0)
    user_square = np.float32(0.0)
    seen_square = np.float32(0.0)
    unseen_square = np.float32(0.0)
    difference_square = np.float32(0.0)
    for f in range(user.size):
        w, h, g = user[f], seen[f], unseen[f]
        product += w * (h - g)
        seen_product += w * h
        user_square += w * w
        seen_square += h * h
        unseen_square += g * g
        difference_square += (h - g) * (h - g)
    return product, seen_product, user_square, seen_square, unseen_square, difference_square


@kernel(fastmath=True)
def bpr(
    rows, columns, unseen, weights, user, item, item_bias, user_gradient, item_gradient,
    n_components, rate, regularization, with_biases, adaptive, nonnegative,
):  # fmt: skip
    """One pass over triples; returns Σ −ln σ(x), each before its own update.

    `weights` holds c of each triple; one with ``unseen < 0`` is left out.
    """
    width = user.shape[1]
    share = np.float32(1.0) / np.float32(n_components)
    one = np.float32(1.0)
    loss = 0.0
    for t in range(rows.size):
        i, j, n = rows[t], columns[t], unseen[t]
        if n < 0:
            continue
        product, seen_product, user_square, seen_square, unseen_square, difference_square = (
            _products(user[i], item[j], item[n])
        )
        x = product
        if with_biases:
            x += item_bias[j] - item_bias[n]
        loss += np.log1p(np.exp(-abs(x))) + max(-x, np.float32(0.0))
        c = weights[t]
        s = c / (one + np.exp(x)) if x < 0.0 else c * np.exp(-x) / (one + np.exp(-x))
        shrink = c * regularization
        user_rate, seen_rate, unseen_rate = rate, rate, rate
        if adaptive:
            user_rate = rate / np.sqrt(user_gradient[i])
            seen_rate = rate / np.sqrt(item_gradient[j])
            unseen_rate = rate / np.sqrt(item_gradient[n])
        if with_biases:
            item_bias[j] += seen_rate * (s - shrink * item_bias[j])
            item_bias[n] -= unseen_rate * (s + shrink * item_bias[n])
        for f in range(width):
            w, h, g = user[i, f], item[j, f], item[n, f]
            user[i, f] = w + user_rate * (s * (h - g) - shrink * w)
            item[j, f] = h + seen_rate * (s * w - shrink * h)
            item[n, f] = g - unseen_rate * (s * w + shrink * g)
        if nonnegative:
            project(user, i)
            project(item, j)
            project(item, n)
        if adaptive:  # the squared norm of each row's gradient, from the sums above
            s2, cross, k2 = s * s, np.float32(2.0) * s * shrink, shrink * shrink
            unseen_product = seen_product - product
            user_gradient[i] += share * (
                s2 * difference_square - cross * product + k2 * user_square
            )
            item_gradient[j] += share * (s2 * user_square - cross * seen_product + k2 * seen_square)
            item_gradient[n] += share * (
                s2 * user_square + cross * unseen_product + k2 * unseen_square
            )
    return loss
