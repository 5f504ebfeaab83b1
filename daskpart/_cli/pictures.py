"""Pictures of a run: each is drawn once, into a PNG beside the results that the page holds too."""

from __future__ import annotations

import base64
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from daskpart._floor.atomic import check_writable, replacing
from daskpart.errors import InputError, MissingPackageError

from .files import place_for
from .terminal import say, say_aside

_DPI = 144


@dataclass(frozen=True)
class Picture:
    """A file, and what is said of it; `width` is that on the page, in pixels."""

    file: Path
    alt: str
    caption: str
    width: int

    @property
    def data(self) -> str:
        """The file as text for a page."""
        return base64.b64encode(self.file.read_bytes()).decode()


def check_picture(path: Path) -> None:
    """Refuse as --plot, before anything is computed, a picture that cannot be drawn or written.

    Raises
    ------
    MissingPackageError
        Without matplotlib.
    InputError
        For a name that tells no kind of picture.
    OSError
        Where nothing can be written.
    """
    if find_spec("matplotlib") is None:
        raise MissingPackageError("--plot needs matplotlib: pip install 'daskpart[plot]'")
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    kind = path.suffix[1:].lower()
    if kind and kind not in known:
        raise InputError(
            f"--plot {path}: Format {kind!r} is not supported; give one of {', '.join(known)}"
        )
    check_writable(path.parent)


def begin_to_import() -> None:
    """Load what draws, half a second, while ranks train and this process waits for them."""
    if find_spec("matplotlib") is not None:
        threading.Thread(target=_import_what_draws, daemon=True).start()


def _import_what_draws() -> None:
    for module in ("matplotlib.backends.backend_agg", "matplotlib.figure"):
        import_module(module)


def save_picture(
    path: Path, size: tuple[float, float], *drawings: Callable[..., Any], columns: int | None = None
) -> None:
    """Draw side by side, one axes a function (it is called with ``ax=``), and write the file.

    `size` is that of the picture in inches; axes stand in rows of `columns`, or all in one.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    columns = columns or len(drawings)
    places = figure.subplots(-(-len(drawings) // columns), columns, squeeze=False).ravel()
    for place, drawing in zip(places, drawings, strict=False):
        drawing(ax=place)
    for place in places[len(drawings) :]:
        place.remove()
    # placed once: with a layout engine, be it "none", `savefig` draws twice
    figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
    figure.set_layout_engine(None)
    with replacing(place_for(path)) as file:
        figure.savefig(file, format=path.suffix[1:] or "png")


class Album:
    """Draws into a folder, if pictures are wanted, and keeps them by name for a template."""

    def __init__(self, folder: Path, wanted: bool = True) -> None:
        self.folder = folder
        can_draw = find_spec("matplotlib") is not None
        if wanted and not can_draw:
            say("note: no pictures without matplotlib: pip install 'daskpart[plot]'")
        self.draws = wanted and can_draw
        self.pictures: dict[str, Picture] = {}
        self._lacks_letters = False

    def draw(
        self,
        name: str,
        size: tuple[float, float],
        *drawings: Callable[..., Any],
        alt: str,
        caption: str,
        columns: int | None = None,
    ) -> None:
        """Draw and save, as `save_picture`, and keep it.

        One wider than the page shrinks, and its letters with it, so many axes stand in rows.
        """
        if not self.draws:
            return
        path = self.folder / f"{name}.png"
        with self._missing_letters_noted():
            save_picture(path, size, *drawings, columns=columns)
        self.pictures[name] = Picture(path, alt, caption, round(100 * size[0]))

    @contextmanager
    def _missing_letters_noted(self) -> Iterator[None]:
        """One note for all letters that no font has; matplotlib warns of each, in each picture."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for each in caught:
            found = re.match(r"Glyph (\d+) .* missing from", str(each.message))
            if found is None:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
            elif not self._lacks_letters:
                self._lacks_letters = True
                say_aside(
                    f"pictures lack letters, such as {chr(int(found[1]))!r}, that the fonts of "
                    "matplotlib do not have: name one that has them as font.family in matplotlibrc"
                )

    def draw_training(
        self, chart: Callable[..., Any], history: Any, what: str, caption: str
    ) -> None:
        """How training went: a chart of `daskpart.plots` over steps, and over seconds."""
        self._draw_training(
            partial(chart, history), partial(chart, history, "seconds"),
            f"{what} over steps and over seconds", caption,
        )  # fmt: skip

    def draw_held_out(
        self, chart: Callable[..., Any], history: Any, measure: str, words: str, caption: str
    ) -> None:
        """The same over steps, and what was measured on held-out data (`words`) beside it."""
        from daskpart import plots

        self._draw_training(
            partial(chart, history), partial(plots.learning_curve, history, measure, words=words),
            f"Training, and {words}, over steps", caption,
        )  # fmt: skip

    def _draw_training(self, left: Any, right: Any, alt: str, caption: str) -> None:
        self.draw("training", (9.4, 3.5), left, right, alt=alt, caption=caption)

    @property
    def files(self) -> list[tuple[Path, str]]:
        """Every picture with a word on it."""
        return [(picture.file, "picture") for picture in self.pictures.values()]
