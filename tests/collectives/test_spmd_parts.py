"""The parts of the SPMD transports without a cluster: mailbox, lease, messages, one rank."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import dask
import numpy as np
import pytest

from daskpart.collectives import LocalCommunicator, transports
from daskpart.collectives.transports import handles, placement, wire
from daskpart.collectives.transports.cluster import Cluster
from daskpart.collectives.transports.dask_comm import decoded, encoded
from daskpart.collectives.transports.lease import end_lease, take_lease, threads_are_free
from daskpart.collectives.transports.mailbox import (
    Call,
    Mailbox,
    RunStopped,
    Standing,
    find_deadlock,
)
from daskpart.collectives.transports.placement import places_by_threads
from daskpart.collectives.transports.rank import RankCommunicator, Request
from daskpart.collectives.transports.time_limits import time_limits
from daskpart.errors import InputError, WorkersBusyError


def call(number, label="expand 0", run=1):
    return Call(run, number, label)


def test_messages_are_taken_by_call_and_source():
    box = Mailbox(2, timeout=5.0)
    box.put(call(6), 1, "early")
    box.put(call(7), 1, "late")
    box.put(call(6), 0, "other")
    assert [box.take(call(7), 1), box.take(call(6), 0), box.take(call(6), 1)] == [
        "late", "other", "early",
    ]  # fmt: skip
    assert len(box) == 0


def test_a_wait_ends_with_the_message():
    box = Mailbox(0, timeout=5.0)
    sender = threading.Thread(target=box.put, args=(call(1), 1, "now"))
    sender.start()
    assert box.take(call(1), 1) == "now"
    assert box.waiting is None
    sender.join()


def test_a_wait_ends_in_time():
    box = Mailbox(3, timeout=0.05)
    with pytest.raises(TimeoutError, match=r"Rank 3 waited 0.05 s in call 1 .* of rank 1"):
        box.take(call(1), 1)


def test_a_rank_in_another_call_is_told_at_once():
    box = Mailbox(0, timeout=60.0)
    box.put(call(4, "allreduce 0"), 1, "x")
    with pytest.raises(
        InputError, match=r"rank 0 is in call 4 \(expand 0\), rank 1 in call 4 .all"
    ):
        box.take(call(4), 1)
    box.put(call(6), 1, "x")
    with pytest.raises(InputError, match=r"rank 0 waits in call 5 .* rank 1, which sent none"):
        box.take(call(5), 1)


def test_a_wait_ends_when_the_run_is_stopped():
    box = Mailbox(3, timeout=5.0)
    box.begin(1)
    stopper = threading.Thread(target=box.stop, args=(1, "rank 1 failed"))
    stopper.start()
    with pytest.raises(RunStopped, match="Rank 3 stopped: rank 1 failed"):
        box.take(call(1), 1)
    stopper.join()
    box.begin(2)  # the next run is not stopped
    box.put(call(5, run=2), 1, "again")
    assert box.take(call(5, run=2), 1) == "again"
    box.stop(3, "before it began here")
    box.begin(3)
    with pytest.raises(RunStopped, match="before it began here"):
        box.check()


@pytest.mark.parametrize("end", [lambda box: box.stop(1, "why"), lambda box: box.end("why")])
def test_who_waits_already_is_woken(end):
    box = Mailbox(3, timeout=5.0)
    box.begin(1)

    def end_once_it_waits():
        while box.waiting is None:
            time.sleep(1e-4)
        end(box)

    ender = threading.Thread(target=end_once_it_waits)
    ender.start()
    with pytest.raises(RunStopped, match="Rank 3 stopped: why"):
        box.take(call(1), 1)
    ender.join()


def test_what_nobody_will_ask_for_is_dropped():
    box = Mailbox(0, timeout=0.01)
    box.put(call(1), 1, "posted before, collected later")
    box.put(call(2), 1, "of no interest any more")
    box.begin(2, {(1, 1)})
    assert len(box) == 1
    box.put(call(3, run=2), 1, "unclaimed")
    box.stop(2, "rank 1 failed")
    assert len(box) == 1
    box.begin(3, {(1, 1)})
    box.put(call(4, run=2), 1, "a straggler")
    box.put(call(1), 2, "posted before, and slow")
    assert box.take(call(1), 1) == "posted before, collected later"
    assert box.take(call(1), 2) == "posted before, and slow"
    assert len(box) == 0
    box.put(call(7, run=3), 1, "before the end")
    box.end("closed")
    box.put(call(9, run=3), 1, "after the end")
    assert len(box) == 0
    with pytest.raises(RunStopped, match="closed"):
        box.take(call(8, run=3), 1)


def test_a_mailbox_does_not_grow_with_the_runs_that_failed():
    box = Mailbox(0, timeout=0.01)
    for run in range(1, 50):
        box.begin(run)
        box.put(call(1, run=run), 1, "in time")
        box.stop(run, "rank 1 failed")
        box.put(call(2, run=run - 1), 1, "late")
    assert sum(len(each) for each in vars(box).values() if isinstance(each, dict)) < 10


def standing(waiting=None, sent=None, came=None):
    return Standing(waiting, sent or {}, came or {})


@pytest.fixture
def ahead():
    """The mailbox of a rank to which another has sent in two calls already."""
    box = Mailbox(1, timeout=1.0)
    box.begin(1)
    box.put(Call(1, 1, "a"), 0, "x")
    box.put(Call(1, 2, "a"), 0, "y")
    return box


def test_who_waits_in_a_stopped_run_is_told_why_and_not_that_ranks_disagree(ahead):
    ahead.stop(1, "rank 2 failed")
    with pytest.raises(RunStopped, match="rank 2 failed"):
        ahead.take(Call(1, 1, "a"), 0)


def test_a_look_in_the_middle_of_a_stop_is_told_why(ahead, monkeypatch):
    """As a rank over MPI looks, without the lock."""
    looked, drop = [], ahead._drop

    def drop_and_look():
        drop()
        with pytest.raises(RunStopped, match="rank 2 failed"):
            ahead.find(Call(1, 1, "a"), 0)
        looked.append(True)

    monkeypatch.setattr(ahead, "_drop", drop_and_look)
    ahead.stop(1, "rank 2 failed")
    assert looked


class TakenMeanwhile(dict):
    """Of which another thread takes something out as soon as this one has looked what is there."""

    def __iter__(self):
        yield from list(self.keys())
        self.clear()


def test_a_message_that_is_taken_as_its_run_is_stopped():
    """A rank of MPI takes its messages without the lock."""
    for end in (lambda box: box.stop(1, "why"), lambda box: box.begin(2)):
        box = Mailbox(0, timeout=1.0)
        box.begin(1)
        box._arrived = TakenMeanwhile({(1, 1, 1): ("a", None)})
        end(box)
        assert len(box) == 0


def test_deadlocks_are_found():
    def found(waiting, ended=frozenset()):
        return find_deadlock({rank: standing(wait) for rank, wait in waiting.items()}, set(ended))

    assert found({0: (call(1), 1), 1: (call(1), 2), 2: None}) is None
    assert "whose text has ended" in found({0: (call(1), 1), 1: None}, {1})
    circle = {0: None, 1: (call(3), 2), 2: (call(2, "reduce 0"), 3), 3: (call(1), 1)}
    assert "rank 2 waits in call 2 (reduce 0) for rank 3" in found(circle)
    assert found({0: (call(1), (2, 0))}, {0, 2}) is None  # of a shard: no rank


def test_who_waits_for_a_slow_message_is_in_no_deadlock():
    waits = {0: (call(4), 1), 1: (call(4), 0)}
    ranks = {
        0: standing(waits[0], sent={1: 2}, came={1: 1}),
        1: standing(waits[1], sent={0: 2}, came={0: 2}),
    }
    assert find_deadlock(ranks, set()) is None
    assert find_deadlock({0: ranks[0], 1: standing(sent={0: 2})}, {1}) is None
    ranks[0] = ranks[0]._replace(came={1: 2})
    assert "wait for each other" in find_deadlock(ranks, set())


def test_who_has_its_message_and_has_not_woken_up_waits_for_nobody():
    """On a busy machine that can take longer than two looks are apart."""
    box = Mailbox(0, timeout=1.0)
    box.begin(1)
    box.waiting = call(1, run=1), 1
    box.put(call(1, run=1), 1, "here")
    assert box.standing() == standing(came={1: 1})


def test_mailboxes_count_the_messages_of_a_run():
    box = Mailbox(0, timeout=1.0)
    box.begin(1)
    box.note_sent([1])
    box.put(call(1, run=1), 2, "of this run")
    box.put(call(1, run=2), 1, "of the next")
    assert box.standing() == standing(sent={1: 1}, came={2: 1})
    box.begin(2)
    box.put(call(2, run=1), 2, "a straggler")
    assert box.standing() == standing(came={1: 1})


def test_who_waits_for_a_message_of_an_earlier_run_is_in_no_deadlock():
    """What was posted in one run and is collected in the next is on its way, and not counted."""
    boxes = [Mailbox(rank, timeout=1.0) for rank in range(2)]
    for box in boxes:
        box.begin(1)
        box.note_sent([1 - box.rank])
    for box in boxes:
        box.begin(2)
        box.waiting = call(1, run=1), 1 - box.rank
    assert find_deadlock({box.rank: box.standing() for box in boxes}, set()) is None
    for box in boxes:
        box.waiting = call(1, run=2), 1 - box.rank
    assert "wait for each other" in find_deadlock({b.rank: b.standing() for b in boxes}, set())


def scheduler(threads, clients=("me", "you"), tasks=()):
    workers = {a: SimpleNamespace(nthreads=n, processing={}) for a, n in threads.items()}
    return SimpleNamespace(
        extensions={}, clients=dict.fromkeys(clients), workers=workers, tasks=dict.fromkeys(tasks)
    )


def test_threads_are_leased_all_or_none():
    dask = scheduler({"a": 2, "b": 2})
    assert take_lease("one", "me", ("t", 0), ["a", "b", "a"], dask) is None
    assert "find 0 of 2 threads free on worker a" in take_lease(
        "two", "you", ("u", 0), ["b", "a"], dask
    )
    assert take_lease("two", "you", ("u", 0), ["b"], dask) is None
    assert "by run(s) one, two" in take_lease("three", "me", ("v", 0), ["b"], dask)
    end_lease("one", dask)
    assert take_lease("three", "me", ("v", 0), ["a", "a", "b"], dask) is None
    end_lease("two", dask)
    assert "3 rank(s) find 0 of 2" in take_lease("five", "me", ("x", 0), ["a"] * 3, dask)
    end_lease("three", dask)
    assert take_lease("five", "me", ("x", 0), ["a"] * 3, dask) is None  # they share its threads
    assert take_lease("six", "you", ("y", 0), ["b", "b"], dask) is None
    assert "worker c is gone" in take_lease("four", "me", ("w", 0), ["c"], dask)


def test_threads_are_free_that_no_run_holds_and_no_task_is_on():
    dask = scheduler({"a": 2, "b": 2})
    assert threads_are_free(["a", "b", "a"], dask)
    assert threads_are_free(["a"] * 5 + ["b"], dask)  # they share the threads of a
    assert not threads_are_free(["a", "c"], dask)
    dask.workers["a"].processing = {"somebody's": 1.0}
    assert threads_are_free(["a", "b", "b"], dask)
    assert not threads_are_free(["a", "b", "a"], dask)
    assert take_lease("one", "me", ("t", 0), ["a", "b"], dask) is None  # it may be that task
    assert threads_are_free(["a", "b"], dask) and not threads_are_free(["b", "b"], dask)
    dask.workers["a"].processing = dict.fromkeys(range(5), 1.0)
    assert threads_are_free(["b"], dask) and not threads_are_free(["a"], dask)


def test_a_lease_dies_with_its_owner(monkeypatch):
    dask = scheduler({"a": 1}, tasks=[("t", 0)])
    assert take_lease("one", "me", ("t", 0), ["a"], dask) is None
    del dask.clients["me"]
    assert threads_are_free(["a"], dask)
    assert take_lease("two", "you", ("u", 0), ["a"], dask) is None
    later = time.monotonic() + 1000.0
    monkeypatch.setattr("daskpart.collectives.transports.lease.monotonic", lambda: later)
    assert threads_are_free(["a"], dask)  # its ranks are not there


def message_arrays():
    structured = np.zeros(2, dtype=[("id", "i4"), ("x", "f8")])
    big = np.random.default_rng(0).standard_normal((2000, 50))
    return [np.arange(3), np.zeros((0, 4), "f4"), big, structured, big[::3], np.array(2.5)]


@pytest.mark.parametrize("payload", [*message_arrays(), tuple(message_arrays()[:3]), {"n": 1}, 7])
def test_messages_over_dask_come_whole(payload):
    found = decoded(encoded(payload))
    assert type(found) is type(payload)
    if not isinstance(payload, np.ndarray | tuple):
        assert found == payload
        return
    payload, found = (x if isinstance(x, tuple) else (x,) for x in (payload, found))
    for one, other in zip(payload, found, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def test_large_arrays_are_their_own_buffers():
    """Nothing of a large array is pickled or copied."""
    large, empty = np.zeros((1000, 50)), np.zeros((0, 3))
    header, (buffer,) = wire.pack((large, empty))
    assert np.shares_memory(np.frombuffer(buffer), large)
    assert len(header) < 400
    assert wire.pack(np.zeros(4))[1] == []
    arrived = np.frombuffer(bytes(buffer)).copy()
    _, found = wire.unpack(header, {large.nbytes: arrived}.pop)
    assert found[0].shape == large.shape and found[0].flags.writeable


def test_large_arrays_arrive_as_they_were_whatever_they_are_in():
    large, records = np.arange(20_000.0), np.ones(9_000, [("id", "i4"), ("x", "f8")])
    several = (large, records, large[::2])
    for payload in ((large,), several, [*several], [*several, lambda: large]):
        header, buffers = wire.pack(payload)
        arrived = [bytes(buffer) for buffer in buffers]
        _, found = wire.unpack(header, lambda size, arrived=arrived: arrived.pop(0))
        assert not arrived and len(found) == len(payload)
        assert len(buffers) == min(len(payload), 2)  # each large one once
        for one, other in zip(payload, found, strict=True):
            pair = (one(), other()) if callable(one) else (one, other)
            np.testing.assert_array_equal(*pair)


def test_who_may_not_write_into_a_large_array_may_not_where_it_arrives():
    large = np.zeros(20_000)
    for writeable in (True, False):
        large.flags.writeable = writeable
        header, _ = wire.pack(large)
        found = wire.unpack(header, bytearray)[1]
        assert found.flags.writeable == writeable


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0), np.array(3.0), np.arange(6).reshape(2, 3).T, np.zeros((3, 2), bool),
        np.zeros(4, ">i4"), np.zeros(3, "f2"), np.zeros(3, "complex64"), np.array(["a", "bc"]),
        np.ones(2, [("a", "i4")]), np.array([{1}], object),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)  # fmt: skip
def test_arrays_of_every_dtype_arrive(array):
    header, buffers = wire.pack(array, (1, "a"))
    assert not buffers
    note, found = wire.unpack(header, buffers.pop)
    assert note == (1, "a")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def test_what_no_module_has_travels_whole():
    double = eval("lambda x: 2 * x")
    header, buffers = wire.pack(double)
    assert wire.unpack(header, buffers.pop)[1](4) == 8


def test_places_never_exceed_threads():
    class Client:
        scheduler = SimpleNamespace(identity=None)

        def sync(self, function, n_workers, callback_timeout):
            threads = [1, 3, 2, 9]
            states = ["running", "running", "running", "paused"]  # a paused one takes no tasks
            return {
                "workers": {
                    f"tcp://{i}": {
                        "name": i, "nthreads": threads[i], "status": states[i],
                        "memory_limit": 4e8, "metrics": {"memory": 3.6e8},
                    }
                    for i in range(4)
                }
            }  # fmt: skip

    places = [int(place[-1]) for place in places_by_threads(Client(), 6)]
    assert places == [0, 1, 2, 1, 2, 1]
    with pytest.raises(
        InputError,
        match=r"7 ranks need as many threads.*has 6.*tcp://1: 3.*tcp://3 \(360 of 400 MB\)",
    ):
        places_by_threads(Client(), 7)
    places = [int(place[-1]) for place in places_by_threads(Client(), 13, oversubscribe=True)]
    assert places == 2 * [0, 1, 2, 1, 2, 1] + [0]
    given = ["tcp://2", "tcp://1"]
    assert places_by_threads(Client(), 2, given) == given
    with pytest.raises(InputError, match=r"too many on.*tcp://0"):
        places_by_threads(Client(), 2, ["tcp://0", "tcp://0"])
    with pytest.raises(InputError, match="2 names"):
        places_by_threads(Client(), 3, given)


def test_workers_on_their_way_are_waited_for(monkeypatch):
    worker = {"nthreads": 1, "status": "running"}
    looks = [{f"tcp://{i}": {"name": i, **worker} for i in range(n)} for n in (1, 1, 2, 3)]
    monkeypatch.setattr(placement, "known_workers", lambda client: looks.pop(0))
    monkeypatch.setattr(placement, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(placement, "sleep", lambda seconds: None)
    assert places_by_threads(None, 3, seconds=60.0) == ["tcp://0", "tcp://1", "tcp://2"]
    assert not looks


def test_workers_that_left_for_a_moment_are_waited_for(monkeypatch):
    """A cluster is restarted as a fit begins: "auto" goes on as a graph, which waits for them."""

    class Client:
        scheduler = SimpleNamespace(identity=None)
        scatter = nthreads = None
        loop = SimpleNamespace(add_callback=lambda done: done())

        def sync(self, function, n_workers, callback_timeout):
            return {"workers": {}}

        def submit(self, function, pure):
            return SimpleNamespace(release=lambda: None)

    with pytest.raises(WorkersBusyError, match=r"has 0 \(no workers\)"):
        places_by_threads(Client(), 4, oversubscribe=True)

    def all_have_left(*arguments, **options):
        return places_by_threads(Client(), 4, oversubscribe=True)

    there = {"tcp://0": {"name": 0, "nthreads": 2, "status": "running"}}
    monkeypatch.setattr(placement, "workers_that_came", lambda client: there)
    monkeypatch.setattr(transports, "_AUTO_SECONDS", 0.1)
    monkeypatch.setattr("daskpart.collectives.transports.dask_comm.DaskCommunicator", all_have_left)
    monkeypatch.setattr(
        "daskpart.collectives.transports.graph.GraphCommunicator", lambda n, client: "a graph"
    )
    monkeypatch.setattr(
        "daskpart.collectives.transports.mpi.workers_are_mpi_ranks", lambda client, n: False
    )
    assert transports.communicator_for("auto", 4, Client()) == "a graph"


def increment(value):
    value += 1
    return value


def one_rank(fetch=None):
    box = Mailbox(0, 1.0)
    endpoint = SimpleNamespace()
    return RankCommunicator(0, 1, endpoint, box, fetch)


def request(run, text, *references, **more):
    """A text on values by their numbers."""
    stand_ins = {id(object_): number for object_, number in references}
    pickled = handles.dumps(
        (text, [object_ for object_, _ in references], {}),
        lambda thing: ("value", stand_ins[id(thing)]),
    )
    return Request(run, pickled, **more)


def sum_after_increment(comm, state):
    state = comm.update(increment, state)
    return comm.fold(state, sum), state


def fail(comm, *values):
    comm.fold(comm.values([1]), sum)
    raise ValueError("no")


def same(comm, value):
    return comm.map(np.array, value)


def test_a_rank_answers_for_what_it_did():
    """Values come and go by number; what failed is in the answer, and the rank goes on."""
    scattered = np.zeros(2)
    rank = one_rank({"key": scattered}.__getitem__)
    with LocalCommunicator(1) as local:
        handle = local.values([None])  # stands for the driver's
        first = rank.execute(
            request(1, sum_after_increment, (handle, (0, 1)), keys={(0, 1): ["key"]}), {}
        )
        assert first.error is None and first.spent == {(0, 1)}
        assert scattered.tolist() == [0.0, 0.0]  # others hold it too
        references = []
        handles.loads(first.result, references.append)
        assert references[0][0] == "replicated" and references[0][1].tolist() == [1.0, 1.0]
        assert references[1] == ("value", (1, 0))
        assert [(s.label, s.round_index, s.destinations) for s in first.shares] == [
            ("allreduce", 0, ()), ("allreduce", 1, ()),
        ]  # fmt: skip
        failed = rank.execute(request(2, fail), {(0, 2): handles.dumps("given", None)})
        assert failed.error.__notes__ == ["on rank 0"] and failed.rounds == [0, 1]
        assert rank.execute(request(3, same, (handle, (1, 0))), {}).error is None
        assert rank.execute(request(4, same, (handle, (0, 2))), {}).error is None
        lost = rank.execute(request(5, same, (handle, (0, 1))), {})
        assert "overwritten by update or collect, or lost in a run that failed" in str(lost.error)
        dropped = request(6, same, (handle, (1, 0)), dropped=((1, 0),))
        assert "lost" in str(rank.execute(dropped, {}).error)


def values_held(comm):
    return sorted(comm._held)


def test_what_a_failed_run_gave_back_is_let_go():
    """The driver has no handle of it: nobody would ever drop it."""
    rank = one_rank()
    with LocalCommunicator(1) as local:
        handle = local.values([None])
        given = {(0, 1): handles.dumps("given", None)}
        for run in (1, 2):  # the second fails, on another rank
            assert rank.execute(request(run, same, (handle, (0, 1))), given).error is None
        after = rank.execute(request(3, values_held, afresh=True), {})
        assert handles.loads(after.result, None) == [(0, 1), (1, 0)]


class FinishesInBetween:
    """A future that is done when it is looked at, right after a wait for it timed out."""

    def __init__(self):
        self.waits = iter([TimeoutError()])

    def result(self, seconds=None):
        for error in self.waits:
            raise error
        return 42

    def done(self):
        return True


def test_an_answer_that_comes_as_a_wait_times_out(monkeypatch):
    async def answer():
        return 42

    def submit(coroutine, loop):
        coroutine.close()
        return FinishesInBetween()

    monkeypatch.setattr("asyncio.run_coroutine_threadsafe", submit)
    loop = SimpleNamespace(asyncio_loop=None)
    cluster = Cluster(SimpleNamespace(status="running", loop=loop), ["a"])
    assert cluster.answered(answer) == 42


def test_time_limits_are_finite_numbers():
    assert time_limits(np.int64(60), np.float32(0.5)) == (60.0, 0.5)
    with dask.config.set({"daskpart.timeout": 7}):
        assert time_limits(None, 1) == (7.0, 1.0)
