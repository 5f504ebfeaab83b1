"""Matrix and graph models against their definitions; the paper's example; models by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse
import sparse
import xarray
from hypergraphs import nets_of
from hypothesis import given
from hypothesis import strategies as st

import daskpart
import daskpart.layouts
from daskpart import data_models
from daskpart.connectivity import Connectivity
from daskpart.data_models import DataModel, build
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition
from daskpart.readers.libsvm import Examples


@st.composite
def graphs(draw: st.DrawFn) -> scipy.sparse.coo_array:
    """Small directed graphs with self loops, isolated vertices and stored zeros."""
    n = draw(st.integers(1, 9))
    cells = draw(st.lists(st.integers(0, n * n - 1), min_size=1, max_size=30, unique=True))
    values = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(cells), max_size=len(cells)))
    return scipy.sparse.coo_array((values, np.unravel_index(cells, (n, n))), shape=(n, n))


def pattern(matrix: scipy.sparse.coo_array) -> np.ndarray:
    dense = np.zeros(matrix.shape, bool)
    dense[matrix.coords] = True
    return dense


@given(graphs())
def test_with_self_loops_every_net_holds_its_own_vertex(matrix: scipy.sparse.coo_array) -> None:
    model = data_models.column_net_self_loops(matrix)
    with_loops = pattern(matrix) | np.eye(matrix.shape[0], dtype=bool)
    assert nets_of(model.hypergraph) == [np.flatnonzero(column).tolist() for column in with_loops.T]
    assert model.hypergraph.vertex_weights.tolist() == with_loops.sum(axis=1).tolist()
    assert model.hypergraph.net_costs.tolist() == [1] * matrix.shape[0]


@pytest.mark.parametrize("name", ["column-net", "row-net", "column-net-self-loops"])
@given(graphs())
def test_without_nets_vertices_are_the_same(name: str, matrix: scipy.sparse.coo_array) -> None:
    whole, alone = build(matrix, name), build(matrix, name, nets=False)
    assert alone.hypergraph.n_nets == alone.hypergraph.n_pins == 0
    weights = whole.hypergraph.vertex_weights
    np.testing.assert_array_equal(alone.hypergraph.vertex_weights, weights)
    assert alone.hypergraph.vertex_weights.dtype == weights.dtype
    assert alone.info == whole.info
    np.testing.assert_array_equal(alone.vertex_of, whole.vertex_of)


@given(graphs(), st.booleans())
def test_the_graph_has_each_edge_once(matrix: scipy.sparse.coo_array, self_loops: bool) -> None:
    model = data_models.graph(matrix, self_loops=self_loops)
    dense = pattern(matrix)
    undirected = np.triu(dense | dense.T, 1)
    assert nets_of(model.hypergraph) == np.argwhere(undirected).tolist()
    rows = dense | np.eye(len(dense), dtype=bool) if self_loops else dense
    assert model.hypergraph.vertex_weights.tolist() == rows.sum(axis=1).tolist()


def test_the_example_of_the_paper() -> None:
    """Figure 2 of the GCN paper: six vertices on three ranks; net 4 has λ = 3 and volume 2."""
    edges = np.array([(1, 2), (1, 5), (2, 4), (2, 6), (3, 4), (4, 5), (4, 6)]) - 1
    ends = np.concatenate([edges, edges[:, ::-1]]).T
    matrix = scipy.sparse.coo_array((np.ones(len(ends[0])), ends), shape=(6, 6))
    partition = Partition(np.array([0, 0, 1, 1, 2, 2], np.int32), 3)
    model = data_models.column_net_self_loops(matrix)
    found = model.connectivity(partition)
    assert model.hypergraph.vertex_weights[0] == 3
    assert nets_of(model.hypergraph)[1] == [0, 1, 3, 5]
    assert found.connectivity.tolist() == [2, 3, 1, 3, 3, 3]
    assert found.connectivity[3] - 1 == 2
    # each vertex sends its features to every other rank that needs them
    assert (
        found.connectivity_minus_one()
        == found.with_owners(partition.assignment).rank_volume().total_rows
    )
    graph = data_models.graph(matrix)
    cut = Connectivity.from_partition(graph.hypergraph, partition).connectivity > 1
    assert np.count_nonzero(cut & (graph.hypergraph.pins.reshape(-1, 2) == 3).any(axis=1)) == 3


@given(graphs(), st.sampled_from(["column-net", "row-net", "column-net-self-loops", "graph",
                                  "bipartite", "stochastic"]))  # fmt: skip
def test_nonzeros_follow_their_row_or_column(matrix: scipy.sparse.coo_array, name: str) -> None:
    n_parts = min(2, matrix.shape[0])
    partition = daskpart.partition(matrix, n_parts, method="random", model=name, epsilon=9)
    rows, columns = np.nonzero(pattern(matrix))
    expected = partition.assignment[columns if name == "row-net" else rows]
    assert partition.nonzero_parts(matrix).tolist() == expected.tolist()
    assert partition.info["model"] == name and partition.info["nnz"] == matrix.nnz
    assert tuple(partition.info["shape"]) == matrix.shape


def test_examples_weigh_the_same() -> None:
    matrix = scipy.sparse.random_array((30, 20), density=0.2, rng=0)
    hypergraph = data_models.bipartite(matrix).hypergraph
    assert hypergraph.vertex_weights.tolist() == [1] * 30
    assert nets_of(hypergraph) == nets_of(Hypergraph.column_net(matrix))


def test_the_default_model_fits_the_data(tmp_path: Path) -> None:
    tensor = sparse.random((6, 5, 4), nnz=30, random_state=0)
    assert build(tensor).name == build(data_models.fine_grain(tensor).tensor).name == "medium-grain"
    assert build(tensor[0]).name == "column-net"
    model = data_models.fine_grain(tensor)
    assert build(model) is model
    assert build(model.hypergraph, "graph").name == "hypergraph"
    path = tmp_path / "small.tns"
    path.write_text("1 1 1 5\n2 1 2 3\n1 2 2 4\n")
    partition = daskpart.partition(str(path), 2)
    assert partition.info["model"] == "medium-grain"
    assert partition.nonzero_parts(path).shape == (3,)
    assert partition.part_weights.sum() == 3
    path = tmp_path / "examples.libsvm"
    path.write_text("1 1:1 2:1\n-1 1:1\n")
    assert build(path).hypergraph.vertex_weights.tolist() == [2, 1]


@pytest.mark.data
def test_a_graph_is_found_in_its_file(shared_data: Path) -> None:
    model = build(shared_data / "graphs" / "cora.npz", "column-net-self-loops")
    assert (model.hypergraph.n_vertices, model.hypergraph.n_pins) == (2708, 2708 + 2 * 5278)


def test_what_a_reader_gives_can_be_given() -> None:
    """A Dataset of a graph and examples with labels, as they come from `daskpart.read`."""
    matrix = sparse.random((9, 9), density=0.3, random_state=0)
    dims = ("node", "neighbour")
    dataset = xarray.Dataset({"adjacency": (dims, matrix), "label": ("node", np.zeros(9))})
    assert build(dataset).hypergraph == build(matrix).hypergraph
    examples = Examples(matrix.to_scipy_sparse().tocsr(), np.zeros(9))
    assert build(examples).hypergraph == build(matrix).hypergraph
    with pytest.raises(InputError, match=r"holds counts: which one .* like data\['counts'\]"):
        build(xarray.Dataset({"counts": (dims, matrix)}))


def test_the_order_of_the_data_does_not_matter() -> None:
    tensor = sparse.random((8, 9, 7), nnz=120, random_state=0)
    first = daskpart.partition(tensor, 4)
    mixed = np.random.default_rng(0).permutation(tensor.nnz)
    shuffled = daskpart.containers.from_coordinates(
        tensor.coords[:, mixed], tensor.data[mixed], tensor.shape
    )
    assert daskpart.partition(shuffled, 4) == first
    assert first.nonzero_parts(shuffled).tolist() == first.nonzero_parts(tensor).tolist()


def test_bad_input() -> None:
    matrix = scipy.sparse.random_array((30, 20), density=0.2, rng=0)
    tensor = sparse.random((6, 5, 4), nnz=30, random_state=0)
    with pytest.raises(InputError, match="model is 'coarse-grain': use one of 'auto'"):
        build(matrix, "coarse-grain")
    with pytest.raises(InputError, match="self loops need a square matrix, this one is 30 × 20"):
        build(matrix, "column-net-self-loops")
    with pytest.raises(InputError, match="the data has 3 modes: use one of 'fine-grain'"):
        build(tensor, "column-net")
    partition = daskpart.partition(tensor, 2)
    with pytest.raises(InputError, match=r"made for data of shape \(6, 5, 4\)"):
        partition.nonzero_parts(sparse.COO(tensor.coords, tensor.data, shape=(7, 5, 4)))
    hypergraph = Hypergraph.column_net(matrix)
    cut = daskpart.partition(hypergraph, 2)
    with pytest.raises(InputError, match="made of a hypergraph"):
        cut.nonzero_parts(matrix)
    with pytest.raises(InputError, match="does not say which vertex a nonzero belongs to"):
        DataModel(hypergraph, "hypergraph").nonzero_parts(cut)
    with pytest.raises(InputError, match="has no modes"):
        build(matrix).mode_connectivity(daskpart.partition(matrix, 2), 0)


@pytest.mark.parametrize("model", ["graph", "column-net-self-loops", "stochastic"])
def test_rows_and_columns_of_other_names_are_no_graph(model, tmp_path):
    """Sources a, b, c and targets b, c, d make a square by chance."""
    edges = pandas.DataFrame({"source": list("abc"), "target": list("bcd"), "weight": 1.0})
    with pytest.raises(InputError, match=r"have other names; daskpart\.read"):
        build(edges, model, n_parts=2)
    with pytest.raises(InputError, match=r"have other names; daskpart\.read"):
        daskpart.layouts.write_layout(edges, Partition([0, 0, 1], 2), tmp_path / "g", "dgl")
    cycle = pandas.concat([edges, pandas.DataFrame({"source": ["d"], "target": ["a"]})])
    assert build(cycle.fillna(1.0), model, n_parts=2).hypergraph.n_vertices == 4
