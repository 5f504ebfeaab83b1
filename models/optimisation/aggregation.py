"""How the gradients of the ranks are added up: by name.

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

from dataclasses import dataclass, replace
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
from daskpart.collectives.topk import Compressor, topk_select

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


NAMES = ("auto", "dense", *ALGORITHMS)


@dataclass(frozen=True)
class Aggregator:
    """How gradients are added up: a frozen description, static in a text.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    compressor : TopK, ApproximateTopK or None
        What is left out of each gradient before.
    agreed : bool
        Whether the ranks know already that they hold vectors of one shape and dtype.
    """

    name: str
    compressor: Compressor | None = None
    agreed: bool = False

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
        pending, aggregator = self.begin(comm, gradients)
        return pending, feedback, aggregator

    def begin(self, comm: Communicator, gradients: PerRank) -> tuple[PendingAllreduce, Aggregator]:
        """The same of all that the ranks hold, nothing left out."""
        if self.name == "auto":
            best = best_algorithm(comm, gradients, COMMON, same_order(comm.n_ranks), SWITCH)
            return replace(self, name=best.algorithm, agreed=True).begin(comm, gradients)
        how: dict[str, Any] = {"algorithm": self.name, "switch_density": SWITCH}
        if self.name == "dense":
            gradients, how = comm.map(_dense, gradients), {"algorithm": SPLIT[1]}
        pending = post_sparse_allreduce(comm, gradients, model=COMMON, agreed=self.agreed, **how)
        return pending, self if self.agreed else replace(self, agreed=True)


def _dense(stream: Stream) -> Stream:
    return stream.to_dense()
