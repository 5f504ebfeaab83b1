"""SPMD over the workers' own comms: messages go worker to worker, never through the scheduler.

    rank 0 ─▶ event loop ══ one stream a pair of workers ══▶ event loop ─▶ mailbox ─▶ rank 3

Between ranks of one worker a message is handed over as it is. Small arrays travel inside the
message, large ones as buffers beside it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from distributed.protocol import Serialize, to_serialize

from .spmd import SpmdCommunicator
from .spmd_endpoint import PLAIN_KINDS, pickled_object
from .spmd_host import Session

_INLINE_BYTES = 65_536


class DaskEndpoint:
    """One rank's messages over Dask comms; see `spmd_endpoint.Endpoint`."""

    def __init__(self, session: Session, rank: int) -> None:
        self._session, self._rank = session, rank
        self._places, self._mailbox = session.spec.placement, session.mailboxes[rank]

    def connect(self) -> None:
        """A stream opens with its first message."""

    def lends(self, destination: int) -> bool:
        """The event loop may send later."""
        return False

    def send(self, step: int, destination: int, payload: Any, lent: bool = False) -> None:
        """Hand a message to the event loop, or to a rank of this worker."""
        place = self._places[destination]
        if place == self._session.address:
            self._session.mailboxes[destination].put(step, self._rank, (payload,))
        else:
            self._session.send(place, (step, self._rank, destination, encoded(payload)))

    def receive(self, step: int, source: int, room: Callable[[], Any] | None = None) -> Any:
        """Wait for a message."""
        return decoded(self._mailbox.take(step, source))

    def short_swap(self, command: Any, array: Any, answer: Any) -> None:
        """There is no shorter way."""

    def short_exchange(self, command: Any, state: Any, answer: Any, messages: Any) -> None:
        """There is none here either."""

    def give_back(self) -> None:
        """Nothing is lent."""

    def flush(self) -> None:
        """The event loop sends on by itself."""

    def close(self, whole: bool) -> None:
        """The session ends its streams."""


class DaskCommunicator(SpmdCommunicator):
    """Ranks as long tasks of a Dask cluster that send to each other over Dask comms.

    Parameters and errors are those of `SpmdCommunicator`.
    """

    def _make_endpoint(self) -> Callable[[Session, int], DaskEndpoint]:
        return DaskEndpoint


def encoded(payload: Any) -> tuple:
    """An array, a tuple of arrays or a small object as part of a message between workers."""
    if isinstance(payload, tuple) and all(isinstance(array, np.ndarray) for array in payload):
        return ("tuple", *map(encoded, payload))
    if not isinstance(payload, np.ndarray):
        return ("object", pickled_object(payload))
    if payload.nbytes > _INLINE_BYTES or payload.dtype.kind not in PLAIN_KINDS:
        return ("array", to_serialize(payload))
    return ("bytes", payload.dtype.str, payload.shape, payload.tobytes())


def decoded(message: tuple) -> Any:
    """What was `encoded`, or the one thing in a tuple that did not leave its worker."""
    if len(message) == 1:
        return message[0]
    kind, content, *rest = message
    if kind == "tuple":
        return tuple(map(decoded, message[1:]))
    if kind == "object":
        return pickle.loads(content)
    if kind == "array":
        return content.data if isinstance(content, Serialize) else content
    shape, data = rest
    # writable as on every transport, so that kernels are compiled once
    return np.ndarray(shape, np.dtype(content), buffer=bytearray(data))
