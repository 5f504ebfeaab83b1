"""From a matrix and a partition of it to one shard a part.

in memory     triples ─ cut by part ─▶ a Shard a part, held in this process
Dask chunks   chunk ─ split ─ pieces ─▶ tasks, one Shard a part (`dask_blocks`); what the client
              sees before that is the connectivity alone: which (part, column) pairs there are
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from dask.base import tokenize

from daskpart._floor.checks import one_of, require_partition
from daskpart._floor.rank_tasks import Task, TaskRef
from daskpart.connectivity import Connectivity
from daskpart.containers.coordinates import as_values, is_a
from daskpart.containers.dask_blocks import (
    check_chunks,
    chunk_sides,
    cut_by_part,
    gathered_by_part,
    item_parts,
    laid_out,
)
from daskpart.containers.matrix import LabelledMatrix, as_matrix, xarray_labels
from daskpart.containers.numbering import number_touched
from daskpart.errors import InputError

from .collection import Shards
from .rank_shard import Shard, make_shard

if TYPE_CHECKING:
    from daskpart.partitions import Partition

Piece = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[Any]]

_AXES = ("rows", "columns")
_LABELS = ("row_labels", "column_labels", "row_name", "column_name")


def shard(
    data: Any,
    partition: Partition,
    *,
    owners: Literal["random", "packed"] | npt.ArrayLike = "random",
    random_state: int = 0,
    axis: Literal["rows", "columns"] = "rows",
) -> Shards:
    """Cut a matrix into one shard a part.

    Parameters
    ----------
    data : container
        Whatever `daskpart.containers.as_matrix` takes. A Dask array of sparse chunks (also within
        an `xarray.DataArray`) stays where it is: only a summary of each chunk comes to this
        process, and for that **each chunk is computed once here** and once more when the shards
        are; persist it first where that is dear.
    partition : Partition
        Of the rows, or of the columns if `axis` says so. Parts may be empty.
    owners : "random", "packed" or array of int, shape (n_columns,), default="random"
        Which part owns a column that several touch: one of them drawn at random, the one with the
        least traffic when columns of most parts choose first, or as given.
    random_state : int, default=0
        Seed of ``owners="random"``.
    axis : "rows" or "columns", default="rows"
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
    Memory: O(nnz + rows + columns). The numbering is that of Abubaker, Caglayan, Karsavuran,
    Aykanat, "Minimizing Staleness and Communication Overhead in Distributed SGD for Collaborative
    Filtering", section 3.1.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> shards = daskpart.shard(X, daskpart.partition(X, 4))
    >>> shards.array.numblocks, shards.to_coo().shape
    ((4, 1), (60, 40))
    """
    one_of(axis, "axis", _AXES)
    inner = data.data if is_a(data, "xarray", "DataArray") else data
    choice = (owners, random_state, axis)
    if is_a(inner, "dask.array", "Array"):
        check_chunks(inner)
        labels = {} if inner is data else dict(zip(_LABELS, xarray_labels(data), strict=True))
        return _shard_chunks(inner, partition, labels, *choice)
    return _shard_matrix(as_matrix(data), partition, *choice)


def _shard_matrix(
    matrix: LabelledMatrix, partition: Partition, owners: Any, random_state: int, axis: Any
) -> Shards:
    _check_partition(partition, matrix.shape, axis)
    turned = matrix if axis == "rows" else matrix.transposed()
    n_columns = turned.shape[1]
    parts = partition.assignment[turned.rows]
    found = Connectivity.from_pairs(turned.columns, parts, n_columns, partition.n_parts)
    connectivity = _with_owners(found, owners, random_state)
    numbering = number_touched(connectivity)
    row_index = _places_in_parts(partition)[turned.rows]
    pieces = cut_by_part(parts, partition.n_parts, row_index, turned.columns, turned.values)
    held = []
    for rank, (rows, columns, values) in enumerate(pieces):
        if np.may_share_memory(values, matrix.values):
            values = values.copy()  # what is given stays the caller's
        of_rank = partition.members(rank), numbering.of_rank(rank), numbering.sizes[rank]
        held.append(make_shard(rank, *of_rank, n_columns, (rows, columns, values)))
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
    places = _chunk_places(array, partition, axis)
    pointer, parts, counts = item_parts(array, partition.assignment, partition.n_parts, axis)
    if not len(counts):
        raise InputError(
            f"nothing is stored: no chunk of the {array.shape[0]} x {array.shape[1]} Dask array "
            "holds a value; give at least one (a stored zero counts)"
        )
    ones = np.ones(n_columns, np.int64)
    found = Connectivity(pointer, parts, counts, partition.n_parts, ones)
    connectivity = _with_owners(found, owners, random_state)
    numbering = number_touched(connectivity)
    dtype = as_values(np.empty(0, array.dtype)).dtype
    token = tokenize(array, partition.assignment, partition.n_parts, connectivity.owners, axis)
    name, split = f"shards-{token}", f"shard-split-{token}"
    splits = {
        (split, i, j): Task(
            (split, i, j), split_chunk, TaskRef((array.name, i, j)), place, partition.n_parts
        )
        for (i, j), place in places.items()
    }
    of_ranks = [
        (
            rank,
            partition.members(rank),
            numbering.of_rank(rank),
            numbering.sizes[rank],
            n_columns,
            dtype,
        )
        for rank in range(partition.n_parts)
    ]
    graph = gathered_by_part(array, name, splits, collect_shard, of_ranks)
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
    if owners == "packed":
        return connectivity.with_packed_owners()
    raise InputError(
        f"owners={owners!r} is unknown; allowed are 'random', 'packed' or an array with one "
        "rank a column"
    )


# -- what runs where the chunks are


class ChunkPlace(NamedTuple):
    """Where a chunk lies, and where its rows (or columns, under axis="columns") go.

    Attributes
    ----------
    corner : (int, int)
        Global numbers of what is cut and what is shared of the chunk's first entry.
    assignment : ndarray of int32
        Part of each of the chunk's vertices.
    place : ndarray of int32
        Position of each of them among the rows of its part.
    transposed : bool
        Whether the vertices are the columns.
    """

    corner: tuple[int, int]
    assignment: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    transposed: bool


def _chunk_places(
    array: Any, partition: Partition, axis: Literal["rows", "columns"]
) -> dict[tuple[int, int], ChunkPlace]:
    """Say for each chunk, by its number, what its tasks must know."""
    transposed = axis == "columns"
    place = _places_in_parts(partition)
    _, tops, lefts = laid_out(array, axis)
    found = {}
    for i, (top, bottom) in enumerate(pairwise(tops.tolist())):
        for j, left in enumerate(lefts[:-1].tolist()):
            assignment, mine = partition.assignment[top:bottom], place[top:bottom]
            number = (j, i) if transposed else (i, j)
            found[number] = ChunkPlace((top, left), assignment, mine, transposed)
    return found


def _places_in_parts(partition: Partition) -> npt.NDArray[np.int32]:
    """Position of each vertex among the vertices of its part."""
    place = np.empty(len(partition.assignment), np.int32)
    order, pointer = partition.order, partition.part_pointer
    place[order] = np.arange(len(order)) - np.repeat(pointer[:-1], np.diff(pointer))
    return place


def split_chunk(block: Any, where: ChunkPlace, n_parts: int) -> list[Piece]:
    """Cut a chunk into one piece a part: (row within the part, global column, value)."""
    vertices, items, values = chunk_sides(block, where.corner, where.transposed)
    parts, row_index = where.assignment[vertices], where.place[vertices]
    columns = items + np.int32(where.corner[1])
    return cut_by_part(parts, n_parts, row_index, columns, values)


def collect_shard(
    pieces: list[Piece],
    rank: int,
    rows: npt.NDArray[np.int64],
    items: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    n_columns: int,
    dtype: Any,
) -> Shard:
    """Make one part's shard from its pieces of every chunk."""
    row_index, columns, values = (np.concatenate(column) for column in zip(*pieces, strict=True))
    triples = (row_index, columns, values.astype(dtype, copy=False))
    return make_shard(rank, rows, items, sizes, n_columns, triples)
