"""One small table, as text and as HTML: how every result object of the house shows itself.

title                          <table><caption>title</caption>
  name ......... value             <tr><th>name</th><td>value</td></tr>
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

_CELL = "text-align:left;padding:2px 12px 2px 0"


def readable(value: Any) -> str:
    """A number with thousands separators or four digits; anything else as it prints."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    try:
        return f"{value:,d}"
    except (TypeError, ValueError):
        return str(value)


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
