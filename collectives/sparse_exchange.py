"""What a step of a sparse allreduce sends, and what a rank does with what it gets.

Every message is (values, indices) of a sparse range, or (values,) of a dense one: the receiver
knows the range from the step, and by the number of arrays which of the two it is. See
`sparse_steps` for the kinds of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .cost_model import CostModel
from .messages import Exchange, Payload, ValueInbox
from .reduction import Reduction
from .sparse_steps import Step, pairs_of, range_of, range_sent
from .stream import Stream, combined, concatenated


@dataclass(frozen=True, eq=False)
class Ring:
    """A rank's state on a ring: its own vector, and the ranges complete; the last one travels."""

    own: Stream
    blocks: tuple[Stream, ...]


@cache
def exchange_of(step: Step, n_ranks: int) -> Exchange:
    """Who sends to whom in a step."""
    return Exchange(n_ranks, *pairs_of(step, n_ranks))


def pack_step(
    state: Stream | Ring, source: int, destinations: list[int], step: Step
) -> list[Payload]:
    """The messages of a step from one rank to others: only in a split they differ."""
    if step.kind == "split":
        assert isinstance(state, Stream)
        ranges = [range_sent(step, state.size, source, each, state.cuts) for each in destinations]
        return [_payload(part) for part in state.of_ranges(ranges)]
    if isinstance(state, Ring):
        sent = state.blocks[-1]
    else:
        sent = state.of_range(*range_sent(step, state.size, source, destinations[0], state.cuts))
    return [_payload(sent)] * len(destinations)


def combine_step(
    inbox: ValueInbox,
    state: Stream | Ring,
    *,
    step: Step,
    reduction: Reduction,
    switch: CostModel | float,
) -> Stream | Ring:
    """The state after a step; of a rank that gets no message, unchanged.

    `switch` is the density from which a range is dense, or the model that knows it.
    """
    if not inbox.sources:
        return state
    if not isinstance(switch, float):
        vector = state.own if isinstance(state, Ring) else state
        switch = switch.switch_density(vector.size, vector.values.dtype)
    if step.kind.startswith("ring"):
        return _combine_ring(state, inbox, step, reduction, switch)
    assert isinstance(state, Stream)
    if step.kind == "unfold":
        return _received(state, inbox.payloads[0], 0, state.size)
    if step.kind == "join":
        ranges = [range_of(step, state.size, source, state.cuts) for source in inbox.sources]
        return concatenated(_in_rank_order(inbox, state, ranges), switch)
    lower, upper = state.lower, state.upper
    if step.kind == "split":
        lower, upper = range_of(step, state.size, inbox.rank, state.cuts)
    own = state.of_range(lower, upper)
    ordered = _in_rank_order(inbox, own, [(lower, upper)] * len(inbox.sources))
    return combined(ordered, reduction, switch)


def run_local(state: Stream | Ring, step: Step) -> Stream:
    """A step without messages."""
    if step.kind == "unring":
        assert isinstance(state, Ring)
        blocks = sorted(state.blocks, key=lambda block: (block.lower, block.upper))
        return concatenated(blocks, 0.0)
    assert isinstance(state, Stream)
    return state.to_dense()


def _combine_ring(
    state: Stream | Ring, inbox: ValueInbox, step: Step, reduction: Reduction, density: float
) -> Ring:
    own, blocks = (state.own, state.blocks) if isinstance(state, Ring) else (state, (state,))
    downward = step.kind == "ring-down"
    lower, upper = range_of(step, own.size, inbox.rank - step.degree - 1 - downward)
    arrived = _received(own, inbox.payloads[0], lower, upper)
    if downward:
        return Ring(own, (combined([arrived, own.of_range(lower, upper)], reduction, density),))
    return Ring(own, (*blocks, arrived))


def _payload(stream: Stream) -> Payload:
    return (stream.values,) if stream.indices is None else (stream.values, stream.indices)


def _received(like: Stream, payload: Payload, lower: int, upper: int) -> Stream:
    indices = payload[1] if len(payload) == 2 else None
    return like.replaced(payload[0], indices, lower, upper)


def _in_rank_order(inbox: ValueInbox, own: Stream, ranges: list[tuple[int, int]]) -> list[Stream]:
    """What arrived and the rank's own, by rising rank."""
    streams = {inbox.rank: own}
    for source, payload, (lower, upper) in zip(inbox.sources, inbox.payloads, ranges, strict=True):
        streams[source] = _received(own, payload, lower, upper)
    return [streams[rank] for rank in sorted(streams)]
