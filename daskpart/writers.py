"""Hypergraphs and partitions as the text that other partitioners read, and back with their result.

    hypergraph.write("data.hgr")   ─▶ hmetis, kahypar, mt-kahypar …   ─▶ data.hgr.part.8
    hypergraph.write("data.u")     ─▶ patoh                           ─▶ data.u.part.8
    hypergraph.write("data.graph") ─▶ gpmetis, kaffpa …               ─▶ data.graph.part.8
    Partition.from_file("data.hgr.part.8", hypergraph)

Text is made some 100,000 numbers at a time; names that end in .gz, .xz or .bz2 are compressed.
What the formats mean: `daskpart.readers.hypergraphs`, `metis_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from os.path import basename
from typing import IO, TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ._floor.checks import one_of
from .errors import InputError
from .readers.detection import suffix_format
from .readers.streams import location, opened_for_writing

if TYPE_CHECKING:
    from .hypergraph import Hypergraph

_NUMBERS_AT_ONCE = 1 << 17
_POWERS_OF_TEN = 10 ** np.arange(1, 19)
_NONE = np.empty((0, 0), np.int64)


def write_hypergraph(
    hypergraph: Hypergraph, path: str | PathLike[str], format: str | None = None
) -> None:
    """Write a hypergraph as hMETIS, PaToH or METIS text; see `Hypergraph.write`."""
    place = location(path)
    chosen = suffix_format(place) if format is None else one_of(format, "format", _WRITERS)
    if chosen not in _WRITERS:
        raise InputError(
            f"the name {basename(place)!r} tells no format that hypergraphs are written in: give "
            "one that ends in .hgr, .u or .graph, or format='hgr', 'patoh' or 'metis'"
        )
    lines = _WRITERS[chosen](hypergraph)
    head = next(lines)  # what cannot be written shows here, before the file is made
    with opened_for_writing(place) as file:
        file.write(head)
        _pour(lines, file)


def write_parts(assignment: NDArray[np.int32], path: str | PathLike[str]) -> None:
    """Write the part of each vertex, one a line, counted from 0."""
    write_rows(assignment[:, None], path)


def write_rows(rows: NDArray[np.integer], path: str | PathLike[str]) -> None:
    """Write whole numbers of at least 0, a row a line, blanks between."""
    with opened_for_writing(location(path)) as file:
        _pour(_rows_as_text(before=rows.astype(np.int64)), file)


def _pour(pieces: Iterator[bytes], file: IO[bytes]) -> None:
    for piece in pieces:
        file.write(piece)


def _hmetis(hypergraph: Hypergraph) -> Iterator[bytes]:
    has_costs, has_weights = _said(hypergraph)
    fmt = f" {10 * has_weights + has_costs}" if has_costs or has_weights else ""
    yield f"{hypergraph.n_nets} {hypergraph.n_vertices}{fmt}\n".encode()
    costs = hypergraph.net_costs[:, None] if has_costs else _NONE
    yield from _rows_as_text(hypergraph.net_pointer, hypergraph.pins, 1, costs)
    if has_weights:
        yield from _rows_as_text(before=hypergraph.vertex_weights[:, None])


def _patoh(hypergraph: Hypergraph) -> Iterator[bytes]:
    has_costs, has_weights = _said(hypergraph)
    sizes = f"{hypergraph.n_vertices} {hypergraph.n_nets} {hypergraph.n_pins}"
    yield f"0 {sizes} {has_weights + 2 * has_costs}\n".encode()
    costs = hypergraph.net_costs[:, None] if has_costs else _NONE
    yield from _rows_as_text(hypergraph.net_pointer, hypergraph.pins, 0, costs)
    if has_weights:
        yield from _rows_as_text(before=hypergraph.vertex_weights[:, None])


def _metis(hypergraph: Hypergraph) -> Iterator[bytes]:
    sizes = np.diff(hypergraph.net_pointer)
    if sizes.max(initial=0) > 2:
        raise InputError(
            f"net {int(np.argmax(sizes))} has {int(sizes.max())} pins: a METIS graph has edges of "
            "two only. Write .hgr, or cut the graph model of the data"
        )
    edges = (sizes == 2) & (hypergraph.net_costs > 0)
    starts = hypergraph.net_pointer[:-1][edges]
    low, high = hypergraph.pins[starts], hypergraph.pins[starts + 1]
    costs, n_vertices = hypergraph.net_costs[edges], hypergraph.n_vertices
    ends = (np.concatenate([low, high]), np.concatenate([high, low]))
    # equal edges add up; both ends of each stand on the line of the other
    lines = scipy.sparse.coo_array(
        (np.concatenate([costs, costs]), ends), shape=(n_vertices, n_vertices)
    ).tocsr()
    has_costs, has_weights = bool((lines.data != 1).any()), _said(hypergraph)[1]
    fmt = f" 0{has_weights:d}{has_costs:d}" if has_costs or has_weights else ""
    yield f"{n_vertices} {lines.nnz // 2}{fmt}\n".encode()
    weights = hypergraph.vertex_weights[:, None] if has_weights else _NONE
    beside = lines.data.astype(np.int64) if has_costs else None
    pointer, neighbours = lines.indptr.astype(np.int64), lines.indices.astype(np.int32)
    yield from _rows_as_text(pointer, neighbours, 1, weights, beside)


_WRITERS: dict[str, Callable[[Hypergraph], Iterator[bytes]]] = {
    "hgr": _hmetis,
    "patoh": _patoh,
    "metis": _metis,
}


def _said(hypergraph: Hypergraph) -> tuple[bool, bool]:
    """Whether there are costs, and weights, other than 1."""
    costs, weights = hypergraph.net_costs, hypergraph.vertex_weights
    return bool((costs != 1).any()), bool((weights != 1).any())


def _rows_as_text(
    pointer: NDArray[np.int64] | None = None,
    values: NDArray[np.int32] | None = None,
    shift: int = 0,
    before: NDArray[np.int64] = _NONE,
    beside: NDArray[np.int64] | None = None,
) -> Iterator[bytes]:
    """Lines: the numbers of ``before[row]``, then the row's values + shift, each with its beside.

    Pieces hold whole lines, about `_NUMBERS_AT_ONCE` numbers each.
    """
    if pointer is None or values is None:
        pointer, values = np.zeros(len(before) + 1, np.int64), np.empty(0, np.int32)
    n_rows, width = len(pointer) - 1, before.shape[1]
    numbers_before_row = pointer * (1 if beside is None else 2) + np.arange(n_rows + 1) * width
    first = 0
    while first < n_rows:
        wanted = numbers_before_row[first] + _NUMBERS_AT_ONCE
        last = max(first + 1, int(np.searchsorted(numbers_before_row, wanted)) - 1)
        inside = slice(pointer[first], pointer[last])
        numbers = values[inside].astype(np.int64) + shift
        if beside is not None:
            numbers = np.stack([numbers, beside[inside]], axis=1).ravel()
        starts = numbers_before_row[first : last + 1] - numbers_before_row[first]
        if width:
            at = np.repeat(starts[:-1] - np.arange(last - first) * width, width)
            numbers = np.insert(numbers, at, before[first:last].ravel())
        yield _lines(numbers, starts)
        first = last


def _lines(numbers: NDArray[np.int64], starts: NDArray[np.int64]) -> bytes:
    """Line r holds ``numbers[starts[r]:starts[r + 1]]``; digits are set place by place."""
    n_digits = np.searchsorted(_POWERS_OF_TEN, numbers, side="right") + 1
    bytes_before = np.append(0, np.cumsum(n_digits + 1))[starts]
    line_ends = np.cumsum(np.maximum(np.diff(bytes_before), 1))  # an empty line is its end alone
    text = np.full(line_ends[-1], ord(" "), np.uint8)
    text[line_ends - 1] = ord("\n")
    blank_lines_before = np.repeat(
        np.append(0, line_ends[:-1]) - bytes_before[:-1], np.diff(starts)
    )
    at, left = np.cumsum(n_digits + 1) - 2 + blank_lines_before, numbers
    while len(at):
        left, digits = np.divmod(left, 10)
        text[at] = ord("0") + digits
        at, left = at[left > 0] - 1, left[left > 0]
    return text.tobytes()
