"""K parts: which parts every net touches, what each vertex gains by moving, and local search.

    net n  ->  [part 3: 2 pins][part 7: 1 pin]      a slot a part: as many as the net can touch,
                                                    min(|n|, K); nets of K pins or more keep slot k
                                                    for part k, the others a short list
    gain(v -> k) = alone(v) - reach(v) + bond(v, k)

alone(v) is the cost of the nets in which v is its part's only pin (they leave the part when v
leaves), reach(v) the cost of all its nets, bond(v, k) the cost of those that touch part k
already. The slots take at most three times the memory of the pins. As in `two_way`, a slot knows
the exclusive-or of its pins, so the last pin left is known without a search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._jit import kernel

from .heap import ABSENT
from .level import Level


class Parts(NamedTuple):
    """A K-way partition under change."""

    part: np.ndarray  # int32[n_vertices]
    weight: np.ndarray  # int64[n_parts]
    slot_pointer: np.ndarray  # int32[n_nets + 1]
    slot_part: np.ndarray  # int32[n_slots]
    pins_in: np.ndarray  # int32[n_slots]: pins of the net in the part
    lone: np.ndarray  # int32[n_slots]: exclusive-or of those pins
    used: np.ndarray  # int32[n_nets]: slots in use; all of them where slot k is part k
    alone: np.ndarray  # costs[n_vertices]; costs are int32 where all nets' sum fits, else int64
    reach: np.ndarray  # costs[n_vertices]
    bond: np.ndarray  # costs[n_vertices * n_parts], or empty: see `with_bonds`
    key: np.ndarray  # costs[n_vertices]: what the heap goes by
    heap: np.ndarray  # int32[n_vertices]
    size: np.ndarray  # int64[1]
    place: np.ndarray  # int32[n_vertices]
    held: np.ndarray  # bool[n_vertices]: fixed, never moved
    least: np.ndarray  # int64[1]: no move makes a part lighter


@kernel
def find(parts, net, part):
    """Return the slot of a part in a net, or -1 where the net does not list it."""
    begin = parts.slot_pointer[net]
    n_parts = parts.weight.size
    if parts.slot_pointer[net + 1] - begin == n_parts:
        return begin + part
    for slot in range(begin, begin + parts.used[net]):
        if parts.slot_part[slot] == part:
            return slot
    return -1


@kernel
def _enter(parts, net, part):
    """Return the slot of a part in a net, opening one where there is none."""
    slot = find(parts, net, part)
    if slot < 0:
        slot = parts.slot_pointer[net] + parts.used[net]
        parts.used[net] += 1
        parts.slot_part[slot] = part
        parts.pins_in[slot] = 0
        parts.lone[slot] = 0
    return slot


@kernel
def _vacate(parts, net, slot):
    """Close an empty slot (the last one moves into its place)."""
    begin = parts.slot_pointer[net]
    if parts.slot_pointer[net + 1] - begin == parts.weight.size:
        return
    last = begin + parts.used[net] - 1
    parts.slot_part[slot] = parts.slot_part[last]
    parts.pins_in[slot] = parts.pins_in[last]
    parts.lone[slot] = parts.lone[last]
    parts.used[net] -= 1


@kernel
def _fill_slots(level, parts):
    """Fill weight, slots, alone and reach from part."""
    n_parts = parts.weight.size
    for vertex in range(parts.part.size):
        parts.weight[parts.part[vertex]] += level.weights[vertex]
    for net in range(level.net_costs.size):
        cost = level.net_costs[net]
        begin, end = level.net_pointer[net], level.net_pointer[net + 1]
        room = min(end - begin, n_parts)
        first = parts.slot_pointer[net]
        parts.slot_pointer[net + 1] = first + room
        if room == n_parts:
            parts.used[net] = n_parts
            for part in range(n_parts):
                parts.slot_part[first + part] = part
        for i in range(begin, end):
            pin = level.pins[i]
            slot = _enter(parts, net, np.int64(parts.part[pin]))
            parts.pins_in[slot] += 1
            parts.lone[slot] ^= pin
            parts.reach[pin] += cost
        for slot in range(first, first + parts.used[net]):
            if parts.pins_in[slot] == 1:
                parts.alone[parts.lone[slot]] += cost


@kernel
def connect(level, parts, vertex, bond, start):
    """Write bond(vertex, k) for every part k to bond[start : start + n_parts]."""
    bond[start : start + parts.weight.size] = 0
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = level.nets[i]
        cost = level.net_costs[net]
        begin = parts.slot_pointer[net]
        for slot in range(begin, begin + parts.used[net]):
            if parts.pins_in[slot] > 0:
                bond[start + parts.slot_part[slot]] += cost


@kernel
def _fill_bonds(level, parts):
    for vertex in range(parts.part.size):
        connect(level, parts, vertex, parts.bond, vertex * parts.weight.size)


def parts_of(level: Level, part: np.ndarray, n_parts: int, held: np.ndarray, least: int) -> Parts:
    """Return the state of a partition, without bonds; `part` (int32) is used in place.

    `held` (bool) tells which vertices are fixed, `least` the weight that no move takes a part
    below.
    """
    n, n_nets = level.weights.size, level.net_costs.size
    n_slots = int(np.minimum(np.diff(level.net_pointer), n_parts).sum())
    costs = np.int32 if int(level.net_costs.sum()) < 2**31 else np.int64
    parts = Parts(
        part=part,
        weight=np.zeros(n_parts, np.int64),
        slot_pointer=np.zeros(n_nets + 1, np.int32),
        slot_part=np.zeros(n_slots, np.int32),
        pins_in=np.zeros(n_slots, np.int32),
        lone=np.zeros(n_slots, np.int32),
        used=np.zeros(n_nets, np.int32),
        alone=np.zeros(n, costs),
        reach=np.zeros(n, costs),
        bond=np.zeros(0, costs),
        key=np.zeros(n, costs),
        heap=np.zeros(n, np.int32),
        size=np.zeros(1, np.int64),
        place=np.full(n, ABSENT, np.int32),
        held=held,
        least=np.array([least], np.int64),
    )
    _fill_slots(level, parts)
    return parts


def with_bonds(level: Level, parts: Parts) -> Parts:
    """Return the same state with the n_vertices · n_parts bonds that local search needs."""
    parts = parts._replace(bond=np.empty(parts.part.size * parts.weight.size, parts.bond.dtype))
    _fill_bonds(level, parts)
    return parts


@kernel
def _leave(level, parts, net, vertex, here):
    """Take `vertex` out of its part `here` in one net; returns the pins left there."""
    cost = level.net_costs[net]
    slot = find(parts, net, here)
    left = parts.pins_in[slot] - 1
    parts.pins_in[slot] = left
    parts.lone[slot] ^= vertex
    if left == 1:
        parts.alone[parts.lone[slot]] += cost
    elif left == 0:
        parts.alone[vertex] -= cost
        _vacate(parts, net, slot)
    return left


@kernel
def _arrive(level, parts, net, vertex, there):
    """Put `vertex` into part `there` in one net; returns the pins that were there."""
    cost = level.net_costs[net]
    slot = _enter(parts, net, there)
    before = parts.pins_in[slot]
    if before == 1:
        parts.alone[parts.lone[slot]] -= cost
    elif before == 0:
        parts.alone[vertex] += cost
    parts.pins_in[slot] = before + 1
    parts.lone[slot] ^= vertex
    return before


@kernel
def move_part(level, parts, vertex, there):
    """Move a vertex to another part; slots, alone and (where kept) bonds follow."""
    here = np.int64(parts.part[vertex])
    n_parts = parts.weight.size
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = np.int64(level.nets[i])
        left = _leave(level, parts, net, vertex, here)
        before = _arrive(level, parts, net, vertex, there)
        if parts.bond.size > 0 and (left == 0 or before == 0):
            cost = level.net_costs[net]
            for j in range(level.net_pointer[net], level.net_pointer[net + 1]):
                row = level.pins[j] * n_parts
                if left == 0:
                    parts.bond[row + here] -= cost
                if before == 0:
                    parts.bond[row + there] += cost
    parts.part[vertex] = there
    parts.weight[here] -= level.weights[vertex]
    parts.weight[there] += level.weights[vertex]


@kernel
def best_part(level, parts, vertex, bond, start, limits):
    """Return (part, gain) of the best move that keeps to the limits; the part is -1 if none does.

    A fixed vertex has none, nor one whose part would grow lighter than the least allowed. Among
    equal gains the part with most room left (in absolute weight) wins.
    """
    here = parts.part[vertex]
    weight = level.weights[vertex]
    best = -1
    best_bond = 0
    best_room = 0
    if parts.held[vertex] or parts.weight[here] - weight < min(parts.least[0], parts.weight[here]):
        return best, parts.alone[vertex] - parts.reach[vertex]
    for part in range(parts.weight.size):
        value = bond[start + part]
        if part == here or (best >= 0 and value < best_bond):
            continue
        room = limits[part] - parts.weight[part] - weight
        if room >= 0 and (best < 0 or value > best_bond or room > best_room):
            best, best_bond, best_room = part, value, room
    return best, parts.alone[vertex] - parts.reach[vertex] + best_bond
