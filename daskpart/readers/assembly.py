"""Lists of (index, ..., value) to sorted sparse arrays, with labels where the indices are ids.

    ids      196 186 22 196 ...        labels  22 186 196
    codes      2   1  0   2 ...        COO     row-major, one value a cell (the last one read)

A file says later what holds now: of a cell that occurs twice the last value is kept, with a warning
that counts them. Summing, what sparse constructors do, would make ratings that nobody gave; it is
right for tensors, whose values are counts and sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import sparse
import xarray

from daskpart._floor.kernels import kernel
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
    indices: Sequence[np.ndarray],
    values: np.ndarray,
    shape: Sequence[int],
    source: str,
    *,
    repeats: Literal["last", "sum"] = "last",
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
    repeats : "last" or "sum"
        What becomes of the values of a cell that occurs more than once.

    Warns
    -----
    DaskpartWarning
        A cell occurs more than once.
    """
    shape = tuple(int(extent) for extent in shape)
    coords, kept = merged(indices, values, shape, repeats)
    if len(kept) < len(values):
        what = "the last value of each cell is kept" if repeats == "last" else "values are summed"
        warnings.warn(
            f"{source}: {len(values) - len(kept)} entries repeat a cell given before; {what}",
            DaskpartWarning,
            stacklevel=2,
        )
    return sparse.COO(coords, kept, shape=shape, sorted=True, has_duplicates=False)


def merged(
    indices: Sequence[np.ndarray],
    values: np.ndarray,
    shape: Sequence[int],
    repeats: Literal["last", "sum"],
) -> tuple[np.ndarray, np.ndarray]:
    """Entries in row-major order, one a cell: ``(coordinates [n_modes, n_cells], values)``.

    Values that come in order and without repeats are not copied. Sums are made in float64 and
    rounded once.
    """
    order = _row_major_order(indices, shape)
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
            with np.errstate(over="ignore"):
                values = np.add.reduceat(values.astype(np.float64), chosen).astype(values.dtype)
        indices = [index[chosen] for index in indices]
    coordinates = np.empty((len(shape), len(values)), index_dtype(max(shape, default=0)))
    for mode, index in enumerate(indices):
        coordinates[mode] = index
    return coordinates, values


def _row_major_order(indices: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray | None:
    """The stable row-major order of the entries; None when they are in order already.

    A stable sort by each mode, the last first; by counting, unless the mode is far wider than the
    data is long.
    """
    later, same = _compare(indices)
    if (later | same).all():
        return None
    order = np.arange(len(indices[0]))
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        if extent <= 4 * len(order) + (1 << 16):
            sorted_order = np.empty_like(order)
            _counting_pass(index, order, np.zeros(int(extent) + 1, np.int64), sorted_order)
            order = sorted_order
        else:
            order = order[np.argsort(index[order], kind="stable")]
    return order


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
