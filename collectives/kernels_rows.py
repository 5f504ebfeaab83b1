"""Rows that arrived added to those that are there, in rank order, in one pass over each message.

    own rank 2       rows of the state     p    q    r    s
    from 0, 1        added up first        x+y       x         one sum for each row that any sends
                     then                  (x+y)+own …
    from 3           one after another     ((x+y)+own)+z

NumPy goes over the rows three times, and to add up what several lower ranks sent takes it thirty
calls: for messages of some hundred rows that is longer than they travel. The order of additions,
and so the bits, are those of `reduction.combine_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.errors import InputError

Positions = NDArray[np.int64]
Rows = NDArray[Any]


def are_added_by_kernels(state: Rows) -> bool:
    """Whether the kernels take these rows: the floats of models, one row behind the other."""
    return state.dtype in (np.float32, np.float64) and state.flags.c_contiguous


def add_in_rank_order(
    state: Rows, positions: Sequence[Positions], payloads: Sequence[Rows], n_before: int
) -> None:
    """Add the rows of each message to the state, in place, the first `n_before` before its own.

    The state is one that `are_added_by_kernels`; a message's positions differ from each other.
    InputError for a position behind the end of the state.
    """
    flat = state.reshape(len(state), prod(state.shape[1:]))
    messages = [
        (at, np.ascontiguousarray(rows).reshape(len(rows), flat.shape[1]))
        for at, rows in zip(positions, payloads, strict=True)
    ]
    if n_before > 1:
        messages[:n_before] = [_added_up(messages[:n_before], flat)]
    for at, rows in messages:
        _require_all(add_rows(flat, at, rows), at, flat)


def warm_up(dtype: Any) -> None:
    """Compile for rows of a dtype."""
    row, at = np.zeros((1, 1), dtype), np.zeros(1, np.int64)
    add_in_rank_order(row, [at, at], [row.copy(), row.copy()], 2)


def _added_up(messages: list[tuple[Positions, Rows]], like: Rows) -> tuple[Positions, Rows]:
    """The sum of some messages as one message."""
    room = sum(len(at) for at, _ in messages)
    total, touched = np.empty((room, like.shape[1]), like.dtype), np.empty(room, np.int64)
    place_of = np.full(len(like), -1, np.int64)
    n = 0
    for at, rows in messages:
        n, n_taken = _gather(total, touched, place_of, n, at, rows)
        _require_all(n_taken, at, like)
    return touched[:n], total[:n]


def _require_all(n_taken: int, positions: Positions, state: Rows) -> None:
    if n_taken < len(positions):
        raise InputError(
            f"A message is for row {positions[n_taken]} of a state of {len(state)} rows: a state "
            "has a row for each item of its rank's numbering"
        )


@kernel
def add_rows(state, positions, rows):
    """Add each row to that at its position; how many were: it ends at a position that is none."""
    for m in range(positions.size):
        at = np.uint64(positions[m])
        if at >= np.uint64(state.shape[0]):
            return m
        for f in range(rows.shape[1]):
            state[at, f] += rows[m, f]
    return positions.size


@kernel
def _gather(total, touched, place_of, n, positions, rows):
    """Add to the sums of positions that were seen, and begin those of others.

    Gives how many sums there are now, and how many rows were added, as `add_rows`.
    """
    for m in range(positions.size):
        at = np.uint64(positions[m])
        if at >= np.uint64(place_of.size):
            return n, m
        place = place_of[at]
        if place < 0:
            place_of[at], touched[n] = n, positions[m]
            for f in range(rows.shape[1]):
                total[n, f] = rows[m, f]
            n += 1
        else:
            for f in range(rows.shape[1]):
                total[place, f] += rows[m, f]
    return n, positions.size
