"""Ranks that send over the workers' own comms: worker to worker, never through the scheduler.

    rank 0 ─▶ event loop ══ one stream a pair of workers ══▶ event loop ─▶ mailbox ─▶ rank 3

Between ranks of one worker a message is handed over as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed.protocol import Serialize, to_serialize

from . import wire
from .mailbox import Call
from .rank import Endpoint
from .spmd import SpmdCommunicator
from .worker import Session


class DaskEndpoint(Endpoint):
    """One rank's messages over Dask comms; see `rank.Endpoint`.

    A stream opens with its first message, the event loop sends on by itself, and the session ends
    its streams.
    """

    def __init__(self, session: Session, rank: int) -> None:
        self._session, self._rank = session, rank
        self._places, self._mailbox = session.spec.placement, session.mailboxes[rank]

    def send(self, call: Call, destinations: Sequence[int], payload: Any) -> None:
        """Hand a message to the event loop, and to the ranks of this worker."""
        mailboxes, packed = self._session.mailboxes, None
        for destination in destinations:
            if destination in mailboxes:
                mailboxes[destination].put(call, self._rank, (payload,))
                continue
            packed = packed or encoded(payload)
            message = (tuple(call), self._rank, destination, packed)
            self._session.send(self._places[destination], message)

    def receive(self, call: Call, source: int) -> Any:
        """Wait for a message."""
        return decoded(self._mailbox.take(call, source))


class DaskCommunicator(SpmdCommunicator):
    """Ranks as long tasks of a Dask cluster that send to each other over Dask comms.

    Parameters
    ----------
    n_ranks : int
        At most as many as the workers have threads, or see `oversubscribe`.
    client : distributed.Client, optional
        Default: the current one.
    placement : sequence of str, optional
        Worker address of each rank. Default: round-robin over the workers by their names.
    timeout : float, optional
        Seconds that a rank waits for one message; default: Dask's setting ``daskpart.timeout``, or
        600.
    start_seconds : float, optional
        How long to wait until there are workers with threads enough, again until they are free, and
        again until all ranks run; default: Dask's setting ``daskpart.start-seconds``, or 30.
    oversubscribe : bool
        Whether several ranks may share a thread where there are more ranks than threads.

    Raises
    ------
    InputError
        If there is no client that waits, or more ranks than threads; a `WorkersBusyError` if
        another communicator holds the workers, or ranks did not start in time.
    WorkerLostError
        If a worker was lost. The ranks are gone; make a new communicator.
    TimeoutError
        If a message did not come in time.
    """

    def _make_endpoint(self) -> Callable[[Session, int], DaskEndpoint]:
        return DaskEndpoint


def encoded(payload: Any) -> tuple:
    """A payload as part of a message between workers."""
    header, buffers = wire.pack(payload)
    return (header, [to_serialize(np.frombuffer(buffer, np.uint8)) for buffer in buffers])


def decoded(message: tuple) -> Any:
    """What was `encoded`, or the one thing in a tuple that did not leave its worker."""
    if len(message) == 1:
        return message[0]
    header, buffers = message
    arrived = iter([b.data if isinstance(b, Serialize) else b for b in buffers])
    return wire.unpack(header, lambda size: next(arrived))[1]
