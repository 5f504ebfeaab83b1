"""Parameters that may differ from mode to mode, as users write them.

nonnegative   True               all modes        ridge   0.1                all modes
              ["user", "month"]  these modes              {"user": 0.5}      others 0
              [True, False]      mode by mode             [0.5, 0.0]         mode by mode

fixed_modes   {"month": factor}  others are updated
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from daskpart.errors import InputError


def place_of_mode(mode: Any, dims: Sequence[str], what: str = "mode") -> int:
    """The place of a mode from its name or its place (InputError for another)."""
    if isinstance(mode, str) and mode in dims:
        return list(dims).index(mode)
    if isinstance(mode, int | np.integer) and not isinstance(mode, bool) and 0 <= mode < len(dims):
        return int(mode)
    raise InputError(f"{what}={mode!r} is unknown; give 0 to {len(dims) - 1} or {tuple(dims)}")


def by_place(given: Mapping[Any, Any], dims: Sequence[str], what: str) -> dict[int, Any]:
    """Of each mode that a dict names what it has for it, by place (InputError for another)."""
    found = {}
    for mode, value in given.items():
        if isinstance(mode, str) and mode not in dims and mode.isdecimal():
            mode = int(mode)  # settings of a fit are JSON, where a place is text
        place = place_of_mode(mode, dims, what)
        if place in found:
            raise InputError(f"{what} names mode {dims[place]!r} twice, by name and by place")
        found[place] = value
    return found


def nonnegative_modes(nonnegative: Any, dims: Sequence[str]) -> tuple[bool, ...]:
    """Whether each mode is to be kept at 0 or above.

    Raises
    ------
    InputError
        For unknown modes, or another number of bools than modes.
    """
    if isinstance(nonnegative, bool | np.bool_):
        return (bool(nonnegative),) * len(dims)
    given = [nonnegative] if isinstance(nonnegative, str) else list(nonnegative)
    if given and all(isinstance(each, bool | np.bool_) for each in given):
        _require_one_a_mode(given, dims, "nonnegative")
        return tuple(map(bool, given))
    chosen = {place_of_mode(each, dims, "nonnegative") for each in given}
    return tuple(place in chosen for place in range(len(dims)))


def ridge_modes(ridge: Any, dims: Sequence[str]) -> tuple[float, ...]:
    """What is added to the diagonal of each mode's equations.

    Raises
    ------
    InputError
        For unknown modes, another number of amounts than modes, or amounts below 0.
    """
    if isinstance(ridge, Real):
        return (float(ridge),) * len(dims)
    if isinstance(ridge, Mapping):
        amounts = [0.0] * len(dims)
        for place, amount in by_place(ridge, dims, "ridge").items():
            amounts[place] = amount
    else:
        amounts = list(ridge)
        _require_one_a_mode(amounts, dims, "ridge")
    wrong = [a for a in amounts if not isinstance(a, Real) or not np.isfinite(a) or a < 0]
    if wrong:
        raise InputError(f"ridge={ridge!r} holds {wrong[0]!r}: give numbers of at least 0")
    return tuple(map(float, amounts))


def _require_one_a_mode(given: Sequence[Any], dims: Sequence[str], name: str) -> None:
    if len(given) != len(dims):
        raise InputError(
            f"{name} has {len(given)} entries for the modes {', '.join(dims)}: give one a mode"
        )
