"""Moves of single vertices that lower what ranks send: in all, or what the busiest of them sends.

    metric               ways         a load is                    made small
    routed-volume        hypercube    rows sent                    their sum
    busiest-volume       hypercube    rows sent and received       the largest of each round, summed
    max-send-volume      straight     rows sent                    the largest
    max-volume           straight     rows sent and received       the largest

A largest load says nothing of moves between other ranks, so the search lowers Σ (load / mean)^p
with a p that rises, up to 8, and the partition with the smallest largest load is kept. Owners are
packed anew before each p, as in `daskpart.owners` (by rows sent alone where only those count; a net
of two parts by what both count), and in between go with the last vertex of their part; or the owner
of each net is a vertex, wherever that goes (as in a graph network, where column j belongs to vertex
j).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart._metrics import give_to_least_loaded
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.owners import embedded_packed_owners
from daskpart.owners.routes import n_dimensions
from daskpart.partitioners.balance import is_free
from daskpart.partitioners.pin_counts import pin_counts
from daskpart.partitioners.rounds import WORTH_ANOTHER_ROUND
from daskpart.partitions import Partition

from .routes import Rows, loads_of, offer_round

if TYPE_CHECKING:
    from .goals import Job

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class LoadMetric:
    """A metric over the loads of ranks.

    Parameters
    ----------
    hypercube : bool
        Whether rows travel in the rounds of a hypercube allreduce; else straight.
    received : bool
        Whether a row received loads a rank as one sent does.
    powers : tuple of int
        Powers of a load that the search lowers the sum of, one after the other.
    summed : bool
        Whether all loads count; else the largest of each round.
    """

    hypercube: bool
    received: bool
    powers: tuple[int, ...]
    summed: bool

    def form(self, n_parts: int, power: int) -> tuple[int, int, int]:
        """What the kernels of `routes` take."""
        dimensions = n_dimensions(n_parts) if self.hypercube else -1
        return dimensions, int(self.received), power

    def owners(
        self, connectivity: Connectivity, partition: Partition, owner_vertices: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """The owner of each net: where its vertex is, else packed."""
        if len(owner_vertices):
            return partition.assignment[owner_vertices]
        if self.hypercube:
            packed = embedded_packed_owners([connectivity])[0].owners
            assert packed is not None
            return packed
        # rows of two parts, too, to the one that moves least: there is room where a third joins
        level, pairs = connectivity.connectivity, (connectivity.pointer, connectivity.parts)
        costs, load = connectivity.costs, np.zeros(connectivity.n_parts, np.int64)
        added, order = costs * (level - 1), np.argsort(-level, kind="stable")
        if self.received:
            np.add.at(load, connectivity.parts, np.repeat(costs, level))
            added, order = costs * (level - 2), np.argsort(-costs * level, kind="stable")
        owners = np.full(len(level), -1, np.int32)
        give_to_least_loaded(*pairs, order, added, load, owners)
        return owners

    def loads(
        self,
        hypergraph: Hypergraph,
        partition: Partition,
        owner_vertices: NDArray[np.int64] = _NONE,
    ) -> NDArray[np.int64]:
        """Rows (times the net's cost) of each rank in each round, int64[n_rounds, n_parts]."""
        pairs = Connectivity.from_partition(hypergraph, partition)
        owners = self.owners(pairs, partition, owner_vertices)
        form = self.form(partition.n_parts, 1)
        return loads_of(pairs.pointer, pairs.parts, pairs.costs, owners, partition.n_parts, form)

    def measure(
        self,
        hypergraph: Hypergraph,
        partition: Partition,
        owner_vertices: NDArray[np.int64] = _NONE,
    ) -> int:
        """The metric."""
        return self.of(self.loads(hypergraph, partition, owner_vertices))

    def of(self, loads: NDArray[np.int64]) -> int:
        """The metric of given loads."""
        return int(loads.sum() if self.summed else loads.max(axis=1).sum())


ROUTED = LoadMetric(hypercube=True, received=False, powers=(1,), summed=True)
BUSIEST = LoadMetric(hypercube=True, received=True, powers=(2, 4), summed=False)
MAX_SEND = LoadMetric(hypercube=False, received=False, powers=(1, 2, 4, 8), summed=False)
MAX_BOTH = LoadMetric(hypercube=False, received=True, powers=(1, 2, 4, 8), summed=False)


class LoadSearch:
    """Vertices on the move, with slots, owners and loads that follow.

    Parameters
    ----------
    hypergraph : Hypergraph
    partition : Partition
        Where to start; it is not changed.
    metric : LoadMetric
    power : int
    owner_vertices : int64[n_nets] or none
        The vertex that owns each net, one of its pins.
    """

    def __init__(
        self,
        hypergraph: Hypergraph,
        partition: Partition,
        metric: LoadMetric,
        power: int,
        owner_vertices: NDArray[np.int64] = _NONE,
    ) -> None:
        self.hypergraph, self.assignment = hypergraph, partition.assignment.copy()
        self.room = partition.part_weights.copy()
        pairs = Connectivity.from_partition(hypergraph, partition)
        owners = metric.owners(pairs, partition, owner_vertices).copy()
        form = metric.form(partition.n_parts, power)
        load = loads_of(pairs.pointer, pairs.parts, pairs.costs, owners, partition.n_parts, form)
        scale = 1.0 / max(float(load.mean()), 1.0)
        slots = pin_counts(hypergraph, partition)
        self.rows = Rows(pairs.costs, owners, owner_vertices, load, form, scale, *slots)
        self.cost_table = np.maximum(np.arange(partition.n_parts + 1) - 1, 0)

    def objective(self) -> float:
        """Σ (load × scale)^power."""
        return float(((self.rows.load * self.rows.scale) ** self.rows.form[2]).sum())

    def offer(self, order: NDArray[np.int64], bounds: tuple[int, int]) -> int:
        """Offer each vertex of `order` its best candidate once; returns how many moved."""
        nets = self.hypergraph
        return offer_round(
            order,
            nets.vertex_pointer,
            nets.nets,
            nets.vertex_weights,
            self.cost_table,
            self.assignment,
            self.room,
            *bounds,
            self.rows,
        )


def lower_loads(job: Job, start: Partition, metric: LoadMetric) -> Partition:
    """Lower a metric of the loads by moves of single vertices; never worse than the start.

    For each power at most ``job.max_rounds`` rounds; one takes, for each pin, about λ steps for
    each of at most 6 + log2 K candidates.
    """
    hypergraph, owner_vertices = job.hypergraph, job.owner_vertices
    free = np.flatnonzero(is_free(job.fixed, hypergraph.n_vertices))
    rng = np.random.default_rng(job.random_state)
    best, least = start, metric.measure(hypergraph, start, owner_vertices)
    current = start
    for power in metric.powers:
        search = LoadSearch(hypergraph, current, metric, power, owner_vertices)
        before = search.objective()
        for _ in range(job.max_rounds):
            if search.offer(rng.permutation(free), job.bounds_of_one) == 0:
                break
            current = replace(start, assignment=search.assignment.copy())
            value = metric.measure(hypergraph, current, owner_vertices)
            if value < least:
                best, least = current, value
            after = search.objective()
            if before - after <= WORTH_ANOTHER_ROUND * after:
                break
            before = after
    return best
