"""Lists of (index, ..., value) to sorted sparse arrays, with labels where the indices are ids.

    ids      196 186 22 196 ...        labels  22 186 196
    codes      2   1  0   2 ...        COO     row-major, one value a cell (the last one read)

A file says later what holds now: of a cell that occurs twice the last value is kept, with a warning
that counts them. Summing, what sparse constructors do, would make ratings that nobody gave.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import sparse
import xarray

from daskpart._jit import kernel
from daskpart.errors import DaskpartWarning, InputError


def factorize(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number ids by rank.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Not negative; need not be contiguous.

    Returns
    -------
    codes : ndarray of int32 (int64 beyond 2^31 labels), shape (n,)
    labels : ndarray of int64, sorted
        ``labels[codes] == ids``.
    """
    highest = int(ids.max(initial=-1))
    if highest >= 4 * len(ids) + (1 << 20):
        labels, codes = np.unique(ids, return_inverse=True)
        return codes.astype(index_dtype(len(labels))), labels
    present = np.zeros(highest + 1, bool)
    present[ids] = True
    labels = np.flatnonzero(present)
    code_of = np.zeros(highest + 1, index_dtype(len(labels)))
    code_of[labels] = np.arange(len(labels))
    return code_of[ids], labels


def cast_values(values: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """`values` (float64) in another type, and which of them are finite and fit it.

    Raises
    ------
    InputError
        The type is not one of real numbers.
    """
    if dtype.kind not in "fiu":
        raise InputError(f"dtype={dtype}; values can be of a float or an integer type")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(dtype)
    good = np.isfinite(values)
    good &= np.isfinite(cast) if dtype.kind == "f" else cast == values
    return cast, good


def index_dtype(extent: int) -> type[np.signedinteger]:
    """int32 where it can number `extent` things, else int64."""
    return np.int32 if extent <= np.iinfo(np.int32).max else np.int64


def assemble(
    indices: Sequence[np.ndarray], values: np.ndarray, shape: Sequence[int], source: str
) -> sparse.COO:
    """A sorted COO without duplicates, indices int32 where they fit.

    Parameters
    ----------
    indices : sequence of ndarray of int, each of shape (n,)
        One a mode.
    values : ndarray, shape (n,)
        Explicit zeros stay.
    shape : sequence of int
    source : str
        Names the data in the warning on duplicates.

    Warns
    -----
    DaskpartWarning
        A cell occurs more than once; the last value is kept.
    """
    order = _row_major_order(indices, shape)
    kept = len(values) if order is None else len(order)
    if kept < len(values):
        warnings.warn(
            f"{source}: {len(values) - kept} entries repeat a cell given before; "
            "the last value of each cell is kept",
            DaskpartWarning,
            stacklevel=2,
        )
    dtype = index_dtype(max(shape, default=0))
    coords = np.empty((len(shape), kept), dtype)
    for mode, index in enumerate(indices):
        coords[mode] = index if order is None else index[order]
    values = values if order is None else values[order]
    shape = tuple(int(extent) for extent in shape)
    return sparse.COO(coords, values, shape=shape, sorted=True, has_duplicates=False)


def _row_major_order(indices: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray | None:
    """Positions of the entries to keep, in row-major order; None when all stay as they are.

    A stable sort by each mode, the last first; by counting, unless the mode is far wider than the
    data is long.
    """
    later, _ = _compare(indices)
    if later.all():
        return None
    order = np.arange(len(indices[0]))
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        if extent <= 4 * len(order) + (1 << 16):
            sorted_order = np.empty_like(order)
            _counting_pass(index, order, np.zeros(int(extent) + 1, np.int64), sorted_order)
            order = sorted_order
        else:
            order = order[np.argsort(index[order], kind="stable")]
    _, same = _compare([index[order] for index in indices])
    return order[np.append(~same, True)]


def _compare(indices: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each entry but the first comes after the one before, and whether it is its cell."""
    later = np.zeros(max(len(indices[0]) - 1, 0), bool)
    same = ~later
    for index in indices:
        later |= same & (index[1:] > index[:-1])
        same &= index[1:] == index[:-1]
    return later, same


@kernel
def _counting_pass(index, order, starts, sorted_order):
    """Reorder `order` by the index that each position has, keeping the order of equals."""
    for position in range(len(order)):
        starts[index[order[position]] + 1] += 1
    for value in range(1, len(starts)):
        starts[value] += starts[value - 1]
    for position in range(len(order)):
        entry = order[position]
        sorted_order[starts[index[entry]]] = entry
        starts[index[entry]] += 1


def labelled(
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    labels: tuple[np.ndarray, np.ndarray],
    dims: tuple[str, str],
    name: str,
    source: str,
) -> xarray.DataArray:
    """A labelled matrix: DataArray `name` over a COO, the ids as coordinates of `dims`."""
    shape = (len(labels[0]), len(labels[1]))
    matrix = assemble((rows, columns), values, shape, source)
    coords = dict(zip(dims, labels, strict=True))
    return xarray.DataArray(matrix, coords=coords, dims=dims, name=name, attrs={"source": source})
