"""Draws the picture of the README: one matrix on four ranks, cut at random and cut well.

    python docs/make_picture.py          writes docs/_static/two_cuts.png

Rows are the modules of the Python standard library, columns the names that they use. Each rank's
own columns stand on the diagonal; what several ranks share stands in the border on the right.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from PIL import Image

import daskpart
from daskpart import plots

TARGET = Path(__file__).resolve().parent / "_static" / "two_cuts.png"
N_RANKS = 4
CUTS = {"at random": {"method": "random"}, "by daskpart": {"objective": "power"}}


def main() -> None:
    counts = daskpart.datasets.load_python_source()["counts"]
    hypergraph = daskpart.Hypergraph.column_net(counts)
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    for ax, (name, how) in zip(axes, CUTS.items(), strict=True):
        partition = daskpart.partition(hypergraph, N_RANKS, random_state=0, **how)
        shared = daskpart.Connectivity.from_partition(hypergraph, partition)
        plots.spy(counts, partition, names=("module", "identifier"), ax=ax)
        volume, stale = shared.pasgd_volume(1), shared.pasgd_staleness(1)
        ax.set_title(f"cut {name}: {volume:,} rows travel, {stale:,} are stale", fontsize=11)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110)
    Image.open(drawn).convert("RGB").quantize(64).save(TARGET, optimize=True)
    print(TARGET)


if __name__ == "__main__":
    main()
