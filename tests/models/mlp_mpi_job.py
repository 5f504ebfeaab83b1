"""Started under mpiexec by `test_models_under_mpiexec.py`: perceptrons over MPI.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

import numpy as np
from test_mlp import classifier, samples

RANK_COUNTS = (3, 8)


def main() -> None:
    """Compare sums and numbers of ranks with all values added up on the local transport."""
    from distributed import Client

    X, y = samples()
    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            for options in ({}, {"top_k": 2, "top_k_bucket": 20}, {"aggregation": "dense"}):
                local, found = (
                    classifier(n_ranks=n_ranks, **how).fit(X, y)
                    for how in (
                        options | {"transport": "local", "aggregation": "dense"},
                        options | {"transport": "auto"},
                    )
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert np.array_equal(local.state_.residual, found.state_.residual)
                for one, other in zip(local.coefs_, found.coefs_, strict=True):
                    assert np.array_equal(one, other), (n_ranks, options)
    print("perceptron: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    main()
