"""Checks of what users and ranks hand over: words, numbers, arrays, paths, equal arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart.errors import InputError

from .words import listed

_LARGEST = int(np.iinfo(np.int32).max)


def one_of(value: object, name: str, allowed: Iterable[str]) -> str:
    """One of the words that are allowed; a list or an array, which `in` trips over, is none."""
    words = [*allowed]
    if not isinstance(value, str) or value not in words:
        raise InputError(f"{name} is {value!r}: use one of {listed(words, str(value))}")
    return value


def several(given: Any, name: str, wanted: str) -> list[Any]:
    """A list of what can be gone through."""
    try:
        return list(given)
    except TypeError as error:
        raise InputError(f"{name} is {given!r}: give {wanted}") from error


def path_text(value: object, name: str = "path") -> str:
    """A path or an address as text, not empty."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise InputError(f"{name} is {value!r}: give a path, as text or as a pathlib.Path")
    return text


@contextmanager
def needs_pyarrow(doing: str) -> Iterator[None]:
    """Turn the want of pyarrow, inside the context, into an error that says what brings it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"{doing} needs pyarrow; install it with: pip install 'daskpart[io]'"
        ) from error


def checked_seed(random_state: int) -> int:
    """A seed from 0 to 2⁶³ - 1."""
    return whole_number(random_state, "random_state", least=0, most=2**63 - 1)


def random_generator(random_state: object) -> np.random.Generator:
    """NumPy's generator of a seed, or the one given; None draws a seed."""
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state is {random_state!r}: give a whole number of at least 0, or a "
            "numpy.random.Generator"
        ) from error


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


def finite_number(
    value: object, name: str, least: float = 0, *, above: bool = False, most: float = math.inf
) -> float:
    """One finite number from `least` on, or above it, as a Python float; −∞: any finite one."""
    found = _as_float(value)
    if not math.isfinite(found) or not least <= found <= most or (above and found == least):
        wanted = f" above {least:g}" if above else f" of at least {least:g}"
        wanted = "" if least == -math.inf else wanted
        limit = "" if most == math.inf else f" and at most {most:g}"
        raise InputError(f"{name} is {value!r}: give a finite number{wanted}{limit}")
    return found


def checked_delay(delay: Any) -> float:
    """τ as a float: a whole number of tasks, or infinity."""
    ok = isinstance(delay, int | float | np.number) and not isinstance(delay, bool)
    if not ok or not delay >= 0 or (delay != math.inf and delay != int(delay)):
        raise InputError(
            f"delay is {delay!r}: give a whole number of tasks, 0 (synchronous) or more, or "
            "math.inf (asynchronous)"
        )
    return float(delay)


def fraction(value: object, name: str) -> float:
    """A number between 0 and 1, both excluded."""
    found = _as_float(value)
    if not 0 < found < 1:
        raise InputError(f"{name}={value!r}; it must be between 0 and 1, both excluded")
    return found


def _as_float(value: object) -> float:
    """A number as a Python float; NaN for what is none, or too large for one."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def refuse_path_or_dataset(given: Any, name: str, instead: str) -> None:
    """InputError for what is no array: the name of a file or of a column, or several of xarray."""
    if isinstance(given, str | os.PathLike):
        raise InputError(f"{name} is {os.fspath(given)!r}: give {instead}")
    refuse_dataset(given, name)


def refuse_dataset(given: Any, name: str) -> None:
    """InputError for several arrays of xarray, where one is meant."""
    variables = [*given.data_vars] if hasattr(type(given), "data_vars") else []
    if variables:
        raise InputError(
            f"{name} is a Dataset of {listed(variables)}: give one of its variables, such as "
            f"dataset[{variables[0]!r}]"
        )


def refuse_masked(values: object, what: str) -> None:
    """Refuse an array of which values are masked, as NumPy would unmask them (InputError)."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{what} hold {np.ma.count_masked(values)} masked values: fill them (`filled`), or "
            "leave them out"
        )


def as_array(values: object, what: str) -> NDArray[Any]:
    """An array of any type; refused is what NumPy makes none of, or what it would unmask."""
    refuse_masked(values, what)
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # uneven lists; a sparse array
        kind = type(values).__name__
        raise InputError(f"{what} are a {kind} of which NumPy makes no array: {error}") from error


def real_numbers(values: object, what: str, n_dimensions: int = 1) -> NDArray[np.float64]:
    """A float64 array of so many dimensions, of finite numbers."""
    given = as_array(values, f"{what}s")
    if given.ndim != n_dimensions:
        raise InputError(
            f"{what}s have the shape {given.shape}: give an array of {n_dimensions} "
            f"dimension{'s' * (n_dimensions > 1)}"
        )
    try:
        array = given.astype(np.float64) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError):  # objects that are no numbers
        array = None
    if array is None:
        raise InputError(f"{what}s are of type {given.dtype}: give real numbers")
    n_wrong = int(np.count_nonzero(~np.isfinite(array)))
    if n_wrong:
        raise InputError(f"{n_wrong} NaN or infinite among {array.size} {what}s: give finite ones")
    return array


def whole_numbers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    """A one-dimensional array of whole numbers, as int64."""
    array = as_array(values, f"{what}s")
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
    if array.dtype.kind in "uf":
        least, most = array.min().item(), array.max().item()  # of Python: float16 has no 2^63
        if not -(2**63) <= least <= most < 2**63:
            raise InputError(f"{what}s run from {least} to {most}, beyond int64")
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


def ids_below(values: ArrayLike, limit: int, what: str) -> NDArray[np.int32]:
    """A one-dimensional array of numbers from 0 to `limit` - 1, as int32."""
    given = as_array(values, f"{what}s")
    ids = given if given.ndim == 1 and given.dtype == np.int32 else whole_numbers(given, what)
    if ids.size and (ids.min() < 0 or ids.max() >= limit):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"{what} {wrong} is out of range: {what}s are 0 to {limit - 1}")
    return ids.astype(np.int32, copy=False)


def require_like(given: object, name: str, attributes: Iterable[str], wanted: str) -> None:
    """Refuse what lacks the attributes by which it is known, as its class is above the floor."""
    if not all(hasattr(given, attribute) for attribute in attributes):
        raise InputError(f"{name} is a {type(given).__name__}: give {wanted}")


def require_partition(given: object) -> None:
    """Refuse what is no `Partition`, above all its plain numbers."""
    wanted = (
        "a Partition, second, behind the data; one of plain numbers is Partition(numbers, n_parts)"
    )
    require_like(given, "partition", ("assignment", "n_parts"), wanted)


def require_hypergraph(given: object) -> None:
    """Refuse what is no `Hypergraph`, above all the data of which one could be made."""
    wanted = "a Hypergraph, of data Hypergraph.column_net(data)"
    require_like(given, "hypergraph", ("net_pointer",), wanted)


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
