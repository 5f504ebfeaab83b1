"""Messages whose size is known only when they are made: who sends to whom is data, what is free.

    Exchange (known to every rank)        payloads (known to the sender)
    0 ──▶ 1, 0 ──▶ 3, 1 ──▶ 0, …          a few arrays, of any length: (values, indices)

A `Plan` fixes the rows of every message beforehand. The sparse collectives can't: how many entries
survive a merge is known after the merge. So here only the pairs of ranks are fixed, and each
payload says by its arrays how much there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

if TYPE_CHECKING:
    from .communicator import Communicator

Payload = tuple[NDArray[Any], ...]


@dataclass(frozen=True, eq=False)
class Exchange:
    """Who sends to whom in one round; plain data, the same on every rank.

    Parameters
    ----------
    n_ranks : int
    source, destination : int32 array of shape (n_messages,)
        Sorted by (source, destination); no pair twice, none to itself. `from_pairs` sorts.

    Raises
    ------
    InputError
        For a rank outside, a message to oneself, or a pair named twice.
    """

    n_ranks: int
    source: NDArray[np.int32]
    destination: NDArray[np.int32]

    def __post_init__(self) -> None:
        for ranks in (self.source, self.destination):
            if ranks.size and not 0 <= ranks.min() <= ranks.max() < self.n_ranks:
                raise InputError(
                    f"An exchange of {self.n_ranks} ranks names ranks {ranks.min()} to "
                    f"{ranks.max()}; allowed are 0 to {self.n_ranks - 1}."
                )
        if (self.source == self.destination).any():
            rank = int(self.source[self.source == self.destination][0])
            raise InputError(f"Rank {rank} would send to itself; it has its own value.")
        order = self.source.astype(np.int64) * self.n_ranks + self.destination
        if (np.diff(order) <= 0).any():
            raise InputError("Pairs of ranks must rise and come once; use Exchange.from_pairs.")

    @classmethod
    def from_pairs(cls, n_ranks: int, pairs: Iterable[tuple[int, int]]) -> Exchange:
        """Of (source, destination) pairs in any order."""
        ordered = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)
        return cls(n_ranks, ordered[:, 0].copy(), ordered[:, 1].copy())

    @cached_property
    def destinations(self) -> list[list[int]]:
        """For each rank the ranks that it sends to, rising."""
        return _grouped(self.n_ranks, self.source, self.destination)

    @cached_property
    def sources(self) -> list[list[int]]:
        """For each rank the ranks that it receives from, rising."""
        return _grouped(self.n_ranks, self.destination, self.source)


@dataclass(eq=False)
class ValueInbox:
    """What arrived at a rank in one exchange.

    Attributes
    ----------
    rank : int
        The receiving rank.
    sources : list of int
        Ranks that sent, rising.
    payloads : list of tuple of array
        What each of them packed. Read only: another rank may see the same memory.
    """

    rank: int
    sources: list[int]
    payloads: list[Payload]


@dataclass(eq=False)
class PendingValues:
    """Messages of an exchange on their way: from `post_values` to `collect_values`, once."""

    communicator: Communicator
    exchange: Exchange
    content: Any = field(repr=False)
    collected: bool = False


def make_payload(
    value: Any, pack: Callable, source: int, destination: int, lent: bool = False
) -> Payload:
    """Call `pack` for one message and make sure that nobody changes it on its way.

    An array that is marked read-only, or is `lent` until it has arrived, is handed over as it is,
    any other one is copied.
    """
    packed = pack(value, source, destination)
    if not isinstance(packed, tuple) or not packed:
        raise InputError(
            f"Rank {source} packed {type(packed).__name__} for rank {destination}; pack must give "
            "a tuple of at least one array."
        )
    return tuple([_safe_array(array, source, destination, lent) for array in packed])


def payload_size(payload: Payload) -> tuple[int, int]:
    """Rows (the length of the first array) and bytes of a payload, as they are counted."""
    nbytes = payload[0].nbytes
    for array in payload[1:]:
        nbytes += array.nbytes
    return len(payload[0]), nbytes


def _safe_array(array: Any, source: int, destination: int, lent: bool) -> NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype.hasobject:
        raise InputError(
            f"Rank {source} packed {type(array).__name__} in its message to rank {destination}; "
            "pack must give arrays of at least one dimension and no Python objects."
        )
    flags = array.flags
    if (flags.writeable and not lent) or not flags.c_contiguous:
        array = array.copy(order="C")
        array.flags.writeable = False
    return array


def _grouped(n_ranks: int, keys: NDArray[np.int32], values: NDArray[np.int32]) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(n_ranks)]
    for key, value in sorted(zip(keys.tolist(), values.tolist(), strict=True)):
        groups[key].append(value)
    return groups
