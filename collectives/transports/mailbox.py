"""Where the messages to one rank wait for it, in the worker process that it lives in.

    event loop, other ranks ──put(step, source)──▶ ┌─────────┐ ──take(step, source)──▶ the rank
                              stop(batch, why) ──▶ └─────────┘ ──RunStopped──▶

A message is known by its step, which is a number that no two calls of a run share, and its source:
a rank, or a request to a shard of a parameter server. Every wait ends: with the message, with the
reason why the batch was stopped, or at the deadline. A mailbox belongs to one run, so two runs
never mix; what arrives for a batch that was stopped is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from time import monotonic
from typing import Any


class RunStopped(RuntimeError):
    """A rank stopped because of what happened to another; the message names both."""


class Mailbox:
    """Messages to one rank of one run.

    Parameters
    ----------
    rank : int
    deadline : float
        Seconds that one wait may take.

    Attributes
    ----------
    halted : str or None
        Why `check` would raise; ranks look at it before every call.
    """

    def __init__(self, rank: int, deadline: float) -> None:
        self.rank = rank
        self.deadline = deadline
        self._arrived: dict[tuple[int, Hashable], Any] = {}
        self._condition = threading.Condition()
        self._first_step = 0
        self._failed = (0, 0)  # steps of the last batch that failed: from, before
        self._stopped: tuple[int, str] | None = None  # first step of the batch, why
        self._ended: str | None = None
        self.halted: str | None = None

    @property
    def first_step(self) -> int:
        """Of the present batch."""
        return self._first_step

    def is_unwanted(self, step: int) -> bool:
        """Whether a step was in a batch that failed."""
        begin, end = self._failed
        return begin <= step < end

    def begin(self, first_step: int) -> None:
        """A new batch; what was for the one before is dropped if that was stopped."""
        with self._condition:
            if self._stopped is not None and self._first_step <= self._stopped[0] < first_step:
                self._drop(self._stopped[0], first_step)
            self._first_step = first_step
            self._look()

    def put(self, step: int, source: Hashable, payload: Any) -> None:
        """A message has come."""
        with self._condition:
            if self._ended is None and not self.is_unwanted(step):
                self._arrived[step, source] = payload
                self._condition.notify_all()

    def take(self, step: int, source: Hashable) -> Any:
        """Wait for a message and take it out.

        Raises
        ------
        RunStopped
            If the batch was stopped meanwhile.
        TimeoutError
            At the deadline; names both ranks.
        """
        key, limit = (step, source), monotonic() + self.deadline
        with self._condition:
            while key not in self._arrived:
                self.check()
                if not self._condition.wait(limit - monotonic()) and key not in self._arrived:
                    self.check()
                    raise self.too_late(source)
            return self._arrived.pop(key)

    def too_late(self, source: Hashable) -> TimeoutError:
        """The error at the deadline."""
        return TimeoutError(
            f"Rank {self.rank} waited {self.deadline:g} s for a message of rank {source}, the "
            "deadline of this run. If that rank computes for so long, raise the deadline."
        )

    def check(self) -> None:
        """Raise RunStopped if the batch was stopped; takes no lock, as ranks ask all the time."""
        if self.halted is not None:
            raise RunStopped(f"Rank {self.rank} stopped: {self.halted}")

    def stop(self, first_step: int, reason: str) -> None:
        """Stop the batch that begins with this step, also if it has not begun here."""
        with self._condition:
            if self._stopped is None or self._stopped[0] < first_step:
                self._stopped = (first_step, reason)
                self._look()
            if first_step < self._first_step:  # told late: the next batch has begun
                self._drop(first_step, self._first_step)
            self._condition.notify_all()

    def end(self, reason: str) -> None:
        """No further batch; what has come is dropped."""
        with self._condition:
            self._ended = self._ended or reason
            self._look()
            self._arrived.clear()
            self._condition.notify_all()

    def __len__(self) -> int:
        return len(self._arrived)

    def _drop(self, begin: int, end: int) -> None:
        self._failed = (begin, end)
        for key in [key for key in self._arrived if self.is_unwanted(key[0])]:
            del self._arrived[key]

    def _look(self) -> None:
        self.halted = self._ended
        if self.halted is None and self._stopped is not None:
            step, reason = self._stopped
            self.halted = reason if step >= self._first_step else None
