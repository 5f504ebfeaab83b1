"""Puts the committed results of the benchmarks into the pages that ask for them.

    docs/benchmarks/kernel.md     a section, as it stands (headings from ## down)
    docs/measured/models.md       <!-- measured kernel ranks -->     shows these sections, in order

So what a page shows is what a script wrote. A section that no page shows is a warning.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

MARK = re.compile(r"<!-- measured((?: \w+)+) -->")
_logger = logging.getLogger(__name__)


def section(path: Path, below: bool) -> str:
    """The file's text, with picture paths as seen from a page in a folder beside it.

    `below` puts its headings one level down: the page has sections of its own. A word before the
    origin of the numbers keeps that list apart from one that the text ends with.
    """
    text = path.read_text(encoding="utf-8")
    text = text.replace("\n\n- Machine: ", "\n\nMeasured on:\n\n- Machine: ")
    if below:
        text = re.sub("^##", "###", text, flags=re.MULTILINE)
    return re.sub(r"(!\[[^\]]*\]\()(?!/|https?:)", rf"\1../{path.parent.name}/", text)


def sections(folder: Path, names: list[str], docname: str, below: bool) -> str:
    written = []
    for name in names:
        path = folder / f"{name}.md"
        if path.exists():
            written.append(section(path, below))
        else:
            _logger.warning("no results %s to show", path.name, location=docname)
    return "\n\n".join(written)


def insert_sections(app: Sphinx, docname: str, source: list[str]) -> None:
    folder = Path(app.srcdir) / "benchmarks"
    if MARK.search(source[0]):
        app.env.note_dependency(str(folder))
        below = re.search("^## ", source[0], re.MULTILINE) is not None
        source[0] = MARK.sub(
            lambda found: sections(folder, found.group(1).split(), docname, below), source[0]
        )


def require_all_shown(app: Sphinx) -> None:
    """Warn of results that no page names."""
    root = Path(app.srcdir)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in root.glob("measured/*.md"))
    shown = {name for found in MARK.finditer(pages) for name in found.group(1).split()}
    for path in sorted((root / "benchmarks").glob("*.md")):
        if path.stem not in shown:
            _logger.warning("no page in docs/measured shows the results %s", path.name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", insert_sections)
    app.connect("builder-inited", require_all_shown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
