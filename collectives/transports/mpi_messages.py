"""What a message between MPI ranks looks like.

    step │ form │ small arrays                  one message of bytes, the first
    large array, large array, …                 beside it the arrays themselves, uncopied, unpickled

A `Form` says kind, dtypes and shapes; most messages have one that was seen before, so it is neither
made nor read anew. It is filled up so that arrays begin where a processor likes to read them, and
kernels need no second version for arrays that don't. What does not fit into `FIRST_BYTES` goes
beside, and the first message says so.
"""

from __future__ import annotations

import math
import pickle
import struct
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .spmd_endpoint import PLAIN_KINDS, pickled_object

FIRST_BYTES = 294_912
_INLINE_BYTES = 262_144  # of all small arrays together; a message beside costs more than a copy
_LENGTH = struct.Struct("<q")  # of a step, a form, or what follows the form where no arrays do
_ALIGNED = 16

Described = tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]


class Form:
    """What messages of one kind, dtypes and shapes have in common; made by `form_of`.

    Attributes
    ----------
    kind : {"object", "array", "tuple", "beside"}
    opening : bytes
        What is written after the step.
    begin, nbytes : int
        Where arrays, or else a length and so many bytes, begin in the first message, and where it
        ends, if it has arrays.
    inline : list of (int, dtype, tuple of int, int)
        Arrays of the first message: place among all, dtype, shape, and where they begin in it.
    beside : list of (int, dtype, tuple of int)
        Arrays in messages of their own.
    """

    __slots__ = ("begin", "beside", "inline", "kind", "nbytes", "opening")

    def __init__(self, kind: str, described: Described, opening: bytes) -> None:
        self.kind, self.opening = kind, opening
        self.begin = end = _LENGTH.size + len(opening)
        room = _INLINE_BYTES
        self.inline: list[tuple[int, np.dtype[Any], tuple[int, ...], int]] = []
        self.beside: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
        for place, (dtype, shape) in enumerate(described):
            nbytes = dtype.itemsize * math.prod(shape)
            if nbytes <= room:
                self.inline.append((place, dtype, shape, end))
                room -= nbytes
                end += nbytes + -nbytes % _ALIGNED
            else:
                self.beside.append((place, dtype, shape))
        self.nbytes = end

    def open(self, buffer: bytearray) -> None:
        """Write into a first message what it begins with, except for the step."""
        buffer[_LENGTH.size : self.begin] = self.opening

    def arrays_in(self, buffer: bytearray) -> list[NDArray[Any]]:
        """Where a first message in this buffer has its arrays."""
        return [np.ndarray(shape, dtype, buffer, begin) for _, dtype, shape, begin in self.inline]


@lru_cache(maxsize=512)  # the same shapes come again and again
def form_of(kind: str, described: Described) -> Form:
    """The form of messages of this kind, with arrays of these dtypes and shapes."""
    named = [
        (dtype.str if dtype.kind in PLAIN_KINDS else dtype, shape) for dtype, shape in described
    ]
    header = pickle.dumps((kind, named), pickle.HIGHEST_PROTOCOL)
    begin = 2 * _LENGTH.size + len(header)
    filling = -begin % _ALIGNED
    return Form(kind, described, _LENGTH.pack(begin + filling) + header + bytes(filling))


@lru_cache(maxsize=512)
def _form_from(opening: bytes) -> Form:
    """The form that a first message says."""
    kind, named = pickle.loads(memoryview(opening)[_LENGTH.size :])
    return Form(kind, tuple([(np.dtype(dtype), shape) for dtype, shape in named]), opening)


class Outgoing:
    """A message to be sent.

    Attributes
    ----------
    form : Form
    nbytes : int
        Of the first message, which `write` fills.
    small : list of ndarray
        What it has of arrays.
    large : list of buffers
        What is sent beside it.
    """

    __slots__ = ("form", "large", "nbytes", "object", "small")

    def __init__(self, payload: Any) -> None:
        arrays = payload if isinstance(payload, tuple) else (payload,)
        self.small: list[NDArray[Any]] = []
        self.large: list[Any] = []
        self.object = b""
        if not all([isinstance(a, np.ndarray) and not a.dtype.hasobject for a in arrays]):
            self._set_object(pickled_object(payload))
            return
        kind = "tuple" if isinstance(payload, tuple) else "array"
        self.form = form = form_of(kind, tuple([(a.dtype, a.shape) for a in arrays]))
        self.nbytes = form.nbytes
        if form.beside:
            self.small = [arrays[place] for place, *_ in form.inline]
            beside = [np.ascontiguousarray(arrays[place]) for place, *_ in form.beside]
            self.large = [octets_of(array) for array in beside]
        else:
            self.small = list(arrays)

    def _set_object(self, pickled: bytes) -> None:
        self.form, self.object = form_of("object", ()), pickled
        self.nbytes = self.form.begin + _LENGTH.size + len(pickled)
        if self.nbytes > FIRST_BYTES:
            whole = bytearray(self.nbytes)
            self.write(whole, 0)
            self.large.append(whole)
            self._set_beside(len(whole))

    def _set_beside(self, nbytes: int) -> None:
        self.form, self.object = form_of("beside", ()), _LENGTH.pack(nbytes)
        self.nbytes = self.form.begin + 2 * _LENGTH.size

    def write(self, buffer: bytearray, step: int) -> None:
        """Put the first message into a buffer of `nbytes` or more."""
        form = self.form
        write_step(buffer, 0, step)
        form.open(buffer)
        if self.object:
            begin = form.begin + _LENGTH.size
            _LENGTH.pack_into(buffer, form.begin, len(self.object))
            buffer[begin : begin + len(self.object)] = self.object
        for place, array in zip(form.arrays_in(buffer), self.small, strict=True):
            place[...] = array


def octets_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a contiguous array, uncopied."""
    return array.reshape(-1).view(np.uint8)


# a first message begins with its step: write_step(buffer, 0, step), read_step(buffer)[0]
write_step, read_step, STEP_BYTES = _LENGTH.pack_into, _LENGTH.unpack_from, _LENGTH.size


def has_start(buffer: bytearray, step: int, form: Form) -> bool:
    """Whether a first message is of this step and form."""
    return read_step(buffer)[0] == step and buffer.startswith(form.opening, STEP_BYTES)


class Message:
    """A message whose first buffer has come.

    Parameters
    ----------
    buffer : bytearray
        Begins with the first message; is copied.
    guess : Form, optional
        What it may be like.

    Attributes
    ----------
    step : int
    form : Form
    rest : bytearray
        What follows the form.
    arrays : list of ndarray
        Of the large ones nothing has come yet.
    """

    __slots__ = ("arrays", "form", "rest", "step")

    def __init__(self, buffer: bytearray, guess: Form | None = None) -> None:
        (self.step,) = read_step(buffer)
        if guess is None or not has_start(buffer, self.step, guess):
            (begin,) = _LENGTH.unpack_from(buffer, _LENGTH.size)
            guess = _form_from(bytes(buffer[_LENGTH.size : begin]))
        self.form, begin = guess, guess.begin
        self.arrays: list[NDArray[Any]] = []
        if guess.kind in ("object", "beside"):
            (length,) = _LENGTH.unpack_from(buffer, begin)
            begin += _LENGTH.size
            self.rest = buffer[begin : begin + length]
            return
        self.rest = buffer[begin : guess.nbytes]
        self.arrays = [
            np.ndarray(shape, dtype, self.rest, place - begin)
            for _, dtype, shape, place in guess.inline
        ]
        for place, dtype, shape in guess.beside:
            self.arrays.insert(place, np.empty(shape, dtype))

    @property
    def kind(self) -> str:
        """The form's."""
        return self.form.kind

    def offer(self, room: tuple[NDArray[Any] | None, ...] | None) -> None:
        """Take these arrays for the large ones, where they are alike."""
        if room is None or len(room) != len(self.arrays):
            return
        for place, dtype, shape in self.form.beside:
            offered = room[place]
            if offered is not None and (offered.dtype, offered.shape) == (dtype, shape):
                self.arrays[place] = offered

    def large(self) -> list[NDArray[Any]]:
        """Arrays that come in buffers of their own, in order."""
        return [self.arrays[place] for place, *_ in self.form.beside]

    def beside(self) -> bytearray:
        """A buffer for the message that did not fit."""
        return bytearray(_LENGTH.unpack_from(self.rest)[0])
