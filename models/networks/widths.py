"""Widths of the hidden layers of a network: one number is one layer."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from daskpart.errors import InputError


def widths_of(hidden: int | Sequence[int], name: str = "hidden") -> tuple[int, ...]:
    """The width of each hidden layer; InputError for what is no whole number from 1."""
    given = (hidden,) if isinstance(hidden, Integral) else tuple(hidden)  # type: ignore[arg-type]
    for each in given:
        if not isinstance(each, Integral) or isinstance(each, bool) or each < 1:
            raise InputError(f"{name}={hidden!r}: give widths from 1, such as (100,)")
    return tuple(map(int, given))
