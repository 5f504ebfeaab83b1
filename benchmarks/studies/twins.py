"""Seconds of an epoch or iteration over `mpi`, beside the same by hand in plain mpi4py.

    this process          plans, and every rank's piece of them ─► files
    mpiexec -n K + 2      ours: scheduler, client and K workers, each of which runs the text
    mpiexec -n K          the twin (`benchmarks.twins`)            … alternating, several turns

Both take the same plans, and their results are compared: to the bit where both add in the same
order, else to rounding. Only time inside the ranks counts: rank 0's clock around each step.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.twins.folder import files, twin
from benchmarks.twins.sides import N_POINTS, agreement, lay_down, ours

from .clusters import has_mpiexec, in_mpi_job, on_mpi_ranks
from .output import Origin, markdown_table, out_option, write_numbers, write_section

WARM_STEPS = 2  # of a turn, not counted
COLUMNS = ("problem", "ranks", "ms, ours", "ms, twin", "ours / twin", "spread of turns", "result")


def lines(
    names: Sequence[str], n_ranks: int, n_steps: int, n_turns: int
) -> tuple[list[list], list[list]]:
    """The table for one number of ranks, and [problem, ranks, turn, who, step, seconds]."""
    with TemporaryDirectory() as folder:
        found = lay_down(Path(folder), names, n_ranks)
        seconds: dict[str, list[list[list[float]]]] = {"ours": [], "twin": []}
        for turn in range(n_turns):
            click.echo(f"{n_ranks} ranks, turn {turn + 1} of {n_turns} …")
            seconds["twin"].append(on_mpi_ranks(twin, n_ranks, folder, n_steps))
            seconds["ours"].append(in_mpi_job(ours, n_ranks, folder, n_steps))
        said = [agreement(path, n) for path, n in zip(files(folder), found, strict=True)]
    rows, numbers = [], []
    for place, name in enumerate(found):
        of_turns = {who: [turn[place] for turn in turns] for who, turns in seconds.items()}
        numbers += [
            [name, n_ranks, turn, who, step, one]
            for who, turns in of_turns.items()
            for turn, steps in enumerate(turns)
            for step, one in enumerate(steps)
        ]
        medians = {
            who: [1e3 * statistics.median(steps[WARM_STEPS:] or steps) for steps in turns]
            for who, turns in of_turns.items()
        }
        mine, other = (statistics.median(medians[who]) for who in ("ours", "twin"))
        spread = ", ".join(f"{min(m):.3g}–{max(m):.3g}" for m in medians.values())
        rows.append([name, n_ranks, mine, other, mine / other, spread, said[place]])
    return rows, numbers


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(2, 4, 8), show_default=True)
@click.option(
    "--problem", "names", multiple=True, show_default=True,
    default=(
        "MF:ml-1m", "ALS:ml-1m", "CP:fb15k-237.train", "CP:imdb-reviews", "SGD:imdb-bow", "k-means",
    ),
    help="MF:RATINGS, ALS:RATINGS, CP:TENSOR, SGD:SAMPLES or k-means.",
)  # fmt: skip
@click.option("--steps", default=30, show_default=True, help="Epochs or iterations of a turn.")
@click.option("--turns", default=3, show_default=True)
@out_option
def main(ranks: tuple[int, ...], names: tuple[str, ...], steps: int, turns: int, out: Path) -> None:
    """Write the table of ours beside the twins."""
    if not has_mpiexec():
        raise click.ClickException("there is no mpiexec here: pip install 'daskpart[mpi]'")
    for n_ranks in ranks:
        if n_ranks & (n_ranks - 1):
            raise click.BadParameter(f"the twin of Algorithm 2 needs a power of 2, not {n_ranks}")
    origin = Origin.here()
    rows: list[list] = []
    numbers: list[list] = []
    for n_ranks in ranks:
        try:
            found, measured = lines(names, n_ranks, steps, turns)
        except NotImplementedError as reason:
            raise click.ClickException(str(reason)) from reason
        for line in found:
            click.echo(line)
        rows, numbers = rows + found, numbers + measured
    body = (
        "The algorithm texts under `mpiexec` (`dask-mpi`: a scheduler and a client besides the "
        "ranks), and the same by hand in plain mpi4py (`benchmarks/twins`): the same kernels and "
        "plans, `Isend`, `Irecv` and `Iallreduce` on buffers laid out beforehand, no Dask, no "
        "`Communicator`. Milliseconds of an epoch (MF, η = K, 32 components; GCN, 16 hidden "
        "columns; SGD, batches of 250 a rank) or iteration (CP, R = 16; implicit ALS, 64 "
        f"components, each rating a click; k-means of {N_POINTS:,} points), by the clock of "
        "rank 0: of the steps of a turn "
        f"after the first {WARM_STEPS} the median, of {turns} turns of {steps} steps, twin and "
        "ours alternating, the median again. Processes are bound to cores (`-bind-to core`); ranks "
        "beyond their number share them.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    columns = ("problem", "ranks", "turn", "who", "step", "seconds")
    write_numbers(out, "twins", columns, numbers, origin)
    write_section(out, "twins", "Beside plain mpi4py: an epoch, an iteration", body, origin)


if __name__ == "__main__":
    main()
