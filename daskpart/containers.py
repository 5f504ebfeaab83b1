"""Every container of sparse ratings, as one: sorted triples and the names of rows and columns.

    scipy.sparse (any format) ─┐
    sparse.COO, sparse.GCXS ───┤
    Dask array of such chunks ─┼─▶  LabelledMatrix: rows, columns, values, labels
    xarray.DataArray of such ──┤        sorted by row, then column; no position twice
    pandas (user, item, rating)┘

What is stored is known, a stored zero too; what is not stored is unknown. A dense array cannot say
which of its zeros are ratings, so it is refused. Two containers that hold the same ratings give the
same triples in the same order, so nothing downstream depends on where the data came from.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import sparse

from ._triples import dask_triples, frame_triples, is_a, sparse_triples, xarray_triples
from .errors import DaskpartWarning, InputError

if TYPE_CHECKING:
    import pandas
    import xarray

_LARGEST_INDEX = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class LabelledMatrix:
    """A sparse matrix as triples sorted by row, then column, with the names of its two sides.

    Attributes
    ----------
    rows, columns : ndarray of int32, shape (nnz,)
        Position of each stored value; sorted by row, then column; no position twice.
    values : ndarray of float32 or float64, shape (nnz,)
        Stored values, explicit zeros among them.
    shape : tuple of two int
        Number of rows and columns.
    row_labels, column_labels : ndarray or None
        What the container calls its rows (users) and columns (items).
    row_name, column_name : str
        What a row and a column is: ``"user"``, ``"item"``, or the dimensions' names.
    """

    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    shape: tuple[int, int]
    row_labels: npt.NDArray[Any] | None = None
    column_labels: npt.NDArray[Any] | None = None
    row_name: str = "user"
    column_name: str = "item"

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.values)

    def row_pointer(self) -> npt.NDArray[np.int64]:
        """Where each row starts: row i holds the triples ``pointer[i]:pointer[i + 1]``."""
        pointer = np.zeros(self.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(self.rows, minlength=self.shape[0]), out=pointer[1:])
        return pointer

    def transposed(self) -> LabelledMatrix:
        """The matrix with rows and columns exchanged, labels and names too; cost O(nnz)."""
        order = stable_order(self.columns, self.shape[1])
        return LabelledMatrix(
            rows=self.columns[order],
            columns=self.rows[order],
            values=self.values[order],
            shape=self.shape[::-1],
            row_labels=self.column_labels,
            column_labels=self.row_labels,
            row_name=self.column_name,
            column_name=self.row_name,
        )

    def to_coo(self) -> sparse.COO:
        """Give a `sparse.COO` with int32 coordinates; labels are left behind."""
        return coo_from_sorted(self.rows, self.columns, self.values, self.shape)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Give a `scipy.sparse.csr_array`; labels are left behind."""
        parts = (self.values, self.columns, self.row_pointer())
        return scipy.sparse.csr_array(parts, shape=self.shape)

    def to_xarray(self) -> xarray.DataArray:
        """Give an `xarray.DataArray` over `sparse.COO`, with labels as coordinates."""
        import xarray

        labels = {self.row_name: self.row_labels, self.column_name: self.column_labels}
        known = {name: values for name, values in labels.items() if values is not None}
        return xarray.DataArray(self.to_coo(), coords=known, dims=(self.row_name, self.column_name))

    def to_frame(self) -> pandas.DataFrame:
        """Give a `pandas.DataFrame` with one line a stored value: row, column, ``rating``."""
        import pandas

        rows = self.rows if self.row_labels is None else self.row_labels[self.rows]
        columns = self.columns if self.column_labels is None else self.column_labels[self.columns]
        return pandas.DataFrame(
            {self.row_name: rows, self.column_name: columns, "rating": self.values}
        )


def as_coo(data: Any) -> LabelledMatrix:
    """Read any container of sparse ratings as sorted triples with labels.

    Parameters
    ----------
    data : container
        `scipy.sparse` matrix or array of any format; `sparse.COO`, `GCXS` or `DOK` with fill
        value 0; a Dask array of such chunks, which is **computed** here (`daskpart.shard` does not
        need that); an `xarray.DataArray` over any of these, whose coordinates become labels and
        whose dimensions become names; a `pandas.DataFrame` with the columns ``user``, ``item``,
        ``rating`` (further columns are ignored), or else with exactly three columns in that order;
        a `LabelledMatrix`, given back as it is.

    Returns
    -------
    LabelledMatrix
        Explicit zeros are kept, save for the formats BSR and DIA, where a stored zero is padding.
        float32 stays float32, float16 becomes float32, anything else becomes float64.

    Raises
    ------
    InputError
        Nothing is stored; a value is NaN or infinite; the fill value is not 0; the container is
        dense, is not two-dimensional, or has a side longer than 2³¹ − 1.

    Warns
    -----
    DaskpartWarning
        A position is stored more than once: a sum of ratings has no meaning, so the last is kept.

    Notes
    -----
    Cost: O(nnz + rows + columns); triples that come sorted are not copied.
    """
    if isinstance(data, LabelledMatrix):
        return data
    if is_a(data, "xarray", "DataArray"):
        return from_triples(*xarray_triples(data))
    if is_a(data, "pandas", "DataFrame"):
        return from_triples(*frame_triples(data))
    if is_a(data, "dask.array", "Array"):
        return from_triples(*dask_triples(data))
    return from_triples(*sparse_triples(data))


def from_triples(
    rows: npt.ArrayLike,
    columns: npt.ArrayLike,
    values: npt.ArrayLike,
    shape: tuple[int, ...],
    row_labels: npt.NDArray[Any] | None = None,
    column_labels: npt.NDArray[Any] | None = None,
    row_name: str = "user",
    column_name: str = "item",
    *,
    may_be_empty: bool = False,
) -> LabelledMatrix:
    """Check triples in any order, sort them, and keep the last of each position.

    Parameters are the fields of `LabelledMatrix`; errors and warnings are those of `as_coo`, and
    a position outside of `shape` is an InputError too.
    """
    n_rows, n_columns = _checked_shape(shape)
    matrix = LabelledMatrix(
        _checked_index(rows, n_rows, row_name),
        _checked_index(columns, n_columns, column_name),
        as_values(values),
        (n_rows, n_columns),
        row_labels,
        column_labels,
        row_name,
        column_name,
    )
    if matrix.nnz == 0 and not may_be_empty:
        raise InputError(
            f"no ratings: the {n_rows} x {n_columns} matrix stores no value; "
            "give at least one stored value (a stored zero counts)"
        )
    _refuse_nonfinite(matrix)
    return _without_repeats(matrix)


def stable_order(keys: npt.NDArray[Any], n_keys: int) -> npt.NDArray[Any]:
    """Order that sorts `keys`, equal keys in their old order: a counting sort, O(len + n_keys).

    A matrix of one row, turned into compressed columns, is that sort.
    """
    positions = np.arange(len(keys), dtype=np.int32 if len(keys) <= _LARGEST_INDEX else np.int64)
    pointer = np.array([0, len(keys)])
    line = scipy.sparse.csr_array((positions, keys, pointer), shape=(1, max(n_keys, 1)))
    return line.tocsc().data


def coo_from_sorted(
    rows: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    shape: tuple[int, int],
) -> sparse.COO:
    """Build a `sparse.COO` from triples that are sorted and free of repeats, without a check.

    The coordinates stay int32: 12 or 16 bytes a stored value instead of 24.
    """
    coordinates = np.stack((rows, columns)).astype(np.int32, copy=False)
    return sparse.COO(
        coordinates, values, shape=shape, sorted=True, has_duplicates=False, fill_value=0
    )


def as_values(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Give values as float32 (from float16 and float32) or float64 (from any other number).

    Raises
    ------
    InputError
        The values are not real numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"ratings of dtype {array.dtype} were given; allowed are real numbers. "
            "Convert the values to float first"
        )
    short = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return np.ascontiguousarray(array, np.float32 if short else np.float64)


def _checked_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    n_rows, n_columns = (int(side) for side in shape)
    if max(n_rows, n_columns) > _LARGEST_INDEX:
        raise InputError(
            f"a matrix of shape {(n_rows, n_columns)} was given; each side may be at most "
            f"{_LARGEST_INDEX}. Number the rows and columns that hold ratings anew"
        )
    return n_rows, n_columns


def _checked_index(index: npt.ArrayLike, length: int, name: str) -> npt.NDArray[np.int32]:
    array = np.asarray(index)
    if array.size and (array.min() < 0 or array.max() >= length):
        first = int(np.argmax((array < 0) | (array >= length)))
        raise InputError(
            f"{name} {array[first]} of entry {first} is outside of the matrix; "
            f"allowed are 0 to {length - 1}. Correct the index or give a larger shape"
        )
    return np.ascontiguousarray(array, np.int32)


def _refuse_nonfinite(matrix: LabelledMatrix) -> None:
    bad = ~np.isfinite(matrix.values)
    count = int(np.count_nonzero(bad))
    if not count:
        return
    first = int(np.argmax(bad))
    sides = (
        (matrix.row_name, matrix.rows, matrix.row_labels),
        (matrix.column_name, matrix.columns, matrix.column_labels),
    )
    where = ", ".join(
        f"{name} {index[first]}" + (f" ({labels[index[first]]})" if labels is not None else "")
        for name, index, labels in sides
    )
    raise InputError(
        f"{count} of {matrix.nnz} ratings are NaN or infinite, the first ({matrix.values[first]}) "
        f"at {where}; ratings must be finite. Remove these entries"
    )


def _without_repeats(matrix: LabelledMatrix) -> LabelledMatrix:
    key = matrix.rows.astype(np.int64) * matrix.shape[1] + matrix.columns
    if bool(np.all(key[1:] > key[:-1])):
        return matrix
    order = stable_order(matrix.columns, matrix.shape[1])
    order = order[stable_order(matrix.rows[order], matrix.shape[0])]
    key = key[order]
    last_of_position = np.append(key[1:] != key[:-1], True)
    repeats = len(key) - int(np.count_nonzero(last_of_position))
    if repeats:
        warnings.warn(
            f"{repeats} of {matrix.nnz} ratings repeat a position ({matrix.row_name}, "
            f"{matrix.column_name}); the last one given of each is kept",
            DaskpartWarning,
            stacklevel=2,
        )
        order = order[last_of_position]
    return replace(
        matrix,
        rows=matrix.rows[order],
        columns=matrix.columns[order],
        values=matrix.values[order],
    )
