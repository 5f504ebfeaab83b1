"""The same fit on a Dask task graph: same bits as in one process, also when a worker is killed."""

from __future__ import annotations

import os
import signal
import threading

import dask
import numpy as np
import pytest
from fit_tools import At, assert_same

import daskpart
from daskpart.collectives import transports
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, InputError, WorkerLostError

OPTIONS = {"eta": 2, "max_iter": 3, "partitioner": "random"}


def model(transport="auto", n_ranks=3, **changes):
    return daskpart.MatrixFactorization(
        4, n_ranks=n_ranks, transport=transport, **(OPTIONS | changes)
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_graph_on_threads_gives_the_bits_of_local(ratings, n_ranks):
    local, graph = (model(kind, n_ranks, eta=1).fit(ratings) for kind in ("local", "graph"))
    assert_same(local, graph)
    assert graph.comm_report_.matches
    assert graph.comm_report_.transport == "graph"
    np.testing.assert_array_equal(local.comm_report_.traffic, graph.comm_report_.traffic)


@pytest.mark.cluster
@pytest.mark.parametrize("n_ranks", [8, 9])
def test_worker_processes_give_the_bits_of_local(ratings, client, n_ranks):
    expected = model("local", n_ranks).fit(ratings)
    # "auto" takes the client that is there; of its eight threads nine ranks share some
    fitted = model(n_ranks=n_ranks).fit(ratings)
    assert fitted.comm_report_.transport == "dask"
    assert fitted.comm_report_.matches
    assert_same(expected, fitted)


@pytest.mark.cluster
def test_a_second_fit_on_the_same_cluster(ratings, client):
    first, second = model("graph").fit(ratings), model("graph").fit(ratings)
    assert_same(first, second)
    assert not client.futures  # nothing is left behind


@pytest.mark.cluster
def test_lazy_ratings_are_not_gathered(ratings, client):
    """Dask chunks are sharded on the workers; the result is that of the same ratings in memory."""
    import dask.array as da

    matrix = as_matrix(ratings)
    lazy = da.from_array(matrix.to_coo(), chunks=(30, 50))
    parts = daskpart.partition(ratings, 3, method="random")
    expected = model("local", partitioner=parts).fit(matrix.to_coo())
    assert_same(expected, model("graph", partitioner=parts).fit(lazy))


@pytest.mark.cluster
@pytest.mark.parametrize("delay", [0.0, 0.1])
def test_a_killed_worker_does_not_change_the_result(ratings, delay, own_client):
    expected = model("local", max_iter=12).fit(ratings)
    process = next(iter(own_client.run(os.getpid).values()))
    kill = threading.Timer(delay, os.kill, (process, signal.SIGKILL))  # so in the next epoch
    survivor = model("graph", max_iter=12).set_callbacks(At(4, kill.start))
    with pytest.warns(DaskpartWarning, match="goes on from the end of epoch"):
        survivor.fit(ratings, client=own_client)
    assert_same(expected, survivor)
    assert survivor.history_["epoch"].tolist() == list(range(1, 13))


@pytest.mark.cluster
def test_no_worker_is_an_error_in_bounded_time(ratings):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty,
        Client(empty),
        dask.config.set({"daskpart.start-seconds": 0.3}),
    ):
        for transport in ("graph", "dask"):
            with pytest.raises((WorkerLostError, ValueError), match=r"worker"):
                model(transport).fit(ratings)
        with pytest.raises(InputError, match=r"no workers, and none came in 0\.3 s"):
            model("auto").fit(ratings)


@pytest.mark.cluster
def test_auto_waits_for_the_first_worker(ratings, monkeypatch):
    """As long as start-seconds says: where a queue starts workers, that takes its time."""
    from distributed import Client, LocalCluster

    monkeypatch.setattr(transports, "_AUTO_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as late,
        Client(late),
    ):
        timer = threading.Timer(1.0, late.scale, (1,))
        timer.start()
        fitted = model("auto").fit(ratings)
        timer.join()
        assert fitted.comm_report_.transport == "dask"
