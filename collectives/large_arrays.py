"""Arrays whose memory is used again: fresh pages of a large one cost several times its copying.

    empty_array ──▶ array ──▶ views, messages …      the last of them is dropped
         ▲                                                    │
         └──────────────── memory, kept ◀─────────────────────┘

Vectors of a step are made, sent and dropped, step after step, and the system would take their
pages back each time, and clear each of them when it is touched again. Memory is kept by size,
rounded up to a power of two: what lies behind an array's end is touched by nobody, and so costs
nothing. `free_kept_memory` lets go of it; a communicator does so when it is closed.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# bytes; what is shorter the C library keeps well by itself, once it was told to (`_floor.memory`)
_LEAST, _MOST = 1 << 23, 1 << 25
_KEPT = 16  # of each size, at most

_kept: defaultdict[int, deque[NDArray[Any]]] = defaultdict(lambda: deque(maxlen=_KEPT))


def empty_array(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """Like ``np.empty(length, dtype)``."""
    kind = np.dtype(dtype)
    nbytes = length * kind.itemsize
    if kind.hasobject or not _LEAST <= nbytes <= _MOST:
        return np.empty(length, kind)
    kept = _kept[1 << (nbytes - 1).bit_length()]
    try:  # threads ask at the same time; a deque hands out what it holds once
        memory = kept.pop()
    except IndexError:
        memory = np.empty(1 << (nbytes - 1).bit_length(), np.uint8)
    # all views refer to this array, as it is the first one over a buffer that is no array
    array = np.frombuffer(memory.data, kind, length)
    weakref.finalize(array, kept.append, memory).atexit = False
    return array


def empty_like(array: NDArray[Any]) -> NDArray[Any]:
    """Like ``np.empty_like(array)``, in C order."""
    if array.nbytes < _LEAST:
        return np.empty(array.shape, array.dtype)
    return empty_array(array.size, array.dtype).reshape(array.shape)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """Like ``array.copy()``, in C order."""
    if array.nbytes < _LEAST:
        return array.copy()
    out = empty_like(array)
    out[...] = array
    return out


def filled_array(length: int, dtype: DTypeLike, value: Any) -> NDArray[Any]:
    """Like ``np.full(length, value, dtype)``."""
    if not value and length * np.dtype(dtype).itemsize > _MOST:
        return np.zeros(length, dtype)  # from the system as they are, and not written
    array = empty_array(length, dtype)
    array.fill(value)
    return array


def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Like ``np.concatenate(arrays)`` of one dtype."""
    out = empty_array(sum(map(len, arrays)), arrays[0].dtype)
    return np.concatenate(arrays, out=out)


def free_kept_memory() -> None:
    """Let go of memory that no array uses now."""
    _kept.clear()
