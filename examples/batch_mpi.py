"""Factorize ratings on an MPI allocation.

    mpiexec -n 6 python batch_mpi.py --eta 4 --out batch-output

    MPI rank 0        the Dask scheduler
    MPI rank 1        the client: the text below
    MPI ranks 2 - 5   four workers; each holds one part of the ratings

Without a file it takes the data that every machine has. Needs: pip install 'daskpart[mpi]'
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import dask_mpi
from distributed import Client
from mpi4py import MPI

import daskpart

logging.getLogger("distributed").setLevel(logging.ERROR)  # else it tells of each worker that comes
N_WORKERS = MPI.COMM_WORLD.size - 2


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Factorize ratings on an MPI allocation.")
    parser.add_argument("ratings", nargs="?", help="a file; without it, the built-in data")
    parser.add_argument("--eta", type=int, default=N_WORKERS, help="exchanges an epoch")
    parser.add_argument("--components", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("batch-output"))
    return parser.parse_args()


def main() -> None:
    chosen = options()
    if chosen.ratings is None:
        ratings = daskpart.datasets.load_python_source()["counts"]
    else:
        ratings = daskpart.read(chosen.ratings)

    model = daskpart.MatrixFactorization(
        n_components=chosen.components,
        n_ranks=N_WORKERS,
        eta=chosen.eta,
        partitioner="power",  # said, so that it is the cut of a run in one process, too
        max_iter=chosen.epochs,
        validation_fraction=0.1,
        random_state=0,
    )
    plan = model.plan(ratings)
    print(plan.report(), flush=True)
    model.fit(ratings, plan=plan)

    print(model.history_.to_string(index=False))
    print(model.comm_report_)
    chosen.out.mkdir(parents=True, exist_ok=True)
    model.history_.to_csv(chosen.out / "history.csv", index=False)
    model.save(chosen.out / "model")
    print(f"written to {chosen.out}")


# exit=False and the signal at the end: so the job ends with the exit code of main()
if dask_mpi.initialize(nthreads=1, dashboard=False, dashboard_address=":0", exit=False):
    try:
        with Client() as client:
            client.wait_for_workers(N_WORKERS, timeout=120)
            main()
    finally:
        dask_mpi.send_close_signal()
