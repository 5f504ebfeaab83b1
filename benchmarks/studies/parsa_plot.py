"""Pictures and words of the study of Parsa."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskpart.plots.canvas import RANK_COLOURS, quiet_frame

from .output import markdown_table
from .parsa import BLOCKS, SCHEDULES, WORKERS, Line, slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = ("memory_maximum", "memory_total", "traffic_maximum", "traffic_total")
MARKERS = ("o", "s", "^", "D")
# slope is taken above this many edges: below, calls and allocations are what takes the time
LEAST_EDGES = 100_000


def _of(lines: Sequence[Line], experiment: str) -> list[Line]:
    return [line for line in lines if line.experiment == experiment]


def draw(lines: Sequence[Line], path: Path) -> None:
    """Seconds against |E|; what τ costs; peak memory against the limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.8), layout="constrained")
    growth, delay, memory = figure.subplots(1, 3)
    _draw_growth(growth, _of(lines, "growth"))
    _draw_delay(delay, lines)
    _draw_memory(memory, _of(lines, "memory"))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_growth(axes: Axes, lines: Sequence[Line]) -> None:
    names = list(dict.fromkeys(line.data for line in lines))
    parts = sorted({line.n_parts for line in lines})
    for name, style in zip(names, ("-", (0, (4, 2)), ":"), strict=False):
        for place, n_parts in enumerate(parts):
            points = [
                (line.n_edges, line.seconds)
                for line in lines
                if (line.data, line.n_parts) == (name, n_parts) and line.seconds
            ]
            if points:
                axes.plot(
                    *zip(*points, strict=True), marker=MARKERS[place % 4], markersize=4,
                    linestyle=style, color=RANK_COLOURS[place], label=f"{name}, k = {n_parts}",
                )  # fmt: skip
    if lines:
        ends = [min(line.n_edges for line in lines), max(line.n_edges for line in lines)]
        axes.plot(ends, [edges * 1e-7 for edges in ends], color="0.6", linewidth=1,
                  label="10⁷ edges a second")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize=7, handlelength=3.5, markerscale=0.8)
    axes.set_xlabel("edges |E|")
    axes.set_title("CPU seconds, whole run", loc="left", fontsize=10)
    quiet_frame(axes, "both")


def _draw_delay(axes: Axes, lines: Sequence[Line]) -> None:
    names = list(dict.fromkeys(line.data for line in _of(lines, "delay")))
    for place, name in enumerate(names):
        for experiment, style in zip(SCHEDULES, ("-", (0, (4, 2))), strict=True):
            mine = [line for line in _of(lines, experiment) if line.data == name]
            base = (mine[0].traffic_maximum or 1) if mine else 1
            axes.plot(
                [line.case.removeprefix("τ = ") for line in mine],
                [(line.traffic_maximum or 0) / base for line in mine],
                marker=MARKERS[place], markersize=4, linestyle=style, color=RANK_COLOURS[place],
                label=f"{name}, {SCHEDULES[experiment]}",
            )  # fmt: skip
    axes.set_xlabel(f"τ, blocks ({WORKERS} workers, {BLOCKS} blocks)")
    axes.set_title("maximum traffic over that at τ = 0", loc="left", fontsize=10)
    if names:
        axes.legend(frameon=False, fontsize=7, handlelength=3.5)
    quiet_frame(axes)


def _draw_memory(axes: Axes, lines: Sequence[Line]) -> None:
    labels = [line.case.split(", ")[1] for line in lines]
    peaks = [line.peak_mb or 0.0 for line in lines]
    axes.bar(labels, peaks, width=0.6, color=RANK_COLOURS[0], label="peak of the run")
    for place, label in enumerate(labels):
        if label.endswith(" MB"):
            limit = float(label.removesuffix(" MB"))
            axes.plot([place - 0.4, place + 0.4], [limit, limit], color=RANK_COLOURS[1],
                      label="limit given" if place == 1 else None)  # fmt: skip
    file = lines[0].case.split(",")[0] if lines else "file"
    axes.set_title(f"MB above Python and packages, {file}", loc="left", fontsize=10)
    if lines:
        axes.legend(frameon=False, fontsize=8, loc="upper center")
    quiet_frame(axes)


def methods_table(lines: Sequence[Line]) -> str:
    """Improvement over random, in per cent, as the paper gives it."""
    rows: list[list[Any]] = []
    for line in _of(lines, "methods"):
        chance = next(
            other
            for other in _of(lines, "methods")
            if other.data == line.data and other.case == "random"
        )
        gains = [
            f"{(getattr(chance, name) - value) / value:+.0%}" if value else None
            for name in MEASURES
            for value in [getattr(line, name)]
        ]
        shown = [f"{getattr(line, name):,}" for name in MEASURES]
        cells = shown if line.case == "random" else gains
        seconds = None if line.case == "random" else line.seconds
        rows.append([line.data, line.case, *cells, f"{line.imbalance:.2%}", seconds])
    heads = [name.replace("_", ", ") for name in MEASURES]
    return markdown_table(("data", "method", *heads, "imbalance", "CPU s"), rows)


def _growth_words(lines: Sequence[Line]) -> str:
    words = []
    for name in dict.fromkeys(line.data for line in lines):
        for n_parts in sorted({line.n_parts for line in lines}):
            mine = [line for line in lines if (line.data, line.n_parts) == (name, n_parts)]
            largest = max(mine, key=lambda line: line.n_edges)
            speed = largest.n_edges / max(largest.seconds or 0, 1e-9) / 1e6
            exponent = slope(
                [(m.n_edges, m.seconds or 0) for m in mine if m.n_edges >= LEAST_EDGES]
            )
            known = f"seconds ~ |E|^{exponent:.2f}, " if exponent == exponent else ""
            words.append(
                f"- {name}, k = {n_parts}: {known}{speed:.1f} million edges a second at "
                f"|E| = {largest.n_edges:,}."
            )
    return "\n".join(words)


def _delay_table(lines: Sequence[Line]) -> str:
    rows = [
        [line.data, schedule, line.case, *(getattr(line, name) for name in MEASURES)]
        for experiment, schedule in SCHEDULES.items()
        for line in _of(lines, experiment)
    ]
    heads = [name.replace("_", ", ") for name in MEASURES]
    return markdown_table(("data", "calls", "delay", *heads), rows)


def _memory_table(lines: Sequence[Line]) -> str:
    rows = [
        [line.case, line.n_edges, line.blocks, line.peak_mb, line.seconds, line.traffic_maximum]
        for line in lines
    ]
    heads = ("file, limit", "edges", "blocks", "peak, MB", "CPU s", "traffic, maximum")
    return markdown_table(heads, rows)


def section(lines: Sequence[Line], n_parts: int) -> str:
    """The section's text."""
    return (
        f"Rows are data, columns are parameters, k = {n_parts}, every row weighs 1. Memory is "
        "|N(U_i)|, the parameters that a part needs; traffic what it fetches and serves when all "
        "pull once; parameters are placed by the same sweeps for every method (random: drawn among "
        "the parts that need one). Cells are the improvement over random, (random − x) / x, as in "
        "the paper of Parsa. METIS cuts the star expansion; direct K-way is our multilevel engine; "
        "both may go to ε = 0.03, as may the polish.\n\n"
        f"{methods_table(lines)}\n\n"
        "![Seconds against edges, loss against τ, peak memory against the limit](parsa.png)\n\n"
        "Time against |E| (rows of the data set from the first on; slope above "
        f"{LEAST_EDGES:,} edges; the whole run, placement and random parts left out):\n\n"
        f"{_growth_words(_of(lines, 'growth'))}\n\n"
        f"Parallel Parsa, {WORKERS} workers on threads, {BLOCKS} blocks; τ = 0 is the sequential "
        "result to the bit. Called in turn, workers make one call each, round after round, so at "
        "τ = 1 nothing is missed yet. *Stalest*: one worker runs ahead of the others as far as τ "
        "allows; with τ = ∞ it deals all of its blocks before the next one begins:\n\n"
        f"{_delay_table(lines)}\n\n"
        "A libsvm file in a new process; the peak is counted above what Python, the packages and "
        "the compiled kernels take:\n\n"
        f"{_memory_table(_of(lines, 'memory'))}"
    )
