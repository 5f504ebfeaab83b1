"""Worker processes that the tests share. `dense_cp` is imported from here, by workers too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two worker processes of four threads, so that they hold eight ranks; nobody kills them."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=4, processes=True, dashboard_address=":0"
    ) as running:
        yield running


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A client of `cluster`, the default one while a test runs."""
    from distributed import Client

    with Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected
