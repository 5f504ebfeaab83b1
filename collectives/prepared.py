"""Plans made ready for running: items become positions, messages become an inbox.

    plan (item ids)                 rank 2 numbers its items 40, 7, 9
    0 ──{7, 40}──▶ 2                so it receives into positions 1, 0

Every transport uses these same few functions, so that a bad plan, or ranks that disagree, give
the same error everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .plan import Plan, RankRound, Round

if TYPE_CHECKING:
    from .communicator import PerRank


@dataclass(frozen=True, eq=False)
class RankMessages:
    """One rank's messages of one round, in local positions.

    Attributes
    ----------
    rank : int
    destinations, sources : list of int
        Rising.
    out_positions, in_positions : list of int64 array
        One array a destination, or source.
    """

    rank: int
    destinations: list[int]
    out_positions: list[NDArray[np.int64]]
    sources: list[int]
    in_positions: list[NDArray[np.int64]]

    @cached_property
    def out_runs(self) -> list[slice | None]:
        """For each destination its positions as a slice, where they follow one another."""
        return [_run(positions) for positions in self.out_positions]

    @cached_property
    def in_runs(self) -> list[slice | None]:
        """For each source the same; no slice at all if a position comes twice, or is sent too."""
        coming = np.concatenate([*self.in_positions, np.zeros(0, np.int64)])
        sent = np.concatenate([*self.out_positions, np.zeros(0, np.int64)])
        if len(np.unique(coming)) < len(coming) or np.isin(coming, sent).any():
            return [None] * len(self.in_positions)
        return [_run(positions) for positions in self.in_positions]


@dataclass(frozen=True, eq=False)
class PreparedRound:
    """A round whose items are local positions on every rank."""

    round: Round
    label: str
    index: int  # of the round in its plan
    slot: int  # in each rank's list of messages, which may serve several plans
    messages: PerRank = field(repr=False)


@dataclass(frozen=True, eq=False)
class PreparedPlan:
    """A plan ready to run: `rounds` go to `Communicator.post` one after another."""

    plan: Plan
    label: str
    rounds: tuple[PreparedRound, ...]


@dataclass(eq=False)
class Inbox:
    """What arrived at a rank in one round.

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


def slices_of_ranks(plans: Sequence[Plan]) -> list[list[RankRound]]:
    """For each rank its slice of every round of every plan, in order."""
    rounds = [entry for plan in plans for entry in plan.rounds]
    n_ranks = rounds[0].n_ranks if rounds else 0
    return [[entry.of_rank(rank) for entry in rounds] for rank in range(n_ranks)]


def localise(rounds: list[RankRound], numbering: NDArray[Any]) -> list[RankMessages]:
    """Translate a rank's slices from item ids to its local positions.

    Raises
    ------
    InputError
        If the numbering names an item twice, or lacks an item that the plan sends or receives.
    """
    numbering = np.asarray(numbering)
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


def pack_message(
    value: Any, positions: NDArray[np.int64], pack: Callable, source: int, destination: int
) -> NDArray[Any]:
    """Call `pack` for one message and check that it gave one row a position."""
    payload = np.asarray(pack(value, positions))
    if payload.ndim == 0 or len(payload) != len(positions):
        raise InputError(
            f"Rank {source} packed an array of shape {payload.shape} for {len(positions)} rows "
            f"to rank {destination}; pack must give one row a position."
        )
    # a view could change under the receiver when the sender goes on
    return payload if payload.flags.owndata and payload is not value else payload.copy()


def open_inbox(messages: RankMessages, payloads: list[NDArray[Any]]) -> Inbox:
    """Check that all payloads to a rank agree in dtype and row shape, and hand them over."""
    for source, payload in zip(messages.sources, payloads, strict=True):
        first = payloads[0]
        if payload.dtype != first.dtype or payload.shape[1:] != first.shape[1:]:
            raise InputError(
                f"Ranks {messages.sources[0]} and {source} disagree in what they send to rank "
                f"{messages.rank}: rows of shape {first.shape[1:]} and dtype {first.dtype} against "
                f"{payload.shape[1:]} and {payload.dtype}."
            )
    return Inbox(messages.rank, messages.sources, messages.in_positions, payloads)


def _run(positions: NDArray[np.int64]) -> slice | None:
    if not len(positions) or (np.diff(positions) != 1).any():
        return None
    return slice(int(positions[0]), int(positions[-1]) + 1)


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
        return np.split(order[place], pointer[1:-1])[: len(pointer) - 1]

    return RankMessages(
        rank=entry.rank,
        destinations=entry.destinations.tolist(),
        out_positions=positions(entry.out_items, entry.out_pointer, "sends"),
        sources=entry.sources.tolist(),
        in_positions=positions(entry.in_items, entry.in_pointer, "receives"),
    )
