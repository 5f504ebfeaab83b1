"""Ranks that send by MPI: their workers are MPI ranks, of a dask-mpi job.

    rank 0 ── header, large arrays ──▶ Isend ═══ tag of the pair ═══▶ probe, Irecv ──▶ rank 3

A communicator of MPI's own between the workers (`Create_group`) keeps these messages apart from all
others, a tag for each pair of ranks keeps them in order, though several ranks may live in a
process. MPI gives the number of one that was freed to the next, and what nobody took of it is then
in the way (Open MPI loses the messages of the next one): so it is emptied before, up to an empty
message, the last one of each process. Every wait tests, gives the processor away, and looks at the
time and at what stopped the run: a blocking receive would spin, and ranks may share cores. Only the
rest of a message whose beginning is here is waited for in a stopped run too, as the next run would
meet it. What MPI may still read or write is kept until it has done so, also where nobody waits for
it any more. An array of more than a GiB travels in pieces.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import Any

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from daskpart.collectives.communicator import Communicator
from daskpart.collectives.large_arrays import empty_array
from daskpart.errors import InputError, WorkerLostError

from . import wire
from . import worker as on_worker
from .cluster import Cluster
from .mailbox import Call
from .placement import threads_by_worker
from .rank import Endpoint
from .spmd import SpmdCommunicator

_BUSY_SECONDS = 20e-3  # of a wait are spent testing, the rest with pauses
_PAUSE_SECONDS = 5e-5
_GROUP_TAGS = 32_749  # of `Create_group`: within every tag bound, which is at least 32 767
_LAST_TAG = 32_767
_MOST_BYTES = 2**30  # of a message: Open MPI 5 counts them in 32 bits, with a sign
_SWEEP_SECONDS = 2.0
_sched_yield = getattr(os, "sched_yield", None)


class WorkerGroup:
    """The MPI side of one worker process: a communicator between the workers of all ranks.

    `members` are their ranks in MPI.COMM_WORLD, rising, `name` is the session's, hexadecimal.
    """

    def __init__(self, members: tuple[int, ...], name: str) -> None:
        from mpi4py import MPI

        if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
            raise InputError(
                "MPI was started without THREAD_MULTIPLE, but ranks are threads of a worker; "
                "start the job without mpi4py.rc.threads = False."
            )
        self.mpi = MPI
        group = MPI.COMM_WORLD.Get_group().Incl(members)
        self.comm = MPI.COMM_WORLD.Create_group(group, int(name, 16) % _GROUP_TAGS)
        group.Free()
        self._under_way: deque[tuple[Any, Any]] = deque()  # requests and their buffers
        self._abandoned: list[tuple[Any, Any]] = []  # receives that nobody waits for
        self._lock = threading.Lock()

    def send(self, buffers: list[Any], to: list[tuple[int, int]]) -> None:
        """Begin to send to some processes, under a tag each; buffers are kept until then."""
        under_way, byte = self._under_way, self.mpi.BYTE
        with self._lock:
            for process, tag in to:
                for buffer in buffers:
                    under_way.append((self.comm.Isend([buffer, byte], process, tag), buffer))
            while under_way and under_way[0][0].Test():
                under_way.popleft()

    def keep(self, request: Any, buffer: Any) -> None:
        """Hold the buffer of a receive that nobody waits for, as long as MPI may write into it."""
        with self._lock:
            self._abandoned.append((request, buffer))

    def all_sent(self) -> bool:
        """Whether nothing is under way any more; makes progress."""
        with self._lock:
            while self._under_way and self._under_way[0][0].Test():
                self._under_way.popleft()
            self._abandoned = _unfinished(self._abandoned)
            return not self._under_way and not self._abandoned

    def close(self, whole: bool) -> None:
        """Free the communicator, if it was closed and not broken off, and could be emptied.

        Else what others may still send would meet a later group. What nobody took of this one is
        never read, but MPI may still write what has begun to come, and read what was sent.
        """
        if whole and self._empty():
            self.comm.Free()
        _late[:] = _unfinished([*_late, *self._abandoned, *self._under_way])

    def _empty(self) -> bool:
        """Take what nobody took, up to the last message of every process; whether all came."""
        comm, byte, status = self.comm, self.mpi.BYTE, self.mpi.Status()
        others = [process for process in range(comm.size) if process != comm.rank]
        self.send([b""], [(process, _LAST_TAG) for process in others])
        missing, begin = len(others), monotonic()
        while missing or not self.all_sent():
            if message := comm.Improbe(status=status):
                buffer = bytearray(status.Get_count(byte))
                self.keep(message.Irecv([buffer, byte]), buffer)
                missing -= not buffer  # all other messages have a header
            elif (waited := monotonic() - begin) > _SWEEP_SECONDS:
                return False
            else:
                _give_way(waited)
        return True


def _unfinished(requests: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return [(request, buffer) for request, buffer in requests if not request.Test()]


_late: list[tuple[Any, Any]] = []  # what was under way when its group was broken off


class MpiEndpoint(Endpoint):
    """One rank's messages over MPI; see `rank.Endpoint`.

    `processes` are the ranks in MPI.COMM_WORLD of each rank's worker.
    """

    def __init__(self, session: on_worker.Session, rank: int, processes: tuple[int, ...]) -> None:
        self._session, self._rank = session, rank
        self._mailbox = session.mailboxes[rank]
        self._members = tuple(sorted(set(processes)))
        process_of = [self._members.index(process) for process in processes]
        # the place of a rank among the ranks of its worker
        self._place = [processes[:r].count(process) for r, process in enumerate(processes)]
        self._width = 1 + max(self._place)
        # process and tag, from each rank and to each: a wait asks for them again and again
        self._from = [(p, self._tag(r, rank)) for r, p in enumerate(process_of)]
        self._to = [(p, self._tag(rank, r)) for r, p in enumerate(process_of)]
        self._torn: set[int] = set()  # ranks of which a message did not come whole
        self._group: WorkerGroup
        self._status: Any

    def connect(self) -> None:
        """Join the group of the workers, which the first rank of a session makes.

        This is collective over the workers, the one wait without an end. So it is the first thing
        that the ranks do, when all of them run; a process that dies takes its MPI job along.
        """
        session = self._session
        # a lock each: two that begin at once must not wait for each other in different order
        with session.joining:
            if session.group is None:
                session.group = WorkerGroup(self._members, session.spec.run_id)
        self._group = session.group
        self._status = self._group.mpi.Status()

    def send(self, call: Call, destinations: Sequence[int], payload: Any) -> None:
        """Begin to send a message, and hand it to the ranks of this worker."""
        mailboxes, to = self._session.mailboxes, []
        for destination in destinations:
            if destination in mailboxes:
                mailboxes[destination].put(call, self._rank, payload)
            else:
                to.append(self._to[destination])
        if to:
            header, buffers = wire.pack(payload, tuple(call))
            self._group.send([header, *chain.from_iterable(map(_pieces, buffers))], to)

    def receive(self, call: Call, source: int) -> Any:
        """Wait for a message."""
        if source in self._session.mailboxes:
            return self._mailbox.take(call, source)
        mailbox, begin = self._mailbox, 0.0
        found = mailbox.find(call, source)
        try:
            while found is None:
                # nobody else takes in this rank's messages while it runs
                message = self._next_message(source)
                if message is not None:
                    came, payload = message
                    if came == call:
                        mailbox.note_came(call, source)
                        return payload
                    mailbox.put(Call(*came), source, payload)
                    found = mailbox.find(call, source)
                    continue
                mailbox.waiting = call, source
                mailbox.check()
                now = monotonic()
                begin = begin or now
                waited = now - begin
                if waited > mailbox.timeout:
                    raise mailbox.too_late(call, source)
                _give_way(waited)
        finally:
            mailbox.waiting = None
        return found[0]

    def take_in(self) -> bool:
        """Put what has come into the mailbox; says whether anything had. Between two runs only.

        Messages of a run that was stopped end there; others are waited for in a run to come.
        """
        found = False
        for source in range(len(self._from)):
            while source not in self._session.mailboxes and source not in self._torn:
                # its sender lives; what began to come, and is not waited for, would be lost
                message = self._next_message(source)
                if message is None:
                    break
                self._mailbox.put(Call(*message[0]), source, message[1])
                found = True
        return found

    def _next_message(self, source: int) -> tuple[Any, Any] | None:
        """Call and payload of the next message of a rank, if there is one."""
        if source in self._torn:  # what comes next may be the rest of it, and no header
            raise TimeoutError(
                f"A message of rank {source} did not come whole before; make a new communicator."
            )
        group = self._group
        message = group.comm.Improbe(*self._from[source], self._status)
        if message is None:
            return None
        header = bytearray(self._status.Get_count(group.mpi.BYTE))
        self._finish(message.Irecv([header, group.mpi.BYTE]), header, source)
        return wire.unpack(header, partial(self._next_buffer, source))

    def _next_buffer(self, source: int, size: int) -> NDArray[np.uint8]:
        """A large array of the message whose header is here."""
        buffer, group = empty_array(size, np.uint8), self._group
        process, tag = self._from[source]
        for piece in _pieces(buffer):
            self._finish(group.comm.Irecv([piece, group.mpi.BYTE], process, tag), piece, source)
        return buffer

    def _finish(self, request: Any, buffer: Any, source: int) -> None:
        """Wait for the rest of a message whose beginning is here, also when the run is stopped."""
        if request.Test():
            return
        begin = monotonic()
        while not request.Test():
            waited = monotonic() - begin
            if waited > self._mailbox.timeout:
                self._group.keep(request, buffer)
                self._torn.add(source)
                raise TimeoutError(f"A message of rank {source} did not come whole.")
            self._group.all_sent()  # two large messages may cross
            _give_way(waited)

    def all_sent(self) -> bool:
        """Whether all messages are sent: large ones need this process for it."""
        return not hasattr(self, "_group") or self._group.all_sent()

    def close(self, whole: bool) -> None:
        """Of the last rank on this worker: free the group."""
        if self._session.group is not None:
            self._session.group.close(whole)

    def _tag(self, source: int, destination: int) -> int:
        """Of all messages from one rank to another; the processes are known besides."""
        return self._place[source] * self._width + self._place[destination]


class MpiCommunicator(SpmdCommunicator):
    """Ranks as long tasks on workers that are MPI ranks; they send to each other by MPI.

    Parameters and errors are those of `DaskCommunicator`; InputError also if the workers were not
    started by MPI, as `dask_mpi.initialize` does.
    """

    _needs = (
        "begin with dask_mpi.initialize() and distributed.Client() in a script under mpiexec "
        "(pip install 'daskpart[mpi]')"
    )

    def _make_endpoint(self) -> Callable[[on_worker.Session, int], MpiEndpoint]:
        processes = mpi_processes(self._cluster.client, self.placement)
        if processes is None:
            raise InputError(
                "transport='mpi' needs workers that are ranks of one MPI job, started by "
                "dask_mpi.initialize() under mpiexec; use transport='dask' on this cluster."
            )
        return partial(MpiEndpoint, processes=processes)

    def _after_failure(self) -> None:
        """Messages that the failed run left in MPI's queues are taken out.

        By each rank itself: of two threads one would take what the other waits for.
        """
        self.run(take_in_all)


def take_in_all(comm: Communicator) -> None:
    """Take in what comes until nothing is under way; a text."""
    endpoint: MpiEndpoint = comm.endpoint  # type: ignore[attr-defined]
    limit, quiet = monotonic() + _SWEEP_SECONDS, 0
    with suppress(Exception):  # a message that does not come whole, or can't be read
        while monotonic() < limit and quiet < 3:
            came, sent = endpoint.take_in(), endpoint.all_sent()
            quiet = 0 if came or not sent else quiet + 1
            sleep(1e-3)


def mpi_processes(client: Client, workers: Any) -> tuple[int, ...] | None:
    """Rank of each worker in MPI.COMM_WORLD; None unless they are different ranks of one job."""
    addresses = list(dict.fromkeys(workers))
    found = Cluster(client, addresses).on_all(on_worker.mpi_rank)
    if not found or None in found or len(set(found)) < len(found):
        return None
    ranks = dict(zip(addresses, found, strict=True))
    return tuple(ranks[address] for address in workers)


def workers_are_mpi_ranks(client: Client, n_ranks: int) -> bool:
    """Whether the workers that ranks would live on are ranks of one MPI job."""
    with suppress(WorkerLostError):  # of an MPI job it would have taken all others along
        return mpi_processes(client, list(threads_by_worker(client))[:n_ranks]) is not None
    return False


def _pieces(buffer: Any) -> list[Any]:
    """A large array as the messages that it travels in."""
    starts = range(0, len(buffer), _MOST_BYTES)
    return [buffer[start : start + _MOST_BYTES] for start in starts]


def _give_way(waited: float) -> None:
    """Let others have the processor; after a while for longer."""
    if waited < _BUSY_SECONDS and _sched_yield is not None:
        _sched_yield()  # a sleep of no time would take 50 µs
    else:
        sleep(_PAUSE_SECONDS)
