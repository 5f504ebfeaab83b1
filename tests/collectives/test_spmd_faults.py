"""What goes wrong on a cluster: bounded time, a clear error, nothing left, the cluster usable."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
from distributed import get_worker
from distributed.comm import CommClosedError
from distributed.core import Status
from spmd_steps import (
    BOUND,
    assert_a_rank_that_ends_is_told,
    assert_cancelled_run_ends,
    assert_nothing_left,
    increment,
    kill_soon,
    ring_of_values,
    run_and_kill,
    slow_sums,
)

from daskpart.collectives import DaskCommunicator, allreduce, communicator_for
from daskpart.collectives.transports import worker as on_worker
from daskpart.collectives.transports.cluster import Cluster
from daskpart.errors import WorkerLostError

pytestmark = pytest.mark.cluster
N_RANKS = 4


def busy(communicator, n=10):
    """A run that takes a while: the other ranks wait for rank 1 again and again."""
    numbers = communicator.values(list(range(N_RANKS)))
    return communicator.run(slow_sums, numbers, seconds=0.2, n=n).result()


def cut_off(comm, numbers):
    """The worker of rank 1 lives and the scheduler holds it for well, but the answer is lost."""
    if comm.rank == 1:
        worker = get_worker()
        worker.loop.add_callback(lambda: [each.abort() for each in list(worker._comms)])
        time.sleep(0.5)
    return allreduce(comm, numbers).result()


def assert_usable(client):
    with DaskCommunicator(N_RANKS, client) as communicator:
        assert allreduce(communicator, communicator.values([1] * N_RANKS)).result() == N_RANKS
        ring_of_values(communicator, [(3,)])
    assert_nothing_left(client)


def test_ctrl_c(quiet_client):
    with DaskCommunicator(N_RANKS, quiet_client) as communicator:
        kept = communicator.map(increment, communicator.values([1] * N_RANKS))
        begin = time.monotonic()  # workers that begin to import may take their time
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            busy(communicator)
        timer.join()
        assert communicator.gather(kept) == [2] * N_RANKS  # the ranks stop, and go on
    assert_nothing_left(quiet_client)
    assert time.monotonic() - begin < BOUND
    assert_usable(quiet_client)


def test_ctrl_c_beside_a_frozen_worker_is_waited_for_once(own_client, monkeypatch):
    """It answers neither to be stopped nor to be closed."""
    seconds, begun = 4.0, []
    monkeypatch.setattr("daskpart.collectives.transports.cluster._ANSWER_SECONDS", seconds)
    frozen = list(own_client.run(os.getpid).values())[1]

    def interrupted():
        os.kill(frozen, signal.SIGSTOP)
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt), DaskCommunicator(2, own_client) as communicator:
            numbers = communicator.values([0, 1])
            timer = threading.Timer(0.3, interrupted)
            timer.start()
            communicator.run(slow_sums, numbers, seconds=0.2, n=100)
        assert time.monotonic() - begun[0] < 1.5 * seconds
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert_nothing_left(own_client)


def test_a_rank_that_ends(quiet_client):
    assert_a_rank_that_ends_is_told(partial(DaskCommunicator, client=quiet_client), quiet_client)
    assert_usable(quiet_client)


def test_cancelled_ranks(quiet_client):
    assert_cancelled_run_ends(partial(DaskCommunicator, client=quiet_client), quiet_client)
    assert_usable(quiet_client)


def test_a_client_that_closes_without_a_word(quiet_client):
    from distributed import Client

    address = quiet_client.scheduler.address
    with Client(address, set_as_default=False) as other:
        communicator = DaskCommunicator(N_RANKS, other)
        assert allreduce(communicator, communicator.values([1] * N_RANKS)).result() == N_RANKS
    assert_nothing_left(quiet_client)
    with pytest.raises(WorkerLostError):
        communicator.gather(communicator.values([1] * N_RANKS))
    communicator.close()
    assert_usable(quiet_client)


def test_a_client_that_is_killed(quiet_client):
    run_and_kill("spmd_client.py", quiet_client)
    assert_nothing_left(quiet_client)
    assert_usable(quiet_client)


def test_a_worker_killed_in_the_middle(own_client):
    communicator = DaskCommunicator(N_RANKS, own_client)
    victim = communicator.placement[1]
    kill_soon(own_client, victim)
    begin = time.monotonic()
    with pytest.raises(WorkerLostError, match=rf"{victim} with rank\(s\) 1, 3"):
        busy(communicator)
    assert time.monotonic() - begin < BOUND
    with pytest.raises(WorkerLostError, match="The ranks are gone"):
        communicator.gather(communicator.values([1] * N_RANKS))
    communicator.close()
    own_client.wait_for_workers(2, timeout=60)  # the nanny starts another
    assert_nothing_left(own_client)
    assert_usable(own_client)
    with DaskCommunicator(2, own_client) as communicator:
        kept = communicator.settle(communicator.values([1, 2]))
        victim = communicator.placement[1]
        kill_soon(own_client, victim)
        while victim in own_client.nthreads():
            time.sleep(0.01)
        communicator._stop(communicator._run, KeyboardInterrupt())  # one that ends workers, too
        with pytest.raises(WorkerLostError, match=rf"{victim} with rank\(s\) 1"):
            communicator.gather(kept)  # and not the values of those that are left


def test_a_connection_that_breaks_is_a_loss(own_client):
    """So that a fit goes on, although no worker is gone."""
    with DaskCommunicator(N_RANKS, own_client) as communicator:
        with pytest.raises(WorkerLostError, match="connection to a worker or to the scheduler"):
            communicator.run(cut_off, communicator.values([1] * N_RANKS))
    assert_nothing_left(own_client)
    assert_usable(own_client)


def test_a_scheduler_that_closes_its_connection_is_a_loss(quiet_client):
    async def asked():
        raise CommClosedError("closed")

    with pytest.raises(WorkerLostError, match="connection to the scheduler broke: closed"):
        Cluster(quiet_client, []).answered(asked)


class NarrowComm:
    """Of workers that have no memory for a message."""

    async def write(self, message):
        if isinstance(message, list):  # no opening
            raise MemoryError("no room")

    async def read(self):
        raise MemoryError("no room")

    async def close(self):
        pass

    def abort(self):
        pass


def test_a_message_that_is_too_large_for_a_worker_ends_its_ranks(monkeypatch):
    """Nobody else would tell who waits for it."""

    async def connect(address):
        return NarrowComm()

    async def send(worker, session):
        session.stream("b").put(("large",))
        await session.stream("b")._writer

    async def receive(worker, session):
        await worker.handlers["daskpart_rank_messages"](NarrowComm(), "run", "b")

    async def reason(use):
        worker = SimpleNamespace(
            address="a", handlers={}, extensions={}, periodic_callbacks={}, connection_args={},
            status=Status.running, state=SimpleNamespace(tasks={}),
        )  # fmt: skip
        host = on_worker.RankHost.of(worker)
        host.open(on_worker.SessionSpec("run", ("a", "b", "b"), None, 1.0, 1.0))
        await use(worker, session := host.sessions["run"])
        await session.close(1.0)
        assert not host.sessions
        return session.ended

    monkeypatch.setattr(on_worker, "connect", connect)
    assert asyncio.run(reason(send)).endswith("to worker b with rank(s) 1, 2: MemoryError: no room")
    assert asyncio.run(reason(receive)).endswith("with rank(s) 1, 2: MemoryError: no room")


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.5])
def test_a_worker_killed_before_the_ranks_are_connected(own_client, seconds):
    """It is a loss like any other, whenever it comes: nobody blames the user."""
    pids = own_client.run(os.getpid)
    victim = sorted(pids)[1]
    timer = threading.Timer(seconds, os.kill, (pids[victim], signal.SIGKILL))
    begin = time.monotonic()
    timer.start()
    try:
        with DaskCommunicator(N_RANKS, own_client, start_seconds=15.0) as communicator:
            timer.join()
            busy(communicator)
    except WorkerLostError:
        pass
    timer.join()
    assert time.monotonic() - begin < 30.0 + BOUND
    own_client.wait_for_workers(2, timeout=60)
    assert_nothing_left(own_client)
    assert_usable(own_client)


@pytest.mark.parametrize("transport", ["auto", "dask"])
def test_an_adaptive_cluster_without_workers_starts_some(transport):
    """It does so for a task, and waits for workers are none."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=0, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with communicator_for(transport, 2, client) as communicator:
            assert allreduce(communicator, communicator.values([1, 2])).result() == 3
