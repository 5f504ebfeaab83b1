"""The dense allreduce on a hypercube: all ranks end with the same bits.

    doubling, log2 K rounds                             halving, 2·log2 K rounds
    bit 0    0 ◀─▶ 1    2 ◀─▶ 3   a0+a1   a2+a3         each sends half of what it has, keeps half;
    bit 1    0 ◀─▶ 2    1 ◀─▶ 3   (a0+a1)+(a2+a3)       then the same way back, to join the pieces

In a round a rank and its neighbour swap what they have and combine it, the lower rank's value
first: both compute the same expression. Halving computes that expression too, element by element,
so its bits are those of doubling; a rank sends 2N(K - 1)/K values in place of N·log2 K, which pays
for long arrays. Other K: the ranks beyond the largest power of two add theirs to a partner's
first, and are told the result last.

Renggli, "Efficient Sparse AllReduce for Scalable Machine Learning" (2017), §3.3.1, calls the two
recursive doubling and Rabenseifner's algorithm; halving runs the steps of the latter
(`sparse_steps`), nearest ranks first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from daskpart._floor.checks import as_array, require_same_arrays

from .communicator import Communicator, PerRank, collective
from .large_arrays import copied
from .messages import Exchange, Payload, ValueInbox
from .reduction import SUM, Reduction, as_given, require_reduction
from .sparse_allreduce import PendingAllreduce, agreed_streams
from .sparse_exchange import exchange_of
from .sparse_steps import core_of, steps_of
from .stream import Stream, stream_of_all


@collective
def hypercube_allreduce(
    communicator: Communicator,
    values: PerRank,
    reduction: Reduction = SUM,
    label: str = "hypercube allreduce",
    *,
    halving: bool = False,
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
        Name of the rounds in `counters`. A message of doubling counts as one row, one of halving as
        so many rows as it has values; before it, ranks agree on the shape, "… : sizes".
    halving : bool
        For long arrays, from some 300 kB on: twice the messages, fewer bytes.

    Returns
    -------
    PerRank
        Arrays, or plain numbers if the ranks gave numbers.

    Raises
    ------
    InputError
        If the ranks disagree on shape or dtype; names two that do.
    """
    require_reduction(reduction)
    if communicator.n_ranks == 1:
        return communicator.map(_alone, values, reduction=reduction)
    algorithm = _halving if halving else _doubling
    return algorithm(communicator, values, reduction, label)


@cache
def _neighbours(n_ranks: int) -> tuple[Exchange, ...]:
    """Who swaps with whom in every round; other K: the first folds, the last unfolds."""
    steps = steps_of("ssar-recursive-doubling", n_ranks)
    return tuple(exchange_of(step, n_ranks) for step in steps)


# -- doubling: between two rounds a rank has one array, the value so far ---


def _doubling(
    communicator: Communicator, values: PerRank, reduction: Reduction, label: str
) -> PerRank:
    exchanges = _neighbours(communicator.n_ranks)
    n_corners = core_of(communicator.n_ranks)
    total = values
    for index, exchange in enumerate(exchanges):
        pending = communicator.post_values(
            exchange, total, _pack_whole, label, index, reduction.name
        )
        total = communicator.collect(
            pending, None, _combine_whole, total, values, reduction=reduction, n_corners=n_corners,
            is_last=index + 1 == len(exchanges),
        )  # fmt: skip
    return total


def _pack_whole(value: Any, source: int, destinations: list[int]) -> list[Payload]:
    return [(as_array(value, f"values of rank {source}")[None],)] * len(destinations)


def _combine_whole(
    inbox: ValueInbox, value: Any, given: Any, *, reduction: Reduction, n_corners: int,
    is_last: bool,
) -> Any:  # fmt: skip
    """The value after a round: read-only, so that the next message takes it uncopied."""
    total = np.asarray(value)
    if inbox.sources:
        own, source, other = total, inbox.sources[0], inbox.payloads[0][0][0, ...]  # no scalar
        if own.dtype != other.dtype or own.shape != other.shape:
            what = f"an allreduce ({reduction.name})"
            require_same_arrays(what, (inbox.rank, own), (source, other))
        low, high = (other, own) if source < inbox.rank else (own, other)
        # one that is folded onto a partner is told the result by it
        total = other if inbox.rank >= n_corners else reduction.combined(low, high)
    if is_last:
        return _as_given(total, given)
    if inbox.sources:
        total.flags.writeable = False
    return total


# -- halving: the steps of dense-rabenseifner, in the order of the cube ---


def _halving(
    communicator: Communicator, values: PerRank, reduction: Reduction, label: str
) -> PerRank:
    steps = tuple(
        replace(step, nearest_first=step.kind in ("split", "join"))
        for step in steps_of("dense-rabenseifner", communicator.n_ranks)
    )
    # not copied: a rank answers only when it has what was sent, so when this is over nothing is on
    # its way
    streams = communicator.map(_all_as_stream, values)
    state, _ = agreed_streams(communicator, streams, label)
    pending = PendingAllreduce(communicator, steps, state, reduction, label, 1.0)
    return communicator.map(_as_given, pending.collect(), values)


def _all_as_stream(value: Any) -> Stream:
    return stream_of_all(as_array(value, "values"))


# -- what both share ---


def _alone(value: Any, *, reduction: Reduction) -> Any:
    return _as_given(reduction.alone(as_array(value, "values")), value)


def _as_given(total: Any, given: Any) -> Any:
    """The result in the form in which the value was given."""
    array = total.to_numpy() if isinstance(total, Stream) else np.asarray(total)
    # what arrived, or was sent, belongs to another rank too
    is_given = isinstance(given, np.ndarray) and np.may_share_memory(array, given)
    own = copied(array) if is_given or not array.flags.writeable else array
    return as_given(own, given)
