"""Ranks × ranks as an HTML table with shaded cells, for those without matplotlib.

from╲to    0     1     2
   0       ·    1.2k  20      the darker, the more
   1      300    ·    ·
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_RANKS = 24
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_CELL = "padding:2px 6px;text-align:right"


def heat_table(sent: NDArray[Any], words: str) -> str:
    """A table of what each rank (line) sent to each rank (column); of the first ranks if many.

    Parameters
    ----------
    sent : array of shape (n_ranks, n_ranks)
    words : str
        What an entry counts.
    """
    shown = min(len(sent), _MOST_RANKS)
    largest = max(float(sent.max(initial=0)), 1.0)
    more = f", of the first {shown} ranks" if shown < len(sent) else ""
    heads = "".join(f'<th style="{_CELL}">{rank}</th>' for rank in range(shown))
    lines = [f'<tr><th style="{_CELL}">from ╲ to</th>{heads}</tr>']
    for rank in range(shown):
        cells = "".join(_cell(float(amount), largest) for amount in sent[rank, :shown])
        lines.append(f'<tr><th style="{_CELL}">{rank}</th>{cells}</tr>')
    return f"<table><caption>{words} from rank to rank{more}</caption>{''.join(lines)}</table>"


def _cell(amount: float, largest: float) -> str:
    depth = amount / largest
    ink = "#fff" if depth > 0.6 else "#000"
    # white to the blue of the pictures
    red, green, blue = np.round(255 - depth * np.array([255, 141, 77])).astype(int).tolist()
    style = f"{_CELL};background:rgb({red},{green},{blue});color:{ink}"
    return f'<td style="{style}">{_short(amount) if amount else "·"}</td>'


def _short(amount: float) -> str:
    for size, unit in _UNITS:
        if amount >= size:
            return f"{amount / size:.3g}{unit}"
    return f"{amount:g}"
