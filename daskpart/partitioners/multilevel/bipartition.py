"""The two-way multilevel method: coarsen, start many times on the coarsest level, refine upwards.

level 0   ●●●●●●●●●●●● ------------------------> refine
   level 1   ●●●●●●● --------------------> refine
      coarsest   ●●●  --> several starts --> refine
"""

from __future__ import annotations

import numpy as np

from .coarsen import coarsen
from .level import Level
from .two_way import Sides, cut_cost, grow, refine, sides_of

COARSEST = 160  # vertices at which coarsening stops
CLUSTERS = 80  # no cluster weighs more than this share of the total
STARTS = 8  # starts on the coarsest level, fewer where it has many pins
START_PINS = 400_000  # pins that all starts together may walk over
PASSES = 6  # refinement passes on a level, at most


def side_limits(targets: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the weight that each side may have: (1 + ε) · target, rounded down.

    Never less than the target itself: weights are whole numbers, and both limits together must
    hold the total.
    """
    return np.maximum(np.floor((1.0 + epsilon) * targets), targets).astype(np.int64)


def _patience(n_vertices: int) -> int:
    return max(500, n_vertices // 20)


def _fresh(level: Level, fixed: np.ndarray) -> Sides:
    return sides_of(level, np.where(fixed >= 0, fixed, 1).astype(np.int8))


def _random_fill(level: Level, fixed: np.ndarray, order: np.ndarray, target: int) -> Sides:
    """Put vertices on side 0 in random order until it weighs the target."""
    free = order[fixed[order] < 0]
    pinned = int(level.weights[fixed == 0].sum())
    reached = pinned + np.cumsum(level.weights[free]) - level.weights[free] // 2
    side = np.where(fixed >= 0, fixed, 1).astype(np.int8)
    side[free[reached <= target]] = 0
    return sides_of(level, side)


def _start(
    level: Level,
    fixed: np.ndarray,
    targets: np.ndarray,
    limits: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the best of several greedy and random starts, each one refined."""
    n_starts = int(np.clip(START_PINS // max(level.pins.size, 1), 4, STARTS))
    best: tuple[int, int] | None = None
    best_side = np.zeros(0, np.int8)
    for start in range(n_starts):
        order = rng.permutation(level.weights.size).astype(np.int32)
        if start % 4 == 3:
            sides = _random_fill(level, fixed, order, int(targets[0]))
        else:
            sides = _fresh(level, fixed)
            grow(level, sides, fixed, order, int(targets[0]))
        _, excess = refine(level, sides, fixed, limits, _patience(level.weights.size), PASSES)
        score = (int(excess), int(cut_cost(level, sides)))
        if best is None or score < best:
            best, best_side = score, sides.side
    return best_side


def bipartition_level(
    level: Level,
    targets: np.ndarray,
    limits: np.ndarray,
    fixed: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Cut a level in two.

    Parameters
    ----------
    level : Level
    targets, limits : int64[2]
        Wanted and largest weight of each side.
    fixed : int8[n_vertices]
        -1 free, 0 or 1: the side where the vertex must be.
    rng : numpy.random.Generator

    Returns
    -------
    int8[n_vertices]
        Side of each vertex. Heavier than its limit only where no refinement found a way.
    """
    cap = max(int(level.weights.sum()) // CLUSTERS, 1)
    community = (fixed + 1).astype(np.int32)
    steps, coarsest, community = coarsen(level, community, cap, COARSEST, rng)
    side = _start(coarsest, (community - 1).astype(np.int8), targets, limits, rng)
    for step in reversed(steps):
        fixed = (step.community - 1).astype(np.int8)
        sides = sides_of(step.level, side[step.target])
        refine(step.level, sides, fixed, limits, _patience(step.level.weights.size), PASSES)
        side = sides.side
    return side
