"""The picture of `tensor_messages`: messages and time of an iteration by the number of ranks."""

from __future__ import annotations

from pathlib import Path

_DRAWN = {  # case → label
    ("medium-grain", "p2p", "packed"): "P2P, HP",
    ("random", "emb", "packed"): "EMB, random",
    ("hypercube", "emb-naive", "packed"): "naive EMB, HP",
    ("hypercube", "emb", "packed"): "EMB, HP",
}
_PANELS = ((6, "messages of the busiest rank"), (9, "rows of the busiest rank"), (11, "ms"))


def draw(rows: list[list], path: Path) -> None:
    """Write the picture from the lines of the study's table."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(12, 2.6 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), len(_PANELS), squeeze=False)
    for name, line in zip(names, panels, strict=True):
        for (column, words), panel in zip(_PANELS, line, strict=True):
            for place, (case, label) in enumerate(_DRAWN.items()):
                own = [row for row in rows if row[0] == name and tuple(row[3:6]) == case]
                panel.plot([row[2] for row in own], [row[column] for row in own], "o-",
                           color=f"C{place}", label=label, markersize=4)  # fmt: skip
            panel.set(xscale="log", yscale="log", title=f"{name}: {words}", xlabel="K")
            ranks = sorted({row[2] for row in rows})
            panel.set_xticks(ranks, [f"{n:,}" for n in ranks])
            panel.minorticks_off()
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=90)
