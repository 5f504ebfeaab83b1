"""Every container of a sparse tensor, as one: coordinates, values, names.

    sparse.COO, GCXS ──────────┐
    scipy.sparse ──────────────┤      coordinates  0 0 1    int32[n_modes, nnz], a row a mode
    Dask array of such chunks ─┼─▶                 0 2 1
    xarray.DataArray of such ──┤                   1 0 1
    pandas.DataFrame, records ─┤      values       5 3 1    row-major, no cell twice, no zeros
    a file: .tns, .mtx, .npz ──┘

A tensor of order M ≥ 2. What is not stored is 0, so a stored zero carries nothing and is left out,
and values of one cell add up. With ``missing="unknown"`` what is not stored is unknown, as it is in
`as_matrix`: then a stored zero is a value like any other, and of one cell the last value counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import sparse

from daskpart._floor.checks import as_array, one_of, require_like, several, whole_numbers
from daskpart._floor.tables import ShownAsTable
from daskpart._floor.words import listed, not_read
from daskpart.errors import InputError, ReadError, warn

from .column_names import plain_word
from .coordinates import (
    Entries,
    array_entries,
    as_labels,
    as_values,
    coo_from_sorted,
    dask_entries,
    is_a,
    merged,
    refuse_dense_chunks,
    refuse_dense_rows,
    refuse_nonfinite,
    refuse_outside,
)
from .matrix import LabelledMatrix, factorized_column, number_column
from .tables import table_in_memory

if TYPE_CHECKING:
    import pandas
    import xarray

Missing = Literal["zero", "unknown"]
_VALUE_NAMES = {"value", "values", "rating", "ratings", "stars", "score", "count", "counts"}
_LARGEST_SIDE = np.iinfo(np.int32).max
_ACCEPTED = (
    "sparse.COO, sparse.GCXS, scipy.sparse, a Dask array of sparse chunks, an xarray.DataArray of "
    "any of these, a DataFrame with a column of indices a mode and one of values, a list of "
    "(index, …, value), or the path of a file that daskpart.read takes"
)
_OF_TABLE = (
    "(of a table with a column for each mode and one of values give a DataFrame, such as "
    "pandas.read_csv(path))"
)


@dataclass(frozen=True, eq=False, repr=False)
class LabelledTensor(ShownAsTable):
    """A sparse tensor in row-major order. `as_tensor` checks its input; this constructor trusts it.

    Parameters
    ----------
    coordinates : int32[n_modes, nnz], C-contiguous
        Row m holds the index in mode m of each nonzero; sorted by the first mode, then the next.
    values : float32 or float64 [nnz]
        Finite, none of them 0.
    shape : tuple of int
        The extent of each mode.
    dims : tuple of str
        What each mode is called: ``"mode_0"`` … or the names of the container's dimensions.
    labels : dict
        What the indices of a mode are called, where that is known.
    """

    coordinates: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    labels: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def n_modes(self) -> int:
        """The order of the tensor, M."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """Number of nonzeros."""
        return len(self.values)

    def to_coo(self) -> sparse.COO:
        """Give a `sparse.COO` with int32 coordinates; names and labels are left behind."""
        return coo_from_sorted(self.coordinates, self.values, self.shape)

    def to_xarray(self) -> xarray.DataArray:
        """Give an `xarray.DataArray` over `sparse.COO`, with labels as coordinates."""
        import xarray

        return xarray.DataArray(self.to_coo(), coords=self.labels, dims=self.dims)

    def _rows(self) -> dict[str, Any]:
        extents = dict(zip(self.dims, self.shape, strict=True))
        return {**extents, "nonzeros": self.nnz, "type": str(self.values.dtype)}


def as_tensor(
    data: Any,
    *,
    shape: Sequence[int] | None = None,
    values: Any = None,
    missing: Missing = "zero",
) -> LabelledTensor:
    """Read any container of a sparse tensor as sorted coordinates and values.

    Parameters
    ----------
    data : container
        `sparse.COO`, `GCXS` or `DOK` of order 2 or more with fill value 0; `scipy.sparse`; a Dask
        array of such chunks, which is **computed** here; an `xarray.DataArray` over any of these,
        whose dimensions become names and whose coordinates become labels; the path of a file that
        `daskpart.read` takes (FROSTT ``.tns``, also compressed, is the format of tensors); a
        `LabelledTensor` or `LabelledMatrix`. Or a `pandas.DataFrame`, one of polars, pyarrow or
        DuckDB, or of Dask, which is computed: a column called ``value`` (or ``rating``, ``count``
        and such) or else the only one of fractions has the values (whole numbers in it, before a
        last column of numbers, may be years: refused), or else the last one, if it is of truth
        values; and every other column names the indices of a mode; a column of categories has all
        of them as its labels. Or a list of records: dicts with such keys, or ``(index, …, value)``;
        so is a list of lists, which is never taken for a dense array.
    shape : sequence of int, optional
        Extents, where they differ from the container's or from the largest indices of the file.
    values : array of shape (n,), optional
        Of a DataFrame all of whose columns are modes.
    missing : {"zero", "unknown"}, default="zero"
        What is not stored.

    Returns
    -------
    LabelledTensor
        float32 stays float32, float16 becomes float32, anything else becomes float64. Stored zeros
        are left out, unless what is missing is unknown; then too those of BSR and DIA, where a
        stored zero is padding.

    Raises
    ------
    InputError
        No value is stored, or none but zeros where what is missing is 0; a value is NaN or
        infinite; an index lies beyond `shape`; there are fewer than two modes; a mode is longer
        than 2³¹ - 1; the fill value is not 0; the container is dense or unknown.
    ReadError
        The file cannot be read.

    Warns
    -----
    DaskpartWarning
        A cell is stored more than once; its values are summed, or the last is kept.

    Examples
    --------
    >>> import sparse
    >>> tensor = as_tensor(sparse.random((4, 5, 6), nnz=7, random_state=0))
    >>> tensor.n_modes, tensor.nnz, tensor.coordinates.shape
    (3, 7, (3, 7))
    """
    one_of(missing, "missing", ("zero", "unknown"))
    if isinstance(data, str | os.PathLike):
        from daskpart.readers import read
        from daskpart.readers.contents import sparse_inside

        try:
            data = sparse_inside(read(data), str(data))
        except ReadError as error:
            if error.option is None:
                raise
            raise ReadError(f"{error.problem} {_OF_TABLE}") from error  # an option would not help
    data = table_in_memory(data)
    in_frame = is_a(data, "pandas", "DataFrame") or isinstance(data, list | tuple)
    if values is not None and not in_frame:
        raise InputError(
            f"values go with a DataFrame of indices: a {type(data).__name__} has its own"
        )
    if isinstance(data, LabelledTensor) and shape is None:
        if missing == "unknown" or data.values.all():
            return data
    entries = _frame_entries(data, values) if in_frame else _entries(data)
    coordinates, numbers, extents, dims, labels = entries
    chosen = extents if shape is None else shape
    return from_coordinates(coordinates, numbers, chosen, dims, labels, missing=missing)


def from_coordinates(
    coordinates: Any,
    values: npt.ArrayLike,
    shape: Sequence[int],
    dims: Sequence[str] | None = None,
    labels: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    missing: Missing = "zero",
) -> LabelledTensor:
    """Check entries in any order, sort them, and merge those of one cell.

    Parameters
    ----------
    coordinates : integers [n_modes, n], or a sequence of n_modes such arrays
    values : numbers [n]
    shape : sequence of int
    dims : sequence of str, optional
        ``"mode_0"``, ``"mode_1"`` … if not given.
    labels : mapping, optional
        Of the dims whose indices have names.
    missing : {"zero", "unknown"}, default="zero"
        As for `as_tensor`.

    Returns
    -------
    LabelledTensor

    Raises
    ------
    InputError
        As `as_tensor`, which also says what is warned of.
    """
    one_of(missing, "missing", ("zero", "unknown"))
    extents = _checked_shape(shape)
    if dims is None:
        dims = [f"mode_{mode}" for mode in range(len(extents))]
    names = tuple(map(str, several(dims, "dims", "a name for each mode")))
    require_like({} if labels is None else labels, "labels", ("keys",), "a dict of labels by name")
    by_mode = several(coordinates, "coordinates", "an array for each mode")
    indices = [as_array(index, "coordinates") for index in by_mode]
    numbers = as_values(values, "values")
    if numbers.ndim != 1:
        raise InputError(f"values have the shape {numbers.shape}: give one for each entry")
    _check_indices(indices, len(numbers), extents, names)
    named = [(labels or {}).get(name) for name in names]
    refuse_nonfinite(numbers, indices, names, "values", named)
    n_given = len(numbers)
    zero = missing == "zero"
    cells, sums = merged(indices, numbers, extents, "sum" if zero else "last")
    if len(sums) < n_given:
        warn(
            f"{n_given - len(sums)} of {n_given} entries repeat a cell given before; "
            + ("the values of a cell are summed" if zero else "the last one given is kept"),
        )
        refuse_nonfinite(sums, list(cells), names, "values", named)
    nonzero = sums != 0
    if zero and not nonzero.all():
        cells, sums = np.ascontiguousarray(cells[:, nonzero]), sums[nonzero]
    if not len(sums):
        lacking = "value but zeros: give at least one nonzero" if zero else "value: give some"
        raise InputError(f"the tensor of shape {extents} stores no {lacking}")
    return LabelledTensor(cells, sums, extents, names, dict(labels or {}))


def _entries(data: Any) -> tuple[Any, Any, Sequence[int], Sequence[str] | None, dict[str, Any]]:
    """Coordinates, values, shape, names and labels, in the container's own order."""
    if isinstance(data, LabelledTensor):
        return data.coordinates, data.values, data.shape, data.dims, data.labels
    if isinstance(data, LabelledMatrix):
        sides = {data.row_name: data.row_labels, data.column_name: data.column_labels}
        labels = {name: names for name, names in sides.items() if names is not None}
        return (data.rows, data.columns), data.values, data.shape, tuple(sides), labels
    if is_a(data, "xarray", "DataArray"):
        dims = tuple(str(name) for name in data.dims)
        labels = {str(d): as_labels(data.coords[d].values) for d in data.dims if d in data.coords}
        return (*_entries(data.data)[:3], dims, labels)
    if is_a(data, "dask.array", "Array"):
        refuse_dense_chunks(data)
        return (*dask_entries(data, block_entries), None, {})
    return (*block_entries(data), None, {})


def _as_frame(data: Any) -> pandas.DataFrame:
    """A DataFrame of a list of records, or the one that was given."""
    import pandas

    if isinstance(data, pandas.DataFrame):
        return data
    records = list(data)
    if records and all(isinstance(record, Mapping) for record in records):
        return pandas.DataFrame.from_records(records)
    lengths = {len(r) if isinstance(r, list | tuple) else 0 for r in records}
    if len(lengths) != 1 or min(lengths) < 3:
        wrong = next((r for r in records if not isinstance(r, list | tuple) or len(r) < 3), None)
        first = f"; {wrong!r} is none" if wrong is not None else ""
        raise InputError(
            f"a list of {len(records)} records was given: each must be (index, …, value), with an "
            f"index for each of two modes or more, and all alike{first}"
        )
    names = [*(f"mode_{mode}" for mode in range(min(lengths) - 1)), "value"]
    frame = pandas.DataFrame.from_records(records, columns=names)
    refuse_dense_rows(records, frame.iloc[:, :-1])
    return frame


def columns_of(data: Any, values: Any = None) -> tuple[pandas.DataFrame, npt.NDArray[Any]]:
    """A DataFrame of indices, a column a mode, and values, from a DataFrame or a list of records.

    Raises
    ------
    InputError
        When it is not told which column has the values, and they are not given; see `as_tensor`.
    """
    frame = _as_frame(data)
    if values is None:
        place = _value_column(frame)
        others = [column for column in range(frame.shape[1]) if column != place]
        return frame.iloc[:, others], number_column(frame.iloc[:, place], "a column 'value'")
    numbers = as_array(values, "values")
    if numbers.shape != (len(frame),):
        raise InputError(
            f"values have shape {numbers.shape}, the DataFrame {len(frame)} lines: give one a line"
        )
    return frame, numbers


def _frame_entries(
    data: Any, values: Any
) -> tuple[Any, Any, Sequence[int], Sequence[str], dict[str, Any]]:
    """What `_entries` gives, of a frame: columns of indices, and one of values or values beside."""
    indices, numbers = columns_of(data, values)
    dims = [str(name) for name in indices.columns]
    if len(dims) < 2:
        raise InputError(
            f"a DataFrame with the columns {listed(_as_frame(data).columns)} names the indices of "
            f"{len(dims)} modes: give two columns of indices or more. Those in its index are not "
            "read: give X.reset_index()"
        )
    if len({*dims}) != len(dims):
        raise InputError(f"the columns {', '.join(dims)} do not all have a name of their own")
    needs = "each value needs an index of every mode"
    coded = [
        factorized_column(indices, place, needs, all_categories=True) for place in range(len(dims))
    ]
    labels = {dim: names for dim, (_, names) in zip(dims, coded, strict=True)}
    return [codes for codes, _ in coded], numbers, [len(n) for _, n in coded], dims, labels


def _value_column(frame: pandas.DataFrame) -> int:
    """By a name that people use, else the only one of fractions, else the last of truth values."""
    plain = [plain_word(name) for name in frame.columns]
    named = [place for place, name in enumerate(plain) if name in _VALUE_NAMES]
    kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
    if len(named) == 1:
        return named[0]
    if kinds.count("f") == 1 and not _may_be_indices(frame, place := kinds.index("f")):
        return place
    if "f" not in kinds and kinds[-1:] == ["b"]:
        return len(kinds) - 1
    raise InputError(
        f"a DataFrame with the columns {listed(frame.columns)} does not tell which of them has "
        "the values: call it 'value'"
    )


def _may_be_indices(frame: pandas.DataFrame, place: int) -> bool:
    """Whether a column of fractions holds whole numbers and the last one has numbers, too.

    A column of years is one of fractions once lines without a year were dropped.
    """
    from pandas.api.types import is_numeric_dtype

    last = frame.dtypes.iloc[-1]
    if place == frame.shape[1] - 1 or not is_numeric_dtype(last):
        return False
    numbers = frame.iloc[:, place].dropna().to_numpy(np.float64)
    return bool((numbers == np.floor(numbers)).all())


def block_entries(data: Any) -> Entries:
    """What one array in memory stores, in its own order.

    Raises
    ------
    InputError
        It is dense, is no known container, or has a fill value.
    """
    entries = array_entries(data)
    if entries is not None:
        return entries
    if isinstance(data, np.ndarray):
        raise InputError(
            f"a dense array of shape {data.shape} was given: sparse.COO.from_numpy(array) keeps "
            "what is not zero; where missing cells are NaN, cells = numpy.nonzero(~numpy.isnan("
            "array)) and sparse.COO(cells, array[cells], shape=array.shape) keep the others; of "
            "a DataArray xarray.DataArray.from_series(X.to_series().dropna(), sparse=True) keeps "
            "them with their labels"
        )
    if is_a(data, "pandas", "Series") and data.index.nlevels > 1:
        raise InputError("modes in the index are not read: give X.reset_index()")
    raise InputError(not_read(data, "sparse tensor", _ACCEPTED))


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    extents = tuple(whole_numbers(shape, "extent").tolist())
    if len(extents) < 2:
        raise InputError(f"a tensor of shape {extents} was given: give one of two modes or more")
    if max(extents) > _LARGEST_SIDE or min(extents) < 0:
        raise InputError(
            f"a tensor of shape {extents} was given; each mode may be 0 to {_LARGEST_SIDE} long. "
            "Number the indices that hold nonzeros anew"
        )
    return extents


def _check_indices(
    indices: Sequence[npt.NDArray[Any]],
    n_values: int,
    shape: tuple[int, ...],
    names: Sequence[str],
) -> None:
    if len(indices) != len(shape) or len(names) != len(shape):
        raise InputError(
            f"indices of {len(indices)} modes were given for the shape {shape}: "
            f"give {len(shape)}, one a mode"
        )
    for index, extent, name in zip(indices, shape, names, strict=True):
        if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) != n_values:
            raise InputError(
                f"indices of {name} of shape {index.shape} and type {index.dtype}: "
                f"give a whole number for each of the {n_values} values"
            )
        refuse_outside(index, extent, name, f"the tensor of shape {shape}")
