"""A timeline as text and as SVG, for those without matplotlib; `daskpart.plots.timeline` draws it.

rank 0  ████████▒▒······████      a slice of time shows what the rank did most of it
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .timeline import Timeline

_WORDS = ("computing", "sending", "blocked")
_SIGNS = (" ", "█", "▒", "·")
_COLOURS = ("#FFFFFF", "#0072B2", "#E69F00", "#D9D9D9")
_TEXT_COLUMNS, _TEXT_RANKS = 64, 16
_SVG_COLUMNS, _SVG_RANKS = 720, 64
_LINE, _BAR, _LEFT, _HEAD = 20, 14, 60, 24  # pixels


def text_of(timeline: Timeline) -> str:
    """Some lines: seconds of all, a bar a rank, what the signs mean."""
    lines = [_title(timeline)]
    shown = min(timeline.n_ranks, _TEXT_RANKS)
    width = len(f"rank {shown - 1}")
    for rank, slices in enumerate(_most(timeline, _TEXT_COLUMNS)[:shown]):
        bar = "".join(_SIGNS[kind] for kind in slices.tolist())
        lines.append(f"  {f'rank {rank}':<{width}}  {bar}".rstrip())
    if timeline.n_ranks > shown:
        lines.append(f"  {timeline.n_ranks - shown} more ranks")
    key = "   ".join(f"{sign} {word}" for sign, word in zip(_SIGNS[1:], _WORDS, strict=True))
    return "\n".join([*lines, f"  {key}"])


def svg_of(timeline: Timeline) -> str:
    """An SVG picture of bounded size, with a title for those who cannot see it."""
    shown = min(timeline.n_ranks, _SVG_RANKS)
    height = _HEAD + _LINE * (shown + 1)
    width = _LEFT + _SVG_COLUMNS + 10
    title = html.escape(_title(timeline))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" style="max-width:100%;background:#fff" role="img" '
        f'font-family="sans-serif" font-size="11"><title>{title}</title>',
        f'<text x="{_LEFT}" y="14">{_legend()}</text>',
    ]
    for rank, slices in enumerate(_most(timeline, _SVG_COLUMNS)[:shown]):
        top = _HEAD + _LINE * rank
        parts.append(f'<text x="{_LEFT - 6}" y="{top + 11}" text-anchor="end">rank {rank}</text>')
        parts += _bars(slices, top)
    foot = _HEAD + _LINE * shown + 12
    more = f"{timeline.n_ranks - shown} more ranks; " if timeline.n_ranks > shown else ""
    parts.append(f'<text x="{_LEFT}" y="{foot}">{more}0 s</text>')
    end = f"{timeline.duration:.3g} s"
    parts.append(f'<text x="{width - 10}" y="{foot}" text-anchor="end">{end}</text></svg>')
    return f"<p>{title}</p>" + "".join(parts)


def _title(timeline: Timeline) -> str:
    sums = [f"{word} {timeline.seconds(word).sum():.3g} s" for word in _WORDS]
    return (
        f"Timeline: {timeline.n_ranks} ranks, {timeline.duration:.3g} s; all ranks together "
        + ", ".join(sums)
    )


def _most(timeline: Timeline, n_columns: int) -> NDArray[np.int64]:
    """What each rank did most of each slice: 0 nothing, else 1 + its kind."""
    shares = timeline.shares(n_columns)
    nothing = 1.0 - shares.sum(axis=1, keepdims=True)
    return np.concatenate((nothing, shares), axis=1).argmax(axis=1)


def _bars(slices: NDArray[np.int64], top: int) -> list[str]:
    """A rectangle for each run of equal slices."""
    first = np.flatnonzero(np.diff(slices, prepend=-1))
    lengths = np.diff(first, append=len(slices))
    return [
        f'<rect x="{_LEFT + begin}" y="{top}" width="{length}" height="{_BAR}" '
        f'fill="{_COLOURS[slices[begin]]}"/>'
        for begin, length in zip(first.tolist(), lengths.tolist(), strict=True)
        if slices[begin]
    ]


def _legend() -> str:
    return "".join(
        f'<tspan fill="{colour}">■</tspan> {word}&#160;&#160; '
        for colour, word in zip(_COLOURS[1:], _WORDS, strict=True)
    )
