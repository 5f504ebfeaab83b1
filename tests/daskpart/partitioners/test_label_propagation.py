"""The K-way polish: it never makes the sum worse, keeps the balance, and finds plain gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypergraphs import random_nets
from hypothesis import given
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import ConnectivityMinusOne, CutNet, PowerConnectivity
from daskpart.partitioners.label_propagation import polish
from daskpart.partitions import Partition

OBJECTIVES = [CutNet(), ConnectivityMinusOne(), PowerConnectivity(2), PowerConnectivity(1.5)]


def random_start(seed: int, n_parts: int) -> tuple[Hypergraph, Partition]:
    rng = np.random.default_rng(seed)
    n_vertices, n_nets = int(rng.integers(n_parts, 60)), int(rng.integers(0, 50))
    hypergraph = random_nets(rng, n_vertices, n_nets, (0, 9), (0, 5), (0, 5))
    assignment = rng.integers(0, n_parts, n_vertices)
    return hypergraph, Partition(assignment, n_parts, hypergraph.vertex_weights)


def total_toll(hypergraph: Hypergraph, assignment: np.ndarray, cost_table: np.ndarray) -> int:
    found = Connectivity.from_partition(hypergraph, Partition(assignment, len(cost_table) - 1))
    return int((found.costs * cost_table[found.connectivity]).sum())


@pytest.mark.parametrize(
    "objective", OBJECTIVES, ids=lambda objective: str(objective.cost_table(3))
)
@given(seed=st.integers(0, 2**32 - 1), n_parts=st.sampled_from([1, 2, 3, 8]))
def test_never_worse_and_no_part_grows_past_its_bound(objective, seed, n_parts):
    hypergraph, start = random_start(seed, n_parts)
    cost_table = objective.cost_table(n_parts)
    least, most = (int(start.part_weights.mean() * share) for share in (0.8, 1.1))
    polished = polish(hypergraph, start.assignment, cost_table, (least, most), random_state=seed)
    before = total_toll(hypergraph, start.assignment, cost_table)
    assert total_toll(hypergraph, polished, cost_table) <= before
    loads = Partition(polished, n_parts, hypergraph.vertex_weights).part_weights
    assert (loads <= np.maximum(most, start.part_weights)).all()
    assert (loads >= np.minimum(least, start.part_weights)).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_no_single_move_is_left_that_gains(seed):
    """After enough rounds: naive search over every vertex and part finds nothing better."""
    hypergraph, start = random_start(seed, 4)
    cost_table, bounds = PowerConnectivity(2).cost_table(4), (0, hypergraph.total_weight)
    polished = start.assignment
    for _ in range(30):  # a call may stop while gains are small; a fixed point has none
        following = polish(hypergraph, polished, cost_table, bounds, max_rounds=50)
        if np.array_equal(following, polished):
            break
        polished = following
    best = total_toll(hypergraph, polished, cost_table)
    for vertex in range(hypergraph.n_vertices):
        for part in range(4):
            moved = polished.copy()
            moved[vertex] = part
            assert total_toll(hypergraph, moved, cost_table) >= best


def test_fixed_vertices_stay():
    hypergraph, start = random_start(5, 4)
    fixed = np.where(np.arange(hypergraph.n_vertices) % 2, start.assignment, -1)
    cost_table = ConnectivityMinusOne().cost_table(4)
    polished = polish(hypergraph, start.assignment, cost_table, (0, 10**6), fixed=fixed)
    assert (polished[fixed >= 0] == start.assignment[fixed >= 0]).all()
    assert (polished != start.assignment).any()


def test_the_start_is_not_changed_and_the_seed_decides():
    hypergraph, start = random_start(9, 5)
    before, cost_table = start.assignment.copy(), CutNet().cost_table(5)
    first, again = (polish(hypergraph, start.assignment, cost_table, (0, 10**6)) for _ in range(2))
    assert np.array_equal(first, again) and np.array_equal(start.assignment, before)
