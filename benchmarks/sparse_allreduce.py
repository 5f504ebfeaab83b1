"""Sparse allreduce on threads of this process: every algorithm, and the model's word on it."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from daskpart.collectives import (
    CostModel,
    LocalCommunicator,
    cost_model_of,
    sparse_allreduce,
    stream_of,
)
from daskpart.collectives.cost_model import Problem
from daskpart.collectives.sparse_steps import ALGORITHMS

N_RANKS = [4, 8]
PROBLEMS = [(10**5, 1e-3), (10**6, 1e-4), (10**6, 1e-2), (10**6, 0.2), (10**7, 1e-2)]


class SparseAllreduce:
    """Vectors of `size` float32 values with entries of one density, spread evenly."""

    params = (N_RANKS, PROBLEMS, ["auto", *ALGORITHMS])
    param_names = ("n_ranks", "size_density", "algorithm")
    timeout = 600

    def setup(self, n_ranks: int, size_density: tuple[int, float], algorithm: str) -> None:
        self.communicator = LocalCommunicator(n_ranks)
        size, density = size_density
        vectors = [_random_vector(size, int(size * density), rank) for rank in range(n_ranks)]
        self.streams = self.communicator.map(stream_of, self.communicator.values(vectors))
        self.model = cost_model_of(self.communicator)
        self.problem = Problem(n_ranks, size, int(size * density))
        self.options = {name: _best_options(self.model, self.problem, name) for name in ALGORITHMS}
        self.run(algorithm)  # compiles

    def teardown(self, *_: object) -> None:
        self.communicator.close()

    def run(self, algorithm: str) -> None:
        """One allreduce, with the options that the model finds best."""
        options = self.options.get(algorithm, {})
        sparse_allreduce(self.communicator, self.streams, algorithm=algorithm, **options)

    def seconds(self, algorithm: str, turns: int = 5) -> float:
        """Least of a few turns."""
        found = []
        for _ in range(turns):
            begin = perf_counter()
            self.run(algorithm)
            found.append(perf_counter() - begin)
        return min(found)

    def time_allreduce(self, n_ranks: int, size_density: tuple[int, float], algorithm: str) -> None:
        """One allreduce."""
        self.run(algorithm)

    def track_predicted_over_measured(
        self, n_ranks: int, size_density: tuple[int, float], algorithm: str
    ) -> float:
        """The model's seconds over those measured."""
        if algorithm == "auto":
            predicted = self.model.best(self.problem).seconds
        else:
            problem = self.problem
            everything = self.model.predict(problem.n_ranks, problem.size, problem.entries)
            predicted = everything[algorithm]
        return predicted / self.seconds(algorithm)

    track_predicted_over_measured.unit = "ratio"  # type: ignore[attr-defined]


class AutoAgainstBest:
    """How much slower the model's choice is than the algorithm that turns out fastest."""

    params = (N_RANKS, PROBLEMS)
    param_names = ("n_ranks", "size_density")
    timeout = 1200

    def setup(self, n_ranks: int, size_density: tuple[int, float]) -> None:
        self.suite = SparseAllreduce()
        self.suite.setup(n_ranks, size_density, "auto")

    def teardown(self, *_: object) -> None:
        self.suite.teardown()

    def track_auto_over_best(self, n_ranks: int, size_density: tuple[int, float]) -> float:
        """Time of "auto" over the least of all, its own among them."""
        seconds = self.all_seconds()
        return seconds["auto"] / min(seconds.values())

    def track_speed_up_over_dense(self, n_ranks: int, size_density: tuple[int, float]) -> float:
        """Time of the fastest dense allreduce over that of "auto"."""
        seconds = self.all_seconds()
        dense = [value for name, value in seconds.items() if name.startswith("dense")]
        return min(dense) / seconds["auto"]

    track_auto_over_best.unit = "ratio"  # type: ignore[attr-defined]
    track_speed_up_over_dense.unit = "ratio"  # type: ignore[attr-defined]

    def all_seconds(self) -> dict[str, float]:
        """Least seconds of each algorithm, measured in turn."""
        names = ["auto", *ALGORITHMS]
        rounds = [{name: self.suite.seconds(name, 3) for name in names} for _ in range(3)]
        return {name: min(found[name] for found in rounds) for name in names}


def _random_vector(size: int, n_entries: int, rank: int) -> tuple[np.ndarray, np.ndarray, int]:
    random = np.random.default_rng(rank)
    indices = np.unique(random.integers(0, size, n_entries))
    return indices, random.random(len(indices), np.float32) + 1, size


def _best_options(model: CostModel, problem: Problem, algorithm: str) -> dict:
    for choice in model.choices(problem):
        if choice.algorithm == algorithm:
            options = {"group": choice.group, "degrees": choice.degrees}
            return {name: value for name, value in options.items() if value is not None}
    return {}
