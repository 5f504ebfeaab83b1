"""Layouts of other libraries, read back as their documentation says they are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
import sparse
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.errors import InputError
from daskpart.layouts import write_layout
from daskpart.partitions import Partition


def made(n: int, n_parts: int, seed: int, weighted: bool):
    random = np.random.default_rng(seed)
    graph = scipy.sparse.random_array((n, n), density=0.2, rng=random).tocsr()
    if not weighted:
        graph.data[:] = 1
    parts = np.concatenate([np.arange(n_parts), random.integers(0, n_parts, n - n_parts)])
    return graph, Partition(random.permutation(parts), n_parts)


cases = {
    "n": st.integers(5, 20), "n_parts": st.integers(1, 5), "seed": st.integers(0, 999),
    "weighted": st.booleans(),
}  # fmt: skip


@given(**cases)
def test_dgl(n, n_parts, seed, weighted, tmp_path_factory) -> None:
    graph, partition = made(n, n_parts, seed, weighted)
    folder = write_layout(graph, partition, tmp_path_factory.mktemp("x") / "g", "dgl")
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["num_nodes_per_type"] == [n] and metadata["graph_name"] == "g"
    (kind,) = metadata["edge_type"]
    ends, weights = [], []
    for part, name in enumerate(metadata["edges"][kind]["data"]):
        text = (folder / name).read_text().split()
        pairs = np.array(text, np.int64).reshape(-1, 2)
        assert (partition.assignment[pairs[:, 1]] == part).all()
        ends.append(pairs)
        if metadata["edge_data"]:
            weights.append(np.load(folder / metadata["edge_data"][kind]["weight"]["data"][part]))
    source, destination = np.concatenate(ends).T
    assert metadata["num_edges_per_type"] == [source.size]
    values = np.concatenate(weights) if weights else np.ones(source.size)
    found = scipy.sparse.csr_array((values, (destination, source)), shape=(n, n))
    np.testing.assert_allclose(found.toarray(), graph.toarray(), rtol=1e-6)
    assert bool(weights) == weighted or not graph.nnz
    parts = np.loadtxt(folder / "partition" / "node.txt", dtype=int, ndmin=1)
    np.testing.assert_array_equal(parts, partition.assignment)
    meta = json.loads((folder / "partition" / "partition_meta.json").read_text())
    assert meta == {"version": "1.0.0", "num_parts": n_parts, "algo_name": "metis"}


@given(**cases)
def test_parmetis(n, n_parts, seed, weighted, tmp_path_factory) -> None:
    graph, partition = made(n, n_parts, seed, weighted)
    folder = write_layout(graph, partition, tmp_path_factory.mktemp("x"), "parmetis")
    ranks = [np.load(folder / f"rank{rank}.npz") for rank in range(n_parts)]
    vertices = np.concatenate([rank["vertices"] for rank in ranks])
    found = np.zeros((n, n), int)
    for rank, file in enumerate(ranks):
        begin, end = file["vtxdist"][rank : rank + 2]
        assert (partition.assignment[vertices[begin:end]] == rank).all()
        assert len(file["xadj"]) == end - begin + 1 and file["xadj"][-1] == len(file["adjncy"])
        assert len(file["vwgt"]) == end - begin and file["vtxdist"][-1] == n
        rows = np.repeat(np.arange(begin, end), np.diff(file["xadj"]))
        found[vertices[rows], vertices[file["adjncy"]]] = file["adjwgt"]
    pattern = (graph.toarray() != 0).astype(int)
    np.fill_diagonal(pattern, 0)
    np.testing.assert_array_equal(found, pattern + pattern.T)


@pytest.mark.parametrize("weighted", [False, True])
def test_pyg(weighted, tmp_path) -> None:
    torch = pytest.importorskip("torch")
    graph, partition = made(20, 3, 0, weighted)
    write_layout(graph, partition, tmp_path, "pyg")
    assert json.loads((tmp_path / "META.json").read_text())["num_parts"] == 3
    parts = [torch.load(tmp_path / f"part_{part}" / "graph.pt") for part in range(3)]
    ids = torch.cat([part["edge_id"] for part in parts]).numpy()
    np.testing.assert_array_equal(np.sort(ids), np.arange(graph.nnz))
    rows, columns = (torch.cat([part[end] for part in parts]).numpy() for end in ("col", "row"))
    found = scipy.sparse.csr_array((graph.data[ids], (rows, columns)), shape=(20, 20))
    np.testing.assert_allclose(found.toarray(), graph.toarray())
    assert (torch.load(tmp_path / "node_map.pt").numpy() == partition.assignment).all()
    edge_map = torch.load(tmp_path / "edge_map.pt").numpy()
    for number, part in enumerate(parts):
        assert (partition.assignment[part["col"]] == number).all()
        assert (edge_map[part["edge_id"]] == number).all()
        assert (np.diff(part["col"]) >= 0).all()
        weights = torch.load(tmp_path / f"part_{number}" / "edge_feats.pt")
        if weighted:
            wanted = graph.data[part["edge_id"]][:, None]
            np.testing.assert_allclose(weights["feats"]["edge_attr"], wanted, rtol=1e-6)
    pyg = pytest.importorskip("torch_geometric.distributed")
    store = pyg.LocalGraphStore.from_partition(str(tmp_path), 1)
    assert store.num_partitions == 3 and len(store.get_all_edge_attrs()) == 1


def test_what_cannot_be_written(tmp_path, monkeypatch) -> None:
    graph, partition = made(9, 2, 0, False)
    with pytest.raises(InputError, match="as many columns as rows"):
        write_layout(graph[:, :5], partition, tmp_path, "dgl")
    with pytest.raises(InputError, match="rows"):
        write_layout(graph, Partition(np.zeros(4, int), 1), tmp_path, "dgl")
    with pytest.raises(InputError, match="part 1 is empty"):
        write_layout(graph, Partition(np.zeros(9, int), 2), tmp_path, "parmetis")
    with pytest.raises(InputError, match="layout is 'spark': use one of 'dgl', 'pyg', 'parmetis'"):
        write_layout(graph, partition, tmp_path, "spark")
    with pytest.raises(InputError, match="partition is a ndarray: give a Partition"):
        write_layout(graph, np.zeros(9, int), tmp_path, "dgl")
    (tmp_path / "file").touch()
    for folder, message in ((None, "folder is None"), (tmp_path / "file", "is a file: give a fol")):
        with pytest.raises(InputError, match=message):
            write_layout(graph, partition, folder, "dgl")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match="pip install torch"):
        write_layout(graph, partition, tmp_path, "pyg")


@pytest.mark.parametrize("layout", ["dgl", "pyg", "parmetis"])
def test_names_of_vertices_are_kept(layout, tmp_path, run_cli) -> None:
    if layout == "pyg":
        pytest.importorskip("torch")
    (tmp_path / "calls.csv").write_text("source,target\nzoë,bob\nbob,ann\nann,zoë\n")
    Partition(np.array([1, 0, 1]), 2).write(tmp_path / "parts")
    given = ("--to", layout, "--partition", tmp_path / "parts")
    assert run_cli("convert", tmp_path / "calls.csv", tmp_path / "out", *given) == 0
    assert (tmp_path / "out" / "names.txt").read_text("utf-8").split() == ["ann", "bob", "zoë"]
    if layout == "dgl":
        edges = [(tmp_path / "out" / "edges" / f"part{part}.csv").read_text() for part in (0, 1)]
        assert edges == ["0 1\n", "2 0\n1 2\n"]


@pytest.mark.parametrize("layout", ["dgl", "parmetis"])
def test_nothing_of_an_earlier_graph_is_read_as_of_this_one(layout, tmp_path) -> None:
    graph, partition = made(12, 4, 0, False)
    coords = {"caller": ["a", "b", "c"], "called": ["a", "b", "c"]}
    named = xr.DataArray(sparse.eye(3), dims=("caller", "called"), coords=coords)
    kept = [tmp_path / name for name in ("ranks.npz", "rank_of.npz")]
    for path in kept:
        path.touch()
    write_layout(graph, partition, tmp_path, layout)
    write_layout(named, Partition(np.array([0, 1, 2]), 3), tmp_path, layout)
    assert (tmp_path / "names.txt").read_text().split() == ["a", "b", "c"]
    write_layout(*made(6, 2, 0, False), tmp_path, layout)
    assert not (tmp_path / "names.txt").exists() and all(path.exists() for path in kept)
    if layout == "parmetis":
        ranks = {path.name for path in tmp_path.glob("rank[0-9]*.npz")}
        assert ranks == {"rank0.npz", "rank1.npz"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_write_that_ends_half_way_leaves_what_was_there(tmp_path, monkeypatch, error) -> None:
    graph, partition = made(12, 3, 0, False)
    write_layout(graph, partition, tmp_path / "old", "parmetis")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    whole, done = np.savez, []

    def stops(*given, **arrays):
        if done:
            raise error
        done.append(whole(*given, **arrays))

    for name in ("old", "new"):
        done.clear()
        monkeypatch.setattr(np, "savez", stops)
        with pytest.raises((KeyboardInterrupt, OSError)) as raised:
            write_layout(*made(9, 3, 1, False), tmp_path / name, "parmetis")
        if raised.type is OSError:
            assert raised.value.filename == str(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_from_the_shell(tmp_path, run_cli, capsys) -> None:
    graph, partition = made(12, 3, 1, False)
    scipy.sparse.save_npz(tmp_path / "g.npz", graph)
    partition.write(tmp_path / "g.parts")
    given = (tmp_path / "g.npz", tmp_path / "out", "--to", "dgl")
    partition.save(tmp_path / "partition.npz")
    for parts in ("g.parts", "partition.npz"):
        assert run_cli("convert", *given, "--partition", tmp_path / parts) == 0
        assert (tmp_path / "out" / "metadata.json").is_file()
        told = capsys.readouterr().out
        assert f"{graph.nnz} edges of 12 vertices" in told and "12 vertices in 3 parts" in told
    assert run_cli("convert", *given) != 0
    assert "--partition" in capsys.readouterr().err
    assert run_cli("convert", tmp_path / "g.npz", tmp_path / "out") != 0
    assert "is a folder" in capsys.readouterr().err
    assert daskpart.Partition.from_file(tmp_path / "g.parts").n_parts == 3


@pytest.mark.parametrize("name", ["b\nc", "b\r", "b\u2028c"])
@pytest.mark.parametrize("layout", ["dgl", "parmetis"])
def test_a_name_of_two_lines_is_refused_before_anything_is_written(tmp_path, name, layout) -> None:
    labels = {"source": ["a", name, "d"], "target": ["a", name, "d"]}
    graph = xr.DataArray(sparse.COO.from_numpy(np.ones((3, 3))), labels, dims=[*labels])
    with pytest.raises(InputError, match="has a line break in its name"):
        write_layout(graph, Partition(np.array([0, 1, 0]), 2), tmp_path / "out", layout)
    assert not (tmp_path / "out").exists()
