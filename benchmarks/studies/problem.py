"""Ratings as every study takes them: a training part, a test part, and how to train on the first.

    ratings ─► 90 % train, 10 % test ─► plan ─► simulate: K ranks one after another on one core

`simulate` sends every message that a cluster would send and counts it, so volume, staleness and
RMSE are those of a real run; only its seconds are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import scipy.sparse

import daskpart
from benchmarks import data
from daskpart.collectives import LocalCommunicator
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.errors import BalanceWarning
from daskpart.models.base.trainer import Trainer
from daskpart.models.matrix_factorization.held_out import with_held_out
from daskpart.models.matrix_factorization.pasgd import RowLayout
from daskpart.models.matrix_factorization.plan import MFPlan, plan_fit
from daskpart.models.matrix_factorization.problem import Ratings, Validation
from daskpart.models.matrix_factorization.text import MFText
from daskpart.models.optimisation.learning_rates import learning_rate
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


def plan(name: str, partition: Partition, eta: int, n_components: int = 32) -> MFPlan:
    """What a fit of the training part would do."""
    return plan_fit(
        problem(name).train,
        partition.n_parts,
        eta=eta,
        partitioner=partition,
        axis="rows",
        averaging="mean",
        layout=RowLayout(n_components, biases=True, gradients=True),
        random_state=0,
    )


class Sequential:
    """Connects to ranks of this process that take turns on one core."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks

    def open(self, after_loss: bool) -> LocalCommunicator:
        """A communicator."""
        return LocalCommunicator(self.n_ranks, n_threads=1)

    def can_improve(self) -> bool:
        """There is nowhere to go back to."""
        return False


def simulate(name: str, fit_plan: MFPlan, n_epochs: int, n_components: int) -> Iterator[dict]:
    """Train as `MatrixFactorization` does by default; yields the history's row of each epoch.

    Raises
    ------
    RuntimeError
        When what was sent differs from what was planned.
    """
    chosen = problem(name)
    layout = RowLayout(n_components, biases=True, gradients=True)
    fit_plan = replace(fit_plan, layout=layout)
    blank = Ratings.of(chosen.train).blank(n_components)
    validation = Validation(chosen.test, blank)
    fit_plan = with_held_out(fit_plan, validation)
    trainer = Trainer(
        Sequential(fit_plan.n_ranks),
        lambda comm: MFText(
            comm,
            fit_plan,
            learning_rate("adagrad", None),
            0.05,
            0.1,
            unit=1.0,
            validation=validation,
        ),
        blank,
        fit_plan.n_ranks,
        fit_plan.expected(),
    )
    try:
        for epoch in range(1, n_epochs + 1):
            yield from trainer.run(epoch)
        report = trainer.traffic.report(
            unit="epoch", how="", transport="local", memory=[], memory_expected=[]
        )
        if not report.matches:
            raise RuntimeError(f"sent other than planned:\n{report}")
    finally:
        trainer.close()


def pasgd_numbers(connectivity: Connectivity, eta: int) -> dict[str, Any]:
    """Volume and staleness at η, exact, by eq. 8 and 9."""
    return {
        "volume": int(connectivity.pasgd_volume(eta)),
        "staleness": int(connectivity.pasgd_staleness(eta)),
    }
