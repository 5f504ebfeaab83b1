"""What a rank needs of a transport: the one thing in which the SPMD transports differ.

Rank ──send──▶ Endpoint ═══ Dask comms, or MPI ═══▶ Endpoint ──receive──▶ Rank
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from distributed.protocol.pickle import dumps
from numpy.typing import NDArray

if TYPE_CHECKING:
    from daskpart.collectives.prepared import RankMessages

    from .spmd_batch import Answer, Command

PLAIN_KINDS = "biufcmMSU"  # dtypes that their short string describes whole


class Endpoint(Protocol):
    """How one rank's messages travel."""

    def connect(self) -> None:
        """Do what all ranks must do together, where there is something."""

    def lends(self, destination: int) -> bool:
        """Whether what goes there may be sent with `lent`."""

    def send(self, step: int, destination: int, payload: Any, lent: bool = False) -> None:
        """Send an array, a tuple of arrays or a small object without waiting.

        Nobody changes it any more, or, if it is lent, not before `give_back`.
        """

    def receive(self, step: int, source: int, room: Callable[[], Any] | None = None) -> Any:
        """Wait for a message, at most until the deadline.

        `room` gives arrays that it may be received into, see `SwapSteps`.
        """

    def short_swap(self, command: Command, array: NDArray[Any], answer: Answer) -> Any:
        """A quicker way for this swap, whose steps have `merger`, with arrays like this; or None.

        ``run(first_step, array, begin)`` does all rounds of a swap like it, and notes them and the
        seconds since `begin` in the answer; `close()` ends it with the batch.
        """

    def short_exchange(
        self, command: Command, state: NDArray[Any], answer: Answer, messages: RankMessages
    ) -> Any:
        """A quicker way for this exchange, which `only_places_rows`, of states like this; or None.

        ``run(step, state, begin)`` gives the state, and notes as above; so does `close`.
        """

    def give_back(self) -> None:
        """Wait until nothing that was lent is needed any more."""

    def flush(self) -> None:
        """Wait until nothing that was sent needs this process any more."""

    def close(self, whole: bool) -> None:
        """Let go of what the worker's endpoints share; called once, of the last rank to end.

        `whole` says whether the run was closed, and not broken off.
        """


def pickled_object(value: Any) -> bytes:
    """A value that is no array, for a message; numbers the short way."""
    if isinstance(value, int | float | complex | np.generic):
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return dumps(value)
