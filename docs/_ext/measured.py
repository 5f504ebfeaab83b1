"""Puts the committed results of the benchmarks into the page that asks for them.

    docs/benchmarks/kernel.md     a section, as it stands (headings from ## down)
    docs/benchmarks/table.csv     a section: its # lines are the words, the first of them the title
    docs/benchmarks/table.png     the plot shown below the table of the same name

The page says ``<!-- measured -->`` where they go. So what the page shows is what a script wrote.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from sphinx.application import Sphinx

MARK = "<!-- measured -->"
PICTURES = (".svg", ".png")


def section_from_csv(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    words = [line.lstrip("# ").rstrip() for line in lines if line.startswith("#")]
    rows = list(csv.reader(line for line in lines if line and not line.startswith("#")))
    title = words[0] if words else path.stem.replace("_", " ").replace("-", " ").capitalize()
    table = ["| " + " | ".join(row) + " |" for row in rows]
    table.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join([f"## {title}", "", *words[1:], "", *table, ""])


def section_from_markdown(path: Path) -> str:
    """The file's text, with picture paths as seen from the page that takes it in."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"(!\[[^\]]*\]\()(?!/|https?:)", rf"\1{path.parent.name}/", text)


def sections(folder: Path) -> str:
    written = []
    for path in sorted(folder.glob("*.*")):
        if path.suffix == ".md":
            written.append(section_from_markdown(path))
        elif path.suffix == ".csv":
            written.append(section_from_csv(path))
            for suffix in PICTURES:
                if path.with_suffix(suffix).exists():
                    picture = f"{folder.name}/{path.stem}{suffix}"
                    written.append(f"![{path.stem}]({picture})\n")
                    break
    return "\n\n".join(written)


def insert_sections(app: Sphinx, docname: str, source: list[str]) -> None:
    if MARK in source[0]:
        folder = Path(app.srcdir) / "benchmarks"
        app.env.note_dependency(str(folder))
        source[0] = source[0].replace(MARK, sections(folder))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", insert_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
