"""`refine`: never worse, as balanced as before, loads kept equal to loads counted, repeatable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import sparse
from hypergraphs import random_hypergraph
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.data_models import VertexSampler, medium_grain, stochastic
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.owners import embedded_packed_owners, hypercube_volume, packed_owners
from daskpart.partitioners import get_engine, partition, refine
from daskpart.partitioners.balance import heaviest_allowed
from daskpart.partitioners.refinement import METRICS
from daskpart.partitioners.refinement.bits import lower_concurrent_volume
from daskpart.partitioners.refinement.loads import (
    BUSIEST,
    MAX_BOTH,
    MAX_SEND,
    ROUTED,
    LoadMetric,
    LoadSearch,
)
from daskpart.partitioners.refinement.renumber import renumbered
from daskpart.partitioners.refinement.routes import loads_of
from daskpart.partitions import Partition

seeds = st.integers(0, 2**32 - 1)
parts_counts = st.sampled_from([2, 3, 5, 6, 8, 13, 16])


def random_case(seed: int, n_parts: int) -> tuple[Hypergraph, Partition]:
    rng = np.random.default_rng(seed)
    hypergraph = random_hypergraph(rng)
    assignment = rng.integers(0, n_parts, hypergraph.n_vertices)
    return hypergraph, Partition(assignment, n_parts, hypergraph.vertex_weights)


def measured(hypergraph: Hypergraph, partition: Partition, metric: str) -> float:
    """Each metric by the public functions, for unit costs."""
    pairs = Connectivity.from_partition(hypergraph, partition)
    straight = packed_owners([pairs])[0].rank_volume()
    volume = hypercube_volume(embedded_packed_owners([pairs])[0])
    return {
        "connectivity": pairs.connectivity_minus_one,
        "cut-net": pairs.cut_net,
        "power": pairs.power,
        "max-connectivity": pairs.max_connectivity,
        "concurrent-volume": pairs.concurrent_volume,
        "routed-volume": lambda: volume.total_rows,
        "busiest-volume": lambda: (volume.send + volume.receive).max(axis=1).sum(),
        "max-send-volume": lambda: most_sent(pairs),
        "max-volume": lambda: (straight.send + straight.receive).max(),
    }[metric]()


def most_sent(pairs: Connectivity) -> int:
    """Nets of many parts first, each to the part that sends least so far."""
    sent = [0] * pairs.n_parts
    groups = [group.tolist() for group in np.split(pairs.parts, pairs.pointer[1:-1])]
    for members in sorted(groups, key=len, reverse=True):
        if members:
            owner = min(members, key=lambda part: sent[part])
            sent[owner] += len(members) - 1
    return max(sent)


def test_the_power_is_told_in_units_of_its_own_for_any_rho():
    hypergraph, start = random_case(1, 5)
    refined = refine(hypergraph, start, "power", rho=2.5)
    before, after = (
        Connectivity.from_partition(hypergraph, one).power(2.5) for one in (start, refined)
    )
    assert (refined.info["metric_before"], refined.info["metric_after"]) == (before, after)
    assert after < before


@settings(max_examples=15)
@given(seeds, parts_counts, st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from(METRICS))
def test_never_worse_and_as_balanced(seed, n_parts, epsilon, metric):
    hypergraph, start = random_case(seed, n_parts)
    hypergraph = Hypergraph.from_nets(
        hypergraph.net_pointer,
        hypergraph.pins,
        hypergraph.n_vertices,
        vertex_weights=hypergraph.vertex_weights,
    )
    given_parts = start.assignment.copy()
    found = refine(hypergraph, start, metric, epsilon=epsilon, random_state=seed)
    before, after = (measured(hypergraph, p, metric) for p in (start, found))
    assert after <= before
    assert found.info["metric_before"] == before and found.info["metric_after"] == after
    allowed = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
    assert found.part_weights.max() <= max(allowed, start.part_weights.max())
    assert (start.assignment == given_parts).all()
    again = refine(hypergraph, start, metric, epsilon=epsilon, random_state=seed)
    assert (again.assignment == found.assignment).all()


def bounds_around(partition: Partition) -> tuple[int, int]:
    """What parts may weigh: little room, and parts on both sides of it."""
    mean = float(partition.part_weights.mean())
    return int(0.8 * mean), int(1.2 * mean)


def assert_within(bounds: tuple[int, int], start: Partition, found: Partition) -> None:
    """No part has grown past the most, or shrunk below the least."""
    least, most = bounds
    assert (found.part_weights <= np.maximum(most, start.part_weights)).all()
    assert (found.part_weights >= np.minimum(least, start.part_weights)).all()


@given(
    seeds,
    parts_counts,
    st.sampled_from([ROUTED, BUSIEST, MAX_SEND, MAX_BOTH]),
    st.booleans(),
    st.booleans(),
)
def test_loads_kept_equal_loads_counted(seed, n_parts, metric, by_vertex, bounded):
    hypergraph, start = random_case(seed, n_parts)
    bounds = bounds_around(start) if bounded else (0, 10**9)
    first_pin = np.append(hypergraph.pins, 0)[hypergraph.net_pointer[:-1]].astype(np.int64)
    vertices = first_pin if by_vertex else np.empty(0, np.int64)
    rng = np.random.default_rng(seed)
    search = LoadSearch(hypergraph, start, metric, int(rng.choice([1, 2, 4])), vertices)
    for _ in range(3):
        before = search.objective()
        n_moved = search.offer(rng.permutation(hypergraph.n_vertices), bounds)
        here = Partition(search.assignment, n_parts, hypergraph.vertex_weights)
        assert_within(bounds, start, here)
        pairs = Connectivity.from_partition(hypergraph, here)
        rows = search.rows
        counted = loads_of(pairs.pointer, pairs.parts, pairs.costs, rows.owners, n_parts, rows.form)
        assert (rows.load == counted).all() and (search.room == here.part_weights).all()
        assert search.objective() < before or n_moved == 0
        if by_vertex:
            pinned = np.diff(hypergraph.net_pointer) > 0
            assert (rows.owners == here.assignment[vertices])[pinned].all()


@given(seeds, parts_counts)
def test_loads_are_those_of_the_collectives(seed, n_parts):
    hypergraph, start = random_case(seed, n_parts)
    pairs = Connectivity.from_partition(hypergraph, start)
    unit = Hypergraph.from_nets(hypergraph.net_pointer, hypergraph.pins, hypergraph.n_vertices)
    volume = hypercube_volume(embedded_packed_owners([pairs])[0])
    assert ROUTED.measure(unit, start) == volume.total_rows
    straight = packed_owners([pairs])[0].rank_volume()
    loads = MAX_BOTH.loads(unit, start)
    assert loads[0].tolist() == (straight.send + straight.receive).tolist()


@given(seeds, parts_counts, st.booleans())
def test_no_bit_flip_is_left_that_lowers_the_concurrent_volume(seed, n_parts, bounded):
    hypergraph, start = random_case(seed, n_parts)
    least, most = bounds = bounds_around(start) if bounded else (0, 10**9)
    moved = start.assignment
    for _ in range(6):  # rounds end early where one gains little
        moved = lower_concurrent_volume(hypergraph, moved, n_parts, bounds, random_state=seed)
    volume = concurrent(hypergraph, moved, n_parts)
    assert volume <= concurrent(hypergraph, start.assignment, n_parts)
    assert_within(bounds, start, replace(start, assignment=moved))
    load = replace(start, assignment=moved).part_weights
    for vertex in range(0, hypergraph.n_vertices, 5):
        weight = hypergraph.vertex_weights[vertex]
        for part in range(n_parts):
            if load[moved[vertex]] - weight >= least and load[part] + weight <= most:
                other = moved.copy()
                other[vertex] = part
                assert concurrent(hypergraph, other, n_parts) >= volume


def concurrent(hypergraph: Hypergraph, assignment: np.ndarray, n_parts: int) -> int:
    pairs = Connectivity.from_partition(hypergraph, Partition(assignment, n_parts))
    return pairs.concurrent_volume()


@given(seeds, st.sampled_from([2, 5, 8]), st.sampled_from(METRICS))
@settings(max_examples=20)
def test_fixed_vertices_stay(seed, n_parts, metric):
    hypergraph, start = random_case(seed, n_parts)
    kept = np.random.default_rng(seed).random(hypergraph.n_vertices) < 0.4
    fixed = np.where(kept, start.assignment, -1)
    found = refine(hypergraph, start, metric, fixed=fixed, epsilon=0.2)
    assert (found.assignment[kept] == start.assignment[kept]).all()


def test_renumbering_keeps_company():
    """Eight parts in a ring, numbered badly: neighbours of the ring become those of the cube."""
    ring = np.array([0, 7, 1, 6, 2, 5, 3, 4])
    nets = [[ring[k], ring[(k + 1) % 8]] for k in range(8)]
    hypergraph = Hypergraph.from_nets(np.arange(0, 17, 2), np.ravel(nets), 8)
    start = Partition(np.arange(8), 8)

    def measure(parts: Partition) -> int:
        return concurrent(hypergraph, parts.assignment, 8)

    found = renumbered(hypergraph, start, measure, get_engine("multilevel"))
    assert sorted(found.assignment) == list(range(8))
    assert measure(found) < measure(start) and measure(found) <= 10


def test_heavy_senders_are_relieved(monkeypatch):
    """A few popular vertices make their rank busy; the best of all rounds is kept."""
    measure, seen = LoadMetric.measure, []
    monkeypatch.setattr(LoadMetric, "measure", lambda *how: seen.append(measure(*how)) or seen[-1])
    rng = np.random.default_rng(0)
    pins = (400 * rng.random((500, 6)) ** 3).astype(int)
    hypergraph = Hypergraph.from_nets(np.arange(0, 3001, 6), pins.ravel(), 400)
    start = partition(hypergraph, 8, method="block")
    for metric, at_most in (
        ("max-volume", 0.8),
        ("max-send-volume", 0.97),
        ("busiest-volume", 0.9),
    ):
        seen.clear()
        found = refine(hypergraph, start, metric)
        assert found.info["metric_after"] < at_most * found.info["metric_before"]
        assert found.info["metric_after"] == min(seen)
        assert found.info["refined"] == metric and found.info["method"] == "block"


def test_graphs_own_by_vertex():
    rng = np.random.default_rng(1)
    graph = scipy.sparse.random_array((120, 120), density=0.05, rng=rng).tocsr()
    start = partition(graph, 6, method="random", model="column-net-self-loops")
    found = refine(graph, start, "max-send-volume")
    assert found.info["metric_after"] < found.info["metric_before"]
    assert refine(graph, start, "max-send-volume", owners="vertices") == found
    packed = refine(graph, start, "max-send-volume", owners="packed")
    assert packed.info["metric_before"] != found.info["metric_before"]


def test_bad_input():
    hypergraph, start = random_case(0, 4)
    cases = [
        ({"metric": "staleness"}, "metric is 'staleness': use one of"),
        ({"epsilon": -1}, "epsilon is -1"),
        ({"owners": "nobody"}, "owners is 'nobody'"),
        ({"metric": "max-volume", "owners": [0]}, "1 owners for"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"fixed": (start.assignment + 1) % 4}, "fix vertices where they are"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            refine(hypergraph, start, **options)
    with pytest.raises(InputError, match="which is not in it"):
        nobody = np.full(hypergraph.n_nets, hypergraph.n_vertices)
        refine(hypergraph, start, "max-volume", owners=nobody)
    with_empty = Hypergraph.from_nets([0, 2, 2], [0, 1], 2)
    halves = Partition([0, 1], 2)
    refine(with_empty, halves, "max-volume", owners=[0, -1])  # who owns what nobody touches?
    for outside in (2, -2):
        with pytest.raises(InputError, match="net 1 is owned by vertex"):
            refine(with_empty, halves, "max-volume", owners=[0, outside])
    first_empty = Hypergraph.from_nets([0, 0, 2], [0, 1], 2)
    for outside in (2, -2):  # also where the next net begins at the same pin
        with pytest.raises(InputError, match="net 0 is owned by vertex"):
            refine(first_empty, halves, "max-volume", owners=[outside, 0])
    with pytest.raises(InputError):
        refine(hypergraph, Partition([0, 1], 2))
    with pytest.raises(InputError, match="give a Partition, second"):
        refine(start, hypergraph)


def test_what_came_of_it_is_printed():
    hypergraph, start = random_case(0, 4)
    refined = refine(hypergraph, start, "connectivity")
    before, after = (refined.info[f"metric_{when}"] for when in ("before", "after"))
    assert f"connectivity {before:,} → {after:,}" in repr(refined)


def test_one_part_and_empty_parts():
    hypergraph, _ = random_case(3, 4)
    alone = Partition(np.zeros(hypergraph.n_vertices, int), 1)
    lonely = Partition(np.zeros(hypergraph.n_vertices, int), 8)
    for metric in METRICS:
        assert refine(hypergraph, alone, metric).n_parts == 1
        assert refine(hypergraph, lonely, metric).info["metric_after"] <= 1


@given(seeds, st.sampled_from(METRICS), st.booleans())
@settings(max_examples=60)
def test_a_part_that_weighs_nothing_keeps_a_vertex(seed, metric, even):
    hypergraph, _ = random_case(seed, 3)
    weights = np.array(hypergraph.vertex_weights)
    start = np.arange(len(weights)) % 3
    weights[start == 2] = 0
    weightless = replace(hypergraph, vertex_weights=weights)
    found = refine(weightless, Partition(start, 3, weights), metric, even=even)
    assert np.bincount(found.assignment, minlength=3).all()


@pytest.mark.parametrize("metric", ["connectivity", "max-volume"])
def test_nets_of_sampled_mini_batches_are_no_vertices_and_are_packed(metric):
    graph = scipy.sparse.random_array((40, 40), density=0.1, rng=np.random.default_rng(0))
    start = partition(graph, 3, model="stochastic", method="random")
    found = refine(graph, start, metric)
    assert found.info["metric_after"] <= found.info["metric_before"]


def test_rows_that_cost_more_are_packed_first():
    nets = Hypergraph.from_nets([0, 3, 6, 9, 12], [0, 1, 2] * 4, 3, net_costs=[100, 1, 1, 100])
    each = Partition([0, 1, 2], 3)
    assert MAX_BOTH.loads(nets, each).max() == 302  # 402 where both dear rows have one owner


@pytest.mark.parametrize("options", [{}, {"random_state": 5}])
def test_a_sampled_model_is_built_again_as_it_was(options):
    graph = scipy.sparse.random_array((60, 60), density=0.1, random_state=0)
    model = stochastic(graph, 3, **options)
    found = partition(model, 3, random_state=1)
    wanted = Connectivity.from_partition(model.hypergraph, found).connectivity_minus_one()
    assert refine(graph, found).info["metric_before"] == wanted
    found = partition(graph, 3, model="stochastic", random_state=4)
    wanted = refine(stochastic(graph, 3, random_state=4), found)
    assert refine(graph, found).info["metric_before"] == wanted.info["metric_before"]


def test_a_model_that_cannot_be_built_again_is_asked_for():
    graph = scipy.sparse.random_array((60, 60), density=0.1, random_state=0)
    for options in ({"theta": 0.5}, {"sampler": VertexSampler(0.3)}):
        model = stochastic(graph, 3, **options)
        found = partition(model, 3)
        assert refine(model, found).info["refined"] == "connectivity"
        with pytest.raises(InputError, match="give the DataModel that was cut as the data"):
            refine(graph, found)


def test_rows_of_a_tensor_keep_their_length():
    tensor = sparse.random((9, 8, 7), density=0.1, random_state=0)
    model = medium_grain(tensor, row_length=16)
    found = partition(model, 3)
    assert refine(tensor, found).info == {
        **refine(model, found).info,
        "refine_seconds": pytest.approx(0, abs=60),
    }
