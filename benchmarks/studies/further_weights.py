"""Several weights a vertex, each shared evenly: what that costs beside one, and beside their sum.

ratings      users weigh their ratings (an epoch), and 1 each (memory, top-N lists)
graphs       vertices weigh their entries, and 1 if trained on, or if of one of two classes,
             which sit together
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import click
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import daskpart
from benchmarks import data
from daskpart import data_models
from daskpart.data_models import DataModel
from daskpart.partitioners.balance import heaviest_allowed, stacked

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "further weights", "K", "cut by", "imbalance", "further imbalance", "rows",
    "over one weight", "seconds",
)  # fmt: skip
EPSILON = 0.03


def of_ratings(name: str) -> tuple[DataModel, dict[str, NDArray[Any]]]:
    """Users and items; a further weight of 1 a user."""
    users, items, values = data.ratings(name)
    model = data_models.column_net(scipy.sparse.coo_array((values, (users, items))))
    return model, {"users": np.ones((model.hypergraph.n_vertices, 1), np.int64)}


def of_graph(name: str) -> tuple[DataModel, dict[str, NDArray[Any]]]:
    """Vertices; further weights by the training split and by the first two classes."""
    graph = data.labelled_graph(name)
    model = data_models.column_net_self_loops(graph.adjacency)
    trained = np.zeros((model.hypergraph.n_vertices, 1), np.int64)
    trained[graph.training] = 1
    classes = graph.labels[:, None] == np.arange(2)
    return model, {"trained on": trained, "two classes": classes.astype(np.int64)}


def measure(
    name: str, model: DataModel, further: tuple[str, NDArray[Any]], n_parts: int
) -> tuple[list[list[Any]], list[str]]:
    """By one weight, by the sum of all (each as a share of its total), and by each; what failed."""
    words, weights = further
    hypergraph, rows = model.hypergraph, []
    every = [hypergraph.vertex_weights, *weights.T]
    summed = replace(hypergraph, vertex_weights=stacked(every)[:, 0])
    ways: dict[str, tuple[Any, Any]] = {
        "one weight": (hypergraph, None),
        "their sum": (summed, None),
        "each weight": (hypergraph, weights),
    }
    for cut, (nets, asked) in ways.items():
        found = daskpart.partition(nets, n_parts, epsilon=EPSILON, further_weights=asked)
        found = replace(found, weights=hypergraph.vertex_weights)
        worst = max(replace(found, weights=each).imbalance for each in weights.T)
        moved = daskpart.Connectivity.from_partition(hypergraph, found).connectivity_minus_one()
        ratio = round(moved / rows[0][6], 3) if rows else 1.0
        told = [round(found.imbalance, 4), round(worst, 4), moved, ratio]
        rows.append([name, words, n_parts, cut, *told, round(found.info["seconds"], 2)])
        click.echo(rows[-1])
    return rows, missed(name, words, n_parts, every, found.assignment)


def missed(
    name: str, words: str, n_parts: int, weights: list[NDArray[Any]], parts: Any
) -> list[str]:
    """In words, where a part is heavier than asked."""
    loads = [np.bincount(parts, each, n_parts).max() for each in weights]
    allowed = [heaviest_allowed(int(each.sum()), n_parts, EPSILON) for each in weights]
    is_heavy = any(load > most for load, most in zip(loads, allowed, strict=True))
    return [f"{name}, {words}, K = {n_parts}"] if is_heavy else []


@click.command()
@click.option("--ratings", multiple=True, default=("ml-1m",), show_default=True)
@click.option("--graph", "graphs", multiple=True, default=("pubmed", "coauthor-physics"),
              show_default=True)  # fmt: skip
@click.option("--parts", multiple=True, type=int, default=(2, 8, 32), show_default=True)
@out_option
def main(
    ratings: tuple[str, ...], graphs: tuple[str, ...], parts: tuple[int, ...], out: Any
) -> None:
    """Write the table."""
    origin = Origin.here()
    made = {name: of_ratings(name) for name in ratings} | {name: of_graph(name) for name in graphs}
    rows, failed = [], []
    for name, (model, weights) in made.items():
        for further, n_parts in product(weights.items(), parts):
            found, beyond = measure(name, model, further, n_parts)
            rows += found
            failed += beyond
    verdict = f"Missed by *each weight*: {'; '.join(failed)}." if failed else "Met in all lines."
    body = (
        "*One weight*: as a partition without `further_weights`. *Their "
        "sum*: one weight, to which each contributes as a share of its own total, as one does "
        "where a partitioner knows one. *Rows*: what one expand moves, Σ (λ − 1).\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        f"Asked of each weight: an imbalance of at most {EPSILON}, or of the mean rounded up to a "
        f"whole unit where there are few. {verdict}"
    )
    write_numbers(out, "further_weights", COLUMNS, rows, origin)
    write_section(out, "further_weights", "Several weights a vertex", body, origin)


if __name__ == "__main__":
    main()
