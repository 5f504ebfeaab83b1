"""Two ways to lay out nonzeros, each with the MTTKRP kernels that read it front to back.

    Fibres, leaf = mode 1                        SortedNonzeros, order (0, 2, 1)

    mode 0 │ 0     0   3                         mode 0 │ 0 0 0 0 3
    mode 2 │ 1     4   1       a column a fibre  mode 1 │ 2 5 7 0 9      a column a nonzero
    begin  │ 0     3   4  5                      mode 2 │ 1 1 1 4 1
    leaves │ 2 5 7 0   9       index in mode 1
    values │ x x x x   x                         values │ x x x x x

Sorting is by counting, mode after mode, so equal input gives equal layouts. Index types are the
smallest that hold the extents.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskpart._jit import kernel

from .kernels.lanes import aligned_rows, is_spread, panels
from .kernels.mttkrp import add_fibres, add_nonzeros, add_products, add_to_leaves
from .kernels.sgd import counting_sort

NONZEROS_AHEAD = 16
_READS_WORTH_A_COPY = 8  # of each row
CACHED_BYTES = 2**24  # factors beyond this come from memory, and are worth asking for early


class FibreProducts:
    """The sums over fibres, which all modes but the leaf share while the leaf's factor stands.

    A fingerprint of that factor, 64 bits made of all its entries, tells whether it still stands:
    whoever changes factors, repeats a step or starts anew need not care. Copies and pickles are
    empty.

    Attributes
    ----------
    sums : ndarray of shape (n_fibres, R)
        Empty before first use.
    """

    def __init__(self) -> None:
        self.sums: NDArray = np.empty((0, 0))
        self._fingerprint: int | None = None
        self._in_use = threading.Lock()

    def __reduce__(self) -> tuple:
        return FibreProducts, ()

    @contextmanager
    def of_one_thread(self) -> Iterator[FibreProducts | None]:
        """Give these products, or None while another thread works on them."""
        if not self._in_use.acquire(blocking=False):
            yield None
            return
        try:
            yield self
        finally:
            self._in_use.release()

    def are_of(self, factor: NDArray, n_fibres: int) -> bool:
        """Whether the sums are those of `factor`; if not, make room to put them."""
        fingerprint = fingerprint_of(factor)
        shape = (n_fibres, factor.shape[1])
        if self.sums.shape != shape or self.sums.dtype != factor.dtype:
            self.sums = np.empty(shape, factor.dtype)
        elif fingerprint == self._fingerprint:
            return True
        self._fingerprint = fingerprint
        return False


@dataclass(frozen=True, eq=False)
class SortedNonzeros:
    """Nonzeros in the order of some modes: for fibres too short to be worth a structure.

    Attributes
    ----------
    order : tuple of int
        Modes, by which the nonzeros are sorted, the first one first.
    coordinates : ndarray of unsigned integers of shape (n_modes, nnz)
    values : ndarray of shape (nnz,)
    """

    order: tuple[int, ...]
    coordinates: NDArray
    values: NDArray

    @classmethod
    def build(
        cls, coordinates: NDArray, values: NDArray, shape: Sequence[int], order: tuple[int, ...]
    ) -> SortedNonzeros:
        """Sort by the modes of `order`."""
        sequence = sorted_positions(coordinates, shape, order)
        placed: NDArray = np.empty(coordinates.shape, _smallest_type(max(shape)))
        for mode in range(len(shape)):
            placed[mode] = coordinates[mode][sequence]
        return cls(order, placed, values[sequence])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.coordinates.nbytes + self.values.nbytes

    def add(self, mode: int, factors: Sequence[NDArray], out: NDArray) -> None:
        """Add the MTTKRP along `mode` to `out`."""
        others = tuple(k for k in range(len(factors)) if k != mode)
        ahead = NONZEROS_AHEAD * (sum(factors[k].nbytes for k in others) > CACHED_BYTES)
        for template, count, offset in panels(out):
            add_nonzeros(
                template, count, self.coordinates, self.values, others,
                tuple(factors[k].ctypes.data + offset for k in others),
                mode, out.ctypes.data + offset, out.strides[0], ahead,
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fibres:
    """Nonzeros gathered into fibres along one mode, the leaf.

    Attributes
    ----------
    leaf : int
        The mode along which fibres run.
    modes : tuple of int
        All others, in order.
    begin : ndarray of unsigned integers of shape (n_fibres + 1,)
        First nonzero of each fibre.
    coordinates : ndarray of uint32 of shape (n_modes - 1, n_fibres)
        A row for each of `modes`.
    leaves : ndarray of unsigned integers of shape (nnz,)
        Index of each nonzero along the leaf.
    values : ndarray of shape (nnz,)
    """

    leaf: int
    modes: tuple[int, ...]
    begin: NDArray
    coordinates: NDArray[np.uint32]
    leaves: NDArray
    values: NDArray

    @classmethod
    def build(
        cls, coordinates: NDArray, values: NDArray, shape: Sequence[int], leaf: int
    ) -> Fibres:
        """Sort by all modes but `leaf`, the longest first, and cut into fibres."""
        modes = tuple(mode for mode in range(len(shape)) if mode != leaf)
        longest_first = sorted(modes, key=lambda mode: -shape[mode])
        sequence = sorted_positions(coordinates, shape, (*longest_first, leaf))
        starts = np.zeros(values.size, bool)
        starts[:1] = True
        for mode in modes:
            index = coordinates[mode][sequence]
            starts[1:] |= index[1:] != index[:-1]
        first = np.flatnonzero(starts)
        ends = _smallest_type(values.size + 1, least=np.uint32)
        begin: NDArray = np.append(first, values.size).astype(ends)
        leaves = coordinates[leaf][sequence].astype(_smallest_type(shape[leaf]))
        columns = np.empty((len(modes), len(first)), np.uint32)
        for row, mode in enumerate(modes):
            columns[row] = coordinates[mode][sequence[first]]
        return cls(leaf, modes, begin, columns, leaves, values[sequence])

    @property
    def n_fibres(self) -> int:
        """Fibres that hold a nonzero."""
        return self.begin.size - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.begin, self.coordinates, self.leaves, self.values)
        return sum(array.nbytes for array in arrays)

    def add(
        self,
        mode: int,
        factors: Sequence[NDArray],
        out: NDArray,
        products: FibreProducts | None = None,
    ) -> None:
        """Add the MTTKRP along `mode` to `out`; read `products`, or fill them where they differ."""
        known = products is not None and products.are_of(factors[self.leaf], self.n_fibres)
        leaf_rows = factors[self.leaf] if known or mode == self.leaf else self._leaf_rows(factors)
        others = tuple(row for row, k in enumerate(self.modes) if k != mode)
        for template, count, offset in panels(out):
            addresses = tuple(factors[self.modes[row]].ctypes.data + offset for row in others)
            to, step = out.ctypes.data + offset, out.strides[0]
            if mode == self.leaf:
                add_to_leaves(
                    template, count, self.begin, self.leaves, self.values, self.coordinates,
                    others, addresses, to, step,
                )  # fmt: skip
                continue
            kept = 0 if products is None else products.sums.ctypes.data + offset
            target = self.modes.index(mode)
            if known:
                add_products(
                    template, count, kept, self.coordinates, others, addresses, target, to, step
                )
            else:
                add_fibres(
                    template, count, self.begin, self.leaves, self.values,
                    leaf_rows.ctypes.data + offset, self.coordinates, others, addresses,
                    target, to, step, kept,
                )  # fmt: skip

    def _leaf_rows(self, factors: Sequence[NDArray]) -> NDArray:
        """The leaf's factor; copied to begin with a cache line where it is read often enough."""
        factor = factors[self.leaf]
        if not is_spread(factor) or self.values.size < _READS_WORTH_A_COPY * len(factor):
            return factor
        rows = aligned_rows(len(factor), factor.shape[1], factor.dtype)
        rows[:] = factor
        return rows


def sorted_positions(coordinates: NDArray, shape: Sequence[int], order: Sequence[int]) -> NDArray:
    """Nonzeros by the modes of `order`, the first one first; ties in their old order."""
    nnz = coordinates.shape[1]
    sequence = np.arange(nnz, dtype=np.int32 if nnz <= np.iinfo(np.int32).max else np.int64)
    for mode in reversed(order):
        sequence, _ = counting_sort(coordinates[mode], shape[mode], sequence)
    return sequence


def fibre_length(coordinates: NDArray, leaf: int) -> float:
    """Mean nonzeros of a fibre along `leaf`, estimated by hashing in one pass.

    Linear counting: n distinct keys leave m·exp(-n/m) of m slots empty (Whang, Vander-Zanden and
    Taylor, ACM TODS 15 (1990)); exact enough at m ≥ 2 nnz, and cheaper than sorting for every leaf.
    """
    nnz = coordinates.shape[1]
    n_slots = 1 << max(4, (2 * nnz - 1).bit_length())
    n_empty = _empty_slots(coordinates, leaf, n_slots)
    return nnz / max(1.0, n_slots * np.log(n_slots / n_empty))


def fingerprint_of(factor: NDArray) -> int:
    """64 bits that depend on every entry of a C-contiguous array, and on where it stands."""
    words = np.uint64 if factor.itemsize == 8 else np.uint32
    return int(_mixed_sum(factor.reshape(-1).view(words)))


@kernel
def _mixed_sum(words):
    total = np.uint64(words.size)
    place = np.uint64(0)
    for n in range(words.size):
        mixed = np.uint64(words[n]) + place
        total += (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        place += np.uint64(0x9E3779B97F4A7C15)
    return total


@kernel
def _empty_slots(coordinates, leaf, n_slots):
    slots = np.zeros(n_slots, np.uint8)
    mask = np.uint64(n_slots - 1)
    for n in range(coordinates.shape[1]):
        key = np.uint64(14695981039346656037)
        for mode in range(coordinates.shape[0]):
            if mode != leaf:
                key = (key ^ np.uint64(coordinates[mode, n])) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
        slots[key & mask] = 1
    return n_slots - slots.sum()


def _smallest_type(extent: int, least: type = np.uint8) -> type:
    """The smallest unsigned type for indices below `extent`, not smaller than `least`."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if extent - 1 <= np.iinfo(dtype).max and np.dtype(dtype) >= np.dtype(least):
            return dtype
    return np.uint64
