"""What a run sent and how long it took, per rank and round, measured and not predicted.

Messages, rows and bytes are taken from the arrays that really travelled. A round is logged when
it was posted on every rank. Rows count only what plans carry; the small values of an allreduce
count as messages and bytes with no rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.tables import html_lines, text_lines
from daskpart.errors import InputError

from .heat_map import heat_table

_QUANTITIES = (
    "messages_sent",
    "messages_received",
    "rows_sent",
    "rows_received",
    "bytes_sent",
    "bytes_received",
)
_TRAFFIC = ("messages", "rows", "bytes")
_SECONDS = ("seconds_computing", "seconds_blocked")


class RawRound(NamedTuple):
    """The messages of a round, no pair of ranks twice; arrays of shape (n_messages,)."""

    label: str
    place: int
    source: ArrayLike
    destination: ArrayLike
    rows: ArrayLike
    nbytes: ArrayLike


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """One round as it was sent; arrays of shape (n_ranks,), bytes in bytes."""

    label: str
    index: int
    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]
    bytes_sent: NDArray[np.int64]
    bytes_received: NDArray[np.int64]


class Counters:
    """Measured traffic and time of a communicator.

    Attributes
    ----------
    n_ranks : int
    messages_sent, messages_received : int64 array of shape (n_ranks,)
    rows_sent, rows_received : int64 array of shape (n_ranks,)
    bytes_sent, bytes_received : int64 array of shape (n_ranks,)
    seconds_computing : float64 array of shape (n_ranks,)
        Seconds inside the functions that the text gave to the rank.
    seconds_blocked : float64 array of shape (n_ranks,)
        Seconds a rank waited for others. On the local transport: for the ranks it receives from,
        as if every rank had a core of its own. On a task graph: all time that it was not
        computing.
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.reset()

    def reset(self) -> None:
        """Begin to count from zero."""
        self._totals = {name: np.zeros(self.n_ranks, dtype=np.int64) for name in _QUANTITIES}
        self.seconds_computing = np.zeros(self.n_ranks)
        self.seconds_blocked = np.zeros(self.n_ranks)
        self._rounds: list[RoundRecord] = []
        self._uncounted: list[RawRound] = []
        self._traffic: dict[str, NDArray[np.int64]] = {}

    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]
    bytes_sent: NDArray[np.int64]
    bytes_received: NDArray[np.int64]

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        if name in _QUANTITIES:
            self._count()
            return self._totals[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def record_round(
        self,
        label: str,
        index: int,
        source: ArrayLike,
        destination: ArrayLike,
        rows: ArrayLike,
        nbytes: ArrayLike,
    ) -> None:
        """Note the messages of a round; arrays of shape (n_messages,), no pair of ranks twice.

        They are added up when somebody looks: a run does not wait for its book-keeping.
        """
        self.record(RawRound(label, index, source, destination, rows, nbytes))

    def record(self, raw: RawRound) -> None:
        """The same as `record_round`; an object that was given before is counted faster."""
        self._uncounted.append(raw)

    @property
    def rounds(self) -> list[RoundRecord]:
        """The rounds so far, in the order in which they were posted."""
        self._count()
        return self._rounds

    def _count(self) -> None:
        records: dict[int, RoundRecord] = {}
        uncounted, self._uncounted = self._uncounted, []
        times = Counter(map(id, uncounted))
        for raw in uncounted:
            if id(raw) not in records:
                records[id(raw)] = self._added(raw, times[id(raw)])
            self._rounds.append(records[id(raw)])

    def _added(self, raw: RawRound, times: int) -> RoundRecord:
        """Add up a round that was sent so many times."""
        source, destination, n_rows, n_bytes = (
            np.asarray(column, dtype=np.int64) for column in raw[2:]
        )
        counted = {}
        for quantity, weights in zip(_TRAFFIC, (None, n_rows, n_bytes), strict=True):
            for side, ranks in (("sent", source), ("received", destination)):
                sums = np.bincount(ranks, weights, self.n_ranks).astype(np.int64)
                counted[f"{quantity}_{side}"] = sums
                self._totals[f"{quantity}_{side}"] += times * sums
        if raw.label not in self._traffic:
            self._traffic[raw.label] = np.zeros((3, self.n_ranks, self.n_ranks), dtype=np.int64)
        amounts = (np.ones_like(source), n_rows, n_bytes)
        for pairs, amount in zip(self._traffic[raw.label], amounts, strict=True):
            pairs[source, destination] += times * amount
        return RoundRecord(label=raw.label, index=raw.place, **counted)

    @property
    def labels(self) -> list[str]:
        """Labels of the rounds seen, in order of appearance."""
        self._count()
        return list(self._traffic)

    def of(self, label: str) -> dict[str, NDArray[np.int64]]:
        """The six counts of the rounds with one label, each of shape (n_ranks,)."""
        return {
            name: sum(
                (getattr(record, name) for record in self.rounds if record.label == label),
                np.zeros(self.n_ranks, dtype=np.int64),
            )
            for name in _QUANTITIES
        }

    def traffic(self, label: str | None = None, quantity: str = "rows") -> NDArray[np.int64]:
        """What each rank (row) sent to each rank (column), shape (n_ranks, n_ranks).

        Parameters
        ----------
        label : str, optional
            Of the rounds with this label only.
        quantity : {"rows", "bytes", "messages"}
        """
        if quantity not in _TRAFFIC:
            raise InputError(f"quantity={quantity!r}; allowed are {', '.join(_TRAFFIC)}.")
        self._count()
        total = np.zeros((self.n_ranks, self.n_ranks), dtype=np.int64)
        for name, counts in self._traffic.items():
            if label in (None, name):
                total += counts[_TRAFFIC.index(quantity)]
        return total

    def to_dict(self) -> dict[str, Any]:
        """All counts as lists, and the number of rounds."""
        summary: dict[str, Any] = {
            name: getattr(self, name).tolist() for name in (*_QUANTITIES, *_SECONDS)
        }
        return {"n_ranks": self.n_ranks, "n_rounds": len(self.rounds), **summary}

    def _table(self) -> list[list[str]]:
        heads = ["rank", *(name.replace("_", " ") for name in (*_QUANTITIES, *_SECONDS))]
        columns = [getattr(self, name) for name in (*_QUANTITIES, *_SECONDS)]
        formats = ["{:,d}"] * len(_QUANTITIES) + ["{:.3f}"] * len(_SECONDS)
        shown = range(min(self.n_ranks, 16))
        lines = [
            [str(rank), *(f.format(c[rank]) for f, c in zip(formats, columns, strict=True))]
            for rank in shown
        ]
        sums = [f.format(c.sum()) for f, c in zip(formats, columns, strict=True)]
        return [heads, *lines, ["all", *sums]]

    def __repr__(self) -> str:
        title = f"Counters: {self.n_ranks} ranks, {len(self.rounds)} rounds"
        return "\n".join([title, *text_lines(self._table())])

    def _repr_html_(self) -> str:
        table = html_lines(self._table(), f"{self.n_ranks} ranks, {len(self.rounds)} rounds")
        pairs = heat_table(self.traffic(quantity="bytes"), "bytes")
        return f"{table}<details><summary>From rank to rank</summary>{pairs}</details>"


def value_bytes(value: Any) -> int:
    """Bytes of a small value that travels in an allreduce."""
    return int(np.asarray(value).nbytes)
