"""What a message is between processes, over Dask comms and over MPI alike.

payload ──pack──▶ header (pickle 5, small arrays inside), large arrays as they lie ──unpack──▶
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle

_INLINE_BYTES = 65_536  # an array beside the header costs more than a copy of so many


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
        return pickle.dumps(payload, 5, buffer_callback=is_inside), buffers
    except (pickle.PicklingError, AttributeError, TypeError):  # of a function in a notebook, say
        buffers.clear()
        return cloudpickle.dumps(payload, 5, buffer_callback=is_inside), buffers


def unpack(header: Any, buffers: Sequence[Any]) -> Any:
    """The payload; its large arrays lie in the buffers."""
    return pickle.loads(header, buffers=buffers)
