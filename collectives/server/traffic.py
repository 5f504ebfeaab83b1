"""What went between ranks and shards, counted where it is sent, local and remote apart.

                   shard 0   shard 1   shard 2
    rank 0        ┌ local ┐
    rank 1                  ┌ local ┐            local: the shard lives on the rank's own worker,
    rank 2                            ┌ local ┐  so nothing goes over the network

A pull is a request of ids and a reply of rows, a push both in one message. Clocks, by which ranks
tell the shards how far they are, are counted apart: a placement has no say in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.tables import html_table, text_table
from daskpart.errors import InputError

Matrix = NDArray[np.int64]
CLOCK_BYTES = 8
QUANTITIES = ("pulls", "pushes", "rows_pulled", "rows_pushed", "bytes", "clocks")


class RankTraffic:
    """What one rank sent and received.

    Attributes
    ----------
    counts : dict from quantity to int64[n_shards]
    seconds_blocked : float
        Seconds that the rank waited for rows or for others.
    """

    def __init__(self, n_shards: int) -> None:
        self.counts = {name: np.zeros(n_shards, np.int64) for name in QUANTITIES}
        self.seconds_blocked = 0.0

    def count_pull(self, pieces: list[tuple[int, NDArray[Any]]], row_bytes: int) -> None:
        """Requests of slots, and the rows that answer them."""
        for shard, slots in pieces:
            self.counts["pulls"][shard] += 1
            self.counts["rows_pulled"][shard] += len(slots)
            self.counts["bytes"][shard] += slots.nbytes + len(slots) * row_bytes

    def count_push(self, pieces: list[tuple[int, NDArray[Any], NDArray[Any]]]) -> None:
        """Slots with rows."""
        for shard, slots, rows in pieces:
            self.counts["pushes"][shard] += 1
            self.counts["rows_pushed"][shard] += len(slots)
            self.counts["bytes"][shard] += slots.nbytes + rows.nbytes

    def count_clock(self, rank: int) -> None:
        """A clock to every shard but the rank's own."""
        self.counts["clocks"] += 1
        self.counts["clocks"][rank] -= 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the seconds inside as blocked."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds_blocked += perf_counter() - begin


class RankOutcome(NamedTuple):
    """Of one rank in a run: what it gave back and sent, and how stale its shard's answers were."""

    result: Any
    traffic: RankTraffic
    staleness: Counter[int]


@dataclass(eq=False, repr=False)
class ServerReport:
    """Traffic and waiting of a parameter server, over all its runs.

    Attributes
    ----------
    places : tuple of str
        Worker of each rank, and of the shard of the same number.
    counts : dict from quantity to int64[n_ranks, n_ranks]
        Rank × shard: ``pulls`` and ``pushes`` (a pull is a request and a reply), ``rows_pulled``,
        ``rows_pushed``, ``bytes`` (of ids and rows, without envelopes), ``clocks``.
    staleness : dict from int to int
        How many pulls found the slowest rank so many tasks behind their own: 0 saw everything, and
        it is never more than the delay. Without bound on the delay it is an upper bound: ranks tell
        how far they are only by their pulls and pushes then.
    seconds_blocked : float64[n_ranks]
        Seconds that ranks waited for rows or for other ranks.
    runs : int
    """

    places: tuple[str, ...]
    counts: dict[str, Matrix] = field(default_factory=dict)
    staleness: dict[int, int] = field(default_factory=dict)
    seconds_blocked: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    runs: int = 0

    def __post_init__(self) -> None:
        n_ranks = len(self.places)
        self.counts = self.counts or {n: np.zeros((n_ranks, n_ranks), np.int64) for n in QUANTITIES}
        if len(self.seconds_blocked) != n_ranks:
            self.seconds_blocked = np.zeros(n_ranks)

    def add_run(self, traffic: Sequence[RankTraffic], staleness: Sequence[Counter[int]]) -> None:
        """Add what the ranks and the shards counted in a run."""
        for rank, sent in enumerate(traffic):
            for name, counted in sent.counts.items():
                self.counts[name][rank] += counted
            self.seconds_blocked[rank] += sent.seconds_blocked
        total = sum(staleness, Counter(self.staleness))
        self.staleness = dict(sorted(total.items()))
        self.runs += 1

    @property
    def n_ranks(self) -> int:
        """Ranks, and as many shards."""
        return len(self.places)

    @property
    def is_local(self) -> NDArray[np.bool_]:
        """bool[n_ranks, n_ranks]: whether the shard lives on the rank's worker."""
        _, worker = np.unique(np.array(self.places), return_inverse=True)
        return worker[:, None] == worker[None, :]

    @property
    def messages(self) -> Matrix:
        """int64[n_ranks, n_ranks]: requests, replies and pushes."""
        return 2 * self.counts["pulls"] + self.counts["pushes"]

    @property
    def rows(self) -> Matrix:
        """int64[n_ranks, n_ranks]: rows pulled and pushed."""
        return self.counts["rows_pulled"] + self.counts["rows_pushed"]

    @property
    def bytes(self) -> Matrix:
        """int64[n_ranks, n_ranks]: bytes of ids and rows, pulled and pushed."""
        return self.counts["bytes"]

    def traffic(self, quantity: str = "rows") -> Matrix:
        """int64[n_ranks, n_ranks], rank × shard, of "messages", "rows", "bytes" or a count.

        `daskpart.plots.traffic(report)` draws it.
        """
        if quantity in ("messages", "rows", "bytes"):
            return getattr(self, quantity)
        if quantity not in self.counts:
            known = ("messages", "rows", "bytes", *self.counts)
            raise InputError(f"quantity is {quantity!r}: give one of {', '.join(known)}")
        return self.counts[quantity]

    @property
    def max_staleness(self) -> int:
        """The staleness of the stalest pull; 0 if there was none."""
        return max(self.staleness, default=0)

    def to_dict(self) -> dict[str, Any]:
        """Sums, local and remote apart, and the busiest worker's remote rows."""
        local = self.is_local
        rows = {}
        for name in ("messages", "rows", "bytes"):
            matrix = getattr(self, name)
            rows[f"{name}, local"] = int(matrix[local].sum())
            rows[f"{name}, remote"] = int(matrix[~local].sum())
        clocks = int(self.counts["clocks"][~local].sum())
        total = rows["rows, local"] + rows["rows, remote"]
        remote = np.where(local, 0, self.rows)
        return {
            "runs": self.runs,
            **rows,
            "share of rows that is remote": rows["rows, remote"] / total if total else 0.0,
            "remote rows of the busiest rank": int(remote.sum(axis=1).max(initial=0)),
            "remote rows of the busiest shard": int(remote.sum(axis=0).max(initial=0)),
            "clock messages, remote": clocks,
            "clock bytes, remote": CLOCK_BYTES * clocks,
            "staleness, maximum": self.max_staleness,
            "seconds blocked, mean": float(self.seconds_blocked.mean()),
        }

    def __repr__(self) -> str:
        return text_table(self._title(), self.to_dict())

    def _repr_html_(self) -> str:
        return html_table(self._title(), self.to_dict())

    def _title(self) -> str:
        workers = len(set(self.places))
        return f"ServerReport: {self.n_ranks} ranks and shards on {workers} workers"
