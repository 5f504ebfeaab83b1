"""Steps of the graph transport that were asked for: their tasks until settled, then their results.

node ──parents──▶ node ──parents──▶ node (settled: holds futures, its way there is forgotten)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from daskpart._floor.rank_tasks import TaskRef
from daskpart.collectives.communicator import PerRank, Replicated


class Node:
    """Tasks of one step, and the nodes that they build on; after settling, their results."""

    __slots__ = ("__weakref__", "handle", "held", "keys", "parents", "tasks")

    def __init__(self, keys: list, own_tasks: dict, parents: Iterable[Node]) -> None:
        self.keys = keys
        self.tasks = own_tasks
        self.parents = tuple(parents)
        self.held: list[Any] | None = None  # futures, or plain values without a client
        self.handle: Callable[[], Any] | None = None

    def settle(self, held: list[Any]) -> None:
        """Keep the results and forget the way to them."""
        self.held = held
        self.tasks, self.parents = {}, ()

    @property
    def in_use(self) -> bool:
        """Whether the text may still ask for this."""
        handle = self.handle() if self.handle is not None else None
        return handle is not None and not getattr(handle, "spent", False)


class Posted:
    """Messages on their way; spent when collected."""

    def __init__(self, node: Node, keys: dict[tuple[int, int], tuple]) -> None:
        self.node, self.keys, self.spent = node, keys, False


def inputs_of(values: Iterable[PerRank | Replicated], rank: int) -> list[TaskRef]:
    """A rank's inputs; of what all ranks agreed on, its own."""
    keys = [value.content.keys for value in values]
    return [TaskRef(of_ranks[rank if len(of_ranks) > 1 else 0]) for of_ranks in keys]
