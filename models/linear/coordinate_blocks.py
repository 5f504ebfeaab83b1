"""A rank's rows cut by blocks of coordinates, which a solver takes in turn; in memory or on disk.

                 block 0    block 1    block 2        coordinates
    rows 0 …     ┌ piece ┐  ┌ piece ┐  ┌ piece ┐      a piece, by columns:
    rows n …     ├ piece ┤  ├ piece ┤  ├ piece ┤          features │ pointer │ rows │ values
    rows 2n …    └ piece ┘  └ piece ┘  └ piece ┘

Of rows on a rank's disk the pieces lie there, too, and one at a time is in memory. Sums over rows
go on from piece to piece, row after row, so their bits do not depend on where rows are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from daskpart._floor.kernels import kernel
from daskpart.models.samples.examples_on_disk import Bucket, Spool
from daskpart.models.samples.rows import RankRows, Rows, StoredRows, in_blocks

from .columns import MOST_ROWS, Entries, by_column

_STORED_ENTRIES = 1 << 20  # of rows that are read at a time, about
Array = NDArray[Any]


class Piece(NamedTuple):
    """Rows `first` to `stop` in the coordinates of a block, which count from the block's first."""

    first: int
    stop: int
    entries: Entries

    @property
    def own(self) -> slice:
        """Its rows among those of the rank."""
        return slice(self.first, self.stop)


class CoordinateBlocks:
    """A rank's rows, taken up some after the other; the pieces of rows on its disk go there, too.

    Parameters
    ----------
    rows : RankRows or StoredRows
    touched : bool ndarray of shape (n_features + 1,)
        Coordinates with entries.
    block : int32 ndarray of shape (n_features + 1,)
        Of each coordinate.
    n_blocks : int

    Attributes
    ----------
    ids : list of int64 ndarray
        Of each block the coordinates with entries, rising.
    nbytes : int
        Of the pieces that are in memory at a time.
    """

    def __init__(
        self, rows: Rows, touched: NDArray[np.bool_], block: NDArray[np.int32], n_blocks: int
    ) -> None:
        ids = np.flatnonzero(touched)
        ids = ids[np.argsort(block[ids], kind="stable")]
        self._borders = np.searchsorted(block[ids], np.arange(n_blocks + 1)).tolist()
        self._place = np.zeros(len(block), np.int32)  # so that a block's columns are consecutive
        self._place[ids] = np.arange(len(ids))
        self._spool = Spool(rows.disk, n_blocks) if isinstance(rows, StoredRows) else None
        self._in_memory: list[list[Piece]] = [[] for _ in range(n_blocks)]
        self._n_rows = self.nbytes = 0
        self.ids = [ids[begin:end] for begin, end in pairwise(self._borders)]

    @property
    def pieces(self) -> Sequence[Iterable[Piece]]:
        """Of each block; can be gone through again and again."""
        if self._spool is None:
            return self._in_memory
        return [Bucket(self._spool, number) for number in range(len(self._spool))]

    def add(self, matrix: csr_array) -> None:
        """Take the next rows, a matrix of `parts_of`."""
        shape = matrix.shape[0], self._borders[-1]
        moved = csr_array((matrix.data, self._place[matrix.indices], matrix.indptr), shape=shape)
        features, pointer, rows, data = by_column(moved)
        cuts = np.searchsorted(features, self._borders).tolist()
        first, self._n_rows = self._n_rows, self._n_rows + shape[0]
        for number, (begin, end) in enumerate(pairwise(cuts)):
            if begin == end:
                continue
            own = slice(pointer[begin], pointer[end])
            columns = features[begin:end] - self._borders[number]
            of_block = pointer[begin : end + 1] - own.start
            entries = Entries(columns, of_block, rows[own], data[own])
            self._put(number, Piece(first, self._n_rows, entries))

    def _put(self, number: int, piece: Piece) -> None:
        if self._spool is None:
            self._in_memory[number].append(piece)
            self.nbytes += piece.entries.nbytes
        else:
            self._spool.put(number, piece)
            self.nbytes = max(self.nbytes, piece.entries.nbytes)


def parts_of(rows: Rows, n_features: int, intercept: bool) -> Iterator[tuple[RankRows, csr_array]]:
    """Some rows after the other; each with a matrix that has a 1 behind for the intercept.

    Parameters
    ----------
    rows : RankRows or StoredRows
    n_features : int
    intercept : bool
        Else there is a column without entries.
    """
    length = MOST_ROWS
    if isinstance(rows, StoredRows):  # short columns take more room, and longer ones more memory
        length = min(length, max(1, _STORED_ENTRIES * len(rows) // max(1, rows.nnz)))
    for part in in_blocks(rows, length):
        yield part, _with_ones(part, n_features, intercept)


def _with_ones(rows: RankRows, n_features: int, intercept: bool) -> csr_array:
    own: Any = rows.matrix(n_features)
    if not own.data.all():  # a row with a stored 0 does not touch its coordinate
        own = own.copy()
        own.eliminate_zeros()
    data, indices, pointer = own.data, own.indices, own.indptr
    if intercept:
        data = np.insert(data, pointer[1:], 1)
        indices = np.insert(indices, pointer[1:], n_features)
        pointer = pointer + np.arange(len(pointer), dtype=pointer.dtype)
    return csr_array((data, indices, pointer), shape=(len(rows), n_features + 1))


@kernel
def add_curvature(
    pointer: Array, indices: Array, data: Array, share: Array, block: Array, mass: Array,
    bound: Array,
) -> None:  # fmt: skip
    """Σ_i share_i |x_ij| Σ_k |x_ik| for each coordinate j, with k over its block, added to `bound`.

    `mass` are zeros, one a block.
    """
    for row in range(len(share)):
        for p in range(pointer[row], pointer[row + 1]):
            mass[block[indices[p]]] += abs(data[p])
        for p in range(pointer[row], pointer[row + 1]):
            j = indices[p]
            bound[j] += abs(data[p]) * (share[row] * mass[block[j]])
        for p in range(pointer[row], pointer[row + 1]):
            mass[block[indices[p]]] = 0.0
