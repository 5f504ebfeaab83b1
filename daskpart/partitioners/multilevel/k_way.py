"""K parts: which parts every net touches, and what a vertex pays for leaving its part.

    net n  ->  [part 3: 2 pins][part 7: 1 pin][vacant]      a slot a part: as many as the net has
                                                            pins; a net of K pins or more keeps slot
                                                            k for part k, the others a short list
    penalty(v) = Σ cost of the nets that stay in its part when v leaves

A net of which v is the part's only pin moves with v. So a move that leaves a net one pin there
lowers the penalty of that pin, and one that joins a single pin raises it. Which pin that is a short
net finds among its pins; a long one knows the exclusive-or of the pins of every slot, as in
`two_way`. A slot takes 2 bytes for up to 255 parts, else 3; 7 or 8 in long nets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._floor.kernels import kernel

from .heap import ABSENT
from .level import Level, reach

SHORT = 64  # pins of the nets that are searched for a part's last pin
# pins of the levels whose gain table, which is most of all, takes half the memory where it can: for
# one more type to compile, which of fewer pins would take longer than the search
LARGE = 1 << 22


class KWayState(NamedTuple):
    """A K-way partition under change."""

    part: np.ndarray  # names[n_vertices]: uint16, or uint32 for 65,536 parts and more
    weight: np.ndarray  # int64[n_parts, n_weights]
    slot_pointer: np.ndarray  # int32[n_nets + 1]
    slot_part: np.ndarray  # names[n_slots]
    first_long: int  # the slot at which the long nets begin: nets come by rising size
    few: np.ndarray  # uint8[first_long]: pins of a short net in the part
    many: np.ndarray  # uint32[slots of long nets]: pins of a long one
    several: np.ndarray  # int32[slots of long nets]: exclusive-or of those pins
    vacant: int  # slot_part of a slot that is not in use
    ceiling: int  # the most that the nets of a vertex cost together
    penalty: np.ndarray  # costs[n_vertices]: int16 of LARGE levels it fits, else as the level's
    benefit: np.ndarray  # costs: see `gain_table.with_gain_table`; empty before
    dense: bool  # whether `benefit` has an entry for every vertex and part
    row: np.ndarray  # costs[n_parts]: benefits of the vertex at hand; see `gain_table.connect`
    listed: np.ndarray  # int32[n_parts]: the parts whose entry is not 0
    key: np.ndarray  # costs[n_vertices]: what the heap goes by
    heap: np.ndarray  # int32[n_vertices]
    size: np.ndarray  # int64[1]
    place: np.ndarray  # int32[n_vertices]
    held: np.ndarray  # bool[n_vertices]: fixed, never moved
    least: np.ndarray  # int64[1]: no move makes a part lighter


@kernel(internal=True, _nrt=False)
def pins_in(parts, slot):
    """Return how many pins of a net are in the part of a slot."""
    if slot < parts.first_long:
        return np.int64(parts.few[slot])
    return np.int64(parts.many[slot - parts.first_long])


@kernel(internal=True, _nrt=False)
def _set_pins_in(parts, slot, count):
    if slot < parts.first_long:
        parts.few[slot] = count
    else:
        parts.many[slot - parts.first_long] = count


@kernel(internal=True, _nrt=False)
def find(parts, net, part):
    """Return the slot of a part in a net, or -1 where the net does not touch it."""
    begin, end = parts.slot_pointer[net], parts.slot_pointer[net + 1]
    if end - begin >= len(parts.weight):
        return np.int64(begin + part if pins_in(parts, begin + part) > 0 else -1)
    for slot in range(begin, end):
        if parts.slot_part[slot] == part:
            return np.int64(slot)
        if parts.slot_part[slot] == parts.vacant:
            break
    return np.int64(-1)


@kernel(internal=True, _nrt=False)
def _enter(parts, net, part):
    """Return the slot of a part in a net, opening one where there is none."""
    begin, end = parts.slot_pointer[net], parts.slot_pointer[net + 1]
    slot = np.int64(begin + part)
    if end - begin < len(parts.weight):
        slot = np.int64(begin)
        while parts.slot_part[slot] != part and parts.slot_part[slot] != parts.vacant:
            slot += 1
    parts.slot_part[slot] = part
    return slot


@kernel(internal=True, _nrt=False)
def _vacate(parts, net, slot):
    """Close an empty slot; of a list the last slot moves into its place."""
    begin, end = parts.slot_pointer[net], parts.slot_pointer[net + 1]
    last = slot
    if end - begin < len(parts.weight):
        while last + 1 < end and parts.slot_part[last + 1] != parts.vacant:
            last += 1
        parts.slot_part[slot] = parts.slot_part[last]
        _set_pins_in(parts, slot, pins_in(parts, last))
        _set_pins_in(parts, last, 0)
        if slot >= parts.first_long:
            parts.several[slot - parts.first_long] = parts.several[last - parts.first_long]
            parts.several[last - parts.first_long] = 0
    parts.slot_part[last] = parts.vacant


@kernel(internal=True, _nrt=False)
def _toggle(parts, slot, vertex):
    """Note in a slot of a long net that a vertex comes or goes."""
    if slot >= parts.first_long:
        parts.several[slot - parts.first_long] ^= vertex


@kernel(internal=True, _nrt=False)
def lone(level, parts, net, slot, vertex):
    """Return the one pin of a net, other than `vertex`, in the part of a slot."""
    if slot >= parts.first_long:
        return np.int64(parts.several[slot - parts.first_long])
    part = parts.slot_part[slot]
    i = level.net_pointer[net]
    while level.pins[i] == vertex or parts.part[level.pins[i]] != part:
        i += 1
    return np.int64(level.pins[i])


@kernel(_nrt=False)
def _fill_slots(level, parts):
    """Fill weight, slots and penalty from part."""
    for vertex in range(parts.part.size):
        for each in range(parts.weight.shape[1]):
            parts.weight[parts.part[vertex], each] += level.weights[vertex, each]
    for net in range(level.net_costs.size):
        begin, end = level.net_pointer[net], level.net_pointer[net + 1]
        for i in range(begin, end):
            pin = level.pins[i]
            slot = _enter(parts, net, np.int64(parts.part[pin]))
            _set_pins_in(parts, slot, pins_in(parts, slot) + 1)
            _toggle(parts, slot, pin)
        for i in range(begin, end):
            pin = level.pins[i]
            if pins_in(parts, find(parts, net, np.int64(parts.part[pin]))) > 1:
                parts.penalty[pin] += level.net_costs[net]


def _slot_pointer(level: Level, n_parts: int) -> np.ndarray:
    """Where the slots of every net begin: `net_pointer` itself where that takes no more memory."""
    sizes = np.minimum(np.diff(level.net_pointer), n_parts)
    if int(sizes.sum()) + sizes.size >= level.pins.size:
        return level.net_pointer
    pointer = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=pointer[1:])
    return pointer


def name_type(n_parts: int) -> np.dtype:
    """The type of the names of the parts and that of a vacant slot: one for most numbers of parts.

    Each further type would compile the search anew.
    """
    return np.dtype(np.uint16 if n_parts < 2**16 else np.uint32)


def k_way_state(
    level: Level, part: np.ndarray, n_parts: int, held: np.ndarray, least: int
) -> KWayState:
    """Return the state of a partition, without benefits.

    `part` (integers) is used in place if it is of the `name_type`.
    `held` (bool) tells which vertices are fixed, `least` the weight that no move takes a part
    below.
    """
    n, n_weights = level.weights.shape
    pointer = _slot_pointer(level, n_parts)
    n_slots = int(pointer[-1])
    names = name_type(n_parts)
    first_long = int(pointer[np.searchsorted(np.diff(level.net_pointer), SHORT, side="right")])
    ceiling = int(reach(level).max(initial=0))
    fits = level.pins.size >= LARGE and ceiling < 2**15
    costs = np.int16 if fits else level.net_costs.dtype
    parts = KWayState(
        part=part.astype(names, copy=False),
        weight=np.zeros((n_parts, n_weights), np.int64),
        slot_pointer=pointer,
        slot_part=np.full(n_slots, n_parts, names),
        first_long=first_long,
        few=np.zeros(first_long, np.uint8),
        many=np.zeros(n_slots - first_long, np.uint32),
        several=np.zeros(n_slots - first_long, np.int32),
        vacant=n_parts,
        ceiling=ceiling,
        penalty=np.zeros(n, costs),
        benefit=np.zeros(0, costs),
        dense=True,
        row=np.zeros(n_parts, costs),
        listed=np.zeros(n_parts, np.int32),
        key=np.zeros(n, costs),
        heap=np.zeros(n, np.int32),
        size=np.zeros(1, np.int64),
        place=np.full(n, ABSENT, np.int32),
        held=held,
        least=np.array([least], np.int64),
    )
    _fill_slots(level, parts)
    return parts


@kernel(internal=True, _nrt=False)
def leave(level, parts, net, vertex, here):
    """Take `vertex` out of its part `here` in one net; returns the pins left there."""
    cost = level.net_costs[net]
    slot = find(parts, net, here)
    left = pins_in(parts, slot) - 1
    _set_pins_in(parts, slot, left)
    _toggle(parts, slot, vertex)
    if left == 1:
        parts.penalty[lone(level, parts, net, slot, vertex)] -= cost
    elif left == 0:
        parts.penalty[vertex] += cost
        _vacate(parts, net, slot)
    return left


@kernel(internal=True, _nrt=False)
def arrive(level, parts, net, vertex, there):
    """Put `vertex` into part `there` in one net; returns the pins that were there."""
    cost = level.net_costs[net]
    slot = _enter(parts, net, there)
    before = pins_in(parts, slot)
    if before == 1:
        parts.penalty[lone(level, parts, net, slot, vertex)] += cost
    elif before == 0:
        parts.penalty[vertex] -= cost
    _set_pins_in(parts, slot, before + 1)
    _toggle(parts, slot, vertex)
    return before
