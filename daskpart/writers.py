"""Hypergraphs and partitions as the text that other partitioners read, and back with their result.

    hypergraph.write("data.hgr")   ─▶ hmetis, kahypar, mt-kahypar …   ─▶ data.hgr.part.8
    hypergraph.write("data.u")     ─▶ patoh                           ─▶ data.u.part.8
    hypergraph.write("data.graph") ─▶ gpmetis, kaffpa …               ─▶ data.graph.part.8
    Partition.from_file("data.hgr.part.8", hypergraph)

Text is made by a compiled kernel, some 100,000 numbers at a time; names that end in .gz, .xz or
.bz2 are compressed. What the formats mean: `daskpart.readers.hypergraphs`, `metis_graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ._floor.kernels import kernel
from .errors import InputError
from .readers.detection import suffix_format
from .readers.streams import opened_for_writing

if TYPE_CHECKING:
    from .hypergraph import Hypergraph

_NUMBERS_AT_ONCE = 1 << 17
_LONGEST_NUMBER = 21  # the digits of a 64-bit integer and what parts it from the next
_NONE = np.empty((0, 0), np.int64)


def write_hypergraph(
    hypergraph: Hypergraph, path: str | PathLike[str], format: str | None = None
) -> None:
    """Write a hypergraph as hMETIS, PaToH or METIS text; see `Hypergraph.write`."""
    place = Path(path).expanduser()
    chosen = format or suffix_format(place)
    if chosen not in _WRITERS:
        given = f"format={format!r}" if format else f"the name {place.name!r}"
        raise InputError(
            f"{given} tells no format that hypergraphs are written in: give a name that ends in "
            ".hgr, .u or .graph, or format='hgr', 'patoh' or 'metis'"
        )
    lines = _WRITERS[chosen](hypergraph)
    head = next(lines)  # what cannot be written shows here, before the file is made
    with opened_for_writing(place) as file:
        file.write(head)
        _pour(lines, file)


def write_parts(assignment: NDArray[np.int32], path: str | PathLike[str]) -> None:
    """Write the part of each vertex, one a line, counted from 0."""
    with opened_for_writing(Path(path).expanduser()) as file:
        _pour(_rows_as_text(before=assignment.astype(np.int64)[:, None]), file)


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
    beside = np.empty(0, np.int64) if beside is None else beside
    n_rows, width = len(pointer) - 1, before.shape[1]
    numbers_before_row = pointer * (2 if len(beside) else 1) + np.arange(n_rows + 1) * (width + 1)
    first = 0
    while first < n_rows:
        wanted = numbers_before_row[first] + _NUMBERS_AT_ONCE
        last = max(first + 1, int(np.searchsorted(numbers_before_row, wanted)) - 1)
        n_numbers = int(numbers_before_row[last] - numbers_before_row[first])
        text = np.empty(n_numbers * _LONGEST_NUMBER, np.uint8)
        end = _write_rows(pointer, values, shift, before, beside, first, last, text)
        yield text[:end].tobytes()
        first = last


@kernel
def _write_number(text: NDArray, at: int, number: int) -> int:
    """Write a blank, where no line begins, and the digits; where they end."""
    if at > 0 and text[at - 1] != 10:
        text[at] = 32
        at += 1
    n_digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        n_digits += 1
    for place in range(n_digits - 1, -1, -1):
        text[at + place] = 48 + number % 10
        number //= 10
    return at + n_digits


@kernel
def _write_rows(
    pointer: NDArray,
    values: NDArray,
    shift: int,
    before: NDArray,
    beside: NDArray,
    first: int,
    last: int,
    text: NDArray,
) -> int:
    """Write rows first … last - 1 into `text`; how many bytes they take."""
    at = 0
    for row in range(first, last):
        for column in range(before.shape[1]):
            at = _write_number(text, at, before[row, column])
        for position in range(pointer[row], pointer[row + 1]):
            at = _write_number(text, at, values[position] + shift)
            if len(beside) > 0:
                at = _write_number(text, at, beside[position])
        text[at] = 10
        at += 1
    return at
