"""Graphs of METIS (.graph): a line for each vertex, its neighbours on it.

    vertices edges [fmt [ncon]]         4 3 011
    [size] [weight …] (neighbour [edge weight]) …
                                        5  2 1        vertex 1 weighs 5; edge 1-2 weighs 1
                                        1  1 1  3 2   vertex 2; edges 1-2, 2-3
                                        2  2 2  4 7
                                        1  3 7

Vertices count from 1; every edge stands on both its lines. fmt: 1 edge weights, 10 vertex weights,
100 vertex sizes. A blank line is a vertex without neighbours; remarks start with %. Karypis,
"METIS", 2013: the manual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import ReadError, warn
from daskpart.hypergraph import Hypergraph

from .lines import Lines, with_header


class _Layout(NamedTuple):
    """What stands on a line: numbers before the neighbours, and how many a neighbour takes."""

    before: int
    has_weights: bool
    first_weight: int
    has_edge_weights: bool


def read_metis(path: str) -> Hypergraph:
    """Read a METIS graph, any fmt.

    Returns
    -------
    Hypergraph
        A net of two pins for each edge, in the order of its vertices; its cost is the edge weight.

    Raises
    ------
    ReadError
        A wrong number of lines or edges, a neighbour out of range, an edge that stands on one of
        its lines only, a self loop: with the line.

    Warns
    -----
    DaskpartWarning
        The file has vertex sizes or several weights a vertex: sizes are left out, and all weights
        but the first.
    """
    header, following = with_header(path, "a line 'vertices edges [fmt [ncon]]'", (2, 3, 4))
    n_vertices, n_edges = header[:2]
    layout = _layout(path, header)
    lines = following.first_rows(n_vertices)
    if lines is None:
        raise ReadError(
            f"{path}: the first line announces {n_vertices} vertices, a line each; "
            f"{following.n_rows} lines follow (a blank line is a vertex without neighbours)"
        )
    _check_widths(lines, layout)
    weights = None
    if layout.has_weights:
        weights = lines.numbers[lines.pointer[:-1] + layout.first_weight].astype(np.int64)
    ends, costs = _edges(lines, layout, n_edges)
    pointer = np.arange(0, 2 * len(ends) + 1, 2, dtype=np.int64)
    return Hypergraph.from_nets(pointer, ends.ravel(), n_vertices, weights, costs)


def _layout(path: str, header: list[int]) -> _Layout:
    fmt = header[2] if len(header) > 2 else 0
    if not set(str(fmt)) <= {"0", "1"} or fmt > 111:
        raise ReadError(f"{path}: fmt is {fmt} in the first line; it is three digits of 0 or 1")
    has_sizes, has_weights, has_edge_weights = fmt >= 100, fmt % 100 >= 10, fmt % 10 == 1
    n_weights = header[3] if len(header) > 3 and has_weights else int(has_weights)
    if has_weights and n_weights < 1:
        raise ReadError(f"{path}: fmt {fmt:03d} has weights, but ncon is 0 in the first line")
    left_out = ["the vertex sizes"] * has_sizes + ["all weights but the first"] * (n_weights > 1)
    if left_out:
        warn(
            f"{path}: {' and '.join(left_out)} are left out: a vertex has one weight here; "
            "`partition` takes the others as further_weights"
        )
    before = has_sizes + n_weights
    return _Layout(before, has_weights, int(has_sizes), has_edge_weights)


def _check_widths(lines: Lines, layout: _Layout) -> None:
    left = lines.sizes - layout.before
    wrong = np.flatnonzero((left < 0) | ((left % 2 == 1) & layout.has_edge_weights))
    if len(wrong):
        what = "neighbours, each with a weight" if layout.has_edge_weights else "neighbours"
        lines.fail(
            int(wrong[0]),
            f"expected {layout.before} numbers of the vertex and then {what}; "
            f"found {lines.sizes[wrong[0]]} numbers",
        )


def _edges(
    lines: Lines, layout: _Layout, n_edges: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each edge once, int64[n_edges, 2] sorted, and its weight, int64[n_edges]."""
    n_vertices, starts = lines.n_rows, lines.pointer[:-1]
    vertex = np.repeat(np.arange(n_vertices), lines.sizes)
    place = np.arange(len(lines.numbers)) - np.repeat(starts, lines.sizes) - layout.before
    step = 2 if layout.has_edge_weights else 1
    at = np.flatnonzero((place >= 0) & (place % step == 0))
    here, there = vertex[at], lines.numbers[at].astype(np.int64) - 1
    weight = lines.numbers[at + 1] if layout.has_edge_weights else np.ones(len(at), np.int64)
    wrong = np.flatnonzero((there < 0) | (there >= n_vertices) | (there == here))
    if len(wrong):
        found = there[wrong[0]] + 1
        why = "is the vertex itself" if found == here[wrong[0]] + 1 else "is out of range"
        lines.fail(
            int(here[wrong[0]]), f"neighbour {found} {why}: neighbours are 1 to {n_vertices}"
        )
    order = np.lexsort((np.maximum(here, there), np.minimum(here, there)))
    here, there, weight = here[order], there[order], weight[order].astype(np.int64)
    ends = np.stack([np.minimum(here, there), np.maximum(here, there)], axis=1)
    _check_pairs(lines, ends, here, weight)
    if len(ends) != 2 * n_edges:
        raise ReadError(
            f"{lines.path}: the first line announces {n_edges} edges, the lines hold "
            f"{len(ends) // 2}"
        )
    return ends[::2], weight[::2]


def _check_pairs(
    lines: Lines, ends: NDArray[np.int64], here: NDArray[np.int64], weight: NDArray[np.int64]
) -> None:
    """Refuse an edge that does not stand once on both its lines, with one weight."""
    _, first, counts = np.unique(
        ends[:, 0] * lines.n_rows + ends[:, 1], return_index=True, return_counts=True
    )
    last = first + counts - 1
    wrong = np.flatnonzero(
        (counts != 2) | (here[first] == here[last]) | (weight[first] != weight[last])
    )
    if len(wrong):
        at = first[wrong[0]]
        low, high = ends[at] + 1
        lines.fail(
            int(here[at]),
            f"edge {low}-{high} must stand once on the line of {low} and once on that of {high}, "
            "with the same weight",
        )
