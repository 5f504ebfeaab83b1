"""SPMD on a Dask cluster: one long task a rank; the driver's calls are executed by all ranks.

    driver (the text)          ranks, each a long task
    update, post, collect,     ┌─ rank 0: the same calls on its own values ─┐
    fold, … are written down   │      ⇅ messages, worker to worker          │
    settle ──── one batch ───▶ └─ rank 3: the same calls on its own values ─┘
           ◀─── answers ──────    (replicated results, counts, errors)

Every rank executes the same sequence of communicator calls, which is what SPMD is; the text that
makes the sequence runs once, at the driver. So a text needs no change and may look at replicated
results, callbacks and checkpoints stay where the user is, and an epoch that settles once costs one
round trip to the client however many messages it sends: at `settle`, `gather` or `result`.

Discipline. Ranks never exceed the workers' free threads: the run holds a lease on them. All ranks
run before the first batch. Every wait has a deadline. A rank that fails stops the others, which say
so; the run goes on with the values of before the batch. A worker that is lost, a cancelled task and
a client that goes away end the run within seconds, and leave nothing.
"""

from __future__ import annotations

import pickle
import uuid
import weakref
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import dask
from dask.sizeof import sizeof
from distributed import Client, Future
from distributed.protocol.pickle import dumps

from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated
from daskpart.collectives.counters import Counters
from daskpart.collectives.exchange import Exchange, PendingValues
from daskpart.collectives.prepared import PreparedRound
from daskpart.collectives.swapping import SwapSteps
from daskpart.errors import InputError, WorkerLostError

from . import spmd_host as host
from .cluster import current_client
from .mailbox import RunStopped
from .spmd_batch import (
    HANDED_OUT,
    OVERWRITING,
    Answer,
    Command,
    Repeated,
    addressed,
    count_answers,
    packed_commands,
)
from .spmd_cluster import RankCluster, places_by_threads
from .spmd_endpoint import Endpoint

_LARGE_BYTES = 100_000  # values beyond this are scattered, not sent with the batch
_UNKNOWN = object()


class Held:
    """A value by its number; the ranks hold it until nobody here does."""

    __slots__ = ("dropped", "lost", "number", "value")

    def __init__(self, number: int, dropped: deque[int]) -> None:
        self.number, self.dropped = number, dropped
        self.value: Any = _UNKNOWN  # of a replicated value, when it is known here
        self.lost = False

    def __del__(self) -> None:
        self.dropped.append(self.number)


class SpmdCommunicator(Communicator):
    """Ranks as long tasks on the workers of a Dask cluster; the base of the two SPMD transports.

    Parameters
    ----------
    n_ranks : int
        At most as many as the workers have threads.
    client : distributed.Client, optional
        Default: the current one.
    placement : sequence of str, optional
        Worker address of each rank. Default: round-robin over the workers by their names.
    deadline : float
        Seconds that a rank waits for one message.
    start_seconds : float
        How long to wait until the workers are free, and again until all ranks run.

    Raises
    ------
    InputError
        If there is no client, or more ranks than threads; a `WorkersBusyError` if another run
        holds the workers, or ranks did not start in time.
    WorkerLostError
        If a worker was lost. The run is over; make a new communicator.
    TimeoutError
        If a message did not come until the deadline.
    """

    def __init__(
        self,
        n_ranks: int,
        client: Client | None = None,
        placement: Sequence[str] | None = None,
        deadline: float = 600.0,
        start_seconds: float = 30.0,
    ) -> None:
        super().__init__(n_ranks)
        client = client or current_client()
        if client is None or getattr(client, "asynchronous", False):
            raise InputError(
                f"{type(self).__name__} needs a synchronous Dask client: make one, "
                "distributed.Client(…), or use transport='local'."
            )
        self.run_id = uuid.uuid4().hex[:12]
        self.placement = tuple(places_by_threads(client, n_ranks, placement))
        self._cluster = RankCluster(client, self.placement)
        self._counters = Counters(n_ranks)
        self._commands: list[Command] = []
        self._repeated = Repeated()
        self._step = 0
        self._own: dict[int, list[bytes]] = {}  # pickled values of this batch, one a rank
        self._made: dict[int, weakref.ref] = {}  # what this batch makes: its handles
        self._scattered: list[Future] = []
        self._dropped: deque[int] = deque()
        self._broken: str | None = None
        self._told_to_record = False
        self._tasks: list[Future] = []
        self._begin(deadline, start_seconds)

    @property
    def counters(self) -> Counters:
        """What was sent and how long it took, measured by the ranks; as of the last batch."""
        return self._counters

    # -- what the two transports differ in ---

    @abstractmethod
    def _make_endpoint(self) -> Callable[[host.Session, int], Endpoint]:
        """Makes the endpoint of a rank, on its worker."""

    def _connect(self) -> None:
        """What the ranks must do together, once all of them run, before the first message."""

    def _after_failure(self) -> None:
        """Clear away what a failed batch left between the ranks, which are idle now."""

    # -- life ---

    def _begin(self, deadline: float, start_seconds: float) -> None:
        try:
            endpoint = self._make_endpoint()
            spec = host.RunSpec(self.run_id, self.placement, endpoint, deadline, start_seconds)
            self._cluster.take_lease(self.run_id, start_seconds)
            self._cluster.on_each(host.open_run, [(spec,)] * len(self._cluster.workers))
            self._tasks = self._cluster.start_ranks(self.run_id)
            self._cluster.wait_for_ranks(self.run_id, start_seconds)
            self._connect()
        except BaseException:
            self._cluster.release(self._tasks)  # those that wait for a thread shall not begin
            self.close()
            raise

    def _close(self) -> None:
        self._cluster.end_run(self.run_id, self._tasks)

    # -- calls: only written down ---

    def _values(self, values: Any) -> PerRank:
        if dask.is_dask_collection(values):
            return self._fetched(self._cluster.bring(values, self.placement))
        given = list(values)
        if len(given) != self.n_ranks:
            raise InputError(f"{self.n_ranks} ranks need as many values, got {len(given)}.")
        if sum(map(sizeof, given)) > _LARGE_BYTES:
            return self._fetched(self._cluster.scatter(given))
        handle = self._record(PerRank, "hold")
        # each apart: in one pickle two ranks could come to share an object
        self._own[handle.content.number] = [dumps(value) for value in given]
        return handle

    def _fetched(self, futures: Sequence[Future]) -> PerRank:
        self._scattered.extend(futures)  # until the ranks have taken them
        return self._record(PerRank, "fetch_value", detail=[future.key for future in futures])

    def _replicated(self, value: Any) -> Replicated:
        handle = self._record(Replicated, "hold", detail=value)
        handle.content.value = value
        return handle

    def _map(self, function: Callable, values: Sequence[Any], static: dict) -> PerRank:
        return self._record(PerRank, "map", values, function, static)

    def _update(
        self, function: Callable, state: PerRank, values: Sequence[Any], static: dict
    ) -> PerRank:
        return self._record(PerRank, "update", (state, *values), function, static)

    def _post(self, prepared_round: PreparedRound, values: PerRank, pack: Callable) -> int:
        inputs = [values, prepared_round.messages]
        return self._write("post", inputs, pack, None, (*addressed(prepared_round), None))

    def _collect(
        self, pending: Pending, state: PerRank, combine: Callable, values: Sequence, static: dict
    ) -> PerRank:
        address = addressed(pending.prepared_round)
        post = self._commands[-1] if self._commands else None
        if post is None or (post.step, post.inputs[0]) != (pending.content, state.content.number):
            detail = (*address, pending.content)
            return self._record(PerRank, "collect", (state, *values), combine, static, detail)
        self._commands.pop()  # nothing was asked for between the two: they become one call
        self._step -= 1
        self._dropped.extend(post.dropped)
        same = self._repeated.same((*address, post.function), static)
        return self._record(PerRank, "exchange", (state, *values), combine, *same)

    def _post_values(
        self, exchange: Exchange, values: PerRank, pack: Callable, label: str, index: int
    ) -> tuple[int, str]:
        detail = (exchange.destinations, label, index)
        return self._write("post_values", [values], pack, None, detail), label

    def _collect_values(
        self,
        pending: PendingValues,
        state: PerRank,
        combine: Callable,
        values: Sequence,
        static: dict,
    ) -> PerRank:
        step, label = pending.content
        detail = (pending.exchange.sources, label, step)
        return self._record(PerRank, "collect_values", (state, *values), combine, static, detail)

    def _swap(
        self, exchanges: Sequence[Exchange], values: PerRank, steps: SwapSteps, label: str,
        static: dict,
    ) -> PerRank:  # fmt: skip
        """One call, whose rounds the ranks do among themselves."""
        same = self._repeated.same((exchanges, steps, label), static)
        handle = self._record(PerRank, "swap", [values], None, *same)
        self._step += len(exchanges)  # each round has a step of its own
        return handle

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        return self._record(Replicated, "fold", [values], function, static, label)

    def _agreed(self, values: PerRank) -> Replicated:
        return self._record(Replicated, "agreed", [values])

    def _record(
        self,
        kind: Any,
        command: str,
        values: Sequence[Any] = (),
        function: Callable | None = None,
        static: dict | None = None,
        detail: Any = None,
    ) -> Any:
        """Write a call down and give the handle of what it makes."""
        number = self._write(command, values, function, static, detail)
        handle = kind(self, Held(number, self._dropped))
        self._made[number] = weakref.ref(handle)
        return handle

    def _write(
        self,
        kind: str,
        values: Sequence[Any],
        function: Callable | None,
        static: dict | None,
        detail: Any,
    ) -> int:
        """Write a call down; its step."""
        self._require_whole(values)
        if self.timeline is not None and not self._told_to_record:
            self._step += 1
            self._commands.append(Command("record", self._step))
            self._told_to_record = True
        self._step += 1
        inputs = tuple([value.content.number for value in values])
        dropped = tuple([self._dropped.popleft() for _ in range(len(self._dropped))])
        self._commands.append(Command(kind, self._step, inputs, function, static, detail, dropped))
        return self._step

    def _require_whole(self, values: Sequence[PerRank | Replicated]) -> None:
        if self._broken is not None:
            raise WorkerLostError(f"This run is over: {self._broken} Make a new communicator.")
        for value in values:
            if value.content.lost:
                raise InputError(
                    "This value was lost when a step of its batch failed; make it again, or settle "
                    "what must outlive a failure."
                )

    # -- running ---

    def _settle(self, values: Sequence[PerRank | Replicated]) -> None:
        self._require_whole(values)
        self._flush()

    def _gather(self, values: PerRank) -> list[Any]:
        number = values.content.number
        self._write("gather", [values], None, {}, None)
        return [answer.gathered[number] for answer in self._flush()]

    def _result(self, content: Held) -> Any:
        if content.value is _UNKNOWN:
            self._require_open()
            self._flush()
        if content.lost:
            raise InputError("This result was lost when a step of its batch failed.")
        return content.value

    def _flush(self) -> list[Answer]:
        """Have all ranks execute what is written down."""
        self._require_whole(())
        commands, own, made = self._commands, self._own, self._made
        self._commands, self._own, self._made = [], {}, {}
        self._repeated.forget()
        if not commands:
            return []
        try:
            answers = self._executed(commands, own)
            self._scattered.clear()
        except BaseException as error:
            self._break(commands[0].step, error)
            raise
        count_answers(self._counters, answers, self.timeline)
        failed = [answer for answer in answers if answer.error is not None]
        if failed:
            self._forget_after(min(answer.done for answer in failed), commands, made)
            self._after_failure()
            raise self._error_of(failed)
        for number, handle in made.items():
            replicated = handle()
            if isinstance(replicated, Replicated) and number in answers[0].gathered:
                replicated.content.value = answers[0].gathered[number]
        return answers

    def _executed(self, commands: list[Command], own: dict[int, list[bytes]]) -> list[Answer]:
        of_worker: dict[str, dict[int, dict[int, bytes]]] = defaultdict(dict)
        for rank, place in enumerate(self.placement) if own else ():
            of_worker[place][rank] = {number: values[rank] for number, values in own.items()}
        packed = packed_commands(commands)
        answered = self._cluster.execute(
            {"run": self.run_id, "first_step": commands[0].step, "commands": packed},
            [pickle.dumps(of_worker[place]) if own else b"" for place in self._cluster.workers],
        )
        answers: list[Answer] = []
        for of_ranks in answered:
            if of_ranks is None:
                self._cluster.require_workers()
                raise WorkerLostError("A worker no longer knows this run: it was cancelled.")
            answers.extend(map(pickle.loads, of_ranks))
        return sorted(answers, key=lambda answer: answer.rank)

    def _error_of(self, failed: list[Answer]) -> Exception:
        """The error of the lowest rank that failed itself, not because of another."""
        own = [answer for answer in failed if not isinstance(answer.error, RunStopped)]
        if own:
            error, others = own[0].error, [answer.rank for answer in own[1:]]
            assert error is not None
            if others:
                error.add_note(f"also failed: rank(s) {', '.join(map(str, others))}")
            return error
        reason = str(failed[0].error)
        self._broken = reason
        with suppress(InputError):
            self._cluster._require_workers_after(OSError())  # names the worker, if one is gone
        return WorkerLostError(f"The run was stopped. {reason}")

    def _break(self, first_step: int, error: BaseException) -> None:
        """The batch has no answers: no rank may wait for it any more."""
        self._broken = f"{type(error).__name__} in its last batch: {error}"
        reason = f"the driver stopped the run ({type(error).__name__})"
        with suppress(Exception):
            self._cluster.on_those_left(host.stop_batch, self.run_id, first_step, reason)

    def _forget_after(
        self, done: int, commands: list[Command], made: dict[int, weakref.ref]
    ) -> None:
        """Values that not every rank has made, or that some have overwritten, are lost."""
        for command in commands[done:]:
            if command.kind in OVERWRITING:
                self._dropped.append(command.inputs[0])
            if command.step in made and command.kind not in HANDED_OUT:
                self._dropped.append(command.step)
                handle = made[command.step]()
                if handle is not None:
                    handle.content.lost = True
