"""A plan is data: rounds of messages in flat arrays, known before anything is sent.

    round of 3 ranks           source       0  0  2
    0 ──{4, 7}──▶ 1            destination  1  2  0
    0 ──{7}─────▶ 2            pointer      0  2  3  5
    2 ──{1, 5}──▶ 0            items        4  7 | 7 | 1  5

Messages stand in order of (source, destination), and the items of a message in rising order: the
compressed headers and indices of η-PASGD §3.4, for all ranks at once. A rank needs only its own
slice (`Round.of_rank`): what it sends, and the mirrored list of what it receives.

A reduce is its expand reversed: the rounds in reverse order, with source and destination swapped.
Nothing here runs anything, so a plan for thousands of ranks can be counted and priced on one
machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.checks import as_array, require_like, whole_number, whole_numbers
from daskpart._floor.compressed_rows import entries_of_rows
from daskpart._floor.words import counted
from daskpart.errors import InputError

from .counters import PlanStatistics, RoundRecord

_OPPOSITE = {"expand": "reduce", "reduce": "expand", "allreduce": "allreduce"}
_COLUMNS = ("source", "destination", "pointer", "items")


@dataclass(frozen=True)
class RankRound:
    """What one rank sends and receives in a round (η-PASGD §3.4).

    Attributes
    ----------
    rank : int
    destinations : int32 array
        Ranks to send to, rising.
    out_pointer : int64 array of shape (n_destinations + 1,)
    out_items : int32 array
        Items to `destinations[i]` are ``out_items[out_pointer[i]:out_pointer[i + 1]]``.
    sources : int32 array
        Ranks to receive from, rising.
    in_pointer : int64 array of shape (n_sources + 1,)
    in_items : int32 array
    """

    rank: int
    destinations: NDArray[np.int32]
    out_pointer: NDArray[np.int64]
    out_items: NDArray[np.int32]
    sources: NDArray[np.int32]
    in_pointer: NDArray[np.int64]
    in_items: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Round:
    """One round: each rank sends at most one message to each other rank.

    Parameters
    ----------
    n_ranks : int
    source, destination : int32 array of shape (n_messages,)
        In order of (source, destination), each pair at most once, never a rank to itself.
    pointer : int64 array of shape (n_messages + 1,)
    items : int32 array of shape (pointer[-1],)
        The items of message m are ``items[pointer[m]:pointer[m + 1]]``, in rising order, each once.

    Raises
    ------
    InputError
        If the arrays do not form a round.
    """

    n_ranks: int
    source: NDArray[np.int32] = field(repr=False)
    destination: NDArray[np.int32] = field(repr=False)
    pointer: NDArray[np.int64] = field(repr=False)
    items: NDArray[np.int32] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_ranks", whole_number(self.n_ranks, "n_ranks", 1))
        for name in ("source", "destination", "items"):
            object.__setattr__(self, name, as_int32(name, getattr(self, name)))
        object.__setattr__(self, "pointer", whole_numbers(self.pointer, "pointer entry"))
        n_messages = len(self.source)
        if len(self.destination) != n_messages or len(self.pointer) != n_messages + 1:
            raise InputError(
                f"A round of {n_messages} sources needs as many destinations and a pointer one "
                f"longer; got {len(self.destination)} and {len(self.pointer)}."
            )
        lengths = np.diff(self.pointer)
        if self.pointer[0] != 0 or self.pointer[-1] != len(self.items) or (lengths < 0).any():
            raise InputError("The pointer of a round must rise from 0 to the number of its items.")
        check_pairs("A round", self.n_ranks, self.source, self.destination)
        _check_items(self.items)
        if (steps_within(self.items, self.pointer) <= 0).any():
            raise InputError("The items of a message must stand in rising order, each once.")

    @classmethod
    def from_transfers(
        cls, n_ranks: int, source: ArrayLike, destination: ArrayLike, items: ArrayLike
    ) -> Round:
        """Gather single transfers (item i from a source to a destination) into messages.

        Parameters
        ----------
        n_ranks : int
        source, destination, items : int array of shape (n_transfers,)
            In any order.

        Raises
        ------
        InputError
            For a rank or item outside, a transfer that is named twice, or one to the same rank.
        """
        n_ranks = whole_number(n_ranks, "n_ranks", 1)
        source = as_int32("source", source).astype(np.int64)
        destination = as_int32("destination", destination).astype(np.int64)
        item = as_int32("items", items).astype(np.int64)
        _check_ranks("A round", n_ranks, source, destination)  # else a key would be that of others
        if len(item) != len(source):
            raise InputError(f"{len(source)} transfers need as many items, got {len(item)}.")
        _check_items(item)
        span = int(item.max(initial=0)) + 1
        if n_ranks**2 * span < 2**63:  # one sort of single numbers is far quicker than a lexsort
            key = (source * n_ranks + destination) * span + item
            key.sort()
            pair, item = np.divmod(key, span)
        else:
            order = np.lexsort((item, destination, source))
            pair, item = (source * n_ranks + destination)[order], item[order]
        first = np.flatnonzero(np.diff(pair, prepend=-1))
        sender, receiver = (ranks.astype(np.int32) for ranks in np.divmod(pair[first], n_ranks))
        pointer = np.append(first, len(item))
        return cls(n_ranks, sender, receiver, pointer, item.astype(np.int32))

    @property
    def n_messages(self) -> int:
        """Messages in the round."""
        return len(self.source)

    @property
    def n_rows(self) -> int:
        """Rows (one an item and message) that travel in the round."""
        return len(self.items)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Rows of each message, shape (n_messages,)."""
        return np.diff(self.pointer)

    def reversed(self) -> Round:
        """The round with every message sent back: source and destination swapped."""
        order, _ = self._by_destination
        begin, take = entries_of_rows(self.pointer, order)
        return Round(
            self.n_ranks, self.destination[order], self.source[order], begin, self.items[take]
        )

    def of_rank(self, rank: int) -> RankRound:
        """The slice of one rank: its messages out and its messages in."""
        if not 0 <= rank < self.n_ranks:
            raise InputError(f"rank {rank} is not one of the plan's 0..{self.n_ranks - 1}.")
        # of the type of `source`, which else would be copied into a wider one
        begin, end = np.searchsorted(self.source, np.array([rank, rank + 1], self.source.dtype))
        order, first = self._by_destination
        arriving = order[first[rank] : first[rank + 1]]
        in_pointer, take = entries_of_rows(self.pointer, arriving)
        return RankRound(
            rank=rank,
            destinations=self.destination[begin:end],
            out_pointer=self.pointer[begin : end + 1] - self.pointer[begin],
            out_items=self.items[self.pointer[begin] : self.pointer[end]],
            sources=self.source[arriving],
            in_pointer=in_pointer,
            in_items=self.items[take],
        )

    def traffic(self) -> NDArray[np.int64]:
        """Rows from each rank (row) to each rank (column), a dense (n_ranks, n_ranks) array."""
        rows = np.zeros((self.n_ranks, self.n_ranks), dtype=np.int64)
        rows[self.source, self.destination] = self.lengths
        return rows

    @cached_property
    def _by_destination(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Messages in order of (destination, source), and where each destination begins."""
        order = np.argsort(self.destination, kind="stable")
        begin = np.searchsorted(self.destination[order], np.arange(self.n_ranks + 1))
        return order, begin.astype(np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Round):
            return NotImplemented
        return self.n_ranks == other.n_ranks and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Plan:
    """Rounds of messages that together carry items between ranks.

    Parameters
    ----------
    kind : {"expand", "reduce", "allreduce"}
        Which way rows go: from owners to sharers, from sharers to owners, or from all to all.
    n_items : int
        Items are numbered from 0 to n_items - 1.
    rounds : sequence of Round
        At least one, all for the same number of ranks; a round may hold no message.
    """

    kind: str
    n_items: int
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", tuple(self.rounds))
        object.__setattr__(self, "n_items", whole_number(self.n_items, "n_items", 0))
        if self.kind not in _OPPOSITE:
            allowed = ", ".join(map(repr, _OPPOSITE))
            raise InputError(f"A plan of kind {self.kind!r}; allowed are {allowed}.")
        if not self.rounds:
            raise InputError("A plan needs at least one round; give an empty Round instead.")
        if len({entry.n_ranks for entry in self.rounds}) > 1:
            given = [entry.n_ranks for entry in self.rounds]
            raise InputError(f"The rounds of a plan are for different numbers of ranks: {given}.")
        highest = max(int(entry.items.max(initial=-1)) for entry in self.rounds)
        if highest >= self.n_items:
            raise InputError(f"The plan sends item {highest}, but n_items is {self.n_items}.")

    @property
    def n_ranks(self) -> int:
        """Ranks that the plan is for."""
        return self.rounds[0].n_ranks

    @property
    def total_rows(self) -> int:
        """Rows sent, over all ranks and rounds (the communication volume, in rows)."""
        return sum(entry.n_rows for entry in self.rounds)

    @property
    def total_messages(self) -> int:
        """Messages sent, over all ranks and rounds."""
        return sum(entry.n_messages for entry in self.rounds)

    def reversed(self) -> Plan:
        """The dual plan: an expand becomes its reduce, and a reduce its expand."""
        rounds = tuple(entry.reversed() for entry in self.rounds[::-1])
        return Plan(_OPPOSITE[self.kind], self.n_items, rounds)

    def statistics(self) -> PlanStatistics:
        """Messages and rows per rank and round."""
        return PlanStatistics.of_records(self.records(), self.n_ranks)

    def records(self, row_bytes: float = 0) -> list[RoundRecord]:
        """What each round will send, as a run counts it, of rows of `row_bytes` bytes."""
        return [
            RoundRecord(
                self.kind, index, entry.source, entry.destination, entry.lengths,
                row_bytes * entry.lengths,
            )
            for index, entry in enumerate(self.rounds)
        ]  # fmt: skip

    def predicted_seconds(self, alpha: float, beta: float, row_bytes: float) -> float:
        """Seconds, round after round: `alpha` a message, `beta` a byte of rows of `row_bytes`."""
        return self.statistics().seconds(alpha, beta, row_bytes)

    def traffic(self) -> NDArray[np.int64]:
        """Rows from each rank to each rank over all rounds, a dense (n_ranks, n_ranks) array."""
        return reduce(np.add, (entry.traffic() for entry in self.rounds))

    def save(self, path: str | Path) -> None:
        """Write the plan to an .npz file (no pickle inside)."""
        with replacing(path) as file:
            np.savez(file, **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        """What `save` writes."""
        sizes = np.array([self.n_items, self.n_ranks, len(self.rounds)], dtype=np.int64)
        arrays: dict[str, Any] = {"kind": np.array(self.kind), "sizes": sizes}
        for i, entry in enumerate(self.rounds):
            arrays |= {f"{name}_{i}": getattr(entry, name) for name in _COLUMNS}
        return arrays

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan that `save` wrote, of an embedded one what it carries.

        ReadError for a damaged file; `hypercube.load_plan` reads an embedded plan as such.
        """
        with opened_npz(path) as stored:
            n_items, n_ranks, n_rounds = (int(size) for size in stored["sizes"])
            rounds = [
                Round(n_ranks, *(stored[f"{name}_{i}"] for name in _COLUMNS))
                for i in range(n_rounds)
            ]
            return cls(str(stored["kind"]), n_items, tuple(rounds))

    def __repr__(self) -> str:
        return (
            f"Plan({self.kind}, ranks={self.n_ranks}, rounds={len(self.rounds)}, "
            f"items={self.n_items}, messages={self.total_messages}, rows={self.total_rows})"
        )

    def _repr_html_(self) -> str:
        items = counted(self.n_items, "item")
        return f"<b>{self.kind} plan</b>, {items}{self.statistics()._repr_html_()}"


def require_same_ranks(plans: Sequence[Plan], n_ranks: int) -> None:
    """Raise InputError unless every plan is for `n_ranks` ranks."""
    for plan in plans:
        require_like(plan, "plan", ("rounds", "kind"), "a Plan, such as an expand_plan")
        if plan.n_ranks != n_ranks:
            raise InputError(
                f"The {plan.kind} plan is for {plan.n_ranks} ranks, the communicator has "
                f"{n_ranks}; build the plan from a partition into as many parts as there are ranks."
            )


def check_pairs(
    what: str, n_ranks: int, source: NDArray[np.int32], destination: NDArray[np.int32]
) -> None:
    """Refuse ranks that are outside, a message to oneself, and pairs that do not rise."""
    _check_ranks(what, n_ranks, source, destination)
    if (source == destination).any():
        rank = int(source[source == destination][0])
        raise InputError(f"Rank {rank} would send to itself; it has its own value.")
    if (np.diff(source.astype(np.int64) * n_ranks + destination) <= 0).any():
        raise InputError(
            "Pairs of ranks must stand in order of (source, destination) and come once; "
            "Round.from_transfers and Exchange.from_pairs sort."
        )


def _check_ranks(what: str, n_ranks: int, *ends: NDArray[Any]) -> None:
    if len({each.shape for each in ends}) > 1:
        shapes = ", ".join(str(each.shape) for each in ends)
        raise InputError(f"{what} needs as many sources as destinations; got shapes {shapes}.")
    ranks = np.concatenate(ends)
    if ranks.size and (ranks.min() < 0 or ranks.max() >= n_ranks):
        raise InputError(
            f"{what} of {n_ranks} ranks names ranks {ranks.min()}..{ranks.max()}; allowed are "
            f"0 to {n_ranks - 1}."
        )


def _check_items(items: NDArray[Any]) -> None:
    if items.size and items.min() < 0:
        raise InputError(f"A round names item {items.min()}; items start at 0.")


def as_int32(name: str, values: ArrayLike) -> NDArray[np.int32]:
    """Whole numbers that int32 has, as such: others would become something else."""
    given = as_array(values, name)
    if given.ndim != 1:
        raise InputError(f"{name} of messages: give one number each, got shape {given.shape}")
    if given.dtype == np.int32:
        return given
    found = given.astype(np.int32) if given.dtype.kind in "iu" or not given.size else None
    if found is None or not np.array_equal(found, given):
        raise InputError(f"{name} of messages: give whole numbers below 2**31, got {given.dtype}")
    return found


def steps_within(values: NDArray[Any], pointer: NDArray[np.int64]) -> NDArray[Any]:
    """Differences of neighbours that are in the same of the pieces that a pointer cuts."""
    starts = pointer[1:-1]
    between = starts[(starts > 0) & (starts < len(values))] - 1
    return np.delete(np.diff(values), between)
