"""The workers of ranks: which rank lives where, threads leased, ranks started, asked and ended."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from distributed import Client, Future

from daskpart._floor.rank_tasks import known_workers
from daskpart.errors import InputError, WorkerLostError

from . import worker as host
from .cluster import Cluster, order_of_workers
from .from_dask import collection_keys
from .lease import end_lease, take_lease
from .mailbox import Standing, find_deadlock
from .rank import Request

_CLOSE_SECONDS = 10.0


class WorkersBusyError(InputError):
    """The workers are in use, so ranks cannot be started on them now."""


class RankCluster(Cluster):
    """The workers that ranks live on, and calls to all of them at once."""

    def on_all(self, function: Callable, *arguments: Any) -> list[Any]:
        """``function(*arguments)`` on all workers at once, watched; the first error."""
        workers = self.workers
        answers = self._watched(
            lambda: self.client.run(function, *arguments, workers=workers, asynchronous=True)
        )
        return list(answers.values())

    def bring(self, collection: Any, placement: Sequence[str]) -> list[Future]:
        """Values of a Dask collection, one a rank, brought to the workers of the ranks."""
        collection_keys(collection, len(placement))
        persisted = self.persist(collection)
        brought = [
            self.client.submit(_same, future, workers=[place], pure=False)
            for future, place in zip(persisted, placement, strict=True)
        ]
        self.wait(brought)
        return brought

    def run_text(
        self, session: str, request: Request, own: Sequence[bytes]
    ) -> tuple[list[list[bytes] | None], str | None]:
        """Have the ranks of all workers run a text, each with values of its own, if there are any.

        Looks meanwhile whether workers were lost, and whether ranks wait for each other for ever:
        then the run is stopped.

        Returns
        -------
        answers : list
            One entry a worker: the answers of its ranks, or None if it does not know the session.
        reason : str or None
            Why the run was stopped, if ranks could not go on.
        """
        packed = pickle.dumps(request)
        reasons: list[str | None] = [None, None]

        async def all_of_them() -> list[Any]:
            groups = [(self.workers, b"")]
            if any(own):
                groups = [
                    ([place], values) for place, values in zip(self.workers, own, strict=True)
                ]
            asked = {"op": host.RUN, "session": session, "request": packed}
            calls = [self._told({**asked, "own": part}, workers) for workers, part in groups]
            said: dict[str, Any] = {}
            for of_group in await asyncio.gather(*calls):
                said |= of_group
            return [said[place] for place in self.workers]

        def look() -> None:
            self.require_workers()
            found = self._answered(lambda: self._deadlock(session, request.run))
            if found is not None and found == reasons[-1]:
                self.on_those_left(host.stop_run, session, request.run, found)
            reasons.append(found)

        answers = self._watched(all_of_them, look)
        stopped = [r for r, before in zip(reasons[1:], reasons, strict=False) if r and r == before]
        return answers, stopped[0] if stopped else None

    async def _told(self, message: dict[str, Any], workers: list[str]) -> dict[str, Any]:
        """What a handler of some workers answers."""
        said = await self.client.scheduler.broadcast(
            msg=message, workers=workers, on_error="return_pickle"
        )
        for answer in said.values():
            if isinstance(answer, bytes):  # of a worker that could not be asked
                raise pickle.loads(answer)
        return {place: answer["result"] for place, answer in said.items()}

    async def _deadlock(self, session: str, run: int) -> str | None:
        message = {"op": host.PROGRESS, "session": session, "run": run}
        standings: dict[int, Standing] = {}
        ended: set[int] = set()
        with suppress(OSError):  # a worker is lost: the next look says so
            for told in (await self._told(message, self.workers)).values():
                of_worker, done = pickle.loads(told)
                standings |= of_worker
                ended |= done
        return find_deadlock(standings, ended)

    def on_those_left(self, function: Callable, *arguments: Any) -> None:
        """The same on all workers that are still there; errors of workers are passed over."""
        self.forget_lost()
        if self.workers:
            self.call(function, *arguments)

    def on_scheduler(self, function: Callable, *arguments: Any) -> Any:
        """``function(*arguments)`` on the scheduler."""

        def begin() -> Awaitable[Any]:
            return self.client.run_on_scheduler(function, *arguments, asynchronous=True)

        return self._answered(begin)

    def take_lease(self, run_id: str, seconds: float) -> None:
        """Hold a thread for each rank, as soon as they are free.

        Raises
        ------
        WorkersBusyError
            If other runs still hold them after so many seconds.
        """
        limit, task = monotonic() + seconds, host.task_key(run_id, 0)
        while True:
            held = self.on_scheduler(take_lease, run_id, self.client.id, task, self.placement)
            if held is None:
                return
            self.require_workers()
            if monotonic() > limit:
                raise WorkersBusyError(
                    f"After {seconds:g} s still {held}. Wait until that is over (or close its "
                    "communicator), or use transport='graph', which waits for no thread."
                )
            sleep(0.1)

    def start_ranks(self, run_id: str) -> list[Future]:
        """Submit the long task of each rank."""
        return [
            self.client.submit(
                host.run_rank,
                run_id,
                rank,
                key=host.task_key(run_id, rank),
                workers=[place],
                allow_other_workers=False,  # `run_rank` also looks where it is
                pure=False,
                retries=0,
            )
            for rank, place in enumerate(self.placement)
        ]

    def wait_for_ranks(self, run_id: str, seconds: float) -> None:
        """Until all ranks run; WorkersBusyError names those that don't after so many seconds."""
        of_workers = self.on_all(host.missing_ranks, run_id, seconds)
        missing = sorted(rank for of_worker in of_workers for rank in of_worker)
        if missing:
            self.require_workers()
            where = ", ".join(f"{rank} on {self.placement[rank]}" for rank in missing)
            raise WorkersBusyError(
                f"After {seconds:g} s these ranks do not run: {where}. Other tasks keep the "
                "workers' threads; wait for them, or use transport='graph'."
            )

    def end_session(self, run_id: str, tasks: Sequence[Future]) -> None:
        """End the ranks and the lease, as far as the cluster answers."""
        if self.client.status != "running":
            return  # the workers have noticed
        with suppress(WorkerLostError):
            self.on_those_left(host.close_session, run_id, _CLOSE_SECONDS)
        self.release(tasks)
        with suppress(WorkerLostError):
            self.on_scheduler(end_lease, run_id)


def has_threads_for(client: Client, n_ranks: int) -> bool:
    """Whether the workers that are there now have a thread for every rank."""
    synchronous = not getattr(client, "asynchronous", False)
    return synchronous and n_ranks <= sum(threads_by_worker(client).values())


def places_by_threads(
    client: Client,
    n_ranks: int,
    placement: Sequence[str] | None = None,
    seconds: float = 0.0,
    oversubscribe: bool = False,
) -> list[str]:
    """Workers of the ranks: round-robin, each worker as often as it has threads.

    Parameters
    ----------
    client : distributed.Client
    n_ranks : int
    placement : sequence of str, optional
        As wished for.
    seconds : float
        How long to wait for workers with threads enough: they may be on their way.
    oversubscribe : bool
        Whether ranks may share threads: once each has its rank, all get another one.

    Raises
    ------
    InputError
        If the ranks, or the ranks placed on one worker, exceed the threads; with `oversubscribe`,
        if there is no worker.
    """
    limit = monotonic() + seconds
    while True:
        threads = threads_by_worker(client)
        most = dict.fromkeys(threads, n_ranks) if oversubscribe else threads
        wrong = [a for a in placement or () if placement.count(a) > most.get(a, 0)]  # type: ignore[union-attr]
        if (n_ranks <= sum(most.values()) and not wrong) or monotonic() > limit:
            break
        sleep(0.1)
    listed = ", ".join(f"{address}: {n}" for address, n in threads.items()) or "no workers"
    if n_ranks > sum(most.values()):
        waited = f" after {seconds:g} s" if seconds else ""
        raise InputError(
            f"{n_ranks} ranks need as many threads of workers; the cluster has "
            f"{sum(threads.values())}{waited} ({listed}). Use fewer ranks or more workers; ranks "
            "share threads with transport='auto', or oversubscribe=True."
        )
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
    workers = known_workers(client)
    return {address: workers[address]["nthreads"] for address in order_of_workers(workers)}


def _same(value: Any) -> Any:
    """Bring a value to the worker that this runs on."""
    return value
