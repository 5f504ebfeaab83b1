"""L1 logistic regression on the parameter server: traffic and loss, by placement and by delay.

    rows and coordinates placed by     random · Parsa
    delay τ                            0 · 1 · 4 · ∞

Redoes in shape what Li, Andersen, Smola 2015 (§6) say of their solver: placement by Parsa makes it
send less. Counted are rows and bytes that go to another rank's shard, an epoch; the loss after all
epochs is set against liblinear's optimum, and with τ > 0 differs a little from run to run.
`--seconds` adds the time of an epoch, which means something on an idle machine only.
"""

from __future__ import annotations

import math
from pathlib import Path

import click
import numpy as np
from sklearn.linear_model import LogisticRegression as Reference

import daskpart
from benchmarks import data

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "K", "placed by", "τ", "epochs", "rows an epoch", "MB an epoch", "of random",
    "loss above the optimum", "coefficients",
)  # fmt: skip
DELAYS = (0, 1, 4, math.inf)
FILES = {
    "a9a": "a9a.libsvm.gz",
    "w8a": "w8a.libsvm.gz",
    "imdb-bow": "imdb-bow.train.libsvm.xz",
}


def samples(name: str) -> tuple:
    """Rows scaled to a largest value of 1, labels ±1."""
    X, y = daskpart.read(data.data_folder() / "linear" / FILES[name])
    peak = np.maximum(abs(X).max(axis=0).toarray().ravel(), 1e-300)
    X.data /= peak[X.indices]
    return X, np.where(y > (5 if y.max() > 1 else 0), 1.0, -1.0)


def optimum(X, y, C: float) -> float:  # type: ignore[no-untyped-def]
    """liblinear's loss with the penalty, of the mean."""
    model = Reference(
        l1_ratio=1,
        solver="liblinear",
        C=C,
        fit_intercept=False,
        tol=1e-6,
        max_iter=2000,
        random_state=0,
    ).fit(X, y)
    weights = model.coef_[0]
    loss = np.logaddexp(0, -y * (X @ weights)).mean()
    return float(loss + np.abs(weights).sum() / (C * len(y)))


def measure(name: str, n_ranks: int, epochs: int, C: float, seconds: bool) -> list[list]:
    """The lines of one data set."""
    X, y = samples(name)
    best = optimum(X, y, C)
    lines, of_random = [], {}
    for partitioner in ("random", "parsa"):
        plan = None
        for delay in DELAYS:
            model = daskpart.LogisticRegression(
                C, l1_ratio=1.0, solver="server", delay=delay, partitioner=partitioner,
                fit_intercept=False, max_iter=epochs, tol=0.0, n_ranks=n_ranks, transport="local",
            )  # fmt: skip
            plan = plan or model.plan(X, y)
            model.fit(X, y, plan=plan)
            history = model.history_
            n_bytes = float(history["bytes"].mean())
            of_random.setdefault(delay, n_bytes)
            line = [
                name, n_ranks, partitioner, "∞" if delay == math.inf else int(delay), epochs,
                int(history["volume"].mean()), n_bytes / 1e6, n_bytes / of_random[delay],
                float(history["loss"].iloc[-1] / best - 1), int(np.count_nonzero(model.coef_)),
            ]  # fmt: skip
            lines.append([*line, float(history["seconds"].median())] if seconds else line)
            click.echo(lines[-1])
    return lines


@click.command()
@click.option("--data", "names", multiple=True, default=tuple(FILES), show_default=True)
@click.option("--ranks", default=8, show_default=True)
@click.option("--epochs", default=50, show_default=True)
@click.option("--c", "C", default=1.0, show_default=True, help="Inverse of the penalty.")
@click.option("--seconds", is_flag=True, help="Also the time of an epoch.")
@out_option
def main(
    names: tuple[str, ...], ranks: int, epochs: int, C: float, seconds: bool, out: Path
) -> None:
    """Write the table of traffic and loss of L1 logistic regression on the parameter server."""
    origin = Origin.here()
    columns = (*COLUMNS, "seconds an epoch") if seconds else COLUMNS
    lines = [line for name in names for line in measure(name, ranks, epochs, C, seconds)]
    body = (
        f"`LogisticRegression(C={C:g}, l1_ratio=1, solver='server')`, {ranks} ranks on threads of "
        "one process, 16 blocks of coordinates. An epoch pulls and pushes every coordinate of "
        "every rank once; rows and bytes are those between a rank and another one's shard. With "
        "τ > 0 rows hold the sum of all gradients beside the weight, so they are twice as long, "
        "and steps are shorter by the number of ranks that touch a coordinate and of blocks under "
        "way.\n\n"
        f"{markdown_table(columns, lines)}"
    )
    write_numbers(out, "linear_server", columns, lines, origin)
    write_section(out, "linear_server", "L1 logistic regression, placed", body, origin)


if __name__ == "__main__":
    main()
