"""Charts of a partition's numbers, and of the traffic between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import real_numbers, whole_numbers
from daskpart._floor.words import plural
from daskpart.errors import InputError

from .canvas import (
    MOST_LABELS,
    RANK_COLOURS,
    axes_or_new,
    bar_style,
    legend_inside,
    plain,
    quiet_frame,
    shorten,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AN_EPOCH = "rows an epoch"


def connectivity_histogram(
    histogram: Any, *, item: str = "column", items: str | None = None, ax: Axes | None = None
) -> Axes:
    """How many columns are shared by how many parts.

    Parameters
    ----------
    histogram : int[K + 1], or a Connectivity
        Entry λ counts the items that λ parts touch; entry 0 (items nobody touches) is not drawn.
    item, items : str
        What parts share, one and many, for the labels; many have the usual plural if not given.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from daskpart import plots
    >>> ax = plots.connectivity_histogram([0, 90, 8, 2])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('connectivity λ (parts that touch the column)', 'number of columns')
    """
    if hasattr(histogram, "histogram"):
        histogram = histogram.histogram()
    counts = whole_numbers(histogram, "count")[1:]
    shown = max(int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 1, 2)
    counts = np.append(counts, (0, 0))[:shown]  # of one part there is no λ = 2
    connectivity, style = np.arange(1, shown + 1), bar_style(shown)
    ax = axes_or_new(ax, (6.0, 3.4))
    ax.bar(connectivity[:1], counts[:1], color=RANK_COLOURS[2], label="local (λ = 1)", **style)
    ax.bar(connectivity[1:], counts[1:], color=RANK_COLOURS[0], label="linking", **style)
    most = max(float(counts.max()), 1.0)
    if most > 50 * counts[counts > 0].min(initial=int(most)):
        ax.set_yscale("log")
        ax.set_ylim(0.7, most * (most / 0.7) ** 0.35)  # the legend stands above the bars
    else:
        ax.set_ylim(0, 1.35 * most)
        whole_ticks(ax.yaxis)
        ax.yaxis.set_major_formatter(lambda value, _: shorten(value))
    if shown <= 12:
        for place, count in zip(connectivity, counts, strict=True):
            if count:
                ax.annotate(
                    shorten(count),
                    (place, count),
                    (0, 2),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
    ax.set_xlim(0.4, shown + 0.6)  # of what nobody touches there is no bar
    whole_ticks(ax.xaxis)
    ax.set_xlabel(plain(f"connectivity λ (parts that touch the {item})"))
    ax.set_ylabel(plain(f"number of {items or plural(str(item))}"))
    quiet_frame(ax)
    legend_inside(ax, ncols=2, loc="upper right")
    return ax


def part_weights(
    weights: Sequence[float] | NDArray[Any],
    *,
    unit: str = "nonzeros",
    ax: Axes | None = None,
) -> Axes:
    """The load of each part against their mean.

    Parameters
    ----------
    weights : int[K]
        Weight of each part: ``Partition.part_weights``.
    unit : str, default="nonzeros"
        What is counted, for the label.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there is no part, or a weight is no number, or below 0.

    Examples
    --------
    >>> from daskpart import plots
    >>> ax = plots.part_weights([100, 104, 96])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('rank', 'weight (nonzeros)')
    """
    load = real_numbers(weights, "weight")
    if not load.size:
        raise InputError("there are no weights: give a number for each of one part or more")
    n_wrong = int(np.count_nonzero(load < 0))
    if n_wrong:
        raise InputError(
            f"{n_wrong} of {len(load)} weights are below 0, the least is {load.min():g}: a part "
            "weighs 0 or more"
        )
    ax = axes_or_new(ax, (6.0, 3.0))
    colours = [RANK_COLOURS[part % len(RANK_COLOURS)] for part in range(len(load))]
    ax.bar(np.arange(len(load)), load, color=colours, **bar_style(len(load)))
    mean = load.mean()
    over = max(load.max() / mean - 1, 0.0) if mean else 0.0  # rounding is no "-0.0%"
    ax.axhline(
        mean,
        color="black",
        linestyle="--",
        linewidth=1.0,
        label=f"mean; the heaviest is {over:.1%} above",
    )
    ax.set_ylim(0, load.max() * 1.25 if load.max() else 1.0)
    ax.set_xlim(-0.6, len(load) - 0.4)  # no tick stands beside the last rank
    whole_ticks(ax.xaxis)
    if (load == np.round(load)).all():
        whole_ticks(ax.yaxis)
    ax.yaxis.set_major_formatter(lambda value, _: shorten(value))
    ax.set_xlabel("rank")
    ax.set_ylabel(plain(f"weight ({unit})"))
    quiet_frame(ax)
    legend_inside(ax, loc="upper right")
    return ax


def traffic(rows: Any, *, unit: str | None = None, ax: Axes | None = None) -> Axes:
    """Heat map of who sends how much to whom, rank × rank.

    Parameters
    ----------
    rows : [K, K], or a run, or a plan
        Entry (s, d): what rank s sends to rank d. A communicator or its counters stand for the
        bytes that were sent so far (`Counters.traffic` picks rounds by their label, or rows), a
        plan for the rows that it sends, a communication report for rows an epoch or iteration,
        or bytes where arrays travel and no rows.
    unit : str, optional
        What an entry counts, for the colour bar. Default: as above, or rows an epoch.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there is no table of ranks × ranks in what is given, or not of numbers.

    Examples
    --------
    >>> from daskpart import plots
    >>> ax = plots.traffic([[0, 3], [2, 0]])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('to rank', 'from rank')
    """
    table, known = _table_of(rows)
    unit = unit or known
    sent = real_numbers(table, "traffic count", 2)
    if sent.shape[0] != sent.shape[1] or not sent.size:
        raise InputError(f"traffic has the shape {sent.shape}; it must be ranks × ranks")
    n_ranks = len(sent)
    ax = axes_or_new(ax, (5.0, 4.2))
    shown = np.ma.masked_where(np.eye(n_ranks, dtype=bool) & (sent == 0), sent)
    largest = float(sent.max(initial=0.0)) or 1.0
    image = ax.imshow(shown, cmap="Blues", vmin=0, vmax=largest)
    ax.set_facecolor("#EEEEEE")
    bar = ax.figure.colorbar(image, ax=ax, label=plain(unit), shrink=0.85)
    if (sent == np.round(sent)).all():
        whole_ticks(bar.ax.yaxis)
    bar.ax.yaxis.set_major_formatter(lambda value, _: shorten(value))
    bar.outline.set_visible(False)
    if not sent.any():
        bar.set_ticks([0])  # nothing was sent: no other number means anything
    if n_ranks <= 12:
        for source, destination in zip(*np.nonzero(sent), strict=True):
            count = sent[source, destination]
            ink = "white" if count > 0.6 * largest else "black"
            ax.text(
                destination,
                source,
                shorten(count),
                ha="center",
                va="center",
                color=ink,
                fontsize=9 if n_ranks <= 8 else 7,
            )
    if n_ranks <= MOST_LABELS:
        ax.set_xticks(range(n_ranks))
        ax.set_yticks(range(n_ranks))
    else:
        whole_ticks(ax.xaxis)
        whole_ticks(ax.yaxis)
    ax.set_xlabel("to rank")
    ax.set_ylabel("from rank")
    return ax


def _table_of(given: Any) -> tuple[Any, str]:
    """Ranks × ranks of what was given, and what its entries count."""
    given = getattr(given, "counters", given)
    if hasattr(given, "traffic"):
        if hasattr(given, "bytes_sent"):
            return given.traffic(quantity="bytes"), "bytes"
        if callable(given.traffic):
            return given.traffic(), "rows"
        step = getattr(given, "unit", "epoch")
        what, table = getattr(given, "sent", ("rows", given.traffic))
        return table, f"{what} an {step}"  # or iteration
    return given, _AN_EPOCH
