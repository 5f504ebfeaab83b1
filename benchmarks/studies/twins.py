"""Seconds of an epoch or iteration over `mpi`, beside the same by hand in plain mpi4py.

    this process          plans, and every rank's piece of them ─► files
    mpiexec -n K + 2      ours: scheduler, client and K workers, each of which runs the text
    mpiexec -n K          the twin (`benchmarks.twins`)            … alternating, several turns

Both take the same plans, and their results are compared: to the bit where both add in the same
order, else to rounding. Only time inside the ranks counts: rank 0's clock around each step. With
`--before` a third job runs the models of the commit before the text moved to the ranks, with their
plans (`benchmarks.twins.before`).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.twins import before
from benchmarks.twins.folder import files, twin
from benchmarks.twins.sides import N_POINTS, agreement, lay_down, ours

from .clusters import has_mpiexec, in_mpi_job, in_older_job, on_mpi_ranks
from .output import Origin, markdown_table, out_option, write_numbers, write_section

WARM_STEPS = 2  # of a turn, not counted
COLUMNS = ("problem", "ranks", "ms, ours", "ms, twin", "ours / twin", "spread of turns", "result")
COLUMNS_BEFORE = ("problem", "ranks", "ms, before", "ms, now", "now / before", "spread of turns")

Turns = dict[str, list[list[list[float]]]]  # of who: a turn, a problem, a step; seconds


def lines(
    names: Sequence[str], n_ranks: int, n_steps: int, n_turns: int, checkout: Path | None
) -> tuple[list[list], list[list], list[list]]:
    """For one number of ranks: both tables, and [problem, ranks, turn, who, step, seconds]."""
    with TemporaryDirectory() as folder:
        found = lay_down(Path(folder), names, n_ranks)
        old = [name for name in found if checkout is not None and before.was_there(name)]
        seconds: Turns = {"ours": [], "twin": [], "before": []}
        for turn in range(n_turns):
            click.echo(f"{n_ranks} ranks, turn {turn + 1} of {n_turns} …")
            seconds["twin"].append(on_mpi_ranks(twin, n_ranks, folder, n_steps))
            seconds["ours"].append(in_mpi_job(ours, n_ranks, folder, n_steps))
            if checkout is not None and old:
                measure = f"{before.MODULE}:seconds_of"
                then = in_older_job(checkout, measure, n_ranks, old, n_ranks, n_steps)
                seconds["before"].append(then)
        said = [agreement(path, n) for path, n in zip(files(folder), found, strict=True)]
    places = {"ours": found, "twin": found, "before": old}
    numbers = [
        [name, n_ranks, turn, who, step, float(f"{one:.4g}")]
        for who, turns in seconds.items()
        for place, name in enumerate(places[who])
        for turn, problems in enumerate(turns)
        for step, one in enumerate(problems[place])
    ]
    rows = []
    for place, name in enumerate(found):
        mine, spread = medians(seconds["ours"], place)
        other, spread_other = medians(seconds["twin"], place)
        rows.append(
            [name, n_ranks, mine, other, mine / other, f"{spread}, {spread_other}", said[place]]
        )
    rows_before = []
    for place, name in enumerate(old):
        then, spread = medians(seconds["before"], place)
        now, spread_now = medians(seconds["ours"], found.index(name))
        rows_before.append([name, n_ranks, then, now, now / then, f"{spread}, {spread_now}"])
    return rows, rows_before, numbers


def medians(turns: list[list[list[float]]], place: int) -> tuple[float, str]:
    """Of a problem's turns the median of the medians of their steps, in ms, and their range."""
    steps_of = [turn[place] for turn in turns]
    found = [1e3 * statistics.median(steps[WARM_STEPS:] or steps) for steps in steps_of]
    return statistics.median(found), f"{min(found):.3g}–{max(found):.3g}"


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
@click.option(
    "--before",
    "with_before",
    is_flag=True,
    help=f"Beside commit {before.COMMIT} too; needs a clone with its history.",
)
@out_option
def main(
    ranks: tuple[int, ...],
    names: tuple[str, ...],
    steps: int,
    turns: int,
    with_before: bool,
    out: Path,
) -> None:
    """Write the table of ours beside the twins."""
    if not has_mpiexec():
        raise click.ClickException("there is no mpiexec here: pip install 'daskpart[mpi]'")
    for n_ranks in ranks:
        if n_ranks & (n_ranks - 1):
            raise click.BadParameter(f"the twin of Algorithm 2 needs a power of 2, not {n_ranks}")
    origin = Origin.here()
    rows: list[list] = []
    rows_before: list[list] = []
    numbers: list[list] = []
    with TemporaryDirectory() as folder:
        checkout = Path(folder) if with_before else None
        if checkout is not None:
            before.unpack(checkout)
        for n_ranks in ranks:
            try:
                found, then, measured = lines(names, n_ranks, steps, turns, checkout)
            except NotImplementedError as reason:
                raise click.ClickException(str(reason)) from reason
            for line in found + then:
                click.echo(line)
            rows, rows_before, numbers = rows + found, rows_before + then, numbers + measured
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
    if rows_before:
        body += (
            "\n\nThe same epochs and iterations by the code of commit "
            f"`{before.COMMIT}`, when the text ran at the driver and its calls on the ranks; with "
            "the partitions and kernels of then, by the clock of the driver:\n\n"
            f"{markdown_table(COLUMNS_BEFORE, rows_before)}"
        )
    columns = ("problem", "ranks", "turn", "who", "step", "seconds")
    write_numbers(out, "twins", columns, numbers, origin)
    write_section(out, "twins", "Beside plain mpi4py: an epoch, an iteration", body, origin)


if __name__ == "__main__":
    main()
