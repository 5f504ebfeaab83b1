"""Models over MPI, in one job of a scheduler, a client and two workers: the bits of one process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


SAID = {
    "cp_mpi_job.py": "cp: same bits for 1 2 3 4 8 ranks over MPI",
    "graph_convolution_mpi_job.py": "graph convolution: same bits for 1 2 3 4 5 8 ranks over MPI",
    "implicit_mpi_job.py": "implicit: same bits for 1 2 3 8 ranks over MPI",
    "linear_mpi_job.py": "linear: same bits for 1 3 4 ranks over MPI",
    "mlp_mpi_job.py": "perceptron: same bits for 3 8 ranks over MPI",
}
if find_spec("torch"):
    SAID["graph_torch_mpi_job.py"] = "torch: same bits for 3 8 ranks over MPI"


@pytest.mark.mpi
def test_mpi_ranks_give_the_bits_of_local(mpi_job):
    said = mpi_job(*(HERE / job for job in SAID), n=4, threads=4)
    assert [line for line in SAID.values() if line not in said] == []
