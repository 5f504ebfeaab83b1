"""Parallel Parsa: τ = 0 is the sequential run to the bit, any τ gives a valid result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.collectives.server import ParameterServer
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.parsa import parallel, partition
from daskpart.parsa.bipartite import Bipartite
from daskpart.parsa.block_folder import BlockFolder

K = 5


def noise(seed: int, n_data: int = 400, n_parameters: int = 150) -> scipy.sparse.csr_array:
    """Rows with 0 to 9 of the columns, low numbers more often."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n_data), rng.integers(0, 10, n_data))
    columns = (n_parameters * rng.random(len(rows)) ** 2).astype(int)
    keys = np.unique(rows * n_parameters + columns)
    ones = np.ones(len(keys))
    shape = (n_data, n_parameters)
    return scipy.sparse.csr_array((ones, np.divmod(keys, n_parameters)), shape=shape)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 1000),
    workers=st.integers(2, 4),
    n_blocks=st.integers(4, 9),
    weights=st.sampled_from([None, "edges"]),
    sample=st.sampled_from([0.0, 0.3]),
)
def test_no_delay_is_the_sequential_result(seed, workers, n_blocks, weights, sample):
    matrix = noise(seed)
    how: dict[str, Any] = {"n_blocks": n_blocks, "weights": weights, "sample": sample}
    wanted = partition(matrix, K, random_state=seed, **how)
    found = partition(matrix, K, random_state=seed, workers=workers, transport="local", **how)
    assert found == wanted
    names = [name for name in wanted.to_dict() if name != "seconds"]
    assert [found.to_dict()[name] for name in names] == [wanted.to_dict()[name] for name in names]
    assert found.partition.info["workers"] == workers


@pytest.mark.parametrize("delay", [1, 3, math.inf])
def test_with_any_delay_all_data_are_assigned_evenly_and_counted_right(delay):
    matrix = noise(1)
    how: dict[str, Any] = {"workers": 3, "n_blocks": 9, "delay": delay, "transport": "local"}
    found = partition(matrix, K, schedule="in turn", **how)
    assert found == partition(matrix, K, schedule="in turn", **how)
    for result in (found, partition(matrix, K, **how)):
        assert np.ptp(result.partition.part_weights) <= 1
        sharers = Connectivity.from_partition(Hypergraph.column_net(matrix), result.partition)
        assert np.array_equal(result.connectivity().parts, sharers.parts)


def test_new_data_and_blocks_on_disk_are_dealt_alike(tmp_path):
    first = partition(noise(0), K)
    how: dict[str, Any] = {"previous": first, "random_state": 3}
    wanted = partition(noise(1), K, n_blocks=6, **how)
    folder = BlockFolder.write(
        Bipartite.from_matrix(noise(1)), tmp_path / "blocks", 6, random_state=3
    )
    assert partition(folder, K, workers=2, transport="local", **how) == wanted
    assert wanted.n_data_seen == 800


def test_data_without_parameters_are_dealt_too():
    hypergraph = Hypergraph.from_nets([0], [], n_vertices=6)
    found = partition(hypergraph, 2, workers=2, n_blocks=2, transport="local")
    assert found == partition(hypergraph, 2, n_blocks=2)
    assert found.partition.part_weights.tolist() == [3, 3]


def test_a_worker_pulls_what_its_block_touches_and_pushes_only_what_is_new():
    matrix = noise(2)
    found = partition(matrix, K, n_blocks=4, workers=2, transport="local")
    blocks = Bipartite.from_matrix(matrix).blocks(4)
    pulled = sum(len(blocks.read(number).parameters) for number in range(4))
    told = found.partition.info["parameter server"]
    rows = told["rows, local"] + told["rows, remote"]
    new_bits = found.to_dict()["memory, total"]
    assert pulled < rows <= pulled + new_bits
    # every bit is pushed once: a row is pushed again only for another part
    assert rows - pulled >= np.count_nonzero(found.connectivity().connectivity)


def test_an_error_in_a_worker_is_told(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(parallel, "assign_block", fail)
    with pytest.raises(RuntimeError, match="no room") as raised:
        partition(noise(0), K, n_blocks=4, workers=2, transport="local")
    assert any("rank" in note for note in raised.value.__notes__)


def test_the_placement_serves_a_parameter_server():
    matrix = noise(4)
    found = partition(matrix, K)
    with ParameterServer(150, placement=found.placement, transport="local") as server:
        assert server.n_ranks == K and np.array_equal(server.placement, found.placement.assignment)
    kept = found.owners >= 0
    assert np.array_equal(found.placement.assignment[kept], found.owners[kept])


@pytest.mark.cluster
@pytest.mark.slow
def test_worker_processes_give_the_sequential_result(quiet_client, tmp_path):
    matrix = noise(5)
    wanted = partition(matrix, K, n_blocks=6, random_state=1)
    dask: dict[str, Any] = {
        "workers": 2,
        "transport": "dask",
        "client": quiet_client,
        "random_state": 1,
    }
    folder = BlockFolder.write(Bipartite.from_matrix(matrix), tmp_path, 6, random_state=1)
    assert partition(folder, K, **dask) == wanted
    late = partition(matrix, K, n_blocks=6, delay=2, **dask)
    assert np.ptp(late.partition.part_weights) <= 1
