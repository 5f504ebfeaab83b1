"""Emptying parts: never worse, never over the weight allowed, no part without a vertex."""

from __future__ import annotations

import numpy as np
from hypergraphs import nets_of, random_nets
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.partitioners import PowerConnectivity
from daskpart.partitioners.relief import relieve


def random_case(seed: int, n_parts: int):
    generator = np.random.default_rng(seed)
    n_vertices, n_nets = int(generator.integers(n_parts, 40)), int(generator.integers(1, 30))
    hypergraph = random_nets(generator, n_vertices, n_nets, (0, 8), (0, 4), (0, 4))
    assignment = generator.permutation(np.arange(n_vertices) % n_parts).astype(np.int32)
    return hypergraph, assignment


def metrics(hypergraph, assignment, n_parts):
    partition = daskpart.Partition(assignment, n_parts, hypergraph.vertex_weights, {})
    connectivity = daskpart.Connectivity.from_partition(hypergraph, partition)
    return connectivity.power(2), connectivity.max_connectivity(), partition.part_weights


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0, 3), st.sampled_from([0, 0.1, 0.5])
)
def test_never_worse_and_fixed_vertices_stay(seed, n_parts, slack, share):
    hypergraph, assignment = random_case(seed, n_parts)
    held = np.random.default_rng(seed).random(hypergraph.n_vertices) < share
    fixed = np.where(held, assignment, -1).astype(np.int32)
    before = metrics(hypergraph, assignment, n_parts)
    most = max(int((1 + slack) * hypergraph.total_weight / n_parts), int(before[2].max()))
    cost_table = PowerConnectivity(2).cost_table(n_parts)
    relieved = relieve(hypergraph, assignment, cost_table, most, fixed)
    after = metrics(hypergraph, relieved, n_parts)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert after[2].max() <= most
    assert np.bincount(relieved, minlength=n_parts).all()
    np.testing.assert_array_equal(relieved[held], assignment[held])


def relieved_in_plain_python(hypergraph, assignment, n_parts, most, held):
    """Each part emptied in turn, with all costs anew; costs are those of λ²."""
    nets, weights = nets_of(hypergraph), hypergraph.vertex_weights
    costs = hypergraph.net_costs.tolist()

    def measure(part):
        levels = [len(set(part[net].tolist())) for net in nets]
        return sum(c * k**2 for c, k in zip(costs, levels, strict=True) if k > 1), levels

    def moved(part, vertex, there):
        return np.where(np.arange(len(part)) == vertex, there, part)

    def without(part, gone):
        members = np.flatnonzero(part == gone)
        for vertex in members[np.argsort(-weights[members], kind="stable")]:
            load = np.bincount(part, weights, n_parts) + weights[vertex]
            room = [there for there in range(n_parts) if there != gone and load[there] <= most]
            if not room:
                return []
            trials = {there: moved(part, vertex, there) for there in room}
            part = trials[min(room, key=lambda there: (measure(trials[there])[0], load[there]))]
        best = []
        for vertex in np.flatnonzero(~held):
            if np.count_nonzero(part == part[vertex]) > 1:
                found = moved(part, vertex, gone)
                cost, levels = measure(found)
                own = [level for level, net in zip(levels, nets, strict=True) if vertex in net]
                best.append((max(own, default=0), cost, max(levels, default=0), found))
        return [each[1:] for each in [min(best, key=lambda found: found[:2])]] if best else []

    cost, levels = measure(assignment)
    highest = max(levels, default=0)
    while True:
        sizes, load = (np.bincount(assignment, each, n_parts) for each in (None, weights))
        parts = [part for part in np.argsort(load, kind="stable") if sizes[part] > 1]
        free = [part for part in parts if not held[assignment == part].any()][:8]
        trials = [trial for part in free for trial in without(assignment, part)]
        better = [trial for trial in trials if trial[0] < cost and trial[1] <= highest]
        if not better:
            return assignment
        cost, highest, assignment = min(better, key=lambda trial: trial[:2])


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.floats(0, 3), st.sampled_from([0, 0.1]))
def test_parts_are_emptied_as_in_plain_python(seed, n_parts, slack, share):
    hypergraph, assignment = random_case(seed, n_parts)
    held = np.random.default_rng(seed).random(hypergraph.n_vertices) < share
    fixed = np.where(held, assignment, -1).astype(np.int32)
    most = int((1 + slack) * hypergraph.total_weight / n_parts)
    wanted = relieved_in_plain_python(hypergraph, assignment, n_parts, most, held)
    cost_table = PowerConnectivity(2).cost_table(n_parts)
    found = relieve(hypergraph, assignment, cost_table, most, fixed)
    np.testing.assert_array_equal(found, wanted)


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


def test_the_face_offers_it():
    ratings = daskpart.datasets.power_law_ratings(120, 40, 2000, random_state=0)
    even, uneven = (
        daskpart.partition(ratings, 10, "power", epsilon=0.3, even=choice)
        for choice in (True, False)
    )
    refined = daskpart.refine(ratings, even, "power", epsilon=0.3, even=False)
    hypergraph = daskpart.Hypergraph.column_net(ratings)
    cost, *lower = (
        daskpart.Connectivity.from_partition(hypergraph, each).power(2)
        for each in (even, uneven, refined)
    )
    for found, price in zip((uneven, refined), lower, strict=True):
        assert price <= cost
        assert found.imbalance <= 0.3 + 1e-9
        assert (np.bincount(found.assignment, minlength=10) > 0).all()
