"""Where the ranks of a fit run, and that it goes to better places as soon as there are some."""

from __future__ import annotations

from functools import partial
from time import sleep

import dask
import numpy as np
import pytest
from fit_tools import At

import daskpart
from daskpart.collectives import communicator_for, transports
from daskpart.errors import DaskpartWarning, WorkerLostError
from daskpart.models.base import trainer
from daskpart.models.base.session import Connection, transport_of

pytestmark = pytest.mark.cluster


@pytest.fixture
def growing():
    """A client of a cluster with one worker of one thread; more can come."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture
def places(monkeypatch):
    """On how many workers the ranks of each session lived."""
    seen, original = [], Connection.open

    def opened(connection, after_loss):
        session = original(connection, after_loss)
        seen.append(len(set(session.placement)))
        return session

    monkeypatch.setattr(Connection, "open", opened)
    return seen


def two_more_workers(client):
    client.cluster.scale(3)
    client.wait_for_workers(3, timeout=60)


def no_worker(client):
    client.cluster.scale(0)
    while client.nthreads():
        sleep(0.01)


def test_where_no_worker_is_left_the_loss_is_told_and_the_last_state_kept(
    growing, ratings, monkeypatch
):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)
    model = daskpart.MatrixFactorization(4, max_iter=6, n_ranks=1, partitioner="block")
    model.set_callbacks(At(2, partial(no_worker, growing)))
    with (
        dask.config.set({"daskpart.start-seconds": 0.3}),
        pytest.warns(DaskpartWarning, match="goes on from the end of epoch 2"),
        pytest.raises(WorkerLostError, match=r"none came in 0\.3 s.* after epoch 2 is kept"),
    ):
        model.fit(ratings, client=growing)
    assert model.n_iter_ == 2 and np.isfinite(model.score(ratings))


@pytest.mark.parametrize("transport", ["dask", "graph"])
def test_a_cluster_that_is_closed_amid_a_fit_is_a_loss(growing, transport, monkeypatch):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept
    ratings = daskpart.datasets.power_law_ratings(30, 20, 300, random_state=0)
    model = daskpart.MatrixFactorization(4, n_ranks=1, max_iter=6, transport=transport)
    model.set_callbacks(At(2, growing.cluster.close))
    with (
        pytest.warns(DaskpartWarning, match="goes on from the end of epoch 2"),
        pytest.raises(WorkerLostError, match=r"for this process\. The state after epoch 2 is kept"),
    ):
        model.fit(ratings, client=growing)
    assert model.n_iter_ == 2


def test_ranks_that_share_a_thread_spread_over_workers_that_come(
    growing, ratings, places, monkeypatch
):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept, and a way on

    def model(transport):
        return daskpart.MatrixFactorization(
            4, n_ranks=3, max_iter=6, validation_fraction=0.1, transport=transport
        )

    fitted = (
        model("auto")
        .set_callbacks(At(2, partial(two_more_workers, growing)))
        .fit(ratings, client=growing)
    )
    assert places == [1, 3]
    expected = model("graph").fit(ratings, client=growing)
    np.testing.assert_array_equal(fitted.item_factors_, expected.item_factors_)
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    assert fitted.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_fit_that_has_its_threads_stays_where_it_is(growing, ratings, places):
    one = daskpart.MatrixFactorization(4, n_ranks=1, max_iter=4)
    one.set_callbacks(At(2, partial(two_more_workers, growing))).fit(ratings, client=growing)
    assert places == [1] and one.comm_report_.transport == "dask"


def test_a_fit_leaves_the_graph_once_nobody_else_holds_the_workers(growing, ratings, monkeypatch):
    names, original = [], Connection.open

    def opened(connection, after_loss):
        session = original(connection, after_loss)
        names.append(transport_of(session))
        return session

    monkeypatch.setattr(Connection, "open", opened)
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept, and a way on
    monkeypatch.setattr(transports, "_AUTO_SECONDS", 0.2)

    def model(transport):
        return daskpart.MatrixFactorization(4, n_ranks=2, max_iter=6, transport=transport)

    with communicator_for("dask", 1, growing) as other:
        fitted = model("auto").set_callbacks(At(2, other.close)).fit(ratings, client=growing)
    assert names == ["graph", "dask"]
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    expected = model("local").fit(ratings)
    np.testing.assert_array_equal(fitted.item_factors_, expected.item_factors_)
    assert fitted.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
