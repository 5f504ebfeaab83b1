"""What a plan would cost on any number of ranks, counted and timed in one process.

    rank 0  ──α+βb──▶ ──α+βb──▶ │ wait     │ round 1 …
    rank 1  ──────α+βb──────▶ │ wait       │ round 1 …
                               ↑ a message is there when its sender is done with it

Nothing is sent: messages, rows and bytes of every rank and round are read off the plan, so 4096
ranks take a moment. Time is that of the α–β model (a message of b bytes takes α + βb seconds), in
two ways:

    seconds              rounds in lock-step, each as long as its slowest rank (`PlanStatistics`)
    seconds_of_rank      each rank goes on as soon as its own messages are there

In the second a rank sends its messages of a round one after another in order of destinations, and
receives meanwhile; it leaves the round when it has sent and received all. No rank is ever later
than in lock-step.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .hypercube import EmbeddedPlan, concurrent_volume
from .plan import Plan, Round
from .plan_statistics import PlanStatistics

_QUANTITIES = ("messages_sent", "messages_received", "rows_sent", "rows_received")
_SHOWN_ROUNDS = 16


@dataclass(frozen=True, eq=False)
class Simulation:
    """Counts and times of one or more plans that run one after another; from `simulate`.

    Attributes
    ----------
    name : str
    n_items : int
        Of all plans together.
    labels : list of (str, int)
        Kind of the plan and number of the round in it, one a round.
    statistics : PlanStatistics
        Messages and rows per round and rank.
    row_bytes, alpha, beta : float
        Bytes a row, seconds a message, seconds a byte.
    seconds_of_round : float64 array of shape (n_rounds,)
        In lock-step.
    seconds_of_rank : float64 array of shape (n_ranks,)
        When each rank is done, without lock-step.
    concurrent_volume : int
        Rows that move, copies of one row in the same round counted once.
    forward_rows : int64 array of shape (n_ranks,)
        Largest number of rows of any plan that each rank must hold only to forward them.
    """

    name: str
    n_items: int
    labels: list[tuple[str, int]] = field(repr=False)
    statistics: PlanStatistics
    row_bytes: float
    alpha: float
    beta: float
    seconds_of_round: NDArray[np.float64]
    seconds_of_rank: NDArray[np.float64]
    concurrent_volume: int
    forward_rows: NDArray[np.int64]

    @property
    def n_ranks(self) -> int:
        """Ranks simulated."""
        return self.statistics.n_ranks

    @property
    def n_rounds(self) -> int:
        """Rounds of all plans."""
        return self.statistics.n_rounds

    @property
    def seconds(self) -> float:
        """Time with rounds in lock-step."""
        return float(self.seconds_of_round.sum())

    @property
    def bytes_sent(self) -> NDArray[Any]:
        """Bytes that each rank sends in each round, shape (n_rounds, n_ranks)."""
        return self.statistics.rows_sent * self.row_bytes

    @property
    def bytes_received(self) -> NDArray[Any]:
        """Bytes that each rank receives in each round, shape (n_rounds, n_ranks)."""
        return self.statistics.rows_received * self.row_bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: total, mean and maximum over ranks, and one entry a round."""
        counts = self.statistics.to_dict()
        for side in ("sent", "received"):
            counts[f"bytes_{side}"] = {
                name: value * self.row_bytes for name, value in counts[f"rows_{side}"].items()
            }
        return {
            "name": self.name,
            "n_items": self.n_items,
            **counts,
            "row_bytes": self.row_bytes,
            "alpha": self.alpha,
            "beta": self.beta,
            "seconds": self.seconds,
            "seconds_without_lock_step": float(self.seconds_of_rank.max()),
            "concurrent_volume": self.concurrent_volume,
            "forward_rows_max": int(self.forward_rows.max()),
            "rounds": self._rounds(),
        }

    def _rounds(self) -> list[dict[str, Any]]:
        counted = self.statistics
        return [
            {
                "plan": label,
                "round": index,
                "messages": int(counted.messages_sent[place].sum()),
                "rows": int(counted.rows_sent[place].sum()),
                "bytes": float(counted.rows_sent[place].sum() * self.row_bytes),
                "max_messages": int(_larger(counted, "messages", place).max()),
                "max_rows": int(_larger(counted, "rows", place).max()),
                "seconds": float(self.seconds_of_round[place]),
            }
            for place, (label, index) in enumerate(self.labels)
        ]

    def _tables(self) -> tuple[list[list[str]], list[list[str]]]:
        summary = self.to_dict()
        per_rank = [["per rank", "total", "mean", "max"]]
        for name in (*_QUANTITIES, "bytes_sent", "bytes_received"):
            entry = summary[name]
            numbers = [f"{entry['total']:.0f}", f"{entry['mean']:.1f}", f"{entry['max']:.0f}"]
            per_rank.append([name.replace("_", " "), *numbers])
        rounds = [["round", "messages", "rows", "max rows", "seconds"]]
        for entry in summary["rounds"][:_SHOWN_ROUNDS]:
            head = f"{entry['plan']} {entry['round']}"
            numbers = [str(entry[name]) for name in ("messages", "rows", "max_rows")]
            rounds.append([head, *numbers, f"{entry['seconds']:.3g}"])
        hidden = self.n_rounds - _SHOWN_ROUNDS
        if hidden > 0:
            rounds.append([f"{hidden} more", "", "", "", ""])
        return per_rank, rounds

    def _heading(self) -> list[str]:
        return [
            f"{self.name}: {self.n_ranks} ranks, {self.n_rounds} round(s)",
            f"{self.seconds:.3g} s in lock-step, {self.seconds_of_rank.max():.3g} s without "
            f"(α {self.alpha:g} s, β {self.beta:g} s/byte, {self.row_bytes:g} bytes a row)",
            f"concurrent volume {self.concurrent_volume} rows, "
            f"at most {int(self.forward_rows.max())} rows only forwarded by a rank",
        ]

    def __repr__(self) -> str:
        lines = ["Simulation of " + "\n  ".join(self._heading())]
        for table in self._tables():
            for head, *numbers in table:
                cells = "".join(f"{number:>16}" for number in numbers)
                lines.append(f"  {head:<18}{cells}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heading = "<br>".join(html.escape(line) for line in self._heading())
        return f"<p>{heading}</p>" + "".join(_html_table(table) for table in self._tables())


def simulate(
    plans: Plan | Iterable[Plan],
    *,
    row_bytes: float,
    alpha: float = 2e-6,
    beta: float = 1e-10,
    name: str | None = None,
) -> Simulation:
    """Count and time a plan, or several that run one after another.

    Parameters
    ----------
    plans : Plan or iterable of Plan
        Of any kind, for the same number of ranks; up to thousands of ranks.
    row_bytes : float
        Bytes a row, for example 4 × the number of factors.
    alpha : float
        Seconds a message. Default: 2 µs, of the order of MPI in a cluster.
    beta : float
        Seconds a byte. Default: 0.1 ns, that is 10 GB/s.
    name : str, optional
        Heading of the report. Default: the kinds of the plans.

    Raises
    ------
    InputError
        For no plans, plans for different numbers of ranks, or negative costs.
    """
    held = [plans] if isinstance(plans, Plan) else list(plans)
    if not held or not all(isinstance(plan, Plan) for plan in held):
        raise InputError("simulate takes a Plan or several; got none, or something else.")
    sizes = sorted({plan.n_ranks for plan in held})
    if len(sizes) > 1:
        raise InputError(f"Plans that run one after another need the same ranks; got {sizes}.")
    for what, cost in (("row_bytes", row_bytes), ("alpha", alpha), ("beta", beta)):
        if not np.isfinite(cost) or cost < 0:
            raise InputError(f"{what}={cost!r}; it must be a finite number from 0 on.")
    rounds = [entry for plan in held for entry in plan.rounds]
    statistics = PlanStatistics.of_rounds(rounds)
    clock = np.zeros(sizes[0])
    for entry in rounds:
        clock = _after_round(clock, entry, alpha + beta * row_bytes * entry.lengths)
    return Simulation(
        name=name or " + ".join(dict.fromkeys(plan.kind for plan in held)),
        n_items=sum(plan.n_items for plan in held),
        labels=[(plan.kind, index) for plan in held for index in range(len(plan.rounds))],
        statistics=statistics,
        row_bytes=float(row_bytes),
        alpha=float(alpha),
        beta=float(beta),
        seconds_of_round=_lock_step(statistics, alpha, beta * row_bytes),
        seconds_of_rank=clock,
        concurrent_volume=sum(map(concurrent_volume, held)),
        forward_rows=_forward_rows(held),
    )


def _after_round(
    clock: NDArray[np.float64], entry: Round, cost: NDArray[Any]
) -> NDArray[np.float64]:
    """When each rank leaves a round that it enters at `clock`."""
    n_ranks = entry.n_ranks
    spent = np.concatenate(([0.0], np.cumsum(cost)))
    first = np.searchsorted(entry.source, np.arange(n_ranks))  # messages stand by source
    there = clock[entry.source] + spent[1:] - spent[first[entry.source]]
    leaves = clock + np.maximum(
        np.bincount(entry.source, cost, n_ranks), np.bincount(entry.destination, cost, n_ranks)
    )
    np.maximum.at(leaves, entry.destination, there)
    return leaves


def _lock_step(statistics: PlanStatistics, alpha: float, row_seconds: float) -> NDArray[np.float64]:
    sides = [
        alpha * getattr(statistics, f"messages_{side}")
        + row_seconds * getattr(statistics, f"rows_{side}")
        for side in ("sent", "received")
    ]
    return np.maximum(*sides).max(axis=1)


def _forward_rows(plans: Sequence[Plan]) -> NDArray[np.int64]:
    most = np.zeros(plans[0].n_ranks, dtype=np.int64)
    for plan in plans:
        if isinstance(plan, EmbeddedPlan):
            np.maximum(most, plan.forward_rows, out=most)
    return most


def _larger(statistics: PlanStatistics, what: str, place: int) -> NDArray[np.int64]:
    sent, received = (getattr(statistics, f"{what}_{side}") for side in ("sent", "received"))
    return np.maximum(sent[place], received[place])


def _html_table(table: list[list[str]]) -> str:
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in table)
    return "<table>" + "".join(lines) + "</table>"
