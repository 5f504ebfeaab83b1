"""Sparse arrays keep their fill value over the wire, are counted in bytes, and workers know it."""

from __future__ import annotations

import subprocess
import sys

import dask.array as da
import dask.config
import numpy as np
import pytest
import scipy.sparse
import sparse
from dask.sizeof import sizeof
from distributed import Client, LocalCluster, WorkerPlugin
from distributed.protocol import deserialize, serialize

from daskpart import _sparse_fixes
from daskpart.errors import DaskpartWarning

REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "max": lambda x: x.max(),
    "mean": lambda x: x.mean(),
    "sum of x + 1": lambda x: (x + 1).sum(),
}


@pytest.fixture(scope="module")
def ratings() -> sparse.COO:
    return sparse.random((60, 40), density=0.1, random_state=0)


@pytest.fixture(scope="module")
def client():
    """Worker processes that nobody told of daskpart, and a client that is started after it."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}),
        LocalCluster(processes=True, **options) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.cluster
@pytest.mark.parametrize("name", REDUCTIONS)
def test_full_reductions_on_worker_processes(client, ratings, name):
    reduce = REDUCTIONS[name]
    chunked = da.from_array(ratings, chunks=(15, 40))
    assert float(reduce(chunked).compute()) == pytest.approx(float(reduce(ratings)))


@pytest.mark.cluster
def test_workers_count_bytes(client, ratings):
    compressed = client.submit(sparse.GCXS, ratings)
    counted = client.submit(lambda held: __import__("dask.sizeof").sizeof.sizeof(held), compressed)
    assert counted.result() >= sparse.GCXS(ratings).nbytes


SCRIPT = """
import numpy, sparse
from distributed import Client, LocalCluster

def reduced():
    return sparse.COO(numpy.empty((0, 0), int), numpy.empty(0), shape=(), fill_value=8.0)

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0",
                      processes={processes}) as cluster, Client(cluster) as client:
        print(client.submit(reduced).result().fill_value)
        import daskpart
        print(client.submit(reduced, pure=False).result().fill_value)
"""


@pytest.mark.cluster
@pytest.mark.parametrize(("processes", "before"), [(True, "0.0"), (False, "8.0")])
def test_import_while_a_client_runs(tmp_path, processes, before):
    """The import protects workers that run already, and does not wait for itself (same process).

    Should the value before the import be right too, then `distributed` sends fill values by now,
    and this module has had its day.
    """
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(processes=processes))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [before, "8.0"], done.stderr


@pytest.mark.parametrize("fill_value", [0.0, 401.5])
def test_the_wire_keeps_fill_value_and_coordinates(fill_value):
    _sparse_fixes.apply()  # daskpart may have come before distributed, and no client since
    coordinates = np.array([[0, 2], [1, 0]], np.int32)
    array = sparse.COO(coordinates, np.array([1.0, 2.0]), shape=(3, 2), fill_value=fill_value)
    arrived = deserialize(*serialize(array))
    assert arrived.fill_value == fill_value
    assert arrived.coords.dtype == np.int32
    np.testing.assert_array_equal(arrived.coords, array.coords)
    np.testing.assert_array_equal(arrived.data, array.data)


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia"])
def test_scipy_arrays_are_counted(form):
    array = scipy.sparse.random_array((200, 200), density=0.05, format="coo", rng=1)
    matrix = array.tobsr() if form == "bsr" else scipy.sparse.eye_array(2000).asformat(form)
    buffers = sum(part.nbytes for part in vars(matrix).values() if isinstance(part, np.ndarray))
    if form == "coo":
        buffers += sum(side.nbytes for side in matrix.coords)
    assert buffers <= sizeof(matrix) <= buffers + 2000


def test_scipy_matrices_are_still_counted():
    matrix = scipy.sparse.csr_matrix(np.eye(300))
    assert sizeof(matrix) >= matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes


@pytest.mark.parametrize("kind", [sparse.COO, sparse.GCXS, sparse.DOK])
def test_pydata_arrays_are_counted(kind, ratings):
    array = kind(ratings) if kind is not sparse.DOK else sparse.DOK.from_coo(ratings)
    assert sizeof(array) >= array.nbytes


def test_applying_twice_asks_new_clients_once():
    _sparse_fixes.apply()
    _sparse_fixes.apply()
    assert dask.config.get("distributed.client.preload").count("daskpart._sparse_fixes") == 1


def test_preloads_of_the_user_stay():
    users_own = {
        "distributed.client.preload": ["own_module"],
        "distributed.client.preload-argv": [["--flag"]],
    }
    with dask.config.set(users_own):
        _sparse_fixes._ask_new_clients()
        assert dask.config.get("distributed.client.preload") == [
            "own_module",
            "daskpart._sparse_fixes",
        ]
        assert dask.config.get("distributed.client.preload-argv") == [["--flag"], []]
        dask.config.set({"distributed.client.preload": []})
    _sparse_fixes._ask_new_clients()


def test_a_client_starts_without_a_word_of_ours(caplog):
    with caplog.at_level("INFO", logger="distributed.preloading"):
        with dask.config.set({"distributed.client.preload": [_sparse_fixes.__name__, "json"]}):
            with Client(processes=False, n_workers=1, dashboard_address=":0"):
                pass
    told = [record.getMessage() for record in caplog.records]
    assert any("json" in line for line in told), "preloads of the user are told as ever"
    assert not any(_sparse_fixes.__name__ in line for line in told)


def test_workers_that_cannot_import_are_left_with_a_warning(monkeypatch):
    class Broken(WorkerPlugin):
        name = "daskpart-sparse-fixes"

        def setup(self, worker):
            raise ModuleNotFoundError("no daskpart here")

    with Client(processes=False, n_workers=1, dashboard_address=":0") as connected:
        monkeypatch.setattr(_sparse_fixes, "_make_plugin", Broken)
        with pytest.warns(DaskpartWarning, match="cannot import daskpart .*no daskpart here"):
            _sparse_fixes.protect(connected)
        assert connected.submit(sum, [1, 2]).result() == 3
