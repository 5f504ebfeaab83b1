"""Started by `test_under_mpiexec.py` under mpiexec: parameter servers on a dask-mpi cluster.

MPI rank 0 is the scheduler, 1 this client, the others are workers of two threads. Prints lines that
the test reads.
"""

from __future__ import annotations

import numpy as np
import pytest
from server_programs import (
    N_ITEMS,
    assert_never_too_stale,
    fail_on,
    log_tasks,
    move_values,
    replay,
)
from spmd_steps import assert_nothing_left

from daskpart.collectives import ParameterServer


def same_bits(transport):
    for n_ranks in (1, 2, 3, 4, 5, 8):
        initial = np.random.default_rng(n_ranks).standard_normal(N_ITEMS)
        expected, values = replay(n_ranks, initial)
        with ParameterServer(
            N_ITEMS, n_ranks=n_ranks, initial=initial, transport=transport
        ) as server:
            assert server.run(move_values, range(n_ranks)) == expected
            assert server.values().tobytes() == values.tobytes()
            assert len(set(server.report.places)) == min(n_ranks, 4)
    print(f"{transport}: same bits for 1 2 3 4 5 8 ranks", flush=True)


def bounded_delay(transport):
    for delay in (1, 3):
        with ParameterServer(
            N_ITEMS, n_ranks=5, dtype=int, delay=delay, transport=transport
        ) as server:
            assert_never_too_stale(server.run(log_tasks, slow=2, seconds=0.005), delay)
            assert server.report.max_staleness <= delay
    print(f"{transport}: never staler than the delay", flush=True)


def faults(client, transport):
    with ParameterServer(N_ITEMS, n_ranks=5, dtype=int, delay=1, transport=transport) as server:
        with pytest.raises(ArithmeticError, match="went to infinity"):
            server.run(fail_on, culprit=3)
        assert (server.values() == 0).all()
        assert len(server.run(log_tasks)) == 5
    assert_nothing_left(client)
    print(f"{transport}: faults leave nothing behind", flush=True)


def main() -> None:
    """Run all of it."""
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(4, timeout=60)
        for transport in ("dask", "mpi"):
            same_bits(transport)
            bounded_delay(transport)
            faults(client, transport)
        print("parameter server: all done", flush=True)


if __name__ == "__main__":
    main()
