"""Models over MPI, in one job of a scheduler, a client and two workers: the bits of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.mpi
def test_mpi_ranks_give_the_bits_of_local(mpi_job):
    said = mpi_job(HERE / "cp_mpi_job.py", HERE / "graph_convolution_mpi_job.py", n=4, threads=4)
    assert "cp: same bits for 1 2 3 4 8 ranks over MPI" in said
    assert "graph convolution: same bits for 3 8 ranks over MPI" in said
