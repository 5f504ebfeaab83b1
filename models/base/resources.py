"""What a rank may take of the machine that it is on: memory, and a folder on disk."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import dask


def rank_memory(n_ranks: int) -> float:
    """Bytes that this rank may take at most.

    On a Dask worker its memory limit over its threads, or over its ranks where they are more;
    infinite where it has none. Else what this process may take over the ranks, which are all in it.
    """
    worker = _worker()
    if worker is not None:
        from daskpart.collectives.transports.worker import RankHost

        shares = max(worker.state.nthreads, RankHost.of(worker).n_ranks)
        return float((worker.memory_manager.memory_limit or float("inf")) / shares)
    from distributed.system import MEMORY_LIMIT  # of the control group, too

    return float(MEMORY_LIMIT / n_ranks)


def rank_folder() -> str:
    """Where this rank may write: the local directory of its Dask worker, or for temporary files."""
    worker = _worker()
    if worker is not None:
        return str(worker.local_directory)
    return dask.config.get("temporary-directory", None) or tempfile.gettempdir()


def _worker() -> Any:
    if "distributed" not in sys.modules:  # slow to import, and there is no worker without it
        return None
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None
