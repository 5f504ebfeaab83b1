"""SPMD over MPI, in an MPI job: scheduler, client and four workers are MPI ranks of dask-mpi."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dask_mpi")
HERE = Path(__file__).resolve().parent
MPIEXEC = Path(sys.executable).parent / "mpiexec"


pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python"),
]


def job(name: str, n: int = 6, **environment: str) -> subprocess.CompletedProcess[str]:
    """MPI processes that run a file of this folder."""
    return subprocess.run(
        [str(MPIEXEC), "-n", str(n), sys.executable, str(HERE / name)],
        capture_output=True,
        text=True,
        timeout=250,
        env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "error", **environment},
        check=False,
    )


def test_spmd_under_mpiexec():
    done = job("mpi_spmd_job.py")
    assert done.returncode == 0, done.stderr[-4000:]
    for line in (
        "same bits for 1 2 3 4 5 8 ranks",
        "values of any size travel",
        "ranks that disagree are told",
        "faults leave nothing behind",
        "the same factors over MPI and Dask comms",
        "all done",
    ):
        assert line in done.stdout, done.stderr[-4000:]


def test_every_collective_under_mpiexec():
    """What the other transports are tested by, over MPI; workers import the tests from the root."""
    root = str(HERE.parents[1])
    done = job("mpi_suite_job.py", DASKPART_TESTS_IN_MPI_JOB="1", PYTHONPATH=root)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted and int(counted.group(1)) > 50, done.stdout[-2000:]
