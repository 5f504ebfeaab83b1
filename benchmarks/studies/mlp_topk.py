"""TopK by layer against plain SGD on perceptrons: figures 5.13, 5.14 and 5.16 of Renggli (2017).

    5.13   the loss over epochs on 4, 8 and 32 ranks, a batch a rank: more ranks, larger batches
    5.14   how few entries of each 512 are enough on 8 ranks
    5.16   pictures in the size of MNIST on 8 ranks: accuracy over epochs, and over bytes

Every rank's steps are really done, on ranks of this process, so losses, accuracies and bytes are
those of a cluster; only seconds of a cluster are the α–β model's.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from benchmarks import data
from daskpart import MLPClassifier
from daskpart.collectives.simulator import ALPHA, BETA, expected_allreduces, simulate_allreduce

from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

BUCKET = 512
LARGE = (784, 4096, 4096, 10)  # the network of the thesis
COLUMNS = (
    "data", "ranks", "sent", "epoch", "training loss", "training accuracy", "test accuracy",
    "MB of all ranks",
)  # fmt: skip
SUMMARY = (
    "data", "ranks", "sent", "training loss", "training accuracy", "test accuracy", "MB an epoch",
    "less by",
)  # fmt: skip
PREDICTED = ("ranks", "dense, ms a step", *(f"top {k} of {BUCKET}, ms a step" for k in (2, 32)),
             "top 2, quicker by")  # fmt: skip


def digits() -> tuple[np.ndarray, ...]:
    """Of scikit-learn: 8 × 8 pixels, 1,437 to learn from."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    split = train_test_split((X / 16).astype(np.float32), y, test_size=0.2, random_state=0)
    return split[0], split[2], split[1], split[3]


def pictures(n_samples: int) -> tuple[np.ndarray, ...]:
    """Made ones, a sixth of them to judge by."""
    X, y = data.drawn_digits(n_samples)
    n = n_samples - n_samples // 6
    return X[:n], y[:n], X[n:], y[n:]


def told(k: int | None) -> str:
    """What is sent, in words."""
    return "all" if k is None else f"{k} of {BUCKET}"


def lines_of(name: str, split: tuple, n_ranks: int, k: int | None, **options: Any) -> list[list]:
    """A line an epoch of one fit."""
    X, y, held, held_y = split
    model = MLPClassifier(
        optimizer="sgd", n_ranks=n_ranks, top_k=k, top_k_bucket=BUCKET, tol=0, transport="local",
        alpha=0.0, **options,
    )  # fmt: skip
    history = model.fit(X, y, eval_set=(held, held_y)).history_
    sent = history["bytes"].cumsum() / 1e6
    columns = (history["epoch"], history["loss"], history["score"], history["validation_score"])
    return [
        [name, n_ranks, told(k), int(number), *map(float, measured), float(mb)]
        for number, *measured, mb in zip(*columns, sent, strict=True)
    ]


def summary(table: pd.DataFrame) -> list[list]:
    """The last epoch of each fit, and its bytes beside those of plain SGD."""
    rows = []
    for (name, n_ranks), group in table.groupby(["data", "ranks"], sort=False):
        ends = group.groupby("sent", sort=False).tail(1)
        whole = float(ends.loc[ends["sent"] == "all", COLUMNS[-1]].iloc[0])
        for end in ends.itertuples(index=False):
            *measured, mb = end[4:]
            rows.append([name, n_ranks, end[2], *measured, mb / end[3], whole / mb])
    return rows


def asked(rows: list[list]) -> str:
    """Whether TopK is as accurate as plain SGD on pictures; the difference of test accuracies."""
    whole = {row[1]: row[5] for row in rows if row[0] == "pictures" and row[2] == "all"}
    found = [
        (f"{row[2]}, {row[1]} ranks, test accuracy less by", whole[row[1]] - row[5])
        for row in rows if row[0] == "pictures" and row[2] != "all"
    ]  # fmt: skip
    words = "of pictures, TopK no less accurate than plain SGD"
    return verdict(words, found, lambda less: less <= 0)


def predicted(ranks: tuple[int, ...]) -> list[list]:
    """Seconds that the sums of a step take in the network of the thesis, by the α–β model."""
    sizes = [(above + 1) * below for above, below in pairwise(LARGE)]
    rows = []
    for n_ranks in ranks:
        dense = sum(
            simulate_allreduce(n_ranks, 4 * size, "rabenseifner", alpha=ALPHA, beta=BETA).seconds
            for size in sizes
        )
        sparse = [
            sum(
                min(each.seconds for each in expected_allreduces(n_ranks, size, k * size / BUCKET))
                for size in sizes
            )
            for k in (2, 32)
        ]
        rows.append([n_ranks, *(1e3 * seconds for seconds in (dense, *sparse)), dense / sparse[0]])
    return rows


def draw(table: pd.DataFrame, n_ranks: int, path: Path) -> None:
    """Loss over epochs by ranks; by what is sent; accuracy over epochs and over bytes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 7.6), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    small, large = (table[table["data"] == name] for name in ("digits", "pictures"))
    kept = small[small["sent"].isin(["all", told(32)])]
    _curves(panels[0], kept, "epoch", "training loss", "as 5.13: digits, a batch a rank")
    panels[0].set_yscale("log")
    own = small[small["ranks"] == n_ranks]
    _curves(panels[1], own, "epoch", "training loss", f"as 5.14: digits, {n_ranks} ranks")
    panels[1].set_yscale("log")
    _curves(panels[2], large, "epoch", "test accuracy", "as 5.16: pictures as of MNIST")
    _curves(panels[3], large, COLUMNS[-1], "test accuracy", "the same over what was sent")
    panels[3].set_xscale("log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _curves(ax: Any, table: pd.DataFrame, x: str, y: str, title: str) -> None:
    styles = {"all": "-", told(2): ":", told(8): "-.", told(32): "--"}
    ranks = sorted(table["ranks"].unique())
    for (n_ranks, sent), group in table.groupby(["ranks", "sent"], sort=False):
        color = f"C{ranks.index(n_ranks)}"
        if len(ranks) == 1:
            color = f"C{list(styles).index(sent)}" if sent in styles else "C5"
        label = f"{n_ranks} ranks, {sent}"
        ax.plot(group[x], group[y], styles.get(sent, "-"), color=color, label=label)
    ax.set(xlabel=x, ylabel=y, title=title)
    ax.legend(fontsize=8)


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8, 32), show_default=True)
@click.option("--epochs", default=60, show_default=True, help="On the digits.")
@click.option("--samples", default=60_000, show_default=True, help="Of the made pictures.")
@click.option("--hidden", default=512, show_default=True, help="Of both layers, on pictures.")
@click.option("--picture-epochs", default=4, show_default=True)
@click.option("--picture-ranks", multiple=True, type=int, default=(8,), show_default=True)
@out_option
def main(
    ranks: tuple[int, ...],
    epochs: int,
    samples: int,
    hidden: int,
    picture_epochs: int,
    picture_ranks: tuple[int, ...],
    out: Path,
) -> None:
    """Write the tables and the picture."""
    origin, lines = Origin.here(), []
    small = digits()
    chosen = ranks[1 if len(ranks) > 1 else 0]
    for n_ranks in ranks:
        for k in (None, 32, 2) if n_ranks != chosen else (None, 32, 8, 2):
            click.echo(f"digits, {n_ranks} ranks, {told(k)} …")
            lines += lines_of(
                "digits", small, n_ranks, k, hidden_layer_sizes=(128,), batch_size=8,
                learning_rate_init=0.2, max_iter=epochs,
            )  # fmt: skip
    large = pictures(samples)
    for n_ranks in picture_ranks:
        for k in (None, 2):
            click.echo(f"pictures, {n_ranks} ranks, {told(k)} …")
            lines += lines_of(
                "pictures", large, n_ranks, k, hidden_layer_sizes=(hidden, hidden), batch_size=16,
                learning_rate_init=0.5, max_iter=picture_epochs,
            )  # fmt: skip
    table = pd.DataFrame(lines, columns=COLUMNS)
    draw(table, chosen, out / "mlp_topk.png")
    body = (
        "`MLPClassifier`, plain SGD at one rate for all, on ranks of one process; a rank's batch "
        "stays as it is, so more ranks make larger batches and fewer steps (weak scaling, as in "
        f"the thesis). Digits of scikit-learn: one hidden layer of 128, batches of 8. Pictures: "
        f"{len(large[1]):,} made ones of 28 × 28 pixels in ten classes, two hidden layers of "
        f"{hidden}, batches of 16. *less by*: bytes of plain SGD over those of this line.\n\n"
        "![Loss and accuracy of SGD and TopK](mlp_topk.png)\n\n"
        f"{markdown_table(SUMMARY, summary(table))}\n\n{asked(summary(table))}\n\n"
        "What the sums of a step take in the network of the thesis (hidden layers of 4096 and "
        f"4096), layer by layer, by the α–β model of a cluster (α = {1e6 * ALPHA:g} µs, "
        f"β = {1e9 * BETA:g} ns a byte), entries spread evenly: dense by Rabenseifner's algorithm, "
        "sparse by the best one.\n\n"
        f"{markdown_table(PREDICTED, predicted((4, 8, 32, 128)))}\n\n"
        "Figures 5.13, 5.14 and 5.16 of Renggli (2017); there the network of the last was trained "
        "4.6 times faster on 8 nodes."
    )
    write_numbers(out, "mlp_topk", COLUMNS, lines, origin)
    write_section(out, "mlp_topk", "TopK by layer, on perceptrons", body, origin)


if __name__ == "__main__":
    main()
