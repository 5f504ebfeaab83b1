"""Seconds of one call inside a text, on the ranks: our transports beside mpi4py itself.

    sum           a float allreduce on the hypercube, its order fixed   beside MPI.Allreduce
    max, count    exact in any order: MAX of floats, SUM of integers    beside MPI.Allreduce
    expand        every rank sends rows of b bytes to two others        beside Isend and Irecv
    look          an allreduce by a star whose result the text reads    beside MPI.Allreduce
    trip          a run of a text that does nothing: driver ─► ranks ─► driver

All but the trip are loops inside a text, timed there, and the slowest rank counts. mpi4py is
measured by the same processes, in the same run.
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
    SUM,
    Communicator,
    PerRank,
    PreparedPlan,
    allgather,
    allreduce,
    barrier,
    communicator_for,
    expand,
    expand_plan,
    hypercube_allreduce,
)

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

SMALL, MIDDLE, LARGE = 8, 80_000, 8_000_000
CASES = {
    "sum": (SMALL, MIDDLE, LARGE),
    "max": (SMALL,),
    "count": (SMALL,),
    "expand": (SMALL, LARGE),
    "look": (SMALL,),
}
HALVING_BYTES = 400_000  # from here on the allreduce halves its arrays, which then is quicker
MOST_CALLS = 2000
TRIAL_CALLS = 5
BYTES_A_LOOP = 200_000_000  # of a rank; large arrays need fewer calls
TURN_SECONDS = 0.4  # about so long does a loop take
TURNS = 5
TRIPS = 30
COLUMNS = ("ranks", "what", "bytes", "transport", "µs", "µs, mpi4py", "ours / mpi4py")


# -- texts ---


def seconds_of(
    comm: Communicator,
    values: PerRank,
    prepared: PreparedPlan | None,
    *,
    what: str,
    n_bytes: int,
    beside_mpi: bool,
) -> tuple[float, float]:
    """Least seconds a call over turns, ours and mpi4py's by turns; of the slowest rank."""
    once = partial(_CALLS[what], halving=n_bytes >= HALVING_BYTES, prepared=prepared)
    peer = comm.map(Peer, _members(comm)) if beside_mpi else None
    options = {"what": what, "n_bytes": n_bytes}

    def ours(n_calls: int) -> float:
        given = comm.map(np.copy, values)
        barrier(comm)
        begin = perf_counter()
        for _ in range(n_calls):
            given = once(comm, given)
        comm.settle(given)
        return _slowest(comm, comm.values([perf_counter() - begin] * comm.n_ranks))

    n_calls = _n_calls(ours(TRIAL_CALLS) / TRIAL_CALLS, n_bytes)
    n_peer = 0
    if peer is not None:
        trial = _slowest(comm, comm.map(Peer.seconds, peer, n_calls=TRIAL_CALLS, **options))
        n_peer = _n_calls(trial / TRIAL_CALLS, n_bytes)
    least, least_peer = np.inf, np.inf
    for _ in range(TURNS):
        least = min(least, ours(n_calls) / n_calls)
        if peer is not None:
            found = _slowest(comm, comm.map(Peer.seconds, peer, n_calls=n_peer, **options))
            least_peer = min(least_peer, found / n_peer)
    return float(least), float(least_peer)


def _n_calls(seconds: float, n_bytes: int) -> int:
    return max(1, min(int(TURN_SECONDS / seconds), MOST_CALLS, BYTES_A_LOOP // n_bytes))


def _slowest(comm: Communicator, seconds: PerRank) -> float:
    return float(allreduce(comm, seconds, MAX).result())


def _sum(comm: Communicator, values: PerRank, *, halving: bool, prepared: Any) -> PerRank:
    hypercube_allreduce(comm, values, SUM, halving=halving)
    return values  # the same again, as sums of sums would overflow


def _max(comm: Communicator, values: PerRank, *, halving: bool, prepared: Any) -> PerRank:
    hypercube_allreduce(comm, values, MAX)
    return values


def _count(comm: Communicator, values: PerRank, *, halving: bool, prepared: Any) -> PerRank:
    hypercube_allreduce(comm, values, SUM)
    return values


def _expand(comm: Communicator, values: PerRank, *, halving: bool, prepared: Any) -> PerRank:
    return expand(comm, prepared, values)


def _look(comm: Communicator, values: PerRank, *, halving: bool, prepared: Any) -> PerRank:
    if allreduce(comm, values, MAX).result()[0] < 0:
        raise AssertionError("ones are above 0")
    return values


_CALLS: dict[str, Callable[..., PerRank]] = {
    "sum": _sum, "max": _max, "count": _count, "expand": _expand, "look": _look,
}  # fmt: skip


def nothing(comm: Communicator) -> None:
    """The trip."""


# -- mpi4py, in the ranks' processes ---


def _members(comm: Communicator) -> PerRank:
    """The places of all ranks in COMM_WORLD, on each."""
    own = comm.map(_world_rank, comm.values([None] * comm.n_ranks))
    return allgather(comm, own)


def _world_rank(_: None) -> int:
    from mpi4py import MPI

    return int(MPI.COMM_WORLD.rank)


class Peer:
    """The same calls by mpi4py, between the processes of the ranks.

    Parameters
    ----------
    members : int array
        Ranks of these processes in COMM_WORLD.
    """

    def __init__(self, members: np.ndarray) -> None:
        from mpi4py import MPI

        group = MPI.COMM_WORLD.Get_group().Incl(members.tolist())
        self._mpi, self._world = MPI, MPI.COMM_WORLD.Create_group(group)

    def seconds(self, *, what: str, n_bytes: int, n_calls: int) -> float:
        """Of so many calls."""
        once = self._expand(n_bytes) if what == "expand" else self._allreduce(what, n_bytes)
        once()
        self._world.Barrier()
        begin = perf_counter()
        for _ in range(n_calls):
            once()
        return perf_counter() - begin

    def _allreduce(self, what: str, n_bytes: int) -> Callable[[], None]:
        sent = _ones(what, n_bytes // 8)
        received = np.zeros_like(sent)
        how = self._mpi.SUM if what in ("sum", "count") else self._mpi.MAX
        return lambda: self._world.Allreduce(sent, received, how)

    def _expand(self, n_bytes: int) -> Callable[[], None]:
        world, rank, n_ranks = self._world, self._world.rank, self._world.size
        sent = np.ones(n_bytes // 8)  # zeros that nobody wrote would all be read from one page
        received = [np.zeros_like(sent) for _ in held_items(rank, n_ranks)[1:]]
        steps = range(1, 1 + len(received))

        def once() -> None:
            requests = [
                world.Irecv(a, (rank - s) % n_ranks) for s, a in zip(steps, received, strict=True)
            ]
            requests += [world.Isend(sent, (rank + s) % n_ranks) for s in steps]
            self._mpi.Request.Waitall(requests)

        return once


# -- the driver ---


def held_items(rank: int, n_ranks: int) -> list[int]:
    """Its own item and those of the two ranks before it."""
    return sorted({(rank - step) % n_ranks for step in range(3)})


def ring_expand(comm: Communicator) -> PreparedPlan:
    """Item r belongs to rank r, and the two ranks after it hold it too."""
    ranks = range(comm.n_ranks)
    places = [held_items(rank, len(ranks)) for rank in ranks]
    pairs = [(item, rank) for rank in ranks for item in places[rank]]
    items, parts = np.array(pairs, np.int32).T
    connectivity = Connectivity.from_pairs(items, parts, len(ranks), len(ranks))
    plan = expand_plan(connectivity, owners=np.arange(len(ranks)))
    return comm.prepare(plan, comm.values([np.array(p) for p in places]))


def _ones(what: str, n: int) -> np.ndarray:
    return np.ones(n, np.int64 if what == "count" else np.float64)


def transport_lines(client: Any, transport: str, n_ranks: int) -> list[list]:
    """[what, bytes, seconds, seconds of mpi4py] of one transport on one cluster."""
    lines = []
    with communicator_for(transport, n_ranks, client) as comm:
        prepared = ring_expand(comm)
        for what, sizes in CASES.items():
            for n_bytes in sizes:
                n_rows = len(held_items(0, n_ranks))
                given = _ones(what, n_bytes // 8)
                given = np.tile(given, (n_rows, 1)) if what == "expand" else given
                values = comm.values([given] * n_ranks)
                found = comm.run(
                    seconds_of, values, prepared if what == "expand" else None,
                    what=what, n_bytes=n_bytes, beside_mpi=transport == "mpi",
                )  # fmt: skip
                lines.append([what, n_bytes, *found])
        seconds = []
        for _ in range(TRIPS):
            begin = perf_counter()
            comm.run(nothing)
            seconds.append(perf_counter() - begin)
        lines.append(["trip", 0, float(np.median(seconds)), np.inf])
    return lines


def table(n_ranks: int, transports: list[str]) -> list[list]:
    """The lines for one number of ranks, mpi4py beside every transport where it was measured."""
    found: dict[str, list[list]] = {}
    for transport in transports:
        click.echo(f"{n_ranks} ranks: {transport} …")
        arguments = (transport_lines, n_ranks, transport, n_ranks)
        if transport == "local":
            found[transport] = transport_lines(None, transport, n_ranks)
        elif transport == "dask":
            found[transport] = on_dask_workers(*arguments)
        elif has_mpiexec():
            found[transport] = in_mpi_job(*arguments)
        else:
            click.echo("no mpiexec in this environment: MPI is left out")
    peer = {(what, b): s for what, b, _, s in found.get("mpi", []) if np.isfinite(s)}
    rows = []
    for transport, lines in found.items():
        for what, n_bytes, seconds, _ in lines:
            other = peer.get((what, n_bytes))
            beside = (None, None) if other is None else (1e6 * other, seconds / other)
            rows.append([n_ranks, what, n_bytes, transport, 1e6 * seconds, *beside])
    order = [*CASES, "trip"]
    return sorted(rows, key=lambda row: (order.index(row[1]), row[2]))


def asked(rows: list[list]) -> str:
    """What was asked of large messages over MPI, and where it holds."""
    large = [
        (f"{what}, {n_ranks} ranks", ratio)
        for n_ranks, what, n_bytes, transport, _, _, ratio in rows
        if n_bytes == LARGE and transport == "mpi" and ratio is not None
    ]
    words = "8 MB over MPI in at most 1.3 times the seconds of mpi4py"
    return verdict(words, large, lambda ratio: ratio <= 1.3)


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option(
    "--transport", "transports", multiple=True, default=("mpi", "dask"), show_default=True,
    type=click.Choice(["local", "dask", "mpi"]),
)  # fmt: skip
@out_option
def main(ranks: tuple[int, ...], transports: tuple[str, ...], out: Path) -> None:
    """Write the table of latencies."""
    origin = Origin.here()
    rows = []
    for n_ranks in ranks:
        found = table(n_ranks, list(transports))
        rows += found
        for line in found:
            click.echo(line)
    body = (
        "One call of a loop inside a text, on the ranks; the slowest rank counts, and the least of "
        f"{TURNS} turns. *sum*: a float allreduce on the hypercube (halving from "
        f"{HALVING_BYTES:,} bytes on), *max* and *count*: reductions that are exact in any order, "
        "of floats and of integers, *expand*: every rank sends rows of so many bytes to the next "
        "two, *look*: an allreduce by a star, and its result read by the text, *trip*: a run of a "
        "text that does nothing, by the driver's clock. Worker processes of one thread each, one "
        "rank a worker, more processes than cores. mpi4py is `Allreduce`, and `Isend` with "
        "`Irecv`, by the same processes in the same run.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n{asked(rows)}"
    )
    write_numbers(out, "latency", COLUMNS, rows, origin)
    write_section(out, "latency", "Latency and bandwidth of the transports", body, origin)


if __name__ == "__main__":
    main()
