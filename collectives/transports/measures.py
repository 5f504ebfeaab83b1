"""From the ledgers of many processes to the counters of one run.

A step is counted as a round when all its messages have been measured; the driver knows which to
expect. What arrives a second time (Dask ran a task again) is left aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.counters import Counters


@dataclass(eq=False)
class _Expected:
    label: str
    index: int
    source: NDArray[Any]
    destination: NDArray[Any]
    measured: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class Measures:
    """Takes measurements in any order, fills `counters` exactly once.

    Parameters
    ----------
    counters : Counters
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self._rounds: dict[int, _Expected] = {}
        self._timed: set[tuple[int, ...]] = set()
        self._busy = np.zeros(counters.n_ranks)  # since the last wait

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

    def add(self, entries: dict[tuple[int, ...], Any]) -> None:
        """Take what one process measured."""
        for key, measured in entries.items():
            if len(key) == 2:
                self._add_seconds(key, measured)
            elif key[0] in self._rounds:
                self._rounds[key[0]].measured[key[1], key[2]] = measured
        for step in sorted(self._rounds):
            expected = self._rounds[step]
            if len(expected.measured) == len(expected.source):
                self._count(expected)
                del self._rounds[step]

    def add_wait(self, seconds: float) -> None:
        """Count a wait of the driver: what a rank did not compute of it, it was blocked."""
        self.counters.seconds_blocked += np.maximum(seconds - self._busy, 0.0)
        self._busy[:] = 0.0

    def _add_seconds(self, key: tuple[int, ...], seconds: float) -> None:
        if key not in self._timed:
            self._timed.add(key)
            self.counters.seconds_computing[key[1]] += seconds
            self._busy[key[1]] += seconds

    def _count(self, expected: _Expected) -> None:
        pairs = zip(expected.source.tolist(), expected.destination.tolist(), strict=True)
        sizes = [expected.measured[pair] for pair in pairs]
        rows, nbytes = (list(column) for column in zip(*sizes, strict=True)) if sizes else ([], [])
        self.counters.record_round(
            expected.label, expected.index, expected.source, expected.destination, rows, nbytes
        )
