"""The graph transport: lazy, as many tasks as the plan says, pinned, cut when settled."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from exchange_text import N_ITEMS, items_of_ranks, random_connectivity
from spmd_steps import kill_soon

from daskpart.collectives import (
    DaskCommunicator,
    GraphCommunicator,
    LocalCommunicator,
    ParameterServer,
    allreduce,
    communicator_for,
    expand,
    expand_plan,
    pack_rows,
    place_rows,
    reduce,
    reduce_plan,
)
from daskpart.collectives.transports import cluster, measures
from daskpart.collectives.transports.placement import place_ranks
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.errors import InputError, WorkerLostError

ran: list[str] = []


def noted(value):
    ran.append("noted")
    return value + 1


def doubled(value):
    return 2 * value


def ones(items):
    return np.ones((len(items), 2))


def process_of(value):
    return os.getpid()


def asleep(value, seconds):
    time.sleep(seconds)
    return value


def tasks_on_scheduler(dask_scheduler):
    return sorted(map(str, dask_scheduler.tasks))


@pytest.fixture
def threads():
    with GraphCommunicator(3, scheduler="threads") as communicator:
        yield communicator


def prepared_exchange(communicator, seed=3):
    connectivity = random_connectivity(N_ITEMS, communicator.n_ranks, seed)
    items = communicator.values(items_of_ranks(connectivity))
    plans = [expand_plan(connectivity), reduce_plan(connectivity)]
    return plans, communicator.prepare_all(plans, items), communicator.map(ones, items)


def n_tasks(communicator, values):
    return len(communicator.collection(values).__dask_graph__())


def test_nothing_runs_until_asked(threads):
    ran.clear()
    state = threads.map(noted, threads.values([1, 2, 3]))
    total = allreduce(threads, state)
    assert ran == []
    assert total.result() == 9
    assert ran == ["noted"] * 3
    assert threads.gather(state) == [2, 3, 4]
    assert (
        ran == ["noted"] * 3
    )  # the state was still in use, so it was kept when the sum was asked for


def test_as_many_tasks_as_the_plan_says(threads):
    (expand_given, reduce_given), (prepared_expand, prepared_reduce), rows = prepared_exchange(
        threads
    )
    threads.settle(rows, prepared_expand.rounds[0].messages)
    settled = 2 * threads.n_ranks
    rows = reduce(threads, prepared_reduce, rows)
    steps = reduce_given.total_messages + threads.n_ranks
    assert n_tasks(threads, rows) == steps + settled
    rows = expand(threads, prepared_expand, rows)
    steps += expand_given.total_messages + threads.n_ranks
    assert n_tasks(threads, rows) == steps + settled
    threads.settle(rows)
    assert n_tasks(threads, rows) == threads.n_ranks


def test_epochs_keep_the_graph_small(threads):
    _, (prepared_expand, prepared_reduce), rows = prepared_exchange(threads)
    sizes = []
    for _ in range(3):
        rows = expand(threads, prepared_expand, reduce(threads, prepared_reduce, rows))
        sizes.append(n_tasks(threads, rows))
        rows = threads.settle(rows)
    assert sizes[1] == sizes[2] < sizes[0]
    gc.collect()
    assert len(threads._settled) == 2  # the last rows and the messages; nothing of older epochs


def test_work_in_flight_is_kept_when_something_else_is_asked(threads):
    """A posted message and a state are not computed twice because a sum was wanted in between."""
    _, (prepared_expand, _), rows = prepared_exchange(threads)
    ran.clear()
    rows = threads.map(noted, rows)
    pending = threads.post(prepared_expand.rounds[0], rows, pack_rows)
    allreduce(threads, threads.map(np.sum, rows)).result()
    rows = threads.collect(pending, rows, place_rows)
    assert not pending.content.in_use  # collected messages are not held on to
    threads.gather(rows)
    assert ran == ["noted"] * 3


def test_a_task_that_runs_twice_counts_once(threads):
    plans, (prepared_expand, _), rows = prepared_exchange(threads)
    rows = expand(threads, prepared_expand, rows)
    first = dask.compute(threads.collection(rows), scheduler="threads")[0]
    again = threads.gather(rows)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    dask.compute(threads.collection(threads.map(doubled, rows)))
    sent = threads.counters.messages_sent
    assert sent.tolist() == plans[0].statistics().per_rank("messages_sent").tolist()
    assert [record.label for record in threads.counters.rounds] == ["expand"]


def test_values_from_a_dask_collection(threads):
    import dask.array as da

    blocks = da.arange(6, chunks=2)
    for communicator in (threads, LocalCommunicator(3), ThreadsCommunicator(3)):
        values = communicator.map(doubled, communicator.values(blocks))
        assert [block.tolist() for block in communicator.gather(values)] == [
            [0, 2],
            [4, 6],
            [8, 10],
        ]
        with pytest.raises(InputError, match="3 ranks need as many values, got 2"):
            communicator.values(da.arange(4, chunks=2))


def test_a_closed_run_keeps_nothing(threads):
    state = threads.settle(threads.map(noted, threads.values([1, 2, 3])))
    threads.map(noted, state)
    total = allreduce(threads, state)
    assert total.result() == 9
    threads.close()
    with pytest.raises(InputError, match="closed"):
        total.result()
    assert not measures.take(threads.run_id)
    measures.record(threads.run_id, (9, 0), measures.Note())  # a straggler
    assert not measures.take(threads.run_id)
    assert (threads.counters.seconds_computing > 0).all()


def test_what_cannot_be_placed():
    with pytest.raises(InputError, match="use one of 'threads'"):
        GraphCommunicator(2, scheduler="sideways")
    with pytest.raises(InputError, match="needs a Dask client"):
        GraphCommunicator(2, scheduler="threads", placement=["a", "b"])


@pytest.mark.parametrize(
    "make",
    [
        *[
            partial(communicator_for, transport, 2)
            for transport in ("auto", "graph", "dask", "mpi")
        ],
        partial(GraphCommunicator, 2),
        partial(DaskCommunicator, 2),
        lambda client: ParameterServer(3, n_ranks=2, client=client),
        lambda client: ParameterServer(3, n_ranks=2, client=client, transport="dask"),
    ],
)
def test_what_is_no_client_for_ranks_is_refused(make):
    with pytest.raises(InputError, match=r"client is asynchronous.*a synchronous client"):
        make(client=SimpleNamespace(asynchronous=True))
    with pytest.raises(InputError, match="the client is closed"):
        make(client=SimpleNamespace(status="closed"))
    for odd in ("tcp://127.0.0.1:8786", "", 3):
        with pytest.raises(InputError, match=r"client is a .*: give a distributed.Client; of an a"):
            make(client=odd)


@pytest.mark.cluster
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
@pytest.mark.parametrize("is_given", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads
def test_a_client_of_the_process_before_a_fork_is_refused(client, is_given, monkeypatch):
    """No thread of the fork runs its loop: it waited half a minute for an answer, twice."""
    monkeypatch.setattr(cluster, "_LOOP_SECONDS", 0.5)
    begin, child = time.monotonic(), os.fork()
    if not child:
        code = 1
        try:
            communicator_for("auto", 2, client if is_given else None)
        except InputError as error:
            code = int("forked" not in str(error))
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0 and time.monotonic() - begin < 15


def test_workers_in_order_of_their_names():
    class Client:
        def __init__(self, names):
            self.names = names

        def sync(self, function, n_workers, callback_timeout):
            return function(n_workers=n_workers)

        def submit(self, function, pure):
            return SimpleNamespace(release=lambda: None)

        @property
        def scheduler(self):
            return SimpleNamespace(identity=self.identity)

        def identity(self, n_workers):
            assert n_workers == -1  # all of them
            of_each = [{"name": name, "status": "running"} for name in self.names]
            return {"workers": {f"tcp://{i}": worker for i, worker in enumerate(of_each)}}

    assert place_ranks(Client([10, 2, 3]), 4) == ["tcp://1", "tcp://2", "tcp://0", "tcp://1"]
    assert place_ranks(Client(["w10", "w9"]), 2) == ["tcp://1", "tcp://0"]
    with (
        dask.config.set({"daskpart.start-seconds": 0.1}),
        pytest.raises(InputError, match="no workers, and none came"),
    ):
        place_ranks(Client([]), 2)


def test_transports_by_name():
    assert isinstance(communicator_for("auto", 2), LocalCommunicator)
    assert isinstance(communicator_for("local", 2), LocalCommunicator)
    graph = communicator_for("graph", 2)
    assert isinstance(graph, GraphCommunicator) and graph.scheduler == "threads"
    with pytest.raises(InputError, match="'pigeon': use one of 'auto', 'local', 'graph'"):
        communicator_for("pigeon", 2)


@pytest.mark.cluster
def test_ranks_stay_where_they_are_placed(quiet_client):
    pids = quiet_client.run(os.getpid)
    with GraphCommunicator(5, quiet_client) as communicator:
        expected = [pids[address] for address in communicator.placement]
        assert len(set(expected)) == 2  # more ranks than workers
        state = communicator.map(process_of, communicator.values(list(range(5))))
        collection = communicator.collection(state)
        assert quiet_client.compute(collection, sync=True) == expected
        assert communicator.gather(state) == expected
        assert communicator.gather(communicator.map(process_of, state)) == expected
        turned = communicator.placement[::-1]
    with GraphCommunicator(5, quiet_client, placement=turned) as communicator:
        state = communicator.map(process_of, communicator.values(list(range(5))))
        assert communicator.gather(state) == expected[::-1]
    with pytest.raises(InputError, match="unknown"):
        GraphCommunicator(2, quiet_client, placement=["tcp://nowhere:1", turned[0]])
    with pytest.raises(InputError, match="4 names"):
        GraphCommunicator(5, quiet_client, placement=turned[:4])


@pytest.mark.cluster
def test_the_current_client_is_taken(quiet_client):
    with quiet_client.as_current(), communicator_for("graph", 2) as communicator:
        assert isinstance(communicator, GraphCommunicator)
        assert communicator.placement is not None


@pytest.mark.cluster
def test_collections_on_a_cluster(quiet_client):
    import dask.array as da

    blocks = quiet_client.persist(da.arange(6, chunks=2))
    with GraphCommunicator(3, quiet_client) as communicator:
        values = communicator.map(doubled, communicator.values(blocks))
        assert [block.tolist() for block in communicator.gather(values)] == [
            [0, 2],
            [4, 6],
            [8, 10],
        ]


def run_in_a_task():
    with communicator_for("graph", 3) as communicator:
        state = communicator.map(doubled, communicator.values([1, 2, 3]))
        return allreduce(communicator, state).result(), communicator.placement is not None


@pytest.mark.cluster
def test_a_run_inside_a_task(quiet_client):
    """Its ranks need the very thread that it runs on, so it gives it back."""
    for address in quiet_client.nthreads():
        future = quiet_client.submit(run_in_a_task, workers=[address], pure=False)
        assert future.result(timeout=30) == (12, True)


@pytest.mark.cluster
def test_local_ranks_fetch_what_a_cluster_holds(quiet_client):
    import dask.array as da

    with quiet_client.as_current(), LocalCommunicator(3) as communicator:
        values = communicator.values(quiet_client.persist(da.arange(6, chunks=2)))
        assert [block.tolist() for block in communicator.gather(values)] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.cluster
def test_nothing_is_left_on_the_cluster(quiet_client):
    with GraphCommunicator(3, quiet_client) as communicator:
        _, (prepared_expand, prepared_reduce), rows = prepared_exchange(communicator)
        rows = communicator.settle(reduce(communicator, prepared_reduce, rows))
        rows = expand(communicator, prepared_expand, rows)
        communicator.gather(rows)
        run = communicator.run_id
    assert all(run not in key for key in _left_over(quiet_client, run))
    assert not any(quiet_client.run(measures.take, run).values())


def _left_over(quiet_client, run):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:  # futures are released by messages
        left = quiet_client.run_on_scheduler(tasks_on_scheduler)
        if not any(run in key for key in left):
            break
        time.sleep(0.05)
    return left


def deep(value, left=600):
    return deep(value, left - 1) if left else value / 0


def exits(value):
    sys.exit(value)


def fold_that_exits(values):
    sys.exit(len(values))


@pytest.mark.cluster
def test_errors_that_dask_would_not_bring_back(own_client):
    """A deep traceback kept the client waiting for ever; what ends a program ended the workers."""
    with GraphCommunicator(2, own_client) as communicator:
        workers = own_client.run(os.getpid)
        values = communicator.values([1, 2])
        with pytest.raises(ZeroDivisionError) as caught:
            communicator.gather(communicator.map(deep, values))
        assert caught.value.__notes__[0].startswith("on rank")
        with pytest.raises(RuntimeError, match=r"a step ended with SystemExit: [12]"):
            communicator.gather(communicator.map(exits, values))
        with pytest.raises(RuntimeError, match="a step ended with SystemExit: 2"):
            communicator.fold(values, fold_that_exits).result()
        assert allreduce(communicator, values).result() == 3
        assert own_client.run(os.getpid) == workers


def test_a_collection_is_of_values_of_each_rank(threads):
    with pytest.raises(InputError, match="Argument 0 is a replicated value"):
        threads.collection(threads.replicated(1))


def test_a_deep_error_keeps_its_kind_on_threads(threads):
    with pytest.raises(ZeroDivisionError):
        threads.gather(threads.map(deep, threads.values([1] * threads.n_ranks)))


@pytest.mark.cluster
def test_ctrl_c_leaves_nothing(quiet_client):
    with GraphCommunicator(3, quiet_client) as communicator:
        state = communicator.map(asleep, communicator.values([1, 2, 3]), seconds=2.0)
        timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            communicator.settle(state)
        timer.join()
        run = communicator.run_id
    assert all(run not in key for key in _left_over(quiet_client, run))


@pytest.mark.cluster
def test_values_that_the_cluster_forgot(own_client):
    with GraphCommunicator(3, own_client) as communicator:
        state = communicator.settle(communicator.map(doubled, communicator.values([1, 2, 3])))
        own_client.restart()
        with pytest.raises(WorkerLostError):
            communicator.gather(communicator.map(doubled, state))


@pytest.mark.cluster
def test_a_lost_worker_is_an_error_and_the_run_goes_on(own_client):
    """A worker dies in mid-step; on the others the result is what it would have been."""
    communicator = GraphCommunicator(3, own_client)
    kept = communicator.gather(communicator.map(doubled, communicator.values([1, 2, 3])))
    asked = communicator.map(asleep, communicator.values(kept), seconds=1.5)
    victim = communicator.placement[1]
    kill_soon(own_client, victim)
    begin = time.monotonic()
    with pytest.raises(WorkerLostError, match=rf"{victim} with rank\(s\) 1\."):
        communicator.settle(asked)
    assert time.monotonic() - begin < 10
    communicator.close()
    with GraphCommunicator(3, own_client) as successor:
        assert victim not in successor.placement
        state = successor.map(doubled, successor.values(kept))
        assert allreduce(successor, state).result() == 24
        assert successor.counters.messages_sent.sum() == 4
