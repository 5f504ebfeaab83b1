"""Two sides: gains kept exact under moves, and Fiduccia–Mattheyses refinement.

    side 0  | side 1          gain(v) = Σ c(n) over nets where v is alone on its side
      v ----|--> v                    - Σ c(n) over nets that lie wholly on v's side

For every net and side the state holds the number of pins and the exclusive-or of their numbers:
when one pin is left on a side, that number *is* the pin, so a net has to be walked through only
when it becomes cut or uncut. One pass moves each vertex at most once, best gain first, lets the
cut grow for a while, and rolls back to the best prefix (Fiduccia and Mattheyses 1982). While a
side is too heavy only moves out of it are made that lighten it, so a pass also repairs the balance.

Of several weights a side may be too heavy in one, the other side in another: then the side moves
that is beyond its limits by more. And where one side is full of nonzeros and the other of rows,
hardly a vertex fits anywhere. So there is a heap for each side and weight, which holds the vertices
that have most of that weight, of what a side has too much those with most of it go first, and a
pass may go a little beyond the limits: that exchanges a long row for many short ones (Karypis and
Kumar 1998).

    side 0   heap of nonzeros   12 1 | 9 1 | …      ──▶   too many nonzeros there
             heap of rows        1 1 | 2 1 | …      ◀──   many short rows come back
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._floor.kernels import kernel

from .heap import ABSENT, LOCKED, pop, push, update
from .level import Level

PASSES = 6  # refinement passes on a level, at most
FEWEST_MOVES = 500  # without a better cut after which a pass ends, or n / 20
FEWER_MOVES = 25  # the same of several weights, where a pass seldom runs out of moves
SLACK = 20  # of several weights each may exceed its limit by a 20th of it during a pass


class TwoWayState(NamedTuple):
    """A bipartition under change, with all that is needed to move a vertex quickly."""

    side: np.ndarray  # int8[n_vertices]
    weight: np.ndarray  # int64[2, n_weights]
    pins_in: np.ndarray  # int32[2 * n_nets]: pins of net n on side s at 2n + s
    lone: np.ndarray  # int32[2 * n_nets]: exclusive-or of those pins
    gain: np.ndarray  # amounts[n_vertices], as the level's costs
    reach: np.ndarray  # amounts[n_vertices]: costs of all nets of the vertex
    heap: np.ndarray  # int32[2 * n_kinds * n_vertices]: a heap for each side and kind
    size: np.ndarray  # int64[2 * n_kinds]
    place: np.ndarray  # int32[n_vertices]
    kind: np.ndarray | None  # int16[n_vertices]: of several weights the one it has most of, from 0


@kernel(_nrt=False)
def _count_pins(
    side, net_pointer, pins, net_costs, vertex_pointer, nets, pins_in, lone, gain, reach
):
    """Fill pins_in, lone, gain and reach, which are 0, from side."""
    for net in range(net_costs.size):
        for i in range(net_pointer[net], net_pointer[net + 1]):
            pin = pins[i]
            slot = 2 * net + side[pin]
            pins_in[slot] += 1
            lone[slot] ^= pin
    for vertex in range(side.size):
        here = np.int64(side[vertex])
        for i in range(vertex_pointer[vertex], vertex_pointer[vertex + 1]):
            net = nets[i]
            cost = net_costs[net]
            reach[vertex] += cost
            if pins_in[2 * net + here] == 1:
                gain[vertex] += cost
            elif pins_in[2 * net + 1 - here] == 0:
                gain[vertex] -= cost


def two_way_state(level: Level, side: np.ndarray) -> TwoWayState:
    """Return the state of a bipartition; `side` (int8) is used in place."""
    n, n_nets = len(level.weights), level.net_costs.size
    several = level.weights[:, 1:]
    n_kinds = max(several.shape[1], 1)
    kind = several.argmax(axis=1).astype(np.int16) if several.size else None
    sides = TwoWayState(
        side,
        np.zeros((2, level.weights.shape[1]), np.int64),
        np.zeros(2 * n_nets, np.int32),
        np.zeros(2 * n_nets, np.int32),
        np.zeros(n, level.net_costs.dtype),
        np.zeros(n, level.net_costs.dtype),
        np.zeros(2 * n_kinds * n, np.int32),
        np.zeros(2 * n_kinds, np.int64),
        np.full(n, ABSENT, np.int32),
        kind,
    )
    sides.weight[1] = level.weights[side == 1].sum(axis=0, dtype=np.int64)
    sides.weight[0] = level.weights.sum(axis=0, dtype=np.int64) - sides.weight[1]
    _count_pins(side, *level[1:], sides.pins_in, sides.lone, sides.gain, sides.reach)
    return sides


@kernel(internal=True, _nrt=False)
def _queue_of(vertex, side, size, kind):
    """Return the heap of a vertex: of one weight there is one a side."""
    if kind is None:
        return np.int64(side[vertex])
    return np.int64(side[vertex]) * (size.size >> 1) + kind[vertex]


@kernel(internal=True, _nrt=False)
def _change(vertex, delta, side, gain, heap, size, place, kind):
    """Add to a gain and keep the heaps in order; an absent vertex enters where its gain rises."""
    gain[vertex] += delta
    if place[vertex] == LOCKED:
        return
    which = _queue_of(vertex, side, size, kind)
    if place[vertex] != ABSENT:
        update(heap, size, which, place, gain, vertex)
    elif delta > 0:
        push(heap, size, which, place, gain, vertex)


@kernel(internal=True, _nrt=False)
def _move(
    vertex, weights, net_pointer, pins, net_costs, vertex_pointer, nets,
    side, weight, pins_in, lone, gain, heap, size, place, kind,
):  # fmt: skip
    """Move a vertex, which must be in no heap, to the other side; neighbours' gains follow."""
    here = np.int64(side[vertex])
    there = 1 - here
    for i in range(vertex_pointer[vertex], vertex_pointer[vertex + 1]):
        net = np.int64(nets[i])
        cost = np.int64(net_costs[net])
        source, goal = 2 * net + here, 2 * net + there
        left = pins_in[source] - 1
        arrived = pins_in[goal]
        first, last = np.int64(lone[goal]), np.int64(lone[source]) ^ vertex
        pins_in[source] = left
        lone[source] ^= vertex
        pins_in[goal] = arrived + 1
        lone[goal] ^= vertex
        if arrived == 1:
            _change(first, -cost, side, gain, heap, size, place, kind)
        if left == 1:
            _change(last, cost, side, gain, heap, size, place, kind)
        if arrived == 0 or left == 0:
            delta = cost if arrived == 0 else -cost
            for j in range(net_pointer[net], net_pointer[net + 1]):
                pin = np.int64(pins[j])
                if pin != vertex:
                    _change(pin, delta, side, gain, heap, size, place, kind)
    gain[vertex] = -gain[vertex]
    side[vertex] = there
    for each in range(weights.shape[1]):
        weight[here, each] -= weights[vertex, each]
        weight[there, each] += weights[vertex, each]


@kernel(internal=True, _nrt=False)
def _excess(which, limits, weight):
    """Return by how much a side is beyond its limits, over all weights."""
    excess = np.int64(0)
    for each in range(limits.shape[1]):
        excess += max(weight[which, each] - limits[which, each], 0)
    return excess


@kernel(internal=True, _nrt=False)
def _helps(vertex, which, excess, weights, limits, slack, weight):
    """Whether a vertex may go from a side, which is beyond its limits by so much, to the other.

    It may where it fits, give or take the slack; and also where the other side becomes too heavy by
    it, but less so than this one is, and both together not more than before. From a side that is
    too heavy nothing goes that does not lighten it; but what weighs nothing does no harm.
    """
    other = 1 - which
    grown, taken, given = np.int64(0), np.int64(0), np.int64(0)
    fits = True
    for each in range(limits.shape[1]):
        there = weight[other, each] - limits[other, each]
        here = weight[which, each] - limits[which, each]
        amount = np.int64(weights[vertex, each])
        fits = fits and (amount == 0 or there + amount <= slack[each])
        grown += max(there + amount, 0)
        taken += max(there + amount, 0) - max(there, 0)
        given += max(here, 0) - max(here - amount, 0)
    eases = excess == 0 or given > 0 or weights[vertex, 0] == 0
    return eases and (fits or (taken <= given and grown < excess))


@kernel(internal=True, _nrt=False)
def _fits(queue, which, excess, weights, limits, slack, weight, gain, heap, size, place):
    """Drop vertices that must not move from the top of a heap; True if one is left."""
    while size[queue] > 0:
        vertex = heap[queue * place.size]
        if _helps(vertex, which, excess, weights, limits, slack, weight):
            return True
        pop(heap, size, queue, place, gain)
    return False


@kernel(internal=True, _nrt=False)
def _next(weights, limits, slack, weight, gain, heap, size, place, kind):
    """Take the vertex to move next out of its heap, or return -1.

    It is one of what its side has most too much of, and among those of the highest gain.
    """
    chosen, most, highest = np.int64(-1), np.int64(0), np.int64(0)
    n_kinds = 1 if kind is None else size.size >> 1
    fuller = float(weight[0, 0]) * limits[1, 0] >= float(weight[1, 0]) * limits[0, 0]
    for which in range(2):
        excess, other = _excess(which, limits, weight), _excess(1 - which, limits, weight)
        # while a side is too heavy only moves out of it are made
        if excess < other:
            continue
        for each in range(n_kinds):
            queue = which * n_kinds + each
            if not _fits(
                queue, which, excess, weights, limits, slack, weight, gain, heap, size, place
            ):
                continue
            column = limits.shape[1] - n_kinds + each
            beyond = max(weight[which, column] - limits[which, column], 0)
            ahead = gain[heap[queue * place.size]] - highest
            if chosen >= 0 and beyond == most:
                better = ahead > 0 or (ahead == 0 and which == 1 and not fuller)
            else:
                better = chosen < 0 or beyond > most
            if better:
                chosen, most, highest = np.int64(queue), beyond, highest + ahead
    return pop(heap, size, chosen, place, gain) if chosen >= 0 else chosen


@kernel(_nrt=False)
def _pass(
    fixed, limits, slack, patience, moved,
    weights, net_pointer, pins, net_costs, vertex_pointer, nets,
    side, weight, pins_in, lone, gain, reach, heap, size, place, kind,
):  # fmt: skip
    """One pass of moves and the roll-back; returns (cut saved, weight of excess removed)."""
    start_excess = _excess(0, limits, weight) + _excess(1, limits, weight)
    for each in range(place.size):
        place[each] = LOCKED if fixed[each] >= 0 else ABSENT
        border = gain[each] != -reach[each] or start_excess > 0
        if border and fixed[each] < 0:
            push(heap, size, _queue_of(each, side, size, kind), place, gain, each)
    n_moved, n_best = 0, 0
    saved, best_saved, best_excess = 0, 0, start_excess
    rolling_back = False
    while True:
        if not rolling_back:
            vertex = np.int64(-1)
            if n_moved - n_best < patience or best_excess > 0:
                vertex = _next(weights, limits, slack, weight, gain, heap, size, place, kind)
            if vertex < 0:
                rolling_back = True
                size[:] = 0
                for i in range(place.size):
                    place[i] = LOCKED
        if rolling_back:
            if n_moved == n_best:
                break
            n_moved -= 1
            vertex = np.int64(moved[n_moved])
        else:
            place[vertex] = LOCKED
            saved += gain[vertex]
            moved[n_moved] = vertex
            n_moved += 1
        _move(
            vertex, weights, net_pointer, pins, net_costs, vertex_pointer, nets,
            side, weight, pins_in, lone, gain, heap, size, place, kind,
        )  # fmt: skip
        if not rolling_back:
            excess = _excess(0, limits, weight) + _excess(1, limits, weight)
            if excess < best_excess or (excess == best_excess and saved > best_saved):
                best_excess, best_saved, n_best = excess, saved, n_moved
    return best_saved, start_excess - best_excess


def refine(level: Level, sides: TwoWayState, fixed: np.ndarray, limits: np.ndarray) -> None:
    """Passes until one brings nothing.

    Parameters
    ----------
    level : Level
    sides : TwoWayState
        Changed in place.
    fixed : int8[n_vertices]
        -1 where a vertex may move.
    limits : int64[2, n_weights]
        Weight that a side may have.
    """
    n = sides.side.size
    moved, fewest, slack = np.empty(n, np.int32), FEWEST_MOVES, np.zeros(1, np.int64)
    if limits.shape[1] > 1:  # one weight needs no slack: where the other side is full, this is not
        fewest, slack = FEWER_MOVES, limits.min(axis=0) // SLACK
    patience = max(fewest, n // 20)
    for _ in range(PASSES):
        saved, lighter = _pass(fixed, limits, slack, patience, moved, *level, *sides)
        if saved <= 0 and lighter <= 0:
            break


def score(level: Level, sides: TwoWayState, limits: np.ndarray) -> tuple[int, int]:
    """Weight beyond the limits, then the cost of the nets cut: what is smaller is better."""
    cut = (sides.pins_in[::2] > 0) & (sides.pins_in[1::2] > 0)
    excess = np.maximum(sides.weight - limits, 0).sum()
    return int(excess), int(level.net_costs[cut].sum(dtype=np.int64))


@kernel(internal=True, _nrt=False)
def _lacking(targets, weight, size):
    """Return the heap of side 1 with what side 0 lacks most, or -1: all are empty."""
    n_kinds = size.size >> 1
    best, most = np.int64(-1), np.int64(0)
    for each in range(n_kinds):
        column = targets.size - n_kinds + each
        lack = targets[column] - weight[0, column]
        if size[n_kinds + each] > 0 and (best < 0 or lack > most):
            best, most = np.int64(n_kinds + each), lack
    return best


@kernel(_nrt=False)
def _grow(
    fixed, order, targets, weights, net_pointer, pins, net_costs, vertex_pointer, nets,
    side, weight, pins_in, lone, gain, reach, heap, size, place, kind,
):  # fmt: skip
    n, target = side.size, targets[0]
    for free in range(n):
        place[free] = LOCKED if fixed[free] >= 0 else ABSENT
        if fixed[free] < 0 and gain[free] != -reach[free]:
            push(heap, size, _queue_of(free, side, size, kind), place, gain, free)
    position = 0
    while weight[0, 0] < target:
        queue = _lacking(targets, weight, size)
        if queue < 0:
            while position < n and place[order[position]] == LOCKED:
                position += 1
            if position == n:
                break
            vertex = np.int64(order[position])
        else:
            vertex = pop(heap, size, queue, place, gain)
        place[vertex] = LOCKED
        if weight[0, 0] + weights[vertex, 0] <= max(target, weights[vertex, 0]):
            _move(
                vertex, weights, net_pointer, pins, net_costs, vertex_pointer, nets,
                side, weight, pins_in, lone, gain, heap, size, place, kind,
            )  # fmt: skip


def grow(
    level: Level, sides: TwoWayState, fixed: np.ndarray, order: np.ndarray, targets: np.ndarray
) -> None:
    """Grow side 0 greedily, best gain first, until it weighs its target (all free start on side 1).

    `targets` (int64[n_weights]) are of each weight; the next vertex is one of what is lacking most.
    `order` gives the seeds: its next vertex starts a new region whenever no neighbour is left.
    Greedy hypergraph growing, Çatalyürek and Aykanat 1999.
    """
    _grow(fixed, order, targets, *level, *sides)
    sides.size[:] = 0
    sides.place[:] = LOCKED
