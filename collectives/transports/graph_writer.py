"""A graph transport that never runs anything: it writes down the tasks of an algorithm text.

    keys of a Dask array ──▶ text (post_values, collect_values, fold) ──▶ tasks, one key a rank

For collectives on lazy Dask collections: the tasks become a layer of the collection's own graph and
run wherever that runs. Nothing is pinned, nothing is counted.
"""

from __future__ import annotations

from daskpart.collectives.communicator import PerRank
from daskpart.errors import InputError

from . import ledger
from .graph import GraphCommunicator
from .graph_nodes import Node


class GraphWriter(GraphCommunicator):
    """Ranks that exist only as tasks.

    Parameters
    ----------
    n_ranks : int
    token : str
        Makes the names of the tasks; the same token gives the same names.
    """

    def __init__(self, n_ranks: int, token: str) -> None:
        super().__init__(n_ranks, scheduler="synchronous")
        self.run_id = ledger.UNMEASURED + token

    def placeholders(self, keys: list[tuple]) -> PerRank:
        """Values that the tasks of another graph will make, one key a rank."""
        return self._handle(PerRank, Node(keys, {}, ()))

    def written(self, values: PerRank) -> tuple[dict, list[tuple]]:
        """All tasks that lead from the placeholders to the values, and the keys of the values."""
        graph = self._graph([values.content])
        return dict(graph), list(values.content.keys)

    def _run(self, nodes: list[Node]) -> None:
        raise InputError(
            "This text asks for a result while it is only written down as a task graph."
        )
