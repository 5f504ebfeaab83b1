"""Sums of gradients while the next batch is computed, beside sums that are waited for.

    waited for    forward t ── Σ g(t) ── step t ── forward t+1
    overlapped    forward t ── post Σ g(t) ── forward t+1 ── collect ── step t      stale by one

Logistic regression by AdaGrad on the same batches: the time of a step, what a rank waits of it, and
the loss that the stale gradients come to.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks import data
from daskpart import LogisticRegression

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "transport", "K", "ms a step, waited for", "ms a step, overlapped", "quicker by",
    "ms blocked, waited for", "ms blocked, overlapped", "loss, waited for", "loss, overlapped",
)  # fmt: skip
Measured = tuple[float, float, float]  # ms of a step, ms blocked of it, loss


def measured(
    client: Any, transport: str, n_ranks: int, names: list[str], batch: int, epochs: int, turns: int
) -> list[list]:
    """Lines of the table on one set of workers; both ways in turn, of all epochs the median."""
    rows = []
    with client.as_current() if client else nullcontext():
        for name in names:
            (X, y), _ = data.samples(name)
            n_steps = -(-len(y) // (n_ranks * batch))
            found: dict[bool, list[Measured]] = {False: [], True: []}
            for _ in range(turns):
                for overlap, of_way in found.items():
                    model = LogisticRegression(
                        solver="sgd", overlap=overlap, n_ranks=n_ranks, transport=transport, tol=0,
                        max_iter=epochs, batch_size=batch, average=False,
                    ).fit(X, y)  # fmt: skip
                    history = model.history_[1:]  # the first epoch lays out what it needs
                    columns = (history["seconds"], history["seconds_communicating"])
                    times = (1e3 * float(each.median()) / n_steps for each in columns)
                    of_way.append((*times, float(history["loss"].iloc[-1])))
            waited, overlapped = (
                [median(of_turns) for of_turns in zip(*of_way, strict=True)]
                for of_way in found.values()
            )
            rows.append([
                name, transport, n_ranks, waited[0], overlapped[0], waited[0] / overlapped[0],
                waited[1], overlapped[1], waited[2], overlapped[2],
            ])  # fmt: skip
    return rows


@click.command()
@click.option("--data", "names", multiple=True, default=("imdb-bow", "imdb-bigrams"))
@click.option("--ranks", multiple=True, type=int, default=(2, 4), show_default=True)
@click.option("--batch-size", default=250, show_default=True, help="Samples of a rank in a step.")
@click.option("--epochs", default=6, show_default=True)
@click.option("--turns", default=3, show_default=True)
@click.option("--transport", "transports", multiple=True, default=("dask", "mpi"),
              type=click.Choice(("local", "dask", "mpi")), show_default=True)  # fmt: skip
@out_option
def main(
    names: tuple[str, ...], ranks: tuple[int, ...], batch_size: int, epochs: int, turns: int,
    transports: tuple[str, ...], out: Path,
) -> None:  # fmt: skip
    """Write the table of overlapped sums of gradients."""
    origin = Origin.here()
    rows: list[list] = []
    for transport in transports:
        if transport == "mpi" and not has_mpiexec():
            click.echo("no mpiexec in this environment: MPI is left out")
            continue
        for n_ranks in ranks:
            arguments = (transport, n_ranks, list(names), batch_size, epochs, turns)
            if transport == "local":
                rows += measured(None, *arguments)
            else:
                on_workers = in_mpi_job if transport == "mpi" else on_dask_workers
                rows += on_workers(measured, n_ranks, *arguments)
            click.echo(rows[-len(names) :])
    body = (
        f"`LogisticRegression(solver='sgd')` by AdaGrad, batches of {batch_size} a rank, a process "
        "a rank. *Overlapped* is `overlap=True`: gradients are added up while the next batch is "
        "computed, at weights without that step. *Blocked*: what a rank waits for messages, mean "
        f"of the ranks. Loss of the samples in epoch {epochs}, each before its step; of times the "
        f"median of epochs, and of {turns} turns, both ways in turn.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "linear_overlap", COLUMNS, rows, origin)
    write_section(out, "linear_overlap", "Gradients added up meanwhile", body, origin)


if __name__ == "__main__":
    main()
