"""Sizes of a network: widths of the hidden layers, and the weights that a fit goes on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from numpy.typing import NDArray

from daskpart.errors import InputError


def widths_of(hidden: int | Sequence[int], name: str = "hidden") -> tuple[int, ...]:
    """The width of each hidden layer; InputError for what is no whole number from 1.

    One number is one layer.
    """
    given = (hidden,) if isinstance(hidden, Integral) else tuple(hidden)  # type: ignore[arg-type]
    for each in given:
        if not isinstance(each, Integral) or isinstance(each, bool) or each < 1:
            raise InputError(f"{name}={hidden!r}: give widths from 1, such as (100,)")
    return tuple(map(int, given))


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, NDArray[Any]]
) -> None:
    """Check that the weights of the last fit are those of the network at hand (InputError)."""
    known = {name: weight.shape for name, weight in weights.items()}
    if shapes != known:
        raise InputError(
            f"the data and the parameters make a network of the weights {shapes}, the last fit has "
            f"{known}; give data of as many features and classes, or warm_start=False"
        )
