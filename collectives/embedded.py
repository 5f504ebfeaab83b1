"""Sparse expand and reduce inside a hypercube allreduce, over any communicator.

    pack       rows that start here leave the state ──▶ slots of the forwarding buffer
    a round    slots ──▶ one message to the neighbour, payload behind ──▶ slots      ⌈log2 K⌉ times
    unpack     rows that end here ──▶ the state, as one inbox

    slots of the rank     0   1   2   3 │ payload
    starts here           a           d │
    arrives, ends here        b         │  unpacked into the state when all rounds are over
    only forwarded                c     │

    embedded_expand, embedded_reduce                          rows alone
    embedded_expand_allreduce, embedded_reduce_allreduce      rows, and a dense payload with them

Abubaker et al. §4; the payload is what hides the latency of the sparse messages (Algorithm 2
there). Rows leave the rank's state once, before the first round, and reach it once, after the last;
in between they lie in a forwarding buffer, a slot for each routed row (`hypercube.EmbeddedPlan`)
that passes the rank. So ``pack``, ``place`` and ``combine`` are those of `expand` and `reduce`, and
see the same inbox as on a point-to-point plan, except where an aware reduce has combined copies on
the way; and the state may be in use until the end.

A dense payload goes with the rows: it is cut into rows like those of the state (its bytes, not its
numbers, so any dtype fits any other) and stands at the end of every message. Behind it comes a
check sum of shape and dtype, so that ranks that disagree are told. Values combine with the lower
rank's first, so after the last round all ranks hold the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import ranks_disagree, require_same_arrays
from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .hypercube import EmbeddedPlan
from .messages import Inbox, PreparedPlan, localise
from .plan import RankRound, require_same_ranks
from .reduction import SUM, Reduction, combine_rows, pack_rows, place_rows


@dataclass(frozen=True, eq=False)
class PreparedEmbedding:
    """An embedded plan ready to run; from `prepare_embedded`.

    `plan` is None on a rank: what goes to the ranks is their own part of it.
    """

    kind: str
    label: str
    combines: bool  # copies of a row that meet on the way
    payload_rows: int
    every_message: bool
    prepared: PreparedPlan = field(repr=False)  # its rounds, over the slots of each rank
    routes: PerRank = field(repr=False)
    plan: EmbeddedPlan | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plan": None}


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
    routes = communicator.map(_routes_of_rank, pieces, numbering, n_routed=plan.n_routed)
    payload_ids = (plan.n_routed, plan.n_items)
    slots = communicator.map(_slot_numbering, routes, payload_ids=payload_ids)
    prepared = communicator.prepare(plan, slots, label)
    return PreparedEmbedding(
        kind=plan.kind,
        label=prepared.label,
        combines=plan.kind == "reduce" and plan.aware,
        payload_rows=plan.payload_rows,
        every_message=plan.every_message,
        prepared=prepared,
        routes=routes,
        plan=plan,
    )


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
    return communicator.run(_embedded, prepared, values, pack=pack, end=place, static=static)[0]


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
    return communicator.run(
        _embedded,
        prepared,
        values,
        payload,
        pack=pack,
        end=place,
        static=static,
        payload_reduction=payload_reduction,
    )


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
    return communicator.run(
        _embedded, prepared, values, pack=pack, end=end, static=static, reduction=reduction
    )[0]


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
    return communicator.run(
        _embedded,
        prepared,
        values,
        payload,
        pack=pack,
        end=end,
        static=static,
        payload_reduction=payload_reduction,
        reduction=reduction,
    )


def _embedded(
    communicator: Communicator,
    prepared: PreparedEmbedding,
    values: PerRank,
    payload: PerRank | None = None,
    *,
    pack: Callable,
    end: Callable,
    static: dict[str, Any],
    payload_reduction: Reduction = SUM,
    reduction: Reduction | None = None,
) -> tuple[PerRank, Any]:
    routes, rounds = prepared.routes, prepared.prepared.rounds
    folds = communicator.n_ranks & (communicator.n_ranks - 1) != 0
    payloads = () if payload is None else (payload,)
    buffer = communicator.map(
        pack_buffer, values, routes, *payloads, pack=pack, payload_rows=prepared.payload_rows
    )
    for prepared_round in rounds:
        pending = communicator.post(prepared_round, buffer, pack_slots)
        of_payload: dict[str, Any] = {}
        if payload is not None:
            final = folds and prepared_round is rounds[-1]
            of_payload = {"final": final, "payload_reduction": payload_reduction}
        if prepared.combines:
            buffer = communicator.collect(
                pending, buffer, combine_slots, routes, reduction=reduction, **of_payload
            )
        else:
            buffer = communicator.collect(pending, buffer, unpack_slots, **of_payload)
    values = communicator.update(
        unpack_buffer,
        values,
        buffer,
        routes,
        place=end,
        combined=prepared.combines,
        place_static=static,
    )
    return values, None if payload is None else communicator.map(payload_of, buffer)


def _require(prepared: PreparedEmbedding, kind: str, *, with_payload: bool) -> None:
    if prepared.kind != kind:
        raise InputError(
            f"A plan of kind {kind} is needed, got one of kind {prepared.kind}; use its reversed()."
        )
    if with_payload != (prepared.payload_rows > 0):
        name = f"embedded_{kind}" + ("_allreduce" if prepared.payload_rows else "")
        raise InputError(
            f"The plan has {prepared.payload_rows} payload rows in a message; use {name} for it."
        )
    if with_payload and not prepared.every_message:
        raise InputError("A payload needs every message; embed(plan, every_message=True).")


# -- where rows start and end at a rank ---


@dataclass(frozen=True, eq=False)
class RankRoutes:
    """Where rows start and end at one rank.

    Attributes
    ----------
    rank : int
    routed : int32 array of shape (n_slots,)
        Routed rows that pass the rank, rising; slot = place in here.
    start_positions : int64 array of shape (n_starting,)
        Positions in the rank's state of the rows that start here, rising, each once.
    start_slots, start_rows : int64 array
        Slot ``start_slots[i]`` begins with the row of ``start_positions[start_rows[i]]``.
    sources : list of int
        Ranks that rows which end here come from, rising: their owner or sharer, not the last hop.
    end_positions, end_slots : list of int64 array
        One array a source.
    position_of_slot : int64 array of shape (n_slots,)
        Position in the state, -1 where the row does not end here.
    """

    rank: int
    routed: NDArray[np.int32]
    start_positions: NDArray[np.int64]
    start_slots: NDArray[np.int64]
    start_rows: NDArray[np.int64]
    sources: list[int]
    end_positions: list[NDArray[np.int64]]
    end_slots: list[NDArray[np.int64]]
    position_of_slot: NDArray[np.int64]


def _pieces_of_ranks(plan: EmbeddedPlan) -> list[tuple[RankRound, ...]]:
    """For each rank its slice of the carried plan, in items and routed rows, and of the rounds."""
    rounds = (plan.carried.rounds[0], plan.carried_rows(), *plan.rounds)
    return [tuple(entry.of_rank(rank) for entry in rounds) for rank in range(plan.n_ranks)]


def _routes_of_rank(
    pieces: tuple[RankRound, ...], numbering: NDArray[Any], *, n_routed: int
) -> RankRoutes:
    carried, ends, *rounds = pieces
    passing = [items for entry in rounds for items in (entry.out_items, entry.in_items)]
    routed = np.unique(np.concatenate(passing))
    routed = routed[routed < n_routed]  # the others are payload
    direct = localise([carried], numbering)[0]
    start_positions, start_rows = np.unique(_joined(direct.out_positions), return_inverse=True)
    lengths = [len(positions) for positions in direct.in_positions]
    end_slots = np.searchsorted(routed, ends.in_items)
    position_of_slot = np.full(len(routed), -1, dtype=np.int64)
    position_of_slot[end_slots] = _joined(direct.in_positions)
    return RankRoutes(
        rank=carried.rank,
        routed=routed,
        start_positions=start_positions,
        start_slots=np.searchsorted(routed, ends.out_items),
        start_rows=start_rows,
        sources=direct.sources,
        end_positions=direct.in_positions,
        end_slots=np.split(end_slots, np.cumsum(lengths)[:-1]) if lengths else [],
        position_of_slot=position_of_slot,
    )


def _slot_numbering(routes: RankRoutes, *, payload_ids: tuple[int, int]) -> NDArray[np.int64]:
    return np.concatenate((routes.routed.astype(np.int64), np.arange(*payload_ids)))


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


# -- the forwarding buffer, and what each step does to it ---


@dataclass(eq=False)
class ForwardingBuffer:
    """Routed rows in their slots at one rank, and the payload."""

    rank: int
    n_slots: int
    payload_rows: int
    rows: NDArray[Any] | None = None  # until a row is seen its shape is not known
    occupied: NDArray[np.bool_] | None = None
    arrived: list[tuple[int, NDArray[np.int64], NDArray[Any]]] = field(default_factory=list)
    payload: NDArray[Any] | None = None
    payload_is_number: bool = False

    def copy(self) -> ForwardingBuffer:
        """A copy whose slots are its own; what arrived is never overwritten."""
        own = replace(self, arrived=list(self.arrived))
        own.rows = None if self.rows is None else self.rows.copy()
        own.occupied = None if self.occupied is None else self.occupied.copy()
        return own

    def allocated(self, like: NDArray[Any], source: int) -> NDArray[Any]:
        """The slots for rows like those from a rank; made when the first are seen."""
        if self.rows is None:
            self.rows = np.empty((self.n_slots, *like.shape[1:]), dtype=like.dtype)
            self.occupied = np.zeros(self.n_slots, dtype=bool)
        require_same_arrays("routed rows", (self.rank, self.rows), (source, like), rows=True)
        return self.rows

    def payload_as_rows(self) -> NDArray[Any]:
        """The bytes of the payload and its check sum, in rows like the others."""
        rows, payload = self.rows, self.payload
        assert rows is not None and payload is not None
        row_bytes = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        room = self.payload_rows * row_bytes
        if payload.nbytes + 8 > room:
            raise InputError(
                f"The payload of rank {self.rank} has {payload.nbytes} bytes, but the plan leaves "
                f"it {self.payload_rows} rows of {row_bytes}; plan with "
                f"payload_rows=rows_for_payload({payload.nbytes}, {row_bytes})."
            )
        content = payload.tobytes() + _check_sum(payload.dtype, payload.shape)
        padded = np.frombuffer(content.ljust(room, b"\0"), dtype=rows.dtype)
        return padded.reshape(self.payload_rows, *rows.shape[1:])

    def take_payload(
        self, rows: NDArray[Any], source: int, *, final: bool, payload_reduction: Reduction
    ) -> None:
        """Combine the payload of a neighbour with the own one; a final one is the result."""
        own = self.payload
        assert own is not None
        content = rows.tobytes()
        if content[own.nbytes : own.nbytes + 8] != _check_sum(own.dtype, own.shape):
            raise ranks_disagree(
                f"the payload ({payload_reduction.name})",
                (self.rank, f"shape {own.shape} and dtype {own.dtype} on rank {self.rank}"),
                (source, "another"),
            )
        other = np.frombuffer(content[: own.nbytes], dtype=own.dtype).reshape(own.shape)
        pair = (other, own) if source < self.rank else (own, other)
        result = other if final else payload_reduction.combine(*pair)
        self.payload = np.array(result, dtype=own.dtype)


def pack_buffer(
    state: Any, routes: RankRoutes, *payload: Any, pack: Callable, payload_rows: int
) -> ForwardingBuffer:
    """Pack the rows that start here into their slots."""
    buffer = ForwardingBuffer(routes.rank, len(routes.routed), payload_rows)
    if len(routes.start_positions) or payload:
        packed = np.asarray(pack(state, routes.start_positions))
        if packed.ndim == 0 or len(packed) != len(routes.start_positions):
            raise InputError(
                f"Rank {routes.rank} packed an array of shape {packed.shape} for "
                f"{len(routes.start_positions)} rows; pack must give one row a position."
            )
        buffer.allocated(packed, routes.rank)[routes.start_slots] = packed[routes.start_rows]
        buffer.occupied[routes.start_slots] = True  # type: ignore[index]
    if payload:
        buffer.payload = np.array(payload[0])
        buffer.payload_is_number = not isinstance(payload[0], np.ndarray)
        buffer.payload_as_rows()  # here it is told that the plan leaves too little room
    return buffer


def pack_slots(buffer: ForwardingBuffer, slots: NDArray[np.int64]) -> NDArray[Any]:
    """One message: rows in slots, and behind them the payload."""
    if buffer.rows is None:
        return np.empty(0)  # no row has passed yet
    if not buffer.payload_rows:
        return np.take(buffer.rows, slots, axis=0)
    inner = slots[: len(slots) - buffer.payload_rows]
    return np.concatenate((np.take(buffer.rows, inner, axis=0), buffer.payload_as_rows()))


def unpack_slots(buffer: ForwardingBuffer, inbox: Inbox, **of_payload: Any) -> ForwardingBuffer:
    """Put arriving rows into their slots."""
    for source, slots, rows in _messages(buffer, inbox, **of_payload):
        buffer.allocated(rows, source)[slots] = rows
    return buffer


def combine_slots(
    buffer: ForwardingBuffer,
    inbox: Inbox,
    routes: RankRoutes,
    *,
    reduction: Reduction,
    **of_payload: Any,
) -> ForwardingBuffer:
    """Combine arriving rows with the copies that wait here; rows at their end are set aside."""
    for source, slots, rows in _messages(buffer, inbox, **of_payload):
        held = buffer.allocated(rows, source)
        positions = routes.position_of_slot[slots]
        ends = positions >= 0
        if ends.any():
            buffer.arrived.append((source, positions[ends], rows[ends]))
        slots, rows = slots[~ends], rows[~ends]
        assert buffer.occupied is not None
        waits = buffer.occupied[slots]
        held[slots[~waits]] = rows[~waits]
        meeting = slots[waits]
        pair = (rows[waits], held[meeting])
        held[meeting] = reduction.combine(*(pair if source < inbox.rank else pair[::-1]))
        buffer.occupied[slots] = True
    return buffer


def unpack_buffer(
    state: Any,
    buffer: ForwardingBuffer,
    routes: RankRoutes,
    *,
    place: Callable,
    combined: bool,
    place_static: dict[str, Any],
) -> Any:
    """Hand what ended here to the state in one inbox.

    Its sources are those of the point-to-point plan; where copies were combined on the way, the
    ranks of the last hop.
    """
    if combined:
        arrived = sorted(buffer.arrived, key=lambda entry: entry[0])
        sources, positions = [entry[0] for entry in arrived], [entry[1] for entry in arrived]
        inbox = Inbox(routes.rank, sources, positions, [entry[2] for entry in arrived])
    else:
        payloads = [buffer.rows[slots] for slots in routes.end_slots if buffer.rows is not None]
        inbox = Inbox(routes.rank, routes.sources, routes.end_positions, payloads)
    return place(state, inbox, **place_static)


def payload_of(buffer: ForwardingBuffer) -> Any:
    """The combined payload: an array, or a plain number if the rank gave a number."""
    assert buffer.payload is not None
    return buffer.payload.item() if buffer.payload_is_number else buffer.payload.copy()


def _messages(buffer: ForwardingBuffer, inbox: Inbox, **of_payload: Any) -> list:
    """Source, slots and rows of each message that has rows; takes the payload off."""
    messages = []
    for source, slots, payload in zip(inbox.sources, inbox.positions, inbox.payloads, strict=True):
        n_rows = len(slots) - buffer.payload_rows
        if buffer.payload_rows:
            buffer.take_payload(payload[n_rows:], source, **of_payload)
        if n_rows:
            messages.append((source, slots[:n_rows], payload[:n_rows]))
    return messages


@cache
def _check_sum(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return zlib.crc32(f"{dtype.str} {shape}".encode()).to_bytes(8, "little")
