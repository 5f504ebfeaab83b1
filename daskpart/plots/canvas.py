"""What every picture shares: where it is drawn, its colours, its frame, short counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, takewhile
from operator import eq
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import require_like
from daskpart.errors import MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

RANK_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5B5B5B")
MOST_LABELS = 16  # ranks whose names still fit beside an axis
_LONGEST_NAME = 24
_MOST_BARS = 60  # with gaps between them


def axes_or_new(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """The axes to draw on: the caller's, or those of a new figure."""
    if ax is not None:
        require_like(
            ax, "ax", ("imshow", "spines"), "the axes of one picture, as figure.subplots()"
        )
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as missing:
        raise MissingPackageError(
            "daskpart.plots needs matplotlib: pip install 'daskpart[plot]'"
        ) from missing
    _, created = pyplot.subplots(figsize=figsize, layout="constrained")
    return created


def quiet_frame(ax: Axes, grid: str | None = "y") -> None:
    """Leave the data more ink than the frame."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(axis=grid, color="#DDDDDD", linewidth=0.6)  # type: ignore[arg-type]
        ax.set_axisbelow(True)


def legend_inside(ax: Axes, **options: Any) -> None:
    """A legend over the picture, which takes no room from small axes beside others."""
    ax.legend(frameon=False, fontsize=8, **options).set_in_layout(False)


def whole_ticks(axis: Axis) -> None:
    """Ticks at integers only, as many as fit: epochs, ranks and parts come in ones."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=(1, 2, 5, 10)))


def logarithmic(ax: Axes, which: str, low: float, high: float) -> None:
    """A logarithmic axis ("x" or "y") of seconds from `low` to `high`, both above 0.

    It has few labels, which would overlap in a small picture.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    steps = (1.0,) if high > 3e4 * low else (1.0, 3.0) if high > 30 * low else (1.0, 2.0, 5.0)
    ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: time_words(value))
    axis.set_minor_formatter(NullFormatter())


def bar_style(n_bars: int) -> dict[str, Any]:
    """Width of bars; many get no gaps, and no rounding to pixels, which would drop some."""
    return {"width": 0.8} if n_bars <= _MOST_BARS else {"width": 1.0, "snap": False}


def plain(name: Any) -> str:
    """A name as a label: matplotlib would read what stands between dollars as mathematics, and
    leave a name that begins with an underscore out of a legend."""
    shown = str(name).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def shortened(names: Iterable[Any]) -> list[str]:
    """Labels that stand beside one another, and leave room for what they name.

    A long name is its beginning; where another one begins alike, as features and addresses do, it
    is less of that, and the letters about the first one that tells them apart.
    """
    whole = [str(name) for name in names]
    alike = dict.fromkeys(whole, 0)
    for one, other in pairwise(sorted(alike)):  # none has more in common with a name than these
        common = sum(takewhile(bool, map(eq, one, other)))
        alike[one], alike[other] = max(alike[one], common), common
    return [plain(_shortened(name, alike[name])) for name in whole]


def _shortened(name: str, n_alike: int) -> str:
    """The name itself, or `_LONGEST_NAME` letters; others have the first `n_alike` of it, too."""
    if len(name) <= _LONGEST_NAME:
        return name
    if n_alike < _LONGEST_NAME - 1:
        return f"{name[: _LONGEST_NAME - 1]}…"
    half = _LONGEST_NAME // 2
    start = n_alike - half // 2
    end = name[-half:] if start + half >= len(name) else f"{name[start : start + half - 1]}…"
    return f"{name[: half - 1]}…{end}"


def rgb(colour: str) -> NDArray[np.float64]:
    """``#RRGGBB`` as three numbers from 0 to 1."""
    return np.array([int(colour[start : start + 2], 16) for start in (1, 3, 5)]) / 255.0


def time_words(seconds: float) -> str:
    """A time in the unit that fits: 20 µs, 1.5 s."""
    for size, unit in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")):
        shown = f"{seconds / size:.3g}"
        if 0 < float(shown) < 1000:
            return f"{shown} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def shorten(count: float) -> str:
    """A count that fits in a small cell: 950, 12k, 3.4M."""
    for size, unit in ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")):
        shown = f"{count / size:.3g}"
        if not float(shown) >= 1000:  # 999,600 is 1M, not 1e+03k
            return f"{shown}{unit}"
    return f"{count / 1e12:.3g}T"
