"""The picture of `sparse_allreduce`: panels after figures 5.1 to 5.4 of Renggli (2017)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskpart.collectives import CostModel
from daskpart.collectives.sparse_steps import ALGORITHMS

SIZE = 2**24
RANKS = (4, 8, 16, 32, 64, 128, 256, 512)
DENSITIES = np.logspace(-5, -0.5, 40)
FEW, MANY = 8, 512
SSAR = ("ssar-recursive-doubling", "ssar-split-allgather")
DENSE = "dense-rabenseifner"
DSAR = ("dsar-split-allgather-doubling", "dsar-split-allgather-ring")


def draw(model: CostModel, lines: Sequence[Sequence[Any]], path: Path) -> None:
    """Write the picture.

    Parameters
    ----------
    model : CostModel
        Of the cluster that is predicted for.
    lines : rows of the study's table
        The last transport and number of ranks among them are drawn as points.
    path : Path
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    _by_ranks(panels[0], model)
    of_density = {n: _seconds_by_density(model, n) for n in (FEW, MANY)}
    for panel, title, n_ranks, names in (
        (panels[1], "5.2  sparse or dense result", FEW, (*SSAR, *DSAR, DENSE)),
        (panels[2], "5.3  early switching", MANY, (*DSAR, "dsar-early-switching", DENSE)),
        (panels[3], "5.4  all algorithms", FEW, ALGORITHMS),
        (panels[4], "5.4  all algorithms", MANY, ALGORITHMS),
    ):
        _by_density(panel, of_density[n_ranks], names)
        panel.set_title(f"{title}, P = {n_ranks}, predicted")
    _measured(panels[5], lines)
    figure.legend(*panels[4].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)


def _seconds_by_density(model: CostModel, n_ranks: int) -> dict[str, np.ndarray]:
    found = [model.predict(n_ranks, SIZE, SIZE * density) for density in DENSITIES]
    return {name: np.array([each[name] for each in found]) for name in ALGORITHMS}


def _by_ranks(panel: Any, model: CostModel) -> None:
    for density in (1e-5, 1e-4, 1e-3, 1e-2):
        found = [model.predict(n, SIZE, SIZE * density) for n in RANKS]
        panel.plot(RANKS, [each[SSAR[0]] / each[SSAR[1]] for each in found], marker=".",
                   label=f"density {density:g}")  # fmt: skip
    panel.axhline(1, color="0.5", linewidth=0.8)
    panel.set(title="5.1  recursive doubling / split + allgather", xscale="log", yscale="log",
              xlabel="ranks P", ylabel="seconds / seconds")  # fmt: skip
    panel.yaxis.set_major_formatter("{x:g}")
    panel.set_xticks(RANKS, [str(n) for n in RANKS])
    panel.set_xticks([], minor=True)
    panel.legend(fontsize=8, ncols=2, loc="upper left")


def _by_density(panel: Any, seconds: dict[str, np.ndarray], names: Sequence[str]) -> None:
    for name in names:
        style = "--" if name.startswith("dense") else "-"
        color = f"C{ALGORITHMS.index(name)}"
        panel.plot(DENSITIES, 1e3 * seconds[name], style, color=color, label=name)
    panel.set(xscale="log", yscale="log", xlabel="density of a rank's vector",
              ylabel=f"ms, N = 2^{SIZE.bit_length() - 1}")  # fmt: skip


def _measured(panel: Any, lines: Sequence[Sequence[Any]]) -> None:
    """Points measured, lines predicted by the model that was measured on the same ranks."""
    transport, n_ranks = lines[-1][:2]
    size = max(line[2] for line in lines)
    for place, name in enumerate(ALGORITHMS):
        own = [line for line in lines if line[:3] == [transport, n_ranks, size] and line[4] == name]
        densities = [line[3] for line in own]
        panel.plot(densities, [line[5] for line in own], "o", color=f"C{place}", label=name)
        panel.plot(densities, [line[6] for line in own], color=f"C{place}", linewidth=0.8)
    panel.set_title(f"as 5.4, P = {n_ranks}, points measured ({transport})")
    panel.set(xscale="log", yscale="log", xlabel="density of a rank's vector",
              ylabel=f"ms, N = {size:.0e}")  # fmt: skip
