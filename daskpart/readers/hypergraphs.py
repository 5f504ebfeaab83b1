"""Hypergraphs of other partitioners: hMETIS (.hgr) and PaToH (.u).

    hMETIS        nets vertices [fmt]           PaToH    base cells nets pins [weights]
                  3 4 11                                 0 4 3 6 1
    net           cost pin pin …  2 1 3         net      0 2
                                  1 2 3                  1 2
                                  5 4 1                  3 0
    weights       one a line      1             weights  1 7 1 1   (after the nets, any lines)

In both a line is a net. fmt: 1 costs, 10 weights, 11 both; of PaToH 1 weights, 2 costs, 3 both.
hMETIS counts from 1, PaToH from its base. Remarks start with %. Karypis, Kumar, "hMETIS", 1998;
Çatalyürek, Aykanat, "PaToH: partitioning tool for hypergraphs", 2011: the manuals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import ReadError
from daskpart.hypergraph import Hypergraph

from .assembly import check_extent
from .lines import Lines, with_header

_HMETIS_FORMATS = (0, 1, 10, 11)


def read_hgr(path: str) -> Hypergraph:
    """Read an hMETIS hypergraph, any fmt.

    Returns
    -------
    Hypergraph
        Costs and weights are 1 where the file has none. A pin that a net names twice counts once.
        Where there are fewer filled lines than nets, a blank line is a net without pins.

    Raises
    ------
    ReadError
        A wrong number of lines, a pin out of range, a weight that is not whole: with the line.
    """
    header, lines = with_header(path, "a line 'nets vertices [fmt]'", (2, 3))
    n_nets, n_vertices = header[:2]
    fmt = header[2] if len(header) == 3 else 0
    if fmt not in _HMETIS_FORMATS:
        raise ReadError(f"{path}: fmt is {fmt} in the first line; it can be 0, 1, 10 or 11")
    has_costs, has_weights = fmt % 10 == 1, fmt >= 10
    needed = n_nets + (n_vertices if has_weights else 0)
    filled = lines.without_blanks()
    rows = filled if filled.n_rows == needed else lines.first_rows(needed)
    if rows is None:
        what = f"{n_nets} nets" + (f" and {n_vertices} weights" if has_weights else "")
        raise ReadError(
            f"{path}: the first line announces {what}, a line each; {filled.n_rows} were found "
            f"(the last is line {int(lines.line_of[-1]) if lines.n_rows else 1})"
        )
    weights = None
    if has_weights:
        weights = _one_a_line(rows.from_row(n_nets))
    return _hypergraph(rows.until_row(n_nets), n_vertices, 1, has_costs, weights)


def read_patoh(path: str) -> Hypergraph:
    """Read a PaToH hypergraph, any base and weighting scheme.

    Returns, raises: see `read_hgr`. Of several weights a cell none can be used: a ReadError.
    """
    header, lines = with_header(path, "a line 'base cells nets pins [weights]'", (4, 5, 6))
    base, n_cells, n_nets, n_pins = header[:4]
    scheme, constraints = (*header[4:], 0, 1)[:2] if len(header) < 6 else header[4:]
    if base > 1 or scheme > 3 or (len(header) == 6 and constraints != 1):
        raise ReadError(
            f"{path}: base {base}, weights {scheme}, weights a cell {constraints} in the first "
            "line; base can be 0 or 1, weights 0 to 3, and a cell has one weight"
        )
    has_weights, has_costs = scheme % 2 == 1, scheme >= 2
    extra = n_nets if has_costs else 0
    for rows in (lines.without_blanks(), lines):
        if rows.n_rows < n_nets:
            continue
        nets, rest = rows.until_row(n_nets), rows.from_row(n_nets)
        if len(nets.numbers) == n_pins + extra and len(rest.numbers) == n_cells * has_weights:
            weights = rest.numbers.astype(np.int64) if has_weights else None
            return _hypergraph(nets, n_cells, base, has_costs, weights)
    wanted = n_pins + extra + n_cells * has_weights
    raise ReadError(
        f"{path}: the first line announces {n_nets} nets (lines) with {n_pins} pins, and "
        f"{wanted} numbers in all; {lines.without_blanks().n_rows} lines with "
        f"{len(lines.numbers)} numbers were found, or a net with too few"
    )


def _one_a_line(lines: Lines) -> NDArray[np.int64]:
    wrong = np.flatnonzero(lines.sizes != 1)
    if len(wrong):
        found = lines.sizes[wrong[0]]
        lines.fail(int(wrong[0]), f"expected one weight of a vertex, found {found} numbers")
    return lines.numbers.astype(np.int64)


def _hypergraph(
    lines: Lines,
    n_vertices: int,
    base: int,
    has_costs: bool,
    weights: NDArray[np.int64] | None,
) -> Hypergraph:
    """Lines of nets, with their cost before the pins where there are costs."""
    n_weights = 0 if weights is None else len(weights)
    check_extent(lines.path, n_vertices, len(lines.numbers) + n_weights, "vertices")
    numbers, pointer, costs = lines.numbers, lines.pointer, None
    is_pin = np.ones(len(numbers), bool)
    if has_costs:
        empty = np.flatnonzero(lines.sizes == 0)
        if len(empty):
            lines.fail(int(empty[0]), "expected the cost of a net and its pins, found nothing")
        costs = numbers[pointer[:-1]].astype(np.int64)
        is_pin[pointer[:-1]] = False
        pointer = pointer - np.arange(len(pointer))
    wrong = np.flatnonzero(is_pin & ((numbers < base) | (numbers >= n_vertices + base)))
    if len(wrong):
        lines.fail_at(
            int(wrong[0]),
            f"pin {numbers[wrong[0]]} is out of range: pins are {base} to {n_vertices + base - 1}",
        )
    pins = numbers[is_pin] - base
    return Hypergraph.from_nets(pointer, pins, n_vertices, weights, costs)
