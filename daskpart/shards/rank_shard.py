"""One shard: the nonzeros of one part, in the numbers under which its rank keeps them.

global   columns 0 1 2 3 4 5           local   5 1 │ 2 │ 0      local, owned, nonlocal
row 3            ■   ■     ■     ─▶    row 0   ■   │ ■ │ ■      (`containers.numbering`)
row 7              ■ ■                 row 1     ■ │ ■ │
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sparse
from numpy.typing import NDArray

from daskpart.containers.coordinates import coo_from_sorted, merged, row_major_order


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows of one part and what they touch; plain arrays, so it travels well.

    Attributes
    ----------
    rank : int
        The part, and the rank that holds it.
    rows : ndarray of int64, shape (n_rows,)
        Global ids of its rows, rising.
    items : ndarray of int64, shape (n_items,)
        Global ids of the columns it touches: local, then owned, then nonlocal, each rising.
    n_local, n_owned, n_nonlocal : int
        Lengths of the three blocks of `items`.
    row_index, column_index : ndarray of int32, shape (nnz,)
        Local positions: nonzero t lies at row ``rows[row_index[t]]`` and column
        ``items[column_index[t]]``. Sorted by row, then global column.
    values : ndarray of float32 or float64, shape (nnz,)
    """

    rank: int
    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    n_local: int
    n_owned: int
    n_nonlocal: int
    row_index: NDArray[np.int32]
    column_index: NDArray[np.int32]
    values: NDArray[Any]

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns touched."""
        return len(self.rows), len(self.items)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.rows, self.items, self.row_index, self.column_index, self.values)
        return sum(array.nbytes for array in arrays)

    def to_coo(self) -> sparse.COO:
        """Give the shard in its local numbering, as a `sparse.COO` of `shape`."""
        indices = (self.row_index, self.column_index)
        return coo_from_sorted(*merged(indices, self.values, self.shape, "last"), self.shape)

    def to_block(self, n_columns: int) -> sparse.COO:
        """Give the shard's rows over all `n_columns` columns in their global order."""
        columns = self.items[self.column_index].astype(np.int32)
        coordinates = np.stack((self.row_index, columns))
        return coo_from_sorted(coordinates, self.values, (len(self.rows), n_columns))

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return (type(self).__name__, *vars(self).values())

    def __repr__(self) -> str:
        return (
            f"Shard(rank={self.rank}, {len(self.rows)} rows, {self.nnz} nonzeros, columns: "
            f"{self.n_local} local, {self.n_owned} owned, {self.n_nonlocal} nonlocal)"
        )


def make_shard(
    rank: int,
    rows: NDArray[np.int64],
    items: NDArray[np.int64],
    sizes: NDArray[np.int64],
    n_columns: int,
    triples: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]],
) -> Shard:
    """Put together one shard from its nonzeros in any order.

    Parameters
    ----------
    rank, rows, items : as in `Shard`
    sizes : ndarray of int64, shape (3,)
        Local, owned and nonlocal columns.
    n_columns : int
        Columns of the whole matrix.
    triples : (row_index, columns, values)
        Position of the row within the part, *global* column, and value.
    """
    row_index, columns, values = triples
    position = np.empty(n_columns, np.int32)  # only the touched pages cost anything
    position[items] = np.arange(len(items), dtype=np.int32)
    order = row_major_order((row_index, columns), (len(rows), n_columns))
    if order is not None:  # pieces of several chunks; one matrix comes sorted
        row_index, columns, values = row_index[order], columns[order], values[order]
    n_local, n_owned, n_nonlocal = (int(size) for size in sizes)
    return Shard(
        rank=rank,
        rows=rows,
        items=items,
        n_local=n_local,
        n_owned=n_owned,
        n_nonlocal=n_nonlocal,
        row_index=row_index,
        column_index=position[columns],
        values=values,
    )
