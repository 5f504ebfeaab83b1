"""BPR on ranks beside the package `implicit`: NDCG, recall and AUC on clicks.

Both draw one unseen item for each click in each epoch and have the same number of components and
epochs. Their steps differ (AdaGrad here, a constant rate there), so each has its own rate.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks.data import data_folder

from .implicit_als import DATA, peers
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = ("data", "who", "ranks", "η", "NDCG@10", "recall@10", "AUC")
RUNS: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {}),
    (4, {"eta": 1}),
    (4, {"eta": 4}),
    (4, {"schedule": "dsgd"}),
)


@click.command()
@click.option("--data", "names", multiple=True, type=click.Choice([*DATA]), default=("ml-1m",))
@click.option("--peer", help="A Python that has the package implicit; none: ours alone.")
@click.option("--components", default=64, show_default=True)
@click.option("--epochs", default=30, show_default=True)
@click.option("--regularization", default=0.01, show_default=True)
@click.option("--seconds", is_flag=True, help="Seconds of an epoch, too: on a quiet machine.")
@out_option
def main(
    names: tuple[str, ...], peer: str | None, components: int, epochs: int, regularization: float,
    seconds: bool, out: Path,
) -> None:  # fmt: skip
    """Write the table."""
    origin, rows = Origin.here(), []
    job = {
        "model": "bpr", "components": components, "iterations": epochs, "alpha": 0.0,
        "regularization": regularization, "rate": 0.01, "threads": 2, "turns": 1, "users": 10,
        "n": 10,
    }  # fmt: skip
    for name in names:
        train, test = DATA[name](data_folder() / "ratings")
        for n_ranks, chosen in RUNS:
            model = daskpart.MatrixFactorization(
                components, loss="bpr", n_ranks=n_ranks, regularization=regularization,
                max_iter=epochs, partitioner="block", transport="local", **chosen,
            ).fit(train)  # fmt: skip
            eta = "DSGD" if "schedule" in chosen else model.plan_report_.eta
            took = [float(model.history_["seconds"].min())] * seconds
            rows.append([name, "daskpart", n_ranks, eta, *_judged(model, test), *took])
            click.echo(rows[-1])
        if peer:
            with tempfile.TemporaryDirectory() as folder:
                measured = peers(train, peer, job, Path(folder))["bpr"]
                with np.load(Path(folder) / "factors.bpr.npz") as factors:
                    # the last column of its factors is the bias of an item
                    model.state_.user_factors = factors["user"][:, :-1].copy()
                    model.state_.item_factors = factors["item"][:, :-1].copy()
                    model.state_.item_bias = factors["item"][:, -1].copy()
            took = [measured["seconds"]] * seconds
            rows.append([name, "implicit", 2, "", *_judged(model, test), *took])
            click.echo(rows[-1])
    columns = COLUMNS + ("s an epoch",) * seconds
    body = (
        f"{components} components, {epochs} epochs, γ = {regularization:g}; ml-1m as clicks with a "
        "fifth held out. NDCG, recall and AUC over the whole catalogue less what was seen. Ours "
        "with AdaGrad at its default rate, implicit with its own of 0.01 on two threads; ours "
        "draws unseen items from the cell of a rank, implicit in proportion to how often they "
        f"were clicked.\n\n{markdown_table(columns, rows)}"
    )
    write_numbers(out, "bpr", columns, rows, origin)
    write_section(out, "bpr", "BPR beside implicit", body, origin)


def _judged(model: Any, test: Any) -> list[float]:
    found = daskpart.metrics.evaluate_ranking(model, test, 10).iloc[0]
    return [round(float(found[name]), 4) for name in ("ndcg", "recall", "auc")]


if __name__ == "__main__":
    main()
