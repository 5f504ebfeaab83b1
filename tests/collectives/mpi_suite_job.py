"""Started by `test_under_mpiexec.py` under mpiexec: the tests of every collective, over MPI.

MPI rank 0 is the scheduler, 1 runs pytest, the others are workers of two threads. `conftest.py`
gives the tests communicators over MPI, and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FILES = (
    "test_communicators.py",
    "test_dense.py",
    "test_exchange.py",
    "test_hypercube_dense.py",
    "test_hypercube_embedded.py",
    "test_mixed_calls.py",
    "test_run.py",
    "test_sparse_allreduce.py",
    "test_timeline.py",
    "test_topk.py",
)


def main() -> int:
    """Run the tests that are given a communicator; pytest's exit code."""
    here = Path(__file__).parent
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", "[mpi", "--timeout=120"]
    return int(pytest.main([*options, *(str(here / name) for name in FILES)]))


if __name__ == "__main__":
    if code := main():
        sys.exit(code)
