"""What a message between MPI ranks looks like.

    length │ header │ small arrays      one message of bytes
    large array, large array, …         beside it the arrays themselves, not copied, not pickled

The header says kind, dtypes and shapes. It is filled up so that arrays begin where a processor
likes to read them, and kernels need no second version for arrays that don't.
"""

from __future__ import annotations

import pickle
import struct
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .spmd_rank import pickled_object

_INLINE_BYTES = 16_384  # of all small arrays together
_LENGTH = struct.Struct("<q")
_ALIGNED = 16

Described = tuple[tuple[np.dtype[Any], tuple[int, ...], bool], ...]  # dtype, shape, inline


def buffers_of(payload: Any) -> list[Any]:
    """A message as the buffers that are sent; the first is always bytes of its own."""
    arrays = payload if isinstance(payload, tuple) else (payload,)
    if not all([isinstance(a, np.ndarray) and not a.dtype.hasobject for a in arrays]):
        return [_headed("object", ()) + pickled_object(payload)]
    room, described, inline, large = _INLINE_BYTES, [], [], []
    for array in arrays:
        small = array.nbytes <= room
        described.append((array.dtype, array.shape, small))
        if small:
            room -= array.nbytes
            inline.append(array.tobytes())
            inline.append(bytes(-array.nbytes % _ALIGNED))
        else:
            large.append(octets_of(np.ascontiguousarray(array)))
    header = _headed("tuple" if isinstance(payload, tuple) else "array", tuple(described))
    return [b"".join((header, *inline)), *large]


def octets_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a contiguous array, uncopied."""
    return array.reshape(-1).view(np.uint8)


class Message:
    """A message whose first buffer has come.

    Parameters
    ----------
    first : bytearray
        Its small arrays are parts of this.

    Attributes
    ----------
    kind : {"object", "array", "tuple"}
    rest : memoryview
        What follows the header.
    arrays : list of ndarray
        Of the large ones nothing has come yet.
    """

    def __init__(self, first: bytearray) -> None:
        (length,) = _LENGTH.unpack_from(first)
        self.kind, self._described = _read_header(bytes(first[8:length]))
        self.rest = memoryview(first)[length:]
        self.arrays: list[NDArray[Any]] = []
        if self.kind == "object":
            return
        place = length
        for dtype, shape, small in self._described:
            if small:
                array: NDArray[Any] = np.ndarray(shape, dtype, first, place)
                place += array.nbytes + -array.nbytes % _ALIGNED
            else:
                array = np.empty(shape, dtype)
            self.arrays.append(array)

    @property
    def large(self) -> list[NDArray[Any]]:
        """Arrays that come in buffers of their own, in order."""
        pairs = zip(self.arrays, self._described, strict=True)
        return [array for array, (_, _, small) in pairs if not small]

    def offer(self, room: tuple[NDArray[Any] | None, ...] | None) -> None:
        """Take these arrays for the large ones, where they are alike."""
        if room is None or len(room) != len(self.arrays):
            return
        for place, (dtype, shape, small) in enumerate(self._described):
            offered = room[place]
            if (
                offered is not None
                and not small
                and (offered.dtype, offered.shape) == (dtype, shape)
            ):
                self.arrays[place] = offered


@lru_cache(maxsize=256)  # the same shapes come again and again
def _headed(kind: str, described: Described) -> bytes:
    header = pickle.dumps((kind, described))
    length = -(-(8 + len(header)) // _ALIGNED) * _ALIGNED
    return _LENGTH.pack(length) + header.ljust(length - 8, b"\0")


@lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[str, Described]:
    return pickle.loads(header)
