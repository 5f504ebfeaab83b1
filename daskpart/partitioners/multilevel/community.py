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

from daskpart._floor.kernels import kernel

from .level import Level, turned

ROUNDS = 5  # of moves on one graph, at most
FEW = 0.05  # share of the nodes: rounds end when fewer move
ZERO = np.int64(0)  # not a plain 0: numba would compile once more
LEAST_SHRINK = 0.95  # no further graph where it would keep more than this share of the nodes


class _Graph(NamedTuple):
    """Weighted edges, each listed at both ends.

    The star expansion has its lists where the level has them: those of vertices left, of nets
    right, and a net's cost is the weight of its edges. Later graphs have left lists only.
    """

    left_pointer: np.ndarray  # int32[n_left + 1]
    left: np.ndarray  # int32: neighbours, numbered as if nets came after vertices
    right_pointer: np.ndarray  # int32[n_right + 1]
    right: np.ndarray  # int32
    costs: np.ndarray  # int64[n_nets]
    weights: np.ndarray  # int32 or float64 [n_listed]; empty in the star expansion
    inner: np.ndarray  # as weights, [n_nodes]: weight inside a node, twice; empty there, too


@kernel
def _weight(weights, costs, i, net):
    """Return the weight of the i-th listed edge; in the star expansion it is one of a net."""
    if weights.size > 0:
        return weights[i]
    return weights.dtype.type(costs[net])


@kernel
def _add_volumes(graph, lists, start, shift, total):
    """Write the weight of the edge ends of the nodes from `start` on."""
    pointer, listed = lists
    weights, costs, first_net = graph.weights, graph.costs, graph.left_pointer.size - 1
    for row in range(pointer.size - 1):
        node = start + row
        volume = graph.inner[node] if graph.inner.size > 0 else 0.0
        for i in range(pointer[row], pointer[row + 1]):
            volume += _weight(weights, costs, i, max(node, listed[i] + shift) - first_net)
        total[node] = volume


@kernel
def _join_best(graph, lists, row, start, shift, chance, community, total, bond, touched):
    """Move one node to the community that raises the modularity most; True if that is another."""
    pointer, listed = lists
    weights, costs, first_net = graph.weights, graph.costs, graph.left_pointer.size - 1
    node = start + row
    n_touched = 0
    own = graph.inner[node] if graph.inner.size > 0 else 0.0
    for i in range(pointer[row], pointer[row + 1]):
        neighbour = listed[i] + shift
        other = community[neighbour]
        if bond[other] == 0:
            touched[n_touched] = other
            n_touched += 1
        weight = _weight(weights, costs, i, max(node, neighbour) - first_net)
        bond[other] += weight
        own += weight
    own /= chance
    here = community[node]
    total[here] -= own
    best, best_gain = here, bond[here] - own * total[here]
    for i in range(n_touched):
        gain = bond[touched[i]] - own * total[touched[i]]
        if gain > best_gain:
            best, best_gain = touched[i], gain
        bond[touched[i]] = 0
    bond[here] = 0
    total[best] += own
    community[node] = best
    return best != here


@kernel
def _longest(pointer):
    longest = 0
    for row in range(pointer.size - 1):
        longest = max(longest, pointer[row + 1] - pointer[row])
    return longest


@kernel
def _rounds(graph, max_rounds, few):
    """Return the community of each node (named after one of its nodes), and how many moved."""
    n_left = np.int64(graph.left_pointer.size - 1)
    n_right = graph.right_pointer.size - 1
    n = n_left + n_right
    left, right = (graph.left_pointer, graph.left), (graph.right_pointer, graph.right)
    shift = n_left if graph.weights.size == 0 else ZERO
    community = np.arange(n, dtype=np.int32)
    total = np.empty(n, np.float64)
    _add_volumes(graph, left, ZERO, shift, total)
    _add_volumes(graph, right, n_left, ZERO, total)
    chance = np.sqrt(max(total.sum(), 1.0))
    total /= chance  # then a product of two is what chance would give
    bond = np.zeros(n, graph.weights.dtype)
    touched = np.empty(max(_longest(graph.left_pointer), _longest(graph.right_pointer)), np.int32)
    n_moved = 0
    for _ in range(max_rounds):
        moves = 0
        for row in range(n_left):
            if _join_best(graph, left, row, ZERO, shift, chance, community, total, bond, touched):
                moves += 1
        for row in range(n_right):
            if _join_best(graph, right, row, n_left, ZERO, chance, community, total, bond, touched):
                moves += 1
        n_moved += moves
        if moves < few * n:
            break
    return community, n_moved


@kernel
def _number(community):
    """Number the communities 0, 1, ... by rising name, in place; returns how many there are."""
    number = np.zeros(community.max() + 1 if community.size > 0 else 0, np.int32)
    for node in range(community.size):
        number[community[node]] = 1
    n_names = 0
    for name in range(number.size):
        if number[name] > 0:
            number[name] = n_names
            n_names += 1
    for node in range(community.size):
        community[node] = number[community[node]]
    return n_names


@kernel
def _members(name, n_names):
    """Return the nodes sorted by name, and where each name begins."""
    begin = np.zeros(n_names + 1, np.int32)
    for node in range(name.size):
        begin[name[node] + 1] += 1
    for community in range(n_names):
        begin[community + 1] += begin[community]
    free = begin[:n_names].copy()
    members = np.empty(name.size, np.int32)
    for node in range(name.size):
        members[free[name[node]]] = node
        free[name[node]] += 1
    return members, begin


@kernel(_nrt=False)
def _merge_row(lists, values, row, node, shift, name, start, fill, merged):
    """Add the edges of a node to those of its community; returns (fill, weight inside)."""
    pointer, listed = lists
    weights, costs, first_net = values
    neighbours, added, place = merged
    community, inside = name[node], 0.0
    for i in range(pointer[row], pointer[row + 1]):
        neighbour = listed[i] + shift
        other = name[neighbour]
        weight = _weight(weights, costs, i, max(node, neighbour) - first_net)
        if other == community:
            inside += weight
        elif place[other] >= start:
            added[place[other]] += weight
        else:
            place[other] = fill
            neighbours[fill] = other
            added[fill] = weight
            fill += 1
    return fill, inside


@kernel
def _merge_left(graph, name, n_names):
    """Return the edges between the communities, `name` numbers that of each node, listed left."""
    n_left = np.int64(graph.left_pointer.size - 1)
    shift = n_left if graph.weights.size == 0 else ZERO
    lists, values = (graph.left_pointer, graph.left), (graph.weights, graph.costs, n_left)
    members, begin = _members(name[:n_left], n_names)
    # more than is needed, but what is not written to takes no memory
    neighbours = np.empty(graph.left.size, np.int32)
    weights = np.empty(neighbours.size, graph.weights.dtype)
    inner = np.zeros(n_names, weights.dtype)
    merged = neighbours, weights, np.full(n_names, -1, np.int32)
    fill = np.int64(0)
    for community in range(n_names):
        start = fill
        for j in range(begin[community], begin[community + 1]):
            node = np.int64(members[j])
            fill, inside = _merge_row(lists, values, node, node, shift, name, start, fill, merged)
            inner[community] += inside + (graph.inner[node] if graph.inner.size > 0 else 0.0)
        begin[community] = start  # of its edges; where its members begin is not needed any more
    begin[n_names] = fill
    return begin, neighbours[:fill], weights[:fill], inner


@kernel
def _merge_right(lists, values, name, n_names, begin, neighbours, weights, inner):
    """Add the edges of nets to those of vertices, which fill the second half of both arrays.

    They are written from the front. Each edge of a vertex has one of a net at its other end, so
    what is written never gets as far as what is still to be read.
    """
    first_net, half = values[2], np.int64(neighbours.size // 2)
    members, begin_nets = _members(name[first_net:], n_names)
    merged = neighbours, weights, np.full(n_names, -1, np.int32)
    place, fill = merged[2], np.int64(0)
    for community in range(n_names):
        start = fill
        for i in range(half + begin[community], half + begin[community + 1]):
            neighbours[fill], weights[fill] = neighbours[i], weights[i]
            place[neighbours[fill]] = fill
            fill += 1
        for j in range(begin_nets[community], begin_nets[community + 1]):
            net = np.int64(members[j])
            node = first_net + net
            fill, inside = _merge_row(lists, values, net, node, ZERO, name, start, fill, merged)
            inner[community] += inside
        begin[community] = start
    begin[n_names] = fill
    return neighbours[:fill], weights[:fill]


@kernel
def _volume(net_pointer, net_costs):
    volume = 0.0
    for net in range(net_costs.size):
        volume += np.float64(net_costs[net]) * (net_pointer[net + 1] - net_pointer[net])
    return volume


def _star_expansion(level: Level) -> _Graph:
    """The graph of vertices, then nets; weights are whole numbers that int32 holds, if it does."""
    level = turned(level)
    volume = 2 * _volume(level.net_pointer, level.net_costs)
    weights = np.empty(0, np.int32 if volume < 2**31 else np.float64)
    lists = level.vertex_pointer, level.nets, level.net_pointer, level.pins
    return _Graph(*lists, level.net_costs, weights, weights)


def _behind_room(array: np.ndarray) -> np.ndarray:
    """The array as the second half of one; the first is not written to, so takes no memory."""
    roomy = np.empty(2 * array.size, array.dtype)
    roomy[array.size :] = array
    return roomy


def _add_nets(graph: _Graph, community: np.ndarray, n_names: int, merged: list) -> None:
    """Add the edges listed right to the merged ones, in place: nobody holds what is copied."""
    first_net = np.int64(community.size - graph.costs.size)
    lists, values = (graph.right_pointer, graph.right), (graph.weights, graph.costs, first_net)
    merged[1] = _behind_room(merged[1])
    merged[2] = _behind_room(merged[2])
    merged[1:3] = _merge_right(lists, values, community, n_names, *merged)


def communities(level: Level) -> np.ndarray:
    """Return int32[n_vertices], the community of each vertex: 0, 1, …

    The nets of vertices, and a level that nobody else holds, are let go as soon as they are merged.
    """
    n, n_before = level.weights.size, level.weights.size + level.net_costs.size
    graph, none, label = _star_expansion(level), np.zeros(0, np.int32), None
    del level
    while True:
        community, n_moved = _rounds(graph, ROUNDS, FEW)
        if n_moved == 0:
            break
        n_names = _number(community)
        shrinks = n_names <= LEAST_SHRINK * n_before
        if shrinks:
            merged = list(_merge_left(graph, community, n_names))
            graph = graph._replace(left_pointer=none, left=none)
            if graph.right.size > 0:
                _add_nets(graph, community, n_names, merged)
            pointer, neighbours, weights, inner = merged
            no_costs = none.astype(graph.costs.dtype)  # a part of the array would keep it all
            graph = _Graph(pointer, neighbours, pointer[:1], none, no_costs, weights, inner)
            del merged, pointer, neighbours, weights, inner
        label = community[:n].copy() if label is None else community[label]
        if not shrinks:
            break
        n_before = n_names
    if label is None:
        return np.arange(n, dtype=np.int32)
    _number(label)
    return label
