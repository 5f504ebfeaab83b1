"""Feature rows of a rank, dense or sparse, and what a layer does with them.

    times(rows, W)                rows · W              dense or sparse times dense
    first_rows(rows, n)           those that a layer of a mini-batch makes rows for
    transposed_times(rows, G)     rowsᵀ · G             gradient of W
    dropped(rows, …)              entries put to 0 with a probability, the others scaled up

Which entries are dropped is a function of seed, epoch, layer, the *global* id of the vertex, and
the column: so a mask is the same however many ranks there are, and is never stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.hashing import GOLDEN, GOLDEN_HALF, mixed_half, mixed_word
from daskpart._floor.kernels import kernel
from daskpart._floor.lanes import aligned_rows

from .kernels import spmm, spmm_transposed

_COLUMNS_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows in CSR.

    Attributes
    ----------
    indptr, indices, data : ndarrays
    n_columns : int
    """

    indptr: NDArray[Any]
    indices: NDArray[np.int32]
    data: NDArray[Any]
    n_columns: int

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:
        """From a scipy CSR array."""
        indices = matrix.indices.astype(np.int32, copy=False)
        return cls(matrix.indptr, indices, matrix.data, int(matrix.shape[1]))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.data.dtype


Rows = NDArray[Any] | SparseRows


def first_rows(rows: Rows, n: int) -> Rows:
    """The first n of some rows, nothing copied."""
    if not isinstance(rows, SparseRows):
        return rows[:n]
    end = rows.indptr[n]
    return SparseRows(rows.indptr[: n + 1], rows.indices[:end], rows.data[:end], rows.n_columns)


def times(rows: Rows, weight: NDArray[Any]) -> NDArray[Any]:
    """rows · weight, of shape (n, d_out)."""
    if not isinstance(rows, SparseRows):
        out = aligned_rows(len(rows), weight.shape[1], np.result_type(rows, weight))
        return np.matmul(rows, weight, out=out)
    out = np.zeros((len(rows), weight.shape[1]), weight.dtype)
    spmm(rows.indptr, rows.indices, rows.data, weight, out)
    return out


def transposed_times(rows: Rows, gradient: NDArray[Any]) -> NDArray[Any]:
    """rowsᵀ · gradient, of shape (d_in, d_out)."""
    if not isinstance(rows, SparseRows):
        return rows.T @ gradient
    out = np.zeros((rows.n_columns, gradient.shape[1]), gradient.dtype)
    spmm_transposed(rows.indptr, rows.indices, rows.data, gradient, out)
    return out


@dataclass(frozen=True)
class Dropout:
    """Which entries of the input of a layer are dropped in one epoch.

    Parameters
    ----------
    rate : float
        In [0, 1); 0 drops nothing.
    seed, epoch, layer : int
    """

    rate: float
    seed: int = 0
    epoch: int = 0
    layer: int = 0

    @property
    def key(self) -> np.uint64:
        """What the mask is drawn from."""
        word = np.uint64(self.seed & 0xFFFFFFFF) << np.uint64(32)
        word |= np.uint64((self.epoch << 8 | self.layer) & 0xFFFFFFFF)
        return np.uint64(mixed_word(word))

    def __call__(self, rows: Rows, ids: NDArray[np.int64], out: Any = None) -> Rows:
        """Rows with entries dropped; the rows themselves where the rate is 0.

        Parameters
        ----------
        rows : ndarray or SparseRows
        ids : int64 ndarray
            Global id of the vertex of each row.
        out : ndarray, optional
            Where to put what dense rows become; may be `rows`.
        """
        if not self.rate:
            return rows
        bound, scale = self._bound, rows.dtype.type(1 / (1 - self.rate))
        if not isinstance(rows, SparseRows):
            out = np.empty_like(rows) if out is None else out
            _drop_dense(rows, ids, self.key, bound, *_room(scale, rows.shape[1]), out)
            return out
        data, factors = np.empty_like(rows.data), np.array([0, scale], scale.dtype)
        _drop_sparse(rows.indptr, rows.indices, rows.data, ids, self.key, bound, factors, data)
        return SparseRows(rows.indptr, rows.indices, data, rows.n_columns)

    @property
    def _bound(self) -> np.uint32:
        """What is mixed to less is dropped."""
        return np.uint32(int(self.rate * 2.0**32))

    def of_entries(
        self,
        indptr: NDArray[Any],
        indices: NDArray[np.int32],
        values: NDArray[Any],
        ids: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Numbers of the entries of a graph with some dropped; themselves where the rate is 0.

        Parameters
        ----------
        indptr, indices
            Rows of the graph; columns as positions in `ids`.
        values : ndarray of shape (nnz, n_heads)
        ids : int64 ndarray
            Global ids of the vertices of columns; those of rows come first.
        """
        if not self.rate:
            return values
        out, scale = np.empty_like(values), values.dtype.type(1 / (1 - self.rate))
        room = _room(scale, values.shape[1])
        _drop_entries(indptr, indices, values, ids, self.key, self._bound, *room, out)
        return out


def _room(scale: Any, n_columns: int) -> tuple[Any, NDArray[np.uint32], NDArray[Any]]:
    """Scale, steps from column to column, and room for the factors of a row.

    Both go on to whole vectors: of columns that fill none each would cost a branch.
    """
    n = -(-n_columns // _COLUMNS_AT_ONCE) * _COLUMNS_AT_ONCE
    return scale, np.arange(n, dtype=np.uint32) * GOLDEN_HALF, np.empty(n, scale.dtype)


@kernel(inline="always")
def _upper_half(word):
    return np.uint32(word >> np.uint64(32))


@kernel(inline="always")
def _put_factors(key, bound, scale, steps, factors):
    """What each number of a row is multiplied by: 0 where it is dropped."""
    for j in range(steps.size):
        stays = mixed_half(np.uint32(key + steps[j])) >= bound
        factors[j] = scale if stays else factors.dtype.type(0)


@kernel
def _drop_dense(rows, ids, key, bound, scale, steps, factors, out):
    for i in range(rows.shape[0]):
        row = _upper_half(mixed_word(key + np.uint64(ids[i]) * GOLDEN))
        _put_factors(row, bound, scale, steps, factors)
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] * factors[j]


@kernel
def _drop_sparse(indptr, indices, data, ids, key, bound, factors, out):
    for i in range(len(indptr) - 1):
        row = _upper_half(mixed_word(key + np.uint64(ids[i]) * GOLDEN))
        for k in range(indptr[i], indptr[i + 1]):
            step = np.uint32(np.uint32(indices[k]) * GOLDEN_HALF)
            stays = mixed_half(np.uint32(row + step)) >= bound
            out[k] = data[k] * factors[np.int64(stays)]


@kernel
def _drop_entries(indptr, indices, values, ids, key, bound, scale, steps, factors, out):
    for i in range(len(indptr) - 1):
        row = mixed_word(key + np.uint64(ids[i]) * GOLDEN)
        for k in range(indptr[i], indptr[i + 1]):
            entry = _upper_half(mixed_word(row + np.uint64(ids[indices[k]]) * GOLDEN))
            _put_factors(entry, bound, scale, steps, factors)
            for head in range(values.shape[1]):
                out[k, head] = values[k, head] * factors[head]
