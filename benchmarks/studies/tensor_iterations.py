"""Seconds of a CP-ALS iteration on real ranks: point to point against the embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks import data
from daskpart.models import CPDecomposition

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section

METHODS = ("p2p", "emb-naive", "emb")
COMPONENTS = 16
ITERATIONS = 8
MOST_WORKERS = 8
COLUMNS = (
    "tensor", "K", "transport", "method", "messages a rank", "volume", "ms an iteration",
    "ms computing", "fit",
)  # fmt: skip


def transport_lines(client: Any, transport: str, n_ranks: int, name: str) -> list[list]:
    """One line a method; seconds are the least of the iterations after the first."""
    if client is None:
        return [_line(name, n_ranks, transport, method) for method in METHODS]
    with client.as_current():
        return [_line(name, n_ranks, transport, method) for method in METHODS]


def _line(name: str, n_ranks: int, transport: str, method: str) -> list:
    model = CPDecomposition(
        COMPONENTS, n_ranks=n_ranks, method=method, transport=transport, n_iter=ITERATIONS, tol=0
    )
    model.fit(data.tensor(name).to_coo())
    assert model.comm_report_.matches
    history = model.history_.iloc[1:]
    return [
        name, n_ranks, transport, method, int(model.comm_report_.expected_messages.max()),
        model.plan_report_.volume, 1e3 * float(history["seconds"].min()),
        1e3 * float(history["seconds_computing"].min()), round(model.fit_, 6),
    ]  # fmt: skip


@click.command()
@click.option(
    "--tensor", "names", multiple=True, default=("fb15k-237.train", "math-tags"), show_default=True
)
@click.option("--ranks", multiple=True, type=int, default=(4, 8, 16), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("local", "graph", "dask", "mpi"),
    type=click.Choice(["local", "graph", "dask", "mpi"]), show_default=True,
)  # fmt: skip
@out_option
def main(
    names: tuple[str, ...], ranks: tuple[int, ...], transports: tuple[str, ...], out: Path
) -> None:
    """Write the table."""
    origin = Origin.here()
    rows: list[list] = []
    for transport in transports if has_mpiexec() else set(transports) - {"mpi"}:
        for n_ranks in ranks:
            n_workers = min(n_ranks, MOST_WORKERS)
            threads = -(-n_ranks // n_workers)
            for name in names:
                arguments = (transport, n_ranks, name)
                if transport == "local":
                    found = transport_lines(None, *arguments)
                else:
                    run = in_mpi_job if transport == "mpi" else on_dask_workers
                    found = run(transport_lines, n_workers, *arguments, threads=threads)
                rows += found
                for line in found:
                    click.echo(line)
    rows.sort(key=lambda line: (names.index(line[0]), line[1], transports.index(line[2])))
    body = (
        f"R = {COMPONENTS}, float32 or float64 as the tensor's values, P2P on a medium-grain cut, "
        "EMB on a hypercube mapping, owners packed; messages and volume (rows) as counted. At most "
        f"{MOST_WORKERS} worker processes, which hold several ranks where K is more; all share the "
        "cores named below, so computing does not scale here. The least of "
        f"{ITERATIONS - 1} iterations.\n\n{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "tensor_iterations", COLUMNS, rows, origin)
    write_section(out, "tensor_iterations", "P2P against EMB: a CP-ALS iteration", body, origin)


if __name__ == "__main__":
    main()
