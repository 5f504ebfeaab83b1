"""One rank's half of a round of messages; every transport runs these same few functions.

    Round of a plan (item ids)            Exchange (who sends to whom)
    0 ──{7, 40}──▶ 2                      0 ──▶ 1, 0 ──▶ 3, 1 ──▶ 0
       │ localise                            │ of_ranks
       ▼                                     ▼
    RankMessages: local positions         RankExchange: pairs of ranks; the sender alone knows sizes
       └──────────── messages(value, pack) ──▶ payloads ──▶ incoming ──▶ Inbox ─────────────┘

A plan fixes the rows of every message beforehand. The sparse collectives can't: how many entries
survive a merge is known after the merge; so there only the pairs of ranks are fixed, and each
payload says by its arrays how much there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import (
    as_array,
    ranks_disagree,
    require_same_arrays,
    several,
    whole_number,
)
from daskpart.errors import InputError

from .large_arrays import copied
from .plan import Plan, RankRound, Round, as_int32, check_pairs

if TYPE_CHECKING:
    from .communicator import PerRank

Payload = tuple[NDArray[Any], ...]


class Message(NamedTuple):
    """One message as it leaves a rank, for one or several others; counted by its rows and bytes."""

    destinations: list[int]
    payload: Any
    rows: int
    nbytes: int


# -- messages of a plan: rows at local positions ---


@dataclass(eq=False)
class Inbox:
    """What arrived at a rank in one round of a plan.

    Attributes
    ----------
    rank : int
        The receiving rank.
    sources : list of int
        Ranks that sent, rising.
    positions : list of int64 array
        For each source the local positions that its rows are for, each at most once.
    payloads : list of array
        For each source one row a position. Read only: another rank may see the same memory.
    """

    rank: int
    sources: list[int]
    positions: list[NDArray[np.int64]]
    payloads: list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class RankMessages:
    """One rank's messages of one round of a plan: ranks, rising, and local positions for each.

    Rows are packed by one call, for all destinations one after the other.
    """

    rank: int
    destinations: list[int]
    out_positions: list[NDArray[np.int64]]
    sources: list[int]
    in_positions: list[NDArray[np.int64]]

    def messages(self, value: Any, pack: Callable, place: int | None = None) -> list[Message]:
        """What the rank sends: ``pack(value, positions)`` gives the rows of all messages.

        `place` is that of one destination, where only its message is wanted.
        """
        if not self.destinations:
            return []
        destinations, of_each = self.destinations, self.out_positions
        if place is not None:
            destinations, of_each = [destinations[place]], [of_each[place]]
        every = of_each[0] if len(of_each) == 1 else np.concatenate(of_each)
        rows = packed_rows(self.rank, pack, value, every)
        if not rows.flags.owndata or rows is value:
            rows = copied(rows)  # a view could change under the receiver
        return [
            Message([destination], payload, len(payload), payload.nbytes)
            for destination, payload in zip(
                destinations, _pieces(rows, list(map(len, of_each))), strict=True
            )
        ]

    def incoming(self, payloads: list[NDArray[Any]]) -> Inbox:
        """What arrived, in the order of `sources`; they must agree in dtype and row shape.

        InputError too for another number of rows than the plan has here, by which ranks that made
        different plans are known: NumPy would write one row to many places.
        """
        for source, payload, positions in zip(
            self.sources, payloads, self.in_positions, strict=True
        ):
            if len(payload) != len(positions):
                told = f"{len(payload)} rows sent", f"{len(positions)} by the plan here"
                raise ranks_disagree("a plan", (source, told[0]), (self.rank, told[1]))
            if payload.dtype != payloads[0].dtype or payload.shape[1:] != payloads[0].shape[1:]:
                one, other = (self.sources[0], payloads[0]), (source, payload)
                require_same_arrays(f"what they send to rank {self.rank}", one, other, rows=True)
        return Inbox(self.rank, self.sources, self.in_positions, payloads)


@dataclass(frozen=True, eq=False)
class PreparedRound:
    """A round whose items are local positions on every rank.

    Attributes
    ----------
    label, index : str, int
        Name of the plan's rounds in `counters`, and the place among them.
    slot : int
        Place in each rank's list of messages, which may serve several plans.
    messages : PerRank of list of RankMessages
    round : Round or None
        The whole of it, at the driver; None on a rank, which holds its own half only.
    """

    label: str
    index: int
    slot: int
    messages: PerRank = field(repr=False)
    round: Round | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "round": None}


@dataclass(frozen=True, eq=False)
class PreparedPlan:
    """A plan ready to run: `rounds` go to `Communicator.post` one after another.

    `plan` is None on a rank: what travels to the ranks is their own half of it.
    """

    kind: str
    label: str
    rounds: tuple[PreparedRound, ...]
    plan: Plan | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plan": None}


def require_prepared(given: object, kind: str) -> None:
    """Refuse what is no prepared plan, above all the plan itself, or one of another kind.

    Run as this one, its rows would go to the wrong ranks.
    """
    if not isinstance(given, PreparedPlan):
        raise InputError(
            f"prepared is a {type(given).__name__}: give what "
            "communicator.prepare(plan, numbering) made of a plan."
        )
    if given.kind != kind:
        raise InputError(
            f"A plan of kind {kind} is needed, got one of kind {given.kind}; use its reversed()."
        )


def packed_rows(rank: int, pack: Callable, value: Any, positions: NDArray[Any]) -> NDArray[Any]:
    """``pack(value, positions)``; InputError unless it gave one row a position."""
    rows = as_array(pack(value, positions), f"rows of rank {rank}")
    if rows.ndim == 0 or len(rows) != len(positions):
        raise InputError(
            f"Rank {rank} packed an array of shape {rows.shape} for {len(positions)} rows; "
            "pack must give one row a position."
        )
    return rows


def localise(rounds: list[RankRound], numbering: NDArray[Any]) -> list[RankMessages]:
    """Translate a rank's slices from item ids to its local positions.

    InputError if the numbering names an item twice, or lacks one that the plan sends or receives.
    """
    numbering = as_array(numbering, "items of a numbering")
    if numbering.ndim != 1 or not (
        np.issubdtype(numbering.dtype, np.integer) or not numbering.size
    ):
        raise InputError(
            "A numbering is a 1-d integer array of item ids, "
            f"got shape {numbering.shape} of dtype {numbering.dtype}."
        )
    order = np.argsort(numbering, kind="stable")
    ordered = numbering[order]
    if (np.diff(ordered) == 0).any():
        twice = int(ordered[1:][np.diff(ordered) == 0][0])
        raise InputError(f"The numbering names item {twice} twice.")
    return [_localise_round(entry, order, ordered) for entry in rounds]


def _localise_round(
    entry: RankRound, order: NDArray[np.int64], ordered: NDArray[Any]
) -> RankMessages:
    def positions(items: NDArray[np.int32], pointer: NDArray[np.int64], does: str) -> list:
        place = np.searchsorted(ordered, items)
        known = place < len(ordered)
        known[known] = ordered[place[known]] == items[known]
        if not known.all():
            item = int(items[~known][0])
            raise InputError(
                f"Rank {entry.rank} {does} item {item} by the plan, but its numbering lacks it."
            )
        return _pieces(order[place], np.diff(pointer).tolist())

    return RankMessages(
        rank=entry.rank,
        destinations=entry.destinations.tolist(),
        out_positions=positions(entry.out_items, entry.out_pointer, "sends"),
        sources=entry.sources.tolist(),
        in_positions=positions(entry.in_items, entry.in_pointer, "receives"),
    )


def _pieces(rows: NDArray[Any], lengths: list[int]) -> list[NDArray[Any]]:
    """Views of so many rows each, one after the other, by slices alone, as there may be many."""
    pieces, begin = [], 0
    for length in lengths:
        pieces.append(rows[begin : begin + length])
        begin += length
    return pieces


# -- messages of any size: arrays ---


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


@dataclass(frozen=True, eq=False)
class RankExchange:
    """One rank's messages of an exchange: the ranks it sends to and receives from, rising."""

    rank: int
    destinations: list[int]
    sources: list[int]

    def messages(self, value: Any, pack: Callable, place: int | None = None) -> list[Message]:
        """What the rank sends, of ``pack(value, source, destinations)``; see `RankMessages`.

        What is given several times in a row is one message to several ranks.
        """
        wanted = self.destinations if place is None else [self.destinations[place]]
        packed = pack(value, self.rank, wanted) if wanted else []
        if not isinstance(packed, list) or len(packed) != len(wanted):
            raise InputError(
                f"Rank {self.rank} packed {type(packed).__name__} for {len(wanted)} ranks; pack "
                "must give a list of one tuple of arrays for each of them."
            )
        messages: list[Message] = []
        last = None
        for given, destination in zip(packed, wanted, strict=True):
            if messages and given is last:
                messages[-1].destinations.append(destination)
                continue
            if not isinstance(given, tuple) or not given:
                raise InputError(
                    f"Rank {self.rank} packed {type(given).__name__} for rank {destination}; pack "
                    "must give a tuple of at least one array."
                )
            payload, last = tuple([_frozen(each, self.rank, destination) for each in given]), given
            nbytes = sum([array.nbytes for array in payload])
            messages.append(Message([destination], payload, len(payload[0]), nbytes))
        return messages

    def incoming(self, payloads: list[Payload]) -> ValueInbox:
        """What arrived, in the order of `sources`."""
        return ValueInbox(self.rank, self.sources, payloads)


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
        object.__setattr__(self, "n_ranks", whole_number(self.n_ranks, "n_ranks", 1))
        for name in ("source", "destination"):
            object.__setattr__(self, name, as_int32(name, getattr(self, name)))
        check_pairs("An exchange", self.n_ranks, self.source, self.destination)

    @classmethod
    def from_pairs(cls, n_ranks: int, pairs: Iterable[tuple[int, int]]) -> Exchange:
        """Who sends to whom, by pairs.

        Parameters
        ----------
        n_ranks : int
        pairs : iterable of (int, int)
            Source and destination of each message, in any order.

        Raises
        ------
        InputError
            For what is no pair, or no rank.
        """
        held = several(pairs, "pairs", "a source and a destination for each message")
        if wrong := [pair for pair in held if np.shape(pair) != (2,)]:
            raise InputError(f"Pairs are (source, destination); got {wrong[0]!r}.")
        ordered = np.array(sorted(held)).reshape(-1, 2)
        return cls(n_ranks, ordered[:, 0], ordered[:, 1])

    @cached_property
    def of_ranks(self) -> list[RankExchange]:
        """Each rank's half."""
        halves = [RankExchange(rank, [], []) for rank in range(self.n_ranks)]
        pairs = zip(self.source.tolist(), self.destination.tolist(), strict=True)
        for source, destination in pairs:  # both rise
            halves[source].destinations.append(destination)
            halves[destination].sources.append(source)
        return halves


def _frozen(array: Any, source: int, destination: int) -> NDArray[Any]:
    """An array of a message, made sure that nobody changes it on its way.

    One that is marked read-only is handed over as it is, any other one is copied.
    """
    if not isinstance(array, np.ndarray) or array.ndim == 0 or array.dtype.hasobject:
        raise InputError(
            f"Rank {source} packed {type(array).__name__} in its message to rank {destination}; "
            "pack must give arrays of at least one dimension and no Python objects."
        )
    flags = array.flags
    if flags.writeable or not flags.c_contiguous:
        array = copied(array)
        array.flags.writeable = False
    return array
