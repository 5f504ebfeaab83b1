"""Partitions: balance, order, report, files, and every refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart import parsa
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=40))
def test_weights_order_and_members_equal_plain_python(vertices):
    assignment = np.array([part for part, _ in vertices], np.int32)
    weights = np.array([weight for _, weight in vertices], np.int64)
    partition = Partition(assignment, 5, weights)
    sums = [sum(weight for part, weight in vertices if part == k) for k in range(5)]
    assert partition.part_weights.tolist() == sums
    expected = max(sums) * 5 / sum(sums) - 1 if sum(sums) else 0.0
    assert partition.imbalance == pytest.approx(expected)
    assert partition.order.tolist() == np.argsort(assignment, kind="stable").tolist()
    for part in range(5):
        start, stop = partition.part_pointer[part : part + 2]
        members = np.flatnonzero(assignment == part).tolist()
        assert partition.order[start:stop].tolist() == partition.members(part).tolist() == members
    assert partition.order.dtype == np.int64 and partition.assignment.dtype == np.int32


def saveable(kind):
    """Something of that class, and its file's name: a folder at home."""
    if kind is Partition:
        return Partition([0, 1, 1], 2)
    if kind is Connectivity:
        return Connectivity.from_pairs(np.zeros(2, int), np.arange(2), n_items=1, n_parts=2)
    hypergraph = Hypergraph.from_nets([0, 2], [0, 1], 2)
    return hypergraph if kind is Hypergraph else parsa.partition(hypergraph, 2)


KINDS = [Partition, Connectivity, Hypergraph, parsa.ParsaResult]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_at_home_is_found_there(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    made = saveable(kind)
    made.save("~/saved.npz")
    assert (tmp_path / "saved.npz").is_file() and kind.load("~/saved.npz") == made


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named(tmp_path, kind):
    made, path = saveable(kind), tmp_path / "saved.npz"
    made.save(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"no archive"):
        path.write_bytes(damaged)
        with pytest.raises(ReadError, match=r"saved\.npz cannot be read .*damaged"):
            kind.load(path)
    with pytest.raises(ReadError, match=r"absent\.npz cannot be read"):
        kind.load(tmp_path / "absent.npz")


def test_save_and_load_keep_everything_without_pickle(tmp_path):
    info = {"method": "random", "epsilon": np.float64(0.03), "shape": (3, 9), "nnz": np.int64(4)}
    partition = Partition([0, 2, 1], 3, [5, 0, 2], info)
    partition.save(tmp_path / "parts.npz")
    loaded = Partition.load(tmp_path / "parts.npz")
    assert loaded == partition
    assert loaded.info == {"method": "random", "epsilon": 0.03, "shape": [3, 9], "nnz": 4}
    loaded.check_fits(3, "the matrix", shape=(3, 9), nnz=4)


def test_equality_is_by_content():
    assert Partition([0, 1], 2) == Partition([0, 1], 2, [1, 1], {"method": "block"})
    assert Partition([0, 1], 2) != Partition([0, 1], 3)
    assert Partition([0, 1], 2) != Partition([0, 1], 2, [1, 2])
    assert Partition([0, 1], 2) != "a partition"


def test_report_states_balance_and_metrics():
    hypergraph = Hypergraph.from_nets([0, 2, 5], [0, 1, 0, 1, 2], 3, vertex_weights=[1, 2, 3])
    partition = Partition([0, 1, 1], 3, hypergraph.vertex_weights, {"method": "block"})
    report = partition.report(hypergraph).to_dict()
    assert report["method"] == "block" and report["empty parts"] == 1
    assert (report["lightest part"], report["heaviest part"], report["imbalance"]) == (0, 5, 1.5)
    assert (report["connectivity - 1"], report["Σ λ²"], report["λ_max"]) == (2, 8, 2)
    assert "connectivity - 1" not in partition.report().to_dict()
    assert "imbalance" in repr(partition.report()) and "<table>" in partition.report()._repr_html_()
    assert "heaviest part" in repr(partition) and "<table>" in partition._repr_html_()


def test_html_is_escaped():
    assert "<script>" not in Partition([0], 1, info={"method": "<script>"})._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Partition([0, 1], 0), "n_parts is 0: it must be at least 1"),
        (lambda: Partition([0, 1], 2.5), "n_parts is 2.5: give a whole number"),
        (lambda: Partition([0, 2], 2), "vertex 1 is in part 2: parts are 0 to 1"),
        (lambda: Partition([0, -1], 2), "vertex 1 is in part -1"),
        (lambda: Partition([0.0, 1.0], 2), "type float64: give one part number"),
        (lambda: Partition([[0]], 2), "assignment of shape (1, 1)"),
        (lambda: Partition([0, 1], 2, [1, -1]), "vertex weight 1 is -1"),
        (lambda: Partition([0, 1], 2, [1, np.nan]), "vertex weight 1 is nan"),
        (lambda: Partition([0, 1], 2, [1, 1e30]), "vertex weights run from 1.0 to 1e+30, beyond"),
        (lambda: Partition([0, 1], 2, np.array([2**63, 1], np.uint64)), "beyond int64"),
        (lambda: Partition([0, 1], 2).members("a"), "part is 'a': give a whole number"),
        (lambda: Partition([0, 1], 2, [1]), "1 vertex weights were given, 2 are needed"),
        (lambda: Partition([0, 1], 2).members(2), "part is 2: it must be at most 1"),
        (lambda: Partition([0, 1], 2).check_fits(3), "assigns 2 vertices, the data has 3"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


def test_a_partition_made_for_other_data_is_refused():
    partition = Partition([0, 1], 2, info={"shape": (2, 7), "nnz": 5})
    with pytest.raises(InputError, match=r"made for data of shape \(2, 7\), X has \(2, 8\)"):
        partition.check_fits(2, "X", shape=(2, 8))
    with pytest.raises(InputError, match="made for data of nnz 5, X has 6"):
        partition.check_fits(2, "X", nnz=6)
    Partition([0, 1], 2).check_fits(2, "X", shape=(2, 8), nnz=6)  # nothing recorded: nothing to say
