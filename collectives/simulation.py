"""What a simulation counted, and the clock of every rank while it counts.

    rank 0  ──α+βb──▶ ──α+βb──▶ │ wait     │ round 1 …
    rank 1  ──────α+βb──────▶ │ wait       │ round 1 …
                               ↑ a message is there when its sender is done with it

Time is that of the α–β model (a message of b bytes takes α + βb seconds), in two ways:

    seconds              rounds in lock-step, each as long as its slowest rank (`PlanStatistics`)
    seconds_of_rank      each rank goes on as soon as its own messages are there

In the second a rank sends its messages of a round one after another in order of destinations, and
receives meanwhile; it leaves the round when it has sent and received all. No rank is ever later
than in lock-step. Rounds are added up as they come, so thousands of them on thousands of ranks take
little memory.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.tables import html_lines, text_lines
from daskpart.errors import InputError

_COUNTS = ("messages", "rows", "bytes")
_SIDES = ("sent", "received")
_SHOWN_ROUNDS = 16


@dataclass(frozen=True, eq=False)
class Simulation:
    """Counts and times of rounds of messages; from `simulate` and its kin.

    Attributes
    ----------
    name : str
    n_ranks : int
    labels : list of (str, int)
        What a round belongs to, and its number in it, one a round.
    messages_sent, messages_received : int64 array of shape (n_ranks,)
    rows_sent, rows_received : int64 array of shape (n_ranks,)
        Rows of plans; values of a dense, entries of a sparse allreduce.
    bytes_sent, bytes_received : float64 array of shape (n_ranks,)
    rounds : dict of str to array of shape (n_rounds,)
        "messages", "rows", "bytes" of all ranks, "max_messages", "max_rows", "max_bytes" of the
        busiest rank (the larger of what it sends and receives), "seconds" in lock-step.
    alpha, beta : float
        Seconds a message, seconds a byte.
    seconds_of_rank : float64 array of shape (n_ranks,)
        When each rank is done, without lock-step.
    facts : dict
        What else there is to say, such as the concurrent volume of plans.
    """

    name: str
    n_ranks: int
    labels: list[tuple[str, int]] = field(repr=False)
    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]
    bytes_sent: NDArray[np.float64]
    bytes_received: NDArray[np.float64]
    rounds: dict[str, NDArray[Any]]
    alpha: float
    beta: float
    seconds_of_rank: NDArray[np.float64]
    facts: dict[str, Any]

    @property
    def n_rounds(self) -> int:
        """Rounds in all."""
        return len(self.labels)

    @property
    def seconds(self) -> float:
        """Time with rounds in lock-step."""
        return float(self.rounds["seconds"].sum())

    @property
    def seconds_without_lock_step(self) -> float:
        """Time until the last rank is done, each going on as soon as it can."""
        return float(self.seconds_of_rank.max())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: total, mean and maximum over ranks, and one entry a round."""
        return {
            "name": self.name,
            "n_ranks": self.n_ranks,
            "n_rounds": self.n_rounds,
            **{
                f"{count}_{side}": _summary(getattr(self, f"{count}_{side}"))
                for count in _COUNTS
                for side in _SIDES
            },
            "alpha": self.alpha,
            "beta": self.beta,
            "seconds": self.seconds,
            "seconds_without_lock_step": self.seconds_without_lock_step,
            **self.facts,
            "rounds": [
                {"of": label, "round": index}
                | {name: values[place].item() for name, values in self.rounds.items()}
                for place, (label, index) in enumerate(self.labels)
            ],
        }

    def _tables(self) -> tuple[list[list[str]], list[list[str]]]:
        per_rank = [["per rank", "total", "mean", "max"]]
        for count in _COUNTS:
            for side in _SIDES:
                entry = _summary(getattr(self, f"{count}_{side}"))
                numbers = [
                    f"{entry['total']:,.0f}", f"{entry['mean']:,.1f}", f"{entry['max']:,.0f}",
                ]  # fmt: skip
                per_rank.append([f"{count} {side}", *numbers])
        rounds = [["round", "messages", "rows", "max rows", "seconds"]]
        shown = self.labels[:_SHOWN_ROUNDS]
        for place, (label, index) in enumerate(shown):
            counts = [self.rounds[name][place] for name in ("messages", "rows", "max_rows")]
            seconds = f"{self.rounds['seconds'][place]:.3g}"
            rounds.append([f"{label} {index}", *(f"{count:,}" for count in counts), seconds])
        if self.n_rounds > len(shown):
            rounds.append([f"{self.n_rounds - len(shown)} more", "", "", "", ""])
        return per_rank, rounds

    def _heading(self) -> list[str]:
        facts = ", ".join(f"{name.replace('_', ' ')} {fact}" for name, fact in self.facts.items())
        return [
            f"{self.name}: {self.n_ranks} ranks, {self.n_rounds} round(s)",
            f"{self.seconds:.3g} s in lock-step, {self.seconds_without_lock_step:.3g} s without "
            f"(α {self.alpha:g} s, β {self.beta:g} s/byte)",
            *([facts] if facts else []),
        ]

    def __repr__(self) -> str:
        lines = ["Simulation of " + "\n  ".join(self._heading())]
        for table in self._tables():
            lines += [f"  {line}" for line in text_lines(table)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heading = "<br>".join(html.escape(line) for line in self._heading())
        return f"<p>{heading}</p>" + "".join(map(html_lines, self._tables()))


class Tally:
    """Counts rounds as they come.

    Parameters
    ----------
    n_ranks : int
    alpha : float
        Seconds a message.
    beta : float
        Seconds a byte.

    Raises
    ------
    InputError
        For costs that are negative or not finite.
    """

    def __init__(self, n_ranks: int, alpha: float, beta: float) -> None:
        require_costs(alpha=alpha, beta=beta)
        self.n_ranks, self.alpha, self.beta = n_ranks, float(alpha), float(beta)
        self._labels: list[tuple[str, int]] = []
        self._sums: dict[str, NDArray[Any]] = {
            f"{count}_{side}": np.zeros(n_ranks, np.float64 if count == "bytes" else np.int64)
            for count in _COUNTS
            for side in _SIDES
        }
        self._rounds: dict[str, list[float]] = {
            name: [] for name in (*_COUNTS, *(f"max_{count}" for count in _COUNTS), "seconds")
        }
        self._clock = np.zeros(n_ranks)

    def add(
        self,
        label: str,
        index: int,
        source: NDArray[Any],
        destination: NDArray[Any],
        rows: ArrayLike,
        nbytes: ArrayLike,
    ) -> None:
        """The messages of one round, in order of (source, destination), no pair twice."""
        sizes = {
            "messages": np.ones(len(source), np.int64),
            "rows": np.broadcast_to(np.asarray(rows), len(source)),
            "bytes": np.broadcast_to(np.asarray(nbytes, np.float64), len(source)),
        }
        self._labels.append((label, index))
        counted = {}
        for count, weights in sizes.items():
            for side, ranks in (("sent", source), ("received", destination)):
                name = f"{count}_{side}"
                sums = np.bincount(ranks, weights, self.n_ranks)
                counted[name] = sums.astype(self._sums[name].dtype)
                self._sums[name] += counted[name]
            self._rounds[count].append(weights.sum().item())
            larger = np.maximum(counted[f"{count}_sent"], counted[f"{count}_received"])
            self._rounds[f"max_{count}"].append(larger.max().item())
        spent = [
            self.alpha * counted[f"messages_{side}"] + self.beta * counted[f"bytes_{side}"]
            for side in _SIDES
        ]
        busy = np.maximum(*spent)
        self._rounds["seconds"].append(busy.max().item())
        cost = self.alpha + self.beta * sizes["bytes"]
        self._clock = _after_round(self._clock, source, destination, cost, busy)

    def result(self, name: str, **facts: Any) -> Simulation:
        """What was counted."""
        rounds = {name: np.array(values) for name, values in self._rounds.items()}
        return Simulation(
            name=name,
            n_ranks=self.n_ranks,
            labels=self._labels,
            rounds=rounds,
            alpha=self.alpha,
            beta=self.beta,
            seconds_of_rank=self._clock,
            facts=facts,
            **self._sums,
        )


def require_costs(**costs: float) -> None:
    """Raise InputError unless all are finite and from 0 on."""
    for what, cost in costs.items():
        if not np.isfinite(cost) or cost < 0:
            raise InputError(f"{what}={cost!r}; it must be a finite number from 0 on.")


def _after_round(
    clock: NDArray[np.float64],
    source: NDArray[Any],
    destination: NDArray[Any],
    cost: NDArray[np.float64],
    busy: NDArray[np.float64],
) -> NDArray[np.float64]:
    """When each rank leaves a round that it enters at `clock` and is `busy` in."""
    spent = np.concatenate(([0.0], np.cumsum(cost)))
    first = np.searchsorted(source, np.arange(len(clock)))  # messages stand by source
    there = clock[source] + spent[1:] - spent[first[source]]
    leaves = clock + busy
    np.maximum.at(leaves, destination, there)
    return leaves


def _summary(counted: NDArray[Any]) -> dict[str, float]:
    return {
        "total": counted.sum().item(),
        "mean": float(counted.mean()),
        "max": counted.max().item(),
    }
