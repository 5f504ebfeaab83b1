"""K-way polish: move single vertices wherever Σ cost × toll[λ] falls, and the parts stay balanced.

    net n:  part 3 ×2, part 7 ×1            v in part 7, the only pin of n there
    v -> part 3:  λ 2 -> 1,  gain toll[2] - toll[1]
    v -> part 5:  λ stays,   gain 0

Label propagation over all vertices in a random order, a few rounds. Each move lowers the sum, so
the result is never worse than the start; no part grows past the weight allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._jit import kernel
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

_WORTH_ANOTHER_ROUND = 0.002


@kernel
def _find(slot_parts: NDArray, start: int, used: int, part: int) -> int:
    for slot in range(start, start + used):
        if slot_parts[slot] == part:
            return slot
    return -1


@kernel
def _gains(
    vertex_nets: NDArray,
    own: int,
    costs: NDArray,
    tolls: NDArray,
    slot_pointer: NDArray,
    slot_parts: NDArray,
    slot_counts: NDArray,
    used: NDArray,
    bonus: NDArray,
    seen: NDArray,
) -> tuple[int, int]:
    """What any move of a vertex costs at least, and for each part seen what it gives back.

    A net in which the vertex is not alone in its part grows by a part, except in the parts that
    it touches; one in which it is alone loses its part, if it touches the new one.
    """
    base = 0
    n_seen = 0
    for net in vertex_nets:
        start, connectivity = slot_pointer[net], used[net]
        alone = slot_counts[_find(slot_parts, start, connectivity, own)] == 1
        if alone:
            if connectivity == 1:
                continue
            worth = costs[net] * (tolls[connectivity] - tolls[connectivity - 1])
        else:
            # a net with a second pin elsewhere can touch one part more: the table reaches so far
            following = min(connectivity + 1, len(tolls) - 1)
            worth = costs[net] * (tolls[following] - tolls[connectivity])
            base -= worth
        for slot in range(start, start + connectivity):
            part = slot_parts[slot]
            if bonus[part] < 0:
                bonus[part] = 0
                seen[n_seen] = part
                n_seen += 1
            bonus[part] += worth
    return base, n_seen


@kernel
def _move(
    vertex_nets: NDArray,
    own: int,
    part: int,
    slot_pointer: NDArray,
    slot_parts: NDArray,
    slot_counts: NDArray,
    used: NDArray,
) -> None:
    """Take one pin of each net from its own part to another."""
    for net in vertex_nets:
        start = slot_pointer[net]
        slot = _find(slot_parts, start, used[net], own)
        slot_counts[slot] -= 1
        if slot_counts[slot] == 0:
            last = start + used[net] - 1
            slot_parts[slot] = slot_parts[last]
            slot_counts[slot] = slot_counts[last]
            used[net] -= 1
        slot = _find(slot_parts, start, used[net], part)
        if slot < 0:
            slot = start + used[net]
            slot_parts[slot] = part
            slot_counts[slot] = 0
            used[net] += 1
        slot_counts[slot] += 1


@kernel
def _one_round(
    order: NDArray,
    vertex_pointer: NDArray,
    nets: NDArray,
    weights: NDArray,
    costs: NDArray,
    tolls: NDArray,
    assignment: NDArray,
    load: NDArray,
    least: int,
    most: int,
    slot_pointer: NDArray,
    slot_parts: NDArray,
    slot_counts: NDArray,
    used: NDArray,
) -> int:
    """Offer every vertex its best part once; returns by how much the sum fell."""
    n_parts = len(load)
    bonus = np.full(n_parts, -1, np.int64)
    seen = np.empty(n_parts, np.int32)
    fallen = 0
    for vertex in order:
        own = assignment[vertex]
        if load[own] - weights[vertex] < least:
            continue
        vertex_nets = nets[vertex_pointer[vertex] : vertex_pointer[vertex + 1]]
        base, n_seen = _gains(
            vertex_nets, own, costs, tolls, slot_pointer, slot_parts, slot_counts, used, bonus, seen
        )
        best, best_gain = own, 0
        for place in range(n_seen):
            part = seen[place]
            gain = base + bonus[part]
            bonus[part] = -1
            if part == own or load[part] + weights[vertex] > most or gain <= 0:
                continue
            if gain > best_gain or (gain == best_gain and load[part] < load[best]):
                best, best_gain = part, gain
        if best != own:
            _move(vertex_nets, own, best, slot_pointer, slot_parts, slot_counts, used)
            assignment[vertex] = best
            load[own] -= weights[vertex]
            load[best] += weights[vertex]
            fallen += best_gain
    return fallen


@kernel
def _fill_slots(
    pointer: NDArray, parts: NDArray, counts: NDArray, slot_pointer: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """Spread the (item, part) pairs into slots with room for every part a net could touch."""
    n_nets = len(pointer) - 1
    slot_parts = np.empty(slot_pointer[n_nets], np.int32)
    slot_counts = np.empty(slot_pointer[n_nets], np.int32)
    used = np.empty(n_nets, np.int32)
    for net in range(n_nets):
        used[net] = pointer[net + 1] - pointer[net]
        for place in range(used[net]):
            slot_parts[slot_pointer[net] + place] = parts[pointer[net] + place]
            slot_counts[slot_pointer[net] + place] = counts[pointer[net] + place]
    return slot_parts, slot_counts, used


def polish(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    tolls: NDArray[np.int64],
    bounds: tuple[int, int],
    *,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
    max_rounds: int = 8,
) -> NDArray[np.int32]:
    """Lower Σ cost × tolls[λ] by moves of single vertices.

    Parameters
    ----------
    hypergraph : Hypergraph
    assignment : int32[n_vertices]
        Where to start; it is not changed.
    tolls : int64[n_parts + 1]
        Never falling; what a net of each connectivity pays (see `objectives`).
    bounds : (int, int)
        No part shrinks below the first weight or grows past the second. Without the first, light
        parts are emptied: λ falls where there are fewer parts, but a rank would idle.
    fixed : int32[n_vertices], optional
        Vertices with a part here (not -1) stay where they are.
    max_rounds : int
        Each costs Σ over pins of λ steps; rounds end earlier when they gain less than 0.2 %.

    Returns
    -------
    int32[n_vertices]
        Never worse than the start.
    """
    n_parts = len(tolls) - 1
    partition = Partition(assignment, n_parts, hypergraph.vertex_weights)
    pairs = Connectivity.from_partition(hypergraph, partition)
    capacity = np.minimum(np.diff(hypergraph.net_pointer), n_parts)
    slot_pointer = np.concatenate([[0], np.cumsum(capacity)])
    slots = _fill_slots(pairs.pointer, pairs.parts, pairs.counts, slot_pointer)
    total = int((hypergraph.net_costs * tolls[pairs.connectivity]).sum())
    polished, load = partition.assignment.copy(), partition.part_weights.copy()
    free = np.arange(hypergraph.n_vertices) if fixed is None else np.flatnonzero(fixed < 0)
    rng = np.random.default_rng(random_state)
    for _ in range(max_rounds):
        fallen = _one_round(
            rng.permutation(free),
            hypergraph.vertex_pointer,
            hypergraph.nets,
            hypergraph.vertex_weights,
            hypergraph.net_costs,
            tolls,
            polished,
            load,
            *bounds,
            slot_pointer,
            *slots,
        )
        total -= fallen
        if fallen <= _WORTH_ANOTHER_ROUND * total:
            break
    return polished
