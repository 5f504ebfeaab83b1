"""SPMD over MPI: the workers are MPI ranks (of a dask-mpi job), messages are MPI messages.

    rank 0 ──Isend──▶ matched probe, Irecv ──▶ rank 3        mpi_messages: what a message looks like

A run has a communicator of its own between its workers (`Create_group`), so nothing meets the
messages of others. Several ranks may live on a worker, so a tag is made of the step and the two
ranks within their workers; a step that comes round again after millions of steps is kept apart by
MPI's order. Every wait is a loop of probes or tests that looks at the deadline and at what stopped
the batch.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic, sleep
from typing import Any

from distributed import Client

from daskpart.errors import InputError

from . import spmd_host as host
from .mpi_messages import Message, buffers_of, octets_of
from .spmd import SpmdCommunicator
from .spmd_cluster import places_by_threads

_GROUP_TAGS = 32_749  # within every tag bound, which is at least 32 767
_BUSY_SECONDS = 1e-3  # of a wait are spent testing, the rest with pauses
_PAUSE_SECONDS = 5e-5
_SWEEP_SECONDS = 2.0


class WorkerGroup:
    """The MPI side of one worker process, for the worker processes of a run.

    Parameters
    ----------
    members : tuple of int
        Ranks of the worker processes in MPI.COMM_WORLD, rising.
    run_id : str
        Hexadecimal.
    """

    def __init__(self, members: tuple[int, ...], run_id: str) -> None:
        from mpi4py import MPI

        if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
            raise InputError(
                "MPI was started without THREAD_MULTIPLE, but ranks are threads of a worker; "
                "start the job without mpi4py.rc.threads = False."
            )
        self.mpi = MPI
        group = MPI.COMM_WORLD.Get_group().Incl(members)
        bound = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB)
        assert isinstance(bound, int)  # MPI always sets it
        self.tags = bound + 1
        # two runs may begin at once between the same workers: their tags differ
        self.comm = MPI.COMM_WORLD.Create_group(group, int(run_id, 16) % _GROUP_TAGS)
        group.Free()
        self._sent: deque[tuple[Any, Any]] = deque()  # requests and their buffers
        self._lock = threading.Lock()

    def start_send(self, buffer: Any, process: int, tag: int) -> Any:
        """Begin to send; the buffer is kept until it is sent. The request."""
        kind = [buffer, self.mpi.BYTE]
        with self._lock:
            request = self.comm.Isend(kind, process, tag)
            self._sent.append((request, buffer))
            while self._sent and self._sent[0][0].Test():  # else a long batch keeps all its buffers
                self._sent.popleft()
        return request

    def are_sent(self, requests: list[Any]) -> bool:
        """Whether these are sent; makes progress. Two threads must not test one request at once."""
        with self._lock:
            return all([request.Test() for request in requests])

    def all_sent(self) -> bool:
        """Whether nothing waits to be sent any more; makes progress."""
        with self._lock:
            self._sent = deque(entry for entry in self._sent if not entry[0].Test())
            return not self._sent

    def sweep(self) -> None:
        """Take in and drop what nobody waits for any more, and let go of what is not sent."""
        limit, quiet = monotonic() + _SWEEP_SECONDS, 0
        while monotonic() < limit and quiet < 3:
            status = self.mpi.Status()
            message = self.comm.Improbe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status)
            if message is None:
                quiet = quiet + 1 if self.all_sent() else 0
                sleep(1e-3)
                continue
            quiet = 0
            taken = message.Irecv([bytearray(status.Get_count(self.mpi.BYTE)), self.mpi.BYTE])
            while not taken.Test() and monotonic() < limit:
                self.all_sent()


_groups: dict[str, WorkerGroup] = {}
_joining: dict[str, threading.Lock] = {}


def worker_group(members: tuple[int, ...], run_id: str) -> WorkerGroup:
    """The group of a run's workers; made once, when all of them ask for it.

    This is collective over the workers, the one wait without a deadline. So it is the first thing
    that the ranks do, when all of them run; a process that dies takes its MPI job along.
    """
    # a lock a run: two runs that begin at once must not wait for each other in different order
    with _joining.setdefault(run_id, threading.Lock()):
        if run_id not in _groups:
            _groups[run_id] = WorkerGroup(members, run_id)
        return _groups[run_id]


class MpiEndpoint:
    """One rank's messages over MPI; see `spmd_rank.Endpoint`.

    Parameters
    ----------
    session : Session
    rank : int
    processes : tuple of int
        Rank of each rank's worker in MPI.COMM_WORLD.
    """

    def __init__(self, session: host.Session, rank: int, processes: tuple[int, ...]) -> None:
        self._session, self._rank, self._processes = session, rank, processes
        self._mailbox = session.mailboxes[rank]
        members = sorted(set(processes))
        self._members = tuple(members)
        self._process_of = [members.index(process) for process in processes]
        # the place of a rank among the ranks of its worker
        self._place = [processes[:r].count(process) for r, process in enumerate(processes)]
        self._width = 1 + max(self._place)
        self._lent: list[tuple[int, Any]] = []  # step and request
        self._group: WorkerGroup
        self._status: Any

    def connect(self) -> None:
        """Join the group of the run's workers; collective."""
        self._group = worker_group(self._members, self._session.spec.run_id)
        self._status = self._group.mpi.Status()

    def lends(self, destination: int) -> bool:
        """MPI tells when an array was taken; a rank of this worker gets the array itself."""
        return destination not in self._session.mailboxes

    def send(self, step: int, destination: int, payload: Any, lent: bool = False) -> None:
        """Begin to send a message, or hand it to a rank of this worker."""
        if destination in self._session.mailboxes:
            self._session.mailboxes[destination].put(step, self._rank, payload)
            return
        process = self._process_of[destination]
        tag = self._tag(step, self._rank, destination)
        first, *others = buffers_of(payload)
        self._group.start_send(first, process, tag)  # a copy: bytes of its own
        for buffer in others:
            request = self._group.start_send(buffer, process, tag)
            if lent:
                self._lent.append((step, request))

    def receive(self, step: int, source: int, room: Callable[[], Any] | None = None) -> Any:
        """Wait for a message."""
        if source in self._session.mailboxes:
            return self._mailbox.take(step, source)
        process = self._process_of[source]
        tag = self._tag(step, source, self._rank)
        message = Message(self._take(process, tag, source))
        if message.kind == "object":
            return pickle.loads(message.rest)
        if room is not None and message.large:
            message.offer(room())
        for array in message.large:
            if array.base is not None:  # offered: it may hold what was lent in a round before
                self.give_back(before=step)
            self._take(process, tag, source, octets_of(array))
        return message.arrays[0] if message.kind == "array" else tuple(message.arrays)

    def give_back(self, before: int | None = None) -> None:
        """Wait until what was lent, in steps before one or at all, has been taken."""
        lent = [request for step, request in self._lent if before is None or step < before]
        if lent:
            self._until(partial(self._group.are_sent, lent), "its messages to be taken")
            self._lent = [] if before is None else [e for e in self._lent if e[0] >= before]

    def flush(self) -> None:
        """Go on until all messages are sent: large ones need this process for it."""
        self._until(self._group.all_sent, "its messages to be taken")

    def close(self, whole: bool) -> None:
        """Of the last rank on this worker: free the group.

        Not where the run was broken off: what others may still send would meet a later group.
        """
        group = _groups.pop(self._session.spec.run_id, None)
        _joining.pop(self._session.spec.run_id, None)
        if group is not None and whole and group.all_sent():
            group.comm.Free()

    def _take(self, process: int, tag: int, source: int, into: Any = None) -> Any:
        comm, status, byte = self._group.comm, self._status, self._group.mpi.BYTE
        # what has come already needs no waiting
        message = comm.Improbe(process, tag, status) or self._until(
            lambda: comm.Improbe(process, tag, status), f"a message of rank {source}"
        )
        buffer = bytearray(status.Get_count(byte)) if into is None else into
        request = message.Irecv([buffer, byte])
        if not request.Test():
            self._until(request.Test, f"a message of rank {source}")
        return buffer

    def _until(self, attempt: Callable[[], Any], what: str) -> Any:
        """Repeat until it gives something; at most until the deadline."""
        for _ in _moments(self._mailbox.deadline):
            result = attempt()
            if result:
                return result
            self._mailbox.check()
        raise TimeoutError(
            f"Rank {self._rank} waited {self._mailbox.deadline:g} s for {what}, the deadline of "
            "this run. If that rank computes for so long, raise the deadline."
        )

    def _tag(self, step: int, source: int, destination: int) -> int:
        pair = self._place[source] * self._width + self._place[destination]
        steps = self._group.tags // self._width**2
        return (step % steps) * self._width**2 + pair


class MakeEndpoint:
    """Makes the endpoints of a run; travels to the workers.

    Parameters
    ----------
    processes : tuple of int
        Rank of each rank's worker in MPI.COMM_WORLD.
    """

    def __init__(self, processes: tuple[int, ...]) -> None:
        self.processes = processes

    def __call__(self, session: host.Session, rank: int) -> MpiEndpoint:
        return MpiEndpoint(session, rank, self.processes)


class MpiCommunicator(SpmdCommunicator):
    """Ranks as long tasks on workers that are MPI ranks; they send to each other by MPI.

    Parameters and errors are those of `SpmdCommunicator`; InputError also if the workers were not
    started by MPI, as `dask_mpi.initialize` does.
    """

    def _make_endpoint(self) -> Callable[[host.Session, int], MpiEndpoint]:
        processes = mpi_processes(self._cluster.client, self.placement)
        if processes is None:
            raise InputError(
                "transport='mpi' needs workers that are ranks of one MPI job, started by "
                "dask_mpi.initialize() under mpiexec; use transport='dask' on this cluster."
            )
        return MakeEndpoint(processes)

    def _connect(self) -> None:
        self._write("connect", (), None, {}, None)
        self._flush()

    def _after_failure(self) -> None:
        """Messages that the failed batch left in MPI's queues are taken out."""
        self._cluster.on_each(sweep_group, [(self.run_id,)] * len(self._cluster.workers))


async def sweep_group(run_id: str) -> None:
    """On a worker: drop what a failed batch left behind."""
    if run_id in _groups:
        await asyncio.to_thread(_groups[run_id].sweep)


def open_groups() -> list[str]:
    """On a worker: runs that it holds a group of."""
    return list(_groups)


def mpi_processes(client: Client, workers: Any) -> tuple[int, ...] | None:
    """Rank of each worker in MPI.COMM_WORLD; None unless they are different ranks of one job."""
    addresses = list(dict.fromkeys(workers))
    ranks = client.run(host.mpi_rank, workers=addresses)
    found = [ranks[address] for address in addresses]
    if not found or None in found or len(set(found)) < len(found):
        return None
    return tuple(ranks[address] for address in workers)


def workers_are_mpi_ranks(client: Client, n_ranks: int) -> bool:
    """Whether the workers that ranks would live on are ranks of one MPI job."""
    return mpi_processes(client, places_by_threads(client, n_ranks)) is not None


def _moments(seconds: float) -> Iterator[None]:
    """As many moments as there are until a deadline: dense at first, then with pauses."""
    yield
    begin = monotonic()
    while (waited := monotonic() - begin) < seconds:
        if waited < _BUSY_SECONDS:
            _give_way()  # a sleep of no time would take 50 µs
        else:
            sleep(_PAUSE_SECONDS)
        yield


def _nothing() -> None:
    """Where a processor cannot be given away."""


_give_way = getattr(os, "sched_yield", _nothing)
