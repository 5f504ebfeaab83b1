"""Started under mpiexec by `test_models_under_mpiexec.py`: implicit factors over MPI.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

import numpy as np

import daskpart

RANK_COUNTS = (1, 2, 3, 8)


def main() -> None:
    """Compare both solvers and every number of ranks with the local transport."""
    from distributed import Client

    clicks = daskpart.datasets.power_law_ratings(80, 60, 900, random_state=0)
    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            for solver in ("cg", "cholesky"):
                options = {"n_ranks": n_ranks, "solver": solver, "max_iter": 2, "alpha": 3.0,
                           "partitioner": "block"}  # fmt: skip
                local, found = (
                    daskpart.ImplicitFactorization(5, transport=transport, **options).fit(clicks)
                    for transport in ("local", "auto")
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert found.comm_report_.matches, found.comm_report_
                for name in ("user_factors", "item_factors"):
                    one, other = (getattr(each.state_, name) for each in (local, found))
                    assert np.array_equal(one, other), (n_ranks, solver, name)
    print("implicit: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    main()
