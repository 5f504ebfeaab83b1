"""K-way local search on one level, and over the levels of a hierarchy.

    one level   rebalance ─▶ label propagation ─▶ search within the limits
                then with limits that are loose by 20, 10, 5 and 2 %: what was stuck for want of
                room moves, the parts are brought back under their limits and searched again, and
                the better partition is kept
    V-cycle     ●●●●●●●●●●●●                  search     coarsen inside the parts (so that the
                   ●●●●●●●●                search        partition survives), then search on
                      ●●●●●  --------->  search          every level: whole clusters move
    combine     the same inside the pieces on which two partitions agree

Loose limits: the unconstrained local search of Maas, Gottesbüren and Seemaier 2024, without their
penalties.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskpart._floor.sums import sums_by_key

from .coarsen import Step, coarsen
from .fm import propagate, rebalance, search
from .gain_table import with_gain_table
from .k_way import KWayState, k_way_state, name_type
from .level import Level, connectivities, with_transpose

COARSEST_PER_PART = 100  # vertices a part at which a V-cycle stops coarsening
CLUSTER_SHARE = 3  # a cluster weighs at most this many times the mean of the coarsest level
SMALL_TABLE = 1 << 18  # entries of a benefit table that is never folded
DENSE_TABLE = 3.5  # entries a pin up to which it is not either
LOOSE = (0.2, 0.1, 0.05, 0.02)  # how far beyond its limit a part may go for a while


class Bounds(NamedTuple):
    """What the parts may weigh while vertices move."""

    least: int  # of the first weight
    most: np.ndarray  # int64[n_parts, n_weights]


def score(level: Level, part: np.ndarray, most: np.ndarray) -> tuple[int, int]:
    """Weight beyond the limits, then Σ cost · (λ - 1): what is smaller is better."""
    weights = sums_by_key(part, level.weights, len(most))
    excess = int(np.maximum(weights - most, 0).sum())
    touched = connectivities(level.net_pointer, level.pins, part, len(most))
    touched -= 1
    # in pieces, where a product of all nets would be the peak of a netlist's memory
    return excess, int(np.einsum("n,n->", level.net_costs, touched, dtype=np.int64))


def improve(
    level: Level, part: np.ndarray, bounds: Bounds, held: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rebalance and search on one level; returns int32[n_vertices], and may change `part`.

    Vertices that are `held` (bool[n_vertices]) stay where they are.
    """
    return _improved(with_transpose(level), part, bounds, held, rng).astype(np.int32)


def _improved(
    level: Level, part: np.ndarray, bounds: Bounds, held: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The parts after the search, in the type in which the search keeps them."""
    parts: KWayState = k_way_state(level, part, len(bounds.most), held, bounds.least)
    order = np.arange(part.size, dtype=np.int32)
    rng.shuffle(order)
    if np.any(parts.weight > bounds.most):
        rebalance(level, parts, bounds.most)
    propagate(level, parts, order, bounds.most)
    del order
    parts = with_gain_table(level, parts, max(SMALL_TABLE, int(DENSE_TABLE * level.pins.size)))
    search(level, parts, bounds.most)
    best, best_score = parts.part.copy(), score(level, parts.part, bounds.most)
    for share in LOOSE:
        _search_loosely(level, parts, bounds, share)
        new_score = score(level, parts.part, bounds.most)
        if new_score >= best_score:
            break
        best[:], best_score = parts.part, new_score
    return best


def _search_loosely(level: Level, parts: KWayState, bounds: Bounds, share: float) -> None:
    """Search with limits so much looser, take the parts back under theirs, and search again."""
    loose = (bounds.most * (1 + share)).astype(np.int64)
    search(level, parts, loose, max_rounds=1)
    rebalance(level, parts, bounds.most)
    search(level, parts, bounds.most)


def rise(
    steps: list[Step],
    part: np.ndarray,
    bounds: Bounds,
    held: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Carry the parts of the coarsest level up through `steps`, searching on each level.

    `held` (bool) is that of the coarsest level. The steps are used up, so that nobody keeps a level
    that is done with.
    """
    names = name_type(len(bounds.most))
    while steps:
        level, target = steps.pop().opened()
        held, part = held[target], part.astype(names)[target]
        del target
        part = improve(level, part, bounds, held, rng)
        del level  # before the next one is there
    return part


def cycle(
    level: Level, part: np.ndarray, bounds: Bounds, held: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One V-cycle: coarsen inside the parts, then search on every level, whole clusters first."""
    fewest = COARSEST_PER_PART * len(bounds.most)
    cap = max(CLUSTER_SHARE * int(level.weights[:, 0].sum()) // fewest, 1)
    community = (2 * part + held).astype(np.int32)  # a fixed vertex merges with fixed ones only
    steps, coarsest, community = coarsen(level, community, cap, fewest, rng)
    held = community % 2 == 1
    part = improve(coarsest, community // 2, bounds, held, rng)
    del coarsest
    return rise(steps, part, bounds, held, rng)


def combine(
    level: Level, part: np.ndarray, other: np.ndarray, bounds: Bounds, rng: np.random.Generator
) -> np.ndarray:
    """Better `part` by moves of whole pieces on which it and another partition agree.

    Coarsening stays inside the pieces, so both are partitions of the coarsest level too: what
    either cuts stays in doubt, the rest moves as a whole (Andre, Schlag and Schulz 2018).
    """
    n_parts = len(bounds.most)
    pieces, piece = np.unique(part.astype(np.int64) * n_parts + other, return_inverse=True)
    steps, coarsest, community = coarsen(
        level, 2 * piece.astype(np.int32), int(bounds.most[0, 0]), 4 * n_parts, rng
    )
    start = (pieces // n_parts).astype(np.int32)[community // 2]
    held = np.zeros(start.size, np.bool_)
    part = improve(coarsest, start, bounds, held, rng)
    del coarsest
    return rise(steps, part, bounds, held, rng)
