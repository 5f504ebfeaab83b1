"""What algorithm texts hold: values of ranks, and messages on their way.

    PerRank       r0 │ r1 │ r2     a value for each rank     map, update, post, collect
    Replicated    v  │ v  │ v      the same for all          result
    Pending       ·──▶·            posted                    collect, once

Steps take per-rank and replicated values alike. What is sent, folded, gathered or overwritten is of
a rank, so there a replicated value is refused: its sum would be K times the value on one transport,
and the value itself on another.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.words import counted
from daskpart.errors import InputError

from .messages import Exchange, PreparedRound

if TYPE_CHECKING:
    from .communicator import Communicator


class OnRanks:
    """What stands for values that lie on ranks: can't be looked at, compared, pickled or copied."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        raise is_no_part_of_a_value(self)

    def __bool__(self) -> bool:
        raise InputError(
            f"A {type(self).__name__} is neither true nor false, as it lies on the ranks: branch "
            "on the result() of a replicated value, which fold and allreduce give."
        )

    def __eq__(self, other: object) -> bool:
        raise InputError(
            f"A {type(self).__name__} can't be compared, as it lies on the ranks: compare the "
            "values with map(…), or the result() of a replicated one."
        )


class PerRank(OnRanks):
    """One value a rank, held where the transport holds it; made by a `Communicator`."""

    __slots__ = ("__weakref__", "borrowed", "communicator", "content", "spent")

    def __init__(self, communicator: Communicator, content: Any, borrowed: bool = False) -> None:
        self.communicator = communicator
        self.content = content
        self.borrowed = borrowed  # the caller still holds these objects: copy before overwriting
        self.spent = False

    def __repr__(self) -> str:
        note = ", spent" if self.spent else ""
        return f"<{type(self).__name__} of {counted(self.communicator.n_ranks, 'rank')}{note}>"


class Replicated(OnRanks):
    """A small value that every rank holds; `result` gives it as plain Python."""

    __slots__ = ("__weakref__", "communicator", "content")
    spent = False  # nothing overwrites it

    def __init__(self, communicator: Communicator, content: Any) -> None:
        self.communicator = communicator
        self.content = content

    def result(self) -> Any:
        """The value, as a copy; waits for it where the transport is lazy. Equal on every rank."""
        return duplicate(self.communicator._result(self.content))

    def __repr__(self) -> str:
        return f"<Replicated on {counted(self.communicator.n_ranks, 'rank')}>"


def is_no_part_of_a_value(handle: Any) -> InputError:
    """The error where one is copied or pickled; `run` and steps take them otherwise."""
    return InputError(
        f"A {type(handle).__name__} can't be part of a value that is handed out, or brought here: "
        "give it to `run`, or to a step by position."
    )


@dataclass(eq=False)
class Pending:
    """Messages on their way: what `post` and `post_values` give and `collect` takes, once."""

    communicator: Communicator
    round: PreparedRound | Exchange
    label: str
    index: int
    content: Any = field(default=None, repr=False)
    collected: bool = False
    reduction: str = ""


def check_step(
    communicator: Communicator,
    values: Sequence[Any],
    static: dict[str, Any],
    n_per_rank: int = 0,
) -> None:
    """Refuse a step whose arguments are not values of this open communicator, or are spent.

    The first `n_per_rank` are values of ranks, the others may be replicated.
    """
    communicator._require_open()
    for place, value in enumerate(values):
        if not isinstance(value, (PerRank, Replicated)):
            raise InputError(
                f"Argument {place} is {type(value).__name__}, not a per-rank value; hand it "
                "out with values(…) or replicated(…), or pass it by keyword if it is plain."
            )
        if value.communicator is not communicator:
            raise InputError(f"Argument {place} belongs to another communicator.")
        if place < n_per_rank and not isinstance(value, PerRank):
            raise InputError(
                f"Argument {place} is a replicated value, the same for all ranks, and a value of "
                "each rank is needed: look at its result(), or make per-rank values of it with "
                "map(…)."
            )
        if value.spent:
            raise InputError(
                f"Argument {place} was given to update or collect before, which may have "
                "overwritten it; use the value that they returned."
            )
    for name, value in static.items():
        if isinstance(value, (PerRank, Replicated)):
            raise InputError(f"{name}= is a per-rank value; pass those by position.")


def require_kind(given: Any, kind: type, wanted: str) -> None:
    """Refuse what is not of this class."""
    if not isinstance(given, kind):
        raise InputError(f"Got {type(given).__name__}: give {wanted}.")


def duplicate(value: Any) -> Any:
    """A copy that shares nothing: ``value.copy()`` where an object offers it, else a deep copy.

    A deep one, too, where ``copy()`` is known to share: of containers it shares what they contain,
    and who says how to be copied deeply does so because ``copy()`` is not that. Of an array the
    copy lies in memory as the array does: else a sum of it could have other bits.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy(order="K")
    if hasattr(value, "__deepcopy__") or isinstance(value, Collection):
        return copy.deepcopy(value)
    return value.copy() if callable(getattr(value, "copy", None)) else copy.deepcopy(value)
