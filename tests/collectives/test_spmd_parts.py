"""The parts of the SPMD transports without a cluster: mailbox, lease, messages, one rank."""

from __future__ import annotations

import pickle
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from daskpart.collectives.prepared import Inbox, RankMessages
from daskpart.collectives.reduction import pack_rows, place_rows
from daskpart.collectives.transports import mailbox as boxes
from daskpart.collectives.transports.dask_comm import decoded, encoded
from daskpart.collectives.transports.lease import end_lease, leased_runs, take_lease
from daskpart.collectives.transports.mailbox import Mailbox, RunStopped
from daskpart.collectives.transports.mpi_messages import FIRST_BYTES, Message, Outgoing, octets_of
from daskpart.collectives.transports.spmd_batch import Command, Repeated
from daskpart.collectives.transports.spmd_cluster import places_by_threads
from daskpart.collectives.transports.spmd_rank import Rank
from daskpart.collectives.transports.spmd_rows import (
    not_in_place,
    rooms_in_place,
    rows_in_place,
)
from daskpart.errors import InputError


def test_messages_are_taken_by_step_and_source():
    box = Mailbox(2, deadline=5.0)
    box.put(7, 1, "late")
    box.put(6, 1, "early")
    box.put(6, 0, "other")
    assert [box.take(6, 0), box.take(6, 1), box.take(7, 1)] == ["other", "early", "late"]
    assert len(box) == 0


def test_a_wait_ends_with_the_message():
    box = Mailbox(0, deadline=5.0)
    sender = threading.Thread(target=box.put, args=(1, 1, "now"))
    sender.start()
    assert box.take(1, 1) == "now"
    sender.join()


def test_a_wait_ends_at_the_deadline():
    box = Mailbox(3, deadline=0.05)
    with pytest.raises(TimeoutError, match=r"Rank 3 waited 0.05 s for a message of rank 1"):
        box.take(1, 1)


def test_a_wait_ends_when_the_batch_is_stopped():
    box = Mailbox(3, deadline=5.0)
    stopper = threading.Thread(target=box.stop, args=(0, "rank 1 failed"))
    stopper.start()
    with pytest.raises(RunStopped, match="Rank 3 stopped: rank 1 failed"):
        box.take(1, 1)
    stopper.join()
    box.begin(5)  # the next batch is not stopped
    box.put(5, 1, "again")
    assert box.take(5, 1) == "again"
    box.stop(9, "before it began here")
    box.begin(9)
    with pytest.raises(RunStopped, match="before it began here"):
        box.check()


def test_what_was_for_a_failed_batch_is_dropped():
    box = Mailbox(0, deadline=0.01)
    box.put(1, 1, "posted before, collected later")
    box.begin(3)
    box.put(3, 1, "unclaimed")
    box.put(8, 1, "for the next batch")
    box.stop(3, "rank 1 failed")
    box.begin(5)
    box.put(4, 1, "a straggler")
    assert box.take(1, 1) == "posted before, collected later"
    assert len(box) == 1
    box.put(6, 1, "of a batch that is told late to have failed")
    box.begin(7)
    box.stop(5, "rank 1 failed again")
    assert box.is_unwanted(6) and not box.is_unwanted(7)
    assert len(box) == 1
    box.end("closed")
    box.put(9, 1, "after the end")
    assert len(box) == 0
    with pytest.raises(RunStopped, match="closed"):
        box.take(8, 1)


def scheduler(threads, clients=("me", "you"), tasks=()):
    workers = {address: SimpleNamespace(nthreads=n) for address, n in threads.items()}
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
    assert leased_runs(dask) == ["one", "two"]
    end_lease("one", dask)
    assert take_lease("three", "me", ("v", 0), ["a", "a", "b"], dask) is None
    assert "worker c is gone" in take_lease("four", "me", ("w", 0), ["c"], dask)


def test_a_lease_dies_with_its_owner(monkeypatch):
    dask = scheduler({"a": 1}, tasks=[("t", 0)])
    assert take_lease("one", "me", ("t", 0), ["a"], dask) is None
    del dask.clients["me"]
    assert leased_runs(dask) == []
    assert take_lease("two", "you", ("u", 0), ["a"], dask) is None
    later = time.monotonic() + 1000.0
    monkeypatch.setattr("daskpart.collectives.transports.lease.monotonic", lambda: later)
    assert leased_runs(dask) == []  # its ranks are not there


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
    """Nothing of a large array is pickled or copied for MPI."""
    large, empty = np.zeros((1000, 50)), np.zeros((0, 3))
    message = Outgoing((large, empty))
    (buffer,) = message.large
    assert np.shares_memory(buffer, large)
    assert message.nbytes < 400
    assert Outgoing(np.zeros(4)).large == []


def over_mpi(payload, room=None):
    """What a message becomes at the other end."""
    sent = Outgoing(payload)
    message = arrived(sent, step=7)
    message.offer(room)
    for place, buffer in zip(message.large(), sent.large, strict=True):
        octets_of(place)[:] = buffer
    return message


def arrived(sent, step):
    slot = bytearray(b"x" * FIRST_BYTES)  # there was another message in it before
    sent.write(slot, step)
    message = Message(slot)
    slot[:] = bytes(FIRST_BYTES)  # and there will be one
    assert message.step == step
    return message


def test_what_does_not_fit_goes_beside():
    given = {"long": "x" * FIRST_BYTES}
    sent = Outgoing(given)
    (beside,) = sent.large
    assert sent.nbytes < 200
    note = arrived(sent, step=3)
    assert note.kind == "beside" and len(note.beside()) == len(beside)
    message = Message(beside)
    assert message.kind == "object" and pickle.loads(message.rest) == given


def test_messages_over_mpi_come_whole_and_aligned():
    given = (*message_arrays(), np.zeros((1000, 50)), np.zeros(3, np.int8), np.ones(5))
    message = over_mpi(given)
    assert message.kind == "tuple" and len(message.large()) == 3
    for one, other in zip(given, message.arrays, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
        assert other.flags.aligned and other.flags.writeable and other.flags.c_contiguous
    assert over_mpi(np.arange(3)).kind == "array"


def test_large_arrays_arrive_where_there_is_room_for_them():
    given = (np.arange(50000.0), np.arange(4), np.arange(60000.0))
    rooms = (np.zeros(50000), np.zeros(4, int), np.zeros(60000, np.float32))
    found = over_mpi(given, rooms).arrays
    assert found[0] is rooms[0] and rooms[0][-1] == 49999.0
    assert found[1] is not rooms[1] and found[2] is not rooms[2]  # small; of another dtype
    for one, other in zip(given, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert over_mpi(given, (np.zeros(50000),)).arrays[0].sum() == given[0].sum()


def test_rows_lie_in_place_where_positions_follow_one_another():
    out = [np.array([4, 5, 6]), np.array([6, 4]), np.zeros(0, int)]
    messages = RankMessages(0, [1, 2, 3], out, [1, 2], [np.array([0, 1]), np.array([3, 2])])
    assert messages.out_runs == [slice(4, 7), None, None]
    assert messages.in_runs == [slice(0, 2), None]
    state = np.zeros((8, 2000))
    rows = rows_in_place(state, messages, pack_rows)
    assert np.shares_memory(rows[0], state) and rows[1:] == [None, None]
    assert rows_in_place(state, messages, np.take) == [None] * 3  # who knows what it does
    assert rows_in_place(state[:, ::2], messages, pack_rows) == [None] * 3
    (room, _) = rooms = rooms_in_place(state, messages, place_rows)
    assert room.shape == (2, 2000) and np.shares_memory(room, state)
    other = np.ones((2, 2000))
    left = not_in_place(Inbox(0, [1, 2], messages.in_positions, [room, other]), rooms)
    assert (left.sources, left.payloads) == ([2], [other])


def test_no_row_arrives_in_place_where_it_could_meet_another():
    here, there = np.array([0, 1]), np.array([1, 2])
    assert RankMessages(0, [], [], [1, 2], [here, there]).in_runs == [None, None]
    assert RankMessages(0, [2], [there], [1], [here]).in_runs == [None]


def test_places_never_exceed_threads():
    class Client:
        scheduler = SimpleNamespace(identity=None)

        def sync(self, function, n_workers):
            threads = [1, 3, 2, 9]
            states = ["running", "running", "running", "paused"]  # a paused one takes no tasks
            return {
                "workers": {
                    f"tcp://{i}": {"name": i, "nthreads": threads[i], "status": states[i]}
                    for i in range(4)
                }
            }

    places = [int(place[-1]) for place in places_by_threads(Client(), 6)]
    assert places == [0, 1, 2, 1, 2, 1]
    with pytest.raises(InputError, match=r"7 ranks need as many threads.*has 6.*tcp://1: 3"):
        places_by_threads(Client(), 7)
    given = ["tcp://2", "tcp://1"]
    assert places_by_threads(Client(), 2, given) == given
    with pytest.raises(InputError, match=r"too many on.*tcp://0"):
        places_by_threads(Client(), 2, ["tcp://0", "tcp://0"])
    with pytest.raises(InputError, match="2 names"):
        places_by_threads(Client(), 3, given)


def fail(value):
    raise ValueError("no")


def increment(value):
    value += 1
    return value


def test_a_rank_answers_for_what_it_did():
    scattered = np.zeros(2)
    rank = Rank(0, 1, None, boxes.Mailbox(0, 1.0), {"key": scattered}.__getitem__)
    rank._endpoint = SimpleNamespace(flush=lambda: None)
    commands = [
        Command("fetch_value", 1, detail=["key"]),
        Command("update", 2, (1,), increment),
        Command("fold", 3, (2,), sum, {}, "allreduce"),
        Command("gather", 4, (2,)),
        Command("map", 5, (2,), fail),
        Command("hold", 6),
        Command("map", 7, (2,), increment),
    ]
    answer = rank.execute(commands, {6: "given"})
    assert answer.done == 4
    assert answer.error.__notes__ == ["on rank 0"]
    assert answer.gathered[2].tolist() == answer.gathered[3].tolist() == [1.0, 1.0]
    assert scattered.tolist() == [0.0, 0.0]  # others hold it too
    assert [(r.label, r.round_index, r.destinations) for r in answer.shares] == [
        ("allreduce", 0, ()),
        ("allreduce", 1, ()),
    ]
    assert answer.rounds == [0, 1]
    kept = rank.execute([Command("gather", 8, (6,)), Command("gather", 9, (7,))], {})
    assert kept.gathered == {6: "given"}  # what was handed out survives a failure, 7 was not made
    dropped = Command("gather", 10, (6,), dropped=(2, 3))
    assert rank.execute([dropped, Command("gather", 11, (2,))], {}).done == 1


def test_calls_that_are_alike_have_the_same_detail():
    repeated, exchanges, array = Repeated(), ("to", "from"), np.ones(2)
    static, detail = repeated.same((exchanges, 3, "label"), {"reduction": array})
    again = repeated.same((exchanges, 3, "label"), {"reduction": array})
    assert again[0] is static and again[1] is detail
    others = [
        repeated.same((exchanges, 4, "label"), {"reduction": array}),
        repeated.same((exchanges, 3, "other"), {"reduction": array}),
        repeated.same((exchanges, 3, "label"), {"reduction": np.ones(2)}),  # may change apart
        repeated.same((exchanges, 3, "label"), {"other": array}),
        repeated.same((exchanges, 3, "label"), {}),
    ]
    assert len({id(other[1]) for other in [*others, again]}) == 6
    assert others[-1][0] is None
    repeated.forget()
    assert repeated.same((exchanges, 3, "label"), {"reduction": array})[0] is not static
