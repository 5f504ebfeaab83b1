"""Run a measurement on worker processes: those of a LocalCluster, or those of an MPI job.

    on_dask_workers   measure(client, …)        in this process, workers beside it
    in_mpi_job        measure(client, …)        under mpiexec, by dask-mpi
    in_older_job      the same, of an older checkout of the whole repository
    on_mpi_ranks      measure(COMM_WORLD, …)    under mpiexec, without Dask: what a peer does

The last three start ``python -m benchmarks.studies.clusters MODULE:FUNCTION ARGUMENTS``, so
arguments and result are plain values (JSON).

Processes of one thread are bound to a core each, in turn, ours and the peer's alike, as is usual in
an MPI job: some machines (virtual ones above all) put two busy processes on one core and leave the
other idle, and then two ranks seem to be slower than one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from daskpart._cli.mpi import LESS_MONITORING

_MARK = "measured: "
_TIMEOUT = 1200  # seconds
# of an MPI job, as in those of the command line
_DASK = {
    "DASK_" + name.upper().replace(".", "__").replace("-", "_"): str(value)
    for name, value in {"logging.distributed": "error", **LESS_MONITORING}.items()
}
_CAN_BIND = sys.platform == "linux"
_ROOT = Path(__file__).parents[2]


def on_dask_workers(
    measure: Callable[..., Any], n_workers: int, *arguments: Any, threads: int = 1
) -> Any:
    """`measure` with the client of as many worker processes."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=threads, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        if threads == 1 and _CAN_BIND:
            cores = sorted(os.sched_getaffinity(0))
            for place, worker in enumerate(sorted(client.nthreads())):
                client.run(_bind, cores[place % len(cores)], workers=[worker])
        return measure(client, *arguments)


def _bind(core: int) -> None:
    """Keep this process on one core: the threads that it has, and so those that they start."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


def in_mpi_job(
    measure: Callable[..., Any], n_workers: int, *arguments: Any, threads: int = 1
) -> Any:
    """`measure` with the client of a dask-mpi job of as many workers."""
    how, name = f"job:{threads}", _name_of(measure)
    return _under_mpiexec(how, n_workers + 2, name, arguments, bound=threads == 1)


def in_older_job(checkout: Path, name: str, n_workers: int, *arguments: Any) -> Any:
    """``MODULE:FUNCTION`` of an older checkout with the client of a dask-mpi job in it."""
    return _under_mpiexec("job:1", n_workers + 2, name, arguments, bound=True, checkout=checkout)


def on_mpi_ranks(measure: Callable[..., Any], n_ranks: int, *arguments: Any) -> Any:
    """`measure` with COMM_WORLD on every one of as many MPI ranks; the answer of rank 0."""
    return _under_mpiexec("ranks", n_ranks, _name_of(measure), arguments, bound=True)


def has_mpiexec() -> bool:
    """Whether this environment has mpiexec, mpi4py and dask-mpi."""
    try:
        import dask_mpi  # noqa: F401
        import mpi4py  # noqa: F401
    except ImportError:
        return False
    return mpiexec() is not None


def mpiexec() -> str | None:
    """The `mpiexec` beside this Python, else the first on the path."""
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return shutil.which("mpiexec", path=folders)


def _core() -> str:
    """What a process is bound to; Open MPI wants to be told that several may share a core."""
    told = subprocess.run([str(mpiexec()), "--version"], capture_output=True, text=True).stdout
    return "core:overload-allowed" if "Open MPI" in told else "core"


def _under_mpiexec(
    how: str,
    n_processes: int,
    name: str,
    arguments: tuple[Any, ...],
    *,
    bound: bool,
    checkout: Path = _ROOT,
) -> Any:
    command = [
        str(mpiexec()),
        *(("--bind-to", _core()) if bound and _CAN_BIND else ()),
        "-n",
        str(n_processes),
        sys.executable,
        "-m",
        "benchmarks.studies.clusters",
    ]
    done = subprocess.run(
        [*command, how, name, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        env={**os.environ, **_DASK},
        cwd=checkout,  # where `python -m` looks for modules first
        check=False,
    )
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or not answers:
        raise RuntimeError(f"{name} under mpiexec failed:\n{done.stderr[-4000:]}")
    return json.loads(answers[0].removeprefix(_MARK))


def _name_of(measure: Callable[..., Any]) -> str:
    """``MODULE:FUNCTION``, also where the module is the script that was started."""
    module = sys.modules[measure.__module__]
    return f"{module.__spec__.name if module.__spec__ else module.__name__}:{measure.__name__}"


def _function(name: str) -> Callable[..., Any]:
    module, function = name.split(":")
    return getattr(import_module(module), function)


def _as_job(name: str, arguments: list[Any], threads: int) -> None:
    import dask_mpi
    from distributed import Client
    from mpi4py import MPI

    if dask_mpi.initialize(nthreads=threads, nanny=False, exit=False, dashboard=False):
        try:
            with Client() as client:
                client.wait_for_workers(MPI.COMM_WORLD.size - 2, timeout=120)
                print(_MARK + json.dumps(_function(name)(client, *arguments)), flush=True)
        finally:
            dask_mpi.send_close_signal()


def _as_ranks(name: str, arguments: list[Any]) -> None:
    from mpi4py import MPI

    answer = _function(name)(MPI.COMM_WORLD, *arguments)
    if MPI.COMM_WORLD.rank == 0:
        print(_MARK + json.dumps(answer), flush=True)


if __name__ == "__main__":
    how, threads_a_worker = (*sys.argv[1].split(":"), "1")[:2]
    if how == "job":
        _as_job(sys.argv[2], json.loads(sys.argv[3]), int(threads_a_worker))
    else:
        _as_ranks(sys.argv[2], json.loads(sys.argv[3]))
