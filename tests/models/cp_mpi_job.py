"""Started under mpiexec by `test_models_under_mpiexec.py`: decompositions over MPI.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

import numpy as np
import sparse

import daskpart

METHODS = ("p2p", "emb-naive", "emb")
RANK_COUNTS = (1, 2, 3, 4, 8)
KNOWN = {"missing": "unknown", "validation_fraction": 0.2}
ALL_METHODS = (3, 8)  # of the others the last, where absent is unknown


def main() -> None:
    """Compare methods and numbers of ranks with the local transport."""
    from distributed import Client

    tensor = sparse.random((30, 20, 10), nnz=500, random_state=0)
    spectra = np.random.default_rng(0).random((20, 3))
    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            cases = [{"method": method} for method in METHODS]
            cases += [{"method": "p2p", **KNOWN, "loss": "poisson"}]
            cases += [{"method": method, "fixed_modes": {1: spectra}} for method in METHODS]
            cases += [{"method": "emb", **KNOWN}]
            for case in cases if n_ranks in ALL_METHODS else cases[-1:]:
                options = {"n_ranks": n_ranks, "max_iter": 2, "tol": 0, "partitioner": "random"}
                options |= case
                local, found = (
                    daskpart.CPDecomposition(3, transport=transport, **options).fit(tensor)
                    for transport in ("local", "auto")
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert found.comm_report_.matches, found.comm_report_
                for name in ("validation_rmse", "validation_loss"):
                    errors = (each.history_.get(name) for each in (local, found))
                    np.testing.assert_equal(*map(np.array, errors))
                for one, other in zip(local.state_.factors, found.state_.factors, strict=True):
                    assert np.array_equal(one, other), (n_ranks, case)
    print("cp: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    main()
