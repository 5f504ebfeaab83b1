"""Threads of workers that SPMD runs hold: all that a run needs at once, or none.

    worker   threads   run a   run b         run c asks for 2 + 2:
    A           4        2       1           A has 1 left, so it gets none of them and asks again
    B           4        2       1

So two runs can't each hold half of what they need. The table lives on the scheduler. A run with
more ranks on a worker than it has threads (`oversubscribe`) needs them all.
`distributed.MultiLock` would do the same for whole workers, but stays locked when its client dies;
a lease is void as soon as its client is gone, or its ranks are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

_TABLE = "daskpart_leases"
_STARTING_SECONDS = 120.0  # in which a lease counts although its ranks don't run yet


@dataclass(frozen=True)
class Lease:
    """What a run holds: threads of each worker; its client and the key of its first rank's task."""

    threads: Counter[str]
    client_id: str
    task: tuple
    since: float


def take_lease(
    run_id: str, client_id: str, task: tuple, placement: Sequence[str], dask_scheduler: Any
) -> str | None:
    """On the scheduler: take a thread for each rank; or take none, and say what is missing."""
    table = _valid(dask_scheduler)
    wanted: Counter[str] = Counter()
    for address, ranks in Counter(placement).items():
        if address not in dask_scheduler.workers:
            return f"worker {address} is gone"
        threads = dask_scheduler.workers[address].nthreads
        wanted[address] = min(ranks, threads)
        holders = [run for run, lease in table.items() if lease.threads[address]]
        free = threads - sum(table[run].threads[address] for run in holders)
        if wanted[address] > free:
            return (
                f"{ranks} rank(s) find {free} of {threads} threads free on worker {address}; the "
                f"others are held by run(s) {', '.join(holders)}"
            )
    table[run_id] = Lease(wanted, client_id, task, monotonic())
    return None


def end_lease(run_id: str, dask_scheduler: Any) -> None:
    """On the scheduler: give the threads of a run back."""
    _valid(dask_scheduler).pop(run_id, None)


def threads_are_free(placement: Sequence[str], dask_scheduler: Any) -> bool:
    """On the scheduler: whether ranks could begin at once: no run, no task is in their way."""
    table, workers = _valid(dask_scheduler), dask_scheduler.workers
    for address, ranks in Counter(placement).items():
        if address not in workers:
            return False
        worker = workers[address]
        held = sum(lease.threads[address] for lease in table.values())
        if min(ranks, worker.nthreads) > worker.nthreads - max(held, len(worker.processing)):
            return False
    return True


def _valid(scheduler: Any) -> dict[str, Lease]:
    """The table, with the leases gone whose owners are."""
    table: dict[str, Lease] = scheduler.extensions.setdefault(_TABLE, {})
    for run_id, lease in list(table.items()):
        starting = monotonic() < lease.since + _STARTING_SECONDS
        alive = starting or lease.task in scheduler.tasks
        if lease.client_id not in scheduler.clients or not alive:
            del table[run_id]
    return table
