"""Lists of (index, ..., value) to sorted sparse arrays, with labels where the indices are ids.

    ids      196 186 22 196 ...        labels  22 186 196
    codes      2   1  0   2 ...        COO     row-major, one value a cell (the last one read)

A file says later what holds now: of a cell that occurs twice the last value is kept, with a warning
that counts them. Summing, what sparse constructors do, would make ratings that nobody gave; it is
right for tensors, whose values are counts and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import sparse

from daskpart.containers.coordinates import index_dtype, merged
from daskpart.errors import InputError, ReadError, warn

if TYPE_CHECKING:
    import xarray

_FREE_EXTENT, _EXTENT_AN_ENTRY = 1 << 21, 16


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


def value_type(dtype: np.typing.DTypeLike) -> np.dtype:
    """The type that values shall have.

    Raises
    ------
    InputError
        It is not one of real numbers.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.kind not in "fiu":
        raise InputError(f"dtype={found or dtype}; values can be of a float or an integer type")
    return found


def cast_values(values: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """`values` (float64) in another type, and which of them are finite and fit it.

    Whole numbers from 2^53 on do not: a float64 may have come from another one; nor does what is
    no zero and would become one.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        cast = values.astype(dtype)
    good = np.isfinite(values)
    if dtype.kind == "f":
        good &= np.isfinite(cast) & ((cast != 0) | (values == 0))
    else:
        good &= (cast == values) & (abs(values) < 2**53)
    return cast, good


def expected_value(what: str, dtype: np.dtype) -> str:
    """What `cast_values` takes, to begin a message with: of 64-bit integers not all that fit."""
    limit = " (up to 2^53 - 1)" if dtype.kind in "iu" and dtype.itemsize == 8 else ""
    return f"expected a finite {what} that {dtype} can hold{limit}"


def check_extent(path: str, extent: int, n_entries: int, what: str) -> None:
    """Refuse an extent that a file announces but does not begin to fill.

    Arrays as long as an extent are made of it here and wherever the data go next, so a few bytes of
    a damaged file could otherwise ask for any amount of memory.

    Raises
    ------
    ReadError
        `extent` is above 2^21 + 16 `n_entries`.
    """
    most = _FREE_EXTENT + _EXTENT_AN_ENTRY * n_entries
    if extent > most:
        raise ReadError(
            f"{path}: {extent} {what} for {n_entries} entries; at most {most} are taken for so few "
            f"(the file is damaged, or number the {what} that occur anew)"
        )


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
    try:
        coords, kept = merged(indices, values, shape, repeats)
    except InputError as error:
        raise ReadError(f"{source}: {error}; read it with another dtype") from None
    if len(kept) < len(values):
        if not np.isfinite(kept).all():
            raise ReadError(
                f"{source}: the values of a cell sum to more than {kept.dtype} can hold"
            )
        what = "the last value of each cell is kept" if repeats == "last" else "values are summed"
        warn(f"{source}: {len(values) - len(kept)} entries repeat a cell given before; {what}")
    return sparse.COO(coords, kept, shape=shape, sorted=True, has_duplicates=False)


def labelled(
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    labels: tuple[np.ndarray, np.ndarray],
    dims: tuple[str, str],
    name: str,
    source: str,
    repeats: Literal["last", "sum"] = "last",
) -> xarray.DataArray:
    """A labelled matrix: DataArray `name` over a COO, the ids as coordinates of `dims`."""
    import xarray  # not for ranks that read examples

    shape = (len(labels[0]), len(labels[1]))
    matrix = assemble((rows, columns), values, shape, source, repeats=repeats)
    coords = dict(zip(dims, labels, strict=True))
    return xarray.DataArray(matrix, coords=coords, dims=dims, name=name, attrs={"source": source})
