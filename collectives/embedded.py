"""Sparse expand and reduce inside a hypercube allreduce, over any communicator.

    pack       rows that start here leave the state ──▶ slots of the forwarding buffer
    a round    slots ──▶ one message to the neighbour, payload behind ──▶ slots      ⌈log2 K⌉ times
    unpack     rows that end here ──▶ the state, as one inbox

    expand, reduce                         rows alone (`operations`)
    expand_allreduce, reduce_allreduce     rows, and a dense payload with them

Abubaker et al. §4; the payload is what hides the latency of the sparse messages (Algorithm 2
there). Rows leave the rank's state once, before the first round, and reach it once, after the last;
in between they lie in a forwarding buffer, a slot for each routed row that passes the rank
(`routes`). So ``pack``, ``place`` and ``combine`` are those of `expand` and `reduce`, and see the
same inbox as on a point-to-point plan, except where an aware reduce has combined copies on the way.

A payload is the end of every message: its bytes, so any dtype fits any other, and a check sum of
shape and dtype, so that ranks that disagree are told. Values combine with the lower rank's first,
so after the last round all ranks hold the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import as_array, ranks_disagree, require_same_arrays
from daskpart.errors import InputError

from .communicator import Communicator, PerRank, collective
from .messages import Inbox, PreparedPlan, packed_rows, require_prepared
from .reduction import SUM, Reduction, as_given, combine_rows, pack_rows, place_rows
from .routes import PreparedEmbedding, RankRoutes


@collective
def expand_allreduce(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    payload: PerRank,
    pack: Callable = pack_rows,
    place: Callable = place_rows,
    *,
    payload_reduction: Reduction = SUM,
    **static: Any,
) -> tuple[PerRank, PerRank]:
    """`expand`, and the allreduce of a small dense value in the same messages.

    Parameters
    ----------
    communicator, values, pack, place, **static
        As for `expand`.
    prepared : PreparedPlan
        Of an embedded plan with room for the payload: ``rows_for_payload(payload bytes, row
        bytes)``. `pack` is called on every rank, on some with no positions.
    payload : PerRank of numbers or arrays
        Equal in shape and dtype on all ranks.
    payload_reduction : Reduction

    Returns
    -------
    new states, payload : PerRank
        The payload is the same to the bit on every rank; values combine in the order of the
        hypercube, so `allreduce` may differ in the last bits.
    """
    require_prepared(prepared, "expand")
    return run_embedded(
        communicator, prepared, values, pack, place, static, SUM, payload, payload_reduction
    )


@collective
def reduce_allreduce(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    payload: PerRank,
    pack: Callable = pack_rows,
    combine: Callable | None = None,
    *,
    reduction: Reduction = SUM,
    payload_reduction: Reduction = SUM,
    **static: Any,
) -> tuple[PerRank, PerRank]:
    """`reduce`, and the allreduce of a small dense value in the same messages.

    Parameters
    ----------
    communicator, values, pack, combine, reduction, **static
        As for `reduce`.
    prepared, payload, payload_reduction
        As for `expand_allreduce`.

    Returns
    -------
    new states, payload : PerRank
        As of `expand_allreduce`.
    """
    require_prepared(prepared, "reduce")
    combine = combine or partial(combine_rows, reduction=reduction)
    return run_embedded(
        communicator, prepared, values, pack, combine, static, reduction, payload, payload_reduction
    )


def run_embedded(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    pack: Callable,
    end: Callable,
    static: dict[str, Any],
    reduction: Reduction,
    payload: PerRank | None = None,
    payload_reduction: Reduction = SUM,
) -> tuple[PerRank, Any]:
    """All rounds, with or without a payload; rows that arrive go to ``end(state, inbox)``."""
    embedding = _with_room(prepared, payload is not None)
    communicator._check_step((values,), static, 1)  # in the last step it is an argument by itself
    routes, rounds = embedding.routes, embedding.rounds
    folds = communicator.n_ranks & (communicator.n_ranks - 1) != 0
    payloads = () if payload is None else (payload,)
    buffer = communicator.map(
        pack_buffer, values, routes, *payloads, pack=pack, payload_rows=embedding.payload_rows,
        payload_reduction=payload_reduction,
    )  # fmt: skip
    names = [reduction.name] * (prepared.kind == "reduce")
    names += [payload_reduction.name] * len(payloads)
    for index, prepared_round in enumerate(rounds):
        pending = communicator.post(prepared_round, buffer, pack_slots, ", ".join(names))
        buffer = communicator.collect(
            pending, buffer, combine_slots, routes, round_index=index, reduction=reduction,
            final=folds and prepared_round is rounds[-1],
        )  # fmt: skip
    values = communicator.update(
        unpack_buffer, values, buffer, routes, place=end, place_static=static
    )
    return values, None if payload is None else communicator.map(payload_of, buffer, payload)


def _with_room(prepared: PreparedPlan, with_payload: bool) -> PreparedEmbedding:
    """The plan, which must have room for a payload where there is one, and none where not."""
    if not isinstance(prepared, PreparedEmbedding):
        raise InputError("Only an embedded plan carries a payload; prepare embed(plan, …).")
    if with_payload != (prepared.payload_rows > 0):
        name = prepared.kind + ("_allreduce" if prepared.payload_rows else "")
        raise InputError(
            f"The plan has {prepared.payload_rows} payload rows in a message; use {name} for it."
        )
    return prepared


# -- the forwarding buffer, and what each step does to it ---


@dataclass(eq=False)
class ForwardingBuffer:
    """Routed rows in their slots at one rank, and the payload behind them."""

    rank: int
    n_slots: int
    payload_rows: int
    payload_reduction: Reduction = SUM
    rows: NDArray[Any] | None = None  # until a row is seen its shape is not known
    # from whom, at which positions of the state; never overwritten
    arrived: list[tuple[int, NDArray[np.int64], NDArray[Any]]] = field(default_factory=list)
    payload: NDArray[Any] | None = None  # combined so far; never overwritten

    def copy(self) -> ForwardingBuffer:
        """A copy whose slots are its own."""
        own = replace(self, arrived=list(self.arrived))
        own.rows = None if self.rows is None else self.rows.copy()
        return own

    def allocated(self, like: NDArray[Any], source: int) -> NDArray[Any]:
        """The slots for rows like those from a rank; made when the first are seen."""
        if self.rows is None:
            shape = self.n_slots + self.payload_rows, *like.shape[1:]
            self.rows = np.empty(shape, dtype=like.dtype)
        require_same_arrays("routed rows", (self.rank, self.rows), (source, like), rows=True)
        return self.rows

    def begin_payload(self, payload: Any) -> None:
        """Take the rank's own payload, if the plan leaves room for it."""
        assert self.rows is not None
        given = as_array(payload, f"payload of rank {self.rank}").copy()
        self.payload = self.payload_reduction.alone(given)
        nbytes, room = self.payload.nbytes, self.rows[self.n_slots :].nbytes
        if nbytes + 8 > room:
            row_bytes = room // self.payload_rows
            raise InputError(
                f"The payload of rank {self.rank} has {nbytes} bytes, but the plan leaves it "
                f"{self.payload_rows} rows of {row_bytes}; plan with "
                f"payload_rows=rows_for_payload({nbytes}, {row_bytes})."
            )

    def put_payload(self, rows: NDArray[Any]) -> None:
        """Write the payload and its check sum over the last rows of a message."""
        assert self.payload is not None
        room = rows.reshape(-1).view(np.uint8)
        content = self.payload.tobytes() + _check_sum(self.payload.dtype, self.payload.shape)
        room[:] = np.frombuffer(content.ljust(len(room), b"\0"), np.uint8)

    def take_payload(self, rows: NDArray[Any], source: int, final: bool) -> None:
        """Combine the payload of a neighbour with the own one; a final one is the result."""
        assert self.payload is not None
        own, content = self.payload, rows.reshape(-1).view(np.uint8)
        if content[own.nbytes : own.nbytes + 8].tobytes() != _check_sum(own.dtype, own.shape):
            raise ranks_disagree(
                f"the payload ({self.payload_reduction.name})",
                (self.rank, f"shape {own.shape} and dtype {own.dtype} on rank {self.rank}"),
                (source, "another"),
            )
        other = content[: own.nbytes].view(own.dtype).reshape(own.shape)
        pair = (other, own) if source < self.rank else (own, other)
        self.payload = other if final else self.payload_reduction.combined(*pair)


def pack_buffer(
    state: Any,
    routes: RankRoutes,
    *payload: Any,
    pack: Callable,
    payload_rows: int,
    payload_reduction: Reduction,
) -> ForwardingBuffer:
    """Pack the rows that start here into their slots."""
    buffer = ForwardingBuffer(routes.rank, len(routes.routed), payload_rows, payload_reduction)
    if len(routes.start_positions) or payload:
        packed = packed_rows(routes.rank, pack, state, routes.start_positions)
        buffer.allocated(packed, routes.rank)[routes.start_slots] = packed
    if payload:
        buffer.begin_payload(payload[0])
    return buffer


def pack_slots(buffer: ForwardingBuffer, slots: NDArray[np.int64]) -> NDArray[Any]:
    """One message: rows in slots, those of the payload last."""
    if buffer.rows is None:
        return np.empty(0)  # no row has passed yet
    rows = buffer.rows.take(slots, axis=0)
    if buffer.payload is not None:
        buffer.put_payload(rows[len(slots) - buffer.payload_rows :])
    return rows


def combine_slots(
    buffer: ForwardingBuffer,
    inbox: Inbox,
    routes: RankRoutes,
    *,
    round_index: int,
    reduction: Reduction,
    final: bool = False,
) -> ForwardingBuffer:
    """Put arriving rows into their slots.

    Where copies combine on the way they are combined with those that wait here, and rows at their
    end are set aside.
    """
    for place, (source, message) in enumerate(zip(inbox.sources, inbox.payloads, strict=True)):
        n_rows = len(inbox.positions[place]) - buffer.payload_rows
        rows = message[:n_rows]
        if buffer.payload is not None:
            buffer.take_payload(message[n_rows:], source, final)
        if not n_rows:
            continue
        held = buffer.allocated(rows, source)
        if not routes.arrivals:
            held[inbox.positions[place][: len(rows)]] = rows
            continue
        here = routes.arrivals[round_index][place]
        if len(here.ending):
            buffer.arrived.append((source, here.ending_positions, rows.take(here.ending, axis=0)))
        held[here.first_slots] = rows.take(here.first, axis=0)
        if len(here.meeting):
            meeting = rows.take(here.meeting, axis=0)
            pair = meeting, held.take(here.meeting_slots, axis=0)
            ordered = pair if source < inbox.rank else pair[::-1]
            held[here.meeting_slots] = reduction.combined(*ordered)
    return buffer


def unpack_buffer(
    state: Any,
    buffer: ForwardingBuffer,
    routes: RankRoutes,
    *,
    place: Callable,
    place_static: dict[str, Any],
) -> Any:
    """Hand what ended here to the state in one inbox.

    Its sources are those of the point-to-point plan; where copies were combined on the way, the
    ranks of the last hop.
    """
    if routes.arrivals:
        arrived = sorted(buffer.arrived, key=lambda entry: entry[0])
        sources, positions = [entry[0] for entry in arrived], [entry[1] for entry in arrived]
        inbox = Inbox(routes.rank, sources, positions, [entry[2] for entry in arrived])
    else:
        payloads = []
        if buffer.rows is not None:
            payloads = [buffer.rows.take(slots, axis=0) for slots in routes.end_slots]
        inbox = Inbox(routes.rank, routes.sources, routes.end_positions, payloads)
    return place(state, inbox, **place_static)


def payload_of(buffer: ForwardingBuffer, given: Any) -> Any:
    """The combined payload: an array, or a plain number if the rank gave a number."""
    assert buffer.payload is not None
    return as_given(buffer.payload.copy(), given)


@cache
def _check_sum(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return zlib.crc32(f"{dtype.str} {shape}".encode()).to_bytes(8, "little")
