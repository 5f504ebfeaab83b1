"""Steps and checks that every SPMD transport must pass; shared by the tests and the MPI job."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from daskpart.collectives import allreduce, barrier
from daskpart.collectives.exchange import Exchange
from daskpart.collectives.transports.lease import leased_runs
from daskpart.collectives.transports.spmd_host import open_runs
from daskpart.errors import DivergenceError, WorkerLostError

BOUND = 20.0  # seconds; no fault may take longer to be told


def ring(n_ranks):
    return Exchange.from_pairs(n_ranks, [(r, (r + 1) % n_ranks) for r in range(n_ranks)])


def arrays_of(rank, shapes):
    return tuple(
        np.random.default_rng([rank, index]).standard_normal(shape)
        for index, shape in enumerate(shapes)
    )


def pack_arrays(value, source, destination):
    return value


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
    state = communicator.values([None] * n_ranks)
    found = communicator.gather(communicator.collect_values(pending, state, receive_arrays))
    for rank, arrays in enumerate(found):
        for one, other in zip(arrays, given[rank - 1], strict=True):
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes()


def diverge(value, rank, *, culprit):
    if rank == culprit:
        raise DivergenceError("went to infinity")
    return value


def increment(value):
    value += 1
    return value


def assert_survives_a_failing_rank(communicator):
    """The others stop waiting for it at once, its error comes whole, and the run goes on."""
    n_ranks, culprit = communicator.n_ranks, communicator.n_ranks - 1
    kept = communicator.settle(communicator.values([np.full(2, float(r)) for r in range(n_ranks)]))
    ranks = communicator.values(list(range(n_ranks)))
    begin = time.monotonic()
    for _ in range(2):
        failed = communicator.map(diverge, kept, ranks, culprit=culprit)
        sums = allreduce(communicator, failed)  # the others wait for the culprit here
        with pytest.raises(DivergenceError, match="went to infinity") as caught:
            sums.result()
        assert any(f"on rank {culprit}" in note for note in caught.value.__notes__)
        with pytest.raises(ValueError, match="lost when a step of its batch failed"):
            communicator.gather(failed)
    assert time.monotonic() - begin < BOUND
    moved = communicator.update(increment, kept)
    assert [v[0] for v in communicator.gather(moved)] == [r + 1 for r in range(n_ranks)]
    ring_of_values(communicator, [(3, 2)])


def slow_on_rank_1(value, *, seconds):
    time.sleep(seconds if value == 1 else 0.0)  # stands for computing
    return value


def assert_deadline_names_both(make):
    """A wait ends at the deadline, on the rank that waits and at the client; the run goes on."""
    with make(2, deadline=0.2) as communicator:  # of three, rank 2 might lose patience first
        late = communicator.map(slow_on_rank_1, communicator.values([0, 1]), seconds=1.0)
        with pytest.raises(TimeoutError, match=r"Rank 0 waited 0.2 s for .*rank 1"):
            allreduce(communicator, late).result()
        assert allreduce(communicator, communicator.values([1, 1])).result() == 2


def assert_cancelled_run_ends(make, client):
    """Rank 1 keeps the others waiting, again and again, when the ranks are cancelled."""
    begin = time.monotonic()
    with make(4) as communicator:
        numbers = communicator.values([0, 1, 2, 3])
        for _ in range(10):
            slowly = communicator.map(slow_on_rank_1, numbers, seconds=0.2)
            total = allreduce(communicator, slowly)
        tasks = communicator._tasks
        timer = threading.Timer(0.3, client.cancel, (tasks,), {"force": True})
        timer.start()
        with pytest.raises(WorkerLostError, match="was cancelled, or its client went away"):
            total.result()
        timer.join()
    assert time.monotonic() - begin < BOUND
    assert_nothing_left(client)


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


def assert_nothing_left(client, seconds=BOUND):
    """No session, no lease, no task of any run; asks until it is so, or the time is up."""
    limit = time.monotonic() + seconds
    while True:
        sessions = [run for runs in client.run(open_runs).values() for run in runs]
        leases = client.run_on_scheduler(leased_runs)
        tasks = client.run_on_scheduler(tasks_of_ranks)
        if not (sessions or leases or tasks):
            return
        assert time.monotonic() < limit, (sessions, leases, tasks)
        time.sleep(0.05)
