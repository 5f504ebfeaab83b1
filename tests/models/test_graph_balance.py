"""What a vertex weighs when a graph is cut: its nonzeros, and its products with the weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart import data_models
from daskpart.models.graph_convolution.network import ATTENTION, DENSE
from daskpart.models.graph_convolution.operators import with_loops
from daskpart.models.graph_convolution.plan import vertex_partition

N = 600
RANDOM = np.random.default_rng(3)
# communities of different density: equal nonzeros are few vertices of some, and many of others
BLOCK = np.sort(RANDOM.integers(0, 4, N))
PAIRS = RANDOM.random((N, N)) < np.where(
    BLOCK[:, None] == BLOCK, np.array([0.02, 0.05, 0.12, 0.3])[BLOCK], 0.002
)
GRAPH = scipy.sparse.csr_array(np.triu(PAIRS, 1) + np.triu(PAIRS, 1).T)
NONZEROS = np.diff(GRAPH.indptr) + 1  # with the self loop
X, Y = RANDOM.normal(size=(N, 24)), RANDOM.integers(0, 3, N)


def planned(hidden=16, features=X, partitioner="connectivity", n_ranks=4, **more):
    model = daskpart.GCNClassifier(
        hidden, n_ranks=n_ranks, partitioner=partitioner, transport="local", **more
    )
    return model.plan(features, Y, graph=GRAPH)


@pytest.mark.parametrize("partitioner", ["connectivity", "metis", "random", "block"])
def test_work_is_balanced_and_not_nonzeros_alone(partitioner: str) -> None:
    plan = planned(partitioner=partitioner)
    row_work = plan.network.row_work(X.shape[1])
    np.testing.assert_array_equal(plan.partition.weights, NONZEROS + row_work)
    work = np.bincount(plan.partition.assignment, NONZEROS + row_work, 4)
    report = plan.report()
    assert report.work_max_to_mean == pytest.approx(work.max() / work.mean())
    assert report.work_max_to_mean < 1.05
    assert f"work {report.work_max_to_mean:.3f}, nonzeros" in repr(report)


def test_rows_are_spread_more_evenly_than_by_nonzeros() -> None:
    # a model that is named weighs what it says: the paper's cut
    paper = planned(partitioner={"model": "column-net-self-loops", "objective": "connectivity"})
    np.testing.assert_array_equal(paper.partition.weights, NONZEROS)
    assert paper.report().rows_max_to_mean > 1.3
    assert planned(hidden=64).report().rows_max_to_mean < 1.15


@given(hidden=st.lists(st.integers(1, 40), max_size=3), n_features=st.integers(1, 50))
@settings(deadline=None, max_examples=20)
def test_row_work_is_counted_in_nonzeros(hidden: list[int], n_features: int) -> None:
    """Two products for each matrix of the first layer, three for others; columns through Â."""
    plan = planned(tuple(hidden), X[:, :1] * np.ones(n_features), "block", first_product="each")
    widths = [n_features, *hidden, 3]
    dense, columns = 0, 0
    for place, (n_in, n_out) in enumerate(pairwise(widths)):
        dense += n_in * n_out * (3 if place else 2)
        transforms = n_in > n_out * (1 if place else 2)
        columns += (n_out if transforms else n_in) * (2 if place or transforms else 1)
    assert plan.network.row_work(n_features) == round(DENSE * dense / columns)


def test_stored_features_count_and_attention_does() -> None:
    words = scipy.sparse.random_array((N, 400), density=0.02, rng=np.random.default_rng(0)).tocsr()
    few = planned(features=words, first_product="each")
    full = planned(features=words.toarray(), first_product="each")
    added = [int(plan.partition.weights[0] - NONZEROS[0]) for plan in (few, full)]
    assert 0 < added[0] < added[1]
    assert added[0] == few.network.row_work(words.nnz / N)
    gat = planned(layer="gat", layer_options={"heads": 4}).network
    columns = 2 * 16 + 2 * 3  # through Â there and back, in both layers
    dense = 2 * 24 * 16 + 2 * 2 * 16 + 3 * 16 * 3 + 3 * 2 * 3  # W, and two vectors a head
    assert gat.row_work(24) == round(DENSE * dense / (columns + ATTENTION * (4 + 1)))


@pytest.mark.parametrize("method", ["block", "random"])
@pytest.mark.parametrize("row_work", [0, 7])
def test_what_looks_at_weights_only_cuts_as_with_nets(method, row_work):
    pattern = with_loops(
        scipy.sparse.random_array((300, 300), density=0.03, rng=np.random.default_rng(0)).tocsr()
    )
    whole = data_models.column_net_self_loops(pattern)
    of_vertex = whole.hypergraph.vertex_weights + row_work
    whole = replace(whole, hypergraph=replace(whole.hypergraph, vertex_weights=of_vertex))
    expected = daskpart.partition(whole, 5, method=method, random_state=3, epsilon=0.01)
    for partitioner in (method, {"method": method}):
        found = vertex_partition(pattern, 5, partitioner, 3, row_work=row_work)
        np.testing.assert_array_equal(found.assignment, expected.assignment)
        np.testing.assert_array_equal(found.weights, expected.weights)
        assert {**found.info, "seconds": 0} == {**expected.info, "seconds": 0}
