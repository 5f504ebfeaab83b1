"""The same decomposition on every transport: the bits of one process, on good days and bad ones."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from fit_tools import At, assert_same
from test_cp_fixed_modes import LOSSES, SHAPES, drawn, given_factors

import daskpart
from daskpart.errors import DaskpartWarning

METHODS = ("p2p", "emb-naive", "emb")
OPTIONS = {"max_iter": 3, "tol": 0, "partitioner": "random"}


def model(transport, n_ranks=4, **changes):
    return daskpart.CPDecomposition(3, n_ranks=n_ranks, transport=transport, **(OPTIONS | changes))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("method", METHODS)
def test_graph_on_threads_gives_the_bits_of_local(tensor, method, n_ranks):
    options = {"n_ranks": n_ranks, "method": method, "max_iter": 2}
    local, graph = (model(kind, **options).fit(tensor) for kind in ("local", "graph"))
    assert_same(local, graph)
    assert graph.comm_report_.matches and graph.comm_report_.transport == "graph"
    np.testing.assert_array_equal(local.comm_report_.traffic, graph.comm_report_.traffic)


@pytest.mark.cluster
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 8])
def test_worker_processes_give_the_bits_of_local(tensor, client, n_ranks):
    for method in METHODS:
        options = {"n_ranks": n_ranks, "method": method, "nonnegative": method == "emb"}
        local, spmd = (model(kind, **options).fit(tensor) for kind in ("local", "dask"))
        assert_same(local, spmd)
        assert spmd.comm_report_.matches and spmd.comm_report_.transport == "dask"
    assert not client.futures  # nothing is left behind


of_every_loss = pytest.mark.parametrize(
    ("loss", "fixed"),
    [
        *((loss, ()) for loss in LOSSES if loss not in ("squared", "nonnegative")),  # as above
        *((loss, (2,)) for loss in LOSSES),
    ],
)


@of_every_loss
def test_graph_on_threads_gives_the_bits_of_local_for_every_loss(loss, fixed):
    assert_same_over("graph", loss, fixed)


@pytest.mark.cluster
@of_every_loss
def test_worker_processes_give_the_bits_of_local_for_every_loss(client, loss, fixed):
    assert_same_over("dask", loss, fixed)


def assert_same_over(transport, loss, fixed):
    tensor, start = drawn(3, loss), given_factors(SHAPES[3])
    options = LOSSES[loss] | {"max_iter": 2, "fixed_modes": {m: start[m] for m in fixed} or None}
    for method in METHODS[::2] if fixed else METHODS:
        local, other = (
            model(kind, method=method, **options).fit(tensor) for kind in ("local", transport)
        )
        assert_same(local, other)
        assert other.comm_report_.matches and other.comm_report_.transport == transport


@pytest.mark.cluster
def test_more_ranks_than_threads_of_workers(tensor, client):
    options = {"n_ranks": 9, "method": "emb", "max_iter": 2}
    local = model("local", **options).fit(tensor)
    for transport in ("graph", "auto"):  # "auto": nine ranks share eight threads
        fitted = model(transport, **options).fit(tensor)
        assert_same(local, fitted)
        assert fitted.comm_report_.transport == ("dask" if transport == "auto" else "graph")


@pytest.mark.cluster
def test_lazy_tensors_are_dealt_out_on_the_workers(tensor, client):
    import dask.array as da

    lazy = da.from_array(tensor, chunks=(10, 20, 5)).persist()
    grain = {"model": "medium-grain", "epsilon": 0.3}
    for partitioner, transport in (("random", "dask"), (grain, "graph")):
        options = {"method": "p2p", "partitioner": partitioner, "max_iter": 2}
        expected = model("local", **options).fit(lazy)
        assert_same(expected, model(transport, **options).fit(lazy))


@pytest.mark.cluster
def test_auto_uses_all_threads_and_resumes(tensor, client, tmp_path):
    options = {"checkpoint_path": tmp_path / "run.npz", "n_ranks": None}
    first = model("auto", max_iter=2, **options).fit(tensor)
    assert first.comm_report_.n_ranks == 8 and first.comm_report_.transport == "dask"
    whole = model("local", 8, max_iter=4, method=first.method_).fit(tensor)
    resumed = model("local", max_iter=4, resume=True, **(options | {"n_ranks": 8})).fit(tensor)
    assert_same(whole, resumed)


@pytest.mark.cluster
def test_ctrl_c_keeps_whole_iterations(tensor, client):
    press = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    interrupt = At(1, press.start)
    interrupted = model("dask", max_iter=100_000).set_callbacks(interrupt)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(tensor)
    assert 1 <= interrupted.n_iter_ < 100_000
    options = {"max_iter": interrupted.n_iter_, "method": interrupted.method_}
    assert_same(model("local", **options).fit(tensor), interrupted)
    assert_same(model("local").fit(tensor), model("dask", method="emb").fit(tensor))


@pytest.mark.cluster
def test_a_killed_worker_does_not_change_the_result(tensor, own_client, kill_in_next_run):
    options = {"max_iter": 5, "method": "p2p"}
    expected = model("local", **options).fit(tensor)
    survivor = model("auto", **options)
    survivor.set_callbacks(At(2, kill_in_next_run))
    with pytest.warns(DaskpartWarning, match="goes on from the end of iteration"):
        survivor.fit(tensor, client=own_client)
    assert_same(expected, survivor)
    assert survivor.comm_report_.transport == "dask"
    assert survivor.history_["iteration"].tolist() == list(range(1, 6))
