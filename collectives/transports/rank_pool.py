"""Runs one step for every rank on a few threads of this process, and waits for all of them.

The calling thread takes part: ranks are handed out in rising order, and whoever is free takes the
next; a step that is done before a helper woke up does not wait for it. When a rank fails no further
rank begins, and the error of the lowest failing rank is raised, with a note that names it: as ranks
begin in rising order it is the same one every time. When the call is interrupted (Ctrl-C) the
helpers finish the rank they are at before the interrupt goes on: no thread is left on shared state.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError


class RankPool:
    """A few threads that run steps rank by rank; 1 is the calling one, with ranks in order."""

    def __init__(self, n_ranks: int, n_threads: int) -> None:
        self.n_ranks = n_ranks
        self.n_threads = max(1, min(n_threads, n_ranks))
        self.seconds: NDArray[np.float64] = np.zeros(n_ranks)  # of the last step, per rank
        self.busy_seconds = 0.0  # of the processors in the last step, all ranks together
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._one_step_at_a_time = threading.Lock()

    def run(self, step: Callable[[int], Any], alone: bool = False) -> list[Any]:
        """``[step(0), …, step(n_ranks - 1)]``; fills `seconds` and `busy_seconds`.

        `alone` does without the helpers: to wake one costs more than a step of microseconds.
        """
        task = _Step(step, self.n_ranks)
        if not self._one_step_at_a_time.acquire(blocking=False):
            raise InputError(
                "Ranks run one step at a time: a step can't use its own communicator, and a "
                "communicator serves one thread; give each its own."
            )
        try:
            if alone or self.n_threads == 1:
                task.work()
            else:
                self._run_shared(task)
        finally:
            self._one_step_at_a_time.release()
        self.seconds, self.busy_seconds = np.array(task.seconds), sum(task.busy or task.seconds)
        if task.errors:
            rank, *others = sorted(task.errors)
            failed = f" (also failed: {others})" if others else ""
            task.errors[rank].add_note(f"on rank {rank}{failed}")
            raise task.errors[rank]
        return task.results

    def close(self) -> None:
        """End the threads; they are idle by then."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    def _run_shared(self, task: _Step) -> None:
        helpers: list[Future[None]] = []
        try:
            if self._executor is None or self._process != os.getpid():  # none survives a fork
                self._process = os.getpid()
                self._executor = ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="rank")
            for _ in range(self.n_threads - 1):
                helpers.append(self._executor.submit(task.work_beside))
            task.work_beside()
        except BaseException:
            task.stopped = True
            raise
        finally:
            _wait_through_interrupts(helpers)


class _Step:
    """One step in progress, shared by the threads that work on it."""

    def __init__(self, step: Callable[[int], Any], n_ranks: int) -> None:
        self.step = step
        self.ranks = itertools.count()  # `next` is atomic, so no rank is taken twice
        self.n_ranks = n_ranks
        self.results: list[Any] = [None] * n_ranks
        self.seconds = [0.0] * n_ranks
        self.busy: list[float] = []  # seconds of the processor, of each thread of several
        self.errors: dict[int, Exception] = {}
        self.stopped = False

    def work(self) -> None:
        """Take ranks until none is left."""
        while not self.stopped:
            rank = next(self.ranks)
            if rank >= self.n_ranks:
                return
            begin = perf_counter()
            try:
                self.results[rank] = self.step(rank)
            except Exception as error:
                self.errors[rank] = error
                self.stopped = True
            except BaseException:  # of sys.exit, say
                self.stopped = True
                raise
            self.seconds[rank] = perf_counter() - begin

    def work_beside(self) -> None:
        """The same as one of several threads, which wait for each other's Python."""
        begin = thread_time()
        self.work()
        self.busy.append(thread_time() - begin)


def _wait_through_interrupts(helpers: list[Future[None]]) -> None:
    """Wait for all helpers; an interrupt in between, or of one, is raised when they are done."""
    interrupt: BaseException | None = None
    for helper in helpers:
        while not (helper.cancel() or helper.done()):
            try:
                helper.exception()
            except KeyboardInterrupt as error:
                interrupt = error
        if not helper.cancelled():
            interrupt = interrupt or helper.exception()
    if interrupt is not None:
        raise interrupt
