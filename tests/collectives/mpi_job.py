"""Started by `test_under_mpiexec.py` under mpiexec: the exchange text on a dask-mpi cluster.

MPI rank 0 is the scheduler, 1 this client, the others are workers. Prints one line that the test
reads.
"""

from __future__ import annotations

import numpy as np
from exchange_text import (
    N_ITEMS,
    RANK_COUNTS,
    assert_same_bits,
    expected_counts,
    random_connectivity,
    run_exchange,
)

from daskpart._floor.rank_tasks import known_workers
from daskpart.collectives import GraphCommunicator, LocalCommunicator


def main() -> None:
    """Compare every number of ranks with the local transport."""
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(4, timeout=60)
        names = {address: worker["name"] for address, worker in known_workers(client).items()}
        for n_ranks in RANK_COUNTS:
            connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
            with LocalCommunicator(n_ranks, n_threads=1) as local:
                expected = run_exchange(local, connectivity)
            with GraphCommunicator(n_ranks, client) as graph:
                found = run_exchange(graph, connectivity)
                order = [int(names[address]) for address in graph.placement]
            assert order == [2 + rank % 4 for rank in range(n_ranks)], order
            assert_same_bits(expected, found)
            for name, count in expected_counts(connectivity).items():
                assert np.array_equal(found["counts"][name], count), name
    print("graph: same bits for", *RANK_COUNTS, "ranks on 4 MPI workers", flush=True)


if __name__ == "__main__":
    main()
