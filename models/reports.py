"""What a fit will move, and what it did move: two results that print themselves.

    PlanReport            before training: from the partition and η alone (eq. 8 and 9)
    CommunicationReport   after training: counted messages beside what the equations say

Rows are factor rows (F = 1 in eq. 8 and 9); a row is `row_words` words of 4 bytes on the wire: the
F components, plus bias and gradient sum where they are in use.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §3.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .printable import Printable, bytes_words, number_words, share_words, spread_words

_WORD_BYTES = 4


@dataclass(eq=False, repr=False)
class PlanReport(Printable):
    """What one epoch of η-PASGD costs on a partition; known before any training.

    Attributes
    ----------
    n_ranks : int
        K.
    eta : int
        η, synchronisations an epoch.
    axis : str
        What is split over ranks: "rows" (users; item rows travel) or "columns" (the dual).
    partitioner : str
        How it was split.
    lambda_histogram : ndarray of int64
        ``lambda_histogram[λ]``: items that λ ranks share; index 0: items without ratings.
    volume : int
        Rows sent an epoch, eq. 8.
    staleness : int
        Rows updated from a stale copy an epoch, eq. 9.
    messages, messages_max_rank : int
        Messages sent an epoch: by all ranks, and by the busiest one.
    imbalance : float
        Ratings of the heaviest rank over the mean, less 1.
    cell_imbalance : float
        The same for (rank, sub-epoch) cells: what waiting at the sub-epochs' ends costs.
    row_words : int
        Words a row takes on the wire.
    seconds : float
        Time the partitioner took.
    """

    n_ranks: int
    eta: int
    axis: str
    partitioner: str
    lambda_histogram: np.ndarray
    volume: int
    staleness: int
    messages: int
    messages_max_rank: int
    imbalance: float
    cell_imbalance: float
    row_words: int
    seconds: float

    _derived = ("lambda_max", "connectivity_minus_one", "sum_of_squares", "bytes_per_epoch")

    def __post_init__(self) -> None:
        self.lambda_histogram = np.asarray(self.lambda_histogram, np.int64)

    @property
    def lambda_max(self) -> int:
        """λ_max: ranks that share the most shared item; η beyond it changes nothing."""
        used = np.flatnonzero(self.lambda_histogram)
        return int(used[-1]) if used.size else 0

    @property
    def connectivity_minus_one(self) -> int:
        """Σ (λ − 1) over the items in use, eq. 5."""
        counts = self.lambda_histogram
        return int((counts[1:] * np.arange(counts.size - 1)).sum())

    @property
    def sum_of_squares(self) -> int:
        """Σ λ² over the items with λ > 1: the power of connectivity with ρ = 2, eq. 11."""
        counts = self.lambda_histogram[2:]
        return int((counts * np.arange(2, counts.size + 2) ** 2).sum())

    @property
    def bytes_per_epoch(self) -> int:
        """Payload of all messages of an epoch."""
        return int(self.volume) * int(self.row_words) * _WORD_BYTES

    def title(self) -> str:
        """One line that says what this is about."""
        times = "once" if self.eta == 1 else f"{self.eta} times"
        return (
            f"Plan: {self.axis} over {self.n_ranks} ranks by {self.partitioner!r}, "
            f"synchronised {times} an epoch"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        mover = "items" if self.axis == "rows" else "users"
        local = int(self.lambda_histogram[1:2].sum())
        return {
            "volume": f"{self.volume:,} rows an epoch = {bytes_words(self.bytes_per_epoch)} "
            f"({self.row_words} words a row)",
            "staleness": _staleness_words(self.staleness, self.eta, self.lambda_max),
            "messages": f"{self.messages:,} an epoch, at most {self.messages_max_rank:,} by a rank",
            f"shared {mover}": f"{self._shared():,}; {local:,} stay on one rank",
            "connectivity λ": self._histogram_words(),
            "λ_max": f"{self.lambda_max}",
            "Σ (λ − 1)": f"{self.connectivity_minus_one:,}",
            "Σ λ² of shared": f"{self.sum_of_squares:,}",
            "imbalance": f"heaviest rank {self.imbalance:.1%} above the mean, "
            f"(rank, sub-epoch) cells {self.cell_imbalance:.1%}",
            "partitioning took": f"{self.seconds:.2f} s",
        }

    def _shared(self) -> int:
        return int(self.lambda_histogram[2:].sum())

    def _histogram_words(self) -> str:
        """Bins 1, 2, 3–4, 5–8, … so that 512 ranks fit on a line."""
        words, low, high = [], 1, 1
        while low < self.lambda_histogram.size:
            count = int(self.lambda_histogram[low : high + 1].sum())
            last = min(high, self.lambda_histogram.size - 1)
            name = f"{low}" if low == last else f"{low}–{last}"
            if count:
                words.append(f"{name}: {count:,}")
            low, high = high + 1, 2 * high
        return " | ".join(words) or "no ratings"


def _staleness_words(staleness: float, eta: int, lambda_max: int) -> str:
    if not staleness:
        return "0: every update sees the newest row"
    return f"{staleness:,} rows an epoch come from a stale copy (0 from η = {lambda_max} on)"


@dataclass(eq=False, repr=False)
class CommunicationReport(Printable):
    """What training sent, counted from the messages, beside what eq. 8 and 9 say.

    Attributes
    ----------
    n_ranks, eta, n_epochs : int
    transport : str
    row_words : int
        Words a row takes on the wire.
    measured_volume, expected_volume : float, int
        Rows an epoch; expected by eq. 8.
    measured_words : float
        Words an epoch.
    measured_staleness, expected_staleness : float, int
        Rows an epoch that were merged from a copy other than the owner's; expected by eq. 9.
    measured_messages, expected_messages : float, int
        An epoch; expected by the plans.
    measured_bytes : float
        Payload an epoch, as it travelled.
    seconds_computing, seconds_blocked : ndarray of float64, shape (n_ranks,)
        Of the whole fit.
    traffic : ndarray, shape (n_ranks, n_ranks)
        Rows an epoch from the rank of the line to the rank of the column.
    """

    n_ranks: int
    eta: int
    n_epochs: int
    transport: str
    row_words: int
    measured_volume: float
    expected_volume: int
    measured_words: float
    measured_staleness: float
    expected_staleness: int
    measured_messages: float
    expected_messages: int
    measured_bytes: float
    seconds_computing: np.ndarray
    seconds_blocked: np.ndarray
    traffic: np.ndarray

    _derived = ("expected_words", "matches")

    def __post_init__(self) -> None:
        self.seconds_computing = np.asarray(self.seconds_computing, np.float64)
        self.seconds_blocked = np.asarray(self.seconds_blocked, np.float64)
        self.traffic = np.asarray(self.traffic)

    @property
    def expected_words(self) -> int:
        """Eq. 8 times the words of a row."""
        return int(self.expected_volume) * int(self.row_words)

    @property
    def matches(self) -> bool:
        """Whether volume, words, staleness and messages are exactly what was expected."""
        trained = self.n_epochs > 0  # a resumed fit may have nothing left to train
        return all(measured == expected for _, measured, expected in self._pairs() if trained)

    def _pairs(self) -> list[tuple[str, float, int]]:
        return [
            ("rows", self.measured_volume, self.expected_volume),
            ("words", self.measured_words, self.expected_words),
            ("stale rows", self.measured_staleness, self.expected_staleness),
            ("messages", self.measured_messages, self.expected_messages),
        ]

    def title(self) -> str:
        """One line that says what this is about."""
        return (
            f"Communication: {self.n_ranks} ranks, η = {self.eta}, {self.n_epochs} epoch(s) "
            f"over the {self.transport!r} transport"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        if not self.n_epochs:
            return {"measured": "nothing, no epoch was trained"}
        words = {
            f"{name} an epoch": f"{number_words(measured)} measured, {expected:,} expected"
            + ("" if measured == expected else "  ← differs")
            for name, measured, expected in self._pairs()
        }
        return {
            **words,
            "bytes an epoch": bytes_words(self.measured_bytes),
            "computing": spread_words(self.seconds_computing),
            "blocked": f"{spread_words(self.seconds_blocked)}"
            + share_words(self.seconds_blocked, self.seconds_computing),
            "busiest pair": self._busiest_words(),
            "as planned": "yes" if self.matches else "NO",
        }

    def _busiest_words(self) -> str:
        if not self.traffic.size or not self.traffic.max():
            return "nothing travelled"
        source, destination = np.unravel_index(int(self.traffic.argmax()), self.traffic.shape)
        return f"rank {source} → {destination}: {number_words(self.traffic.max())} rows an epoch"
