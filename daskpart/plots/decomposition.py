"""Pictures of CP decompositions: what components are made of, how many to take.

loadings of component 2, mode "word"
    great   ████████████
    best    ██████████
    worst   ▒▒▒▒▒▒▒        (negative)
            └───────────── loading
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.checks import require_like, whole_number
from daskpart._floor.largest import largest
from daskpart.errors import InputError

from .canvas import RANK_COLOURS, axes_or_new, quiet_frame, shortened, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POSITIVE, _NEGATIVE = RANK_COLOURS[0], RANK_COLOURS[1]
_ALL_IN_ORDER = 100  # numeric modes up to this length are drawn whole, in their own order


def loadings(factor: Any, component: int, *, n: int | None = 10, ax: Axes | None = None) -> Axes:
    """What one component is made of, along one mode.

    Parameters
    ----------
    factor : DataArray of shape (I_m, R)
        One of ``CPDecomposition.factors_``; its labels name the bars.
    component : int
        From 0 to R − 1.
    n : int or None, default=10
        Bars: the indices with the largest loadings, largest first. None draws the mode whole, in
        its own order, as a mode of up to 100 numbers or dates is drawn in any case.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        For a component that is not there.

    Examples
    --------
    >>> import xarray
    >>> from daskpart import plots
    >>> factor = xarray.DataArray([[0.9, 0.2], [0.1, 0.8]], {"word": ["tea", "jam"]}, ("word", "r"))
    >>> ax = plots.loadings(factor, 0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('loading', 'word')
    """
    wanted = "a DataArray of indices × components, one of factors_"
    require_like(factor, "factor", ("dims", "coords"), wanted)
    if factor.ndim != 2:
        raise InputError(f"factor has {factor.ndim} dimensions: give {wanted}")
    extent, n_components = factor.shape
    component = whole_number(component, "component", 0, n_components - 1)
    whole = n is None
    n = extent if n is None else whole_number(n, "n", 1)
    values = np.asarray(factor)[:, component].astype(np.float64)
    dim = factor.dims[0]
    labels = factor[dim].to_numpy() if dim in factor.coords else None
    if whole and labels is None:
        labels = np.arange(extent)
    in_order = labels is not None and labels.dtype.kind in "iufM"
    in_order = in_order and (whole or extent <= _ALL_IN_ORDER)
    n_names = 0 if in_order else min(n, extent)
    ax = axes_or_new(ax, (4.2, max(3.4, 0.6 + 0.15 * n_names)))
    (name,) = shortened([dim])
    if in_order:
        assert labels is not None
        _draw_in_order(ax, values, labels)
        ax.set_xlabel(name)
        ax.set_ylabel("loading")
    else:
        if not whole:
            chosen = largest(values, n)
            chosen = chosen[values[chosen] != 0]
            labels, values = chosen if labels is None else labels[chosen], values[chosen]
        _draw_named(ax, values, labels)
        ax.set_xlabel("loading")
        ax.set_ylabel(name)
    quiet_frame(ax, "y" if in_order else "x")
    return ax


def _draw_in_order(ax: Axes, values: Any, labels: Any) -> None:
    """Bars as wide as labels are apart, be they months or tenths; dates with few words."""
    if labels.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

        labels, locator = date2num(labels), AutoDateLocator(maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif (labels == np.round(labels)).all():
        whole_ticks(ax.xaxis)
        ax.ticklabel_format(axis="x", useOffset=False)  # the year 2019 is no 1 + 2018
    apart = np.diff(np.unique(labels).astype(np.float64)).min(initial=np.inf)
    colours = np.where(values < 0, _NEGATIVE, _POSITIVE)
    width = 0.8 * float(apart) if np.isfinite(apart) else 0.8
    ax.bar(labels, values, width, color=colours, edgecolor=colours, linewidth=0.5)


def _draw_named(ax: Axes, values: Any, labels: Any) -> None:
    places = np.arange(len(values))
    ax.barh(places, values, color=np.where(values < 0, _NEGATIVE, _POSITIVE))
    ax.set_yticks(places, shortened(labels))
    ax.invert_yaxis()
    ax.tick_params(axis="y", labelsize=8, length=0)
    ax.locator_params(axis="x", nbins=5)  # small shares have long numbers


def component_diagnostics(found: Any, *, ax: Axes | None = None) -> Axes:
    """How far decompositions of several sizes can be trusted.

    Parameters
    ----------
    found : daskpart.models.CPDiagnostics
        From `daskpart.cp_diagnostics`.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        Fit, core consistency (a share; below 0 it is drawn at 0), match across seeds and across
        halves, each from 0 to 1; the number of components that passes is marked.

    Examples
    --------
    >>> import daskpart, sparse
    >>> from daskpart import plots
    >>> tensor = sparse.random((20, 15, 10), nnz=900, random_state=0)
    >>> found = daskpart.cp_diagnostics(tensor, components=[1, 2], seeds=2, max_iter=10)
    >>> ax = plots.component_diagnostics(found)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('components', '')
    """
    require_like(found, "found", ("table", "n_components"), "what daskpart.cp_diagnostics gives")
    table = found.table
    ax = axes_or_new(ax, (6.4, 3.8))
    where = table["components"]
    shown = {
        "fit of the best": table["fit"],
        "core consistency": table["core_consistency"].clip(lower=0) / 100,
        "match across seeds": table["match"].clip(lower=0),
        "match across halves": table["split_match"].clip(lower=0),
    }
    for (name, values), colour, marker in zip(shown.items(), RANK_COLOURS, "os^D", strict=False):
        ax.plot(where, values, f"{marker}-", color=colour, label=name, linewidth=1.8, markersize=5)
    if found.n_components is not None:
        ax.axvline(found.n_components, color="#5B5B5B", linewidth=1, linestyle="--")
        ax.annotate(
            f"{found.n_components} passes all tests", (found.n_components, 1.04), ha="center",
            va="bottom", annotation_clip=False,
        )  # fmt: skip
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("components")
    whole_ticks(ax.xaxis)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    quiet_frame(ax, "y")
    return ax
