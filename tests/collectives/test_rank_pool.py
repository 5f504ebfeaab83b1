"""The thread pool of the local transport: which error is raised, and that no thread runs on."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from daskpart.collectives import LocalCommunicator
from daskpart.collectives.transports import rank_pool
from daskpart.collectives.transports.rank_pool import RankPool
from daskpart.errors import InputError


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_results_stand_in_rank_order(n_threads):
    pool = RankPool(9, n_threads)
    assert pool.run(lambda rank: rank * rank) == [rank * rank for rank in range(9)]
    assert pool.seconds.shape == (9,)
    pool.close()


def test_seconds_are_those_of_each_rank(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(rank_pool, "perf_counter", lambda: clock[0])

    def step(rank):
        clock[0] += rank + 1

    pool = RankPool(3, 1)
    for _ in range(2):
        pool.run(step)
        assert pool.seconds.tolist() == [1, 2, 3]
        assert pool.busy_seconds == 6


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_the_lowest_failing_rank_is_told(n_threads):
    pool = RankPool(8, n_threads)
    begun: list[int] = []

    def fail_late_and_early(rank):
        begun.append(rank)
        if rank == 2:
            time.sleep(0.02)  # the higher rank fails first
        if rank >= 2:
            raise ValueError(f"rank {rank} is unwell")
        return rank

    for _ in range(5):
        begun.clear()
        with pytest.raises(ValueError, match="rank 2 is unwell") as caught:
            pool.run(fail_late_and_early)
        failed = sorted(set(begun) - {0, 1})  # after one, a thread begins no further rank
        assert len(failed) <= n_threads
        others = f" (also failed: {failed[1:]})" if failed[1:] else ""
        assert caught.value.__notes__ == [f"on rank 2{others}"]
    assert pool.run(lambda rank: rank) == list(range(8))
    pool.close()


def test_an_interrupt_waits_for_the_threads():
    """Ctrl-C: when it reaches the caller, no helper is at work and no further rank begins."""
    pool = RankPool(40, 2)
    at_work: set[int] = set()
    begun: list[int] = []

    def step(rank):
        begun.append(rank)
        at_work.add(rank)
        if rank == 4:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        at_work.discard(rank)

    with pytest.raises(KeyboardInterrupt):
        pool.run(step)
    helpers_at_work = len(at_work) - 1  # the interrupted rank is the caller's own
    n_begun = len(begun)
    time.sleep(0.15)
    assert helpers_at_work <= 0
    assert len(begun) == n_begun < 40
    pool.close()


def test_an_interrupt_while_waiting_for_a_helper():
    pool = RankPool(2, 2)
    main, finished = threading.main_thread(), []
    begun, done = threading.Event(), threading.Event()

    def step(rank):
        if threading.current_thread() is main:
            begun.wait(20)  # so that a helper takes the other rank
            done.set()
        else:
            begun.set()
            done.wait(20)
            time.sleep(0.1)  # the caller has begun to wait by then
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            finished.append(rank)

    with pytest.raises(KeyboardInterrupt):
        pool.run(step)
    assert len(finished) == 1
    pool.close()


@pytest.mark.parametrize("culprit", range(4))
def test_an_exit_on_a_helper_ends_the_step(culprit):
    """Whichever thread the rank is on: a step without a result must not look done."""

    def step(rank):
        begun.wait(5)  # so that each thread has one
        if rank == culprit:
            raise SystemExit(3)
        return rank

    begun, pool = threading.Barrier(4), RankPool(4, 4)
    with pytest.raises(SystemExit):
        pool.run(step)
    pool.close()


def test_a_step_that_uses_its_own_communicator():
    with LocalCommunicator(2) as communicator:
        numbers = communicator.values([1, 2])
        with pytest.raises(InputError, match="one step at a time"):
            communicator.map(lambda _: communicator.map(abs, numbers), numbers)
        assert communicator.gather(communicator.map(abs, numbers)) == [1, 2]


def test_threads_are_bounded_and_end():
    before = threading.active_count()
    with LocalCommunicator(64) as communicator:
        assert communicator.n_threads <= (os.cpu_count() or 1)
        communicator.map(time.sleep, communicator.values([0.001] * 64))
        assert threading.active_count() - before < communicator.n_threads + 1
    assert threading.active_count() <= before
    assert LocalCommunicator(4, n_threads=1).n_threads == 1
    with pytest.raises(InputError, match="n_threads is 0: it must be at least 1"):
        LocalCommunicator(4, n_threads=0)
