"""`parsa`: every way to begin, blocks in memory and on disk, the report, what is refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.parsa import ParsaResult, partition
from daskpart.parsa.bipartite import Bipartite
from daskpart.parsa.block_folder import BlockFolder
from daskpart.parsa.sources import Size, blocks_that_fit
from daskpart.partitions import Partition
from daskpart.readers import survey

K = 6


def clustered(seed: int = 0, n_data: int = 900) -> scipy.sparse.csr_array:
    """Rows of 12 topics, nine of ten entries in the columns of the topic; 700 columns."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, n_data)
    rows = np.repeat(np.arange(n_data), lengths)
    topics = rng.integers(0, 12, n_data)[rows]
    inside = topics * 50 + rng.integers(0, 50, len(rows))
    columns = np.where(rng.random(len(rows)) < 0.9, inside, rng.integers(0, 690, len(rows)))
    keys = np.unique(rows * 700 + columns)
    ones = np.ones(len(keys))
    return scipy.sparse.csr_array((ones, (keys // 700, keys % 700)), shape=(n_data, 700))


@pytest.fixture(scope="module")
def matrix() -> scipy.sparse.csr_array:
    return clustered()


@pytest.fixture(scope="module")
def path(matrix, tmp_path_factory) -> Path:
    """The matrix as a libsvm file."""
    file = tmp_path_factory.mktemp("data") / "topics.libsvm"
    rows = (matrix.indices[a:b] for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False))
    file.write_text("".join("1 " + " ".join(f"{c + 1}:1" for c in row) + "\n" for row in rows))
    return file


WAYS = {
    "whole": {},
    "blocks": {"n_blocks": 5},
    "individual": {"n_blocks": 5, "extra_passes": 2},
    "individual, window": {"n_blocks": 5, "extra_passes": 1, "window": 2},
    "global": {"n_blocks": 5, "sample": 0.2},
    "by edges": {"weights": "edges", "n_blocks": 2},
    "polished": {"polish": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_even_repeats_and_says_what_is_so(matrix, way):
    found = partition(matrix, K, random_state=4, **WAYS[way])
    assert found == partition(matrix, K, random_state=4, **WAYS[way])
    check(found, matrix)
    weights = found.partition.part_weights
    slack = {"blocks": 1, "by edges": 12, "polished": 0.07 * len(found.partition.weights)}
    assert np.ptp(weights) <= slack.get(way, 1)
    told = found.to_dict()
    assert told["improvement: memory, total"] > 0.5 and told["improvement: traffic, maximum"] > 0.5


def check(found: ParsaResult, matrix) -> None:
    """Sets, owners and report follow from the partition."""
    connectivity = Connectivity.from_partition(Hypergraph.column_net(matrix), found.partition)
    own = found.connectivity()
    assert np.array_equal(own.pointer, connectivity.pointer)
    assert np.array_equal(own.parts, connectivity.parts)
    told, owned = found.to_dict(), connectivity.with_owners(found.owners)
    volumes = [owned.rank_volume(name) for name in ("expand", "reduce")]
    traffic = volumes[0].send + volumes[0].receive
    assert np.array_equal(found.traffic, traffic)
    assert (told["traffic, maximum"], told["traffic, total"]) == (traffic.max(), traffic.sum())
    sizes = np.bincount(connectivity.parts, minlength=K)
    assert (told["memory, maximum"], told["memory, total"]) == (sizes.max(), sizes.sum())
    assert told["traffic, bound"] <= told["traffic, maximum"]
    if "random: memory, total" in told:
        for name in ("memory, maximum", "traffic, total"):
            gain = (told[f"random: {name}"] - told[name]) / told[name]
            assert told[f"improvement: {name}"] == pytest.approx(gain)


def test_random_parts_of_the_report_are_those_of_a_random_partition(matrix):
    told = partition(matrix, K).to_dict()
    chance = daskpart.partition(Bipartite.from_matrix(matrix).hypergraph(), K, method="random")
    drawn = Connectivity.from_partition(Hypergraph.column_net(matrix), chance)
    assert told["random: memory, total"] == pytest.approx(len(drawn.parts), rel=0.05)
    volume = 2 * drawn.connectivity_minus_one()
    assert told["random: traffic, total"] == pytest.approx(volume, rel=0.05)
    assert not any("random" in name for name in partition(matrix, K, compare=False).to_dict())


def test_extra_passes_and_polish_are_worth_their_time(matrix):
    def traffic(**how):
        return partition(matrix, K, compare=False, **how).to_dict()["traffic, total"]

    assert traffic(n_blocks=6, extra_passes=2) < 0.95 * traffic(n_blocks=6)
    assert traffic(polish=True) < 0.95 * traffic()
    passes = {"n_blocks": 6, "extra_passes": 1}
    found = partition(matrix, K, **passes)
    assert found == partition(matrix, K, **passes, window=5)  # all others
    assert found != partition(matrix, K, **passes, window=1)


def test_one_part_and_as_many_parts_as_data():
    matrix = clustered(1, 40)
    alone = partition(matrix, 1)
    assert alone.traffic.tolist() == [0] and not alone.partition.assignment.any()
    each = partition(matrix, 40)
    assert np.bincount(each.partition.assignment).tolist() == [1] * 40
    assert partition(matrix, 40, n_blocks=40).partition.n_parts == 40


def test_data_without_edges_are_shared_out():
    empty = Bipartite(3, np.zeros(8, np.int64), np.empty(0, np.int32))
    found = partition(empty, 3)
    assert np.bincount(found.partition.assignment).tolist() == [3, 2, 2]
    assert found.owners.tolist() == [-1, -1, -1]
    assert found.placement.assignment.tolist() == [0, 1, 2]
    assert found.to_dict()["improvement: memory, total"] == 0


@pytest.mark.parametrize("options", [{}, {"extra_passes": 1}, {"sample": 0.1}])
def test_out_of_core_equals_in_memory(matrix, path, tmp_path, options):
    graph = Bipartite.from_matrix(matrix)
    folder = BlockFolder.write(path, tmp_path / "blocks", 4, random_state=9, n_parameters=700)
    in_memory = partition(graph, K, n_blocks=4, random_state=9, **options)
    for data in (folder, tmp_path / "blocks", graph.blocks(4, 9)):
        assert partition(data, K, random_state=9, **options) == in_memory


def test_all_containers_and_files_give_the_same(matrix, path, tmp_path):
    wanted = partition(matrix, K)
    mtx = tmp_path / "topics.mtx"
    daskpart_graph = Bipartite.from_matrix(matrix)
    import scipy.io

    scipy.io.mmwrite(mtx, matrix)
    for data in (matrix.tocoo(), daskpart_graph, Hypergraph.column_net(matrix), mtx, str(mtx)):
        assert partition(data, K) == wanted
    from_file = partition(path, K)
    assert from_file.partition == wanted.partition  # its last columns may not occur in the file
    assert from_file == partition(path, K, memory_limit="1 GB", n_blocks=1)


def test_a_memory_limit_decides_the_number_of_blocks(path, matrix):
    small = partition(path, K, memory_limit="65 MiB")
    assert small.to_dict()["blocks"] == 1
    size = Size(900, 700, matrix.nnz)
    fixed = 64 * 2**20 + 700 * 11 + 16 * 900
    assert blocks_that_fit(size, K, fixed + 20_000) > 5
    tight = partition(path, K, memory_limit=fixed + 20_000)
    assert tight.to_dict()["blocks"] > 5
    with pytest.raises(InputError, match=r"at least [0-9,]+ are needed"):
        partition(path, K, memory_limit="1 MB")


def test_many_parts_of_many_data_are_no_table_of_both(matrix, monkeypatch):
    """12 bytes for each of them: 6 GB for a million rows in 512 parts."""
    monkeypatch.setattr("daskpart.parsa.sources._MOST_LISTED", 12 * K * 300)
    assert partition(matrix, K).to_dict()["blocks"] == 3
    assert partition(matrix, K, n_blocks=1).to_dict()["blocks"] == 1
    assert partition(matrix, K, workers=2).to_dict()["blocks"] == 16


def test_new_data_join_an_old_result(tmp_path):
    old, new = clustered(0), clustered(1)
    first = partition(old, K)
    first.save(tmp_path / "old.npz")
    joined = partition(new, K, previous=ParsaResult.load(tmp_path / "old.npz"))
    assert joined == partition(new, K, previous=first) and joined.n_data_seen == 1800
    both = scipy.sparse.vstack([old, new]).tocsr()
    assignment = np.concatenate([first.partition.assignment, joined.partition.assignment])
    whole = Connectivity.from_partition(Hypergraph.column_net(both), Partition(assignment, K))
    assert np.array_equal(joined.connectivity().parts, whole.parts)
    apart = partition(new, K).to_dict()["memory, total"] + first.to_dict()["memory, total"]
    assert joined.to_dict()["memory, total"] < 0.9 * apart
    wider = scipy.sparse.csr_array(([1.0], ([0], [800])), shape=(6, 801))
    assert partition(wider, K, previous=joined).n_parameters == 801
    for data, n_parts, words in ((new, 5, "previous has 6 parts"), (new[:, :9], K, "number them")):
        with pytest.raises(InputError, match=words):
            partition(data, n_parts, previous=first)


def test_new_data_even_out_the_old():
    first = partition(clustered(0, 20), K)
    joined = partition(clustered(1, 16), K, previous=first)
    sizes = np.bincount(first.partition.assignment, minlength=K) + np.bincount(
        joined.partition.assignment, minlength=K
    )
    assert np.ptp(sizes) == 0


def test_a_result_is_saved_and_shows_itself(matrix, tmp_path):
    found = partition(matrix, K)
    found.save(tmp_path / "result.npz")
    loaded = ParsaResult.load(tmp_path / "result.npz")
    assert loaded == found and loaded.to_dict() == found.to_dict()
    assert loaded.partition.info["method"] == "parsa" and found != 3
    assert "improvement: traffic, maximum" in repr(found)
    assert "<table>" in found._repr_html_()
    found.partition.save(tmp_path / "partition.npz")
    with pytest.raises(ReadError, match="no ParsaResult"):
        ParsaResult.load(tmp_path / "partition.npz")


@pytest.mark.parametrize("options", [{}, {"memory_limit": "1 GB"}, {"n_blocks": 1}])
def test_without_data_there_is_nothing_to_assign(options):
    nothing = Hypergraph.from_nets([0], [], 0)
    with pytest.raises(InputError, match="there are no data to assign"):
        partition(nothing, 1, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_parts": 0}, "n_parts is 0"),
        ({"n_parts": 901}, "only 900 data"),
        ({"n_parts": 2.5}, "n_parts is 2.5"),
        ({"n_blocks": 0}, "n_blocks is 0"),
        ({"n_blocks": 901}, "only 900 data"),
        ({"memory_limit": "much"}, "memory_limit is 'much'"),
        ({"memory_limit": -1}, "memory_limit is -1"),
        ({"memory_limit": math.inf}, "memory_limit is inf"),
        ({"extra_passes": -1}, "extra_passes is -1"),
        ({"extra_passes": 1}, "n_blocks of at least 2"),
        ({"extra_passes": 1, "n_blocks": 4, "window": 4}, "window is 4"),
        ({"sample": 1.5}, "sample is 1.5"),
        ({"sample": float("nan")}, "sample is nan"),
        ({"sample": 0.5, "extra_passes": 1, "n_blocks": 2}, "cannot join"),
        ({"weights": "heavy"}, "weights is 'heavy'"),
        ({"weights": np.ones(3)}, "3 weights were given, 900"),
        ({"weights": np.full(900, -1)}, "weight 0 is -1"),
        ({"weights": np.full(900, np.nan)}, "weight 0 is nan"),
        ({"previous": "old.npz"}, "previous is of type str"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"random_state": -1}, "random_state is -1"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 3, "n_blocks": 2}, "only 2 blocks"),
        ({"workers": 2, "n_blocks": 4, "extra_passes": 1}, "workers=1"),
        ({"workers": 2, "delay": -1}, "delay is -1"),
        ({"delay": -1}, "delay is -1"),
        ({"transport": "carrier pigeon"}, "transport is 'carrier pigeon'"),
    ],
)
def test_what_cannot_be_used_is_refused(matrix, options, words):
    with pytest.raises(InputError, match=words):
        partition(matrix, **{"n_parts": K, **options})


def test_what_needs_the_whole_graph_is_refused_for_blocks(matrix, tmp_path, monkeypatch):
    folder = BlockFolder.write(Bipartite.from_matrix(matrix), tmp_path, 3)
    old = partition(matrix, K)
    with monkeypatch.context() as before_all_are_assigned:
        before_all_are_assigned.delattr("daskpart.parsa.run.assign_in_order")
        with pytest.raises(InputError, match="in memory"):
            partition(folder, K, polish=True)
        with pytest.raises(InputError, match="polish does not know the old data"):
            partition(matrix, K, polish=True, previous=old)
    with pytest.raises(InputError, match="in 3 already"):
        partition(folder, K, n_blocks=4)
    with pytest.raises(ReadError, match="no such file"):
        partition(tmp_path / "absent.libsvm", K)
    with pytest.raises(InputError, match="dense"):
        partition(np.ones((3, 3)), K)


def test_partition_offers_parsa(matrix):
    found = daskpart.partition(matrix, K, method="parsa", epsilon=0.1)
    hypergraph = Hypergraph.column_net(matrix)
    assert found.info["method"] == "parsa" and found.imbalance <= 0.1
    assert np.array_equal(found.weights, hypergraph.vertex_weights)
    rough = daskpart.partition(matrix, K, method="parsa", polish=False)
    by_edges = partition(matrix, K, weights=hypergraph.vertex_weights)
    assert np.array_equal(rough.assignment, by_edges.partition.assignment)
    volumes = [Connectivity.from_partition(hypergraph, p).connectivity_minus_one()
               for p in (found, rough)]  # fmt: skip
    assert volumes[0] < volumes[1]


_MEASURED = """
import sys
from pathlib import Path
import daskpart

def kilobytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

few, path, limit = sys.argv[1:]
daskpart.parsa.partition(few, 64, memory_limit="1 GB", n_blocks=2)  # compiles
for how in ({"memory_limit": int(limit)}, {"n_blocks": 1}):
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = kilobytes("VmRSS")
    daskpart.parsa.partition(path, 64, **how)
    print(1024 * (kilobytes("VmHWM") - before))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak is read from Linux's /proc"
)
def test_peak_memory_stays_below_the_limit(path, tmp_path):
    """100,000 rows of 30 entries at k = 64: about 180 MB whole, of which 77 are the lists."""
    rng = np.random.default_rng(0)
    big = tmp_path / "big.libsvm"
    with open(big, "w") as file:
        for _ in range(100):
            columns = rng.integers(1, 40_000, (1000, 30)) + np.arange(30) * 40_000
            entries = [f"{column}:1" for column in columns.ravel().tolist()]
            lines = (" ".join(["1", *entries[at : at + 30]]) for at in range(0, 30_000, 30))
            file.write("\n".join(lines) + "\n")

    limit = 120_000_000
    command = [sys.executable, "-c", _MEASURED, str(path), str(big), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    within, without = map(int, done.stdout.split())
    assert within < limit < without


def test_the_model_is_told_and_leads_from_data_to_stored_values(tmp_path):
    matrix = clustered(n_data=60)
    found = partition(matrix, 3).partition
    assert found.info["model"] == "bipartite"
    parts = found.nonzero_parts(matrix)
    assert parts.tolist() == found.assignment[matrix.tocoo().row].tolist()
    hypergraph = Hypergraph.column_net(matrix)
    hypergraph.write(tmp_path / "x.hgr")
    for data in (hypergraph, tmp_path / "x.hgr"):
        assert partition(data, 3).partition.info["model"] == "hypergraph"


def test_the_polish_leaves_no_part_empty_where_any_weight_is_allowed():
    matrix = scipy.sparse.csr_array(np.ones((6, 1)))
    found = partition(matrix, 3, polish=True, epsilon=1.0)
    assert found.partition.part_weights.min() >= 1


def test_data_behind_an_address(path_of_examples):
    address = "memory://folder/x.libsvm"
    with fsspec.open(address, "wb") as file:
        file.write(path_of_examples.read_bytes())
    assert partition(address, 4) == partition(path_of_examples, 4)
    limited = partition(address, 4, memory_limit="68MB")
    assert limited == partition(path_of_examples, 4, memory_limit="68MB")
    assert Bipartite.from_libsvm(address).n_data == 50


@pytest.mark.parametrize("zero_based", [None, True])
def test_examples_that_are_held_out_are_left_out(path_of_examples, tmp_path, zero_based):
    file = survey(path_of_examples, zero_based=zero_based)
    rest, held = file.split(0.3, random_state=0)
    lines, path = path_of_examples.read_text().splitlines(keepends=True), tmp_path / "rest.libsvm"
    drawn = np.concatenate(
        [rest.drawn.mask(range(block, block + 1)) for block in range(len(rest.blocks))]
    )
    path.write_text("".join(line for line, stays in zip(lines, drawn, strict=True) if stays))
    matrix, _ = daskpart.read(
        path, "libsvm", n_features=file.n_features, zero_based=file.first == 0
    )
    found = partition(rest, 4)
    assert found == partition(matrix, 4) == partition(rest, 4, n_blocks=1, memory_limit="1 GiB")
    assert found.partition.n_vertices == 50 - held.shape[0] < 50
    assert found.n_parameters == file.n_features


def test_of_the_archive_of_a_graph_its_adjacency_is_placed(tmp_path):
    ring = scipy.sparse.csr_array(np.roll(np.eye(12), 1, axis=1))
    graph = scipy.sparse.csr_array(ring + ring.T)
    path = tmp_path / "ring.npz"
    np.savez(path, n_nodes=12, adj_indptr=graph.indptr, adj_indices=graph.indices)
    dataset = daskpart.read(path)
    assert "adjacency" in dataset
    assert partition(path, 3) == partition(dataset, 3) == partition(graph, 3)


@pytest.fixture
def path_of_examples(tmp_path):
    path = tmp_path / "x.libsvm"
    matrix = clustered(n_data=50)
    lines = (
        matrix.indices[a:b] + 1 for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)
    )
    path.write_text("".join("1 " + " ".join(f"{c}:1" for c in line) + "\n" for line in lines))
    return path


def test_traffic_that_fell_to_nothing_is_no_missing_improvement():
    apart = scipy.sparse.csr_array(np.kron(np.eye(2), np.ones((6, 3))))
    told = partition(apart, 2, polish=True, epsilon=0.5).to_dict()
    assert told["traffic, total"] == 0 < told["random: traffic, total"]
    assert told["improvement: traffic, total"] == math.inf


def test_a_memory_limit_holds_for_blocks_that_are_made_and_for_one_worker(path, matrix, tmp_path):
    limit = 64 * 2**20 + 700 * 11 + 16 * 900 + 20_000
    n_blocks = blocks_that_fit(Size(900, 700, matrix.nnz), K, limit)
    few = BlockFolder.write(path, tmp_path / "few", n_blocks - 1, n_parameters=700)
    enough = BlockFolder.write(path, tmp_path / "enough", n_blocks, n_parameters=700)
    assert partition(enough, K, memory_limit=limit).to_dict()["blocks"] == n_blocks
    with pytest.raises(InputError, match=f"in {n_blocks} blocks or more; they are in"):
        partition(few, K, memory_limit=limit)
    with pytest.raises(InputError, match="2 workers hold several: leave memory_limit out"):
        partition(path, K, memory_limit="1 GB", workers=2)


def test_the_polish_moves_data_that_weigh_nothing(matrix):
    rough, polished = (
        partition(matrix, K, weights=np.zeros(900, int), polish=polish) for polish in (False, True)
    )
    assert polished.to_dict()["memory, total"] < rough.to_dict()["memory, total"]
    assert np.bincount(polished.partition.assignment).max() <= 1.03 * 150 + 1
