"""Started under mpiexec by `test_models_under_mpiexec.py`: training over MPI.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

import numpy as np
from test_graph_convolution_transports import CASES, small_graph

import daskpart

RANK_COUNTS = (1, 2, 3, 4, 5, 8)
ALL_CASES = (3, 8)  # of the others the first


def main() -> None:
    """Compare layers and numbers of ranks with the local transport."""
    from distributed import Client

    X, y, graph = small_graph()
    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            for options in CASES if n_ranks in ALL_CASES else CASES[:1]:
                local, found = (
                    daskpart.GCNClassifier(n_ranks=n_ranks, transport=transport, **options).fit(
                        X, y, graph=graph
                    )
                    for transport in ("local", "auto")
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert found.comm_report_.matches, found.comm_report_
                for name, weight in local.coefs_.items():
                    assert np.array_equal(weight, found.coefs_[name]), (n_ranks, options, name)
    print("graph convolution: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    main()
