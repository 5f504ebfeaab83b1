"""What a shard does with rows that are pushed to it: an update rule is a small function.

    add        value + pushed                  counts, gradients times a step size
    assign     pushed                          the last push stands
    or         value | pushed                  sets as bits: Parsa's neighbour sets
    proximal   shrink(value - s·pushed, s·λ)   an L1 step:      ╱
                                               shrink(x, t)  ──╱─   0 where |x| ≤ t
                                                            ╱

The proximal step is that of the L1 logistic regression of Li, Andersen, Smola (2015). A rule works
in place on the rows of one shard, one push after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number
from daskpart._floor.kernels import kernel
from daskpart.collectives.kernels_rows import add_rows
from daskpart.errors import InputError

Rows = NDArray[Any]
Slots = NDArray[np.int32]


@dataclass(frozen=True)
class UpdateRule:
    """How pushed rows change the rows of a shard.

    Parameters
    ----------
    name : str
    apply : callable
        ``apply(values, slots, rows)`` changes ``values[slots]`` in place; `values` has the shape
        (n, width) or (n,), `rows` the shape (len(slots), width) or (len(slots),).
    distinct : bool
        Whether one push may name an id only once; else `apply` deals with repeated slots.
    summed : bool
        Whether, in synchronous mode, the pushes of all ranks in one task are added up by id first,
        and the rule is applied once to the sum.
    kinds : str
        Kinds of dtypes that it works on, as numpy abbreviates them.
    """

    name: str
    apply: Callable[[Rows, Slots, Rows], None]
    distinct: bool = False
    summed: bool = False
    kinds: str = "biuf"


def proximal_step(step_size: float, l1: float) -> UpdateRule:
    """A proximal gradient step for a loss + `l1`·‖x‖₁: what is pushed are gradients of the loss.

    Parameters
    ----------
    step_size : float
        Positive.
    l1 : float
        0 or more. The threshold is ``step_size * l1``.

    Returns
    -------
    UpdateRule
        In synchronous mode the gradients of a task are added up and make one step; in the other
        modes each push is a step of its own.
    """
    finite_number(step_size, "step_size", above=True)
    finite_number(l1, "l1")
    shrink = partial(_shrink, step_size=float(step_size), threshold=float(step_size * l1))
    return UpdateRule("proximal step", shrink, distinct=True, summed=True, kinds="f")


def rule_of(update: str | Callable[..., Any] | UpdateRule, dtype: np.dtype[Any]) -> UpdateRule:
    """The rule that a user means; InputError if there is none, or not for rows of this dtype."""
    if isinstance(update, UpdateRule):
        rule = update
    elif isinstance(update, str) and update in _RULES:
        rule = _RULES[update]
    elif callable(update):
        name = getattr(update, "__name__", type(update).__name__)
        rule = UpdateRule(name, partial(_apply_function, function=update, name=name), distinct=True)
    else:
        raise InputError(
            f"update is {update!r}: give one of {', '.join(map(repr, _RULES))}, proximal_step(…), "
            "or a function (current rows, pushed rows) → new rows"
        )
    if dtype.kind not in rule.kinds:
        raise InputError(f"update {rule.name!r} does not work on rows of dtype {dtype}")
    return rule


def sum_by_slot(pushes: list[tuple[Slots, Rows]], values: Rows) -> tuple[Slots, Rows]:
    """Pushed rows added up by slot, in the order of the pushes; slots rise."""
    slots, rows = (np.concatenate(arrays) for arrays in zip(*pushes, strict=True))
    touched, place = np.unique(slots, return_inverse=True)
    total = np.zeros((len(touched), *values.shape[1:]), values.dtype)
    _add(total, place.astype(np.int32), rows)
    return touched, total


@kernel
def _or_rows(values: Any, slots: Any, rows: Any) -> None:
    for i in range(len(slots)):
        slot = slots[i]
        for column in range(values.shape[1]):
            values[slot, column] |= rows[i, column]


def _add(values: Rows, slots: Slots, rows: Rows) -> None:
    if rows.size:
        add_rows(values.reshape(len(values), -1), slots, rows.reshape(len(rows), -1))


def _or(values: Rows, slots: Slots, rows: Rows) -> None:
    if rows.size:
        bits = np.uint8 if values.dtype.kind == "b" else values.dtype  # one machine code for both
        flat, pushed = values.reshape(len(values), -1), rows.reshape(len(rows), -1)
        _or_rows(flat.view(bits), slots, pushed.view(bits))


def _assign(values: Rows, slots: Slots, rows: Rows) -> None:
    values[slots] = rows  # of repeated slots the last one stands


def _shrink(values: Rows, slots: Slots, rows: Rows, *, step_size: float, threshold: float) -> None:
    moved = values[slots] - step_size * rows
    reach = np.maximum(np.abs(moved) - threshold, 0)
    values[slots] = np.copysign(reach, moved)


def _apply_function(
    values: Rows, slots: Slots, rows: Rows, *, function: Callable[[Rows, Rows], Rows], name: str
) -> None:
    new = np.asarray(function(values[slots], rows))
    if new.shape != rows.shape or not np.can_cast(new.dtype, values.dtype, "same_kind"):
        raise InputError(
            f"update {name!r} gave rows of shape {new.shape} and dtype {new.dtype}; they must be "
            f"of shape {rows.shape} and fit {values.dtype}"
        )
    values[slots] = new


_RULES = {
    "add": UpdateRule("add", _add, kinds="iuf"),
    "assign": UpdateRule("assign", _assign),
    "or": UpdateRule("or", _or, kinds="biu"),
}
