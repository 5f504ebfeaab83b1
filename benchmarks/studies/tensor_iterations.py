"""Seconds of a CP-ALS iteration on real ranks: point to point against the embedding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import data
from daskpart.errors import BalanceWarning
from daskpart.models import CPDecomposition
from daskpart.models.cp.cut import nonzero_parts

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section

METHODS = {"p2p": "medium-grain", "emb-naive": "hypercube", "emb": "hypercube"}
COMPONENTS = 16
ITERATIONS = 5
N_WORKERS = 4
TRANSPORTS = ("local", "graph", "dask", "mpi")
COLUMNS = (
    "tensor", "K", "transport", "method", "messages a rank", "volume", "ms an iteration",
    "ms computing", "fit",
)  # fmt: skip


@cache
def parts(name: str, n_ranks: int, cut: str) -> np.ndarray:
    """The rank of each nonzero: the same for all transports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)  # some slices weigh more than a part
        return nonzero_parts(
            data.tensor(name), n_ranks, cut, n_components=COMPONENTS, random_state=0,
        )  # fmt: skip


def lines_of(client: Any, transports: list[str], ranks: list[int], names: list[str]) -> list[list]:
    """One line a tensor, K, transport and method, on one set of workers or in this process."""
    rows = []
    with client.as_current() if client else nullcontext():
        for name, n_ranks, transport in product(names, ranks, transports):
            rows += [line(name, n_ranks, transport, method) for method in METHODS]
    return rows


def line(name: str, n_ranks: int, transport: str, method: str) -> list:
    """Of the iterations after the first the least seconds."""
    model = CPDecomposition(
        COMPONENTS, n_ranks=n_ranks, method=method, transport=transport, max_iter=ITERATIONS, tol=0,
        partitioner=parts(name, n_ranks, METHODS[method]),
    )  # fmt: skip
    model.fit(data.tensor(name))
    assert model.comm_report_.matches
    history = model.history_.iloc[1:]
    return [
        name, n_ranks, transport, method, int(model.comm_report_.expected_messages.max()),
        model.plan_report_.volume, 1e3 * float(history["seconds"].min()),
        1e3 * float(history["seconds_computing"].min()), round(model.fit_, 6),
    ]  # fmt: skip


def measured(transports: Sequence[str], ranks: Sequence[int], names: Sequence[str]) -> list[list]:
    """All lines; workers are started once for Dask's two transports, and once for MPI."""
    arguments = list(ranks), list(names)
    threads = -(-max(ranks) // N_WORKERS)
    rows = lines_of(None, ["local"], *arguments) if "local" in transports else []
    own = [transport for transport in ("graph", "dask") if transport in transports]
    if own:
        rows += on_dask_workers(lines_of, N_WORKERS, own, *arguments, threads=threads)
    if "mpi" in transports:
        if has_mpiexec():
            rows += in_mpi_job(lines_of, N_WORKERS, ["mpi"], *arguments, threads=threads)
        else:
            click.echo("no mpiexec in this environment: MPI is left out")
    return sorted(rows, key=lambda row: (names.index(row[0]), row[1], TRANSPORTS.index(row[2])))


@click.command()
@click.option(
    "--tensor", "names", multiple=True, default=("fb15k-237.train", "math-tags"), show_default=True
)
@click.option("--ranks", multiple=True, type=int, default=(4, 8, 16), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=TRANSPORTS, show_default=True,
    type=click.Choice(TRANSPORTS),
)  # fmt: skip
@out_option
def main(
    names: tuple[str, ...], ranks: tuple[int, ...], transports: tuple[str, ...], out: Path
) -> None:
    """Write the table."""
    origin = Origin.here()
    rows = measured(transports, ranks, names)
    body = (
        f"R = {COMPONENTS}, float32 or float64 as the tensor's values, P2P on a medium-grain cut, "
        "EMB on a hypercube mapping, owners packed; messages and volume (rows) as counted. Dask "
        f"and MPI have {N_WORKERS} worker processes, which hold several ranks each where K is "
        "more; all share the cores named below, so computing does not scale here. The least of "
        f"{ITERATIONS - 1} iterations.\n\n{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "tensor_iterations", COLUMNS, rows, origin)
    write_section(out, "tensor_iterations", "P2P against EMB: a CP-ALS iteration", body, origin)


if __name__ == "__main__":
    main()
