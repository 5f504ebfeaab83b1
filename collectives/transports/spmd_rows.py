"""Rows that are sent from where they lie, and received where they belong.

    state of rank 0   ┌──────────┐                      ┌──────────┐   state of rank 1
                      │ 2        │ ═══ no copy here ══▶ │ 2        │
                      │ 3        │                      │ 3        │   positions in a row: a slice
                      └──────────┘                      └──────────┘

Where a rank posts and collects at once, and the positions of a message follow one another, large
rows need neither be packed nor placed. So it is with blocks, as of an `alltoall`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.prepared import Inbox, RankMessages
from daskpart.collectives.reduction import pack_rows, place_agreeing, place_rows

from .spmd_batch import Command

_PLACING = (place_rows, place_agreeing)  # what comes takes the place of what is there
_LARGE_BYTES = 65_536  # of a state; to look whether rows lie in place has its price too


def only_places_rows(state: Any, command: Command) -> bool:
    """Whether an exchange does nothing but to put rows of a whole array in place of others."""
    return (
        command.detail[-1] is pack_rows
        and command.function in _PLACING
        and len(command.inputs) == 1
        and not command.static
        and _is_whole(state)
    )


def rows_in_place(state: Any, messages: RankMessages, pack: Callable) -> list[NDArray[Any] | None]:
    """For each destination the rows that `pack` would copy, where they are a slice."""
    runs = messages.out_runs if pack is pack_rows and _is_large(state) else []
    return _slices(state, runs, len(messages.destinations))


def rooms_in_place(
    state: Any, messages: RankMessages, combine: Callable
) -> list[NDArray[Any] | None]:
    """For each source where `combine` would put its rows, where that is a slice."""
    runs = messages.in_runs if combine in _PLACING and _is_large(state) else []
    return _slices(state, runs, len(messages.sources))


def not_in_place(inbox: Inbox, rooms: list[NDArray[Any] | None]) -> Inbox:
    """What has not arrived where it belongs."""
    left = [
        place
        for place, (payload, room) in enumerate(zip(inbox.payloads, rooms, strict=True))
        if payload is not room
    ]
    if len(left) == len(rooms):
        return inbox
    return Inbox(
        inbox.rank,
        [inbox.sources[place] for place in left],
        [inbox.positions[place] for place in left],
        [inbox.payloads[place] for place in left],
    )


def _is_large(state: Any) -> bool:
    return _is_whole(state) and state.nbytes > _LARGE_BYTES


def _is_whole(state: Any) -> bool:
    """Whether it is an array whose rows lie one behind the other, and may be overwritten."""
    return type(state) is np.ndarray and state.flags.c_contiguous and state.flags.writeable


def _slices(state: Any, runs: list[slice | None], n_messages: int) -> list[NDArray[Any] | None]:
    return [None if run is None else state[run] for run in runs] or [None] * n_messages
