"""What `Connectivity` counts: pairs from the pins, then passes over the (item, part) pairs.

pins of item n     2  5  7  8          pairs of item n
their parts        1  0  1  3    ->    parts 0 1 3, counts 1 2 1, λ(n) = 3
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._floor.compressed_rows import compressed_rows
from ._floor.kernels import kernel
from ._floor.sums import sums_by_key


def connect(
    net_pointer: NDArray, pins: NDArray, assignment: NDArray, n_parts: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Item → sorted parts and pin counts: ``(pointer, parts, counts)``, summed up by SciPy."""
    ones = np.ones(len(pins), np.int64)
    shape = len(net_pointer) - 1, n_parts
    pairs = compressed_rows(ones, assignment[pins], net_pointer, shape)
    pairs.sum_duplicates()
    return pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32, copy=False), pairs.data


@kernel
def cost_by_differing_bits(pointer: NDArray, parts: NDArray, costs: NDArray) -> NDArray:
    """Sum of the costs of the items of each popcount(OR of the part numbers & ~AND of them)."""
    total = np.zeros(64, np.int64)
    for item in range(len(pointer) - 1):
        if pointer[item + 1] - pointer[item] < 2:
            continue
        some = np.int64(0)
        every = np.int64(-1)
        for pair in range(pointer[item], pointer[item + 1]):
            some |= parts[pair]
            every &= parts[pair]
        differing, n_bits = some & ~every, 0
        while differing != 0:
            differing &= differing - 1
            n_bits += 1
        total[n_bits] += costs[item]
    return total


def least_loaded_owners(pointer: NDArray, parts: NDArray, n_parts: int) -> NDArray:
    """Owners, int32[n_items], that balance rows sent and received; -1 where no part touches.

    At first every sharer receives each of its rows; an owner sends λ - 1 rows and receives none. An
    item of two parts is one row for both, whoever owns it: these are dealt last, by rows sent.
    """
    connectivity = np.diff(pointer)
    owners = np.full(len(connectivity), -1, np.int32)
    order = np.argsort(-connectivity, kind="stable")
    of_two = connectivity[order] == 2
    moved = np.bincount(parts, minlength=n_parts)
    give_to_least_loaded(pointer, parts, order[~of_two], connectivity - 2, moved, owners)
    owned = owners >= 0
    sent = sums_by_key(owners[owned], connectivity[owned] - 1, n_parts)
    give_to_least_loaded(pointer, parts, order[of_two], connectivity - 1, sent, owners)
    return owners


def least_working_owners(
    pointer: NDArray, parts: NDArray, n_parts: int, work: NDArray[np.int64]
) -> NDArray:
    """Owners, int32[n_items], that balance what is to be done for the items; the most first."""
    owners, load = np.full(len(work), -1, np.int32), np.zeros(n_parts, np.int64)
    order = np.argsort(-work, kind="stable")
    give_to_least_loaded(pointer, parts, order, work, load, owners)
    return owners


@kernel
def give_to_least_loaded(
    pointer: NDArray,
    parts: NDArray,
    order: NDArray,
    added: NDArray,
    load: NDArray,
    owners: NDArray,
) -> None:
    """Give each item, in `order`, to the sharer whose load is least so far.

    Parameters
    ----------
    added : int64[n_items]
        What an item adds to the load of its owner.
    load : int64[n_parts]
        Of each part to begin with; changed.
    owners : int32[n_items]
        Changed where `order` names an item that a part touches.
    """
    for item in order:
        if pointer[item + 1] == pointer[item]:
            continue
        best = parts[pointer[item]]
        for pair in range(pointer[item] + 1, pointer[item + 1]):
            if load[parts[pair]] < load[best]:
                best = parts[pair]
        owners[item] = best
        load[best] += added[item]


@kernel
def expand_volume(
    pointer: NDArray, parts: NDArray, owners: NDArray, by_owner: NDArray, n_parts: int
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Rows sent and received, messages sent and received by each rank when owners send to sharers.

    `by_owner` lists the items in rising order of owner, so that one marker a rank finds the
    distinct (owner, sharer) messages.
    """
    send = np.zeros(n_parts, np.int64)
    receive = np.zeros(n_parts, np.int64)
    messages_sent = np.zeros(n_parts, np.int64)
    messages_received = np.zeros(n_parts, np.int64)
    last_owner = np.full(n_parts, -1, np.int32)
    for item in by_owner:
        owner = owners[item]
        if owner < 0:
            continue
        for pair in range(pointer[item], pointer[item + 1]):
            part = parts[pair]
            if part == owner:
                continue
            send[owner] += 1
            receive[part] += 1
            if last_owner[part] != owner:
                last_owner[part] = owner
                messages_sent[owner] += 1
                messages_received[part] += 1
    return send, receive, messages_sent, messages_received
