"""Workers that Dask paused, as their memory is nearly full: they take no tasks until it is not.

They are paused here by hand, with Dask's own monitor of memory told to leave them so.
"""

from __future__ import annotations

import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.core import Status

from daskpart._floor.rank_tasks import known_workers
from daskpart.collectives import allreduce, communicator_for
from daskpart.collectives.transports import cluster as on_cluster
from daskpart.errors import InputError, WorkersBusyError

PAUSED = r"Dask has paused .*\d of \d+ MB\).*memory_limit"


@pytest.fixture(scope="module")
def two_workers():
    quick = {"distributed.worker.memory.pause": False, "daskpart.start-seconds": 0.5}
    with (
        dask.config.set(quick),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0",
            memory_limit="1GB",
        ) as cluster,
        Client(cluster, timeout="1s", set_as_default=False) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture
def pause(two_workers):
    """Pauses workers, by their places; they run again after the test."""
    addresses = list(two_workers.nthreads())

    def to(status, *places):
        def change(dask_worker):
            dask_worker.status = status

        changed = [addresses[place] for place in places]
        two_workers.run(change, workers=changed)
        for _ in range(100):  # until the scheduler knows
            known = known_workers(two_workers)
            if all(known[address]["status"] == status.name for address in changed):
                return
            time.sleep(0.02)
        raise AssertionError(f"no {status} in {known}")

    yield lambda *places: to(Status.paused, *places)
    to(Status.running, 0, 1)


@pytest.mark.parametrize("transport", ["auto", "dask", "graph"])
def test_no_ranks_start_where_all_workers_are_paused(two_workers, pause, transport):
    pause(0, 1)
    with pytest.raises(WorkersBusyError, match=PAUSED):
        communicator_for(transport, 2, two_workers)


def test_a_paused_worker_is_passed_over_and_named(two_workers, pause):
    pause(1)
    with communicator_for("auto", 2, two_workers) as communicator:
        assert len(set(communicator.placement)) == 1
        assert allreduce(communicator, communicator.values([1, 2])).result() == 3
    with pytest.raises(InputError, match=f"has 1 .*{PAUSED}.*Use fewer ranks"):
        communicator_for("dask", 2, two_workers)


def test_ranks_that_run_go_on_though_their_worker_is_paused(two_workers, pause):
    with communicator_for("dask", 2, two_workers) as communicator:
        values = communicator.values([1, 2])
        pause(0, 1)
        assert allreduce(communicator, values).result() == 3


def test_data_for_a_paused_worker_is_an_error_that_says_so(two_workers, pause):
    with communicator_for("graph", 2, two_workers) as communicator:
        pause(0, 1)
        with pytest.raises(WorkersBusyError, match=PAUSED):
            communicator.gather(communicator.values([np.ones(3), np.ones(3)]))


def test_a_task_of_a_paused_worker_is_not_waited_for_without_end(two_workers, pause, monkeypatch):
    monkeypatch.setattr(on_cluster, "_PAUSED_SECONDS", 1.0)
    with communicator_for("graph", 2, two_workers) as communicator:
        values = communicator.values([1, 2])
        pause(0)
        with pytest.raises(WorkersBusyError, match=PAUSED):
            allreduce(communicator, values).result()


def test_a_paused_worker_keeps_nobody_from_waiting_for_another(two_workers, pause, monkeypatch):
    monkeypatch.setattr(on_cluster, "_PAUSED_SECONDS", 2.0)
    pause(0)
    addresses = list(two_workers.nthreads())
    task = two_workers.submit(time.sleep, 4, workers=addresses[1:], pure=False)
    on_cluster.Cluster(two_workers, addresses).wait([task])
    assert task.status == "finished"


def test_a_look_at_the_workers_of_a_task_is_one_question(two_workers, monkeypatch):
    asked, questions = two_workers.cluster.scheduler.handlers, []

    def noted(name, handler):
        def call(*arguments, **options):
            questions.append(name)
            return handler(*arguments, **options)

        return call

    placed = on_cluster.Cluster(two_workers, list(two_workers.nthreads()))
    task = two_workers.submit(time.sleep, 1.3, pure=False)
    for name in ("identity", "ncores"):
        monkeypatch.setitem(asked, name, noted(name, asked[name]))
    placed.wait([task])
    assert "identity" in questions and "ncores" not in questions
