"""Does splitting cost accuracy? RMSE over ranks at η = K, where no update is stale."""

from __future__ import annotations

from pathlib import Path

import click

import daskpart

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import problem

COLUMNS = ("K", "η", "test RMSE", "best epoch's", "epochs", "staleness", "volume")
ALLOWED_SPREAD, TARGET = 0.005, 0.86


def measure(name: str, n_ranks: int, n_components: int, n_epochs: int) -> list:
    """One line: a fit by `MatrixFactorization`, cut by λ², with all else at its default."""
    chosen = problem(name)
    model = daskpart.MatrixFactorization(
        n_components, n_ranks=n_ranks, max_iter=n_epochs, partitioner="power", transport="local"
    ).fit(chosen.train, validation=chosen.test)
    history = model.history_
    last = history.iloc[-1]
    return [
        n_ranks, n_ranks, round(float(last.validation_rmse), 5),
        round(float(history.validation_rmse.min()), 5), len(history), int(last.staleness),
        int(last.volume),
    ]  # fmt: skip


@click.command()
@click.option("--data", "name", default="ml-1m", show_default=True)
@click.option("--ranks", multiple=True, type=int, default=(1, 4, 8), show_default=True)
@click.option("--components", default=32, show_default=True)
@click.option("--epochs", default=20, show_default=True)
@out_option
def main(name: str, ranks: tuple[int, ...], components: int, epochs: int, out: Path) -> None:
    """Write the table of RMSE over ranks."""
    origin = Origin.here()
    rows = []
    for n_ranks in ranks:
        rows.append(measure(name, n_ranks, components, epochs))
        click.echo(rows[-1])
    spread = max(row[2] for row in rows) - min(row[2] for row in rows)
    four = [row[2] for row in rows if row[0] == 4]
    words = f"Largest difference {spread:.5f} (wanted: below {ALLOWED_SPREAD})."
    if four:
        words += f" With 4 ranks, η = 4: {four[0]:.4f} (wanted on ml-1m: at most {TARGET})."
    body = (
        f"{name}, random 90/10 split, {components} components, {epochs} epochs, partitioner "
        "HP-λ²; AdaGrad from 0.1, regularization 0.05 (the defaults). At η = K nothing is stale; "
        "ranks differ only in the order in which ratings are taken.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{words}"
    )
    write_numbers(out, "ranks", COLUMNS, rows, origin)
    write_section(out, "ranks", "Accuracy over ranks", body, origin)


if __name__ == "__main__":
    main()
