"""What an algorithm text holds: a value a rank, a value that all ranks hold, messages on their way.

A text never looks inside a `PerRank`; the `result` of a `Replicated` is plain Python.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from daskpart.errors import InputError

from .prepared import PreparedRound

if TYPE_CHECKING:
    from .communicator import Communicator


class PerRank:
    """One value a rank, held where the transport holds it; made by a `Communicator`."""

    __slots__ = ("__weakref__", "borrowed", "communicator", "content", "spent")

    def __init__(self, communicator: Communicator, content: Any, borrowed: bool = False) -> None:
        self.communicator = communicator
        self.content = content
        self.borrowed = borrowed  # the caller still holds these objects: copy before overwriting
        self.spent = False

    def __repr__(self) -> str:
        note = ", spent" if self.spent else ""
        return f"<{type(self).__name__} of {self.communicator.n_ranks} ranks{note}>"


class Replicated:
    """A small value that every rank holds; `result` gives it as plain Python."""

    __slots__ = ("__weakref__", "communicator", "content")

    def __init__(self, communicator: Communicator, content: Any) -> None:
        self.communicator = communicator
        self.content = content

    def result(self) -> Any:
        """The value; waits for it where the transport is lazy. Equal on every rank."""
        return self.communicator._result(self.content)

    def __repr__(self) -> str:
        return f"<Replicated on {self.communicator.n_ranks} ranks>"


@dataclass(eq=False)
class Pending:
    """Messages on their way: what `post` gives and `collect` takes, once."""

    communicator: Communicator
    prepared_round: PreparedRound
    content: Any = field(repr=False)
    collected: bool = False


def require_step(communicator: Communicator, values: Sequence[Any], static: dict[str, Any]) -> None:
    """Refuse a step whose arguments are not values of this communicator, or are spent."""
    for place, value in enumerate(values):
        if not isinstance(value, (PerRank, Replicated)):
            raise InputError(
                f"Argument {place} is {type(value).__name__}, not a per-rank value; hand it "
                "out with values(…) or replicated(…), or pass it by keyword if it is plain."
            )
        if value.communicator is not communicator:
            raise InputError(f"Argument {place} belongs to another communicator.")
        if isinstance(value, PerRank) and value.spent:
            raise InputError(
                f"Argument {place} was given to update or collect before, which may have "
                "overwritten it; use the value that they returned."
            )
    for name, value in static.items():
        if isinstance(value, (PerRank, Replicated)):
            raise InputError(f"{name}= is a per-rank value; pass those by position.")


def duplicate(value: Any) -> Any:
    """A copy that shares nothing: ``value.copy()`` where an object offers it, else a deep copy."""
    if isinstance(value, (dict, list, set)) or not callable(getattr(value, "copy", None)):
        return copy.deepcopy(value)
    return value.copy()
