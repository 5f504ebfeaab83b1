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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart.errors import InputError

from .placement import Directory
from .rules import UpdateRule, sum_by_slot

FINISHED = 1 << 62  # the clock of a rank whose program has ended
Reply = Callable[[NDArray[Any]], None]


@dataclass(frozen=True)
class ServerSpec:
    """What all ranks and shards of a server agree on.

    Attributes
    ----------
    directory : Directory
    row_shape : tuple of int
        () for scalar rows, (width,) else.
    dtype : numpy.dtype
    rule : UpdateRule
    delay : float
        τ in tasks; 0 is synchronous, infinity asynchronous.
    """

    directory: Directory
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    rule: UpdateRule
    delay: float

    @property
    def n_ranks(self) -> int:
        """Ranks, and as many shards."""
        return self.directory.n_shards

    def require_fit(self, array: NDArray[Any], what: str) -> None:
        """InputError unless values can become rows: of the dtype's kind, integers in its range."""
        if array.dtype.kind in "iu" and self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
            if low < limits.min or high > limits.max:
                raise InputError(
                    f"{what} hold {low if low < limits.min else high}, but {self.dtype} holds "
                    f"{limits.min} to {limits.max}"
                )
        elif not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise InputError(
                f"{what} of dtype {array.dtype} don't fit a server of dtype {self.dtype}: convert "
                "them first"
            )


def without_mask(values: ArrayLike, what: str) -> NDArray[Any]:
    """As an array; InputError if numpy would silently take what is masked for numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{what} hold {np.ma.count_masked(values)} masked values: fill them (`filled`), or "
            "leave them out"
        )
    return np.asarray(values)


@dataclass
class _HeldPull:
    reply: Reply
    task: int
    slots: NDArray[np.int32]


class Shard:
    """The rows of one shard.

    Parameters
    ----------
    values : array of shape (n_own_items, *row_shape)
        Becomes the shard's own.
    spec : ServerSpec
    """

    def __init__(self, values: NDArray[Any], spec: ServerSpec) -> None:
        self.values, self.spec = values, spec
        self.run = 0
        self.running = False
        self.staleness: Counter[int] = Counter()
        self._before = values
        self._start()

    def _start(self) -> None:
        self._clocks = [0] * self.spec.n_ranks
        self._oldest = 0
        self._pulls: list[_HeldPull] = []
        self._pushes: list[tuple[int, int, NDArray[np.int32], NDArray[Any]]] = []

    # -- a run ---

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

    def taken_staleness(self) -> Counter[int]:
        """Pulls since the last call, by how many tasks the slowest rank was behind."""
        taken, self.staleness = self.staleness, Counter()
        return taken

    @property
    def settled(self) -> bool:
        """Whether all ranks have finished, so that every push is in."""
        return self._oldest == FINISHED

    # -- messages of a rank ---

    def take(self, run: int, source: int, reply: Reply, kind: str, clock: int, *rest: Any) -> None:
        """Do what a rank asks.

        The first message of a run begins it; those of runs that failed or are over are dropped.

        Parameters
        ----------
        run, source : int
            Which run, and which rank.
        reply : callable
            Takes the rows of a pull.
        kind : {"pull", "push", "clock"}
        clock : int
            The rank has done all its tasks below this number.
        *rest : object
            Of a pull the task and the slots, of a push the slots and their rows.
        """
        self.begin(run)
        if not self.running or run != self.run:
            return
        self._advance(source, clock)
        if kind == "pull":
            self._pull(_HeldPull(reply, *rest))
        elif kind == "push":
            self._push(source, clock, *rest)

    def may_start(self, task: int) -> bool:
        """Whether all pushes of tasks before task - τ are in."""
        return self._oldest >= task - self.spec.delay

    # -- what follows ---

    def _pull(self, pull: _HeldPull) -> None:
        """Answer with rows, as soon as all pushes of tasks before task - τ are in."""
        if self.may_start(pull.task):
            self._answer(pull)
        else:
            self._pulls.append(pull)

    def _push(self, source: int, clock: int, slots: NDArray[np.int32], rows: NDArray[Any]) -> None:
        """Take rows in; in synchronous mode they wait for the end of the task on every rank."""
        if self.spec.delay == 0:
            self._pushes.append((clock, source, slots, rows))
        else:
            self.spec.rule.apply(self.values, slots, rows)

    def _advance(self, source: int, clock: int) -> None:
        """A rank has done all its tasks below this number."""
        before = self._clocks[source]
        if clock <= before:
            return
        self._clocks[source] = clock
        if before > self._oldest:
            return
        oldest = min(self._clocks)
        if oldest > self._oldest:
            self._oldest = oldest
            self._apply_pushes()
            self._answer_pulls()

    def _answer_pulls(self) -> None:
        ready = [pull for pull in self._pulls if self.may_start(pull.task)]
        self._pulls = [pull for pull in self._pulls if not self.may_start(pull.task)]
        for pull in ready:
            self._answer(pull)

    def _answer(self, pull: _HeldPull) -> None:
        if len(pull.slots):
            self.staleness[max(0, pull.task - self._oldest)] += 1
        pull.reply(np.take(self.values, pull.slots, axis=0))

    def _apply_pushes(self) -> None:
        """Apply the pushes of tasks that all ranks are past: by task, rank, and arrival."""
        ready = [push for push in self._pushes if push[0] < self._oldest]
        self._pushes = [push for push in self._pushes if push[0] >= self._oldest]
        ready.sort(key=lambda push: push[:2])
        for task in dict.fromkeys(push[0] for push in ready):
            pushes = [(slots, rows) for of_task, _, slots, rows in ready if of_task == task]
            if self.spec.rule.summed:
                pushes = [sum_by_slot(pushes, self.spec.dtype, self.spec.row_shape)]
            for slots, rows in pushes:
                self.spec.rule.apply(self.values, slots, rows)
