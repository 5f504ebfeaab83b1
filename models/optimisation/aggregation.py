"""How the gradients of the ranks are added up: one small object a strategy.

    rank 0   ‥a‥‥b‥‥ ┐  compress?   ┌ dense      all N values travel
    rank 1   ‥a‥c‥‥‥ ┼─ TopK, and ──┤ sparse     entries travel, by a named algorithm
    rank 2   ‥‥‥‥b‥d ┘  residuals   └ auto       the least predicted time, at every epoch anew
                                        │
             post ─► messages on their way ─► collect ─► the sum, a `Stream` on every rank

Renggli 2017, §4.2.2 (strategies) and §2.4 (TopK with error feedback). "dense" and the sparse
algorithms in `same_order` add up every coordinate in one order, so they give the same bits, and
"auto" chooses only among them: what it chooses changes the time of a fit, never its result.

The gradients of an epoch are alike. So the ranks agree on their shape and dtype, and "auto"
chooses, with the first of them; a step after it sends what it adds up and nothing else. Its ranges
are cut by the sum before (`equal_shares`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from daskpart.collectives.communicator import Communicator, PerRank
from daskpart.collectives.cost_model import CostModel
from daskpart.collectives.sparse_allreduce import (
    PendingAllreduce,
    best_algorithm,
    post_sparse_allreduce,
)
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.collectives.stream import Stream
from daskpart.collectives.topk import ApproximateTopK, Compressor, TopK, topk_select

SPLIT = ("ssar-split-allgather", "dsar-split-allgather-doubling")
# of one common machine, in round figures: chooses alike everywhere, where nothing was measured
COMMON = CostModel(
    start=2e-4, round=2e-5, message=5e-5, byte=5e-10, merged_entry=8e-9, gathered_entry=6e-9,
    scattered_entry=3e-9, dense_element=4e-10, copied_byte=1e-10, lone_gathered_entry=3e-8,
)  # fmt: skip
# share of entries from which a range is dense: a step passes over entries alone, so they pay for
# longer than combining them does, which is all that the model knows
SWITCH = 0.5


def same_order(n_ranks: int) -> tuple[str, ...]:
    """Algorithms that add up in the order of "dense", so give its bits."""
    return (*SPLIT, "ssar-recursive-doubling") if n_ranks < 4 else SPLIT


@dataclass(frozen=True)
class Aggregation(ABC):
    """The base of the strategies: a frozen description, static in a text.

    Parameters
    ----------
    agreed : bool
        Whether the ranks know already that they hold vectors of one shape and dtype.
    """

    agreed: bool = field(default=False, kw_only=True)

    @abstractmethod
    def begin(self, comm: Communicator, gradients: PerRank) -> PendingAllreduce:
        """Begin to add up streams; ``collect()`` on what this returns gives the sum."""

    def post(self, comm: Communicator, gradients: PerRank) -> tuple[PendingAllreduce, Aggregation]:
        """Begin to add up streams, and what adds up more of them, alike in shape and dtype."""
        return self.begin(comm, gradients), self if self.agreed else replace(self, agreed=True)


@dataclass(frozen=True)
class DenseSum(Aggregation):
    """All values travel, also the zeros: a reduce-scatter and an allgather."""

    def begin(self, comm: Communicator, gradients: PerRank) -> PendingAllreduce:
        """Begin; see `Aggregation.begin`."""
        whole = comm.map(_dense, gradients)
        return post_sparse_allreduce(
            comm, whole, algorithm=SPLIT[1], model=COMMON, agreed=self.agreed
        )


@dataclass(frozen=True)
class SparseSum(Aggregation):
    """Entries travel, by one algorithm of `daskpart.collectives.sparse_allreduce`.

    Parameters
    ----------
    algorithm : str
    """

    algorithm: str = SPLIT[0]

    def begin(self, comm: Communicator, gradients: PerRank) -> PendingAllreduce:
        """Begin; see `Aggregation.begin`."""
        return post_sparse_allreduce(
            comm, gradients, algorithm=self.algorithm, model=COMMON, switch_density=SWITCH,
            agreed=self.agreed,
        )  # fmt: skip


@dataclass(frozen=True)
class AutoSum(Aggregation):
    """The algorithm of the least predicted time, from what the ranks hold."""

    def begin(self, comm: Communicator, gradients: PerRank) -> PendingAllreduce:
        """Begin; see `Aggregation.begin`."""
        return self.post(comm, gradients)[0]

    def post(self, comm: Communicator, gradients: PerRank) -> tuple[PendingAllreduce, SparseSum]:
        """Choose, and begin; see `Aggregation.post`."""
        best = best_algorithm(comm, gradients, COMMON, same_order(comm.n_ranks), SWITCH)
        chosen = SparseSum(best.algorithm, agreed=True)
        return chosen.begin(comm, gradients), chosen


NAMES = ("auto", "dense", *ALGORITHMS)


def aggregation_of(name: str) -> Aggregation:
    """The strategy of one of `NAMES`."""
    return {"auto": AutoSum(), "dense": DenseSum()}.get(name) or SparseSum(name)


def compressor_of(
    k: int | None, bucket: int | None, approximate: bool, random_state: int
) -> Compressor | None:
    """TopK or approximate TopK with k entries; None where all are sent."""
    if k is None:
        return None
    if approximate:
        return ApproximateTopK(k, random_state, bucket)
    return TopK(k, bucket)


@dataclass(frozen=True)
class Aggregator:
    """A strategy, and what is left out of each gradient before.

    Parameters
    ----------
    aggregation : Aggregation
    compressor : TopK, ApproximateTopK or None
    """

    aggregation: Aggregation
    compressor: Any = None

    def post(
        self, comm: Communicator, gradients: PerRank, feedback: PerRank
    ) -> tuple[PendingAllreduce, PerRank, Aggregator]:
        """Begin to add up; `feedback`, of `Feedback`, is only looked at where TopK is on.

        Returns
        -------
        pending : PendingAllreduce
            ``collect()`` gives the sum.
        feedback : PerRank
            For the next step.
        aggregator : Aggregator
            For the next step of the epoch, whose gradients are alike.
        """
        if self.compressor is not None:
            gradients, feedback = topk_select(comm, self.compressor, gradients, feedback)
        pending, aggregation = self.aggregation.post(comm, gradients)
        if aggregation is self.aggregation:
            return pending, feedback, self
        return pending, feedback, replace(self, aggregation=aggregation)

    def total(self, comm: Communicator, gradients: PerRank) -> PerRank:
        """The sum of all that the ranks hold, nothing left out."""
        return self.aggregation.begin(comm, gradients).collect()


def _dense(stream: Stream) -> Stream:
    return stream.to_dense()
