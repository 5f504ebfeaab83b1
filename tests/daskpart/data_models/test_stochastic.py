"""Samplers draw what they say; the stochastic model merges it and meets the Hoeffding bound."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.data_models import (
    Adjacency,
    Layer,
    LayerSampler,
    NeighbourSampler,
    VertexSampler,
    nets_needed,
    samplers,
    stochastic,
)
from daskpart.data_models.draws import drawn_with, key_of
from daskpart.errors import InputError


def random_graph(n: int, degree: float, seed: int = 0) -> scipy.sparse.coo_array:
    return scipy.sparse.random_array((n, n), density=min(1.0, degree / n), rng=seed)


def edges_of(layer: Layer) -> set[tuple[int, int]]:
    return set(zip(layer.targets.tolist(), layer.sources.tolist(), strict=True))


def all_edges(matrix: scipy.sparse.coo_array) -> set[tuple[int, int]]:
    rows, columns = matrix.coords
    return {(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if i != j}


def draw(sampler: object, matrix: scipy.sparse.coo_array, seed: int) -> list[Layer]:
    graph = Adjacency.of(as_matrix(matrix))
    return sampler.draw(graph, np.random.default_rng(seed))  # type: ignore[attr-defined]


@given(st.integers(2, 40), st.integers(0, 100), st.data())
def test_a_vertex_sample_has_all_edges_among_its_vertices(
    n: int, seed: int, data: st.DataObject
) -> None:
    matrix = random_graph(n, 3, seed)
    size = data.draw(st.integers(1, n))
    (layer,) = draw(VertexSampler(size), matrix, seed)
    chosen = set(layer.vertices.tolist())
    assert len(chosen) == len(layer.vertices) == size
    inside = {(i, j) for i, j in all_edges(matrix) if i in chosen and j in chosen}
    assert edges_of(layer) == inside and len(layer.targets) == len(inside)


@given(st.integers(2, 40), st.integers(0, 100), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_neighbours_are_as_many_as_asked(n: int, seed: int, fanouts: list[int]) -> None:
    matrix = random_graph(n, 3, seed)
    layers = draw(NeighbourSampler(min(n, 3), fanouts), matrix, seed)
    degrees = {v: len([1 for i, _ in all_edges(matrix) if i == v]) for v in range(n)}
    targets = None
    for layer, fanout in zip(layers, fanouts, strict=True):
        assert edges_of(layer) <= all_edges(matrix)
        assert len(edges_of(layer)) == len(layer.targets)
        if targets is not None:
            taken = np.bincount(layer.targets, minlength=n)
            assert [taken[v] for v in targets] == [min(fanout, degrees[v]) for v in targets]
        assert set(layer.sources.tolist()) <= set(layer.vertices.tolist())
        targets = layer.vertices.tolist()
    assert len(layers[0].vertices) >= min(n, 3)


def test_neighbours_are_drawn_evenly() -> None:
    star = scipy.sparse.coo_array(
        (np.ones(9), (np.zeros(9, int), np.arange(1, 10))), shape=(10, 10)
    )
    counts = np.zeros(10)
    for seed in range(600):
        layer = draw(NeighbourSampler(10, [3]), star, seed)[0]
        counts[layer.sources] += 1
    assert counts.sum() == 1800 and abs(counts[1:] - 200).max() < 50


def test_layers_follow_the_importance_of_their_vertices() -> None:
    matrix = random_graph(60, 4)
    graph = Adjacency.of(as_matrix(matrix))
    normal = np.zeros((60, 60))
    normal[matrix.coords] = 1
    np.fill_diagonal(normal, 1)
    degrees = normal.sum(axis=1)
    normal /= np.sqrt(np.outer(degrees, degrees))
    expected = (normal**2).sum(axis=0)
    assert np.allclose(graph.importance, expected / expected.sum())
    probabilities = LayerSampler(30).probabilities(graph)
    assert probabilities.sum() == pytest.approx(30) and probabilities.max() <= 1
    ratio = (probabilities / graph.importance)[probabilities < 1]
    assert np.allclose(ratio, ratio[0])
    assert LayerSampler(30).probabilities(graph) is probabilities  # of the next mini-batch
    assert LayerSampler(60).probabilities(graph) == pytest.approx(1)
    layers = draw(LayerSampler(0.2, n_layers=3), matrix, 1)
    assert len(layers) == 3
    for layer in layers:
        assert edges_of(layer) <= all_edges(matrix)
        assert len(np.unique(layer.vertices)) == len(layer.vertices)
    below = pairwise(layers)
    assert all(set(low.targets) <= set(high.vertices) for high, low in below)
    seeds = np.array([3, 8, 21])
    for sampler in (LayerSampler(2, 1, seeds), NeighbourSampler(2, (3,), seeds)):
        assert {*draw(sampler, matrix, 0)[0].targets.tolist()} <= {*seeds.tolist()}


@pytest.mark.parametrize(
    ("seeds", "why"),
    [
        (np.arange(50) < 10, "mask of shape .50,.: give the numbers"),
        ([-1, 3], "seed -1 is out of range: seeds are 0 to 49"),
        ([3, 50], "seed 50 is out of range"),
        ([0.5, 1.0], "whole numbers"),
        (["a"], "whole numbers"),
        ([[1, 2]], "one-dimensional"),
        ([], "seeds is empty"),
    ],
)
def test_seeds_are_vertices_of_the_graph(seeds: object, why: str) -> None:
    matrix = random_graph(50, 3)
    for sampler in (LayerSampler(1, 2, seeds), NeighbourSampler(1, (3,), seeds)):  # type: ignore[arg-type]
        with pytest.raises(InputError, match=why):
            draw(sampler, matrix, 0)


def test_a_seed_given_twice_is_one() -> None:
    once, twice = (NeighbourSampler(0.6, (3,), seeds) for seeds in ([4, 9, 7], [9, 4, 7, 4, 9]))  # type: ignore[arg-type]
    matrix = random_graph(50, 3)
    for seed in range(5):
        (one,), (other,) = draw(once, matrix, seed), draw(twice, matrix, seed)
        assert edges_of(one) == edges_of(other) and len(one.targets) == len(other.targets)


def test_the_bound_of_hoeffding() -> None:
    assert nets_needed(27, 0.1, 0.5) == 46_857
    assert nets_needed(1, 0.1, 0.5) == nets_needed(9, 1e100, 0.5) == nets_needed(9, 1e300, 0.5) == 1
    model = stochastic(random_graph(500, 4), 4, sampler=VertexSampler(100), coverage=0)
    needed = nets_needed(4, 0.1, 0.5)
    assert model.facts["nets"] == 100 * -(-needed // 100)
    assert model.facts["batches"] == -(-needed // 100)


def test_mini_batches_hold_the_edges_several_times() -> None:
    matrix = random_graph(300, 4)
    few, many = (stochastic(matrix, 2, coverage=c).facts["batches"] for c in (2, 8))
    assert 3 < many / few < 5
    graph = Adjacency.of(as_matrix(matrix))
    generator = np.random.default_rng(0)
    drawn = [VertexSampler().draw(graph, generator)[0] for _ in range(many)]
    edges = np.cumsum([len(layer.targets) for layer in drawn])
    assert edges[-2] < 8 * len(graph.neighbours) <= edges[-1]


def test_of_a_small_graph_too_its_edges_are_drawn() -> None:
    """Two cliques are kept whole: a mini-batch of one vertex would have no edge."""
    half = np.arange(8) // 4
    matrix = scipy.sparse.coo_array(half[:, None] == half)
    partition = daskpart.partition(matrix, 2, model="stochastic")
    assert partition.info["sampler"] == "VertexSampler(size=2)"
    assert sorted(map(set, np.split(partition.assignment, 2))) == [{0}, {1}]


def test_the_bound_holds_for_a_partition() -> None:
    """Means over enough nets lie within θ of the mean over very many in 1 - δ of the draws."""
    matrix = random_graph(300, 6)
    partition = daskpart.partition(matrix, 3, method="random")

    def mean(seed: int, **options: int) -> float:
        model = stochastic(matrix, 3, theta=0.1, delta=0.2, coverage=0, random_state=seed,
                           **options)  # fmt: skip
        found = Connectivity.from_partition(model.hypergraph, partition)
        return 1 + found.connectivity_minus_one() / model.facts["nets"]

    truth = mean(999, n_batches=400)
    errors = np.array([abs(mean(seed) - truth) for seed in range(20)])
    assert np.count_nonzero(errors < 0.1) >= 16


@pytest.mark.parametrize(
    "sampler", [VertexSampler(40), NeighbourSampler(10, (3, 2)), LayerSampler(30, 2)]
)
def test_nets_are_sources_with_the_targets_that_need_them(sampler: object) -> None:
    matrix = random_graph(100, 5)
    model = stochastic(matrix, 4, sampler=sampler, n_batches=2, random_state=7)  # type: ignore[arg-type]
    generator = np.random.default_rng(7)
    graph = Adjacency.of(as_matrix(matrix))
    layers = [layer for _ in range(2) for layer in sampler.draw(graph, generator)]  # type: ignore[attr-defined]
    expected = Counter(
        tuple(sorted({int(j), *layer.targets[layer.sources == j].tolist()}))
        for layer in layers
        for j in layer.vertices
    )
    pointer, pins = model.hypergraph.net_pointer, model.hypergraph.pins
    found: Counter[tuple[int, ...]] = Counter()
    for net, cost in enumerate(model.hypergraph.net_costs.tolist()):
        found[tuple(pins[pointer[net] : pointer[net + 1]].tolist())] += cost
    assert found == Counter({net: n for net, n in expected.items() if len(net) > 1})
    assert model.facts["nets"] == expected.total()
    two_pins = np.diff(pointer) == 2
    assert two_pins.sum() == len([net for net in expected if len(net) == 2])
    assert model.hypergraph.n_vertices == 100
    rows = np.bincount([i for i, _ in all_edges(matrix)], minlength=100) + 1
    assert model.hypergraph.vertex_weights.tolist() == rows.tolist()
    assert model.facts["batches"] == 2 and model.facts["sampler"] == repr(sampler)


def test_same_seed_same_model() -> None:
    matrix = random_graph(200, 4)
    first, again, other = (stochastic(matrix, 3, random_state=seed) for seed in (5, 5, 6))
    assert first.hypergraph == again.hypergraph != other.hypergraph
    cut = daskpart.partition(matrix, 3, model="stochastic", random_state=5)
    assert cut.info["batches"] == first.facts["batches"]
    assert cut.nonzero_parts(matrix).shape == (matrix.nnz,)


class _Nothing:
    def draw(self, graph: Adjacency, generator: np.random.Generator) -> list[Layer]:
        return []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theta": 0}, "theta is 0: give a finite number above 0"),
        ({"theta": float("nan")}, "theta is nan"),
        ({"theta": 1e-5}, "with 3 parts that takes 2.77e.10 nets, too many"),
        ({"theta": 1e-170}, "too many for 32-bit numbers: use a larger theta"),
        ({"delta": 1e-320}, "too many for 32-bit numbers: use a larger theta"),
        ({"delta": 1}, "delta=1; it must be between 0 and 1"),
        ({"coverage": -1}, "coverage is -1"),
        ({"n_batches": 0}, "n_batches is 0"),
        ({"random_state": -1}, "random_state is -1"),
        ({"sampler": VertexSampler(300)}, "size of a mini-batch is 300: it must be at most 200"),
        ({"sampler": VertexSampler(0.0)}, "size of a mini-batch is 0"),
        ({"sampler": NeighbourSampler(5, ())}, "fanouts is empty"),
        ({"sampler": NeighbourSampler(5, (2, 0))}, "fanout is 0"),
        ({"sampler": LayerSampler(5, 0)}, "n_layers is 0"),
        ({"sampler": _Nothing()}, "without a vertex"),
        ({"sampler": 32}, "sampler is 32: give a VertexSampler"),
    ],
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        stochastic(random_graph(200, 4), 3, **options)


def test_one_part_and_more_parts_than_vertices() -> None:
    assert stochastic(random_graph(10, 2), 1).hypergraph.n_vertices == 10
    with pytest.raises(InputError, match="n_parts is 11: it must be at most 10"):
        stochastic(random_graph(10, 2), 11)


def test_fanouts_are_one_for_each_layer() -> None:
    with pytest.raises(InputError, match="fanouts is 10: give one number of neighbours for each"):
        NeighbourSampler(fanouts=10)  # type: ignore[arg-type]


def test_a_layer_asks_only_what_its_targets_read(monkeypatch) -> None:
    """And gets the edges that it would get if every vertex of the graph were asked."""
    graph = Adjacency.of(as_matrix(random_graph(3000, 6)))
    targets, key = np.arange(0, 3000, 100), key_of(5)
    random = np.random.default_rng(1)
    probabilities, ids = random.random(3000), random.permutation(10_000)[:3000]
    wanted = samplers.edges_to(graph, targets, drawn_with(probabilities, ids, key))
    asked: list[int] = []

    def counted(chances, some, key):
        asked.extend(some)
        return drawn_with(chances, some, key)

    monkeypatch.setattr(samplers, "drawn_with", counted)
    found = samplers.edges_to_drawn(graph, targets, probabilities, ids, key)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < len(asked) == len(set(asked)) <= np.diff(graph.pointer)[targets].sum()
