"""Two sides: gains kept exact under moves, and Fiduccia–Mattheyses refinement.

    side 0  | side 1          gain(v) = Σ c(n) over nets where v is alone on its side
      v ----|--> v                    - Σ c(n) over nets that lie wholly on v's side

For every net and side the state holds the number of pins and the exclusive-or of their numbers:
when one pin is left on a side, that number *is* the pin, so a net has to be walked through only
when it becomes cut or uncut. One pass moves each vertex at most once, best gain first, lets the
cut grow for a while, and rolls back to the best prefix (Fiduccia and Mattheyses 1982). While a
side is too heavy only moves out of it are made, so a pass also repairs the balance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._floor.kernels import kernel

from .heap import ABSENT, LOCKED, pop, push, update
from .level import Level

ZERO, ONE = np.int64(0), np.int64(1)  # the sides; numba compiles once more for plain 0 and 1


class Sides(NamedTuple):
    """A bipartition under change, with all that is needed to move a vertex quickly."""

    side: np.ndarray  # int8[n_vertices]
    weight: np.ndarray  # int64[2]
    pins_in: np.ndarray  # int32[2 * n_nets]: pins of net n on side s at 2n + s
    lone: np.ndarray  # int32[2 * n_nets]: exclusive-or of those pins
    gain: np.ndarray  # amounts[n_vertices], as the level's costs
    reach: np.ndarray  # amounts[n_vertices]: costs of all nets of the vertex
    heap: np.ndarray  # int32[2 * n_vertices]: heap s starts at s * n_vertices
    size: np.ndarray  # int64[2]
    place: np.ndarray  # int32[n_vertices]


@kernel
def _count_pins(level, sides):
    """Fill weight, pins_in, lone, gain and reach from side."""
    sides.weight[:] = 0
    sides.pins_in[:] = 0
    sides.lone[:] = 0
    for vertex in range(sides.side.size):
        sides.weight[sides.side[vertex]] += level.weights[vertex]
    for net in range(level.net_costs.size):
        for i in range(level.net_pointer[net], level.net_pointer[net + 1]):
            pin = level.pins[i]
            slot = 2 * net + sides.side[pin]
            sides.pins_in[slot] += 1
            sides.lone[slot] ^= pin
    for vertex in range(sides.side.size):
        gain = 0
        reach = 0
        here = np.int64(sides.side[vertex])
        for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
            net = level.nets[i]
            cost = level.net_costs[net]
            reach += cost
            if sides.pins_in[2 * net + here] == 1:
                gain += cost
            elif sides.pins_in[2 * net + 1 - here] == 0:
                gain -= cost
        sides.gain[vertex] = gain
        sides.reach[vertex] = reach


def sides_of(level: Level, side: np.ndarray) -> Sides:
    """Return the state of a bipartition; `side` (int8) is used in place."""
    n, n_nets = level.weights.size, level.net_costs.size
    sides = Sides(
        side,
        np.zeros(2, np.int64),
        np.zeros(2 * n_nets, np.int32),
        np.zeros(2 * n_nets, np.int32),
        np.zeros(n, level.net_costs.dtype),
        np.zeros(n, level.net_costs.dtype),
        np.zeros(2 * n, np.int32),
        np.zeros(2, np.int64),
        np.full(n, ABSENT, np.int32),
    )
    _count_pins(level, sides)
    return sides


@kernel(_nrt=False)
def _change(sides, vertex, delta):
    """Add to a gain and keep the heaps in order; an absent vertex enters where its gain rises."""
    sides.gain[vertex] += delta
    place = sides.place[vertex]
    if place == LOCKED:
        return
    which = np.int64(sides.side[vertex])
    if place != ABSENT:
        update(sides.heap, sides.size, which, sides.place, sides.gain, vertex)
    elif delta > 0:
        push(sides.heap, sides.size, which, sides.place, sides.gain, vertex)


@kernel(_nrt=False)
def move(level, sides, vertex):
    """Move a vertex, which must be in no heap, to the other side; neighbours' gains follow."""
    here = np.int64(sides.side[vertex])
    there = 1 - here
    for i in range(level.vertex_pointer[vertex], level.vertex_pointer[vertex + 1]):
        net = np.int64(level.nets[i])
        cost = level.net_costs[net]
        source, goal = 2 * net + here, 2 * net + there
        left = sides.pins_in[source] - 1
        arrived = sides.pins_in[goal]
        if arrived == 1:
            _change(sides, np.int64(sides.lone[goal]), -cost)
        sides.pins_in[source] = left
        sides.lone[source] ^= vertex
        sides.pins_in[goal] = arrived + 1
        sides.lone[goal] ^= vertex
        if left == 1:
            _change(sides, np.int64(sides.lone[source]), cost)
        if arrived == 0 or left == 0:
            delta = cost if arrived == 0 else -cost
            for j in range(level.net_pointer[net], level.net_pointer[net + 1]):
                pin = np.int64(level.pins[j])
                if pin != vertex:
                    _change(sides, pin, delta)
    sides.gain[vertex] = -sides.gain[vertex]
    sides.side[vertex] = there
    sides.weight[here] -= level.weights[vertex]
    sides.weight[there] += level.weights[vertex]


@kernel(_nrt=False)
def _fits(level, sides, which, limits):
    """Drop vertices too heavy for the other side from the top of a heap; True if one is left."""
    other = 1 - which
    base = which * sides.side.size
    while sides.size[which] > 0:
        weight = level.weights[sides.heap[base]]
        excess = sides.weight[which] - limits[which]
        allowed = sides.weight[other] + weight <= limits[other]
        # a side that is too heavy may also hand over a weight that makes things better on the whole
        if allowed or sides.weight[other] + weight - limits[other] < excess:
            return True
        pop(sides.heap, sides.size, which, sides.place, sides.gain)
    return False


@kernel(_nrt=False)
def _next(level, sides, limits):
    """Take the vertex to move next out of its heap, or return -1."""
    zero = sides.weight[1] <= limits[1] and _fits(level, sides, ZERO, limits)
    one = sides.weight[0] <= limits[0] and _fits(level, sides, ONE, limits)
    if not zero and not one:
        return np.int64(-1)
    which = ZERO if zero else ONE
    if zero and one:
        ahead = sides.gain[sides.heap[0]] - sides.gain[sides.heap[sides.side.size]]
        fuller = float(sides.weight[0]) * limits[1] >= float(sides.weight[1]) * limits[0]
        which = ZERO if ahead > 0 or (ahead == 0 and fuller) else ONE
    return pop(sides.heap, sides.size, which, sides.place, sides.gain)


@kernel(_nrt=False)
def _close(sides):
    """Empty the heaps and let nothing enter them."""
    sides.size[:] = 0
    sides.place[:] = LOCKED


@kernel(_nrt=False)
def _excess(sides, limits):
    return max(sides.weight[0] - limits[0], 0) + max(sides.weight[1] - limits[1], 0)


@kernel(_nrt=False)
def _pass(level, sides, fixed, limits, patience, moved):
    """One pass of moves and the roll-back; returns (cut saved, weight of excess removed)."""
    n = sides.side.size
    start_excess = _excess(sides, limits)
    for vertex in range(n):
        sides.place[vertex] = LOCKED if fixed[vertex] >= 0 else ABSENT
        border = sides.gain[vertex] != -sides.reach[vertex] or start_excess > 0
        if border and fixed[vertex] < 0:
            which = np.int64(sides.side[vertex])
            push(sides.heap, sides.size, which, sides.place, sides.gain, vertex)
    n_moved, n_best = 0, 0
    saved, best_saved, best_excess = 0, 0, start_excess
    while n_moved - n_best < patience or best_excess > 0:
        vertex = _next(level, sides, limits)
        if vertex < 0:
            break
        sides.place[vertex] = LOCKED
        saved += sides.gain[vertex]
        move(level, sides, vertex)
        moved[n_moved] = vertex
        n_moved += 1
        excess = _excess(sides, limits)
        if excess < best_excess or (excess == best_excess and saved > best_saved):
            best_excess, best_saved, n_best = excess, saved, n_moved
    _close(sides)
    for i in range(n_moved - 1, n_best - 1, -1):
        move(level, sides, np.int64(moved[i]))
    return best_saved, start_excess - best_excess


@kernel
def refine(level, sides, fixed, limits, patience, max_passes):
    """Passes until one brings nothing; returns (cut saved, excess left).

    Parameters
    ----------
    level : Level
    sides : Sides
        Changed in place.
    fixed : int8[n_vertices]
        -1 where a vertex may move.
    limits : int64[2]
        Weight that a side may have.
    patience : int
        Moves without a better cut after which a pass ends.
    max_passes : int
    """
    moved = np.empty(sides.side.size, np.int32)
    total = 0
    for _ in range(max_passes):
        saved, lighter = _pass(level, sides, fixed, limits, patience, moved)
        total += saved
        if saved <= 0 and lighter <= 0:
            break
    return total, _excess(sides, limits)


@kernel
def cut_cost(level, sides):
    """Return the summed cost of the nets with pins on both sides."""
    total = 0
    for net in range(level.net_costs.size):
        if sides.pins_in[2 * net] > 0 and sides.pins_in[2 * net + 1] > 0:
            total += level.net_costs[net]
    return total


@kernel(_nrt=False)
def grow(level, sides, fixed, order, target):
    """Grow side 0 greedily, best gain first, until it weighs `target` (all free start on side 1).

    `order` gives the seeds: its next vertex starts a new region whenever no neighbour is left.
    Greedy hypergraph growing, Çatalyürek and Aykanat 1999.
    """
    n = sides.side.size
    for free in range(n):
        sides.place[free] = LOCKED if fixed[free] >= 0 else ABSENT
        if fixed[free] < 0 and sides.gain[free] != -sides.reach[free]:
            push(sides.heap, sides.size, ONE, sides.place, sides.gain, free)
    position = 0
    while sides.weight[0] < target:
        if sides.size[1] == 0:
            while position < n and sides.place[order[position]] == LOCKED:
                position += 1
            if position == n:
                break
            vertex = np.int64(order[position])
        else:
            vertex = pop(sides.heap, sides.size, ONE, sides.place, sides.gain)
        sides.place[vertex] = LOCKED
        if sides.weight[0] + level.weights[vertex] <= max(target, level.weights[vertex]):
            move(level, sides, vertex)
    _close(sides)
