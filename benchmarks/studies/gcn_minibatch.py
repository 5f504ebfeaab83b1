"""Mini-batch training: rows that move under SHP, HP and RP; seconds beside DGL; accuracy.

Figure 5 of Demirci, Haldar, Ferhatosmanoglu, VLDB 2022: on com-Amazon, mini-batches of 20,000
vertices (6 %), HP moves 10 % more rows than SHP on average over P = 3 … 27.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks import data, graph_peers
from daskpart.data_models import LayerSampler, NeighbourSampler, VertexSampler

from .gcn_epoch import problem
from .output import Origin, markdown_table, out_option, write_numbers, write_section

CASES: dict[str, tuple[Any, float]] = {
    "vertices, 6 %": (VertexSampler(), 0.06),
    "neighbours, 1 % × (10, 10)": (NeighbourSampler(fanouts=(10, 10)), 0.01),
    "layers, 6 % × 2": (LayerSampler(n_layers=2), 0.06),
}
CUTS = {"SHP": "stochastic", "HP": "connectivity", "RP": "random"}
VOLUME = (
    "graph", "K", "mini-batch", "cut", "rows expected", "rows counted", "over SHP",
    "kB of rows and indices",
)  # fmt: skip
SECONDS = ("graph", "layer", "ours, s", "DGL, s", "DGL / ours")
FEW = (
    "graph", "layer", "labelled", "all vertices, ms", "rows", "what labels read, ms", "rows",
    "all / what labels read",
)  # fmt: skip
N_LABELLED = 100
TIMED = {"batch_size": 1024, "fanouts": (10, 10), "hidden": 64}
TURNS = 2  # epochs that are measured, after a first
ACCURACY = (
    "graph", "training", "steps", "test accuracy, mean %", "deviation", "CPU seconds a fit",
)  # fmt: skip
TRAININGS: dict[str, dict[str, Any]] = {
    "full batch": {"max_iter": 200},
    "vertices, 10 %": {"sampler": "vertex", "batch_size": 0.1, "max_iter": 20},
    "neighbours, 5 % × (10, 10)": {"sampler": "neighbour", "batch_size": 0.05, "max_iter": 10},
    "layers, 5 % × 2": {"sampler": "layer", "batch_size": 0.05, "max_iter": 10},
}


def volumes(name: str, n_ranks: int, case: str, epochs: int) -> list[list[Any]]:
    """One line for each cut: rows of a mini-batch, both ways, as planned and as counted."""
    graph = data.undirected(name)
    random, (sampler, size) = np.random.default_rng(0), CASES[case]
    X, y = random.normal(size=(graph.shape[0], 16)), random.integers(0, 4, graph.shape[0])
    lines: list[list[Any]] = []
    for cut, partitioner in CUTS.items():
        model = daskpart.GCNClassifier(
            hidden=(16,), batch_size=size, sampler=sampler, partitioner=partitioner,
            n_ranks=n_ranks, transport="local", max_iter=epochs,
        )  # fmt: skip
        model.fit(X, y, graph=graph)
        plan, sent = model.plan_report_, model.comm_report_
        rows = float(sent.measured_rows.sum()) / plan.n_batches
        nbytes = sent.measured_bytes / plan.n_batches
        line = [name, n_ranks, case, cut, round(plan.volume / plan.n_batches, 1), round(rows, 1)]
        base = lines[0][5] if lines else rows
        lines.append([*line, round(rows / base, 3), round(nbytes / 1e3, 1)])
        click.echo(lines[-1])
    return lines


def seconds(name: str, layer: str) -> list[Any]:
    """One line: an epoch of ours and of DGL on one thread, the quicker of some each."""
    graph, X, y = problem(name)
    size, hidden = min(TIMED["batch_size"], len(y) // 2), TIMED["hidden"]
    model = daskpart.GCNClassifier(
        hidden, layer=layer, batch_size=size, sampler=NeighbourSampler(fanouts=TIMED["fanouts"]),
        n_ranks=1, transport="local", max_iter=1 + TURNS,
    )  # fmt: skip
    model.fit(X, y, graph=graph)
    ours, theirs = float(model.history_["seconds"][1:].min()), None
    with suppress(NotImplementedError):
        run = graph_peers.sampled_epoch(graph, X, y, hidden, size, TIMED["fanouts"], layer=layer)
        run()
        found = []
        for _ in range(TURNS):
            began = time.perf_counter()
            run()
            found.append(time.perf_counter() - began)
        theirs = min(found)
    line = [name, layer, ours, theirs, None if theirs is None else theirs / ours]
    click.echo(line)
    return line


def of_few_labels(name: str, layer: str) -> list[Any]:
    """One line: an epoch of a full batch, and of the vertices whose values few labels read."""
    graph, X, y = problem(name)
    shown = np.random.default_rng(0).permutation(len(y)) < N_LABELLED
    y, n_labelled = np.where(shown, y, -1), int(shown.sum())
    every = NeighbourSampler(fanouts=(len(y), len(y)))
    line: list[Any] = [name, layer, n_labelled]
    for options in ({"first_product": "each"}, {"batch_size": n_labelled, "sampler": every}):
        model = daskpart.GCNClassifier(
            64, layer=layer, n_ranks=2, transport="local", partitioner="connectivity", max_iter=12,
            **options,
        )  # fmt: skip
        history = model.fit(X, y, graph=graph).history_
        line += [1e3 * float(history["seconds"][2:].median()), int(history["volume"].iloc[-1])]
    line.append(line[3] / line[5])
    click.echo(line)
    return line


def accuracies(name: str, training: str, n_seeds: int) -> list[Any]:
    """One line: accuracy on the half of the vertices that was not trained on."""
    graph, options = data.labelled_graph(name), TRAININGS[training]
    n = len(graph.labels)
    scores, seconds, steps = [], [], 0
    for seed in range(n_seeds):
        shown = np.random.default_rng(seed).random(n) < 0.5
        model = daskpart.GCNClassifier(
            hidden=(16,), n_ranks=2, transport="local", partitioner="connectivity",
            random_state=seed, first_product="auto" if "batch_size" in options else "each",
            **options,
        )  # fmt: skip
        began = time.process_time()
        model.fit(graph.features, np.where(shown, graph.labels, -1), graph=graph.adjacency)
        seconds.append(time.process_time() - began)
        scores.append(100 * model.score(graph.features, graph.labels, mask=~shown))
        steps = model.n_iter_ * getattr(model.plan_report_, "n_batches", 1)
    spread = float(np.mean(scores)), float(np.std(scores))
    line = [name, training, steps, *spread, round(float(np.mean(seconds)), 1)]
    click.echo(line)
    return line


@click.command()
@click.option("--graph", default="pubmed", show_default=True, help="Of the volumes.")
@click.option("--ranks", multiple=True, type=int, default=(8, 27), show_default=True)
@click.option("--epochs", default=2, show_default=True, help="To count rows in.")
@click.option(
    "--timed", multiple=True, default=("arxiv-like", "coauthor-physics"), show_default=True,
    help="Of the seconds, and of few labels.",
)  # fmt: skip
@click.option("--labelled", default="coauthor-cs", show_default=True, help="Of the accuracies.")
@click.option("--seeds", default=3, show_default=True)
@out_option
def main(
    graph: str,
    ranks: tuple[int, ...],
    epochs: int,
    timed: tuple[str, ...],
    labelled: str,
    seeds: int,
    out: Path,
) -> None:
    """Write the tables of volume, seconds and accuracy; DASKPART_PEERS as for `gcn_epoch`."""
    origin = Origin.here()
    moved = [
        line
        for n_ranks in ranks
        for case in CASES
        for line in volumes(graph, n_ranks, case, epochs)
    ]
    waited = [seconds(name, layer) for name in timed for layer in ("sage", "gcn", "gat")]
    few = [of_few_labels(name, layer) for name in timed for layer in ("gcn", "gat")]
    judged = [accuracies(labelled, training, seeds) for training in TRAININGS]
    over = [line[6] for line in moved if line[3] == "HP"]
    body = (
        "Rows that a mini-batch of `GCNClassifier` (two layers, 16 columns) moves, forward and "
        "backward together, in the mean over those of an epoch, of which the last is smaller. "
        "Expected: the mean of 32 mini-batches that the plan draws, which no partition has seen; "
        f"counted: what ranks sent, mean over {epochs} epochs. SHP cuts the "
        'nets of sampled mini-batches (`partitioner="stochastic"`), HP those of the whole graph, '
        f"RP is random; ε = 0.01. HP moves {min(over):.2f} to {max(over):.2f} times, in the mean "
        f"{np.mean(over):.2f} times the rows of SHP; the paper found 1.10. Indices are what "
        "readers tell owners in each mini-batch.\n\n"
        f"{markdown_table(VOLUME, moved)}\n\n"
        f"Seconds of an epoch: mini-batches of {TIMED['batch_size']:,} vertices, all of which are "
        f"trained on, then {TIMED['fanouts'][0]} neighbours of each, twice; 128 features, "
        f"{TIMED['hidden']} hidden columns, 40 classes, dropout of one half, Adam; one thread, the "
        f"quicker of {TURNS} epochs after a first, with the drawing of the mini-batches. DGL: its "
        "NeighborSampler and blocks in the same process.\n\n"
        f"{markdown_table(SECONDS, waited)}\n\n"
        f"An epoch with {N_LABELLED} labelled vertices, drawn at random, of the same network on "
        "two ranks of this process, cut by connectivity: of all vertices, and as one mini-batch "
        "of all labelled ones with all of their neighbours, which is the same training, to "
        "rounding.\n\n"
        f"{markdown_table(FEW, few)}\n\n"
        "Accuracy on the half of the vertices that was not trained on, of the weights of the last "
        f"epoch, over {seeds} seeds and splits; two ranks, cut by connectivity, else the defaults. "
        "Layers and vertices of a small mini-batch see few of the neighbours that they have in the "
        "whole graph.\n\n"
        f"{markdown_table(ACCURACY, judged)}\n"
    )
    write_numbers(out, "gcn_minibatch", VOLUME, moved, origin)
    write_numbers(out, "gcn_minibatch_seconds", SECONDS, waited, origin)
    write_numbers(out, "gcn_minibatch_few_labels", FEW, few, origin)
    write_numbers(out, "gcn_minibatch_accuracy", ACCURACY, judged, origin)
    write_section(out, "gcn_minibatch", "Graph convolution on mini-batches", body, origin)


if __name__ == "__main__":
    main()
