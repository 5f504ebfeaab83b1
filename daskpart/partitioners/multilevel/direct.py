"""Direct K-way partitioning: recursive bipartitioning, then local search over all K parts at once.

    recursion      1 -> 2 -> 4 -> ... -> K parts; nets are split, their costs unchanged, so that
                   what the bipartitions pay adds up to connectivity - 1
    K-way search   on the whole hypergraph: a bipartition never takes back what one above it did
    V-cycle        ●●●●●●●●●●●●                  search     coarsen inside the parts (so that the
                      ●●●●●●●●                search        partition survives), then search on
                         ●●●●●  --------->  search          every level: whole clusters move

The imbalance that a bipartition may use is what is left of (1 + ε) on the path from the root
(Schlag et al. 2016, eq. 1), so that all K parts can keep to it.
"""

from __future__ import annotations

import numpy as np

from .bipartition import bipartition_level, side_limits
from .coarsen import coarsen
from .k_way import Parts, parts_of
from .level import DROPPED, Level, contract
from .search import propagate, rebalance, search

COARSEST_PER_PART = 100  # vertices a part at which a V-cycle stops coarsening
CLUSTER_SHARE = 3  # a cluster weighs at most this many times the mean of the coarsest level
TABLE_ENTRIES = 1 << 25  # entries of the bond table (8 bytes each) up to which it is kept
PATIENCE = (50, 500)  # moves without a new best after which a search ends: n / 20, but in here
WIDEST = 300  # larger nets do not bring their pins into a search
SEARCH_ROUNDS = 3
PROPAGATION_ROUNDS = 4
CYCLES = 1


def part_limits(total_weight: int, n_parts: int, epsilon: float) -> np.ndarray:
    """Return int64[n_parts], the weight that each part may have: (1 + ε) of the mean."""
    mean = total_weight / n_parts
    limit = max(int((1.0 + epsilon) * mean), -(-total_weight // n_parts))
    return np.full(n_parts, limit, np.int64)


def _recurse(
    level: Level,
    vertices: np.ndarray,
    parts: tuple[int, int],
    limit: int,
    rng: np.random.Generator,
    out: np.ndarray,
) -> None:
    """Cut `level` (whose vertices are `vertices` of the whole) into parts[0] .. parts[1] - 1."""
    n_parts = parts[1] - parts[0]
    if n_parts == 1 or vertices.size == 0:
        out[vertices] = parts[0]
        return
    n_left = (n_parts + 1) // 2
    total = int(level.weights.sum())
    depth = int(np.ceil(np.log2(n_parts)))
    slack = max((limit * n_parts / max(total, 1)) ** (1.0 / depth) - 1.0, 0.0)
    left = total * n_left // n_parts
    targets = np.array([left, total - left], np.int64)
    free = np.full(vertices.size, -1, np.int8)
    side = bipartition_level(level, targets, side_limits(targets, slack), free, rng)
    middle = parts[0] + n_left
    for which, span in ((0, (parts[0], middle)), (1, (middle, parts[1]))):
        members = np.flatnonzero(side == which)
        target = np.full(vertices.size, DROPPED, np.int32)
        target[members] = np.arange(members.size, dtype=np.int32)
        if span[1] - span[0] == 1:
            out[vertices[members]] = span[0]
        else:
            below = contract(level, target, members.size)
            _recurse(below, vertices[members], span, limit, rng, out)


def _improve(
    level: Level, part: np.ndarray, limits: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rebalance and search on one level; returns the new part of each vertex."""
    n, n_parts = part.size, limits.size
    with_bonds = n * n_parts <= TABLE_ENTRIES
    parts: Parts = parts_of(level, part, n_parts, with_bonds)
    order = rng.permutation(n).astype(np.int32)
    if np.any(parts.weight > limits):
        rebalance(level, parts, limits)
    propagate(level, parts, order, limits, PROPAGATION_ROUNDS)
    if with_bonds:
        patience = int(np.clip(n // 20, *PATIENCE))
        search(level, parts, limits, patience, WIDEST, SEARCH_ROUNDS)
    return parts.part


def _cycle(
    level: Level, part: np.ndarray, limits: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One V-cycle: coarsen inside the parts, search on the way down."""
    fewest = COARSEST_PER_PART * limits.size
    cap = max(CLUSTER_SHARE * int(level.weights.sum()) // fewest, 1)
    steps, coarsest, part = coarsen(level, part, cap, fewest, rng)
    part = _improve(coarsest, part, limits, rng)
    for step in reversed(steps):
        part = _improve(step.level, part[step.target], limits, rng)
    return part


def partition_level(
    level: Level, n_parts: int, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Cut a level into K parts of small connectivity - 1.

    Parameters
    ----------
    level : Level
    n_parts : int
        K, any number of at least 1.
    epsilon : float
        A part may weigh (1 + ε) times the mean.
    rng : numpy.random.Generator

    Returns
    -------
    int32[n_vertices]
    """
    n = level.weights.size
    limits = part_limits(int(level.weights.sum()), n_parts, epsilon)
    if n_parts == 1:
        return np.zeros(n, np.int32)
    part = np.zeros(n, np.int32)
    _recurse(level, np.arange(n), (0, n_parts), int(limits[0]), rng, part)
    part = _improve(level, part, limits, rng)
    for _ in range(CYCLES):
        part = _cycle(level, part, limits, rng)
    return part
