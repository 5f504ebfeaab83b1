"""The picture of `hypercube_mapping`: two bars a method, for each tensor and number of parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_BARS = ((4, "concurrent volume", "#0072B2"), (9, "maximum volume", "#D55E00"))


def draw(rows: list[list], path: Path) -> None:
    """Write the picture from the lines of the study's table."""
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys((row[0], row[1]) for row in rows))
    n_lines = -(-len(cases) // 2)
    figure = Figure(figsize=(11, 3.0 * n_lines), layout="constrained")
    panels = figure.subplots(n_lines, min(2, len(cases)), squeeze=False, sharey=True).ravel()
    for (name, n_parts), panel in zip(cases, panels, strict=False):
        own = [row for row in rows if (row[0], row[1]) == (name, n_parts)]
        places = np.arange(len(own))
        for shift, (column, words, colour) in zip((-0.2, 0.2), _BARS, strict=True):
            shares = [row[column] for row in own]
            bars = panel.barh(places + shift, shares, 0.38, color=colour, label=words)
            panel.bar_label(bars, [f"{share:.2f}" for share in shares], fontsize=7, padding=2)
        panel.set_yticks(places, [row[2] for row in own])
        panel.set_xlim(0, 1.15 * max(1.0, *(row[4] for row in own), *(row[9] for row in own)))
        panel.set(title=f"{name}, K = {n_parts}", xlabel="against random nonzeros")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()  # shared: the first method on top
    panels[0].legend(fontsize=8, frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
