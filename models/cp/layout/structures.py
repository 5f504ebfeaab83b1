"""Two ways to lay out nonzeros, each with the MTTKRP kernels that read it front to back.

    Fibres, leaf = mode 1                        SortedNonzeros, order (0, 2, 1)

    mode 0 │ 0     0   3                         mode 0 │ 0 0 0 0 3
    mode 2 │ 1     4   1       a column a fibre  mode 1 │ 2 5 7 0 9      a column a nonzero
    begin  │ 0     3   4  5                      mode 2 │ 1 1 1 4 1
    leaves │ 2 5 7 0   9       index in mode 1
    values │ x x x x   x                         values │ x x x x x

Both are made by `sorting`, from nonzeros as given or from another structure: equal nonzeros
give equal structures. Index types are the smallest that hold the extents.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import aligned_rows, is_spread, panels
from daskpart.models.cp.kernels.mttkrp import (
    add_fibres,
    add_nonzeros,
    add_pieces,
    add_products,
    add_to_leaves,
)
from daskpart.models.cp.kernels.reconstruction import reconstruct_fibres, reconstruct_nonzeros

from .blocks import block_keys, popularity_keys
from .sorting import Nonzeros, Source, changes, gather, sorted_positions

NONZEROS_AHEAD = 16
_READS_WORTH_A_COPY = 8  # of each row
CACHED_BYTES = 2**24  # factors beyond this come from memory, and are worth asking for early
_MOST_ADDED = 2**14  # terms to a row of float32, in the mean: millions would lose what they add


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
    def of_one_thread(self) -> Iterator[FibreProducts]:
        """Give these products, or new ones while another thread works on them."""
        if not self._in_use.acquire(blocking=False):
            yield FibreProducts()
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
            self.sums = aligned_rows(*shape, factor.dtype)
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
    def build(cls, source: Source, shape: Sequence[int], order: tuple[int, ...]) -> SortedNonzeros:
        """Sort by the modes of `order`; what was given away is put in order where it stands."""
        sequence = sorted_positions(source, shape, order)
        dtype = _smallest_type(max(shape))
        if isinstance(source, Nonzeros) and source.given_away and dtype is np.uint32:
            placed: NDArray = source.coordinates.view(dtype)
            for row in placed:
                row[:] = gather(row, sequence, np.empty_like(row))
            return cls(order, placed, gather(source.values, sequence, np.empty_like(source.values)))
        placed = np.empty((len(shape), sequence.size), dtype)
        last = order[0]
        if dtype == sequence.dtype:  # room for the sequence too: it is overwritten in the end
            placed[last] = sequence
            sequence = placed[last]
        for mode in order[1:]:
            gather(source.index(mode), sequence, placed[mode])
        values = gather(source.values, sequence, np.empty_like(source.values))
        gather(source.index(last), sequence, placed[last])
        return cls(order, placed, values)

    def index(self, mode: int) -> NDArray[np.uint32]:
        """Index of each nonzero along a mode."""
        return self.coordinates[mode].astype(np.uint32, copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.coordinates.nbytes + self.values.nbytes

    def add(self, mode: int, factors: Sequence[NDArray], out: NDArray) -> None:
        """Add the MTTKRP along `mode` to `out`."""
        others = tuple(k for k in range(len(factors)) if k != mode)
        ahead = NONZEROS_AHEAD * (sum(factors[k].nbytes for k in others) > CACHED_BYTES)
        nnz = self.values.size
        for template, count, offset, start, stop, to in _panels_of_sums(out, nnz, nnz):
            add_nonzeros(
                template, count, start, stop, self.coordinates, self.values, others,
                tuple(factors[k].ctypes.data + offset for k in others), mode, to, out.strides[0],
                ahead,
            )  # fmt: skip

    def reconstruct(self, factors: Sequence[NDArray], weights: NDArray) -> NDArray:
        """Values of a decomposition at the nonzeros, in their order; all of one type."""
        out = np.zeros_like(self.values)
        modes = tuple(range(len(factors)))
        for template, count, offset in panels(factors[0]):
            reconstruct_nonzeros(
                template, count, weights.ctypes.data + offset, self.coordinates, modes,
                tuple(factor.ctypes.data + offset for factor in factors), factors[0].strides[0],
                out,
            )  # fmt: skip
        return out


@dataclass(frozen=True, eq=False)
class Fibres:
    """Nonzeros gathered into fibres along one mode, the leaf.

    Long fibres are better read in pieces, each within a group of the leaf's indices, group after
    group (`blocks`): rows of its factor then come from the nearest caches.

        group 0, the 128 most popular    1, the next 128    2, the next 256 …
        fibre 0 ▒▒▒▒▒▒▒                  fibre 0 ▒▒▒▒       fibre 0 ▒▒▒
        fibre 1 ▒▒▒▒▒                    fibre 1 ▒▒         fibre 1 ▒▒
        fibre 2 ▒▒▒▒▒▒▒                                     fibre 2 ▒▒▒▒

    Attributes
    ----------
    leaf : int
        The mode along which fibres run.
    modes : tuple of int
        All others, in order.
    begin : ndarray of unsigned integers of shape (n_pieces + 1,)
        First nonzero of each piece, or of each fibre where these are whole.
    coordinates : ndarray of uint32 of shape (n_modes - 1, n_fibres)
        A row for each of `modes`.
    leaves : ndarray of unsigned integers of shape (nnz,)
        Index of each nonzero along the leaf.
    values : ndarray of shape (nnz,)
    pieces : ndarray of uint32 of shape (n_pieces,), optional
        Fibre of each piece; None where fibres are whole.
    """

    leaf: int
    modes: tuple[int, ...]
    begin: NDArray
    coordinates: NDArray[np.uint32]
    leaves: NDArray
    values: NDArray
    pieces: NDArray[np.uint32] | None = None

    @classmethod
    def build(
        cls,
        source: Source,
        shape: Sequence[int],
        leaf: int,
        *,
        in_pieces: bool = False,
        in_blocks: bool = False,
    ) -> Fibres:
        """Sort by all modes but `leaf`, the longest first, and cut into fibres.

        Or into pieces by popularity; or by blocks, whose parts count as fibres by themselves.
        """
        modes = tuple(mode for mode in range(len(shape)) if mode != leaf)
        longest_first = sorted(modes, key=lambda mode: -shape[mode])
        keys = None
        if in_pieces:
            keys = popularity_keys(source, leaf, shape[leaf])
        elif in_blocks:
            keys = block_keys(source, shape, longest_first[0], leaf)
        sequence = sorted_positions(source, shape, (*longest_first, leaf), keys)
        del keys
        nnz = sequence.size
        first = np.flatnonzero(changes(source, sequence, modes))
        begin: NDArray = np.append(first, nnz).astype(_smallest_type(nnz + 1, least=np.uint32))
        first = sequence[first]
        columns = np.empty((len(modes), len(first)), np.uint32)
        for row, mode in enumerate(modes):
            gather(source.index(mode), first, columns[row])
        leaves: NDArray = np.empty(nnz, _smallest_type(shape[leaf]))
        gather(source.index(leaf), sequence, leaves)
        values = gather(source.values, sequence, np.empty_like(source.values))
        del sequence
        if not in_pieces:
            return cls(leaf, modes, begin, columns, leaves, values)
        by_fibre = np.array([columns[modes.index(mode)] for mode in longest_first])
        fibres, pieces = np.unique(by_fibre, axis=1, return_inverse=True)
        columns = np.array([fibres[longest_first.index(mode)] for mode in modes])
        return cls(
            leaf, modes, begin, columns, leaves, values, pieces.reshape(-1).astype(np.uint32)
        )

    def index(self, mode: int) -> NDArray[np.uint32]:
        """Index of each nonzero along a mode."""
        if mode == self.leaf:
            return self.leaves.astype(np.uint32, copy=False)
        return np.repeat(self._of_pieces()[self.modes.index(mode)], np.diff(self.begin))

    def _of_pieces(self) -> NDArray[np.uint32]:
        """`coordinates` with a column a piece."""
        return self.coordinates if self.pieces is None else self.coordinates[:, self.pieces]

    @property
    def n_fibres(self) -> int:
        """Fibres that hold a nonzero; where cut by blocks, their parts."""
        return self.coordinates.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.begin, self.coordinates, self.leaves, self.values, self.pieces)
        return sum(array.nbytes for array in arrays if array is not None)

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
        if self.pieces is not None and products is not None and not known:
            self._sum_pieces(leaf_rows, products)
            known = True
        coordinates = self.coordinates if known else self._of_pieces()
        others = tuple(row for row, k in enumerate(self.modes) if k != mode)
        n_fibres, step = coordinates.shape[1], out.strides[0]
        n_terms = self.values.size if mode == self.leaf else n_fibres
        for template, count, offset, start, stop, to in _panels_of_sums(out, n_fibres, n_terms):
            addresses = tuple(factors[self.modes[row]].ctypes.data + offset for row in others)
            if mode == self.leaf:
                add_to_leaves(
                    template, count, start, stop, self.begin, self.leaves, self.values, coordinates,
                    others, addresses, to, step,
                )  # fmt: skip
                continue
            kept = 0 if products is None else products.sums.ctypes.data + offset
            target = self.modes.index(mode)
            if known:
                add_products(
                    template, count, start, stop, kept, coordinates, others, addresses, target, to,
                    step,
                )  # fmt: skip
            else:
                add_fibres(
                    template, count, start, stop, self.begin, self.leaves, self.values,
                    leaf_rows.ctypes.data + offset, coordinates, others, addresses, target, to,
                    step, kept,
                )  # fmt: skip

    def reconstruct(self, factors: Sequence[NDArray], weights: NDArray) -> NDArray:
        """Values of a decomposition at the nonzeros, in their order; all of one type."""
        out, leaf_rows = np.zeros_like(self.values), self._leaf_rows(factors)
        rows = tuple(range(len(self.modes)))
        for template, count, offset in panels(leaf_rows):
            reconstruct_fibres(
                template, count, weights.ctypes.data + offset, self.begin, self.leaves,
                leaf_rows.ctypes.data + offset, self._of_pieces(), rows,
                tuple(factors[mode].ctypes.data + offset for mode in self.modes),
                leaf_rows.strides[0], out,
            )  # fmt: skip
        return out

    def _sum_pieces(self, leaf_rows: NDArray, products: FibreProducts) -> None:
        """Fill `products` with the sums over fibres, piece by piece."""
        sums = products.sums
        sums[:] = 0
        for template, count, offset in panels(sums):
            add_pieces(
                template, count, self.begin, self.pieces, self.leaves, self.values,
                leaf_rows.ctypes.data + offset, sums.ctypes.data + offset, sums.strides[0],
            )  # fmt: skip

    def _leaf_rows(self, factors: Sequence[NDArray]) -> NDArray:
        """The leaf's factor; copied to begin with a cache line where it is read often enough."""
        factor = factors[self.leaf]
        if not is_spread(factor) or self.values.size < _READS_WORTH_A_COPY * len(factor):
            return factor
        rows = aligned_rows(len(factor), factor.shape[1], factor.dtype)
        rows[:] = factor
        return rows


def _panels_of_sums(
    out: NDArray, n_taken: int, n_terms: int
) -> Iterator[tuple[Any, int, int, int, int, int]]:
    """Each panel of the result, with what of the nonzeros or fibres to take, and where to add it.

    Where rows of float32 get very many terms, `n_terms` in all, each range of what is taken has a
    sum of its own, which is added to the result.

    Yields
    ------
    template, count, offset
        As `panels` has them.
    start, stop : int
        Range of 0 … n_taken.
    address : int
        Of the panel's first column in the sum.
    """
    most = _MOST_ADDED * len(out) if out.dtype == np.float32 else n_terms
    ends = np.linspace(0, n_taken, 1 + min(-(-n_terms // most), n_taken)).astype(np.int64).tolist()
    total = out if len(ends) == 2 else aligned_rows(len(out), out.shape[1], out.dtype)
    for start, stop in pairwise(ends):
        if total is not out:
            total[:] = 0
        for template, count, offset in panels(out):
            yield template, count, offset, start, stop, total.ctypes.data + offset
        if total is not out:
            out += total


def fingerprint_of(factor: NDArray) -> int:
    """64 bits that depend on every entry of a C-contiguous array, and on where it stands."""
    words = np.uint64 if factor.itemsize == 8 else np.uint32
    return int(_mixed_sum(factor.reshape(-1).view(words)))


@kernel
def _mixed_sum(words):
    total = np.uint64(words.size)
    place = np.uint64(0)
    for n in range(words.size):
        total += mixed_word(np.uint64(words[n]) + place)
        place += GOLDEN
    return total


def _smallest_type(extent: int, least: type = np.uint8) -> type:
    """The smallest unsigned type for indices below `extent`, not smaller than `least`."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if extent - 1 <= np.iinfo(dtype).max and np.dtype(dtype) >= np.dtype(least):
            return dtype
    return np.uint64
