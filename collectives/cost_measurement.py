"""The constants of the cost model, measured on the communicator at hand.

    what comes before the first step          →  seconds of the start
    a step of 0, 1, and 8 messages a rank     →  seconds of a round, of a message: tiny streams,
                                                 packed and combined as every algorithm does
    a round of large messages                 →  seconds of a byte
    each kernel on all ranks at once          →  seconds of an entry

All ranks do the same at once, so ranks that share cores, and a scheduler that serves them all, are
in the figures. The ranks agree on the largest that any of them measured, so the choices that follow
from it are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .communicator import Communicator, PerRank
from .cost_model import CostModel
from .exchange import Exchange, Payload, ValueInbox
from .kernels_sparse import sparse_kernels, window_bits
from .reduction import SUM
from .stream import Stream, combined
from .stream_inputs import stream_of

_ROUNDS, _MORE_ROUNDS = 4, 48
_TURNS = 3
_MESSAGES = 8  # of a rank in the busiest round: more take long on thousands of ranks
_LARGE_BYTES = 16_000_000  # of all ranks together
_ENTRIES = 1 << 15
_INDICES = 1 << 20
_REPEATS = 24  # of a kernel, on all ranks together
_SCATTERS = 16

_DECIDE = ("placement", "scheduler", "n_threads", "sequential")
_known: dict[tuple[Any, ...], CostModel] = {}  # for the life of the process


def cost_model_of(communicator: Communicator, again: bool = False) -> CostModel:
    """The cost model of a communicator; measured on first use, then kept.

    Another communicator of the same kind, with as many ranks in the same places, has the same one:
    the next fit on a cluster does not measure it anew.

    Takes under a second on threads, a few seconds on a cluster. Its messages are counted, with the
    label "cost model".

    Parameters
    ----------
    communicator : Communicator
    again : bool
        Measure anew: the machine was busy, or is now.
    """
    kind = (type(communicator), communicator.n_ranks)
    key = (*kind, *(getattr(communicator, name, None) for name in _DECIDE))
    if again or key not in _known:
        _known[key] = _measured(communicator)
    return _known[key]


def _measured(communicator: Communicator) -> CostModel:
    start = seconds_of(communicator, partial(_start, communicator))
    rounds = _round_constants(communicator)
    kernels = _kernel_constants(communicator)
    own = np.array([start, *rounds, *kernels])
    everyones = communicator.values([own] * communicator.n_ranks)
    agreed = communicator.fold(everyones, _largest, label="cost model").result()
    return CostModel(*agreed.tolist())


def _largest(values: list[NDArray[Any]]) -> NDArray[Any]:
    return np.max(values, axis=0)


def _start(communicator: Communicator) -> PerRank:
    """As much as happens before the first step."""
    held = communicator.values([np.zeros(3)] * communicator.n_ranks)
    streams = communicator.map(stream_of, held)
    agreed = communicator.fold(communicator.map(_same, held), _largest, label="cost model")
    agreed.result()
    return communicator.map(_first_of, streams, agreed)


def _first_of(value: Any, other: Any) -> Any:
    return value


# -- messages ---


def _round_constants(communicator: Communicator) -> tuple[float, float, float]:
    """Seconds of a round, of a message, of a byte."""
    n_ranks = communicator.n_ranks
    if n_ranks == 1:
        return 0.0, 0.0, 0.0
    most = min(n_ranks - 1, _MESSAGES)
    tiny = communicator.map(_tiny_stream, communicator.values(list(range(n_ranks))))
    own_steps = (_pack_stream, _combine_streams)  # so that what a step costs besides is in it
    seconds = [_seconds_of_rounds(communicator, tiny, n, *own_steps) for n in (0, 1, most)]
    messages = np.array([0.0, 1.0, float(most)])
    if most == 1:
        each = max(seconds[1] - seconds[0], 0.0)
    else:
        each = max(float(np.polyfit(messages, seconds, 1)[0]), 0.0)
    start = max(float(np.mean(seconds - each * messages)), 0.0)
    n_bytes = max(_LARGE_BYTES // n_ranks, 8)
    large = communicator.map(_frozen_bytes, communicator.values([n_bytes] * n_ranks))
    empty = communicator.map(_frozen_bytes, communicator.values([8] * n_ranks))
    longer, shorter = (
        _seconds_of_rounds(communicator, held, 1, _pack_all, _keep) for held in (large, empty)
    )
    return start, each, max(longer - shorter, 0.0) / n_bytes


def _seconds_of_rounds(
    communicator: Communicator, held: PerRank, n_messages: int, pack: Callable, combine: Callable
) -> float:
    n_ranks = communicator.n_ranks
    pairs = {(r, (r + 1 + m) % n_ranks) for r in range(n_ranks) for m in range(n_messages)}
    exchange = Exchange.from_pairs(n_ranks, pairs)

    def text(n_rounds: int) -> PerRank:
        state = communicator.map(_same, held)
        for index in range(n_rounds):
            pending = communicator.post_values(exchange, state, pack, "cost model", index)
            state = communicator.collect_values(pending, state, combine)
        return state

    bare = seconds_of(communicator, partial(text, 0))
    for n_rounds in (_ROUNDS, _MORE_ROUNDS):  # more where few are lost in the time of a call
        seconds = seconds_of(communicator, partial(text, n_rounds)) - bare
        if seconds > 2 * bare:
            break
    return max(seconds, 0.0) / n_rounds


def _tiny_stream(rank: int) -> Stream:
    return stream_of((np.arange(rank % 2, 16, 2), np.ones(8, np.float32), 64))


def _pack_stream(stream: Stream, source: int, destination: int) -> Payload:
    part = stream.of_range(0, stream.size - 1)  # cut out, as a split does
    assert part.indices is not None
    return part.values, part.indices


def _combine_streams(stream: Stream, inbox: ValueInbox) -> Stream:
    own = stream.of_range(0, stream.size - 1)
    combined([own, *(own.replaced(x, i, 0, own.upper) for x, i in inbox.payloads)], SUM, 1.0)
    return stream


def _frozen_bytes(n_bytes: int) -> NDArray[np.uint8]:
    array = np.zeros(n_bytes, np.uint8)
    array.flags.writeable = False
    return array


def _pack_all(array: NDArray[np.uint8], source: int, destination: int) -> Payload:
    return (array,)


def _keep(array: NDArray[np.uint8], inbox: ValueInbox) -> NDArray[np.uint8]:
    return array


def _same(value: Any) -> Any:
    return value


# -- kernels ---


def _kernel_constants(communicator: Communicator) -> tuple[float, ...]:
    """Seconds of an entry merged, gathered, scattered, of a dense element, of a byte copied."""
    n_ranks = communicator.n_ranks
    held = communicator.settle(
        communicator.map(_vectors, communicator.values(list(range(n_ranks))))
    )
    repeats = max(1, _REPEATS // n_ranks)
    idle = seconds_of(communicator, partial(communicator.map, _repeat, held, work=None, repeats=1))
    units = {_merge: 2 * _ENTRIES, _gather: 4 * _ENTRIES, _scatter: _SCATTERS * _ENTRIES,
             _add: _INDICES, _copy: 4 * _INDICES}  # fmt: skip
    found = []
    for work, n_units in units.items():
        text = partial(communicator.map, _repeat, held, work=work, repeats=repeats)
        seconds = seconds_of(communicator, text) - idle
        found.append(max(seconds, 1e-9) / (repeats * n_units))
    return tuple(found)


def _vectors(rank: int) -> list[NDArray[Any]]:
    """Four sparse vectors (indices, values, …) and two dense ones."""
    random = np.random.default_rng(rank)
    vectors: list[NDArray[Any]] = []
    for _ in range(4):
        chosen = random.choice(_INDICES, _ENTRIES, replace=False)
        vectors += [np.sort(chosen).astype(np.uint32), np.ones(_ENTRIES, np.float32)]
    return [*vectors, np.ones(_INDICES, np.float32), np.ones(_INDICES, np.float32)]


def _repeat(vectors: list[NDArray[Any]], *, work: Callable | None, repeats: int) -> int:
    result = None
    for _ in range(repeats if work is not None else 0):
        assert work is not None
        result = work(vectors)  # the one before lives until then, as in a step of an algorithm
    return repeats if result is not None else 0


def _merge(vectors: list[NDArray[Any]]) -> None:
    indices, values = np.empty(2 * _ENTRIES, np.uint32), np.empty(2 * _ENTRIES, np.float32)
    sparse_kernels(np.add).merge(*vectors[:4], indices, values)


def _gather(vectors: list[NDArray[Any]]) -> None:
    indices, values = np.empty(4 * _ENTRIES, np.uint32), np.empty(4 * _ENTRIES, np.float32)
    sparse_kernels(np.add).merge_many(
        np.concatenate(vectors[0:8:2]), np.concatenate(vectors[1:8:2]),
        np.arange(5) * _ENTRIES, np.float32(0), window_bits(_INDICES, 4 * _ENTRIES),
        indices, values,
    )  # fmt: skip


def _scatter(vectors: list[NDArray[Any]]) -> None:
    dense = np.zeros(_INDICES, np.float32)  # its own price is that of dense elements
    for turn in range(_SCATTERS):
        place = 2 * (turn % 4)
        sparse_kernels(np.add).scatter(dense, 0, vectors[place], vectors[place + 1])


def _add(vectors: list[NDArray[Any]]) -> NDArray[Any]:
    return np.add(vectors[8], vectors[9])


def _copy(vectors: list[NDArray[Any]]) -> NDArray[Any]:
    return vectors[8].copy()


def seconds_of(communicator: Communicator, text: Callable[[], PerRank]) -> float:
    """Least of a few turns, by the clock of whoever runs the text; one turn before, to compile."""
    seconds = []
    for _ in range(_TURNS + 1):
        begin = perf_counter()
        communicator.settle(text())
        seconds.append(perf_counter() - begin)
    return min(seconds[1:])
