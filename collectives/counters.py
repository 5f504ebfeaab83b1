"""What a run sent and how long it took, per rank and round, measured and not predicted.

Messages, rows and bytes are taken from the arrays that really went. A round is logged when it was
posted on every rank. Rows count only what plans carry; the small values of an allreduce count as
messages and bytes with no rows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.tables import html_lines, text_lines
from daskpart.errors import InputError

from .traffic import COUNTS, QUANTITIES, RoundRecord, totals_of

_SECONDS = ("seconds_computing", "seconds_blocked")
_SHOWN_RANKS = 16


class Counters:
    """Measured traffic and time of a communicator.

    Attributes
    ----------
    n_ranks : int
    rounds : list of RoundRecord
        The rounds so far, in the order in which they were posted.
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

    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]
    bytes_sent: NDArray[np.int64]
    bytes_received: NDArray[np.int64]

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.reset()

    def reset(self) -> None:
        """Begin to count from zero."""
        self.rounds: list[RoundRecord] = []
        self.seconds_computing = np.zeros(self.n_ranks)
        self.seconds_blocked = np.zeros(self.n_ranks)
        self._n_counted = 0  # of the rounds: a run does not wait until they are added up
        self._totals: dict[str, dict[str, NDArray[np.int64]]] = {}  # of each label
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
        """Note a round by what a `RoundRecord` is made of; equal ones share one."""
        columns = np.array([source, destination, rows, nbytes], np.int64)
        key = label, index, columns.tobytes()
        if key not in self._known:
            self._known[key] = RoundRecord(label, index, *columns)
        self.record(self._known[key])

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        if name in QUANTITIES:
            return sum((totals[name] for totals in self._counted().values()), self._zeros())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def labels(self) -> list[str]:
        """Labels of the rounds seen, in order of appearance."""
        return list(self._counted())

    def of(self, label: str) -> dict[str, NDArray[np.int64]]:
        """The six counts of the rounds with one label, each of shape (n_ranks,)."""
        zeros = {name: self._zeros() for name in QUANTITIES}
        found = self._counted().get(label, zeros)
        return {name: counted.copy() for name, counted in found.items()}

    def traffic(self, label: str | None = None, quantity: str = "rows") -> NDArray[np.int64]:
        """What each rank (row) sent to each rank (column), shape (n_ranks, n_ranks).

        Parameters
        ----------
        label : str, optional
            Of the rounds with this label only.
        quantity : {"rows", "bytes", "messages"}
        """
        if quantity not in COUNTS:
            raise InputError(f"quantity={quantity!r}; allowed are {', '.join(COUNTS)}.")
        source, destination, amounts = _messages_of(
            [record for record in self.rounds if label in (None, record.label)]
        )
        total = np.zeros((self.n_ranks, self.n_ranks), dtype=np.int64)
        np.add.at(total, (source, destination), amounts[quantity])
        return total

    def to_dict(self) -> dict[str, Any]:
        """All counts as lists, and the number of rounds."""
        summary: dict[str, Any] = {
            name: getattr(self, name).tolist() for name in (*QUANTITIES, *_SECONDS)
        }
        return {"n_ranks": self.n_ranks, "n_rounds": len(self.rounds), **summary}

    def _counted(self) -> dict[str, dict[str, NDArray[np.int64]]]:
        """The totals of each label, those of the last rounds added."""
        new, self._n_counted = self.rounds[self._n_counted :], len(self.rounds)
        of_label: dict[str, list[RoundRecord]] = {}
        for record in new:
            of_label.setdefault(record.label, []).append(record)
        for label, records in of_label.items():
            empty = {name: self._zeros() for name in QUANTITIES}
            totals = self._totals.setdefault(label, empty)
            for name, counted in totals_of(*_messages_of(records), self.n_ranks).items():
                totals[name] += counted
        return self._totals

    def _zeros(self) -> NDArray[np.int64]:
        return np.zeros(self.n_ranks, dtype=np.int64)

    def _table(self) -> list[list[str]]:
        heads = ["rank", *(name.replace("_", " ") for name in (*QUANTITIES, *_SECONDS))]
        columns = [getattr(self, name) for name in (*QUANTITIES, *_SECONDS)]
        formats = ["{:,d}"] * len(QUANTITIES) + ["{:.3f}"] * len(_SECONDS)
        lines = [
            [str(rank), *(f.format(c[rank]) for f, c in zip(formats, columns, strict=True))]
            for rank in range(min(self.n_ranks, _SHOWN_RANKS))
        ]
        sums = [f.format(c.sum()) for f, c in zip(formats, columns, strict=True)]
        return [heads, *lines, ["all", *sums]]

    def __repr__(self) -> str:
        title = f"Counters: {self.n_ranks} ranks, {len(self.rounds)} rounds"
        return "\n".join([title, *text_lines(self._table())])

    def _repr_html_(self) -> str:
        table = html_lines(self._table(), f"{self.n_ranks} ranks, {len(self.rounds)} rounds")
        shown = range(min(self.n_ranks, _SHOWN_RANKS))
        pairs = self.traffic(quantity="bytes")[: len(shown), : len(shown)].tolist()
        lines = [[str(rank), *(f"{n:,}" for n in pairs[rank])] for rank in shown]
        sent = html_lines([["from ╲ to", *map(str, shown)], *lines], "bytes from rank to rank")
        return f"{table}<details><summary>From rank to rank</summary>{sent}</details>"


def value_bytes(value: Any) -> int:
    """Bytes of a small value that goes into an allreduce."""
    return int(np.asarray(value).nbytes)


def _messages_of(
    records: list[RoundRecord],
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """Sources, destinations and amounts of all messages of some rounds, each round once."""
    times = Counter(map(id, records))
    once = list({id(record): record for record in records}.values())
    lengths = [np.size(record.source) for record in once]
    source, destination = (
        _joined([getattr(record, side) for record in once], lengths)
        for side in ("source", "destination")
    )
    messages = _joined([times[id(record)] for record in once], lengths)
    rows, nbytes = (
        messages * _joined([getattr(record, amount) for record in once], lengths)
        for amount in ("rows", "nbytes")
    )
    return source, destination, dict(zip(COUNTS, (messages, rows, nbytes), strict=True))


def _joined(columns: list[ArrayLike], lengths: list[int]) -> NDArray[np.int64]:
    """Columns together; a number stands for as many as its round has messages."""
    each = [
        np.full(length, column) if np.ndim(column) == 0 else np.asarray(column)
        for column, length in zip(columns, lengths, strict=True)
    ]
    return np.concatenate([*each, np.zeros(0, np.int64)]).astype(np.int64)
