"""Every container of a sparse tensor, as one: coordinates, values, names.

    sparse.COO, GCXS ──────────┐
    scipy.sparse ──────────────┤      coordinates  0 0 1    int32[n_modes, nnz], a row a mode
    Dask array of such chunks ─┼─▶                 0 2 1
    xarray.DataArray of such ──┤                   1 0 1
    a file: .tns, .mtx, .npz ──┘      values       5 3 1    row-major, no cell twice, no zeros

A tensor of order M ≥ 2. What is not stored is 0, as CP decompositions have it, so a stored zero
carries nothing and is left out, and values of one cell add up. (`as_matrix`, for ratings, differs
in both: there what is not stored is unknown.)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import sparse

from daskpart._floor.tables import html_table, text_table
from daskpart.errors import DaskpartWarning, InputError

from .coordinates import (
    Entries,
    as_labels,
    as_values,
    dask_entries,
    is_a,
    merged,
    refuse_dense_chunks,
    refuse_fill_value,
    refuse_nonfinite,
    refuse_outside,
)
from .matrix import LabelledMatrix

if TYPE_CHECKING:
    import xarray

_LARGEST_SIDE = np.iinfo(np.int32).max
_ACCEPTED = (
    "sparse.COO, sparse.GCXS, scipy.sparse, a Dask array of sparse chunks, an xarray.DataArray of "
    "any of these, or the path of a file that daskpart.read takes"
)


@dataclass(frozen=True, eq=False, repr=False)
class LabelledTensor:
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
        return sparse.COO(
            self.coordinates,
            self.values,
            shape=self.shape,
            sorted=True,
            has_duplicates=False,
            fill_value=0,
        )

    def to_xarray(self) -> xarray.DataArray:
        """Give an `xarray.DataArray` over `sparse.COO`, with labels as coordinates."""
        import xarray

        return xarray.DataArray(self.to_coo(), coords=self.labels, dims=self.dims)

    def _summary(self) -> dict[str, Any]:
        extents = dict(zip(self.dims, self.shape, strict=True))
        return {**extents, "nonzeros": self.nnz, "type": str(self.values.dtype)}

    def __repr__(self) -> str:
        return text_table("LabelledTensor", self._summary())

    def _repr_html_(self) -> str:
        return html_table("LabelledTensor", self._summary())


def as_tensor(data: Any, *, shape: Sequence[int] | None = None) -> LabelledTensor:
    """Read any container of a sparse tensor as sorted coordinates and values.

    Parameters
    ----------
    data : container
        `sparse.COO`, `GCXS` or `DOK` of order 2 or more with fill value 0; `scipy.sparse`; a Dask
        array of such chunks, which is **computed** here; an `xarray.DataArray` over any of these,
        whose dimensions become names and whose coordinates become labels; the path of a file that
        `daskpart.read` takes (FROSTT ``.tns``, also compressed, is the format of tensors); a
        `LabelledTensor` or `LabelledMatrix`.
    shape : sequence of int, optional
        Extents, where they differ from the container's or from the largest indices of the file.

    Returns
    -------
    LabelledTensor
        float32 stays float32, float16 becomes float32, anything else becomes float64. Stored zeros
        are left out.

    Raises
    ------
    InputError
        No value but zeros is stored; a value is NaN or infinite; an index lies beyond `shape`;
        there are fewer than two modes; a mode is longer than 2³¹ - 1; the fill value is not 0;
        the container is dense or unknown.
    ReadError
        The file cannot be read.

    Warns
    -----
    DaskpartWarning
        A cell is stored more than once; its values are summed.

    Examples
    --------
    >>> import sparse
    >>> tensor = as_tensor(sparse.random((4, 5, 6), nnz=7, random_state=0))
    >>> tensor.n_modes, tensor.nnz, tensor.coordinates.shape
    (3, 7, (3, 7))
    """
    if isinstance(data, str | os.PathLike):
        from daskpart.readers import read
        from daskpart.readers.contents import sparse_inside

        data = sparse_inside(read(data), str(data))
    if isinstance(data, LabelledTensor):
        given = data.coordinates, data.values, data.shape, data.dims, data.labels
        return data if shape is None else from_coordinates(*given[:2], shape, *given[3:])
    coordinates, values, extents, dims, labels = _entries(data)
    return from_coordinates(coordinates, values, extents if shape is None else shape, dims, labels)


def from_coordinates(
    coordinates: Any,
    values: npt.ArrayLike,
    shape: Sequence[int],
    dims: Sequence[str] | None = None,
    labels: Mapping[str, npt.NDArray[Any]] | None = None,
) -> LabelledTensor:
    """Check entries in any order, sort them, and add up those of one cell.

    Parameters
    ----------
    coordinates : integers [n_modes, n], or a sequence of n_modes such arrays
    values : numbers [n]
    shape : sequence of int
    dims : sequence of str, optional
        ``"mode_0"``, ``"mode_1"`` … if not given.
    labels : mapping, optional
        Of the dims whose indices have names.

    Errors and warnings are those of `as_tensor`.
    """
    extents = _checked_shape(shape)
    names = tuple(dims or (f"mode_{mode}" for mode in range(len(extents))))
    indices = [np.asarray(index) for index in coordinates]
    numbers = as_values(values)
    _check_indices(indices, len(numbers), extents, names)
    refuse_nonfinite(numbers, indices, names, "values")
    n_given = len(numbers)
    cells, sums = merged(indices, numbers, extents, "sum")
    if len(sums) < n_given:
        warnings.warn(
            f"{n_given - len(sums)} of {n_given} entries repeat a cell given before; "
            "the values of a cell are summed",
            DaskpartWarning,
            stacklevel=3,
        )
        refuse_nonfinite(sums, list(cells), names, "values")
    nonzero = sums != 0
    if not nonzero.all():
        cells, sums = np.ascontiguousarray(cells[:, nonzero]), sums[nonzero]
    if not len(sums):
        raise InputError(
            f"the tensor of shape {extents} stores no value but zeros: give at least one nonzero"
        )
    return LabelledTensor(cells, sums, extents, names, dict(labels or {}))


def _entries(data: Any) -> tuple[Any, Any, Sequence[int], Sequence[str] | None, dict[str, Any]]:
    """Coordinates, values, shape, names and labels, in the container's own order."""
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
        return (*dask_entries(data, _block_entries), None, {})
    return (*_block_entries(data), None, {})


def _block_entries(data: Any) -> Entries:
    coo: Any = data  # the type stubs of scipy know matrices only
    if scipy.sparse.issparse(data):
        coo = coo.tocoo()
        return coo.coords, coo.data, coo.shape
    if isinstance(data, sparse.SparseArray):
        refuse_fill_value(data)
        coo = data.asformat("coo")
        return coo.coords, coo.data, coo.shape
    what = "dense array" if isinstance(data, np.ndarray) else type(data).__qualname__
    raise InputError(f"cannot read a {what} as a sparse tensor; give {_ACCEPTED}")


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    extents = tuple(int(extent) for extent in shape)
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
