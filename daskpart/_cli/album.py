"""Pictures of a run: each is saved as a PNG beside the results and stands in the report too."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from daskpart.report import Report

from .terminal import say

_DPI = 144


class Album:
    """Draws into files and into a page.

    Parameters
    ----------
    folder : Path
        Where the PNG files go.
    page : Report
        The page whose current section gets each picture.
    wanted : bool
        False draws nothing.
    """

    def __init__(self, folder: Path, page: Report, wanted: bool = True) -> None:
        self.folder, self.page = folder, page
        can_draw = find_spec("matplotlib") is not None
        if wanted and not can_draw:
            say("note: no pictures without matplotlib: pip install 'daskpart[plot]'")
        self.draws = wanted and can_draw
        self.files: list[Path] = []

    def draw(
        self,
        name: str,
        size: tuple[float, float],
        *drawings: Callable[..., Any],
        alt: str,
        caption: str,
    ) -> None:
        """Draw side by side, one axes a function (it is called with ``ax=``), and save."""
        if not self.draws:
            return
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        places = figure.subplots(1, len(drawings), squeeze=False)[0]
        for place, drawing in zip(places, drawings, strict=True):
            drawing(ax=place)
        path = self.folder / f"{name}.png"
        figure.savefig(path, dpi=_DPI)
        self.files.append(path)
        self.page.picture(figure, alt, caption)
