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

from .level import Level, add_costs, with_transpose

ROUNDS = 5  # of moves on one graph, at most
FEW = 0.05  # share of the nodes: rounds end when fewer move
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
    costs: np.ndarray  # as weights, [n_nets]
    weights: np.ndarray  # int32 or float64 [n_listed]; empty in the star expansion
    inner: np.ndarray  # as weights, [n_nodes]: weight inside a node, twice; empty there, too


@kernel(internal=True, _nrt=False)
def _weight(weights, costs, i, net):
    """Return the weight of the i-th listed edge; in the star expansion it is one of a net."""
    return weights[i] if weights.size > 0 else costs[net]


@kernel(internal=True, _nrt=False)
def _join_best(
    row, pointer, listed, node, shift, n_left, weights, costs, inner, chance, community, total,
    bond, touched,
):  # fmt: skip
    """Move one node to the community that raises the modularity most; True if that is another."""
    n_touched = 0
    own = np.float64(inner[node]) if inner.size > 0 else 0.0
    for i in range(pointer[row], pointer[row + 1]):
        neighbour = listed[i] + shift
        other = community[neighbour]
        if bond[other] == 0:
            touched[n_touched] = other
            n_touched += 1
        weight = _weight(weights, costs, i, max(node, neighbour) - n_left)
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


@kernel(_nrt=False)
def _sweep(
    pointer, listed, start, shift, n_left, weights, costs, inner, chance, community, total, bond,
    touched,
):  # fmt: skip
    """Offer every node from `start` on its best community, once; returns how many moved."""
    n_moved = 0
    for row in range(pointer.size - 1):
        if _join_best(
            row, pointer, listed, start + row, shift, n_left, weights, costs, inner, chance,
            community, total, bond, touched,
        ):  # fmt: skip
            n_moved += 1
    return n_moved


def _volumes(graph: _Graph) -> np.ndarray:
    """Return float64[n_nodes], the weight of the edge ends of every node (whole numbers)."""
    n_left = graph.left_pointer.size - 1
    if graph.right.size:
        volumes = np.zeros(n_left + graph.costs.size)
        add_costs(graph.right_pointer, graph.right, graph.costs, volumes[:n_left])
        sizes = np.diff(graph.right_pointer)
        np.multiply(sizes, graph.costs, out=volumes[n_left:], dtype=np.float64)  # beyond 32 bits
        return volumes
    volumes = np.zeros(n_left)
    listed = np.diff(graph.left_pointer) > 0
    if graph.left.size:
        starts = graph.left_pointer[:-1][listed]
        # in their own type, which holds the sum of all: another would copy them
        volumes[listed] = np.add.reduceat(graph.weights, starts, dtype=graph.weights.dtype)
    return volumes + graph.inner if graph.inner.size else volumes


def _rounds(graph: _Graph, max_rounds: int, few: float) -> tuple[np.ndarray, int]:
    """Return the community of each node (named after one of its nodes), and how many moved."""
    n_left, n_right = graph.left_pointer.size - 1, graph.right_pointer.size - 1
    shift = n_left if graph.weights.size == 0 else 0
    total = _volumes(graph)
    chance = float(np.sqrt(max(total.sum(), 1.0)))
    total /= chance  # then a product of two is what chance would give
    community = np.arange(n_left + n_right, dtype=np.int32)
    bond = np.zeros(total.size, graph.weights.dtype)
    longest = (int(np.diff(p).max(initial=0)) for p in (graph.left_pointer, graph.right_pointer))
    touched = np.empty(max(longest), np.int32)
    shared = (
        n_left,
        graph.weights,
        graph.costs,
        graph.inner,
        chance,
        community,
        total,
        bond,
        touched,
    )
    n_moved = 0
    for _ in range(max_rounds):
        moves = _sweep(graph.left_pointer, graph.left, 0, shift, *shared)
        if n_right:
            moves += _sweep(graph.right_pointer, graph.right, n_left, 0, *shared)
        n_moved += moves
        if moves < few * total.size:
            break
    return community, n_moved


@kernel(_nrt=False)
def _rename(community, number):
    """Number the communities in place, `number` being 0 for each name; returns how many."""
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


def _number(community: np.ndarray) -> int:
    """Number the communities 0, 1, ... by rising name, in place; returns how many there are."""
    return _rename(community, np.zeros(int(community.max(initial=-1)) + 1, np.int32))


@kernel(_nrt=False)
def _list_members(name, free, members):
    """Write every node where its name has room."""
    for node in range(name.size):
        members[free[name[node]]] = node
        free[name[node]] += 1


def _members(name: np.ndarray, n_names: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes sorted by name, and where each name begins."""
    begin, members = np.zeros(n_names + 1, np.int32), np.empty(name.size, np.int32)
    np.cumsum(np.bincount(name, minlength=n_names), out=begin[1:])
    _list_members(name, begin[:-1].copy(), members)
    return members, begin


@kernel(internal=True, _nrt=False)
def _merge_row(
    pointer, listed, row, node, shift, n_left, edge_weights, costs, name, start, fill, neighbours,
    added, place,
):  # fmt: skip
    """Add the edges of a node to those of its community; returns (fill, weight inside)."""
    community, inside = name[node], 0.0
    for i in range(pointer[row], pointer[row + 1]):
        neighbour = listed[i] + shift
        other = name[neighbour]
        weight = _weight(edge_weights, costs, i, max(node, neighbour) - n_left)
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


@kernel(_nrt=False)
def _merge_lists(
    pointer, listed, first, shift, n_left, edge_weights, costs, own_inner, name, members, begin,
    half, known, neighbours, added, place, inner,
):  # fmt: skip
    """Fill in the edges of every community, which begin where `known` then tells.

    The members are nodes from `first` on. Edges that a community has already stand in the second
    half of both arrays, at ``half + known``; they are copied to the front as its others are added.
    """
    fill = np.int64(0)
    for community in range(begin.size - 1):
        start = fill
        if half > 0:
            for i in range(half + known[community], half + known[community + 1]):
                neighbours[fill], added[fill] = neighbours[i], added[i]
                place[neighbours[fill]] = fill
                fill += 1
        for j in range(begin[community], begin[community + 1]):
            row = np.int64(members[j])
            fill, inside = _merge_row(
                pointer, listed, row, first + row, shift, n_left, edge_weights, costs, name, start,
                fill, neighbours, added, place,
            )  # fmt: skip
            inner[community] += inside
            if own_inner.size > 0:
                inner[community] += own_inner[first + row]
        known[community] = start
    known[begin.size - 1] = fill
    return fill


def _merge_left(
    graph: _Graph, name: np.ndarray, n_names: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges between the communities, `name` numbers that of each node, listed left."""
    n_left = graph.left_pointer.size - 1
    shift = n_left if graph.weights.size == 0 else 0
    members, begin = _members(name[:n_left], n_names)
    # more than is needed, but what is not written to takes no memory
    neighbours = np.empty(graph.left.size, np.int32)
    added = np.empty(neighbours.size, graph.weights.dtype)
    inner, known = np.zeros(n_names, added.dtype), np.zeros(n_names + 1, np.int32)
    fill = _merge_lists(
        *(graph.left_pointer, graph.left, 0, shift, n_left, graph.weights, graph.costs),
        *(graph.inner, name, members, begin, 0, known, neighbours, added),
        *(np.full(n_names, -1, np.int32), inner),
    )
    return known, neighbours[:fill], added[:fill], inner


def _merge_right(
    graph: _Graph,
    first_net: int,
    name: np.ndarray,
    known: np.ndarray,
    neighbours: np.ndarray,
    added: np.ndarray,
    inner: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Add the edges of nets to those of vertices, which fill the second half of both arrays.

    They are written from the front. Each edge of a vertex has one of a net at its other end, so
    what is written never gets as far as what is still to be read.
    """
    members, begin = _members(name[first_net:], known.size - 1)
    none = np.zeros(0, graph.weights.dtype)
    fill = _merge_lists(
        *(graph.right_pointer, graph.right, first_net, 0, first_net, graph.weights, graph.costs),
        *(none, name, members, begin, neighbours.size // 2, known, neighbours, added),
        *(np.full(known.size - 1, -1, np.int32), inner),
    )
    return neighbours[:fill], added[:fill]


def _star_expansion(level: Level) -> _Graph:
    """The graph of vertices, then nets; weights are whole numbers that int32 holds, if it does."""
    level = with_transpose(level)
    volume = 2 * float(np.diff(level.net_pointer) @ level.net_costs.astype(np.float64))
    weights = np.empty(0, np.int32 if volume < 2**31 else np.float64)
    costs = level.net_costs.astype(weights.dtype, copy=False)  # each pair of types compiles anew
    lists = level.vertex_pointer, level.nets, level.net_pointer, level.pins
    return _Graph(*lists, costs, weights, weights)


def _behind_room(array: np.ndarray) -> np.ndarray:
    """The array as the second half of one; the first is not written to, so takes no memory."""
    roomy = np.empty(2 * array.size, array.dtype)
    roomy[array.size :] = array
    return roomy


def _add_nets(graph: _Graph, community: np.ndarray, merged: list) -> None:
    """Add the edges listed right to the merged ones, in place: nobody holds what is copied."""
    merged[1] = _behind_room(merged[1])
    merged[2] = _behind_room(merged[2])
    merged[1:3] = _merge_right(graph, community.size - graph.costs.size, community, *merged)


def communities(level: Level) -> np.ndarray:
    """Return int32[n_vertices], the community of each vertex: 0, 1, …

    The nets of vertices, and a level that nobody else holds, are let go as soon as they are merged.
    """
    n, n_before = len(level.weights), len(level.weights) + level.net_costs.size
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
                _add_nets(graph, community, merged)
            pointer, neighbours, weights, inner = merged
            no_costs = weights[:0].copy()  # a part of the array would keep it all
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
