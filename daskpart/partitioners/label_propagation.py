"""K-way polish: move single vertices wherever Σ cost × table[λ] falls, and the parts stay balanced.

    net n:  part 3 ×2, part 7 ×1            v in part 7, the only pin of n there
    v -> part 3:  λ 2 -> 1,  gain table[2] - table[1]
    v -> part 5:  λ stays,   gain 0

Label propagation over all vertices in a random order, a few rounds. λ alone says nothing until the
*last* pin leaves a part. So the first rounds see it smoothed: a part with c pins counts
1 - exp(-c / τ), so that a pin that leaves a part with few is a gain already, and τ falls from round
to round, until the last rounds go by λ itself. (Against λ alone, after recursion with ρ = 2: Σλ²
-5 % on ml-1m, -6 % on gowalla, K = 64.) What comes out is measured: it is never worse than the
start, and no part grows past the weight allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart._floor.sums import sums_by_key
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .balance import columns, is_free
from .pin_counts import move_gains, move_vertex, pin_counts
from .rounds import run_rounds


@kernel(internal=True)
def _fits(load, weights, most, part, vertex):
    for each in range(len(most)):
        if load[part, each] + weights[vertex, each] > most[each]:
            return False
    return True


@kernel
def _one_round(
    order, vertex_pointer, nets, weights, costs, cost_table, steps, assignment, load, least, most,
    slot_pointer, slot_parts, slot_counts, used, bonus, seen,
):  # fmt: skip
    """Offer every vertex its best part once; returns how many moved. `bonus` is -1 before it."""
    n_moved = 0
    for vertex in order:
        own = assignment[vertex]
        if load[own, 0] - weights[vertex, 0] < least:
            continue
        begin, end = vertex_pointer[vertex], vertex_pointer[vertex + 1]
        base, n_seen = move_gains(
            nets, begin, end, own, costs, cost_table, steps, slot_pointer, slot_parts, slot_counts,
            used, bonus, seen,
        )  # fmt: skip
        best, best_gain = own, 1e-6
        for place in range(n_seen):
            part = seen[place]
            gain = base + bonus[part]
            bonus[part] = -1.0
            if part == own or not _fits(load, weights, most, part, vertex):
                continue
            lighter = best != own and load[part, 0] < load[best, 0]
            if gain > best_gain or (gain == best_gain and lighter):
                best, best_gain = part, gain
        if best != own:
            move_vertex(nets, begin, end, own, best, slot_pointer, slot_parts, slot_counts, used)
            assignment[vertex] = best
            for each in range(len(most)):
                load[own, each] -= weights[vertex, each]
                load[best, each] += weights[vertex, each]
            n_moved += 1
    return n_moved


def polish(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    cost_table: NDArray[np.int64],
    bounds: tuple[int, int | NDArray[np.int64]],
    *,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
    max_rounds: int = 8,
) -> NDArray[np.int32]:
    """Lower Σ cost × cost_table[λ] by moves of single vertices.

    Parameters
    ----------
    hypergraph : Hypergraph
    assignment : int32[n_vertices]
        Where to start; it is not changed.
    cost_table : int64[n_parts + 1]
        Never falling; what a net of each connectivity pays (see `objectives`).
    bounds : (int, int or int64[n_weights])
        No part shrinks below the first weight or grows past the second, which may be one for each
        of several weights. Without the first, light parts are emptied: λ falls where there are
        fewer parts, but a rank would idle.
    fixed : int32[n_vertices], optional
        Vertices with a part here (not -1) stay where they are.
    max_rounds : int
        Of the last phase, which goes by λ itself; it ends earlier when a round gains less than
        0.2 %. A round takes Σ over pins of λ steps; there are at most 24 before the last phase.

    Returns
    -------
    int32[n_vertices]
        Never worse than the start.
    """
    for smoothed in (True, False):
        found = _descend(
            hypergraph, assignment, cost_table, bounds, random_state, fixed, max_rounds, smoothed
        )
        if found is not None:
            return found
    return assignment


def _descend(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    cost_table: NDArray[np.int64],
    bounds: tuple[int, int | NDArray[np.int64]],
    random_state: int,
    fixed: NDArray[np.int32] | None,
    max_rounds: int,
    smoothed: bool,
) -> NDArray[np.int32] | None:
    """All rounds from one start, with or without the smoothed ones; None where nothing is won."""
    partition = Partition(assignment, len(cost_table) - 1)
    slots, weights = pin_counts(hypergraph, partition), columns(hypergraph)
    polished = partition.assignment.copy()
    load = sums_by_key(polished, weights, partition.n_parts)
    least, most = bounds[0], np.atleast_1d(np.asarray(bounds[1], np.int64))
    free = np.flatnonzero(is_free(fixed, hypergraph.n_vertices))
    bonus, seen = np.full(len(load), -1.0), np.empty(len(load), np.int32)
    rng = np.random.default_rng(random_state)

    def total() -> int:
        return int((hypergraph.net_costs * cost_table[slots.used]).sum())

    def offer_all(steps: NDArray[np.float64]) -> int:
        return _one_round(
            rng.permutation(free),
            hypergraph.vertex_pointer,
            hypergraph.nets,
            weights,
            hypergraph.net_costs,
            cost_table,
            steps,
            polished,
            load,
            least,
            most,
            *slots,
            bonus,
            seen,
        )

    start = total()
    run_rounds(offer_all, total, len(free), max_rounds, smoothed=smoothed)
    return polished if total() < start else None
