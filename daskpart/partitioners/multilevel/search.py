"""Local search over K parts: label propagation, then Fiduccia–Mattheyses with a bond table.

    label propagation   every border vertex goes to its best part if that is a gain
    local search        border vertices seed it; it moves the best one, then also what that move
                        made better, lets the cost grow for some steps, and keeps its best prefix
    rebalance           out of parts that are too heavy, at the least cost

K-way Fiduccia–Mattheyses with a gain table as in Akhremtsev et al. 2017 and Mt-KaHyPar
(Gottesbüren et al. 2021), but one search from the whole border instead of many from a few seeds:
measured no worse, and quicker.
"""

from __future__ import annotations

import numpy as np

from daskpart._jit import kernel

from .heap import ABSENT, LOCKED, TOP, pop, push, update
from .k_way import best_part, connect, find, move_part

NONE = np.int64(-1)  # no vertex


@kernel
def propagate(level, parts, order, limits, max_rounds):
    """Move every border vertex to its best part, in the given order; returns the cost saved."""
    bond = np.zeros(parts.weight.size, parts.bond.dtype)
    total = 0
    for _ in range(max_rounds):
        saved = 0
        for i in range(order.size):
            vertex = np.int64(order[i])
            if parts.alone[vertex] == 0:
                continue  # all its nets stay in its part without it: nothing to gain
            connect(level, parts, vertex, bond, TOP)
            part, gain = best_part(level, parts, vertex, bond, TOP, limits)
            if part >= 0 and gain > 0:
                move_part(level, parts, vertex, np.int64(part))
                saved += gain
        total += saved
        if saved == 0:
            break
    return total


@kernel
def _offer(level, parts, vertex, gain):
    """Tell the heap that `vertex` may now gain that much; keys are hints, checked when popped."""
    if parts.place[vertex] == ABSENT:
        parts.key[vertex] = gain
        push(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)
    elif parts.place[vertex] != LOCKED and gain > parts.key[vertex]:
        parts.key[vertex] = gain
        update(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)


@kernel
def _offer_neighbours(level, parts, vertex, here, there, widest):
    """Offer the pins that gain by the move of `vertex`: a net's new part, or a lone pin left."""
    n_parts = parts.weight.size
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = np.int64(level.nets[i])
        source = find(parts, net, here)
        if source >= 0 and parts.pins_in[source] == 1:
            pin = np.int64(parts.lone[source])
            row = pin * n_parts + there
            _offer(level, parts, pin, parts.alone[pin] - parts.reach[pin] + parts.bond[row])
        begin, end = level.net_pointer[net], level.net_pointer[net + 1]
        if end - begin <= widest and parts.pins_in[find(parts, net, there)] == 1:
            for j in range(begin, end):
                pin = np.int64(level.pins[j])
                if pin != vertex:
                    row = pin * n_parts + there
                    gain = parts.alone[pin] - parts.reach[pin] + parts.bond[row]
                    _offer(level, parts, pin, gain)


@kernel
def _search(level, parts, limits, patience, widest, moved, origin):
    """Empty the heap by moves, best first, until none helps; keep the best prefix."""
    n_parts = parts.weight.size
    n_moved, n_best = 0, 0
    saved, best_saved = 0, 0
    while parts.size[0] > 0 and n_moved - n_best < patience:
        vertex = pop(parts.heap, parts.size, TOP, parts.place, parts.key)
        part, gain = best_part(level, parts, vertex, parts.bond, vertex * n_parts, limits)
        if part < 0:
            continue
        if parts.size[0] > 0 and gain < parts.key[parts.heap[0]]:
            parts.key[vertex] = gain
            push(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)
            continue
        parts.place[vertex] = LOCKED
        here = np.int64(parts.part[vertex])
        moved[n_moved], origin[n_moved] = vertex, here
        n_moved += 1
        move_part(level, parts, vertex, np.int64(part))
        saved += gain
        if saved > best_saved:
            best_saved, n_best = saved, n_moved
        _offer_neighbours(level, parts, vertex, here, np.int64(part), widest)
    parts.size[0] = 0
    for i in range(n_moved - 1, n_best - 1, -1):
        vertex = np.int64(moved[i])
        move_part(level, parts, vertex, np.int64(origin[i]))
    return best_saved


@kernel
def search(level, parts, limits, patience, widest, max_rounds):
    """Rounds of local search from the whole border; returns the cost saved.

    Parameters
    ----------
    level : Level
    parts : Parts
        With bonds. Changed in place.
    limits : int64[n_parts]
    patience : int
        Moves without a new best after which a round ends.
    widest : int
        Larger nets do not bring their pins into a search.
    max_rounds : int
        At most; a vertex moves once a round.
    """
    n_parts = parts.weight.size
    n = parts.part.size
    moved = np.empty(n, np.int32)
    origin = np.empty(n, np.int32)
    total = 0
    for _ in range(max_rounds):
        parts.place[:] = ABSENT
        for vertex in range(n):
            row = vertex * n_parts
            part, gain = best_part(level, parts, vertex, parts.bond, row, limits)
            # without a bond to another part it lies inside: no net of it is cut
            if part >= 0 and gain > parts.alone[vertex] - parts.reach[vertex]:
                _offer(level, parts, vertex, gain)
        saved = _search(level, parts, limits, patience, widest, moved, origin)
        total += saved
        if saved == 0:
            break
    parts.place[:] = ABSENT
    return total


@kernel
def _lightest(parts):
    lightest = 0
    for part in range(parts.weight.size):
        if parts.weight[part] < parts.weight[lightest]:
            lightest = part
    return lightest


@kernel
def _relieve(level, parts, heavy, limits, bond, stays):
    """Move vertices but `stays` out of one part, cheapest first, until it keeps to its limit."""
    for vertex in range(parts.part.size):
        movable = parts.part[vertex] == heavy and not parts.held[vertex] and vertex != stays
        if movable and 0 < level.weights[vertex] <= limits[heavy]:
            connect(level, parts, vertex, bond, TOP)
            _, gain = best_part(level, parts, vertex, bond, TOP, limits)
            _offer(level, parts, vertex, gain)
    while parts.size[0] > 0 and parts.weight[heavy] > limits[heavy]:
        vertex = pop(parts.heap, parts.size, TOP, parts.place, parts.key)
        connect(level, parts, vertex, bond, TOP)
        part, gain = best_part(level, parts, vertex, bond, TOP, limits)
        if parts.size[0] > 0 and part >= 0 and gain < parts.key[parts.heap[0]]:
            _offer(level, parts, vertex, gain)
            continue
        if part < 0:
            part = _lightest(parts)
        if parts.weight[part] + level.weights[vertex] < parts.weight[heavy]:
            move_part(level, parts, vertex, np.int64(part))
    parts.size[0] = 0
    parts.place[:] = ABSENT


@kernel
def _make_room(level, parts, heavy, limits, bond):
    """Move a vertex into the lightest part, beyond its limit, and others out of that part.

    For a part of a few heavy vertices, none of which finds room as the parts are.
    """
    excess = parts.weight[heavy] - limits[heavy]
    there = np.int64(_lightest(parts))
    chosen = NONE
    for vertex in range(parts.part.size):
        weight = level.weights[vertex]
        movable = parts.part[vertex] == heavy and not parts.held[vertex]
        if movable and excess <= weight <= limits[there]:
            if chosen == NONE or weight < level.weights[chosen]:
                chosen = np.int64(vertex)
    if chosen == NONE:
        return
    move_part(level, parts, chosen, there)
    _relieve(level, parts, there, limits, bond, chosen)
    if parts.weight[there] - limits[there] >= excess:
        move_part(level, parts, chosen, heavy)


@kernel
def rebalance(level, parts, limits):
    """Move vertices out of parts over their limit, at the least cost; returns the excess left."""
    bond = np.zeros(parts.weight.size, parts.bond.dtype)
    excess = 0
    for part in range(parts.weight.size):
        if parts.weight[part] > limits[part]:
            _relieve(level, parts, np.int64(part), limits, bond, NONE)
    for part in range(parts.weight.size):
        if parts.weight[part] > limits[part]:
            _make_room(level, parts, np.int64(part), limits, bond)
    for part in range(parts.weight.size):
        excess += max(parts.weight[part] - limits[part], 0)
    return excess
