"""The transports as one fixture.

In the MPI job of `test_under_mpiexec.py` the same tests run over MPI alone, on its workers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daskpart.collectives import (
    Communicator,
    DaskCommunicator,
    GraphCommunicator,
    LocalCommunicator,
    MpiCommunicator,
)
from daskpart.collectives.transports.threads import ThreadsCommunicator

# tests, worker processes (which inherit this path) and mpi_job.py import `exchange_text`
sys.path.insert(0, str(Path(__file__).parent))
if "DASKPART_TESTS_IN_MPI_JOB" not in os.environ:  # where scripts before have imported them
    pytest.register_assert_rewrite("exchange_text", "server_programs", "spmd_steps")

TRANSPORTS = [
    "local-threads",
    "local-sequential",
    "rank-threads",
    "graph-threads",
    "graph-synchronous",
    pytest.param("graph-processes", marks=pytest.mark.cluster),
    pytest.param("dask-processes", marks=pytest.mark.cluster),
]
if "DASKPART_TESTS_IN_MPI_JOB" in os.environ:
    TRANSPORTS = ["mpi"]


# of 5 ranks on 4 workers some share theirs and some do not; 8 are a power of two, and all do
_NUMBERS_OF_RANKS = {"graph-processes": (1, 5), "dask-processes": (1, 5, 8), "mpi": (5, 8)}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out some numbers of ranks where a run takes long and others of its kind say as much.

    There a test that draws its calls draws them once, too.

    Each text is run by any number of ranks on the threads of a process; all numbers are sent
    messages by MPI in `mpi_spmd_job.py`, by Dask where decompositions are fitted on workers, and
    as tasks of workers in `mpi_job.py`.
    """
    left_out = [item for item in items if not _is_among_those_run(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_among_those_run(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    some = _NUMBERS_OF_RANKS.get(params.get("make_communicator", ""))
    return some is None or (params.get("n_ranks", some[0]) in some and not params.get("seed"))


@pytest.fixture(scope="session")
def mpi_client() -> Iterator[Any]:
    """The client of the MPI job that these tests run in."""
    from distributed import Client

    with Client(set_as_default=False) as connected:
        connected.wait_for_workers(4, timeout=60)
        yield connected


@pytest.fixture(params=TRANSPORTS)
def make_communicator(request: pytest.FixtureRequest) -> Iterator[Callable[[int], Communicator]]:
    """Makes communicators of one transport; closes them at the end."""
    made: list[Communicator] = []

    def make(n_ranks: int) -> Communicator:
        made.append(_make(request, n_ranks))
        return made[-1]

    yield make
    for communicator in made:
        communicator.close()


def _make(request: pytest.FixtureRequest, n_ranks: int) -> Communicator:
    if request.param == "local-threads":
        return LocalCommunicator(n_ranks)
    if request.param == "local-sequential":
        return LocalCommunicator(n_ranks, n_threads=1)
    if request.param == "rank-threads":
        return ThreadsCommunicator(n_ranks, timeout=30.0)
    if request.param == "mpi":
        return MpiCommunicator(n_ranks, request.getfixturevalue("mpi_client"))
    if request.param == "dask-processes":
        return DaskCommunicator(n_ranks, request.getfixturevalue("quiet_client"))
    if request.param == "graph-processes":
        return GraphCommunicator(n_ranks, request.getfixturevalue("quiet_client"))
    return GraphCommunicator(n_ranks, scheduler=request.param.removeprefix("graph-"))
