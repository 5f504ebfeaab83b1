"""Hypergraphs: the three data models, normal but awkward data, and every refusal."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypergraphs import hypergraph_of, nets_of
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph

lists_of_nets = st.lists(st.lists(st.integers(0, 8), max_size=12), max_size=12)


@given(lists_of_nets)
def test_nets_are_sorted_and_named_twice_counts_once(nets):
    hypergraph = hypergraph_of(nets, 9)
    assert nets_of(hypergraph) == [sorted(set(net)) for net in nets]
    assert hypergraph.net_pointer.dtype == np.int64 and hypergraph.pins.dtype == np.int32


@given(lists_of_nets)
def test_turned_incidence_lists_the_nets_of_each_vertex(nets):
    hypergraph = hypergraph_of(nets, 9)
    for vertex in range(9):
        start, stop = hypergraph.vertex_pointer[vertex : vertex + 2]
        expected = [net for net, pins in enumerate(nets) if vertex in pins]
        assert hypergraph.nets[start:stop].tolist() == expected


def test_empty_nets_one_pin_nets_and_isolated_vertices_are_kept():
    hypergraph = hypergraph_of([[], [2], [0, 2]], 5)
    assert nets_of(hypergraph) == [[], [2], [0, 2]]
    assert (hypergraph.n_vertices, hypergraph.n_nets, hypergraph.n_pins) == (5, 3, 3)
    assert hypergraph.total_weight == 5


def test_no_nets_and_no_vertices():
    hypergraph = Hypergraph.from_nets([0], [], 0)
    assert (hypergraph.n_nets, hypergraph.n_pins, hypergraph.total_weight) == (0, 0, 0)


@given(st.integers(0, 2**32 - 1))
def test_column_net_and_row_net_of_a_random_matrix(seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((7, 9)) * (rng.random((7, 9)) < 0.3)
    dense[0, 0] = 1.0  # as_matrix refuses a matrix without entries
    matrix = scipy.sparse.csr_array(dense)
    columns = Hypergraph.column_net(matrix)
    assert nets_of(columns) == [np.flatnonzero(dense[:, j]).tolist() for j in range(9)]
    assert columns.vertex_weights.tolist() == np.count_nonzero(dense, axis=1).tolist()
    assert Hypergraph.row_net(matrix) == Hypergraph.column_net(matrix.T)
    assert columns.net_costs.tolist() == [1] * 9


def test_empty_rows_empty_columns_and_explicit_zeros_are_normal_data():
    rows, columns, values = [0, 0, 3], [1, 4, 4], [5.0, 0.0, 1.0]
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(5, 6))
    hypergraph = Hypergraph.column_net(matrix)
    assert nets_of(hypergraph) == [[], [0], [], [], [0, 3], []]
    assert hypergraph.vertex_weights.tolist() == [2, 0, 0, 1, 0]  # the stored 0 counts


@pytest.mark.filterwarnings("ignore::daskpart.errors.DaskpartWarning")
def test_duplicate_entries_make_one_pin():
    matrix = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([1, 1, 0], [2, 2, 2])), shape=(3, 3))
    hypergraph = Hypergraph.column_net(matrix)
    assert nets_of(hypergraph)[2] == [0, 1]
    assert hypergraph.vertex_weights.tolist() == [1, 1, 0]


def test_graph_has_one_net_for_each_edge_and_no_self_loops():
    matrix = scipy.sparse.coo_array((np.ones(5), ([0, 1, 1, 2, 2], [1, 0, 2, 2, 0])), shape=(4, 4))
    hypergraph = Hypergraph.graph(matrix)
    assert nets_of(hypergraph) == [[0, 1], [0, 2], [1, 2]]
    assert hypergraph.vertex_weights.tolist() == [1, 2, 2, 0]


def test_save_and_load_and_pickle_give_the_same_hypergraph(tmp_path):
    hypergraph = hypergraph_of(
        [[0, 1], [], [2, 0, 3]], 4, vertex_weights=[3, 0, 1, 7], net_costs=[1, 5, 0]
    )
    hypergraph.save(tmp_path / "nets.npz")
    assert Hypergraph.load(tmp_path / "nets.npz") == hypergraph
    assert hypergraph.nets is hypergraph.nets
    travelled = pickle.loads(pickle.dumps(hypergraph))
    assert travelled == hypergraph and "_transposed" not in travelled.__dict__
    assert hypergraph != hypergraph_of([[0, 1]], 4)


def test_shows_itself_in_plain_words():
    hypergraph = hypergraph_of([[0, 1], []], 3)
    assert "vertices" in repr(hypergraph) and "nets of fewer than two pins  1" in repr(hypergraph)
    assert "<table>" in hypergraph._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ([0, 2], [0, 4], 4),
            "pin 4 of net 0 is out of range: with 4 vertices the pins are 0 to 3",
        ),
        (([0, 1, 2], [0, -1], 4), "pin -1 of net 1 is out of range"),
        (([0, 3], [0, 1], 4), "net_pointer runs from 0 to 3: it must run from 0 to the number of"),
        (([], [], 4), "net_pointer is empty"),
        (([0, 2, 1, 3], [0, 1, 2], 4), "net_pointer falls after net 1"),
        (([0, 1], [0.5], 4), "pin 0 is 0.5: pins are whole numbers"),
        (([0, 1], ["a"], 4), "pins are of type <U1: give whole numbers"),
        (([0, 1], [[0]], 4), "pins have 2 dimensions"),
        (([0, 1], [0], -1), "n_vertices is -1: it must be at least 0"),
        (([0, 1], [0], 2.5), "n_vertices is 2.5: give a whole number"),
        (([0, 1], [0], 2**31), "n_vertices is 2147483648: it must be at most 2147483647"),
        (
            ([0, 1], [0], 2, [1.0, np.nan]),
            "vertex weight 1 is nan: vertex weights are whole numbers",
        ),
        (([0, 1], [0], 2, [1, -3]), "vertex weight 1 is -3: vertex weights are 0 or more"),
        (([0, 1], [0], 2, [1, 2, 3]), "3 vertex weights were given, 2 are needed"),
        (([0, 1], [0], 2, None, [-1]), "net cost 0 is -1: net costs are 0 or more"),
        (([0, 1], [0], 2, None, [np.inf]), "net cost 0 is inf"),
        (([0, 1], [0], 2, [2**62, 2**62]), "the vertex weights sum to 2^63 or more"),
    ],
)
def test_bad_input_is_refused_with_its_value(arguments, message):
    with pytest.raises(InputError) as caught:
        Hypergraph.from_nets(*arguments)
    assert message in str(caught.value)


def test_the_graph_model_needs_a_square_matrix():
    with pytest.raises(InputError, match="needs a square matrix, this one is 2 × 3"):
        Hypergraph.graph(scipy.sparse.coo_array(([1.0], ([0], [1])), shape=(2, 3)))
