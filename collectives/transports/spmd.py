"""Ranks on a Dask cluster, which run texts; the base of the two transports `dask` and `mpi`.

    driver ── request ──▶ scheduler ──▶ workers: a long task a rank (`worker`, `rank`)

All ranks run before the first text (`lease`), and every wait has an end. A worker that is lost, a
cancelled task and a client that goes away end the ranks within seconds, and leave nothing.
"""

from __future__ import annotations

import asyncio
import math
import pickle
import uuid
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import Any

from distributed import Client, Future

from daskpart.collectives.communicator import Communicator, PerRank, unchanged
from daskpart.collectives.from_dask import collection_keys
from daskpart.errors import InputError, WorkerLostError, WorkersBusyError

from . import worker as on_worker
from .cluster import Cluster, usable_client
from .driver import RankedCommunicator, blamed
from .handles import Number
from .lease import end_lease, take_lease
from .mailbox import RunStopped, Standing, find_deadlock
from .placement import places_by_threads
from .rank import Answer, Endpoint, Request
from .time_limits import time_limits

_CLOSE_SECONDS = 10.0
_PROGRESS_SECONDS = 10.0  # a worker may be longer busy, with the GIL: that tells nothing


class SpmdCommunicator(RankedCommunicator):
    """Ranks as long tasks on the workers of a Dask cluster.

    Parameters and errors are told at `DaskCommunicator`, the public face.
    """

    _needs = "make one, distributed.Client(…)"  # what to do where there is no client

    def __init__(
        self,
        n_ranks: int,
        client: Client | None = None,
        placement: Sequence[str] | None = None,
        timeout: float | None = None,
        start_seconds: float | None = None,
        oversubscribe: bool = False,
    ) -> None:
        super().__init__(n_ranks)
        timeout, start_seconds = time_limits(timeout, start_seconds)
        client = usable_client(client)
        if client is None:
            raise InputError(
                f"{type(self).__name__} needs a synchronous Dask client: {self._needs}, or use "
                "transport='local'."
            )
        self.run_id = uuid.uuid4().hex[:12]
        self.placement = tuple(
            places_by_threads(client, n_ranks, placement, start_seconds, oversubscribe)
        )
        self._cluster = Cluster(client, self.placement)
        self._tasks: list[Future] = []
        self._was_silent = False
        self._begin(timeout, start_seconds)

    # -- what the two transports differ in ---

    @abstractmethod
    def _make_endpoint(self) -> Callable[[on_worker.Session, int], Endpoint]:
        """Makes the endpoint of a rank, on its worker."""

    # -- life ---

    def _begin(self, timeout: float, start_seconds: float) -> None:
        try:
            endpoint = self._make_endpoint()
            spec = on_worker.SessionSpec(
                self.run_id, self.placement, endpoint, timeout, start_seconds
            )
            self._take_lease(start_seconds)
            self._cluster.on_all(on_worker.open_session, spec)
            self._start_ranks(start_seconds)
            self.run(_connect)
        except BaseException as error:
            self._cluster.release(self._tasks)  # those that wait for a thread shall not begin
            self.close()
            if isinstance(error, Exception):
                self._cluster.require_workers_after(error)
            raise

    def _take_lease(self, seconds: float) -> None:
        """Hold a thread for each rank, as soon as they are free."""
        limit, client = monotonic() + seconds, self._cluster.client
        lease = (self.run_id, client.id, on_worker.task_key(self.run_id, 0), self.placement)
        while (held := self._cluster.on_scheduler(take_lease, *lease)) is not None:
            self._cluster.require_workers()
            if monotonic() > limit:
                raise WorkersBusyError(
                    f"After {seconds:g} s still {held}. Wait until that is over (or close its "
                    "communicator), or use transport='graph', which waits for no thread."
                )
            sleep(0.1)

    def _start_ranks(self, seconds: float) -> None:
        """Submit the long task of each rank, and wait until all of them run."""
        self._tasks = [
            self._cluster.client.submit(
                on_worker.run_rank,
                self.run_id,
                rank,
                key=on_worker.task_key(self.run_id, rank),
                workers=[place],
                allow_other_workers=False,  # `run_rank` also looks where it is
                pure=False,
                retries=0,
            )
            for rank, place in enumerate(self.placement)
        ]
        ask = partial(self._on_sessions, "missing", seconds, workers=self._cluster.workers)
        of_workers = self._cluster.watched(ask)
        missing = sorted(rank for of_worker in of_workers for rank in of_worker or ())
        if missing:
            self._require_ranks()
            where = ", ".join(f"{rank} on {self.placement[rank]}" for rank in missing)
            why = "Other tasks keep the workers' threads; wait for them, or use transport='graph'."
            raise WorkersBusyError(
                f"After {seconds:g} s these ranks do not run: {where}. "
                + (self._cluster.paused() or why)
            )

    def _close(self) -> None:
        """End the ranks and the lease, as far as the cluster answers."""
        if self._cluster.client.status != "running":
            return  # the workers have noticed
        with suppress(WorkerLostError):
            self._on_sessions_left("close", _CLOSE_SECONDS)
        self._cluster.release(self._tasks)
        with suppress(WorkerLostError):
            self._cluster.on_scheduler(end_lease, self.run_id)

    # -- runs ---

    def _placed(self, values: list[Any]) -> list[Future]:
        return self._cluster.scatter(values)

    def _from_dask(self, collection: Any) -> PerRank:
        collection_keys(collection, self.n_ranks)
        brought = [  # to the worker that this runs on
            self._cluster.client.submit(unchanged, future, workers=[place], pure=False)
            for future, place in zip(self._cluster.persist(collection), self.placement, strict=True)
        ]
        self._cluster.wait(brought)
        return self._handed_out(placed=brought)

    def _execute(self, request: Request, own: dict[Number, list[bytes]]) -> list[Answer]:
        try:
            answered, reason = self._watched_answers(request, own)
        except BaseException as error:
            self._stop(request.run, error)
            raise
        answers: list[Answer] = []
        for of_ranks in answered:
            if of_ranks is None:
                self._broken = "a worker no longer knows them, they were cancelled."
                self._require_ranks()
                raise WorkerLostError("A worker no longer knows its ranks: they were cancelled.")
            answers.extend([replace(pickle.loads(told), result=what) for told, what in of_ranks])
        answers.sort(key=lambda answer: answer.rank)
        return answers if reason is None else blamed(answers, reason)

    def _watched_answers(
        self, request: Request, own: dict[Number, list[bytes]]
    ) -> tuple[list[list[on_worker.Packed] | None], str | None]:
        """What each worker answers, None if it does not know the session.

        Looks meanwhile whether workers were lost, and whether ranks wait for each other for ever:
        then the run is stopped, and the second answer is why.
        """
        # values of their own for the ranks of each worker, if there are any
        parts = self._parts(own) if own else [(self._cluster.workers, {})]
        last: str | None = None
        stopped: str | None = None

        async def all_of_them() -> list[Any]:
            calls = [self._on_sessions("execute", request, part, workers=on) for on, part in parts]
            return list(chain.from_iterable(await asyncio.gather(*calls)))

        def look() -> None:
            nonlocal last, stopped
            self._require_ranks()
            found = self._cluster.answered(lambda: self._deadlock(request.run))
            if found is not None and found == last:
                stopped = stopped or found
                self._on_sessions_left("stop", request.run, found)
            last = found

        answers = self._cluster.watched(all_of_them, look)
        return answers, stopped

    def _require_ranks(self) -> None:
        """Raise WorkerLostError if a worker is gone, or a rank, which would never answer."""
        self._cluster.require_workers()
        for rank, task in enumerate(self._tasks):
            if task.status == "error":
                error = task.exception()
                told = f"Rank {rank} ended with {type(error).__name__}, outside of a text."
                raise WorkerLostError(f"{told} Make a new communicator.") from error

    def _parts(self, own: dict[Number, list[bytes]]) -> list[tuple[list[str], dict]]:
        ranks = self._cluster.ranks
        return [
            ([place], {rank: {n: told[rank] for n, told in own.items()} for rank in ranks[place]})
            for place in self._cluster.workers
        ]

    async def _on_sessions(
        self, method: str, *arguments: Any, workers: list[str], raises: bool = True
    ) -> list[Any]:
        """What a method of the session gives on each of some workers; None where it has ended."""
        message = {"op": on_worker.ON_SESSION, "run_id": self.run_id, "method": method}
        said = await self._cluster.client.scheduler.broadcast(
            msg={**message, "arguments": pickle.dumps(arguments)},
            workers=workers,
            on_error="return_pickle" if raises else "ignore",
        )
        for answer in said.values():
            if isinstance(answer, bytes):  # of a worker that could not be asked
                raise pickle.loads(answer)
        return [answer["result"] for answer in said.values()]

    def _on_sessions_left(self, method: str, *arguments: Any) -> None:
        """The same on the workers that are still there; their errors are passed over.

        For one that is frozen nobody waits twice, as for `stop` and `close` behind Ctrl-C.
        """
        left = self._cluster.left()
        most, self._was_silent = 0.0 if self._was_silent else math.inf, True
        ask = partial(self._on_sessions, method, *arguments, workers=left, raises=False)
        self._cluster.answered(ask, most)
        self._was_silent = False

    async def _deadlock(self, run: int) -> str | None:
        standings: dict[int, Standing] = {}
        ended: set[int] = set()
        # a worker is lost: the next look says so; or one is busy: then it waits for nobody
        with suppress(OSError, TimeoutError):
            answers = self._on_sessions("progress", run, workers=self._cluster.workers)
            for told in await asyncio.wait_for(answers, _PROGRESS_SECONDS):
                of_worker, done = told or ({}, set())
                standings |= of_worker
                ended |= done
        return find_deadlock(standings, ended)

    def _stop(self, run: int, error: BaseException) -> None:
        """The run has no answers: no rank may wait for it any more."""
        if not isinstance(error, KeyboardInterrupt):
            self._broken = f"{type(error).__name__} in the last run: {error}"
        reason = f"the driver stopped the run ({type(error).__name__})"
        with suppress(Exception):
            self._on_sessions_left("stop", run, reason)

    def _error_of(self, failed: list[Answer]) -> Exception:
        if all(isinstance(answer.error, RunStopped) for answer in failed):
            self._cluster.require_workers_after(OSError())  # names the worker, if one is gone
        return super()._error_of(failed)


def _connect(comm: Communicator) -> None:
    comm.endpoint.connect()  # type: ignore[attr-defined]
