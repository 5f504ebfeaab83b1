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

from .gain_table import best_move, entry, may_leave, move_part, room_for
from .heap import ABSENT, LOCKED, TOP, pop, push, update
from .k_way import KWayState, find, lone, pins_in
from .level import Level

NOBODY = -1  # no vertex
ROOM_TRIES = 3  # of the lightest parts
PATIENCE = (50, 500)  # moves without a new best after which a search ends: n / 20, but in here
WIDEST = 300  # larger nets do not bring their pins into a search
SEARCH_ROUNDS = 3
PROPAGATION_ROUNDS = 4


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


def propagate(level: Level, parts: KWayState, order: np.ndarray, limits: np.ndarray) -> None:
    """Rounds of label propagation, until one moves nothing."""
    for _ in range(PROPAGATION_ROUNDS):
        if _propagate_once(level, parts, order, limits) == 0:
            break


@kernel(internal=True, _nrt=False)
def _offer(parts, vertex, gain):
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
        room = room_for(level, parts, vertex, there, limits)
        if parts.dense or (room >= 0 and may_leave(level, parts, vertex)):
            _offer(parts, vertex, gain)


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
            _offer(parts, vertex, gain)


def search(
    level: Level, parts: KWayState, limits: np.ndarray, max_rounds: int = SEARCH_ROUNDS
) -> None:
    """Rounds of local search from the whole border, until one saves nothing.

    Parameters
    ----------
    level : Level
    parts : KWayState
        With benefits. Changed in place.
    limits : int64[n_parts, n_weights]
    max_rounds : int
        At most; a vertex moves once a round.
    """
    patience = int(np.clip(parts.part.size // 20, *PATIENCE))
    for _ in range(max_rounds):
        _seed(level, parts, limits)
        if _search(level, parts, limits, patience, WIDEST) == 0:
            break
    parts.place[:] = ABSENT


@kernel(internal=True, _nrt=False)
def _worst(parts, part, limits):
    """Return the weight in which a part is furthest beyond its limit, or -1: in none."""
    worst, most = np.int64(-1), np.int64(0)
    for each in range(limits.shape[1]):
        excess = parts.weight[part, each] - limits[part, each]
        if excess > most:
            worst, most = np.int64(each), excess
    return worst


@kernel(internal=True, _nrt=False)
def _lightens(level, parts, vertex, limits):
    """Whether a vertex weighs something in what its part has too much of, and not too much."""
    here = parts.part[vertex]
    for each in range(limits.shape[1]):
        over = parts.weight[here, each] > limits[here, each]
        if over and 0 < level.weights[vertex, each] <= limits[here, each]:
            return True
    return False


@kernel(internal=True, _nrt=False)
def _least_excess(level, parts, vertex, worst, limits):
    """Return the part whose excess grows least by a vertex, or -1: it would by more than falls.

    `worst` is what the vertex's own part has most too much of.
    """
    best, least = np.int64(-1), np.int64(0)
    given = np.int64(0)
    here = parts.part[vertex]
    for each in range(limits.shape[1]):
        over = parts.weight[here, each] - limits[here, each]
        given += max(over, 0) - max(over - level.weights[vertex, each], 0)
    for part in range(len(parts.weight)):
        taken = np.int64(0)
        for each in range(limits.shape[1]):
            over = parts.weight[part, each] - limits[part, each]
            taken += max(over + level.weights[vertex, each], 0) - max(over, 0)
        lighter = best >= 0 and parts.weight[part, worst] < parts.weight[best, worst]
        if best < 0 or taken < least or (taken == least and lighter):
            best, least = np.int64(part), taken
    grown = parts.weight[best, worst] + level.weights[vertex, worst]
    return best if least <= given and grown < parts.weight[here, worst] else np.int64(-1)


@kernel(_nrt=False)
def _relieve(level, parts, heavy, limits, stays):
    """Move vertices but `stays` out of one part, cheapest first, until it keeps to its limits."""
    for vertex in range(parts.part.size):
        movable = parts.part[vertex] == heavy and not parts.held[vertex] and vertex != stays
        if movable and _lightens(level, parts, vertex, limits):
            _, gain = best_move(level, parts, vertex, limits)
            _offer(parts, vertex, gain)
    worst = _worst(parts, heavy, limits)
    while parts.size[0] > 0 and worst >= 0:
        vertex = pop(parts.heap, parts.size, TOP, parts.place, parts.key)
        if not _lightens(level, parts, vertex, limits):
            continue  # what it would have lightened is within its limit by now
        part, gain = best_move(level, parts, vertex, limits)
        if parts.size[0] > 0 and part >= 0 and gain < parts.key[parts.heap[0]]:
            _offer(parts, vertex, gain)
            continue
        if part < 0:
            part = _least_excess(level, parts, vertex, worst, limits)
        if part >= 0:
            move_part(level, parts, vertex, np.int64(part))
            worst = _worst(parts, heavy, limits)
    parts.size[0] = 0
    for vertex in range(parts.place.size):
        parts.place[vertex] = ABSENT


def _make_room(level: Level, parts: KWayState, heavy: int, limits: np.ndarray) -> None:
    """Move a vertex into a light part, beyond its limit, and others out of that part.

    For a part of a few heavy vertices, none of which finds room as the parts are. What does not
    help on the whole is taken back, and the next part tried.
    """
    beyond = parts.weight[heavy] - limits[heavy]
    worst = int(np.argmax(beyond))
    weights = level.weights[:, worst]
    before, excess = parts.part.copy(), np.maximum(parts.weight - limits, 0).sum()
    for there in np.argsort(parts.weight[:, worst], kind="stable")[:ROOM_TRIES]:
        fits = (weights >= beyond[worst]) & np.all(level.weights <= limits[there], axis=1)
        movable = np.flatnonzero((before == heavy) & ~parts.held & fits)
        if there == heavy or not movable.size:
            continue
        chosen = int(movable[np.argmin(weights[movable])])
        move_part(level, parts, chosen, there)
        _relieve(level, parts, there, limits, chosen)
        if np.maximum(parts.weight - limits, 0).sum() < excess:
            break
        for vertex in np.flatnonzero(parts.part != before):
            move_part(level, parts, vertex, np.int64(before[vertex]))


def rebalance(level: Level, parts: KWayState, limits: np.ndarray) -> None:
    """Move vertices out of parts over their limits, at the least cost."""
    for part in range(len(parts.weight)):
        if np.any(parts.weight[part] > limits[part]):
            _relieve(level, parts, part, limits, NOBODY)
    for part in range(len(parts.weight)):
        if np.any(parts.weight[part] > limits[part]):
            _make_room(level, parts, part, limits)
