"""Clusters that the command starts: how they close."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

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
