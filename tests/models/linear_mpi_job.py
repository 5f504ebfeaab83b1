"""Started under mpiexec by `test_models_under_mpiexec.py`: linear models of a file over MPI.

MPI rank 0 is the scheduler, 1 this client, the others are workers of four threads.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from test_linear_faults import FITS, bits_of, make, write_examples

from daskpart.readers import survey

RANK_COUNTS = (1, 3, 4)


def main(path: Path) -> None:
    """Compare every solver and number of ranks, rows on disk, with the local transport.

    There all values of gradients are added up, over MPI entries, by what the ranks choose.
    """
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            for kind in FITS:
                local, found = (
                    make(
                        kind, n_ranks=n_ranks, max_iter=3, transport=transport, aggregation=sums
                    ).fit(survey(path, on_disk=on_disk))
                    for transport, sums, on_disk in (
                        ("local", "dense", False),
                        ("auto", "auto", True),
                    )
                )
                assert found.comm_report_.transport == "mpi", found.comm_report_
                assert bits_of(local) == bits_of(found), (n_ranks, kind)
    print("linear: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(write_examples(Path(folder) / "x.libsvm"))
