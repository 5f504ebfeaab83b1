"""A sparse matrix held by parts: one shard a rank, rows permuted by a partition.

    rows of the matrix            by part           and bordered (seed paper 000, Fig. 1)
      0 ■ ■ . . .   part 1        part 0   1 . . ■ ■ .          ■ . . │ ■
      1 . . ■ ■ .   part 0   ─▶            3 . . ■ . ■    ─▶    ■ . . │ . ■
      2 ■ . . . ■   part 1        part 1   0 ■ ■ . . .          . ■ ■ │
      3 . . ■ . ■   part 0                 2 ■ . . . ■          . ■ . │   ■
                                                               local    linking

`Shards` is a Dask collection with one `Shard` a key ``(name, rank)``, so a shard can be pinned to a
worker and stays there (annotations of dask.array layers are lost, dask#7036). `Shards.array` is the
same data as a Dask array, for everything that dask.array can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from dask.base import tokenize

from ._chunk_pairs import check_chunks, connect
from ._floor.checks import require_partition
from ._shard import Shard, make_shard, number_columns
from ._shard_collection import Shards
from ._shard_graph import (
    chunk_places,
    places_in_parts,
    shard_graph,
    split_by_part,
)
from ._shard_views import BorderOrder
from ._triples import is_a, xarray_labels
from .connectivity import Connectivity
from .containers import LabelledMatrix, as_coo, as_values
from .errors import InputError

if TYPE_CHECKING:
    from .partitions import Partition

__all__ = ["BorderOrder", "Shard", "Shards", "shard"]

_AXES = ("rows", "columns")
_LABELS = ("row_labels", "column_labels", "row_name", "column_name")


def shard(
    data: Any,
    partition: Partition,
    *,
    owners: Literal["random", "least-loaded"] | npt.ArrayLike = "random",
    random_state: int = 0,
    axis: Literal["rows", "columns"] = "rows",
) -> Shards:
    """Cut a matrix into one shard a part.

    Parameters
    ----------
    data : container
        Whatever `daskpart.containers.as_coo` takes. A Dask array of sparse chunks (also within an
        `xarray.DataArray`) stays where it is: only a summary of each chunk comes to this process,
        and for that **each chunk is computed once here** and once more when the shards are;
        persist it first where that is dear.
    partition : Partition
        Of the rows, or of the columns if `axis` says so. Parts may be empty.
    owners : "random", "least-loaded" or array of int, shape (n_columns,)
        Which part owns a column that several touch: one of them drawn at random, the one with the
        least traffic so far, or as given.
    random_state : int
        Seed of ``owners="random"``.
    axis : "rows" or "columns"
        What the partition splits.

    Returns
    -------
    Shards
        In memory for data in memory, tasks for Dask arrays. Both hold the same shards.

    Raises
    ------
    InputError
        The data cannot be used, or the partition does not fit it.

    Notes
    -----
    The numbering is that of seed paper 000, section 3.1. Cost in memory: O(nnz + rows + columns).
    """
    if axis not in _AXES:
        raise InputError(f"axis={axis!r} is unknown; allowed are 'rows' and 'columns'")
    inner = data.data if is_a(data, "xarray", "DataArray") else data
    choice = (owners, random_state, axis)
    if is_a(inner, "dask.array", "Array"):
        check_chunks(inner)
        labels = {} if inner is data else dict(zip(_LABELS, xarray_labels(data), strict=True))
        return _shard_chunks(inner, partition, labels, *choice)
    return _shard_matrix(as_coo(data), partition, *choice)


def _shard_matrix(
    matrix: LabelledMatrix, partition: Partition, owners: Any, random_state: int, axis: Any
) -> Shards:
    _check_partition(partition, matrix.shape, axis)
    turned = matrix if axis == "rows" else matrix.transposed()
    n_columns = turned.shape[1]
    parts = partition.assignment[turned.rows]
    found = Connectivity.from_pairs(turned.columns, parts, n_columns, partition.n_parts)
    connectivity = _with_owners(found, owners, random_state)
    numbering = number_columns(connectivity)
    row_index = places_in_parts(partition)[turned.rows]
    pieces = split_by_part(parts, row_index, turned.columns, turned.values, partition.n_parts)
    held = [
        make_shard(
            rank,
            partition.members(rank),
            numbering.of_rank(rank),
            numbering.sizes[rank],
            n_columns,
            piece,
        )
        for rank, piece in enumerate(pieces)
    ]
    return Shards(
        partition,
        connectivity,
        matrix.shape,
        matrix.values.dtype,
        axis=axis,
        labels={name: getattr(matrix, name) for name in _LABELS},
        held=held,
        numbering=numbering,
    )


def _shard_chunks(
    array: Any,
    partition: Partition,
    labels: dict[str, Any],
    owners: Any,
    random_state: int,
    axis: Any,
) -> Shards:
    _check_partition(partition, array.shape, axis)
    n_columns = array.shape[1] if axis == "rows" else array.shape[0]
    places = chunk_places(array.chunks, partition, axis)
    found = connect(array, partition, axis)
    if not len(found.counts):
        raise InputError(
            f"no ratings: no chunk of the {array.shape[0]} x {array.shape[1]} Dask array stores a "
            "value; give at least one stored value (a stored zero counts)"
        )
    connectivity = _with_owners(found, owners, random_state)
    numbering = number_columns(connectivity)
    dtype = as_values(np.empty(0, array.dtype)).dtype
    name = f"shards-{tokenize(array, partition.assignment, connectivity.owners, axis)}"
    graph = shard_graph(array, places, partition, numbering, (name, n_columns, dtype))
    shape = (int(array.shape[0]), int(array.shape[1]))
    return Shards(
        partition,
        connectivity,
        shape,
        dtype,
        axis=axis,
        labels=labels,
        name=name,
        graph=graph,
        numbering=numbering,
    )


def _check_partition(partition: Partition, shape: tuple[int, ...], axis: str) -> None:
    require_partition(partition)
    made_for = "columns" if partition.info.get("model") == "row-net" else "rows"
    if made_for == "columns" and axis == "rows":
        raise InputError(
            "the partition is one of columns (model row-net), axis is 'rows'; "
            "pass axis='columns', or partition the rows"
        )
    partition.check_fits(shape[_AXES.index(axis)], "the data", axis, shape=tuple(shape))


def _with_owners(connectivity: Connectivity, owners: Any, random_state: int) -> Connectivity:
    if not isinstance(owners, str):
        return connectivity.with_owners(owners)
    if owners == "random":
        return connectivity.with_random_owners(random_state)
    if owners == "least-loaded":
        return connectivity.with_least_loaded_owners()
    raise InputError(
        f"owners={owners!r} is unknown; allowed are 'random', 'least-loaded' or an array with one "
        "rank a column"
    )
