"""Communities: vertices that belong together over long ways; coarsening merges inside them only.

    vertices  o o o o o       the star expansion: vertices and nets are the nodes of a bipartite
               \\|/ \\|       graph, an edge a pin, as heavy as its net costs
    nets        x   x
    rounds    every node joins the community that raises the modularity most, until few still move;
              communities become the nodes of a smaller graph; again, until none is left to merge

Pairs that share small nets say little about the whole: on netlists a coarsening that does not know
the communities costs 20 % of the cut (Heuer and Schlag 2017). Louvain's method (Blondel et al.
2008), nodes in their given order, so the result needs no seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._jit import kernel

from .level import Level

ROUNDS = 5  # of moves on one graph, at most
FEW = 0.05  # share of the nodes: rounds end when fewer move
LEAST_SHRINK = 0.95  # no further graph where it would keep more than this share of the nodes


class _Graph(NamedTuple):
    """Weighted edges, each listed at both ends."""

    pointer: np.ndarray  # int64[n_nodes + 1]
    neighbours: np.ndarray  # int32[n_listed]
    weights: (
        np.ndarray
    )  # float64[n_listed]; empty in the star expansion, where nets have the weight
    costs: np.ndarray  # int64[n_nets]
    inner: np.ndarray  # float64[n_nodes]: weight inside a node, twice


@kernel
def _star_expansion(level):
    """Return the graph of vertices, then nets."""
    n, n_nets, n_pins = level.weights.size, level.net_costs.size, level.pins.size
    pointer = np.empty(n + n_nets + 1, np.int64)
    pointer[:n] = level.vertex_pointer[:n]
    pointer[n:] = n_pins + level.net_pointer
    neighbours = np.empty(2 * n_pins, np.int32)
    for i in range(n_pins):
        neighbours[i] = n + level.nets[i]
        neighbours[n_pins + i] = level.pins[i]
    return pointer, neighbours, np.zeros(n + n_nets, np.float64)


@kernel
def _weight(graph, node, i):
    """Return the weight of the i-th listed edge, which is one of `node`."""
    if graph.weights.size > 0:
        return graph.weights[i]
    net = max(node, np.int64(graph.neighbours[i])) + graph.costs.size - graph.inner.size
    return np.float64(graph.costs[net])


@kernel
def _volumes(graph):
    """Return the weight of the edge ends of every node."""
    volume = graph.inner.copy()
    for node in range(volume.size):
        for i in range(graph.pointer[node], graph.pointer[node + 1]):
            volume[node] += _weight(graph, node, i)
    return volume


@kernel
def _join_best(graph, node, community, volume, total, bond, touched):
    """Move one node to the community that raises the modularity most; True if that is another."""
    n_touched = 0
    for i in range(graph.pointer[node], graph.pointer[node + 1]):
        other = community[graph.neighbours[i]]
        if bond[other] == 0.0:
            touched[n_touched] = other
            n_touched += 1
        bond[other] += _weight(graph, node, i)
    here = community[node]
    own = volume[node]
    total[here] -= own
    best, best_gain = here, bond[here] - own * total[here]
    for i in range(n_touched):
        gain = bond[touched[i]] - own * total[touched[i]]
        if gain > best_gain:
            best, best_gain = touched[i], gain
        bond[touched[i]] = 0.0
    bond[here] = 0.0
    total[best] += own
    community[node] = best
    return best != here


@kernel
def _rounds(graph, max_rounds, few):
    """Return the community of each node (named after one of its nodes), and how many moved."""
    n = graph.inner.size
    community = np.arange(n).astype(np.int32)
    volume = _volumes(graph)
    volume /= np.sqrt(max(volume.sum(), 1.0))  # then a product of two is what chance would give
    total = volume.copy()
    bond = np.zeros(n, np.float64)
    touched = np.empty(n, np.int32)
    n_moved = 0
    for _ in range(max_rounds):
        moves = 0
        for node in range(n):
            if _join_best(graph, node, community, volume, total, bond, touched):
                moves += 1
        n_moved += moves
        if moves < few * n:
            break
    return community, n_moved


@kernel
def _members(name, n_names):
    """Return the nodes sorted by name, and where each name begins."""
    begin = np.zeros(n_names + 1, np.int64)
    for node in range(name.size):
        begin[name[node] + 1] += 1
    begin = np.cumsum(begin)
    free = begin[:n_names].copy()
    members = np.empty(name.size, np.int32)
    for node in range(name.size):
        members[free[name[node]]] = node
        free[name[node]] += 1
    return members, begin


@kernel
def _merge(graph, name, n_names):
    """Return the graph whose nodes are the communities; `name` numbers that of each node."""
    members, begin = _members(name, n_names)
    pointer = np.zeros(n_names + 1, np.int64)
    neighbours = np.empty(graph.neighbours.size, np.int32)
    weights = np.empty(graph.neighbours.size, np.float64)
    inner = np.zeros(n_names, np.float64)
    place = np.full(n_names, -1, np.int64)
    fill = 0
    for community in range(n_names):
        start = fill
        for j in range(begin[community], begin[community + 1]):
            node = np.int64(members[j])
            inner[community] += graph.inner[node]
            for i in range(graph.pointer[node], graph.pointer[node + 1]):
                other = name[graph.neighbours[i]]
                weight = _weight(graph, node, i)
                if other == community:
                    inner[community] += weight
                elif place[other] >= start:
                    weights[place[other]] += weight
                else:
                    place[other] = fill
                    neighbours[fill] = other
                    weights[fill] = weight
                    fill += 1
        pointer[community + 1] = fill
    return pointer, neighbours[:fill].copy(), weights[:fill].copy(), inner


def communities(level: Level) -> np.ndarray:
    """Return int32[n_vertices], the community of each vertex: 0, 1, …"""
    pointer, neighbours, inner = _star_expansion(level)
    graph = _Graph(pointer, neighbours, np.empty(0), level.net_costs, inner)
    label = np.arange(graph.inner.size)
    while True:
        community, n_moved = _rounds(graph, ROUNDS, FEW)
        if n_moved == 0:
            break
        n_before = graph.inner.size
        names, name = np.unique(community, return_inverse=True)
        label = name[label]
        pointer, neighbours, weights, inner = _merge(graph, name.astype(np.int32), names.size)
        graph = graph._replace(pointer=pointer, neighbours=neighbours, weights=weights, inner=inner)
        if names.size > LEAST_SHRINK * n_before:
            break
    return np.unique(label[: level.weights.size], return_inverse=True)[1].astype(np.int32)
