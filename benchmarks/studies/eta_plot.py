"""Plot and words of the study of η: three panels like Fig. 5 of the paper, and its Table 2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskpart.plots.canvas import RANK_COLOURS, quiet_frame, shorten

from .output import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .eta import Line

COLOUR = {"RAND": RANK_COLOURS[1], "HP-λ²": RANK_COLOURS[0]}
MARKERS = ("o", "s", "^")
PANELS = (
    ("staleness", "stale rows an epoch"),
    ("volume", "rows sent an epoch"),
    ("test_rmse", "test RMSE"),
)
TABLE_ETA = 32


def draw(lines: Sequence[Line], path: Path) -> None:
    """Staleness, volume and RMSE against η, for the largest K; colour: method, dash: data set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    n_ranks = max(line.n_ranks for line in lines)
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, (field, label) in zip(panels, PANELS, strict=True):
        _draw_panel(axes, [line for line in lines if line.n_ranks == n_ranks], field)
        axes.set_xscale("log", base=2)
        etas = sorted({line.eta for line in lines if line.n_ranks == n_ranks})
        axes.set_xticks(etas, [str(eta) for eta in etas])
        axes.minorticks_off()
        axes.set_xlabel("η, synchronisations an epoch")
        axes.set_title(f"{label}, K = {n_ranks}", loc="left", fontsize=10)
        if field != "test_rmse":
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shorten(value)))
        quiet_frame(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_panel(axes: Axes, lines: Sequence[Line], field: str) -> None:
    names = list(dict.fromkeys(line.data for line in lines))
    for name, marker in zip(names, MARKERS, strict=False):
        for method, colour in COLOUR.items():
            points = [
                (line.eta, getattr(line, field))
                for line in lines
                if line.data == name and line.method == method and getattr(line, field) is not None
            ]
            axes.plot(
                *zip(*points, strict=True) if points else ([], []),
                marker=marker, markersize=4, color=colour, linewidth=1.6,
                linestyle="-" if name == names[0] else (0, (4, 2)), label=f"{name}, {method}",
            )  # fmt: skip


def table_2(lines: Sequence[Line]) -> str:
    """Values at η = 32 over those at η = 1, HP-λ²."""
    found = {(line.data, line.n_ranks, line.method, line.eta): line for line in lines}
    rows: list[list[Any]] = []
    for data, n_ranks in dict.fromkeys((line.data, line.n_ranks) for line in lines):
        one = found.get((data, n_ranks, "HP-λ²", 1))
        many = found.get((data, n_ranks, "HP-λ²", TABLE_ETA))
        if one is None or many is None:
            continue
        rmse = many.test_rmse / one.test_rmse if many.test_rmse and one.test_rmse else None
        staleness = many.staleness / one.staleness if one.staleness else None
        rows.append([data, n_ranks, staleness, many.volume / one.volume, rmse])
    for row in rows:
        row[2:] = [None if value is None else f"{value:.2f}" for value in row[2:]]
    return markdown_table(("data", "K", "staleness", "volume", "RMSE"), rows)


def full_table(lines: Sequence[Line]) -> str:
    """Test RMSE of everything that was trained: a line a (K, method), a column an η."""
    etas = sorted({line.eta for line in lines})
    rows = []
    for key in dict.fromkeys((line.data, line.n_ranks, line.method) for line in lines):
        of_eta = {
            line.eta: line.test_rmse
            for line in lines
            if (line.data, line.n_ranks, line.method) == key and line.test_rmse is not None
        }
        if of_eta:
            rows.append([*key, *(f"{of_eta[eta]:.4f}" if eta in of_eta else None for eta in etas)])
    return markdown_table(("data", "K", "method", *(f"η = {eta}" for eta in etas)), rows)


def section(lines: Sequence[Line]) -> str:
    """The section's text: what was run, the picture, Table 2, and all RMSE."""
    trained = [line for line in lines if line.test_rmse is not None]
    untrained = sorted({line.data for line in lines} - {line.data for line in trained})
    epochs, width = (
        " and ".join(map(str, sorted({getattr(line, name) for line in trained})))
        for name in ("epochs", "n_components")
    )
    alone = f" Of {', '.join(untrained)} only volume and staleness are shown." if untrained else ""
    return (
        "A simulation of Fig. 5 and Table 2 of the η-PASGD paper on smaller, real ratings: all K "
        "ranks in one process, every message sent and counted. Volume and staleness are exact for "
        "the whole grid (eq. 8 and 9), and equal to the counted ones in each trained run. RMSE is "
        f"that of 10 % held-out ratings after {epochs} epochs, {width} components, AdaGrad from "
        "0.1, regularization 0.05; trained was what the last table shows, in "
        f"{sum(line.seconds for line in trained) / 60:.0f} process minutes.{alone}\n\n"
        "![Staleness, volume and RMSE over η](eta.png)\n\n"
        f"HP-λ² at η = {TABLE_ETA} over HP-λ² at η = 1, as in Table 2 (below 1: better):\n\n"
        f"{table_2(lines)}\n\nTest RMSE of every run:\n\n{full_table(trained)}"
    )
