"""What a parameter server asks of a transport: hold shards, run a program on all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .server_traffic import Tally


@dataclass(frozen=True)
class RunOutcome:
    """Of one run: what each rank gave back and counted, and how stale each shard's answers were."""

    results: list[Any]
    tallies: list[Tally]
    staleness: list[Counter[int]]


class Backend(Protocol):
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
