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

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskpart.partitioners.balance import most_of_each

from .bipartition import MIDDLE, bipartition_level, side_limits
from .coarsen import coarsen
from .community import communities
from .compressed import Finest, narrow, packed
from .level import DROPPED, NO_LEVEL, Level, contract, reach, without_transpose
from .refinement import CLUSTER_SHARE, Bounds, combine, cycle, improve, rise, score

if TYPE_CHECKING:
    from collections.abc import Callable

COARSEST = 3000  # vertices of the level that the recursion cuts, at least
COARSEST_ROOT = 640  # and at least so many times the root of K: 80 a part for K = 64
LIGHTEST = 2.0  # no move takes a part below 1 - 2 ε of the mean (1 - ε costs 1 % of the cut)
ROOM = 8  # but a part may always be lighter than the mean by so many vertices, up to half of it
CORE_SHARE = 8  # of so many parts one is filled with what has most nets
CORE_WORTH = 0.9  # the core is taken below this share of the recursion's cost: it improves less


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


class _Piece(NamedTuple):
    """A part of the coarsest level that is still to be cut."""

    again: Callable[[], Level]  # makes its level, see `_piece`
    weight: list[int]  # its sum of each weight of the vertices
    vertices: np.ndarray  # int64[n_vertices]: their numbers on the coarsest level
    parts: tuple[int, int]  # to become parts[0] .. parts[1] - 1


def _piece(level: Level, vertices: np.ndarray, parts: tuple[int, int]) -> _Piece:
    """Packed if it is coarsened before it is cut, several times over: then it waits meanwhile."""
    again = packed(level) if vertices.size > MIDDLE else partial(without_transpose, level)
    return _Piece(again, level.weights.sum(axis=0, dtype=np.int64).tolist(), vertices, parts)


def _halves(
    piece: _Piece, most: list[int], rng: np.random.Generator, effort: Effort
) -> tuple[_Piece, _Piece]:
    """Cut a piece in two, with as many parts on the left as on the right, or one more."""
    again, totals, vertices, (first, end) = piece
    n_parts = end - first
    n_left = (n_parts + 1) // 2
    depth = int(np.ceil(np.log2(n_parts)))
    slacks = [
        max((limit * n_parts / max(total, 1)) ** (1.0 / depth) - 1.0, 0.0)
        for limit, total in zip(most, totals, strict=True)
    ]
    left = [total * n_left // n_parts for total in totals]
    targets = np.array([left, np.subtract(totals, left)], np.int64)
    free = np.full(vertices.size, -1, np.int8)
    limits, cycles = side_limits(targets, np.array(slacks)), effort.two_way_cycles
    side = bipartition_level(again(), targets, limits, free, rng, cycles, again)
    level, middle = again(), first + n_left
    return (
        _split_off(level, vertices, side == 0, (first, middle)),
        _split_off(level, vertices, side == 1, (middle, end)),
    )


def _split_off(
    level: Level, vertices: np.ndarray, chosen: np.ndarray, parts: tuple[int, int]
) -> _Piece:
    """The piece of the chosen vertices; what is one part already needs no nets any more."""
    members = np.flatnonzero(chosen)
    half = NO_LEVEL
    if parts[1] - parts[0] > 1:
        target = np.full(chosen.size, DROPPED, np.int32)
        target[members] = np.arange(members.size, dtype=np.int32)
        half = contract(level, target, members.size)
    return _piece(half, vertices[members], parts)


def least_weight(weights: np.ndarray, n_parts: int, epsilon: float) -> int:
    """Return the weight that no move takes a part below: 1 - 2 ε of the mean, or less.

    Parts of few vertices need more room, or next to none of their vertices could leave, at the
    cost of a much larger cut. What a part may weigh at most, so what ranks wait for, stays as it
    is.
    """
    total = int(weights.sum())
    mean = total / n_parts
    room = min(ROOM * total / max(int(np.count_nonzero(weights)), 1), mean / 2)
    return max(int(min((1.0 - LIGHTEST * epsilon) * mean, mean - room)), 0)


def _recurse(
    whole: _Piece, most: list[int], rng: np.random.Generator, effort: Effort
) -> np.ndarray:
    """Cut into K parts, depth first; a piece is let go as soon as its two halves are there."""
    part = np.zeros(whole.vertices.size, np.int32)
    pieces = [whole]
    while pieces:
        piece = pieces.pop()
        first, end = piece.parts
        if end - first == 1 or piece.vertices.size == 0:
            part[piece.vertices] = first
        else:
            pieces.extend(reversed(_halves(piece, most, rng, effort)))
    return part


def _core_first(level: Level, n_parts: int, limit: int) -> np.ndarray:
    """Fill the parts one after another, by falling cost of a vertex's nets per weight.

    The first parts hold what has most nets, up to the limit, the others share the rest evenly.
    """
    weights = level.weights[:, 0]
    order = np.argsort(-reach(level) / np.maximum(weights, 1), kind="stable")
    middles = np.cumsum(weights[order]) - weights[order] / 2
    n_full = max(n_parts // CORE_SHARE, 1)
    rest = (int(weights.sum()) - n_full * limit) / max(n_parts - n_full, 1)
    ends = np.cumsum(np.where(np.arange(n_parts) < n_full, limit, rest))
    part = np.empty(order.size, np.int32)
    part[order] = np.minimum(np.searchsorted(ends, middles), n_parts - 1)
    return part


def _cut_coarsest(
    coarsest: list[Level], bounds: Bounds, rng: np.random.Generator, effort: Effort
) -> np.ndarray:
    """The best of several recursions on the coarsest level, each searched over all parts.

    The level comes in a list, so that nobody holds it while only its pieces are worked on.
    """
    tries, most = [], bounds.most
    free = np.zeros(len(coarsest[0].weights), np.bool_)
    for _ in range(effort.tries):
        whole = _piece(coarsest.pop(), np.arange(free.size), (0, len(most)))
        part = _recurse(whole, most[0].tolist(), rng, effort)
        coarsest.append(whole.again())
        del whole
        tries.append(improve(coarsest[0], part, bounds, free, rng))
    return min(tries, key=lambda part: score(coarsest[0], part, most))


def _solve(
    finest: Finest,
    groups: np.ndarray,
    n_parts: int,
    bounds: Bounds,
    rng: np.random.Generator,
    effort: Effort,
) -> np.ndarray:
    """One partition: the better of the recursion and the core, then V-cycles."""
    level, most = finest.level(), bounds.most
    fewest = max(COARSEST, int(COARSEST_ROOT * n_parts**0.5))
    cap = max(CLUSTER_SHARE * int(level.weights[:, 0].sum()) // fewest, 1)
    core_cost = math.inf  # it shares out a single weight only
    if most.shape[1] == 1:
        core_cost = score(level, _core_first(level, n_parts, int(most[0, 0])), most)[1]
    del level  # so that it is there only while it is worked on
    groups = groups.astype(np.int32)
    steps, level, groups = coarsen(
        finest.taken(), groups, cap, fewest, rng, effort.even, finest.level
    )
    coarsest = [level]
    del level
    part = _cut_coarsest(coarsest, bounds, rng, effort)
    if core_cost < CORE_WORTH * score(coarsest[0], part, most)[1]:
        del steps, coarsest
        part = _core_first(finest.level(), n_parts, int(most[0, 0]))
        part = improve(finest.level(), part, bounds, np.zeros(part.size, np.bool_), rng)
    else:
        del coarsest
        held = np.zeros(part.size, np.bool_)
        part = rise(steps, part, bounds, held, rng)
    for _ in range(effort.cycles):
        part = cycle(finest.level(), part, bounds, np.zeros(part.size, np.bool_), rng)
    return part


def _best_of(
    finest: Finest, n_parts: int, bounds: Bounds, rng: np.random.Generator, effort: Effort
) -> np.ndarray:
    """Solve as often as the effort and the pins allow, and combine the best partitions."""
    affordable = max(SOLVE_PINS // max(finest.level().pins.size, 1), min(4, effort.solves))
    n_solves = min(effort.solves, affordable)
    apart = narrow(communities(finest.taken()))
    together = np.zeros_like(apart)
    # now the one fits, now the other; whoever coarsens by the last of them need not keep it
    groups = [apart if turn % 4 < 2 else together for turn in range(n_solves)]
    del apart, together
    found = []
    for turn in range(n_solves):
        trial = effort._replace(even=turn % 2 == 0)
        found.append(_solve(finest, groups.pop(0), n_parts, bounds, rng, trial))
    if len(found) == 1:
        return found[0]
    level = finest.level()
    found.sort(key=lambda part: score(level, part, bounds.most))
    best = found[0]
    for other in found[1:PARENTS]:
        best = combine(level, best, other, bounds, rng)
    return best


def partition_level(
    finest: Finest,
    n_parts: int,
    epsilon: float | list[float],
    rng: np.random.Generator,
    effort: Effort = DEFAULT_EFFORT,
) -> np.ndarray:
    """Cut a level into K parts of small connectivity - 1.

    Parameters
    ----------
    finest : Finest
    n_parts : int
        K, any number of at least 1.
    epsilon : float, or a list with one for each of several weights
        A part may weigh (1 + ε) times the mean, in each weight; no move takes one below
        `least_weight`.
    rng : numpy.random.Generator
    effort : Effort
        How often to start, and how many V-cycles to spend.

    Returns
    -------
    int32[n_vertices]
    """
    weights = finest.level().weights
    if n_parts == 1:
        return np.zeros(len(weights), np.int32)
    most = np.tile(most_of_each(weights, n_parts, epsilon), (n_parts, 1))
    bounds = Bounds(least_weight(weights[:, 0], n_parts, float(np.max(epsilon))), most)
    del weights
    return _best_of(finest, n_parts, bounds, rng, effort)
