"""Compressed rows out of arrays, with indices that stay as narrow as they are."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype


def compressed_rows(
    values: NDArray[Any], indices: NDArray[Any], pointer: NDArray[Any], shape: tuple[int, int]
) -> csr_array:
    """A csr_array that shares its values, and its indices where they are narrow already.

    SciPy makes indices as wide as the pointer: with one of int64 that is a copy of twice their
    bytes, for as long as the array lives.
    """
    dtype = get_index_dtype(maxval=max(len(indices), *shape))
    parts = values, indices.astype(dtype, copy=False), pointer.astype(dtype)
    return csr_array(parts, shape=shape)
