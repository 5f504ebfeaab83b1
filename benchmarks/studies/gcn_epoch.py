"""An epoch of graph convolution beside DGL, PyG and torch, and on ranks by who sends what."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks import data, graph_peers
from daskpart.errors import BalanceWarning

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

PEERS = {"DGL": "dgl", "PyG": "torch_geometric.nn", "torch CSR": "torch"}
COLUMNS = ("graph", "layer", "hidden", "ours, ms", "ours, first product each epoch, ms",
           *(f"{peer}, ms" for peer in PEERS), "best peer / ours")  # fmt: skip
RANK_COLUMNS = (
    "graph", "transport", "K", "sent", "rows an epoch", "MB an epoch", "vertices, max / mean",
    "ms an epoch", "ms computing", "ms communicating",
)  # fmt: skip
WAYS = {
    "HP": {"partitioner": "connectivity", "communication": "expand"},
    "GP": {"partitioner": "metis", "communication": "expand"},
    "RP": {"partitioner": "random", "communication": "expand"},
    "broadcast": {"partitioner": "block", "communication": "broadcast"},
}
N_FEATURES, N_CLASSES = 128, 40
LEFT_OUT = 2  # first epochs
TURNS = 5  # fits of each way to send


def problem(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """A graph without loops or weights, random features, random labels."""
    adjacency = data.undirected(name)
    random, n = np.random.default_rng(0), adjacency.shape[0]
    X = random.normal(size=(n, N_FEATURES)).astype(np.float32)
    return adjacency, X, random.integers(0, N_CLASSES, n)


def fitted(name: str, hidden: int, n_epochs: int, **parameters: Any) -> Any:
    """Ours."""
    adjacency, X, y = problem(name)
    model = daskpart.GCNClassifier(hidden, max_iter=n_epochs + LEFT_OUT, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        return model.fit(X, y, graph=adjacency)


def lay_down_cuts(
    folder: str, names: Sequence[str], ranks: Sequence[int], ways: Sequence[str] = tuple(WAYS)
) -> None:
    """Cut every graph once for all transports, into files that `cut` reads."""
    for name in names:
        adjacency, X, y = problem(name)
        for n_ranks in ranks:
            for way in ways:
                model = daskpart.GCNClassifier(16, n_ranks=n_ranks, **WAYS[way])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", BalanceWarning)
                    plan = model.plan(X, y, graph=adjacency)
                plan.partition.save(_file(folder, name, n_ranks, way))


def cut(folder: str, name: str, n_ranks: int, way: str) -> dict[str, Any]:
    """Parameters of the estimator for a way, with its partition from a file."""
    partition = daskpart.Partition.load(_file(folder, name, n_ranks, way))
    return {**WAYS[way], "partitioner": partition}


def _file(folder: str, name: str, n_ranks: int, way: str) -> Path:
    return Path(folder) / f"{name}-{n_ranks}-{way}.npz"


def median_ms(model: Any, column: str = "seconds") -> float:
    """Of the epochs after the first."""
    return 1e3 * float(model.history_[column].iloc[LEFT_OUT:].median())


def line(name: str, layer: str, hidden: int, n_epochs: int, n_threads: int = 1) -> list:
    """One line of the table beside peers of so many threads; ours has a rank for each."""
    kept = ("kept", "each") if layer == "gcn" else ("each",)
    alone = {"layer": layer, "n_ranks": n_threads, "transport": "local",
             "partitioner": "connectivity"}  # fmt: skip
    ours = [median_ms(fitted(name, hidden, n_epochs, first_product=how, **alone)) for how in kept]
    theirs = [_peer_ms(peer, name, layer, hidden, n_epochs, n_threads) for peer in PEERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no peer at all
        best = float(np.nanmin(theirs))
    return [name, layer, hidden, ours[0], ours[-1], *theirs, best / ours[0]]


def _peer_ms(peer: str, name: str, layer: str, hidden: int, n_epochs: int, n_threads: int) -> float:
    """NaN where the peer is not installed, or has no such layer."""
    adjacency, X, y = problem(name)
    try:
        graph_peers.load(PEERS[peer])
        epoch = graph_peers.epoch(peer, adjacency, X, y, hidden, layer=layer, n_threads=n_threads)
    except NotImplementedError:
        return float("nan")
    seconds = []
    for _ in range(n_epochs + LEFT_OUT):
        begin = perf_counter()
        epoch()
        seconds.append(perf_counter() - begin)
    return 1e3 * float(np.median(seconds[LEFT_OUT:]))


def rank_lines(
    client: Any,
    transport: str,
    ranks: Sequence[int],
    names: Sequence[str],
    n_epochs: int,
    folder: str,
) -> list[list]:
    """One line a graph, K and way, on one set of workers; ways alternate over some turns."""
    rows = []
    with client.as_current() if client else nullcontext():
        for name in names:
            for n_ranks in ranks:
                turns: dict[str, list[list]] = {way: [] for way in WAYS}
                sent = {}
                for _ in range(TURNS):
                    for way, found in turns.items():
                        model = fitted(
                            name, 16, n_epochs, first_product="each", n_ranks=n_ranks,
                            transport=transport, **cut(folder, name, n_ranks, way),
                        )  # fmt: skip
                        assert model.comm_report_.matches
                        report = model.plan_report_
                        sent[way] = (
                            report.volume, report.nbytes / 1e6, report.rows_max_to_mean,
                        )  # fmt: skip
                        found.append([
                            median_ms(model), median_ms(model, "seconds_computing"),
                            median_ms(model, "seconds_communicating"),
                        ])  # fmt: skip
                rows += [
                    [name, transport, n_ranks, way, *sent[way], *np.median(found, axis=0).tolist()]
                    for way, found in turns.items()
                ]
    return rows


def on_ranks(
    transports: Sequence[str], ranks: Sequence[int], names: Sequence[str], n_epochs: int
) -> list[list]:
    """All lines of the second table."""
    rows: list[list] = []
    with TemporaryDirectory() as folder:
        lay_down_cuts(folder, names, ranks)
        more = (list(ranks), list(names), n_epochs, folder)
        for transport in transports:
            if transport == "local":
                rows += rank_lines(None, transport, *more)
            elif transport == "dask":
                rows += on_dask_workers(rank_lines, max(ranks), transport, *more)
            elif has_mpiexec():
                rows += in_mpi_job(rank_lines, max(ranks), transport, *more)
            else:
                click.echo("no mpiexec in this environment: MPI is left out")
    return rows


def asked(spread: list[list]) -> str:
    """Where an epoch by HP takes less time than by RP and by broadcast, the quicker one."""
    ms = {(row[0], row[1], row[2], row[3]): row[7] for row in spread}
    found = [
        (f"{name}, {transport}, K = {n_ranks}",
         min(ms[name, transport, n_ranks, other] for other in ("RP", "broadcast")) / hp)
        for (name, transport, n_ranks, way), hp in ms.items() if way == "HP"
    ]  # fmt: skip
    words = (
        "an epoch by HP in fewer seconds, not only bytes, than by RP and by broadcast (in brackets "
        "the milliseconds of the quicker of these over those of HP)"
    )
    return verdict(words, found, lambda factor: factor > 1)


def draw(rows: list[list], spread: list[list], path: Path) -> None:
    """An epoch beside peers, above; below, what it is made of on ranks, by way."""
    from matplotlib.figure import Figure

    n_panels = max(1, len({(row[0], row[1]) for row in spread}))
    figure = Figure(figsize=(max(8, 2.6 * n_panels), 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1)
    _draw_peers(above.subplots(), rows)
    keys = list(dict.fromkeys((row[0], row[1]) for row in spread))
    panels = below.subplots(1, n_panels, squeeze=False)[0]
    for panel, key in zip(panels, keys, strict=False):
        _draw_ranks(panel, [row for row in spread if (row[0], row[1]) == key])
        panel.set_title(", ".join(key), fontsize=9)
    panels[0].set_ylabel("ms an epoch")
    if keys:
        panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=90)


def _draw_peers(panel: Any, rows: list[list]) -> None:
    who = ("ours", "ours, first product each epoch", *PEERS)
    heights = {name: [row[3 + k] for row in rows] for k, name in enumerate(who)}
    there = [name for name in who if not np.isnan(heights[name]).all()]
    places, width = np.arange(len(rows)), 0.8 / len(there)
    for k, name in enumerate(there):
        panel.bar(places + width * (k - (len(there) - 1) / 2), heights[name], width, label=name)
    panel.set_xticks(places, [f"{row[0]}\n{row[1]}, hidden {row[2]}" for row in rows], fontsize=8)
    panel.set(yscale="log", ylabel="ms an epoch, 1 thread")
    panel.legend(fontsize=8, ncols=len(there), loc="lower center", bbox_to_anchor=(0.5, 1))


def _draw_ranks(panel: Any, rows: list[list]) -> None:
    places = np.arange(len(rows))
    computing = [row[8] for row in rows]
    panel.bar(places, computing, label="computing")
    panel.bar(places, [row[9] for row in rows], bottom=computing, label="communicating")
    panel.margins(y=0.35)  # room for the legend
    names = [f"{row[3]}, K = {row[2]}" for row in rows]
    panel.set_xticks(places, names, rotation=60, ha="right", fontsize=8)


@click.command()
@click.option("--graph", "names", multiple=True, default=("arxiv-like", "coauthor-physics"))
@click.option("--hidden", "widths", multiple=True, type=int, default=(16, 64), show_default=True)
@click.option("--epochs", default=6, show_default=True)
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option("--transport", "transports", multiple=True, default=("dask", "mpi"),
              type=click.Choice(("local", "dask", "mpi")), show_default=True)  # fmt: skip
@out_option
def main(
    names: tuple[str, ...], widths: tuple[int, ...], epochs: int, ranks: tuple[int, ...],
    transports: tuple[str, ...], out: Path,
) -> None:  # fmt: skip
    """Write both tables; DASKPART_PEERS names a folder with torch, DGL and PyG."""
    origin = Origin.here()
    absent = graph_peers.skipped(tuple(PEERS.values()))
    rows, on_two = [], []
    for name in names:
        for layer in ("gcn", "gat"):
            for hidden in widths:
                rows.append(line(name, layer, hidden, epochs))
                on_two.append(line(name, layer, hidden, epochs, 2))
                click.echo(rows[-1] + on_two[-1][3:])
    spread = on_ranks(transports, ranks, names, epochs)
    told = "".join(f" Skipped: {reason}." for reason in absent.values())
    body = (
        f"Two layers, {N_FEATURES} dense features, {N_CLASSES} classes, all vertices labelled, "
        f"dropout 0.5, Adam, float32; one thread each, median of {epochs} epochs. Ours makes the "
        "first product once a fit; in the next column it is made in each epoch, as peers do "
        f"(PyG by edge index, its normalisation cached). gat: {graph_peers.HEADS} heads share the "
        f"hidden columns, one has the outputs; it keeps no product.{told}\n\n"
        "![An epoch beside peers, and on ranks](gcn_epoch.png)\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        "2 ranks of one process, cut by connectivity, beside peers with 2 threads:\n\n"
        f"{markdown_table(COLUMNS, on_two)}\n\n"
        "On K ranks, hidden 16, the first product in each epoch. HP: hypergraph; GP: METIS; RP: "
        "random; broadcast: all rows to all ranks, as CAGNET's 1D algorithm, on blocks of rows. "
        "All ranks share the cores named below. Medians of "
        f"{TURNS} fits, the ways in turn.\n\n"
        f"{markdown_table(RANK_COLUMNS, spread)}\n\n{asked(spread)}\n"
    )
    write_numbers(out, "gcn_epoch", COLUMNS, rows, origin)
    draw(rows, spread, out / "gcn_epoch.png")
    write_numbers(out, "gcn_epoch_two_threads", COLUMNS, on_two, origin)
    write_numbers(out, "gcn_epoch_ranks", RANK_COLUMNS, spread, origin)
    write_section(out, "gcn_epoch", "An epoch of graph convolution", body, origin)


if __name__ == "__main__":
    main()
