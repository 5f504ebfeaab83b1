"""A rank's rows by columns, for losses and gradients of all rows at once.

    a block of rows          by columns                          one evaluation of a block
    ┌ a · b · ┐      features  0   1   2   3        scores z = X w    weights in order ─► z
    │ · c · · │  ─►  rows      0 2 1   0   2        slopes s of z     row by row
    └ e · · f ┘      values    a e c   b   f        gradient Xᵀ s     s ─► gradient in order

By rows, each entry meets a weight and a sum of the gradient anywhere in arrays that are as long as
there are features. By columns those are gone through from the beginning to the end; what is met
anywhere are scores and slopes of one block, which stay in the processor's cache. Every sum has the
order that it has by rows, where the entries of a row lie in the order of their features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from daskpart._floor.kernels import kernel
from daskpart.models.samples.rows import RankRows, Rows, StoredRows, in_blocks

from .losses import slopes_of

MOST_ROWS = 1 << 16  # of a block: their numbers take two bytes
_CACHED_SCORES = 1 << 16
Array = NDArray[Any]


class Entries(NamedTuple):
    """Entries of some rows by columns, as kernels take them.

    Attributes
    ----------
    features : int ndarray of shape (n,)
        Columns with entries, rising.
    pointer : int64 ndarray of shape (n + 1,)
    rows : uint16 ndarray of shape (nnz,)
        Counted from the first of these, rising in each column.
    data : float32 or float64 ndarray of shape (nnz,)
    """

    features: Array
    pointer: NDArray[np.int64]
    rows: NDArray[np.uint16]
    data: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """Some rows: their entries, and target and weight as in `RankRows`."""

    entries: Entries
    target: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.entries.nbytes + self.target.nbytes + self.weight.nbytes


@dataclass(frozen=True, eq=False)
class RankColumns:
    """All rows of a rank, or those that are in memory.

    Attributes
    ----------
    rank : int
    dtype : dtype
        Of the values.
    blocks : list of ColumnBlock
    """

    rank: int
    dtype: np.dtype[Any]
    blocks: list[ColumnBlock]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(block.nbytes for block in self.blocks)


Columns = RankColumns | StoredRows[RankColumns]


def by_columns(rows: Rows, *, n_outputs: int) -> Columns:
    """The rows of a rank; of rows on its disk each block as it is read."""
    how = partial(_in_memory, n_outputs=n_outputs)
    return rows.encoded(how) if isinstance(rows, StoredRows) else how(rows)


def _in_memory(rows: RankRows, *, n_outputs: int) -> RankColumns:
    length = min(MOST_ROWS, max(1, _CACHED_SCORES // n_outputs))
    blocks = [_column_block(block) for block in in_blocks(rows, length)]
    return RankColumns(rows.rank, rows.dtype, blocks)


def _column_block(rows: RankRows) -> ColumnBlock:
    used = rows.indices[rows.pointer[0] : rows.pointer[-1]]
    entries = by_column(rows.matrix(1 + int(used.max(initial=-1))))
    return ColumnBlock(entries, rows.target, rows.weight)


def by_column(rows: csr_array) -> Entries:
    """The entries of at most `MOST_ROWS` rows."""
    matrix = rows.tocsc()
    features = np.flatnonzero(np.diff(matrix.indptr))
    pointer = np.append(matrix.indptr[features], matrix.indptr[-1])
    return Entries(
        features.astype(matrix.indices.dtype),
        pointer.astype(np.int64),
        matrix.indices.astype(np.uint16),
        matrix.data,
    )


def column_blocks(columns: Columns, length: int | None) -> Iterator[ColumnBlock]:
    """The blocks of a rank; `length` rows are read at a time where they are on its disk."""
    parts = in_blocks(columns, length) if isinstance(columns, StoredRows) else [columns]
    for part in parts:
        yield from part.blocks


def add_gradient(
    block: ColumnBlock, share: float, code: int, epsilon: float, intercept: bool, weights: Array,
    gradient: Array,
) -> float:  # fmt: skip
    """Add the gradient of a block of rows; gives the sum of their losses.

    Parameters
    ----------
    share : float
        Each gradient is multiplied by this and the weight of its row.
    weights, gradient : float64 array of shape (n_features + 1, n_outputs)
        Intercepts last.
    """
    scores = np.zeros((len(block.target), weights.shape[1]))
    add_scores(*block.entries, weights, scores)
    loss: float = _to_slopes(
        scores, block.target, block.weight, share, code, epsilon, intercept, weights, gradient
    )
    add_products(*block.entries, scores, gradient)
    return loss


@kernel
def _to_slopes(
    scores: Array, target: Array, weight: Array, share: float, code: int, epsilon: float,
    intercept: bool, weights: Array, gradient: Array,
) -> float:  # fmt: skip
    """Make scores, which lack the intercepts, slopes, and add those of intercepts up."""
    n_rows, n_outputs = scores.shape
    last, loss = len(weights) - 1, 0.0
    for row in range(n_rows):
        for c in range(n_outputs):
            scores[row, c] += weights[last, c]
        loss += weight[row] * slopes_of(code, epsilon, scores[row], target, row)
        for c in range(n_outputs):
            scores[row, c] *= weight[row] * share
            if intercept:
                gradient[last, c] += scores[row, c]
    return loss


@kernel
def add_scores(
    features: Array, pointer: Array, rows: Array, data: Array, weights: Array, scores: Array
) -> None:
    """Add X w to the scores of rows; weights of 0 are passed over."""
    for k in range(len(features)):
        for c in range(scores.shape[1]):
            w = weights[features[k], c]
            if w == 0.0:
                continue
            # unsigned numbers, as negative ones would be counted from the end
            for p in range(np.uint64(pointer[k]), np.uint64(pointer[k + 1])):
                scores[rows[p], c] += data[p] * w


@kernel
def add_products(
    features: Array, pointer: Array, rows: Array, data: Array, slopes: Array, products: Array
) -> None:
    """Add Xᵀ s to the products, row after row."""
    for k in range(len(features)):
        for c in range(slopes.shape[1]):
            total = products[features[k], c]
            for p in range(np.uint64(pointer[k]), np.uint64(pointer[k + 1])):
                total += data[p] * slopes[rows[p], c]
            products[features[k], c] = total
