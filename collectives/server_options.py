"""Checks of what a parameter server is made of: numbers, dtype, schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskpart.errors import InputError


def whole_number(value: Any, name: str, least: int) -> int:
    """A whole number of at least `least`, as a Python int."""
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not ok or not least <= value < 2**31:
        raise InputError(f"{name} is {value!r}: give a whole number of at least {least}")
    return int(value)


def checked_delay(delay: Any) -> float:
    """τ as a float: a whole number of tasks, or infinity."""
    ok = isinstance(delay, int | float | np.number) and not isinstance(delay, bool)
    if not ok or not delay >= 0 or (delay != math.inf and delay != int(delay)):
        raise InputError(
            f"delay is {delay!r}: give a whole number of tasks, 0 (synchronous) or more, or "
            "math.inf (asynchronous)"
        )
    return float(delay)


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that rows can have, in the byte order of this machine."""
    try:
        checked = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise InputError(f"dtype is {dtype!r}: {error}") from error
    if checked.kind not in "biuf" or (checked.kind == "f" and checked.itemsize not in (4, 8)):
        raise InputError(f"dtype is {checked}: rows are float32, float64, integers or bool")
    return checked


def checked_schedule(schedule: Any, n_ranks: int) -> str | list[int] | None:
    """None, the name of an order, or the rank of each call."""
    if schedule is None or (isinstance(schedule, str) and schedule in ("in turn", "stalest")):
        return schedule
    ranks = np.asarray(schedule)
    if ranks.ndim != 1 or (ranks.size and ranks.dtype.kind not in "iu"):
        raise InputError(
            f"schedule is {schedule!r}: give 'in turn', 'stalest' or the rank of each call"
        )
    outside = np.flatnonzero((ranks < 0) | (ranks >= n_ranks))
    if len(outside):
        raise InputError(
            f"schedule[{outside[0]}] is {ranks[outside[0]]}: ranks are 0 to {n_ranks - 1}"
        )
    return ranks.tolist()
