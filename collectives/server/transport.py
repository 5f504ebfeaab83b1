"""What a parameter server asks of a transport; see the package's docstring for the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .traffic import RankTraffic

Slots = NDArray[np.int32]


@dataclass(frozen=True)
class RunOutcome:
    """Of one run: what each rank gave back and sent, and how stale each shard's answers were."""

    results: list[Any]
    traffic: list[RankTraffic]
    staleness: list[Counter[int]]


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

    def run(self, program: Callable, columns: list[list[Any]], shared: dict) -> RunOutcome:
        """Run the program on all ranks; after an error the rows are as before."""

    def values(self) -> list[NDArray[Any]]:
        """Rows of each shard."""

    def set_values(self, pieces: list[NDArray[Any]]) -> None:
        """Other rows for each shard."""

    def close(self) -> None:
        """Let go of everything."""


class Link(Protocol):
    """How the messages of one rank get to the shards; a rank's messages arrive in order."""

    def post_pull(self, pieces: list[tuple[int, Slots]], task: int, clock: int) -> Any:
        """Ask shards for rows without waiting; a ticket for `collect`."""

    def collect(self, ticket: Any) -> list[NDArray[Any]]:
        """Wait for the rows of each piece."""

    def push(self, pieces: list[tuple[int, Slots, NDArray[Any]]], clock: int) -> None:
        """Send rows to shards without waiting."""

    def advance(self, clock: int) -> None:
        """Tell all shards that the tasks below this number are done, without waiting."""

    def start(self, task: int) -> None:
        """Wait until the task may start."""
