"""Memory that messages take, over the number of ranks and over what they send.

    local                 K = 64 … 512 ranks in this process
    dask, 4 processes     K = 16 … 64 ranks, as many on each

Every rank sends rows of b bytes to the next two, some rounds one after the other. Peaks are those
of tracemalloc in the processes of the ranks, from before the communicator is made until the last
round; the ranks' own values count with them. Were something held for every pair of ranks, a rank's
share would grow with K; it may only grow with b.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import click
import numpy as np

from daskpart.collectives import Communicator, PerRank, PreparedPlan, communicator_for, expand

from .clusters import on_dask_workers
from .latency import held_items, ring_expand
from .output import Origin, markdown_table, out_option, write_numbers, write_section

N_PROCESSES = 4
ROUNDS = 5
COLUMNS = (
    "transport", "processes", "ranks", "bytes a message", "kB a rank sends in a round",
    "kB a rank, peak", "peak above the least b, over what is sent",
)  # fmt: skip


def rounds(comm: Communicator, values: PerRank, prepared: PreparedPlan) -> None:
    """The text."""
    for _ in range(ROUNDS):
        values = expand(comm, prepared, values)
    comm.settle(values)


def start_counting() -> None:
    """In a process of ranks."""
    tracemalloc.start()
    tracemalloc.reset_peak()


def peak_bytes() -> int:
    """Since `start_counting`, which ends here."""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def lines_of(client: Any, transport: str, ranks: list[int], sizes: list[int]) -> list[list]:
    """[ranks, bytes of a message, peak bytes of all processes together]."""
    lines = []
    for n_ranks in ranks:
        _peak(client, transport, n_ranks, sizes[0])  # what is imported and compiled once
        lines += [[n_ranks, size, _peak(client, transport, n_ranks, size)] for size in sizes]
    return lines


def _peak(client: Any, transport: str, n_ranks: int, n_bytes: int) -> int:
    if client is None:
        start_counting()
        _run(None, transport, n_ranks, n_bytes)
        return peak_bytes()
    client.run(start_counting)
    _run(client, transport, n_ranks, n_bytes)
    return int(sum(client.run(peak_bytes).values()))


def _run(client: Any, transport: str, n_ranks: int, n_bytes: int) -> None:
    n_rows = len(held_items(0, n_ranks))
    with communicator_for(transport, n_ranks, client) as comm:
        prepared = ring_expand(comm)
        values = comm.map(_rows, comm.values([n_rows] * n_ranks), width=n_bytes // 8)
        comm.run(rounds, values, prepared)


def _rows(n_rows: int, *, width: int) -> np.ndarray:
    return np.ones((n_rows, width))


def table(transport: str, n_processes: int, lines: list[list]) -> list[list]:
    """Rows of the table."""
    least = {n_ranks: peak for n_ranks, _, peak in reversed(lines)}  # of the smallest messages
    rows = []
    for n_ranks, n_bytes, peak in lines:
        sent = 2 * n_bytes * n_ranks
        above = (peak - least[n_ranks]) / sent if peak > least[n_ranks] else None
        rows.append(
            [
                transport,
                n_processes,
                n_ranks,
                n_bytes,
                2 * n_bytes / 1e3,
                peak / n_ranks / 1e3,
                above,
            ]
        )
    return rows


@click.command()
@click.option(
    "--transport", "transports", multiple=True, default=("local", "dask"), show_default=True,
    type=click.Choice(["local", "dask"]),
)  # fmt: skip
@click.option("--ranks", multiple=True, type=int, default=(64, 128, 256, 512), show_default=True)
@click.option(
    "--ranks-on-processes", multiple=True, type=int, default=(16, 32, 64), show_default=True,
    help=f"Of dask, on {N_PROCESSES} processes.",
)  # fmt: skip
@click.option(
    "--bytes", "sizes", multiple=True, type=int, default=(8, 8_000, 80_000), show_default=True
)
@out_option
def main(
    transports: tuple[str, ...],
    ranks: tuple[int, ...],
    ranks_on_processes: tuple[int, ...],
    sizes: tuple[int, ...],
    out: Path,
) -> None:
    """Write the table of memory."""
    origin, rows = Origin.here(), []
    if "local" in transports:
        rows += table("local", 1, lines_of(None, "local", list(ranks), list(sizes)))
    if "dask" in transports:
        most = -(-max(ranks_on_processes) // N_PROCESSES)
        arguments = ("dask", list(ranks_on_processes), list(sizes))
        found = on_dask_workers(lines_of, N_PROCESSES, *arguments, threads=most)
        rows += table("dask", N_PROCESSES, found)
    for row in rows:
        click.echo(row)
    body = (
        "Every rank holds three rows and sends its own to the next two ranks, "
        f"{ROUNDS} rounds. *Peak*: tracemalloc of all processes of ranks together, over the ranks; "
        "it holds plan, communicator, values and messages. *Above the least b*: what larger "
        "messages add to the peak, over the bytes that all ranks send in a round; values and "
        "copies of them are in it. A rank's share does not grow with the number of ranks.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "message_memory", COLUMNS, rows, origin)
    write_section(out, "message_memory", "Memory of messages", body, origin)


if __name__ == "__main__":
    main()
