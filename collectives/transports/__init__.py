"""Ways to run the ranks: threads of this process, or a Dask task graph."""

from __future__ import annotations

import sys
from typing import Any

from daskpart.collectives.communicator import Communicator
from daskpart.errors import InputError

from .local import LocalCommunicator

TRANSPORTS = ("auto", "local", "graph")


def communicator_for(transport: str, n_ranks: int, client: Any = None) -> Communicator:
    """The communicator of a transport by name.

    Parameters
    ----------
    transport : {"auto", "local", "graph"}
        "auto" is the graph where there is a client, and local without one.
    n_ranks : int
    client : distributed.Client, optional
        Default: the current one, if any.
    """
    if transport not in TRANSPORTS:
        raise InputError(f"transport={transport!r}; allowed are {', '.join(TRANSPORTS)}.")
    if transport == "local":
        return LocalCommunicator(n_ranks)
    # distributed is slow to import, and a program that never did has no client
    if client is None and "distributed" in sys.modules:
        from .cluster import current_client

        client = current_client()
    if transport == "auto" and client is None:
        return LocalCommunicator(n_ranks)
    from .graph import GraphCommunicator

    return GraphCommunicator(n_ranks, client)
