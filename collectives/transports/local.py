"""All ranks in this process: steps run on a thread pool, a message is an array handed over.

    rank 0 ─┐                         ┌─ state in place, no copies
    rank 1 ─┼─▶ min(cores, ranks) threads
    rank 2 ─┘                         └─ inbox: the very arrays that were packed

The default without a Dask client. With ``sequential=True`` ranks run one after another, which
makes it the simulator: hundreds of ranks on one core, every message counted.

A clock a rank makes the time blocked meaningful although ranks share cores: it runs while the
rank computes, and on receiving it is set forward to the clocks of the ranks it receives from at
the time they posted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import dask
import numpy as np

from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated, duplicate
from daskpart.collectives.counters import Counters, value_bytes
from daskpart.collectives.exchange import (
    Exchange,
    PendingValues,
    ValueInbox,
    make_payload,
    payload_size,
)
from daskpart.collectives.prepared import PreparedRound, open_inbox, pack_message
from daskpart.collectives.swapping import SwapSteps
from daskpart.collectives.timeline import BLOCKED, COMPUTING, SENDING, Span, name_of
from daskpart.errors import InputError

from .from_dask import computed_values
from .rank_pool import RankPool

_LARGE = 16_384  # bytes from which on threads pay


class LocalCommunicator(Communicator):
    """Ranks in one process.

    Parameters
    ----------
    n_ranks : int
    n_threads : int, optional
        At most this many threads, and never more than there are cores or ranks. Default: cores.
    sequential : bool
        Run the ranks one after another in the calling thread.

    Raises
    ------
    InputError
        If n_ranks or n_threads is not positive.
    """

    def __init__(
        self, n_ranks: int, n_threads: int | None = None, sequential: bool = False
    ) -> None:
        super().__init__(n_ranks)
        if n_threads is not None and n_threads < 1:
            raise InputError(f"n_threads must be at least 1 (or None), got {n_threads}.")
        cores = _available_cores()
        self.sequential = sequential
        self._pool = RankPool(n_ranks, 1 if sequential else min(n_threads or cores, cores))
        self._counters = Counters(n_ranks)
        self._clock = np.zeros(n_ranks)
        self._alone = False  # whether steps are too short for threads

    @property
    def n_threads(self) -> int:
        """Threads that run the ranks, the calling one included."""
        return self._pool.n_threads

    @property
    def counters(self) -> Counters:
        """What was sent and how long it took, measured."""
        return self._counters

    def _values(self, values: Any) -> PerRank:
        if dask.is_dask_collection(values):
            return PerRank(self, computed_values(values, self.n_ranks), borrowed=True)
        given = list(values)
        if len(given) != self.n_ranks:
            raise InputError(f"{self.n_ranks} ranks need as many values, got {len(given)}.")
        return PerRank(self, given, borrowed=True)

    def _replicated(self, value: Any) -> Replicated:
        return Replicated(self, value)

    def _map(self, function: Callable, values: Sequence[Any], static: dict) -> PerRank:
        columns = self._columns(values)

        def step(rank: int) -> Any:
            return function(*[c[rank] for c in columns], **static)

        return PerRank(self, self._run(step, COMPUTING, name_of(function)))

    def _update(
        self, function: Callable, state: PerRank, values: Sequence[Any], static: dict
    ) -> PerRank:
        states = _overwritable(state)
        columns = self._columns(values)
        state.spent = True  # also when a rank fails: others may have overwritten theirs

        def step(rank: int) -> Any:
            return function(states(rank), *[c[rank] for c in columns], **static)

        return PerRank(self, self._run(step, COMPUTING, name_of(function)))

    def _post(self, prepared_round: PreparedRound, values: PerRank, pack: Callable) -> Any:
        messages, slot, held = prepared_round.messages.content, prepared_round.slot, values.content
        arriving: list[dict[int, Any]] = [{} for _ in range(self.n_ranks)]

        def step(rank: int) -> list[int]:
            own = messages[rank][slot]
            nbytes = []
            for destination, positions in zip(own.destinations, own.out_positions, strict=True):
                payload = pack_message(held[rank], positions, pack, rank, destination)
                arriving[destination][rank] = payload
                nbytes.append(payload.nbytes)
            return nbytes

        packed = self._run(step, SENDING, prepared_round.label, sum)
        sent = [nbytes for of_rank in packed for nbytes in of_rank]
        entry = prepared_round.round
        self._counters.record_round(
            prepared_round.label,
            prepared_round.index,
            entry.source,
            entry.destination,
            entry.lengths,  # pack_message has held every payload against them
            sent,
        )
        return arriving, self._clock.copy()

    def _collect(
        self, pending: Pending, state: PerRank, combine: Callable, values: Sequence, static: dict
    ) -> PerRank:
        prepared_round = pending.prepared_round
        arriving, posted = pending.content
        messages, slot = prepared_round.messages.content, prepared_round.slot
        states, columns = _overwritable(state), self._columns(values)
        state.spent = pending.collected = True
        entry = prepared_round.round
        self._wait_for(entry.source, entry.destination, posted, prepared_round.label)

        def step(rank: int) -> Any:
            own = messages[rank][slot]
            inbox = open_inbox(own, [arriving[rank][source] for source in own.sources])
            return combine(states(rank), inbox, *[c[rank] for c in columns], **static)

        return PerRank(self, self._run(step, COMPUTING, name_of(combine)))

    def _post_values(
        self, exchange: Exchange, values: PerRank, pack: Callable, label: str, index: int
    ) -> Any:
        held = values.content
        arriving: list[dict[int, Any]] = [{} for _ in range(self.n_ranks)]

        def step(rank: int) -> list[tuple[int, int]]:
            sizes = []
            for destination in exchange.destinations[rank]:
                payload = make_payload(held[rank], pack, rank, destination)
                arriving[destination][rank] = payload
                sizes.append(payload_size(payload))
            return sizes

        packed = self._run(step, SENDING, label, lambda sizes: sum(nbytes for _, nbytes in sizes))
        sent = np.array([size for sizes in packed for size in sizes], dtype=np.int64)
        rows, nbytes = sent.reshape(-1, 2).T
        self._counters.record_round(
            label, index, exchange.source, exchange.destination, rows, nbytes
        )
        return arriving, self._clock.copy(), label

    def _collect_values(
        self,
        pending: PendingValues,
        state: PerRank,
        combine: Callable,
        values: Sequence,
        static: dict,
    ) -> PerRank:
        exchange = pending.exchange
        arriving, posted, label = pending.content
        states, columns = _overwritable(state), self._columns(values)
        state.spent = pending.collected = True
        self._wait_for(exchange.source, exchange.destination, posted, label)

        def step(rank: int) -> Any:
            sources = exchange.sources[rank]
            inbox = ValueInbox(rank, sources, [arriving[rank][source] for source in sources])
            return combine(states(rank), inbox, *[c[rank] for c in columns], **static)

        return PerRank(self, self._run(step, COMPUTING, name_of(combine)))

    def _swap(
        self, exchanges: Sequence[Exchange], values: PerRank, steps: SwapSteps, label: str,
        static: dict,
    ) -> PerRank:  # fmt: skip
        self._alone = all(map(_is_small, values.content))
        try:
            return super()._swap(exchanges, values, steps, label, static)
        finally:
            self._alone = False

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        result = function(values.content, **static)
        others = np.arange(1, self.n_ranks)
        root = np.zeros_like(others)
        sizes = [value_bytes(value) for value in values.content[1:]]
        back = [value_bytes(result)] * len(others)
        for index, (source, destination, nbytes) in enumerate(
            ((others, root, sizes), (root, others, back))
        ):
            self._counters.record_round(label, index, source, destination, 0 * others, nbytes)
        self._set_forward(np.full(self.n_ranks, self._clock.max()), label)
        return Replicated(self, result)

    def _agreed(self, values: PerRank) -> Replicated:
        return Replicated(self, _overwritable(values)(0))

    def _gather(self, values: PerRank) -> list[Any]:
        return [duplicate(value) for value in values.content]

    def _settle(self, values: Sequence[PerRank | Replicated]) -> None:
        """Everything is settled at once here."""

    def _result(self, content: Any) -> Any:
        return content

    def _close(self) -> None:
        self._pool.close()

    def _run(
        self,
        step: Callable[[int], Any],
        kind: int,
        name: str,
        bytes_of: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        """A step on all ranks, timed; `bytes_of` a rank's result is what it sent."""
        results = self._pool.run(step, self._alone)
        ends = self._clock + self._pool.seconds
        self._note(kind, name, ends, [bytes_of(r) for r in results] if bytes_of else None)
        self._counters.seconds_computing += self._pool.seconds
        self._clock = ends
        return results

    def _columns(self, values: Sequence[PerRank | Replicated]) -> list[Sequence[Any]]:
        return [
            value.content if isinstance(value, PerRank) else [value.content] * self.n_ranks
            for value in values
        ]

    def _wait_for(
        self, source: np.ndarray, destination: np.ndarray, posted: np.ndarray, label: str
    ) -> None:
        arrival = self._clock.copy()
        np.maximum.at(arrival, destination, posted[source])
        self._set_forward(arrival, label)

    def _set_forward(self, clock: np.ndarray, label: str) -> None:
        """Each rank waits until its clock shows this."""
        self._note(BLOCKED, label, clock)
        self._counters.seconds_blocked += clock - self._clock
        self._clock = clock

    def _note(
        self, kind: int, name: str, ends: np.ndarray, nbytes: list[int] | None = None
    ) -> None:
        """What every rank did until its clock shows `ends`, for the timeline."""
        if self.timeline is None:
            return
        for rank in np.flatnonzero(ends > self._clock).tolist():
            times = (float(self._clock[rank]), float(ends[rank]))
            self.timeline.add(Span(rank, kind, name, *times, nbytes[rank] if nbytes else 0))


def _is_small(value: Any) -> bool:
    """Whether it is a number or a short array."""
    return isinstance(value, int | float | complex) or getattr(value, "nbytes", _LARGE) < _LARGE


def _overwritable(state: PerRank) -> Callable[[int], Any]:
    """A rank's state, as a copy where the caller still holds the original."""
    held = state.content
    if state.borrowed:
        return lambda rank: duplicate(held[rank])
    return lambda rank: held[rank]


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
