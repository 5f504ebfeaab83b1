"""Recursive bipartitioning: exact accounting, the tree, the balance it keeps, and any engine."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypergraphs import random_nets
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning, EngineError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import ConnectivityMinusOne, CutNet, PowerConnectivity, get_engine
from daskpart.partitioners.recursive import recursive_bipartition
from daskpart.partitions import Partition

OBJECTIVES = {
    "cut-net": (CutNet(), lambda c: c.cut_net()),
    "connectivity": (ConnectivityMinusOne(), lambda c: c.connectivity_minus_one()),
    "rho=1": (PowerConnectivity(1), lambda c: c.soed()),
    "rho=2": (PowerConnectivity(2), lambda c: c.power(2)),
    "rho=3": (PowerConnectivity(3), lambda c: c.power(3)),
}


class RandomEngine:
    """A user's engine in a few lines: random order, side 0 until its target is reached."""

    name = "random order"

    def __init__(self) -> None:
        self.calls: list[tuple[Hypergraph, list[int], float, np.ndarray | None]] = []

    def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
        self.calls.append((hypergraph, targets.tolist(), epsilon, fixed))
        order = np.random.default_rng(random_state).permutation(hypergraph.n_vertices)
        passed = np.cumsum(hypergraph.vertex_weights[order])
        sides = np.empty(hypergraph.n_vertices, np.int8)
        sides[order] = passed > self.side_0_may_weigh(targets, epsilon)
        return sides if fixed is None else np.where(fixed >= 0, fixed, sides)

    def side_0_may_weigh(self, targets, epsilon):
        return targets[0]


class GreedyEngine(RandomEngine):
    """As heavy a side 0 as the imbalance allows: the worst that an engine may do."""

    name = "heavy left"

    def side_0_may_weigh(self, targets, epsilon):
        return np.floor((1 + epsilon) * targets[0] + 1e-9)


class InOrderEngine(RandomEngine):
    """The first vertices to side 0."""

    def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
        self.calls.append((hypergraph, targets.tolist(), epsilon, fixed))
        return (np.cumsum(hypergraph.vertex_weights) > targets[0]).astype(np.int8)


@contextmanager
def quiet():
    """Small random pieces cannot all balance; the engine says so, which is not asked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        yield


def some_nets(seed: int) -> Hypergraph:
    rng = np.random.default_rng(seed)
    n_vertices, n_nets = int(rng.integers(8, 50)), int(rng.integers(0, 40))
    return random_nets(rng, n_vertices, n_nets, (0, 12), (0, 5), (0, 5))


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 4, 5, 7, 8]))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_costs_paid_add_up_to_the_metric_exactly(name, seed, n_parts):
    """Theorem 1 for every table: with random cuts many nets split again and again."""
    hypergraph = some_nets(seed)
    objective, metric = OBJECTIVES[name]
    found = recursive_bipartition(hypergraph, n_parts, objective, RandomEngine(), random_state=seed)
    partition = Partition(found.assignment, n_parts)
    assert found.cost_paid == metric(Connectivity.from_partition(hypergraph, partition))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("n_parts", [2, 5, 8])
def test_costs_paid_add_up_with_our_engine(name, n_parts):
    hypergraph = some_nets(7)
    objective, metric = OBJECTIVES[name]
    with quiet():
        found = recursive_bipartition(hypergraph, n_parts, objective, get_engine("multilevel"))
    partition = Partition(found.assignment, n_parts)
    assert found.cost_paid == metric(Connectivity.from_partition(hypergraph, partition))


@given(st.integers(0, 2**32 - 1))
def test_a_fractional_rho_is_exact_in_its_scaled_table(seed):
    hypergraph, objective = some_nets(seed), PowerConnectivity(1.5)
    found = recursive_bipartition(hypergraph, 5, objective, RandomEngine())
    incidence = Connectivity.from_partition(hypergraph, Partition(found.assignment, 5))
    cost_table = objective.cost_table(5)
    paid = (incidence.costs * cost_table[incidence.connectivity]).sum()
    assert found.cost_paid == paid
    assert paid / objective.scale == pytest.approx(incidence.power(1.5), rel=1e-3)


def test_figure_4_of_the_pasgd_paper():
    """One net over four parts pays 4, then 5 on the left, then (λ is shared) 7 on the right."""
    engine = InOrderEngine()
    net = Hypergraph.from_nets([0, 4], [0, 1, 2, 3], 4)
    found = recursive_bipartition(net, 4, PowerConnectivity(2), engine)
    assert [call[0].net_costs.tolist() for call in engine.calls] == [[4], [5], [7]]
    assert found.assignment.tolist() == [0, 1, 2, 3]
    assert found.cost_paid == 16


def test_breadth_first_with_uneven_targets():
    engine = InOrderEngine()
    found = recursive_bipartition(
        Hypergraph.from_nets([0], [], 10), 5, ConnectivityMinusOne(), engine, epsilon=0.5
    )
    assert [call[1] for call in engine.calls] == [[6, 4], [4, 2], [2, 2], [2, 2]]
    # a part may weigh 3: what is left of that on the path of three, two, one and one bipartitions
    freedom = [(3 * 5 / 10) ** (1 / 3), (3 * 3 / 6) ** (1 / 2), 3 * 2 / 4, 3 * 2 / 4]
    assert [1 + call[2] for call in engine.calls] == pytest.approx(freedom)
    assert found.assignment.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_cut_nets_are_split_or_removed_and_single_pins_left_out():
    nets = Hypergraph.from_nets([0, 4, 7, 9], [0, 1, 2, 3, 0, 1, 2, 2, 3], 4)
    split, removed = InOrderEngine(), InOrderEngine()
    recursive_bipartition(nets, 4, ConnectivityMinusOne(), split)
    recursive_bipartition(nets, 4, CutNet(), removed)
    assert [call[0].n_nets for call in split.calls] == [3, 2, 2]
    assert split.calls[1][0].pins.tolist() == [0, 1, 0, 1]
    assert [call[0].n_nets for call in removed.calls] == [3, 0, 1]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 4, 5, 7, 8, 11, 16]),
    st.sampled_from([0.0, 0.03, 0.1, 0.5]),
)
def test_the_final_balance_holds_whatever_the_engine_uses_up(seed, n_parts, epsilon):
    n_vertices = int(np.random.default_rng(seed).integers(n_parts, 300))
    free = Hypergraph.from_nets([0], [], n_vertices)
    found = recursive_bipartition(
        free, n_parts, ConnectivityMinusOne(), GreedyEngine(), epsilon, seed
    )
    heaviest = np.bincount(found.assignment, minlength=n_parts).max()
    assert heaviest <= max(
        np.floor((1 + epsilon) * n_vertices / n_parts), -(-n_vertices // n_parts)
    )


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 8]))
def test_fixed_vertices_reach_their_parts(seed, n_parts):
    hypergraph = some_nets(seed)
    rng = np.random.default_rng(seed)
    fixed = np.where(rng.random(hypergraph.n_vertices) < 0.3, rng.integers(0, n_parts), -1)
    for engine in (RandomEngine(), get_engine("multilevel")):
        with quiet():
            found = recursive_bipartition(
                hypergraph, n_parts, CutNet(), engine, 0.5, 0, fixed.astype(np.int32)
            )
        assert (found.assignment[fixed >= 0] == fixed[fixed >= 0]).all()


def test_same_seed_same_parts():
    hypergraph, objective = some_nets(1), PowerConnectivity(2)
    first, again, other = (
        recursive_bipartition(hypergraph, 6, objective, RandomEngine(), 0.03, seed).assignment
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_weights_that_are_all_zero_balance_the_vertices(n_parts):
    weightless = Hypergraph.from_nets([0], [], 10, vertex_weights=np.zeros(10))
    found = recursive_bipartition(weightless, n_parts, CutNet(), RandomEngine())
    assert np.bincount(found.assignment).tolist() == [10 // n_parts] * n_parts


def test_a_vertex_heavier_than_a_part_is_no_obstacle():
    heavy = Hypergraph.from_nets([0, 2], [0, 1], 6, vertex_weights=[100, 1, 1, 1, 1, 1])
    for engine in (RandomEngine(), get_engine("multilevel")):
        with quiet():
            found = recursive_bipartition(heavy, 4, ConnectivityMinusOne(), engine)
        assert set(found.assignment) <= {0, 1, 2, 3}


class WrongEngine(RandomEngine):
    name = "wrong"

    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def bipartition(self, hypergraph, targets, epsilon, fixed, random_state):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            np.zeros(3, np.int8),
            "engine 'wrong' answered an array of shape (3,) and type int8",
        ),
        (np.array([0, 1, 2, 0]), "4 parts, each 0 to 1, were asked"),
        (np.array([0, 0.5, 1, 1]), "4 parts, each 0 to 1, were asked"),
        (np.array([0, 1, 1, 0]), "engine 'wrong' moved fixed vertex 3 to side 0"),
    ],
)
def test_a_wrong_answer_of_an_engine_is_an_error(answer, message):
    fixed = np.array([-1, -1, -1, 1], np.int32)
    with pytest.raises(EngineError) as caught:
        recursive_bipartition(
            Hypergraph.from_nets([0], [], 4), 2, CutNet(), WrongEngine(answer), fixed=fixed
        )
    assert message in str(caught.value)
