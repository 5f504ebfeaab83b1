"""Methods of partitioning beside each other: every metric relative to the first method."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from daskpart._floor.checks import require_like
from daskpart._floor.words import counted

from .canvas import RANK_COLOURS, axes_or_new, plain, quiet_frame, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from daskpart.partitioners.comparison import Comparison

_LINE = 64  # letters under the picture
_NOT_DRAWN = ("imbalance", "seconds")  # told in the labels: neither is a volume


def partition_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """A group of bars a metric, a bar a method, each as a share of what the first method has.

    A metric in which all methods are equal is not drawn, and named under the picture instead; all
    are drawn where methods differ in none. So is one in which the first method has 0, of which
    nothing is a share.

    Parameters
    ----------
    comparison : Comparison
        From `daskpart.compare_partitions`; the first method, say random, is the yardstick.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> from daskpart import plots
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> found = daskpart.compare_partitions(X, 4, ["random", "direct"], ["connectivity"])
    >>> ax = plots.partition_comparison(found)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('', 'relative to random')
    """
    require_like(comparison, "comparison", ("metrics", "values"), "what compare_partitions gives")
    volumes = [metric for metric in comparison.metrics if metric not in _NOT_DRAWN]
    rows = comparison.values.values()
    alike = [metric for metric in volumes if len({row[metric] for row in rows}) == 1]
    if len(alike) == len(volumes):
        alike = []
    methods = list(comparison.values)
    base = comparison.values[methods[0]]
    same = ", ".join(f"{metric} ({base[metric]:,})" for metric in alike)
    under = [f"the same for all methods: {same}"] if same else []
    for metric in volumes:
        if not base[metric] and metric not in alike:
            others = (f"{name} {comparison.values[name][metric]:,}" for name in methods[1:])
            under.append(f"{metric}: {', '.join((f'{methods[0]} 0', *others))}")
    metrics = [metric for metric in volumes if metric not in alike and base[metric]]
    ax = axes_or_new(ax, (max(6.0, 1.7 * len(metrics)), 3.8))
    width = 0.84 / len(methods)
    names = shortened(methods)
    for place, (method, name) in enumerate(zip(methods, names, strict=True)):
        row = comparison.values[method]
        shares = [row[metric] / base[metric] for metric in metrics]
        where = np.arange(len(metrics)) + (place - (len(methods) - 1) / 2) * width
        told = f" ({row['seconds']:.2g} s)" if row["seconds"] == row["seconds"] else ""
        times, colour = divmod(place, len(RANK_COLOURS))
        ax.bar(
            where,
            shares,
            0.92 * width,
            color=RANK_COLOURS[colour],
            edgecolor="white",
            linewidth=0,
            hatch="//" * times,  # when the colours begin again
            label=name + told,
        )
    ax.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
    ax.set_xticks(range(len(metrics)), [metric.replace("-", "-\n") for metric in metrics])
    ax.set_ylabel(f"relative to {names[0]}")
    if under:
        lines = "\n".join(fill(each, _LINE) for each in under)
        ax.set_xlabel(plain(lines), fontsize=8)
    quiet_frame(ax)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.set_title(counted(comparison.n_parts, "part"), fontsize=10, loc="left")
    return ax
