"""Started by `test_spmd_mpi.py` under mpiexec: SPMD over MPI on a dask-mpi cluster.

MPI rank 0 is the scheduler, 1 this client, the others are workers of two threads. Prints lines that
the test reads.
"""

from __future__ import annotations

from functools import partial

import dask_mpi
import numpy as np
from exchange_text import (
    N_ITEMS,
    RANK_COUNTS,
    assert_same_bits,
    expected_counts,
    random_connectivity,
    run_exchange,
)
from spmd_steps import (
    assert_cancelled_run_ends,
    assert_deadline_names_both,
    assert_nothing_left,
    assert_survives_a_failing_rank,
    assert_threads_run_at_once,
    assert_two_runs_do_not_mix,
    ring_of_values,
)

import daskpart
from daskpart.collectives import LocalCommunicator, MpiCommunicator
from daskpart.collectives.transports.mpi import open_groups


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
            for shapes in ([(3, 2), (0,)], [(300, 200), (0, 4), (7,)]):
                ring_of_values(mpi, shapes)
    print("values of any size travel", flush=True)


def faults(client):
    with MpiCommunicator(5, client) as mpi:
        assert_survives_a_failing_rank(mpi)
    make = partial(MpiCommunicator, client=client)
    assert_two_runs_do_not_mix(make)
    assert_threads_run_at_once(make)
    assert_deadline_names_both(make)
    assert_cancelled_run_ends(make, client)
    assert all(groups == [] for groups in client.run(open_groups).values())
    with make(4) as mpi:
        ring_of_values(mpi, [(3,)])
    assert_nothing_left(client)
    print("faults leave nothing behind", flush=True)


def factorization():
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    models = [
        daskpart.MatrixFactorization(
            4, n_ranks=5, transport=transport, eta=2, max_epochs=2, partitioner="random"
        ).fit(ratings)
        for transport in ("local", "auto", "dask")
    ]
    assert [model.comm_report_.transport for model in models] == ["local", "mpi", "dask"]
    for other in models[1:]:
        assert other.comm_report_.matches
        for name in ("user_factors", "item_factors", "user_bias", "item_gradient"):
            one, two = (getattr(model.factors_, name) for model in (models[0], other))
            assert one.tobytes() == two.tobytes(), name
    print("the same factors over MPI and Dask comms", flush=True)


def main() -> None:
    """Run all of it."""
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(4, timeout=60)
        same_bits(client)
        large_and_odd_values(client)
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
