"""Transports and parameter server in one MPI job: scheduler, client, four workers of dask-mpi."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SAID = [
    "graph: same bits for 1 2 3 4 5 8 ranks on 4 MPI workers",
    *(
        f"{transport}: {line}"
        for transport in ("dask", "mpi")
        for line in (
            "same bits for 1 2 3 4 5 8 ranks",
            "never staler than the delay",
            "faults leave nothing behind",
        )
    ),
    "parameter server: all done",
    "spmd: same bits for 1 2 3 4 5 8 ranks",
    "values of any size travel",
    "ranks that disagree are told",
    "spmd: faults leave nothing behind",
    "the same factors over MPI and Dask comms",
    "the same lines of an example",
    "spmd: all done",
]
JOBS = ("mpi_job.py", "mpi_server_job.py", "mpi_spmd_job.py", "mpi_suite_job.py")

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def said(mpi_job):
    """What the scripts print, each on the workers that the one before has left.

    The last one is pytest, with what workers import from the root of the tests.
    """
    known = {"DASKPART_TESTS_IN_MPI_JOB": "1", "PYTHONPATH": str(HERE.parents[1])}
    return mpi_job(*(HERE / name for name in JOBS), **known)


@pytest.mark.parametrize("line", SAID)
def test_transports_and_parameter_server(said, line):
    assert line in said


def test_every_collective(said):
    """What the other transports are tested by, over MPI."""
    counted = re.search(r"(\d+) passed", said)
    assert counted and int(counted.group(1)) > 50, said[-2000:]
