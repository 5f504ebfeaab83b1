"""Sums of sparse vectors on one thread: GB/s beside a copy of the same bytes, and beside peers."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import click
import numpy as np

from benchmarks.sparse_sum import SparseSum

from .output import Origin, markdown_table, out_option, write_numbers, write_section

HOW = ("copy", "merge", "marked", "scatter", "dense", "stream", "scipy", "pydata-sparse")
WORDS = {
    "copy": "copy of the entries (the bound)",
    "merge": "merge of two",
    "marked": "merge of many, by marks",
    "scatter": "scatter into a dense vector",
    "dense": "dense add",
    "stream": "`stream` (chooses, allocates)",
    "scipy": "scipy CSR",
    "pydata-sparse": "pydata/sparse",
}
TURNS = 7
COLUMNS = ("N", "entries", "how", "ms", "M entries/s", "GB/s", "time / copy")


def lines(size: int, n_entries: int) -> list[list]:
    """One line a way, measured in turn."""
    suite = SparseSum()
    suite.setup((size, n_entries), "copy")
    runs = {how: suite.ready(how) for how in HOW}
    least = dict.fromkeys(HOW, np.inf)
    for turn in range(TURNS + 1):
        for how, run in runs.items():
            begin = perf_counter()
            run()
            if turn:  # the first compiles
                least[how] = min(least[how], perf_counter() - begin)
    n_bytes = 8 * (suite.length + suite.n_sum)
    return [
        [size, n_entries, WORDS[how], 1e3 * seconds, suite.length / seconds / 1e6,
         n_bytes / seconds / 1e9, seconds / least["copy"]]
        for how, seconds in least.items()
    ]  # fmt: skip


@click.command()
@click.option(
    "--case", "cases", multiple=True, type=(int, int), show_default=True,
    default=((10**8, 5_000_000), (2_000_000, 1_000_000), (10**7, 100_000)),
)  # fmt: skip
@out_option
def main(cases: tuple[tuple[int, int], ...], out: Path) -> None:
    """Write the table."""
    origin = Origin.here()
    rows = [line for case in cases for line in lines(*case)]
    for line in rows:
        click.echo(line)
    body = (
        "Two vectors of so many float32 entries with uint32 indices, spread evenly over N. GB/s "
        "counts the entries read and written (8 bytes each), whatever else a way reads; a dense "
        f"way is quick where the vector is. One thread, the least of {TURNS} turns.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "sparse_sum", COLUMNS, rows, origin)
    write_section(out, "sparse_sum", "Sums of sparse vectors", body, origin)


if __name__ == "__main__":
    main()
