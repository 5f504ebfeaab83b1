"""Runs scripts at the client of an MPI job: ``mpiexec -n 6 python mpi_launcher.py a.py b.py``.

    MPI rank 0   scheduler    1   this client: a.py, then b.py    2, 3, …   workers of 2 threads

One start of all processes serves several scripts; what a script leaves behind, the next one finds.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import dask_mpi


def launch(scripts: list[str]) -> None:
    """Become a rank of the job; at the client, run the scripts."""
    # workers too import what lies beside a script
    sys.path[:0] = dict.fromkeys(str(Path(script).parent) for script in scripts)
    if not dask_mpi.initialize(nthreads=2, nanny=False, exit=False, dashboard=False):
        return
    try:
        for script in scripts:
            runpy.run_path(script, run_name="__main__")
    finally:
        dask_mpi.send_close_signal()


if __name__ == "__main__":
    launch(sys.argv[1:])
