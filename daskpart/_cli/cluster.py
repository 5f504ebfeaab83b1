"""Where the ranks run: in this process, on a cluster of this machine, or under mpiexec.

none       one process, no Dask client           transport local
threads    LocalCluster in this process          transport graph
processes  LocalCluster, one process a worker    transport dask; graph with more ranks than threads
mpi        mpiexec -n P: rank 0 scheduler, rank 1 the client (this text), others workers: transport
           mpi; graph with more ranks than threads
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dask

from daskpart.errors import InputError

from .terminal import MpiPlace, say

KINDS = ("none", "threads", "processes", "mpi")
_LOST_AFTER = "60s"
_ANY_PORT = ":0"  # without a dashboard too the scheduler serves its state, else on port 8787


def check_kind(kind: str, place: MpiPlace) -> None:
    """Refuse a cluster that does not go with how the command was started.

    Raises
    ------
    InputError
        `mpi` outside mpiexec or with fewer than three processes; anything else inside mpiexec.
    """
    command = " ".join(["daskpart", *sys.argv[1:]])
    if kind == "mpi" and place.size < 3:
        started = "was not started by mpiexec" if place.size == 1 else f"has {place.size} processes"
        raise InputError(
            f"--cluster mpi {started}: it needs at least 3 (scheduler, client, one worker). "
            f"For 4 workers: mpiexec -n 6 {command}"
        )
    if kind != "mpi" and place.size > 1:
        raise InputError(
            f"mpiexec started {place.size} copies of this command, and each would do all the work: "
            f"add --cluster mpi, or leave mpiexec away"
        )


def run_on(kind: str, n_workers: int, place: MpiPlace, work: Callable[[Any], None]) -> None:
    """Call ``work(client)`` where it belongs; `client` is None without a cluster.

    Under mpiexec only the client's process calls it; the others serve until it has ended.
    """
    if kind == "mpi":
        _run_under_mpi(place, work)
    elif kind == "none":
        work(None)
    else:
        with _local_cluster(kind, n_workers) as client:
            work(client)


def _configure_dask() -> None:
    """Log errors only; and let work fail that is pinned to a worker that died.

    Dask's default for the latter is to wait for ever.
    """
    dask.config.set({"logging.distributed": "error"})
    logging.getLogger("distributed").setLevel(logging.ERROR)
    setting = "distributed.scheduler.no-workers-timeout"
    if dask.config.get(setting, None) is None:
        dask.config.set({setting: _LOST_AFTER})


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, which a terminal sends to the whole group."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextlib.contextmanager
def _local_cluster(kind: str, n_workers: int) -> Iterator[Any]:
    _configure_dask()
    say(f"starting {n_workers} worker{'s' * (n_workers > 1)} …")
    from distributed import Client, LocalCluster

    with _ctrl_c_ignored():
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=kind == "processes",
            dashboard_address=_ANY_PORT,
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.ERROR,
        )
    with cluster, Client(cluster) as client:
        yield client


def _run_under_mpi(place: MpiPlace, work: Callable[[Any], None]) -> None:
    _configure_dask()
    try:
        import dask_mpi
    except ImportError as missing:
        raise ImportError("--cluster mpi needs: pip install 'daskpart[mpi]'") from missing
    from distributed import Client

    if place.rank != 1:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client alone ends the run
    if not dask_mpi.initialize(
        nthreads=1, exit=False, dashboard=False, dashboard_address=_ANY_PORT
    ):
        return  # the scheduler or a worker, and the job is over
    try:
        with Client() as client:
            client.wait_for_workers(place.size - 2, timeout=60)
            work(client)
    finally:
        dask_mpi.send_close_signal()
