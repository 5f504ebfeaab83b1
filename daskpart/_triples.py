"""What each container stores, as (rows, columns, values, shape) in the container's own order.

One function a kind of container; `daskpart.containers` checks, sorts and labels what they give.
Nothing here imports a library that the caller does not hold an object of.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import sparse

from .errors import InputError

if TYPE_CHECKING:
    import pandas
    import xarray

_ACCEPTED = (
    "scipy.sparse, sparse.COO, sparse.GCXS, a Dask array of sparse chunks, an xarray.DataArray of "
    "any of these, or a pandas.DataFrame with the columns (user, item, rating)"
)


def sparse_triples(data: Any) -> tuple[Any, Any, Any, tuple[int, ...]]:
    """Stored (rows, columns, values, shape) of one in-memory sparse matrix, in storage order.

    Raises
    ------
    InputError
        `data` is dense, is no known container, is not two-dimensional, or has a fill value.
    """
    if scipy.sparse.issparse(data):
        _require_two_dimensions(data)
        return _scipy_triples(data)
    if isinstance(data, sparse.SparseArray):
        _require_two_dimensions(data)
        require_zero_fill(data)
        coo = data.asformat("coo")
        return coo.coords[0], coo.coords[1], coo.data, coo.shape
    if isinstance(data, np.ndarray):
        raise InputError(
            f"a dense array of shape {data.shape} was given: it does not say which zeros are "
            "ratings and which are unknown. If zeros are unknown, give "
            "scipy.sparse.coo_array(array)"
        )
    raise InputError(
        f"cannot read a {type(data).__qualname__} as a sparse matrix; give {_ACCEPTED}"
    )


def _scipy_triples(matrix: Any) -> tuple[Any, Any, Any, tuple[int, ...]]:
    triples = matrix.tocoo()
    rows, columns = triples.coords
    if matrix.format in ("bsr", "dia"):  # the padding of blocks and diagonals is stored as zeros
        known = triples.data != 0
        return rows[known], columns[known], triples.data[known], triples.shape
    return rows, columns, triples.data, triples.shape


def dask_triples(array: Any) -> tuple[Any, Any, Any, tuple[int, ...]]:
    """Stored (rows, columns, values, shape) of a Dask array of sparse chunks, all computed."""
    import dask

    require_sparse_chunks(array)
    blocks = array.to_delayed()
    triples = [sparse_triples(block) for block in dask.compute(*blocks.ravel())]
    heights = [triples[i * blocks.shape[1]][3][0] for i in range(blocks.shape[0])]
    widths = [triples[j][3][1] for j in range(blocks.shape[1])]
    tops, lefts = _starts(heights), _starts(widths)
    rows, columns, values = [], [], []
    for number, (block_rows, block_columns, block_values, _) in enumerate(triples):
        i, j = divmod(number, blocks.shape[1])
        rows.append(np.asarray(block_rows, np.int64) + tops[i])
        columns.append(np.asarray(block_columns, np.int64) + lefts[j])
        values.append(block_values)
    shape = (tops[-1], lefts[-1])
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values), shape


def require_sparse_chunks(array: Any) -> None:
    """Refuse a Dask array that is not two-dimensional or whose chunks are dense (InputError)."""
    _require_two_dimensions(array)
    refuse_dense_chunks(array)


def refuse_dense_chunks(array: Any) -> None:
    """Refuse a Dask array whose chunks are dense, as far as its meta tells (InputError)."""
    if isinstance(array._meta, np.ndarray):
        raise InputError(
            "a Dask array of dense chunks was given; chunks must be sparse. If zeros are unknown, "
            "give array.map_blocks(sparse.COO.from_numpy); if the chunks are sparse already, "
            "state it with meta=sparse.COO.from_numpy(numpy.empty((0, 0)))"
        )


def _starts(lengths: list[int]) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]


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


def frame_triples(frame: pandas.DataFrame) -> tuple[Any, ...]:
    """Triples and shape of a DataFrame of ratings, then its labels and the names of its columns."""
    user, item, rating = _rating_columns(frame)
    rows, row_labels = _factorized(frame, user)
    columns, column_labels = _factorized(frame, item)
    values = _numbers(frame.iloc[:, rating])
    row_name, column_name = (str(frame.columns[side]) for side in (user, item))
    shape = (len(row_labels), len(column_labels))
    return rows, columns, values, shape, row_labels, column_labels, row_name, column_name


def _rating_columns(frame: pandas.DataFrame) -> tuple[int, int, int]:
    names = [str(name) for name in frame.columns]
    if all(names.count(name) == 1 for name in ("user", "item", "rating")):
        return names.index("user"), names.index("item"), names.index("rating")
    if len(names) == 3:
        return 0, 1, 2
    raise InputError(
        f"a DataFrame with the columns {names} was given; allowed are the columns 'user', 'item' "
        "and 'rating' (and others, ignored), or exactly three in that order. Rename or select"
    )


def _factorized(frame: pandas.DataFrame, column: int) -> tuple[Any, npt.NDArray[Any]]:
    import pandas

    series = frame.iloc[:, column]
    missing = series.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"column {frame.columns[column]!r} has {int(missing.sum())} missing values, the first "
            f"in line {int(np.argmax(missing))}; each rating needs a user and an item. Drop them"
        )
    codes, labels = pandas.factorize(series, sort=True)
    return codes, as_labels(labels)


def _numbers(series: pandas.Series) -> npt.NDArray[Any]:
    from pandas.api.types import is_extension_array_dtype, is_numeric_dtype

    if is_extension_array_dtype(series.dtype) and is_numeric_dtype(series.dtype):
        return series.to_numpy(np.float64, na_value=np.nan)  # pandas.NA becomes NaN
    return series.to_numpy()


def as_labels(labels: Any) -> npt.NDArray[Any]:
    """Labels as an array that saves without pickle: text as numpy's own text."""
    array = np.asarray(labels)
    if array.dtype.kind in "OT" and all(isinstance(label, str) for label in array):
        return array.astype(str)
    return array


def _require_two_dimensions(data: Any) -> None:
    if data.ndim != 2:
        raise InputError(
            f"an array of {data.ndim} dimensions with shape {data.shape} was given; "
            "a matrix with two (rows, columns) is needed"
        )


def require_zero_fill(data: sparse.SparseArray) -> None:
    """Refuse a sparse array whose absent values are not 0 (InputError)."""
    if data.fill_value != 0:  # true for NaN too
        raise InputError(
            f"a sparse array with fill value {data.fill_value} was given; only 0 is allowed, and "
            "means unknown. Rebuild it from its coords and data with fill_value=0"
        )


def is_a(data: Any, module: str, name: str) -> bool:
    """Test for a class without importing its module: nobody holds one if it is not loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name))
