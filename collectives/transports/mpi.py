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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

from distributed import Client
from numpy.typing import NDArray

from daskpart.collectives.prepared import RankMessages
from daskpart.errors import InputError

from . import spmd_host as host
from .mpi_group import Lane, WorkerGroup
from .mpi_messages import Message, Outgoing, octets_of
from .mpi_short import ShortSwap
from .mpi_short_rows import ShortExchange
from .spmd import SpmdCommunicator
from .spmd_batch import Answer, Command
from .spmd_cluster import places_by_threads

_BUSY_SECONDS = 1e-3  # of a wait are spent testing, the rest with pauses
_PAUSE_SECONDS = 5e-5
_TRIES = 32  # of a short wait, before a longer one is prepared for
_TESTS = 4  # in a row, before the processor is given away: to give it away all the time costs more


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
    """One rank's messages over MPI; see `spmd_endpoint.Endpoint`.

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
        self._lanes: dict[int, Lane] = {}  # to each rank of another worker
        self._early: dict[tuple[int, int], Message] = {}  # by step and source
        self._lent: list[tuple[int, Any]] = []  # step and request
        self._group: WorkerGroup

    def connect(self) -> None:
        """Join the group of the run's workers; collective."""
        self._group = worker_group(self._members, self._session.spec.run_id)

    def lends(self, destination: int) -> bool:
        """MPI tells when an array was taken; a rank of this worker gets the array itself."""
        return destination not in self._session.mailboxes

    def send(self, step: int, destination: int, payload: Any, lent: bool = False) -> None:
        """Begin to send a message, or hand it to a rank of this worker."""
        if destination in self._session.mailboxes:
            self._session.mailboxes[destination].put(step, self._rank, payload)
            return
        message = Outgoing(payload)
        self.lane(destination).send(step, message)
        if not message.large:
            return
        process, tag = self._process_of[destination], self._tag(step, self._rank, destination)
        for buffer in message.large:
            request = self._group.start_send(buffer, process, tag)
            if lent:
                self._lent.append((step, request))

    def receive(self, step: int, source: int, room: Callable[[], Any] | None = None) -> Any:
        """Wait for a message."""
        if source in self._session.mailboxes:
            return self._mailbox.take(step, source)
        message = self._early.pop((step, source), None) or self._next(step, source)
        if message.kind == "beside":
            message = Message(self._take(step, source, message.beside()))
        if message.kind == "object":
            return pickle.loads(message.rest)
        if message.form.beside:
            self._take_large(message, step, source, room)
        return message.arrays[0] if message.kind == "array" else tuple(message.arrays)

    def short_swap(self, command: Command, array: NDArray[Any], answer: Answer) -> ShortSwap | None:
        """A swap of arrays like this, made ready; None where it is no short one."""
        return ShortSwap.ready(self, self._rank, command, array, answer)

    def short_exchange(
        self, command: Command, state: NDArray[Any], answer: Answer, messages: RankMessages
    ) -> ShortExchange | None:
        """An exchange of rows of states like this, made ready; None where it is no short one."""
        return ShortExchange.ready(self, command, state, answer, messages)

    def has_lanes(self, others: Sequence[int]) -> bool:
        """Whether all of these are on other workers."""
        return not any([other in self._session.mailboxes for other in others])

    def lane(self, other: int) -> Lane:
        """The lane to a rank of another worker."""
        if other not in self._lanes:
            tags = self._tag(None, self._rank, other), self._tag(None, other, self._rank)
            self._lanes[other] = self._group.lane(self._process_of[other], *tags)
        return self._lanes[other]

    def wait_for(self, lane: Lane, source: int) -> None:
        """Wait for the next message on a lane."""
        test = lane.test
        for _ in range(_TRIES):
            _give_way()
            if test():
                return
        self._until(test, f"a message of rank {source}")

    def _next(self, step: int, source: int) -> Message:
        """The first message of a step; those of later steps are put aside."""
        lane = self.lane(source)
        while True:
            lane.expect()
            if not lane.come and not lane.test():
                self.wait_for(lane, source)
            message = lane.read()
            if message.step == step:
                return message
            unwanted = self._mailbox.is_unwanted
            self._early = {key: m for key, m in self._early.items() if not unwanted(key[0])}
            if not unwanted(message.step):
                self._early[message.step, source] = message

    def _take_large(
        self, message: Message, step: int, source: int, room: Callable[[], Any] | None
    ) -> None:
        if room is not None:
            message.offer(room())
        for array in message.large():
            if array.base is not None:  # offered: it may hold what was lent in a round before
                self.give_back(before=step)
            self._take(step, source, octets_of(array))

    def give_back(self, before: int | None = None) -> None:
        """Wait until what was lent, in steps before one or at all, has been taken."""
        lent = [request for step, request in self._lent if before is None or step < before]
        if lent:
            self._until(partial(self._group.are_sent, lent), "its messages to be taken")
            self._lent = [] if before is None else [e for e in self._lent if e[0] >= before]

    def flush(self) -> None:
        """Go on until all messages are sent: large ones need this process for it."""
        self._until(self._all_sent, "its messages to be taken")

    def _all_sent(self) -> bool:
        return all([lane.is_sent() for lane in self._lanes.values()]) and self._group.all_sent()

    def close(self, whole: bool) -> None:
        """Of the last rank on this worker: free the group."""
        group = _groups.pop(self._session.spec.run_id, None)
        _joining.pop(self._session.spec.run_id, None)
        if group is not None:
            group.close(whole)

    def _take(self, step: int, source: int, into: Any) -> Any:
        """Wait for what comes beside a first message."""
        process, tag = self._process_of[source], self._tag(step, source, self._rank)
        request = self._group.comm.Irecv([into, self._group.mpi.BYTE], process, tag)
        try:
            self._until(request.Test, f"a message of rank {source}")
        except BaseException:
            self._group.give_up(request, into)
            raise
        return into

    def _until(self, attempt: Callable[[], Any], what: str) -> Any:
        """Repeat until it gives something; at most until the deadline."""
        for _ in _moments(self._mailbox.deadline):
            for _ in range(_TESTS):
                result = attempt()
                if result:
                    return result
            self._mailbox.check()
        raise TimeoutError(
            f"Rank {self._rank} waited {self._mailbox.deadline:g} s for {what}, the deadline of "
            "this run. If that rank computes for so long, raise the deadline."
        )

    def _tag(self, step: int | None, source: int, destination: int) -> int:
        """Of what a step sends beside first messages; of first messages where no step is given."""
        pair = self._place[source] * self._width + self._place[destination]
        steps = self._group.tags // self._width**2 - 1
        turn = 0 if step is None else 1 + step % steps
        return turn * self._width**2 + pair


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
