"""What a vertex gains by joining a part, kept for many vertices at once; and the moves.

    gain(v -> k) = benefit(v, k) - penalty(v)     benefit: Σ cost of the nets of v that touch k

    dense     v  [ k = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 ]      an entry for every part
    folded    v  [ max of 0-3  |  max of 4-7 ]              as many as v has nets; each at least
                                                            the largest benefit of its parts

A dense table is exact. Of many parts and vertices it would outweigh everything else, while a search
asks for the exact benefits of few vertices: those that it is about to move. So there the table is
folded to an entry for every pin. What it tells may be too large, so a vertex that comes up for a
move is weighed anew from its nets, which tightens its entries: they are never too small for a part
that had room then. Parts find room while others move, so every round weighs all vertices first.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel

from .k_way import KWayState, arrive, leave
from .level import Level


@kernel(internal=True, _nrt=False)
def entry(level, parts, vertex, part):
    """Return where the table keeps benefit(vertex, part)."""
    n_parts = len(parts.weight)
    if parts.dense:
        return vertex * n_parts + part
    begin = np.int64(level.vertex_pointer[vertex])
    return begin + part * (level.vertex_pointer[vertex + 1] - begin) // n_parts


@kernel(internal=True, _nrt=False)
def connect(level, parts, vertex):
    """Write benefit(vertex, k) to row[k] and list the parts that have any; returns how many.

    Set `row` back to 0 for the parts listed when done.
    """
    n_parts = len(parts.weight)
    row, listed = parts.row, parts.listed
    n_listed = 0
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = level.nets[i]
        cost = level.net_costs[net]
        begin, end = parts.slot_pointer[net], parts.slot_pointer[net + 1]
        short = end - begin < n_parts
        for slot in range(begin, min(end, begin + n_parts)):
            part = parts.slot_part[slot]
            if part == parts.vacant:
                if short:
                    break
                continue
            if row[part] == 0:
                listed[n_listed] = part
                n_listed += 1
            row[part] += cost
    return n_listed


@kernel(_nrt=False)
def _fill(level, parts):
    """Write all benefits, which are 0 before; a folded table leaves out those of the own part."""
    for vertex in range(parts.part.size):
        here = parts.part[vertex]
        for i in range(connect(level, parts, vertex)):
            part = np.int64(parts.listed[i])
            if parts.dense or part != here:
                at = entry(level, parts, vertex, part)
                parts.benefit[at] = max(parts.benefit[at], parts.row[part])
            parts.row[part] = 0


def with_gain_table(level: Level, parts: KWayState, most: int) -> KWayState:
    """Return the same state with benefits: dense if that is at most `most` entries, or folded."""
    n_dense = parts.part.size * len(parts.weight)
    dense = n_dense <= most
    benefit = np.zeros(n_dense if dense else level.pins.size, parts.penalty.dtype)
    parts = parts._replace(benefit=benefit, dense=dense)
    _fill(level, parts)
    return parts


@kernel(internal=True, _nrt=False)
def may_leave(level, parts, vertex):
    """Whether a vertex is free and its part, left by it, not lighter than the least allowed.

    Out of a part that weighs nothing none may go: its last one would pass for any other.
    """
    here = parts.weight[parts.part[vertex], 0]
    stays = here == 0 or here - level.weights[vertex, 0] < min(parts.least[0], here)
    return not parts.held[vertex] and not stays


@kernel(internal=True, _nrt=False)
def room_for(level, parts, vertex, part, limits):
    """Return the (first) weight left free in a part that takes in a vertex; below 0: it can't."""
    for each in range(1, limits.shape[1]):
        if limits[part, each] - parts.weight[part, each] < level.weights[vertex, each]:
            return np.int64(-1)
    return np.int64(limits[part, 0] - parts.weight[part, 0] - level.weights[vertex, 0])


@kernel(internal=True, _nrt=False)
def _roomiest(level, parts, vertex, limits):
    """Return the other part with most room for a vertex, or -1 if none has any."""
    best, best_room = np.int64(-1), np.int64(0)
    for part in range(len(parts.weight)):
        room = room_for(level, parts, vertex, part, limits)
        if part != parts.part[vertex] and room >= 0 and (best < 0 or room > best_room):
            best, best_room = np.int64(part), np.int64(room)
    return best


@kernel(internal=True, _nrt=False)
def _best_in_table(level, parts, vertex, limits):
    """Return (part, benefit) of the part that binds a vertex most and has room; -1 if none has."""
    here = parts.part[vertex]
    start = vertex * len(parts.weight)
    best, best_benefit, best_room = np.int64(-1), np.int64(0), np.int64(0)
    for part in range(len(parts.weight)):
        value = np.int64(parts.benefit[start + part])
        if part == here or (best >= 0 and value < best_benefit):
            continue
        room = room_for(level, parts, vertex, part, limits)
        if room >= 0 and (best < 0 or value > best_benefit or room > best_room):
            best, best_benefit, best_room = np.int64(part), value, np.int64(room)
    return best, best_benefit


@kernel(internal=True, _nrt=False)
def _best_of_nets(level, parts, vertex, limits):
    """Return the same from the nets of a vertex, and tighten its folded entries.

    They leave out the parts without room: where most are full, the largest benefits are to these.
    """
    here = parts.part[vertex]
    if not parts.dense:
        parts.benefit[level.vertex_pointer[vertex] : level.vertex_pointer[vertex + 1]] = 0
    best, best_benefit, best_room = np.int64(-1), np.int64(0), np.int64(0)
    for i in range(connect(level, parts, vertex)):
        part = np.int64(parts.listed[i])
        value = np.int64(parts.row[part])
        parts.row[part] = 0
        room = room_for(level, parts, vertex, part, limits)
        if part == here or room < 0:
            continue
        if not parts.dense:
            at = entry(level, parts, vertex, part)
            parts.benefit[at] = max(np.int64(parts.benefit[at]), value)
        better = value > best_benefit or room > best_room or (room == best_room and part < best)
        if value >= best_benefit and better:
            best, best_benefit, best_room = part, value, room
    if best < 0:
        best = _roomiest(level, parts, vertex, limits)
    return best, best_benefit


@kernel(internal=True, _nrt=False)
def best_move(level, parts, vertex, limits):
    """Return (part, gain) of the best move that keeps to the limits; the part is -1 if none does.

    A fixed vertex has none, nor one whose part would grow lighter than the least allowed. Among
    equal gains the part with most room left (in absolute weight) wins.
    """
    best, benefit = np.int64(-1), np.int64(0)
    if may_leave(level, parts, vertex):
        if parts.dense and parts.benefit.size > 0:
            best, benefit = _best_in_table(level, parts, vertex, limits)
        else:
            best, benefit = _best_of_nets(level, parts, vertex, limits)
    return best, benefit - parts.penalty[vertex]


@kernel(internal=True, _nrt=False)
def _follow_dense(level, parts, net, part, change):
    """Add to benefit(v, part) for every pin v of a net that begins or ends to touch the part."""
    for i in range(level.net_pointer[net], level.net_pointer[net + 1]):
        parts.benefit[level.pins[i] * len(parts.weight) + part] += change


@kernel(internal=True, _nrt=False)
def _follow_folded(level, parts, net, part, change):
    """Add to the entries of the pins of a net that begins to touch the part."""
    for i in range(level.net_pointer[net], level.net_pointer[net + 1]):
        at = entry(level, parts, np.int64(level.pins[i]), part)
        parts.benefit[at] = min(parts.benefit[at] + change, parts.ceiling)


@kernel(_nrt=False)
def move_part(level, parts, vertex, there):
    """Move a vertex to another part; slots, penalty and (where kept) benefits follow."""
    here = np.int64(parts.part[vertex])
    behind = 0
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = np.int64(level.nets[i])
        cost = level.net_costs[net]
        left = leave(level, parts, net, vertex, here)
        before = arrive(level, parts, net, vertex, there)
        if parts.benefit.size > 0:
            if parts.dense:
                if left == 0:
                    _follow_dense(level, parts, net, here, -cost)
                if before == 0:
                    _follow_dense(level, parts, net, there, cost)
            elif before == 0:
                _follow_folded(level, parts, net, there, cost)
        if left > 0:
            behind += cost
    if not parts.dense and behind > 0:
        at = entry(level, parts, vertex, here)
        parts.benefit[at] = max(np.int64(parts.benefit[at]), behind)
    parts.part[vertex] = there
    for each in range(parts.weight.shape[1]):
        parts.weight[here, each] -= level.weights[vertex, each]
        parts.weight[there, each] += level.weights[vertex, each]
