"""Started by `test_spmd_mpi.py` under mpiexec: SPMD over MPI on a dask-mpi cluster.

MPI rank 0 is the scheduler, 1 this client, the others are workers of two threads. Prints lines that
the test reads.
"""

from __future__ import annotations

import threading
import time
from functools import partial

import dask_mpi
import numpy as np
import pytest
from distributed import Client
from exchange_text import (
    N_ITEMS,
    RANK_COUNTS,
    assert_same_bits,
    expected_counts,
    first_rows,
    items_of_ranks,
    random_connectivity,
    run_exchange,
)
from mpi_detours import have_machine, n_detours, stop_at
from spmd_steps import (
    BOUND,
    assert_cancelled_run_ends,
    assert_deadline_names_both,
    assert_nothing_left,
    assert_survives_a_failing_rank,
    assert_threads_run_at_once,
    assert_two_runs_do_not_mix,
    ring_of_values,
)
from test_mixed_calls import run_mixed

import daskpart
from daskpart.collectives import (
    LocalCommunicator,
    MpiCommunicator,
    allreduce,
    expand,
    expand_plan,
    hypercube_allreduce,
)
from daskpart.collectives.transports.mpi import open_groups
from daskpart.collectives.transports.spmd_cluster import WorkersBusyError
from daskpart.collectives.transports.spmd_host import RankHost
from daskpart.errors import InputError, WorkerLostError


def same_bits(client):
    for n_ranks in RANK_COUNTS:
        connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
        with LocalCommunicator(n_ranks, sequential=True) as local:
            expected = run_exchange(local, connectivity)
        with MpiCommunicator(n_ranks, client) as mpi:
            found = run_exchange(mpi, connectivity)
        assert_same_bits(expected, found)
        for name, count in expected_counts(connectivity).items():
            assert np.array_equal(found["counts"][name], count), name
    print("same bits for", *RANK_COUNTS, "ranks", flush=True)


def large_and_odd_values(client):
    for n_ranks in (2, 5):
        with MpiCommunicator(n_ranks, client) as mpi:
            for shapes in ([(3, 2), (0,)], [(50, 50), (60, 50)], [(300, 200), (0, 4), (7,)]):
                ring_of_values(mpi, shapes)
    print("values of any size travel", flush=True)


def short_ways(dask_worker):
    """Of each rank on this worker, what it has made ready for calls of its last batch."""
    return {
        rank: sorted(
            type(way).__name__ for *_, way in state._short_ways.values() if way is not None
        )
        for session in RankHost.of(dask_worker).sessions.values()
        for rank, state in session.ranks.items()
    }


def small_calls_are_made_ready_once(client):
    with MpiCommunicator(4, client) as mpi:
        connectivity = random_connectivity(N_ITEMS, 4, seed=4)
        items = mpi.values(items_of_ranks(connectivity))
        plan = mpi.prepare(expand_plan(connectivity), items)
        rows = mpi.map(first_rows, items, mpi.values([0, 1, 2, 3]))
        sums = mpi.values([np.ones(3)] * 4)
        for _ in range(3):
            rows = expand(mpi, plan, rows)
            sums = hypercube_allreduce(mpi, sums)
        mpi.settle(rows, sums)
        found = {}
        for of_worker in client.run(short_ways).values():
            found |= of_worker
        assert sorted(found) == [0, 1, 2, 3]
        assert all(ways == ["ShortExchange", "ShortSwap"] for ways in found.values()), found
    print("small calls are made ready once", flush=True)


def every_detour(client):
    """Where a program stops, the ordinary way takes over and gives the same."""
    connectivity = random_connectivity(N_ITEMS, 4, seed=7)
    with LocalCommunicator(4, sequential=True) as local:
        expected = run_mixed(local, connectivity, 7)
    for names in (["OPEN"], ["WAIT"], ["CHECK"], ["OPEN", "WAIT", "CHECK"]):
        client.run(stop_at, names)
        with MpiCommunicator(4, client) as mpi:
            assert run_mixed(mpi, connectivity, 7) == expected, names
        assert all(count > 10 for count in client.run(n_detours).values()), names
    client.run(stop_at, [])
    client.run(have_machine, False)
    with MpiCommunicator(4, client) as mpi:
        assert run_mixed(mpi, connectivity, 7) == expected
        made = [
            ways for of_worker in client.run(short_ways).values() for ways in of_worker.values()
        ]
        assert len(made) == 4 and not any(made)
    client.run(have_machine, True)
    print("the same with every detour", flush=True)


def faults(client):
    with MpiCommunicator(5, client) as mpi:
        assert_survives_a_failing_rank(mpi)
    make = partial(MpiCommunicator, client=client)
    assert_two_runs_do_not_mix(make)
    assert_threads_run_at_once(make)
    assert_deadline_names_both(make)
    assert_cancelled_run_ends(make, client)
    more_ranks_than_threads(client)
    a_client_that_goes_away(client)
    assert all(groups == [] for groups in client.run(open_groups).values())
    with make(4) as mpi:
        ring_of_values(mpi, [(3,)])
    assert_nothing_left(client)
    print("faults leave nothing behind", flush=True)


def more_ranks_than_threads(client):
    with pytest.raises(InputError, match=r"9 ranks need as many threads.*has 8"):
        MpiCommunicator(9, client)
    with MpiCommunicator(6, client):
        begin = time.monotonic()
        with pytest.raises(WorkersBusyError, match="threads free"):
            MpiCommunicator(4, client, start_seconds=0.3)
        assert time.monotonic() - begin < BOUND


def a_client_that_goes_away(client):
    """Its ranks end by themselves, and others find the workers free."""
    with Client(client.scheduler.address, set_as_default=False) as other:
        lost = MpiCommunicator(4, other)
        assert allreduce(lost, lost.values([1] * 4)).result() == 4
    assert_nothing_left(client)
    with pytest.raises(WorkerLostError):
        lost.gather(lost.values([1] * 4))
    lost.close()


def two_fits_at_once(ratings, expected):
    fitted = [two_epochs("mpi", 3), two_epochs("mpi", 3)]
    threads = [threading.Thread(target=model.fit, args=(ratings,)) for model in fitted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    for model in fitted:
        assert_same_factors(expected, model)


def two_epochs(transport, n_ranks):
    return daskpart.MatrixFactorization(
        4, n_ranks=n_ranks, transport=transport, eta=2, max_epochs=2, partitioner="random"
    )


def assert_same_factors(one, other):
    for name in ("user_factors", "item_factors", "user_bias", "item_gradient"):
        assert getattr(one.factors_, name).tobytes() == getattr(other.factors_, name).tobytes()


def factorization():
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    models = [two_epochs(kind, 5).fit(ratings) for kind in ("local", "auto", "dask")]
    assert [model.comm_report_.transport for model in models] == ["local", "mpi", "dask"]
    for other in models[1:]:
        assert other.comm_report_.matches
        assert_same_factors(models[0], other)
    two_fits_at_once(ratings, two_epochs("local", 3).fit(ratings))
    print("the same factors over MPI and Dask comms", flush=True)


def main() -> None:
    """Run all of it."""
    with Client() as client:
        client.wait_for_workers(4, timeout=60)
        same_bits(client)
        large_and_odd_values(client)
        small_calls_are_made_ready_once(client)
        every_detour(client)
        faults(client)
        factorization()
        print("all done", flush=True)


if __name__ == "__main__" and dask_mpi.initialize(
    nthreads=2, nanny=False, exit=False, dashboard=False
):
    try:
        main()
    finally:
        dask_mpi.send_close_signal()
