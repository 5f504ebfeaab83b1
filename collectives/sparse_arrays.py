"""Sparse allreduce of a Dask array: lazy in, lazy out, the steps as a layer of its graph.

    x, cut along its first axis        result, same shape and chunks
    ┌ block 0 ┐                        ┌ total ┐
    ├ block 1 ┤   sparse_allreduce     ├ total ┤     every block holds what all blocks
    └ block 2 ┘   ───────────────▶     └ total ┘     combine to, as every rank would

Nothing is computed, so the algorithm is chosen for a density that the caller expects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from daskpart._floor.checks import finite_number
from daskpart._floor.rank_tasks import Task, TaskRef
from daskpart.errors import InputError

from .communicator import PerRank
from .cost_model import CostModel, Problem
from .reduction import Reduction, require_reduction
from .sparse_steps import require_free_choice
from .stream import Stream, stream_of
from .transports.graph import GraphCommunicator, Node
from .transports.measures import UNMEASURED

# of tasks on a Dask scheduler, where a message costs a thousand times what its first bytes do
TASK_GRAPH = CostModel(
    start=5e-3, round=1e-3, message=1e-3, byte=2e-9, merged_entry=1e-8, gathered_entry=1.2e-8,
    scattered_entry=5e-9, dense_element=1e-9, copied_byte=2e-10,
)  # fmt: skip


class GraphWriter(GraphCommunicator):
    """A graph transport that never runs anything: it writes down the tasks of an algorithm text.

    They become a layer of the collection's own graph, and run wherever that runs. Nothing is
    pinned, nothing is counted. `token` makes the names of the tasks: the same gives the same names.
    """

    def __init__(self, n_ranks: int, token: str) -> None:
        super().__init__(n_ranks, scheduler="synchronous")
        self.run_id = UNMEASURED + token

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


def allreduce_array(
    x: da.Array,
    allreduce: Callable[..., Any],
    reduction: Reduction,
    expected_density: float,
    *,
    model: CostModel | None,
    **options: Any,
) -> da.Array:
    """What `allreduce`, `sparse_allreduce` itself, does on ranks, as tasks; the options are its."""
    n_ranks = _checked_blocks(x)
    require_reduction(reduction)
    as_block = Stream.to_numpy if isinstance(x._meta, np.ndarray) else Stream.to_coo
    # blocks like this one, of no entries, are what comes out; and what cannot go in is told now
    meta = as_block(stream_of(x._meta, reduction=reduction))
    expected_density = finite_number(expected_density, "expected_density", most=1)
    model = model or TASK_GRAPH
    if options["algorithm"] == "auto":
        require_free_choice(options["group"], options["degrees"])
        size = math.prod(x.shape) // n_ranks
        best = model.best(Problem(n_ranks, size, expected_density * size, x.dtype))
        options |= {"algorithm": best.algorithm, "group": best.group, "degrees": best.degrees}
    token = tokenize(x.name, reduction, model, options)
    writer = GraphWriter(n_ranks, token)
    last = (0,) * (x.ndim - 1)
    blocks = writer.placeholders([(x.name, rank, *last) for rank in range(n_ranks)])
    streams = allreduce(writer, blocks, reduction, model=model, **options)
    tasks, keys = writer.written(streams)
    name = f"sparse-allreduce-{token}"
    for rank, key in enumerate(keys):
        block = (name, rank, *last)
        tasks[block] = Task(block, as_block, TaskRef(key))
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[x])
    return da.Array(graph, name, x.chunks, meta=meta)


def _checked_blocks(x: da.Array) -> int:
    if x.ndim == 0 or any(blocks != 1 for blocks in x.numblocks[1:]):
        raise InputError(
            "A rank's vector is one block of the first axis; this array is cut into "
            f"{x.numblocks} blocks. Rechunk it: x.rechunk({{0: …, 1: -1}})."
        )
    if len(set(x.chunks[0])) != 1 or np.isnan(x.shape).any():
        raise InputError(
            f"Ranks disagree on shape: the chunks of the first axis are {x.chunks[0]}; they must "
            "be known and equal."
        )
    return x.numblocks[0]
