"""What a rank holds while rows travel through a hypercube, and what each step does to it.

    slots of the rank     0   1   2   3 │ payload
    starts here           a           d │
    arrives, ends here        b         │  delivered to the state when all rounds are over
    only forwarded                c     │

Rows leave the rank's state once, before the first round, and reach it once, after the last; in
between they live in slots, one a traveller (`hypercube.EmbeddedPlan`) that comes by. So a state is
packed, placed and combined as on a point-to-point plan, and may be in use until the end.

A dense payload rides along: it is cut into rows like those of the state (its bytes, not its
numbers, so any dtype rides in any other) and stands at the end of every message. Behind it comes a
check sum of shape and dtype, so that ranks that disagree are told. Values combine with the lower
rank's first, so after the last round all ranks hold the same bits.

The steps are plain functions for `Communicator.map`, `post`, `collect` and `update`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .messages import Inbox, RankMessages
from .reduction import Reduction


@dataclass(frozen=True, eq=False)
class RankTrip:
    """Where rows start and end at one rank.

    Attributes
    ----------
    rank : int
    travellers : int32 array of shape (n_slots,)
        Who comes by, rising; slot = place in here.
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
    travellers: NDArray[np.int32]
    start_positions: NDArray[np.int64]
    start_slots: NDArray[np.int64]
    start_rows: NDArray[np.int64]
    sources: list[int]
    end_positions: list[NDArray[np.int64]]
    end_slots: list[NDArray[np.int64]]
    position_of_slot: NDArray[np.int64]


@dataclass(eq=False)
class Journey:
    """Rows in their slots at one rank, and the payload."""

    rank: int
    n_slots: int
    payload_rows: int
    rows: NDArray[Any] | None = None  # until a row is seen its shape is not known
    occupied: NDArray[np.bool_] | None = None
    arrived: list[tuple[int, NDArray[np.int64], NDArray[Any]]] = field(default_factory=list)
    payload: NDArray[Any] | None = None
    payload_is_number: bool = False

    def copy(self) -> Journey:
        """A copy whose slots are its own; what arrived is never overwritten."""
        own = replace(self, arrived=list(self.arrived))
        own.rows = None if self.rows is None else self.rows.copy()
        own.occupied = None if self.occupied is None else self.occupied.copy()
        return own


def trip_of_rank(
    rank: int,
    travellers: NDArray[np.int32],
    starting: NDArray[np.int32],
    ending: NDArray[np.int32],
    direct: RankMessages,
) -> RankTrip:
    """From the travellers that start and end at a rank, in order of its direct messages."""
    positions = _joined(direct.out_positions)
    start_positions, start_rows = np.unique(positions, return_inverse=True)
    lengths = [len(places) for places in direct.in_positions]
    end_slots = np.searchsorted(travellers, ending)
    position_of_slot = np.full(len(travellers), -1, dtype=np.int64)
    position_of_slot[end_slots] = _joined(direct.in_positions)
    return RankTrip(
        rank=rank,
        travellers=travellers,
        start_positions=start_positions,
        start_slots=np.searchsorted(travellers, starting),
        start_rows=start_rows,
        sources=direct.sources,
        end_positions=direct.in_positions,
        end_slots=np.split(end_slots, np.cumsum(lengths)[:-1]) if lengths else [],
        position_of_slot=position_of_slot,
    )


# -- steps ---


def depart(state: Any, trip: RankTrip, *payload: Any, pack: Callable, payload_rows: int) -> Journey:
    """Pack the rows that start here into their slots."""
    journey = Journey(trip.rank, len(trip.travellers), payload_rows)
    if len(trip.start_positions) or payload:
        packed = np.asarray(pack(state, trip.start_positions))
        if packed.ndim == 0 or len(packed) != len(trip.start_positions):
            raise InputError(
                f"Rank {trip.rank} packed an array of shape {packed.shape} for "
                f"{len(trip.start_positions)} rows; pack must give one row a position."
            )
        _make_room(journey, packed)[trip.start_slots] = packed[trip.start_rows]
        journey.occupied[trip.start_slots] = True  # type: ignore[index]
    if payload:
        journey.payload = np.array(payload[0])
        journey.payload_is_number = not isinstance(payload[0], np.ndarray)
        _to_rows(journey)  # here it is told that the plan leaves too little room
    return journey


def pack_slots(journey: Journey, slots: NDArray[np.int64]) -> NDArray[Any]:
    """One message: rows in slots, and behind them the payload."""
    rows = journey.rows
    if rows is None:
        return np.empty(0)  # nothing came by yet
    if not journey.payload_rows:
        return np.take(rows, slots, axis=0)
    inner = slots[: len(slots) - journey.payload_rows]
    return np.concatenate((np.take(rows, inner, axis=0), _to_rows(journey)))


def store(journey: Journey, inbox: Inbox, **payload_static: Any) -> Journey:
    """Put arriving rows into their slots."""
    for source, slots, rows in _messages(journey, inbox, **payload_static):
        room = _room_for(journey, rows, source)
        room[slots] = rows
    return journey


def merge(
    journey: Journey, inbox: Inbox, trip: RankTrip, *, reduction: Reduction, **payload_static: Any
) -> Journey:
    """Combine arriving rows with the copies that wait here; rows at their end are set aside."""
    for source, slots, rows in _messages(journey, inbox, **payload_static):
        room = _room_for(journey, rows, source)
        positions = trip.position_of_slot[slots]
        ends = positions >= 0
        if ends.any():
            journey.arrived.append((source, positions[ends], rows[ends]))
        slots, rows = slots[~ends], rows[~ends]
        assert journey.occupied is not None
        waits = journey.occupied[slots]
        room[slots[~waits]] = rows[~waits]
        meeting = slots[waits]
        pair = (rows[waits], room[meeting])
        room[meeting] = reduction.combine(*(pair if source < inbox.rank else pair[::-1]))
        journey.occupied[slots] = True
    return journey


def deliver(
    state: Any,
    journey: Journey,
    trip: RankTrip,
    *,
    place: Callable,
    merged: bool,
    place_static: dict[str, Any],
) -> Any:
    """Hand what ended here to the state in one inbox.

    Its sources are those of the point-to-point plan; where copies were merged on the way, the
    ranks of the last hop.
    """
    if merged:
        arrived = sorted(journey.arrived, key=lambda entry: entry[0])
        sources, positions = [entry[0] for entry in arrived], [entry[1] for entry in arrived]
        inbox = Inbox(trip.rank, sources, positions, [entry[2] for entry in arrived])
        return place(state, inbox, **place_static)
    payloads = [journey.rows[slots] for slots in trip.end_slots if journey.rows is not None]
    inbox = Inbox(trip.rank, trip.sources, trip.end_positions, payloads)
    return place(state, inbox, **place_static)


def payload_of(journey: Journey) -> Any:
    """The combined payload: an array, or a plain number if the rank gave a number."""
    assert journey.payload is not None
    return journey.payload.item() if journey.payload_is_number else journey.payload.copy()


# -- rows and payload ---


def _messages(journey: Journey, inbox: Inbox, **payload_static: Any) -> list:
    """Source, slots and rows of each message that has rows; takes the payload off."""
    messages = []
    for source, slots, payload in zip(inbox.sources, inbox.positions, inbox.payloads, strict=True):
        n_rows = len(slots) - journey.payload_rows
        if journey.payload_rows:
            _take_payload(journey, payload[n_rows:], source, **payload_static)
        if n_rows:
            messages.append((source, slots[:n_rows], payload[:n_rows]))
    return messages


def _make_room(journey: Journey, like: NDArray[Any]) -> NDArray[Any]:
    journey.rows = np.empty((journey.n_slots, *like.shape[1:]), dtype=like.dtype)
    journey.occupied = np.zeros(journey.n_slots, dtype=bool)
    return journey.rows


def _room_for(journey: Journey, rows: NDArray[Any], source: int) -> NDArray[Any]:
    room = journey.rows
    if room is None:
        return _make_room(journey, rows)
    if room.dtype != rows.dtype or room.shape[1:] != rows.shape[1:]:
        raise InputError(
            f"Ranks {min(source, journey.rank)} and {max(source, journey.rank)} disagree in what "
            f"travels: rank {journey.rank} has rows of shape {room.shape[1:]} and dtype "
            f"{room.dtype}, rank {source} sent {rows.shape[1:]} and {rows.dtype}."
        )
    return room


def _to_rows(journey: Journey) -> NDArray[Any]:
    rows, payload = journey.rows, journey.payload
    assert rows is not None and payload is not None
    row_bytes = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
    room = journey.payload_rows * row_bytes
    if payload.nbytes + 8 > room:
        raise InputError(
            f"The payload of rank {journey.rank} has {payload.nbytes} bytes, but the plan leaves "
            f"it {journey.payload_rows} rows of {row_bytes}; plan with "
            f"payload_rows=rows_for_payload({payload.nbytes}, {row_bytes})."
        )
    content = payload.tobytes() + _description(payload)
    padded = np.frombuffer(content.ljust(room, b"\0"), dtype=rows.dtype)
    return padded.reshape(journey.payload_rows, *rows.shape[1:])


def _description(payload: NDArray[Any]) -> bytes:
    described = f"{payload.dtype.str} {payload.shape}"
    return zlib.crc32(described.encode()).to_bytes(8, "little")


def _take_payload(
    journey: Journey, rows: NDArray[Any], source: int, *, final: bool, payload_reduction: Reduction
) -> None:
    own = journey.payload
    assert own is not None
    content = rows.tobytes()
    if content[own.nbytes : own.nbytes + 8] != _description(own):
        raise InputError(
            f"Ranks {min(source, journey.rank)} and {max(source, journey.rank)} disagree in the "
            f"payload ({payload_reduction.name}): rank {journey.rank} has shape {own.shape} and "
            f"dtype {own.dtype}, the other not."
        )
    other = np.frombuffer(content[: own.nbytes], dtype=own.dtype).reshape(own.shape)
    pair = (other, own) if source < journey.rank else (own, other)
    combined = other if final else payload_reduction.combine(*pair)
    journey.payload = np.array(combined, dtype=own.dtype)


def _joined(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
