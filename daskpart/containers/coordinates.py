"""What matrices and tensors share: entries in any order, checked, sorted, one a cell.

    indices of mode 0   2 0 0 2        coordinates   0 0 2     row-major: by the first mode,
    indices of mode 1   1 3 3 0   ─▶                 3 3 0 1   then the next; of equal cells the
    values              a b c d        values        c   d a   last (ratings) or the sum (counts)

Sorting is by counting: a matrix of one row, turned into compressed columns by SciPy, is that sort.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse
import sparse

from daskpart._floor.checks import as_array
from daskpart._incidence import group
from daskpart.errors import InputError

if TYPE_CHECKING:
    import pandas

_LARGEST_INDEX = np.iinfo(np.int32).max
_MOST_PADDING, _FEW_CHARACTERS = 8, 1 << 20

Entries = tuple[Sequence[Any], Any, tuple[int, ...]]
"""Indices of each mode, values, and the shape."""


def index_dtype(extent: int) -> type[np.signedinteger]:
    """int32 where it can number `extent` things, else int64."""
    return np.int32 if extent <= _LARGEST_INDEX else np.int64


def stable_order(keys: npt.NDArray[Any], n_keys: int) -> npt.NDArray[Any]:
    """Order that sorts `keys`, equal keys in their old order: a counting sort, O(len + n_keys)."""
    positions = np.arange(len(keys), dtype=index_dtype(len(keys)))
    return group(keys, positions, max(n_keys, 1))[1]


def merged(
    indices: Sequence[npt.NDArray[Any]],
    values: npt.NDArray[Any],
    shape: Sequence[int],
    repeats: Literal["last", "sum"],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Entries in row-major order, one a cell: ``(coordinates [n_modes, n_cells], values)``.

    Values that come in order and without repeats are not copied. Sums are made in float64 and
    rounded once. One that whole numbers of that type cannot hold is refused (InputError); of floats
    it is infinite.
    """
    order = row_major_order(indices, shape)
    if order is not None:
        indices = [index[order] for index in indices]
        values = values[order]
    _, same = _compare(indices)
    if same.any():
        if repeats == "last":
            chosen = np.flatnonzero(np.append(~same, True))
            values = values[chosen]
        else:
            chosen = np.flatnonzero(np.insert(~same, 0, True))
            values = _sums(values, chosen)
        indices = [index[chosen] for index in indices]
    coordinates = np.empty((len(shape), len(values)), index_dtype(max(shape, default=0)))
    for mode, index in enumerate(indices):
        coordinates[mode] = index
    return coordinates, values


def coo_from_sorted(
    coordinates: npt.NDArray[np.int32], values: npt.NDArray[Any], shape: tuple[int, ...]
) -> sparse.COO:
    """Build a `sparse.COO` from entries in row-major order, one a cell, without a check.

    The coordinates stay int32: of a matrix 12 or 16 bytes a stored value instead of 24.
    """
    return sparse.COO(
        coordinates, values, shape=shape, sorted=True, has_duplicates=False, fill_value=0
    )


def _sums(values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The sums of values that follow one another, from each of `starts` to the next."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.add.reduceat(values.astype(np.float64), starts)
        sums = exact.astype(values.dtype)
    if sums.dtype.kind in "iu" and (sums != exact).any():
        beyond = exact[np.argmax(sums != exact)]
        raise InputError(f"the values of a cell sum to {beyond:g}, which {sums.dtype} cannot hold")
    return sums


def rises(indices: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether entries are in row-major order, each cell once: then nothing has to be done."""
    return bool(_compare(indices)[0].all())


def row_major_order(
    indices: Sequence[npt.NDArray[Any]], shape: Sequence[int]
) -> npt.NDArray[Any] | None:
    """The stable row-major order of the entries; None when they are in order already.

    A stable sort by each mode, the last first; by counting, unless the mode is far wider than the
    data is long.
    """
    later, same = _compare(indices)
    if (later | same).all():
        return None
    order = np.arange(len(indices[0]))
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        keys = index[order]
        by_counting = extent <= 4 * len(order) + (1 << 16)
        of_keys = stable_order(keys, extent) if by_counting else np.argsort(keys, kind="stable")
        order = order[of_keys]
    return order


def _compare(indices: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Whether each entry but the first comes after the one before, and whether it is its cell."""
    later = np.zeros(max(len(indices[0]) - 1, 0), bool)
    same = ~later
    for index in indices:
        later |= same & (index[1:] > index[:-1])
        same &= index[1:] == index[:-1]
    return later, same


def as_values(values: npt.ArrayLike, what: str = "ratings") -> npt.NDArray[Any]:
    """Give values as float32 (from float16 and float32) or float64 (from any other number).

    Errors call them `what`.

    Raises
    ------
    InputError
        The values are not real numbers.
    """
    array = as_array(values, what)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{what} of dtype {array.dtype} were given; allowed are real numbers. "
            "Convert the values to float first"
        )
    short = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return np.ascontiguousarray(array, np.float32 if short else np.float64)


def refuse_outside(index: npt.NDArray[Any], extent: int, name: str, of: str) -> None:
    """Refuse an index below 0 or beyond its mode, and say which entry has it (InputError)."""
    if index.size and (index.min() < 0 or index.max() >= extent):
        first = int(np.argmax((index < 0) | (index >= extent)))
        raise InputError(
            f"{name} {index[first]} of entry {first} is outside of {of}; "
            f"allowed are 0 to {extent - 1}. Correct the index or give a larger shape"
        )


def refuse_nonfinite(
    values: npt.NDArray[Any],
    indices: Sequence[npt.NDArray[Any]],
    names: Sequence[str],
    what: str,
    labels: Sequence[npt.NDArray[Any] | None] = (),
) -> None:
    """Refuse NaN and infinity, and say where the first of them stands (InputError)."""
    bad = ~np.isfinite(values)
    count = int(np.count_nonzero(bad))
    if not count:
        return
    first = int(np.argmax(bad))
    raise InputError(
        f"{count} of {len(values)} {what} are NaN or infinite, the first ({values[first]}) at "
        f"{entry_words(first, indices, names, labels)}; {what} must be finite. Remove these entries"
    )


def entry_words(
    place: int,
    indices: Sequence[npt.NDArray[Any]],
    names: Sequence[str],
    labels: Sequence[npt.NDArray[Any] | None] = (),
) -> str:
    """Where an entry stands, in words: its index on each axis, and what that is called."""
    known = labels or [None] * len(names)
    return ", ".join(
        f"{name} {index[place]}" + ("" if called is None else f" ({called[index[place]]})")
        for name, index, called in zip(names, indices, known, strict=True)
    )


def array_entries(array: Any) -> Entries | None:
    """What an array of scipy.sparse or of `sparse` stores, in its own order; None: it is neither.

    Raises
    ------
    InputError
        Its fill value is neither 0 nor NaN.
    """
    if scipy.sparse.issparse(array):
        return _scipy_entries(array)
    if not isinstance(array, sparse.SparseArray):
        return None
    refuse_fill_value(array)
    coo = array.asformat("coo")
    return coo.coords, coo.data, coo.shape


def _scipy_entries(matrix: Any) -> Entries:
    """Without the padding of blocks and diagonals, which is stored as zeros."""
    native = matrix.dtype.newbyteorder("=")
    wanted = np.dtype(np.float32) if native == np.float16 else native
    if matrix.dtype != wanted:
        matrix = matrix.astype(wanted)  # scipy holds such values, but makes no triples of them
    coo = matrix.tocoo()
    if matrix.format not in ("bsr", "dia"):
        return coo.coords, coo.data, coo.shape
    known = coo.data != 0
    return [index[known] for index in coo.coords], coo.data[known], coo.shape


def dask_entries(array: Any, entries_of: Callable[[Any], Entries]) -> Entries:
    """Entries of a Dask array, all chunks **computed**; `entries_of` gives those of one chunk.

    Extents come from the chunks themselves, as they may have been unknown before.
    """
    import dask

    blocks = array.to_delayed()
    places = list(product(*map(range, blocks.shape)))
    entries = [entries_of(block) for block in dask.compute(*blocks.ravel())]
    at = dict(zip(places, entries, strict=True))
    starts = []
    for axis, count in enumerate(blocks.shape):
        lengths = [at[(0,) * axis + (i,) + (0,) * (array.ndim - axis - 1)][2] for i in range(count)]
        starts.append([0, *np.cumsum([shape[axis] for shape in lengths]).tolist()])
    indices = [
        np.concatenate(
            [np.asarray(at[p][0][axis], np.int64) + starts[axis][p[axis]] for p in places]
        )
        for axis in range(array.ndim)
    ]
    values = np.concatenate([part for _, part, _ in entries])
    return indices, values, tuple(start[-1] for start in starts)


def refuse_dense_chunks(array: Any) -> None:
    """Refuse a Dask array whose chunks are dense, as far as its meta tells (InputError)."""
    if isinstance(array._meta, np.ndarray):
        raise InputError(
            "a Dask array of dense chunks was given; chunks must be sparse. If zeros are unknown, "
            "give array.map_blocks(sparse.COO.from_numpy); if the chunks are sparse already, "
            "state it with meta=sparse.COO.from_numpy(numpy.empty((0, 0)))"
        )


def refuse_unknown_chunks(array: Any) -> None:
    """Refuse a Dask array whose chunks are of unknown size (InputError)."""
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise InputError(
            f"a Dask array with chunks of unknown size ({array.chunks}) was given; sizes must be "
            "known. Call array.compute_chunk_sizes() first"
        )


def refuse_fill_value(array: Any) -> None:
    """Refuse an array of `sparse` whose absent values are neither 0 nor NaN (InputError).

    NaN is what xarray makes of a Series: nothing is known of what is not stored.
    """
    if array.fill_value != 0 and array.fill_value == array.fill_value:
        raise InputError(
            f"a sparse array with fill value {array.fill_value} was given; only 0 and NaN are "
            "allowed, of which nothing is stored. Rebuild it from its coords and data with "
            "fill_value=0"
        )


def refuse_dense_rows(records: Sequence[Any], indices: pandas.DataFrame) -> None:
    """Refuse lists of numbers of which an index is a fraction (InputError).

    They are the rows of a dense array, of which nobody can tell whether zeros are known.
    """
    for name, column in indices.items():
        if isinstance(records[0], list) and column.dtype.kind == "f" and (column % 1 > 0).any():
            found = records[int(np.argmax(column % 1 > 0))]
            raise InputError(
                f"a list of lists was given, of which {found!r} would have a fraction as its "
                f"{name}: a list is read as records, an entry each. Of the rows of a dense array "
                "give sparse.COO.from_numpy(numpy.array(rows)), which keeps what is not zero"
            )


def as_labels(labels: Any) -> npt.NDArray[Any]:
    """Labels as an array: text as numpy's own text, objects of one kind of number or time as such.

    NumPy makes every text as wide as the longest, and drops zeros at its end; text that would
    suffer from it stays as Python's.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "OT":
        return array
    if not all(isinstance(label, str) for label in array):
        if len({type(label) for label in array}) > 1:
            return array  # a common kind might round one of them to another
        import pandas

        return pandas.Series(array).infer_objects().to_numpy()
    lengths = [len(label) for label in array]
    is_wide = max(lengths, default=0) * len(array) > _MOST_PADDING * sum(lengths) + _FEW_CHARACTERS
    if is_wide or any(label.endswith("\0") for label in array):
        return array.astype(object)
    return array.astype(object).astype(str)  # NumPy casts no StringDType to text of a width


def ranked(column: pandas.Series, what: str) -> tuple[npt.NDArray[Any], Any]:
    """The number of each entry, and what occurs, in order (InputError for what has none)."""
    import pandas

    try:
        return pandas.factorize(column, sort=True)
    except TypeError as error:  # lists; bytes beside numbers
        raise InputError(
            f"{what} holds what cannot be put in order ({error}), the first {column.iloc[0]!r}: "
            "convert it, as by astype(str), or name the right column"
        ) from error


def is_a(data: Any, module: str, name: str) -> bool:
    """Test for a class without importing its module: nobody holds one if it is not loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name))
