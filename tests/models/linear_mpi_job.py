"""Started under mpiexec by `test_linear_faults.py`: fits of a file over MPI, against one process.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

import sys

import dask_mpi
from test_linear_faults import FITS, bits_of, make

from daskpart.readers import survey

RANK_COUNTS = (1, 3, 4)


def main(path: str) -> None:
    """Compare every solver and number of ranks with the local transport."""
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            for kind in FITS:
                local, found = (
                    make(kind, n_ranks=n_ranks, max_iter=3, transport=transport).fit(survey(path))
                    for transport in ("local", "auto")
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert bits_of(local) == bits_of(found), (n_ranks, kind)
    print("same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__" and dask_mpi.initialize(
    nthreads=4, nanny=False, exit=False, dashboard=False
):
    try:
        main(sys.argv[1])
    finally:
        dask_mpi.send_close_signal()
