"""Clusters that the command starts: how they close, and what is said of workers that end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import Any

import dask
import pytest

from daskpart._cli import cluster

pytestmark = pytest.mark.cluster


def test_a_signal_while_a_cluster_closes_comes_when_it_is_closed(monkeypatch):
    """Else its processes are left, and the end of this one waits for them, ten seconds."""
    from distributed import LocalCluster

    opened, close = [], LocalCluster.close

    def pressed(self: Any, *arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # so that a handler has run
        return close(self, *arguments)

    with pytest.raises(KeyboardInterrupt), cluster._local_cluster("threads", 1) as client:
        opened.append(client.cluster)
        monkeypatch.setattr(LocalCluster, "close", pressed)
    assert opened[0].status.name == "closed"


def test_a_worker_that_does_not_answer_is_not_waited_for_to_close(quiet_client, monkeypatch):
    monkeypatch.setattr(cluster, "_HUSH_SECONDS", 0.1)
    begin = time.monotonic()
    cluster._hush(lambda function, **bound: quiet_client.run(asyncio.sleep, 20, **bound))
    assert time.monotonic() - begin < 10


def test_why_a_worker_is_lost_is_told_where_its_memory_was_full(capsys):
    with cluster._local_cluster("processes", 1) as client:
        (nanny,) = client.cluster.workers.values()
        nanny.memory_manager.memory_terminate_fraction = 1e-6
        told, limit = "", time.monotonic() + 30
        while "exceeded" not in told and time.monotonic() < limit:
            time.sleep(0.05)
            told += capsys.readouterr().err
        nanny.memory_manager.memory_terminate_fraction = 1.0
    assert "note: Worker tcp://" in told and "exceeded 0% memory budget" in told


def test_that_a_worker_does_not_answer_is_not_logged_besides(caplog):
    soon = dask.config.set({"distributed.comm.timeouts.connect": "50ms"})
    with soon, cluster._local_cluster("threads", 1) as client:
        asked = {"msg": {"op": "identity"}, "workers": ["tcp://127.0.0.1:1"]}
        answers = client.sync(client.scheduler.broadcast, **asked, on_error="return")
        assert isinstance(answers["tcp://127.0.0.1:1"], OSError)
    assert [told for told in caplog.records if told.levelno >= logging.ERROR] == []
