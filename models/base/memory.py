"""Whether the memory that a plan foresees is there, told before anything is computed; bytes held.

    plan.memory() of all ranks ──► more than this process, or the workers together, may take? warn
    … of the fullest rank      ──► more than any worker may take? warn

A forecast, so a warning: what is foreseen may come out smaller, or a machine may swap. A process
that takes more than there is may be killed, and then nothing tells why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import warn

from .reports import bytes_words
from .session import client_for

_ANYWHERE = 1 << 30  # bytes that any machine has: for less it takes no look, which takes a while


def bytes_of(*values: Any) -> int:
    """Bytes of all arrays in some values, each counted once; of an object that says them, those."""
    arrays: dict[int, int] = {}

    def count(value: Any) -> None:
        if hasattr(value, "nbytes") and not np.isscalar(value):
            arrays[id(value)] = value.nbytes
        elif isinstance(value, list | tuple | dict):
            for each in value.values() if isinstance(value, dict) else value:
                count(each)
        elif hasattr(value, "__dict__"):
            count(vars(value))

    count(values)
    return sum(arrays.values())


def warn_of_memory(memory: Mapping[str, NDArray[np.int64]], transport: str, client: Any) -> None:
    """Warn where all ranks together, or one of them, will hold more than there is.

    Parameters
    ----------
    memory : dict of str to int64 ndarray of shape (n_ranks,)
        Bytes of each rank, by what they are for, as `FitPlan.memory` has them.
    transport : str
    client : distributed.Client or None
        As for a fit.

    Warns
    -----
    DaskpartWarning
    """
    of_ranks = np.sum([*memory.values()], axis=0)
    total, fullest = int(of_ranks.sum()), int(of_ranks.max(initial=0))
    if total <= _ANYWHERE:
        return
    limits = memory_limits(transport, client)
    if total > sum(limits):
        held = {name: int(each.sum()) for name, each in memory.items()}
        largest = max(held, key=lambda name: held[name])
        told = (
            f"the ranks will hold about {bytes_words(total)} together, "
            f"{bytes_words(held[largest])} of it {largest}, and may take {bytes_words(sum(limits))}"
        )
    elif fullest > max(limits):
        told = (
            f"rank {int(of_ranks.argmax())} will hold about {bytes_words(fullest)}, and no worker "
            f"may take more than {bytes_words(max(limits))}"
        )
    else:
        return
    warn(
        f"{told}: the fit may be killed. Give it workers with more memory, or a smaller model or "
        "less data (plan(…).report() tells what takes it)"
    )


def memory_limits(transport: str, client: Any) -> list[float]:
    """Bytes that each process with ranks may take: the workers, or this one."""
    found = client_for(transport, client)
    if found is None or transport == "local":
        from distributed.system import MEMORY_LIMIT  # of the control group, too

        return [float(MEMORY_LIMIT)]
    from daskpart._floor.rank_tasks import known_workers

    limits = [worker["memory_limit"] for worker in known_workers(found).values()]
    return [float(limit or np.inf) for limit in limits]
