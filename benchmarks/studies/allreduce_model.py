"""Seconds of every sparse allreduce that the cost model predicts, against those measured.

    local   K threads of this process        dask   K worker processes

The model's constants are measured on the communicator at hand, then every algorithm is predicted
and run (`compare_with_model`), from short vectors with few entries, where messages cost, to long
ones, where bytes and merging do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from daskpart import plots
from daskpart.collectives import DaskCommunicator, LocalCommunicator

from .clusters import on_dask_workers
from .cost_comparison import PROBLEMS, ModelComparison, compare_with_model
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = ("transport", "ranks", "N", "entries", "algorithm", "ms predicted", "ms measured")
SUMMARY = ("transport", "ranks", "within a factor of 2", "choice / best, at most")


def compared(transport: str, n_ranks: int, problems: list[tuple[int, int]]) -> ModelComparison:
    """All algorithms on one transport."""
    if transport == "dask":
        return on_dask_workers(_on_workers, n_ranks, n_ranks, problems)
    with LocalCommunicator(n_ranks) as communicator:
        return compare_with_model(communicator, problems)


def _on_workers(client: Any, n_ranks: int, problems: list[tuple[int, int]]) -> ModelComparison:
    with DaskCommunicator(n_ranks, client) as communicator:
        return compare_with_model(communicator, problems)


def draw(found: list[ModelComparison], path: Path) -> None:
    """A panel a transport and number of ranks."""
    from matplotlib.figure import Figure

    n_rows = -(-len(found) // 2)
    figure = Figure(figsize=(10, 4 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, 2, squeeze=False).ravel()
    for ax, comparison in zip(panels, found, strict=False):
        plots.predicted_against_measured(comparison, ax=ax)
        title = f"{comparison.transport}, {comparison.n_ranks} ranks"
        ax.set_title(title, loc="left", fontsize=10)
        ax.get_legend().remove()
    for ax in panels[len(found) :]:
        ax.set_axis_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def summary(comparison: ModelComparison) -> list[Any]:
    """How good the prediction is, and the choice."""
    near = [0.5 <= row.predicted / row.measured <= 2 for row in comparison.rows]
    worst = max(comparison.auto_over_best().values())
    share = f"{sum(near)} of {len(near)}"
    return [comparison.transport, comparison.n_ranks, share, round(worst, 2)]


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("local", "dask"), show_default=True,
    type=click.Choice(["local", "dask"]),
)  # fmt: skip
@click.option("--problem", "problems", multiple=True, type=(int, int), default=PROBLEMS,
              help="N and entries a rank.  [default: five of them]")  # fmt: skip
@out_option
def main(ranks: tuple[int, ...], transports: tuple[str, ...], problems: tuple, out: Path) -> None:
    """Write the table and the picture."""
    origin = Origin.here()
    found = [compared(t, n_ranks, list(problems)) for t in transports for n_ranks in ranks]
    for comparison in found:
        click.echo(repr(comparison))
    draw(found, out / "allreduce_model.png")
    rows = [
        [c.transport, c.n_ranks, row.size, row.entries, row.algorithm,
         1e3 * row.predicted, 1e3 * row.measured]
        for c in found
        for row in c.rows
    ]  # fmt: skip
    cases = ", ".join(f"{size:,} / {entries:,}" for size, entries in problems)
    body = (
        "Every sparse allreduce of float32 vectors with entries spread evenly, N / entries a "
        f"rank: {cases}. Predicted: by the α–β–γ model, with constants measured on the same "
        "communicator just before. Measured: the least of a few turns.\n\n"
        "![Predicted against measured seconds](allreduce_model.png)\n\n"
        f"{markdown_table(SUMMARY, [summary(c) for c in found])}\n\n"
        "*Choice / best*: measured time of the algorithm that the model chooses over the least "
        "of all, in the worst case."
    )
    write_numbers(out, "allreduce_model", COLUMNS, rows, origin)
    title = "Sparse allreduce, predicted and measured"
    write_section(out, "allreduce_model", title, body, origin)


if __name__ == "__main__":
    main()
