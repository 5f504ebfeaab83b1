"""Kernels of linear models: sparse rows against weights that are scaled and thresholded lazily.

    a step of the whole vector                        what is done instead
    w ← (w − η g) / (1 + η λ₂)                        v ← v − (η / a) g  where g has entries,
        w = a · v                                     a ← a / (1 + η λ₂)
    then |w_j| ← max(0, |w_j| − η λ₁)                 T ← T + η λ₁ / a;  v_j is behind by T − last_j

so a step touches only the coordinates of its batch. Thresholds add up (soft(soft(v, s), t) =
soft(v, s + t)), so the delayed ones are exact; `fold` brings all up to date. Within a step: the
gradient, the threshold, the shrinking, which is the proximal step of the elastic net.

All of an index lies together, in a row of a table: what is needed at random is read at once.

    column   weight   gradient      last            root                as many as are needed:
             v        of a batch,   T when it was   of AdaGrad's        1 samples added one by one
                      else 0        brought up      summed squares      2 gradients are made
                                    to date         (`lazy_adagrad`)    3 L1           4 AdaGrad

Rows lie flat: feature j, output c at ``j · n_outputs + c``, and intercepts behind the last feature,
which are neither scaled nor penalised. ``scalars`` holds a and T.
"""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 - before its parts, see test_packaging
import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import prefetch_bytes
from daskpart._floor.prefetch import prefetch_byte

from .lazy_adagrad import adapted, current, soft
from .losses import slopes_of

WEIGHT, GRADIENT, LAST, ROOT = range(4)
SCALE, THRESHOLD = range(2)
SMALLEST_SCALE = 1e-6
_AHEAD = 4  # samples
_BYTES_AHEAD = 256  # of each array of a sample; of a longer one the processor foresees the rest
_ENTRIES_AHEAD = 16
_NEAR_BYTES = 1 << 22  # of a table whose rows are near enough without being asked for
Array = NDArray[Any]


@kernel(internal=True, _nrt=False)
def _fetch_ahead(rows: Array, place: int, pointer: Array, indices: Array, data: Array) -> None:
    """Have a later one of `rows` fetched: in random order the processor cannot foresee it."""
    if place + _AHEAD < len(rows):
        row = rows[place + _AHEAD]
        _fetch(indices, pointer[row], pointer[row + 1])
        _fetch(data, pointer[row], pointer[row + 1])


@kernel(internal=True, _nrt=False)
def _fetch(array: Array, begin: int, end: int) -> None:
    """Entries of one array of a sample."""
    n_bytes = min((end - begin) * array.itemsize, _BYTES_AHEAD)
    prefetch_bytes(array.ctypes.data + begin * array.itemsize, n_bytes)


@kernel(internal=True, _nrt=False)
def _is_far(table: Array) -> bool:
    """Whether a table is too large for the near caches: then its rows are asked for ahead."""
    return table.size * table.itemsize > _NEAR_BYTES


@kernel(internal=True, _nrt=False)
def _fetch_row(table: Array, i: int) -> None:
    prefetch_byte(table.ctypes.data + np.int64(i) * table.shape[1] * table.itemsize)


@kernel(internal=True, _nrt=False)
def _weight(table: Array, i: int, l1: float, l2: float, threshold: float) -> float:
    """A weight brought up to date, but for the scale; the table is left as it is."""
    value = table[i, WEIGHT]
    if table.shape[1] > ROOT:
        return current(value, threshold - table[i, LAST], table[i, ROOT], l1, l2)
    if table.shape[1] > LAST:
        return soft(value, threshold - table[i, LAST])
    return value


@kernel(internal=True, _nrt=False)
def _score(
    begin: int, end: int, indices: Array, data: Array, l1: float, l2: float, table: Array,
    scalars: Array,
) -> float:  # fmt: skip
    """The score of one row, of one output."""
    total, threshold = 0.0, scalars[THRESHOLD]
    far, last = _is_far(table), np.uint64(end) - np.uint64(1)
    # unsigned numbers, as negative ones would be counted from the end
    for p in range(np.uint64(begin), np.uint64(end)):
        if far:
            _fetch_row(table, indices[min(p + np.uint64(_ENTRIES_AHEAD), last)])
        total += data[p] * _weight(table, np.uint64(indices[p]), l1, l2, threshold)
    return scalars[SCALE] * total + table[len(table) - 1, WEIGHT]


@kernel(internal=True, _nrt=False)
def _scores(
    begin: int, end: int, indices: Array, data: Array, l1: float, l2: float, table: Array,
    scalars: Array, scores: Array,
) -> None:  # fmt: skip
    """Scores of one row."""
    n_outputs = len(scores)
    if n_outputs == 1:
        scores[0] = _score(begin, end, indices, data, l1, l2, table, scalars)
        return
    behind = len(table) - n_outputs
    scale, threshold = scalars[SCALE], scalars[THRESHOLD]
    for c in range(n_outputs):
        scores[c] = 0.0
    for p in range(begin, end):
        x, first = data[p], n_outputs * indices[p]
        for c in range(n_outputs):
            scores[c] += x * _weight(table, first + c, l1, l2, threshold)
    for c in range(n_outputs):
        scores[c] = scale * scores[c] + table[behind + c, WEIGHT]


@kernel(internal=True, _nrt=False)
def _move(i: int, change: float, table: Array, scalars: Array) -> None:
    """v_i ← v_i − change, brought up to date first."""
    value = table[i, WEIGHT]
    if table.shape[1] > LAST:
        value = soft(value, scalars[THRESHOLD] - table[i, LAST])
        table[i, LAST] = scalars[THRESHOLD]
    table[i, WEIGHT] = value - change


@kernel(internal=True, _nrt=False)
def _end_step(
    rate: float, l1: float, l2: float, n_outputs: int, table: Array, scalars: Array
) -> None:
    scalars[THRESHOLD] += rate * l1 / scalars[SCALE]
    scalars[SCALE] /= 1.0 + rate * l2
    if scalars[SCALE] < SMALLEST_SCALE:
        _fold(l1, l2, n_outputs, table, scalars)


@kernel(internal=True, _nrt=False)
def _fold(l1: float, l2: float, n_outputs: int, table: Array, scalars: Array) -> None:
    for i in range(len(table) - n_outputs):
        table[i, WEIGHT] = scalars[SCALE] * _weight(table, i, l1, l2, scalars[THRESHOLD])
        if table.shape[1] > LAST:
            table[i, LAST] = 0.0
    scalars[SCALE], scalars[THRESHOLD] = 1.0, 0.0


@kernel
def fold(
    l1: float, l2: float, n_outputs: int, table: Array, scalars: Array, mean: Array, share: float
) -> tuple[float, float, float]:
    """Bring all weights up to date: afterwards the column is what it stands for.

    In the same pass each goes into the `mean`, where one is kept: by a `share` of the difference.

    Returns
    -------
    size, square : float
        Σ |w| and Σ w², intercepts left out.
    largest : float
        Of the sizes of all, infinite where one is no number.
    """
    _fold(l1, l2, n_outputs, table, scalars)
    size = square = largest = 0.0
    for i in range(len(table)):
        value = table[i, WEIGHT]
        if len(mean):
            mean[i] += share * (value - mean[i])
        largest = max(largest, abs(value)) if value == value else np.inf
        if i < len(table) - n_outputs:
            size += abs(value)
            square += value * value
    return size, square, largest


@kernel
def run_batches(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, order: Array,
    batch: int, rates: Array, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    table: Array, scalars: Array, scores: Array,
) -> float:  # fmt: skip
    """All steps of an epoch of one rank alone; gives the sum of losses, each before its step.

    Rows are added to the weights one by one: no gradient is made. `scores` is room for a batch, of
    shape (batch, n_outputs).
    """
    n_outputs = scores.shape[1]
    behind, total = len(table) - n_outputs, 0.0
    for step in range(len(rates)):
        begin, end = step * batch, min((step + 1) * batch, len(order))
        for place in range(begin, end):
            _fetch_ahead(order, place, pointer, indices, data)
            row, own = order[place], scores[place - begin]
            _scores(pointer[row], pointer[row + 1], indices, data, l1, l2, table, scalars, own)
            total += weight[row] * slopes_of(code, epsilon, own, target, row)
        rate = rates[step]
        for place in range(begin, end):
            row, own = order[place], scores[place - begin]
            share = rate * weight[row] / (end - begin)
            scaled = share / scalars[SCALE]
            if n_outputs == 1:
                slope = scaled * own[0]
                if slope != 0.0:
                    for p in range(np.uint64(pointer[row]), np.uint64(pointer[row + 1])):
                        _move(np.uint64(indices[p]), slope * data[p], table, scalars)
            else:
                for p in range(pointer[row], pointer[row + 1]):
                    x, first = scaled * data[p], n_outputs * indices[p]
                    for c in range(n_outputs):
                        _move(first + c, x * own[c], table, scalars)
            if intercept:
                for c in range(n_outputs):
                    table[behind + c, WEIGHT] -= share * own[c]
        _end_step(rate, l1, l2, n_outputs, table, scalars)
    return total


@kernel
def accumulate(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, rows: Array,
    share: float, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    table: Array, scalars: Array, scores: Array, touched: Array,
) -> tuple[int, float]:  # fmt: skip
    """Add the gradients of some rows up in the table, and mark the features that they touch.

    Parameters
    ----------
    rows : int64 array
    share : float
        Each gradient is multiplied by this and the weight of its row.
    table : float64 array
        Its gradients are zeros, or come from rows of the same batch.
    touched : uint64 array
        A bit a feature, the intercept as the last one; zeros as the gradients are.

    Returns
    -------
    n_touched : int
        Bits that were set.
    loss : float
        Sum over the rows.
    """
    n_outputs = len(scores)
    n_features = np.uint64(len(table) // n_outputs - 1)
    behind, n_touched, total = len(table) - n_outputs, 0, 0.0
    for place in range(len(rows)):
        _fetch_ahead(rows, place, pointer, indices, data)
        row = rows[place]
        begin, end = np.uint64(pointer[row]), np.uint64(pointer[row + 1])
        _scores(begin, end, indices, data, l1, l2, table, scalars, scores)
        total += weight[row] * slopes_of(code, epsilon, scores, target, row)
        moves = False
        for c in range(n_outputs):
            scores[c] *= weight[row] * share
            moves |= scores[c] != 0.0
        if not moves:
            continue
        if n_outputs == 1:
            slope = scores[0]
            for p in range(begin, end):
                j = np.uint64(indices[p])
                n_touched += _mark(touched, j)
                table[j, GRADIENT] += data[p] * slope
        else:
            for p in range(begin, end):
                j = np.uint64(indices[p])
                n_touched += _mark(touched, j)
                for c in range(n_outputs):
                    table[j * np.uint64(n_outputs) + np.uint64(c), GRADIENT] += data[p] * scores[c]
        if intercept:
            n_touched += _mark(touched, n_features)
            for c in range(n_outputs):
                table[behind + c, GRADIENT] += scores[c]
    return n_touched, total


@kernel(internal=True, _nrt=False)
def _mark(touched: Array, j: int) -> int:
    """Set a bit; gives 1 if it was 0, without a branch that nobody could foresee."""
    place, bit = j >> np.uint64(6), j & np.uint64(63)
    word = touched[place]
    touched[place] = word | (np.uint64(1) << bit)
    return int(np.int64((word >> bit) & np.uint64(1) ^ np.uint64(1)))


@kernel(internal=True, _nrt=False)
def _take(table: Array, i: int, indices: Array, values: Array, n: int) -> int:
    """Put one in place n; gives 0 if it is 0, so that the next one comes there."""
    value = table[i, GRADIENT]
    table[i, GRADIENT] = 0.0
    indices[n], values[n] = i, value
    return int(value != 0.0)


@kernel
def take_out(table: Array, touched: Array, n_outputs: int, indices: Array, values: Array) -> int:
    """Entries of the gradient that are not 0, by rising index; it is 0 again. Gives how many.

    The marks are gone through word by word, so nothing is sorted.
    """
    n = 0
    for place in range(len(touched)):
        word = touched[place]
        if word == 0:
            continue
        touched[place] = 0
        while word != 0:
            j = np.uint64(place << 6) + np.uint64(trailing_zeros(word))
            word &= word - np.uint64(1)
            if n_outputs == 1:
                n += _take(table, j, indices, values, n)
            else:
                first = j * np.uint64(n_outputs)
                for i in range(first, first + np.uint64(n_outputs)):
                    n += _take(table, i, indices, values, n)
    return n


@kernel
def apply_step(
    indices: Array, values: Array, rate: float, l1: float, l2: float, n_outputs: int,
    table: Array, scalars: Array,
) -> int:  # fmt: skip
    """A step along a gradient; gives how many of its entries were not 0.

    No `indices`: there is a value for every index. Zeros are passed over, so the bits are the same.
    """
    behind, n = np.uint64(len(table) - n_outputs), 0
    scaled, threshold = rate / scalars[SCALE], scalars[THRESHOLD]
    adaptive = table.shape[1] > ROOT
    far, last = len(indices) > 0 and _is_far(table), len(indices) - 1
    for place in range(len(values)):
        if far:
            _fetch_row(table, indices[min(place + _ENTRIES_AHEAD, last)])
        value = values[place]
        if value == 0.0:
            continue
        n += 1
        i = np.uint64(indices[place]) if len(indices) else np.uint64(place)
        if adaptive:
            own = table[i, WEIGHT]
            if i < behind:
                own = current(own, threshold - table[i, LAST], table[i, ROOT], l1, l2)
                table[i, LAST] = threshold
            table[i, WEIGHT], table[i, ROOT] = adapted(own, rate, value, table[i, ROOT])
        elif i < behind:
            _move(i, scaled * value, table, scalars)
        else:
            table[i, WEIGHT] -= rate * value
    if adaptive:
        scalars[THRESHOLD] += rate
    else:
        _end_step(rate, l1, l2, n_outputs, table, scalars)
    return n


@kernel
def run_adagrad_batches(
    pointer: Array, indices: Array, data: Array, target: Array, weight: Array, order: Array,
    batch: int, rates: Array, code: int, epsilon: float, l1: float, l2: float, intercept: bool,
    table: Array, scalars: Array, scores: Array, touched: Array, places: Array, values: Array,
) -> float:  # fmt: skip
    """All steps of an epoch of one rank by AdaGrad, which needs the gradient of a batch whole.

    `places` and `values` are room for its entries; the rest as in `accumulate` and `run_batches`.
    """
    n_outputs, total = len(scores), 0.0
    for step in range(len(rates)):
        own = order[step * batch : (step + 1) * batch]
        _, of_batch = accumulate(
            pointer, indices, data, target, weight, own, 1.0 / len(own), code, epsilon, l1, l2,
            intercept, table, scalars, scores, touched,
        )  # fmt: skip
        total += of_batch
        n = take_out(table, touched, n_outputs, places, values)
        apply_step(places[:n], values[:n], rates[step], l1, l2, n_outputs, table, scalars)
    return total
