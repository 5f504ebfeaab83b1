"""Hypercube mapping: exact accounting, Algorithm 3 as plain Python, any K, fixed vertices."""

from __future__ import annotations

import numpy as np
import pytest
from hypergraphs import hypergraph_of, nets_of, random_hypergraph
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.errors import EngineError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import get_engine, partition
from daskpart.partitioners.hypercube import hypercube_mapping
from daskpart.partitions import Partition

seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore::daskpart.errors.BalanceWarning")


class DrawingEngine:
    """Sides drawn at random; it notes the nets that it is shown."""

    name = "drawing"

    def __init__(self) -> None:
        self.shown: list[list[tuple[set[int], int]]] = []

    def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
        nets = map(set, nets_of(hypergraph))
        self.shown.append(list(zip(nets, hypergraph.net_costs.tolist(), strict=True)))
        assert fixed[-2:].tolist() == [0, 1] and hypergraph.vertex_weights[-2:].tolist() == [0, 0]
        drawn = np.random.default_rng(random_state).integers(0, 2, hypergraph.n_vertices)
        return np.where(fixed >= 0, fixed, drawn).astype(np.int8)

    def partition(self, hypergraph, n_parts, epsilon, random_state):
        raise NotImplementedError


def concurrent_volume(hypergraph: Hypergraph, assignment: np.ndarray, n_parts: int) -> int:
    connectivity = Connectivity.from_partition(hypergraph, Partition(assignment, n_parts))
    return connectivity.concurrent_volume()


@given(seeds, st.integers(1, 17), st.booleans())
def test_costs_paid_are_the_concurrent_volume(seed, n_parts, multilevel):
    hypergraph = random_hypergraph(np.random.default_rng(seed))
    engine = get_engine("multilevel") if multilevel else DrawingEngine()
    bipartition, calls = engine.bipartition, []
    engine.bipartition = lambda *given: calls.append(given) or bipartition(*given)
    found = hypercube_mapping(hypergraph, n_parts, engine, random_state=seed)
    assert found.cost_paid == concurrent_volume(hypergraph, found.assignment, n_parts)
    assert len(calls) <= n_parts - 1
    assert found.assignment.min() >= 0 and found.assignment.max() < n_parts


@settings(max_examples=25)
@given(seeds, st.sampled_from([2, 4, 5, 8, 11]))
def test_engine_is_shown_the_nets_of_algorithm_3(seed, n_parts):
    hypergraph = random_hypergraph(np.random.default_rng(seed))
    engine = DrawingEngine()
    parts = hypercube_mapping(hypergraph, n_parts, engine, random_state=seed).assignment
    nets = nets_of(hypergraph)
    shown = iter(engine.shown)
    for bit in range((n_parts - 1).bit_length()):
        state = [set() for _ in nets]
        unsplit_first = sorted(breadth_first(bit), key=lambda end: end + (1 << bit) < n_parts)
        for end in unsplit_first:
            members = np.flatnonzero(parts & ((1 << bit) - 1) == end)
            place = {vertex: number for number, vertex in enumerate(members.tolist())}
            expected = []
            for number, net in enumerate(nets):
                pins = {place[vertex] for vertex in net if vertex in place}
                if not pins or state[number] == {0, 1}:
                    continue
                anchors = {len(members) + side for side in state[number]}
                if len(pins | anchors) > 1:
                    expected.append((pins | anchors, int(hypergraph.net_costs[number])))
            if end + (1 << bit) < n_parts and len(members):
                assert next(shown) == expected
            for number, net in enumerate(nets):
                state[number] |= {int(parts[v]) >> bit & 1 for v in net if v in place}
    assert next(shown, None) is None


def breadth_first(bit: int) -> list[int]:
    """Ends of `bit` bits in the order of the tree: both children of the first piece, and so on."""
    ends = [0]
    for level in range(bit):
        ends = [end for parent in ends for end in (parent, parent + (1 << level))]
    return ends


@settings(max_examples=20)
@given(seeds, st.sampled_from([2, 3, 6, 8, 13]), st.sampled_from([0.03, 0.1]))
def test_balance_of_unit_weights(seed, n_parts, epsilon):
    hypergraph = random_hypergraph(np.random.default_rng(seed), heaviest=1)
    engine = get_engine("multilevel")
    found = hypercube_mapping(hypergraph, n_parts, engine, epsilon, random_state=seed)
    allowed = max(
        (1 + epsilon) * hypergraph.n_vertices / n_parts, -(-hypergraph.n_vertices // n_parts)
    )
    assert np.bincount(found.assignment, minlength=n_parts).max() <= allowed


@given(seeds, st.sampled_from([2, 3, 7, 8]))
def test_fixed_vertices_stay(seed, n_parts):
    hypergraph = random_hypergraph(np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    fixed = np.where(rng.random(hypergraph.n_vertices) < 0.3, 1, 0)
    fixed = np.where(fixed, rng.integers(0, n_parts, hypergraph.n_vertices), -1).astype(np.int32)
    engine = get_engine("multilevel")
    found = hypercube_mapping(hypergraph, n_parts, engine, random_state=1, fixed=fixed)
    assert (found.assignment[fixed >= 0] == fixed[fixed >= 0]).all()
    assert found.cost_paid == concurrent_volume(hypergraph, found.assignment, n_parts)


def test_method_of_partition():
    hypergraph = random_hypergraph(np.random.default_rng(5))
    mapped = partition(hypergraph, 8, method="hypercube", polish=False, random_state=3)
    assert mapped.info["cost_paid"] == concurrent_volume(hypergraph, mapped.assignment, 8)
    assert mapped.info["objective"] == "concurrent-volume" and mapped.info["engine"] == "multilevel"
    again = partition(hypergraph, 8, method="hypercube", polish=False, random_state=3)
    assert (mapped.assignment == again.assignment).all()


def test_groups_that_meet_become_neighbours():
    """A ring of 8 cliques joined by one net each: bits of a Gray code differ once a step."""
    nets = [list(range(10 * k, 10 * k + 10)) for k in range(8) for _ in range(5)]
    nets += [[10 * k, (10 * k + 10) % 80] for k in range(8)]
    pointer = np.cumsum([0, *(len(net) for net in nets)])
    hypergraph = Hypergraph.from_nets(pointer, np.concatenate(nets), 80)
    engine = get_engine("multilevel")
    best = min(
        hypercube_mapping(hypergraph, 8, engine, random_state=seed).cost_paid for seed in range(3)
    )
    plain = partition(hypergraph, 8, method="recursive", polish=False)
    assert best <= 10 < 12  # 8 where all neighbours of the ring differ in a bit
    assert best <= concurrent_volume(hypergraph, plain.assignment, 8)


def test_an_engine_that_moves_an_anchor_is_named():
    class Careless(DrawingEngine):
        def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
            return np.zeros(hypergraph.n_vertices, np.int8)

    with pytest.raises(EngineError, match="'drawing' moved fixed vertex 54"):
        hypercube_mapping(random_hypergraph(np.random.default_rng(2)), 2, Careless())


@pytest.mark.parametrize("seed", range(6))
def test_no_part_is_relieved_below_a_vertex_that_is_too_heavy(seed):
    """It would cost volume, and the heaviest part would be as heavy as before."""
    rng = np.random.default_rng(seed)
    weights, sizes = rng.integers(1, 40, 120), rng.integers(2, 8, 90)
    weights[0] = 3 * weights.sum() // 32
    drawn = [rng.choice(120, size, replace=False) for size in sizes]
    nets = hypergraph_of(drawn, 120, vertex_weights=weights)
    mapped, moved = (
        partition(nets, 32, method="hypercube", polish=polish, epsilon=0.03)
        for polish in (False, True)
    )
    assert moved.part_weights.max() == weights[0]
    before, after = (concurrent_volume(nets, found.assignment, 32) for found in (mapped, moved))
    assert after <= before
