"""`refine` against recursive bipartitioning alone, on the metrics of the η-PASGD paper.

recursive, λ−1            unit prices, split nets: HP before the paper
recursive, λ²             the paper's method (§4.2, Algorithm 3)
direct                    K parts at once: a baseline that every table needs
... + refine power        K-way moves that lower Σλ²
... + refine λ_max        ... that lower the largest λ
... uneven                parts may be emptied, as the paper's balance allows
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import click

import daskpart
from benchmarks import data
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning
from daskpart.partitions import Partition

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import matrix

COLUMNS = (
    "data", "K", "partition", "Σλ²", "λ_max", "items of λ_max", "Σ(λ−1)", "staleness, η = 32",
    "imbalance", "CPU seconds",
)  # fmt: skip
PAPER = "recursive, λ²"
MOST_UNEVEN = 128  # parts that are emptied one by one: minutes for more
STARTS: dict[str, dict[str, Any]] = {
    "recursive, λ−1": {"method": "recursive", "polish": False},
    PAPER: {"objective": "power", "polish": False},
    "direct": {"method": "direct"},
}
REFINED: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (f"{PAPER} + refine power", PAPER, "power", {}),
    ("direct + refine power", "direct", "power", {}),
    (f"{PAPER} + refine power, uneven", PAPER, "power", {"even": False}),
    (f"{PAPER} + refine λ_max", f"{PAPER} + refine power", "max-connectivity", {}),
    (f"{PAPER} + refine λ_max, uneven", f"{PAPER} + refine power", "max-connectivity",
     {"even": False}),
)  # fmt: skip


def measure(name: str, n_parts: int) -> list[list]:
    """The lines of one data set and one K. Seconds of a refined line are those of refining."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    hypergraph = daskpart.Hypergraph.column_net(matrix(triples, shape))
    found: dict[str, Partition] = {}
    rows = []

    def note(words: str, partition: Partition, seconds: float) -> None:
        found[words] = partition
        rows.append(_line(name, hypergraph, words, partition, seconds))
        click.echo(rows[-1])

    for words, how in STARTS.items():
        begun = time.process_time()
        partition = daskpart.partition(hypergraph, n_parts, random_state=1, **how)
        note(words, partition, time.process_time() - begun)
    for words, start, metric, how in REFINED:
        if how and n_parts > MOST_UNEVEN:
            continue
        begun = time.process_time()
        partition = daskpart.refine(hypergraph, found[start], metric, random_state=1, **how)
        note(words, partition, time.process_time() - begun)
    return rows


def _line(
    name: str, hypergraph: daskpart.Hypergraph, words: str, partition: Partition, seconds: float
) -> list:
    pairs = Connectivity.from_partition(hypergraph, partition)
    highest = pairs.max_connectivity()
    return [
        name, partition.n_parts, words, pairs.power(2), highest, int(pairs.histogram()[highest]),
        pairs.connectivity_minus_one(), pairs.pasgd_staleness(32), round(partition.imbalance, 3),
        round(seconds, 1),
    ]  # fmt: skip


def compile_kernels() -> None:
    """Refine a dozen vertices every way, so that seconds below are those of searching."""
    few = daskpart.Hypergraph.from_nets([0, 4, 8, 12, 14], [*range(12), 3, 4], 12)
    for how in STARTS.values():
        start = daskpart.partition(few, 4, **how)
        for _, _, metric, options in REFINED:
            daskpart.refine(few, start, metric, **options)


def verdict(rows: list[list]) -> str:
    """In words: how much below the paper's method."""
    lines = []
    for start in (row for row in rows if row[2] == PAPER):
        for row in rows:
            if row[:2] == start[:2] and "refine" in row[2]:
                lines.append(
                    f"- {row[0]}, K = {row[1]}, {row[2]}: Σλ² {row[3] / start[3] - 1:+.1%}, λ_max "
                    f"{row[4]} ({row[5]:,} {'item' if row[5] == 1 else 'items'}) where it was "
                    f"{start[4]} ({start[5]:,}), "
                    f"{row[9]:.0f} s more."
                )
    return "\n".join(lines)


def write(rows: list[list], out: Path, origin: Origin) -> None:
    """Write the section and its numbers."""
    body = (
        "Rows (users) over K parts, ε = 0.03, seed 1, our own engine. Recursive bipartitioning "
        "without the polish, as in the paper; `refine` starts from it and moves single rows. It "
        "keeps the balance of the start where that is above ε: with a dozen users a part, K = 512, "
        "bipartitions cannot balance better. Uneven parts are tried up to K = 128. Seconds of a "
        "refined line are those of refining; λ_max starts from what was refined for Σλ².\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{verdict(rows)}"
    )
    write_numbers(out, "refine", COLUMNS, rows, origin)
    write_section(out, "refine", "K-way refinement", body, origin)


@click.command()
@click.option("--data", "names", multiple=True, default=("ml-1m",), show_default=True)
@click.option("--parts", multiple=True, type=int, default=(64, 512), show_default=True)
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table of refined partitions."""
    origin = Origin.here()
    warnings.simplefilter("ignore", BalanceWarning)
    compile_kernels()
    rows = [row for name in names for n_parts in parts for row in measure(name, n_parts)]
    write(rows, out, origin)


if __name__ == "__main__":
    main()
