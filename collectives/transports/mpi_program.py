"""A program for the little machine of `mpi_machine`: words, and what their addresses belong to.

words before: memory, seconds blocked, flag, error, tries, place to begin at, MPI's status
place 2       EXPECT   request
place 3       OPEN     request
place 4       TAKE     letter, offset in the memory, bytes
…             END
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .mpi_machine import BASE, BEGIN, BLOCKED, ERROR, FIRST_PLACE, TRIES, WORDS, Code, Machine

_MOST_TRIES = 2000  # of a wait, before Python is asked to wait
_WORD_BYTES = 8


class Program:
    """Instructions for the machine, and what their addresses belong to.

    Attributes
    ----------
    start : callable
        ``start(step)`` runs it; the place where it stopped, or -1 at the end.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._kept: list[Any] = []  # what addresses point to
        self._blocked = ctypes.c_double(0.0)
        self.start: Callable[[int], int]

    def add(self, code: Code, *operands: int) -> int:
        """Append an instruction; its place."""
        self._rows.append((code, *operands, *[0] * (WORDS - 1 - len(operands))))
        return self.next_place - 1

    @property
    def next_place(self) -> int:
        """Of the instruction that is added next."""
        return FIRST_PLACE + len(self._rows)

    def address(self, buffer: NDArray[Any] | bytearray | bytes) -> int:
        """Where an array or a buffer begins; it stays there as long as this program does."""
        array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
        self._kept.append(array)
        return array.ctypes.data

    def request(self, request: Any) -> int:
        """Where MPI's handle of a request lies."""
        from mpi4py import MPI

        self._kept.append(request)
        return MPI._addressof(request)

    def finish(self, machine: Machine) -> None:
        """Nothing more is added; it may run."""
        self.add(Code.END)
        before = [0] * (FIRST_PLACE * WORDS)
        self._words = np.array(before + [word for row in self._rows for word in row], np.int64)
        self._words[TRIES], self._words[BEGIN] = _MOST_TRIES, FIRST_PLACE
        at = self._words.ctypes.data
        self._base, self._error, self._begin = (
            ctypes.c_int64.from_address(at + word * _WORD_BYTES) for word in (BASE, ERROR, BEGIN)
        )
        self._blocked = ctypes.c_double.from_address(at + BLOCKED * _WORD_BYTES)
        self.start = machine.on(at)

    def go_on(self, place: int, step: int) -> int:
        """Run from a place on; where it stopped, or -1 at the end."""
        self._begin.value = place
        try:
            return self.start(step)
        finally:
            self._begin.value = FIRST_PLACE

    def set_memory(self, base: int) -> None:
        """Where offsets and positions count from."""
        self._base.value = base

    def raise_error(self) -> None:
        """What MPI said when the program stopped, if it was not well."""
        from mpi4py import MPI

        error, self._error.value = self._error.value, 0
        if error:
            raise MPI.Exception(error)

    def seconds_blocked(self) -> float:
        """How long it has waited since this was asked last."""
        seconds, self._blocked.value = self._blocked.value, 0.0
        return seconds
