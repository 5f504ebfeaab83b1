"""What one epoch of a planned factorization costs, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskpart._floor.words import counted
from daskpart.models.base.reports import PlanReport, bytes_words

WORD_BYTES = 4


@dataclass(eq=False, repr=False, kw_only=True)
class MFPlanReport(PlanReport):
    """What one epoch costs on a partition; known before any training.

    Attributes
    ----------
    schedule : {"pasgd", "dsgd", "gasgd"}
    eta : int
        η, synchronisations an epoch.
    axis : str
        What is split over ranks: "rows" (users; item rows travel), "columns" (the dual), or
        "nonzeros" (single ratings; rows of both travel).
    lambda_histogram : ndarray of int64
        ``lambda_histogram[λ]``: items that λ ranks share; index 0: items without ratings.
    volume : int
        Rows sent an epoch; under "pasgd" eq. 8.
    staleness : int
        Rows updated from a stale copy an epoch; under "pasgd" eq. 9.
    messages, messages_max_rank : int
        Messages sent an epoch: by all ranks, and by the busiest one.
    imbalance : float
        Ratings of the heaviest rank over the mean, less 1.
    cell_imbalance : float
        The same for (rank, sub-epoch) cells: what waiting at the sub-epochs' ends costs.
    row_words : int
        Words a row takes on the wire.
    """

    eta: int
    axis: str
    lambda_histogram: np.ndarray
    volume: int
    staleness: int
    messages: int
    messages_max_rank: int
    imbalance: float
    cell_imbalance: float
    row_words: int
    schedule: str = "pasgd"

    _derived = ("lambda_max", "connectivity_minus_one", "sum_of_squares", "bytes_per_epoch")

    def __post_init__(self) -> None:
        super().__post_init__()
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
        return int(self.volume) * int(self.row_words) * WORD_BYTES

    @property
    def how(self) -> str:
        """In some words how the ratings are split and rows are sent."""
        return f"{self.axis} by {self.partitioner!r}, {self._often()},"

    def _often(self) -> str:
        """Schedule and number of sub-epochs, in words."""
        if self.schedule == "dsgd":
            return f"DSGD in {self.eta} strata"
        return f"{'GASGD, ' if self.schedule == 'gasgd' else ''}η = {self.eta}"

    def title(self) -> str:
        """One line that says what this is about."""
        times = "synchronised once" if self.eta == 1 else f"synchronised {self.eta} times"
        if self.schedule == "dsgd":
            times = f"item blocks passed on {self.eta} times"
        return (
            f"Plan: {self.axis} over {counted(self.n_ranks, 'rank')} by "
            f"{self.partitioner!r}, {times} an epoch"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        mover = {"rows": "items", "columns": "users", "nonzeros": "users and items"}[self.axis]
        local = int(self.lambda_histogram[1:2].sum())
        return {
            "volume": f"{self.volume:,} rows an epoch = {bytes_words(self.bytes_per_epoch)} "
            f"({self.row_words} words a row)",
            "staleness": self._staleness_words(),
            "messages": f"{self.messages:,} an epoch, at most {self.messages_max_rank:,} by a rank",
            f"shared {mover}": f"{self._shared():,}; {local:,} stay on one rank",
            "connectivity λ": self._histogram_words(),
            "λ_max": f"{self.lambda_max}",
            "Σ (λ − 1)": f"{self.connectivity_minus_one:,}",
            "Σ λ² of shared": f"{self.sum_of_squares:,}",
            "imbalance": f"heaviest rank {self.imbalance:.1%} above the mean, "
            f"(rank, sub-epoch) cells {self.cell_imbalance:.1%}",
            **super().rows(),
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

    def _staleness_words(self) -> str:
        if not self.staleness:
            return "0: every update sees the newest row"
        words = f"{self.staleness:,} rows an epoch come from a stale copy"
        return f"{words} (0 from η = {self.lambda_max} on)" if self.schedule == "pasgd" else words
