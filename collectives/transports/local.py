"""All ranks in this process: steps run on a thread pool, a message is an array handed over.

    rank 0 ─┐                         ┌─ state in place, no copies
    rank 1 ─┼─▶ min(cores, ranks) threads
    rank 2 ─┘                         └─ inbox: the very arrays that were packed

The default without a Dask client. A step that was short when it ran last is run rank by rank: to
wake a thread costs more.

A clock a rank makes the time blocked meaningful although ranks share cores: it runs while the
rank computes, and on receiving it is set forward to the clocks of the ranks it receives from at
the time they posted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.checks import whole_number
from daskpart._floor.cores import n_cores
from daskpart._floor.memory import give_back_freed_memory, keep_freed_memory
from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated
from daskpart.collectives.counters import star_rounds, value_bytes
from daskpart.collectives.large_arrays import free_kept_memory
from daskpart.collectives.messages import Exchange, Message, RankExchange, RankMessages
from daskpart.collectives.timeline import BLOCKED, COMPUTING, SENDING, Span, name_of
from daskpart.collectives.values import duplicate

from .rank_pool import RankPool

_SHORT = 4e-4  # seconds of a step, of all ranks together, below which threads don't pay


class LocalCommunicator(Communicator):
    """Ranks in one process.

    Parameters
    ----------
    n_ranks : int
    n_threads : int, optional
        At most this many threads, and never more than there are cores or ranks: by 1 the calling
        thread runs one rank after another. Default: cores.

    Raises
    ------
    InputError
        If n_ranks or n_threads is not positive.
    """

    def __init__(self, n_ranks: int, n_threads: int | None = None) -> None:
        super().__init__(n_ranks)
        keep_freed_memory()
        cores = n_cores()
        most = cores if n_threads is None else whole_number(n_threads, "n_threads", 1)
        self._pool = RankPool(n_ranks, min(most, cores))
        self._clock = np.zeros(n_ranks)
        self._expected: dict[tuple[int, str], float] = {}  # seconds of steps, by kind and name

    @property
    def n_threads(self) -> int:
        """Threads that run the ranks, the calling one included."""
        return self._pool.n_threads

    def _values(self, values: list[Any]) -> PerRank:
        return PerRank(self, values, borrowed=True)

    def _map(
        self,
        function: Callable,
        state: PerRank | None,
        values: Sequence[Any],
        static: dict,
        pending: Pending | None = None,
    ) -> PerRank:
        columns: list[Sequence[Any]] = [
            value.content if isinstance(value, PerRank) else [value.content] * self.n_ranks
            for value in values
        ]
        if state is not None:
            state.spent = True  # also when a rank fails: others may have overwritten theirs
        if pending is not None:
            pending.collected = True
            arriving, (source, destination), posted = pending.content
            arrival = self._clock.copy()
            np.maximum.at(arrival, destination, posted[source])
            self._pass(BLOCKED, pending.label, arrival)

        def step(rank: int) -> Any:
            own = [c[rank] for c in columns]
            if pending is not None:
                half = self._half(pending, rank)
                own.insert(0, half.incoming([arriving[rank][source] for source in half.sources]))
            if state is not None:
                own.insert(0, _own(state, rank))
            return function(*own, **static)

        return PerRank(self, self._run(step, COMPUTING, name_of(function)))

    def _post(self, pending: Pending, values: PerRank, pack: Callable) -> Any:
        held = values.content

        def step(rank: int) -> list[Message]:
            return self._half(pending, rank).messages(held[rank], pack)

        sent = self._run(step, SENDING, pending.label)
        arriving: list[dict[int, Any]] = [{} for _ in range(self.n_ranks)]
        flat = []
        for rank, messages in enumerate(sent):
            for destinations, payload, n_rows, nbytes in messages:
                for destination in destinations:
                    arriving[destination][rank] = payload
                    flat.append((rank, destination, n_rows, nbytes))
        columns = np.array(flat, np.int64).reshape(-1, 4).T
        self.counters.record_round(pending.label, pending.index, *columns)
        return arriving, columns[:2], self._clock

    @staticmethod
    def _half(pending: Pending, rank: int) -> RankMessages | RankExchange:
        if isinstance(pending.round, Exchange):
            return pending.round.of_ranks[rank]
        return pending.round.messages.content[rank][pending.round.slot]

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        begin = perf_counter()
        result = duplicate(function(values.content, **static))  # it may be one of the values
        seconds = perf_counter() - begin
        there = [value_bytes(value) for value in values.content[1:]]
        back = [value_bytes(result)] * len(there)
        for index, (ends, nbytes) in enumerate(
            zip(star_rounds(self.n_ranks), (there, back), strict=True)
        ):
            self.counters.record_round(label, index, *ends, [0] * len(nbytes), nbytes)
        is_first = np.arange(self.n_ranks) == 0  # rank 0 waits for all, and all for what it makes
        self._pass(BLOCKED, label, np.where(is_first, self._clock.max(), self._clock))
        self._pass(COMPUTING, name_of(function), self._clock + np.where(is_first, seconds, 0.0))
        self._pass(BLOCKED, label, np.full(self.n_ranks, self._clock.max()))
        return Replicated(self, result)

    def _assume_replicated(self, values: PerRank) -> Replicated:
        return Replicated(self, _own(values, 0))

    def _gather(self, values: PerRank) -> list[Any]:
        return [duplicate(value) for value in values.content]

    def _close(self) -> None:
        self._pool.close()
        free_kept_memory()
        give_back_freed_memory()

    def _run(self, step: Callable[[int], Any], kind: int, name: str) -> list[Any]:
        """A step on all ranks, timed."""
        expected = self._expected.get((kind, name), _SHORT)
        with one_blas_thread:  # of a step outside of a run, too
            results = self._pool.run(step, alone=expected < _SHORT)
        # halved at most: where long and short ones take turns, threads are for the long ones
        self._expected[kind, name] = max(self._pool.busy_seconds, expected / 2)
        ends = self._clock + self._pool.seconds
        self._pass(kind, name, ends, results if kind == SENDING else None)
        return results

    def _pass(
        self, kind: int, name: str, ends: np.ndarray, sent: list[list[Message]] | None = None
    ) -> None:
        """Each rank did this until its clock shows `ends`."""
        seconds = ends - self._clock
        if kind == BLOCKED:
            self._counters.seconds_blocked += seconds
        else:
            self._counters.seconds_computing += seconds
        if self.timeline is not None:
            for rank in np.flatnonzero(seconds > 0).tolist():
                times = (float(self._clock[rank]), float(ends[rank]))
                nbytes = sum(m.nbytes * len(m.destinations) for m in sent[rank]) if sent else 0
                self.timeline.add(Span(rank, kind, name, *times, nbytes))
        self._clock = ends


def _own(state: PerRank, rank: int) -> Any:
    """A rank's state to be overwritten: a copy, where the caller still holds the original."""
    return duplicate(state.content[rank]) if state.borrowed else state.content[rank]
