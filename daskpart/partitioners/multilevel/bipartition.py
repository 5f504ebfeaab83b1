"""The two-way multilevel method: coarsen, start many times on the coarsest level, refine upwards.

level 0   ●●●●●●●●●●●● ------------------------> refine
   level 1   ●●●●●●● --------------------> refine
      middle   ●●●●● --------------> best of several runs
         coarsest  ●●● --> several starts --> refine

Which clusters meet on the way down is chance, and on netlists it decides 20 % of the cut; so the
last levels, which cost little, are coarsened and solved several times over: into few heavy
clusters in one run, which tells what belongs together, into many light ones in the next, which
balance. A V-cycle coarsens anew inside the sides that were found, so that they survive, and refines
from there.

Heavy clusters next to tight limits leave no move. So on coarse levels a side may exceed its limit
by the heaviest cluster; less from level to level, and on the finest one not at all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daskpart.partitioners.balance import BOUNDLESS

from .coarsen import Step, coarsen
from .level import Level, with_transpose, without_transpose
from .two_way import TwoWayState, grow, refine, score, two_way_state

if TYPE_CHECKING:
    from collections.abc import Callable

COARSEST = 160  # vertices at which a V-cycle stops coarsening
CLUSTERS = 160  # no cluster of it, or above the middle level, weighs more than this share of all
STARTS = 8  # starts on the coarsest level, fewer where it has many pins
START_PINS = 400_000  # pins that all starts together may walk over
MIDDLE = 3000  # vertices of the level that is solved several times
RUNS = ((20, 40), (160, 160), (40, 80), (80, 80))  # clusters and vertices as above, for each run
FEWEST_RUNS = 2  # where the level has many pins
RUN_PINS = 150_000  # pins of that level over all its solutions
RUN_VERTICES = 80  # one more run for each so many of its vertices
LOOSEST = 20  # no limit is exceeded by more than this share of the total


def side_limits(targets: np.ndarray, epsilon: float | np.ndarray) -> np.ndarray:
    """Return the weight that each side may have: (1 + ε) · target, rounded down.

    Never less than the target itself: weights are whole numbers, and both limits together must
    hold the total. `targets` are of shape (2, n_weights), ε may differ from weight to weight.
    """
    wanted = np.maximum(np.floor((1.0 + epsilon) * targets), targets)
    most = np.maximum(targets.sum(axis=0), BOUNDLESS)
    return np.where(wanted < most, wanted, most).astype(np.int64)


def _loosened(level: Level, limits: np.ndarray) -> np.ndarray:
    """The limits on a coarse level: its heaviest cluster may be too much for a side."""
    share = level.weights.sum(axis=0, dtype=np.int64) // LOOSEST
    return limits + np.minimum(level.weights.max(axis=0, initial=0), share)


def _fresh(level: Level, fixed: np.ndarray) -> TwoWayState:
    return two_way_state(level, np.where(fixed >= 0, fixed, 1).astype(np.int8))


def _random_fill(level: Level, fixed: np.ndarray, order: np.ndarray, target: int) -> TwoWayState:
    """Put vertices on side 0 in random order until it weighs the target."""
    free, weights = order[fixed[order] < 0], level.weights[:, 0]
    pinned = int(weights[fixed == 0].sum())
    reached = pinned + np.cumsum(weights[free]) - weights[free] // 2
    side = np.where(fixed >= 0, fixed, 1).astype(np.int8)
    side[free[reached <= target]] = 0
    return two_way_state(level, side)


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
        order = rng.permutation(np.arange(len(level.weights), dtype=np.int32))
        if start % 4 == 3:
            sides = _random_fill(level, fixed, order, int(targets[0, 0]))
        else:
            sides = _fresh(level, fixed)
            grow(level, sides, fixed, order, targets[0])
        refine(level, sides, fixed, limits)
        found = score(level, sides, limits)
        if best is None or found < best:
            best, best_side = found, sides.side
        del sides  # before those of the next start are there
    return best_side


def _rise(
    steps: list[Step], side: np.ndarray, held: np.ndarray, limits: np.ndarray, finest: bool = True
) -> np.ndarray:
    """Carry the sides of the coarsest level up through `steps`, refining on each level.

    `held` (int8: -1, or the side where a vertex must stay) is that of the coarsest level, `finest`
    tells whether the last level is the finest of all, which keeps to the limits. The steps are used
    up, so that nobody keeps a level that is done with.
    """
    while steps:
        level, target = steps.pop().opened()
        level, held = with_transpose(level), held[target]
        sides = two_way_state(level, side[target])
        here = limits if finest and not steps else _loosened(level, limits)
        refine(level, sides, held, here)
        side = sides.side
        del level, sides  # before the next level is there
    return side


def _score(level: Level, side: np.ndarray, limits: np.ndarray) -> tuple[int, int]:
    return score(level, two_way_state(with_transpose(level), side), limits)


def _solve_middle(
    level: Level,
    community: np.ndarray,
    targets: np.ndarray,
    limits: np.ndarray,
    rng: np.random.Generator,
    finest: bool,
) -> np.ndarray:
    """Return the best of several solutions of a level, each by a coarsening of its own."""
    total, last = int(level.weights[:, 0].sum()), limits if finest else _loosened(level, limits)
    affordable = min(RUN_PINS // max(level.pins.size, 1), len(level.weights) // RUN_VERTICES)
    best: tuple[int, int] | None = None
    best_side = np.zeros(0, np.int8)
    for clusters, fewest in RUNS[: max(affordable, FEWEST_RUNS)]:
        cap = max(total // clusters, 1)
        steps, coarsest, below = coarsen(level, community, cap, fewest, rng)
        is_coarsest, held = not steps, (below - 1).astype(np.int8)
        here = last if is_coarsest else _loosened(coarsest, limits)
        side = _start(with_transpose(coarsest), held, targets, here, rng)
        del coarsest
        side = _rise(steps, side, held, limits, finest)
        found = _score(level, side, last)
        if best is None or found < best:
            best, best_side = found, side
        if is_coarsest:
            break
    return best_side


def bipartition_level(
    level: Level,
    targets: np.ndarray,
    limits: np.ndarray,
    fixed: np.ndarray,
    rng: np.random.Generator,
    cycles: int = 0,
    again: Callable[[], Level] | None = None,
) -> np.ndarray:
    """Cut a level in two.

    Parameters
    ----------
    level : Level
    targets, limits : int64[2, n_weights]
        Wanted and largest weight of each side.
    fixed : int8[n_vertices]
        -1 free, 0 or 1: the side where the vertex must be.
    rng : numpy.random.Generator
    cycles : int
        V-cycles at most; they end with the first that brings nothing.
    again : callable, optional
        Makes the level anew, so that nobody need hold it until then.

    Returns
    -------
    int8[n_vertices]
        Side of each vertex. Heavier than its limit only where no refinement found a way.
    """
    cap = max(int(level.weights[:, 0].sum()) // CLUSTERS, 1)
    community = (fixed + 1).astype(np.int32)
    steps, middle, community = coarsen(level, community, cap, MIDDLE, rng, again=again)
    again = again or partial(without_transpose, level)
    del level
    side = _solve_middle(middle, community, targets, limits, rng, not steps)
    del middle
    side = _rise(steps, side, (community - 1).astype(np.int8), limits)
    for _ in range(cycles):
        level = again()
        better = _cycle(level, side, limits, fixed, cap, rng)
        if _score(level, better, limits) >= _score(level, side, limits):
            break
        side = better
    return side


def _cycle(
    level: Level,
    side: np.ndarray,
    limits: np.ndarray,
    fixed: np.ndarray,
    cap: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """One V-cycle: coarsen inside the sides, then refine on every level, whole clusters first."""
    community = (side + 2 * (fixed + 1)).astype(np.int32)
    steps, coarsest, community = coarsen(level, community, cap, COARSEST, rng)
    coarsest = with_transpose(coarsest)
    sides = two_way_state(coarsest, (community % 2).astype(np.int8))
    held = (community // 2 - 1).astype(np.int8)
    here = _loosened(coarsest, limits) if steps else limits
    refine(coarsest, sides, held, here)
    del coarsest
    return _rise(steps, sides.side, held, limits)
