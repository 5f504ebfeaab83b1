"""When each rank computed, sent and waited: what a run looked like, and not only what it cost.

    rank 0   ████████▒▒······████
    rank 1   ████▒▒··············      █ computing   ▒ sending   · blocked
             0 s            0.4 s

Recording is off until it is asked for: ``communicator.record_timeline()`` for one communicator,
`record_timelines` for those that an estimator makes inside. It costs a few numbers a step, which
come to the driver with the counts.

Which clock. On the SPMD and graph transports every process notes its own time of day, and lengths
by its monotonic clock: on one machine ranks agree to some microseconds, on several as well as
their clocks are set (NTP: within milliseconds). On the local transport ranks share cores, so there
each has a clock of its own, which runs while the rank computes and is set forward when it waits:
the picture is that of ranks with a core each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from time import perf_counter, time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.checks import one_of
from daskpart._floor.words import counted

COMPUTING, SENDING, BLOCKED = range(3)
KINDS = ("computing", "sending", "blocked")
_SIGNS = " █▒·"  # of nothing, and of each kind
_COLUMNS, _SHOWN_RANKS = 64, 16

_OFFSET = time() - perf_counter()
_recordings: ContextVar[list[Timeline] | None] = ContextVar("daskpart_timelines", default=None)


def now() -> float:
    """Seconds since 1970 by this process, never going back."""
    return time_of(perf_counter())


def time_of(counted: float) -> float:
    """The same, of what `perf_counter` showed in this process."""
    return _OFFSET + counted


class Span(NamedTuple):
    """What one rank did from `begin` to `end` (seconds, of one clock for all ranks)."""

    rank: int
    kind: int
    name: str
    begin: float
    end: float
    nbytes: int = 0


class Timeline:
    """Spans of time of all ranks of a run; fills while the run goes on.

    Parameters
    ----------
    n_ranks : int

    Attributes
    ----------
    n_ranks : int
    spans : list of Span
        In no order. `kind` is a place in `KINDS`: "computing" is time inside the functions that the
        text gave, "sending" the packing of messages and handing them over, "blocked" waiting for
        others. `name` is that of the function or of the round; `nbytes` what was sent.

    Examples
    --------
    >>> timeline = Timeline(2)
    >>> timeline.add(Span(0, COMPUTING, "multiply", 0.0, 2.0))
    >>> timeline.add(Span(1, BLOCKED, "expand", 1.0, 2.0))
    >>> timeline.seconds("computing")
    array([2., 0.])
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        """One more span."""
        self.spans.append(span)

    @property
    def begin(self) -> float:
        """Begin of the first span."""
        return min((span.begin for span in self.spans), default=0.0)

    @property
    def duration(self) -> float:
        """Seconds from the begin of the first span to the end of the last."""
        return max((span.end for span in self.spans), default=0.0) - self.begin

    def seconds(self, kind: str) -> NDArray[np.float64]:
        """Seconds that each rank spent in one of `KINDS`, shape (n_ranks,)."""
        one_of(kind, "kind", KINDS)
        total = np.zeros(self.n_ranks)
        for span in self.spans:
            if KINDS[span.kind] == kind:
                total[span.rank] += span.end - span.begin
        return total

    def by_name(self) -> dict[tuple[str, str], float]:
        """(kind, name) → seconds over all ranks, the largest first: where the time went."""
        total: dict[tuple[str, str], float] = {}
        for span in self.spans:
            key = (KINDS[span.kind], span.name)
            total[key] = total.get(key, 0.0) + span.end - span.begin
        return dict(sorted(total.items(), key=lambda entry: -entry[1]))

    def between(self, begin: float, end: float) -> Timeline:
        """From `begin` to `end`, in seconds since the first span began; other spans are cut."""
        part = Timeline(self.n_ranks)
        begin, end = self.begin + begin, self.begin + end
        for span in self.spans:
            if span.begin < end and span.end > begin:
                part.add(span._replace(begin=max(span.begin, begin), end=min(span.end, end)))
        return part

    def shares(self, n_columns: int) -> NDArray[np.float64]:
        """How much of each of `n_columns` slices of the duration a rank spent in each kind.

        Returns
        -------
        float64 array of shape (n_ranks, len(KINDS), n_columns)
            Shares from 0 to 1; those of a slice add up to at most 1.
        """
        edges = np.linspace(0.0, self.duration, n_columns + 1)
        covered = np.zeros((self.n_ranks, len(KINDS), n_columns))
        times: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for span in self.spans:
            times.setdefault((span.rank, span.kind), []).append((span.begin, span.end))
        first = self.begin
        for (rank, kind), pairs in times.items():
            begins, ends = np.array(pairs).T - first
            covered[rank, kind] = np.diff(_elapsed(begins, edges) - _elapsed(ends, edges))
        shares = covered * (n_columns / self.duration) if self.duration else covered
        return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)  # tasks may overlap

    def to_dict(self) -> dict[str, Any]:
        """Seconds of each kind and rank, and where the time went, as plain numbers."""
        seconds = {f"seconds_{kind}": self.seconds(kind).tolist() for kind in KINDS}
        by_name = [[*key, spent] for key, spent in self.by_name().items()]
        sizes = {"n_ranks": self.n_ranks, "n_spans": len(self.spans), "duration": self.duration}
        return {**sizes, **seconds, "by_name": by_name}

    def save(self, path: str | Path) -> None:
        """Write the spans to an .npz file (no pickle inside)."""
        names = sorted({span.name for span in self.spans})
        place = {name: index for index, name in enumerate(names)}
        rows = [(s.rank, s.kind, place[s.name], s.nbytes) for s in self.spans]
        with replacing(path) as file:
            np.savez(
                file,
                n_ranks=np.array(self.n_ranks),
                names=np.array(names, dtype=np.str_),
                what=np.array(rows, dtype=np.int64).reshape(-1, 4),
                times=np.array([(s.begin, s.end) for s in self.spans]).reshape(-1, 2),
            )

    @classmethod
    def load(cls, path: str | Path) -> Timeline:
        """Read a timeline that `save` wrote; ReadError for a damaged file."""
        with opened_npz(path) as stored:
            timeline = cls(int(stored["n_ranks"]))
            names, times = stored["names"].tolist(), stored["times"].tolist()
            for what, (begin, end) in zip(stored["what"].tolist(), times, strict=True):
                rank, kind, name, nbytes = what
                timeline.add(Span(rank, kind, names[name], begin, end, nbytes))
            return timeline

    def __repr__(self) -> str:
        """Seconds of all, a bar a rank, what the signs mean; `daskpart.plots.timeline` draws it."""
        sums = ", ".join(f"{kind} {self.seconds(kind).sum():.3g} s" for kind in KINDS)
        ranks = counted(self.n_ranks, "rank")
        title = f"Timeline: {ranks}, {self.duration:.3g} s; all ranks together {sums}"
        shares = self.shares(_COLUMNS)
        nothing = 1.0 - shares.sum(axis=1, keepdims=True)
        most = np.concatenate((nothing, shares), axis=1).argmax(axis=1)  # of each slice of time
        shown = min(self.n_ranks, _SHOWN_RANKS)
        width = len(f"{shown - 1}")
        bars = [
            f"  rank {rank:<{width}}  {''.join(_SIGNS[kind] for kind in slices)}".rstrip()
            for rank, slices in enumerate(most[:shown].tolist())
        ]
        more = [f"  {self.n_ranks - shown} more ranks"] if self.n_ranks > shown else []
        key = "   ".join(f"{sign} {kind}" for sign, kind in zip(_SIGNS[1:], KINDS, strict=True))
        return "\n".join([title, *bars, *more, f"  {key}"])


@contextmanager
def record_timelines() -> Iterator[list[Timeline]]:
    """Record a timeline of every communicator that is made inside, such as that of a fit.

    Yields
    ------
    list of Timeline
        One a communicator, in the order in which they are made.

    Examples
    --------
    >>> from daskpart.collectives import LocalCommunicator, barrier
    >>> with record_timelines() as timelines, LocalCommunicator(2) as communicator:
    ...     barrier(communicator)
    >>> timelines[0].n_ranks
    2
    """
    timelines: list[Timeline] = []
    token = _recordings.set(timelines)
    try:
        yield timelines
    finally:
        _recordings.reset(token)


def timeline_if_recorded(n_ranks: int) -> Timeline | None:
    """A timeline for a new communicator, if it is made inside of `record_timelines`."""
    if (recording := _recordings.get()) is None:
        return None
    recording.append(Timeline(n_ranks))
    return recording[-1]


def name_of(function: Callable[..., Any]) -> str:
    """A function's name, for spans and for names of tasks."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).strip("_<>").replace(" ", "-")


def _elapsed(starts: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """At each edge the sum of the seconds since every start that is past."""
    starts = np.sort(starts)
    past = np.searchsorted(starts, edges)
    sums = np.concatenate(([0.0], np.cumsum(starts)))
    return past * edges - sums[past]
