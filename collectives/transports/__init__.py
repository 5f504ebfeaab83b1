"""Ways to run the ranks: threads of this process, a Dask task graph, or SPMD over Dask or MPI.

Which files a call of a text passes through, as ``comm.post(…)``, from the top down:

    communicator                       checks it, for all transports
    ├─ local      rank_pool            does it here, for all ranks
    ├─ graph      graph_tasks          writes tasks down, and counts what they sent (`measures`)
    └─ rank       messages             does it for its own rank: makes its messages, and sends them
       ├─ dask_comm   wire, worker     packs them ──▶ event loop ══▶ event loop of another worker
       ├─ mpi         wire             packs them ══▶ the same file on the other rank
       └─ threads                      hands them over
          mailbox                      where they wait for the call of the other rank, its `collect`

How the text, and what it is given, came to a rank:

    driver        handles              pickles them, with numbers for values that ranks hold
    ├─ spmd       cluster, worker      ──▶ long tasks of ranks (`placement`, `lease` say where)
    └─ threads                         ──▶ threads of ranks
       rank                            runs the text, answers with what it gave and what was sent
"""

from __future__ import annotations

import sys
from typing import Any

from daskpart._floor.checks import one_of
from daskpart.collectives.communicator import Communicator
from daskpart.errors import WorkersBusyError

from .local import LocalCommunicator

_AUTO_SECONDS = 5.0  # that "auto" waits for ranks to run before it takes the graph
TRANSPORTS = ("auto", "local", "graph", "dask", "mpi")


def communicator_for(
    transport: str, n_ranks: int, client: Any = None, *, oversubscribe: bool = False
) -> Communicator:
    """The communicator of a transport by name.

    Parameters
    ----------
    transport : {"auto", "local", "graph", "dask", "mpi"}
        "auto" is local without a client; with one it is "mpi" where the workers are ranks of an MPI
        job and "dask" otherwise, with several ranks a thread if need be; and "graph" while another
        run holds the workers.
    n_ranks : int
    client : distributed.Client, optional
        Default: the current one, if any.
    oversubscribe : bool
        Whether ranks of "dask" and "mpi" may share threads of workers where there are too few; else
        that is an InputError.

    Returns
    -------
    Communicator
        To be closed: a context manager.

    Raises
    ------
    InputError
        For an unknown transport, or a client that is none, as its address, or is asynchronous or
        closed; else as of the transport's own class.

    Examples
    --------
    >>> from daskpart.collectives import allreduce, communicator_for
    >>> with communicator_for("local", n_ranks=3) as communicator:
    ...     allreduce(communicator, communicator.values([1, 2, 3])).result()
    6
    """
    one_of(transport, "transport", TRANSPORTS)
    if transport == "auto":
        client = client_if_any(client)
    if transport == "local" or (transport == "auto" and client is None):
        return LocalCommunicator(n_ranks)
    from .dask_comm import DaskCommunicator  # these import distributed, which is slow
    from .graph import GraphCommunicator
    from .mpi import MpiCommunicator, workers_are_mpi_ranks
    from .placement import workers_that_came

    if transport == "graph":
        return GraphCommunicator(n_ranks, client)
    if transport != "auto":
        spmd = MpiCommunicator if transport == "mpi" else DaskCommunicator
        return spmd(n_ranks, client, oversubscribe=oversubscribe)
    workers_that_came(client)  # what they are decides
    spmd = MpiCommunicator if workers_are_mpi_ranks(client, n_ranks) else DaskCommunicator
    try:
        return spmd(n_ranks, client, start_seconds=_AUTO_SECONDS, oversubscribe=True)
    except WorkersBusyError:
        return GraphCommunicator(n_ranks, client)


def client_if_any(client: Any = None) -> Any:
    """The client that was given, or the current one, or None; InputError as of `usable_client`."""
    # distributed is slow to import, and a program that never did has no client
    if client is None and "distributed" not in sys.modules:
        return None
    from .cluster import usable_client

    return usable_client(client)
