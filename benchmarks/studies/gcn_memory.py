"""Memory of a rank of graph convolution: what its plan forecasts, beside its worker process.

    worker   imports, kernels │ graph, features, halo │ what an epoch makes and lets go
             ── before ───────┼──── set-up ───────────┼──── epochs: resident at most, less `before`

Every rank has a process of its own, so what is measured is what the system gave it. That is once
with all that is freed given back at once (`GIVES_BACK`), and once as it is by default: steps keep
what they free (`daskpart._floor.memory`).
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any
from unittest.mock import patch

import click
import numpy as np

import daskpart
from benchmarks import data
from benchmarks.measuring import begin_peak, peak_since
from daskpart._floor.memory import give_back_freed_memory
from daskpart._floor.rank_tasks import known_workers
from daskpart.collectives.transports.placement import order_of_workers
from daskpart.errors import BalanceWarning
from daskpart.models.base.callbacks import EpochCallback

from .clusters import on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section

N_FEATURES, N_CLASSES, EPOCHS = 64, 40, 4
WITHIN = 0.15
GRAPHS = {  # and how they are cut; one that is made at random has no parts to find
    "coauthor-physics": "connectivity",
    "power-law-10m": "block",
}
MODELS: dict[str, dict[str, Any]] = {
    "gcn 16": {"hidden": 16},
    "gcn 64": {"hidden": 64},
    "gcn 64, product each epoch": {"hidden": 64, "first_product": "each"},
    "sage 64": {"hidden": 64, "layer": "sage"},
    "gat 64": {"hidden": 64, "layer": "gat"},
}
COLUMNS = (
    "graph", "edges", "model", "rank", "forecast, MB", "counted, MB", "resident, MB",
    "resident / forecast", "set-up, MB", "by default, MB", "by default / forecast", "final loss",
)  # fmt: skip
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}  # bytes; glibc's default


class Resident(EpochCallback):
    """Reads the peaks of all workers: behind set-up, and over the epochs after the first.

    Parameters
    ----------
    everywhere : callable
        Runs a function on every worker, and gives what they answer by rank.
    """

    def __init__(self, everywhere: Callable[..., np.ndarray]) -> None:
        self._everywhere = everywhere
        everywhere(gc.collect)
        sleep(1)  # until the workers let go of the fit before
        everywhere(give_back_freed_memory)
        self._before = everywhere(begin_peak)

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Behind each epoch."""
        most = self._everywhere(peak_since, 0) - self._before
        if row["epoch"] == 1:
            self.set_up = most
        else:
            self.epochs = most
        self._everywhere(begin_peak)
        return False


def problem(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """A graph without loops or weights, random features, random labels."""
    adjacency, random = data.undirected(name), np.random.default_rng(0)
    n = adjacency.shape[0]
    X = random.standard_normal((n, N_FEATURES), np.float32)
    return adjacency, X, random.integers(0, N_CLASSES, n)


def lines(n_ranks: int, names: list[str], models: list[str]) -> list[list]:
    """Lines of the table, one a rank: from workers that give back what is freed, and others."""
    with patch.dict(os.environ, GIVES_BACK):
        given_back = on_dask_workers(lines_of, n_ranks, n_ranks, names, models)
    kept = on_dask_workers(lines_of, n_ranks, n_ranks, names, models)
    place = COLUMNS.index("resident, MB")
    return [
        [*row[:-1], *more[place : place + 2], row[-1]]
        for row, more in zip(given_back, kept, strict=True)
    ]


def lines_of(client: Any, n_ranks: int, names: list[str], models: list[str]) -> list[list]:
    """The lines, from some workers."""
    rows = []
    for place, name in enumerate(names):
        adjacency, X, y = problem(name)
        # the first fit is not counted: what a process gets ready once is not of a rank
        for model in models if place else [models[0], *models]:
            cut = GRAPHS.get(name, "connectivity")
            parameters = {**MODELS[model], "partitioner": cut, "n_ranks": n_ranks}
            fitted, seen = _fitted(client, adjacency, X, y, parameters)
            report = fitted.comm_report_
            resident, forecast = seen.epochs, report.expected_memory
            for rank in range(n_ranks):
                rows.append([
                    name, adjacency.nnz, model, rank, float(forecast[rank] / 1e6),
                    float(report.memory[rank] / 1e6), float(resident[rank] / 1e6),
                    float(resident[rank] / forecast[rank]), float(seen.set_up[rank] / 1e6),
                    float(fitted.history_["loss"].iloc[-1]),
                ])  # fmt: skip
            click.echo(rows[-n_ranks:])
    return rows[n_ranks:]


def _fitted(
    client: Any, adjacency: Any, X: np.ndarray, y: np.ndarray, parameters: dict[str, Any]
) -> tuple[Any, Resident]:
    def estimator() -> Any:
        return daskpart.GCNClassifier(max_iter=EPOCHS, transport="dask", **parameters)

    def everywhere(function: Callable[..., int], *arguments: Any) -> np.ndarray:
        told = client.run(function, *arguments)
        return np.array([told[place] for place in order_of_workers(known_workers(client))])

    few = np.arange(min(8000, len(y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        small = estimator().fit(X[few], y[few] % 2, graph=adjacency[few][:, few], client=client)
        del small  # compiles, and reaches for what messages need
        fitted, seen = estimator(), Resident(everywhere)
        fitted.set_callbacks(seen)
        fitted.fit(X, y, graph=adjacency, client=client)
    return fitted, seen


@click.command()
@click.option("--graph", "names", multiple=True, default=tuple(GRAPHS), show_default=True)
@click.option("--ranks", default=4, show_default=True)
@click.option("--model", "models", multiple=True, default=tuple(MODELS),
              type=click.Choice([*MODELS]), show_default=True)  # fmt: skip
@out_option
def main(names: tuple[str, ...], ranks: int, models: tuple[str, ...], out: Path) -> None:
    """Write the table of forecast and resident memory."""
    origin = Origin.here()
    rows = lines(ranks, list(names), list(models))
    ratios, by_default = (
        [row[COLUMNS.index(f"{what} / forecast")] for row in rows]
        for what in ("resident", "by default")
    )
    told = ", ".join(f"{name}={value}" for name, value in GIVES_BACK.items())
    kept = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
    body = (
        f"{ranks} ranks, each in a worker process of its own; two layers, {N_FEATURES} dense "
        f"features, {N_CLASSES} classes, all vertices labelled, dropout 0.5, Adam, float32. The "
        "number of a model is its hidden width; the first product is kept unless said. "
        "*Forecast*: of the plan, before anything is laid out. *Counted*: the arrays that the "
        "ranks count in a pass. *Resident*: what the process of a rank held at most in epochs 2 to "
        f"{EPOCHS}, beyond what it held before the fit (Python, compiled kernels, Dask, and what a "
        "first fit leaves, which is not counted). *Set-up*: the same until the end of the first "
        f"epoch. Both with `{told}`, so that memory which is freed goes back "
        "to the system at once. *By default*: resident without that. What a step frees then stays "
        "with the process for the next one, which then asks for no new pages. Wanted: "
        f"resident within {WITHIN:.0%} of the forecast; kept in {kept} of {len(rows)} lines, from "
        f"{min(ratios):.2f} to {max(ratios):.2f}; by default {min(by_default):.2f} to "
        f"{max(by_default):.2f} of it. The power-law graph is made, and cut in blocks; "
        "the other is cut by connectivity.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n"
    )
    write_numbers(out, "gcn_memory", COLUMNS, rows, origin)
    write_section(out, "gcn_memory", "Memory of a rank of graph convolution", body, origin)


if __name__ == "__main__":
    main()
