"""Bytes and predicted seconds of an epoch over P ranks, by plan and α–β–γ: HP, GP, RP, broadcast.

Nothing is sent or timed. Shape of Fig. 4a and 5 of Demirci, Haldar, Ferhatosmanoglu, "Scalable
graph convolutional network training on distributed-memory systems", VLDB 2022; its Table 2 is the
study `gcn_partitions`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks import data
from daskpart import data_models
from daskpart.collectives import hypercube_allreduce_plan
from daskpart.errors import BalanceWarning
from daskpart.models.graph_convolution.communication import forecast, product_plan
from daskpart.models.graph_convolution.operators import with_loops

from .output import Origin, markdown_table, out_option, write_numbers, write_section

GRAPHS = ("email-Enron", "coauthor-physics", "cit-HepPh")
PARTS = tuple(2**step for step in range(1, 13))
COUNTED, TIMED = (2, 512), (64, 4096)  # where bytes, and where seconds, are drawn
WAYS = ("HP", "GP", "RP", "broadcast")
EPSILON = 0.01
WIDTH, N_LAYERS = 16, 2  # d = 16 in every layer; each sends forward and backward
ALPHA, BETA, GAMMA = 2e-6, 1e-10, 2e-10  # s a message, a byte (an MPI cluster), a multiply-add
COLUMNS = ("graph", "P", "cut", "rows a product", "MB an epoch", "messages of the busiest rank",
           "entries, max / mean", "ms, messages", "ms, products", "ms an epoch")  # fmt: skip


def lines(name: str, n_parts: int) -> list[list]:
    """One line a cut, and one for a broadcast on the rows of RP."""
    graph = data.undirected(name)
    model = data_models.column_net_self_loops(graph)
    pattern = with_loops(graph)
    cuts: dict[str, tuple[Any, str, str]] = {
        "HP": (model, "connectivity", "auto"),
        "GP": (data_models.graph(graph, self_loops=True), "cut-net", "metis"),
        "RP": (model, "connectivity", "random"),
    }
    rows = []
    for cut, (of, objective, method) in cuts.items():
        with warnings.catch_warnings():  # a vertex alone may be too heavy
            warnings.simplefilter("ignore", BalanceWarning)
            partition = daskpart.partition(of, n_parts, objective, method=method, epsilon=EPSILON)
        plan = product_plan(pattern, partition, "expand")
        n_own = np.bincount(partition.assignment, minlength=n_parts)
        entries = np.bincount(partition.assignment, np.diff(pattern.indptr), n_parts)
        seconds = forecast([(plan, [WIDTH] * 2 * N_LAYERS)], n_own, 4, ALPHA, BETA)
        products = 2 * N_LAYERS * WIDTH * GAMMA * float(entries.max())
        n_bytes = 4 * N_LAYERS * WIDTH**2
        gradient = hypercube_allreduce_plan(n_parts).predicted_seconds(ALPHA, BETA, n_bytes)
        most = int(plan.statistics().per_rank("messages_sent").max())
        sent = {cut: (plan.total_rows, most, seconds["expand"])}
        if cut == "RP":
            whole = pattern.shape[0] * (n_parts - 1), n_parts - 1, seconds["broadcast"]
            sent["broadcast"] = whole
        for way, (n_rows, n_messages, busy) in sent.items():
            both = busy + gradient
            rows.append([
                name, n_parts, way, n_rows, 4 * 2 * N_LAYERS * WIDTH * n_rows / 1e6, n_messages,
                float(entries.max() / entries.mean()),
                1e3 * both, 1e3 * products, 1e3 * (both + products),
            ])  # fmt: skip
    return rows


def draw(rows: list[list], path: Path) -> None:
    """Bytes, and predicted time, over P; a column of panels a graph."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(3.6 * len(names), 6), layout="constrained")
    panels = figure.subplots(2, len(names), squeeze=False, sharex="row", sharey="row")
    lines_of = ((COUNTED, "MB an epoch"), (TIMED, "ms an epoch"))
    for across, ((first, last), what) in zip(panels, lines_of, strict=True):
        place = COLUMNS.index(what)
        for name, panel in zip(names, across, strict=True):
            all_parts = [row for row in rows if row[0] == name]
            own = [row for row in all_parts if first <= row[1] <= last] or all_parts
            for way in WAYS:
                line = [(row[1], row[place]) for row in own if row[2] == way]
                panel.plot(*zip(*line, strict=True), "o-", label=way, markersize=4)
            panel.set(xscale="log", yscale="log", xlabel="P")
            parts = sorted({row[1] for row in own})
            panel.set_xticks(parts, [f"{n:,}" for n in parts], rotation=45, fontsize=8)
            panel.minorticks_off()
        across[0].set_ylabel(what)
    for name, panel in zip(names, panels[0], strict=True):
        panel.set_title(name, fontsize=11)
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=90)


def told(rows: list[list]) -> str:
    """In how many cases HP moves least, and is quickest."""
    of = {(row[0], row[1], row[2]): row for row in rows}
    cases = list(dict.fromkeys((row[0], row[1]) for row in rows))

    def won(column: str, among: list[tuple[str, int]]) -> str:
        place = COLUMNS.index(column)
        best = [min(WAYS, key=lambda way: of[*case, way][place]) for case in among]
        return f"{best.count('HP')} of {len(among)}"

    many = [case for case in cases if case[1] >= TIMED[0]]
    return (
        f"HP moves least in {won('MB an epoch', cases)} cases, and is predicted to be quickest in "
        f"{won('ms an epoch', many)} from P = {TIMED[0]}."
    )


@click.command()
@click.option("--graph", "names", multiple=True, default=GRAPHS, show_default=True)
@click.option("--parts", multiple=True, type=int, default=PARTS, show_default=True)
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table and the picture; nothing is timed."""
    origin = Origin.here()
    rows = []
    for name in names:
        for n_parts in parts:
            rows += lines(name, n_parts)
            click.echo(rows[-4:])
    body = (
        f"{N_LAYERS} layers of {WIDTH} columns, float32, every layer sends forward and backward. "
        "Rows, bytes and messages are those of the plans, which a run sends to the unit; seconds "
        f"are predicted, nothing is timed: α = {ALPHA:g} s a message, β = {BETA:g} s a byte, γ = "
        f"{GAMMA:g} s a multiply-add of the busiest rank; an allreduce of the gradients on the "
        "hypercube included, overlap not. HP: column-net with self loops; GP: METIS; RP: random "
        f"rows; ε = {EPSILON:g}. Broadcast: all rows to all ranks at once (CAGNET's 1D algorithm "
        "does so in P turns).\n\n"
        "![Bytes and predicted time of an epoch over P](gcn_scaling.png)\n\n"
        f"{told(rows)}\n\n"
        f"{markdown_table(COLUMNS, rows)}\n"
    )
    write_numbers(out, "gcn_scaling", COLUMNS, rows, origin)
    draw(rows, out / "gcn_scaling.png")
    write_section(out, "gcn_scaling", "Graph convolution on many ranks, predicted", body, origin)


if __name__ == "__main__":
    main()
