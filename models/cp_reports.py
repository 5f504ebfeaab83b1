"""What a CP iteration will send, and what it did send: two results that print themselves.

    CPPlanReport              before: from the plan alone, for thousands of ranks too
    CPCommunicationReport     after: counted messages beside the planned ones

Rows are factor rows of R numbers. Under an embedding the messages of an allreduce carry them, and
norms and Grams ride along as payload: rows of payload are counted apart. Messages of the two
allreduces of point to point are counted apart too, as in Table 2 of the seed paper.

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition", §6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Counters, EmbeddedPlan, Plan, concurrent_volume
from daskpart.collectives.hypercube import hypercube_allreduce_plan

from .cp_planning import MethodPlan
from .printable import Printable, bytes_words, number_words, share_words, spread_words

if TYPE_CHECKING:
    import pandas as pd

_OPERATIONS = ("reduce", "expand")
_SPARSE = ("reduce", "expand")  # labels of the rounds that carry rows


def planned_messages(plan: MethodPlan) -> NDArray[np.int64]:
    """Messages that each rank sends in an iteration, those of allreduces included."""
    sent = sum(p.statistics().per_rank("messages_sent") for p in (*plan.reduces, *plan.expands))
    if plan.method == "p2p":
        sent = sent + 2 * plan.n_modes * _allreduce_messages(plan)
    return np.asarray(sent)


def planned_rows(plan: MethodPlan) -> NDArray[np.int64]:
    """Rows that each rank sends in an iteration, those of payload included."""
    sent = sum(p.statistics().per_rank("rows_sent") for p in (*plan.reduces, *plan.expands))
    return np.asarray(sent)


def _allreduce_messages(plan: MethodPlan) -> NDArray[np.int64]:
    dense = hypercube_allreduce_plan(plan.settings.n_ranks)
    return dense.statistics().per_rank("messages_sent")


@dataclass(eq=False, repr=False)
class CPPlanReport(Printable):
    """What one iteration costs; known before anything runs.

    Attributes
    ----------
    method, partitioner, owners : str
    n_ranks, n_components : int
    dims : tuple of str
        Names of the modes.
    messages, rows : ndarray of int64, shape (n_modes, 2, n_ranks)
        What each rank sends in the reduce and in the expand of each mode; rows without payload.
    payload_rows : int
        Rows of payload that a rank of an embedded method sends at most in an iteration.
    allreduce_messages : int
        Messages of a rank in an iteration that are none of the above: the allreduces of "p2p".
    concurrent : ndarray of int64, shape (n_modes,)
        Rows of an expand, where copies of a row that move in the same round count once.
    nonzeros : ndarray of int64, shape (n_ranks,)
    row_bytes : int
    alpha, beta : float
        Seconds a message, and a byte.
    predicted_seconds : float
        Of all messages of an iteration.
    seconds : float
        Time the partitioner took.
    """

    method: str
    partitioner: str
    owners: str
    n_ranks: int
    n_components: int
    dims: tuple[str, ...]
    messages: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    payload_rows: int
    allreduce_messages: int
    concurrent: NDArray[np.int64]
    nonzeros: NDArray[np.int64]
    row_bytes: int
    alpha: float
    beta: float
    predicted_seconds: float
    seconds: float

    _derived = (
        "messages_max", "messages_mean", "volume", "volume_max", "concurrent_volume", "imbalance",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name in ("messages", "rows_sent", "concurrent", "nonzeros"):
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
    def volume_max(self) -> int:
        """Rows that the busiest rank sends in an iteration (Table 4 and 5)."""
        return int(self.rows_sent.sum(axis=(0, 1)).max())

    @property
    def concurrent_volume(self) -> int:
        """Concurrent volume of the expands of all modes; by duality also of the reduces."""
        return int(self.concurrent.sum())

    @property
    def imbalance(self) -> float:
        """Nonzeros of the heaviest rank over the mean, less 1."""
        return float(self.nonzeros.max() / self.nonzeros.mean() - 1)

    def per_rank(self) -> pd.DataFrame:
        """One row for each rank, mode and operation: messages and rows sent."""
        import pandas as pd

        shape = self.messages.shape
        mode, operation, rank = (index.ravel() for index in np.indices(shape))
        return pd.DataFrame(
            {
                "mode": np.array(self.dims, object)[mode],
                "operation": np.array(_OPERATIONS, object)[operation],
                "rank": rank,
                "messages": self.messages.ravel(),
                "rows": self.rows_sent.ravel(),
            }
        )

    def title(self) -> str:
        """One line that says what this is about."""
        return (
            f"Plan: {self.method} over {self.n_ranks} ranks, nonzeros by {self.partitioner!r}, "
            f"owners {self.owners}"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        payload = f", and {self.payload_rows:,} of payload a rank" if self.payload_rows else ""
        extra = (
            f"; {self.allreduce_messages:,} more a rank in allreduces"
            if self.allreduce_messages
            else ""
        )
        by_mode = " | ".join(
            f"{dim}: {int(sent):,}"
            for dim, sent in zip(self.dims, self.rows_sent.sum(axis=(1, 2)), strict=True)
        )
        return {
            "messages": f"{self.messages_max:,} by the busiest rank, {self.messages_mean:,.1f} on "
            f"average{extra}",
            "volume": f"{self.volume:,} rows = {bytes_words(self.volume * self.row_bytes)} an "
            f"iteration{payload}",
            "busiest rank": f"sends {self.volume_max:,} rows",
            "by mode": by_mode,
            "concurrent volume": f"{self.concurrent_volume:,} rows",
            "imbalance": f"heaviest rank {self.imbalance:.1%} above the mean of "
            f"{self.nonzeros.mean():,.0f} nonzeros",
            "predicted": f"{self.predicted_seconds:.3g} s of messages an iteration at "
            f"α = {self.alpha:g} s, β = {self.beta:g} s/B",
            "partitioning took": f"{self.seconds:.2f} s",
        }


def report_plan(
    plan: MethodPlan, dims: tuple[str, ...], alpha_beta: tuple[float, float]
) -> CPPlanReport:
    """The report of a plan; α and β as seconds a message and a byte."""
    pairs = list(zip(plan.reduces, plan.expands, strict=True))
    counts = [[_counted(p) for p in pair] for pair in pairs]
    nonzeros = np.zeros(plan.settings.n_ranks, np.int64)
    np.add.at(nonzeros, plan.connectivities[0].parts, plan.connectivities[0].counts)
    p2p = plan.method == "p2p"
    return CPPlanReport(
        method=plan.method,
        partitioner=plan.partitioner,
        owners=plan.settings.owners,
        n_ranks=plan.settings.n_ranks,
        n_components=plan.settings.n_components,
        dims=dims,
        messages=np.array([[messages for messages, _, _ in pair] for pair in counts]),
        rows_sent=np.array([[rows for _, rows, _ in pair] for pair in counts]),
        payload_rows=sum(int(payload.max()) for pair in counts for _, _, payload in pair),
        allreduce_messages=(2 * plan.n_modes * int(_allreduce_messages(plan).max()) if p2p else 0),
        concurrent=np.array([concurrent_volume(expand) for _, expand in pairs]),
        nonzeros=nonzeros,
        row_bytes=plan.settings.row_bytes,
        alpha=alpha_beta[0],
        beta=alpha_beta[1],
        predicted_seconds=plan.predicted_seconds(*alpha_beta),
        seconds=plan.seconds,
    )


def _counted(plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Messages, rows and rows of payload that each rank sends."""
    statistics = plan.statistics()
    messages = statistics.per_rank("messages_sent")
    payload = messages * (plan.payload_rows if isinstance(plan, EmbeddedPlan) else 0)
    return messages, statistics.per_rank("rows_sent") - payload, payload


class Traffic:
    """Sums of the counters of whole iterations."""

    def __init__(self, n_ranks: int) -> None:
        self.n_iterations = 0
        self.messages, self.rows, self.bytes = np.zeros((3, n_ranks), np.int64)
        self.computing, self.blocked = np.zeros((2, n_ranks))
        self.pairs = np.zeros((n_ranks, n_ranks), np.int64)

    def plus(self, counters: Counters) -> Traffic:
        """These sums and one more iteration."""
        after = Traffic(len(self.rows))
        after.n_iterations = self.n_iterations + 1
        after.messages = self.messages + counters.messages_sent
        after.bytes = self.bytes + counters.bytes_sent
        after.rows = self.rows + sum(counters.of(label)["rows_sent"] for label in _SPARSE)
        after.computing = self.computing + counters.seconds_computing
        after.blocked = self.blocked + counters.seconds_blocked
        carried = [counters.traffic(label) for label in _SPARSE if label in counters.labels]
        after.pairs = sum(carried, self.pairs)
        return after

    def report(self, plan: MethodPlan, transport: str) -> CPCommunicationReport:
        """The sums beside what was planned."""
        done = max(1, self.n_iterations)
        return CPCommunicationReport(
            method=plan.method,
            n_ranks=plan.settings.n_ranks,
            n_modes=plan.n_modes,
            n_iterations=self.n_iterations,
            transport=transport,
            measured_messages=self.messages / done,
            expected_messages=planned_messages(plan),
            measured_rows=self.rows / done,
            expected_rows=planned_rows(plan),
            measured_bytes=float(self.bytes.sum() / done),
            seconds_computing=self.computing,
            seconds_blocked=self.blocked,
            traffic=self.pairs / done,
        )


@dataclass(eq=False, repr=False)
class CPCommunicationReport(Printable):
    """What the iterations of a fit sent, counted from the messages, beside what was planned.

    Attributes
    ----------
    method, transport : str
    n_ranks, n_modes, n_iterations : int
    measured_messages, expected_messages : ndarray, shape (n_ranks,)
        That each rank sends in an iteration, allreduces included.
    measured_rows, expected_rows : ndarray, shape (n_ranks,)
        That each rank sends in an iteration, payload included.
    measured_bytes : float
        Of all messages of an iteration.
    seconds_computing, seconds_blocked : ndarray of float64, shape (n_ranks,)
        Of the whole fit.
    traffic : ndarray, shape (n_ranks, n_ranks)
        Rows an iteration from the rank of the line to the rank of the column.
    """

    method: str
    n_ranks: int
    n_modes: int
    n_iterations: int
    transport: str
    measured_messages: NDArray[Any]
    expected_messages: NDArray[Any]
    measured_rows: NDArray[Any]
    expected_rows: NDArray[Any]
    measured_bytes: float
    seconds_computing: NDArray[np.float64]
    seconds_blocked: NDArray[np.float64]
    traffic: NDArray[Any]

    _derived = ("matches",)

    def __post_init__(self) -> None:
        for name in ("measured_messages", "expected_messages", "measured_rows", "expected_rows",
                     "seconds_computing", "seconds_blocked", "traffic"):  # fmt: skip
            setattr(self, name, np.asarray(getattr(self, name)))

    @property
    def matches(self) -> bool:
        """Whether every rank sent exactly the messages and rows that were planned."""
        return not self.n_iterations or bool(
            np.array_equal(self.measured_messages, self.expected_messages)
            and np.array_equal(self.measured_rows, self.expected_rows)
        )

    def title(self) -> str:
        """One line that says what this is about."""
        return (
            f"Communication: {self.method} over {self.n_ranks} ranks, {self.n_iterations} "
            f"iteration(s) over the {self.transport!r} transport"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        if not self.n_iterations:
            return {"measured": "nothing, no iteration was done"}
        return {
            "messages an iteration": _compared(self.measured_messages, self.expected_messages),
            "busiest rank": f"{number_words(self.measured_messages.max())} messages, "
            f"{number_words(self.measured_rows.max())} rows",
            "rows an iteration": _compared(self.measured_rows, self.expected_rows),
            "bytes an iteration": bytes_words(self.measured_bytes),
            "computing": spread_words(self.seconds_computing),
            "blocked": spread_words(self.seconds_blocked)
            + share_words(self.seconds_blocked, self.seconds_computing),
            "as planned": "yes" if self.matches else "NO",
        }


def _compared(measured: NDArray[Any], expected: NDArray[Any]) -> str:
    words = f"{number_words(measured.sum())} measured, {int(expected.sum()):,} planned"
    return words if np.array_equal(measured, expected) else f"{words}  ← differs"
