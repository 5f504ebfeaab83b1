"""SPMD over Dask comms: what it holds, where ranks live, and what it refuses."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from spmd_steps import (
    assert_nothing_left,
    assert_ranks_that_combine_differently_are_told,
    assert_ranks_that_disagree_are_told,
    assert_survives_a_failing_rank,
    assert_threads_run_at_once,
    assert_timeout_names_both,
    assert_two_runs_do_not_mix,
    increment,
    ring,
    ring_of_values,
)

from daskpart.collectives import (
    DaskCommunicator,
    GraphCommunicator,
    LocalCommunicator,
    MpiCommunicator,
    allreduce,
    communicator_for,
)
from daskpart.errors import InputError, WorkersBusyError

pytestmark = pytest.mark.cluster


def doubled(value):
    return 2 * value


def process_of(value):
    return os.getpid()


def thread_of(value):
    return threading.get_ident()


def hold_a_thread(name):
    from distributed import Event

    Event(name).wait(timeout=60)


def give_a_lock(value):
    return threading.Lock()


class LockedError(Exception):
    """One that goes into no pickle."""

    def __init__(self, words):
        super().__init__(words)
        self.lock = threading.Lock()


class PickyError(Exception):
    """One that a pickle makes anew with too few arguments."""

    def __init__(self, words, place):
        super().__init__(words)


def raise_on_rank_1(value, kind):
    if value == 1:
        words = "no such reading"
        raise LockedError(words) if kind == "Locked" else PickyError(words, "rank 1")
    return value


def test_ranks_live_where_they_are_placed(quiet_client):
    pids = quiet_client.run(os.getpid)
    with DaskCommunicator(5, quiet_client) as communicator:
        expected = [pids[address] for address in communicator.placement]
        assert sorted(map(expected.count, set(expected))) == [2, 3]
        numbers = communicator.values(list(range(5)))
        assert communicator.gather(communicator.map(process_of, numbers)) == expected
        threads = communicator.gather(communicator.map(thread_of, numbers))
        assert threads == communicator.gather(communicator.map(thread_of, numbers))
        assert len(set(zip(expected, threads, strict=True))) == 5  # each keeps its own
    turned = communicator.placement[::-1]
    with DaskCommunicator(5, quiet_client, placement=turned) as communicator:
        numbers = communicator.values(list(range(5)))
        assert communicator.gather(communicator.map(process_of, numbers)) == expected[::-1]
    assert_nothing_left(quiet_client)


def test_large_values(quiet_client):
    """They are scattered, never overwritten where others hold them, and go both ways whole."""
    given = [np.full(40_000, float(rank)) for rank in range(3)]
    with DaskCommunicator(3, quiet_client) as communicator:
        state = communicator.values(given)
        again = communicator.values(given)
        state = communicator.update(increment, state)
        found = communicator.gather(state)
        assert [array[-1] for array in found] == [1.0, 2.0, 3.0]
        assert [array[0] for array in given] == [0.0, 1.0, 2.0]
        assert [array[0] for array in communicator.gather(again)] == [0.0, 1.0, 2.0]
        ring_of_values(communicator, [(400, 300), (0,), (5,)])


@dataclass
class Piece:
    name: str
    arrays: list


def last_plus_one(piece):
    piece.arrays[0] += 1
    return piece


def test_large_arrays_inside_of_dataclasses_are_scattered_too(quiet_client):
    """In a pickle beside the request they would go through the scheduler in several copies."""
    given = [Piece("a rank's", [np.full(40_000, float(rank))]) for rank in range(3)]
    with DaskCommunicator(3, quiet_client) as communicator:
        state = communicator.values(given)
        assert state.content.unsent is None
        assert len(state.content.placed) == 3
        state = communicator.update(last_plus_one, state)
        assert [piece.arrays[0][-1] for piece in communicator.gather(state)] == [1.0, 2.0, 3.0]
        assert [piece.arrays[0][0] for piece in given] == [0.0, 1.0, 2.0]
        small = communicator.values([Piece("few", [np.zeros(3)])] * 3)
        assert small.content.placed is None
    assert_nothing_left(quiet_client)


def test_the_same_object_twice_is_two_values(quiet_client):
    shared = np.zeros(2)
    with DaskCommunicator(4, quiet_client) as communicator:
        one, other = communicator.values([shared] * 4), communicator.values([shared] * 4)
        one = communicator.update(increment, one)
        assert [array.sum() for array in communicator.gather(one)] == [2.0] * 4
        assert [array.sum() for array in communicator.gather(other)] == [0.0] * 4


def test_a_folded_value_may_be_overwritten_at_once(quiet_client):
    with DaskCommunicator(4, quiet_client) as communicator:
        state = communicator.values([np.full(3, float(rank)) for rank in range(4)])
        for turn in range(20):
            total = allreduce(communicator, state)
            state = communicator.update(increment, state)
            assert total.result().tolist() == [6.0 + 4 * turn] * 3


def test_values_of_a_dask_collection(quiet_client):
    """Brought to the ranks while the ranks run: they keep no thread of the workers."""
    import dask.array as da

    with DaskCommunicator(8, quiet_client) as communicator:
        blocks = da.arange(16, chunks=2)
        for collection in (blocks, quiet_client.persist(blocks)):
            values = communicator.map(doubled, communicator.values(collection))
            found = communicator.gather(values)
            assert [block.tolist() for block in found] == [[4 * i, 4 * i + 2] for i in range(8)]
        with pytest.raises(InputError, match="8 ranks need as many values, got 4"):
            communicator.values(da.arange(4, chunks=1))
        assert quiet_client.submit(doubled, 21, pure=False).result(timeout=30) == 42


def test_values_that_nobody_holds_are_dropped(quiet_client):
    with DaskCommunicator(2, quiet_client) as communicator:
        state = communicator.values([0, 0])
        for _ in range(5):
            state = communicator.settle(communicator.map(doubled, state))
        assert communicator.run(_most_held) <= 2  # of the last turns, not of all


def _most_held(comm):
    held = comm.values([len(comm._held)] * comm.n_ranks)
    return comm.fold(held, max).result()


def test_a_failing_rank(quiet_client):
    with DaskCommunicator(5, quiet_client) as communicator:
        assert_survives_a_failing_rank(communicator)
    assert_nothing_left(quiet_client)


def test_ranks_that_disagree(quiet_client):
    with DaskCommunicator(3, quiet_client) as communicator:
        assert_ranks_that_disagree_are_told(communicator)
        assert_ranks_that_combine_differently_are_told(communicator)
    assert_nothing_left(quiet_client)


def milliseconds(dask_worker):
    """How often a worker does each of its chores; and what it does on Ctrl-C."""
    chores = dask_worker.periodic_callbacks.items()
    return {
        **{name: chore.callback_time for name, chore in chores},
        "Ctrl-C": repr(signal.getsignal(signal.SIGINT)),
    }


def test_workers_look_less_often_at_themselves_and_not_at_ctrl_c_while_they_have_ranks(
    quiet_client,
):
    assert_nothing_left(quiet_client)
    before = quiet_client.run(milliseconds)
    with DaskCommunicator(2, quiet_client):
        with DaskCommunicator(2, quiet_client):
            pass
        during = quiet_client.run(milliseconds)
    ignored = repr(signal.SIG_IGN)
    assert all(t["tick"] == 250.0 and t["Ctrl-C"] == ignored for t in during.values())
    assert not any(t["Ctrl-C"] == ignored for t in before.values())
    assert_nothing_left(quiet_client)
    after = quiet_client.run(milliseconds)
    for name in ("tick", "profile", "Ctrl-C"):  # heartbeats change by themselves
        assert [t[name] for t in after.values()] == [t[name] for t in before.values()]


def keep_the_gil(rank, *, seconds):
    if rank == 0:
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return rank


def test_a_worker_that_does_not_answer_is_not_taken_for_a_silent_scheduler(
    quiet_client, monkeypatch
):
    """A step of C code that keeps the GIL keeps the worker's event loop too."""
    monkeypatch.setattr("daskpart.collectives.transports.cluster._ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("daskpart.collectives.transports.spmd._PROGRESS_SECONDS", 0.3)
    with DaskCommunicator(2, quiet_client) as communicator:
        ranks = communicator.values([0, 1])
        kept = communicator.map(keep_the_gil, ranks, seconds=3.0)
        assert communicator.gather(kept) == [0, 1]


def no_references(value):
    return []


def pack_large(references, source, destinations):
    array = np.ones(200_000)
    array.flags.writeable = False  # so that it travels itself
    references.append(weakref.ref(array))
    return [(array,)] * len(destinations)


def reference(inbox):
    return weakref.ref(inbox.payloads[0][0].base)


def still_there(references, arrived):
    limit = time.monotonic() + 2
    while (there := [each() is not None for each in [*references, arrived]]) != [False] * 2:
        if time.monotonic() > limit:
            break
        time.sleep(0.01)
    return there


def sent_and_dropped(comm, numbers):
    sent = comm.map(no_references, numbers)
    pending = comm.post_values(ring(comm.n_ranks), sent, pack_large)
    return comm.map(still_there, sent, comm.collect(pending, None, reference))


def test_a_message_is_let_go_of_before_the_next(quiet_client):
    """The last of a product stayed on both sides for as long as ranks computed."""
    with DaskCommunicator(2, quiet_client) as communicator:
        found = communicator.run(sent_and_dropped, communicator.values([0, 1]))
        assert communicator.gather(found) == [[False] * 2] * 2


def test_what_cannot_be_sent_back(quiet_client):
    with DaskCommunicator(2, quiet_client) as communicator:
        locks = communicator.map(give_a_lock, communicator.values([1, 2]))
        communicator.settle(locks)  # it may stay where it is
        with pytest.raises(InputError, match="rank 0 gave back cannot be pickled"):
            communicator.gather(locks)
        assert communicator.gather(communicator.values([1, 2])) == [1, 2]


@pytest.mark.parametrize("kind", ["Locked", "Picky"])
def test_an_error_that_no_pickle_brings_back_is_told(quiet_client, kind):
    with DaskCommunicator(2, quiet_client) as communicator:
        with pytest.raises(RuntimeError, match=f"{kind}Error: no such reading") as told:
            values = communicator.values([0, 1])
            communicator.settle(communicator.map(raise_on_rank_1, values, kind=kind))
        assert told.value.__notes__ == ["on rank 1"]
        assert communicator.gather(communicator.values([1, 2])) == [1, 2]


def test_the_deadline_names_both_ranks(quiet_client):
    assert_timeout_names_both(partial(DaskCommunicator, client=quiet_client))


def test_two_runs_at_once(quiet_client):
    make = partial(DaskCommunicator, client=quiet_client)
    assert_two_runs_do_not_mix(make)
    assert_threads_run_at_once(make)
    assert_nothing_left(quiet_client)


def test_a_run_waits_for_threads_that_another_holds(quiet_client):
    with DaskCommunicator(6, quiet_client) as first:
        begin = time.monotonic()
        with pytest.raises(WorkersBusyError, match=rf"find 1 of 4.*{first.run_id}"):
            DaskCommunicator(4, quiet_client, start_seconds=0.3)
        assert time.monotonic() - begin < 10
        with communicator_for("auto", 4, quiet_client) as graph:
            assert isinstance(graph, GraphCommunicator)  # which shares threads
        closer = threading.Timer(0.3, first.close)
        closer.start()
        with DaskCommunicator(4, quiet_client) as second:
            assert allreduce(second, second.values([1] * 4)).result() == 4
        closer.join()
    assert_nothing_left(quiet_client)


def test_more_ranks_than_threads(quiet_client):
    with pytest.raises(InputError, match=r"9 ranks need as many threads.*has 8"):
        DaskCommunicator(9, quiet_client, start_seconds=0.5)
    with (
        communicator_for("auto", 9, quiet_client) as communicator,
        communicator_for("local", 9) as local,
    ):
        assert isinstance(communicator, DaskCommunicator)
        assert Counter(Counter(communicator.placement).values()) == {5: 1, 4: 1}
        sums = [allreduce(c, c.values([0.1 * r for r in range(9)])) for c in (communicator, local)]
        assert sums[0].result() == sums[1].result()
        with pytest.raises(WorkersBusyError, match=rf"0 of 4.*{communicator.run_id}"):
            DaskCommunicator(2, quiet_client, start_seconds=0.3)  # it has all threads
    first = next(iter(quiet_client.nthreads()))
    with pytest.raises(InputError, match="too many on"):
        DaskCommunicator(5, quiet_client, [first] * 5, start_seconds=0.3)
    with DaskCommunicator(5, quiet_client, [first] * 5, oversubscribe=True) as crowded:
        assert allreduce(crowded, crowded.values([1] * 5)).result() == 5
    assert_nothing_left(quiet_client)


def test_threads_that_other_tasks_keep(quiet_client):
    from distributed import Event

    address = next(iter(quiet_client.nthreads()))
    release = Event("release", client=quiet_client)
    busy = [
        quiet_client.submit(hold_a_thread, "release", workers=[address], pure=False)
        for _ in range(4)
    ]
    try:
        with pytest.raises(WorkersBusyError, match=rf"these ranks do not run: .*{address}"):
            DaskCommunicator(2, quiet_client, start_seconds=0.5)
        assert_nothing_left(quiet_client)
    finally:
        release.set()
        quiet_client.gather(busy)
    with DaskCommunicator(8, quiet_client) as communicator:
        assert allreduce(communicator, communicator.values([1] * 8)).result() == 8


def test_transports_by_name(quiet_client):
    with communicator_for("dask", 2, quiet_client) as communicator:
        assert isinstance(communicator, DaskCommunicator)
    with communicator_for("auto", 2, quiet_client) as communicator:
        assert isinstance(communicator, DaskCommunicator)
    assert isinstance(communicator_for("auto", 2), LocalCommunicator)
    with pytest.raises(InputError, match=r"needs a synchronous.*pip install 'daskpart\[mpi\]'"):
        communicator_for("mpi", 4)
    with pytest.raises(InputError, match="needs a synchronous Dask client"):
        communicator_for("dask", 2)
    with pytest.raises(InputError, match=r"workers that are ranks of one MPI job.*'dask'"):
        MpiCommunicator(2, quiet_client)
    assert_nothing_left(quiet_client)


def run_in_a_task(length):
    with communicator_for("dask", 4) as communicator:
        values = [np.full(length, rank) for rank in (1, 2, 3, 4)]
        return allreduce(communicator, communicator.values(values)).result()


@pytest.mark.parametrize("length", [1, 50_000])  # sent with the request, and placed on the workers
def test_a_run_inside_a_task(quiet_client, length):
    summed = quiet_client.submit(run_in_a_task, length, pure=False).result(timeout=60)
    assert summed.tolist() == [10] * length
    assert_nothing_left(quiet_client)
