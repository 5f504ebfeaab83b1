"""What a user waits for before the first epoch: first runs, second runs, jobs, fresh workers.

    an empty folder for machine code and bytecode
      ├─ `daskpart fit mf`            compiles … and again: loads
      ├─ a fit here, then on a fresh LocalCluster
      ├─ cuts for K = 8, 64, 512      which of them compile
      ├─ GridSearchCV(n_jobs=2)       each of whose processes used to compile
      └─ `mpiexec -n 6 daskpart fit mf`

Seconds are those of whole processes, imports and reports with them; the machine code of numba
(NUMBA_CACHE_DIR) and the bytecode of Python (PYTHONPYCACHEPREFIX), that of libraries too, lie in a
folder that is empty at first, as in an environment that was just installed. Files that a fresh
machine would read from its disk for the first time are in the memory of this one already.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import click

from benchmarks.data import data_folder

from .clusters import has_mpiexec, mpiexec
from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

DEMO = ("fit", "mf", "python-source", "--ranks", "4", "--eta", "4", "--components", "16",
        "--regularization", "0.1", "--partitioner", "power")  # fmt: skip
JOB_RANKS = 4
BLOCKS = ("demo", "cluster", "cuts", "search", "job")
COLUMNS = ("what", "seconds", "of them compiling", "asked")


class Line(NamedTuple):
    """Seconds of something that a user waits for.

    Attributes
    ----------
    what : str
    seconds : float
        The median of the runs.
    compiling : float or None
        Seconds of numba; None where other processes than one that tells have them.
    asked : float or None
        At most.
    """

    what: str
    seconds: float
    compiling: float | None
    asked: float | None


def typed(words: list[str], environment: dict[str, str]) -> float:
    """Seconds of a command from start to end."""
    started = perf_counter()
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(words)} failed:\n{done.stderr[-4000:]}")
    return perf_counter() - started


def asked_step(step: str, environment: dict[str, str]) -> list[list[Any]]:
    """What `cold_start_run` says of a step, in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.studies.cold_start_run", step]
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, timeout=1200,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode:
        raise click.ClickException(f"{' '.join(words)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def caches_in(folder: str | Path, kept: bool) -> dict[str, str]:
    """An environment in which numba and Python find nothing that was compiled before."""
    places = {} if kept else {name: str(Path(folder, name.lower())) for name in
              ("NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX")}  # fmt: skip
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **places, "DASK_LOGGING__DISTRIBUTED": "error"}


def demo(turns: int, kept: bool) -> list[Line]:
    """The run of ``make demo`` in an empty folder, then again."""
    firsts, seconds = [], []
    for _ in range(turns):
        with TemporaryDirectory() as folder:
            environment = caches_in(folder, kept)
            command = [sys.executable, "-m", "daskpart", *DEMO, "--out", str(Path(folder, "out"))]
            firsts.append(typed(command, environment))
            seconds += [typed(command, environment) for _ in range(2)]
    return [
        Line(
            "`daskpart fit mf`, the demo, nothing compiled yet", statistics.median(firsts), None, 15
        ),
        Line("the same, the second time", statistics.median(seconds), None, 4),
    ]


def job(turns: int, environment: dict[str, str]) -> list[Line]:
    """An MPI job on ml-1m, from mpiexec to its end, after one that is not counted."""
    ratings = data_folder() / "ratings" / "ml-1m.ratings.dat.xz"
    with TemporaryDirectory() as folder:
        command = [
            str(mpiexec()), "-n", str(JOB_RANKS + 2),
            sys.executable, "-m", "daskpart", "fit", "mf", str(ratings), "--cluster", "mpi",
            "--ranks", str(JOB_RANKS), "--eta", str(JOB_RANKS), "--max-iter", "20",
            "--out", str(Path(folder, "out")),
        ]  # fmt: skip
        runs = [typed(command, environment) for _ in range(turns + 1)]
    what = f"`mpiexec -n {JOB_RANKS + 2} daskpart fit mf`, ml-1m, 20 epochs"
    return [Line(what, statistics.median(runs[1:]), None, 10)]


def measured(block: str, turns: int, environment: dict[str, str]) -> list[Line]:
    """The lines of a block."""
    if block != "job":
        return [Line(*found) for found in asked_step(block, environment)]
    try:
        return job(turns, environment) if has_mpiexec() else []
    except NotImplementedError as reason:
        click.echo(f"without the MPI job: {reason}")
        return []


@click.command()
@click.option("--turns", default=3, show_default=True, help="Runs of each command.")
@click.option(
    "--block", "blocks", multiple=True, type=click.Choice(BLOCKS), default=BLOCKS,
    show_default=True, help="What to measure, in this order.",
)  # fmt: skip
@click.option("--kept", is_flag=True, help="With what this checkout has compiled before.")
@out_option
def main(turns: int, blocks: tuple[str, ...], kept: bool, out: Path) -> None:
    """Write what first and second runs take, and which of their seconds compile."""
    origin = Origin.here()
    lines = demo(turns, kept) if "demo" in blocks else []
    with TemporaryDirectory() as folder:
        environment = caches_in(folder, kept)
        for block in (each for each in blocks if each != "demo"):
            lines += measured(block, turns, environment)
    for line in lines:
        click.echo(line)
    asked = [(line.what, line.seconds / line.asked) for line in lines if line.asked]
    body = (
        "Whole processes, from start to end: imports, reading, cutting, training, report. Machine "
        "code (of ours and of libraries) and bytecode lie in a folder that is empty before the "
        f"first run of each block; medians of {turns} runs of a command. The fits on a cluster, "
        "the cuts and the search are each one process after the other in one folder, so that a "
        "line pays for what no line before it has compiled.\n\n"
        f"{markdown_table(COLUMNS, lines)}\n\n"
        f"{verdict('at most 1 × the seconds in the last column', asked, lambda x: x <= 1)}"
    )
    write_numbers(out, "cold_start", Line._fields, lines, origin)
    write_section(out, "cold_start", "First runs, second runs", body, origin)


if __name__ == "__main__":
    main()
