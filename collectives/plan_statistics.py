"""What a plan costs, counted from its arrays: messages and rows per rank and round.

Time under the α–β model (a message of b bytes takes α + βb seconds): a rank sends and receives at
the same time, so a round costs it the larger of both sides, a round lasts as long as its slowest
rank, and rounds follow each other:

    seconds = Σ_rounds max_rank max( α·messages_sent + β·bytes_sent,
                                     α·messages_received + β·bytes_received )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.tables import html_lines, text_lines

if TYPE_CHECKING:
    from .plan import Round

_QUANTITIES = ("messages_sent", "messages_received", "rows_sent", "rows_received")


@dataclass(frozen=True, eq=False)
class PlanStatistics:
    """Messages and rows that each rank sends and receives in each round.

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
    def of_rounds(cls, rounds: Sequence[Round]) -> PlanStatistics:
        """Count the rounds of a plan, one pass over the messages."""
        counts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _QUANTITIES}
        for entry in rounds:
            for side, ranks in (("sent", entry.source), ("received", entry.destination)):
                messages = np.bincount(ranks, minlength=entry.n_ranks)
                # rows as exact integers: float64 weights hold them up to 2**53
                rows = np.bincount(ranks, weights=entry.lengths, minlength=entry.n_ranks)
                counts[f"messages_{side}"].append(messages.astype(np.int64))
                counts[f"rows_{side}"].append(rows.astype(np.int64))
        return cls(**{name: np.stack(per_round) for name, per_round in counts.items()})

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
        sending = alpha * self.messages_sent + beta * row_bytes * self.rows_sent
        receiving = alpha * self.messages_received + beta * row_bytes * self.rows_received
        return float(np.maximum(sending, receiving).max(axis=1).sum())

    def to_dict(self) -> dict[str, Any]:
        """Total, mean and maximum over ranks of each quantity (plain numbers)."""
        summary: dict[str, Any] = {"n_ranks": self.n_ranks, "n_rounds": self.n_rounds}
        for name in _QUANTITIES:
            counted = self.per_rank(name)
            summary[name] = {
                "total": int(counted.sum()),
                "mean": float(counted.mean()),
                "max": int(counted.max()),
            }
        return summary

    def _rows_of_table(self) -> list[tuple[str, str, str, str]]:
        table = [("per rank", "total", "mean", "max")]
        for name in _QUANTITIES:
            entry = self.to_dict()[name]
            label = name.replace("_", " ")
            table.append(
                (label, f"{entry['total']:,}", f"{entry['mean']:,.1f}", f"{entry['max']:,}")
            )
        return table

    def __repr__(self) -> str:
        title = f"PlanStatistics: {self.n_ranks} ranks, {self.n_rounds} round(s)"
        return "\n  ".join([title, *text_lines(self._rows_of_table())])

    def _repr_html_(self) -> str:
        caption = f"{self.n_ranks} ranks, {self.n_rounds} round(s)"
        return html_lines(self._rows_of_table(), caption)
