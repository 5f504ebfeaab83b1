"""Local search over K parts: label propagation, then Fiduccia–Mattheyses with a benefit table.

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

from daskpart._floor.kernels import kernel

from .gain_table import best_move, entry, may_leave, move_part
from .heap import ABSENT, LOCKED, TOP, pop, push, update
from .k_way import KWayState, find, lone, pins_in
from .level import Level

NOBODY = -1  # no vertex


@kernel(internal=True, _nrt=False)
def _is_lonely(level, parts, vertex):
    """Whether a vertex is its part's only pin in one of its nets: else it has nothing to gain."""
    reach = 0
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        reach += level.net_costs[level.nets[i]]
    return reach > parts.penalty[vertex]


@kernel(_nrt=False)
def _propagate_once(level, parts, order, limits):
    """Move every border vertex to its best part, in the given order; returns the cost saved."""
    saved = 0
    for i in range(order.size):
        vertex = np.int64(order[i])
        if _is_lonely(level, parts, vertex):
            part, gain = best_move(level, parts, vertex, limits)
            if part >= 0 and gain > 0:
                move_part(level, parts, vertex, np.int64(part))
                saved += gain
    return saved


def propagate(
    level: Level, parts: KWayState, order: np.ndarray, limits: np.ndarray, max_rounds: int
) -> None:
    """Rounds of label propagation, until one moves nothing."""
    for _ in range(max_rounds):
        if _propagate_once(level, parts, order, limits) == 0:
            break


@kernel(internal=True, _nrt=False)
def _offer(level, parts, vertex, gain):
    """Tell the heap that `vertex` may now gain that much; keys are hints, checked when popped."""
    if parts.place[vertex] == ABSENT:
        parts.key[vertex] = gain
        push(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)
    elif parts.place[vertex] >= 0 and gain > parts.key[vertex]:
        parts.key[vertex] = gain
        update(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)


@kernel(internal=True, _nrt=False)
def _invite(level, parts, vertex, there, limits):
    """Offer a vertex for what it may gain in a part; with a folded table only if it may go there.

    Such a table promises more than there is, above all where parts are full.
    """
    gain = np.int64(parts.benefit[entry(level, parts, vertex, there)]) - parts.penalty[vertex]
    place = parts.place[vertex]
    if place == ABSENT or (place >= 0 and gain > parts.key[vertex]):
        room = limits[there] - parts.weight[there] - level.weights[vertex]
        if parts.dense or (room >= 0 and may_leave(level, parts, vertex)):
            _offer(level, parts, vertex, gain)


@kernel(internal=True, _nrt=False)
def _invite_neighbours(level, parts, vertex, here, there, limits, widest):
    """Offer the pins that gain by the move of `vertex`: a net's new part, or a lone pin left."""
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = np.int64(level.nets[i])
        source = find(parts, net, here)
        if source >= 0 and pins_in(parts, source) == 1:
            _invite(level, parts, lone(level, parts, net, source, vertex), there, limits)
        begin, end = level.net_pointer[net], level.net_pointer[net + 1]
        if end - begin <= widest and pins_in(parts, find(parts, net, there)) == 1:
            for j in range(begin, end):
                pin = np.int64(level.pins[j])
                if pin != vertex:
                    _invite(level, parts, pin, there, limits)


@kernel(_nrt=False)
def _search(level, parts, limits, patience, widest):
    """Empty the heap by moves, best first, until none helps; keep the best prefix.

    The vertices moved are noted at the end of the heap's array (none of them is in the heap), where
    they came from in `place`.
    """
    end = parts.heap.size - 1
    n_moved, n_best = 0, 0
    saved, best_saved = 0, 0
    while parts.size[0] > 0 and n_moved - n_best < patience:
        vertex = pop(parts.heap, parts.size, TOP, parts.place, parts.key)
        part, gain = best_move(level, parts, vertex, limits)
        # a folded table brings up what binds to full parts only: nothing to gain elsewhere
        if part < 0 or (not parts.dense and gain == -parts.penalty[vertex]):
            continue
        if parts.size[0] > 0 and gain < parts.key[parts.heap[0]]:
            parts.key[vertex] = gain
            push(parts.heap, parts.size, TOP, parts.place, parts.key, vertex)
            continue
        here = np.int64(parts.part[vertex])
        parts.place[vertex] = LOCKED - here
        parts.heap[end - n_moved] = vertex
        n_moved += 1
        move_part(level, parts, vertex, np.int64(part))
        saved += gain
        if saved > best_saved:
            best_saved, n_best = saved, n_moved
        _invite_neighbours(level, parts, vertex, here, np.int64(part), limits, widest)
    parts.size[0] = 0
    for i in range(n_moved - 1, n_best - 1, -1):
        vertex = np.int64(parts.heap[end - i])
        move_part(level, parts, vertex, np.int64(LOCKED - parts.place[vertex]))
    return best_saved


@kernel(_nrt=False)
def _seed(level, parts, limits):
    """Offer every vertex that has a benefit to another part: without, no net of it is cut."""
    for vertex in range(parts.part.size):
        parts.place[vertex] = ABSENT
    for vertex in range(parts.part.size):
        part, gain = best_move(level, parts, vertex, limits)
        if part >= 0 and gain > -parts.penalty[vertex]:
            _offer(level, parts, vertex, gain)


def search(
    level: Level,
    parts: KWayState,
    limits: np.ndarray,
    patience: int,
    widest: int,
    max_rounds: int,
) -> None:
    """Rounds of local search from the whole border, until one saves nothing.

    Parameters
    ----------
    level : Level
    parts : KWayState
        With benefits. Changed in place.
    limits : int64[n_parts]
    patience : int
        Moves without a new best after which a round ends.
    widest : int
        Larger nets do not bring their pins into a search.
    max_rounds : int
        At most; a vertex moves once a round.
    """
    for _ in range(max_rounds):
        _seed(level, parts, limits)
        if _search(level, parts, limits, patience, widest) == 0:
            break
    parts.place[:] = ABSENT


@kernel(_nrt=False)
def _relieve(level, parts, heavy, limits, stays):
    """Move vertices but `stays` out of one part, cheapest first, until it keeps to its limit."""
    for vertex in range(parts.part.size):
        movable = parts.part[vertex] == heavy and not parts.held[vertex] and vertex != stays
        if movable and 0 < level.weights[vertex] <= limits[heavy]:
            _, gain = best_move(level, parts, vertex, limits)
            _offer(level, parts, vertex, gain)
    while parts.size[0] > 0 and parts.weight[heavy] > limits[heavy]:
        vertex = pop(parts.heap, parts.size, TOP, parts.place, parts.key)
        part, gain = best_move(level, parts, vertex, limits)
        if parts.size[0] > 0 and part >= 0 and gain < parts.key[parts.heap[0]]:
            _offer(level, parts, vertex, gain)
            continue
        if part < 0:
            part = np.int64(0)  # the lightest
            for other in range(parts.weight.size):
                if parts.weight[other] < parts.weight[part]:
                    part = np.int64(other)
        if parts.weight[part] + level.weights[vertex] < parts.weight[heavy]:
            move_part(level, parts, vertex, np.int64(part))
    parts.size[0] = 0
    for vertex in range(parts.place.size):
        parts.place[vertex] = ABSENT


def _make_room(level: Level, parts: KWayState, heavy: int, limits: np.ndarray) -> None:
    """Move a vertex into the lightest part, beyond its limit, and others out of that part.

    For a part of a few heavy vertices, none of which finds room as the parts are.
    """
    excess = parts.weight[heavy] - limits[heavy]
    there = int(np.argmin(parts.weight))
    fits = (level.weights >= excess) & (level.weights <= limits[there])
    movable = np.flatnonzero((parts.part == heavy) & ~parts.held & fits)
    if not movable.size:
        return
    chosen = int(movable[np.argmin(level.weights[movable])])
    move_part(level, parts, chosen, there)
    _relieve(level, parts, there, limits, chosen)
    if parts.weight[there] - limits[there] >= excess:
        move_part(level, parts, chosen, heavy)


def rebalance(level: Level, parts: KWayState, limits: np.ndarray) -> None:
    """Move vertices out of parts over their limit, at the least cost."""
    for part in range(parts.weight.size):
        if parts.weight[part] > limits[part]:
            _relieve(level, parts, part, limits, NOBODY)
    for part in range(parts.weight.size):
        if parts.weight[part] > limits[part]:
            _make_room(level, parts, part, limits)
