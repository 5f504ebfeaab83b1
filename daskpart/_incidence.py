"""An incidence in compressed rows, built and transposed. Every step is a counting sort, by SciPy.

    compressed by net               compressed by vertex
    net_pointer  0 3 5              vertex_pointer  0 1 3 4 5
    pins         0 1 2 | 1 3   <->  nets            0 | 0 1 | 0 | 1

Transposing an incidence visits the rows in order, so the rows of the result come out sorted, and
equal entries of a row come out side by side: sorting and de-duplication cost nothing more than
transposing twice. (SciPy's loops are compiled already and as fast as kernels of ours were.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from ._floor.compressed_rows import compressed_rows


def transpose(pointer: NDArray, indices: NDArray, n_columns: int) -> tuple[NDArray, NDArray]:
    """Turn rows into columns; an entry that a row holds twice is kept once.

    Returns ``(column_pointer int64[n_columns + 1], rows int32[n_kept])`` with sorted columns.
    """
    ones = np.ones(len(indices), np.bool_)  # or-ed where an entry is there twice
    by_row = compressed_rows(ones, indices, pointer, (len(pointer) - 1, n_columns))
    by_column = by_row.tocsc()  # shares nothing with what was given
    by_column.sum_duplicates()
    return by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32, copy=False)


def group(keys: NDArray, values: NDArray, n_keys: int) -> tuple[NDArray, NDArray]:
    """Collect the values of equal keys, in the order given: ``(pointer, values by key)``."""
    ends = np.array([0, len(keys)])
    one_row = compressed_rows(values, keys, ends, (1, n_keys))
    by_key = one_row.tocsc()
    return by_key.indptr.astype(np.int64), by_key.data


def group_pairs(
    items: NDArray, parts: NDArray, counts: NDArray | None, n_items: int, n_parts: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Compress (item, part) pairs: parts sorted, counts of equal pairs added; None: once each."""
    if counts is None and 4 * n_items * n_parts <= len(items):
        # a counter for each pair that can be: quicker than to sort those that are
        place = np.multiply(items, n_parts, dtype=np.int64)
        place += parts
        pairs = csr_array(np.bincount(place, minlength=n_items * n_parts).reshape(n_items, n_parts))
    else:
        times = np.ones(len(items), np.int64) if counts is None else counts
        pairs = coo_array((times, (items, parts)), shape=(n_items, n_parts)).tocsr()
        pairs.sort_indices()
    return pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32, copy=False), pairs.data
