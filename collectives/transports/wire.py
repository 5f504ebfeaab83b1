"""What a message is between processes, over Dask comms and over MPI alike.

payload ──pack──▶ header (pickle 5, small arrays inside), large arrays as they lie ──unpack──▶
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

_INLINE_BYTES = 65_536  # an array beside the header costs more than a copy of so many


_PLAIN_KINDS = "biufc"  # a dtype is told by its letters


def pack(payload: Any) -> tuple[bytes, list[memoryview]]:
    """Header and buffers; the buffers are the memory of the payload's large arrays."""
    buffers: list[memoryview] = []

    def is_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes > _INLINE_BYTES:
            buffers.append(raw)
            return False
        return True

    try:
        header = io.BytesIO()
        pickler = pickle.Pickler(header, 5, buffer_callback=is_inside)
        pickler.dispatch_table = _REDUCERS
        pickler.dump(payload)
        return header.getvalue(), buffers
    except (pickle.PicklingError, AttributeError, TypeError):  # of a function in a notebook, say
        buffers.clear()
        return cloudpickle.dumps(payload, 5, buffer_callback=is_inside), buffers


def unpack(header: Any, buffers: Sequence[Any]) -> Any:
    """The payload; its large arrays lie in the buffers."""
    return pickle.loads(header, buffers=buffers)


def _reduce_array(array: NDArray[Any]) -> Any:
    if array.dtype.kind not in _PLAIN_KINDS or not array.flags.c_contiguous:
        return array.__reduce_ex__(5)
    return _array, (array.shape, array.dtype.str, pickle.PickleBuffer(array.data))


def _array(shape: tuple[int, ...], dtype: str, buffer: Any) -> NDArray[Any]:
    return np.ndarray(shape, dtype, buffer)


# its own `__reduce_ex__` takes twice as long
_REDUCERS = {**copyreg.dispatch_table, np.ndarray: _reduce_array}
