"""A parameter server on a Dask cluster: programs run on the ranks of a communicator, beside shards.

    worker A                                         worker B
    rank 0 ──lock──▶ shard 0                         event loop ─▶ queue ─▶ thread ─lock─▶ shard 1
       └───────────────── pull, push, clock ═══ one stream ═══════▲            │
    mailbox 0 ◀══════════════════════ rows ════════════════════════════════════┘

The communicator starts the ranks, watches and ends them, hands programs out and stops a run on all
ranks when one fails. Shards stay with the ranks between runs, so a run finds the rows of the last.

A rank works on the shards of its own worker itself. What comes from other workers is done by one
thread a worker, in the order of arrival, so the event loop is never kept. These messages go over
the workers' own comms, also between MPI workers: a request comes unasked, and MPI would want a
thread that looks for it all the time.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from time import sleep
from typing import Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from daskpart._floor.words import words_of
from daskpart.collectives.communicator import Communicator, PerRank
from daskpart.collectives.operations import barrier
from daskpart.collectives.transports.dask_comm import DaskCommunicator, decoded, encoded
from daskpart.collectives.transports.mailbox import Call, RunStopped
from daskpart.collectives.transports.mpi import MpiCommunicator
from daskpart.collectives.transports.placement import ranks_by_worker
from daskpart.collectives.transports.worker import RankHost, Session
from daskpart.errors import InputError, WorkerLostError

from .endpoint import ServerEndpoint
from .shard import ServerSpec, Shard
from .traffic import RankOutcome

_SERVICE = "daskpart_shards"
_LOOK_SECONDS = 5e-4
_NO_SLOTS = np.empty(0, np.int32)


class ClusterServer:
    """Shards on the workers of a cluster; see the package for what it has in common with `local`.

    `transport` is "dask" or "mpi", `options` are those of its communicator.
    """

    history = None

    def __init__(
        self, spec: ServerSpec, pieces: list[NDArray[Any]], transport: str, client: Any,
        **options: Any,
    ) -> None:  # fmt: skip
        kind = MpiCommunicator if transport == "mpi" else DaskCommunicator
        try:
            self.communicator = comm = kind(spec.n_ranks, client, **options)
        except InputError as error:
            error.add_note("a parameter server knows transport='local' besides, and no graph")
            raise
        self._runs, self._failed, self.places = 0, 0, comm.placement
        # the placement of the ids goes to each worker once
        firsts = {ranks[0] for ranks in ranks_by_worker(self.places).values()}
        specs = [spec if rank in firsts else None for rank in range(spec.n_ranks)]
        try:
            self._ranks = comm.values(list(range(spec.n_ranks)))
            self._shards = comm.run(
                _open, self._ranks, comm.values(pieces), comm.values(specs), session=comm.run_id
            )
        except BaseException:
            comm.close()
            raise

    def run(self, program: Callable, columns: list[PerRank], shared: dict) -> list[RankOutcome]:
        """The program on every rank."""
        try:
            self._undo_failed()
            self._runs += 1
            return self._gathered(_run, *columns, program=program, shared=shared, run=self._runs)
        except WorkerLostError as error:
            error.add_note("its shards are gone; make a new server of the rows saved last")
            raise
        except BaseException:
            self._failed = self._runs
            raise

    def _undo_failed(self) -> None:
        """Bring back the rows of before the last run, if it failed.

        Not as it fails: on Ctrl-C nobody waits for a worker that may not answer.
        """
        if self._failed:
            self._on_ranks(_on_shard, do=Shard.undo, run=self._failed)
            self._failed = 0

    def values(self) -> list[NDArray[Any]]:
        """Rows of each shard, brought here."""
        self._undo_failed()
        return self._gathered(_on_shard, do=attrgetter("values"))

    def set_values(self, pieces: list[NDArray[Any]]) -> None:
        """Other rows for each shard."""
        self._undo_failed()
        self._on_ranks(_on_shard, self.communicator.values(pieces), do=Shard.set_values)

    def _on_ranks(self, step: Callable, *values: PerRank, **static: Any) -> PerRank:
        return self.communicator.map(step, self._shards, self._ranks, *values, **static)

    def _gathered(self, step: Callable, *values: PerRank, **static: Any) -> list[Any]:
        gathered = self.communicator.gather(self._on_ranks(step, *values, **static))
        assert gathered is not None  # the driver is the root
        return gathered


# -- on the ranks ---


def _open(
    comm: Communicator, ranks: PerRank, pieces: PerRank, specs: PerRank, *, session: str
) -> PerRank:
    """The shards of each rank's worker; a text."""
    comm.map(_open_worker, specs, session=session)
    barrier(comm)  # the first rank of a worker has opened it for all
    return comm.map(_open_shard, ranks, pieces, session=session)


def _open_worker(spec: ServerSpec | None, *, session: str) -> None:
    if spec is not None:
        of_worker = RankHost.of(get_worker()).sessions[session]
        of_worker.services[_SERVICE] = WorkerShards(of_worker, spec)


def _open_shard(rank: int, rows: NDArray[Any], *, session: str) -> WorkerShards:
    shards = RankHost.of(get_worker()).sessions[session].services[_SERVICE]
    shards.locks[rank], shards.of_rank[rank] = threading.Lock(), Shard(rows, shards.spec)
    return shards


def _run(
    shards: WorkerShards, rank: int, *values: Any, program: Callable, shared: dict, run: int
) -> RankOutcome:
    endpoint = ClusterEndpoint(rank, shards, run)
    shards.begin(rank, run)
    try:
        result = program(endpoint, *values, **shared)
        traffic = endpoint.finish()
        endpoint.wait_for_all()
    except RunStopped as stop:
        raise shards.errors.get(run, stop) from None  # an update on this worker is the cause
    return RankOutcome(result, traffic, shards.of_rank[rank].staleness)


def _on_shard(
    shards: WorkerShards, rank: int, *values: Any, do: Callable, **static: Any
) -> NDArray[Any] | None:
    with shards.locks[rank]:
        return do(shards.of_rank[rank], *values, **static)


class WorkerShards:
    """The shards of one worker, and a thread for what other workers ask of them.

    A service of the worker's session: run ids, timeouts and ends are those of its other messages.
    """

    def __init__(self, session: Session, spec: ServerSpec) -> None:
        spec.directory.prepare()
        self.session, self.spec = session, spec
        self.of_rank: dict[int, Shard] = {}
        self.locks: dict[int, threading.Lock] = {}
        self.errors: dict[int, Exception] = {}  # of a run
        self._begun: dict[int, int] = {}  # the run that a rank's program is in, or was
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="shards", daemon=True).start()

    def begin(self, rank: int, run: int) -> None:
        """A rank's program begins, unless its shard has failed already."""
        self._begun[rank] = run  # before it looks: `_fail` does it the other way round
        self.check(run)

    def check(self, run: int) -> None:
        """Raise what failed on this worker in a run, if anything did."""
        if run in self.errors:
            raise self.errors[run]

    def put(self, message: tuple) -> None:
        """Take a message from another worker; on the event loop."""
        self._requests.put(message)

    def end(self) -> None:
        """No further message; on the event loop."""
        self._requests.put(None)

    def send(self, shard: int, run: int, call: Call, *request: Any) -> None:
        """Make a request to a shard, wherever it is; on the thread of a rank."""
        place = self.session.spec.placement[shard]
        if place == self.session.address:
            self._take(shard, run, call, (request,))  # which raises here, too, what a rule raises
        else:
            self.session.send(place, (_SERVICE, shard, run, tuple(call), encoded(request)))

    def _take(self, shard: int, run: int, call: Call, packed: tuple) -> None:
        """Do what a rank asks of a shard of this worker; if that fails, the run is over."""
        try:
            source, ticket, *request = decoded(packed)
            reply = partial(self._reply, source, call, (shard, ticket))
            with self.locks[shard]:
                self.of_rank[shard].take(run, source, reply, *request)
        except BaseException as error:
            if not isinstance(error, Exception):  # of sys.exit, say
                error = RuntimeError(f"the update ended with {words_of(error)}")
            self._fail(shard, run, call, error)
            raise error from None

    def _reply(self, rank: int, call: Call, ticket: tuple[int, int], rows: NDArray[Any]) -> None:
        place = self.session.spec.placement[rank]
        if place == self.session.address:
            self.session.mailboxes[rank].put(call, ticket, (rows,))
        else:
            self.session.send(place, (tuple(call), ticket, rank, encoded(rows)))

    def _work(self) -> None:
        while (message := self._requests.get()) is not None:
            _, shard, run, call, packed = message
            with suppress(Exception):  # its rank raises it
                self._take(shard, run, Call(*call), packed)

    def _fail(self, shard: int, run: int, call: Call, error: Exception) -> None:
        """An update rule failed here: its rank raises that, all others stop."""
        error.add_note(f"in an update of shard {shard}")
        self.errors.setdefault(run, error)
        if self._begun.get(shard) != run:
            return  # it could not say what failed, once the run is stopped: it will as it begins
        reason = f"shard {shard} failed: {words_of(error)}"
        stop = partial(self.session.stop, call.run, reason, tell_others=True)
        self.session.loop.call_soon_threadsafe(stop)


class ClusterEndpoint(ServerEndpoint):
    """Of a rank on a worker: messages to shards there and elsewhere, answers in its mailbox."""

    def __init__(self, rank: int, shards: WorkerShards, run: int) -> None:
        super().__init__(rank, shards.spec)
        self._shards, self._run = shards, run
        self._mailbox = shards.session.mailboxes[rank]
        self._call = Call(self._mailbox.run, 0, "pull")  # which the answers bear
        self._tickets = itertools.count()

    def _send(self, kind: str, clock: int, pieces: Sequence[tuple]) -> list[tuple[int, int]]:
        self._mailbox.check()
        ticket = next(self._tickets)
        for shard, *rest in pieces:
            request = (self.rank, ticket, kind, clock, *rest)
            self._shards.send(shard, self._run, self._call, *request)
        return [(shard, ticket) for shard, *_ in pieces]

    def _collect(self, ticket: list[tuple[int, int]]) -> list[NDArray[Any]]:
        answers = []
        for shard, number in ticket:
            try:
                answers.append(decoded(self._mailbox.take(self._call, (shard, number))))
            except TimeoutError:
                raise TimeoutError(
                    f"Rank {self.rank} waited {self._mailbox.timeout:g} s for shard {shard}, the "
                    "timeout of this server: a rank is too far behind. If ranks compute for so "
                    "long, raise the timeout."
                ) from None
        return answers

    def _start(self, task: int) -> None:
        # as long as the own shard would hold a pull
        self._collect(self._send("pull", task, [(self.rank, task, _NO_SLOTS)]))

    def wait_for_all(self) -> None:
        """Until every rank has finished and all its messages to this rank's shard are in."""
        while not self._shards.of_rank[self.rank].settled:
            self._mailbox.check()
            sleep(_LOOK_SECONDS)
        self._shards.check(self._run)  # a message that could not be read is none to the shard
