"""Where a row goes inside a hypercube allreduce: bit arithmetic alone, no plan is built.

    owner 1 = 001, sharers 001 010 110 111             7 ranks: 4, 5, 6 fold onto 0, 1, 2

    round 0   001 -> 000                               fold in     4 5 6 -> 0 1 2
    round 1   001 -> 011   000 -> 010                  bits 0, 1   among 0 1 2 3
    round 2   011 -> 111   010 -> 110                  fold out    0 1 2 -> 4 5 6

E-cube routing with combining (Abubaker et al., latency hiding in sparse tensor decomposition, §4.2,
Fig. 1). The paths from one owner are a tree: the corner y gets the row along bit d, the highest in
which y and the owner differ, and it does so where a sharer ends in the same d + 1 bits. So a mark a
corner tells a second copy. Folding is that of the collectives: ranks from 2^⌊log2 K⌋ on send to a
partner in one more round before, and hear from it in one more round after.

Loads have one row a round: fold in, bits 0, 1, …, fold out. Without folded ranks the first and the
last stay zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel


def n_dimensions(n_parts: int) -> int:
    """⌊log2 K⌋: bits of a corner of the hypercube that K ranks fold onto."""
    return n_parts.bit_length() - 1


@kernel
def add_route(
    members: NDArray,
    owner: int,
    dimensions: int,
    amount: int,
    send: NDArray,
    receive: NDArray,
    marks: NDArray,
    mark: int,
) -> int:
    """Add `amount` to what each rank sends and receives when `owner` expands one row to `members`.

    Parameters
    ----------
    members : int32[n_sharers]
    owner : int
        Any rank.
    dimensions : int
        From `n_dimensions`.
    send, receive : int64[dimensions + 2, n_parts]
        One row a round; both may be one array.
    marks : int64[2^dimensions]
        Must not hold `mark`.

    Returns
    -------
    int
        Rounds in which the row moves: its concurrent volume.
    """
    corners = (1 << dimensions) - 1
    start = owner & corners
    moving = np.int64(0)  # bit 0: fold in, then a bit a dimension, then fold out
    if owner > corners and (len(members) > 1 or members[0] != owner):
        send[0, owner] += amount
        receive[0, start] += amount
        moving |= 1
    for member in members:
        if member == owner:
            continue
        for bit in range(dimensions):
            if ((member ^ start) >> bit) & 1 == 0:
                continue
            below = (2 << bit) - 1
            corner = (member & below) | (start & ~below)
            if marks[corner] != mark:
                marks[corner] = mark
                send[bit + 1, corner ^ (1 << bit)] += amount
                receive[bit + 1, corner] += amount
                moving |= 2 << bit
        if member > corners:
            send[dimensions + 1, member & corners] += amount
            receive[dimensions + 1, member] += amount
            moving |= 2 << dimensions
    rounds = 0
    while moving != 0:
        moving &= moving - 1
        rounds += 1
    return rounds


@kernel
def all_routes(
    pointer: NDArray, parts: NDArray, owners: NDArray, n_parts: int, dimensions: int
) -> tuple[NDArray, NDArray, int]:
    """What each rank sends and receives in each round, and the concurrent volume, of all items."""
    send = np.zeros((dimensions + 2, n_parts), np.int64)
    receive = np.zeros((dimensions + 2, n_parts), np.int64)
    marks = np.full(1 << dimensions, -1, np.int64)
    concurrent = 0
    for item in range(len(pointer) - 1):
        members = parts[pointer[item] : pointer[item + 1]]
        if len(members) > 0:
            concurrent += add_route(
                members, owners[item], dimensions, 1, send, receive, marks, item
            )
    return send, receive, concurrent
