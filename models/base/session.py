"""Where the ranks of a fit run: which transport, how many ranks, and the way back after a loss.

connect ──► the transport that was asked for
              │ a worker is lost
              ├─ enough workers are left, or were started anew ──► the same again
              └─ too few ──► graph, which needs one; and back as soon as there are enough
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from daskpart._floor.cores import n_cores
from daskpart.collectives.transports import communicator_for
from daskpart.errors import DaskpartWarning, InputError, WorkerLostError


def client_for(transport: str, client: Any = None) -> Any:
    """The client that was given, or the current one; None where none is needed.

    Raises
    ------
    InputError
        For a client that is asynchronous or closed.
    """
    # distributed is slow to import, and a program that never did has no client
    if transport == "local" or (client is None and "distributed" not in sys.modules):
        return client
    from daskpart.collectives.transports.cluster import current_client

    found = client or current_client()
    if getattr(found, "asynchronous", False):
        raise InputError(
            "the client is asynchronous, and a fit waits for its ranks: run it in a thread with a "
            "synchronous client=…, or with transport='local'"
        )
    if getattr(found, "status", "running") in ("closed", "closing"):
        raise InputError(
            "the client is closed: give one that is connected, or client=None and "
            "transport='local' for this process"
        )
    return found


def default_ranks(transport: str, client: Any = None) -> int:
    """As many as the workers have threads, or this process has cores."""
    found = client_for(transport, client)
    if found is not None:
        return max(1, sum(dict(found.nthreads()).values()))
    return n_cores()


def expected_transport(transport: str, n_ranks: int, client: Any = None) -> str:
    """What "auto" will come to with the workers that are there now."""
    if transport != "auto":
        return transport
    found = client_for(transport, client)
    if found is None:
        return "local"
    if not _suffice(found, n_ranks):
        return "graph"
    from daskpart.collectives.transports.mpi import workers_are_mpi_ranks

    return "mpi" if workers_are_mpi_ranks(found, n_ranks) else "dask"


def transport_of(session: Any) -> str:
    """The name of a session's transport."""
    known = getattr(session, "transport", None)  # of a session that is no communicator
    return known or type(session).__name__.removesuffix("Communicator").lower()


def _suffice(client: Any, n_ranks: int) -> bool:
    from daskpart.collectives.transports.rank_cluster import has_threads_for

    return bool(has_threads_for(client, n_ranks))


class Connection:
    """Opens communicators for one fit, again after each loss.

    Parameters
    ----------
    transport : str
        As it was asked for.
    n_ranks : int
    client : distributed.Client or None
        None: the current one, if any.
    """

    def __init__(self, transport: str, n_ranks: int, client: Any = None) -> None:
        self.transport, self.n_ranks, self.client = transport, n_ranks, client
        self._fell_back = False

    def open(self, after_loss: bool) -> Any:
        """A communicator on the workers that are there now."""
        self._fell_back = False
        if not after_loss:
            session = communicator_for(self.transport, self.n_ranks, self.client)
            if self.transport == "auto" and transport_of(session) == "graph":
                self._warn_of_tasks()
            return session
        try:
            session = communicator_for(self.transport, self.n_ranks, self.client)
        except (InputError, WorkerLostError):  # too few workers are left for ranks that run at once
            session = communicator_for("graph", self.n_ranks, self.client)
        self._fell_back = transport_of(session) == "graph" != self.transport
        return session

    def _warn_of_tasks(self) -> None:
        threads = default_ranks(self.transport, self.client)
        if threads >= self.n_ranks:  # another run holds them for a while
            return
        warnings.warn(
            f"the workers have {threads} thread(s) for {self.n_ranks} ranks, so each step of a "
            "rank is a task of the cluster (transport='graph'), which is many times slower than "
            "ranks with a thread each. Give fewer n_ranks or more workers; transport='graph' says "
            "that this is meant.",
            DaskpartWarning,
            stacklevel=2,
        )

    def can_go_back(self) -> bool:
        """Whether a fit that went on as a graph after a loss may have its transport again."""
        if not self._fell_back:
            return False
        client = client_for(self.transport, self.client)
        return client is not None and _suffice(client, self.n_ranks)
