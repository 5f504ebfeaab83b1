"""Under mpiexec one process runs the command; the others wait for its word, and serve.

    rank 1    options, checks ── BEGIN ─► the client: data, plan, fit, pages ── exit code ─►
    others    MPI, Dask       ◄─ BEGIN ── scheduler and workers              ◄─ exit code ──  exit

So options are read, and an error is told, once; and the other processes load only what they need.
"""

from __future__ import annotations

import contextlib
import os
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from time import sleep

from daskpart._floor.mpi_variables import RANK_AND_SIZE
from daskpart.errors import InputError

from .stops import pass_over_stops

_BEGIN = -1
_PAUSE_SECONDS = 5e-3
ANY_PORT = ":0"  # without a dashboard too the scheduler serves its state, else on port 8787
# what Dask's processes look at for a dashboard that is not there: the profiler into every worker a
# hundred times a second, each process at its event loop fifty times, at its memory ten times
LESS_MONITORING = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
}


@dataclass(frozen=True)
class MpiPlace:
    """Which of how many MPI processes this is; (0, 1) where there is no `mpiexec`."""

    rank: int
    size: int

    @classmethod
    def from_environment(cls) -> MpiPlace:
        """Read what the launcher tells its children; loads no MPI."""
        for rank, size in RANK_AND_SIZE:
            if rank in os.environ and size in os.environ:
                return cls(int(os.environ[rank]), int(os.environ[size]))
        return cls(0, 1)

    @property
    def speaker(self) -> int:
        """The rank that runs the command and may print: dask-mpi's client."""
        return min(1, self.size - 1)

    @property
    def speaks(self) -> bool:
        """Whether that is this process, so that nothing is said P times."""
        return self.rank == self.speaker


@contextlib.contextmanager
def silence_unless_speaking(place: MpiPlace) -> Iterator[None]:
    """Under `mpiexec` let one process print; the others would say the same."""
    if place.speaks:
        yield
        return
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def joins(place: MpiPlace) -> bool:
    """Whether this process is one of many that have MPI; they start it now, as each waits for all.

    That wait spins, so it must not last until options are read.
    """
    if place.size == 1 or find_spec("mpi4py") is None:
        return False
    from mpi4py import MPI

    return bool(MPI.COMM_WORLD.Get_size() == place.size)


def check_launcher(place: MpiPlace) -> None:
    """Refuse an `mpiexec` of another MPI than that of this Python: each process is alone then.

    Raises
    ------
    InputError
        Names both numbers of processes, and this Python's MPI.
    """
    mpi = sys.modules.get("mpi4py.MPI")  # `joins` has imported it
    if mpi is None or mpi.COMM_WORLD.Get_size() == place.size:
        return
    version = " ".join(mpi.Get_library_version().splitlines()[0].partition(",")[0].split())
    raise InputError(
        f"mpiexec started {place.size} processes, but MPI here sees {mpi.COMM_WORLD.Get_size()}: "
        f"they are of two MPIs. Use the mpiexec of this Python's, {version}, or load the other one"
    )


def serve(place: MpiPlace) -> int:
    """Do what the process that runs the command says, until it has ended; gives its exit code."""
    pass_over_stops()  # they are for the client, which ends the run
    if find_spec("distributed") is not None:
        import distributed  # noqa: F401  # while the client reads its options
    while (word := _agreed(0, place)) == _BEGIN:
        initialize()
    return word


def begin(place: MpiPlace) -> None:
    """Have the other processes become scheduler and workers, and join them.

    Each waits for all others in it: so under `stops_held_back`.
    """
    _agreed(_BEGIN, place)
    initialize()


def dismiss(exit_code: int, place: MpiPlace) -> None:
    """Let the other processes end; the last word of a command."""
    pass_over_stops()  # it ends anyway
    _agreed(exit_code, place)


def monitor_less() -> None:
    """`LESS_MONITORING`, but for what the user has set in a file of Dask's or the environment."""
    import dask

    chosen = dask.config.collect()
    dask.config.set({
        name: value
        for name, value in LESS_MONITORING.items()
        if dask.config.get(name, None, config=chosen) is None
    })  # fmt: skip


def initialize() -> None:
    """Start this process's part of the cluster; scheduler and workers return at its end."""
    import dask_mpi

    monitor_less()
    dask_mpi.initialize(nthreads=1, exit=False, dashboard=False, dashboard_address=ANY_PORT)


def _agreed(word: int, place: MpiPlace) -> int:
    """The word of the process that speaks; a blocking broadcast would spin for seconds."""
    from mpi4py import MPI

    buffer = array("i", [word])
    request = MPI.COMM_WORLD.Ibcast(buffer, root=place.speaker)
    while not request.Test():
        sleep(_PAUSE_SECONDS)
    return buffer[0]
