"""Recursive bipartitioning, breadth first, to any number of parts.

                      K = 5, target 3 : 2
             2 : 1                         1 : 1          a left side takes ⌈K/2⌉ parts
        1 : 1       {2}                {3}       {4}
     {0}     {1}

Abubaker et al., Algorithm 3: a net that a bipartition cuts is split between the sides (or removed,
as the objective says), and λ of its *ancestor*, the net of the whole hypergraph, rises at once;
every later bipartition of any of its subnets prices it at table[λ + 1] - table[λ]. (The algorithm
as printed runs k to 2^ℓ in its last loop; it is 2^ℓ - 1.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import working_clock
from daskpart.hypergraph import Hypergraph

from .balance import heaviest_allowed
from .pieces import Piece, halve, root, two_sides

if TYPE_CHECKING:
    from .engine import Engine
    from .objectives import Objective


@dataclass(frozen=True)
class RecursiveResult:
    """What recursive bipartitioning found.

    Parameters
    ----------
    assignment : int32[n_vertices]
    cost_paid : int
        Sum of the prices of all nets cut: Σ cost × table[λ] of the assignment, exactly.
    engine_seconds : float
        Time spent in calls of the engine.
    """

    assignment: NDArray[np.int32]
    cost_paid: int
    engine_seconds: float


def recursive_bipartition(
    hypergraph: Hypergraph,
    n_parts: int,
    objective: Objective,
    engine: Engine,
    epsilon: float = 0.03,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
) -> RecursiveResult:
    """Cut a hypergraph into n_parts by n_parts - 1 bipartitions.

    Parameters
    ----------
    hypergraph : Hypergraph
    n_parts : int
        Any number from 1 to n_vertices.
    objective : Objective
        Prices the nets.
    engine : Engine
        Anything with `bipartition` (see `daskpart.partitioners.engine`).
    epsilon : float
        Asked imbalance of the final parts.
    random_state : int
        Each bipartition gets a seed of its own, drawn from this and its place in the tree.
    fixed : int32[n_vertices], optional
        The part that a vertex must go to, -1 where it is free.

    Raises
    ------
    EngineError
        The engine's answer is not one side (0 or 1) a vertex, or moves a fixed vertex.
    """
    cost_table = objective.cost_table(n_parts)
    steps = np.append(np.diff(cost_table), 0)  # steps[λ]: what the next cut costs
    connectivity = np.ones(hypergraph.n_nets, np.int32)
    allowed = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
    assignment = np.zeros(hypergraph.n_vertices, np.int32)
    pieces = deque([root(hypergraph, n_parts)])
    cost_paid, engine_seconds = 0, 0.0
    while pieces:
        piece = pieces.popleft()
        if piece.n_parts == 1 or len(piece.vertices) < 2:
            assignment[piece.vertices] = piece.first_part
            continue
        prices = hypergraph.net_costs[piece.ancestors] * steps[connectivity[piece.ancestors]]
        priced = replace(piece.hypergraph, net_costs=prices)
        wanted = None if fixed is None else _fixed_sides(piece, fixed)
        seeds = [random_state, piece.first_part, piece.n_parts]
        started = working_clock()
        sides = two_sides(priced, piece.n_parts, engine, allowed, seeds, wanted)
        engine_seconds += working_clock() - started
        first_right = piece.first_part + piece.n_left
        keeps = objective.keeps_cut_nets
        children, paid = halve(
            piece, sides, prices, first_right, connectivity, keeps_cut_nets=keeps
        )
        pieces.extend(children)
        cost_paid += paid
    if fixed is not None:  # only a piece of a single vertex may still differ
        assignment[fixed >= 0] = fixed[fixed >= 0]
    return RecursiveResult(assignment, cost_paid, engine_seconds)


def _fixed_sides(piece: Piece, fixed: NDArray[np.int32]) -> NDArray[np.int8]:
    parts = fixed[piece.vertices]
    sides = (parts >= piece.first_part + piece.n_left).astype(np.int8)
    return np.where(parts < 0, np.int8(-1), sides)
