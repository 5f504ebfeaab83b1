"""Staleness, volume and RMSE over η: Fig. 5 and Table 2 of the η-PASGD paper, simulated.

Volume and staleness are exact for every (data, K, method, η); where a run is trained, what it sent
was counted and held against them. RMSE is trained where `--train` says so, on data with ratings.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §5.2, Fig. 5 and Table 2.
"""

from __future__ import annotations

import csv
import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter

import click

from .output import Origin, out_option, write_numbers, write_section
from .problem import connectivity_of, pasgd_numbers, plan, problem, simulate

ETAS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COMPARED = ("RAND", "HP-λ²")


@dataclass(frozen=True)
class Line:
    """One run of the grid; `test_rmse` is None where it was not trained."""

    data: str
    n_ranks: int
    method: str
    eta: int
    lambda_max: int
    staleness: int
    volume: int
    epochs: int = 0
    n_components: int = 0
    test_rmse: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Job:
    """One partition with all its η, and those of them to train."""

    data: str
    n_ranks: int
    method: str
    trained: tuple[int, ...]
    n_epochs: int
    n_components: int


def run(job: Job) -> list[Line]:
    """All lines of a job, in this process."""
    partition, connectivity = connectivity_of(problem(job.data).hypergraph, job.n_ranks, job.method)
    lines = []
    for eta in (eta for eta in ETAS if eta <= job.n_ranks):
        begin, rmse = perf_counter(), None
        if eta in job.trained:
            fit_plan = plan(job.data, partition, eta)
            *_, last = simulate(job.data, fit_plan, job.n_epochs, job.n_components)
            rmse = last["validation_rmse"]
        lines.append(
            Line(
                data=job.data, n_ranks=job.n_ranks, method=job.method, eta=eta,
                lambda_max=connectivity.max_connectivity(), **pasgd_numbers(connectivity, eta),
                epochs=job.n_epochs if eta in job.trained else 0,
                n_components=job.n_components if eta in job.trained else 0, test_rmse=rmse,
                seconds=round(perf_counter() - begin, 1),
            )
        )  # fmt: skip
    return lines


def run_all(jobs: list[Job], n_processes: int) -> list[Line]:
    """The lines of all jobs, several processes at once, in the order of the jobs."""
    if n_processes == 1:
        return [line for job in jobs for line in run(job)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, mp_context=context) as pool:
        waiting = {pool.submit(run, job): job for job in sorted(jobs, key=lambda j: -j.n_ranks)}
        done = {}
        for future in as_completed(waiting):
            job = waiting[future]
            done[job] = future.result()
            click.echo(f"{job.data}, K = {job.n_ranks}, {job.method}: done")
    return [line for job in jobs for line in done[job]]


def load(path: Path) -> list[Line]:
    """The lines that an earlier run wrote."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            Line(
                row["data"], int(row["n_ranks"]), row["method"], int(row["eta"]),
                int(row["lambda_max"]), int(row["staleness"]), int(row["volume"]),
                int(row["epochs"]), int(row["n_components"]),
                float(row["test_rmse"]) if row["test_rmse"] else None,
                float(row["seconds"]),
            )
            for row in rows
        ]  # fmt: skip


def _trained(given: Iterable[str]) -> dict[tuple[int, str], tuple[int, ...]]:
    """ "512:HP-λ²:1,32" → η to train, by K and method; "64" alone: every η, both methods."""
    chosen: dict[tuple[int, str], tuple[int, ...]] = {}
    for word in given:
        n_ranks, method, etas = ([*word.split(":"), "", ""])[:3]
        for each in (method,) if method else COMPARED:
            chosen[int(n_ranks), each] = tuple(map(int, etas.split(","))) if etas else ETAS
    return chosen


@click.command()
@click.option("--data", "name", default="ml-1m", show_default=True, help="Ratings to train on.")
@click.option("--metrics-of", multiple=True, default=("gowalla",), show_default=True)
@click.option("--ranks", multiple=True, type=int, default=(64, 128, 256, 512), show_default=True)
@click.option(
    "--train", multiple=True, default=("64", "128:HP-λ²:1,32", "256:HP-λ²:1,32", "512"),
    show_default=True, help="K, or K:METHOD, or K:METHOD:η,η",
)  # fmt: skip
@click.option("--epochs", default=10, show_default=True)
@click.option("--components", default=32, show_default=True)
@click.option("--processes", default=2, show_default=True)
@click.option("--redraw", is_flag=True, help="Only write again, from data/eta.csv.")
@out_option
def main(
    name: str, metrics_of: tuple[str, ...], ranks: tuple[int, ...], train: tuple[str, ...],
    epochs: int, components: int, processes: int, redraw: bool, out: Path,
) -> None:  # fmt: skip
    """Write the study of η: data/eta.csv, eta.png, eta.md."""
    from .eta_plot import draw, section

    numbers = out / "data" / "eta.csv"
    if redraw:
        origin, lines = Origin.of(numbers), load(numbers)
    else:
        origin, chosen = Origin.here(), _trained(train)
        jobs = [
            Job(each, n_ranks, method, chosen.get((n_ranks, method), ()) if each == name else (),
                epochs, components)
            for each in (name, *metrics_of) for n_ranks in ranks for method in COMPARED
        ]  # fmt: skip
        lines = run_all(jobs, processes)
        columns = [field.name for field in fields(Line)]
        write_numbers(out, "eta", columns, [list(asdict(line).values()) for line in lines], origin)
    draw(lines, out / "eta.png")
    write_section(out, "eta", "Staleness, volume and RMSE over η", section(lines), origin)


if __name__ == "__main__":
    main()
