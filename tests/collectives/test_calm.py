"""Workers look at themselves less often while a run lasts, and as before when none does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from spmd_steps import assert_nothing_left

from daskpart.collectives import DaskCommunicator
from daskpart.collectives.transports.calm import calm


def milliseconds(dask_worker):
    """How often a worker does each of its chores."""
    return {name: chore.callback_time for name, chore in dask_worker.periodic_callbacks.items()}


def test_only_what_comes_often_is_slowed_down_and_it_is_undone():
    times = {"tick": 20.0, "profile": 900.0, "heartbeat": 10.0}
    chores = {name: SimpleNamespace(callback_time=time) for name, time in times.items()}
    worker = SimpleNamespace(periodic_callbacks=chores)
    end = calm(worker)
    assert milliseconds(worker) == {"tick": 250.0, "profile": 900.0, "heartbeat": 10.0}
    end()
    assert milliseconds(worker) == times
    calm(SimpleNamespace(periodic_callbacks={}))()  # profiling can be switched off


@pytest.mark.cluster
def test_workers_are_calm_as_long_as_any_run_lasts(threaded_client):
    assert_nothing_left(threaded_client)
    before = threaded_client.run(milliseconds)
    with DaskCommunicator(2, threaded_client):
        with DaskCommunicator(2, threaded_client):
            pass
        during = threaded_client.run(milliseconds)
    assert all(times["tick"] == 250.0 for times in during.values())
    assert_nothing_left(threaded_client)
    after = threaded_client.run(milliseconds)
    for name in ("tick", "profile"):  # heartbeats change by themselves
        assert [t[name] for t in after.values()] == [t[name] for t in before.values()]
