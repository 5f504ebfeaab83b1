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


_RANKS_IN_TASKS = (1, 5)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out some numbers of ranks where each message is a task of the cluster.

    The graph of any number is run on threads by the transports beside it, and as tasks of workers
    by `mpi_job.py`; here tasks are sent to processes, which takes milliseconds each.
    """
    left_out = [item for item in items if _is_too_many_tasks(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_too_many_tasks(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    in_tasks = params.get("make_communicator") == "graph-processes"
    return in_tasks and params.get("n_ranks", 1) not in _RANKS_IN_TASKS


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
        return LocalCommunicator(n_ranks, sequential=True)
    if request.param == "rank-threads":
        return ThreadsCommunicator(n_ranks, timeout=30.0)
    if request.param == "mpi":
        return MpiCommunicator(n_ranks, request.getfixturevalue("mpi_client"))
    if request.param == "dask-processes":
        return DaskCommunicator(n_ranks, request.getfixturevalue("quiet_client"))
    if request.param == "graph-processes":
        return GraphCommunicator(n_ranks, request.getfixturevalue("quiet_client"))
    return GraphCommunicator(n_ranks, scheduler=request.param.removeprefix("graph-"))
