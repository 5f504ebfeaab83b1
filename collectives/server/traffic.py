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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor import words
from daskpart._floor.checks import one_of
from daskpart._floor.tables import ShownAsTable

Matrix = NDArray[np.int64]
_CLOCK_BYTES = 8
_COUNTED = ("pulls", "pushes", "rows_pulled", "rows_pushed", "bytes", "clocks")


class RankTraffic:
    """What one rank sent to each shard and received, and the seconds that it waited."""

    def __init__(self, n_shards: int) -> None:
        self.counts = {name: np.zeros(n_shards, np.int64) for name in _COUNTED}
        self.seconds_blocked = 0.0

    def count(self, shard: int, **amounts: int) -> None:
        """Add to what went between the rank and a shard."""
        for name, amount in amounts.items():
            self.counts[name][shard] += amount


class RankOutcome(NamedTuple):
    """Of one rank in a run: what it gave back and sent, and how stale its shard's answers were."""

    result: Any
    traffic: RankTraffic
    staleness: Counter[int]


class ServerReport(ShownAsTable):
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

    def __init__(self, places: Sequence[str]) -> None:
        self.places, n_ranks = tuple(places), len(places)
        self.counts = {name: np.zeros((n_ranks, n_ranks), np.int64) for name in _COUNTED}
        self.staleness: dict[int, int] = {}
        self.seconds_blocked = np.zeros(n_ranks)
        self.runs = 0

    def add_run(self, outcomes: Sequence[RankOutcome]) -> None:
        """Add what the ranks and the shards counted in a run."""
        for rank, outcome in enumerate(outcomes):
            for name, counted in outcome.traffic.counts.items():
                self.counts[name][rank] += counted
            self.seconds_blocked[rank] += outcome.traffic.seconds_blocked
        total = sum((outcome.staleness for outcome in outcomes), Counter(self.staleness))
        self.staleness = dict(sorted(total.items()))
        self.runs += 1

    @property
    def is_local(self) -> NDArray[np.bool_]:
        """bool[n_ranks, n_ranks]: whether the shard lives on the rank's worker."""
        places = np.array(self.places)
        return places[:, None] == places[None, :]

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
        known = {"messages": self.messages, "rows": self.rows, **self.counts}
        return known[one_of(quantity, "quantity", known)]

    @property
    def max_staleness(self) -> int:
        """The staleness of the stalest pull; 0 if there was none."""
        return max(self.staleness, default=0)

    @property
    def mean_staleness(self) -> float:
        """By how many tasks pulls found the slowest rank behind, in the mean; 0 without pulls."""
        total = sum(behind * pulls for behind, pulls in self.staleness.items())
        return total / max(1, sum(self.staleness.values()))

    def to_dict(self) -> dict[str, Any]:
        """Sums, local and remote apart, and the busiest worker's remote rows."""
        local = self.is_local
        sums = {}
        for name in ("messages", "rows", "bytes"):
            matrix = self.traffic(name)
            sums[f"{name}, local"] = int(matrix[local].sum())
            sums[f"{name}, remote"] = int(matrix[~local].sum())
        clocks = int(self.counts["clocks"][~local].sum())
        remote = np.where(local, 0, self.rows)
        return {
            "runs": self.runs,
            **sums,
            "share of rows that is remote": sums["rows, remote"] / max(int(self.rows.sum()), 1),
            "remote rows of the busiest rank": int(remote.sum(axis=1).max()),
            "remote rows of the busiest shard": int(remote.sum(axis=0).max()),
            "clock messages, remote": clocks,
            "clock bytes, remote": _CLOCK_BYTES * clocks,
            "staleness, mean": self.mean_staleness,
            "staleness, maximum": self.max_staleness,
            "seconds blocked, mean": float(self.seconds_blocked.mean()),
        }

    @property
    def _title(self) -> str:
        n_ranks, n_workers = len(self.places), len(set(self.places))
        ranks, workers = words.counted(n_ranks, "rank"), words.counted(n_workers, "worker")
        return f"ServerReport: {ranks} and shards on {workers}"
