"""Where the ranks run: in this process, on a cluster of this machine, under mpiexec, or elsewhere.

none       one process, no Dask client           transport local
threads    LocalCluster in this process          transport dask
processes  LocalCluster, one process a worker    transport dask
mpi        mpiexec -n P: rank 0 scheduler, rank 1 the client (this text), others workers: transport
           mpi
HOST:PORT  the scheduler of a cluster that is there
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from daskpart._floor.words import counted
from daskpart.errors import InputError, MissingPackageError

from .mpi import ANY_PORT, MpiPlace, begin, check_launcher, monitor_less
from .stops import stops_blocked, stops_held_back
from .terminal import OneLineError, say, say_aside

KINDS = ("none", "threads", "processes", "mpi")
_TRANSPORTS = {"none": "local", "threads": "dask", "processes": "dask"}
_LOST_AFTER = "60s"
_HUSH_SECONDS = 2.0


class Cluster(click.ParamType):
    """One of `KINDS`, or the address of a scheduler."""

    name, letters = "cluster", "|".join((*KINDS, "HOST:PORT"))

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The word or the address."""
        host, _, port = value.rpartition(":")
        if value not in KINDS and not (host and port.isdigit()):
            if value.isdigit():
                words = f"{value!r} is no place: for so many, write processes --workers {value}"
                self.fail(words, param, ctx)
            self.fail(f"{value!r} is not one of {', '.join(KINDS)}, nor HOST:PORT", param, ctx)
        return value


def is_there_before(kind: str) -> bool:
    """Whether the cluster is there when the command starts, so that it decides how many ranks."""
    return kind not in _TRANSPORTS


def expected_transport(kind: str, transport: str) -> str | None:
    """What "auto" will come to, where the cluster is still to be started; None: ask the client."""
    return _TRANSPORTS.get(kind) if transport == "auto" else transport


def check_cluster(kind: str, n_workers: int | None, transport: str, place: MpiPlace) -> None:
    """Refuse a cluster that does not go with the other options, or how the command was started.

    Raises
    ------
    InputError
        For instance `mpi` outside mpiexec, under that of another MPI, or with fewer than three
        processes, or anything else inside mpiexec.
    """
    command = " ".join(["daskpart", *sys.argv[1:]])
    if kind == "mpi" and place.size < 3:
        started = "was not started by mpiexec" if place.size == 1 else f"has {place.size} processes"
        raise InputError(
            f"--cluster mpi {started}: it needs at least 3 (scheduler, client, one worker). "
            f"For 4 workers: mpiexec -n 6 {command}"
        )
    if kind == "mpi":
        check_launcher(place)
    elif place.size > 1:
        raise InputError(
            f"mpiexec started {place.size} copies of this command, and each would do all the work: "
            f"add --cluster mpi, or leave out mpiexec"
        )
    if n_workers is not None and kind not in ("threads", "processes"):
        raise InputError(
            "--workers goes with --cluster threads or processes; under mpiexec -n P there are "
            "P - 2 workers"
        )
    if transport == "local" and kind != "none":
        raise InputError(f"--transport local stays in one process; with --cluster {kind} use auto")
    if transport == "dask" and kind == "none":
        raise InputError(
            "--transport dask needs --cluster threads or processes or mpi or HOST:PORT, not none"
        )
    if transport == "mpi" and kind in _TRANSPORTS:
        raise InputError(f"--transport mpi needs --cluster mpi or HOST:PORT, not {kind}")


def run_on(kind: str, n_workers: int, place: MpiPlace, work: Callable[[Any], None]) -> None:
    """Call ``work(client)`` where it belongs; `client` is None without a cluster.

    Under mpiexec the other processes serve until it has ended.
    """
    if kind == "none":
        work(None)
        return
    _configure_dask()
    if kind == "mpi":
        _run_under_mpi(place, work)
    else:
        opened = _local_cluster if kind in KINDS else _cluster_at
        with opened(kind, n_workers) as client:
            work(client)


def begin_to_import(client: Any, module: str, folder: Path | None) -> None:
    """Have all others import what they will need while the client does something else.

    The workers `module`, which may lie in `folder`, and what it takes to load its kernels, the
    scheduler the table of leases.
    """
    if folder is not None:
        client.run(find_in, str(folder))
        client.run_on_scheduler(find_in, str(folder))  # which unpickles what it is asked to do
    client.run(_import, module, True, wait=False)
    client.run_on_scheduler(_import, "daskpart.collectives.transports.lease", wait=False)


def tell_shared_threads(client: Any, n_ranks: int) -> None:
    """Say that ranks take turns where the workers have too few threads for them."""
    n_threads = sum(client.nthreads().values()) if client is not None else n_ranks
    if n_ranks > n_threads:
        say_aside(
            f"{n_ranks} ranks share {counted(n_threads, 'thread')} of the workers, which takes "
            f"longer; under mpiexec each has one of its own from -n {n_ranks + 2} on"
        )


def find_in(folder: str) -> None:
    """Have this process look for modules there too, behind all that is installed."""
    if folder not in sys.path:
        sys.path.append(folder)


async def _import(module: str, with_kernels: bool = False) -> None:
    await asyncio.to_thread(import_module, module)
    if with_kernels:
        from daskpart._floor.kernels import get_ready

        await asyncio.to_thread(get_ready)


def _configure_dask() -> None:
    """Log errors only, monitor less, and let work fail that is pinned to a lost worker.

    Dask's default for the latter is to wait for ever.
    """
    import dask

    dask.config.set({"logging.distributed": "error"})
    monitor_less()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    setting = "distributed.scheduler.no-workers-timeout"
    if dask.config.get(setting, None) is None:
        dask.config.set({setting: _LOST_AFTER})


class _Notes(logging.Handler):
    """What is logged, as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        say_aside(record.getMessage())


@contextlib.contextmanager
def _losses_told_once() -> Iterator[None]:
    """Say which workers Dask ends because their memory is full: else they are lost, and no why.

    What the scheduler logs of those that do not answer is in the error that a fit tells.
    """
    logs = {
        logging.getLogger("distributed.nanny.memory"): logging.WARNING,
        logging.getLogger("distributed.scheduler"): logging.CRITICAL,
    }
    usual, notes = {log: log.level for log in logs}, _Notes()
    for log, level in logs.items():
        log.setLevel(level)
        log.addHandler(notes)
    try:
        yield
    finally:
        for log, level in usual.items():
            log.setLevel(level)
            log.removeHandler(notes)


@contextlib.contextmanager
def _local_cluster(kind: str, n_workers: int) -> Iterator[Any]:
    say(f"starting {counted(n_workers, 'worker')} …")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_losses_told_once())
        with stops_blocked():
            # in here, too: Python may lose a Ctrl-C that comes amid an import
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=kind == "processes",
                dashboard_address=ANY_PORT,
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.ERROR,
            )
            stack.enter_context(cluster)
        client = stack.enter_context(Client(cluster))
        try:
            yield client
        finally:
            with stops_held_back():  # a second one would leave workers that are waited for
                if kind == "processes":
                    _hush(client.run)
                stack.close()


@contextlib.contextmanager
def _cluster_at(address: str, n_workers: int) -> Iterator[Any]:
    from distributed import Client

    try:
        client = Client(address, timeout="10s")
    except OSError as error:
        raise OneLineError(f"--cluster {address}: no scheduler answers there", 1) from error
    with client:
        yield client


def _run_under_mpi(place: MpiPlace, work: Callable[[Any], None]) -> None:
    if find_spec("dask_mpi") is None:
        raise MissingPackageError("--cluster mpi needs: pip install 'daskpart[mpi]'")
    from distributed import Client

    with contextlib.ExitStack() as stack:
        with stops_held_back():  # till there is what ends the others
            begin(place)
            client = stack.enter_context(Client())
            stack.callback(_close, client)
        client.wait_for_workers(place.size - 2, timeout=60)
        work(client)


def _close(client: Any) -> None:
    """End scheduler and workers."""
    with stops_held_back():  # a second one would leave them waiting
        _hush(client.run)
        _hush(client.run_on_scheduler)
        logging.disable()
        client.shutdown()


def _hush(on_all: Callable[..., Any]) -> None:
    """Nothing is logged there from here on: what connections say while they close is no news."""
    with contextlib.suppress(Exception):  # one that has gone has nothing to say
        on_all(logging.disable, callback_timeout=_HUSH_SECONDS)
