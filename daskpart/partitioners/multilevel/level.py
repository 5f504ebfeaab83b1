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
from daskpart.errors import InputError

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph

DROPPED = -1
MOST_PINS = 2**30 - 1  # twice as many are edge ends of the star expansion: int32
_NO_POINTER, _NO_NETS = np.zeros(0, np.int32), np.zeros(0, np.int32)


class Level(NamedTuple):
    """A hypergraph as raw arrays: what kernels take. Nets have two or more pins, by rising size.

    The last two are the first ones turned; they are empty where nobody works on the level
    (`lean`), and found anew by `turned`.
    """

    weights: np.ndarray  # int64[n_vertices]
    net_pointer: np.ndarray  # int32[n_nets + 1]
    pins: np.ndarray  # int32[n_pins]
    net_costs: np.ndarray  # int64[n_nets]
    vertex_pointer: np.ndarray  # int32[n_vertices + 1]
    nets: np.ndarray  # int32[n_pins]


NO_LEVEL = Level(
    np.zeros(0, np.int64),
    np.zeros(1, np.int32),
    _NO_NETS,
    np.zeros(0, np.int64),
    _NO_POINTER,
    _NO_NETS,
)


@kernel
def _mix(value):
    """Scramble a pin number so that a sum of them identifies a net (splitmix64's finaliser)."""
    x = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _is_twin(pointer, pins, target, mark, net, other):
    """Whether all mapped pins of the net `other` are marked as pins of `net`."""
    for i in range(pointer[other], pointer[other + 1]):
        vertex = target[pins[i]]
        if vertex >= 0 and mark[vertex] != net:
            return False
    return True


@kernel
def _map_net(pointer, pins, target, mark, net):
    """Mark the mapped pins of a net; returns (how many differ, their fingerprint)."""
    size, total = 0, np.uint64(0)
    for i in range(pointer[net], pointer[net + 1]):
        vertex = target[pins[i]]
        if vertex >= 0 and mark[vertex] != net:
            mark[vertex] = net
            size += 1
            total += _mix(vertex)
    return size, total


@kernel
def _squeeze(pointer, pins, net_costs, target, n_coarse):
    """Tell which nets to keep: all but those of one pin or cost 0, and one of identical ones.

    Returns the number of each net that is kept (`first`), its size when mapped, and its cost. The
    mapped pins are not kept: to map them once more costs less than their memory.
    """
    n_nets = net_costs.size
    n_slots = 4
    while 2 * n_slots < 3 * n_nets:
        n_slots *= 2
    table = np.full(n_slots, -1, np.int32)
    mark = np.full(n_coarse, -1, np.int32)
    first = np.empty(n_nets, np.int32)
    sizes = np.empty(n_nets, np.int32)
    costs = np.empty(n_nets, np.int64)
    fingerprint = np.empty(n_nets, np.uint32)
    kept = 0
    for net in range(n_nets):
        if net_costs[net] <= 0:
            continue
        size, total = _map_net(pointer, pins, target, mark, net)
        if size < 2:
            continue
        slot = np.int64(total & np.uint64(n_slots - 1))
        upper = np.uint32(total >> np.uint64(32))
        while table[slot] >= 0:
            other = table[slot]
            if fingerprint[other] == upper and sizes[other] == size:
                if _is_twin(pointer, pins, target, mark, net, first[other]):
                    break
            slot = (slot + 1) & (n_slots - 1)
        if table[slot] >= 0:
            costs[table[slot]] += net_costs[net]
        else:
            table[slot] = kept
            fingerprint[kept] = upper
            first[kept], sizes[kept], costs[kept] = net, size, net_costs[net]
            kept += 1
    return first[:kept], sizes[:kept], costs[:kept]


@kernel
def _order_by_size(sizes):
    """Return the nets by rising size (a stable counting sort)."""
    n_nets = sizes.size
    begin = np.zeros(sizes.max() + 2 if n_nets > 0 else 1, np.int32)
    for net in range(n_nets):
        begin[sizes[net] + 1] += 1
    for size in range(begin.size - 1):
        begin[size + 1] += begin[size]
    order = np.empty(n_nets, np.int32)
    for net in range(n_nets):
        order[begin[sizes[net]]] = net
        begin[sizes[net]] += 1
    return order


@kernel
def _lay_out(pointer, pins, target, n_coarse, first, sizes, costs):
    """Return pointer, mapped pins and costs of the nets kept, by rising size."""
    order = _order_by_size(sizes)
    n_nets = sizes.size
    coarse_pointer = np.zeros(n_nets + 1, np.int32)
    coarse_costs = np.empty(n_nets, np.int64)
    for rank in range(n_nets):
        coarse_pointer[rank + 1] = coarse_pointer[rank] + sizes[order[rank]]
        coarse_costs[rank] = costs[order[rank]]
    coarse_pins = np.empty(coarse_pointer[n_nets], np.int32)
    mark = np.full(n_coarse, -1, np.int32)
    fill = 0
    for rank in range(n_nets):
        net = first[order[rank]]
        for i in range(pointer[net], pointer[net + 1]):
            vertex = target[pins[i]]
            if vertex >= 0 and mark[vertex] != rank:
                mark[vertex] = rank
                coarse_pins[fill] = vertex
                fill += 1
    return coarse_pointer, coarse_pins, coarse_costs


@kernel
def _transpose(net_pointer, pins, n_vertices):
    """Return the nets of every vertex, in net order (so by rising size)."""
    vertex_pointer = np.zeros(n_vertices + 1, np.int32)
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
def _contract(weights, pointer, pins, net_costs, target, n_coarse):
    first, sizes, costs = _squeeze(pointer, pins, net_costs, target, n_coarse)
    coarse_pointer, coarse_pins, coarse_costs = _lay_out(
        pointer, pins, target, n_coarse, first, sizes, costs
    )
    coarse_weights = np.zeros(n_coarse, np.int64)
    for vertex in range(weights.size):
        if target[vertex] >= 0:
            coarse_weights[target[vertex]] += weights[vertex]
    return coarse_weights, coarse_pointer, coarse_pins, coarse_costs


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
        With n_coarse vertices, and without the nets of the vertices: see `turned`. Single thread,
        O(pins); beside the new level 20 to 28 bytes a net and 8 a vertex.
    """
    weights, pointer, pins, costs = _contract(
        level.weights, level.net_pointer, level.pins, level.net_costs, target, n_coarse
    )
    return Level(weights, pointer, pins, costs, _NO_POINTER, _NO_NETS)


def lean(level: Level) -> Level:
    """The level without the nets of its vertices: what is put aside while others are worked on."""
    return level._replace(vertex_pointer=_NO_POINTER, nets=_NO_NETS)


def turned(level: Level) -> Level:
    """The level with the nets of its vertices, found anew where they had been left out."""
    if level.vertex_pointer.size:
        return level
    vertex_pointer, nets = _transpose(level.net_pointer, level.pins, level.weights.size)
    return level._replace(vertex_pointer=vertex_pointer, nets=nets)


def _plain(array: np.ndarray, dtype: type) -> np.ndarray:
    """The array itself where kernels take it as it is, else a copy.

    A read-only array is another type to numba, and would compile everything twice.
    """
    return np.require(array, dtype, ("C", "W", "A"))


def level_of(hypergraph: Hypergraph) -> Level:
    """Return the cleaned arrays of a hypergraph; its own arrays are left as they are.

    Vertices keep their numbers; nets do not (merged, dropped, sorted by size).

    Raises
    ------
    InputError
        2^30 pins or more.
    """
    if hypergraph.n_pins > MOST_PINS:
        raise InputError(f"{hypergraph.n_pins} pins: the engine takes {MOST_PINS} at most")
    raw = Level(
        _plain(hypergraph.vertex_weights, np.int64),
        hypergraph.net_pointer.astype(np.int32),
        _plain(hypergraph.pins, np.int32),
        _plain(hypergraph.net_costs, np.int64),
        _NO_POINTER,
        _NO_NETS,
    )
    return contract(raw, np.arange(raw.weights.size, dtype=np.int32), raw.weights.size)
