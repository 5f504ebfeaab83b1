"""Ratings as every study takes them: a training part, a test part, and how to train on the first.

    ratings ─► 90 % train, 10 % test ─► plan ─► simulate: K ranks one after another on one core

`simulate` sends every message that a cluster would send and counts it, so volume, staleness and
RMSE are those of a real run; only its seconds are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import scipy.sparse

import daskpart
from benchmarks import data
from daskpart.collectives import LocalCommunicator
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.errors import BalanceWarning
from daskpart.models.fitting import Trainer, TrainingSettings
from daskpart.models.learning_rates import learning_rate
from daskpart.models.pasgd import RowLayout
from daskpart.models.planning import FitPlan, PlanSettings, plan_fit
from daskpart.models.ratings import Validation, blank_factors
from daskpart.partitions import Partition

# name in the tables → arguments of `daskpart.partition`
METHODS: dict[str, dict[str, Any]] = {
    "RAND": {"method": "random"},
    "block": {"method": "block"},
    "METIS": {"method": "metis"},
    "HP, λ−1": {"objective": "connectivity"},
    "HP-λ²": {"objective": "power"},
    "HP-λ², uneven": {"objective": "power", "even": False},
}


@dataclass(frozen=True)
class Problem:
    """A data set in two parts, both of the whole shape.

    Attributes
    ----------
    name : str
    train_triples, test_triples : users, items, ratings
    train, test : LabelledMatrix
    """

    name: str
    train_triples: data.Triples
    test_triples: data.Triples
    shape: tuple[int, int]

    @cached_property
    def train(self) -> LabelledMatrix:
        """Nine tenths of the ratings."""
        return as_matrix(matrix(self.train_triples, self.shape))

    @cached_property
    def test(self) -> LabelledMatrix:
        """The rest."""
        return as_matrix(matrix(self.test_triples, self.shape))

    @cached_property
    def hypergraph(self) -> daskpart.Hypergraph:
        """Users as vertices, items as nets, of the training part."""
        return daskpart.Hypergraph.column_net(self.train)


def matrix(triples: data.Triples, shape: tuple[int, int]) -> scipy.sparse.coo_array:
    """Triples as a sparse matrix."""
    users, items, values = triples
    return scipy.sparse.coo_array((values, (users, items)), shape=shape)


@cache
def problem(name: str) -> Problem:
    """The named data set (`benchmarks.data.ratings`), split 90/10 at random."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    return Problem(name, *data.split(triples), shape)


def make_partition(hypergraph: daskpart.Hypergraph, n_parts: int, method: str) -> Partition:
    """A partition by one of `METHODS`, ε = 0.03, seed 0.

    Random parts of few users and a user that is heavier than a part are data, not faults.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        return daskpart.partition(hypergraph, n_parts, **METHODS[method])


def connectivity_of(
    hypergraph: daskpart.Hypergraph, n_parts: int, method: str
) -> tuple[Partition, Connectivity]:
    """A partition and the connectivity that it leaves."""
    partition = make_partition(hypergraph, n_parts, method)
    return partition, Connectivity.from_partition(hypergraph, partition)


def plan(name: str, partition: Partition, eta: int) -> FitPlan:
    """What a fit of the training part would do."""
    settings = PlanSettings(
        n_ranks=partition.n_parts, eta=eta, partitioner=partition, rho=2, epsilon=0.03,
        engine="multilevel", axis="rows", averaging="mean", random_state=0,
    )  # fmt: skip
    return plan_fit(problem(name).train, settings)


def simulate(name: str, fit_plan: FitPlan, n_epochs: int, n_components: int) -> Iterator[dict]:
    """Train as `MatrixFactorization` does by default; yields the history's row of each epoch.

    Raises
    ------
    RuntimeError
        When what was sent differs from what was planned.
    """
    chosen, n_ranks = problem(name), fit_plan.settings.n_ranks
    trainer = Trainer(
        fit_plan,
        TrainingSettings(
            layout=RowLayout(n_components, biases=True, gradients=True),
            learning_rate=learning_rate("adagrad", None),
            regularization=0.05,
            init_scale=0.1,
            random_state=0,
        ),
        lambda after_loss: LocalCommunicator(n_ranks, sequential=True),
        None,
        blank_factors(chosen.train, n_components, {}),
        Validation(chosen.test, chosen.train).rmse,
    )
    try:
        for epoch in range(1, n_epochs + 1):
            yield trainer.run(epoch)
        if not trainer.communication().matches:
            raise RuntimeError(f"sent other than planned:\n{trainer.communication()}")
    finally:
        trainer.close()


def pasgd_numbers(connectivity: Connectivity, eta: int) -> dict[str, Any]:
    """Volume and staleness at η, exact, by eq. 8 and 9."""
    return {
        "volume": int(connectivity.pasgd_volume(eta)),
        "staleness": int(connectivity.pasgd_staleness(eta)),
    }
