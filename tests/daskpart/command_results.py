"""What a command wrote: its numbers, and models of a fit that was broken off and went on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text())


def whole_and_resumed(run_cli: Callable[..., int], folder: Path, *fit: object) -> tuple[Path, Path]:
    """Models of ``daskpart fit``: of four steps at once, and of two and two."""
    kept = ("--checkpoint-path", folder / "run.npz")
    for out, steps, more in (("whole", 4, ()), ("part", 2, kept), ("rest", 4, (*kept, "--resume"))):
        options = (*more, "--max-iter", steps, "--no-plots", "--out", folder / out)
        assert run_cli("fit", *fit, *options) == 0
    done, after = ((folder / out / "history.csv").read_text() for out in ("part", "rest"))
    assert after.startswith(done)  # with their seconds: nothing was done again
    return folder / "whole" / "model", folder / "rest" / "model"
