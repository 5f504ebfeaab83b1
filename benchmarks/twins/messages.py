"""Buffers that are sent and received, and the wait that ends it.

Ranks may share cores, and a wait of MPI spins: so here it tests and gives the processor away, which
is twice as fast then and costs nothing otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import LocalCommunicator, Plan
from daskpart.collectives.messages import Inbox, RankMessages

if TYPE_CHECKING:
    from mpi4py import MPI


def wait(requests: list[MPI.Request]) -> None:
    """Until all requests are done."""
    while requests and not requests[0].Testall(requests):
        os.sched_yield()


def allreduce(world: MPI.Comm, values: NDArray[Any]) -> NDArray[Any]:
    """The sum over all ranks."""
    total = np.empty_like(values)
    wait([world.Iallreduce(values, total)])
    return total


def messages_of_ranks(
    plans: Sequence[Plan], numbering: Sequence[NDArray[Any]]
) -> list[list[RankMessages]]:
    """For each rank its half of the one round of each plan, in positions of its local order."""
    with LocalCommunicator(len(numbering)) as communicator:
        prepared = communicator.prepare_all(plans, communicator.values(numbering))
        return communicator.gather(prepared[0].rounds[0].messages) or []


class Swap:
    """One rank's half of a round: room for what arrives, made once.

    Parameters
    ----------
    half : RankMessages
    row_shape, dtype
        Of the rows that travel.
    """

    def __init__(
        self, world: MPI.Comm, half: RankMessages, row_shape: tuple[int, ...], dtype: Any
    ) -> None:
        self._world, self._half = world, half
        rooms = [np.empty((len(p), *row_shape), dtype) for p in half.in_positions]
        self.inbox = Inbox(half.rank, half.sources, half.in_positions, rooms)

    def __call__(self, pack: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Inbox:
        """Send ``pack(positions)`` to each destination; what arrived, valid until the next call."""
        self.post(pack)
        return self.collect()

    def post(self, pack: Callable[[NDArray[np.int64]], NDArray[Any]]) -> None:
        """Send, and have room for what arrives; then compute, and `collect`."""
        world, half, inbox = self._world, self._half, self.inbox
        self._requests = [
            world.Irecv(room, source)
            for source, room in zip(inbox.sources, inbox.payloads, strict=True)
        ]
        self._sent = [pack(positions) for positions in half.out_positions]
        self._requests += [
            world.Isend(rows, to) for to, rows in zip(half.destinations, self._sent, strict=True)
        ]

    def collect(self) -> Inbox:
        """What arrived, valid until the next `post`."""
        wait(self._requests)
        return self.inbox
