"""The parameter server in an MPI job: scheduler, client and four workers are ranks of dask-mpi."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dask_mpi")
MPIEXEC = Path(sys.executable).parent / "mpiexec"


@pytest.mark.mpi
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python")
def test_parameter_server_under_mpiexec():
    job = Path(__file__).with_name("mpi_server_job.py")
    done = subprocess.run(
        [str(MPIEXEC), "-n", "6", sys.executable, str(job)],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "error"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for line in (
        "same bits for 1 2 3 4 5 8 ranks",
        "never staler than the delay",
        "faults leave nothing behind",
    ):
        for transport in ("dask", "mpi"):
            assert f"{transport}: {line}" in done.stdout, done.stderr[-4000:]
    assert "all done" in done.stdout
