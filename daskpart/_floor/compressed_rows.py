"""Compressed rows: made of arrays, with indices that stay as narrow as they are, and some of them.

pointer  0 2 2 5      entries  a b │ │ c d e
rows     2, 0         entries  c d e │ a b          pointer  0 3 5
"""

from __future__ import annotations

from typing import Any

import numpy as np
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


def entries_of_rows(
    pointer: NDArray[Any], rows: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pointer of some rows alone, and where their entries are; cost O(their entries).

    Examples
    --------
    >>> own, places = entries_of_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> own.tolist(), places.tolist()
    ([0, 3, 5], [2, 3, 4, 0, 1])
    """
    begin = pointer[rows]
    lengths = pointer[rows + 1] - begin
    own = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return own, np.repeat(begin - own[:-1], lengths) + np.arange(own[-1])
