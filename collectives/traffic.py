"""Messages of rounds, counted by rank: one record, one sum, for plans, runs and simulations.

    record of a round        source       0  0  2        what a plan says will be sent, what a run
    "expand", round 0        destination  1  2  0        sent, what a simulation would send
                             rows         2  1  2
                             bytes       16  8 16
    totals                   rank         0  1  2
                             rows sent    3  0  2        messages, rows, bytes × sent, received
                             rows received 2 2  1

Time under the α–β model (a message of b bytes takes α + βb seconds): a rank sends and receives at
the same time, so a round costs it the larger of both sides, a round lasts as long as its slowest
rank, and rounds follow each other:

    seconds = Σ_rounds max_rank max( α·messages_sent + β·bytes_sent,
                                     α·messages_received + β·bytes_received )
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.tables import html_lines, text_lines

COUNTS = ("messages", "rows", "bytes")
SIDES = ("sent", "received")
QUANTITIES = tuple(f"{count}_{side}" for count in COUNTS for side in SIDES)


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """The messages of one round.

    Attributes
    ----------
    label : str
        What the round belongs to: the kind of a plan, an algorithm.
    index : int
        Number of the round in it.
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

    def amounts(self) -> dict[str, NDArray[Any]]:
        """Messages (1), rows and bytes of each message, by these names."""
        shape = np.shape(self.source)
        amounts = (1, self.rows, self.nbytes)
        return {
            count: np.broadcast_to(np.asarray(amount), shape)
            for count, amount in zip(COUNTS, amounts, strict=True)
        }

    def totals(self, n_ranks: int) -> dict[str, NDArray[Any]]:
        """The six `QUANTITIES`, each of shape (n_ranks,); int64, or float64 where amounts are."""
        return totals_of(self.source, self.destination, self.amounts(), n_ranks)


def totals_of(
    source: ArrayLike, destination: ArrayLike, amounts: Mapping[str, NDArray[Any]], n_ranks: int
) -> dict[str, NDArray[Any]]:
    """The six `QUANTITIES` of messages, each of shape (n_ranks,)."""
    found = {}
    for count, of_each in amounts.items():
        dtype = np.float64 if of_each.dtype.kind == "f" else np.int64
        for side, ranks in zip(SIDES, (source, destination), strict=True):
            # float64 holds whole numbers exactly up to 2**53
            sums = np.bincount(np.asarray(ranks, np.int64), of_each, n_ranks)
            found[f"{count}_{side}"] = sums.astype(dtype, copy=False)
    return found


@dataclass(frozen=True, eq=False)
class PlanStatistics:
    """Messages and rows that each rank sends and receives in each round of a plan.

    Attributes
    ----------
    messages_sent, messages_received : int64 array of shape (n_rounds, n_ranks)
    rows_sent, rows_received : int64 array of shape (n_rounds, n_ranks)
    """

    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]

    @classmethod
    def of_records(cls, records: Sequence[RoundRecord], n_ranks: int) -> PlanStatistics:
        """Count the rounds of a plan, one pass over the messages."""
        totals = [record.totals(n_ranks) for record in records]
        return cls(*(np.stack([found[name] for found in totals]) for name in QUANTITIES[:4]))

    @property
    def n_rounds(self) -> int:
        """Rounds of the plan."""
        return self.messages_sent.shape[0]

    @property
    def n_ranks(self) -> int:
        """Ranks of the plan."""
        return self.messages_sent.shape[1]

    @property
    def total_messages(self) -> int:
        """Messages over all ranks and rounds."""
        return int(self.messages_sent.sum())

    @property
    def total_rows(self) -> int:
        """Rows over all ranks and rounds."""
        return int(self.rows_sent.sum())

    def per_rank(self, quantity: str) -> NDArray[np.int64]:
        """One of the four quantities summed over rounds, shape (n_ranks,)."""
        return getattr(self, quantity).sum(axis=0)

    def seconds(self, alpha: float, beta: float, row_bytes: float) -> float:
        """Time under the α–β model drawn at the head of this module.

        Parameters
        ----------
        alpha : float
            Seconds a message.
        beta : float
            Seconds a byte.
        row_bytes : float
            Bytes a row.
        """
        busy = busy_seconds(vars(self), "rows", alpha, beta * row_bytes)
        return float(busy.max(axis=1).sum())

    def to_dict(self) -> dict[str, Any]:
        """Total, mean and maximum over ranks of each quantity (plain numbers)."""
        sizes = {"n_ranks": self.n_ranks, "n_rounds": self.n_rounds}
        return {**sizes, **{name: summary(self.per_rank(name)) for name in QUANTITIES[:4]}}

    def _table(self) -> list[list[str]]:
        return summary_table({name: self.per_rank(name) for name in QUANTITIES[:4]})

    def __repr__(self) -> str:
        title = f"PlanStatistics: {self.n_ranks} ranks, {self.n_rounds} round(s)"
        return "\n  ".join([title, *text_lines(self._table())])

    def _repr_html_(self) -> str:
        return html_lines(self._table(), f"{self.n_ranks} ranks, {self.n_rounds} round(s)")


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
    return {
        "total": counted.sum().item(),
        "mean": float(counted.mean()),
        "max": counted.max().item(),
    }


def summary_table(counted: Mapping[str, NDArray[Any]]) -> list[list[str]]:
    """The same of several quantities, as lines of cells."""
    table = [["per rank", "total", "mean", "max"]]
    for name, amounts in counted.items():
        entry = summary(amounts)
        numbers = [f"{entry['total']:,.0f}", f"{entry['mean']:,.1f}", f"{entry['max']:,.0f}"]
        table.append([name.replace("_", " "), *numbers])
    return table
