"""One shard of a parameter server: rows, a clock a rank, and pulls that must wait.

            clocks of the ranks     oldest = 4      task 6 asks, τ = 1: pulls wait until
    rank 0  ▓▓▓▓▓▓▓ 6                               oldest ≥ 6 - τ = 5
    rank 1  ▓▓▓▓▓ 4     ◀ slowest                   ┌────────┐   ┌──────┐
    rank 2  ▓▓▓▓▓▓ 5                     pull ────▶ │ held   │──▶│ rows │──▶ reply
                                         push ────▶ │ τ = 0  │──▶│      │
                                                    └────────┘   └──────┘

The clock of a rank is the number of its present task: all pushes of its tasks below are in, as a
rank's messages arrive in order. With a delay of 0 pushes are held too, until every rank is past
their task, and are then applied in order of task and rank: so the bits don't depend on who was
faster. Otherwise they are applied as they come.

A shard is a plain state machine: it knows no threads and sends nothing. Transports call it with its
lock held, and give each pull a function that takes the reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .placement import Directory
from .rules import UpdateRule, sum_by_slot

FINISHED = 1 << 62  # the clock of a rank whose program has ended


@dataclass(frozen=True)
class ServerSpec:
    """What all ranks and shards of a server agree on."""

    directory: Directory
    row_shape: tuple[int, ...]  # (), or (width,)
    dtype: np.dtype[Any]
    rule: UpdateRule
    delay: float  # τ in tasks

    @property
    def n_ranks(self) -> int:
        """Ranks, and as many shards."""
        return self.directory.n_shards

    def require_fit(self, array: NDArray[Any], what: str) -> None:
        """InputError unless values can become rows: of the dtype's kind, and in its range."""
        if array.dtype.kind in "iu" and self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            for value in (array.min(), array.max()) if array.size else ():
                if not limits.min <= int(value) <= limits.max:
                    raise InputError(
                        f"{what} hold {value}, but {self.dtype} holds {limits.min} to {limits.max}"
                    )
        elif not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise InputError(
                f"{what} of dtype {array.dtype} don't fit a server of dtype {self.dtype}: convert "
                "them first"
            )
        elif array.dtype.kind == "f" and array.dtype.itemsize > self.dtype.itemsize:
            most = np.finfo(self.dtype).max
            finite = array[np.isfinite(array)]
            if finite.size and (largest := np.abs(finite).max()) > most:
                raise InputError(f"{what} go up to {largest:g}, but {self.dtype} to {most:g}")


class _Pull(NamedTuple):
    reply: Callable[[NDArray[Any]], None]
    task: int
    slots: NDArray[np.int32]


class _Push(NamedTuple):
    task: int
    source: int
    slots: NDArray[np.int32]
    rows: NDArray[Any]


class Shard:
    """The rows of one shard, of shape (n_own_items, *row_shape).

    `staleness` counts the pulls of a run by how many tasks the slowest rank was behind.
    """

    def __init__(self, values: NDArray[Any], spec: ServerSpec) -> None:
        self.values, self.spec = values.copy(), spec
        self.run, self.running = 0, False
        self._before = self.values
        self._start()

    def _start(self) -> None:
        self._clocks = [0] * self.spec.n_ranks
        self._oldest = 0
        self.staleness: Counter[int] = Counter()
        self._pulls: list[_Pull] = []  # that must wait
        self._pushes: list[_Push] = []

    def set_values(self, values: NDArray[Any]) -> None:
        """Other rows."""
        self.values = values.copy()

    def begin(self, run: int) -> None:
        """A new run: clocks at 0. A copy of the rows is kept until the next, in case it fails."""
        if run > self.run:
            self.run, self.running = run, True
            self._before = self.values.copy()
            self._start()

    def undo(self, run: int) -> None:
        """The run failed: back to the values before it; what comes late is passed over."""
        self.begin(run)
        self.running = False
        self.values = self._before
        self._start()

    @property
    def settled(self) -> bool:
        """Whether all ranks have finished, so that every push is in."""
        return self._oldest == FINISHED

    def may_start(self, task: int) -> bool:
        """Whether all pushes of tasks before task - τ are in."""
        return self._oldest >= task - self.spec.delay

    def take(
        self, run: int, source: int, reply: Callable, kind: str, clock: int, *rest: Any
    ) -> None:
        """Do what rank `source` asks, which has done all its tasks below `clock`.

        A "pull" brings the task and the slots; `reply` takes the rows as soon as all pushes of
        tasks before that - τ are in. A "push" brings slots and their rows, a "clock" nothing. The
        first message of a run begins it; those of runs that failed or are over are dropped. Of a
        run in which this raised, nothing more is taken, so the shard never counts as settled.
        """
        self.begin(run)
        if not self.running or run != self.run:
            return
        try:
            before = self._clocks[source]
            if clock > before:
                self._clocks[source] = clock
                if before == self._oldest:
                    self._catch_up()
            if kind == "pull":
                self._pull(_Pull(reply, *rest))
            elif kind == "push" and self.spec.delay == 0:
                self._pushes.append(_Push(clock, source, *rest))
            elif kind == "push":
                self.spec.rule.apply(self.values, *rest)
        except BaseException:
            self.running = False
            raise

    def _catch_up(self) -> None:
        """Do what waited for the slowest rank, which was one of the slowest until now."""
        oldest = min(self._clocks)
        if oldest == self._oldest:
            return
        ready = sorted(
            (push for push in self._pushes if push.task < oldest),
            key=lambda push: (push.task, push.source),
        )
        self._pushes = [push for push in self._pushes if push.task >= oldest]
        for task in dict.fromkeys(push.task for push in ready):
            pushes = [(push.slots, push.rows) for push in ready if push.task == task]
            if self.spec.rule.summed:
                pushes = [sum_by_slot(pushes, self.values)]
            for slots, rows in pushes:
                self.spec.rule.apply(self.values, slots, rows)
        self._oldest = oldest  # now: ranks look at it without the lock
        waiting, self._pulls = self._pulls, []
        for pull in waiting:
            self._pull(pull)

    def _pull(self, pull: _Pull) -> None:
        if not self.may_start(pull.task):
            self._pulls.append(pull)
            return
        if len(pull.slots):
            self.staleness[max(0, pull.task - self._oldest)] += 1
        pull.reply(np.take(self.values, pull.slots, axis=0))
