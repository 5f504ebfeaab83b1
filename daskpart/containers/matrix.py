"""Every container of sparse ratings, as one: sorted triples and the names of rows and columns.

    scipy.sparse (any format) ─┐
    sparse.COO, sparse.GCXS ───┤
    Dask array of such chunks ─┼─▶  LabelledMatrix: rows, columns, values, labels
    xarray.DataArray of such ──┤        sorted by row, then column; no position twice
    pandas, polars, Dask table ┤
    list of records ───────────┘

What is stored is known, a stored zero too, also −0.0; what is not stored is unknown. A dense array
cannot say which of its zeros are ratings, so it is refused. Two containers of the same ratings give
the same triples in the same order, so nothing downstream depends on where the data came from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
import sparse

from daskpart._floor.checks import one_of
from daskpart._floor.words import counted, not_read
from daskpart.errors import InputError, warn

from .column_names import Columns, rating_columns
from .coordinates import (
    Entries,
    array_entries,
    as_labels,
    as_values,
    coo_from_sorted,
    dask_entries,
    is_a,
    merged,
    ranked,
    refuse_dense_chunks,
    refuse_dense_rows,
    refuse_nonfinite,
    refuse_outside,
    rises,
    stable_order,
)
from .tables import from_arrow, is_dask_frame

if TYPE_CHECKING:
    import pandas
    import xarray

_LARGEST_INDEX = np.iinfo(np.int32).max
_ACCEPTED = (
    "scipy.sparse, sparse.COO, sparse.GCXS, a Dask array of sparse chunks, an xarray.DataArray of "
    "any of these, a DataFrame (pandas, Dask, polars, Arrow) with the columns (user, item, "
    "rating), or a list of such records"
)


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
        return coo_from_sorted(np.stack((self.rows, self.columns)), self.values, self.shape)

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


def as_matrix(
    data: Any, columns: Columns = (None, None, None), repeats: Literal["last", "sum"] = "last"
) -> LabelledMatrix:
    """Read any container of sparse ratings as sorted triples with labels.

    Parameters
    ----------
    data : container
        `scipy.sparse` matrix or array of any format; `sparse.COO`, `GCXS` or `DOK` with fill
        value 0; a Dask array of such chunks, which is **computed** here (`daskpart.shard` does not
        need that); an `xarray.DataArray` over any of these, whose coordinates become labels and
        whose dimensions become names; a `pandas.DataFrame` with the columns ``user``, ``item``,
        ``rating`` (or such as userId, movie_id and stars; further columns are ignored), or else
        with exactly three columns in that order, and perhaps a timestamp behind them; a Dask
        DataFrame of that kind, of which these columns are computed; one of polars, pyarrow or
        DuckDB; a list of such records (tuples or dicts); a `LabelledMatrix`, given back as it is.
    columns : (str or None, str or None, str or None), default=(None, None, None)
        Names of the columns of users, items and ratings in a DataFrame; None: told as above.
    repeats : {"last", "sum"}, default="last"
        What a position has that is given more than once: its last value, with a warning, or their
        sum. With "sum" a DataFrame need not have ratings: each line counts 1.

    Returns
    -------
    LabelledMatrix
        Explicit zeros are kept, save for the formats BSR and DIA, where a stored zero is padding.
        float32 stays float32, float16 becomes float32, anything else becomes float64; bools are 1
        and 0.

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
    one_of(repeats, "repeats", ("last", "sum"))
    if isinstance(data, LabelledMatrix):
        return data
    if not isinstance(columns, tuple | list) or len(columns) != 3:
        raise InputError(f"columns is {columns!r}: give three names, of user, item and rating")
    return from_triples(*stored_triples(data, columns, repeats == "sum"), repeats=repeats)


def stored_triples(data: Any, columns: Columns, may_count: bool) -> tuple[Any, ...]:
    """What a container stores, in its own order: the arguments of `from_triples`.

    Parameters
    ----------
    data, columns
        As for `as_matrix`.
    may_count : bool
        Whether a DataFrame without ratings counts 1 a line.
    """
    if isinstance(data, LabelledMatrix):
        return tuple(getattr(data, each.name) for each in fields(data))
    if is_a(data, "xarray", "DataArray"):
        return xarray_triples(data)
    data = from_arrow(data)
    frame = as_frame(data, columns)
    if frame is not None:
        return frame_triples(frame, columns, may_count)
    if is_a(data, "dask.array", "Array"):
        return dask_triples(data)
    return sparse_triples(data)


_RECORD = ("user", "item", "rating", "timestamp")


def as_frame(data: Any, columns: Columns) -> Any:
    """A pandas or Dask DataFrame as it is, a list of records as a pandas one; None for the rest.

    Records without names have the columns that are asked for, in their order.
    """
    if is_a(data, "pandas", "DataFrame") or is_dask_frame(data):
        return data
    if not isinstance(data, list):
        return None
    if not data:
        raise InputError("the list is empty: there are no records in it")
    kinds = {tuple: 2, list: 3, dict: 2}  # a list of lists of two may be anything
    kind: Any = next((each for each in kinds if isinstance(data[0], each)), None)
    least = kinds.get(kind, 0)
    alike = least and all(isinstance(record, kind) for record in data)
    lengths = {len(record) for record in data} if alike else {0}
    length, named = max(lengths), kind is dict or hasattr(data[0], "_fields")  # a named tuple
    if len(lengths) > 1 or length < least or (length > 4 and not named) or not alike:
        raise InputError(
            "a list was given that is no list of records: each is a (user, item, rating), or a "
            "dict with these names, of one kind and length"
        )
    import pandas

    own = [asked or name for asked, name in zip((*columns, None), _RECORD, strict=True)]
    frame = pandas.DataFrame(data, columns=None if named else own[:length])
    refuse_dense_rows(data, frame.iloc[:, :2])
    return frame


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
    repeats: Literal["last", "sum"] = "last",
) -> LabelledMatrix:
    """Check triples in any order, sort them, and keep the last of each position, or their sum.

    Parameters are the fields of `LabelledMatrix`; errors and warnings are those of `as_matrix`, and
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
            f"nothing is stored: the {n_rows} x {n_columns} matrix has no entries; "
            "give at least one (a stored zero counts)"
        )
    names = (matrix.row_name, matrix.column_name)
    labels = (matrix.row_labels, matrix.column_labels)
    refuse_nonfinite(matrix.values, (matrix.rows, matrix.columns), names, "ratings", labels)
    return without_repeats(matrix, repeats)


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
    refuse_outside(array, length, name, "the matrix")
    return np.ascontiguousarray(array, np.int32)


def without_repeats(matrix: LabelledMatrix, repeats: Literal["last", "sum"]) -> LabelledMatrix:
    """Triples in any order, sorted; of each position the last (with a warning), or their sum."""
    sides = (matrix.rows, matrix.columns)
    if rises(sides):
        return matrix
    (rows, columns), values = merged(sides, matrix.values, matrix.shape, repeats)
    if repeats == "sum":
        names = (matrix.row_name, matrix.column_name)
        labels = (matrix.row_labels, matrix.column_labels)
        refuse_nonfinite(values, (rows, columns), names, "sums of ratings", labels)
    elif len(values) < matrix.nnz:
        warn(
            f"{matrix.nnz - len(values)} of {matrix.nnz} ratings repeat a position "
            f"({matrix.row_name}, {matrix.column_name}); the last one given of each is kept"
        )
    return replace(matrix, rows=rows, columns=columns, values=values)


# -- what each container stores, in its own order; a library is imported only by who holds an object


def sparse_triples(data: Any) -> tuple[Any, Any, Any, tuple[int, ...]]:
    """Stored (rows, columns, values, shape) of one in-memory sparse matrix, in storage order.

    Raises
    ------
    InputError
        `data` is dense, is no known container, is not two-dimensional, or has a fill value.
    """
    entries = array_entries(data)
    if entries is not None:
        _require_two_dimensions(data)
        (rows, columns), values, shape = entries
        return rows, columns, values, shape
    if isinstance(data, np.ndarray):
        raise InputError(
            f"a dense array of shape {data.shape} was given: it does not say which zeros are "
            "ratings and which are unknown. If zeros are unknown, give "
            "scipy.sparse.coo_array(array); if its lines are (user, item, rating), give "
            "array.tolist()"
        )
    if is_a(data, "pandas", "Series") and data.index.nlevels == 2:
        raise InputError("users and items in the index are not read: give X.reset_index()")
    raise InputError(not_read(data, "sparse matrix", _ACCEPTED))


def dask_triples(array: Any) -> tuple[Any, Any, Any, tuple[int, ...]]:
    """Stored (rows, columns, values, shape) of a Dask array of sparse chunks, all computed."""
    require_sparse_chunks(array)
    (rows, columns), values, shape = dask_entries(array, _block_entries)
    return rows, columns, values, shape


def _block_entries(block: Any) -> Entries:
    rows, columns, values, shape = sparse_triples(block)
    return (rows, columns), values, shape


def require_sparse_chunks(array: Any) -> None:
    """Refuse a Dask array that is not two-dimensional or whose chunks are dense (InputError)."""
    _require_two_dimensions(array)
    refuse_dense_chunks(array)


def xarray_triples(array: xarray.DataArray) -> tuple[Any, ...]:
    """Triples and shape of an xarray.DataArray, then its labels and the names of its dimensions."""
    _require_two_dimensions(array)
    data = array.data
    triples = dask_triples(data) if is_a(data, "dask.array", "Array") else sparse_triples(data)
    return (*triples, *xarray_labels(array))


def xarray_labels(array: xarray.DataArray) -> tuple[Any, ...]:
    """Row labels and column labels (or None), and the names of the two dimensions."""
    row_name, column_name = (str(name) for name in array.dims)
    row_labels, column_labels = (
        as_labels(array.coords[name].values) if name in array.coords else None
        for name in array.dims
    )
    return row_labels, column_labels, row_name, column_name


def frame_triples(
    frame: Any, columns: Columns = (None, None, None), events: bool = False
) -> tuple[Any, ...]:
    """Triples and shape of a DataFrame of ratings, then its labels and the names of its columns.

    Of a Dask DataFrame three columns are computed. With `events` a frame without ratings is taken
    too: each line counts 1.
    """
    places = rating_columns(frame, columns, events)
    frame = frame.iloc[:, [place for place in places if place is not None]]
    frame = frame.compute() if is_dask_frame(frame) else frame
    rows, row_labels = factorized_column(frame, 0)
    items, column_labels = factorized_column(frame, 1)
    counted = places[2] is None
    values = np.ones(len(frame), np.float32) if counted else number_column(frame.iloc[:, 2])
    row_name, column_name = (str(frame.columns[side]) for side in (0, 1))
    shape = (len(row_labels), len(column_labels))
    return rows, items, values, shape, row_labels, column_labels, row_name, column_name


def factorized_column(
    frame: pandas.DataFrame,
    column: int,
    needs: str = "each rating needs a user and an item",
    all_categories: bool = False,
) -> tuple[Any, npt.NDArray[Any]]:
    """Numbers for the entries of a column, and their labels: those seen, or all its categories."""
    import pandas

    series = frame.iloc[:, column]
    missing = series.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"column {frame.columns[column]!r} has {counted(int(missing.sum()), 'missing value')}, "
            f"the first in row {int(np.argmax(missing))} (counted from 0); {needs}. Drop them"
        )
    if all_categories and isinstance(series.dtype, pandas.CategoricalDtype):
        return series.cat.codes.to_numpy(), as_labels(series.cat.categories)
    codes, labels = ranked(series, f"column {frame.columns[column]!r}")
    return codes, as_labels(labels)


def number_column(series: pandas.Series, parameter: str = "rating=") -> npt.NDArray[Any]:
    """Values of a column, missing ones as NaN."""
    from pandas.api.types import infer_dtype, is_extension_array_dtype, is_numeric_dtype

    if series.dtype == object and infer_dtype(series, skipna=True) == "boolean":
        series = series.astype("boolean")  # bools of which some are missing are objects to pandas
    if is_extension_array_dtype(series.dtype) and is_numeric_dtype(series.dtype):
        return series.to_numpy(np.float64, na_value=np.nan)  # pandas.NA becomes NaN
    if not is_numeric_dtype(series.dtype):
        if not len(series):
            raise InputError(f"column {series.name!r} is empty: the table has no rows")
        first = next(iter(series.dropna()), None)
        has_comma = isinstance(first, str) and "," in first
        of_words = f"pandas.to_numeric, yes and no by table[{series.name!r}] == 'yes'"
        by = "pandas.read_csv(…, decimal=',')" if has_comma else of_words
        raise InputError(
            f"column {series.name!r} holds {series.dtype}, the first {first!r}, where "
            f"numbers are needed. Convert it, as by {by}, or name the right one: {parameter}"
        )
    return series.to_numpy()


def as_graph_matrix(data: Any, who_needs: str, instead: str) -> LabelledMatrix:
    """A matrix whose row i and column i are one vertex, else InputError.

    `who_needs` begins the sentence that refuses another shape, `instead` ends it.
    """
    entries = as_matrix(data)
    n_rows, n_columns = entries.shape
    if n_rows != n_columns:
        raise InputError(
            f"{who_needs} a square matrix, this one is {n_rows} × {n_columns}: {instead}"
        )
    rows, columns = entries.row_labels, entries.column_labels
    if rows is not None and columns is not None and not np.array_equal(rows, columns):
        raise InputError(
            f"{who_needs} a square matrix whose row i and column i are one vertex, but rows and "
            "columns have other names; daskpart.read(path, 'edges') gives a square matrix"
        )
    return entries


def _require_two_dimensions(data: Any) -> None:
    if data.ndim != 2:
        raise InputError(
            f"an array of {data.ndim} dimensions with shape {data.shape} was given; "
            "a matrix with two (rows, columns) is needed"
        )
