"""Coarsening: clusters of vertices that share many small nets become one vertex, level by level.

    level 0   o o o o o o o o o o          rating(u, cluster) = Σ over shared nets c(n) / (|n| - 1)
               \\|/  \\|  |/  \\|/            join the best rated cluster that stays under the cap
    level 1     O     O   O    O           and belongs to the same community
                 \\    |   |   /
    level 2        (O)     (O)

A vertex whose favourite cluster is full (the hub of a star) joins another one in the same place:
whoever shares a hub is kin enough, and without this coarsening stalls where degrees follow a power
law (the two-hop matching of Karypis' METIS 5).

A vertex looks at its nets by rising size until it has seen some hundred pins: large nets say little
about who belongs together (with them a bundle adjustment costs twice as much) and would make the
rating quadratic.
Communities keep apart what must stay apart: fixed vertices, or the parts of a given partition
(then the partition survives coarsening, which is what a V-cycle needs).
Rating: heavy-edge rating of Karypis et al. 1999; agglomeration within a level as in
absorption clustering (Çatalyürek and Aykanat 1999).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskpart._floor.kernels import kernel

from .compressed import narrow, packed
from .level import Level, contract, with_transpose, without_transpose

if TYPE_CHECKING:
    from collections.abc import Callable

PINS_SEEN = 400  # pins that a vertex looks at
WIDEST = 200  # of wider nets only its first, if at all
SHRINK = 2.5  # a level has at least 1 / SHRINK of the vertices of the finer one
LEAST_SHRINK = 0.95  # coarsening ends where a level keeps more than this share
ALIKE = 0.75  # a level with more than this share of the finer one's pins need not be kept, too


class Step(NamedTuple):
    """A fine level put aside, and the coarse vertex of each of its vertices."""

    again: Callable[[], Level]  # makes it anew, without transpose
    target: np.ndarray  # [n_vertices], unsigned
    n_pins: int  # of the level

    def opened(self) -> tuple[Level, np.ndarray]:
        """The level and the map; whoever drops the step does not hold what was put aside."""
        return self.again(), self.target

    def coarse(self) -> Level:
        """The coarser level, made from this one once more."""
        return contract(self.again(), self.target.astype(np.int32), int(self.target.max()) + 1)


@kernel(internal=True, _nrt=False)
def _rate(
    vertex, vertex_pointer, nets, net_pointer, pins, net_costs, leader, pins_left, score, touched
):
    """Add up the rating of every cluster near `vertex`; returns how many were touched."""
    n_touched = 0
    for i in range(vertex_pointer[vertex], vertex_pointer[vertex + 1]):
        net = nets[i]
        begin, end = net_pointer[net], net_pointer[net + 1]
        if end - begin > min(pins_left, WIDEST) and n_touched > 0:
            break
        share = net_costs[net] / (end - begin - 1)
        end = min(end, begin + pins_left)
        pins_left -= end - begin
        for j in range(begin, end):
            cluster = leader[pins[j]]
            if score[cluster] == 0.0:
                touched[n_touched] = cluster
                n_touched += 1
            score[cluster] += share
    return n_touched


@kernel(internal=True, _nrt=False)
def _join_best(vertex, n_touched, touched, score, weight, community, cap, even):
    """Return the best rated cluster that `vertex` may join (-1: none), and the best of all.

    The second one may be full. The scores are wiped.
    """
    best, favourite = np.int64(-1), np.int64(-1)
    best_score, favourite_score = 0.0, 0.0
    for i in range(n_touched):
        cluster = touched[i]
        rating = score[cluster]
        score[cluster] = 0.0
        if cluster == vertex or community[cluster] != community[vertex]:
            continue
        if rating > favourite_score:
            favourite, favourite_score = np.int64(cluster), rating
        if even:
            rating /= max(weight[cluster], 1)
        if weight[cluster] + weight[vertex] <= cap and (
            rating > best_score or (rating == best_score and weight[cluster] < weight[best])
        ):
            best, best_score = np.int64(cluster), rating
    return best, favourite


@kernel(internal=True, _nrt=False)
def _wait(waiting, place, vertex, weight, cap):
    """Return who waits at `place` with room for `vertex`; where nobody does, let it wait there."""
    other = waiting[place]
    if other >= 0 and weight[other] + weight[vertex] <= cap:
        return np.int64(other)
    waiting[place] = vertex
    return np.int64(-1)


@kernel(_nrt=False)
def _join(
    order, vertex_pointer, nets, net_pointer, pins, net_costs, community, cap, fewest, pins_seen,
    even, leader, alone, weight, score, touched, netless, waiting,
):  # fmt: skip
    """Let vertices join clusters, in order, until `fewest` clusters are left; fills `leader`."""
    n_clusters = order.size
    for i in range(order.size):
        if n_clusters <= fewest:
            break
        vertex = np.int64(order[i])
        if not alone[vertex]:
            continue
        if vertex_pointer[vertex] == vertex_pointer[vertex + 1]:
            best = _wait(netless, np.int64(community[vertex]), vertex, weight, cap)
        else:
            n_touched = _rate(
                vertex, vertex_pointer, nets, net_pointer, pins, net_costs, leader, pins_seen,
                score, touched,
            )  # fmt: skip
            best, favourite = _join_best(
                vertex, n_touched, touched, score, weight, community, cap, even
            )
            if best < 0 and favourite >= 0:
                best = _wait(waiting, favourite, vertex, weight, cap)
        if best >= 0:
            leader[vertex] = best
            weight[best] += weight[vertex]
            alone[vertex] = False
            alone[best] = False
            n_clusters -= 1


def _cluster(
    level: Level, order: np.ndarray, community: np.ndarray, cap: int, fewest: int, even: bool
) -> tuple[np.ndarray, int]:
    """Return the coarse vertex of each vertex, int32[n_vertices], and how many there are."""
    n = order.size
    leader = np.arange(n, dtype=np.int32)
    _join(
        order,
        *(level.vertex_pointer, level.nets, level.net_pointer, level.pins, level.net_costs),
        *(community, cap, fewest, PINS_SEEN, even, leader),
        np.ones(n, np.bool_),
        level.weights[:, 0].copy(),
        np.zeros(n, np.float64),
        np.empty(min(n, PINS_SEEN), np.int32),
        np.full(int(community.max()) + 1, -1, np.int32),  # who has no nets, by community
        np.full(n, -1, np.int32),  # a cluster whose favourite is full, by that favourite
    )
    leads = leader == np.arange(n, dtype=np.int32)
    number = np.cumsum(leads, dtype=np.int32) - np.int32(1)  # by rising leader
    return number[leader], int(number[-1]) + 1


def _kept(
    level: Level, steps: list[Step], again: Callable[[], Level] | None
) -> Callable[[], Level]:
    """What makes a level anew: itself, packed, or the finer one, packed and hardly larger.

    The latter only where the finest is made again too: elsewhere levels wait for a short time.
    """
    if not steps:
        return again or partial(without_transpose, level)
    if again and len(steps) % 2 == 0 and level.pins.size > ALIKE * steps[-1].n_pins:
        return steps[-1].coarse
    return packed(level)


def coarsen(
    level: Level,
    community: np.ndarray,
    cap: int,
    fewest: int,
    rng: np.random.Generator,
    even: bool = False,
    again: Callable[[], Level] | None = None,
) -> tuple[list[Step], Level, np.ndarray]:
    """Coarsen until `fewest` vertices are left, or clusters no longer form.

    Parameters
    ----------
    level : Level
    community : int32[n_vertices]
        Small non-negative numbers; vertices of different communities are never merged.
    cap : int
        Weight (the first of several) that a cluster may not exceed.
    fewest : int
        Vertices at which to stop.
    rng : numpy.random.Generator
    even : bool
        Whether the rating of a cluster is divided by its weight: clusters grow alike. Better on
        some netlists, worse where there are communities.
    again : callable, optional
        Makes the level anew, so that nobody need hold it until then; without, the steps hold it.

    Returns
    -------
    steps : list of Step
        Finest first; empty where nothing could be merged.
    coarsest : Level
        Without its transpose, unless it is the level given.
    community : int32[n_coarsest]
        That of a finer vertex is that of its coarse vertex.
    """
    steps: list[Step] = []
    while len(level.weights) > fewest:
        n = len(level.weights)
        order = rng.permutation(np.arange(n, dtype=np.int32))
        goal = max(fewest, int(n / SHRINK))
        target, n_coarse = _cluster(with_transpose(level), order, community, cap, goal, even)
        if n_coarse > LEAST_SHRINK * n:
            break
        coarse_community = np.zeros(n_coarse, np.int32)
        coarse_community[target] = community
        community = coarse_community
        coarse = contract(level, target, n_coarse)
        steps.append(Step(_kept(level, steps, again), narrow(target), level.pins.size))
        level = coarse
    return steps, level, community
