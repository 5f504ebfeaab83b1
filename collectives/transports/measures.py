"""What tasks measured: kept in the process that ran them, until the driver fetches and counts it.

    key (step, source, destination)   →  `Note` of a message: when it was packed, rows, bytes
    key (step, rank)                  →  `Note` of a computation: when it began and ended, its name

Keys name the step, not the execution: a task that runs twice overwrites its own entry, and what was
fetched before is left aside, so everything counts once. A step is counted as a round when all its
messages have been measured; the driver knows which to expect.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from numpy.typing import NDArray

from daskpart.collectives.counters import Counters, star_rounds
from daskpart.collectives.timeline import BLOCKED, COMPUTING, SENDING, Span, Timeline

Key = tuple[int, ...]
UNMEASURED = "unmeasured-"  # begins the name of a run that nobody fetches measurements of


class Note(NamedTuple):
    """One measurement; times as by `timeline.now`, equal where nothing was computed."""

    begin: float = 0.0
    end: float = 0.0
    name: str = ""
    rows: int = 0
    nbytes: int = 0


# -- in the process that runs tasks ---

_notes: dict[str, dict[Key, Note]] = {}
_closed: set[str] = set()
_lock = threading.Lock()


def record(run: str, key: Key, note: Note) -> None:
    """Keep one measurement of a run; nothing for a run that is closed."""
    if run.startswith(UNMEASURED):
        return
    with _lock:
        if run not in _closed:
            _notes.setdefault(run, {})[key] = note


def take(run: str, last: bool = False) -> dict[Key, Note]:
    """Hand over what this process measured since the last time; after the last keep nothing more.

    Tasks of the run may still be running then.
    """
    with _lock:
        if last:
            _closed.add(run)
        return _notes.pop(run, {})


# -- at the driver ---


class _Expected(NamedTuple):
    label: str
    round_index: int
    source: NDArray[Any]
    destination: NDArray[Any]
    measured: dict[Key, Note]


class Measures:
    """Takes measurements in any order, fills `counters` exactly once."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self._rounds: dict[int, _Expected] = {}
        self._timed: set[Key] = set()
        # of each rank since the last wait
        self._busy: list[list[tuple[float, float]]] = [[] for _ in range(counters.n_ranks)]

    def expect(
        self, step: int, label: str, index: int, source: NDArray[Any], destination: NDArray[Any]
    ) -> None:
        """Announce the messages of a step."""
        self._rounds[step] = _Expected(label, index, source, destination, {})

    def expect_star(self, step: int, label: str) -> None:
        """Announce a fold: every rank but 0 to rank 0 in this step, and back in the next."""
        for index, ends in enumerate(star_rounds(self.counters.n_ranks)):
            self.expect(step + index, label, index, *ends)

    def add(self, notes: dict[Key, Note], timeline: Timeline | None = None) -> None:
        """Take what one process measured."""
        for key, note in notes.items():
            kind, name, rank = COMPUTING, note.name, key[1]
            if len(key) == 3:
                expected = self._rounds.get(key[0])
                if expected is None:
                    continue
                expected.measured[key[1:]] = note
                kind, name = SENDING, expected.label
            if key not in self._timed and note.end > note.begin:
                self._timed.add(key)
                self.counters.seconds_computing[rank] += note.end - note.begin
                self._busy[rank].append((note.begin, note.end))
                if timeline is not None:
                    timeline.add(Span(rank, kind, name, note.begin, note.end, note.nbytes))
        for step in sorted(self._rounds):
            label, index, source, destination, measured = self._rounds[step]
            if len(measured) == len(source):
                pairs = zip(source.tolist(), destination.tolist(), strict=True)
                sent = [measured[pair] for pair in pairs]
                rows, nbytes = [note.rows for note in sent], [note.nbytes for note in sent]
                self.counters.record_round(label, index, source, destination, rows, nbytes)
                del self._rounds[step]

    def add_wait(self, begin: float, end: float, timeline: Timeline | None = None) -> None:
        """Count a wait of the driver: what a rank did not compute of it, it was blocked."""
        for rank, busy in enumerate(self._busy):
            for since, until in _gaps(busy, begin, end):
                self.counters.seconds_blocked[rank] += until - since
                if timeline is not None:
                    timeline.add(Span(rank, BLOCKED, "waiting", since, until))
            busy.clear()


def _gaps(busy: list[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """What busy times leave free between `begin` and `end`."""
    gaps = []
    for since, until in sorted(busy):
        if since > begin:
            gaps.append((begin, min(since, end)))
        begin = max(begin, until)
    return [(start, stop) for start, stop in [*gaps, (begin, end)] if stop > start]
