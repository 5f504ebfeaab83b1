"""One self-contained page about a run: numbers in tables, pictures inside the file.

    Report("title", "lead")
      ├─ figures()   key numbers in one line
      ├─ section()   heading, then any of: text, table(), history table, picture(), code()
      └─ write(path) one .html: no script, no font, no picture from elsewhere

Results come in as plain mappings (``to_dict()`` of the report objects), data frames and matplotlib
figures, so this module needs nothing of the models. Everything that is not markup is escaped.
"""

from __future__ import annotations

import base64
import html
import io
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #1f2328;
       background: #fff; max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid #d8dee4; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; } .lead { color: #57606a; }
nav { margin: 1rem 0; font-size: .9rem; } nav a { margin-right: 1.1rem; }
a { color: #0a58a6; }
.numbers { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.3rem 0; padding: 0; }
.numbers div { flex: 1 1 8rem; background: #f6f8fa; border-radius: 6px; padding: .6rem .75rem; }
.numbers dt { font-size: .8rem; color: #57606a; } .numbers dd { margin: 0; font-size: 1.35rem; }
.scroll { overflow-x: auto; } .halves { display: flex; flex-wrap: wrap; gap: 0 3.5rem; }
.halves table { align-self: flex-start; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th, td { padding: .28rem .8rem .28rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid #eaeef2; }
thead th { border-bottom: 1.5px solid #8c959f; } tbody th { font-weight: 400; color: #57606a; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; padding-left: 1rem; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { font-size: .88rem; color: #57606a; max-width: 46rem; }
pre { background: #f6f8fa; border-radius: 6px; padding: .8rem 1rem; overflow-x: auto;
      font-size: .85rem; line-height: 1.45; }
details { margin: .6rem 0; } summary { cursor: pointer; color: #0a58a6; font-size: .92rem; }
footer { margin-top: 3rem; font-size: .85rem; color: #57606a; }
""".strip()

_LONG_TABLE, _WIDE_VALUE = 9, 30  # rows; characters
_PACKAGES = ("daskpart", "numpy", "scipy", "numba", "dask", "distributed", "sparse", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    found = {"Python": platform.python_version(), "system": platform.platform(terse=True)}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def readable(value: Any) -> str:
    """A value as a reader wants it: thousands grouped, four digits, yes and no, short lists."""
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, float | np.floating):
        return _readable_float(float(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {readable(entry)}" for name, entry in value.items())
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        entries = [readable(entry) for entry in value[:8]]
        return ", ".join(entries) + (", …" if len(value) > 8 else "")
    return str(value)


def _readable_float(number: float) -> str:
    if not np.isfinite(number):
        return "–" if np.isnan(number) else str(number)
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    if abs(number) >= 1000:
        return f"{number:,.1f}"
    return f"{number:.4g}"


def _is_number(value: Any) -> bool:
    kinds = int | float | np.integer | np.floating
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_)


class Report:
    """A page in the making.

    Parameters
    ----------
    title : str
        Heading of the page, and its name in the browser.
    lead : str
        One sentence under the heading.

    Examples
    --------
    >>> page = Report("A cut", "Rows of a matrix on 4 ranks.")
    >>> page.section("Load")
    >>> page.table({"ranks": 4, "imbalance": 0.021})
    >>> "0.021" in page.html()
    True
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self.lead = lead
        self._numbers: dict[str, Any] = {}
        self._sections: list[tuple[str, list[str]]] = []

    def numbers(self, **of_interest: Any) -> None:
        """Key numbers shown large under the heading; underscores in names become spaces."""
        self._numbers.update({name.replace("_", " "): it for name, it in of_interest.items()})

    def section(self, heading: str) -> None:
        """Begin a section; what is added next stands in it."""
        self._sections.append((heading, []))

    def _add(self, markup: str) -> None:
        if not self._sections:
            self.section(self.title)
        self._sections[-1][1].append(markup)

    def text(self, words: str) -> None:
        """Add a paragraph."""
        self._add(f"<p>{html.escape(words)}</p>")

    def subheading(self, words: str) -> None:
        """Add a heading inside the section."""
        self._add(f"<h3>{html.escape(words)}</h3>")

    def code(self, source: str) -> None:
        """Add a block of code or a command."""
        self._add(f"<pre><code>{html.escape(source)}</code></pre>")

    def table(self, rows: Mapping[str, Any]) -> None:
        """Add a table of two columns, name and value; a long one stands in two halves."""
        lines = [
            f'<tr><th scope="row">{html.escape(str(name).replace("_", " "))}</th>'
            f"<td>{html.escape(readable(value))}</td></tr>"
            for name, value in rows.items()
        ]
        wide = max((len(readable(value)) for value in rows.values()), default=0) > _WIDE_VALUE
        half = len(lines) if wide or len(lines) < _LONG_TABLE else (len(lines) + 1) // 2
        halves = "".join(
            f"<table><tbody>{''.join(part)}</tbody></table>"
            for part in (lines[:half], lines[half:])
            if part
        )
        self._add(f'<div class="scroll halves">{halves}</div>')

    def grid(self, header: Sequence[str], rows: Iterable[Sequence[Any]], fold: str = "") -> None:
        """Add a table with a header; with `fold` it opens on a click on those words."""
        rows = [list(row) for row in rows]
        aligned = [all(_is_number(row[place]) for row in rows) for place in range(len(header))]
        head = "".join(
            f'<th{" class=number" if number else ""} scope="col">{html.escape(name)}</th>'
            for name, number in zip(header, aligned, strict=True)
        )
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        markup = f'<div class="scroll">{table}</div>'
        if fold:
            markup = f"<details><summary>{html.escape(fold)}</summary>{markup}</details>"
        self._add(markup)

    def frame(self, data: pd.DataFrame, fold: str = "") -> None:
        """Add a data frame, without its index; columns that hold nothing are left out."""
        data = data.dropna(axis="columns", how="all")
        header = [str(name).replace("_", " ") for name in data.columns]
        rows = zip(*(data[name].tolist() for name in data.columns), strict=True)
        self.grid(header, rows, fold)

    def picture(self, figure: Figure, alt: str, caption: str = "") -> None:
        """Add a matplotlib figure as a PNG inside the page; `alt` says what it shows."""
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=144)
        encoded = base64.b64encode(file.getvalue()).decode()
        width = round(figure.get_figwidth() * 100)
        words = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self._add(
            f'<figure><img width="{width}" alt="{html.escape(alt, quote=True)}" '
            f'src="data:image/png;base64,{encoded}">{words}</figure>'
        )

    def html(self) -> str:
        """The page as text."""
        names = [heading for heading, _ in self._sections]
        links = "".join(
            f'<a href="#section-{place}">{html.escape(name)}</a>'
            for place, name in enumerate(names)
        )
        numbers = "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(readable(value))}</dd></div>"
            for name, value in self._numbers.items()
        )
        sections = "\n".join(
            f'<section><h2 id="section-{place}">{html.escape(heading)}</h2>\n'
            + "\n".join(content)
            + "</section>"
            for place, (heading, content) in enumerate(self._sections)
        )
        return _PAGE.format(
            title=html.escape(self.title),
            lead=html.escape(self.lead),
            style=_STYLE,
            links=links,
            numbers=f'<dl class="numbers">{numbers}</dl>' if numbers else "",
            sections=sections,
            footer=html.escape(f"daskpart {versions().get('daskpart', '')}"),
        )

    def write(self, path: str | Path) -> Path:
        """Write the page; returns where it is."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path


def _cell(value: Any) -> str:
    kind = ' class="number"' if _is_number(value) else ""
    return f"<td{kind}>{html.escape(readable(value))}</td>"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header><h1>{title}</h1><p class="lead">{lead}</p></header>
{numbers}
<nav>{links}</nav>
<main>
{sections}
</main>
<footer>{footer}</footer>
</body>
</html>
"""
