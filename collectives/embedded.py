"""Sparse expand and reduce inside a hypercube allreduce, over any communicator.

    depart     rows that start here leave the state ──▶ slots
    a round    slots ──▶ one message to the neighbour, payload behind ──▶ slots      ⌈log2 K⌉ times
    deliver    rows that end here ──▶ the state, as one inbox

    embedded_expand, embedded_reduce                          rows alone
    embedded_expand_allreduce, embedded_reduce_allreduce      rows, and a dense payload with them

Abubaker et al. §4; the payload is what hides the latency of the sparse messages (Algorithm 2
there). ``pack``, ``place`` and ``combine`` are those of `expand` and `reduce`, and see the same
inbox as on a point-to-point plan, except where an aware reduce has combined copies on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .hypercube import EmbeddedPlan
from .journey import RankTrip, deliver, depart, merge, pack_slots, payload_of, store, trip_of_rank
from .messages import PreparedPlan, localise
from .plan import RankRound, require_same_ranks
from .reduction import SUM, Reduction, combine_rows, pack_rows, place_rows


@dataclass(frozen=True, eq=False)
class PreparedEmbedding:
    """An embedded plan ready to run; from `prepare_embedded`."""

    plan: EmbeddedPlan
    label: str
    prepared: PreparedPlan  # its rounds, over the slots of each rank
    trips: PerRank = field(repr=False)


def prepare_embedded(
    communicator: Communicator, plan: EmbeddedPlan, numbering: PerRank, label: str | None = None
) -> PreparedEmbedding:
    """Translate an embedded plan into slots and positions on each rank.

    Parameters
    ----------
    communicator : Communicator
    plan : EmbeddedPlan
    numbering : PerRank of int arrays
        Item ids of the rank in its local order, each once, as for `Communicator.prepare`. What a
        rank only forwards need not be in it.
    label : str, optional
        Name of its rounds in `counters`; default ``plan.kind``.

    Raises
    ------
    InputError
        For a plan that is not embedded or is for another number of ranks, or an item that starts
        or ends at a rank that does not hold it.
    """
    if not isinstance(plan, EmbeddedPlan):
        raise InputError(f"{plan!r} is not embedded; use embed(plan), or Communicator.prepare.")
    require_same_ranks([plan], communicator.n_ranks)
    pieces = communicator.values(_pieces_of_ranks(plan))
    trips = communicator.map(_plan_trip, pieces, numbering, n_travellers=plan.n_travellers)
    payload_ids = (plan.n_travellers, plan.n_items)
    slots = communicator.map(_slot_numbering, trips, payload_ids=payload_ids)
    prepared = communicator.prepare(plan, slots, label)
    return PreparedEmbedding(plan, prepared.label, prepared, trips)


def embedded_expand(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    pack: Callable = pack_rows,
    place: Callable = place_rows,
    **static: Any,
) -> PerRank:
    """Send every item's row from its owner to the ranks that share it, through the hypercube.

    Parameters
    ----------
    communicator : Communicator
    prepared : PreparedEmbedding
        Of an expand plan.
    values : PerRank
        State of each rank; spent, as in `Communicator.update`.
    pack, place, **static
        As for `expand`. `pack` is called once, for all rows that start at the rank.

    Returns
    -------
    PerRank
        The new states, to the bit those of `expand` on the plan that is carried. Cost:
        ``prepared.plan.total_messages`` messages, `total_rows` rows.
    """
    _require(prepared, "expand", with_payload=False)
    return _travel(communicator, prepared, values, pack, place, static)[0]


def embedded_expand_allreduce(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    payload: PerRank,
    pack: Callable = pack_rows,
    place: Callable = place_rows,
    *,
    payload_reduction: Reduction = SUM,
    **static: Any,
) -> tuple[PerRank, PerRank]:
    """`embedded_expand`, and the allreduce of a small dense value in the same messages.

    Parameters
    ----------
    payload : PerRank of numbers or arrays
        Equal in shape and dtype on all ranks. The plan must leave room: ``rows_for_payload(
        payload bytes, row bytes)``. `pack` is called on every rank, on some with no positions.
    payload_reduction : Reduction

    Returns
    -------
    new states, payload : PerRank
        The payload is the same to the bit on every rank; values combine in the order of the
        hypercube, so `allreduce` may differ in the last bits.
    """
    _require(prepared, "expand", with_payload=True)
    journey = (payload, payload_reduction)
    return _travel(communicator, prepared, values, pack, place, static, *journey)


def embedded_reduce(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    pack: Callable = pack_rows,
    combine: Callable | None = None,
    *,
    reduction: Reduction = SUM,
    **static: Any,
) -> PerRank:
    """Send every sharer's row of an item to its owner, through the hypercube.

    On a naive embedding the owner sees every copy, and the result is to the bit that of `reduce`.
    On an aware one, copies that meet on the way are combined by `reduction`, the lower rank's
    first; the owner's inbox holds one row an item and rank of the last hop.

    Parameters
    ----------
    prepared : PreparedEmbedding
        Of a reduce plan.
    combine : callable, optional
        ``combine(state, inbox, **static)`` as for `reduce`. Default: rows of an array, combined by
        `reduction`.
    reduction : Reduction
        How copies combine on the way.
    """
    _require(prepared, "reduce", with_payload=False)
    end = combine or partial(combine_rows, reduction=reduction)
    return _travel(communicator, prepared, values, pack, end, static, reduction=reduction)[0]


def embedded_reduce_allreduce(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    payload: PerRank,
    pack: Callable = pack_rows,
    combine: Callable | None = None,
    *,
    reduction: Reduction = SUM,
    payload_reduction: Reduction = SUM,
    **static: Any,
) -> tuple[PerRank, PerRank]:
    """`embedded_reduce`, and the allreduce of a small dense value in the same messages.

    Parameters and result are those of `embedded_reduce` and `embedded_expand_allreduce`.
    """
    _require(prepared, "reduce", with_payload=True)
    end = combine or partial(combine_rows, reduction=reduction)
    return _travel(
        communicator, prepared, values, pack, end, static, payload, payload_reduction, reduction
    )


def _travel(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    pack: Callable,
    end: Callable,
    static: dict[str, Any],
    payload: PerRank | None = None,
    payload_reduction: Reduction = SUM,
    reduction: Reduction | None = None,
) -> tuple[PerRank, Any]:
    plan, trips = prepared.plan, prepared.trips
    merges = plan.kind == "reduce" and plan.aware
    riders = () if payload is None else (payload,)
    journey = communicator.map(
        depart, values, trips, *riders, pack=pack, payload_rows=plan.payload_rows
    )
    folds = plan.n_ranks & (plan.n_ranks - 1) != 0
    for prepared_round in prepared.prepared.rounds:
        pending = communicator.post(prepared_round, journey, pack_slots)
        rider: dict[str, Any] = {}
        if payload is not None:
            final = folds and prepared_round is prepared.prepared.rounds[-1]
            rider = {"final": final, "payload_reduction": payload_reduction}
        if merges:
            rider["reduction"] = reduction
            journey = communicator.collect(pending, journey, merge, trips, **rider)
        else:
            journey = communicator.collect(pending, journey, store, **rider)
    values = communicator.update(
        deliver, values, journey, trips, place=end, merged=merges, place_static=static
    )
    return values, None if payload is None else communicator.map(payload_of, journey)


def _require(prepared: PreparedEmbedding, kind: str, *, with_payload: bool) -> None:
    plan = prepared.plan
    if plan.kind != kind:
        raise InputError(f"A plan of kind {kind} is needed, got {plan!r}; use its reversed().")
    if with_payload != (plan.payload_rows > 0):
        name = f"embedded_{kind}" + ("_allreduce" if plan.payload_rows else "")
        raise InputError(
            f"The plan has {plan.payload_rows} payload rows in a message; use {name} for it."
        )
    if with_payload and not plan.every_message:
        raise InputError("A payload needs every message; embed(plan, every_message=True).")


def _pieces_of_ranks(plan: EmbeddedPlan) -> list[tuple[RankRound, ...]]:
    """For each rank its slice of the carried plan, the same in travellers, and of the rounds."""
    rounds = (plan.carried.rounds[0], plan.carried_travellers(), *plan.rounds)
    return [tuple(entry.of_rank(rank) for entry in rounds) for rank in range(plan.n_ranks)]


def _plan_trip(
    pieces: tuple[RankRound, ...], numbering: NDArray[Any], *, n_travellers: int
) -> RankTrip:
    carried, ends, *rounds = pieces
    passing = [items for entry in rounds for items in (entry.out_items, entry.in_items)]
    travellers = np.unique(np.concatenate(passing))
    travellers = travellers[travellers < n_travellers]  # the others are payload
    direct = localise([carried], numbering)[0]
    return trip_of_rank(carried.rank, travellers, ends.out_items, ends.in_items, direct)


def _slot_numbering(trip: RankTrip, *, payload_ids: tuple[int, int]) -> NDArray[np.int64]:
    return np.concatenate((trip.travellers.astype(np.int64), np.arange(*payload_ids)))
