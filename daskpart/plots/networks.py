"""Pictures of networks on graphs: confusion, embedding, own rows and halo."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from daskpart._floor.checks import amounts, as_array, real_numbers, several, whole_numbers
from daskpart._floor.words import counted
from daskpart.errors import InputError

from .canvas import (
    RANK_COLOURS,
    axes_or_new,
    bar_style,
    quiet_frame,
    shorten,
    shortened,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES = 12  # that still get a colour and a line in the legend
_LEGEND_MARKER = 20.0  # points², of any number of vertices
_MOST_NAMES = 45  # beside an axis
_MOST_LETTERS = 64  # in a line across the cells


def confusion(counts: ArrayLike, classes: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """How often each true class (row) was predicted as each class (column).

    A cell is the darker, the larger its share of its row.

    Parameters
    ----------
    counts : int[n, n]
    classes : sequence of n names
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Without names where there are too many.

    Raises
    ------
    InputError
        If there is not a name for each line.

    Examples
    --------
    >>> from daskpart import plots
    >>> ax = plots.confusion([[8, 2], [1, 9]], ["cat", "dog"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('predicted', 'true')
    """
    table = real_numbers(counts, "count", 2)
    classes = several(classes, "classes", "a name for each class")
    if table.shape != (len(classes), len(classes)):
        raise InputError(
            f"counts of shape {table.shape} for {len(classes)} classes: give "
            f"{(len(classes), len(classes))}"
        )
    ax = axes_or_new(ax, size_of_confusion(len(classes)))
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    cells = {(i, j): shorten(table[i, j]) for i, j in zip(*np.nonzero(table), strict=True)}
    if len(table) * max(map(len, cells.values()), default=0) <= _MOST_LETTERS:
        for (i, j), count in cells.items():
            colour = "white" if shares[i, j] > 0.5 else "black"
            ax.text(j, i, count, ha="center", va="center", color=colour, fontsize=7)
    some = classes if len(table) <= _MOST_NAMES else []
    names = shortened(some)
    beside = pairwise(names)  # each reaches half its length to either side
    widest = max(((len(one) + len(other)) / 2 + 1 for one, other in beside), default=0)
    upright = len(names) * widest <= _MOST_LETTERS
    ax.set_xticks(range(len(names)), names, rotation=0 if upright else 90, fontsize=7)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    return ax


def size_of_confusion(n_classes: int) -> tuple[float, float]:
    """Inches in which the names of so many classes do not overlap."""
    more = 0.1 * max(n_classes - 16, 0) if n_classes <= _MOST_NAMES else 0.0
    return 5.6 + more, 4.8 + more


def embedding(values: ArrayLike, classes: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Vertices on the two principal components of their embedding, a colour a class.

    Rows are brought to length 1 before, as a few long ones would hide the others.

    Parameters
    ----------
    values : float[n, d]
        ``GCNClassifier.transform``.
    classes : [n]
        Of the vertices; the most frequent get a colour of their own, and a line of the legend,
        which stands beside the axes where the figure has a layout, as ``layout="constrained"``,
        else inside them.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there is not a class for each vertex, or the embedding is not of numbers.

    Examples
    --------
    >>> import numpy
    >>> from daskpart import plots
    >>> values = numpy.random.default_rng(0).normal(size=(100, 8))
    >>> ax = plots.embedding(values, ["cat", "dog"] * 50)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('first component', 'second component')
    """
    rows, given = real_numbers(values, "value", 2), as_array(classes, "class labels")
    if not rows.size or given.shape != rows.shape[:1]:
        raise InputError(f"an embedding of shape {rows.shape} and {given.shape} classes don't fit")
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    rows = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    centred = rows - rows.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    plane = centred @ axes[:, ::-1][:, :2]
    plane = plane if plane.shape[1] == 2 else np.column_stack([plane, np.zeros(len(plane))])
    ax = axes_or_new(ax, (6.0, 4.6))
    names, counts = np.unique(given, return_counts=True)
    shown = names[np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])]
    size = float(np.clip(8000 / len(plane), 2, _LEGEND_MARKER))
    rest = ~np.isin(given, shown)
    for place, (name, label) in enumerate(zip(shown, shortened(shown), strict=True)):
        colour = RANK_COLOURS[place % len(RANK_COLOURS)]
        marker = "o^s"[place // len(RANK_COLOURS) % 3]
        some = given == name
        ax.scatter(plane[some, 0], plane[some, 1], s=size, color=colour, marker=marker,
                   linewidths=0, alpha=0.8, label=label)  # fmt: skip
    if rest.any():
        ax.scatter(plane[rest, 0], plane[rest, 1], s=size, color="#CCCCCC", zorder=0,
                   linewidths=0, label=counted(len(names) - len(shown), "other"))  # fmt: skip
    ax.set_xlabel("first component")
    ax.set_ylabel("second component")
    quiet_frame(ax, None)
    # beside the axes where a layout makes room for it, else neighbours stand there
    if ax.figure.get_layout_engine() is None:
        key = ax.legend(framealpha=0.7, fontsize=7, loc="upper right")
    else:
        key = ax.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    for handle in key.legend_handles:
        handle.set_sizes([_LEGEND_MARKER])  # type: ignore[union-attr]
    return ax


def halo(n_own: ArrayLike, n_halo: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Own rows of each rank, and those of others that it reads.

    Parameters
    ----------
    n_own, n_halo : int[K]
        ``GCNPlanReport.n_own`` and ``n_halo``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If these are no numbers of rows, one of each a rank.

    Examples
    --------
    >>> from daskpart import plots
    >>> ax = plots.halo([10, 12], [3, 4])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('rank', 'rows')
    """
    own = whole_numbers(n_own, "number of own row")
    others = amounts(n_halo, len(own), "number of halo row")
    ax = axes_or_new(ax, (5.0, 3.4))
    ranks = np.arange(len(own))
    ax.bar(ranks, own, color=RANK_COLOURS[0], label="own", **bar_style(len(own)))
    ax.bar(ranks, others, bottom=own, color=RANK_COLOURS[5], label="halo", **bar_style(len(own)))
    ax.set_xlabel("rank")
    ax.set_ylabel("rows")
    # the legend stands above the bars, also above those of axes that share the scale
    ax.set_ylim(0, max(1.2 * float((own + others).max(initial=1)), ax.get_ylim()[1]))
    whole_ticks(ax.xaxis)
    whole_ticks(ax.yaxis)
    quiet_frame(ax)
    ax.legend(frameon=False, ncols=2, loc="upper right")
    return ax
