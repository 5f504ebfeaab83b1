"""Direct K-way partitioning: coarsen once, cut there by recursion, then search on every level.

    ●●●●●●●●●●●●                 ●●●●●●●●●●●●  search      coarsen inside communities;
       ●●●●●●●●      ────▶          ●●●●●●●●   search      recursion 1 -> 2 -> 4 -> … -> K on the
          ●●●●  ──recursion──▶        ●●●●     search      coarsest level; local search over all K
                                                           parts, whole clusters first
    core     few vertices with most of the nets, and leaves that hang on them: parts filled one
             after another by falling degree beat the recursion, which halves the core

In the recursion nets are split, their costs unchanged, so that what the bipartitions pay adds up to
connectivity - 1. The imbalance that a bipartition may use is what is left of (1 + ε) on the path
from the root (Schlag et al. 2016, eq. 1), so that all K parts can keep to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bipartition import bipartition_level, side_limits
from .coarsen import coarsen
from .community import communities
from .improvement import CLUSTER_SHARE, Bounds, combine, cycle, improve, rise, score
from .level import DROPPED, Level, contract

COARSEST = 3000  # vertices of the level that the recursion cuts, at least
COARSEST_ROOT = 640  # and at least so many times the root of K: 80 a part for K = 64
LIGHTEST = 2.0  # no move takes a part below 1 - 2 ε of the mean (1 - ε costs 1 % of the cut)
CORE_SHARE = 8  # of so many parts one is filled with what has most nets
CORE_WORTH = 0.8  # the core is taken below this share of the recursion's cost: it improves less


class Effort(NamedTuple):
    """How much to try."""

    solves: int  # partitions at most, of which the best is kept
    tries: int  # recursions on the coarsest level of each
    cycles: int  # K-way V-cycles of each
    two_way_cycles: int  # V-cycles of each bipartition, at most
    even: bool = True  # how vertices are rated, see `coarsen`


DEFAULT_EFFORT = Effort(1, 1, 0, 0)
HIGH_EFFORT = Effort(24, 4, 1, 1)
PARENTS = 8  # of the best partitions are combined
SOLVE_PINS = 3_000_000  # pins over all partitions of one hypergraph


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
    effort: Effort,
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
    limits, cycles = side_limits(targets, slack), effort.two_way_cycles
    side = bipartition_level(level, targets, limits, free, rng, cycles)
    middle = parts[0] + n_left
    for which, span in ((0, (parts[0], middle)), (1, (middle, parts[1]))):
        members = np.flatnonzero(side == which)
        target = np.full(vertices.size, DROPPED, np.int32)
        target[members] = np.arange(members.size, dtype=np.int32)
        if span[1] - span[0] == 1:
            out[vertices[members]] = span[0]
        else:
            below = contract(level, target, members.size)
            _recurse(below, vertices[members], span, limit, rng, out, effort)


def _core_first(level: Level, n_parts: int, limit: int) -> np.ndarray:
    """Fill the parts one after another, by falling cost of a vertex's nets per weight.

    The first parts hold what has most nets, up to the limit, the others share the rest evenly.
    """
    paid = np.concatenate([[0], np.cumsum(level.net_costs[level.nets])])
    reach = np.diff(paid[level.vertex_pointer])
    order = np.argsort(-reach / np.maximum(level.weights, 1), kind="stable")
    middles = np.cumsum(level.weights[order]) - level.weights[order] / 2
    n_full = max(n_parts // CORE_SHARE, 1)
    rest = (int(level.weights.sum()) - n_full * limit) / max(n_parts - n_full, 1)
    ends = np.cumsum(np.where(np.arange(n_parts) < n_full, limit, rest))
    part = np.empty(order.size, np.int32)
    part[order] = np.minimum(np.searchsorted(ends, middles), n_parts - 1)
    return part


def _cut_coarsest(
    coarsest: Level, n_parts: int, bounds: Bounds, rng: np.random.Generator, effort: Effort
) -> np.ndarray:
    """The best of several recursions on the coarsest level, each searched over all parts."""
    tries = []
    free = np.zeros(coarsest.weights.size, np.bool_)
    for _ in range(effort.tries):
        part = np.zeros(coarsest.weights.size, np.int32)
        limit = int(bounds.most[0])
        _recurse(coarsest, np.arange(part.size), (0, n_parts), limit, rng, part, effort)
        tries.append(improve(coarsest, part, bounds, free, rng))
    return min(tries, key=lambda part: score(coarsest, part, bounds.most))


def _solve(
    level: Level,
    groups: np.ndarray,
    n_parts: int,
    bounds: Bounds,
    rng: np.random.Generator,
    effort: Effort,
) -> np.ndarray:
    """One partition: the better of the recursion and the core, then V-cycles."""
    fewest = max(COARSEST, int(COARSEST_ROOT * n_parts**0.5))
    cap = max(CLUSTER_SHARE * int(level.weights.sum()) // fewest, 1)
    steps, coarsest, _ = coarsen(level, 2 * groups, cap, fewest, rng, effort.even)
    part = _cut_coarsest(coarsest, n_parts, bounds, rng, effort)
    core = _core_first(level, n_parts, int(bounds.most[0]))
    free = np.zeros(level.weights.size, np.bool_)
    if score(level, core, bounds.most)[1] < CORE_WORTH * score(coarsest, part, bounds.most)[1]:
        part = improve(level, core, bounds, free, rng)
    else:
        part = rise(steps, part, bounds, rng)
    for _ in range(effort.cycles):
        part = cycle(level, part, bounds, free, rng)
    return part


def _best_of(
    level: Level, n_parts: int, bounds: Bounds, rng: np.random.Generator, effort: Effort
) -> np.ndarray:
    """Solve as often as the effort and the pins allow, and combine the best partitions."""
    apart = communities(level)
    found = []
    affordable = max(SOLVE_PINS // max(level.pins.size, 1), min(4, effort.solves))
    for turn in range(min(effort.solves, affordable)):
        trial = effort._replace(even=turn % 2 == 0)
        groups = apart if turn % 4 < 2 else np.zeros_like(apart)  # now the one fits, now the other
        found.append(_solve(level, groups, n_parts, bounds, rng, trial))
    found.sort(key=lambda part: score(level, part, bounds.most))
    best = found[0]
    for other in found[1:PARENTS]:
        best = combine(level, best, other, bounds, rng)
    return best


def partition_level(
    level: Level,
    n_parts: int,
    epsilon: float,
    rng: np.random.Generator,
    effort: Effort = DEFAULT_EFFORT,
) -> np.ndarray:
    """Cut a level into K parts of small connectivity - 1.

    Parameters
    ----------
    level : Level
    n_parts : int
        K, any number of at least 1.
    epsilon : float
        A part may weigh (1 + ε) times the mean; no move takes one below (1 - 2 ε) times the mean.
    rng : numpy.random.Generator
    effort : Effort
        How often to start, and how many V-cycles to spend.

    Returns
    -------
    int32[n_vertices]
    """
    if n_parts == 1:
        return np.zeros(level.weights.size, np.int32)
    total = int(level.weights.sum())
    most = part_limits(total, n_parts, epsilon)
    bounds = Bounds(max(int((1.0 - LIGHTEST * epsilon) * total / n_parts), 0), most)
    return _best_of(level, n_parts, bounds, rng, effort)
