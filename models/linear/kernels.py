"""Kernels of linear models: sparse rows against weights that are scaled and thresholded lazily.

    a step of the whole vector                        what is done instead
    w ← (w − η g) / (1 + η λ₂)                        v ← v − (η / a) g  where g has entries,
        w = a · v                                     a ← a / (1 + η λ₂)
    then |w_j| ← max(0, |w_j| − η λ₁)                 T ← T + η λ₁ / a;  v_j is behind by T − last_j

so a step touches only the coordinates of its batch. Thresholds add up (soft(soft(v, s), t) =
soft(v, s + t)), so the delayed ones are exact; `fold` brings all up to date. Within a step: the
gradient, the threshold, the shrinking, which is the proximal step of the elastic net.

Weights lie flat: feature j, output c at ``j · n_outputs + c``, and intercepts behind the last
feature, which are neither scaled nor penalised. ``scalars`` holds a and T.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel

from .lazy_adagrad import adapt, current, soft
from .losses import slopes_of

SCALE, THRESHOLD = range(2)
_SMALLEST_SCALE = 1e-6
Array = NDArray[Any]


@kernel(internal=True, _nrt=False)
def _scores(
    begin: int, end: int, indices: Array, data: Array, l1: float, l2: float, v: Array, last: Array,
    squares: Array, scalars: Array, scores: Array,
) -> None:  # fmt: skip
    """Scores of one row."""
    n_outputs = len(scores)
    behind = len(v) - n_outputs
    scale, threshold = scalars[SCALE], scalars[THRESHOLD]
    if n_outputs == 1:
        total = 0.0
        if len(squares):
            for p in range(np.uint64(begin), np.uint64(end)):
                j = np.uint64(indices[p])
                total += data[p] * current(v[j], threshold - last[j], squares[j], l1, l2)
        elif len(last):
            for p in range(np.uint64(begin), np.uint64(end)):
                j = np.uint64(indices[p])
                total += data[p] * soft(v[j], threshold - last[j])
        else:  # unsigned numbers, as negative ones would be counted from the end
            for p in range(np.uint64(begin), np.uint64(end)):
                total += data[p] * v[np.uint64(indices[p])]
        scores[0] = scale * total + v[behind]
        return
    for c in range(n_outputs):
        scores[c] = 0.0
    for p in range(begin, end):
        x, first = data[p], n_outputs * indices[p]
        if len(squares):
            for i in range(first, first + n_outputs):
                scores[i - first] += x * current(v[i], threshold - last[i], squares[i], l1, l2)
        elif len(last):
            for c in range(n_outputs):
                scores[c] += x * soft(v[first + c], threshold - last[first + c])
        else:
            for c in range(n_outputs):
                scores[c] += x * v[first + c]
    for c in range(n_outputs):
        scores[c] = scale * scores[c] + v[behind + c]


@kernel(internal=True, _nrt=False)
def _move(i: int, change: float, v: Array, last: Array, scalars: Array) -> None:
    """v_i ← v_i − change, brought up to date first."""
    if len(last):
        v[i] = soft(v[i], scalars[THRESHOLD] - last[i])
        last[i] = scalars[THRESHOLD]
    v[i] -= change


@kernel(internal=True, _nrt=False)
def _end_step(
    rate: float, l1: float, l2: float, n_outputs: int, v: Array, last: Array, scalars: Array
) -> None:
    scalars[THRESHOLD] += rate * l1 / scalars[SCALE]
    scalars[SCALE] /= 1.0 + rate * l2
    if scalars[SCALE] < _SMALLEST_SCALE:
        _fold(n_outputs, v, last, scalars)


@kernel(internal=True, _nrt=False)
def _fold(n_outputs: int, v: Array, last: Array, scalars: Array) -> None:
    scale = scalars[SCALE]
    if len(last):
        for i in range(len(v) - n_outputs):
            v[i] = scale * soft(v[i], scalars[THRESHOLD] - last[i])
            last[i] = 0.0
    elif scale != 1.0:
        for i in range(len(v) - n_outputs):
            v[i] *= scale
    scalars[SCALE], scalars[THRESHOLD] = 1.0, 0.0


@kernel
def fold(
    l1: float, l2: float, n_outputs: int, v: Array, last: Array, squares: Array, scalars: Array
) -> None:
    """Bring all weights up to date: afterwards ``v`` is what it stands for."""
    if len(squares) == 0:
        _fold(n_outputs, v, last, scalars)
        return
    for i in range(len(last)):
        v[i] = current(v[i], scalars[THRESHOLD] - last[i], squares[i], l1, l2)
        last[i] = 0.0
    scalars[THRESHOLD] = 0.0


@kernel
def run_batches(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, order: Array,
    batch: int, rates: Array, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    v: Array, last: Array, scalars: Array, scores: Array,
) -> float:  # fmt: skip
    """All steps of an epoch of one rank alone; gives the sum of losses, each before its step.

    Rows are added to the weights one by one: no gradient is made. `scores` is room for a batch, of
    shape (batch, n_outputs).
    """
    n_outputs = scores.shape[1]
    behind, total = len(v) - n_outputs, 0.0
    none = v[:0]
    for step in range(len(rates)):
        begin, end = step * batch, min((step + 1) * batch, len(order))
        for place in range(begin, end):
            row, own = order[place], scores[place - begin]
            _scores(
                pointer[row], pointer[row + 1], indices, data, l1, l2, v, last, none, scalars, own
            )
            total += weight[row] * slopes_of(code, epsilon, own, target[row])
        rate = rates[step]
        for place in range(begin, end):
            row, own = order[place], scores[place - begin]
            share = rate * weight[row] / (end - begin)
            scaled = share / scalars[SCALE]
            if n_outputs == 1:
                slope = scaled * own[0]
                if slope != 0.0 and len(last) == 0:
                    for p in range(np.uint64(pointer[row]), np.uint64(pointer[row + 1])):
                        v[np.uint64(indices[p])] -= slope * data[p]
                elif slope != 0.0:
                    for p in range(pointer[row], pointer[row + 1]):
                        _move(indices[p], slope * data[p], v, last, scalars)
            else:
                for p in range(pointer[row], pointer[row + 1]):
                    x, first = scaled * data[p], n_outputs * indices[p]
                    for c in range(n_outputs):
                        _move(first + c, x * own[c], v, last, scalars)
            if intercept:
                for c in range(n_outputs):
                    v[behind + c] -= share * own[c]
        _end_step(rate, l1, l2, n_outputs, v, last, scalars)
    return total


@kernel
def accumulate(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, rows: Array,
    share: float, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    v: Array, last: Array, squares: Array, scalars: Array, scores: Array, room: Array,
    touched: Array,
) -> tuple[int, float]:  # fmt: skip
    """Add the gradients of some rows up in a dense room, and mark the features that they touch.

    Parameters
    ----------
    rows : int64 array
    share : float
        Each gradient is multiplied by this and the weight of its row.
    room : float64 array like v
        Zeros.
    touched : uint64 array
        A bit a feature, the intercept as the last one; zeros.

    Returns
    -------
    n_touched : int
        Bits that were set.
    loss : float
        Sum over the rows.
    """
    n_outputs = len(scores)
    n_features = len(v) // n_outputs - 1
    one, n_touched, total = np.uint64(1), 0, 0.0
    for place in range(len(rows)):
        row = rows[place]
        _scores(
            pointer[row], pointer[row + 1], indices, data, l1, l2, v, last, squares, scalars, scores
        )
        total += weight[row] * slopes_of(code, epsilon, scores, target[row])
        own, moves = weight[row] * share, False
        for c in range(n_outputs):
            moves |= scores[c] != 0.0
        if not moves:
            continue
        for p in range(pointer[row], pointer[row + 1] + int(intercept)):
            if p < pointer[row + 1]:
                j, x = np.int64(indices[p]), own * data[p]
            else:
                j, x = np.int64(n_features), own
            bit = one << np.uint64(j & 63)
            word = touched[j >> 6]
            if word & bit == 0:
                touched[j >> 6] = word | bit
                n_touched += 1
            if n_outputs == 1:
                room[j] += x * scores[0]
            else:
                for c in range(n_outputs):
                    room[n_outputs * j + c] += x * scores[c]
    return n_touched, total


@kernel
def take_out(room: Array, touched: Array, n_outputs: int, indices: Array, values: Array) -> int:
    """Entries of the room that are not 0, by rising index; the room is zeros again. Gives how many.

    The marks are gone through word by word, so nothing is sorted.
    """
    n = 0
    for place in range(len(touched)):
        word = touched[place]
        if word == 0:
            continue
        touched[place] = 0
        while word != 0:
            j = (place << 6) + int(trailing_zeros(word))
            word &= word - np.uint64(1)
            for i in range(n_outputs * j, n_outputs * (j + 1)):
                if room[i] != 0.0:
                    indices[n], values[n] = i, room[i]
                    n += 1
                    room[i] = 0.0
    return n


@kernel
def apply_step(
    indices: Array, values: Array, rate: float, l1: float, l2: float, n_outputs: int,
    v: Array, last: Array, squares: Array, scalars: Array,
) -> int:  # fmt: skip
    """A step along a gradient; gives how many of its entries were not 0.

    No `indices`: there is a value for every index. Zeros are passed over, so the bits are the same.
    """
    behind, n = len(v) - n_outputs, 0
    scaled = rate / scalars[SCALE]
    for place in range(len(values)):
        value = values[place]
        if value == 0.0:
            continue
        n += 1
        i = np.int64(indices[place]) if len(indices) else place
        if len(squares):
            adapt(i, rate, value, l1, l2, scalars[THRESHOLD], v, last, squares)
        elif i < behind:
            _move(i, scaled * value, v, last, scalars)
        else:
            v[i] -= rate * value
    if len(squares):
        scalars[THRESHOLD] += rate
    else:
        _end_step(rate, l1, l2, n_outputs, v, last, scalars)
    return n


@kernel
def run_adagrad_batches(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, order: Array,
    batch: int, rates: Array, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    v: Array, last: Array, squares: Array, scalars: Array, scores: Array, room: Array,
    touched: Array, places: Array, values: Array,
) -> float:  # fmt: skip
    """All steps of an epoch of one rank by AdaGrad, which needs the gradient of a batch whole.

    `places` and `values` are room for its entries; the rest as in `accumulate` and `run_batches`.
    """
    n_outputs, total = len(scores), 0.0
    for step in range(len(rates)):
        own = order[step * batch : (step + 1) * batch]
        _, of_batch = accumulate(
            pointer, indices, data, target, weight, own, 1.0 / len(own), code, epsilon, l1, l2,
            intercept, v, last, squares, scalars, scores, room, touched,
        )  # fmt: skip
        total += of_batch
        n = take_out(room, touched, n_outputs, places, values)
        apply_step(
            places[:n], values[:n], rates[step], l1, l2, n_outputs, v, last, squares, scalars
        )
    return total
