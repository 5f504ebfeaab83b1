"""What a message is between processes, over Dask comms and over MPI alike.

    payload ──pack──▶ header (pickle 5, small arrays inside), large arrays as they lie ──unpack──▶

Arrays, and tuples of them, are told by shape, dtype and bytes: a pickle of plain tuples takes half
the time of one of arrays, above all when kernels swept the caches between two messages.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

_INLINE_BYTES = 65_536  # an array beside the header costs more than a copy of so many
_PLAIN_KINDS = "biufc"  # a dtype is told by its letters


def pack(payload: Any, note: Any = None) -> tuple[bytes, list[memoryview]]:
    """Header and buffers; the buffers are the memory of the payload's large arrays.

    `note` is a small plain value that goes into the header.
    """
    buffers: list[memoryview] = []
    content: Any
    if _is_plain(payload):
        content = _told(payload, buffers)
    elif type(payload) is tuple and all([_is_plain(part) for part in payload]):
        content = [_told(part, buffers) for part in payload]
    else:
        content = _pickled(payload, buffers)
    return pickle.dumps((note, content), 5), buffers


def unpack(header: Any, buffers: Sequence[Any]) -> tuple[Any, Any]:
    """Note and payload; large arrays of the payload lie in the buffers."""
    note, content = pickle.loads(header)
    if type(content) is bytes:
        return note, pickle.loads(content, buffers=buffers)
    following = iter(buffers)
    if type(content) is tuple:
        return note, _array(content, following)
    return note, tuple([_array(told, following) for told in content])


def _is_plain(value: Any) -> bool:
    return (
        type(value) is np.ndarray and value.dtype.kind in _PLAIN_KINDS and value.flags.c_contiguous
    )


def _told(array: NDArray[Any], buffers: list[memoryview]) -> tuple[Any, ...]:
    """Shape, dtype, whether it may be written, and its bytes; None if they are in the buffers."""
    content, writeable = None, array.flags.writeable
    if array.nbytes > _INLINE_BYTES:
        buffers.append(pickle.PickleBuffer(array).raw())
    else:
        content = bytearray(array.data) if writeable else array.tobytes()
    return array.shape, array.dtype.str, writeable, content


def _array(told: tuple[Any, ...], following: Iterator[Any]) -> NDArray[Any]:
    shape, dtype, writeable, content = told
    if content is not None:
        return np.ndarray(shape, dtype, content)
    array = np.ndarray(shape, dtype, next(following))
    if not writeable:
        array.flags.writeable = False
    return array


def _pickled(payload: Any, buffers: list[memoryview]) -> bytes:
    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > _INLINE_BYTES:
            buffers.append(raw)
            return False
        return True

    try:
        return pickle.dumps(payload, 5, buffer_callback=is_inside)
    except (pickle.PicklingError, AttributeError, TypeError):  # of a function in a notebook, say
        buffers.clear()
        return cloudpickle.dumps(payload, 5, buffer_callback=is_inside)
