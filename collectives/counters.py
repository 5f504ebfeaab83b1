"""Messages of rounds, counted by rank: one record, one sum, for plans, runs and simulations.

    record of a round        source       0  0  2        what a plan says will be sent, what a run
    "expand", round 0        destination  1  2  0        sent, what a simulation would send
                             rows         2  1  2
                             bytes       16  8 16
    totals                   rank         0  1  2
                             rows sent    3  0  2        messages, rows, bytes × sent, received
                             rows received 2 2  1

A run is measured and not predicted: its figures are taken from the arrays that really went, and a
round is logged when it was posted on every rank. Rows count only what plans carry; the small values
of an allreduce count as messages and bytes with no rows.

Time under the α–β model (a message of b bytes takes α + βb seconds): a rank sends and receives at
the same time, so a round costs it the larger of both sides, a round lasts as long as its slowest
rank, and rounds follow each other:

    seconds = Σ_rounds max_rank max( α·messages_sent + β·bytes_sent,
                                     α·messages_received + β·bytes_received )
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor import words
from daskpart._floor.checks import finite_number, one_of
from daskpart._floor.tables import html_lines, text_lines

COUNTS = ("messages", "rows", "bytes")
SIDES = ("sent", "received")
QUANTITIES = tuple(f"{count}_{side}" for count in COUNTS for side in SIDES)
_SECONDS = ("seconds_computing", "seconds_blocked")
_SHOWN_RANKS = 16


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """The messages of one round.

    Attributes
    ----------
    label, index : str, int
        What the round belongs to, the kind of a plan or an algorithm, and its number in it.
    source, destination : int array of shape (n_messages,)
        No pair of ranks twice.
    rows, nbytes : array of shape (n_messages,), or one number for all
    """

    label: str
    index: int
    source: ArrayLike
    destination: ArrayLike
    rows: ArrayLike
    nbytes: ArrayLike

    def columns(self) -> Sequence[NDArray[Any]]:
        """Of each message source, destination, 1, rows and bytes."""
        return np.broadcast_arrays(self.source, self.destination, 1, self.rows, self.nbytes)

    def totals(self, n_ranks: int) -> dict[str, NDArray[Any]]:
        """The six `QUANTITIES`, each of shape (n_ranks,); int64, or float64 where amounts are."""
        return _totals(self.columns(), n_ranks)


def _totals(columns: Sequence[NDArray[Any]], n_ranks: int) -> dict[str, NDArray[Any]]:
    found = {}
    for count, of_each in zip(COUNTS, columns[2:], strict=True):
        dtype = np.float64 if of_each.dtype.kind == "f" else np.int64
        for side, ranks in zip(SIDES, columns[:2], strict=True):
            # float64 holds whole numbers exactly up to 2**53
            sums = np.bincount(np.asarray(ranks, np.int64), of_each, n_ranks)
            found[f"{count}_{side}"] = sums.astype(dtype, copy=False)
    return found


@dataclass(frozen=True, eq=False, repr=False)
class PlanStatistics:
    """Messages and rows that each rank sends and receives in each round of a plan.

    Attributes
    ----------
    messages_sent, messages_received, rows_sent, rows_received : int64 array, (n_rounds, n_ranks)
    """

    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]

    @classmethod
    def of_records(cls, records: Sequence[RoundRecord], n_ranks: int) -> PlanStatistics:
        """Count the rounds of a plan, each a record."""
        totals = [record.totals(n_ranks) for record in records]
        return cls(*(np.stack([found[name] for found in totals]) for name in QUANTITIES[:4]))

    def per_rank(self, quantity: str) -> NDArray[np.int64]:
        """One of the four quantities summed over rounds, shape (n_ranks,)."""
        return getattr(self, quantity).sum(axis=0)

    def seconds(self, alpha: float, beta: float, row_bytes: float) -> float:
        """Time under the α–β model, see the head of this module: α a message, β a byte."""
        named = (("alpha", alpha), ("beta", beta), ("row_bytes", row_bytes))
        alpha, beta, row_bytes = (finite_number(given, name) for name, given in named)
        busy = busy_seconds(vars(self), "rows", alpha, beta * row_bytes)
        return float(busy.max(axis=1).sum())

    def to_dict(self) -> dict[str, Any]:
        """Total, mean and maximum over ranks of each quantity (plain numbers)."""
        n_rounds, n_ranks = self.messages_sent.shape
        totals = {name: summary(self.per_rank(name)) for name in QUANTITIES[:4]}
        return {"n_ranks": n_ranks, "n_rounds": n_rounds, **totals}

    def _shown(self) -> tuple[str, list[list[str]]]:
        n_rounds, n_ranks = self.messages_sent.shape
        table = summary_table({name: self.per_rank(name) for name in QUANTITIES[:4]})
        return f"{words.counted(n_ranks, 'rank')}, {words.counted(n_rounds, 'round')}", table

    def __repr__(self) -> str:
        title, table = self._shown()
        return "\n  ".join([f"PlanStatistics: {title}", *text_lines(table)])

    def _repr_html_(self) -> str:
        title, table = self._shown()
        return html_lines(table, title)


def busy_seconds(
    totals: Mapping[str, NDArray[Any]], count: str, alpha: float, beta: float
) -> NDArray[np.float64]:
    """Seconds that each rank is busy in a round: α a message, β for each of another count."""
    sending, receiving = (
        alpha * totals[f"messages_{side}"] + beta * totals[f"{count}_{side}"] for side in SIDES
    )
    return np.maximum(sending, receiving)


def summary(counted: NDArray[Any]) -> dict[str, float]:
    """Total, mean and maximum over ranks, as plain numbers."""
    total, most = counted.sum().item(), counted.max().item()
    return {"total": total, "mean": float(counted.mean()), "max": most}


def summary_table(counted: Mapping[str, NDArray[Any]]) -> list[list[str]]:
    """The same of several quantities, as lines of cells."""
    table = [["per rank", "total", "mean", "max"]]
    for name, amounts in counted.items():
        entry = summary(amounts)
        numbers = [f"{entry['total']:,.0f}", f"{entry['mean']:,.1f}", f"{entry['max']:,.0f}"]
        table.append([name.replace("_", " "), *numbers])
    return table


class Counters:
    """Measured traffic and time of a communicator.

    Attributes
    ----------
    n_ranks : int
    rounds : list of RoundRecord
        The rounds so far, in the order in which they were posted.
    messages_sent, messages_received, rows_sent, rows_received, bytes_sent, bytes_received
        Each an int64 array of shape (n_ranks,).
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
        self.rounds: list[RoundRecord] = []
        self.seconds_computing = np.zeros(self.n_ranks)
        self.seconds_blocked = np.zeros(self.n_ranks)
        self._n_counted = 0  # of the rounds: a run does not wait until they are added up
        self._totals: dict[str, dict[str, Any]] = {}  # of each label
        self._known: dict[tuple[str, int, bytes], RoundRecord] = {}

    def record(self, record: RoundRecord) -> None:
        """Note a round; an object that was given before is counted faster."""
        self.rounds.append(record)

    def record_round(
        self,
        label: str,
        index: int,
        source: ArrayLike,
        destination: ArrayLike,
        rows: ArrayLike,
        nbytes: ArrayLike,
    ) -> None:
        """Note a round, told as in `RoundRecord`; equal ones share one record."""
        columns = np.array([source, destination, rows, nbytes], np.int64)
        key = label, index, columns.tobytes()
        if key not in self._known:
            self._known[key] = RoundRecord(label, index, *columns)
        self.record(self._known[key])

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        if name in QUANTITIES:
            zeros = np.zeros(self.n_ranks, np.int64)
            return sum((totals[name] for totals in self._counted().values()), zeros)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def labels(self) -> list[str]:
        """Labels of the rounds seen, in order of appearance."""
        return list(self._counted())

    def of(self, label: str) -> dict[str, NDArray[np.int64]]:
        """The six counts of the rounds with one label, each of shape (n_ranks,)."""
        found = self._counted().get(label) or _totals(_columns_of([]), self.n_ranks)
        return {name: counted.copy() for name, counted in found.items()}

    def traffic(self, label: str | None = None, quantity: str = "rows") -> NDArray[np.int64]:
        """What each rank (row) sent to each rank (column), shape (n_ranks, n_ranks).

        Parameters
        ----------
        label : str, optional
            Of the rounds with this label only.
        quantity : {"rows", "bytes", "messages"}
        """
        one_of(quantity, "quantity", COUNTS)
        records = [record for record in self.rounds if label in (None, record.label)]
        source, destination, *amounts = _columns_of(records)
        total = np.zeros((self.n_ranks, self.n_ranks), dtype=np.int64)
        np.add.at(total, (source, destination), amounts[COUNTS.index(quantity)])
        return total

    def to_dict(self) -> dict[str, Any]:
        """All counts as lists, and the number of rounds."""
        summed = {name: getattr(self, name).tolist() for name in (*QUANTITIES, *_SECONDS)}
        return {"n_ranks": self.n_ranks, "n_rounds": len(self.rounds), **summed}

    def _counted(self) -> dict[str, dict[str, Any]]:
        """The totals of each label, those of the last rounds added."""
        of_label: dict[str, list[RoundRecord]] = {}
        for record in self.rounds[self._n_counted :]:
            of_label.setdefault(record.label, []).append(record)
        self._n_counted = len(self.rounds)
        for label, records in of_label.items():
            found = _totals(_columns_of(records), self.n_ranks)
            before = self._totals.get(label, dict.fromkeys(QUANTITIES, 0))
            self._totals[label] = {name: before[name] + found[name] for name in QUANTITIES}
        return self._totals

    def _table(self) -> list[list[str]]:
        table = [["rank", *map(str, range(min(self.n_ranks, _SHOWN_RANKS))), "all"]]
        for name in (*QUANTITIES, *_SECONDS):
            counted, form = getattr(self, name), ".3f" if name in _SECONDS else ",d"
            numbers = [*counted[:_SHOWN_RANKS].tolist(), counted.sum().item()]
            table.append([name.replace("_", " "), *(format(n, form) for n in numbers)])
        return [list(line) for line in zip(*table, strict=True)]

    @property
    def _title(self) -> str:
        return f"{words.counted(self.n_ranks, 'rank')}, {words.counted(len(self.rounds), 'round')}"

    def __repr__(self) -> str:
        return "\n".join([f"Counters: {self._title}", *text_lines(self._table())])

    def _repr_html_(self) -> str:
        table = html_lines(self._table(), self._title)
        shown = range(min(self.n_ranks, _SHOWN_RANKS))
        pairs = self.traffic(quantity="bytes")[: len(shown), : len(shown)].tolist()
        lines = [[str(rank), *(f"{n:,}" for n in pairs[rank])] for rank in shown]
        sent = html_lines([["from ╲ to", *map(str, shown)], *lines], "bytes from rank to rank")
        return f"{table}<details><summary>From rank to rank</summary>{sent}</details>"


def star_rounds(n_ranks: int) -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    """Sources and destinations of a star: every rank but 0 to rank 0, and back."""
    others = np.arange(1, n_ranks)
    root = np.zeros_like(others)
    return (others, root), (root, others)


def value_bytes(value: Any) -> int:
    """Bytes of a small value that goes into an allreduce, or of a tuple or list of such."""
    if isinstance(value, (tuple, list)):  # of unequal lengths, perhaps
        return sum(map(value_bytes, value))
    nbytes = getattr(value, "nbytes", None)  # of what NumPy would refuse to make dense, too
    return int(nbytes if isinstance(nbytes, Integral) else np.asarray(value).nbytes)


def _columns_of(records: Sequence[RoundRecord]) -> list[NDArray[np.int64]]:
    """The columns of all rounds; one that came again is there once, with amounts of all times."""
    columns = [
        np.array(record.columns(), np.int64) * np.array([1, 1, times, times, times])[:, None]
        for record, times in Counter(records).items()
    ]
    return list(np.concatenate([np.zeros((5, 0), np.int64), *columns], axis=1))
