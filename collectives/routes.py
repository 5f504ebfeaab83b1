"""Where routed rows start, meet and end at one rank: worked out once, from an embedded plan.

    slots of the rank     0   1   2   3        a round brings       slot 1   slot 2   slot 3
    starts here           a           d                             first    first    meets d
    ends here                 b
    only forwarded                c

A routed row that passes the rank has a slot in its forwarding buffer. Where copies are combined on
the way, a row that arrives is the first in its slot, meets the one that waits there, or ends here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.distinct import distinct

from .hypercube import EmbeddedPlan
from .messages import PreparedPlan, localise
from .plan import Plan, RankRound, require_same_ranks

if TYPE_CHECKING:
    from .communicator import Communicator, PerRank


class Arrivals(NamedTuple):
    """What becomes of the rows of one message that may meet copies; places are those in it."""

    first: NDArray[np.int64]  # rows that are the first copy here
    first_slots: NDArray[np.int64]
    meeting: NDArray[np.int64]  # rows that meet a copy which waits in its slot
    meeting_slots: NDArray[np.int64]
    ending: NDArray[np.int64]  # rows that end here
    ending_positions: NDArray[np.int64]  # in the state


@dataclass(frozen=True, eq=False)
class RankRoutes:
    """Where rows start, meet and end at one rank."""

    rank: int
    routed: NDArray[np.int32]  # rows that pass the rank, rising; slot = place in here
    start_positions: NDArray[np.int64]  # rows of the state that start here
    start_slots: NDArray[np.int64]  # of each of them, rising
    sources: list[int]  # that rows which end here come from, rising: owner or sharer, not last hop
    end_positions: list[NDArray[np.int64]]  # one array a source
    end_slots: list[NDArray[np.int64]]
    arrivals: list[list[Arrivals]]  # of each round by source; empty where copies don't combine


@dataclass(frozen=True, eq=False)
class PreparedEmbedding(PreparedPlan):
    """An embedded plan ready to run; its `rounds` are over the slots of each rank."""

    routes: PerRank = field(repr=False, kw_only=True)
    payload_rows: int = field(kw_only=True)


def prepare_embedding(
    communicator: Communicator, plan: EmbeddedPlan, numbering: PerRank, label: str | None
) -> PreparedEmbedding:
    """Slots and positions on each rank; what a rank only forwards need not be in its numbering."""
    require_same_ranks([plan], communicator.n_ranks)
    # for each rank its slice of the carried plan, in items and in routed rows, and of the rounds
    pieces = communicator._slices([*plan.carried.rounds, plan.carried_rows(), *plan.rounds])
    combines = plan.kind == "reduce" and plan.aware  # copies of a row that meet on the way
    routes = communicator.map(
        routes_of_rank, pieces, numbering, n_routed=plan.n_routed, combines=combines
    )
    payload_ids = (plan.n_routed, plan.n_items)
    slots = communicator.map(slot_numbering, routes, payload_ids=payload_ids)
    rounds = Plan(plan.kind, plan.n_items, plan.rounds)
    (over_slots,) = communicator.prepare_all([rounds], slots, [label or plan.kind])
    return PreparedEmbedding(
        plan.kind, over_slots.label, over_slots.rounds, plan, routes=routes,
        payload_rows=plan.payload_rows,
    )  # fmt: skip


def routes_of_rank(
    pieces: list[RankRound], numbering: NDArray[Any], *, n_routed: int, combines: bool
) -> RankRoutes:
    """Routes through one rank; `numbering` as for `Communicator.prepare`."""
    carried, ends, *rounds = pieces
    passing = [items for entry in rounds for items in (entry.out_items, entry.in_items)]
    items = np.concatenate(passing)
    routed = distinct(items[items < n_routed], n_routed).astype(np.int32)  # the others are payload
    (direct,), (slots,) = localise([carried], numbering), localise([ends], routed)
    start_slots, once = np.unique(_joined(slots.out_positions), return_index=True)
    arrivals: list[list[Arrivals]] = []
    if combines:
        position_of_slot = np.full(len(routed), -1, dtype=np.int64)
        position_of_slot[_joined(slots.in_positions)] = _joined(direct.in_positions)
        waits = np.zeros(len(routed), dtype=bool)
        waits[start_slots] = True
        arrivals = [_arrivals(entry, routed, position_of_slot, waits) for entry in rounds]
    return RankRoutes(
        rank=carried.rank,
        routed=routed,
        start_positions=_joined(direct.out_positions)[once],
        start_slots=start_slots,
        sources=direct.sources,
        end_positions=direct.in_positions,
        end_slots=slots.in_positions,
        arrivals=arrivals,
    )


def _arrivals(
    entry: RankRound,
    routed: NDArray[np.int32],
    position_of_slot: NDArray[np.int64],
    waits: NDArray[np.bool_],
) -> list[Arrivals]:
    """Those of a round; `waits` says which slots hold a copy, and is brought up to date."""
    found = []
    for items in np.split(entry.in_items, entry.in_pointer[1:-1])[: len(entry.sources)]:
        slots = np.searchsorted(routed, items)
        slots = slots[slots < len(routed)]  # behind them comes payload
        ends = position_of_slot[slots] >= 0
        first, meeting, ending = (
            np.flatnonzero(each) for each in (~ends & ~waits[slots], ~ends & waits[slots], ends)
        )
        ending_positions = position_of_slot[slots[ending]]
        found.append(
            Arrivals(first, slots[first], meeting, slots[meeting], ending, ending_positions)
        )
        waits[slots[~ends]] = True
    return found


def slot_numbering(routes: RankRoutes, *, payload_ids: tuple[int, int]) -> NDArray[np.int64]:
    """Ids of the slots: routed rows, then the rows of payload."""
    return np.concatenate((routes.routed.astype(np.int64), np.arange(*payload_ids)))


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
