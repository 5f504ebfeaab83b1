"""Our own multilevel hypergraph partitioning engine, in numba.

    heap ── two_way ── bipartition ────────────┐
    level ── compressed ── coarsen, community ─┼── direct ── MultilevelEngine
     k_way ── gain_table ── fm ── refinement ──┴── v_cycle ── exchange

Deterministic (one seed, one result), single-threaded, the GIL is released in every kernel.
Karypis et al. 1999 and Çatalyürek and Aykanat 1999 are the method; Schlag et al. 2016 and
Gottesbüren et al. 2021 the K-way local search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daskpart._floor.checks import one_of
from daskpart._floor.sums import sums_by_key
from daskpart.partitioners.balance import columns
from daskpart.partitioners.checks import check_epsilon_of_each, checked_epsilons, checked_n_parts
from daskpart.partitioners.engine import (
    check_bipartition,
    warn_if_unbalanced,
)

from .bipartition import bipartition_level, side_limits
from .compressed import Finest, level_of
from .direct import DEFAULT_EFFORT, HIGH_EFFORT, partition_level
from .v_cycle import rebalanced, v_cycle

if TYPE_CHECKING:
    from daskpart.hypergraph import Hypergraph

__all__ = ["MultilevelEngine", "rebalanced", "v_cycle"]

SPARSE = 6  # pins a vertex below which a V-cycle always pays: netlists, meshes
EFFORTS = {"default": DEFAULT_EFFORT, "high": HIGH_EFFORT}


class MultilevelEngine:
    """The default engine; see `daskpart.partitioners.engine.Engine` for what its methods take.

    Parameters
    ----------
    effort : {"default", "high"}
        "high" makes 4 to 24 partitions (the fewer, the more pins), each from the best of four cuts
        of the coarsest level and with a V-cycle, and combines the best eight: some thirty to a
        hundred times the time.

    Raises
    ------
    InputError
        Another effort.
    """

    name = "multilevel"

    def __init__(self, effort: str = "default") -> None:
        self.effort = one_of(effort, "effort", EFFORTS)

    def bipartition(
        self,
        hypergraph: Hypergraph,
        targets: np.ndarray,
        epsilon: float,
        fixed: np.ndarray | None = None,
        random_state: int = 0,
    ) -> np.ndarray:
        """Cut in two; returns int8[n_vertices]."""
        targets, fixed = check_bipartition(hypergraph, targets, epsilon, fixed)
        if hypergraph.n_vertices == 0:
            return np.zeros(0, np.int8)
        level, targets = level_of(hypergraph), targets[:, None]
        limits = side_limits(targets, epsilon)
        rng = np.random.default_rng(random_state)
        cycles = EFFORTS[self.effort].two_way_cycles
        if level.pins.size < SPARSE * hypergraph.n_vertices:
            cycles = max(cycles, 1)
        side = bipartition_level(level, targets, limits, fixed, rng, cycles)
        weights = np.array([level.weights[side == which].sum() for which in (0, 1)])
        warn_if_unbalanced(weights, targets[:, 0], epsilon)
        return side

    def partition(
        self,
        hypergraph: Hypergraph,
        n_parts: int,
        epsilon: float | list[float] = 0.03,
        random_state: int = 0,
    ) -> np.ndarray:
        """Cut into K parts of small connectivity - 1; returns int32[n_vertices].

        Of several weights each may have an ε of its own.
        """
        epsilon = checked_epsilons(epsilon)
        check_epsilon_of_each(epsilon, max(1, columns(hypergraph).shape[1] - 1))  # less their sum
        n_parts = checked_n_parts(n_parts, hypergraph.n_vertices)
        finest, rng = Finest(hypergraph), np.random.default_rng(random_state)
        part = partition_level(finest, n_parts, epsilon, rng, EFFORTS[self.effort])
        weights = sums_by_key(part, hypergraph.vertex_weights, n_parts)
        if weights.ndim == 1:  # of several `partition` tells
            warn_if_unbalanced(weights, np.full(n_parts, weights.mean()), float(np.max(epsilon)))
        return part

    def __repr__(self) -> str:
        return f"MultilevelEngine(effort={self.effort!r})"
