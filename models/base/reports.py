"""What a fit will send and hold, and what it did: results that print themselves.

    PlanReport             before: from the plan alone; a model adds what it knows beside it
    CommunicationReport    after: counted messages beside the planned ones, memory used
    Printable              title(), rows() ──► repr, _repr_html_, to_dict, from_dict

Rows are rows of factors, features, gradients: what a model sends. Values of one step are means over
the steps of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.tables import fixed, html_table, text_table
from daskpart._floor.words import counted
from daskpart.collectives.counters import Counters

from .registry import register

SENT = ("messages", "rows")  # of the rounds that count apart


class Printable:
    """Text, HTML and JSON of a dataclass that offers a title, rows of words and derived values."""

    _derived: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register(cls)

    def title(self) -> str:
        """One line that says what this is about."""
        raise NotImplementedError

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_table(self.title(), self.rows())

    def _repr_html_(self) -> str:
        return html_table(self.title(), self.rows())

    def to_dict(self) -> dict[str, Any]:
        """All fields and derived values as JSON takes them (arrays as lists)."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return {name: _jsonable(getattr(self, name)) for name in (*names, *self._derived)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The report that `to_dict` described; what an older one lacks has its default."""
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: values[name] for name in names if name in values})


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _jsonable(each) for name, each in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def value_words(value: Any) -> str:
    """A parameter in JSON as Python shows it: lists as tuples."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {value_words(each)}' for name, each in value.items())}}}"
    if isinstance(value, list | tuple):
        held = ", ".join(map(value_words, value))
        return f"({held},)" if len(value) == 1 else f"({held})"
    return repr(value)


def number_words(value: float) -> str:
    """A count: thousands grouped, two digits where it is not whole."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def spread_words(seconds: NDArray[Any]) -> str:
    """Mean and maximum over ranks."""
    if not seconds.size:
        return "0.00 s"
    mean, most = fixed(seconds.mean(), 2), fixed(seconds.max(), 2)
    return f"{mean} s a rank on average, {most} s at most"


def share_words(part: NDArray[Any], rest: NDArray[Any]) -> str:
    """The share that some seconds are of these and the others."""
    total = float(part.sum() + rest.sum())
    return f", {part.sum() / total:.0%} of the time" if total else ""


def bytes_words(value: float) -> str:
    """An amount of bytes in the unit that fits."""
    amount = float(value)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"


@dataclass(eq=False, repr=False, kw_only=True)
class PlanReport(Printable):
    """What one step of a fit costs; known before any training. Models add to it.

    Attributes
    ----------
    n_ranks : int
    unit : str
        What a step is called.
    partitioner : str
        How the data were split.
    memory : dict of str to int64 ndarray of shape (n_ranks,)
        Bytes that each rank will hold, by what they are for.
    seconds : float
        Time the partitioner took.
    validation_volume : int
        Rows that are sent after a step, so that ranks can measure what is held out.
    """

    n_ranks: int
    unit: str
    partitioner: str
    memory: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    seconds: float = 0.0
    validation_volume: int = 0

    def __post_init__(self) -> None:
        self.memory = {name: np.asarray(held, np.int64) for name, held in self.memory.items()}

    @property
    def memory_of_ranks(self) -> NDArray[np.int64]:
        """Bytes that each rank will hold, of shape (n_ranks,)."""
        return np.sum([*self.memory.values(), np.zeros(self.n_ranks, np.int64)], axis=0)

    @property
    def how(self) -> str:
        """In some words how the data are split and sent."""
        return self.partitioner

    def title(self) -> str:
        """One line that says what this is about."""
        return f"Plan: {counted(self.n_ranks, 'rank')} by {self.partitioner!r}"

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        words = {}
        if self.validation_volume:
            words["validation"] = f"{self.validation_volume:,} rows after each {self.unit}"
        if self.memory:
            total = self.memory_of_ranks
            fullest = int(total.argmax())
            parts = ", ".join(
                f"{name} {bytes_words(held[fullest])}" for name, held in self.memory.items()
            )
            mean, most = bytes_words(total.mean()), bytes_words(total[fullest])
            words["memory a rank"] = f"{mean} on average, {most} at most (rank {fullest}: {parts})"
        return {**words, "partitioning took": f"{fixed(self.seconds, 2)} s"}


@dataclass(frozen=True, eq=False)
class Expected:
    """What one step is planned to send; without anything, that data decide it.

    Attributes
    ----------
    rows, messages : int64 ndarray of shape (n_ranks,)
        That each rank sends; empty where data decide.
    nbytes : int or None
        Of all messages whose labels count; None where they carry more than rows.
    row_labels, message_labels : tuple of str or None
        Labels of the rounds whose rows, and whose messages, are counted; None: all.
    counted : dict of str to int
        What else is expected: names as in `Step.counted`.
    beside : dict of str to (int, int)
        Labels of rounds that count apart from these, with their messages and rows, of all ranks.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    messages: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    nbytes: int | None = None
    row_labels: tuple[str, ...] | None = None
    message_labels: tuple[str, ...] | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """All that is expected beside rows, messages and bytes."""
        apart = {
            f"{label} {what}": count
            for label, counts in self.beside.items()
            for what, count in zip(SENT, counts, strict=True)
        }
        return {**self.counted, **apart}


class Traffic:
    """Sums of the counters of whole steps.

    Parameters
    ----------
    n_ranks : int
    expected : Expected or None
        Says which labels are counted; None: all.
    """

    def __init__(self, n_ranks: int, expected: Expected | None) -> None:
        self.n_steps = 0
        self._expected = Expected() if expected is None else expected
        self.messages, self.rows, self.bytes = np.zeros((3, n_ranks), np.int64)
        self.computing, self.blocked = np.zeros((2, n_ranks))
        self.pairs, self.byte_pairs = np.zeros((2, n_ranks, n_ranks), np.int64)
        self.counted: dict[str, int] = {}

    def _there(self, counters: Any, counted: tuple[str, ...] | None) -> list[str]:
        """Labels of rounds that were sent, those that count; None: all but what counts apart."""
        return [
            label
            for label in counters.labels
            if label not in self._expected.beside and (counted is None or label in counted)
        ]

    def measured(self, counters: Any) -> dict[str, NDArray[Any]]:
        """Messages, rows and bytes that each rank sent, by the labels that count."""
        expected = self._expected
        of_rows = [counters.of(label) for label in self._there(counters, expected.row_labels)]
        of_all = [counters.of(label) for label in self._there(counters, expected.message_labels)]
        none = np.zeros(counters.n_ranks, np.int64)
        return {
            "rows": sum((of["rows_sent"] for of in of_rows), none),
            "messages": sum((of["messages_sent"] for of in of_all), none),
            "bytes": sum((of["bytes_sent"] for of in of_all), none),
        }

    def of_steps(self, counters: Any, steps: Sequence[Any]) -> list[dict[str, int]]:
        """Messages, rows and bytes of all ranks in each step of one run."""
        lengths = [step.n_rounds for step in steps]
        if len(steps) == 1 or None in lengths:
            sent = self.measured(counters).items()
            return [{name: int(of.sum()) // len(steps) for name, of in sent}] * len(steps)
        known: dict[tuple[Any, ...], dict[str, int]] = {}  # steps mostly send the same
        found, rounds = [], iter(counters.rounds)
        for length in lengths:
            own = tuple(islice(rounds, length))
            if own not in known:
                of_step = Counters(counters.n_ranks)
                of_step.rounds = list(own)
                sent = self.measured(of_step).items()
                known[own] = {name: int(of.sum()) for name, of in sent}
            found.append(known[own])
        return found

    def add(self, counters: Any, steps: Sequence[Any]) -> None:
        """Count the steps of one run."""
        found = self.measured(counters)
        self.n_steps += len(steps)
        self.messages = self.messages + found["messages"]
        self.rows = self.rows + found["rows"]
        self.bytes = self.bytes + found["bytes"]
        self.computing = self.computing + counters.seconds_computing
        self.blocked = self.blocked + counters.seconds_blocked
        for label in self._there(counters, self._expected.row_labels):
            self.pairs = self.pairs + counters.traffic(label)
        if not self.rows.any():  # arrays alone, as of a dense allreduce
            for label in self._there(counters, self._expected.message_labels):
                self.byte_pairs = self.byte_pairs + counters.traffic(label, "bytes")
        counts = [step.counted for step in steps]
        for label in self._expected.beside:
            if label in counters.labels:
                sent = counters.of(label)
                counts.append({f"{label} {each}": int(sent[f"{each}_sent"].sum()) for each in SENT})
        for each in counts:
            for name, count in each.items():
                self.counted[name] = self.counted.get(name, 0) + count

    def report(
        self,
        *,
        unit: str,
        how: str,
        transport: str,
        memory: Sequence[int],
        memory_expected: Sequence[int],
    ) -> CommunicationReport:
        """The sums beside what was planned."""
        done, expected = max(1, self.n_steps), self._expected
        return CommunicationReport(
            unit=unit,
            how=how,
            transport=transport,
            n_ranks=len(self.rows),
            n_steps=self.n_steps,
            measured_messages=self.messages / done,
            expected_messages=expected.messages,
            measured_rows=self.rows / done,
            expected_rows=expected.rows,
            measured_bytes=float(self.bytes.sum() / done),
            expected_bytes=expected.nbytes,
            measured_counts={name: count / done for name, count in self.counted.items()},
            expected_counts=expected.counts,
            seconds_computing=self.computing,
            seconds_blocked=self.blocked,
            traffic=self.pairs / done,
            traffic_bytes=np.zeros(0) if self.rows.any() else self.byte_pairs / done,
            memory=memory,  # type: ignore[arg-type]
            expected_memory=memory_expected,  # type: ignore[arg-type]
        )


@dataclass(eq=False, repr=False, kw_only=True)
class CommunicationReport(Printable):
    """What the steps of a fit sent, counted from the messages, beside what was planned.

    Attributes
    ----------
    unit : str
        What a step is called: "epoch", "iteration".
    how : str
        In some words how it was split and sent.
    transport : str
    n_ranks, n_steps : int
    measured_messages, expected_messages : ndarray, shape (n_ranks,)
        That each rank sends in a step. Expected ones are empty where data decide.
    measured_rows, expected_rows : ndarray, shape (n_ranks,)
        That each rank sends in a step.
    measured_bytes, expected_bytes : float, int or None
        Of a step; None where messages carry more than the rows that were planned.
    measured_counts, expected_counts : dict of str to number
        What else was counted in a step, such as stale rows.
    seconds_computing, seconds_blocked : ndarray of float64, shape (n_ranks,)
        Of the whole fit.
    traffic : ndarray, shape (n_ranks, n_ranks)
        Rows a step from the rank of the line to the rank of the column.
    traffic_bytes : ndarray, shape (n_ranks, n_ranks)
        Bytes, where no rows are sent; else empty.
    memory, expected_memory : int64 ndarray of shape (n_ranks,), or empty
        Bytes that each rank held, measured when it was set up, and those planned.
    """

    unit: str
    how: str
    transport: str
    n_ranks: int
    n_steps: int
    measured_messages: NDArray[Any]
    expected_messages: NDArray[Any]
    measured_rows: NDArray[Any]
    expected_rows: NDArray[Any]
    measured_bytes: float
    expected_bytes: int | None
    measured_counts: dict[str, float]
    expected_counts: dict[str, int]
    seconds_computing: NDArray[np.float64]
    seconds_blocked: NDArray[np.float64]
    traffic: NDArray[Any]
    memory: NDArray[np.int64]
    expected_memory: NDArray[np.int64]
    traffic_bytes: NDArray[Any] = field(default_factory=lambda: np.zeros(0))

    _derived = ("matches",)

    def __post_init__(self) -> None:
        for name in ("measured_messages", "expected_messages", "measured_rows", "expected_rows",
                     "seconds_computing", "seconds_blocked", "traffic", "memory",
                     "expected_memory", "traffic_bytes"):  # fmt: skip
            setattr(self, name, np.asarray(getattr(self, name)))

    @property
    def sent(self) -> tuple[str, NDArray[Any]]:
        """What travels, "rows" or, as in a dense allreduce, "bytes"; and from whom to whom."""
        if self.traffic_bytes.any():
            return "bytes", self.traffic_bytes
        return "rows", self.traffic

    @property
    def matches(self) -> bool:
        """Whether every rank sent exactly what was planned (a fit of no step differs in nothing).

        Also where data decide what is sent, as nothing was planned then.
        """
        if not self.n_steps or not self.expected_rows.size:
            return True
        counts = {name: self.measured_counts.get(name, 0) for name in self.expected_counts}
        return bool(
            np.array_equal(self.measured_messages, self.expected_messages)
            and np.array_equal(self.measured_rows, self.expected_rows)
            and counts == self.expected_counts
            and self.expected_bytes in (None, self.measured_bytes)
        )

    def title(self) -> str:
        """One line that says what this is about."""
        words = f"Communication: {self.how} over {counted(self.n_ranks, 'rank')}, "
        if not self.n_steps:
            return f"{words}no {self.unit} done"
        return f"{words}{counted(self.n_steps, self.unit)} over the {self.transport!r} transport"

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        if not self.n_steps:
            return {"measured": f"nothing, no {self.unit} was done"}
        words = {
            f"rows {self._each}": _compared(self.measured_rows, self.expected_rows),
            f"messages {self._each}": _compared(self.measured_messages, self.expected_messages),
        }
        what, table = self.sent
        most = f"{_most_words(self.measured_rows, 'rows')} {self._each}"
        if what == "bytes":
            del words[f"rows {self._each}"]
            sent = table.sum(axis=1)
            most = f"{bytes_words(sent.max())} (rank {int(sent.argmax())}) {self._each}"
        for name, measured in self.measured_counts.items():
            known = name in self.expected_counts
            expected = np.array([self.expected_counts[name]] if known else [])
            words[f"{name} {self._each}"] = _compared(np.array([measured]), expected)
        words |= {
            f"bytes {self._each}": self._bytes_words(),
            "most of one rank": f"{_most_words(self.measured_messages, 'messages')}, {most}",
            "busiest pair": self._busiest_words(),
            "computing": spread_words(self.seconds_computing),
            "blocked": spread_words(self.seconds_blocked)
            + share_words(self.seconds_blocked, self.seconds_computing),
        }
        if self.memory.size:
            planned = int(self.expected_memory.max(initial=0))
            words["memory a rank"] = f"{bytes_words(int(self.memory.max()))} at most" + (
                f", {bytes_words(planned)} planned" if planned else ""
            )
        if self.expected_rows.size:
            words["as planned"] = "yes" if self.matches else "NO"
        return words

    @property
    def _each(self) -> str:
        return f"{'an' if self.unit[0] in 'aeiou' else 'a'} {self.unit}"

    def _bytes_words(self) -> str:
        words = bytes_words(self.measured_bytes)
        if self.expected_bytes in (None, self.measured_bytes):
            return words
        return f"{words} measured, {bytes_words(self.expected_bytes or 0)} planned  ← differs"

    def _busiest_words(self) -> str:
        what, sent = self.sent
        if not sent.size or not sent.max():
            return "no rows travelled"
        source, destination = np.unravel_index(int(sent.argmax()), sent.shape)
        most = bytes_words(sent.max()) if what == "bytes" else f"{number_words(sent.max())} rows"
        return f"rank {source} → {destination}: {most} {self._each}"


def _most_words(sent: NDArray[Any], what: str) -> str:
    """The largest number, and whose it is: of rows that may be another rank's than of messages."""
    return f"{number_words(sent.max())} {what} (rank {int(sent.argmax())})"


def _compared(measured: NDArray[Any], expected: NDArray[Any]) -> str:
    if not expected.size:
        return f"{number_words(measured.sum())} measured"
    words = f"{number_words(measured.sum())} measured, {int(expected.sum()):,} planned"
    return words if np.array_equal(measured, expected) else f"{words}  ← differs"
