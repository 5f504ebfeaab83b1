"""`Bipartite`: from every source, in both directions, and cut into random blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.parsa import bipartite
from daskpart.parsa.bipartite import Bipartite, block_of, totals
from daskpart.readers import read


def pattern(seed: int, n_data: int = 30, n_parameters: int = 20) -> scipy.sparse.csr_array:
    """A random pattern with empty rows and columns and explicit zeros."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_data, n_parameters)) < rng.choice([0.05, 0.2])
    matrix = scipy.sparse.csr_array(dense.astype(float))
    if matrix.nnz == 0:
        matrix = scipy.sparse.csr_array(([1.0], ([0], [0])), shape=matrix.shape)
    matrix.data[::3] = 0.0
    return matrix


def as_lines(matrix: scipy.sparse.csr_array, first: int = 1) -> str:
    """The matrix as a libsvm file."""
    lines = []
    for row in range(matrix.shape[0]):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        lines.append(" ".join(["1", *(f"{column + first}:1" for column in columns)]))
    return "\n".join(lines) + "\n"


def edges_of(graph: Bipartite) -> list[set[int]]:
    ends = zip(graph.data_pointer[:-1], graph.data_pointer[1:], strict=True)
    return [set(graph.parameters[first:end].tolist()) for first, end in ends]


@given(st.integers(0, 10_000))
def test_all_sources_give_the_same_graph(seed):
    matrix = pattern(seed)
    graph = Bipartite.from_matrix(matrix)
    assert edges_of(graph) == [set(matrix[[row]].indices.tolist()) for row in range(30)]
    assert graph == Bipartite.from_hypergraph(Hypergraph.column_net(matrix))
    assert graph == Bipartite.from_matrix(matrix.tocoo())
    assert graph.hypergraph(np.diff(matrix.indptr).astype(np.int64)) == Hypergraph.column_net(
        matrix
    )
    for parameter in range(graph.n_parameters):
        first, end = graph.parameter_pointer[parameter : parameter + 2]
        touching = [u for u, row in enumerate(edges_of(graph)) if parameter in row]
        assert graph.data[first:end].tolist() == touching


@pytest.mark.parametrize("first", [0, 1])
def test_libsvm_files_give_the_graph_of_their_matrix(tmp_path: Path, first: int):
    # column 0 must occur, so that the file shows what the first feature is called
    matrix = next(matrix for matrix in map(pattern, range(100)) if 0 in matrix.indices)
    path = tmp_path / "few.libsvm"
    path.write_text(as_lines(matrix, first))
    graph = Bipartite.from_libsvm(path, n_parameters=20)
    assert graph == Bipartite.from_matrix(matrix)
    assert Bipartite.from_matrix(read(path, n_features=20)) == graph
    assert Bipartite.from_libsvm(path, n_parameters=25).n_parameters == 25


def test_features_of_a_line_may_come_in_any_order(tmp_path: Path):
    path = tmp_path / "few.libsvm"
    path.write_text("0\n1 2:1 5:1\n0\n1 6:1 1:1\n0\n")
    graph = Bipartite.from_libsvm(path)
    assert graph.parameters.tolist() == [1, 4, 0, 5]
    assert graph.data_pointer.tolist() == [0, 0, 2, 2, 4, 4]


def test_totals_are_those_of_all_chunks():
    chunks = [([2, 0], [0, 7]), ([], []), ([1], [3])]
    found = totals((np.array(n, np.int64), np.array(of, np.int64)) for n, of in chunks)
    assert found == (3, 3, 0, 7)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", ReadError, "empty|no examples"),
        ("\n# nothing\n", ReadError, "no examples"),
        ("1 2:nan\n", ReadError, "finite feature value"),
        ("1 3:1 3:1\n", ReadError, "once"),
        ("1 3000000000:1\n", InputError, "at most 2147483647"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, error: type[Exception], words: str):
    path = tmp_path / "bad.libsvm"
    path.write_text(text)
    with pytest.raises(error, match=words):
        Bipartite.from_libsvm(path)


def test_too_few_parameters_are_refused(tmp_path: Path):
    path = tmp_path / "few.libsvm"
    path.write_text("1 7:1\n")
    with pytest.raises(InputError, match="n_parameters=6, but the file needs 7"):
        Bipartite.from_libsvm(path, n_parameters=6)
    with pytest.raises(InputError, match="dense"):
        Bipartite.from_matrix(np.ones((2, 2)))


def test_repeated_entries_count_once():
    twice = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.warns(DaskpartWarning, match="repeat"):
        graph = Bipartite.from_matrix(twice)
    assert graph.n_edges == 1


@given(st.integers(0, 10_000), st.integers(1, 7))
def test_blocks_share_out_data_and_edges(seed, n_blocks):
    graph = Bipartite.from_matrix(pattern(seed))
    blocks = graph.blocks(n_blocks, random_state=seed)
    assert blocks.starts[-1] == graph.n_data and len(blocks.starts) == n_blocks + 1
    rows = edges_of(graph)
    seen: list[int] = []
    for number in range(n_blocks):
        block = blocks.read(number)
        assert block.n_data == blocks.starts[number + 1] - blocks.starts[number]
        assert (np.diff(block.parameters) > 0).all() and (np.diff(block.data) > 0).all()
        seen += block.data.tolist()
        for place, datum in enumerate(block.data):
            mine = block.local[block.pointer[place] : block.pointer[place + 1]]
            assert set(block.parameters[mine].tolist()) == rows[datum]
        used = set().union(*(rows[datum] for datum in block.data), set())
        assert used == set(block.parameters.tolist())
    assert sorted(seen) == list(range(graph.n_data))


def test_one_block_is_the_whole_and_seeds_matter():
    graph = Bipartite.from_matrix(pattern(0, 200))
    block = graph.blocks(1).read(0)
    assert block.data.tolist() == list(range(200)) and block.n_edges == graph.n_edges
    first, again, other = (graph.blocks(4, seed).read(0).data.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_few_edges_of_many_parameters_are_numbered_alike(monkeypatch: pytest.MonkeyPatch):
    pointer, parameters = np.array([0, 2, 3]), np.array([2, 9, 2], np.int32)
    data = np.arange(2, dtype=np.int32)
    dense = block_of(data, pointer, parameters, 10)
    monkeypatch.setattr(bipartite, "_SPARSE_TOUCH", 0)
    sparse = block_of(data, pointer, parameters, 10)
    for block in (dense, sparse):
        assert block.parameters.tolist() == [2, 9] and block.local.tolist() == [0, 1, 0]
        assert block.local.dtype == block.parameters.dtype == np.int32


def test_graphs_show_themselves():
    graph = Bipartite.from_matrix(pattern(0))
    assert "parameters" in repr(graph) and "<table>" in graph._repr_html_()
    assert graph != 3 and graph.to_dict()["edges"] == graph.n_edges
    with pytest.raises(InputError, match="n_blocks is 0"):
        graph.blocks(0)
