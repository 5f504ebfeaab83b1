"""Partitioners beside each other: what HP-λ² saves against random parts, and what it costs."""

from __future__ import annotations

from pathlib import Path

import click

import daskpart
from benchmarks import data

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import METHODS, connectivity_of, matrix

ETA = 8
COLUMNS = (
    "data", "K", "method", "λ_max", "items with λ = K", "Σλ²", "Σ(λ−1)",
    f"volume, η = {ETA}", f"staleness, η = {ETA}", "imbalance", "seconds",
)  # fmt: skip
COMPARED = {"λ_max": 3, "Σλ²": 5, f"volume at η = {ETA}": 7, f"staleness at η = {ETA}": 8}


def measure(name: str, n_parts: int, method: str) -> list:
    """One line of the table, of all ratings of a data set."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    hypergraph = daskpart.Hypergraph.column_net(matrix(triples, shape))
    connectivity_of(hypergraph, 2, method)  # compiles
    partition, connectivity = connectivity_of(hypergraph, n_parts, method)
    return [
        name,
        n_parts,
        method,
        connectivity.max_connectivity(),
        int(connectivity.histogram()[-1]),
        connectivity.power(2),
        connectivity.connectivity_minus_one(),
        connectivity.pasgd_volume(ETA),
        connectivity.pasgd_staleness(ETA),
        round(partition.imbalance, 4),
        round(partition.info["seconds"], 2),
    ]


def verdict(name: str, n_parts: int, rows: list[list], method: str) -> str:
    """In words: in what a method is lower than RAND, and in what it is not."""
    of_method = {row[2]: row for row in rows if row[:2] == [name, n_parts]}
    chance, found = of_method["RAND"], of_method[method]
    words = [
        f"{metric} {found[at] / chance[at] - 1:+.0%}"
        if found[at] < chance[at]
        else f"{metric} **not lower** ({found[at]:,} against {chance[at]:,})"
        for metric, at in COMPARED.items()
    ]
    return (
        f"- {name}, K = {n_parts}, {method} against RAND: {'; '.join(words)}; items that all ranks "
        f"share {found[4]:,} against {chance[4]:,}."
    )


@click.command()
@click.option("--data", "names", multiple=True, default=("ml-1m", "gowalla"), show_default=True)
@click.option("--parts", multiple=True, type=int, default=(64,), show_default=True)
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table of partitioners on ratings."""
    origin = Origin.here()
    rows = []
    for name in names:
        for n_parts in parts:
            for method in METHODS:
                rows.append(measure(name, n_parts, method))
                click.echo(rows[-1])
    verdicts = "\n".join(
        verdict(name, n_parts, rows, method)
        for name in names
        for n_parts in parts
        for method in ("HP-λ²", "HP-λ², uneven")
    )
    body = (
        "Rows (users) over K parts, ε = 0.03, seed 0, all ratings of the data set. RAND is "
        "balanced by weight, else random. HP-λ² is recursive bipartitioning with "
        "power-connectivity ρ = 2 and its polish; uneven: bounded from above only, as in the "
        "paper, so that a part may be left nearly empty; HP, λ−1 is the direct K-way partition by "
        "connectivity − 1; both on our own engine. Volume and staleness are rows "
        "an epoch (eq. 8 and 9).\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{verdicts}"
    )
    write_numbers(out, "partitions", COLUMNS, rows, origin)
    write_section(out, "partitions", "Partitioners on ratings", body, origin)


if __name__ == "__main__":
    main()
