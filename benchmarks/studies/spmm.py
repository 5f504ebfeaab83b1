"""Sparse times dense rows beside scipy and torch, and as a share of memory bandwidth; attention."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import click
import numpy as np

from benchmarks import graph_peers
from benchmarks.spmm import GRAPHS, Attention, Product

from .cp_kernel import bandwidth
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "graph", "columns", "ours, ms", "neighbours near, ms", "transposed, ms", "as one row, ms",
    "scipy CSR, ms", "torch CSR, ms", "scipy / ours", "scipy / near", "torch / ours", "GB/s",
    "of triad",
)  # fmt: skip
ATTENTION_COLUMNS = ("graph", *Attention.params[1])
HOW = Product.params[2]
WANTED = 3.0


def line(name: str, columns: int, turns: int) -> list:
    """One line: the least of some turns of each way, taken in turn, and medians of ratios."""
    suite = Product()
    suite.setup(name, columns, "ours")
    runs = {}
    for how in HOW:
        try:
            runs[how] = suite.ready(how)
        except NotImplementedError:
            continue
        runs[how]()  # compiles
    found = {how: np.full(turns, np.nan) for how in HOW}
    for turn in range(turns):
        for how, run in runs.items():
            begin = perf_counter()
            run()
            found[how][turn] = 1e3 * (perf_counter() - begin)
    ours, near, _, _, scipy, torch = found.values()
    speed = suite.n_bytes / float(ours.min()) / 1e6
    share = float(speed / bandwidth(1, turns=2))  # now: other programs come and go
    least = [float(each.min()) for each in found.values()]
    pairs = (scipy / ours, scipy / near, torch / ours)
    ratios = [float(np.median(each)) for each in pairs]
    return [name, columns, *least, *ratios, speed, share]


def attention_line(name: str, turns: int) -> list:
    """Least ms of each step of a layer of GAT."""
    found: list = [name]
    for step in Attention.params[1]:
        suite = Attention()
        suite.setup(name, step)
        seconds = []
        for _ in range(turns):
            begin = perf_counter()
            suite.time_step(name, step)
            seconds.append(perf_counter() - begin)
        found.append(1e3 * min(seconds))
    return found


@click.command()
@click.option("--graph", "names", multiple=True, default=GRAPHS, show_default=True)
@click.option("--columns", multiple=True, type=int, default=(7, 16, 64, 128, 300))
@click.option("--turns", default=9, show_default=True)
@out_option
def main(names: tuple[str, ...], columns: tuple[int, ...], turns: int, out: Path) -> None:
    """Write the tables; DASKPART_PEERS names a folder with torch, where this Python has none."""
    origin = Origin.here()
    absent = graph_peers.skipped(("torch",))
    rows = []
    for name in names:
        for width in columns:
            rows.append(line(name, width, turns))
            click.echo(rows[-1])
    attention = [attention_line(name, turns) for name in names]
    told = "".join(f" Skipped: {reason}." for reason in absent.values())
    met, met_near = (
        sum(row[COLUMNS.index(f"scipy / {which}")] >= WANTED for row in rows)
        for which in ("ours", "near")
    )
    body = (
        "Â H, Â the normalised adjacency, float32 with int32 indices, rows of H beginning with a "
        "cache line, one thread, least of "
        f"{turns} turns side by side; ratios are medians over the turns. *Neighbours near*: the "
        "same product with the vertices in the order in which a rank has them in a fit, which it "
        "finds once. *Transposed*: Âᵀ H from the same entries, nothing stored. *As one row*: by "
        "the same entries as a matrix of one row; what is above that is what the ends of rows "
        "cost, the limit where H fits the caches. *GB/s* counts a row of H for each entry, the "
        "entries, the result twice; rows come from caches in part. *Of triad*: against a = b + 2c "
        "on large arrays, right after, the limit where H does not fit. "
        f"Wanted: {WANTED:g} times scipy; met in {met} of {len(rows)} lines, and in {met_near} "
        f"with neighbours near.{told}\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        "The steps of a layer of GAT with 8 heads of 8 columns, ms (*product, backward*: the "
        "gradient of the attention, and of the rows):\n\n"
        f"{markdown_table(ATTENTION_COLUMNS, attention)}\n"
    )
    write_numbers(out, "spmm", COLUMNS, rows, origin)
    write_section(out, "spmm", "Sparse times dense, over the edges of a graph", body, origin)


if __name__ == "__main__":
    main()
