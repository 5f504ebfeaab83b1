"""A fit that survives the loss of workers: the loop around one attempt after another.

    run ──► attempt on a communicator ──► done
              │ a worker is lost
              └─► a warning, a new communicator on the workers that are left, again from the state
                  that was kept

What an attempt is, and what is kept, the trainer of each model says. States that are kept live in
the client's process, so a loss takes none of them along.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from daskpart.collectives import Communicator
from daskpart.errors import DaskpartWarning, WorkerLostError

MAX_LOSSES = 5
Result = TypeVar("Result")


class ResilientTrainer(ABC):
    """Runs work on an attempt, and on a new one after each loss.

    Parameters
    ----------
    connect : callable
        ``connect(after_loss)`` gives a new communicator on the workers that are there now;
        `after_loss` says whether a worker was lost in this fit.
    """

    def __init__(self, connect: Callable[[bool], Communicator]) -> None:
        self._connect = connect
        self._attempt: Any = None
        self._losses = 0
        self._transport = "no"

    @property
    @abstractmethod
    def kept_epoch(self) -> int:
        """Number of the whole epoch whose state is kept, 0 before the first."""

    @abstractmethod
    def _begin(self, comm: Communicator) -> Any:
        """A new attempt on a communicator, from the kept state; it has ``comm``."""

    def close(self) -> None:
        """Leave nothing behind on the cluster."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.comm.close()

    def _resilient(self, work: Callable[[Any], Result]) -> Result:
        """``work(attempt)``; again on a new attempt after a loss.

        Raises
        ------
        WorkerLostError
            When workers were lost more than `MAX_LOSSES` times, or none is left.
        """
        while True:
            try:
                return work(self._current())
            except WorkerLostError as error:
                self._losses += 1
                if self._losses > MAX_LOSSES:
                    raise
                warnings.warn(
                    f"{error} The fit goes on from the end of epoch {self.kept_epoch}.",
                    DaskpartWarning,
                    stacklevel=5,
                )
                self.close()

    def _current(self) -> Any:
        if self._attempt is None:
            comm = self._connect(self._losses > 0)
            self._transport = type(comm).__name__.removesuffix("Communicator").lower()
            try:
                self._attempt = self._begin(comm)
            except BaseException:
                comm.close()
                raise
        return self._attempt
