"""The constants of the cost model, measured on the communicator at hand.

    what comes before the first step          →  seconds of the start
    a step of 0, 1, and 8 messages a rank     →  seconds of a round, of a message: tiny streams,
                                                 packed and combined as every algorithm does
    a round of large messages                 →  seconds of a byte
    each kernel on all ranks at once          →  seconds of an entry
    the last two with long arrays again       →  where caches end, and arrays are new memory

All ranks do the same at once, so ranks that share cores, and a scheduler that serves them all, are
in the figures; and they agree on the largest that any of them measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .communicator import Communicator, PerRank, unchanged
from .cost_model import LONG_BYTES, SHORT_BYTES, CostModel
from .kernels_sparse import sparse_kernels
from .messages import Exchange, Payload, ValueInbox
from .reduction import MAX, SUM
from .stream import Stream, combined, entries_stream, stream_of

_ROUNDS, _MORE_ROUNDS = 4, 48
_TURNS, _KERNEL_TURNS = 3, 6
_MESSAGES = 8  # of a rank in the busiest round: more take long on thousands of ranks
_LARGE_BYTES = 16_000_000  # of short messages, of all ranks together
_LONG_BYTES = 320_000_000  # of long arrays, of all ranks together
_ENTRIES = 1 << 13
_INDICES = SHORT_BYTES // 4
_SHARE = 1 / 8  # of the indices of a long vector has an entry
_KEPT_BYTES = 1 << 24  # of what kernels gave, a rank
_REPEATS, _MORE = 96, 8  # of a kernel, on all ranks together; times that where calls take long

_DECIDE = ("placement", "scheduler", "n_threads")
_known: dict[tuple[Any, ...], CostModel] = {}  # at the driver, for the life of the process


def cost_model_of(communicator: Communicator, again: bool = False) -> CostModel:
    """The cost model of a communicator; measured on first use, then kept.

    Another communicator of the same kind, with as many ranks in the same places, has the same one:
    the next fit on a cluster does not measure it anew.

    Takes a second on threads, a few seconds on a cluster, and two arrays of 40 MB a rank, less on
    more than 8 ranks. Its messages are counted, with the label "cost model".

    Parameters
    ----------
    communicator : Communicator
    again : bool
        Measure anew: the machine was busy, or is now.

    Returns
    -------
    CostModel
    """
    model = None if again else known_cost_model(communicator)
    if model is None:
        model = communicator.run(_measured)
        remember_cost_model(communicator, model)
    return model


def known_cost_model(communicator: Communicator) -> CostModel | None:
    """What was measured on this communicator, or on another one like it."""
    return communicator.cost_model or _known.get(_kind(communicator))


def remember_cost_model(communicator: Communicator, model: CostModel) -> None:
    """Keep what was measured; for communicators like this one too, where they can be told."""
    communicator.cost_model = model
    if not communicator.is_rank:  # the ranks are told by the driver, so that all know the same
        _known[_kind(communicator)] = model


def _kind(communicator: Communicator) -> tuple[Any, ...]:
    kind = (type(communicator), communicator.n_ranks)
    return (*kind, *(getattr(communicator, name, None) for name in _DECIDE))


def seconds_of(communicator: Communicator, text: Callable[[], PerRank]) -> float:
    """Least of a few turns, of the slowest rank; one turn before, to compile."""
    turns = [_seconds(communicator, text) for _ in range(_TURNS + 1)]
    return float(_agreed(communicator, np.array([min(turns[1:])]))[0])


def _seconds(communicator: Communicator, text: Callable[[], PerRank]) -> float:
    begin = perf_counter()
    communicator.settle(text())
    return perf_counter() - begin


def _agreed(communicator: Communicator, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest of all ranks: what a text branches on must be the same on all of them."""
    everyones = communicator.values([seconds] * communicator.n_ranks)
    return communicator.fold(everyones, MAX.fold, label="cost model").result()


def _measured(communicator: Communicator) -> CostModel:
    """What the ranks agree on; a text."""
    start = seconds_of(communicator, partial(_start, communicator))
    own = {"start": start, **_round_constants(communicator), **_kernel_constants(communicator)}
    agreed = _agreed(communicator, np.array(list(own.values())))
    return CostModel(**dict(zip(own, agreed.tolist(), strict=True)))


def _start(communicator: Communicator) -> PerRank:
    """As much as happens before the first step."""
    held = communicator.values([np.zeros(3)] * communicator.n_ranks)
    streams = communicator.map(stream_of, held)
    agreed = communicator.fold(communicator.map(unchanged, held), MAX.fold, label="cost model")
    agreed.result()
    return communicator.map(unchanged, streams, agreed)


# -- messages ---


def _round_constants(communicator: Communicator) -> dict[str, float]:
    """Seconds of a round, of a message, of a byte."""
    n_ranks = communicator.n_ranks
    if n_ranks == 1:
        return dict.fromkeys(("round", "message", "byte", "long_byte"), 0.0)
    most = min(n_ranks - 1, _MESSAGES)
    tiny = communicator.map(_tiny_stream, communicator.values(list(range(n_ranks))))
    own_steps = (_pack_stream, _combine_streams)  # so that what a step costs besides is in it
    seconds = [_seconds_of_rounds(communicator, tiny, n, *own_steps) for n in (0, 1, most)]
    messages = np.array([0.0, 1.0, float(most)])
    slope = seconds[1] - seconds[0] if most == 1 else float(np.polyfit(messages, seconds, 1)[0])
    each = max(slope, 0.0)
    found = {"round": max(float(np.mean(seconds - each * messages)), 0.0), "message": each}

    def seconds_of_bytes(n_bytes: int) -> float:
        arrays = communicator.map(_frozen_bytes, communicator.values([n_bytes] * n_ranks))
        held = communicator.settle(arrays)
        return _seconds_of_rounds(communicator, held, 1, _pack_all, unchanged)

    short, empty = max(_LARGE_BYTES // n_ranks, 8), seconds_of_bytes(8)
    for name, n_bytes in (("byte", short), ("long_byte", max(_long_bytes(n_ranks), short))):
        found[name] = max(seconds_of_bytes(n_bytes) - empty, 0.0) / n_bytes
    return found


def _long_bytes(n_ranks: int) -> int:
    return max(min(LONG_BYTES, _LONG_BYTES // n_ranks), 4 * SHORT_BYTES)


def _seconds_of_rounds(
    communicator: Communicator, held: PerRank, n_messages: int, pack: Callable, combine: Callable
) -> float:
    n_ranks = communicator.n_ranks
    pairs = {(r, (r + 1 + m) % n_ranks) for r in range(n_ranks) for m in range(n_messages)}
    exchange = Exchange.from_pairs(n_ranks, pairs)

    def text(n_rounds: int) -> PerRank:
        state = communicator.map(unchanged, held)
        for index in range(n_rounds):
            pending = communicator.post_values(exchange, state, pack, "cost model", index)
            state = communicator.collect(pending, state, combine)
        return state

    bare = seconds_of(communicator, partial(text, 0))
    for n_rounds in (_ROUNDS, _MORE_ROUNDS):  # more where few are lost in the time of a call
        seconds = seconds_of(communicator, partial(text, n_rounds)) - bare
        if seconds > 2 * bare:
            break
    return max(seconds, 0.0) / n_rounds


def _tiny_stream(rank: int) -> Stream:
    return stream_of((np.arange(rank % 2, 16, 2), np.ones(8, np.float32), 64))


def _pack_stream(stream: Stream, source: int, destinations: list[int]) -> list[Payload]:
    parts = stream.of_ranges([(0, stream.size - 1)] * len(destinations))  # cut out, as by a split
    return [(part.values, part.indices) for part in parts if part.indices is not None]


def _combine_streams(stream: Stream, inbox: ValueInbox) -> Stream:
    own = stream.of_range(0, stream.size - 1)
    combined([own, *(own.replaced(x, i, 0, own.upper) for x, i in inbox.payloads)], SUM, 1.0)
    return stream


def _frozen_bytes(n_bytes: int) -> NDArray[np.uint8]:
    array = np.ones(n_bytes, np.uint8)  # zeros that nobody wrote are one page, read from a cache
    array.flags.writeable = False
    return array


def _pack_all(array: NDArray[np.uint8], source: int, destinations: list[int]) -> list[Payload]:
    return [(array,)] * len(destinations)


# -- kernels ---


def _kernel_constants(communicator: Communicator) -> dict[str, float]:
    """Seconds of a unit of each of `_WORKS`, on short vectors, and of some on long ones."""
    n_ranks, length = communicator.n_ranks, _long_bytes(communicator.n_ranks) // 4
    short = {
        "merged_entry": 2 * _ENTRIES, "gathered_entry": 4 * _ENTRIES,
        "lone_gathered_entry": 4 * _ENTRIES, "scattered_entry": 4 * _ENTRIES,
        "dense_element": _INDICES, "copied_byte": 4 * _INDICES,
    }  # fmt: skip
    long = {
        "scattered_entry": int(length * _SHARE), "dense_element": length, "copied_byte": 4 * length,
    }  # fmt: skip
    held = communicator.map(_vectors, communicator.values(list(range(n_ranks))))
    found = _seconds_a_unit(communicator, held, short, max(1, _REPEATS // n_ranks))
    held = communicator.map(_long_vectors, communicator.values([length] * n_ranks))
    of_long = _seconds_a_unit(communicator, held, long, 1)
    return found | {f"long_{name}": seconds for name, seconds in of_long.items()}


def _seconds_a_unit(
    communicator: Communicator, held: PerRank, units: dict[str, int], repeats: int
) -> dict[str, float]:
    """Of each piece of work; in turn, so that a busy moment is in one reading of each."""
    communicator.settle(held)
    for times in (repeats, _MORE * repeats):  # more where little is lost in the time of a call
        texts = [
            partial(communicator.map, _repeat, held, work=work, repeats=n)
            for work, n in (("copied_byte", 0), *((work, times) for work in units))
        ]
        turns = [[_seconds(communicator, text) for text in texts] for _ in range(_KERNEL_TURNS + 1)]
        idle, *seconds = _agreed(communicator, np.min(turns[1:], axis=0)).tolist()
        if min(seconds) > 3 * idle:
            break
    return {
        name: max(taken - idle, 1e-9) / (times * n_units)
        for taken, (name, n_units) in zip(seconds, units.items(), strict=True)
    }


class _Vectors(NamedTuple):
    """What kernels work on; the long ones have the first two."""

    sparse: list[Stream]
    dense: NDArray[Any]
    lone: Sequence[Stream] = ()  # `sparse`, with indices 64 times as far apart
    room: tuple[NDArray[Any], ...] = ()  # for the sum of two: indices and values


def _vectors(rank: int) -> _Vectors:
    random, ones = np.random.default_rng(rank), partial(np.ones, dtype=np.float32)
    chosen = [np.sort(random.choice(_INDICES, _ENTRIES, replace=False)) for _ in range(4)]
    sparse, lone = (
        [entries_stream(apart * indices, ones(_ENTRIES), apart * _INDICES) for indices in chosen]
        for apart in (1, 64)
    )
    room = np.ones(2 * _ENTRIES, np.uint32), ones(2 * _ENTRIES)
    return _Vectors(sparse, ones(_INDICES), lone, room)


def _long_vectors(length: int) -> _Vectors:
    indices = (np.arange(int(length * _SHARE)) / _SHARE).astype(np.uint32)
    sparse = [entries_stream(indices, np.ones(len(indices), np.float32), length)]
    return _Vectors(sparse, np.ones(length, np.float32))


def _repeat(vectors: _Vectors, *, work: str, repeats: int) -> int:
    # what was made is kept for a while, as a collective does, so that the next is new memory: what
    # was freed just before costs nothing, new pages up to ten times what is done with them
    kept: list[NDArray[Any]] = []
    for _ in range(repeats):
        kept.append(_WORKS[work](vectors))
        if kept[0].nbytes * len(kept) >= _KEPT_BYTES:
            kept.clear()
    return repeats


def _merge(vectors: _Vectors) -> NDArray[Any]:
    first, second = vectors.sparse[:2]
    pair = first.indices, first.values, second.indices, second.values
    sparse_kernels(np.add).merge(*pair, *vectors.room)
    return vectors.room[1]


def _scatter(vectors: _Vectors) -> NDArray[Any]:
    for each in vectors.sparse:
        sparse_kernels(np.add).scatter(vectors.dense, 0, each.indices, each.values)
    return vectors.dense


_WORKS: dict[str, Callable[[_Vectors], NDArray[Any]]] = {  # by the constants that they measure
    "merged_entry": _merge,
    "gathered_entry": lambda vectors: combined(vectors.sparse, SUM, 1.0).values,
    "lone_gathered_entry": lambda vectors: combined(vectors.lone, SUM, 1.0).values,
    "scattered_entry": _scatter,
    "dense_element": lambda vectors: np.add(vectors.dense, vectors.dense),
    "copied_byte": lambda vectors: vectors.dense.copy(),
}
