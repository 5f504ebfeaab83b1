"""One level of the multilevel hierarchy, and how the next one is made from it.

    fine level          map: vertex -> coarse vertex (or DROPPED)          coarse level
    nets  {0,1,2} {3,4}      0,1 -> 0   2,3 -> 1   4 -> 2            nets  {0,1} {1,2}

`contract` serves three ends with one kernel: cleaning (identity map), coarsening (clusters), and
splitting off one part with its share of the nets (the others DROPPED). It always drops nets of
fewer than two pins, merges identical nets (their costs add up), and numbers the nets by rising
size, so that every vertex sees its small, telling nets first (Çatalyürek and Aykanat 1999;
identical nets as in Schlag et al. 2016).

Weights and costs take 4 bytes each, or 8 where either sum needs them (see `compressed`): all levels
of a hypergraph alike, since no level weighs or costs more than the finest. A vertex may have
several weights, each with limits of its own (see `daskpart.partitioners.balance`): clusters, starts
and ties then go by the first, which is the sum of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel

DROPPED = -1


class Level(NamedTuple):
    """A hypergraph as raw arrays: what kernels take. Nets have two or more pins, by rising size.

    `vertex_pointer` and `nets` are the transpose of `net_pointer` and `pins`; they are empty where
    nobody works on the level (`without_transpose`), and found anew by `with_transpose`.
    """

    weights: np.ndarray  # amounts[n_vertices, n_weights]: int32 or int64
    net_pointer: np.ndarray  # int32[n_nets + 1]
    pins: np.ndarray  # int32[n_pins]
    net_costs: np.ndarray  # amounts[n_nets]
    vertex_pointer: np.ndarray  # int32[n_vertices + 1]
    nets: np.ndarray  # int32[n_pins]


_NONE = np.zeros(0, np.int32)
NO_LEVEL = Level(_NONE[:, None], np.zeros(1, np.int32), _NONE, _NONE, _NONE, _NONE)


@kernel(internal=True, _nrt=False)
def _is_twin(pointer, pins, target, mark, net, other):
    """Whether all mapped pins of the net `other` are marked as pins of `net`."""
    for i in range(pointer[other], pointer[other + 1]):
        vertex = target[pins[i]]
        if vertex >= 0 and mark[vertex] != net:
            return False
    return True


@kernel(internal=True, _nrt=False)
def _map_net(pointer, pins, target, mark, net):
    """Mark the mapped pins of a net; returns (how many differ, their fingerprint)."""
    size, total = 0, np.uint64(0)
    for i in range(pointer[net], pointer[net + 1]):
        vertex = target[pins[i]]
        if vertex >= 0 and mark[vertex] != net:
            mark[vertex] = net
            size += 1
            total += mixed_word(np.uint64(vertex) + GOLDEN)  # so that the sum identifies a net
    return size, total


@kernel(_nrt=False)
def _merge_identical(pointer, pins, net_costs, target, table, mark, fingerprint, costs, sizes):
    """Fill costs and sizes as `squeeze` returns them; the table is a power of two long."""
    last_slot = np.int64(table.size - 1)
    for net in range(net_costs.size):
        if net_costs[net] <= 0:
            continue
        size, total = _map_net(pointer, pins, target, mark, net)
        if size < 2:
            continue
        slot = np.int64(total & np.uint64(last_slot))
        upper = np.uint32(total >> np.uint64(32))
        while table[slot] >= 0:
            other = table[slot]
            if fingerprint[other] == upper and sizes[other] == size:
                if _is_twin(pointer, pins, target, mark, net, other):
                    break
            slot = (slot + 1) & last_slot
        if table[slot] >= 0:
            costs[table[slot]] += net_costs[net]
        else:
            table[slot] = net
            fingerprint[net], sizes[net], costs[net] = upper, size, net_costs[net]


def squeeze(
    pointer: np.ndarray, pins: np.ndarray, net_costs: np.ndarray, target: np.ndarray, n_coarse: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tell which nets to keep: all but those of one pin or cost 0, and one of identical ones.

    Returns each net's cost, 0 where it is not kept, and its size when mapped. The mapped pins are
    not kept: to map them once more costs less than their memory.
    """
    n_nets = net_costs.size
    n_slots = 4
    while 2 * n_slots < 3 * n_nets:
        n_slots *= 2
    table, mark = np.full(n_slots, -1, np.int32), np.full(n_coarse, -1, np.int32)
    fingerprint = np.empty(n_nets, np.uint32)
    costs, sizes = np.zeros_like(net_costs), np.empty(n_nets, np.int32)
    _merge_identical(pointer, pins, net_costs, target, table, mark, fingerprint, costs, sizes)
    return costs, sizes


def by_size(costs: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nets that cost anything by rising size, equal ones in order, as int32.

    And where each of them then begins, and what it costs.
    """
    kept = np.flatnonzero(costs > 0).astype(np.int32)
    keys = sizes[kept]
    if keys.max(initial=0) < 2**16:
        keys = keys.astype(np.uint16)  # NumPy sorts these by counting
    order = kept[np.argsort(keys, kind="stable")]
    pointer = np.zeros(order.size + 1, np.int32)
    np.cumsum(sizes[order], out=pointer[1:])
    return order, pointer, costs[order]


@kernel(_nrt=False)
def _map_pins(pointer, pins, target, order, mark, coarse_pins):
    """Fill in the mapped pins of the nets in this order."""
    fill = 0
    for rank in range(order.size):
        net = order[rank]
        for i in range(pointer[net], pointer[net + 1]):
            vertex = target[pins[i]]
            if vertex >= 0 and mark[vertex] != rank:
                mark[vertex] = rank
                coarse_pins[fill] = vertex
                fill += 1


def lay_out(
    pointer: np.ndarray,
    pins: np.ndarray,
    target: np.ndarray,
    n_coarse: int,
    order: np.ndarray,
    n_pins: int,
) -> np.ndarray:
    """Return the mapped pins of the nets in this order, int32[n_pins]."""
    coarse_pins = np.empty(n_pins, np.int32)
    _map_pins(pointer, pins, target, order, np.full(n_coarse, -1, np.int32), coarse_pins)
    return coarse_pins


def _contract_weights(weights: np.ndarray, target: np.ndarray, n_coarse: int) -> np.ndarray:
    """Add up the weights of the vertices that share a target."""
    coarse_weights = np.zeros((n_coarse, weights.shape[1]), weights.dtype)
    kept = target >= 0
    np.add.at(coarse_weights, target[kept], weights[kept])
    return coarse_weights


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
        With n_coarse vertices, and without the nets of the vertices: see `with_transpose`. O(pins).
        Before the new level is there some 30 bytes a net and 4 a vertex, beside it 4.
    """
    nets = level.net_pointer, level.pins
    costs, sizes = squeeze(*nets, level.net_costs, target, n_coarse)
    order, pointer, costs = by_size(costs, sizes)
    del sizes
    pins = lay_out(*nets, target, n_coarse, order, pointer[-1])
    weights = _contract_weights(level.weights, target, n_coarse)
    return level_without_transpose(weights, pointer, pins, costs)


def level_without_transpose(
    weights: np.ndarray, net_pointer: np.ndarray, pins: np.ndarray, net_costs: np.ndarray
) -> Level:
    """A level without the nets of its vertices: see `with_transpose`."""
    return Level(weights, net_pointer, pins, net_costs, _NONE, _NONE)


def without_transpose(level: Level) -> Level:
    """The level without the nets of its vertices: what is put aside while others are worked on."""
    return level_without_transpose(*level[:4])


def with_transpose(level: Level) -> Level:
    """The level with the nets of its vertices, found anew where they had been left out."""
    if level.vertex_pointer.size:
        return level
    pins = np.ones(level.pins.size, np.bool_), level.pins, level.net_pointer
    shape = level.net_costs.size, len(level.weights)
    by_vertex = csr_array(pins, shape=shape).tocsc()  # in net order, so by rising size
    return level._replace(vertex_pointer=by_vertex.indptr, nets=by_vertex.indices)


@kernel(_nrt=False)
def _count_parts(net_pointer, pins, part, seen, found):
    """Fill in how many parts each net touches; `seen` is -1 for every part before."""
    for net in range(found.size):
        for i in range(net_pointer[net], net_pointer[net + 1]):
            here = part[pins[i]]
            if seen[here] != net:
                seen[here] = net
                found[net] += 1


def connectivities(
    net_pointer: np.ndarray, pins: np.ndarray, part: np.ndarray, n_parts: int
) -> np.ndarray:
    """Return λ of every net, int32[n_nets]: how many of the parts it touches."""
    found = np.zeros(net_pointer.size - 1, np.int32)
    read = [_read_only(np.asarray(each, np.int32)) for each in (net_pointer, pins, part)]
    _count_parts(*read, np.full(n_parts, -1), found)
    return found


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view of one type to numba, whether the array may be written to or not."""
    view = array.view()
    view.flags.writeable = False
    return view


@kernel(_nrt=False)
def add_costs(net_pointer, pins, net_costs, total):
    """Add the cost of every net to the totals of its pins."""
    for net in range(net_costs.size):
        for i in range(net_pointer[net], net_pointer[net + 1]):
            total[pins[i]] += net_costs[net]


def reach(level: Level) -> np.ndarray:
    """Return float64[n_vertices], the summed cost of the nets of every vertex: whole numbers."""
    total = np.zeros(len(level.weights))
    add_costs(level.net_pointer, level.pins, level.net_costs, total)
    return total
