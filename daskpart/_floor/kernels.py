"""One decorator for every numba kernel, so that the options stand in one place.

Kernels take raw arrays, compile lazily, and release the GIL. Machine code is cached on disk only in
a process of its own: several processes that write one numba cache at once have crashed (numba#4807,
numba#10128), so worker processes and MPI ranks, all but the client's, compile in memory.

This module imports nothing of the house, so every folder may import it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numba

# of all ranks of a job one may write: dask-mpi's client, which partitions and so compiles most
_CLIENT_RANK = "1"
_MPI_RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")


def _cache_is_safe() -> bool:
    wish = os.environ.get("DASKPART_KERNEL_CACHE")
    if wish is not None:
        return wish not in ("0", "false", "off", "")
    if multiprocessing.parent_process() is not None:
        return False
    ranks = [os.environ[name] for name in _MPI_RANK_VARIABLES if name in os.environ]
    return not ranks or ranks[0] == _CLIENT_RANK


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """Compile `function` with numba: nopython, lazy signatures, the GIL released.

    Division by zero gives infinity or NaN, as in numpy: callers look for them once at the end.

    Parameters
    ----------
    function : callable
        Takes and returns arrays and scalars.
    **options
        Passed on to `numba.njit`, for example ``fastmath=True`` or ``inline="always"``.
        ``_nrt=False``, for a small kernel that makes no array and is called in inner loops: numba
        then counts no references, which for a tuple of arrays takes longer than many a body.
    """
    settings = {"nogil": True, "error_model": "numpy", "cache": _cache_is_safe(), **options}
    if function is None:
        return numba.njit(**settings)
    return numba.njit(**settings)(function)
