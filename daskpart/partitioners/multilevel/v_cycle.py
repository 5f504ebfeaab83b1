"""A K-way V-cycle for any table of cost_table: what a net pays by its connectivity, linearised.

    given K parts     λ(n) of every net     cost of n := cost × (table[λ + 1] - table[λ - 1])
                                            (twice the slope of the table at λ)
    V-cycle           coarsen inside the parts ──▶ K-way search by these costs on every level
    kept              only what lowers Σ cost × table[λ] itself; then again, with new slopes

Connectivity - 1 with such costs is the tangent of the objective at the partition in hand, so the
search for connectivity - 1, unchanged, moves whole clusters to where the objective falls. V-cycles:
Walshaw 2004; the reweighting is ours. With λ^2 on top of recursive bipartitioning it takes several
per cent off Σλ², and moves of single vertices (`polish`) find a little more afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daskpart._floor.sums import sums_by_key
from daskpart.errors import InputError
from daskpart.partitioners.balance import columns, is_free

from .compressed import level_of
from .exchange import exchanged
from .fm import rebalance
from .k_way import k_way_state
from .level import connectivities, with_transpose
from .refinement import Bounds, cycle

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph


def rebalanced(
    hypergraph: Hypergraph,
    assignment: np.ndarray,
    n_parts: int,
    most: int | np.ndarray,
    fixed: np.ndarray | None = None,
) -> np.ndarray:
    """Move vertices out of parts heavier than `most`, at the least connectivity - 1, if any.

    Recursion leaves such parts where a vertex weighs a good part of one. Where moves do not reach
    the bounds, vertices are exchanged whatever that costs (`exchange`). `most` is a number, or one
    for each weight.
    """
    weights = sums_by_key(assignment, columns(hypergraph), n_parts)
    if np.all(weights <= most):
        return assignment
    held = ~is_free(fixed, assignment.size)
    level = with_transpose(level_of(hypergraph))
    parts = k_way_state(level, np.array(assignment, np.int32), n_parts, held, 0)
    limits = np.full(weights.shape, most, np.int64)
    rebalance(level, parts, limits)
    found = parts.part.astype(np.int32)
    return exchanged(found, columns(hypergraph), n_parts, limits[0], ~held)


def v_cycle(
    hypergraph: Hypergraph,
    assignment: np.ndarray,
    cost_table: np.ndarray,
    bounds: tuple[int, int | np.ndarray],
    *,
    random_state: int = 0,
    fixed: np.ndarray | None = None,
    max_cycles: int = 1,
) -> np.ndarray:
    """Lower Σ cost × cost_table[λ] by V-cycles whose nets cost what the cost table rises by.

    Parameters
    ----------
    hypergraph : Hypergraph
    assignment : int32[n_vertices]
        Where to start; it is not changed.
    cost_table : int64[n_parts + 1]
        Never falling; what a net of each connectivity pays (see `objectives`).
    bounds : (int, int or int64[n_weights])
        No move takes a part below the first weight or above the second, which may be one for each
        of several weights.
    random_state : int
        Same number, same result.
    fixed : int32[n_vertices], optional
        Vertices with a part here (not -1) stay where they are.
    max_cycles : int
        The last is the first one that brings nothing.

    Returns
    -------
    int32[n_vertices]
        Never worse than the start, and no part heavier than the bound or, if it was heavier
        already, than before.

    Raises
    ------
    InputError
        The assignment is not one part a vertex.
    """
    n_parts, part = len(cost_table) - 1, np.array(assignment, np.int32)
    if part.shape != (hypergraph.n_vertices,) or np.any((part < 0) | (part >= n_parts)):
        raise InputError(
            f"the assignment must hold a part, 0 to {n_parts - 1}, for each of the "
            f"{hypergraph.n_vertices} vertices"
        )
    held = ~is_free(fixed, part.size)
    rng = np.random.default_rng(random_state)
    for _ in range(max_cycles if n_parts > 1 and part.size else 0):
        better = _one_cycle(hypergraph, part, cost_table, bounds, held, rng)
        if better is None:
            break
        part = better
    return part


def _one_cycle(
    hypergraph: Hypergraph,
    part: np.ndarray,
    cost_table: np.ndarray,
    bounds: tuple[int, int | np.ndarray],
    held: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """The partition after a V-cycle, or None where nothing was won."""
    nets, n_parts = (hypergraph.net_pointer, hypergraph.pins), len(cost_table) - 1
    touched = connectivities(*nets, part, n_parts)
    slopes = cost_table[np.minimum(touched + 1, n_parts)] - cost_table[np.maximum(touched - 1, 0)]
    level = level_of(replace(hypergraph, net_costs=hypergraph.net_costs * slopes))
    weights = sums_by_key(part, columns(hypergraph), n_parts)
    most = np.maximum(weights, bounds[1])
    better = cycle(level, part.copy(), Bounds(bounds[0], most), held, rng)
    before = int((hypergraph.net_costs * cost_table[touched]).sum())
    after = int((hypergraph.net_costs * cost_table[connectivities(*nets, better, n_parts)]).sum())
    return better if after < before else None
