"""Emptying parts: never worse, never over the weight allowed, no part without a vertex."""

from __future__ import annotations

import numpy as np
from hypergraphs import random_nets
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.partitioners import PowerConnectivity
from daskpart.partitioners.relief import relieve


def random_case(seed: int, n_parts: int):
    generator = np.random.default_rng(seed)
    n_vertices, n_nets = int(generator.integers(n_parts, 40)), int(generator.integers(1, 30))
    hypergraph = random_nets(generator, n_vertices, n_nets, (0, 8))
    assignment = generator.permutation(np.arange(n_vertices) % n_parts).astype(np.int32)
    return hypergraph, assignment


def metrics(hypergraph, assignment, n_parts):
    partition = daskpart.Partition(assignment, n_parts, hypergraph.vertex_weights, {})
    connectivity = daskpart.Connectivity.from_partition(hypergraph, partition)
    return connectivity.power(2), connectivity.max_connectivity(), partition.part_weights


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0, 3))
def test_never_worse(seed, n_parts, slack):
    hypergraph, assignment = random_case(seed, n_parts)
    before = metrics(hypergraph, assignment, n_parts)
    most = max(int((1 + slack) * hypergraph.total_weight / n_parts), int(before[2].max()))
    cost_table = PowerConnectivity(2).cost_table(n_parts)
    relieved = relieve(hypergraph, assignment, cost_table, most)
    after = metrics(hypergraph, relieved, n_parts)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert after[2].max() <= most
    assert np.bincount(relieved, minlength=n_parts).all()


def test_a_part_is_emptied_where_the_others_have_room():
    """Nets {0…5} and {0…4} in three parts: vertex 5 alone in a part leaves the second net two."""
    hypergraph = daskpart.Hypergraph.from_nets(
        np.array([0, 6, 11]), np.array([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]), 6
    )
    assignment = np.array([0, 0, 1, 1, 2, 2], np.int32)
    cost_table = PowerConnectivity(2).cost_table(3)
    assert metrics(hypergraph, assignment, 3)[0] == 9 + 9
    relieved = relieve(hypergraph, assignment, cost_table, hypergraph.total_weight)
    assert metrics(hypergraph, relieved, 3)[0] == 9 + 4
    assert np.bincount(relieved)[relieved[5]] == 1


def test_fixed_vertices_stay():
    hypergraph, assignment = random_case(3, 4)
    fixed = np.full(hypergraph.n_vertices, -1, np.int32)
    fixed[:8] = assignment[:8]
    cost_table = PowerConnectivity(2).cost_table(4)
    relieved = relieve(hypergraph, assignment, cost_table, 10**6, fixed)
    np.testing.assert_array_equal(relieved[:8], assignment[:8])


def test_the_face_offers_it():
    ratings = daskpart.datasets.power_law_ratings(120, 40, 2000, random_state=0)
    even, uneven = (
        daskpart.partition(ratings, 10, "power", epsilon=0.3, even=choice)
        for choice in (True, False)
    )
    hypergraph = daskpart.Hypergraph.column_net(ratings)
    cost = [
        daskpart.Connectivity.from_partition(hypergraph, each).power(2) for each in (even, uneven)
    ]
    assert cost[1] <= cost[0]
    assert uneven.imbalance <= 0.3 + 1e-9
    assert (np.bincount(uneven.assignment, minlength=10) > 0).all()
