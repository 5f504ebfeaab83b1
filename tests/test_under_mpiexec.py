"""Transports, parameter server and models in one MPI job: scheduler, client, four workers."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
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
    "cp: same bits for 1 2 3 4 8 ranks over MPI",
    "graph convolution: same bits for 1 2 3 4 5 8 ranks over MPI",
    "implicit: same bits for 1 2 3 8 ranks over MPI",
    "linear: same bits for 1 3 4 ranks over MPI",
    "perceptron: same bits for 3 8 ranks over MPI",
]
if find_spec("torch"):
    SAID.append("torch: same bits for 3 8 ranks over MPI")
JOBS = (
    "collectives/mpi_job.py",
    "collectives/mpi_server_job.py",
    "collectives/mpi_spmd_job.py",
    "models/models_mpi_job.py",
    "collectives/mpi_suite_job.py",
)

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(600)]  # one job for all of it


@pytest.fixture(scope="module")
def said(mpi_job):
    """What the scripts print, each on the workers that the one before has left.

    The last one is pytest, with what workers import from the root of the tests.
    """
    paths = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    known = {"DASKPART_TESTS_IN_MPI_JOB": "1", "PYTHONPATH": paths}
    return mpi_job(*(HERE / name for name in JOBS), **known)


@pytest.mark.parametrize("line", SAID)
def test_transports_parameter_server_and_models(said, line):
    assert line in said


def test_every_collective(said):
    """What the other transports are tested by, over MPI."""
    counted = re.search(r"(\d+) passed", said)
    assert counted and int(counted.group(1)) > 50, said[-2000:]
