"""Plain lines of libsvm text to arrays, by a kernel.

    -1 3:1 11:.5          label -1    lengths 2    indices 3 11    values 1 .5
    +1 5:2e300 7:1        label +1    lengths 2    indices 5 7     values ? 1
                                                                          └─ left to Python

A number of up to 2^53 over a power of ten up to 10^22 is one exact division, so its result is the
nearest double; any other is noted, and Python's ``float`` reads it. Whatever is uncommon (a remark,
a feature index that does not rise, anything malformed) is left whole to `scanning`, which knows all
that is allowed and names the line of what is not. W. D. Clinger, "How to read floating point
numbers accurately", PLDI 1990.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel

_POWERS = np.array([float(10**power) for power in range(23)])
_MOST_MANTISSA = 2**53
_MOST_DIGITS = 18  # of a mantissa in int64
_MOST_INDEX_DIGITS = 15


class PlainLines(NamedTuple):
    """What lines hold.

    Attributes
    ----------
    lengths : int64[n_rows]
        Features of each line.
    indices : int64[n]
    values : float64[n]
    labels : float64[n_rows]
    """

    lengths: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: NDArray[np.float64]


def plain_lines(text: bytes) -> PlainLines | None:
    """Read whole lines of libsvm text; None where anything in them is uncommon or wrong.

    The last line may lack its line end.
    """
    raw = np.frombuffer(text + b"\n", np.uint8)
    n_rows, n_features = np.count_nonzero(raw == 10), np.count_nonzero(raw == 58)
    lengths, indices = np.empty(n_rows, np.int64), np.empty(n_features, np.int64)
    numbers = np.empty(n_features + n_rows)  # values from the front, labels from the back
    hard = np.empty((len(numbers), 3), np.int64)
    n_rows, n_features, n_hard = _parse(raw, lengths, indices, numbers, hard)
    if n_rows < 0:
        return None
    for place, start, end in hard[:n_hard].tolist():
        numbers[place] = float(text[start:end])
    labels = numbers[::-1][:n_rows].copy()
    return PlainLines(lengths[:n_rows], indices[:n_features], numbers[:n_features], labels)


@kernel
def _parse(text, lengths, indices, numbers, hard):
    """Rows, features and numbers left to Python; a negative number of rows: nothing is plain."""
    wrong = (-1, 0, 0)
    n_rows, n_features, n_hard, at, end = 0, 0, 0, 0, len(text)
    while at < end:
        while text[at] == 32 or text[at] == 9 or text[at] == 13:
            at += 1
        if text[at] == 10:  # a blank line
            at += 1
            continue
        begin = at
        at, number, state = _number(text, at)
        if state == _NO_NUMBER:
            return wrong
        place = len(numbers) - 1 - n_rows
        numbers[place] = number
        if state == _HARD:
            hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = place, begin, at
            n_hard += 1
        first, before = n_features, -1
        while True:
            if text[at] != 10 and text[at] != 32 and text[at] != 9 and text[at] != 13:
                return wrong
            while text[at] == 32 or text[at] == 9 or text[at] == 13:
                at += 1
            if text[at] == 10:
                at += 1
                break
            index, begin = 0, at
            while 48 <= text[at] <= 57:
                index = index * 10 + (text[at] - 48)
                at += 1
                if at - begin > _MOST_INDEX_DIGITS:
                    return wrong
            if at == begin or text[at] != 58 or index <= before:
                return wrong
            at += 1
            begin = at
            at, number, state = _number(text, at)
            if state == _NO_NUMBER:
                return wrong
            numbers[n_features] = number
            indices[n_features] = before = index
            if state == _HARD:
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = n_features, begin, at
                n_hard += 1
            n_features += 1
        lengths[n_rows] = n_features - first
        n_rows += 1
    return n_rows, n_features, n_hard


_NO_NUMBER, _EXACT, _HARD = 0, 1, 2


@kernel(internal=True)
def _number(text, at):
    """Where a number ends, what it is, and whether that is exact."""
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += 1
    mantissa, digits, power, any_digit = 0, 0, 0, False
    while 48 <= text[at] <= 57:
        if digits < _MOST_DIGITS:
            mantissa = mantissa * 10 + (text[at] - 48)
        digits += mantissa > 0
        any_digit = True
        at += 1
    if text[at] == 46:
        at += 1
        while 48 <= text[at] <= 57:
            if digits < _MOST_DIGITS:
                mantissa = mantissa * 10 + (text[at] - 48)
                power -= 1
            digits += mantissa > 0
            any_digit = True
            at += 1
    if not any_digit:
        return at, 0.0, _NO_NUMBER
    if text[at] == 101 or text[at] == 69:  # e, E
        at += 1
        down = text[at] == 45
        if down or text[at] == 43:
            at += 1
        if not 48 <= text[at] <= 57:
            return at, 0.0, _NO_NUMBER
        exponent = 0
        while 48 <= text[at] <= 57:
            exponent = min(exponent * 10 + (text[at] - 48), 100_000)
            at += 1
        power += -exponent if down else exponent
    if digits > _MOST_DIGITS or mantissa > _MOST_MANTISSA or not -22 <= power <= 22:
        return at, 0.0, _HARD
    number = float(mantissa)
    number = number / _POWERS[-power] if power < 0 else number * _POWERS[power]
    return at, -number if negative else number, _EXACT
