"""What a program on one rank holds of a parameter server: pull, push, advance.

    ids 7 2 9 2 ──by owner──▶ shard 0: slots of 2 2 ──▶ rows ┐
                              shard 2: slots of 7 9 ──▶ rows ┴──▶ rows of 7 2 9 2

An endpoint checks what it is given, cuts it by shard, counts it, and puts the answers together. How
a message gets to a shard is the one thing that transports differ in: they fill in the last methods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import as_array, whole_number
from daskpart.errors import InputError

from .shard import FINISHED, ServerSpec
from .traffic import RankTraffic


@dataclass(eq=False)
class PendingPull:
    """Rows on their way; give it to `ServerEndpoint.collect`."""

    task: int
    place: NDArray[np.int64]  # of each id among the answers, one shard after another
    ticket: Any
    collected: bool = False


class ServerEndpoint(ABC):
    """One rank's access to the server; what a program gets as its first argument.

    Attributes
    ----------
    rank, n_ranks, n_items : int
    delay : float
    task : int
        Number of the present task, its clock; 0 at the beginning.
    """

    def __init__(self, rank: int, spec: ServerSpec) -> None:
        self.rank, self.n_ranks, self.n_items = rank, spec.n_ranks, spec.directory.n_items
        self.delay, self.task = spec.delay, 0
        self._spec, self._traffic = spec, RankTraffic(spec.n_ranks)

    @property
    def own_ids(self) -> NDArray[np.int64]:
        """Ids on the shard beside this rank, rising."""
        return self._spec.directory.ids_of_shards[self.rank]

    def pull(self, ids: ArrayLike) -> NDArray[Any]:
        """Rows of some ids, as the shards hold them now.

        Parameters
        ----------
        ids : int array of shape (n,)
            In any order, also several times.

        Returns
        -------
        array of shape (n,) or (n, row_length)
            A copy. It has every push of tasks before ``task - delay``. In synchronous mode it has
            nothing of the present task, neither of other ranks nor of this one; otherwise all that
            this rank pushed before, and what of others happens to be in.
        """
        return self.collect(self.post_pull(ids))

    def post_pull(self, ids: ArrayLike, task: int | None = None) -> PendingPull:
        """Begin to pull without waiting; `collect` gives the rows.

        Parameters
        ----------
        ids : int array of shape (n,)
        task : int, optional
            Fetch ahead for a later task of this rank: the answer has what that task must see.
            Default: the present one.
        """
        wanted = self.task
        if task is not None:
            wanted = whole_number(task, "task", self.task, FINISHED - 1)
        checked = self._checked_ids(ids)
        split = self._spec.directory.split(checked)
        row_bytes = self._spec.dtype.itemsize * math.prod(self._spec.row_shape)
        place, asked = np.empty(len(checked), np.int64), []
        if split:
            place[np.concatenate([at for _, at, _ in split])] = np.arange(len(checked))
        for shard, _, slots in split:
            asked.append((shard, wanted, slots))
            nbytes = slots.nbytes + len(slots) * row_bytes
            self._traffic.count(shard, pulls=1, rows_pulled=len(slots), bytes=nbytes)
        return PendingPull(wanted, place, self._send("pull", self.task, asked))

    def collect(self, pending: PendingPull) -> NDArray[Any]:
        """Wait for the rows of a `post_pull`; once."""
        if pending.collected:
            raise InputError("This pull was collected already; keep what it gave.")
        if self.task < pending.task - self.delay:
            raise InputError(
                f"This pull is for task {pending.task} and waits for all pushes before task "
                f"{pending.task - self.delay:g}, this rank's own among them, which is at task "
                f"{self.task}: advance first"
            )
        pending.collected = True
        with self._blocked():
            pieces = self._collect(pending.ticket)
        if not pieces:
            return np.empty((0, *self._spec.row_shape), self._spec.dtype)
        # `take` and not `[…]`: for rows it is four times as fast
        return np.take(np.concatenate(pieces), pending.place, axis=0)

    def push(self, ids: ArrayLike, rows: ArrayLike) -> None:
        """Send rows to the shards, which apply the update rule; does not wait.

        Parameters
        ----------
        ids : int array of shape (n,)
            The rules "add", "or" and "assign" take an id several times, one after another; other
            rules only once.
        rows : array of shape (n,) or (n, row_length)
            Numbers of the kind of the server's, without NaN.
        """
        checked = self._checked_ids(ids)
        given = self._checked_rows(checked, rows)
        pieces = []
        for shard, positions, slots in self._spec.directory.split(checked):
            own = np.take(given, positions, axis=0)
            pieces.append((shard, slots, own))
            nbytes = slots.nbytes + own.nbytes
            self._traffic.count(shard, pushes=1, rows_pushed=len(slots), bytes=nbytes)
        self._send("push", self.task, pieces)

    def advance(self, to: int | None = None) -> int:
        """End the present task, start another one; waits until all pushes it must see are in.

        Parameters
        ----------
        to : int, optional
            Number of the next task, above the present one: this rank has none in between.
            Default: the next number.

        Returns
        -------
        int
            The number of the task, which may start now.
        """
        later = self.task + 1
        self._move_to(later if to is None else whole_number(to, "to", later, FINISHED - 1))
        with self._blocked():
            self._start(self.task)
        return self.task

    def tasks(self, n_tasks: int) -> Iterator[int]:
        """This rank's share of tasks that are numbered through: rank, rank + n_ranks, and so on.

        With a delay of τ some of the τ tasks before the present one may still run, of any rank;
        with a delay of 0 the tasks run one after another.
        """
        for task in range(self.rank, n_tasks, self.n_ranks):
            if task > self.task:
                self.advance(to=task)
            yield task

    def finish(self) -> RankTraffic:
        """The program has ended, nobody waits for this rank any more; gives what it sent."""
        self._move_to(FINISHED)
        return self._traffic

    def _move_to(self, task: int) -> None:
        self.task = task
        if self.delay < math.inf or task == FINISHED:
            self._traffic.counts["clocks"] += np.arange(self.n_ranks) != self.rank
            self._send("clock", task, [(shard,) for shard in range(self.n_ranks)])

    @contextmanager
    def _blocked(self) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            self._traffic.seconds_blocked += perf_counter() - begin

    def _checked_ids(self, ids: ArrayLike) -> NDArray[Any]:
        array = as_array(ids, "ids")
        if array.ndim == 1 and array.size == 0:
            return array.astype(np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(
                f"ids of shape {array.shape} and dtype {array.dtype}: give a one-dimensional "
                "array of whole numbers"
            )
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= self.n_items:
            wrong = low if low < 0 else high
            raise InputError(f"id {wrong} is out of range: ids are 0 to {self.n_items - 1}")
        return array

    def _checked_rows(self, ids: NDArray[Any], rows: ArrayLike) -> NDArray[Any]:
        spec, array = self._spec, as_array(rows, "rows")
        if not len(ids) and array.shape == (0,):
            return np.empty((0, *spec.row_shape), spec.dtype)  # an empty list has no dtype
        shape = (len(ids), *spec.row_shape)
        if array.shape != shape:
            raise InputError(
                f"rows of shape {array.shape} were pushed for {len(ids)} ids: give shape {shape}"
            )
        spec.require_fit(array, "rows")
        if array.dtype.kind == "f" and np.isnan(array).any():
            broken = np.isnan(array).reshape(len(ids), -1).any(axis=1)
            raise InputError(
                f"{int(broken.sum())} of {len(ids)} pushed rows hold NaN, the first for id "
                f"{int(ids[broken.argmax()])}"
            )
        if spec.rule.distinct:
            ordered = np.sort(ids)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if len(twice):
                raise InputError(
                    f"id {twice[0]} was pushed more than once at a time; the update "
                    f"{spec.rule.name!r} takes each id once: combine its rows first"
                )
        return array.astype(spec.dtype, copy=False)

    # -- what a transport gives; a rank's messages to a shard arrive in order ---

    @abstractmethod
    def _send(self, kind: str, clock: int, pieces: Sequence[tuple]) -> Any:
        """Send a message to some shards without waiting; a ticket for `_collect`.

        Kinds and contents are those of `Shard.take`: each piece is the shard's number, and then of
        a "pull" the task and slots, of a "push" the slots and rows, of a "clock" nothing.
        """

    @abstractmethod
    def _collect(self, ticket: Any) -> list[NDArray[Any]]:
        """Wait for the rows of each piece of a pull."""

    @abstractmethod
    def _start(self, task: int) -> None:
        """Wait until the task may start."""
