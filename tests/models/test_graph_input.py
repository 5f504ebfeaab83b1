"""Graphs and labels as other libraries have them: what `test_graph_names` says nothing of."""

from __future__ import annotations

import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from test_graph_convolution import model

from daskpart import GCNClassifier
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.graph_convolution.graph import read_graph
from daskpart.models.graph_convolution.targets import class_targets, number_targets


def test_weights_of_edges_that_are_text_are_called_edge_weights():
    edges = pd.DataFrame({"source": [0], "target": [1], "weight": ["heavy"]})
    with pytest.raises(InputError, match="edge weights of dtype"):
        model().fit(None, [0, 1], graph=edges)


@pytest.mark.parametrize(
    "none", [networkx.empty_graph(3), scipy.sparse.csr_array((3, 3)), [], np.empty((0, 2), int)]
)
def test_a_saved_model_of_a_graph_without_edges_predicts(none, tmp_path):
    fitted = GCNClassifier(max_iter=2, n_ranks=2, transport="local")
    found = fitted.fit(None, [0, 1, 0], graph=none).predict()
    fitted.save(tmp_path / "model")
    assert np.array_equal(GCNClassifier.load(tmp_path / "model").predict(), found)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=20))
def test_any_labels_that_are_masked_are_unlabelled(drawn):
    values = np.array([0, 1, *(value for value, _ in drawn)])
    hidden = np.array([False, False, *(hides for _, hides in drawn)])
    masked = np.ma.array(values, mask=hidden)
    found, known = class_targets(masked), class_targets(np.where(hidden, -1, values))
    assert np.array_equal(found.values, known.values)
    assert np.array_equal(found.labelled, ~hidden)
    numbers = number_targets(masked)
    assert np.array_equal(numbers.labelled, ~hidden)
    assert np.array_equal(numbers.values[~hidden, 0], values[~hidden])


def test_two_edges_are_not_taken_for_a_pair_of_arrays():
    nodes = networkx.Graph([((0, 0), (0, 1)), ((0, 1), (0, 2))])
    assert read_graph(nodes, None, None).adjacency.shape == (3, 3)
    for edges in (
        [(0, 1), (1, 2)],
        ((0, 1), (1, 2)),
        [np.array([0, 1]), np.array([1, 2])],
    ):
        assert read_graph(edges, 3, None).adjacency.nnz == 2


def test_the_warning_shows_where_nodes_are_out_of_order():
    ring = networkx.Graph([(0, 1), (1, 2), (2, 3), (3, 5), (5, 4)])
    with pytest.warns(DaskpartWarning, match=r"in the order … 2, 3, 5, 4 …"):
        model(max_iter=1).fit(None, [0, 1, 0, 1, 0, 1], graph=ring)
