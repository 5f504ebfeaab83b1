"""Figures 5.1 to 5.4 of Renggli (2017) again: here on 4 and 8 ranks, by the model up to 512.

    5.1   recursive doubling against split + allgather, by density and ranks
    5.2   a sparse result (SSAR) against one that turns dense (DSAR)
    5.3   early switching in groups
    5.4   all algorithms by density

and what `algorithm="auto"` loses against the best choice, and wins against a dense allreduce.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from daskpart.collectives import (
    Communicator,
    CostModel,
    LocalCommunicator,
    cost_model_of,
    sparse_allreduce,
    stream_of,
)
from daskpart.collectives.cost_model import Problem
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.collectives.transports import communicator_for

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .sparse_allreduce_plot import draw

DENSITIES = (1e-4, 1e-3, 1e-2, 0.1)
TURNS = 5  # after one that is not kept: it gets its memory from the system
FAR = 2.0  # times the least: what takes longer is measured once
WARM = (10_000, 0.05)  # a case whose time is not kept: kernels compile
NETWORK = {  # an MPI cluster
    "start": 1e-5, "round": 1e-6, "message": 2e-6, "byte": 1e-10, "long_byte": 1e-10,
}  # fmt: skip
COLUMNS = (
    "transport", "ranks", "N", "density", "algorithm", "ms", "ms predicted", "best", "auto chose",
)  # fmt: skip
SUMMARY = (
    "transport", "ranks", "N", "density", "best", "auto chose", "auto / best",
    "best dense / auto",
)  # fmt: skip


def transport_seconds(
    client: Any, transport: str, n_ranks: int, sizes: list[int], densities: list[float]
) -> dict[str, Any]:
    """The model measured on a communicator, and [N, density, algorithm, seconds] of each case."""
    made: Communicator
    if transport == "local":
        made = LocalCommunicator(n_ranks)
    else:
        made = communicator_for(transport, n_ranks, client=client)
    with made as communicator:
        model = cost_model_of(communicator)
        _case(communicator, model, *WARM)
        found = []
        for size in sizes:
            for density in densities:
                found += _case(communicator, model, size, density)
        return {"model": asdict(model), "found": found}


def _case(communicator: Communicator, model: CostModel, size: int, density: float) -> list[list]:
    """Every algorithm, and "auto", in turn; the least of a few turns each."""
    ranks = list(range(communicator.n_ranks))
    drawn = communicator.map(_vector, communicator.values(ranks), size=size, density=density)
    streams = communicator.settle(drawn)
    problem = Problem(communicator.n_ranks, size, size * density)
    names = ["auto", *ALGORITHMS]
    least = dict.fromkeys(names, np.inf)
    for turn in range(TURNS + 1):
        for name in names:
            if turn > 1 and least[name] > FAR * min(least.values()):
                continue
            seconds = _seconds(communicator, streams, name, options_of(model, problem, name))
            least[name] = min(least[name], seconds) if turn else np.inf
    return [[size, density, name, least[name]] for name in names]


def _vector(rank: int, *, size: int, density: float) -> Any:
    random = np.random.default_rng(rank)
    indices = np.unique(random.integers(0, size, int(size * density)))
    return stream_of((indices, random.random(len(indices), np.float32) + 1, size))


def _seconds(communicator: Communicator, streams: Any, name: str, options: dict) -> float:
    begin = perf_counter()
    communicator.settle(sparse_allreduce(communicator, streams, algorithm=name, **options))
    return perf_counter() - begin


def options_of(model: CostModel, problem: Problem, algorithm: str) -> dict[str, Any]:
    """Groups or degrees of least predicted time."""
    for choice in model.choices(problem):
        if choice.algorithm == algorithm:
            options = {"group": choice.group, "degrees": choice.degrees}
            return {name: value for name, value in options.items() if value is not None}
    return {}


def tables(transport: str, n_ranks: int, measured: dict[str, Any]) -> tuple[list, list]:
    """All measurements, and a line a case of the summary."""
    model = CostModel(**measured["model"])
    cases: dict[tuple[int, float], dict[str, float]] = {}
    for size, density, name, seconds in measured["found"]:
        cases.setdefault((size, density), {})[name] = seconds
    lines, summary = [], []
    for (size, density), seconds in cases.items():
        predicted = model.predict(n_ranks, size, size * density)
        chosen = model.best(Problem(n_ranks, size, size * density)).algorithm
        single = {name: seconds[name] for name in ALGORITHMS}
        best = min(single, key=lambda name: single[name])
        # "auto" is one of these algorithms: what it takes itself counts as a turn of it
        auto = min(seconds["auto"], single[chosen])
        dense = min(value for name, value in single.items() if name.startswith("dense"))
        head = [transport, n_ranks, size, density]
        summary.append([*head, best, chosen, auto / min(auto, single[best]), dense / auto])
        lines += [
            [*head, name, 1e3 * value, 1e3 * predicted[name], best, chosen]
            for name, value in single.items()
        ]
    return lines, summary


def network_model(kernels: CostModel) -> CostModel:
    """A cluster's messages, and this machine's kernels."""
    return replace(kernels, **NETWORK)


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("local", "dask", "mpi"),
    type=click.Choice(["local", "dask", "mpi"]), show_default=True,
)  # fmt: skip
@click.option("--size", "sizes", multiple=True, type=int, default=(10**6, 10**7))
@click.option("--density", "densities", multiple=True, type=float, default=DENSITIES)
@out_option
def main(
    ranks: tuple[int, ...],
    transports: tuple[str, ...],
    sizes: tuple[int, ...],
    densities: tuple[float, ...],
    out: Path,
) -> None:
    """Write the tables and the figures."""
    origin = Origin.here()
    lines: list[list] = []
    summary: list[list] = []
    with LocalCommunicator(2, n_threads=1) as alone:
        model = network_model(cost_model_of(alone))
    for transport in transports:
        run = {"local": partial(transport_seconds, None), "dask": on_dask_workers_with,
               "mpi": in_mpi_job_with}[transport]  # fmt: skip
        for n_ranks in ranks if transport != "mpi" or has_mpiexec() else ():
            click.echo(f"{n_ranks} ranks: {transport} …")
            found = tables(
                transport, n_ranks, run(transport, n_ranks, list(sizes), list(densities))
            )
            lines, summary = lines + found[0], summary + found[1]
            for line in found[1]:
                click.echo(line)
    out.mkdir(parents=True, exist_ok=True)
    draw(model, lines, out / "sparse_allreduce.png")
    losses = [line[6] for line in summary]
    body = (
        "float32 vectors with entries spread evenly, index type uint32; the least of "
        f"{TURNS} turns after a first, all algorithms in turn, those far behind once. *auto / "
        "best* is the time of the algorithm that the model chose over that of the fastest: "
        f"at most {max(losses):.2f}, {sum(loss <= 1.15 for loss in losses)} of {len(losses)} "
        "within 1.15. *best dense / auto* is the speed-up over the fastest dense allreduce.\n\n"
        f"{markdown_table(SUMMARY, summary)}\n\n"
        "![Sparse allreduce](sparse_allreduce.png)\n\n"
        "Figures 5.1 to 5.4 of Renggli (2017), predicted for a cluster "
        f"({json.dumps(NETWORK)} seconds, kernels as measured here), and last what was measured "
        f"here on {ranks[-1]} ranks ({transports[-1]})."
    )
    write_numbers(out, "sparse_allreduce", COLUMNS, lines, origin)
    write_section(out, "sparse_allreduce", "Sparse allreduce", body, origin)


def on_dask_workers_with(transport: str, n_ranks: int, *arguments: Any) -> dict[str, Any]:
    """`transport_seconds` on a worker process a rank."""
    return on_dask_workers(transport_seconds, n_ranks, transport, n_ranks, *arguments)


def in_mpi_job_with(transport: str, n_ranks: int, *arguments: Any) -> dict[str, Any]:
    """`transport_seconds` on an MPI rank a rank."""
    return in_mpi_job(transport_seconds, n_ranks, transport, n_ranks, *arguments)


if __name__ == "__main__":
    main()
