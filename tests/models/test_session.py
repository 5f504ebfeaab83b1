"""Where the ranks of a fit run, and that it goes to better places as soon as there are some."""

from __future__ import annotations

from time import sleep

import dask
import numpy as np
import pytest

import daskpart
from daskpart.collectives import communicator_for, transports
from daskpart.errors import DaskpartWarning, WorkerLostError
from daskpart.models.base import trainer
from daskpart.models.base.callbacks import EpochCallback
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


class More(EpochCallback):
    """Two more workers after the second epoch."""

    def __init__(self, client):
        self.client = client

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 2:
            self.client.cluster.scale(3)
            self.client.wait_for_workers(3, timeout=60)
        return False


class NoMore(EpochCallback):
    """No worker is left after the second epoch."""

    def __init__(self, client):
        self.client = client

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 2:
            self.client.cluster.scale(0)
            while self.client.nthreads():
                sleep(0.01)
        return False


def test_where_no_worker_is_left_the_loss_is_told_and_the_last_state_kept(growing, monkeypatch):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    model = daskpart.MatrixFactorization(4, max_iter=6, n_ranks=1, partitioner="block")
    model.set_callbacks(NoMore(growing))
    with (
        dask.config.set({"daskpart.start-seconds": 0.3}),
        pytest.warns(DaskpartWarning, match="goes on from the end of epoch 2"),
        pytest.raises(WorkerLostError, match=r"none came in 0\.3 s.* after epoch 2 is kept"),
    ):
        model.fit(ratings, client=growing)
    assert model.n_iter_ == 2 and np.isfinite(model.score(ratings))


class Closes(EpochCallback):
    """Closes the cluster after the second epoch."""

    def __init__(self, cluster):
        self.cluster = cluster

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 2:
            self.cluster.close()
        return False


@pytest.mark.parametrize("transport", ["dask", "graph"])
def test_a_cluster_that_is_closed_amid_a_fit_is_a_loss(growing, transport, monkeypatch):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept
    ratings = daskpart.datasets.power_law_ratings(30, 20, 300, random_state=0)
    model = daskpart.MatrixFactorization(4, n_ranks=1, max_iter=6, transport=transport)
    model.set_callbacks(Closes(growing.cluster))
    with (
        pytest.warns(DaskpartWarning, match="goes on from the end of epoch 2"),
        pytest.raises(WorkerLostError, match=r"for this process\. The state after epoch 2 is kept"),
    ):
        model.fit(ratings, client=growing)
    assert model.n_iter_ == 2


def test_ranks_that_share_a_thread_spread_over_workers_that_come(growing, places, monkeypatch):
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept, and a way on
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)

    def model(transport):
        return daskpart.MatrixFactorization(
            4, n_ranks=3, max_iter=6, validation_fraction=0.1, transport=transport
        )

    fitted = model("auto").set_callbacks(More(growing)).fit(ratings, client=growing)
    assert places == [1, 3]
    expected = model("graph").fit(ratings, client=growing)
    np.testing.assert_array_equal(fitted.item_factors_, expected.item_factors_)
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    assert fitted.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_fit_that_has_its_threads_stays_where_it_is(growing, places):
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    one = daskpart.MatrixFactorization(4, n_ranks=1, max_iter=4)
    one.set_callbacks(More(growing)).fit(ratings, client=growing)
    assert places == [1] and one.comm_report_.transport == "dask"


class Close(EpochCallback):
    """The run that holds the workers ends after the second epoch."""

    def __init__(self, other):
        self.other = other

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 2:
            self.other.close()
        return False


def test_a_fit_leaves_the_graph_once_nobody_else_holds_the_workers(growing, monkeypatch):
    names, original = [], Connection.open

    def opened(connection, after_loss):
        session = original(connection, after_loss)
        names.append(transport_of(session))
        return session

    monkeypatch.setattr(Connection, "open", opened)
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # each epoch is kept, and a way on
    monkeypatch.setattr(transports, "_AUTO_SECONDS", 0.2)
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)

    def model(transport):
        return daskpart.MatrixFactorization(4, n_ranks=2, max_iter=6, transport=transport)

    with communicator_for("dask", 1, growing) as other:
        fitted = model("auto").set_callbacks(Close(other)).fit(ratings, client=growing)
    assert names == ["graph", "dask"]
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    expected = model("local").fit(ratings)
    np.testing.assert_array_equal(fitted.item_factors_, expected.item_factors_)
    assert fitted.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
