"""What a message is between processes, over Dask comms and over MPI alike.

    payload ──pack──▶ header (pickle 5, small arrays inside), large arrays as they lie ──unpack──▶

Arrays, and tuples of them, are told by shape, dtype and bytes: a pickle of plain tuples takes less
time than one of arrays, above all when kernels swept the caches between two messages.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

INLINE_BYTES = 65_536  # a buffer beside the header costs more than a copy of so many
_PLAIN_KINDS = "biufc"  # a dtype is told by its letters


def pack(payload: Any, note: Any = None) -> tuple[bytes, list[memoryview]]:
    """Header and buffers; the buffers are the memory of the payload's large arrays.

    `note` is a small plain value that travels in the header.
    """
    buffers: list[memoryview] = []
    parts = payload if type(payload) is tuple else (payload,)
    told: Any = [_told(part, buffers) for part in parts]
    form = "array" if parts is not payload else "arrays"
    if None in told:
        buffers.clear()
        form, told = "object", _pickled(payload, buffers)
    return pickle.dumps((note, form, told), 5), buffers


def unpack(header: Any, next_buffer: Callable[[int], Any]) -> tuple[Any, Any]:
    """Note and payload; ``next_buffer(size in bytes)`` gives the buffers in their order."""
    note, form, told = pickle.loads(header)
    if form == "object":
        pickled, sizes = told
        return note, pickle.loads(pickled, buffers=[next_buffer(size) for size in sizes])
    parts = [_array(each, next_buffer) for each in told]
    return note, parts[0] if form == "array" else tuple(parts)


def _told(value: Any, buffers: list[memoryview]) -> tuple[Any, ...] | None:
    """Of an array: shape, dtype, whether it may be written, and its bytes or its buffer's size."""
    if type(value) is not np.ndarray or value.dtype.kind not in _PLAIN_KINDS:
        return None
    flags = value.flags
    if not flags.c_contiguous:
        return None
    content: Any = pickle.PickleBuffer(value.data)  # bytes, or a bytearray, once it is pickled
    if value.nbytes > INLINE_BYTES:
        buffers.append(content.raw())
        content = value.nbytes
    return value.shape, value.dtype.str, flags.writeable, content


def _array(told: tuple[Any, ...], next_buffer: Callable[[int], Any]) -> NDArray[Any]:
    shape, dtype, writeable, content = told
    if not isinstance(content, int):
        return np.ndarray(shape, dtype, content)
    array: NDArray[Any] = np.ndarray(shape, dtype, next_buffer(content))
    if not writeable:
        array.flags.writeable = False
    return array


def _pickled(payload: Any, buffers: list[memoryview]) -> tuple[bytes, list[int]]:
    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > INLINE_BYTES:
            buffers.append(raw)
            return False
        return True

    try:
        pickled = pickle.dumps(payload, 5, buffer_callback=is_inside)
    except (pickle.PicklingError, AttributeError, TypeError):  # of a function in a notebook, say
        buffers.clear()
        pickled = cloudpickle.dumps(payload, 5, buffer_callback=is_inside)
    return pickled, [buffer.nbytes for buffer in buffers]
