"""The parameter server on worker processes: the same bits, what pulls see, and what goes wrong."""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from server_programs import (
    N_ITEMS,
    assert_never_too_stale,
    fail_on,
    log_tasks,
    move_values,
    no_eights,
    no_sevens,
    numbered_tasks,
    push_seven,
    push_seven_and_go_on,
    replay,
    wait_long,
)
from spmd_steps import BOUND, assert_nothing_left, kill_soon, run_and_kill

from daskpart.collectives import ParameterServer
from daskpart.collectives.server import cluster
from daskpart.collectives.server.shard import FINISHED, Shard
from daskpart.collectives.transports import dask_comm
from daskpart.collectives.transports.mailbox import Mailbox
from daskpart.errors import InputError, WorkerLostError

pytestmark = pytest.mark.cluster


def server_on(client, n_items=N_ITEMS, **options):
    return ParameterServer(n_items, client=client, **{"transport": "dask", "n_ranks": 4, **options})


def assert_usable(client):
    with server_on(client, dtype=int) as server:
        assert_never_too_stale(server.run(log_tasks, n_tasks=2), 0)
    assert_nothing_left(client)


@pytest.mark.parametrize(("n_ranks", "width"), [(1, None), (3, 2), (4, None), (8, 1)])
def test_the_same_bits_as_a_serial_replay(quiet_client, n_ranks, width):
    random = np.random.default_rng(n_ranks)
    initial = random.standard_normal((N_ITEMS, *(() if width is None else (width,))))
    placement = random.integers(0, n_ranks, N_ITEMS)
    options = {"n_ranks": n_ranks, "row_length": width, "placement": placement, "initial": initial}
    expected, values = replay(n_ranks, initial)
    with server_on(quiet_client, **options) as server:
        assert server.run(move_values, range(n_ranks), width=width) == expected
        assert server.values().tobytes() == values.tobytes()
        expected, values = replay(n_ranks, values)
        assert server.run(move_values, range(n_ranks), width=width) == expected
        assert server.values().tobytes() == values.tobytes()
        server.set_values(initial)
        assert server.values().tobytes() == initial.tobytes()
        counted = server.report.counts
    with ParameterServer(N_ITEMS, transport="local", **options) as local:
        for _ in range(2):
            local.run(move_values, range(n_ranks), width=width)
        for name, counts in local.report.counts.items():
            assert (counts == counted[name]).all(), name


@pytest.mark.parametrize("delay", [0, 2])
def test_staleness_never_exceeds_the_delay(quiet_client, delay):
    with server_on(quiet_client, dtype=int, delay=delay) as server:
        seen = server.run(log_tasks, slow=2, seconds=0.05)
        assert_never_too_stale(seen, delay)
        # the fast ranks do run ahead as far as they may
        assert server.report.max_staleness == delay
        assert (server.values()[:4] == 6).all()


def test_without_bound_nobody_waits(quiet_client):
    with server_on(quiet_client, dtype=int, delay=math.inf, n_ranks=2) as server:
        seen = server.run(log_tasks, slow=1, seconds=0.2)
        assert max(task - counts[1] for task, counts in seen[0]) >= 3


def test_tasks_numbered_through(quiet_client):
    with server_on(quiet_client, 1, dtype=int) as server:
        seen = server.run(numbered_tasks, n_tasks=7)
        assert {t: s for of_rank in seen for t, s in of_rank.items()} == {t: t for t in range(7)}


def roundtrip(endpoint, *, n_rows):
    ids = np.arange(endpoint.rank, n_rows, endpoint.n_ranks)
    rows = np.outer(ids, np.ones(50))
    endpoint.push(ids, rows)
    rows[:] = -1  # what was pushed is the server's
    endpoint.advance()
    return endpoint.pull(np.arange(n_rows)).sum()


def test_large_messages_come_whole(quiet_client):
    with server_on(quiet_client, 4000, row_length=50, update="assign") as server:
        assert server.run(roundtrip, n_rows=4000) == [50 * sum(range(4000))] * 4
        is_local = server.report.is_local
        assert is_local.tolist() == [[i % 2 == j % 2 for j in range(4)] for i in range(4)]
        # at 2 workers half of the shards are on a rank's own
        assert 0.4 < server.report.to_dict()["share of rows that is remote"] < 0.6


def test_two_servers_at_once(quiet_client):
    with (
        server_on(quiet_client, dtype=int) as one,
        server_on(quiet_client, dtype=int, n_ranks=3, delay=1) as other,
    ):
        found = {}

        def work(server, name):
            found[name] = [server.run(log_tasks, n_tasks=4) for _ in range(3)]

        threads = [threading.Thread(target=work, args=(s, s.n_ranks)) for s in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * BOUND)
        assert sorted(found) == [3, 4]
        assert one.values()[:5].tolist() == [12, 12, 12, 12, 0]
        assert other.values()[:5].tolist() == [12, 12, 12, 0, 0]
    assert_nothing_left(quiet_client)


# what goes wrong


def test_a_server_that_finds_the_workers_busy(quiet_client):
    begin = time.monotonic()
    with (
        server_on(quiet_client, n_ranks=8),
        pytest.raises(InputError, match=r"4 rank\(s\) find 0 of 4 threads free") as caught,
    ):
        server_on(quiet_client, n_ranks=8, start_seconds=0.3)
    assert "transport='local'" in caught.value.__notes__[0]
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(quiet_client)


@pytest.mark.parametrize("delay", [0, 1, math.inf])
def test_a_failing_rank_leaves_the_rows_as_they_were(quiet_client, delay):
    begin = time.monotonic()
    with server_on(quiet_client, dtype=int, initial=3, delay=delay) as server:
        for _ in range(2):
            with pytest.raises(ArithmeticError, match="went to infinity") as caught:
                server.run(fail_on, culprit=1, seconds=0.05)
            assert any("on rank 1" in note for note in caught.value.__notes__)
            assert (server.values() == 3).all()
        server.run(log_tasks)
        assert (server.values()[:4] == 9).all()
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(quiet_client)


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("pusher", [0, 3])
@pytest.mark.parametrize("program", [push_seven, push_seven_and_go_on])
def test_a_failing_rule(quiet_client, delay, pusher, program):
    begin = time.monotonic()
    with server_on(quiet_client, dtype=int, update=no_sevens, delay=delay) as server:
        with pytest.raises(ArithmeticError, match="seven"):
            server.run(program, pusher=pusher)
        assert (server.values() == 0).all()
        assert len(server.run(log_tasks)) == 4
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(quiet_client)


def test_bad_input_is_told_on_the_client(quiet_client):
    with server_on(quiet_client) as server:
        with pytest.raises(InputError, match="id 23 is out of range"):
            server.run(pull_too_far)
        assert len(server.run(log_tasks)) == 4
    with pytest.raises(InputError, match=r"9 ranks need as many threads.*has 8 after") as caught:
        server_on(quiet_client, n_ranks=9, start_seconds=0.3)
    assert "transport='local'" in caught.value.__notes__[0]
    with pytest.raises(InputError, match=r"needs workers that are ranks of one MPI job"):
        server_on(quiet_client, transport="mpi")
    with pytest.raises(InputError, match="needs a synchronous Dask client"):
        server_on(None)


def pull_too_far(endpoint):
    endpoint.pull([N_ITEMS])


def test_a_timeout_ends_every_wait(quiet_client):
    begin = time.monotonic()
    # "assign" compiles nothing, which would take longer than this timeout
    with server_on(quiet_client, timeout=0.5, update="assign") as server:
        with pytest.raises(
            TimeoutError, match=r"Rank \d waited 0.5 s for shard \d.*too far behind"
        ):
            server.run(wait_long, seconds=1.5)
        assert len(server.run(log_tasks)) == 4
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(quiet_client)


def test_ctrl_c(quiet_client):
    begin = time.monotonic()
    with server_on(quiet_client, delay=1) as server:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            server.run(wait_long, seconds=0.2)
        timer.join()
        assert not server.values().any()  # the ranks stop, and the rows are as before the run
    assert_nothing_left(quiet_client)
    assert time.monotonic() - begin < BOUND
    assert_usable(quiet_client)


@pytest.mark.parametrize("use", ["values", "set_values", "run"])
def test_after_ctrl_c_nothing_is_asked_of_workers(quiet_client, monkeypatch, use):
    """The rows of before were: of one that was frozen, until the scheduler gave it up."""
    asked = []
    with server_on(quiet_client, dtype=int, initial=3, delay=math.inf) as server:
        comm = server.communicator
        usual = comm.map

        def noted(*given, **static):
            asked.append(static.get("do"))
            return usual(*given, **static)

        monkeypatch.setattr(comm, "map", noted)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            server.run(push_and_wait, seconds=5.0)
        timer.join()
        assert asked == [None]  # the run
        given = {"values": (), "set_values": (8,), "run": (log_tasks,)}[use]
        getattr(server, use)(*given)
        assert asked[1] is Shard.undo
        rows = {"values": 3, "set_values": 8, "run": 9}[use]
        assert (server.values()[:4] == rows).all() and asked.count(Shard.undo) == 1


def push_and_wait(endpoint, seconds):
    endpoint.push(np.arange(N_ITEMS), np.ones(N_ITEMS, int))
    time.sleep(seconds)
    endpoint.pull([0])


def test_cancelled_ranks(quiet_client):
    begin = time.monotonic()
    with server_on(quiet_client, delay=1) as server:
        tasks = server._transport.communicator._tasks
        timer = threading.Timer(0.3, quiet_client.cancel, (tasks,), {"force": True})
        timer.start()
        with pytest.raises(WorkerLostError, match="was cancelled, or its client went away") as lost:
            server.run(wait_long, seconds=0.2)
        timer.join()
        assert "make a new server" in lost.value.__notes__[0]
    assert_nothing_left(quiet_client)
    assert time.monotonic() - begin < BOUND


def test_a_client_that_is_killed(quiet_client):
    run_and_kill("server_client.py", quiet_client)
    assert_nothing_left(quiet_client)
    assert_usable(quiet_client)


def threads_of_shards():
    return [thread.name for thread in threading.enumerate() if thread.name == "shards"]


def test_threads_end_with_their_server(quiet_client):
    with server_on(quiet_client):
        assert all(len(names) == 1 for names in quiet_client.run(threads_of_shards).values())
    limit = time.monotonic() + BOUND
    while any(quiet_client.run(threads_of_shards).values()):
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_worker_killed_in_the_middle(own_client):
    server = server_on(own_client, delay=1)
    victim = server.report.places[1]
    kill_soon(own_client, victim)
    begin = time.monotonic()
    with pytest.raises(WorkerLostError, match=rf"{victim} with rank\(s\) 1, 3"):
        server.run(wait_long, seconds=0.2)
    assert time.monotonic() - begin < BOUND
    with pytest.raises(WorkerLostError, match="The ranks are gone"):
        server.values()
    server.close()
    own_client.wait_for_workers(2, timeout=60)  # the nanny starts another
    assert_nothing_left(own_client)
    assert_usable(own_client)


class LateOnRankOne:
    """A value that a rank gets, and that takes its time there."""

    def __init__(self, rank):
        self.rank = rank

    def __setstate__(self, state):
        self.__dict__.update(state)
        time.sleep(0.5 if self.rank == 1 else 0.0)


def push_seven_to(endpoint, late, *, target):
    if endpoint.rank == 0:
        endpoint.push([target], [7])


def test_a_rule_that_fails_before_the_program_of_its_rank_begins(quiet_client):
    with server_on(quiet_client, dtype=int, update=no_sevens, delay=1) as server:
        target = int(np.flatnonzero(server.placement == 1)[0])
        with pytest.raises(ArithmeticError, match="seven"):
            server.run(push_seven_to, [LateOnRankOne(rank) for rank in range(4)], target=target)
        assert (server.values() == 0).all()


def test_a_rule_that_exits(quiet_client):
    with server_on(quiet_client, dtype=int, update=no_eights, delay=1) as server:
        with pytest.raises(RuntimeError, match="the update ended with SystemExit: 8"):
            server.run(push_eight)
        assert (server.values() == 0).all()
        assert len(server.run(log_tasks, n_tasks=1)) == 4


def push_eight(endpoint):
    """To every shard, that of another worker too."""
    if endpoint.rank == 0:
        endpoint.push(np.arange(endpoint.n_items), np.full(endpoint.n_items, 8))


def slowly_no_sevens(current, pushed):
    time.sleep(0.2)  # so that ranks look at the shard while it applies this
    return no_sevens(current, pushed)


def push_seven_last(endpoint, late, *, target):
    """The last that happens at shard 1: rank 0, which is late, pushes what fails, and ends."""
    if endpoint.rank == 0:
        time.sleep(0.3)
        endpoint.push([target], [7])


@pytest.mark.parametrize("delay", [0, 1])
def test_a_rule_that_fails_on_the_last_push(quiet_client, delay):
    """Ranks whose programs have ended see it, and do not take the shard for complete."""
    with server_on(quiet_client, dtype=int, update=slowly_no_sevens, delay=delay) as server:
        target = int(np.flatnonzero(server.placement == 1)[0])
        with pytest.raises(ArithmeticError, match="seven"):
            server.run(push_seven_last, range(4), target=target)
        assert (server.values() == 0).all()
        assert len(server.run(log_tasks, n_tasks=1)) == 4


def read_none_of_the_next():
    """The next message to the shards of this worker can't be read."""

    def read(message):
        if threading.current_thread().name != "shards":
            return dask_comm.decoded(message)
        cluster.decoded = dask_comm.decoded
        raise MemoryError("no room for these rows")

    cluster.decoded = read


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize(
    ("program", "values", "options"),
    [(push_seven_last, [range(4)], {"target": 1}), (log_tasks, [], {})],
)
def test_a_message_to_a_shard_that_cannot_be_read(quiet_client, delay, program, values, options):
    with server_on(quiet_client, dtype=int, delay=delay) as server:
        quiet_client.run(read_none_of_the_next, workers=[server.report.places[1]])
        with pytest.raises(MemoryError, match="no room for these rows"):
            server.run(program, *values, **options)
        assert (server.values() == 0).all()
        assert len(server.run(log_tasks, n_tasks=1)) == 4
    assert_nothing_left(quiet_client)


def test_a_push_that_cannot_be_read_before_all_have_finished():
    """Its rank has sent the end of its program before anybody could be stopped."""
    with ParameterServer(2, n_ranks=2, placement=[0, 1], transport="local") as local:
        spec = local._spec
    session = SimpleNamespace(
        address="here", spec=SimpleNamespace(placement=["here", "there"]),
        mailboxes={0: Mailbox(0, timeout=1.0)}, send=lambda *message: None, stop=None,
        loop=SimpleNamespace(call_soon_threadsafe=lambda stop: None),
    )  # fmt: skip
    shards = cluster.WorkerShards(session, spec)
    shards.locks[0], shards.of_rank[0] = threading.Lock(), Shard(np.zeros(1), spec)
    shards.begin(0, 1)
    for packed in ((b"no pickle", []), dask_comm.encoded((1, 0, "clock", FINISHED))):
        shards.put(("shards", 0, 1, (0, 0, "pull"), packed))
    endpoint = cluster.ClusterEndpoint(0, shards, 1)
    endpoint.finish()
    with pytest.raises(pickle.UnpicklingError):
        endpoint.wait_for_all()
    shards.end()
