"""A Dask cluster as the transports see it: wait, gather, ask its workers, and never hang.

A task that is pinned to a worker that died waits for ever by Dask's own rules. So every wait here
looks at the scheduler's workers twice a second, and when one that holds ranks is gone it raises
`WorkerLostError`, which names the ranks and the address. The driver then starts again from the
last state that it kept, on a new communicator for the workers that are there.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import Any

from dask.core import flatten
from distributed import Client, Future, KilledWorker, get_client, secede
from distributed.client import ClosedClientError, FutureCancelledError
from distributed.scheduler import NoValidWorkerError
from distributed.threadpoolexecutor import thread_state

from daskpart._floor.checks import require_like
from daskpart._floor.rank_tasks import scattered
from daskpart.errors import InputError, WorkerLostError, WorkersBusyError

from .placement import paused_workers, ranks_by_worker

_PAUSED_SECONDS = 30.0  # in which a worker may write what it holds to disk, and go on
_POLL_SECONDS = 0.5
_LOOKS_AFTER_ERROR = 4
_EFFECTS_OF_LOSS = (OSError, KilledWorker, NoValidWorkerError)  # OSError: comms that broke
_LOOP_SECONDS = 10.0  # a client's loop may be held up for as long, by what keeps the interpreter
_ANSWER_SECONDS = 20.0  # a scheduler that is silent for so long is taken for gone


class Cluster:
    """The workers that ranks are placed on, as a synchronous client sees them."""

    def __init__(self, client: Client, placement: Sequence[str]) -> None:
        self.client = client
        self.placement = tuple(placement)  # worker address of each rank
        self.ranks = ranks_by_worker(placement)
        self.workers = list(self.ranks)
        if getattr(thread_state, "proceed", False):
            secede()  # in a task: give its thread back, or ranks placed here could never run

    def wait(self, futures: Sequence[Future]) -> None:
        """Until all are finished; raises what a task raised.

        WorkerLostError if a worker that holds ranks left, or the cluster forgot a value;
        WorkersBusyError if Dask has long paused some, and the others have nothing to do.
        """
        if futures:
            self.watched(lambda: _all_finished(futures), self._look_for_paused())
        for future in futures:
            if future.status == "error":
                self.require_workers_after(future.exception())
                future.result()
            if future.status in ("cancelled", "lost"):
                self.require_workers()
                raise WorkerLostError(
                    f"The cluster no longer knows {future.key}: it was restarted, or the value was "
                    "cancelled. Start again from the last state that was kept."
                )

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """Values of finished futures."""
        self.wait(futures)
        return self.watched(lambda: self.client.gather(list(futures), asynchronous=True))

    def scatter(self, values: Sequence[Any]) -> list[Future]:
        """Put each rank's value on its worker, one transfer a worker, all at a time."""

        async def all_of_them() -> list[list[Future]]:
            put = partial(scattered, self.client, asynchronous=True)
            transfers = [put([values[r] for r in own], at) for at, own in self.ranks.items()]
            return await asyncio.gather(*transfers)

        held = chain.from_iterable(self.watched(all_of_them))
        of_rank = dict(zip(chain.from_iterable(self.ranks.values()), held, strict=True))
        return [of_rank[rank] for rank in range(len(values))]

    def begin(self, graph: Any, keys: Sequence[Any]) -> list[Future]:
        """Have some keys of a graph computed; their futures, at once."""
        try:
            return self.client.get(graph, keys, sync=False)
        except ClosedClientError as error:
            raise self._closed() from error

    def _closed(self) -> WorkerLostError:
        return WorkerLostError(f"The Dask client is {self.client.status}; connect a new one.")

    def persist(self, collection: Any) -> list[Future]:
        """Compute a Dask collection on the cluster and keep it there; its keys in order."""
        held = dict(self.client.persist(collection).__dask_graph__())
        futures = [held[key] for key in flatten(collection.__dask_keys__())]
        self.wait(futures)
        return futures

    def on_all(self, function: Callable, *arguments: Any) -> list[Any]:
        """``function(*arguments)`` on every worker that holds ranks, watched; the first error."""
        run = partial(self.client.run, function, *arguments, workers=self.workers)
        return list(self.watched(partial(run, asynchronous=True)).values())

    def call(self, function: Callable, *arguments: Any, workers: list[str]) -> list[Any]:
        """The same on some of them, in a bounded time; errors of workers are passed over."""
        run = partial(self.client.run, function, *arguments, workers=workers)
        return list(self.answered(partial(run, on_error="ignore", asynchronous=True)).values())

    def left(self) -> list[str]:
        """Of the workers that hold ranks those that are still there."""
        there = self._there()
        return [address for address in self.workers if address in there]

    def on_scheduler(self, function: Callable, *arguments: Any) -> Any:
        """``function(*arguments)`` on the scheduler."""
        run = partial(self.client.run_on_scheduler, function, *arguments)
        return self.answered(partial(run, asynchronous=True))

    @staticmethod
    def release(futures: Sequence[Future]) -> None:
        """Let go of futures: what nobody else wants is forgotten, and does not begin any more.

        Not `Client.cancel`: where a task on the way is wanted by no client (all but the last step
        of an epoch), the scheduler fails an assertion in it and drops the whole client.
        """
        for future in futures:
            future.release()

    def require_workers(self) -> None:
        """Raise WorkerLostError if a worker that holds ranks is gone."""
        self._require_among(self._there())

    def _require_among(self, there: Collection[str]) -> None:
        lost = [address for address in self.workers if address not in there]
        if lost:
            named = "; ".join(
                f"{address} with rank(s) {', '.join(map(str, self.ranks[address]))}"
                for address in lost
            )
            raise WorkerLostError(
                f"Worker lost: {named}. {len(there)} worker(s) are left; go on from the last state "
                "that was kept, on a communicator for the workers that are there."
            )

    def _look_for_paused(self) -> Callable[[], None]:
        """As `require_workers`; refuses, too, that some are paused and none computes for long."""
        since = monotonic()

        def look() -> None:
            nonlocal since
            known = self._known()
            self._require_among(known)
            own = {address: known[address] for address in self.workers}
            computing = [w["metrics"]["task_counts"].get("executing") for w in own.values()]
            paused = "" if any(computing) else paused_workers(own)
            if not paused:
                since = monotonic()
            elif monotonic() - since > _PAUSED_SECONDS:
                raise WorkersBusyError(paused)

        return look

    def paused(self) -> str:
        """As `paused_workers`, of those that hold ranks."""
        known = self._known()
        return paused_workers({a: known[a] for a in self.workers if a in known})

    def _known(self) -> dict[str, dict[str, Any]]:
        """What the scheduler knows of each worker that is there."""
        ask = partial(self.client.scheduler.identity, n_workers=-1)
        return self.answered(ask)["workers"]

    def _there(self) -> dict[str, int]:
        """The workers that are there now, and their threads."""
        return self.answered(lambda: self.client.nthreads(asynchronous=True))

    def watched(
        self, begin: Callable[[], Awaitable[Any]], look: Callable[[], None] | None = None
    ) -> Any:
        """Result of a coroutine on the client's loop; looks at the workers while it waits."""
        try:
            return self._polled(begin, look or self.require_workers)
        except WorkerLostError:
            raise
        except Exception as error:
            self.require_workers_after(error)
            if isinstance(error, TimeoutError) and (paused := self.paused()):
                raise WorkersBusyError(paused) from error  # nobody to give a value to
            if isinstance(error, OSError):  # what tasks raise is not raised here
                raise _broken("to a worker or to the scheduler", error) from error
            raise

    def require_workers_after(self, error: Exception) -> None:
        """Raise WorkerLostError instead where a lost worker is the cause and the error its effect.

        The scheduler may notice the loss a moment after its effects, so look for a little while.
        """
        looks = _LOOKS_AFTER_ERROR if isinstance(error, _EFFECTS_OF_LOSS) else 1
        for look in range(looks):
            if look:
                sleep(_POLL_SECONDS)
            self.require_workers()

    def answered(self, begin: Callable[[], Awaitable[Any]], most: float = math.inf) -> Any:
        """Result of a coroutine of the scheduler, which must answer in a bounded time."""
        seconds = min(most, _ANSWER_SECONDS)
        deadline = monotonic() + seconds

        def check() -> None:
            if monotonic() > deadline:
                raise WorkerLostError(f"The scheduler was silent for {seconds:.0f} s.")

        try:
            return self._polled(begin, check)
        except OSError as error:
            raise _broken("to the scheduler", error) from error

    def _polled(self, begin: Callable[[], Awaitable[Any]], check: Callable[[], None]) -> Any:
        if self.client.status != "running":
            raise self._closed()

        async def whole() -> Any:
            return await begin()

        task = asyncio.run_coroutine_threadsafe(whole(), self.client.loop.asyncio_loop)
        try:
            while True:
                try:
                    return task.result(_POLL_SECONDS)
                except TimeoutError:
                    if task.done():  # it ended with this error, or just now
                        return task.result()
                check()
        except BaseException:
            task.cancel()
            raise


def _broken(connection: str, error: OSError) -> WorkerLostError:
    return WorkerLostError(
        f"The connection {connection} broke: {error}. Go on from the last state that was kept, on "
        "a new communicator."
    )


async def _all_finished(futures: Sequence[Future]) -> None:
    """Until all are done, or one failed. Runs on the client's loop."""
    waits = [asyncio.ensure_future(_has_failed(future)) for future in futures]
    try:
        for first in asyncio.as_completed(waits):
            if await first:
                return
    finally:
        for wait in waits:
            wait.cancel()


async def _has_failed(future: Future) -> bool:
    with suppress(FutureCancelledError):
        await future.exception()
    return future.status != "finished"


def usable_client(client: Any = None) -> Client | None:
    """The client that was given, else that of this thread or process, if there is one.

    Raises
    ------
    InputError
        For a client that is none, as its address, or is asynchronous or closed, or that of the
        process that this one was forked from.
    """
    if client is None:
        try:
            client = get_client()
        except ValueError:
            return None
    if getattr(client, "asynchronous", False):
        raise InputError(
            "the client is asynchronous, and this waits for its ranks: run it in a thread with a "
            "synchronous client=…, or with transport='local'"
        )
    if getattr(client, "status", "running") in ("closed", "closing"):
        raise InputError(
            "the client is closed: give one that is connected, or client=None and "
            "transport='local' for this process"
        )
    wanted = "a distributed.Client; of an address it is Client(address)"
    require_like(client, "client", ("scatter", "nthreads"), wanted)
    if not _is_served(client):
        raise InputError(
            "the client does not run in this process: it was connected before this one was forked "
            "from another. Connect one here, Client(address), or take transport='local'"
        )
    return client


def _is_served(client: Client) -> bool:
    """Whether the client's loop runs in this process: that of a fork has no thread."""
    ran = threading.Event()
    client.loop.add_callback(ran.set)
    return ran.wait(_LOOP_SECONDS)
