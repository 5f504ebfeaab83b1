"""Examples with a target: the libsvm text format.

    -1 3:1 11:1 14:1         target -1, features 3, 11, 14 (1-based)
    +1 5:0.5                 -->  data (csr), target

A feature index 0 anywhere makes the file 0-based, as in scikit-learn's reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError, ReadError

from .assembly import value_type
from .scanning import Rows, read_rows

_COLON = ord(":")
_FEATURE_CHUNK = 1 << 20  # taken apart it is about forty times as much for a moment


class Examples(NamedTuple):
    """Examples to learn from; unpacks as ``data, target``.

    Attributes
    ----------
    data : scipy.sparse.csr_array, shape (n_examples, n_features)
    target : ndarray of float64, shape (n_examples,)
    """

    data: sp.csr_array
    target: np.ndarray


def read_libsvm(
    path: str,
    *,
    n_features: int | None = None,
    zero_based: bool | None = None,
    dtype: np.typing.DTypeLike = np.float64,
) -> Examples:
    """Read a libsvm file.

    Parameters
    ----------
    path : str
    n_features : int, optional
        Number of columns, for a test set to match its training set. By default as many as the
        largest index needs.
    zero_based : bool, optional
        Whether the first feature is 0. By default so if an index 0 occurs.
    dtype : dtype, default float64

    Returns
    -------
    Examples
        ``data`` (csr_array with sorted indices, explicit zeros kept) and ``target``.
    """
    feature_type = value_type(dtype)
    lengths, indices, values, target = [], [], [], []
    for rows in read_rows(path, ":"):
        if not rows.n_rows:
            continue
        length, index, value, label = _examples(rows, feature_type)
        lengths.append(length)
        indices.append(index)
        values.append(value)
        target.append(label)
    if not target:
        raise ReadError(f"{path}: there are no examples in it")
    index = np.concatenate(indices)
    if zero_based is None:
        zero_based = bool(len(index)) and not index.min()
    if not zero_based:
        if len(index) and not index.min():
            raise InputError(f"{path}: zero_based=False, but the feature index 0 occurs")
        index -= 1
    width = checked_width(path, int(index.max(initial=-1)) + 1, n_features)
    pointer = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    dtype_of_index = index_dtype(max(width, len(index)))
    data = sp.csr_array(
        (np.concatenate(values), index.astype(dtype_of_index), pointer.astype(dtype_of_index)),
        shape=(len(pointer) - 1, width),
    )
    data.sort_indices()
    return Examples(data, np.concatenate(target))


def feature_chunks(path: str | os.PathLike[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read which features the examples have, a MiB of text at a time, values left out.

    Yields
    ------
    lengths : int64[n_examples of the chunk]
    indices : int32 or int64 [lengths.sum()]
        As written: only the end of the file tells whether the first feature is 0 or 1.

    Raises
    ------
    ReadError
        As `read_libsvm`, of values that are dropped too.
    """
    found = False
    for rows in read_rows(os.fspath(path), ":", chunk_bytes=_FEATURE_CHUNK):
        if rows.n_rows:
            found = True
            yield _examples(rows, np.dtype(np.float64))[:2]
    if not found:
        raise ReadError(f"{path}: there are no examples in it")


def checked_width(path: str | os.PathLike[str], needed: int, wanted: int | None) -> int:
    """How many features the data shall have: as wanted, or else as the largest index needs.

    Raises
    ------
    InputError
        Fewer are wanted than the file needs.
    """
    if wanted is not None and wanted < needed:
        raise InputError(f"{path}: n_features={wanted}, but the file needs {needed}")
    return needed if wanted is None else wanted


def _examples(rows: Rows, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features a row, feature indices, values and labels of a chunk, all checked."""
    first = rows.pointer[:-1]
    lengths = np.diff(rows.pointer)
    is_value = rows.bytes_before() == _COLON
    place = np.arange(len(rows.numbers)) - np.repeat(first, lengths)
    wrong = np.flatnonzero(is_value != ((place > 0) & (place % 2 == 0)))
    if len(wrong) or (lengths % 2 == 0).any():
        odd_one = wrong[0] if len(wrong) else first[np.argmax(lengths % 2 == 0)]
        rows.fail_at(int(odd_one), "expected a label and then index:value pairs")
    is_index = (place % 2).astype(bool)
    index = rows.ids(is_index, "feature index")
    index = index.astype(index_dtype(int(index.max(initial=0)) + 1))
    _refuse_repeats(rows, np.repeat(np.arange(rows.n_rows), lengths // 2), index)
    value = rows.values(is_value, "feature value", dtype)
    label = rows.values(first, "label", np.dtype(np.float64))
    return lengths // 2, index, value, label


def _refuse_repeats(rows: Rows, index_rows: np.ndarray, index: np.ndarray) -> None:
    same_row = index_rows[1:] == index_rows[:-1]
    if not (same_row & (np.diff(index) <= 0)).any():
        return
    order = np.lexsort((index, index_rows))
    repeated = (np.diff(index_rows[order]) == 0) & (np.diff(index[order]) == 0)
    if repeated.any():
        at = order[int(np.argmax(repeated))]
        rows.fail(int(index_rows[at]), f"expected each feature once, found {index[at]} twice")
