"""The cost model held against the clock: every sparse allreduce, predicted and measured.

    problem  (ranks, N, k)  ──▶  every algorithm, with the options that the model likes best
                                    ├─ predicted   from the model's constants alone
                                    └─ measured    least of a few turns, on this communicator

`daskpart.plots.predicted_against_measured` draws it. What matters to a user is not the seconds but
the choice: `auto_over_best` says how much slower than the fastest algorithm the model's choice was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.tables import html_lines, text_lines
from daskpart.collectives import (
    Communicator,
    CostModel,
    PerRank,
    cost_model_of,
    sparse_allreduce,
    stream_of,
)
from daskpart.collectives.cost_measurement import seconds_of
from daskpart.collectives.cost_model import Choice, Problem, preferred
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.errors import InputError

PROBLEMS = ((10**4, 100), (10**5, 100), (10**5, 2_000), (10**6, 1_000), (10**6, 50_000))
_MOST_ENTRIES = 200_000_000  # of a problem's dense vectors, on all ranks


class Compared(NamedTuple):
    """One algorithm on one problem; N, k (entries a rank), seconds."""

    size: int
    entries: int
    algorithm: str
    predicted: float
    measured: float


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Predicted and measured seconds of sparse allreduces; from `compare_with_model`.

    Attributes
    ----------
    transport : str
        Kind of the communicator.
    n_ranks : int
    model : CostModel
    rows : list of Compared
    """

    transport: str
    n_ranks: int
    model: CostModel
    rows: list[Compared]

    def auto_over_best(self) -> dict[tuple[int, int], float]:
        """(N, k) → measured seconds of the algorithm that the model chooses over the least."""
        found: dict[tuple[int, int], float] = {}
        for problem in dict.fromkeys((row.size, row.entries) for row in self.rows):
            rows = [row for row in self.rows if (row.size, row.entries) == problem]
            measured = {row.algorithm: row.measured for row in rows}
            chosen = preferred({row.algorithm: row.predicted for row in rows})
            found[problem] = measured[chosen] / min(measured.values())
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "transport": self.transport,
            "n_ranks": self.n_ranks,
            "rows": [row._asdict() for row in self.rows],
            "auto_over_best": [[*key, ratio] for key, ratio in self.auto_over_best().items()],
        }

    def _table(self) -> list[list[str]]:
        heads = ["N", "entries a rank", "algorithm", "predicted ms", "measured ms", "ratio"]
        lines = [
            [f"{row.size:,}", f"{row.entries:,}", row.algorithm, f"{1e3 * row.predicted:.3g}",
             f"{1e3 * row.measured:.3g}", f"{row.predicted / row.measured:.2f}"]
            for row in self.rows
        ]  # fmt: skip
        return [heads, *lines]

    def _title(self) -> str:
        worst = max(self.auto_over_best().values(), default=1.0)
        return (
            f"Sparse allreduce on {self.n_ranks} ranks ({self.transport}), predicted and measured; "
            f"the model's choice takes at most {worst:.2f} × the time of the best"
        )

    def __repr__(self) -> str:
        return "\n".join([self._title(), *text_lines(self._table())])

    def _repr_html_(self) -> str:
        return html_lines(self._table(), self._title())


def compare_with_model(
    communicator: Communicator,
    problems: Iterable[tuple[int, int]] = PROBLEMS,
    algorithms: Sequence[str] = ALGORITHMS,
    model: CostModel | None = None,
    random_state: int = 0,
) -> ModelComparison:
    """Predict and measure sparse allreduces of float32 vectors with entries spread evenly.

    Parameters
    ----------
    communicator : Communicator
    problems : iterable of (N, k)
        Length of the vectors, entries a rank.
    algorithms : sequence of str
        Of `sparse_steps.ALGORITHMS`.
    model : CostModel, optional
        Default: measured on this communicator.
    random_state : int

    Raises
    ------
    InputError
        For an unknown algorithm, entries that do not fit into N, or vectors that would fill more
        than 800 MB when they are dense.
    """
    asked = [(int(size), int(entries)) for size, entries in problems]
    _check(asked, algorithms, communicator.n_ranks)
    model = model or cost_model_of(communicator)
    rows = []
    for size, entries in asked:
        ranks = communicator.values(list(range(communicator.n_ranks)))
        streams = communicator.settle(
            communicator.map(_stream, ranks, size=size, entries=entries, seed=random_state)
        )
        choices = model.choices(Problem(communicator.n_ranks, size, entries))
        for algorithm in algorithms:
            best = next(choice for choice in choices if choice.algorithm == algorithm)
            text = partial(_allreduce, communicator, streams, best, model)
            measured = seconds_of(communicator, text)
            rows.append(Compared(size, entries, algorithm, best.seconds, measured))
    kind = type(communicator).__name__.removesuffix("Communicator").lower()
    return ModelComparison(kind, communicator.n_ranks, model, rows)


def _check(problems: Sequence[tuple[int, int]], algorithms: Sequence[str], n_ranks: int) -> None:
    unknown = sorted(set(algorithms) - set(ALGORITHMS))
    if unknown:
        raise InputError(f"unknown algorithm {unknown[0]!r}; allowed are {', '.join(ALGORITHMS)}.")
    for size, entries in problems:
        if not 0 < entries <= size:
            raise InputError(f"{entries} entries do not fit into a vector of size {size}.")
        if size * n_ranks > _MOST_ENTRIES:
            raise InputError(
                f"{n_ranks} dense vectors of {size} values take {4e-6 * size * n_ranks:.0f} MB; "
                "measure with shorter vectors, or fewer ranks."
            )


def _allreduce(
    communicator: Communicator, streams: PerRank, choice: Choice, model: CostModel
) -> PerRank:
    return sparse_allreduce(
        communicator, streams, algorithm=choice.algorithm, group=choice.group,
        degrees=choice.degrees, model=model,
    )  # fmt: skip


def _stream(rank: int, *, size: int, entries: int, seed: int) -> Any:
    random = np.random.default_rng([seed, rank])
    indices: NDArray[np.int64] = np.sort(random.choice(size, entries, replace=False))
    return stream_of((indices, random.random(entries, np.float32) + 1, size))
