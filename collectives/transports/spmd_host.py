"""What a worker does for SPMD runs: it holds ranks, passes messages on, and notices when to stop.

    worker process
    ┌──────────────────────────────────────────────────────────────┐
    │ event loop   RankHost ─ Session a run ─ watch, streams       │
    │                 │ put           ▲ batches, by the scheduler  │
    │ threads      mailbox 0 ─▶ rank 0      mailbox 4 ─▶ rank 4    │  one long Dask task a rank
    └──────────────────────────────────────────────────────────────┘

A rank is a Dask task, so it is seen on the dashboard, and ends when it is cancelled or its client
goes away: the watch looks twice a second whether the task is still wanted. It leaves the worker's
thread pool as soon as it runs, so it keeps no other task from running. A stream that breaks tells
at once that a worker was lost.
"""

from __future__ import annotations

import asyncio
import pickle
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from distributed import get_worker, secede
from distributed.core import Status
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps

from daskpart.errors import InputError

from .calm import calm
from .mailbox import Mailbox, RunStopped
from .spmd_batch import Answer, unpacked_commands
from .spmd_endpoint import Endpoint
from .spmd_rank import Rank
from .spmd_stream import MESSAGES, STREAM_END, Stream

BATCH = "daskpart_rank_batch"
_WATCH_SECONDS = 0.5
_EXTENSION = "daskpart_ranks"
_CLOSED = "the run was closed"


@dataclass(frozen=True)
class RunSpec:
    """One SPMD run.

    Attributes
    ----------
    run_id : str
    placement : tuple of str
        Worker address of each rank.
    endpoint : callable
        ``endpoint(session, rank)`` gives the rank's `Endpoint`.
    deadline : float
        Seconds that one wait for a message may take.
    start_seconds : float
        Seconds in which all ranks must run.
    """

    run_id: str
    placement: tuple[str, ...]
    endpoint: Callable[[Session, int], Endpoint]
    deadline: float
    start_seconds: float


def task_key(run_id: str, rank: int) -> tuple[str, int]:
    """Dask key of a rank's task."""
    return (f"rank-{run_id}", rank)


class RankHost:
    """All runs that have ranks on one worker."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.sessions: dict[str, Session] = {}
        self._uncalm: Callable[[], None] | None = None
        worker.handlers[MESSAGES] = self._read_messages
        worker.handlers[BATCH] = self._execute_batch

    @staticmethod
    def of(worker: Any) -> RankHost:
        """The host of a worker; there is one for its whole life."""
        if _EXTENSION not in worker.extensions:
            worker.extensions[_EXTENSION] = RankHost(worker)
        return worker.extensions[_EXTENSION]

    def open(self, spec: RunSpec) -> None:
        """Make ready for the ranks of a run."""
        if not self.sessions:
            self._uncalm = calm(self.worker)
        self.sessions[spec.run_id] = Session(self, spec)

    def forget(self, run_id: str) -> bool:
        """A run is over; whether it was known until now."""
        known = self.sessions.pop(run_id, None) is not None
        if self._uncalm is not None and not self.sessions:
            self._uncalm()
            self._uncalm = None
        return known

    async def _execute_batch(
        self, run: str, first_step: int, commands: bytes, own: bytes
    ) -> dict[str, Any]:
        """Run a batch on the ranks of this worker; None in place of answers for an unknown run.

        A handler of its own: of what goes through `Client.run` the worker writes a line in its log.
        """
        session = self.sessions.get(run)
        values = pickle.loads(own) if own else {}
        answers = None if session is None else await session.execute(first_step, commands, values)
        return {"status": "OK", "result": to_serialize(answers)}

    async def _read_messages(self, comm: Any, run: str, sender: str) -> str:
        """Take in what another worker sends, for as long as the run lasts."""
        session = self.sessions.get(run)
        ended = session is None
        with suppress(OSError):  # the comm broke
            while not ended:
                for message in await comm.read():
                    if message == STREAM_END:
                        ended = True
                    elif session is not None:
                        session.deliver(message)
        if session is not None and not ended:
            session.end(f"the connection to worker {sender} broke, with {session.ranks_of(sender)}")
        comm.abort()
        return "dont-reply"


class Session:
    """One run on one worker. Methods belong to the event loop unless they say otherwise."""

    def __init__(self, host: RankHost, spec: RunSpec) -> None:
        self.host, self.spec = host, spec
        self.address = host.worker.address
        self.loop = asyncio.get_running_loop()
        ranks = [r for r, place in enumerate(spec.placement) if place == self.address]
        self.mailboxes = {rank: Mailbox(rank, spec.deadline) for rank in ranks}
        self.ranks: dict[int, Rank] = {}  # those that run
        self.services: dict[str, Any] = {}  # by name: what takes messages that are for no rank
        self._queues: dict[int, queue.SimpleQueue] = {r: queue.SimpleQueue() for r in ranks}
        self._running: set[int] = set()
        self._done: set[int] = set()
        self._leaving, self._left = threading.Lock(), 0
        self._changed = asyncio.Event()
        self._streams: dict[str, Stream] = {}
        self.ended: str | None = None
        self._opened = monotonic()
        self._watcher = asyncio.create_task(self._watch())

    def ranks_of(self, address: str) -> str:
        """Words that name the ranks on a worker."""
        ranks = [str(r) for r, place in enumerate(self.spec.placement) if place == address]
        return f"rank(s) {', '.join(ranks)}"

    # -- life ---

    async def missing(self, seconds: float) -> list[int]:
        """Ranks that do not run within this time."""
        limit = monotonic() + seconds
        while self._running != set(self.mailboxes) and self.ended is None:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), limit - monotonic())
            if monotonic() > limit:
                break
        return sorted(set(self.mailboxes) - self._running)

    async def execute(self, first_step: int, commands: bytes, own: dict[int, dict]) -> list[bytes]:
        """Run a batch on all ranks of this worker; their answers."""
        if self.ended is not None:
            return [_stopped_answer(rank, self.ended) for rank in self.mailboxes]
        answers = {rank: self.loop.create_future() for rank in self.mailboxes}
        for rank, answer in answers.items():
            self._queues[rank].put((first_step, commands, own.get(rank, {}), answer))
        return await asyncio.gather(*answers.values())

    def stop(self, first_step: int, reason: str, tell_others: bool = False) -> None:
        """Stop the batch that begins with this step, on this worker or on all."""
        for mailbox in self.mailboxes.values():
            mailbox.stop(first_step, reason)
        if tell_others:
            for address in dict.fromkeys(self.spec.placement):
                if address != self.address:
                    self.stream(address).put(("stop", first_step, reason))

    def end(self, reason: str) -> None:
        """Make all ranks stop for good, as soon as the step they are at is done."""
        if self.ended is None:
            self.ended = reason
            for mailbox in self.mailboxes.values():
                mailbox.end(reason)
            for waiting in self._queues.values():
                waiting.put(None)
            for service in self.services.values():
                service.end()
            self._changed.set()

    async def close(self, reason: str, seconds: float) -> None:
        """End, and wait for the ranks at most so long; then nothing of the run is left here."""
        self.end(reason)
        limit = monotonic() + seconds
        while not self._done >= self._running and monotonic() < limit:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(0.1, _WATCH_SECONDS))
        await self._forget()

    async def _watch(self) -> None:
        """Look whether the ranks are still wanted; clean up after a run that ended by itself."""
        patience = self.spec.start_seconds + 10.0
        while not (self.ended is not None and self._done >= self._running):
            await asyncio.sleep(_WATCH_SECONDS)
            tasks = self.host.worker.state.tasks
            for rank in sorted(self._running - self._done):
                task = tasks.get(task_key(self.spec.run_id, rank))
                if task is None or task.state == "cancelled":
                    self.end(f"the task of rank {rank} was cancelled, or its client went away")
            if self._running != set(self.mailboxes) and monotonic() > self._opened + patience:
                self.end("not all ranks could be started")
            if self.host.worker.status in (Status.closing, Status.closed, Status.failed):
                self.end(f"worker {self.address} is closing")
        await self._forget()

    async def _forget(self) -> None:
        if self.host.forget(self.spec.run_id):
            for stream in self._streams.values():
                await stream.close()

    # -- messages ---

    def stream(self, address: str) -> Stream:
        """The stream to another worker."""
        if address not in self._streams:
            self._streams[address] = Stream(self, address)
        return self._streams[address]

    def send(self, address: str, message: tuple) -> None:
        """Pass a message on; from any thread."""
        self.loop.call_soon_threadsafe(lambda: self.stream(address).put(message))

    def deliver(self, message: tuple) -> None:
        """Take a message from another worker."""
        if message[0] == "stop":
            self.stop(*message[1:])
        elif message[0] in self.services:
            self.services[message[0]].put(message)
        else:
            step, source, destination, payload = message
            self.mailboxes[destination].put(step, source, payload)

    # -- on the thread of a rank ---

    def serve(self, rank: int) -> None:
        """Execute batches until the run ends; on the rank's own thread."""
        mailbox, batches = self.mailboxes[rank], self._queues[rank]
        endpoint = self.spec.endpoint(self, rank)
        self._note(self._running, rank)
        try:
            fetch = self.host.worker.data.__getitem__
            state = Rank(rank, len(self.spec.placement), endpoint, mailbox, fetch)
            self.ranks[rank] = state
            while (batch := batches.get()) is not None:
                first_step, commands, own, answer = batch
                mailbox.begin(first_step)
                packed = self._executed(state, first_step, commands, own)
                self.loop.call_soon_threadsafe(partial(_settle, answer, packed))
        finally:
            self.ranks.pop(rank, None)
            with self._leaving:
                self._left += 1
                if self._left == len(self.mailboxes):
                    endpoint.close(self.ended == _CLOSED)
            with suppress(RuntimeError):  # the loop is closed
                self._note(self._done, rank)

    def _executed(self, state: Rank, first_step: int, commands: bytes, own: dict) -> bytes:
        try:
            values = {number: pickle.loads(value) for number, value in own.items()}
            answer = state.execute(unpacked_commands(commands), values)
        except Exception as error:  # what was sent cannot be read here
            error.add_note(f"on rank {state.rank}")
            answer = Answer(state.rank, error=error)
        if answer.error is not None and not isinstance(answer.error, RunStopped):
            reason = f"rank {state.rank} failed: {type(answer.error).__name__}: {answer.error}"
            self.loop.call_soon_threadsafe(partial(self.stop, first_step, reason, tell_others=True))
        return _packed(answer)

    def _note(self, ranks: set[int], rank: int) -> None:
        def add() -> None:
            ranks.add(rank)
            self._changed.set()

        self.loop.call_soon_threadsafe(add)


# -- called by the driver in the process of a worker ---


async def open_run(spec: RunSpec, dask_worker: Any) -> None:
    """Make ready for the ranks of a run."""
    RankHost.of(dask_worker).open(spec)


async def missing_ranks(run_id: str, seconds: float, dask_worker: Any) -> list[int]:
    """Ranks of this worker that do not run within this time."""
    session = RankHost.of(dask_worker).sessions.get(run_id)
    return [] if session is None else await session.missing(seconds)


async def stop_batch(run_id: str, first_step: int, reason: str, dask_worker: Any) -> None:
    """Stop a batch on this worker."""
    session = RankHost.of(dask_worker).sessions.get(run_id)
    if session is not None:
        session.stop(first_step, reason)


async def close_run(run_id: str, seconds: float, dask_worker: Any) -> None:
    """End a run on this worker; waits for its ranks at most so long."""
    session = RankHost.of(dask_worker).sessions.get(run_id)
    if session is not None:
        await session.close(_CLOSED, seconds)


async def open_runs(dask_worker: Any) -> list[str]:
    """Runs that this worker holds anything of."""
    return list(RankHost.of(dask_worker).sessions)


def run_rank(run_id: str, rank: int) -> None:
    """The long task of a rank."""
    worker = get_worker()
    session = RankHost.of(worker).sessions.get(run_id)
    if session is None or rank not in session.mailboxes:
        raise InputError(
            f"Rank {rank} of run {run_id} was started on {worker.address}, which does not hold it."
        )
    secede()
    session.serve(rank)


def mpi_rank(dask_worker: Any) -> int | None:
    """This worker's rank in MPI.COMM_WORLD; None if it was not started as one of several."""
    mpi = sys.modules.get("mpi4py.MPI")  # dask-mpi has imported it; nobody starts MPI for this
    if mpi is None or mpi.COMM_WORLD.Get_size() == 1:
        return None
    return int(mpi.COMM_WORLD.Get_rank())


def _settle(answer: asyncio.Future, packed: bytes) -> None:
    if not answer.done():
        answer.set_result(packed)


def _stopped_answer(rank: int, reason: str) -> bytes:
    return dumps(Answer(rank, error=RunStopped(f"Rank {rank} stopped: {reason}")))


def _packed(answer: Answer) -> bytes:
    try:
        return dumps(answer)
    except Exception as error:
        failed = InputError(f"What rank {answer.rank} gave back cannot be pickled: {error}")
        if answer.error is not None:
            failed = InputError(f"{type(answer.error).__name__}: {answer.error}")
        return dumps(Answer(answer.rank, done=answer.done, error=failed))
