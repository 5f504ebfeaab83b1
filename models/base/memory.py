"""Whether the memory that a plan foresees is there, told before anything is computed.

    plan.memory() of all ranks ──► more than this process, or the workers together, may take? warn

A forecast, so a warning: what is foreseen may come out smaller, or a machine may swap. A process
that takes more than there is may be killed, and then nothing tells why.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import DaskpartWarning

from .reports import bytes_words
from .session import client_for

_ANYWHERE = 1 << 30  # bytes that any machine has: for less it takes no look, which takes a while


def warn_of_memory(memory: Mapping[str, NDArray[np.int64]], transport: str, client: Any) -> None:
    """Warn where all ranks together will hold more than there is.

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
    held = {name: int(of_ranks.sum()) for name, of_ranks in memory.items()}
    total = sum(held.values())
    if total <= _ANYWHERE or total <= (there := memory_there(transport, client)):
        return
    largest = max(held, key=lambda name: held[name])
    warnings.warn(
        f"the ranks will hold about {bytes_words(total)} together, {bytes_words(held[largest])} of "
        f"it {largest}, and may take {bytes_words(there)}: the fit may be killed. Give it workers "
        "with more memory, or a smaller model or less data (plan(…).report() tells what takes it)",
        DaskpartWarning,
        stacklevel=4,
    )


def memory_there(transport: str, client: Any) -> float:
    """Bytes that all ranks together may take: of the workers, or of this process."""
    found = client_for(transport, client)
    if found is None or transport == "local":
        from distributed.system import MEMORY_LIMIT  # of the control group, too

        return float(MEMORY_LIMIT)
    from daskpart._floor.rank_tasks import known_workers

    limits = [worker["memory_limit"] for worker in known_workers(found).values()]
    return float(sum(limit or np.inf for limit in limits))
