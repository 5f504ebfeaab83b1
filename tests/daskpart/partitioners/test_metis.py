"""METIS: the graph it is given, what it gives back, and the engine that stands in for it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import scipy.sparse
from hypergraphs import hypergraph_of

from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import get_engine, metis, partition
from daskpart.partitions import Partition

needs_pymetis = pytest.mark.skipif(not metis.is_installed(), reason="pymetis has no wheel here")


def ring(n_vertices: int) -> Hypergraph:
    ends = np.stack([np.arange(n_vertices), (np.arange(n_vertices) + 1) % n_vertices], axis=1)
    return Hypergraph.from_nets(np.arange(0, 2 * n_vertices + 1, 2), ends.ravel(), n_vertices)


def clusters(n_clusters: int = 4, size: int = 25) -> Hypergraph:
    """Dense nets inside clusters, one large net across, an empty net, an isolated vertex."""
    rng = np.random.default_rng(0)
    nets = [
        cluster * size + rng.choice(size, 6, replace=False)
        for cluster in range(n_clusters)
        for _ in range(60)
    ]
    nets += [np.arange(0, n_clusters * size, 7), np.array([], int)]
    return hypergraph_of(nets, n_clusters * size + 1)


def cut(hypergraph: Hypergraph, n_parts: int, random_state: int = 0) -> np.ndarray:
    return metis.metis_parts(hypergraph, n_parts, 0.03, random_state, get_engine("multilevel"))


def test_nets_of_two_pins_are_edges_and_larger_ones_stars():
    edges = Hypergraph.from_nets([0, 2, 3, 5], [0, 1, 2, 1, 2], 4, net_costs=[5, 6, 7])
    graph = metis.two_pin_graph(edges)
    assert (graph.n_vertices, graph.pins.tolist()) == (4, [0, 1, 1, 2])
    assert graph.net_costs.tolist() == [5, 7]
    star = metis.two_pin_graph(
        Hypergraph.from_nets([0, 3, 5], [0, 1, 2, 1, 3], 4, [9, 8, 7, 6], net_costs=[2, 3])
    )
    assert star.pins.reshape(-1, 2).tolist() == [[0, 4], [1, 4], [2, 4], [1, 5], [3, 5]]
    assert star.vertex_weights.tolist() == [9, 8, 7, 6, 0, 0]
    assert star.net_costs.tolist() == [2, 2, 2, 3, 3]


@needs_pymetis
@pytest.mark.parametrize("edge_cut", [False, True])
@pytest.mark.parametrize("weights", [[1], [3, 2], [1, 0, 0, 0, 1, 0, 4, 0, 0, 1]])
def test_more_parts_than_vertices_that_weigh_are_no_matter_for_the_terminal(
    weights, edge_cut, capfd
):
    """METIS told there, from C, that it cannot bisect a graph without vertices."""
    n = len(weights)
    path = Hypergraph.from_nets(
        np.arange(0, 2 * n - 1, 2), np.repeat(np.arange(n), 2)[1:-1], n, weights
    )
    for n_parts in (3, 4, 9, 16):
        parts = metis.metis_parts(
            path, n_parts, 0.03, 0, get_engine("multilevel"), edge_cut=edge_cut
        )
        assert len(parts) == n and 0 <= parts.min() <= parts.max() < n_parts
    ctypes.CDLL(None).fflush(None)  # of C's own buffer
    assert capfd.readouterr() == ("", "")


@needs_pymetis
def test_a_ring_is_cut_in_as_few_places_as_parts():
    hypergraph = ring(40)
    parts = cut(hypergraph, 4)
    partition_found = Partition(parts, 4)
    assert Connectivity.from_partition(hypergraph, partition_found).cut_net() == 4
    assert partition_found.imbalance <= 0.1


@needs_pymetis
def test_stars_find_the_clusters_of_a_hypergraph():
    hypergraph = clusters()
    result = partition(hypergraph, 4, method="metis", epsilon=0.05)
    assert Connectivity.from_partition(hypergraph, result).cut_net() == 1
    assert result.info["engine"] == "metis"


@needs_pymetis
def test_the_edge_cut_is_what_cut_net_asks_for():
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((300, 300), density=0.02, rng=rng)
    graph = Hypergraph.graph(matrix)
    by_edges = partition(graph, 8, "cut-net", method="metis")
    by_volume = partition(graph, 8, method="metis")
    assert by_edges.info["objective"] == "cut-net" and by_volume.info["objective"] is None
    edges = [Connectivity.from_partition(graph, p).cut_net() for p in (by_edges, by_volume)]
    assert edges[0] < edges[1]


def test_same_seed_same_parts():
    hypergraph = clusters()
    first, again = (cut(hypergraph, 5, seed) for seed in (3, 3))
    assert np.array_equal(first, again) and first.dtype == np.int32


@needs_pymetis
def test_weights_beyond_32_bits_are_scaled():
    hypergraph = Hypergraph.from_nets(
        [0, 2, 4, 6], [0, 1, 1, 2, 2, 3], 4, vertex_weights=[2**40] * 4
    )
    assert np.bincount(cut(hypergraph, 2)).tolist() == [2, 2]


@needs_pymetis
def test_a_graph_too_large_for_metis_is_refused(monkeypatch):
    monkeypatch.setattr(metis, "_INT32", 50)
    with pytest.raises(InputError, match="the graph has 40 edges, METIS takes at most 25"):
        cut(ring(40), 2)


def test_without_pymetis_the_engine_cuts_the_same_graph(monkeypatch):
    monkeypatch.setattr(metis, "pymetis", None)
    hypergraph = clusters()
    result = partition(hypergraph, 4, method="metis", epsilon=0.05)
    assert result.info["engine"] == "multilevel"
    assert result.imbalance <= 0.05
    assert Connectivity.from_partition(hypergraph, result).cut_net() <= 20


@needs_pymetis
def test_empty_nets_and_isolated_vertices_are_normal_data():
    sparse = Hypergraph.from_nets([0, 2, 2, 3], [0, 1, 3], 30, vertex_weights=[1] * 30)
    assert np.bincount(cut(sparse, 3)).tolist() == [10, 10, 10]


@needs_pymetis
@pytest.mark.parametrize("objective", ["connectivity", "cut-net"])
@pytest.mark.parametrize(("cheap", "dear"), [(1, 1000), (0, 1), (1 << 21, 1 << 26)])
def test_edges_are_cut_where_they_cost_least(objective, cheap, dear):
    costs = np.full(64, dear)
    costs[[9, 41]] = cheap
    ends = np.stack([np.arange(64), (np.arange(64) + 1) % 64], axis=1)
    graph = Hypergraph.from_nets(np.arange(0, 129, 2), ends.ravel(), 64, net_costs=costs)
    found = partition(graph, 2, objective, method="metis")
    assert Connectivity.from_partition(graph, found).connectivity_minus_one() == 2 * cheap


def test_nets_that_cost_nothing_are_no_edges():
    nets = Hypergraph.from_nets([0, 2, 5, 7], [0, 1, 0, 1, 2, 1, 2], 3, net_costs=[4, 0, 0])
    graph = metis.two_pin_graph(nets)
    assert (graph.n_vertices, graph.pins.tolist(), graph.net_costs.tolist()) == (3, [0, 1], [4])


@needs_pymetis
def test_of_stars_no_objective_is_told():
    cut, volume = (
        partition(clusters(), 4, goal, method="metis") for goal in ("cut-net", "connectivity")
    )
    assert cut == volume and cut.info["objective"] is None
