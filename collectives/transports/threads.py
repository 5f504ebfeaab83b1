"""Ranks that run texts on threads of this process: what `dask` and `mpi` do, without a cluster.

    rank 0 ──▶ mailbox of rank 2        a thread and a mailbox a rank

For tests and for debugging a text: it is pickled, shipped and run just as on a cluster. Computing
that holds the GIL gains nothing from it; `local` is the transport for one process.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from time import monotonic
from typing import Any

from .driver import RankedCommunicator, blamed
from .handles import Number
from .mailbox import Call, Mailbox, find_deadlock
from .rank import Answer, Endpoint, RankCommunicator, Request

_LOOK_SECONDS = 0.2


class MailboxEndpoint(Endpoint):
    """One rank's messages to mailboxes of this process; see `rank.Endpoint`."""

    def __init__(self, rank: int, mailboxes: Sequence[Mailbox]) -> None:
        self._rank, self._mailboxes = rank, mailboxes

    def send(self, call: Call, destinations: Sequence[int], payload: Any) -> None:
        """Hand a message over."""
        for destination in destinations:
            self._mailboxes[destination].put(call, self._rank, payload)

    def receive(self, call: Call, source: int) -> Any:
        """Wait for a message."""
        return self._mailboxes[self._rank].take(call, source)


class ThreadsCommunicator(RankedCommunicator):
    """A thread a rank, each of which runs the text.

    Parameters
    ----------
    n_ranks : int
    timeout : float
        Seconds that a rank waits for one message.
    """

    def __init__(self, n_ranks: int, timeout: float = 600.0) -> None:
        super().__init__(n_ranks)
        self._mailboxes = [Mailbox(rank, timeout) for rank in range(self.n_ranks)]
        self._queues: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in self._mailboxes]
        self._threads = [
            threading.Thread(target=self._serve, args=(rank,), name=f"rank-{rank}", daemon=True)
            for rank in range(self.n_ranks)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, rank: int) -> None:
        endpoint = MailboxEndpoint(rank, self._mailboxes)
        communicator = RankCommunicator(rank, self.n_ranks, endpoint, self._mailboxes[rank])
        while (asked := self._queues[rank].get()) is not None:
            request, own, future = asked
            try:
                answer = communicator.execute(request, own)
                if answer.failure is not None:
                    self._stop(request.run, answer.failure)
                future.set_result(answer)
            except BaseException as error:  # the driver waits for this rank, and others may
                self._stop(request.run, f"rank {rank} failed with {type(error).__name__}")
                future.set_exception(error)

    def _stop(self, run: int, reason: str) -> None:
        for mailbox in self._mailboxes:
            mailbox.stop(run, reason)

    def _execute(self, request: Request, own: dict[Number, list[bytes]]) -> list[Answer]:
        packed = pickle.dumps(request)
        futures: list[Future[Answer]] = []
        for rank, waiting in enumerate(self._queues):
            futures.append(Future())
            mine = {number: values[rank] for number, values in own.items()}
            waiting.put((pickle.loads(packed), mine, futures[-1]))
        found = last = None
        try:
            while wait(futures, _LOOK_SECONDS).not_done:
                found, last = self._deadlock(request.run, futures), found
                if found is not None and found == last:
                    self._stop(request.run, found)
                    wait(futures)
                    return blamed([future.result() for future in futures], found)
        except KeyboardInterrupt:
            self._stop(request.run, "the driver was interrupted")
            raise
        return [future.result() for future in futures]

    def _deadlock(self, run: int, futures: Sequence[Future]) -> str | None:
        ended = {rank for rank, future in enumerate(futures) if future.done()}
        standings = {box.rank: box.standing() for box in self._mailboxes if box.run == run}
        return find_deadlock(standings, ended)

    def _close(self) -> None:
        limit = monotonic() + 10.0
        for mailbox, waiting in zip(self._mailboxes, self._queues, strict=True):
            mailbox.end("the communicator was closed")
            waiting.put(None)
        for thread in self._threads:
            thread.join(max(limit - monotonic(), 0.0))
