"""Empty a part down to one vertex where the others have room: nets then touch fewer parts.

    ε = 0.03, 64 parts: room for 1.92 mean weights          part 17     v1 v2 v3 v4
                                                            others   ◄──┴──┴──┘
                                                            part 17              v4

The balance W_k ≤ (1 + ε) W / K bounds parts from above only, so a nearly idle rank is allowed.
Every popular net loses that part: λ_max can fall where no partition with even parts would let it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .balance import is_free
from .pin_counts import move_gains, move_vertex, pin_counts

_CANDIDATES = 8


@kernel
def _dissolve(
    members, part, most, vertex_pointer, nets, weights, costs, cost_table, assignment, load,
    slot_pointer, slot_parts, slot_counts, used, bonus, seen, no_steps,
):  # fmt: skip
    """Move `members` out of `part`, each where it adds least; False where one finds no room."""
    for vertex in members:
        begin, end = vertex_pointer[vertex], vertex_pointer[vertex + 1]
        _, n_seen = move_gains(
            nets, begin, end, part, costs, cost_table, no_steps, slot_pointer, slot_parts,
            slot_counts, used, bonus, seen,
        )  # fmt: skip
        best, best_gain = -1, -1.0
        for other in range(len(load)):
            gain = max(bonus[other], 0.0)
            fits = other != part and load[other] + weights[vertex] <= most
            if fits and (gain > best_gain or (gain == best_gain and load[other] < load[best])):
                best, best_gain = other, gain
        for place in range(n_seen):
            bonus[seen[place]] = -1.0
        if best < 0:
            return False
        move_vertex(nets, begin, end, part, best, slot_pointer, slot_parts, slot_counts, used)
        assignment[vertex] = best
        load[best] += weights[vertex]
    return True


@kernel
def _cheapest_newcomer(
    vertex_pointer, nets, costs, cost_table, assignment, sizes, free,
    slot_pointer, slot_parts, slot_counts, used,
):  # fmt: skip
    """The vertex that raises λ_max least, then the cost least, by moving into an empty part."""
    best, best_level, best_cost = -1, 0, 0
    for vertex in range(len(assignment)):
        own = assignment[vertex]
        if not free[vertex] or sizes[own] < 2:
            continue
        highest, cost = 0, 0
        for net in nets[vertex_pointer[vertex] : vertex_pointer[vertex + 1]]:
            level = used[net]
            alone = False
            for slot in range(slot_pointer[net], slot_pointer[net] + level):
                alone = alone or (slot_parts[slot] == own and slot_counts[slot] == 1)
            if not alone:
                level += 1
                cost += costs[net] * (cost_table[level] - cost_table[level - 1])
            highest = max(highest, level)
        better = highest < best_level or (highest == best_level and cost < best_cost)
        if best < 0 or better:
            best, best_level, best_cost = vertex, highest, cost
    return best


def relieve(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    cost_table: NDArray[np.int64],
    most: int,
    fixed: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    """Empty parts down to one vertex each, as long as Σ cost × cost_table[λ] falls.

    Parameters
    ----------
    hypergraph : Hypergraph
    assignment : int32[n_vertices]
        Where to start; it is not changed.
    cost_table : int64[n_parts + 1]
    most : int
        No part grows past this weight.
    fixed : int32[n_vertices], optional
        Parts that hold a fixed vertex (not -1) are left alone.

    Returns
    -------
    int32[n_vertices]
        Never worse than the start in the cost and in λ_max; every part keeps a vertex.
    """
    current = np.asarray(assignment, np.int32)
    cost, highest = _measure(hypergraph, current, cost_table)
    free = is_free(fixed, len(current))
    n_parts = len(cost_table) - 1
    while True:
        sizes = np.bincount(current, minlength=n_parts)
        held = np.bincount(current[~free], minlength=n_parts) > 0
        load = np.bincount(current, hypergraph.vertex_weights, n_parts)
        candidates = np.flatnonzero((sizes > 1) & ~held)
        candidates = candidates[np.argsort(load[candidates], kind="stable")][:_CANDIDATES]
        trials = (_without(hypergraph, current, int(p), cost_table, most, free) for p in candidates)
        measured = [(*_measure(hypergraph, trial, cost_table), trial) for trial in trials]
        better = [found for found in measured if found[0] < cost and found[1] <= highest]
        if not better:
            return current
        cost, highest, current = min(better, key=lambda found: found[:2])


def _measure(
    hypergraph: Hypergraph, assignment: NDArray[np.int32], cost_table: NDArray[np.int64]
) -> tuple[int, int]:
    """Σ cost × cost_table[λ], and λ_max."""
    partition = Partition(assignment, len(cost_table) - 1)
    level = Connectivity.from_partition(hypergraph, partition).connectivity
    return int((hypergraph.net_costs * cost_table[level]).sum()), int(level.max(initial=0))


def _without(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    part: int,
    cost_table: NDArray[np.int64],
    most: int,
    free: NDArray[np.bool_],
) -> NDArray[np.int32]:
    """The assignment with one part emptied down to one vertex; as it was where that can't be."""
    partition = Partition(assignment, len(cost_table) - 1, hypergraph.vertex_weights)
    slots = pin_counts(hypergraph, partition)
    changed, load = partition.assignment.copy(), partition.part_weights.copy()
    weights, costs = hypergraph.vertex_weights, hypergraph.net_costs
    incidence = (hypergraph.vertex_pointer, hypergraph.nets)
    members = np.flatnonzero(changed == part)
    members = members[np.argsort(-weights[members], kind="stable")]
    scratch = np.full(len(load), -1.0), np.empty(len(load), np.int32), np.empty(0)
    state = changed, load, *slots, *scratch
    if not _dissolve(members, part, most, *incidence, weights, costs, cost_table, *state):
        return assignment
    sizes = np.bincount(changed, minlength=partition.n_parts)
    stays = _cheapest_newcomer(*incidence, costs, cost_table, changed, sizes, free, *slots)
    if stays < 0:
        return assignment
    changed[stays] = part
    return changed
