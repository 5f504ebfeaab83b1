"""What a parameter server asks of a transport; see the package's docstring for the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.communicator import Communicator, PerRank

from .traffic import RankTraffic


class RankOutcome(NamedTuple):
    """Of one rank in a run: what it gave back and sent, and how stale its shard's answers were."""

    result: Any
    traffic: RankTraffic
    staleness: Counter[int]


@dataclass(frozen=True, eq=False)
class Held:
    """One value a rank that stays with the ranks between the runs of a server.

    Attributes
    ----------
    content : object
        However the transport holds them.
    """

    content: Any = field(repr=False)


class ServerTransport(Protocol):
    """Shards and the ranks that use them.

    Attributes
    ----------
    places : tuple of str
        Worker of each rank and its shard.
    """

    places: tuple[str, ...]

    @property
    def history(self) -> NDArray[np.int32] | None:
        """Rank of each call of the last run, where the transport knows their order."""

    def run(self, program: Callable, columns: list[Any], shared: dict) -> list[RankOutcome]:
        """Run the program on all ranks; after an error the rows are as before."""

    @property
    def communicator(self) -> Communicator:
        """Of the ranks."""

    def hold(self, values: list[Any] | PerRank) -> Any:
        """One value a rank, handed out to stay there: a column of `run`."""

    def values(self) -> list[NDArray[Any]]:
        """Rows of each shard."""

    def set_values(self, pieces: list[NDArray[Any]]) -> None:
        """Other rows for each shard."""

    def close(self) -> None:
        """Let go of everything."""


class Link(Protocol):
    """How the messages of one rank get to the shards; a rank's messages arrive in order."""

    def send(self, kind: str, clock: int, pieces: Sequence[tuple]) -> Any:
        """Send a message to some shards without waiting; a ticket for `collect`.

        Kinds and contents are those of `Shard.take`: each piece is the shard's number, and then of
        a "pull" the task and slots, of a "push" the slots and rows, of a "clock" nothing.
        """

    def collect(self, ticket: Any) -> list[NDArray[Any]]:
        """Wait for the rows of each piece of a pull."""

    def start(self, task: int) -> None:
        """Wait until the task may start."""
