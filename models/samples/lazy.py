"""Samples in a Dask array or DataFrame: rows from their chunks to their ranks, answers in chunks.

    chunk 0 ─ split ─┬─ rows of rank 0 ─┐
                     └─ rows of rank 1 ─│─┐          the global shuffle: any row, any rank
    chunk 1 ─ split ─┬─ rows of rank 0 ─┴─│── RankRows 0
                     └─ rows of rank 1 ───┴── RankRows 1

No task but the one that reads a chunk sees all of it, and X never comes to the client; targets and
weights, 8 bytes each a sample, do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from dask.base import tokenize
from numpy.typing import NDArray

from daskpart._floor.checks import refuse_masked
from daskpart._floor.rank_tasks import RankCollection, Task, TaskRef
from daskpart.containers.dask_blocks import cut_by_part, gathered_by_part
from daskpart.errors import InputError
from daskpart.models.base.labels import with_missing
from daskpart.models.base.problem import (
    canonical_rows,
    held_by,
    in_memory,
    numbers_to_learn,
    refuse_not_finite,
    refuse_times,
    scipy_rows,
)

from .rows import RankRows, rank_rows


def lazy_rows(X: Any, *, known_length: bool = True) -> tuple[Any, NDArray[Any] | None]:
    """A Dask array whose chunks hold whole rows, and the names of its columns.

    Parameters
    ----------
    X : Dask array, DataFrame, or DataArray over one
    known_length : bool
        Have the lengths of the chunks computed where they are not known.

    Raises
    ------
    InputError
        If it is not two-dimensional, or empty, or holds dates or durations.
    """
    refuse_times(X)
    names = None
    if hasattr(X, "to_dask_array"):
        columns = np.asarray(X.columns, object)
        names = columns if all(isinstance(name, str) for name in columns) else None
        X = X.to_dask_array(lengths=True if known_length else None)
    array = held_by(X)
    if getattr(array, "ndim", 0) != 2:
        raise InputError(f"X is {type(X).__name__} of {getattr(array, 'ndim', 0)} dimensions: "
                         "give samples × features")  # fmt: skip
    if np.isnan(array.shape[1]):
        raise InputError("the number of columns of X is not known: call compute_chunk_sizes()")
    if known_length and np.isnan(array.shape[0]):
        array = array.compute_chunk_sizes()
    if known_length and not array.shape[0]:
        raise InputError("X has no samples")
    if len(array.chunks[1]) > 1:
        array = array.rechunk({1: -1})
    return array, names


def whole_targets(values: Any, length: int, several: bool) -> NDArray[Any]:
    """Targets in this process, checked; of a sample one, or `several`, a column each.

    Raises
    ------
    InputError
        For another length or shape, NaN, infinity, masked values, or complex numbers.
    """
    found = with_missing(in_memory(values, "targets"))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape[:1] != (length,) or found.ndim > 1 + several:
        raise InputError(f"y has shape {found.shape}, X has {length} samples")
    if found.ndim == 2 and found.dtype == object:  # as pandas has what may be missing
        found = numbers_to_learn(found)
    if found.dtype.kind == "c":
        raise InputError("y holds complex numbers: give real ones")
    if found.dtype.kind == "f":
        refuse_not_finite(found)
    return found


def ranks_of_chunks(
    array: Any,
    members: Sequence[NDArray[np.int64]],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    columns: NDArray[Any] | None = None,
) -> RankCollection:
    """`RankRows` of each rank as a Dask collection of one key a rank; nothing is computed.

    `columns` are the names of the features, for errors.
    """
    n_ranks = len(members)
    owner = np.empty(array.shape[0], np.int32)
    for rank, own in enumerate(members):
        owner[own] = rank
    token = tokenize(array.name, *members, target, weight)
    name, split = f"samples-{token}", f"samples-split-{token}"
    ends = np.cumsum(array.chunks[0])
    splits = {
        (split, i, 0): Task(
            (split, i, 0), split_chunk, TaskRef((array.name, i, 0)),
            owner[end - length : end], n_ranks, int(end - length), columns,
        )
        for i, (end, length) in enumerate(zip(ends, array.chunks[0], strict=True))
    }  # fmt: skip
    of_ranks = [(rank, own, target[own], weight[own]) for rank, own in enumerate(members)]
    graph = gathered_by_part(array, name, splits, collect_rows, of_ranks)
    return RankCollection(graph, [(name, rank) for rank in range(n_ranks)])


def split_chunk(
    block: Any, owner: NDArray[np.int32], n_ranks: int, first: int, columns: NDArray[Any] | None
) -> list[Any]:
    """Rows of a chunk by their rank."""
    rows = checked_chunk(block, f"the chunk that begins at row {first}", columns)
    return [rows[own] for (own,) in cut_by_part(owner, n_ranks, np.arange(len(owner)))]


def checked_chunk(block: Any, name: str, columns: NDArray[Any] | None = None) -> Any:
    """A chunk as csr, of float32 or float64; `columns` are the names of its columns, if any.

    Raises
    ------
    InputError
        For NaN, infinity, or what are no numbers; says in which chunk and which column.
    """
    block = scipy_rows(block)
    refuse_masked(block, f"features in {name}")
    try:
        return canonical_rows(_checked(block))
    except (TypeError, ValueError) as error:
        column = _first_refused_column(block)
        named = column if columns is None else repr(columns[column])
        words = str(error).splitlines()[0].rstrip(".")  # behind it may stand all values
        raise InputError(f"in {name}: {words}, in column {named}") from None


def _checked(block: Any) -> Any:
    from sklearn.utils.validation import check_array  # not for ranks that read files

    return check_array(
        block, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32], ensure_min_samples=0
    )


def _first_refused_column(block: Any) -> int:
    """The number of the first column for which a chunk is refused, found by halving."""
    whole: Any = block if scipy.sparse.issparse(block) else np.asarray(block)
    if hasattr(whole, "tocsc"):
        whole = whole.tocsc()
    first, last = 0, whole.shape[1]
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _checked(whole[:, first:middle])
        except (TypeError, ValueError):
            last = middle
        else:
            first = middle
    return first


def collect_rows(
    pieces: Sequence[Any],
    rank: int,
    members: NDArray[np.int64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> RankRows:
    """A rank's rows in its own order: pieces hold them by rising number."""
    rising = np.empty(len(members), np.int64)
    rising[np.argsort(members)] = np.arange(len(members))
    stacked = scipy.sparse.vstack(list(pieces), format="csr")[rising]
    return rank_rows(rank, stacked, target, weight)


def answered(
    array: Any,
    columns: NDArray[Any] | None,
    of_rows: Callable[[Any], NDArray[Any]],
    n_columns: int,
    dtype: Any,
) -> Any:
    """What a model answers for each chunk, as a Dask array in the order of the rows.

    Columns 0: one answer a row. `columns` are the names of those of the array, for errors.
    """
    whole = {"chunks": (array.chunks[0], (n_columns,))} if n_columns else {"drop_axis": 1}
    empty = np.empty((0, n_columns) if n_columns else 0, dtype)
    answer = partial(_answer, columns=columns, of_rows=of_rows)
    return array.map_blocks(answer, dtype=dtype, meta=empty, **whole)


def _answer(
    block: Any, columns: NDArray[Any] | None, of_rows: Callable[[Any], NDArray[Any]]
) -> NDArray[Any]:
    checked = checked_chunk(block, "a chunk", columns)
    if not checked.shape[0]:
        return of_rows(scipy.sparse.csr_array((1, checked.shape[1])))[:0]
    return of_rows(checked)
