"""Which workers ranks live on, round-robin in order of the workers' names.

Ranks that are long tasks need a thread each (`places_by_threads`), or share them; ranks that are
tasks of a graph do not (`place_ranks`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from distributed import Client

from daskpart._floor.rank_tasks import known_workers
from daskpart.errors import InputError, WorkersBusyError

from .time_limits import time_limits

_LOOK_SECONDS = 0.1


def has_threads_for(client: Client, n_ranks: int) -> bool:
    """Whether the workers that are there now have a thread for every rank."""
    return n_ranks <= sum(threads_by_worker(client).values())


def places_by_threads(
    client: Client,
    n_ranks: int,
    placement: Sequence[str] | None = None,
    seconds: float = 0.0,
    oversubscribe: bool = False,
) -> list[str]:
    """Workers of the ranks, as wished for, or round-robin, each as often as it has threads.

    Waits so many seconds for workers with threads enough: they may be on their way. With
    `oversubscribe` ranks may share threads: once each has its rank, all get another one. InputError
    if the ranks, or those placed on one worker, exceed the threads; or where there is no worker.
    """
    limit = monotonic() + seconds
    with workers_called_for(client):
        while True:
            workers = known_workers(client)
            threads = _threads(workers)
            most = dict.fromkeys(threads, n_ranks) if oversubscribe else threads
            wrong = [a for a in placement or () if placement.count(a) > most.get(a, 0)]  # type: ignore[union-attr]
            if (n_ranks <= sum(most.values()) and not wrong) or monotonic() > limit:
                break
            sleep(_LOOK_SECONDS)
    listed = ", ".join(f"{address}: {n}" for address, n in threads.items()) or "no workers"
    if n_ranks > sum(most.values()):
        waited = f" after {seconds:g} s" if seconds else ""
        # all may be gone for a moment, as a cluster is restarted: "auto" then waits for one
        kind = InputError if threads else WorkersBusyError
        told = (
            f"{n_ranks} ranks need as many threads of workers; the cluster has "
            f"{sum(threads.values())}{waited} ({listed}).",
            paused_workers(workers),
            "Use fewer ranks or more workers; ranks share threads with transport='auto', or "
            "oversubscribe=True.",
        )
        raise kind(" ".join(filter(None, told)))
    if placement is not None:
        if len(placement) != n_ranks or wrong:
            raise InputError(
                f"placement must name a worker with a thread of its own for each of the {n_ranks} "
                f"ranks; got {len(placement)} names, too many on {sorted(set(wrong)) or 'none'}; "
                f"threads are {listed}."
            )
        return list(placement)
    places: list[str] = []
    held = 1  # ranks of a thread
    while len(places) < n_ranks:
        free = [a for a, n in threads.items() if places.count(a) < n * held]
        places.extend(free[: n_ranks - len(places)])
        held += not free
    return places


def threads_by_worker(client: Client) -> dict[str, int]:
    """Threads of the workers that take tasks, in order of their names."""
    return _threads(known_workers(client))


def _threads(workers: Mapping[str, Mapping]) -> dict[str, int]:
    return {address: workers[address]["nthreads"] for address in order_of_workers(workers)}


@contextmanager
def workers_called_for(client: Client) -> Iterator[None]:
    """Where no worker takes tasks, have one wait: an adaptive cluster then starts some."""
    none = not order_of_workers(known_workers(client))
    task = client.submit(int, pure=False) if none else None
    try:
        yield
    finally:
        if task is not None:
            task.release()


def workers_that_came(client: Client) -> dict[str, Mapping]:
    """What the scheduler knows of the workers that take tasks; waits for the first one.

    It may be on its way, at the beginning or after a loss.
    """
    _, seconds = time_limits(None, None)
    limit = monotonic() + seconds
    with workers_called_for(client):
        while not (running := order_of_workers(workers := known_workers(client))):
            if monotonic() > limit:
                told = f"The cluster has no workers, and none came in {seconds:g} s; start some."
                raise WorkersBusyError(paused_workers(workers) or told)
            sleep(_LOOK_SECONDS)
    return {address: workers[address] for address in running}


def paused_workers(workers: Mapping[str, Mapping]) -> str:
    """What is wrong with workers that Dask has paused, and what to do; "" if it paused none."""
    listed = ", ".join(
        f"{address} ({worker['metrics']['memory'] / 1e6:.0f} of {worker['memory_limit'] / 1e6:.0f}"
        " MB)"
        for address, worker in workers.items()
        if worker["status"] == "paused"
    )
    told = f"Dask has paused {listed}: their memory is nearly full, so they take no tasks. "
    what = "Let go of what they hold, or start workers with more memory (memory_limit=…)."
    return told + what if listed else ""


def ranks_by_worker(placement: Iterable[str]) -> dict[str, list[int]]:
    """The ranks on each worker, rising; workers in order of their first ranks."""
    ranks: dict[str, list[int]] = {}
    for rank, address in enumerate(placement):
        ranks.setdefault(address, []).append(rank)
    return ranks


def place_ranks(client: Any, n_ranks: int, placement: Sequence[str] | None = None) -> Sequence[str]:
    """Workers of the ranks: as wished for, or round-robin; InputError for unknown ones."""
    if placement is None:
        ordered = order_of_workers(workers_that_came(client))
        return [ordered[rank % len(ordered)] for rank in range(n_ranks)]
    known = known_workers(client)
    unknown = sorted({str(address) for address in placement if address not in known})
    if len(placement) != n_ranks or unknown:
        raise InputError(
            f"placement must name a worker of the cluster for each of the {n_ranks} ranks; got "
            f"{len(placement)} names, unknown: {unknown or 'none'}; workers: {sorted(known)}."
        )
    return placement


def order_of_workers(workers: Mapping[str, Mapping]) -> list[str]:
    """Addresses of the workers that take tasks, in order of their names.

    Names that are numbers (MPI ranks under dask-mpi) count as numbers.
    """
    running = [name for name, worker in workers.items() if worker.get("status") == "running"]
    return sorted(running, key=lambda address: _name_order(workers[address]["name"], address))


def _name_order(name: Any, address: str) -> list:
    pieces = re.split(r"(\d+)", str(name))
    return [[int(p), ""] if p.isdigit() else [-1, p] for p in pieces] + [[-1, address]]
