"""The dense allreduce by recursive doubling: all ranks end with the same bits in log2 K rounds.

    bit 0    0 ◀─▶ 1    2 ◀─▶ 3        a0+a1   a0+a1   a2+a3   a2+a3
    bit 1    0 ◀─▶ 2    1 ◀─▶ 3        (a0+a1)+(a2+a3)  on all four

In a round a rank and its neighbour swap what they have and combine it, the lower rank's value
first: both compute the same expression. Other K: the ranks beyond the largest power of two add
theirs to a partner's first, and are told the result last. Against the star of `allreduce`
(2·(K - 1) messages, all of them at rank 0) a rank handles ⌈log2 K⌉ messages, and no rank is hot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .hypercube import hypercube_allreduce_plan
from .kept import kept
from .prepared import Inbox, PreparedPlan
from .reduction import SUM, Reduction


def hypercube_allreduce(
    communicator: Communicator,
    values: PerRank,
    reduction: Reduction = SUM,
    label: str = "hypercube allreduce",
) -> PerRank:
    """Combine one value a rank; every rank holds the result, the same to the bit.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of numbers or arrays
        Equal in shape and dtype on all ranks.
    reduction : Reduction
        Values combine in the order of the hypercube, so the last bits may differ from those of
        `allreduce`, which combines one rank after another.
    label : str
        Name of the rounds in `counters`. A message counts as one row.

    Returns
    -------
    PerRank
        Arrays, or plain numbers if the ranks gave numbers.

    Raises
    ------
    InputError
        If the ranks disagree on shape or dtype; names two that do.
    """
    n_ranks = communicator.n_ranks

    def prepare() -> tuple[PreparedPlan, list[PerRank]]:
        numbering = communicator.values([np.zeros(1, dtype=np.int64)] * n_ranks)
        plan = communicator.prepare(hypercube_allreduce_plan(n_ranks), numbering, label)
        return plan, [plan.rounds[0].messages]

    prepared = kept(communicator, ("hypercube allreduce", label), prepare)
    folds = n_ranks & (n_ranks - 1) != 0
    held = communicator.map(_begin, values)
    for prepared_round in prepared.rounds:
        pending = communicator.post(prepared_round, held, _pack)
        final = folds and prepared_round is prepared.rounds[-1]
        held = communicator.collect(pending, held, _exchange, reduction=reduction, final=final)
    return communicator.map(_end, held, values)


def _begin(value: Any) -> NDArray[Any]:
    return np.array(value)


def _pack(value: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    return value[None].copy()


def _exchange(
    own: NDArray[Any], inbox: Inbox, *, reduction: Reduction, final: bool
) -> NDArray[Any]:
    for source, payload in zip(inbox.sources, inbox.payloads, strict=True):
        other = payload[0]
        low, high = (other, own) if source < inbox.rank else (own, other)
        if low.shape != high.shape or low.dtype != high.dtype:
            raise InputError(
                f"Ranks {min(source, inbox.rank)} and {max(source, inbox.rank)} disagree in an "
                f"allreduce ({reduction.name}): shape {low.shape} and dtype {low.dtype} against "
                f"{high.shape} and {high.dtype}."
            )
        own = np.array(other if final else reduction.combine(low, high), dtype=own.dtype)
    return own


def _end(combined: NDArray[Any], given: Any) -> Any:
    return combined.copy() if isinstance(given, np.ndarray) else combined.item()
