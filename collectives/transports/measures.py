"""From the ledgers of many processes to the counters and the timeline of one run.

A step is counted as a round when all its messages have been measured; the driver knows which to
expect. What arrives a second time (Dask ran a task again) is left aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.counters import Counters
from daskpart.collectives.timeline import BLOCKED, COMPUTING, SENDING, Span, Timeline

from .ledger import Message


@dataclass(eq=False)
class _Expected:
    label: str
    index: int
    source: NDArray[Any]
    destination: NDArray[Any]
    measured: dict[tuple[int, int], Message] = field(default_factory=dict)


class Measures:
    """Takes measurements in any order, fills `counters` exactly once.

    Parameters
    ----------
    counters : Counters

    Attributes
    ----------
    names : dict of int to str
        What a step is called in the timeline.
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.names: dict[int, str] = {}
        self._rounds: dict[int, _Expected] = {}
        self._timed: set[tuple[int, ...]] = set()
        self._busy: list[list[tuple[float, float]]]  # of each rank, since the last wait
        self._busy = [[] for _ in range(counters.n_ranks)]

    def expect(
        self, step: int, label: str, index: int, source: NDArray[Any], destination: NDArray[Any]
    ) -> None:
        """Announce the messages of a step."""
        self._rounds[step] = _Expected(label, index, source, destination)

    def expect_star(self, step: int, label: str) -> None:
        """Announce a fold: every rank but 0 to rank 0 in this step, and back in the next."""
        others = np.arange(1, self.counters.n_ranks)
        root = np.zeros_like(others)
        self.expect(step, label, 0, others, root)
        self.expect(step + 1, label, 1, root, others)

    def add(self, entries: dict[tuple[int, ...], Any], timeline: Timeline | None = None) -> None:
        """Take what one process measured."""
        for key, measured in entries.items():
            if len(key) == 2:
                begin, end = measured
                self._add_times(key, COMPUTING, self.names.get(key[0], ""), begin, end, 0, timeline)
            elif key[0] in self._rounds:
                expected = self._rounds[key[0]]
                expected.measured[key[1], key[2]] = measured
                _, nbytes, begin, end = measured
                self._add_times(key, SENDING, expected.label, begin, end, nbytes, timeline)
        for step in sorted(self._rounds):
            expected = self._rounds[step]
            if len(expected.measured) == len(expected.source):
                self._count(expected)
                del self._rounds[step]

    def add_wait(self, begin: float, end: float, timeline: Timeline | None = None) -> None:
        """Count a wait of the driver: what a rank did not compute of it, it was blocked."""
        for rank, busy in enumerate(self._busy):
            seconds = sum(until - since for since, until in busy)
            self.counters.seconds_blocked[rank] += max(end - begin - seconds, 0.0)
            if timeline is not None:
                for gap in _gaps(busy, begin, end):
                    timeline.add(Span(rank, BLOCKED, "waiting", *gap))
            busy.clear()

    def _add_times(
        self, key: tuple[int, ...], kind: int, name: str, begin: float, end: float, nbytes: int,
        timeline: Timeline | None,
    ) -> None:  # fmt: skip
        if key in self._timed or end <= begin:
            return
        self._timed.add(key)
        rank = key[1]
        self.counters.seconds_computing[rank] += end - begin
        self._busy[rank].append((begin, end))
        if timeline is not None:
            timeline.add(Span(rank, kind, name, begin, end, nbytes))

    def _count(self, expected: _Expected) -> None:
        pairs = zip(expected.source.tolist(), expected.destination.tolist(), strict=True)
        messages = [expected.measured[pair] for pair in pairs]
        self.counters.record_round(
            expected.label,
            expected.index,
            expected.source,
            expected.destination,
            [message.rows for message in messages],
            [message.nbytes for message in messages],
        )


def _gaps(busy: list[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """What busy times leave free between `begin` and `end`."""
    gaps = []
    for since, until in sorted(busy):
        if since > begin:
            gaps.append((begin, min(since, end)))
        begin = max(begin, until)
    return [(start, stop) for start, stop in [*gaps, (begin, end)] if stop > start]
