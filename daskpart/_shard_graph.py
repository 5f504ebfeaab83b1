"""From the chunks of a Dask array to one shard a part, without the nonzeros passing the client.

    chunk (0, 0) ─ split ─┬─ piece of part 0 ─┐
                          └─ piece of part 1 ─│─┐
    chunk (1, 0) ─ split ─┬─ piece of part 0 ─┴─│── shard 0
                          └─ piece of part 1 ───┴── shard 1

Each split reads one chunk; each piece goes where its shard is made. What the client sees before
that is the connectivity: which (part, column) pairs there are, and how often (`_chunk_pairs`).
Tasks: chunks × (1 + parts) + parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from numpy.typing import NDArray

from ._chunk_pairs import chunk_matrix
from ._floor.rank_tasks import List, PinnedTask, Task, TaskRef
from ._shard import Numbering, Shard, make_shard
from .containers import stable_order

if TYPE_CHECKING:
    from .partitions import Partition

Piece = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]


class ChunkPlace(NamedTuple):
    """Where a chunk lies, and where its rows (or columns, under axis="columns") go.

    Attributes
    ----------
    top, left : int
        Global row and column of the chunk's first entry.
    assignment : ndarray of int32
        Part of each of the chunk's vertices.
    place : ndarray of int32
        Position of each of them among the rows of its part.
    transposed : bool
        Whether the vertices are the columns.
    """

    top: int
    left: int
    assignment: NDArray[np.int32]
    place: NDArray[np.int32]
    transposed: bool


def chunk_places(
    chunks: tuple[tuple[int, ...], ...], partition: Partition, axis: str
) -> dict[tuple[int, int], ChunkPlace]:
    """Say for each chunk, by its number, what its tasks must know."""
    transposed = axis == "columns"
    place = places_in_parts(partition)
    tops, lefts = (np.concatenate(([0], np.cumsum(sizes))) for sizes in chunks)
    vertex = lefts if transposed else tops
    found = {}
    for i in range(len(chunks[0])):
        for j in range(len(chunks[1])):
            number = j if transposed else i
            mine = slice(int(vertex[number]), int(vertex[number + 1]))
            top, left = int(tops[i]), int(lefts[j])
            assignment = partition.assignment[mine]
            found[i, j] = ChunkPlace(top, left, assignment, place[mine], transposed)
    return found


def places_in_parts(partition: Partition) -> NDArray[np.int32]:
    """Position of each vertex among the vertices of its part."""
    place = np.empty(len(partition.assignment), np.int32)
    order, pointer = partition.order, partition.part_pointer
    place[order] = np.arange(len(order)) - np.repeat(pointer[:-1], np.diff(pointer))
    return place


def split_chunk(block: Any, where: ChunkPlace, n_parts: int) -> list[Piece]:
    """Cut a chunk into one piece a part: (row within the part, global column, value)."""
    vertices, columns, values = _chunk_triples(block, where)
    return split_by_part(
        where.assignment[vertices], where.place[vertices], columns, values, n_parts
    )


def split_by_part(
    parts: NDArray[np.int32],
    row_index: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: NDArray[Any],
    n_parts: int,
) -> list[Piece]:
    """Cut nonzeros into one piece a part, in their old order."""
    order = stable_order(parts, n_parts)
    row_index, columns, values = row_index[order], columns[order], values[order]
    ends = np.cumsum(np.bincount(parts, minlength=n_parts))
    starts = np.concatenate(([0], ends[:-1]))
    return [
        (row_index[start:end], columns[start:end], values[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]


def _chunk_triples(block: Any, where: ChunkPlace) -> Piece:
    """Vertices within the chunk, global columns and values."""
    matrix = chunk_matrix(block, where.top, where.left)
    if where.transposed:
        return matrix.columns, matrix.rows + np.int32(where.top), matrix.values
    return matrix.rows, matrix.columns + np.int32(where.left), matrix.values


def collect_shard(
    pieces: list[Piece],
    rank: int,
    rows: NDArray[np.int64],
    items: NDArray[np.int64],
    sizes: NDArray[np.int64],
    n_columns: int,
    dtype: Any,
) -> Shard:
    """Make one part's shard from its pieces of every chunk."""
    row_index, columns, values = (np.concatenate(column) for column in zip(*pieces, strict=True))
    triples = (row_index, columns, values.astype(dtype, copy=False))
    return make_shard(rank, rows, items, sizes, n_columns, triples)


def shard_graph(
    array: Any,
    places: dict[tuple[int, int], ChunkPlace],
    partition: Partition,
    numbering: Numbering,
    names: tuple[str, int, Any],
) -> HighLevelGraph:
    """Build the graph of the picture above; `names` is the layer's name, n_columns and dtype."""
    name, n_columns, dtype = names
    token = name.removeprefix("shards-")
    split, piece = f"shard-split-{token}", f"shard-piece-{token}"
    splits = {
        (split, i, j): Task(
            (split, i, j), split_chunk, TaskRef((array.name, i, j)), place, partition.n_parts
        )
        for (i, j), place in places.items()
    }
    ranks = range(partition.n_parts)
    pieces = {
        (piece, rank, i, j): Task((piece, rank, i, j), _pick, TaskRef((split, i, j)), rank)
        for i, j in places
        for rank in ranks
    }
    shards = {
        (name, rank): PinnedTask(
            (name, rank),
            collect_shard,
            List(*[TaskRef((piece, rank, i, j)) for i, j in places]),
            rank,
            partition.members(rank),
            numbering.of_rank(rank),
            numbering.sizes[rank],
            n_columns,
            dtype,
        )
        for rank in ranks
    }
    source = array.__dask_graph__()
    layers = {**source.layers, split: MaterializedLayer(splits), piece: MaterializedLayer(pieces)}
    layers[name] = MaterializedLayer(shards)
    needs = {
        **source.dependencies,
        split: set(array.__dask_layers__()),
        piece: {split},
        name: {piece},
    }
    return HighLevelGraph(layers, needs)


def _pick(pieces: list[Piece], rank: int) -> Piece:
    return pieces[rank]
