"""Whatever the data are in, as blocks; and how many blocks fit into given memory.

matrix, Hypergraph, Bipartite ──▶ MemoryBlocks       path of a libsvm file, surveyed file
folder of blocks ───────────────▶ BlockFolder  ◀── a temporary folder ──┘ with a memory limit
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

from dask.utils import parse_bytes

from daskpart._floor.checks import whole_number
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.readers import ExamplesFile, read
from daskpart.readers.detection import detect
from daskpart.readers.streams import location

from .assignment import Blocks
from .bipartite import Bipartite, MemoryBlocks, feature_chunks, numbering, totals
from .block_folder import BlockFolder

_EDGE_BYTES = 32  # assigning needs 8, writing a block up to 32
_DATUM_BYTES = 48
_READING_BYTES = 64 << 20  # of a MiB of text
_READING_SURVEYED = 256 << 20  # of a block of a survey, up to 4 MiB
_ROOM = 1.15  # random blocks are not of one size
_LISTED_BYTES = 12  # of each part and datum of a block
_MOST_LISTED = 1 << 30  # bytes of a block, where nothing is said of blocks or memory


class Size(NamedTuple):
    """Of a graph, and the bytes that reading it takes."""

    n_data: int
    n_parameters: int
    n_edges: int
    reading: int = _READING_BYTES


@contextmanager
def blocks_of(
    data: Any,
    n_parts: int,
    n_blocks: int | None,
    memory_limit: Any,
    random_state: int,
    usual: int = 1,
) -> Iterator[Blocks]:
    """The data in blocks, as long as the context lasts.

    Parameters
    ----------
    data : Blocks, Bipartite, Hypergraph, path, ExamplesFile, or what `as_matrix` takes
    n_parts : int
    n_blocks : int or None
    memory_limit : int, str or None
        Bytes, or a text such as "1 GiB". A file of examples is then spread over blocks on disk;
        blocks that are made already must be small enough.
    random_state : int
    usual : int
        How many blocks a graph in memory is cut into, where nothing else is said; more where the
        lists of a block would take over 1 GiB.

    Raises
    ------
    InputError
        Blocks that are made already are wanted in another number; the limit is too low.
    """
    limit = None if memory_limit is None else checked_limit(memory_limit)
    path = location(data) if isinstance(data, str | PathLike) else None
    if path is not None and os.path.isdir(path):
        data, path = BlockFolder(path), None
    if isinstance(data, BlockFolder | MemoryBlocks):
        if n_blocks not in (None, data.n_blocks):
            raise InputError(f"n_blocks is {n_blocks}, but the data are in {data.n_blocks} already")
        if limit is not None:
            _check_blocks_fit(data, n_parts, limit)
        yield data
    elif limit is not None and (source := _in_examples(data, path)) is not None:
        if n_blocks is None:
            n_blocks = blocks_that_fit(_size_of(source), n_parts, limit)
        with tempfile.TemporaryDirectory(prefix="daskpart-blocks-") as folder:
            yield BlockFolder.write(source, folder, n_blocks, random_state=random_state)
    else:
        graph = as_bipartite(data) if path is None else _graph_of(path)
        if not graph.n_data:
            raise InputError("there are no data to assign: every row is a datum")
        if n_blocks is None:
            listed = _LISTED_BYTES * n_parts * graph.n_data
            fitting = (
                max(usual, math.ceil(listed / _MOST_LISTED))
                if limit is None
                else blocks_that_fit(_size_of_graph(graph), n_parts, limit)
            )
            n_blocks = max(1, min(fitting, graph.n_data))
        if whole_number(n_blocks, "n_blocks", least=1) > graph.n_data:
            raise InputError(f"n_blocks is {n_blocks}, but there are only {graph.n_data} data")
        yield graph.blocks(n_blocks, random_state)


def _in_examples(data: Any, path: str | None) -> str | ExamplesFile | None:
    """A file that can be read some examples at a time; None for all else."""
    if isinstance(data, ExamplesFile):
        return data
    return path if path is not None and detect(path) == "libsvm" else None


def model_of(data: Any) -> str:
    """Of which model what is cut are the vertices: see `daskpart.data_models`."""
    if isinstance(data, str | PathLike):
        place = location(data)
        of_nets = not os.path.isdir(place) and detect(place) in ("hgr", "patoh", "metis")
    else:
        of_nets = isinstance(data, Hypergraph)
    return "hypergraph" if of_nets else "bipartite"


def as_bipartite(data: Any) -> Bipartite:
    """The graph of a hypergraph (vertices are data, nets parameters) or of any matrix."""
    if isinstance(data, Bipartite):
        return data
    if isinstance(data, Hypergraph):
        return Bipartite.from_hypergraph(data)
    if isinstance(data, ExamplesFile):
        return Bipartite.from_libsvm(data)
    return Bipartite.from_matrix(data)


def _graph_of(path: str) -> Bipartite:
    return Bipartite.from_libsvm(path) if detect(path) == "libsvm" else as_bipartite(read(path))


def blocks_that_fit(size: Size, n_parts: int, limit: int) -> int:
    """The least number of blocks with which Parsa stays below `limit` bytes, by an estimate.

    Counted are the lists of one block (12 k bytes a datum), its edges, three bits for each part and
    parameter (S_i, N(U_i), random parts), owners and parts, and the text that is being read; not
    Python and its packages.

    Raises
    ------
    InputError
        Not even one datum at a time would fit.
    """
    row = -(-n_parts // 8)
    fixed = size.reading + size.n_parameters * (3 * row + 8) + 16 * size.n_data
    of_blocks = (
        size.n_edges * (_EDGE_BYTES + row) + size.n_data * (_LISTED_BYTES * n_parts + _DATUM_BYTES)
    ) * _ROOM
    least = fixed + of_blocks / size.n_data
    if limit < least:
        raise InputError(
            f"memory_limit is {limit:,} bytes; at least {math.ceil(least):,} are needed, for "
            f"{size.n_parameters:,} parameters, {size.n_data:,} data and {n_parts} parts"
        )
    return min(math.ceil(of_blocks / max(limit - fixed, 1)), size.n_data) or 1


def _check_blocks_fit(blocks: Blocks, n_parts: int, limit: int) -> None:
    needed = blocks_that_fit(_size_of_graph(blocks), n_parts, limit)
    if blocks.n_blocks < needed:
        raise InputError(
            f"memory_limit is {limit:,} bytes, for which the data must be in {needed} blocks or "
            f"more; they are in {blocks.n_blocks}: write more blocks, or allow more memory"
        )


def _size_of_graph(graph: Bipartite | Blocks) -> Size:
    return Size(graph.n_data, graph.n_parameters, graph.n_edges)


def checked_limit(limit: Any) -> int:
    """A limit of memory in bytes, from a number or a text like "1 GiB" (InputError)."""
    try:
        n_bytes = parse_bytes(limit)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"memory_limit is {limit!r}: give a number of bytes or a text like '1 GiB'"
        ) from error
    return whole_number(n_bytes, "memory_limit", least=1, most=2**63 - 1)


def _size_of(source: str | ExamplesFile) -> Size:
    """Of a file that was surveyed; any other is read only to count."""
    if isinstance(source, ExamplesFile):
        return Size(*source.shape, source.nnz, _READING_SURVEYED)
    n_data, n_edges, least, most = totals(feature_chunks(source))
    return Size(n_data, numbering(source, least, most, None)[1], n_edges)
