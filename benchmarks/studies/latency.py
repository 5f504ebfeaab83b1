"""Seconds of one allreduce and of one sparse expand: our transports beside mpi4py itself.

    hypercube allreduce   every rank gives an array of b bytes       beside MPI.Allreduce
    sparse expand         every rank sends rows of b bytes to two    beside Isend and Irecv
                          others

"In a run of calls" is what a model pays: the calls of a text go out together. "Alone" is one call
whose result somebody looks at, which costs a trip to the driver more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from daskpart import Connectivity
from daskpart.collectives import (
    MAX,
    Communicator,
    DaskCommunicator,
    GraphCommunicator,
    LocalCommunicator,
    MpiCommunicator,
    PerRank,
    expand,
    expand_plan,
    hypercube_allreduce,
)

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers, on_mpi_ranks
from .output import Origin, markdown_table, out_option, write_numbers, write_section

ALLREDUCE, EXPAND = "allreduce", "expand"
SIZES = (8, 80_000, 8_000_000)
MOST_CALLS = {"local": 400, "graph": 3, "dask": 200, "mpi": 5000}
TRIAL_CALLS = {"local": 10, "graph": 1, "dask": 5, "mpi": 20}
TURN_SECONDS = 0.7  # about so long does a turn take, so the first calls say how many there are
HALVING_BYTES = 400_000  # from here on the allreduce halves its arrays, which then is quicker
BYTES_A_RUN = 100_000_000  # of a rank; large arrays need fewer calls
TURNS = 3
JOBS = 3  # over MPI, as which process runs on which core differs from job to job
COLUMNS = (
    "ranks", "what", "bytes", "transport", "ms, in a run of calls", "ms, alone",
    "in a run / mpi4py",
)  # fmt: skip


def transport_seconds(client: Any, transport: str, n_ranks: int, sizes: list[int]) -> list[list]:
    """[what, bytes, seconds in a run, seconds alone] of one transport on one cluster."""
    made: Communicator
    if transport == "local":
        made = LocalCommunicator(n_ranks)
    else:
        kinds = {"graph": GraphCommunicator, "dask": DaskCommunicator, "mpi": MpiCommunicator}
        made = kinds[transport](n_ranks, client)
    with made as communicator:
        return [
            [what, n_bytes, *_measured(communicator, transport, what, n_bytes)]
            for what in (ALLREDUCE, EXPAND)
            for n_bytes in sizes
        ]


def _measured(
    communicator: Communicator, transport: str, what: str, n_bytes: int
) -> tuple[float, float]:
    n_rows = 1 if what == ALLREDUCE else len(held_items(0, communicator.n_ranks))
    state = communicator.values([np.ones((n_rows, n_bytes // 8))] * communicator.n_ranks)
    halving = n_bytes >= HALVING_BYTES
    if what == ALLREDUCE:
        once = partial(hypercube_allreduce, reduction=MAX, halving=halving)
    else:
        once = _ring_expand(communicator)

    def run(times: int) -> None:
        values = communicator.map(np.copy, state)
        for _ in range(times):
            values = once(communicator, values)
        communicator.settle(values)

    run(1)
    alone = _least(partial(run, 1))
    n_trial = TRIAL_CALLS[transport]
    begin = perf_counter()
    run(n_trial)
    seconds = perf_counter() - begin
    seconds = max(seconds - alone, seconds / 10)  # the trip to the ranks and back is made once
    n_calls = int(TURN_SECONDS * n_trial / seconds)
    n_calls = max(1, min(n_calls, MOST_CALLS[transport], BYTES_A_RUN // n_bytes))
    return _least(partial(run, n_calls)) / n_calls, alone


def _ring_expand(communicator: Communicator) -> Callable[[Communicator, PerRank], PerRank]:
    """Item r belongs to rank r, and the two ranks after it hold it too."""
    ranks = range(communicator.n_ranks)
    places = [held_items(rank, len(ranks)) for rank in ranks]
    pairs = [(item, rank) for rank in ranks for item in places[rank]]
    items, parts = np.array(pairs, np.int32).T
    connectivity = Connectivity.from_pairs(items, parts, len(ranks), len(ranks))
    plan = expand_plan(connectivity, owners=np.arange(len(ranks)))
    prepared = communicator.prepare(plan, communicator.values([np.array(p) for p in places]))
    return lambda communicator, values: expand(communicator, prepared, values)


def held_items(rank: int, n_ranks: int) -> list[int]:
    """Its own item and those of the two ranks before it."""
    return sorted({(rank - step) % n_ranks for step in range(3)})


def mpi4py_seconds(world: Any, sizes: list[int]) -> list[list]:
    """[what, bytes, seconds] of mpi4py alone, of the slowest rank; runs on every MPI rank."""
    return [
        [what, n_bytes, _peer_seconds(world, what, n_bytes)]
        for what in (ALLREDUCE, EXPAND)
        for n_bytes in sizes
    ]


def _peer_seconds(world: Any, what: str, n_bytes: int) -> float:
    from mpi4py import MPI

    rank, n_ranks = world.rank, world.size
    sent = np.ones(n_bytes // 8)  # zeros that nobody wrote would all be read from one page
    received = [np.zeros_like(sent) for _ in held_items(rank, n_ranks)[1:]]
    steps = range(1, 1 + len(received))

    def once() -> None:
        if what == ALLREDUCE:
            world.Allreduce(sent, received[0], MPI.MAX)
            return
        requests = [
            world.Irecv(a, (rank - s) % n_ranks) for s, a in zip(steps, received, strict=True)
        ]
        requests += [world.Isend(sent, (rank + s) % n_ranks) for s in steps]
        MPI.Request.Waitall(requests)

    n_calls = max(1, min(MOST_CALLS["mpi"], BYTES_A_RUN // n_bytes))

    def run() -> None:
        world.Barrier()
        for _ in range(n_calls):
            once()
        world.Barrier()

    run()
    return world.allreduce(_least(run), MPI.MAX) / n_calls


def _least(run: Callable[[], None]) -> float:
    seconds = []
    for _ in range(TURNS):
        begin = perf_counter()
        run()
        seconds.append(perf_counter() - begin)
    return min(seconds)


def _least_lines(jobs: list[list[list]]) -> list[list]:
    """Of several tables alike the least of each number of seconds."""
    return [
        [*of_jobs[0][:2], *(min(column) for column in list(zip(*of_jobs, strict=True))[2:])]
        for of_jobs in zip(*jobs, strict=True)
    ]


def lines(n_ranks: int, transports: list[str], sizes: list[int]) -> list[list]:
    """The table for one number of ranks; mpi4py and ours over MPI measured in turn."""
    found: dict[str, list[list]] = {}
    peer: dict[tuple[str, int], float] = {}
    if has_mpiexec() and "mpi" in transports:
        jobs: dict[str, list[list[list]]] = {"mpi4py": [], "mpi": []}
        for turn in range(JOBS):
            click.echo(f"{n_ranks} ranks: mpi4py, then mpi, {turn + 1} of {JOBS} …")
            jobs["mpi4py"].append(on_mpi_ranks(mpi4py_seconds, n_ranks, sizes))
            jobs["mpi"].append(in_mpi_job(transport_seconds, n_ranks, "mpi", n_ranks, sizes))
        peer = {(what, b): s for what, b, s in _least_lines(jobs["mpi4py"])}
        found["mpi"] = _least_lines(jobs["mpi"])
    if "local" in transports:
        found["local"] = transport_seconds(None, "local", n_ranks, sizes)
    for transport in ("graph", "dask"):
        if transport in transports:
            click.echo(f"{n_ranks} ranks: {transport} …")
            found[transport] = on_dask_workers(
                transport_seconds, n_ranks, transport, n_ranks, sizes
            )
    table = [
        [n_ranks, what, b, transport, 1e3 * run, 1e3 * alone,
         run / peer[what, b] if peer else None]
        for transport in transports
        for what, b, run, alone in found.get(transport, [])
    ]  # fmt: skip
    table += [[n_ranks, what, b, "mpi4py", 1e3 * s, None, 1] for (what, b), s in peer.items()]
    return sorted(table, key=lambda line: (line[1], line[2]))


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("local", "graph", "dask", "mpi"),
    type=click.Choice(["local", "graph", "dask", "mpi"]), show_default=True,
)  # fmt: skip
@click.option("--bytes", "sizes", multiple=True, type=int, default=SIZES, show_default=True)
@out_option
def main(
    ranks: tuple[int, ...], transports: tuple[str, ...], sizes: tuple[int, ...], out: Path
) -> None:
    """Write the table of latencies."""
    origin = Origin.here()
    rows = []
    for n_ranks in ranks:
        found = lines(n_ranks, list(transports), list(sizes))
        rows += found
        for line in found:
            click.echo(line)
    body = (
        f"One hypercube allreduce (float64, max; halving from {HALVING_BYTES:,} bytes on), and one "
        "sparse expand in which every rank sends rows of so many bytes to the next two ranks. "
        "Worker processes of one thread each, one rank a worker, more processes than cores. *In a "
        "run of calls*: the time of many calls that one text makes, over their number. *Alone*: "
        "one call, waited for by the driver. `mpi4py` is `Comm.Allreduce`, and `Isend` with "
        "`Irecv`, between as many MPI ranks with nothing else beside them. The least of "
        f"{TURNS} turns; over MPI in each of {JOBS} jobs, ours and mpi4py's one after the other."
        f"\n\n{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "latency", COLUMNS, rows, origin)
    write_section(out, "latency", "Latency and bandwidth of the transports", body, origin)


if __name__ == "__main__":
    main()
