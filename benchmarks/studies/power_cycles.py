"""Σλ² without Mt-KaHyPar: our engine's reweighted V-cycles beside those on Mt-KaHyPar.

Recursive, λ², unpolished         the paper's method (§4.2, Algorithm 3), on either engine
... + 1 cycle on Mt-KaHyPar       its partition improved under nets that are priced by λ anew
Direct + 3 cycles on Mt-KaHyPar   the best that engine gave us
Recursive, λ² / direct, λ²        ours as `partition` gives them, V-cycles of our own among it
... + refine                      and three more cycles
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

import daskpart
from benchmarks.partition_engine import EPSILON, SEED, cpu_seconds
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning
from daskpart.partitions import Partition

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .partition_engine import hypergraph_of

CASES = {"coauthor-physics": 64, "soc-Slashdot0902": 64, "gowalla": 128, "ml-1m": 64}
COLUMNS = (
    "data", "K", "engine", "partition", "Σλ²", "λ_max", "Σ(λ−1)", "staleness, η = 32",
    "imbalance", "CPU seconds",
)  # fmt: skip
Options = dict[str, Any]
PAPER: Options = {"objective": "power", "method": "recursive", "polish": False}
METHODS: tuple[tuple[str, str, Options, Options], ...] = (
    ("mtkahypar", "recursive, λ², unpolished + 1 cycle", PAPER, {"cycles": 1}),
    ("mtkahypar", "direct + 3 cycles", {"method": "direct"}, {"cycles": 3}),
    ("multilevel", "recursive, λ²", {"objective": "power"}, {"cycles": 3}),
    ("multilevel", "direct, λ²", {"objective": "power", "method": "direct"}, {"cycles": 3}),
)
NAMES = {"mtkahypar": "Mt-KaHyPar", "multilevel": "ours"}


def measure(name: str, n_parts: int) -> list[list]:
    """The lines of one instance; seconds add up from the start to the refined partition."""
    hypergraph = hypergraph_of(name)
    rows = []

    def note(engine: str, words: str, partition: Partition, begun: float) -> None:
        pairs = Connectivity.from_partition(hypergraph, partition)
        rows.append([
            name, n_parts, NAMES[engine], words, pairs.power(2), pairs.max_connectivity(),
            pairs.connectivity_minus_one(), pairs.pasgd_staleness(32),
            round(partition.imbalance, 3), round(cpu_seconds() - begun, 1),
        ])  # fmt: skip
        click.echo(rows[-1])

    for engine, words, start, cycles in METHODS:
        common: Options = {"engine": engine, "epsilon": EPSILON, "random_state": SEED}
        begun = cpu_seconds()
        partition = daskpart.partition(hypergraph, n_parts, **start, **common)
        start_words, _, cycle_words = words.partition(" + ")
        note(engine, start_words, partition, begun)
        partition = daskpart.refine(hypergraph, partition, "power", **cycles, **common)
        note(engine, f"{start_words} + {cycle_words or 'refine'}", partition, begun)
    return rows


def verdict(rows: list[list]) -> str:
    """In words: the best of ours over the best of Mt-KaHyPar's, by instance."""
    lines = []
    for name, n_parts in dict.fromkeys((row[0], row[1]) for row in rows):
        mine, theirs = (
            min((row for row in rows if (row[0], row[2]) == (name, engine)), key=lambda row: row[4])
            for engine in ("ours", "Mt-KaHyPar")
        )
        lines.append(
            f"- {name}, K = {n_parts}: Σλ² {mine[4] / theirs[4] - 1:+.1%} against the best line "
            f"with Mt-KaHyPar, at {mine[9] / theirs[9]:.2f} of its CPU seconds."
        )
    return "\n".join(lines)


@click.command()
@click.option("--data", "names", multiple=True, default=tuple(CASES), show_default=True)
@click.option("--parts", type=int, help="Instead of the number that goes with each.")
@out_option
def main(names: tuple[str, ...], parts: int | None, out: Path) -> None:
    """Write the table of both engines."""
    origin = Origin.here()
    warnings.simplefilter("ignore", BalanceWarning)
    few = daskpart.Hypergraph.from_nets([0, 4, 8, 12, 14], [*range(12), 3, 4], 12)
    for start in (PAPER, {"objective": "power"}, {"objective": "power", "method": "direct"}):
        daskpart.refine(few, daskpart.partition(few, 4, **start), "power")  # compiles
    rows = [row for name in names for row in measure(name, parts or CASES[name])]
    body = (
        f"ε = {EPSILON}, seed {SEED}, one thread; Mt-KaHyPar with its preset DEFAULT in processes "
        "of its own. A cycle prices each net by what one more or one part less would cost, and "
        "lets the engine improve its partition once. Seconds are of the whole line.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{verdict(rows)}"
    )
    write_numbers(out, "power_cycles", COLUMNS, rows, origin)
    write_section(out, "power_cycles", "Σλ² without Mt-KaHyPar", body, origin)


if __name__ == "__main__":
    main()
