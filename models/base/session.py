"""Where the ranks of a fit run: which transport, how many ranks, and the way on after a loss.

connect ──► the transport that was asked for
              │ a worker is lost
              ├─ a thread of a worker for each rank is left ──► the same again
              └─ too few ──► the same, ranks share threads ──► a thread each, once workers came
"auto" ──► the graph, while others hold the workers ──► ranks, once threads are free
"""

from __future__ import annotations

from typing import Any

from daskpart._floor.cores import n_cores
from daskpart.collectives.transports import client_if_any, communicator_for
from daskpart.errors import InputError, WorkerLostError


def client_for(transport: str, client: Any = None) -> Any:
    """The client that was given, or the current one; None where none is needed.

    Raises
    ------
    InputError
        For a client that is none, as its address, or is asynchronous or closed, or that of the
        process that this one was forked from.
    """
    return client if transport == "local" else client_if_any(client)


def default_ranks(transport: str, client: Any = None) -> int:
    """As many as the workers have threads, or this process has cores."""
    found = client_for(transport, client)
    if found is not None:
        return max(1, sum(dict(found.nthreads()).values()))
    return n_cores()


def expected_transport(transport: str, n_ranks: int, client: Any = None) -> str:
    """What "auto" will come to with the workers that are there now, if no other run holds them."""
    if transport != "auto":
        return transport
    found = client_for(transport, client)
    if found is None:
        return "local"
    from daskpart.collectives.transports.mpi import workers_are_mpi_ranks

    return "mpi" if workers_are_mpi_ranks(found, n_ranks) else "dask"


def transport_of(session: Any) -> str:
    """The name of a session's transport."""
    known = getattr(session, "transport", None)  # of a session that is no communicator
    return known or type(session).__name__.removesuffix("Communicator").lower()


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
        self._shared = self._fell_back = False

    def open(self, after_loss: bool) -> Any:
        """A session on the workers that are there now; after a loss ranks may share threads."""
        self._shared = self._too_few_threads()
        session = self._session(after_loss)
        self._fell_back = transport_of(session) == "graph" != self.transport
        return session

    def _session(self, after_loss: bool) -> Any:
        try:
            return communicator_for(
                self.transport, self.n_ranks, self.client, oversubscribe=after_loss
            )
        except (InputError, WorkerLostError):
            if not after_loss:
                raise
            return communicator_for("graph", self.n_ranks, self.client)

    def can_improve(self) -> bool:
        """Whether a new session would be quicker by now.

        That is with ranks in place of the graph, or with a thread for each rank that shares one.
        """
        if self._fell_back:
            return self._threads_are_free()
        return self._shared and not self._too_few_threads()

    def _threads_are_free(self) -> bool:
        client = client_for(self.transport, self.client)
        if client is None:
            return False
        from daskpart.collectives.transports.lease import threads_are_free
        from daskpart.collectives.transports.placement import places_by_threads

        try:
            places = places_by_threads(client, self.n_ranks, oversubscribe=True)
        except InputError:  # no worker
            return False
        return bool(client.run_on_scheduler(threads_are_free, places))

    def _too_few_threads(self) -> bool:
        if self.transport in ("local", "graph"):
            return False
        client = client_for(self.transport, self.client)
        if client is None:
            return False
        from daskpart.collectives.transports.placement import has_threads_for

        return not has_threads_for(client, self.n_ranks)
