"""Settings of a fit: parameters as JSON, and in what those of two fits differ.

What must be equal for a fit that goes on to be the same fit is kept in its state and in its plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from dask.base import tokenize

from daskpart._floor.archive import plain
from daskpart.containers.coordinates import is_a
from daskpart.partitions import Partition

from .reports import value_words

VALIDATION = "validation"  # what was measured by, which decides no step
WEIGHED = "cut"  # what the partitioner "auto" came to
_PARTS = {"data": "the data", "weights": "the weights of the data"}  # what is no parameter
_MOST_SHOWN = 32  # of a list


def described(value: Any) -> Any:
    """A parameter as JSON that is equal only for equal parameters, and can be read in errors."""
    if isinstance(value, np.generic):  # first: float64 is a float, and shows itself as NumPy's
        return value.item()
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Mapping):
        return {str(name): described(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and len(value) <= _MOST_SHOWN:
        return [described(each) for each in value]
    if isinstance(value, Partition):
        size = f"{value.n_vertices} into {value.n_parts} parts"
        return f"a partition of {size}, {tokenize(value.assignment)}"
    if is_dataclass(value) and not isinstance(value, type):
        held = (f"{each.name}={value_words(described(getattr(value, each.name)))}"
                for each in fields(value))  # fmt: skip
        return f"{type(value).__name__}({', '.join(held)})"
    named = value.__name__ if isinstance(value, type) else type(value).__name__
    length = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"{named}{length}, {tokenize(_by_rows(value))}"


def _by_rows(value: Any) -> Any:
    """An array whose bytes lie by rows: tokens are of bytes as they lie, and of the shape."""
    if is_a(value, "xarray", "DataArray"):
        return value.copy(data=_by_rows(value.data))
    return np.asanyarray(value, order="C") if isinstance(value, np.ndarray) else value


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between the settings of two fits, in words, but for what is validated by."""
    ours, theirs = plain(dict(before)), plain(dict(now))
    return [
        f"{_PARTS.get(name, name)}: {_shown(ours, name)} there, {_shown(theirs, name)} now"
        for name in sorted({*ours, *theirs} - {VALIDATION})
        if _shown(ours, name) != _shown(theirs, name)
    ]


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return value_words(settings[name]) if name in settings else "not set"
