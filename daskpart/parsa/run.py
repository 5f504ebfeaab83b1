"""`partition`: place data and parameters on machines, from one block in memory to many on disk.

data ──▶ blocks ──▶ Partition U (block by block) ──▶ polish? ──▶ Partition V ──▶ ParsaResult
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import amounts, checked_seed, finite_number, whole_number
from daskpart._floor.kernels import working_clock
from daskpart.errors import InputError
from daskpart.partitioners.balance import bounds_of_moves, with_weights
from daskpart.partitioners.checks import checked_epsilon
from daskpart.partitioners.label_propagation import polish as polish_parts
from daskpart.partitioners.objectives import ConnectivityMinusOne
from daskpart.partitions import Partition

from .assignment import (
    AssignedBlock,
    Blocks,
    Parallel,
    Settings,
    assign_again,
    assign_in_order,
    sets_of_sample,
)
from .bipartite import MemoryBlocks
from .neighbours import NeighbourSets
from .result import ParsaResult, compared, placed
from .sources import blocks_of, model_of

_BLOCKS_A_WORKER = 8


def partition(
    data: Any,
    n_parts: int,
    *,
    n_blocks: int | None = None,
    memory_limit: int | str | None = None,
    extra_passes: int = 0,
    window: int | None = None,
    sample: float = 0.0,
    previous: ParsaResult | None = None,
    weights: ArrayLike | str | None = None,
    polish: bool = False,
    epsilon: float = 0.03,
    compare: bool = True,
    random_state: int = 0,
    workers: int = 1,
    delay: float = 0,
    transport: str = "auto",
    client: Any = None,
    schedule: Any = None,
) -> ParsaResult:
    """Place data and parameters on machines so that each needs few parameters and fetches few.

    Parameters
    ----------
    data : Bipartite, Hypergraph, sparse matrix, path, ExamplesFile, BlockFolder, …
        Rows (vertices) are data, columns (nets) parameters. A path is a libsvm file, any other
        that `daskpart.read` knows, or a folder of blocks. Of a file that was surveyed, or of a
        share that was drawn from it, the examples and features that the survey found.
    n_parts : int
        k, from 1 to the number of data.
    n_blocks : int, optional
        Into how many random blocks the data are cut; one is in memory besides the data, or alone if
        they are on disk. Fewer are better and slower. Default: 1, or as many as keep the lists of
        one, 12 k bytes a datum, below 1 GiB; or what `memory_limit` asks, or 8 for each of several
        workers.
    memory_limit : int or str, optional
        Bytes, like ``"500 MB"``. A libsvm or surveyed file is then never in memory whole: it is
        assigned over blocks in a temporary folder (below $TMPDIR), as many as the limit asks. For
        one worker.
    extra_passes : int, default=0
        Individual initialisation: further passes over the blocks, each against what the other
        blocks were given last.
    window : int, optional
        How many blocks just before a block count in extra passes. Default: all others.
    sample : float, default=0.0
        Global initialisation: partition this share of the data first and start from its
        neighbour sets; 0 starts from nothing.
    previous : ParsaResult, optional
        Incremental: `data` are new, of the same parameters (and more); they join the old parts.
    weights : None, "edges" or int[n_data]
        What is balanced: the number of data, of their edges, or given weights.
    polish : bool, default=False
        Then lower Σ (λ - 1) by moves of single data, for a graph in memory; see `epsilon`.
    epsilon : float, default=0.03
        How much heavier than the mean the polish may make a part.
    compare : bool, default=True
        Whether random parts are assigned beside, to report the improvement over them.
    random_state : int, default=0
        Same number, same result.
    workers : int, default=1
        Deal so many blocks at once, with the neighbour sets on a parameter server.
    delay : int or math.inf, default=0
        τ: how many blocks before its own a worker need not wait for. With 0 the result is that of
        one worker. With more it depends on who is faster, but for ``schedule="in turn"``.
    transport, client, schedule
        Of the workers; see `daskpart.collectives.ParameterServer`.

    Returns
    -------
    ParsaResult
        Where there is a `previous`, its `partition` is of the new data alone, and so are the
        report's data, edges and imbalance; its neighbour sets, and the memory and traffic that the
        report tells, are of all.

    Raises
    ------
    InputError
        Anything out of the ranges above; the message says what is allowed.

    Notes
    -----
    Li, Andersen, Smola, "Graph partitioning via parallel submodular approximation to accelerate
    distributed machine learning", 2015: algorithms 2, 3 and 4. Time ``O(k |E|)`` a pass; memory
    12 k bytes for each datum of a block and ⌈k / 8⌉ bytes a parameter, three times.
    """
    started = working_clock()
    random_state, epsilon = checked_seed(random_state), checked_epsilon(epsilon)
    workers = whole_number(workers, "workers", least=1)
    parallel = Parallel(workers, delay, transport, client, schedule)
    start = _Start(whole_number(extra_passes, "extra_passes", least=0), window, sample, previous)
    n_parts = whole_number(n_parts, "n_parts", least=1)
    if memory_limit is not None and parallel.workers > 1:
        raise InputError(
            f"memory_limit counts one block at a time, {parallel.workers} workers hold several: "
            "leave memory_limit out and give n_blocks, or workers=1"
        )
    usual = 1 if parallel.workers == 1 else _BLOCKS_A_WORKER * parallel.workers
    with blocks_of(data, n_parts, n_blocks, memory_limit, random_state, usual) as blocks:
        start.check(n_parts, blocks, polish)
        parallel.check(blocks.n_blocks, start.extra_passes)
        offset = 0 if previous is None else previous.n_data_seen
        given = _checked_weights(weights, blocks.n_data)
        settings = Settings(n_parts, given, offset, bool(compare), random_state)
        run = _Run(blocks, settings, start)
        info: dict[str, Any] = {"method": "parsa", "random_state": random_state}
        info["model"] = model_of(data)
        info |= run.assign(parallel)
        if polish:
            run.polish(epsilon)
        info |= {"shape": (blocks.n_data, blocks.n_parameters), "nnz": blocks.n_edges}
        return run.result(info, started)


@dataclass(frozen=True)
class _Start:
    """The neighbour sets at first."""

    extra_passes: int
    window: int | None
    sample: float
    previous: ParsaResult | None

    def check(self, n_parts: int, blocks: Blocks, polish: bool) -> None:
        if n_parts > blocks.n_data:
            raise InputError(
                f"n_parts is {n_parts}, but there are only {blocks.n_data} data to share out: "
                f"give 1 to {blocks.n_data}"
            )
        if self.extra_passes and blocks.n_blocks < 2:
            raise InputError("extra_passes look at other blocks: give n_blocks of at least 2")
        if self.window is not None:
            whole_number(self.window, "window", least=1, most=max(blocks.n_blocks - 1, 1))
        finite_number(self.sample, "sample", most=1)
        if self.sample and (self.extra_passes or self.previous is not None):
            raise InputError("sample, extra_passes, previous: sample cannot join the others")
        if not isinstance(self.previous, ParsaResult | None):
            raise InputError(f"previous is of type {type(self.previous).__name__}: a ParsaResult")
        if self.previous is not None and self.previous.n_parts != n_parts:
            raise InputError(
                f"previous has {self.previous.n_parts} parts, {n_parts} are asked: "
                "new data can only join the parts that there are"
            )
        if polish and not isinstance(blocks, MemoryBlocks):
            raise InputError("polish needs the whole graph in memory: leave out memory_limit")
        if polish and self.previous is not None:
            raise InputError("polish does not know the old data: leave it out beside previous")


class _Run:
    """A graph on its way to a `ParsaResult`."""

    def __init__(self, blocks: Blocks, settings: Settings, start: _Start) -> None:
        self.blocks, self.settings, self.start = blocks, settings, start
        self.assignment = np.empty(blocks.n_data, np.int32)
        self.weights = np.ones(blocks.n_data, np.int64)
        self.sets = self._old_sets()
        self.by_chance = self._old_sets() if settings.compared else None

    def _old_sets(self) -> NeighbourSets:
        if self.start.previous is not None:
            return self.start.previous.neighbours.widened(self.blocks.n_parameters)
        return NeighbourSets.empty(self.blocks.n_parameters, self.settings.n_parts)

    def assign(self, parallel: Parallel) -> dict[str, Any]:
        """Partition U; what is to be told of it."""
        if self.start.sample:
            seed = self.settings.random_state
            sets = sets_of_sample(self.blocks, self.settings, self.start.sample, seed)
        else:
            sets = self._old_sets()
        if parallel.workers > 1 and self.blocks.n_parameters:  # else a server would hold nothing
            from .parallel import assign_in_parallel  # one worker needs no collectives

            assigned, report = assign_in_parallel(self.blocks, self.settings, sets.bits, parallel)
            self._take(assigned)
            told = {"workers": parallel.workers, "delay": float(parallel.delay)}
            return {**told, "parameter server": report.to_dict()}
        passes = self.start.extra_passes
        if passes:
            window = self.start.window or self.blocks.n_blocks - 1
            self._take(assign_again(self.blocks, self.settings, sets.bits, passes, window))
        else:
            self._take(assign_in_order(self.blocks, self.settings, sets.bits))
        return {}

    def _take(self, assigned_blocks: Iterable[AssignedBlock]) -> None:
        for assigned in assigned_blocks:
            self.assignment[assigned.data] = assigned.assignment
            self.weights[assigned.data] = assigned.weights
            self.sets.include(assigned.parameters, assigned.own)
            if self.by_chance is not None and assigned.by_chance is not None:
                self.by_chance.include(assigned.parameters, assigned.by_chance)

    def polish(self, epsilon: float) -> None:
        """Moves of single data that lower Σ (λ - 1), on a graph in memory."""
        assert isinstance(self.blocks, MemoryBlocks)
        n_parts, graph = self.settings.n_parts, self.blocks.graph
        hypergraph = with_weights(graph.hypergraph(self.weights))
        self.assignment = polish_parts(
            hypergraph,
            self.assignment,
            ConnectivityMinusOne().cost_table(n_parts),
            bounds_of_moves(hypergraph, n_parts, epsilon),
            random_state=self.settings.random_state,
        )
        self.sets = NeighbourSets.empty(graph.n_parameters, n_parts)
        whole = graph.blocks(1).read(0)
        self.sets.add(whole, self.assignment)

    def result(self, info: dict[str, Any], started: float) -> ParsaResult:
        """Partition V, and the report."""
        placement, told = placed(self.sets)
        if self.by_chance is not None:
            told |= compared(told, self.by_chance, self.settings.random_state)
        seconds = working_clock() - started
        partition = Partition(
            self.assignment, self.settings.n_parts, self.weights, {**info, "seconds": seconds}
        )
        report = {
            "data": self.blocks.n_data,
            "parameters": self.blocks.n_parameters,
            "edges": self.blocks.n_edges,
            "parts": self.settings.n_parts,
            "blocks": self.blocks.n_blocks,
            "imbalance": round(partition.imbalance, 4),
            **told,
            "seconds": seconds,
        }
        n_data_seen = self.settings.offset + self.blocks.n_data
        return ParsaResult(
            partition, placement.owners, placement.traffic, self.sets, report, n_data_seen
        )


def _checked_weights(
    weights: ArrayLike | str | None, n_data: int
) -> NDArray[np.int64] | str | None:
    if weights is None or (isinstance(weights, str) and weights == "edges"):
        return weights
    if isinstance(weights, str):
        raise InputError(f"weights is {weights!r}: 'edges', None, or a whole number for each datum")
    return amounts(weights, n_data, "weight")
