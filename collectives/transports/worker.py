"""What a worker does for the ranks of a communicator: it holds them, passes messages on, watches.

    worker process
    ┌──────────────────────────────────────────────────────────────┐
    │ event loop   RankHost ─ Session a communicator ─ watch, streams
    │                 │ put           ▲ requests, by the scheduler │
    │ threads      mailbox 0 ─▶ rank 0      mailbox 4 ─▶ rank 4    │  one long Dask task a rank
    └──────────────────────────────────────────────────────────────┘

A rank is a Dask task, so it is seen on the dashboard, and ends when it is cancelled or its client
goes away: the watch looks twice a second. It leaves the worker's thread pool as soon as it runs, so
it keeps no other task from running. A stream that breaks tells at once that a worker was lost.
"""

from __future__ import annotations

import asyncio
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import parent_process
from time import monotonic
from typing import Any

import numpy as np
from distributed import get_worker, secede
from distributed.comm import connect
from distributed.core import Status
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps

from daskpart._floor.memory import give_back_freed_memory, keep_freed_memory
from daskpart._floor.words import words_of
from daskpart.collectives.large_arrays import free_kept_memory
from daskpart.errors import InputError

from .mailbox import Call, Mailbox, RunStopped, Standing
from .placement import ranks_by_worker
from .rank import Answer, Endpoint, RankCommunicator, Request
from .wire import INLINE_BYTES

ON_SESSION = "daskpart_on_session"
_MESSAGES, _STREAM_END = "daskpart_rank_messages", "end"
_WATCH_SECONDS = 0.5
_PAUSE_SECONDS = 2e-4
_EXTENSION = "daskpart_ranks"
_CLOSED = "the communicator was closed"
# a worker looks at itself many times a second, each time it takes the GIL from the ranks, and a
# rank that is late keeps all others waiting; callbacks of its event loop, and how often they come
_THROTTLED, _THROTTLED_MILLISECONDS = ("tick", "profile"), 250.0

Packed = tuple[bytes, Any]  # a pickled answer, and the pickled result of its text


@dataclass(frozen=True)
class SessionSpec:
    """One communicator."""

    run_id: str
    placement: tuple[str, ...]  # worker address of each rank
    endpoint: Callable[[Session, int], Endpoint]  # makes that of a rank
    timeout: float  # seconds that one wait for a message may take
    start_seconds: float  # in which all ranks must run


def task_key(run_id: str, rank: int) -> tuple[str, int]:
    """Dask key of a rank's task."""
    return (f"rank-{run_id}", rank)


class RankHost:
    """All communicators that have ranks on one worker."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.sessions: dict[str, Session] = {}
        self._periods: dict[Any, float] = {}  # of callbacks that are throttled, before that
        self._ctrl_c: Any = None  # what answers it where it is passed over, before that
        worker.handlers[_MESSAGES] = self._read_messages
        worker.handlers[ON_SESSION] = self._on_session

    @staticmethod
    def of(worker: Any) -> RankHost:
        """The host of a worker; there is one for its whole life."""
        if _EXTENSION not in worker.extensions:
            worker.extensions[_EXTENSION] = RankHost(worker)
        return worker.extensions[_EXTENSION]

    @property
    def n_ranks(self) -> int:
        """Of all communicators, on this worker."""
        return sum(len(session.mailboxes) for session in self.sessions.values())

    def open(self, spec: SessionSpec) -> None:
        """Make ready for the ranks of a communicator."""
        if not self.sessions:
            self._throttle()
            self._pass_over_ctrl_c()
        self.sessions[spec.run_id] = Session(self, spec)

    def forget(self, run_id: str) -> bool:
        """A communicator is closed; whether it was known until now."""
        known = self.sessions.pop(run_id, None) is not None
        if not self.sessions:
            for callback, milliseconds in self._periods.items():
                callback.callback_time = milliseconds
            self._periods.clear()
            if self._ctrl_c is not None:
                signal.signal(signal.SIGINT, self._ctrl_c)
                self._ctrl_c = None
        return known

    def _throttle(self) -> None:
        callbacks = self.worker.periodic_callbacks
        for callback in [callbacks[name] for name in _THROTTLED if name in callbacks]:
            self._periods[callback] = callback.callback_time
            callback.callback_time = max(callback.callback_time, _THROTTLED_MILLISECONDS)

    def _pass_over_ctrl_c(self) -> None:
        """Terminals and Jupyter send it to the workers of a LocalCluster too, and those would end.

        It is for the client, which ends the fit and needs them to keep the step. A child process
        has a nanny to end it; any other may have nothing but Ctrl-C.
        """
        if parent_process() and threading.current_thread() is threading.main_thread():
            self._ctrl_c = signal.signal(signal.SIGINT, signal.SIG_IGN)

    # handlers of their own: of what goes through `Client.run` the worker writes a line in its log

    async def _on_session(self, run_id: str, method: str, arguments: bytes) -> dict[str, Any]:
        """What a method of a communicator's session gives; None where there is none any more."""
        session = self.sessions.get(run_id)
        given = None if session is None else getattr(session, method)(*pickle.loads(arguments))
        given = await given if asyncio.iscoroutine(given) else given
        return {"status": "OK", "result": to_serialize(given)}

    async def _read_messages(self, comm: Any, run: str, sender: str) -> str:
        """Take in what another worker sends, for as long as the run lasts."""
        session = self.sessions.get(run)
        ended = session is None
        try:
            while not ended:
                for message in await comm.read():
                    if message == _STREAM_END:
                        ended = True
                    elif session is not None:
                        session.deliver(message)
                message = None  # else it is there until the next comes
        except Exception as error:  # the comm broke, or there is no memory for what came
            assert session is not None
            session.end(
                f"the connection to worker {sender} broke, with {session.ranks_of(sender)}: "
                f"{words_of(error)}"
            )
        comm.abort()
        return "dont-reply"


class WorkerStream:
    """Messages to another worker, over a connection of their own: in order, with no answers.

    What is put while one write lasts goes together with the next.
    """

    def __init__(self, session: Session, address: str) -> None:
        self._session, self._address = session, address
        self._waiting: list[Any] = []
        self._filled = asyncio.Event()
        self._writer = asyncio.create_task(self._write())

    def put(self, message: Any) -> None:
        """Send when the messages before have been sent."""
        self._waiting.append(message)
        self._filled.set()

    async def close(self) -> None:
        """Say that this is the end, and wait a moment until it is said."""
        self.put(_STREAM_END)
        await asyncio.wait([self._writer], timeout=2.0)
        self._writer.cancel()

    async def _write(self) -> None:
        session, worker = self._session, self._session.host.worker
        try:
            comm = await connect(self._address, **worker.connection_args)
            try:
                name = session.spec.run_id
                opening = {"op": _MESSAGES, "reply": False, "run": name, "sender": session.address}
                await comm.write(opening)
                last = None
                while last != _STREAM_END:
                    await self._filled.wait()
                    self._filled.clear()
                    messages, self._waiting = self._waiting, []
                    last = messages[-1] if isinstance(messages[-1], str) else None
                    await comm.write(messages)
                    del messages  # else they are there until the next are sent
            finally:
                await comm.close()
        except Exception as error:  # as where it breaks
            session.end(
                f"no connection to worker {self._address} with "
                f"{session.ranks_of(self._address)}: {words_of(error)}"
            )


class Session:
    """One communicator on one worker. Methods belong to the event loop unless they say so."""

    def __init__(self, host: RankHost, spec: SessionSpec) -> None:
        self.host, self.spec = host, spec
        self.address = host.worker.address
        self.loop = asyncio.get_running_loop()
        self._ranks = ranks_by_worker(spec.placement)
        ranks = self._ranks.get(self.address, [])  # of another address: `run_rank` says so
        self.mailboxes = {rank: Mailbox(rank, spec.timeout) for rank in ranks}
        self._texts = dict.fromkeys(ranks, 0)  # of a rank, the run whose text has ended last
        self.services: dict[str, Any] = {}  # by name: what takes messages that are for no rank
        self.group: Any = None  # what the endpoints of its ranks share, if they do
        self.joining = threading.Lock()  # for who makes it
        self._queues: dict[int, queue.SimpleQueue] = {r: queue.SimpleQueue() for r in ranks}
        self._owed: dict[int, asyncio.Future] = {}  # the answer of each rank to the last request
        self._running: set[int] = set()
        self._done: set[int] = set()
        self._leaving, self._left = threading.Lock(), 0
        self._changed = asyncio.Event()
        self._streams: dict[str, WorkerStream] = {}
        self.ended: str | None = None
        self._opened = monotonic()
        self._watcher = asyncio.create_task(self._watch())

    def ranks_of(self, address: str) -> str:
        """Words that name the ranks on a worker."""
        return f"rank(s) {', '.join(map(str, self._ranks.get(address, ())))}"

    # -- life ---

    async def missing(self, seconds: float) -> list[int]:
        """Ranks that do not run within this time."""
        every = set(self.mailboxes)
        await self._until(lambda: self._running == every or self.ended is not None, seconds)
        return sorted(every - self._running)

    async def execute(self, request: Request, own: dict[int, dict]) -> list[Packed]:
        """Run a text on all ranks of this worker; their answers."""
        if self.ended is not None:
            return [_stopped_answer(rank, self.ended) for rank in self.mailboxes]
        self._owed = answers = {rank: self.loop.create_future() for rank in self.mailboxes}
        for rank, answer in answers.items():
            self._queues[rank].put((request, own.get(rank, {}), answer))
        return await asyncio.gather(*answers.values())

    def progress(self, run: int) -> tuple[dict[int, Standing], set[int]]:
        """Where the ranks of this worker are in a run, and those whose text has ended."""
        ended = {rank for rank, last in self._texts.items() if last >= run}  # before what they sent
        standings = {r: box.standing() for r, box in self.mailboxes.items() if box.run == run}
        return standings, ended

    def stop(self, run: int, reason: str, tell_others: bool = False) -> None:
        """Stop a run, on this worker or on all."""
        for mailbox in self.mailboxes.values():
            mailbox.stop(run, reason)
        if tell_others:
            for address in self._ranks:
                if address != self.address:
                    self.stream(address).put(("stop", run, reason))

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

    async def close(self, seconds: float) -> None:
        """End, and wait for the ranks at most so long; then nothing of the run is left here."""
        self.end(_CLOSED)
        await self._until(lambda: self._done >= self._running, seconds)
        await self._forget()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait at most so long until ranks have come, or gone."""
        limit = monotonic() + seconds
        while not is_so() and (left := limit - monotonic()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

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
        for rank, answer in self._owed.items():
            _settle(answer, _stopped_answer(rank, str(self.ended)))  # where its thread has died
        if self.host.forget(self.spec.run_id):
            await asyncio.gather(*[stream.close() for stream in self._streams.values()])

    # -- messages ---

    def stream(self, address: str) -> WorkerStream:
        """The stream to another worker."""
        if address not in self._streams:
            self._streams[address] = WorkerStream(self, address)
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
            call, source, destination, payload = message
            self.mailboxes[destination].put(Call(*call), source, payload)

    # -- on the thread of a rank ---

    def serve(self, rank: int) -> None:
        """Run texts until the communicator is closed; on the rank's own thread."""
        keep_freed_memory()
        endpoint = self.spec.endpoint(self, rank)
        self._note(self._running, rank)
        try:
            self._answer_requests(rank, endpoint)
        finally:
            try:
                with self._leaving:
                    self._left += 1
                    if self._left == len(self.mailboxes):
                        endpoint.close(self.ended == _CLOSED)
                        free_kept_memory()
                        give_back_freed_memory()  # for whatever the worker does next
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    self._note(self._done, rank)

    def _answer_requests(self, rank: int, endpoint: Endpoint) -> None:
        """The rank's values live as long as this call."""
        fetch, n_ranks = self.host.worker.data.__getitem__, len(self.spec.placement)
        communicator = RankCommunicator(rank, n_ranks, endpoint, self.mailboxes[rank], fetch)
        requests = self._queues[rank]
        while (asked := _next(requests, endpoint)) is not None:
            request, own, owed = asked
            answer = communicator.execute(request, own)
            self._texts[rank] = request.run
            if answer.failure is not None:
                stop = partial(self.stop, request.run, answer.failure, tell_others=True)
                self.loop.call_soon_threadsafe(stop)
            self.loop.call_soon_threadsafe(partial(_settle, owed, _packed(answer)))

    def _note(self, ranks: set[int], rank: int) -> None:
        def add() -> None:
            ranks.add(rank)
            self._changed.set()

        self.loop.call_soon_threadsafe(add)


# -- called by the driver in the process of a worker ---


async def open_session(spec: SessionSpec, dask_worker: Any) -> None:
    """Make ready for the ranks of a communicator."""
    RankHost.of(dask_worker).open(spec)


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


def _next(requests: queue.SimpleQueue, endpoint: Endpoint) -> Any:
    """Wait for a request, and meanwhile help messages on their way that others still wait for."""
    while not endpoint.all_sent():
        with suppress(queue.Empty):
            return requests.get(timeout=_PAUSE_SECONDS)
    return requests.get()


def _settle(answer: asyncio.Future, packed: Packed) -> None:
    if not answer.done():
        answer.set_result(packed)


def _stopped_answer(rank: int, reason: str) -> Packed:
    return dumps(Answer(rank, error=RunStopped(f"Rank {rank} stopped: {reason}"))), None


def _packed(answer: Answer) -> Packed:
    """An answer as it travels: pickled, and what the text returned apart, which may be large."""
    result: Any = answer.result
    if result is not None and len(result) > INLINE_BYTES:
        result = np.frombuffer(result, np.uint8)  # bytes would be copied into the message
    return _pickled(replace(answer, result=None)), result


def _pickled(answer: Answer) -> bytes:
    try:
        packed = dumps(answer)
        if answer.error is not None:
            pickle.loads(packed)  # the driver's part: some errors go in a pickle, and not out of it
        return packed
    except Exception:
        assert answer.error is not None  # all else is plain
        error = RuntimeError(words_of(answer.error))
        for note in getattr(answer.error, "__notes__", ()):
            error.add_note(note)
        return dumps(replace(answer, error=error))
