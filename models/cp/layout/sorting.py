"""Nonzeros put in order in little memory: what is given may be overwritten, and is let go of.

    given ─take─► Nonzeros ─┐ index(mode), values
                            ├─► sorted_positions ─► gather ─► first structure
    first structure ────────┘            again from the first one ─► second structure

Bytes held for each of the nonzeros, C = 4·modes + value (int32 coordinates and value as given):

    to sort           C + 4 + 4 (positions, twice), and 4 (keys of `blocks`)
    first structure   C + 4 + its own; coordinates that stay as wide are put in order in place
    second structure  first + 4 + its own: the given ones are gone, their indices are read from it

No step holds more than 2·C, and what has a size of a mode or of a chunk. Scratch is numpy's, not
the kernels', so that memory profilers see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel

CHUNK = 1 << 13  # positions that numpy turns into addresses at a time


class Source(Protocol):
    """What holds nonzeros in some order: as given, or a structure."""

    @property
    def values(self) -> NDArray:
        """The nonzeros."""

    def index(self, mode: int) -> NDArray[np.uint32]:
        """Index of each nonzero along a mode."""


@dataclass(eq=False)
class Nonzeros:
    """Nonzeros that a layout is to be made of.

    Attributes
    ----------
    coordinates : ndarray of int32 of shape (n_modes, nnz)
    values : ndarray of shape (nnz,)
    given_away : bool
        Whoever takes them may overwrite them, and nobody else holds them.
    """

    coordinates: NDArray[np.int32]
    values: NDArray
    given_away: bool = False

    def index(self, mode: int) -> NDArray[np.uint32]:
        """Index of each nonzero along a mode."""
        return self.coordinates[mode].view(np.uint32)

    def take(self) -> Nonzeros:
        """These nonzeros; where they are given away, none are left here."""
        if not self.given_away:
            return self
        taken = Nonzeros(self.coordinates, self.values, True)
        self.coordinates = np.empty((len(self.coordinates), 0), np.int32)
        self.values = np.empty(0, self.values.dtype)
        return taken


def sorted_positions(
    source: Source, shape: Sequence[int], order: Sequence[int], keys: NDArray | None = None
) -> NDArray:
    """Nonzeros by the modes of `order`, the first one first; ties in their old order.

    `keys`, where given, are uint32, one a nonzero: then by these before all modes.
    """
    nnz = source.values.size
    dtype = np.uint32 if nnz <= np.iinfo(np.uint32).max else np.uint64
    sequence: NDArray = np.arange(nnz, dtype=dtype)
    ordered: NDArray = np.empty_like(sequence)
    for mode in reversed(order):
        _order_by(source.index(mode), np.zeros(shape[mode] + 1, np.int64), sequence, ordered)
        sequence, ordered = ordered, sequence
    if keys is not None:
        _order_by(keys, np.zeros(int(keys.max(initial=0)) + 2, np.int64), sequence, ordered)
        sequence = ordered
    return sequence


def gather(column: NDArray, sequence: NDArray, out: NDArray) -> NDArray:
    """Put ``column[sequence]`` into `out`, which may be `sequence`; returns it."""
    for begin in range(0, out.size, CHUNK):
        chunk = slice(begin, begin + CHUNK)
        out[chunk] = column[sequence[chunk]]
    return out


def changes(source: Source, sequence: NDArray, modes: Sequence[int]) -> NDArray[np.bool_]:
    """Where, in the order of `sequence`, an index along one of `modes` differs from the last."""
    found = np.zeros(sequence.size, bool)
    found[:1] = True
    for mode in modes:
        index = source.index(mode)
        for begin in range(1, found.size, CHUNK):
            end = begin + CHUNK
            near = index[sequence[begin - 1 : end]]
            found[begin:end] |= near[1:] != near[:-1]
    return found


def fibre_length(coordinates: NDArray, leaf: int) -> float:
    """Mean nonzeros of a fibre along `leaf`, estimated by hashing in one pass.

    Linear counting: n distinct keys leave m·exp(-n/m) of m slots empty (Whang, Vander-Zanden and
    Taylor, ACM TODS 15 (1990)); exact enough at m ≥ 2 nnz, and cheaper than sorting for every leaf.
    """
    nnz = coordinates.shape[1]
    n_slots = 1 << max(4, (2 * nnz - 1).bit_length())
    slots = np.zeros(n_slots, bool)
    _mark_slots(coordinates, leaf, slots)
    n_empty = n_slots - np.count_nonzero(slots)
    return nnz / max(1.0, n_slots * np.log(n_slots / n_empty))


@kernel
def _order_by(keys, ends, sequence, ordered):
    """Counting sort of `sequence` by key, stable; `ends` are zeros, one more than keys."""
    for n in range(np.uint64(keys.size)):
        ends[np.uint64(keys[n]) + np.uint64(1)] += 1
    for k in range(np.uint64(1), np.uint64(ends.size)):
        ends[k] += ends[k - np.uint64(1)]
    for n in range(np.uint64(sequence.size)):
        position = np.uint64(sequence[n])
        key = np.uint64(keys[position])
        ordered[np.uint64(ends[key])] = position
        ends[key] += 1


@kernel
def _mark_slots(coordinates, leaf, slots):
    mask = np.uint64(slots.size - 1)
    for n in range(coordinates.shape[1]):
        key = np.uint64(14695981039346656037)
        for mode in range(coordinates.shape[0]):
            if mode != leaf:
                key = (key ^ np.uint64(coordinates[mode, n])) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
        slots[key & mask] = True
