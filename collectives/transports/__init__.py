"""Ways to run the ranks: threads of this process, or a Dask task graph."""

from __future__ import annotations

from typing import Any

from daskpart.collectives.communicator import Communicator
from daskpart.collectives.transports.local import LocalCommunicator
from daskpart.errors import InputError

TRANSPORTS = ("auto", "local")


def communicator_for(transport: str, n_ranks: int, client: Any = None) -> Communicator:
    """The communicator of a transport by name.

    Parameters
    ----------
    transport : {"auto", "local"}
    n_ranks : int
    client : distributed.Client, optional
    """
    if transport not in TRANSPORTS:
        raise InputError(f"transport={transport!r}; allowed are {', '.join(TRANSPORTS)}.")
    return LocalCommunicator(n_ranks)
