"""What a message between MPI ranks looks like.

    step │ lengths │ header │ small arrays      one message of bytes, the first
    large array, large array, …                 beside it the arrays themselves, uncopied, unpickled

The header says kind, dtypes and shapes. It is filled up so that arrays begin where a processor
likes to read them, and kernels need no second version for arrays that don't. What does not fit into
`FIRST_BYTES` goes beside, and the first message says so.
"""

from __future__ import annotations

import pickle
import struct
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .spmd_rank import pickled_object

FIRST_BYTES = 20_480
_INLINE_BYTES = 16_384  # of all small arrays together
_LENGTHS = struct.Struct("<qqq")  # step, header with this, all
_STEP = struct.Struct("<q")
_ALIGNED = 16

Described = tuple[tuple[np.dtype[Any], tuple[int, ...], bool], ...]  # dtype, shape, inline


class Outgoing:
    """A message to be sent.

    Attributes
    ----------
    header : bytes
        The same for all messages of one kind, dtypes and shapes; lengths are not filled in.
    nbytes : int
        Of the first buffer, which `write` fills.
    large : list of buffers
        What is sent beside it.
    """

    __slots__ = ("_inline", "header", "large", "nbytes")

    def __init__(self, payload: Any) -> None:
        arrays = payload if isinstance(payload, tuple) else (payload,)
        self.large: list[Any] = []
        if all([isinstance(a, np.ndarray) and not a.dtype.hasobject for a in arrays]):
            self._outline(arrays, "tuple" if isinstance(payload, tuple) else "array")
        else:
            self._set("object", (), [pickled_object(payload)])
        if self.nbytes > FIRST_BYTES:
            whole = bytearray(self.nbytes)
            self.write(whole, 0)
            self.large.insert(0, whole)
            self._set("beside", (), [_STEP.pack(len(whole))])

    def _outline(self, arrays: tuple[NDArray[Any], ...], kind: str) -> None:
        room, described, inline = _INLINE_BYTES, [], []
        for array in arrays:
            small = array.nbytes <= room
            described.append((array.dtype, array.shape, small))
            if small:
                room -= array.nbytes
                inline.append(array.tobytes())
            else:
                self.large.append(octets_of(np.ascontiguousarray(array)))
        self._set(kind, tuple(described), inline)

    def _set(self, kind: str, described: Described, inline: list[bytes]) -> None:
        self.header, self._inline = _headed(kind, described), inline
        self.nbytes = len(self.header)
        for piece in inline:
            self.nbytes += _filled_up(len(piece))

    def write(self, buffer: bytearray, step: int) -> None:
        """Put the first message into a buffer of `nbytes` or more."""
        place = len(self.header)
        buffer[:place] = self.header
        _LENGTHS.pack_into(buffer, 0, step, place, self.nbytes)
        for piece in self._inline:
            buffer[place : place + len(piece)] = piece
            place += _filled_up(len(piece))


def octets_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a contiguous array, uncopied."""
    return array.reshape(-1).view(np.uint8)


def write_step(buffer: bytearray, step: int) -> None:
    """Change the step of a first message."""
    _STEP.pack_into(buffer, 0, step)


def array_in(buffer: bytearray, header: bytes, like: NDArray[Any]) -> NDArray[Any]:
    """Where a first message with this header has its only array."""
    return np.ndarray(like.shape, like.dtype, buffer, len(header))


def form_of(message: Outgoing) -> bytes:
    """What a first message says after its step and before its arrays."""
    buffer = bytearray(message.nbytes)
    message.write(buffer, 0)
    return bytes(buffer[_STEP.size : len(message.header)])


def has_start(buffer: bytearray, step: int, form: bytes) -> bool:
    """Whether a first message says this step and form."""
    return _STEP.unpack_from(buffer)[0] == step and buffer.startswith(form, _STEP.size)


class Message:
    """A message whose first buffer has come.

    Parameters
    ----------
    buffer : bytearray
        Begins with the first message; is copied.

    Attributes
    ----------
    step : int
    kind : {"object", "array", "tuple", "beside"}
    rest : memoryview
        What follows the header.
    arrays : list of ndarray
        Of the large ones nothing has come yet.
    large : list of int
        Places of those that come in buffers of their own, in order.
    """

    __slots__ = ("_described", "arrays", "kind", "large", "rest", "step")

    def __init__(self, buffer: bytearray) -> None:
        self.step, place, nbytes = _LENGTHS.unpack_from(buffer)
        first = buffer[:nbytes]
        self.rest = memoryview(first)[place:]
        self.kind, self._described, self.large = _read_header(bytes(first[_LENGTHS.size : place]))
        self.arrays: list[NDArray[Any]] = []
        for dtype, shape, small in self._described:
            if small:
                array: NDArray[Any] = np.ndarray(shape, dtype, first, place)
                place += _filled_up(array.nbytes)
            else:
                array = np.empty(shape, dtype)
            self.arrays.append(array)

    def offer(self, room: tuple[NDArray[Any] | None, ...] | None) -> None:
        """Take these arrays for the large ones, where they are alike."""
        if room is None or len(room) != len(self.arrays):
            return
        for place in self.large:
            offered, (dtype, shape, _) = room[place], self._described[place]
            if offered is not None and (offered.dtype, offered.shape) == (dtype, shape):
                self.arrays[place] = offered

    def beside(self) -> bytearray:
        """A buffer for the message that did not fit."""
        return bytearray(_STEP.unpack_from(self.rest)[0])


@lru_cache(maxsize=256)  # the same shapes come again and again
def _headed(kind: str, described: Described) -> bytes:
    header = pickle.dumps((kind, described))
    length = _filled_up(_LENGTHS.size + len(header))
    return bytes(_LENGTHS.size) + header.ljust(length - _LENGTHS.size, b"\0")


@lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[str, Described, list[int]]:
    kind, described = pickle.loads(header)
    return kind, described, [place for place, (_, _, small) in enumerate(described) if not small]


def _filled_up(nbytes: int) -> int:
    return nbytes + -nbytes % _ALIGNED
