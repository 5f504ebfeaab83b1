"""What `refine` can make small: for each metric how it is measured, and what lowers it.

connectivity, cut-net, power      Σ cost × cost_table[λ]      polish
max-connectivity                  λ_max, then nets at λ_max   polish by a table that rises at λ_max
concurrent-volume                 bits of the part numbers    renumber, bits
routed-volume, busiest-volume     rows in a hypercube         renumber, loads
max-send-volume, max-volume       rows of a rank              loads
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.engine import Engine
from daskpart.partitioners.label_propagation import polish
from daskpart.partitioners.multilevel import v_cycle
from daskpart.partitioners.objectives import Objective, PowerConnectivity, objective_named
from daskpart.partitioners.relief import relieve
from daskpart.partitions import Partition

from .bits import lower_concurrent_volume
from .loads import BUSIEST, MAX_BOTH, MAX_SEND, ROUTED, LoadMetric, lower_loads
from .renumber import renumbered

_NEAR_THE_TOP = 3  # levels below λ_max that pay more than their λ²; at least λ_max / 16
_LARGEST_COST = 2.0**36
_TRIES = 3


@dataclass(frozen=True)
class Job:
    """Where a refinement starts and what it must keep.

    Parameters
    ----------
    hypergraph : Hypergraph
    partition : Partition
    bounds : (int, int64[n_weights])
        No part shrinks below the first weight or grows past the second, in each of
        `balance.columns`.
    even : bool
        False: parts may be emptied down to one vertex.
    owner_vertices : int64[n_nets] or none
        The vertex that owns each net; else owners are packed.
    engine : Engine
        Maps parts onto ranks.
    random_state : int
    fixed : int32[n_vertices] or None
        Vertices with a part here (not -1) stay where they are.
    max_rounds : int
    cycles : int
        V-cycles before the polish, of all but "max-connectivity".
    """

    hypergraph: Hypergraph
    partition: Partition
    bounds: tuple[int, NDArray[np.int64]]
    even: bool
    owner_vertices: NDArray[np.int64]
    engine: Engine
    random_state: int
    fixed: NDArray[np.int32] | None
    max_rounds: int
    cycles: int

    @property
    def bounds_of_one(self) -> tuple[int, int]:
        """The bounds, for what looks at one weight a vertex."""
        return self.bounds[0], int(self.bounds[1][0])

    def cycled(self, partition: Partition, cost_table: NDArray[np.int64]) -> Partition:
        """V-cycles of our own engine that lower Σ cost × cost_table[λ]."""
        assignment = v_cycle(
            self.hypergraph,
            partition.assignment,
            cost_table,
            self.bounds,
            random_state=self.random_state,
            fixed=self.fixed,
            max_cycles=self.cycles,
        )
        return replace(partition, assignment=assignment)

    def polished(self, partition: Partition, cost_table: NDArray[np.int64]) -> Partition:
        """Single-vertex moves that lower Σ cost × cost_table[λ]."""
        assignment = polish(
            self.hypergraph,
            partition.assignment,
            cost_table,
            self.bounds,
            random_state=self.random_state,
            fixed=self.fixed,
            max_rounds=self.max_rounds,
        )
        return replace(partition, assignment=assignment)

    def relieved(self, partition: Partition, cost_table: NDArray[np.int64]) -> Partition:
        """Parts emptied down to one vertex where that is allowed and pays."""
        if self.even:
            return partition
        most = self.bounds_of_one[1]
        assignment = relieve(self.hypergraph, partition.assignment, cost_table, most, self.fixed)
        return replace(partition, assignment=assignment)

    def renumbered(self, measure: Callable[..., float]) -> Partition:
        """The start under the numbers that measure least; as it is where vertices are fixed."""
        if self.fixed is not None:
            return self.partition
        return renumbered(
            self.hypergraph,
            self.partition,
            lambda found: measure(self.hypergraph, found, self.owner_vertices),
            self.engine,
            self.random_state,
        )


@dataclass(frozen=True)
class Goal:
    """A metric of a partition.

    Parameters
    ----------
    measure : callable
        (hypergraph, partition, owner_vertices) → the metric, a number.
    lower : callable
        Job → a partition; it may be worse than the start, who asks has to compare.
    """

    measure: Callable[[Hypergraph, Partition, NDArray[np.int64]], float]
    lower: Callable[[Job], Partition]


def table_goal(objective: Objective) -> Goal:
    """Σ cost × cost_table[λ] for the objective's cost_table."""

    def measure(hypergraph: Hypergraph, partition: Partition, _: NDArray[np.int64]) -> float:
        pairs = Connectivity.from_partition(hypergraph, partition)
        if isinstance(objective, PowerConnectivity):  # its table is rounded where ρ is no whole
            return pairs.power(objective.rho)
        return int(
            (pairs.costs * objective.cost_table(partition.n_parts)[pairs.connectivity]).sum()
        )

    def lower(job: Job) -> Partition:
        cost_table = objective.cost_table(job.partition.n_parts)
        cycled = job.cycled(job.partition, cost_table)
        return job.relieved(job.polished(cycled, cost_table), cost_table)

    return Goal(measure, lower)


def _highest(hypergraph: Hypergraph, partition: Partition) -> tuple[int, int]:
    """λ_max, and the nets of that λ."""
    level = Connectivity.from_partition(hypergraph, partition).connectivity
    highest = int(level.max(initial=0))
    return highest, int((level == highest).sum())


def _lower_highest(job: Job) -> Partition:
    """Costs that rise steeply below λ_max, and again below the new one as long as it falls."""
    n_parts, best = job.partition.n_parts, job.partition
    least = _highest(job.hypergraph, best)
    levels = np.arange(n_parts + 1, dtype=np.float64)
    for _ in range(_TRIES):
        above = np.maximum(levels - (least[0] - max(_NEAR_THE_TOP, least[0] // 16)), 0)
        steep = levels**2 + n_parts**2 * above**3
        cost_table = (steep * min(1.0, _LARGEST_COST / steep[-1])).astype(np.int64)
        cost_table[:2] = 0
        found = job.relieved(job.polished(best, cost_table), cost_table)
        reached = _highest(job.hypergraph, found)
        if reached >= least:
            break
        best, least = found, reached
    return best


def _max_connectivity(hypergraph: Hypergraph, partition: Partition, _: NDArray[np.int64]) -> int:
    return _highest(hypergraph, partition)[0]


def _concurrent(hypergraph: Hypergraph, partition: Partition, _: NDArray[np.int64]) -> int:
    return Connectivity.from_partition(hypergraph, partition).concurrent_volume()


def _lower_concurrent(job: Job) -> Partition:
    start = job.renumbered(_concurrent)
    assignment = lower_concurrent_volume(
        job.hypergraph,
        start.assignment,
        start.n_parts,
        job.bounds_of_one,
        random_state=job.random_state,
        fixed=job.fixed,
        max_rounds=job.max_rounds,
    )
    return replace(start, assignment=assignment)


def _load_goal(metric: LoadMetric) -> Goal:
    def lower(job: Job) -> Partition:
        start = job.renumbered(metric.measure) if metric.hypercube else job.partition
        return lower_loads(job, start, metric)

    return Goal(metric.measure, lower)


GOALS = {
    "max-connectivity": Goal(_max_connectivity, _lower_highest),
    "concurrent-volume": Goal(_concurrent, _lower_concurrent),
    "routed-volume": _load_goal(ROUTED),
    "busiest-volume": _load_goal(BUSIEST),
    "max-send-volume": _load_goal(MAX_SEND),
    "max-volume": _load_goal(MAX_BOTH),
}
TABLES = ("connectivity", "cut-net", "power")
METRICS = (*TABLES, *GOALS)
OF_SEVERAL_WEIGHTS = (*TABLES, "max-connectivity")  # what only moves by tables lower


def goal_named(metric: str, rho: float) -> Goal:
    """The goal of that name; ρ is that of "power"."""
    return table_goal(objective_named(metric, rho)) if metric in TABLES else GOALS[metric]
