"""Examples of a file on ranks: the same random order for any number of ranks and any transport."""

from __future__ import annotations

import bz2
import gzip
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

import daskpart
from daskpart._floor.hashing import row_keys
from daskpart.collectives import communicator_for
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.models.samples import examples, examples_on_disk
from daskpart.models.samples.examples import examples_on_ranks, readings, shuffled_rows
from daskpart.readers import ranges
from daskpart.readers.libsvm import Examples
from daskpart.readers.ranges import ExamplesFile, survey

N_ROWS = 400


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sorted by class, as the worst of files are; an empty row among them."""
    random = np.random.default_rng(0)
    X = random.normal(size=(N_ROWS, 30)) * (random.random((N_ROWS, 30)) < 0.2)
    X[7] = 0
    file = tmp_path_factory.mktemp("data") / "sorted.libsvm"
    dump_svmlight_file(X, np.repeat([-1, 1], N_ROWS // 2), str(file), zero_based=False)
    return file


@pytest.fixture(scope="module")
def file(path: Path) -> ExamplesFile:
    return survey(path)


@pytest.fixture(scope="module")
def whole(path: Path) -> Examples:
    return daskpart.read(path)


def on_ranks(comm, file: ExamplesFile, seed: int | None, round_bytes: int) -> list[Examples]:
    own = readings(file, comm.n_ranks, round_bytes)
    with comm:
        options = {"n_rounds": len(own[0].rounds), "seed": seed}
        return comm.gather(comm.run(examples_on_ranks, comm.values(own), **options))


def assert_equal(parts: list[Examples], whole: Examples, order: np.ndarray) -> None:
    data, wanted = sp.vstack([part.data for part in parts], "csr"), whole.data[order]
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(data, name), getattr(wanted, name))
    np.testing.assert_array_equal(
        np.concatenate([part.target for part in parts]), whole.target[order]
    )
    for part in parts:
        assert part.data.indices.dtype == part.data.indptr.dtype == np.int32
        assert part.data.shape[1] == whole.data.shape[1]


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_every_row_once_in_one_order(file, whole, n_ranks, seed):
    parts = on_ranks(communicator_for("local", n_ranks), file, seed, round_bytes=3000)
    order = np.arange(N_ROWS) if seed is None else np.argsort(row_keys(N_ROWS, seed))
    assert_equal(parts, whole, order)
    if seed is not None:
        for part, rows in zip(parts, shuffled_rows(N_ROWS, n_ranks, seed), strict=True):
            np.testing.assert_array_equal(part.target, whole.target[rows])
            if n_ranks < 8:  # both classes on every rank, about evenly
                assert 0.25 < (part.target > 0).mean() < 0.75


@given(st.integers(1, 6), st.integers(1000, 40_000), st.sampled_from([None, 3]))
def test_rounds_change_nothing(file, whole, n_ranks, round_bytes, seed):
    order = np.arange(N_ROWS) if seed is None else np.argsort(row_keys(N_ROWS, seed))
    parts = on_ranks(communicator_for("local", n_ranks), file, seed, round_bytes)
    assert_equal(parts, whole, order)


@pytest.mark.parametrize("large", [1, 40])
def test_small_blocks_are_joined_to_large_ones(file, whole, large, monkeypatch):
    monkeypatch.setattr(examples, "_LARGE_ENTRIES", large)
    parts = on_ranks(communicator_for("local", 3), file, 0, round_bytes=500)
    assert_equal(parts, whole, np.argsort(row_keys(N_ROWS, 0)))


@pytest.mark.parametrize("make", [ThreadsCommunicator, lambda n: communicator_for("graph", n)])
def test_the_same_on_other_transports(file, make):
    here = on_ranks(communicator_for("local", 3), file, 5, 4000)
    there = on_ranks(make(3), file, 5, 4000)
    for one, other in zip(here, there, strict=True):
        assert one.data.data.tobytes() == other.data.data.tobytes()
        assert one.target.tobytes() == other.target.tobytes()


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
@pytest.mark.parametrize("transport", ["local", "graph"])
def test_each_rank_unpacks_its_range_once_and_reads_it_in_rounds(
    file, path, whole, suffix, pack, transport, monkeypatch, tmp_path
):
    packed = tmp_path / f"sorted.libsvm{suffix}"
    packed.write_bytes(pack(path.read_bytes()))
    ends, opened = [], examples_on_disk.opened

    @contextmanager
    def watched(place):
        with opened(place) as stream:
            yield stream
            ends.append(stream.tell())

    monkeypatch.setattr(examples_on_disk, "opened", watched)
    monkeypatch.setattr(ranges, "opened", None)  # nobody unpacks it a second time
    same = replace(file, path=str(packed))
    parts = on_ranks(communicator_for(transport, 3), same, 2, round_bytes=3000)
    assert_equal(parts, whole, np.argsort(row_keys(N_ROWS, 2)))
    assert sorted(ends) == [file.blocks[own[-1]].stop for own in file.ranges(3)]


def test_a_text_of_one_round_is_not_kept(file, path, whole, monkeypatch, tmp_path):
    packed = tmp_path / "sorted.libsvm.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(examples_on_disk, "opened", None)
    same = replace(file, path=str(packed))
    assert_equal(
        on_ranks(communicator_for("local", 2), same, None, 1 << 20), whole, np.arange(N_ROWS)
    )


def test_rows_travel_once(file):
    n_ranks = 4
    own = readings(file, n_ranks, 4000)
    with communicator_for("local", n_ranks) as comm:
        n_rounds = len(own[0].rounds)
        comm.run(examples_on_ranks, comm.values(own), n_rounds=n_rounds, seed=2)
        found = comm.counters.of("examples")
    starts = file.row_pointer[[blocks.start for blocks in file.ranges(n_ranks)]]
    reader = np.searchsorted(starts, np.arange(N_ROWS), side="right") - 1
    holder = np.empty(N_ROWS, int)
    for rank, rows in enumerate(shuffled_rows(N_ROWS, n_ranks, 2)):
        holder[rows] = rank
    assert found["rows_sent"].sum() == (reader != holder).sum()
    assert found["messages_sent"].sum() == n_rounds * n_ranks * (n_ranks - 1)


def test_keys_differ_and_depend_on_the_seed():
    keys = row_keys(10_000, 4)
    assert len(np.unique(keys)) == 10_000
    np.testing.assert_array_equal(row_keys(50, 4, first=30), keys[30:80])
    assert not (keys == row_keys(10_000, 5)).any()
    assert keys.astype(float).mean() == pytest.approx(2.0**63, rel=0.03)
