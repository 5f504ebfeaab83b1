"""Started by `test_under_mpiexec.py` under mpiexec: SPMD over MPI on a dask-mpi cluster.

MPI rank 0 is the scheduler, 1 this client, the others are workers of two threads. Prints lines that
the test reads.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import sparse
from distributed import Client
from exchange_text import (
    N_ITEMS,
    RANK_COUNTS,
    assert_same_bits,
    expected_counts,
    random_connectivity,
    run_exchange,
)
from spmd_steps import (
    BOUND,
    assert_a_rank_that_ends_is_told,
    assert_cancelled_run_ends,
    assert_nothing_left,
    assert_ranks_that_combine_differently_are_told,
    assert_ranks_that_disagree_are_told,
    assert_survives_a_failing_rank,
    assert_threads_run_at_once,
    assert_timeout_names_both,
    assert_two_runs_do_not_mix,
    pack_arrays,
    ring,
    ring_of_values,
)

import daskpart
from daskpart.collectives import (
    LocalCommunicator,
    MpiCommunicator,
    allreduce,
    communicator_for,
)
from daskpart.collectives.transports import mpi as on_mpi
from daskpart.errors import DivergenceError, InputError, WorkerLostError, WorkersBusyError

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")


def same_bits(client):
    for n_ranks in RANK_COUNTS:
        connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
        with LocalCommunicator(n_ranks, n_threads=1) as local:
            expected = run_exchange(local, connectivity)
        with MpiCommunicator(n_ranks, client) as mpi:
            found = run_exchange(mpi, connectivity)
        assert_same_bits(expected, found)
        for name, count in expected_counts(connectivity).items():
            assert np.array_equal(found["counts"][name], count), name
    print("spmd: same bits for", *RANK_COUNTS, "ranks", flush=True)


def large_and_odd_values(client):
    for n_ranks in (2, 5):
        with MpiCommunicator(n_ranks, client) as mpi:
            for shapes in ([(3, 2), (0,)], [(50, 50), (60, 50)], [(300, 200), (0, 4), (7,)]):
                ring_of_values(mpi, shapes)
    print("values of any size travel", flush=True)


def ranks_that_disagree(client):
    with MpiCommunicator(3, client) as mpi:
        assert_ranks_that_disagree_are_told(mpi)
        assert_ranks_that_combine_differently_are_told(mpi)
    print("ranks that disagree are told", flush=True)


def faults(client):
    with MpiCommunicator(5, client) as mpi:
        assert_survives_a_failing_rank(mpi)
    make = partial(MpiCommunicator, client=client)
    assert_two_runs_do_not_mix(make)
    assert_threads_run_at_once(make)
    assert_timeout_names_both(make)
    assert_cancelled_run_ends(make, client)
    assert_a_rank_that_ends_is_told(make, client)
    ctrl_c_amid_a_sweep(client)
    messages_that_nobody_took(make)
    more_ranks_than_threads(client)
    a_client_that_goes_away(client)
    assert not any(client.run(n_groups).values())
    with make(4) as mpi:
        ring_of_values(mpi, [(3,)])
    assert_nothing_left(client)
    print("spmd: faults leave nothing behind", flush=True)


def fail(comm, numbers):
    raise DivergenceError("went to infinity")


def sweep_for_long(comm):
    for _ in range(200):
        comm.endpoint.take_in()
        time.sleep(5e-3)


def many_sums(comm, numbers, *, n):
    for _ in range(n):
        total = allreduce(comm, numbers)
    return total


def ctrl_c_amid_a_sweep(client):
    """The next run begins when it is over: no rank's message is taken away from it."""
    with (
        MpiCommunicator(4, client, timeout=BOUND) as mpi,
        pytest.MonkeyPatch.context() as patch,
    ):
        numbers = mpi.settle(mpi.values([1] * 4))
        patch.setattr(on_mpi, "take_in_all", sweep_for_long)
        timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            mpi.run(fail, numbers)
        assert mpi.run(many_sums, numbers, n=50).result() == 4
        timer.join()


def post_only(comm, values):
    comm.post_values(ring(comm.n_ranks), values, pack_arrays)


def find_no_message(comm):
    assert not comm.endpoint._group.comm.Iprobe()  # of any rank


def messages_that_nobody_took(make):
    """They are of the same run and call as those of the next communicator, and not among them."""
    for shapes in ([(2, 3)], [(300, 200)]):
        with make(3) as mpi:
            mpi.run(post_only, mpi.values([tuple(np.full(shape, 9.0) for shape in shapes)] * 3))
        with make(3) as mpi:
            mpi.run(find_no_message)
            ring_of_values(mpi, shapes)


def n_groups():
    gc.collect()
    return sum(type(each) is on_mpi.WorkerGroup for each in gc.get_objects())


def more_ranks_than_threads(client):
    with pytest.raises(InputError, match=r"9 ranks need as many threads.*has 8"):
        MpiCommunicator(9, client)
    with communicator_for("auto", 9, client) as crowded:
        assert isinstance(crowded, MpiCommunicator)
        assert allreduce(crowded, crowded.values([1] * 9)).result() == 9
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


def two_epochs(transport, n_ranks, **options):
    return daskpart.MatrixFactorization(
        4, n_ranks=n_ranks, transport=transport, eta=2, max_iter=2, partitioner="random", **options
    )


def assert_same_factors(one, other):
    for name in ("user_factors", "item_factors", "user_bias", "item_gradient"):
        assert getattr(one.state_, name).tobytes() == getattr(other.state_, name).tobytes()


def factorization():
    ratings = daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0)
    stored = ratings.data
    answers = sparse.COO(stored.coords, stored.data > stored.data.mean(), shape=stored.shape)
    watched = {"validation_fraction": 0.2, "patience": 1}
    for X, error, options in (
        (ratings, "validation_rmse", {}),
        (ratings, "validation_rmse", watched),
        (answers, "validation_loss", watched | {"loss": "logistic"}),
    ):
        models = [two_epochs(each, 5, **options).fit(X) for each in ("local", "auto", "dask")]
        assert [model.comm_report_.transport for model in models] == ["local", "mpi", "dask"]
        for other in models[1:]:
            assert other.comm_report_.matches
            assert_same_factors(models[0], other)
            errors = (model.history_[error] for model in (models[0], other))
            np.testing.assert_array_equal(*errors)
    two_fits_at_once(ratings, two_epochs("local", 3).fit(ratings))
    print("the same factors over MPI and Dask comms", flush=True)


def example(client):
    """The text of PageRank; that of k-means runs under mpiexec as a script, in `test_examples`."""
    client.run(lambda folder: sys.path.insert(0, folder), EXAMPLES)
    sys.path.insert(0, EXAMPLES)
    import pagerank

    lines = []
    for transport in ("local", "mpi"):
        with communicator_for(transport, 4, client) as communicator, StringIO() as out:
            with redirect_stdout(out):
                pagerank.main(communicator)
            lines.append(out.getvalue().split("Counters:")[0].splitlines())
    assert lines[0] == lines[1] and len(lines[0]) > 5
    print("the same lines of an example", flush=True)


def main() -> None:
    """Run all of it."""
    with Client() as client:
        client.wait_for_workers(4, timeout=60)
        same_bits(client)
        large_and_odd_values(client)
        ranks_that_disagree(client)
        faults(client)
        factorization()
        example(client)
        print("spmd: all done", flush=True)


if __name__ == "__main__":
    main()
