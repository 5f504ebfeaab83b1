"""Cuts of ISPD98 and Titan23 netlists: our engine, Mt-KaHyPar, and published solutions.

UB x of the references: every part weighs within (100 / K ± x) % of the whole, so no part weighs
more than 1 + K x / 100 of the mean: that is the ε given to the engines here.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import click
import numpy as np

import daskpart
from benchmarks import data
from benchmarks.partition_engine import cpu_seconds
from daskpart.connectivity import Connectivity
from daskpart.partitioners.engine import Engine
from daskpart.partitioners.mtkahypar import MtKaHyParEngine
from daskpart.partitioners.multilevel import MultilevelEngine
from daskpart.partitions import Partition

from .output import Origin, markdown_table, out_option, write_numbers, write_section

# what the published solutions were found with and anyone may use and change
FREE = ("KaHyPar", "Mt-KaHyPar", "TritonPart")
SETTINGS = ((2, 2), (2, 10), (4, 2))  # (K, UB in %); no free tool has K = 4 at UB 10
COLUMNS = (
    "instance", "K", "UB %", "ours", "ours, max load", "ours, CPU s",
    "Mt-KaHyPar here", "its max load", "its CPU s", *FREE, "best of all",
)  # fmt: skip


def references(folder: Path) -> dict[tuple[str, int, int], dict[str, int]]:
    """(instance, K, UB) → tool → best published cut."""
    found: dict[tuple[str, int, int], dict[str, int]] = defaultdict(dict)
    with open(folder / "hypergraphs" / "reference-cuts.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["instance"], int(row["k"]), int(row["ub_percent"]))
            found[key][row["tool"]] = int(row["best_cut"])
    return found


def solved(
    hypergraph: daskpart.Hypergraph, n_parts: int, bound: int, engine: Engine, seeds: range
) -> tuple[int, float, float]:
    """(cut, heaviest part over the mean, CPU seconds) of the best over the seeds."""
    begin = cpu_seconds()
    best = (math.inf, math.inf)
    for seed in seeds:
        part = engine.partition(hypergraph, n_parts, n_parts * bound / 100, seed)
        partition = Partition(part, n_parts, hypergraph.vertex_weights)
        cut = Connectivity.from_partition(hypergraph, partition).cut_net()
        best = min(best, (cut, 1 + partition.imbalance))
    return int(best[0]), round(best[1], 4), round(cpu_seconds() - begin, 1)


def netlist(folder: Path, instance: str) -> daskpart.Hypergraph:
    """Read one netlist."""
    return daskpart.read(folder / "hypergraphs" / f"{instance}.hgr.gz")


def measure(folder: Path, case: tuple[str, int, int], published: dict[str, int]) -> list:
    """One line of the table."""
    instance, n_parts, bound = case
    hypergraph = netlist(folder, instance)
    ours = solved(hypergraph, n_parts, bound, MultilevelEngine(effort="high"), range(1))
    theirs = solved(hypergraph, n_parts, bound, MtKaHyParEngine(), range(3))
    free = [published.get(tool) for tool in FREE]
    return [instance, n_parts, bound, *ours, *theirs, *free, min(published.values())]


def verdict(rows: list[list], n_parts: int, bound: int) -> str:
    """Geometric means of our cut over every free tool's, at one setting."""
    mine = [row for row in rows if row[1:3] == [n_parts, bound]]
    words = []
    for name in ("Mt-KaHyPar here", *FREE, "best of all"):
        at = COLUMNS.index(name)
        pairs = [(row[3], row[at]) for row in mine if row[at]]
        if pairs:
            mean = np.exp(np.mean([np.log(ours / theirs) for ours, theirs in pairs]))
            words.append(f"{name} {mean:.3f} ({len(pairs)})")
    return f"- K = {n_parts}, UB {bound} %: {'; '.join(words)}"


@click.command()
@click.option("--instance", "chosen", multiple=True, help="All, if none is named.")
@out_option
def main(chosen: tuple[str, ...], out: Path) -> None:
    """Write the table of cuts."""
    origin, folder = Origin.here(), data.data_folder()
    published = references(folder)
    cases = [
        case
        for case in sorted(published, key=lambda case: (case[1:], case[0]))
        if case[1:] in SETTINGS and (not chosen or case[0] in chosen)
    ]
    warm = netlist(folder, "ibm01")
    for n_parts in (2, 4):
        MultilevelEngine().partition(warm, n_parts, 0.04, 0)  # compiles
    rows = []
    for case in cases:
        rows.append(measure(folder, case, published[case]))
        click.echo(rows[-1])
    means = "\n".join(verdict(rows, *setting) for setting in SETTINGS)
    body = (
        'Weight of the nets cut. Ours: `MultilevelEngine(effort="high")`, one seed; Mt-KaHyPar '
        "here: preset DEFAULT, one thread, the best of three seeds; CPU seconds are those of all "
        "seeds together. The other columns are the best published solutions (mostly the best of "
        "five runs too), computed again from the solution files. UB x: every part within "
        "100 / K ± x % of the whole weight.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        "Geometric mean of our cut over theirs (number of instances that they have):\n\n"
        f"{means}"
    )
    write_numbers(out, "reference_cuts", COLUMNS, rows, origin)
    write_section(out, "reference_cuts", "Cuts of netlists beside published ones", body, origin)


if __name__ == "__main__":
    main()
