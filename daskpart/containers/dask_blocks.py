"""What the chunks of a Dask array share, found where they are, and their nonzeros cut by part.

    chunk (0, 0) ─▶ pairs ─┐                      item, part, count: each pair once a chunk,
    chunk (1, 0) ─▶ pairs ─┼─ merged ─▶ client    then once for each eight chunks, …
    chunk (2, 0) ─▶ pairs ─┘
    chunk (0, 1) ─▶ pairs ─── …                   other columns, other items: never merged

No task but the one that reads a chunk sees its nonzeros; a merged piece holds no more pairs than
the `Connectivity` of its items, and that is what the client gets. What is given and what comes back
are plain arrays: `Hypergraph.from_dask` and `Connectivity.from_dask` make objects of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from numpy.typing import NDArray

from daskpart._floor.rank_tasks import List, PinnedTask, Task, TaskRef
from daskpart._incidence import transpose
from daskpart.errors import InputError

from .coordinates import is_a, refuse_unknown_chunks, stable_order
from .matrix import LabelledMatrix, from_triples, require_sparse_chunks, sparse_triples

Axis = Literal["rows", "columns"]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
_FAN_IN = 8


def check_chunks(array: Any) -> None:
    """Refuse a Dask array whose chunks are dense or of unknown size (InputError)."""
    require_sparse_chunks(array)
    refuse_unknown_chunks(array)


def chunk_matrix(block: Any, top: int, left: int) -> LabelledMatrix:
    """The nonzeros of one chunk, checked, sorted by its own rows and columns."""
    try:
        return from_triples(*sparse_triples(block), may_be_empty=True)
    except InputError as error:
        raise InputError(
            f"{error} (counted from the chunk's corner at row {top}, column {left})"
        ) from error


def item_parts(
    array: Any, assignment: NDArray[np.int32], n_parts: int, axis: Axis = "rows"
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """The parts that touch each column: pointer, parts and counts; see `Connectivity.from_dask`.

    Parameters
    ----------
    array : dask.array.Array
    assignment : ndarray of int32
        Part of each row.
    n_parts : int
    axis : "rows" or "columns"
        "columns": rows and columns change their roles.
    """
    import dask

    transposed = axis == "columns"
    turned, tops, lefts = laid_out(array, axis)
    summarise = dask.delayed(pairs_of_chunk, pure=True)
    columns = [
        [
            summarise(block, assignment[top:bottom], n_parts, (top, left), transposed)
            for block, top, bottom in zip(blocks, tops, tops[1:], strict=False)
        ]
        for blocks, left in zip(turned.T, lefts, strict=False)
    ]
    found = dask.compute(*[_merged(pieces) for pieces in columns])
    keys, counts = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    n_items = int(lefts[-1])
    pointer = np.zeros(n_items + 1, np.int64)
    np.cumsum(np.bincount(keys // n_parts, minlength=n_items), out=pointer[1:])
    return pointer, (keys % n_parts).astype(np.int32), counts


def pairs_of_chunk(
    block: Any,
    assignment: NDArray[np.int32],
    n_parts: int,
    corner: tuple[int, int],
    transposed: bool,
) -> Pairs:
    """Each (item, part) of a chunk once: item × n_parts + part, rising, and its nonzeros."""
    vertices, items, _ = chunk_sides(block, corner, transposed)
    keys = (items.astype(np.int64) + corner[1]) * n_parts + assignment[vertices]
    return np.unique(keys, return_counts=True)


def merge_pairs(pieces: Sequence[Pairs]) -> Pairs:
    """The pairs of several pieces, each once, their counts added."""
    keys, counts = (np.concatenate(column) for column in zip(*pieces, strict=True))
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return keys[first], np.add.reduceat(counts, first)


def column_nets(
    array: Any, axis: Axis = "rows"
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Net pointer, pins and vertex weights of the pattern; see `Hypergraph.from_dask`."""
    import dask

    turned, tops, lefts = laid_out(array, axis)
    compress = dask.delayed(nets_of_chunk, pure=True)
    corners = [(top, left) for top in tops[:-1] for left in lefts[:-1]]
    pieces = [
        compress(block, corner, axis == "columns")
        for block, corner in zip(turned.ravel(), corners, strict=True)
    ]
    found = dask.compute(*pieces)
    sizes, weights = np.zeros(int(lefts[-1]), np.int64), np.zeros(int(tops[-1]), np.int64)
    for (top, left), (pointer, _, of_vertex) in zip(corners, found, strict=True):
        sizes[left : left + len(pointer) - 1] += np.diff(pointer)
        weights[top : top + len(of_vertex)] += of_vertex
    net_pointer = np.concatenate([[0], np.cumsum(sizes)])
    pins, following = np.empty(int(net_pointer[-1]), np.int32), net_pointer[:-1].copy()
    for (top, left), (pointer, rows, _) in zip(corners, found, strict=True):
        # behind those of the chunks above, so that the pins of a net stay sorted
        own, sizes = slice(left, left + len(pointer) - 1), np.diff(pointer)
        pins[np.arange(len(rows)) + np.repeat(following[own] - pointer[:-1], sizes)] = rows + top
        following[own] += sizes
    return net_pointer, pins, weights


def nets_of_chunk(
    block: Any, corner: tuple[int, int], transposed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """The nets of a chunk: pointer, pins (both counted in the chunk), and the vertices' weights."""
    vertices, items, _ = chunk_sides(block, corner, transposed)
    height, width = block.shape[::-1] if transposed else block.shape
    weights = np.bincount(vertices, minlength=height)
    order = np.argsort(vertices, kind="stable") if transposed else slice(None)
    pointer = np.concatenate([[0], np.cumsum(weights)])
    return (*transpose(pointer, items[order], width), weights)


def chunk_sides(
    block: Any, corner: tuple[int, int], transposed: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]:
    """What is cut and what is shared, of each nonzero of a chunk, both counted in it; its value."""
    matrix = chunk_matrix(block, *(corner[::-1] if transposed else corner))
    sides = (matrix.columns, matrix.rows) if transposed else (matrix.rows, matrix.columns)
    return (*sides, matrix.values)


def laid_out(array: Any, axis: Axis) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
    """Delayed chunks with what is cut along the first dimension, and where each begins."""
    check_chunks(array)
    tops, lefts = (np.concatenate(([0], np.cumsum(sizes))) for sizes in array.chunks)
    blocks = array.to_delayed()
    return (blocks.T, lefts, tops) if axis == "columns" else (blocks, tops, lefts)


def _merged(pieces: list[Any]) -> Any:
    """A tree of merges, `_FAN_IN` pieces each."""
    import dask

    merge = dask.delayed(merge_pairs, pure=True)
    while len(pieces) > 1:
        pieces = [
            merge(pieces[start : start + _FAN_IN]) for start in range(0, len(pieces), _FAN_IN)
        ]
    return pieces[0]


def dask_inside(data: Any) -> Any:
    """The Dask array that is given, or that a DataArray holds.

    Raises
    ------
    InputError
        It is neither.
    """
    array = data.data if is_a(data, "xarray", "DataArray") else data
    if not is_a(array, "dask.array", "Array"):
        raise InputError(
            f"a {type(data).__qualname__} was given: give a Dask array of sparse chunks, or an "
            "xarray.DataArray over one (data in memory needs no such detour)"
        )
    return array


# -- nonzeros, each to its part


def cut_by_part(parts: NDArray[np.integer], n_parts: int, *arrays: NDArray[Any]) -> list[Any]:
    """Cut arrays of shape (..., n) into one tuple a part, entries in their old order.

    Pieces show the arrays themselves where the parts come in order, as those of blocks of rows do.
    """
    if not (parts[1:] >= parts[:-1]).all():
        order = stable_order(parts, n_parts)
        arrays = tuple(array[..., order] for array in arrays)
    ends = np.cumsum(np.bincount(parts, minlength=n_parts))[:-1]
    pieces = [np.split(array, ends, axis=-1) for array in arrays]
    return list(zip(*pieces, strict=True))


def gathered_by_part(
    array: Any,
    name: str,
    splits: Mapping[Any, Task],
    collect: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
) -> HighLevelGraph:
    """Tasks that bring the pieces of all blocks together, part by part, past the client.

        block (0, 0) ─ split ─┬─ piece of part 0 ─┐
                              └─ piece of part 1 ─│─┐
        block (1, 0) ─ split ─┬─ piece of part 0 ─┴─│── (name, 0)
                              └─ piece of part 1 ───┴── (name, 1)

    Tasks: blocks × (1 + parts) + parts. Those of a part are pinned by their key.

    Parameters
    ----------
    array : dask.array.Array
        Whose blocks the splits read.
    name : str
        Of the result; the key of part k is ``(name, k)``.
    splits : mapping of key to Task
        One a block; gives a list with one piece a part. A key is ``(name of the layer, ...)``.
    collect : callable
        ``collect(pieces, *arguments[k])`` makes what part k holds, from a piece of each block.
    arguments : sequence of tuple
        One a part.
    """
    ranks = range(len(arguments))
    (split,) = {key[0] for key in splits}
    piece = f"{split}-piece"
    pieces = {
        (piece, rank, *key[1:]): Task((piece, rank, *key[1:]), _pick, TaskRef(key), rank)
        for key in splits
        for rank in ranks
    }
    collected = {
        (name, rank): PinnedTask(
            (name, rank),
            collect,
            List(*[TaskRef((piece, rank, *key[1:])) for key in splits]),
            *arguments[rank],
        )
        for rank in ranks
    }
    source = array.__dask_graph__()
    layers = {split: splits, piece: pieces, name: collected}
    needs = {split: set(array.__dask_layers__()), piece: {split}, name: {piece}}
    return HighLevelGraph(
        {**source.layers, **{layer: MaterializedLayer(dict(t)) for layer, t in layers.items()}},
        {**source.dependencies, **needs},
    )


def _pick(pieces: Sequence[Any], rank: int) -> Any:
    return pieces[rank]
