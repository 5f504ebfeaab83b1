"""Our engine beside Mt-KaHyPar DEFAULT: connectivity - 1 and CPU seconds, direct K-way."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

import daskpart
from benchmarks import data
from benchmarks.partition_engine import EPSILON, SEED, instance, solve, with_self_loops
from daskpart.partitioners.mtkahypar import MtKaHyParEngine
from daskpart.partitioners.multilevel import MultilevelEngine

from .output import Origin, markdown_table, out_option, write_numbers, write_section

CASES = {
    "ibm01": (8, 64, 512),
    "ibm14": (8, 64, 512),
    "bundle1.mtx": (8, 64, 512),
    "amazon-photo": (8, 64),
    "coauthor-physics": (8, 64, 512),
    "soc-Slashdot0902": (8, 64),
    "gowalla": (8, 64, 512),
    "ml-1m": (8, 64),
    "threads-math-sx": (8, 64),
}  # more parts of the last ones take Mt-KaHyPar minutes, or cannot be balanced
HARDEST = ("ibm01", "bundle1.mtx")  # a small netlist, and a matrix with dense blocks
COLUMNS = (
    "instance", "vertices", "pins", "K", "ours: λ−1", "Mt-KaHyPar: λ−1", "λ−1 ratio",
    "ours: CPU s", "Mt-KaHyPar: CPU s", "CPU ratio", "ours: imbalance",
)  # fmt: skip


def hypergraph_of(name: str) -> daskpart.Hypergraph:
    """A netlist as it is; the column-net hypergraph of ratings, or of A + I of a graph."""
    for path in sorted((data.data_folder() / "hypergraphs").glob(f"{name}.hgr.*")):
        return daskpart.read(path)
    for path in sorted((data.data_folder() / "graphs").glob(f"{name}.mtx.*")):
        return with_self_loops(daskpart.read(path))
    return instance(name)


def measure(name: str, n_parts: int) -> list:
    """One line of the table."""
    hypergraph = hypergraph_of(name)
    ours = solve(hypergraph, n_parts, MultilevelEngine())
    theirs = solve(hypergraph, n_parts, MtKaHyParEngine())
    return [
        name,
        hypergraph.n_vertices,
        hypergraph.n_pins,
        n_parts,
        ours[0],
        theirs[0],
        round(ours[0] / theirs[0], 4),
        round(ours[1], 2),
        round(theirs[1], 2),
        round(ours[1] / theirs[1], 3),
        round(ours[2], 4),
    ]


def geometric_means(rows: list[list]) -> str:
    """In words: for each K, and for all."""
    groups = {
        f"K = {n_parts}": [row for row in rows if row[3] == n_parts]
        for n_parts in sorted({row[3] for row in rows})
    }
    groups["all"] = rows
    others = [row for row in rows if row[0] not in HARDEST]
    if others:
        groups[f"all but {' and '.join(HARDEST)}"] = others
    lines = []
    for label, mine in groups.items():
        cost, seconds = (np.exp(np.mean(np.log([row[at] for row in mine]))) for at in (6, 9))
        lines.append(f"- {label}: λ−1 {cost:.3f}, CPU {seconds:.3f} ({len(mine)} cases)")
    return "\n".join(lines)


@click.command()
@click.option("--data", "names", multiple=True, default=tuple(CASES), show_default=True)
@click.option("--parts", multiple=True, type=int, help="All of the table's, if none is named.")
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table of both engines."""
    origin = Origin.here()
    cases = [(name, k) for name in names for k in CASES[name] if not parts or k in parts]
    for n_parts in sorted({k for _, k in cases}):  # compiles
        MultilevelEngine().partition(hypergraph_of("ibm01"), n_parts, EPSILON, SEED)
    rows = []
    for name, n_parts in cases:
        rows.append(measure(name, n_parts))
        click.echo(rows[-1])
    body = (
        f"Direct K-way, ε = {EPSILON}, seed {SEED}, one thread each; Mt-KaHyPar with its preset "
        "DEFAULT in a process of its own, whose start is counted. Ratios are ours over theirs.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\nGeometric means:\n\n{geometric_means(rows)}"
    )
    write_numbers(out, "partition_engine", COLUMNS, rows, origin)
    write_section(out, "partition_engine", "Our engine beside Mt-KaHyPar", body, origin)


if __name__ == "__main__":
    main()
