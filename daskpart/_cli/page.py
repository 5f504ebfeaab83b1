"""One self-contained page about a run: numbers in tables, pictures inside the file.

    base.html         heading, key numbers, links to the sections, style
      fit.html          a fitted model: communication, plan, run, use, settings
        mf.html, cp.html
      partition.html, comparison.html, parsa.html

A page needs no script, no font and no picture from elsewhere; all that templates put in is escaped.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup, escape

from daskpart._floor.tables import VAST, readable

from .files import text_file
from .pictures import Album, Picture

_PACKAGES = ("daskpart", "numpy", "scipy", "numba", "dask", "distributed", "sparse", "scikit-learn")


def write_page(template: str, album: Album, **content: Any) -> list[tuple[Path, str]]:
    """Write report.html beside its pictures; these files and what they are.

    Parameters
    ----------
    template : str
        A file in `templates`.
    album : Album
        With the pictures that the template asks for; those that were not drawn are left out.
    **content
        What the template names; all of them ``title`` and ``lead``.
    """
    page, path = render(template, album.pictures, **content), album.folder / "report.html"
    with text_file(path, errors="replace") as file:  # of a name that is no UTF-8
        file.write(page)
    return [*album.files, (path, "all of it on one page: open in a browser")]


def render(template: str, pictures: Mapping[str, Picture], **content: Any) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "as_text": as_text,
        "is_number": is_number,
        "as_sentence": as_sentence,
    }
    macros: Any = environment.get_template("macros.html").module
    headings: list[str] = []

    def section(heading: str) -> Markup:
        headings.append(heading)
        return Markup(f'<h2 id="section-{len(headings) - 1}">{escape(heading)}</h2>')

    def picture(name: str) -> str:
        return macros.picture(pictures[name]) if name in pictures else ""

    environment.globals |= {
        "code": macros.code,
        "frame": frame,
        "grid": macros.grid,
        "headings": headings,
        "picture": picture,
        "pictures": pictures,
        "section": section,
        "table": macros.table,
        "versions": versions(),
    }
    return environment.get_template(template).render(content)


def frame(data: Any) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """Heads and lines of a data frame; columns that hold nothing are left out."""
    data = data.dropna(axis="columns", how="all") if len(data) else data
    heads = [str(name).replace("_", " ") for name in data.columns]
    return heads, list(zip(*(data[name].tolist() for name in data.columns), strict=True))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    found = {"Python": platform.python_version(), "system": platform.platform(terse=True)}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def as_text(value: Any) -> str:
    """A value as a reader wants it: numbers as in tables, yes and no, short lists."""
    value = value.item() if isinstance(value, np.generic) else value
    is_empty = isinstance(value, Sized) and not len(value)
    if value is None or is_empty or (isinstance(value, float) and np.isnan(value)):
        return "–"  # an empty cell looks forgotten
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_text(entry)}" for name, entry in value.items())
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        entries = [as_text(entry) for entry in value[:8]]
        return ", ".join(entries) + (", …" if len(value) > 8 else "")
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < VAST
    return readable(int(value) if is_whole else value)


def as_sentence(words: str) -> Markup:
    """Words with a capital, and options such as --max-iter as code, that no line breaks."""
    shown = str(escape(words[:1].upper() + words[1:]))
    return Markup(re.sub(r"--[\w-]*\w", r"<code>\g<0></code>", shown))


def is_number(value: Any) -> bool:
    """Whether a value stands to the right in its column."""
    kinds = int | float | np.integer | np.floating
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_)


def write_json(path: Path, content: dict[str, Any]) -> Path:
    """Write numbers, text, paths and numpy values as JSON, indented; null where none is finite."""
    text = json.dumps(_strict(content), indent=2, default=as_text, allow_nan=False)
    with text_file(path) as file:
        file.write(text + "\n")
    return path


def _strict(value: Any) -> Any:
    """The same without NaN and infinity, which JSON does not have and many readers refuse."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
