"""A parameter server in one process: a thread a rank, shards behind one lock, calls in some order.

    rank 0  ─pull──compute──────push─▶      schedule   0 1 1 0 …   who made each call
    rank 1  ──────pull──push──────────▶

A program on one rank sees of the others only what its calls give it. So the order of the calls
decides every bit, and is written down: the schedule of a run, given to another one, makes it again,
also where nothing bounds the delay. "In turn" the ranks call one after another, which is an order
too: that of ranks which are equally fast. "Stalest" is the worst of all orders: nobody's push comes
in as long as another rank can start or pull, so pulls miss as much as the delay allows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.words import words_of
from daskpart.collectives.communicator import PerRank
from daskpart.collectives.transports.local import LocalCommunicator
from daskpart.collectives.transports.mailbox import RunStopped
from daskpart.errors import InputError

from .endpoint import ServerEndpoint
from .shard import ServerSpec, Shard
from .traffic import RankOutcome, RankTraffic

Schedule = str | Sequence[int] | None


class Turns:
    """Whose call is next, by a checked schedule; the lock of all shards."""

    def __init__(self, n_ranks: int, schedule: Schedule, timeout: float) -> None:
        self.n_ranks, self.timeout = n_ranks, timeout
        self.history: list[int] = []  # rank of each call so far
        # what no rank can go on after: of an update rule, or of a schedule that can't be followed
        self.error: BaseException | None = None
        self._free = schedule is None
        self._stalest = isinstance(schedule, str) and schedule == "stalest"
        self._given = [] if schedule is None or isinstance(schedule, str) else schedule
        self._lock = threading.Lock()
        # a condition a rank: what changes wakes the one whose turn it is, and not hundreds
        self._wakened = [threading.Condition(self._lock) for _ in range(n_ranks)]
        self._chosen: int | None = None
        self._waiting: dict[int, Callable[[], bool]] = {}  # until its call may be made
        self._writing: set[int] = set()  # whose calls tell others something
        self._ended: set[int] = set()
        self._stopped: str | None = None

    @contextmanager
    def turn(
        self, rank: int, allowed: Callable[[], bool] = lambda: True, writes: bool = False
    ) -> Iterator[None]:
        """A call of a rank, as soon as it may be made and it is its turn; holds the lock."""
        limit = monotonic() + self.timeout
        with self._lock:
            self._waiting[rank] = allowed
            if writes:
                self._writing.add(rank)
            self._wake()
            while not self._is_turn_of(rank):
                if not self._wakened[rank].wait(limit - monotonic()):
                    raise TimeoutError(
                        f"Rank {rank} waited {self.timeout:g} s for other ranks, the timeout of "
                        "this server. If they compute for so long, raise the timeout."
                    )
            del self._waiting[rank]
            self._writing.discard(rank)
            self.history.append(rank)
            try:
                yield
            finally:
                self._wake()

    def fail(self, rank: int, error: BaseException) -> None:
        """A shard failed in a turn of this rank: whether its program goes on or not, all stop."""
        error.add_note(f"on rank {rank}")
        self.error, self._stopped = error, f"rank {rank} failed: {words_of(error)}"

    def leave(self, rank: int) -> None:
        """The rank makes no further call."""
        with self._lock:
            self._ended.add(rank)
            self._wake()

    def stop(self, reason: str) -> None:
        """No rank may call any more."""
        with self._lock:
            self._stopped = self._stopped or reason
            self._wake()

    def _is_turn_of(self, rank: int) -> bool:
        if self._stopped is not None:
            raise RunStopped(f"Rank {rank} stopped: {self._stopped}")
        return self._waiting[rank]() if self._free else self._chosen == rank

    def _wake(self) -> None:
        """Something has changed: wake those whose turn it may be now."""
        if not self._free and self._stopped is None:
            try:
                self._chosen = self._next()
            except InputError as error:
                self.error, self._stopped = error, "the schedule cannot be followed"
        chosen = [] if self._chosen is None else [self._chosen]
        for rank in list(self._waiting) if self._free or self._stopped is not None else chosen:
            self._wakened[rank].notify()

    def _next(self) -> int | None:
        """The rank whose call is next; None as long as a rank computes that decides it."""
        place = len(self.history)
        given = self._given[place : place + 1]
        last = self.history[-1] if self.history else -1
        in_turn = [(last + step) % self.n_ranks for step in range(1, self.n_ranks + 1)]
        left = [rank for rank in given or in_turn if rank not in self._ended]
        if given and not left:
            raise InputError(f"schedule[{place}] is rank {given[0]}, whose program has ended")
        if self._stalest:
            if any(rank not in self._waiting for rank in left):
                return None
            # of those that tell something one runs ahead of the others, as far as the delay allows
            left.sort(key=lambda rank: (rank in self._writing, rank != last))
        for rank in left:
            if rank not in self._waiting:
                return None
            if self._waiting[rank]():
                return rank
        if given:
            raise InputError(
                f"schedule[{place}] is rank {given[0]}, which must wait for other ranks there: the "
                "schedule breaks the delay"
            )
        return None


class LocalEndpoint(ServerEndpoint):
    """Of a rank in this process: it calls the shards itself, when it is its turn."""

    def __init__(self, rank: int, run: int, shards: list[Shard], turns: Turns) -> None:
        super().__init__(rank, shards[rank].spec)
        self._run, self._shards, self._turns = run, shards, turns

    def _send(self, kind: str, clock: int, pieces: Sequence[tuple]) -> tuple[list[Any], bool]:
        answers: list[Any] = [None] * len(pieces)
        with self._turns.turn(self.rank, writes=kind != "pull"):
            try:
                for place, (shard, *rest) in enumerate(pieces):
                    reply = partial(answers.__setitem__, place)
                    self._shards[shard].take(self._run, self.rank, reply, kind, clock, *rest)
            except BaseException as error:  # of sys.exit, too: the shard takes nothing more
                self._turns.fail(self.rank, error)
                raise
            return answers, _are_there(answers)

    def _collect(self, ticket: tuple[list[Any], bool]) -> list[NDArray[Any]]:
        answers, were_there_at_once = ticket
        if not were_there_at_once:
            with self._turns.turn(self.rank, partial(_are_there, answers)):
                pass
        return answers

    def _start(self, task: int) -> None:
        with self._turns.turn(self.rank, lambda: self._shards[self.rank].may_start(task)):
            pass


def _are_there(answers: list[Any]) -> bool:
    return all(rows is not None for rows in answers)


class LocalServer:
    """All shards in this process; see the package for what it has in common with `cluster`."""

    def __init__(
        self, spec: ServerSpec, pieces: list[NDArray[Any]], schedule: Schedule, timeout: float
    ) -> None:
        spec.directory.prepare()
        self._n_ranks, self._timeout = spec.n_ranks, timeout
        self._shards = [Shard(piece, spec) for piece in pieces]
        self._schedule = _checked_schedule(schedule, spec.n_ranks)
        self._runs = 0
        self.communicator = LocalCommunicator(spec.n_ranks)
        self.places = [f"rank {rank}" for rank in range(spec.n_ranks)]
        self.history: NDArray[np.int32] | None = None

    def run(self, program: Callable, columns: list[PerRank], shared: dict) -> list[RankOutcome]:
        """A thread a rank."""
        self._runs += 1
        for shard in self._shards:
            shard.begin(self._runs)
        turns = Turns(self._n_ranks, self._schedule, self._timeout)

        def run_rank(rank: int) -> tuple[Any, RankTraffic]:
            endpoint = LocalEndpoint(rank, self._runs, self._shards, turns)
            try:
                result = program(endpoint, *[column.content[rank] for column in columns], **shared)
                traffic = endpoint.finish()
                turns.leave(rank)
            except BaseException as error:
                turns.stop(f"rank {rank} failed: {words_of(error)}")
                raise
            return result, traffic

        ranks: list[Future] = []
        with one_blas_thread, ThreadPoolExecutor(self._n_ranks, "server rank") as pool:
            try:
                for rank in range(self._n_ranks):
                    ranks.append(pool.submit(run_rank, rank))
                wait(ranks)
                _raise_first(turns, ranks)
            except BaseException:
                turns.stop("the run was interrupted")
                wait(ranks)
                for shard in self._shards:
                    shard.undo(self._runs)
                raise
            finally:
                self.history = np.array(turns.history, np.int32)
        answers = [rank.result() for rank in ranks]
        return [
            RankOutcome(result, traffic, shard.staleness)
            for (result, traffic), shard in zip(answers, self._shards, strict=True)
        ]

    def values(self) -> list[NDArray[Any]]:
        """Rows of each shard."""
        return [shard.values for shard in self._shards]

    def set_values(self, pieces: list[NDArray[Any]]) -> None:
        """Other rows for each shard."""
        for shard, piece in zip(self._shards, pieces, strict=True):
            shard.set_values(piece)


def _raise_first(turns: Turns, ranks: Sequence[Future]) -> None:
    """Raise the error of the lowest rank that failed by itself, not because of another."""
    if turns.error is not None:
        raise turns.error
    for number, rank in enumerate(ranks):
        error = rank.exception()
        if error is not None and not isinstance(error, RunStopped):
            error.add_note(f"on rank {number}")
            raise error


def _checked_schedule(schedule: Any, n_ranks: int) -> Schedule:
    """None, the name of an order, or the rank of each call."""
    if schedule is None or (isinstance(schedule, str) and schedule in ("in turn", "stalest")):
        return schedule
    ranks = np.asarray(schedule)
    if ranks.ndim != 1 or (ranks.size and ranks.dtype.kind not in "iu"):
        raise InputError(
            f"schedule is {schedule!r}: give 'in turn', 'stalest' or the rank of each call"
        )
    outside = np.flatnonzero((ranks < 0) | (ranks >= n_ranks))
    if len(outside):
        raise InputError(
            f"schedule[{outside[0]}] is {ranks[outside[0]]}: ranks are 0 to {n_ranks - 1}"
        )
    return ranks.tolist()
