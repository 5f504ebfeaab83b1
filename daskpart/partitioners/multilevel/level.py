"""One level of the multilevel hierarchy, and how the next one is made from it.

    fine level          map: vertex -> coarse vertex (or DROPPED)          coarse level
    nets  {0,1,2} {3,4}      0,1 -> 0   2,3 -> 1   4 -> 2            nets  {0,1} {1,2}

`contract` serves three ends with one kernel: cleaning (identity map), coarsening (clusters), and
splitting off one part with its share of the nets (the others DROPPED). It always drops nets of
fewer than two pins, merges identical nets (their costs add up), and numbers the nets by rising
size, so that every vertex sees its small, telling nets first (Çatalyürek and Aykanat 1999;
identical nets as in Schlag et al. 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskpart._jit import kernel

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph

DROPPED = -1


class Level(NamedTuple):
    """A hypergraph as raw arrays: what kernels take. Nets have two or more pins, by rising size."""

    weights: np.ndarray  # int64[n_vertices]
    net_pointer: np.ndarray  # int64[n_nets + 1]
    pins: np.ndarray  # int32[n_pins]
    net_costs: np.ndarray  # int64[n_nets]
    vertex_pointer: np.ndarray  # int64[n_vertices + 1]
    nets: np.ndarray  # int32[n_pins]


@kernel
def _mix(value):
    """Scramble a pin number so that a sum of them identifies a net (splitmix64's finaliser)."""
    x = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _find_twin(table, slot, mask, fingerprint, sizes, starts, out, mark, net, total, size):
    """Return (slot, twin) of an identical net already kept; twin is -1 where there is none."""
    while table[slot] >= 0:
        other = table[slot]
        if fingerprint[other] == total and sizes[other] == size:
            same = True
            for i in range(starts[other], starts[other] + size):
                if mark[out[i]] != net:
                    same = False
                    break
            if same:
                return slot, other
        slot = (slot + 1) & mask
    return slot, -1


@kernel
def _squeeze(net_pointer, pins, net_costs, target, n_coarse):
    """Map pins, drop duplicates, nets of one pin and cost 0, and merge identical nets."""
    n_nets = net_costs.size
    n_slots = 4
    while n_slots < 2 * n_nets:
        n_slots *= 2
    table = np.full(n_slots, -1, np.int64)
    mark = np.full(n_coarse, -1, np.int64)
    out = np.empty(pins.size, np.int32)
    starts = np.empty(n_nets, np.int64)
    sizes = np.empty(n_nets, np.int64)
    costs = np.empty(n_nets, np.int64)
    fingerprint = np.empty(n_nets, np.uint64)
    kept, fill = 0, 0
    for net in range(n_nets):
        start, total = fill, np.uint64(0)
        if net_costs[net] > 0:
            for i in range(net_pointer[net], net_pointer[net + 1]):
                vertex = target[pins[i]]
                if vertex >= 0 and mark[vertex] != net:
                    mark[vertex] = net
                    out[fill] = vertex
                    fill += 1
                    total += _mix(vertex)
        size = fill - start
        if size < 2:
            fill = start
            continue
        slot = np.int64(total & np.uint64(n_slots - 1))
        slot, twin = _find_twin(
            table, slot, n_slots - 1, fingerprint, sizes, starts, out, mark, net, total, size
        )
        if twin >= 0:
            costs[twin] += net_costs[net]
            fill = start
        else:
            table[slot] = kept
            fingerprint[kept] = total
            starts[kept], sizes[kept], costs[kept] = start, size, net_costs[net]
            kept += 1
    return starts[:kept], sizes[:kept], costs[:kept], out


@kernel
def _sort_by_size(starts, sizes, costs, scattered, n_coarse):
    """Lay nets out by rising size (a stable counting sort)."""
    n_nets = sizes.size
    first = np.zeros(n_coarse + 2, np.int64)
    for net in range(n_nets):
        first[sizes[net] + 1] += 1
    for size in range(n_coarse + 1):
        first[size + 1] += first[size]
    order = np.empty(n_nets, np.int64)
    for net in range(n_nets):
        order[first[sizes[net]]] = net
        first[sizes[net]] += 1
    net_pointer = np.zeros(n_nets + 1, np.int64)
    for rank in range(n_nets):
        net_pointer[rank + 1] = net_pointer[rank] + sizes[order[rank]]
    pins = np.empty(net_pointer[n_nets], np.int32)
    net_costs = np.empty(n_nets, np.int64)
    for rank in range(n_nets):
        net = order[rank]
        net_costs[rank] = costs[net]
        begin = net_pointer[rank]
        for i in range(sizes[net]):
            pins[begin + i] = scattered[starts[net] + i]
    return net_pointer, pins, net_costs


@kernel
def _transpose(net_pointer, pins, n_vertices):
    """Return the nets of every vertex, in net order (so by rising size)."""
    vertex_pointer = np.zeros(n_vertices + 1, np.int64)
    for i in range(pins.size):
        vertex_pointer[pins[i] + 1] += 1
    for vertex in range(n_vertices):
        vertex_pointer[vertex + 1] += vertex_pointer[vertex]
    cursor = vertex_pointer[:n_vertices].copy()
    nets = np.empty(pins.size, np.int32)
    for net in range(net_pointer.size - 1):
        for i in range(net_pointer[net], net_pointer[net + 1]):
            vertex = pins[i]
            nets[cursor[vertex]] = net
            cursor[vertex] += 1
    return vertex_pointer, nets


@kernel
def _contract(weights, net_pointer, pins, net_costs, target, n_coarse):
    starts, sizes, costs, scattered = _squeeze(net_pointer, pins, net_costs, target, n_coarse)
    coarse_pointer, coarse_pins, coarse_costs = _sort_by_size(
        starts, sizes, costs, scattered, n_coarse
    )
    vertex_pointer, nets = _transpose(coarse_pointer, coarse_pins, n_coarse)
    coarse_weights = np.zeros(n_coarse, np.int64)
    for vertex in range(weights.size):
        if target[vertex] >= 0:
            coarse_weights[target[vertex]] += weights[vertex]
    return coarse_weights, coarse_pointer, coarse_pins, coarse_costs, vertex_pointer, nets


def contract(level: Level, target: np.ndarray, n_coarse: int) -> Level:
    """Merge vertices that share a target, drop those with none, and tidy the nets.

    Parameters
    ----------
    level : Level
    target : int32[n_vertices]
        Coarse vertex of each vertex, in 0..n_coarse-1, or DROPPED.
    n_coarse : int

    Returns
    -------
    Level
        With n_coarse vertices. Single thread, O(pins), memory about three times the pins.
    """
    return Level(
        *_contract(level.weights, level.net_pointer, level.pins, level.net_costs, target, n_coarse)
    )


def level_of(hypergraph: Hypergraph) -> Level:
    """Return the cleaned arrays of a hypergraph; its own arrays are left as they are.

    Vertices keep their numbers; nets do not (merged, dropped, sorted by size).
    """
    # copies: a read-only array is another type to numba, and would compile everything twice
    weights = np.array(hypergraph.vertex_weights, dtype=np.int64)
    raw = Level(
        weights,
        np.array(hypergraph.net_pointer, dtype=np.int64),
        np.array(hypergraph.pins, dtype=np.int32),
        np.array(hypergraph.net_costs, dtype=np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int32),
    )
    return contract(raw, np.arange(weights.size, dtype=np.int32), weights.size)
