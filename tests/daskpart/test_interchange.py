"""Hypergraphs and partitions as other partitioners' text: round trips, real files, broken files."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart import data_models, writers
from daskpart.connectivity import Connectivity
from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition


@st.composite
def hypergraphs(draw: st.DrawFn, largest_net: int = 6) -> Hypergraph:
    """With empty nets, isolated vertices, and costs and weights that are 1, 0 or very large."""
    n = draw(st.integers(1, 8))
    nets = draw(
        st.lists(
            st.lists(st.integers(0, n - 1), max_size=min(n, largest_net), unique=True), max_size=7
        )
    )
    amounts = st.just(1) | st.sampled_from([0, 1, 7, 2**40])
    pointer = np.cumsum([0, *map(len, nets)])
    pins = [pin for net in nets for pin in net]
    weights = draw(st.just([1] * n) | st.lists(amounts, min_size=n, max_size=n))
    costs = draw(st.just([1] * len(nets)) | st.lists(amounts, min_size=len(nets),
                                                      max_size=len(nets)))  # fmt: skip
    return Hypergraph.from_nets(pointer, np.array(pins, np.int64), n, weights, costs)


@given(hypergraphs(), st.sampled_from(["a.hgr", "a.u", "a.hgr.gz", "a.u.xz", "a.hgr.bz2"]))
def test_what_is_written_is_read(folder: Path, hypergraph: Hypergraph, name: str) -> None:
    hypergraph.write(folder / name)
    assert daskpart.read(folder / name) == hypergraph


@given(hypergraphs(largest_net=2))
def test_a_graph_is_written_edge_by_edge(folder: Path, graph: Hypergraph) -> None:
    graph.write(folder / "a.graph")
    found = daskpart.read(folder / "a.graph")
    edges: dict[tuple[int, int], int] = {}
    for net in range(graph.n_nets):
        ends = graph.pins[graph.net_pointer[net] : graph.net_pointer[net + 1]].tolist()
        if len(ends) == 2 and graph.net_costs[net]:
            edges[ends[0], ends[1]] = edges.get((ends[0], ends[1]), 0) + int(graph.net_costs[net])
    pairs = [tuple(pair) for pair in found.pins.reshape(-1, 2).tolist()]
    assert dict(zip(pairs, found.net_costs.tolist(), strict=True)) == edges
    assert pairs == sorted(pairs)
    assert found.vertex_weights.tolist() == graph.vertex_weights.tolist()
    found.write(folder / "b.graph")
    assert daskpart.read(folder / "b.graph") == found


@given(st.lists(st.integers(0, 11), min_size=1, max_size=50), st.sampled_from(["", ".gz", ".xz"]))
def test_partitions_are_written_and_read(folder: Path, parts: list[int], suffix: str) -> None:
    partition = Partition(np.array(parts, np.int32), 12)
    partition.write(folder / f"parts.txt{suffix}")
    assert Partition.from_file(folder / f"parts.txt{suffix}", n_parts=12) == partition
    assert Partition.from_file(folder / f"parts.txt{suffix}").n_parts == max(parts) + 1


def test_text_is_as_the_formats_have_it(folder: Path) -> None:
    hypergraph = Hypergraph.from_nets([0, 2, 2, 5], [0, 2, 3, 1, 0], 4, [1, 2, 3, 4], [5, 1, 1])
    hypergraph.write(folder / "x.hgr")
    assert (folder / "x.hgr").read_text() == "3 4 11\n5 1 3\n1\n1 1 2 4\n1\n2\n3\n4\n"
    hypergraph.write(folder / "x.txt", format="patoh")
    assert (folder / "x.txt").read_text() == "0 4 3 5 3\n5 0 2\n1\n1 0 1 3\n1\n2\n3\n4\n"
    graph = Hypergraph.from_nets([0, 2, 4], [0, 2, 2, 1], 4, None, [5, 1])
    graph.write(folder / "x.graph")
    assert (folder / "x.graph").read_text() == "4 2 001\n3 5\n3 1\n1 5 2 1\n\n"


def test_weights_of_many_vertices_without_nets(folder: Path) -> None:
    """They are numbers of the file, which may be as long as it says."""
    lonely = Hypergraph.from_nets([0, 2], [0, 1], 2_100_000, np.arange(2_100_000) % 7)
    lonely.write(folder / "lonely.hgr")
    assert daskpart.read(folder / "lonely.hgr") == lonely


def test_every_form_of_the_formats_is_read(folder: Path) -> None:
    expected = Hypergraph.from_nets([0, 2, 5], [0, 2, 3, 1, 0], 4)
    weighted = Hypergraph.from_nets([0, 2, 5], [0, 2, 3, 1, 0], 4, [1, 2, 3, 0], [9, 1])
    for name, text, wanted in (
        ("a.hgr", "% made by hand\n\n 2 4\n1 3 % a net\n% and\n1 2 4\n\n", expected),
        ("b.hgr", "2 4 0\r\n3 1\r\n4 2 1 1\r\n", expected),
        ("c.hgr", "2 4 11\n9 1 3\n1 1 2 4\n1\n2\n3\n0", weighted),
        ("a.u", "1 4 2 5\n1 3\n1 2 4\n", expected),
        ("b.u", "0 4 2 5 3 1\n% nets\n9 0 2\n1 0 1 3\n1 2\n3\n0\n% the end\n", weighted),
    ):
        (folder / name).write_text(text)
        assert daskpart.read(folder / name) == wanted, name
    path = Hypergraph.from_nets([0, 2, 4], [0, 1, 1, 2], 4, [5, 1, 2, 1], [1, 7])
    (folder / "a.graph").write_text("%x\n4 2 011\n5 2 1\n1 1 1 3 7\n2 2 7\n1\n\n\n")
    assert daskpart.read(folder / "a.graph") == path
    (folder / "b.graph").write_text("4 2\n2\n1 3\n2\n\n")
    assert daskpart.read(folder / "b.graph").vertex_weights.tolist() == [1] * 4
    (folder / "c.graph").write_text("3 1 110 2\n8 5 6 2\n9 1 2 1\n7 3 4\n")
    with pytest.warns(DaskpartWarning, match="the vertex sizes and all weights but the first are"):
        graph = daskpart.read(folder / "c.graph")
    assert graph.vertex_weights.tolist() == [5, 1, 3] and graph.n_nets == 1


BROKEN = [
    ("a.hgr", "", "the file is empty|no numbers"),
    ("b.hgr", "3\n1 2\n", r"b.hgr, line 1: expected a line 'nets vertices \[fmt\]', found 1"),
    ("c.hgr", "1 3 7\n1 2\n", "fmt is 7 in the first line; it can be 0, 1, 10 or 11"),
    ("d.hgr", "2 3\n1 2\n", "announces 2 nets, a line each; 1 were found .the last is line 2"),
    ("e.hgr", "1 3\n%\n1 4\n", "e.hgr, line 3: pin 4 is out of range: pins are 1 to 3"),
    ("f.hgr", "1 3\n1 0\n", "line 2: pin 0 is out of range"),
    ("g.hgr", "1 3\n1 -2\n", "line 2: expected a whole number from 0 .* found -2"),
    ("h.hgr", "1 3\n1 x\n", "line 2: expected a number, found 'x'"),
    ("i.hgr", "1 3 10\n1 2\n1\n1.5\n1\n", "line 4: expected a whole number .* found 1.5"),
    ("j.hgr", "1 2 10\n1 2\n1\n1 1\n", "line 4: expected one weight of a vertex, found 2"),
    ("k.hgr", "2 2 1\n1 1 2\n\n", "line 3: expected the cost of a net"),
    ("a.u", "0 4 2\n", r"a.u, line 1: expected a line 'base cells nets pins \[weights\]'"),
    ("b.u", "2 4 2 5\n", "base 2, weights 0, .* base can be 0 or 1"),
    ("c.u", "0 4 2 5 1 2\n", "weights a cell 2"),
    ("d.u", "0 4 2 5\n0 2\n0 1\n", "announces 2 nets .lines. with 5 pins, and 5 numbers in all"),
    ("e.u", "0 4 2 5\n0 2\n0 1 4\n", "e.u, line 3: pin 4 is out of range: pins are 0 to 3"),
    ("f.u", "1 2 1 2\n0 2\n", "line 2: pin 0 is out of range: pins are 1 to 2"),
    ("a.graph", "3 1 5\n2\n1\n\n", "fmt is 5 in the first line"),
    ("b.graph", "3 1 10 0\n1 2\n1 1\n1\n", "ncon is 0"),
    ("c.graph", "3 1\n2\n1\n", "announces 3 vertices, a line each; 2 lines follow"),
    ("d.graph", "2 1\n3\n1\n", "d.graph, line 2: neighbour 3 is out of range"),
    ("e.graph", "2 1\n1\n1\n", "line 2: neighbour 1 is the vertex itself"),
    ("f.graph", "3 1\n2\n\n\n", "line 2: edge 1-2 must stand once on the line of 1 and once on"),
    ("g.graph", "2 1 1\n2 3\n1 4\n", "edge 1-2 must stand once .* with the same weight"),
    ("h.graph", "2 2\n2\n1\n", "announces 2 edges, the lines hold 1"),
    ("i.graph", "2 1 1\n2\n1 1\n", "line 2: expected 0 numbers of the vertex and then neighb"),
    ("j.graph", "2 1 11\n\n1 1 1\n", "line 2: expected 1 numbers of the vertex"),
    ("k.graph", "2 1\n2 2\n1 1\n", "edge 1-2 must stand once"),
]


@pytest.mark.parametrize(("name", "text", "message"), BROKEN)
def test_broken_files_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ReadError, match=message):
        daskpart.read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "head"), [("x.hgr", "0 {n} 10"), ("x.u", "0 {n} 0 0 1"), ("x.graph", "{n} 0 10")]
)
def test_weights_whose_sum_is_beyond_int64_are_refused(
    tmp_path: Path, name: str, head: str
) -> None:
    n = 1025
    (tmp_path / name).write_text(f"{head.format(n=n)}\n" + f"{2**53 - 1}\n" * n)
    with pytest.raises(InputError, match=r"the vertex weights sum to 2\^63"):
        daskpart.read(tmp_path / name)


@settings(max_examples=60)
@given(st.text("0123 \n%", max_size=30), st.sampled_from(["x.hgr", "x.u", "x.graph"]))
def test_any_text_is_read_or_refused(folder: Path, text: str, name: str) -> None:
    (folder / name).write_text(text)
    try:
        found = daskpart.read(folder / name)
    except ReadError as error:
        assert name in str(error)
    else:
        found.write(folder / f"again.{name}")
        assert daskpart.read(folder / f"again.{name}") == found


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    hypergraph = Hypergraph.from_nets([0, 3], [0, 1, 2], 3)
    with pytest.raises(InputError, match=r"the name 'x\.txt' tells no format"):
        hypergraph.write(tmp_path / "x.txt")
    with pytest.raises(InputError, match="format is 'mtx': use one of 'hgr'"):
        hypergraph.write(tmp_path / "x.hgr", format="mtx")
    with pytest.raises(InputError, match="net 0 has 3 pins: a METIS graph has edges of two"):
        hypergraph.write(tmp_path / "x.graph")
    assert not (tmp_path / "x.graph").exists()
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        hypergraph.write(tmp_path / "none" / "x.hgr")


def test_a_partition_of_another_tool_is_used_as_ours(tmp_path: Path) -> None:
    matrix = scipy.sparse.random_array((40, 30), density=0.2, rng=0)
    model = data_models.column_net(matrix)
    own = daskpart.partition(model, 4, method="random")
    own.write(tmp_path / "parts")
    brought = Partition.from_file(tmp_path / "parts", model)
    assert brought == own
    assert brought.nonzero_parts(matrix).tolist() == own.nonzero_parts(matrix).tolist()
    assert Partition.from_file(tmp_path / "parts", model.hypergraph).weights.sum() == matrix.nnz
    (tmp_path / "one-line").write_text("0 0 1 2\n1\n")
    assert Partition.from_file(tmp_path / "one-line").assignment.tolist() == [0, 0, 1, 2, 1]
    with pytest.raises(InputError, match="5 parts, but the hypergraph has 40 vertices"):
        Partition.from_file(tmp_path / "one-line", model)
    with pytest.raises(ReadError, match=r"one-line, line 1: part 2 is out of range: .* 0 to 1"):
        Partition.from_file(tmp_path / "one-line", n_parts=2)
    (tmp_path / "one-line").write_text("0\n-1\n")
    with pytest.raises(ReadError, match="line 2: expected a whole number"):
        Partition.from_file(tmp_path / "one-line")


@pytest.mark.data
def test_published_partitions_have_their_published_cuts(shared_data: Path) -> None:
    """K-SpecPart's solutions of ibm01: cuts 203 and 522, λ - 1 of the second 546."""
    hypergraph = daskpart.read(shared_data / "hypergraphs" / "ibm01.hgr.gz")
    for n_parts, cut, connectivity in ((2, 203, 203), (4, 522, 546)):
        path = shared_data / "hypergraphs" / f"ibm01.part{n_parts}.txt.gz"
        partition = Partition.from_file(path, hypergraph)
        found = Connectivity.from_partition(hypergraph, partition)
        assert partition.n_parts == n_parts
        assert (found.cut_net(), found.connectivity_minus_one()) == (cut, connectivity)


@pytest.mark.data
def test_real_files(shared_data: Path, tmp_path: Path) -> None:
    files = {
        "hypergraphs/ken-11.u.gz": (14_694, 14_694, 82_454, 82_454),
        "hypergraphs/ibm01.weight.hgr.gz": (12_752, 14_111, 50_566, 4_230_016),
        "hypergraphs/sparcT1_core.hgr.gz": (91_976, 92_827, 503_911, 91_976),  # 11 repeated pins
        "graphs/4elt.graph.gz": (15_606, 45_878, 91_756, 15_606),
    }
    for name, sizes in files.items():
        found = daskpart.read(shared_data / name)
        assert (found.n_vertices, found.n_nets, found.n_pins, found.total_weight) == sizes
        copy = tmp_path / Path(name).name.removesuffix(".gz")
        found.write(copy)
        assert daskpart.read(copy) == found


@pytest.mark.parametrize("name", ["old.hgr", "old.hgr.gz", "old.txt", "old.txt.xz", "old.txt.bz2"])
def test_what_cannot_be_written_to_its_end_leaves_the_old_file(name, tmp_path, monkeypatch):
    """Also where it ends in the middle of the text, of which a part is written then."""
    hypergraph = Hypergraph.from_nets(np.arange(0, 600_001, 2), np.arange(600_000) % 9_999, 9_999)
    thing = hypergraph if ".hgr" in name else Partition(np.arange(600_000) % 8, 8)
    path = tmp_path / name
    thing.write(path)
    old, n_calls = path.read_bytes(), 0
    if name.endswith(".gz"):
        assert b"old.hgr\0" in old[:40]
    text_of = writers._lines

    def full(*arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return text_of(*arguments)

    monkeypatch.setattr(writers, "_lines", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        thing.write(path)
    assert path.read_bytes() == old and [*tmp_path.iterdir()] == [path]
