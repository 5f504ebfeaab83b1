"""Damaged files end in an error that names the file, or in the right data: thousands of them.

They are read in a process of their own, as what a damaged file can do is end the interpreter.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from . import fuzz_readers

CASES = 70


@pytest.mark.slow
def test_damaged_files(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(fuzz_readers.__file__)), str(tmp_path), str(CASES)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=250)
    case = (tmp_path / "case").read_text() if (tmp_path / "case").exists() else "none"
    assert child.returncode == 0, (
        f"the reading process ended with {child.returncode}, its last case was {case}:\n"
        f"{child.stdout[-4000:]}{child.stderr[-4000:]}"
    )
    assert len(child.stdout.splitlines()) == len(fuzz_readers.FILES)
