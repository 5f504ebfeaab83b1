"""Run an algorithm text on any transport: what `pagerank.py` and `kmeans.py` share.

python pagerank.py                                  local   threads of this process
python pagerank.py --transport graph --ranks 4      graph   tasks on worker processes
python pagerank.py --transport dask --ranks 4       dask    every worker runs the text
mpiexec -n 6 python pagerank.py --transport mpi     mpi     ranks 2 … 5 run the text
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from daskpart.collectives import Communicator, communicator_for


def options(description: str) -> argparse.Namespace:
    """The two options that both examples take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--transport", default="local", choices=("local", "graph", "dask", "mpi"))
    parser.add_argument("--ranks", type=int, default=4)
    return parser.parse_args()


def run(main: Callable[[Communicator], None], transport: str, n_ranks: int) -> None:
    """Call ``main(communicator)``; under mpiexec only in the process of the client."""
    if transport == "local":
        with communicator_for("local", n_ranks) as comm:
            main(comm)
    elif transport == "mpi":
        _run_under_mpi(main, n_ranks)
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=2, threads_per_worker=-(-n_ranks // 2), dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
            communicator_for(transport, n_ranks, client) as comm,
        ):
            main(comm)


def _run_under_mpi(main: Callable[[Communicator], None], n_ranks: int) -> None:
    import dask

    dask.config.set({"logging.distributed": "error"})  # else it tells of every worker that goes
    import dask_mpi
    from distributed import Client
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size < n_ranks + 2:  # scheduler and client besides
        words = f"{n_ranks} ranks need mpiexec -n {n_ranks + 2}: it started {world.size}"
        raise SystemExit(words if world.rank == 0 else 2)

    # exit=False and the signal at the end: so the job ends with the exit code of main()
    if dask_mpi.initialize(nthreads=1, dashboard=False, dashboard_address=":0", exit=False):
        try:
            with Client() as client:
                client.wait_for_workers(n_ranks, timeout=120)
                with communicator_for("mpi", n_ranks, client) as comm:
                    main(comm)
        finally:
            dask_mpi.send_close_signal()
