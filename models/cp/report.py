"""What a CP iteration will send: known from the plan alone, for thousands of ranks too.

Rows are factor rows of R numbers. Under an embedding the messages of an allreduce carry them, and
norms and Grams ride along as payload: rows of payload are counted apart. Messages of the two
allreduces of point to point are counted apart too, as in Table 2 of Abubaker et al.

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition", §6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.words import counted
from daskpart.collectives import EmbeddedPlan, Plan
from daskpart.models.base.reports import PlanReport, bytes_words

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("reduce", "expand")


@dataclass(eq=False, repr=False, kw_only=True)
class CPPlanReport(PlanReport):
    """What one iteration costs; known before anything runs.

    Attributes
    ----------
    method, owners : str
    n_components : int
    dims : tuple of str
        Names of the modes.
    messages, rows_sent : ndarray of int64, shape (n_modes, 2, n_ranks)
        What each rank sends in the reduce and in the expand of each mode; rows without payload.
    payload_rows : int
        Rows of payload that a rank of an embedded method sends at most in an iteration.
    payload_volume : int
        Rows of payload that all ranks send in an iteration.
    total_bytes : int
        Of all messages of an iteration, with payload or allreduces.
    allreduce_messages : int
        Messages of a rank in an iteration that are none of the above: the allreduces of "p2p".
    concurrent : ndarray of int64, shape (n_modes,)
        Rows of an expand, where copies of a row that move in the same round count once.
    nonzeros, owned : ndarray of int64, shape (n_ranks,)
        Nonzeros of a rank, and factor rows, of all modes, that it solves for.
    row_bytes, reduce_bytes : int
        Of a row in an expand, and in a reduce.
    alpha, beta : float
        Seconds a message, and a byte.
    predicted_seconds : float
        Of all messages of an iteration.
    """

    method: str
    owners: str
    n_components: int
    dims: tuple[str, ...]
    messages: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    payload_rows: int
    allreduce_messages: int
    concurrent: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    owned: NDArray[np.int64]
    row_bytes: int
    reduce_bytes: int
    alpha: float
    beta: float
    predicted_seconds: float
    payload_volume: int = 0
    total_bytes: int = 0

    _derived = (
        "messages_max", "messages_mean", "volume", "volume_max", "concurrent_volume", "imbalance",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("messages", "rows_sent", "concurrent", "nonzeros", "owned"):
            setattr(self, name, np.asarray(getattr(self, name), np.int64))
        self.dims = tuple(self.dims)

    @property
    def messages_max(self) -> int:
        """Messages of the busiest rank in each reduce and expand, added up (Table 2)."""
        return int(self.messages.max(axis=2).sum())

    @property
    def messages_mean(self) -> float:
        """Messages of a rank in an iteration, on average."""
        return float(self.messages.mean(axis=2).sum())

    @property
    def volume(self) -> int:
        """Rows that all ranks send in an iteration, without payload."""
        return int(self.rows_sent.sum())

    @property
    def volume_bytes(self) -> int:
        """Bytes of these rows."""
        reduced, expanded = self.rows_sent.sum(axis=(0, 2)).tolist()
        return reduced * self.reduce_bytes + expanded * self.row_bytes

    @property
    def volume_max(self) -> int:
        """Rows that the busiest rank sends in an iteration (Table 4 and 5)."""
        return int(self.rows_sent.sum(axis=(0, 1)).max())

    @property
    def concurrent_volume(self) -> int:
        """Concurrent volume of the expands of all modes; by duality also of the reduces."""
        return int(self.concurrent.sum())

    @property
    def work(self) -> NDArray[np.int64]:
        """Of each rank in nonzeros: its own, and R for each row that it owns."""
        return self.nonzeros + self.n_components * self.owned

    @property
    def imbalance(self) -> float:
        """Work of the heaviest rank over the mean, less 1."""
        return float(self.work.max() / self.work.mean() - 1)

    def per_rank(self) -> pd.DataFrame:
        """One row for each rank, mode and operation: messages and rows sent."""
        import pandas as pd

        shape = self.messages.shape
        mode, operation, rank = (index.ravel() for index in np.indices(shape))
        return pd.DataFrame(
            {
                "mode": np.array(self.dims, object)[mode],
                "operation": np.array(LABELS, object)[operation],
                "rank": rank,
                "messages": self.messages.ravel(),
                "rows": self.rows_sent.ravel(),
            }
        )

    @property
    def how(self) -> str:
        """In some words how rows are sent."""
        return self.method

    def title(self) -> str:
        """One line that says what this is about."""
        return (
            f"Plan: {self.method} over {counted(self.n_ranks, 'rank')}, "
            f"nonzeros by {self.partitioner!r}, "
            f"owners {self.owners}"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        extra = (
            f"; {self.allreduce_messages:,} more a rank in allreduces"
            if self.allreduce_messages
            else ""
        )
        # of point to point, where all rows move in one round, it would be the rows that are shared
        embedded = self.method != "p2p"
        concurrent = {"concurrent volume": f"{self.concurrent_volume:,} rows"} if embedded else {}
        by_mode = " | ".join(
            f"{dim}: {int(sent):,}"
            for dim, sent in zip(self.dims, self.rows_sent.sum(axis=(1, 2)), strict=True)
        )
        return {
            "messages": f"{self.messages_max:,} by the busiest rank, {self.messages_mean:,.1f} on "
            f"average{extra}",
            "volume": self._volume_words(),
            "busiest rank": f"sends {self.volume_max:,} rows",
            "by mode": by_mode,
            **concurrent,
            "imbalance": f"heaviest rank {self.imbalance:.1%} above the mean of "
            f"{self.nonzeros.mean():,.0f} nonzeros and {self.owned.mean():,.0f} rows to solve for",
            "predicted": f"{self.predicted_seconds:.3g} s of messages an iteration at "
            f"α = {self.alpha:g} s, β = {self.beta:g} s/B",
            **super().rows(),
        }

    def _volume_words(self) -> str:
        """Rows and bytes as they are measured, and what is in them beside factor rows."""
        words = f"{self.volume:,} rows = {bytes_words(self.volume_bytes)} an iteration"
        if self.payload_volume:
            words += (
                f", with payload {self.volume + self.payload_volume:,} rows = "
                f"{bytes_words(self.total_bytes)}"
            )
        elif self.total_bytes > self.volume_bytes:
            words += f", with allreduces {bytes_words(self.total_bytes)}"
        return words


def counted_plan(plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Messages, rows and rows of payload that each rank sends."""
    statistics = plan.statistics()
    messages = statistics.per_rank("messages_sent")
    payload = messages * (plan.payload_rows if isinstance(plan, EmbeddedPlan) else 0)
    return messages, statistics.per_rank("rows_sent") - payload, payload
