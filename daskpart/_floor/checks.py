"""Checks of what users and ranks hand over: numbers, lengths, a partition, equal arrays."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart.errors import InputError

_LARGEST = int(np.iinfo(np.int32).max)


def whole_number(value: object, name: str, least: int, most: int = _LARGEST) -> int:
    """One whole number from `least` to `most`, as a Python int."""
    ok = isinstance(value, int | np.integer | float | np.floating) and not isinstance(value, bool)
    if not ok or value != value or value in (np.inf, -np.inf) or int(value) != value:  # type: ignore[call-overload]
        raise InputError(f"{name} is {value!r}: give a whole number of at least {least}")
    number = int(value)  # type: ignore[call-overload]
    if not least <= number <= most:
        allowed = f"at least {least}" if number < least else f"at most {most}"
        raise InputError(f"{name} is {number}: it must be {allowed}")
    return number


def finite_number(value: object, name: str, least: float = 0, *, above: bool = False) -> float:
    """One finite number from `least` on, or above it, as a Python float."""
    found = float(value) if isinstance(value, Real) else math.nan
    if not math.isfinite(found) or found < least or (above and found == least):
        wanted = f"above {least:g}" if above else f"of at least {least:g}"
        raise InputError(f"{name} is {value!r}: give a finite number {wanted}")
    return found


def whole_numbers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """A one-dimensional array of whole numbers, as int64."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{what}s have {array.ndim} dimensions: give a one-dimensional array")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{what}s are of type {array.dtype}: give whole numbers")
    if array.dtype.kind == "f":
        broken = np.flatnonzero(~np.isfinite(array) | (array != np.floor(array)))
        if len(broken):
            raise InputError(
                f"{what} {broken[0]} is {array[broken[0]]}: {what}s are whole numbers "
                "(scale and round fractions first)"
            )
    if array.dtype.kind in "uf" and not -(2.0**63) <= array.min() <= array.max() < 2**63:
        raise InputError(f"{what}s run from {array.min()} to {array.max()}, beyond int64")
    return array.astype(np.int64, copy=False)


def amounts(values: ArrayLike | None, length: int, what: str) -> NDArray[np.int64]:
    """`length` whole numbers of at least 0, as int64; 1 each where `values` is None."""
    if values is None:
        return np.ones(length, np.int64)
    checked = whole_numbers(values, what)
    if len(checked) != length:
        raise InputError(f"{len(checked)} {what}s were given, {length} are needed: give one each")
    negative = np.flatnonzero(checked < 0)
    if len(negative):
        at = negative[0]
        raise InputError(f"{what} {at} is {checked[at]}: {what}s are 0 or more")
    if checked.sum(dtype=np.float64) >= 2.0**63:
        raise InputError(f"the {what}s sum to 2^63 or more, beyond int64: scale them down")
    return checked


def require_partition(given: object) -> None:
    """Refuse what is no `Partition`, above all its plain numbers; by its attributes, as the class
    itself is above the floor."""
    if not (hasattr(given, "assignment") and hasattr(given, "n_parts")):
        raise InputError(
            f"partition is a {type(given).__name__}: give a Partition, second, behind the data; "
            "one of plain numbers is Partition(numbers, n_parts)"
        )


def ranks_disagree(what: str, one: tuple[int, str], other: tuple[int, str]) -> InputError:
    """The error of two ranks, each with what it holds or sends, that must be the same."""
    (low, first), (high, second) = sorted((one, other))
    return InputError(f"Ranks {low} and {high} disagree in {what}: {first} against {second}.")


def require_same_arrays(
    what: str,
    one: tuple[int, NDArray[Any]],
    other: tuple[int, NDArray[Any]],
    *,
    rows: bool = False,
) -> None:
    """Refuse arrays of two ranks that differ in dtype or shape; of a row only, with `rows`."""
    axis = 1 if rows else 0
    kinds = [(array.shape[axis:], array.dtype) for _, array in (one, other)]
    if kinds[0] != kinds[1]:
        of = "rows of " if rows else ""
        told = [f"{of}shape {shape} and dtype {dtype}" for shape, dtype in kinds]
        raise ranks_disagree(what, (one[0], told[0]), (other[0], told[1]))
