"""Our own partitioning engine against Mt-KaHyPar DEFAULT: connectivity - 1 and CPU seconds.

ε = 0.03 for both, one thread each, the same seed. CPU seconds, not wall clock: Mt-KaHyPar runs in
a child process (its start, some tenths of a second, is part of what a user pays and is counted).
"""

from __future__ import annotations

import resource
import time
from functools import cache

import numpy as np
import scipy.sparse

from daskpart.connectivity import Connectivity
from daskpart.errors import EngineError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.engine import Engine, get_engine
from daskpart.partitions import Partition

from .data import data_folder, ratings

EPSILON, SEED = 0.03, 1


@cache
def instance(data: str) -> Hypergraph:
    """Column-net hypergraph of a rating matrix, or of A + I of a graph."""
    if data not in ("coauthor-physics", "amazon-photo"):
        rows, columns, values = ratings(data)
        return Hypergraph.column_net(scipy.sparse.coo_array((values, (rows, columns))))
    with np.load(data_folder() / "graphs" / f"{data}.npz") as graph:
        n = int(graph["n_nodes"])
        ones = np.ones(graph["adj_indices"].size)
        adjacency = scipy.sparse.csr_array(
            (ones, graph["adj_indices"], graph["adj_indptr"]), (n, n)
        )
    return with_self_loops(adjacency)


def with_self_loops(adjacency: scipy.sparse.sparray) -> Hypergraph:
    """Column-net hypergraph of A + I."""
    return Hypergraph.column_net(adjacency + scipy.sparse.eye_array(adjacency.shape[0]))


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that ended."""
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + child.ru_utime + child.ru_stime


def solve(hypergraph: Hypergraph, n_parts: int, engine: Engine) -> tuple[int, float, float]:
    """(connectivity - 1, CPU seconds, imbalance) of one engine."""
    begin = cpu_seconds()
    part = engine.partition(hypergraph, n_parts, EPSILON, SEED)
    seconds = cpu_seconds() - begin
    partition = Partition(part, n_parts, hypergraph.vertex_weights)
    found = Connectivity.from_partition(hypergraph, partition)
    return found.connectivity_minus_one(), seconds, partition.imbalance


@cache
def solved(data: str, n_parts: int, name: str) -> tuple[int, float, float]:
    """What `solve` says of an instance; our engine has been compiled before."""
    try:
        engine = get_engine(name)
    except EngineError as error:
        raise NotImplementedError(str(error)) from error
    if name == "multilevel":
        few = Hypergraph.from_nets([0, 2, 4], [0, 1, 1, 2], 3)
        engine.partition(few, 2, EPSILON, SEED)  # compiles
        engine.bipartition(instance("ml-1m"), _halves(instance("ml-1m")), EPSILON, None, SEED)
    return solve(instance(data), n_parts, engine)


def _halves(hypergraph: Hypergraph) -> np.ndarray:
    total = hypergraph.total_weight
    return np.array([total // 2, total - total // 2])


class Engines:
    """Direct K-way partitions by both engines, each solved once for all its numbers."""

    params = (["ml-1m", "gowalla", "coauthor-physics"], [8, 64])
    param_names = ("data", "n_parts")
    timeout = 1200

    def setup(self, data: str, n_parts: int) -> None:
        """Both partitions, kept between the numbers."""
        self.ours = solved(data, n_parts, "multilevel")
        self.theirs = solved(data, n_parts, "mtkahypar")

    def track_connectivity_minus_one(self, *case: object) -> int:
        """Of our engine."""
        return self.ours[0]

    def track_connectivity_ratio(self, *case: object) -> float:
        """Ours over theirs; the aim is 1.02 at most."""
        return self.ours[0] / self.theirs[0]

    def track_cpu_seconds(self, *case: object) -> float:
        """Of our engine."""
        return self.ours[1]

    def track_cpu_ratio(self, *case: object) -> float:
        """Ours over theirs; the aim is about a quarter."""
        return self.ours[1] / self.theirs[1]

    def track_imbalance(self, *case: object) -> float:
        """Of our partition; at most ε."""
        return self.ours[2]


class EngineMemory:
    """Peak memory of a process that reads an instance and partitions it, and of one that reads."""

    params = (["gowalla", "coauthor-physics"], [8, 64])
    param_names = ("data", "n_parts")

    def setup(self, data: str, n_parts: int) -> None:
        """Read, and compile, so that both are in both numbers."""
        self.hypergraph = instance(data)
        few = Hypergraph.from_nets([0, 2, 4], [0, 1, 1, 2], 3)
        get_engine("multilevel").partition(few, 2, EPSILON, SEED)

    def peakmem_before(self, *case: object) -> None:
        """What is there before the engine begins."""

    def peakmem_partition(self, data: str, n_parts: int) -> None:
        """With the engine's own arrays."""
        get_engine("multilevel").partition(self.hypergraph, n_parts, EPSILON, SEED)
