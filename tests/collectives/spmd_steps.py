"""Steps and checks that every SPMD transport must pass; shared by the tests and the MPI job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from daskpart.collectives import (
    MAX,
    SUM,
    allreduce,
    barrier,
    broadcast,
    hypercube_allreduce,
    reduce_scatter,
    sparse_allreduce,
)
from daskpart.collectives.messages import Exchange
from daskpart.collectives.transports.lease import end_lease, take_lease
from daskpart.collectives.transports.worker import RankHost
from daskpart.errors import DivergenceError, WorkerLostError

BOUND = 20.0  # seconds; no fault may take longer to be told


def ring(n_ranks):
    return Exchange.from_pairs(n_ranks, [(r, (r + 1) % n_ranks) for r in range(n_ranks)])


def arrays_of(rank, shapes):
    return tuple(
        np.random.default_rng([rank, index]).standard_normal(shape)
        for index, shape in enumerate(shapes)
    )


def pack_arrays(value, source, destinations):
    return [value] * len(destinations)


def receive_arrays(state, inbox):
    ((source,), (payload,)) = inbox.sources, inbox.payloads
    assert source != inbox.rank
    assert not any(array.flags.writeable for array in payload)
    return [array.copy() for array in payload]


def ring_of_values(communicator, shapes):
    """Every rank gets its neighbour's arrays, of any size, whole."""
    n_ranks = communicator.n_ranks
    given = [arrays_of(rank, shapes) for rank in range(n_ranks)]
    pending = communicator.post_values(ring(n_ranks), communicator.values(given), pack_arrays)
    assert_came_round(communicator, pending, given)


def assert_came_round(communicator, pending, given):
    """Collect what a ring was given, whole."""
    state = communicator.values([None] * communicator.n_ranks)
    found = communicator.gather(communicator.collect(pending, state, receive_arrays))
    for rank, arrays in enumerate(found):
        for one, other in zip(arrays, given[rank - 1], strict=True):
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes()


def diverge(value, rank, *, culprit):
    if rank == culprit:
        raise DivergenceError("went to infinity")
    return value


def diverge_and_sum(comm, kept, ranks, *, culprit):
    return allreduce(comm, comm.map(diverge, kept, ranks, culprit=culprit)).result()


def spend_and_diverge(comm, state, ranks, *, culprit):
    state = comm.update(increment, state)
    return comm.map(diverge, state, ranks, culprit=culprit)


def slow_sums(comm, numbers, *, seconds, n):
    """The other ranks wait for rank 1 again and again."""
    for _ in range(n):
        total = allreduce(comm, comm.map(slow_on_rank_1, numbers, seconds=seconds))
    return total


def increment(value):
    value += 1
    return value


def assert_survives_a_failing_rank(communicator):
    """The others stop waiting for it at once, its error comes whole, and the run goes on."""
    n_ranks, culprit = communicator.n_ranks, communicator.n_ranks - 1
    kept = communicator.settle(communicator.values([np.full(2, float(r)) for r in range(n_ranks)]))
    given = [arrays_of(rank, [(3, 2), (300, 200)]) for rank in range(n_ranks)]
    pending = communicator.post_values(ring(n_ranks), communicator.values(given), pack_arrays)
    ranks = communicator.values(list(range(n_ranks)))
    begin = time.monotonic()
    for _ in range(2):
        # the others wait for the culprit in the allreduce
        with pytest.raises(DivergenceError, match="went to infinity") as caught:
            communicator.run(diverge_and_sum, kept, ranks, culprit=culprit)
        assert any(f"on rank {culprit}" in note for note in caught.value.__notes__)
    spent = communicator.values([np.zeros(2)] * n_ranks)
    with pytest.raises(DivergenceError):
        communicator.run(spend_and_diverge, spent, ranks, culprit=culprit)
    with pytest.raises(ValueError, match=r"lost in a run that failed|may have overwritten"):
        communicator.gather(spent)
    assert time.monotonic() - begin < BOUND
    moved = communicator.update(increment, kept)
    assert [v[0] for v in communicator.gather(moved)] == [r + 1 for r in range(n_ranks)]
    # what was posted before they failed is there still
    assert_came_round(communicator, pending, given)
    ring_of_values(communicator, [(3, 2)])


def slow_on_rank_1(value, *, seconds):
    time.sleep(seconds if value == 1 else 0.0)  # stands for computing
    return value


def assert_timeout_names_both(make):
    """A wait ends in time, on the rank that waits and at the client; the ranks go on."""
    with make(2, timeout=1.0) as communicator:  # of three, rank 2 might lose patience first
        numbers = communicator.values([0, 1])
        with pytest.raises(TimeoutError, match=r"Rank 0 waited 1 s in call 1 .*rank 1"):
            communicator.run(slow_sums, numbers, seconds=2.0, n=1)
        assert allreduce(communicator, communicator.values([1, 1])).result() == 2


def assert_cancelled_run_ends(make, client):
    """Rank 1 keeps the others waiting, again and again, when the ranks are cancelled."""
    begin = time.monotonic()
    with make(4) as communicator:
        numbers = communicator.values([0, 1, 2, 3])
        tasks = communicator._tasks
        timer = threading.Timer(0.3, client.cancel, (tasks,), {"force": True})
        timer.start()
        with pytest.raises(WorkerLostError, match="was cancelled, or its client went away"):
            communicator.run(slow_sums, numbers, seconds=0.2, n=10)
        timer.join()
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(client)


def no_words(*arguments):
    raise OSError("no words")


class UnnotedError(Exception):
    """One that a rank cannot note where it was raised."""

    add_note = no_words


def fail_without_notes(comm, numbers):
    if comm.rank == 1:
        raise UnnotedError
    return allreduce(comm, numbers).result()


def lose_a_connection(comm, numbers):
    """As MPI may while rank 1 waits for the next run and helps messages on."""
    if comm.rank == 1:
        comm.endpoint.all_sent = no_words
    return allreduce(comm, numbers).result()


def assert_a_rank_that_ends_is_told(make, client):
    """One that fails outside of a text gives no answer: nobody waits for one."""
    for text in (fail_without_notes, lose_a_connection):
        with make(3) as communicator:
            numbers, begin = communicator.values([1, 2, 3]), time.monotonic()
            with pytest.raises(WorkerLostError, match="Rank 1 ended with OSError") as told:
                communicator.run(text, numbers)
                communicator.run(text, numbers)
            assert str(told.value.__cause__) == "no words"
            with pytest.raises(WorkerLostError, match="The ranks are gone"):
                communicator.run(text, numbers)
        assert time.monotonic() - begin < BOUND
        assert_nothing_left(client)


def other_call(comm, numbers):
    if comm.rank == 1:
        return comm.gather(numbers)
    return allreduce(comm, numbers).result()


def past_it(comm, numbers):
    """Rank 1 has sent nothing in the call that rank 0 waits in."""
    exchange = Exchange.from_pairs(3, [(1, 0)] if comm.rank != 1 else [(1, 2)])
    pending = comm.post_values(exchange, comm.values([(np.ones(1),)] * 3), pack_arrays)
    return allreduce(comm, numbers), comm.collect(pending, numbers, lambda state, inbox: state)


def ended_early(comm, numbers):
    return None if comm.rank == 1 else allreduce(comm, numbers).result()


def wait_in_a_circle(comm, numbers):
    """Each waits for the next one's message of a call that never comes."""
    after = (comm.rank + 1) % 3
    exchange = Exchange.from_pairs(3, [(after, comm.rank)])
    pending = comm.post_values(exchange, comm.values([(np.ones(1),)] * 3), pack_arrays)
    return comm.collect(pending, numbers, lambda state, inbox: state)


def every_rank_the_root(comm, numbers, *, algorithm):
    return broadcast(comm, numbers, root=comm.rank, algorithm=algorithm)


def once_more_on_rank_0(comm, numbers):
    for _ in range(2 if comm.rank == 0 else 1):
        numbers = broadcast(comm, numbers, algorithm="direct")
    return numbers


def sum_on_rank_0_max_on_others(comm, numbers, *, combine):
    return combine(comm, numbers, SUM if comm.rank == 0 else MAX)


def scattered(comm, numbers, reduction, *, algorithm):
    return reduce_scatter(comm, comm.values([np.ones(3)] * 3), None, reduction, algorithm)


def sparse_sum(comm, numbers, reduction):
    streams = comm.values([([rank], [1.0], 3) for rank in range(3)])
    given = {"algorithm": "ssar-split-allgather", "switch_density": 1.0}
    return sparse_allreduce(comm, streams, reduction, **given)


def folded(comm, numbers, reduction):
    return comm.fold(numbers, sum if reduction is SUM else max, label="own")


def awaited_in_vain(comm, numbers):
    """Rank 2 does not ask for it, but would wait."""
    exchange = Exchange.from_pairs(3, [(0, 2)] if comm.rank == 2 else [])
    return comm.post_values(exchange, comm.values([(np.ones(1),)] * 3), pack_arrays)


def assert_ranks_that_disagree_are_told(communicator):
    """An error that names both calls, within seconds, and the ranks go on."""
    numbers = communicator.values([1, 2, 3])
    for text, message in (
        (
            other_call,
            r"Ranks disagree: rank 0 is in call 1 \(allreduce 0: sum\), rank 1 in call 1 .gather",
        ),
        (past_it, r"rank 0 waits in call 1 .* rank 1, which sent none"),
        (ended_early, r"rank 0 waits in call 1 .* rank 1, whose text has ended"),
        (wait_in_a_circle, r"wait for each other: rank 0 waits in call 1"),
        (
            partial(every_rank_the_root, algorithm="direct"),
            r"Ranks disagree in broadcast 0: rank 0 sent to rank 1, which awaits nothing",
        ),
        (
            partial(every_rank_the_root, algorithm="hypercube"),
            r"Ranks disagree in broadcast 0: rank 2 sent to rank 0, which awaits nothing",
        ),
        (once_more_on_rank_0, r"Ranks disagree on how many rounds .* rank 0 in 2, rank 1 in 1"),
        (awaited_in_vain, r"values 0: rank 2 awaits a message of rank 0, which sent none"),
    ):
        begin = time.monotonic()
        with pytest.raises(ValueError, match=message):
            communicator.run(text, communicator.map(abs, numbers))
        assert time.monotonic() - begin < BOUND
        assert allreduce(communicator, numbers).result() == 6


def assert_ranks_that_combine_differently_are_told(communicator):
    """At once, whichever of them is asked for the message of the other."""
    numbers = communicator.values([1, 2, 3])
    for combine, label in (
        (allreduce, "allreduce 0"),
        (folded, "own 0"),
        (hypercube_allreduce, "hypercube allreduce [01]"),
        (partial(hypercube_allreduce, halving=True), "hypercube allreduce 0"),
        (partial(scattered, algorithm="direct"), "reduce-scatter 0"),
        (partial(scattered, algorithm="hypercube"), "reduce-scatter [01]"),
        (sparse_sum, "ssar-split-allgather [01]"),
    ):
        calls = rf"\({label}: (sum|max)\)"
        with pytest.raises(ValueError, match=rf"Ranks disagree: rank .*{calls}, rank .*{calls}"):
            communicator.run(sum_on_rank_0_max_on_others, numbers, combine=combine)
        assert allreduce(communicator, numbers).result() == 6


def assert_two_runs_do_not_mix(make):
    """Two runs at once on the same workers, their calls interleaved."""
    with make(4) as one, make(3) as other:
        assert one.run_id != other.run_id
        for turn in range(3):
            sums = [allreduce(c, c.values([turn + 1] * c.n_ranks)) for c in (one, other)]
            assert [s.result() for s in sums] == [4 * (turn + 1), 3 * (turn + 1)]
            barrier(one)
            ring_of_values(other, [(turn + 1,)])
            ring_of_values(one, [(2, turn + 1)])


def assert_threads_run_at_once(make):
    """Two threads of the client, each with runs of its own that begin when they like."""
    results = []

    def runs(n_ranks):
        for turn in range(4):
            with make(n_ranks) as communicator:
                ring_of_values(communicator, [(turn, 2)])
                numbers = communicator.values([1] * n_ranks)
                results.append(allreduce(communicator, numbers).result())

    threads = [threading.Thread(target=runs, args=(n_ranks,)) for n_ranks in (4, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=4 * BOUND)
    assert sorted(results) == [3] * 4 + [4] * 4


def tasks_of_ranks(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks if "rank-" in str(key)]


def sessions(dask_worker):
    return list(RankHost.of(dask_worker).sessions)


def lease_of_all_threads(client_id, dask_scheduler):
    """Why nobody could have it, if so."""
    workers = dask_scheduler.workers
    places = [address for address, worker in workers.items() for _ in range(worker.nthreads)]
    held = take_lease("a look", client_id, ("a look", 0), places, dask_scheduler)
    end_lease("a look", dask_scheduler)
    return held


def kill_soon(client, address):
    """SIGKILL for the worker of that address a moment from now, amid what the caller begins."""
    pid = client.run(os.getpid)[address]
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()


def run_and_kill(script, client):
    """Start a script that stands here, a client of the same cluster; kill it amid its runs."""
    path = Path(__file__).with_name(script)
    command = [sys.executable, str(path), client.scheduler.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert process.stdout.readline() == "running\n"
        finally:
            watchdog.cancel()
            process.kill()


def assert_nothing_left(client, seconds=BOUND):
    """No session, no lease, no task of any run; asks until it is so, or the time is up."""
    limit = time.monotonic() + seconds
    while True:
        opened = [run for runs in client.run(sessions).values() for run in runs]
        leased = client.run_on_scheduler(lease_of_all_threads, client.id)
        tasks = client.run_on_scheduler(tasks_of_ranks)
        if not (opened or leased or tasks):
            return
        assert time.monotonic() < limit, (opened, leased, tasks)
        time.sleep(0.05)
