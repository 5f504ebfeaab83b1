"""Ranks on a Dask cluster, which run texts; the base of the two transports `dask` and `mpi`.

    driver ── request ──▶ scheduler ──▶ workers: a long task a rank (`worker`, `rank`)

Discipline. The communicator holds a lease on a thread for each rank, or where ranks share them, on
all threads of their workers. All ranks run before the first text. Every wait has an end. A worker
that is lost, a cancelled task and a client that goes away end the ranks within seconds, and leave
nothing.
"""

from __future__ import annotations

import pickle
import uuid
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dask.base import is_dask_collection
from distributed import Client, Future

from daskpart.collectives.communicator import Communicator
from daskpart.errors import InputError, WorkerLostError

from . import worker as on_worker
from .cluster import current_client
from .driver import RankedCommunicator, blamed
from .handles import Number
from .mailbox import RunStopped
from .rank import Answer, Endpoint, Request
from .rank_cluster import RankCluster, places_by_threads
from .time_limits import time_limits


class SpmdCommunicator(RankedCommunicator):
    """Ranks as long tasks on the workers of a Dask cluster.

    Parameters
    ----------
    n_ranks : int
        At most as many as the workers have threads, or see `oversubscribe`.
    client : distributed.Client, optional
        Default: the current one.
    placement : sequence of str, optional
        Worker address of each rank. Default: round-robin over the workers by their names.
    timeout : float, optional
        Seconds that a rank waits for one message; default: Dask's setting ``daskpart.timeout``, or
        600.
    start_seconds : float, optional
        How long to wait until there are workers with threads enough, again until they are free, and
        again until all ranks run; default: Dask's setting ``daskpart.start-seconds``, or 30.
    oversubscribe : bool
        Whether several ranks may share a thread where there are more ranks than threads.

    Raises
    ------
    InputError
        If there is no client, or more ranks than threads; a `WorkersBusyError` if another
        communicator holds the workers, or ranks did not start in time.
    WorkerLostError
        If a worker was lost. The ranks are gone; make a new communicator.
    TimeoutError
        If a message did not come in time.
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
        client = client or current_client()
        if client is None or getattr(client, "asynchronous", False):
            raise InputError(
                f"{type(self).__name__} needs a synchronous Dask client: {self._needs}, or use "
                "transport='local'."
            )
        self.run_id = uuid.uuid4().hex[:12]
        self.placement = tuple(
            places_by_threads(client, n_ranks, placement, start_seconds, oversubscribe)
        )
        self._cluster = RankCluster(client, self.placement)
        self._tasks: list[Future] = []
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
            self._cluster.take_lease(self.run_id, start_seconds)
            self._cluster.on_all(on_worker.open_session, spec)
            self._tasks = self._cluster.start_ranks(self.run_id)
            self._cluster.wait_for_ranks(self.run_id, start_seconds)
            self.run(_connect)
        except BaseException as error:
            self._cluster.release(self._tasks)  # those that wait for a thread shall not begin
            self.close()
            if isinstance(error, Exception):
                self._cluster.require_workers_after(error)
            raise

    def _close(self) -> None:
        self._cluster.end_session(self.run_id, self._tasks)

    # -- runs ---

    def _placed(self, values: Any) -> list[Future]:
        if is_dask_collection(values):
            return self._cluster.bring(values, self.placement)
        return self._cluster.scatter(values)

    def _execute(self, request: Request, own: dict[Number, list[bytes]]) -> list[Answer]:
        of_worker: dict[str, dict[int, dict[Number, bytes]]] = defaultdict(dict)
        for rank, place in enumerate(self.placement) if own else ():
            of_worker[place][rank] = {number: values[rank] for number, values in own.items()}
        parts = [pickle.dumps(of_worker[place]) if own else b"" for place in self._cluster.workers]
        try:
            answered, reason = self._cluster.run_text(self.run_id, request, parts)
        except BaseException as error:
            self._stop(request.run, error)
            raise
        answers: list[Answer] = []
        for of_ranks in answered:
            if of_ranks is None:
                self._broken = "a worker no longer knows them, they were cancelled."
                self._cluster.require_workers()
                raise WorkerLostError("A worker no longer knows its ranks: they were cancelled.")
            answers.extend(map(pickle.loads, of_ranks))
        answers.sort(key=lambda answer: answer.rank)
        return answers if reason is None else blamed(answers, reason)

    def _stop(self, run: int, error: BaseException) -> None:
        """The run has no answers: no rank may wait for it any more."""
        if not isinstance(error, KeyboardInterrupt):
            self._broken = f"{type(error).__name__} in the last run: {error}"
        reason = f"the driver stopped the run ({type(error).__name__})"
        with suppress(Exception):
            self._cluster.on_those_left(on_worker.stop_run, self.run_id, run, reason)

    def _error_of(self, failed: list[Answer]) -> Exception:
        if all(isinstance(answer.error, RunStopped) for answer in failed):
            with suppress(InputError):
                self._cluster.require_workers_after(OSError())  # names the worker, if one is gone
        return super()._error_of(failed)


def _connect(comm: Communicator) -> None:
    comm.connect()  # type: ignore[attr-defined]
