"""Embedding against point-to-point: seconds of one expand and reduce of a real connectivity.

    point-to-point   one round, up to K − 1 messages a rank
    naive, aware     ⌈log2 K⌉ messages a rank, rows travel on the way of an allreduce

Measured on K = 4, 8, 16 ranks, and by α–β on more: with α and β of a transport the K from which
the embedding wins can be read off.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks import data
from daskpart.collectives import (
    Communicator,
    LocalCommunicator,
    Plan,
    embed,
    expand,
    expand_plan,
    reduce,
    simulate,
)
from daskpart.collectives.transports import communicator_for

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import connectivity_of, matrix

METHODS = ("point-to-point", "naive", "aware")
WIDTH = 16  # float32 values a row
TURNS = 5
MOST_WORKERS = 8
PRICES = {  # seconds a message and a byte, of the order of what `latency` measures
    "graph": (4e-3, 1e-9),
    "dask": (3e-4, 2e-9),
    "mpi": (5e-5, 5e-10),
    "MPI in a cluster": (2e-6, 1e-10),
}
MEASURED = ("data", "K", "transport", "point-to-point, ms", "naive, ms", "aware, ms", "fastest")
PREDICTED = (
    "K", "max messages, straight", "max messages, embedded", "rows, straight", "rows, naive",
    "rows, aware", *(f"ratio, {name}" for name in PRICES),
)  # fmt: skip


def connectivity(name: str, n_ranks: int) -> daskpart.Connectivity:
    """Items of a data set over so many parts, owners drawn."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    hypergraph = daskpart.Hypergraph.column_net(matrix(triples, shape))
    return connectivity_of(hypergraph, n_ranks, "HP-λ²")[1].with_random_owners(0)


def plans(found: daskpart.Connectivity) -> dict[str, Plan]:
    """Method → its plan of the expand."""
    carried = expand_plan(found)
    return {
        "point-to-point": carried,
        "naive": embed(carried, aware=False),
        "aware": embed(carried, aware=True),
    }


def transport_seconds(client: Any, transport: str, n_ranks: int, name: str) -> list[float]:
    """Least seconds of expand and reduce by each method."""
    found = connectivity(name, n_ranks)
    items = np.repeat(np.arange(found.n_items), np.diff(found.pointer))
    held = [np.sort(items[found.parts == rank]) for rank in range(n_ranks)]
    made: Communicator
    if transport == "local":
        made = LocalCommunicator(n_ranks)
    else:
        made = communicator_for(transport, n_ranks, client=client)
    with made as communicator:
        numbering = communicator.values(held)
        rows = communicator.map(_rows, numbering)
        return [_seconds(communicator, plan, numbering, rows) for plan in plans(found).values()]


def _rows(numbering: np.ndarray) -> np.ndarray:
    return np.zeros((len(numbering), WIDTH), np.float32)


def _seconds(communicator: Communicator, plan: Plan, numbering: Any, rows: Any) -> float:
    prepared = [communicator.prepare(each, numbering) for each in (plan, plan.reversed())]
    least = np.inf
    for _ in range(TURNS + 1):
        state = communicator.settle(communicator.map(np.copy, rows))
        begin = perf_counter()
        for call, ready in zip((expand, reduce), prepared, strict=True):
            state = call(communicator, ready, state)
        communicator.settle(state)
        least = min(least, perf_counter() - begin)
    return least


def measured_line(name: str, n_ranks: int, transport: str) -> list:
    """One line of the first table."""
    n_workers = min(n_ranks, MOST_WORKERS)
    arguments = (transport, n_ranks, name)
    threads = -(-n_ranks // n_workers)
    if transport == "local":
        seconds = transport_seconds(None, *arguments)
    elif transport == "mpi":
        seconds = in_mpi_job(transport_seconds, n_workers, *arguments, threads=threads)
    else:
        seconds = on_dask_workers(transport_seconds, n_workers, *arguments, threads=threads)
    fastest = METHODS[int(np.argmin(seconds))]
    return [name, n_ranks, transport, *(1e3 * each for each in seconds), fastest]


def predicted_line(name: str, n_ranks: int) -> list:
    """One line of the second table, from the plans alone."""
    of_method = plans(connectivity(name, n_ranks))
    counted = {method: plan.statistics() for method, plan in of_method.items()}
    most = [
        int(counted[method].per_rank("messages_sent").max())
        for method in ("point-to-point", "aware")
    ]
    ratios = []
    for alpha, beta in PRICES.values():
        seconds = {
            method: simulate(
                [plan, plan.reversed()], row_bytes=4 * WIDTH, alpha=alpha, beta=beta
            ).seconds
            for method, plan in of_method.items()
        }
        ratios.append(seconds["aware"] / seconds["point-to-point"])
    return [n_ranks, *most, *(of_method[m].total_rows for m in METHODS), *ratios]


def crossings(measured: list[list], predicted: list[list]) -> str:
    """From which number of ranks on an embedding wins, on each transport."""
    lines = []
    for transport in dict.fromkeys(line[2] for line in measured):
        mine = [line for line in measured if line[2] == transport]
        won = [line[1] for line in mine if line[-1] != METHODS[0]]
        here = f"from K = {min(won)} on" if won else f"not up to K = {max(m[1] for m in mine)}"
        lines.append(f"{transport}: {here}")
    first = len(predicted[0]) - len(PRICES) if predicted else 0
    by_price = [
        f"{price}: "
        + next((f"from K = {line[0]} on" for line in predicted if line[first + place] < 1), "never")
        for place, price in enumerate(PRICES)
    ]
    return (
        f"Where an embedding wins, measured: {'; '.join(lines)}. By the plans, among the K of the "
        f"table: {'; '.join(by_price)}. The plans price ranks that have a core each. Where ranks "
        "share cores, every row that is forwarded, and every task, is paid for one after another, "
        "so it wins later than they say."
    )


@click.command()
@click.option("--data", "name", default="gowalla", show_default=True)
@click.option("--ranks", multiple=True, type=int, default=(4, 8, 16), show_default=True)
@click.option("--predict", multiple=True, type=int, default=(4, 16, 64, 256), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("local", "graph", "dask", "mpi"),
    type=click.Choice(["local", "graph", "dask", "mpi"]), show_default=True,
)  # fmt: skip
@out_option
def main(
    name: str,
    ranks: tuple[int, ...],
    predict: tuple[int, ...],
    transports: tuple[str, ...],
    out: Path,
) -> None:
    """Write the tables of embedding against point-to-point."""
    origin = Origin.here()
    measured = []
    for n_ranks in ranks:
        for transport in transports:
            if transport != "mpi" or has_mpiexec():
                measured.append(measured_line(name, n_ranks, transport))
                click.echo(measured[-1])
    predicted = [predicted_line(name, n_ranks) for n_ranks in predict]
    prices = "; ".join(
        f"{price}: {alpha:g} s and {beta:g} s" for price, (alpha, beta) in PRICES.items()
    )
    body = (
        f"The items of {name}, users cut into K parts by HP-λ², owners drawn at random; rows of "
        f"{WIDTH} float32 values. One expand and one reduce, the least of {TURNS} turns; at most "
        f"{MOST_WORKERS} worker processes, which hold several ranks where K is more; all on the "
        "cores named below. Without a payload: where a dense allreduce is needed anyway, its "
        "messages come on top of point-to-point and for nothing with an embedding.\n\n"
        f"{markdown_table(MEASURED, measured)}\n\n"
        "From the plans, in lock-step, for a message and a byte of the price given "
        f"({prices}). The ratio is that of the aware embedding to point-to-point: below 1 the "
        "embedding wins:\n\n"
        f"{markdown_table(PREDICTED, predicted)}\n\n"
        f"{crossings(measured, predicted)}"
    )
    write_numbers(out, "embedding", MEASURED, measured, origin)
    write_section(out, "embedding", "Embedding against point-to-point", body, origin)


if __name__ == "__main__":
    main()
