"""How results of this folder show themselves: lines of cells, as text and as HTML.

rank  messages sent     a heading, then lines; columns of numbers stand to the right
0                12
all              48

The cells come as text, for only who made them knows how many digits mean something.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Table = Sequence[Sequence[str]]


def text_lines(table: Table) -> list[str]:
    """The table as lines of one width a column, two spaces between columns."""
    columns = list(zip(*table, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [_holds_numbers(column) for column in columns]
    return [
        "  ".join(
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in table
    ]


def html_table(table: Table, caption: str = "") -> str:
    """The same table for a notebook; every cell is escaped."""
    aligned = ["right" if _holds_numbers(column) else "left" for column in zip(*table, strict=True)]
    lines = []
    for place, line in enumerate(table):
        tag = "td" if place else "th"
        cells = (
            f'<{tag} style="text-align:{side};padding:2px 8px">{escape(cell)}</{tag}>'
            for cell, side in zip(line, aligned, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}{''.join(lines)}</table>"


def _holds_numbers(column: Sequence[str]) -> bool:
    """Whether what stands under the heading are numbers, or nothing."""
    cells = [cell for cell in column[1:] if cell]
    return bool(cells) and all(cell[0].isdigit() or cell[0] == "-" for cell in cells)
