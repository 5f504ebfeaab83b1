"""Models over MPI, in one job of a scheduler, a client and two workers: the bits of one process."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

SAID = [
    "cp: same bits for 1 2 3 4 8 ranks over MPI",
    "graph convolution: same bits for 1 2 3 4 5 8 ranks over MPI",
    "implicit: same bits for 1 2 3 8 ranks over MPI",
    "linear: same bits for 1 3 4 ranks over MPI",
    "perceptron: same bits for 3 8 ranks over MPI",
]
if find_spec("torch"):
    SAID.append("torch: same bits for 3 8 ranks over MPI")


@pytest.mark.mpi
def test_mpi_ranks_give_the_bits_of_local(mpi_job):
    said = mpi_job(Path(__file__).with_name("models_mpi_job.py"), n=4, threads=4)
    assert [line for line in SAID if line not in said] == []
