"""From what a user holds to a `Stream`, checked: pydata/sparse, scipy, numpy, masks, pairs.

sparse.COO, GCXS, scipy.sparse   n-d is flattened in C order; fill value = neutral element
numpy array                      entries are what differs from the neutral element
numpy masked array               entries are what is not masked
(indices, values, size)          rising indices, each once
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .reduction import SUM, Reduction
from .stream import Stream, index_type

_ACCEPTED = "sparse.COO, scipy.sparse, numpy array, masked array, or (indices, values, size)"


def stream_of(data: Any, *, reduction: Reduction = SUM) -> Stream:
    """A vector as a stream.

    Parameters
    ----------
    data : Stream, sparse.COO, sparse.GCXS, scipy.sparse, numpy array, masked array, or tuple
        A tuple is (indices, values, size). Values are float32, float64, integers or bool. Entries
        equal to the neutral element are dropped.
    reduction : Reduction
        Its neutral element is what absent entries stand for.

    Raises
    ------
    InputError
        For unsorted, repeated or out-of-range indices, a fill value that is not neutral, values of
        another kind, or something else altogether; names the offending value.
    """
    if isinstance(data, Stream):
        return _with_neutral_of(data, reduction)
    if isinstance(data, tuple):
        return _from_pairs(data, reduction)
    if isinstance(data, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(data).ravel()
        return _entries(data.shape, np.flatnonzero(present), data.data.ravel()[present], reduction)
    if isinstance(data, np.ndarray):
        flat = data.ravel()
        neutral = _neutral(flat.dtype, reduction)
        indices = np.flatnonzero(flat != neutral)
        return _entries(data.shape, indices, flat[indices], reduction)
    if hasattr(data, "tocoo") or hasattr(data, "linear_loc"):
        return _from_sparse(data, reduction)
    raise InputError(f"A stream is made of {_ACCEPTED}; got {type(data).__name__}.")


def _from_sparse(data: Any, reduction: Reduction) -> Stream:
    import sparse

    coo = sparse.COO.from_scipy_sparse(data) if not hasattr(data, "fill_value") else data
    coo = coo if hasattr(coo, "linear_loc") else coo.tocoo()
    neutral = _neutral(coo.dtype, reduction)
    if coo.fill_value != neutral:
        raise InputError(
            f"The fill value is {coo.fill_value}, but the neutral element of {reduction.name} is "
            f"{neutral}; absent entries must be neutral."
        )
    return _entries(coo.shape, coo.linear_loc(), coo.data, reduction)


def _from_pairs(data: tuple, reduction: Reduction) -> Stream:
    if len(data) != 3:
        raise InputError(f"Pairs are (indices, values, size); got a tuple of {len(data)}.")
    indices, values = np.asarray(data[0]), np.asarray(data[1])
    size = data[2]
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise InputError(f"size must be a count, got {size!r}.")
    if indices.ndim != 1 or indices.shape != values.shape:
        raise InputError(
            f"Indices and values must be 1-d and equally many; got shapes {indices.shape} and "
            f"{values.shape}."
        )
    if indices.size and not np.issubdtype(indices.dtype, np.integer):
        raise InputError(f"Indices must be integers, got dtype {indices.dtype}.")
    return _entries((int(size),), indices, values, reduction)


def _entries(
    shape: tuple[int, ...], indices: NDArray[Any], values: NDArray[Any], reduction: Reduction
) -> Stream:
    size = math.prod(shape)
    neutral = _neutral(values.dtype, reduction)
    _require_rising(indices, size)
    kept = values != neutral
    narrow = indices[kept].astype(index_type(size))
    return Stream(size, values[kept], narrow, neutral, 0, size, tuple(map(int, shape)))


def _require_rising(indices: NDArray[Any], size: int) -> None:
    if not indices.size:
        return
    if indices.min() < 0 or indices.max() >= size:
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise InputError(f"Index {wrong} is outside of a vector of size {size}.")
    falls = np.flatnonzero(indices[1:] <= indices[:-1])
    if falls.size:
        place = int(falls[0])
        before, after = indices[place], indices[place + 1]
        what = f"{before} comes twice" if before == after else f"{after} comes after {before}"
        raise InputError(
            f"Indices must rise, each once; {what}, at position {place + 1}. Sort them and combine "
            "repeated ones first."
        )


def _neutral(dtype: np.dtype[Any], reduction: Reduction) -> Any:
    if dtype.kind not in "fiub" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise InputError(f"Values must be float32, float64, integers or bool; got {dtype}.")
    neutral = np.asarray(reduction.identity_of(dtype))
    converted = neutral.astype(dtype)
    if converted != neutral:
        raise InputError(f"The neutral element {neutral} of {reduction.name} is no {dtype}.")
    return converted[()]


def _with_neutral_of(stream: Stream, reduction: Reduction) -> Stream:
    neutral = _neutral(stream.values.dtype, reduction)
    if stream.neutral != neutral:
        raise InputError(
            f"A stream whose absent entries are {stream.neutral} can't be combined by "
            f"{reduction.name}, whose neutral element is {neutral}."
        )
    if (stream.lower, stream.upper) != (0, stream.size):
        raise InputError(
            f"A stream of the range {stream.lower} to {stream.upper} is not a whole vector of "
            f"size {stream.size}."
        )
    return stream
