"""Small tables, as text and as HTML: how every result object of the house shows itself.

    text_table, html_table       text_lines, html_lines
    title                        rank  messages sent     a heading, then lines of cells;
      name   value               0                12     columns of numbers stand to the right
      name   value               all              48

The cells of the second kind come as text: who made them knows how many digits mean something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

Table = Sequence[Sequence[str]]

VAST = 1e15  # from here on digits mean nothing, and there may be hundreds
_CELL = "text-align:left;padding:2px 12px 2px 0"


def readable(value: Any) -> str:
    """A number with thousands separators or four digits; anything else as it prints."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        value = value or 0.0  # not "-0"
        return f"{value:,.1f}" if 1000 <= abs(value) < VAST else f"{value:.4g}"
    try:
        return f"{value:,d}"
    except (TypeError, ValueError):
        return str(value)


def fixed(value: float, digits: int) -> str:
    """So many digits after the point; two that mean something where those would be zeros.

    Examples
    --------
    >>> [fixed(seconds, 2) for seconds in (1234.5, 0.73, 0.0004267, 0.0)]
    ['1,234.50', '0.73', '0.00043', '0.00']
    """
    is_small = 0 < abs(value) < 10.0 ** (1 - digits)
    return f"{value:.2g}" if is_small else f"{value:,.{digits}f}"


def text_table(title: str, rows: Mapping[str, Any]) -> str:
    """Lines ``name  value`` under a title, the names padded to one width."""
    width = max((len(name) for name in rows), default=0)
    lines = [f"  {name:<{width}}  {readable(value)}" for name, value in rows.items()]
    return "\n".join([title, *lines])


def html_table(title: str, rows: Mapping[str, Any]) -> str:
    """The same table as HTML, with every name and value escaped."""
    body = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(readable(value))}</td></tr>'
        for name, value in rows.items()
    )
    caption = f'<caption style="{_CELL};font-weight:bold">{escape(title)}</caption>'
    return f"<table>{caption}<tbody>{body}</tbody></table>"


class ShownAsTable:
    """Shows itself, in text and in a notebook, as a table of `to_dict` under its class's name.

    A subclass with another title or other rows says so by `_title` and `_rows`.
    """

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _rows(self) -> Mapping[str, Any]:
        return self.to_dict()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return text_table(self._title, self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._title, self._rows())


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


def html_lines(table: Table, caption: str = "") -> str:
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
    return bool(cells) and all(cell[0].isdigit() or cell.startswith(("-", "nan")) for cell in cells)
