"""The shards of a parameter server on one worker of a cluster, and the ranks' way to them.

    worker A                                         worker B
    rank 0 ──lock──▶ shard 0                         event loop ─▶ queue ─▶ thread ─lock─▶ shard 1
       └───────────────── pull, push, clock ═══ one stream ═══════▲            │
    mailbox 0 ◀══════════════════════ rows ════════════════════════════════════┘

A rank works on the shards of its own worker itself. What comes from other workers is done by one
thread a worker, in the order of arrival, so the event loop is never kept. All of it belongs to a
session of `worker`: run ids, deadlines, leases and what ends a run are those of the other
messages between ranks. A batch that is stopped stops the calls of its programs.
"""

from __future__ import annotations

import itertools
import queue
import threading
from functools import partial
from time import sleep
from typing import Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from daskpart.collectives.server.placement import Directory
from daskpart.collectives.server.shard import ServerSpec, Shard

from .dask_comm import decoded, encoded
from .mailbox import Call
from .worker import RankHost, Session

_SERVICE, _PULL = "daskpart_shard", "pull"
_LOOK_SECONDS = 5e-4


class ShardHost:
    """Shards of one server on one worker.

    Parameters
    ----------
    session : Session
    spec : ServerSpec
    """

    def __init__(self, session: Session, spec: ServerSpec) -> None:
        spec.directory.prepare()
        self.session, self.spec = session, spec
        self.shards: dict[int, Shard] = {}
        self.errors: dict[int, Exception] = {}  # of a run
        self._locks: dict[int, threading.Lock] = {}
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="shards", daemon=True)
        self._thread.start()

    @staticmethod
    def of(run_id: str) -> ShardHost:
        """The host on the worker of the calling rank."""
        return RankHost.of(get_worker()).sessions[run_id].services[_SERVICE]

    @classmethod
    def open(cls, run_id: str, owner: NDArray[np.int32], rest: dict[str, Any]) -> None:
        """Make the worker of the calling rank ready for shards; once a worker."""
        session = RankHost.of(get_worker()).sessions[run_id]
        directory = Directory(owner, len(session.spec.placement))
        session.services[_SERVICE] = cls(session, ServerSpec(directory, **rest))

    def add(self, rank: int, values: NDArray[Any]) -> None:
        """Put a rank's shard here."""
        self._locks[rank] = threading.Lock()
        self.shards[rank] = Shard(values, self.spec)

    def put(self, message: tuple) -> None:
        """Take a message from another worker; on the event loop."""
        self._requests.put(message)

    def end(self) -> None:
        """No further message; on the event loop."""
        self._requests.put(None)

    def send(self, shard: int, request: tuple) -> None:
        """Make a request to a shard, wherever it is; on the thread of a rank."""
        place = self.session.spec.placement[shard]
        if place == self.session.address:
            self.handle(shard, *request)
        else:
            self.session.send(place, (_SERVICE, shard, *map(_packed, request)))

    def handle(self, number: int, kind: str, run: int, source: int, clock: int, *rest: Any) -> None:
        """Do what a rank asks of a shard of this worker."""
        shard = self.shards[number]
        with self._locks[number]:
            if not shard.takes(run):
                return
            if kind == "pull":
                task, slots, run_of_rank, ticket = rest
                reply = partial(self._reply, source, run_of_rank, (number, ticket))
                shard.pull(source, clock, task, slots, reply)
            elif kind == "push":
                shard.push(source, clock, *rest)
            else:
                shard.advance(source, clock)

    def end_run(self, rank: int, run: int) -> None:
        """A run went well: what a rank's shard was before is not needed any more."""
        with self._locks[rank]:
            self.shards[rank].end(run)

    def undo(self, rank: int, run: int) -> None:
        """A rank's shard as it was before a run that failed."""
        with self._locks[rank]:
            self.shards[rank].undo(run)

    def _reply(self, rank: int, run: int, ticket: tuple[int, int], rows: NDArray[Any]) -> None:
        call = Call(run, 0, _PULL)
        place = self.session.spec.placement[rank]
        if place == self.session.address:
            self.session.mailboxes[rank].put(call, ticket, (rows,))
        else:
            self.session.send(place, (tuple(call), ticket, rank, encoded(rows)))

    def _work(self) -> None:
        while (message := self._requests.get()) is not None:
            _, shard, kind, run, *rest = message
            try:
                self.handle(shard, kind, run, *map(_unpacked, rest))
            except Exception as error:
                self._fail(shard, run, error)

    def _fail(self, shard: int, run: int, error: Exception) -> None:
        """An update rule failed here: its rank raises that, all others stop."""
        error.add_note(f"in an update of shard {shard}")
        self.errors.setdefault(run, error)
        session = self.session
        reason = f"shard {shard} failed: {type(error).__name__}: {error}"
        session.loop.call_soon_threadsafe(
            partial(session.stop, session.mailboxes[shard].run, reason, True)
        )


class DaskLink:
    """One rank's way to the shards; see `server.transport.Link`.

    Parameters
    ----------
    rank : int
    host : ShardHost
        That of the rank's worker.
    run : int
        Number of the server's run.
    """

    def __init__(self, rank: int, host: ShardHost, run: int) -> None:
        self._rank, self._host, self._run = rank, host, run
        self._mailbox = host.session.mailboxes[rank]
        self._call = Call(self._mailbox.run, 0, _PULL)
        self._tickets = itertools.count()

    def post_pull(
        self, pieces: list[tuple[int, Any]], task: int, clock: int
    ) -> list[tuple[int, int]]:
        """Ask the shards."""
        number = next(self._tickets)
        for shard, slots in pieces:
            self._send(shard, "pull", clock, task, slots, self._call.run, number)
        return [(shard, number) for shard, _ in pieces]

    def collect(self, ticket: list[tuple[int, int]]) -> list[NDArray[Any]]:
        """What they answered."""
        return [decoded(self._taken(*piece)) for piece in ticket]

    def push(self, pieces: list[tuple[int, Any, Any]], clock: int) -> None:
        """Send rows."""
        for shard, slots, rows in pieces:
            self._send(shard, "push", clock, slots, rows)

    def advance(self, clock: int) -> None:
        """Tell all shards."""
        for shard in range(self._host.spec.n_ranks):
            self._send(shard, "clock", clock)

    def start(self, task: int) -> None:
        """Wait for the others: as long as the own shard would hold a pull."""
        nothing = np.empty(0, np.int32)
        self.collect(self.post_pull([(self._rank, nothing)], task, task))

    def wait_for_all(self) -> None:
        """Until every rank has finished and all its messages to this rank's shard are in."""
        while not self._host.shards[self._rank].settled:
            self._mailbox.check()
            sleep(_LOOK_SECONDS)

    def _send(self, shard: int, kind: str, clock: int, *rest: Any) -> None:
        self._mailbox.check()
        self._host.send(shard, (kind, self._run, self._rank, clock, *rest))

    def _taken(self, shard: int, number: int) -> Any:
        try:
            return self._mailbox.take(self._call, (shard, number))
        except TimeoutError:
            raise TimeoutError(
                f"Rank {self._rank} waited {self._mailbox.timeout:g} s for shard {shard}, the "
                "deadline of this server: a rank is too far behind. If ranks compute for so long, "
                "raise the deadline."
            ) from None


def _packed(value: Any) -> Any:
    return encoded(value) if hasattr(value, "dtype") and hasattr(value, "nbytes") else value


def _unpacked(value: Any) -> Any:
    return decoded(value) if isinstance(value, tuple) else value
