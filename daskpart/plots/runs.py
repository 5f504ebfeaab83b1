"""Pictures of runs, real and simulated: who did what when, how long it took, what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.checks import finite_number, require_like, several, whole_number
from daskpart.errors import InputError

from .canvas import (
    MOST_LABELS,
    RANK_COLOURS,
    axes_or_new,
    logarithmic,
    plain,
    quiet_frame,
    rgb,
    time_words,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KIND_COLOURS = {"computing": "#0072B2", "sending": "#E69F00", "blocked": "#D0D0D0"}
_COLUMNS = 1500
_MARKERS = "osD^vP*Xhd<>"


def timeline(run: Any, *, ax: Axes | None = None) -> Axes:
    """When each rank computed, sent messages, and waited for others.

    White is time in which nothing was asked of the rank: the driver was at work. What is shorter
    than a pixel mixes its colour with that of its neighbours.

    Parameters
    ----------
    run : Timeline, or a communicator that records one
        See `Communicator.record_timeline` and `daskpart.collectives.record_timelines`; a part of it
        is ``timeline.between(begin, end)``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If nothing was recorded.

    Examples
    --------
    >>> from daskpart.collectives import Timeline
    >>> from daskpart.collectives.timeline import BLOCKED, COMPUTING, Span
    >>> from daskpart import plots
    >>> recorded = Timeline(2)
    >>> recorded.add(Span(0, COMPUTING, "multiply", 0.0, 2.0))
    >>> recorded.add(Span(1, BLOCKED, "expand", 1.0, 2.0))
    >>> ax = plots.timeline(recorded)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('time', 'rank')
    """
    recorded = getattr(run, "timeline", run)
    if recorded is not None:
        wanted = "a Timeline, or a communicator that records one"
        require_like(recorded, "run", ("spans", "shares"), wanted)
    if recorded is None or not recorded.spans:
        raise InputError(
            "the timeline is empty: call record_timeline() of the communicator before the run, or "
            "run inside of daskpart.collectives.record_timelines()"
        )
    n_ranks, duration = recorded.n_ranks, max(recorded.duration, 1e-9)  # spans may have no length
    ax = axes_or_new(ax, (8.0, 1.4 + 0.28 * min(n_ranks, 20)))
    shares = recorded.shares(_COLUMNS)
    inks = np.array([rgb(colour) for colour in _KIND_COLOURS.values()])
    picture = np.einsum("rkc,ki->rci", shares, inks) + (1.0 - shares.sum(axis=1))[:, :, None]
    extent = (0.0, duration, n_ranks - 0.5, -0.5)
    ax.imshow(np.clip(picture, 0, 1), extent=extent, aspect="auto", interpolation="nearest")
    for rank in range(n_ranks - 1):
        ax.axhline(rank + 0.5, color="white", linewidth=2.0 if n_ranks <= MOST_LABELS else 0.5)
    for word, colour in _KIND_COLOURS.items():
        ax.plot([], [], "s", color=colour, markersize=8, label=word)
    ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderpad=0.1)
    ax.set_xlim(0.0, duration)
    ax.set_ylim(n_ranks - 0.5, -0.5)
    ax.xaxis.set_major_formatter(lambda value, _: time_words(value))
    ax.set_xlabel("time")
    ax.set_ylabel("rank")
    whole_ticks(ax.yaxis)
    quiet_frame(ax, None)
    return ax


def predicted_against_measured(comparison: Any, *, ax: Axes | None = None) -> Axes:
    """Seconds that a model predicted against seconds measured, a colour an algorithm.

    On the black line both are equal, between the grey ones they differ by less than a factor of
    two.

    Parameters
    ----------
    comparison : sequence, or an object that has one as ``rows``
        With ``algorithm``, ``predicted`` and ``measured``, in seconds; the study
        ``allreduce_model`` of the benchmarks makes such.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there is nothing to draw, or seconds are not above 0.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from daskpart import plots
    >>> ax = plots.predicted_against_measured(
    ...     [SimpleNamespace(algorithm="ring", predicted=2e-3, measured=3e-3)]
    ... )
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('measured time', 'predicted time')
    """
    given = getattr(comparison, "rows", comparison)
    rows = _records(given, "comparison", ("algorithm", "predicted", "measured"))
    if not rows:
        raise InputError("nothing was compared: there is no point to draw")
    seconds = np.array([(_seconds(row.predicted), _seconds(row.measured)) for row in rows])
    wrong = ~(np.isfinite(seconds) & (seconds > 0)).all(axis=1)
    if wrong.any():
        raise InputError(
            f"{int(wrong.sum())} of {len(rows)} points have seconds that are not above 0, first "
            f"{rows[int(wrong.argmax())].algorithm!r}: they have no place on logarithmic axes"
        )
    ax = axes_or_new(ax, (7.6, 4.6))
    low, high = seconds.min() / 1.6, seconds.max() * 1.6
    for factor, ink in ((0.5, "#BBBBBB"), (1.0, "black"), (2.0, "#BBBBBB")):
        ax.plot([low, high], [low * factor, high * factor], "-", color=ink, linewidth=0.9)
    for place, algorithm in enumerate(dict.fromkeys(row.algorithm for row in rows)):
        own = seconds[[row.algorithm == algorithm for row in rows]]
        ax.plot(
            own[:, 1], own[:, 0], _MARKERS[place % len(_MARKERS)], markersize=5.5,
            color=RANK_COLOURS[place % len(RANK_COLOURS)], label=plain(algorithm),
        )  # fmt: skip
    for which in "xy":
        logarithmic(ax, which, low, high)
    ax.set_xlabel("measured time")
    ax.set_ylabel("predicted time")
    quiet_frame(ax, "both")
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def simulated(lines: Sequence[Any], *, ax: Axes | None = None) -> Axes:
    """Simulated seconds: a line an algorithm over the ranks, or bars for one number of ranks.

    Lines stand on logarithmic axes, where 0 seconds have no point: a single rank sends nothing.

    Parameters
    ----------
    lines : sequence
        With ``ranks``, ``algorithm`` and ``seconds``, as the command ``daskpart simulate`` has
        them.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there are no lines.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from daskpart import plots
    >>> lines = [
    ...     SimpleNamespace(ranks=n_ranks, algorithm="ring", seconds=1e-4 * n_ranks)
    ...     for n_ranks in (2, 4, 8)
    ... ]
    >>> ax = plots.simulated(lines)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('ranks', 'time by the α–β model')
    """
    lines = _records(lines, "lines", ("ranks", "algorithm", "seconds"))
    if not lines:
        raise InputError("nothing was simulated: there is nothing to draw")
    for line in lines:
        whole_number(line.ranks, "ranks", 1)
        finite_number(line.seconds, "seconds")
    names = list(dict.fromkeys(line.algorithm for line in lines))
    if len({line.ranks for line in lines}) == 1:
        return _bars(names, [line.seconds for line in lines], axes_or_new(ax, (6.6, 3.6)))
    ax = axes_or_new(ax, (7.6, 4.2))
    for place, name in enumerate(names):
        of_name = [line for line in lines if line.algorithm == name]
        own = sorted((line.ranks, line.seconds or np.nan) for line in of_name)
        dash = "-" if place < len(RANK_COLOURS) else "--"
        ax.plot(
            *zip(*own, strict=True), _MARKERS[place % len(_MARKERS)] + dash, markersize=5,
            linewidth=1.3, color=RANK_COLOURS[place % len(RANK_COLOURS)], label=plain(name),
        )  # fmt: skip
    seconds = [line.seconds for line in lines if line.seconds > 0]
    if seconds:
        logarithmic(ax, "y", min(seconds) / 1.3, max(seconds) * 1.3)
    _name_ranks(ax, sorted({line.ranks for line in lines}))
    ax.set_xlabel("ranks")
    ax.set_ylabel("time by the α–β model")
    quiet_frame(ax, "both")
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def _records(given: Any, name: str, fields: Sequence[str]) -> list[Any]:
    """The entries of a sequence, each with these fields (else InputError)."""
    wanted = f"a sequence of entries that have {', '.join(fields)}"
    records = several(given, name, wanted)
    for record in records:
        require_like(record, f"an entry of {name}", fields, wanted)
    return records


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, Real) else np.nan


def _name_ranks(ax: Axes, ranks: Sequence[int]) -> None:
    """A logarithmic axis with a line at each number of ranks, named where names do not overlap."""
    ax.set_xscale("log", base=2)
    apart, names = (ranks[-1] / ranks[0]) ** 0.055, [str(ranks[0])]
    named = ranks[0]
    for number in ranks[1:]:
        far = number >= named * apart
        named = number if far else named
        names.append(str(number) if far else "")
    ax.set_xticks(ranks, names)
    ax.minorticks_off()


def _bars(names: Sequence[str], seconds: Sequence[float], ax: Axes) -> Axes:
    ax.barh([plain(name) for name in names], seconds, color=RANK_COLOURS[0], height=0.7)
    for place, value in enumerate(seconds):
        ax.annotate(
            f" {time_words(value)}", (value, place), va="center", fontsize=8, annotation_clip=False
        )
    ax.invert_yaxis()
    longest = max(seconds)
    ax.set_xlim(0, 1.18 * (longest or 1.0))
    if not longest:
        ax.set_xticks([0])  # no other number means anything
    ax.xaxis.set_major_formatter(lambda value, _: time_words(value))
    ax.set_xlabel("time by the α–β model")
    quiet_frame(ax, "x")
    return ax
