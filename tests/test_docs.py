"""The pages' code can be typed: what Sphinx does not run is looked at here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md"))
    if "```python" in path.read_text() or "{code-cell}" in path.read_text()
]
CELLS = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|:.*\n)+", re.DOTALL | re.MULTILINE)
# what a reader has: a client, values of four ranks, a module of PyTorch Geometric
READERS_OWN = {"client", "a", "b", "c", "d", "theirs"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_is_imported_or_made_on_its_page(page: Path) -> None:
    code = "\n".join(OPTIONS.sub("", cell) for cell in CELLS.findall(page.read_text()))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format", "concise"]
    looked = subprocess.run(
        [*ruff, "--select", "F821", "-"], input=code, capture_output=True, text=True, check=False
    )
    assert looked.returncode in (0, 1), looked.stderr
    found = [line for line in looked.stdout.splitlines() if line.startswith("-:")]
    unknown = [each for each in found if not READERS_OWN & set(re.findall(r"`(\w+)`", each))]
    assert not unknown, "\n".join(unknown)


def test_pages_are_found() -> None:
    assert len(PAGES) > 12
