"""Hypergraphs and partitions: seconds to build and measure 10⁷ pins, and what partitioners reach.

`Quality` makes the table of the docs: random, METIS, direct and the recursive power-connectivity
on ratings, each with its metrics, one number a case. λ_max reaches K quickly where most users rate
the same few items (on ml-1m it is 64 = K with any engine); `track_items_in_every_part` tells more.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import scipy.sparse

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .data import ratings

METHODS = ("random", "block", "metis", "direct", "recursive")


@cache
def power_law_matrix(n_pins: int = 10_000_000) -> scipy.sparse.csr_array:
    """100,000 × 20,000 pattern, about n_pins nonzeros, columns as skewed as items are."""
    rng = np.random.default_rng(0)
    columns = (20_000 * rng.random(n_pins) ** 3).astype(np.int32)
    rows = rng.integers(0, 100_000, n_pins, dtype=np.int32)
    matrix = scipy.sparse.coo_array(
        (np.ones(n_pins, np.float32), (rows, columns)), shape=(100_000, 20_000)
    )
    return matrix.tocsr()


class Build:
    """A column-net hypergraph from a CSR matrix of 10⁷ entries."""

    def setup(self) -> None:
        """The matrix, and the kernels compiled."""
        self.matrix = power_law_matrix()
        Hypergraph.column_net(self.matrix[:100])

    def time_column_net(self) -> None:
        """One counting pass over the rows, one over the columns."""
        Hypergraph.column_net(self.matrix)

    def peakmem_input_only(self) -> None:
        """What the process holds without the hypergraph: take it off the next."""

    def peakmem_column_net(self) -> None:
        """Matrix, conversion and hypergraph."""
        self.hypergraph = Hypergraph.column_net(self.matrix)


class Metrics:
    """Connectivity of a random partition of 10⁷ pins, then every metric."""

    params = (8, 64, 512, 4096)
    param_names = ("n_parts",)

    def setup(self, n_parts: int) -> None:
        """The hypergraph, the partition, and the kernels compiled."""
        self.hypergraph = Hypergraph.column_net(power_law_matrix())
        parts = np.random.default_rng(0).integers(0, n_parts, self.hypergraph.n_vertices)
        self.partition = Partition(parts, n_parts, self.hypergraph.vertex_weights)
        self.connectivity = Connectivity.from_partition(self.hypergraph, self.partition)
        self.time_metrics(n_parts)

    def time_connectivity(self, n_parts: int) -> None:
        """One pass over the pins."""
        Connectivity.from_partition(self.hypergraph, self.partition)

    def time_metrics(self, n_parts: int) -> None:
        """Everything that is read off the incidence, owners included."""
        found = self.connectivity
        found.cut_net(), found.connectivity_minus_one(), found.soed(), found.power(2)
        found.max_connectivity(), found.histogram(), found.concurrent_volume()
        found.pasgd_volume(8), found.pasgd_staleness(8)
        found.with_random_owners().rank_volume()
        found.with_packed_owners().rank_volume()


@cache
def partitioned(data: str, n_parts: int, method: str) -> tuple[Partition, Connectivity]:
    """A partition of ratings by power-connectivity (ρ = 2; METIS by its own), made once for all."""
    rows, columns, values = ratings(data)
    hypergraph = Hypergraph.column_net(scipy.sparse.coo_array((values, (rows, columns))))
    objective = "connectivity" if method == "metis" else "power"
    daskpart.partition(hypergraph, 2, objective, method=method)  # compiles
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        result = daskpart.partition(hypergraph, n_parts, objective, method=method)
    return result, Connectivity.from_partition(hypergraph, result)


class Quality:
    """Metrics of partitions of real ratings."""

    params = (["ml-1m", "gowalla"], [8, 64, 512], list(METHODS))
    param_names = ("data", "n_parts", "method")
    timeout = 1200

    def setup(self, data: str, n_parts: int, method: str) -> None:
        """The partition, kept between the numbers."""
        self.partition, self.connectivity = partitioned(data, n_parts, method)

    def track_seconds(self, *case: object) -> float:
        """To partition, kernels compiled."""
        return self.partition.info["seconds"]

    def track_overhead_of_recursion(self, *case: object) -> float:
        """Share of the recursion that is not spent in bipartition calls."""
        info = self.partition.info
        if "engine_seconds" not in info:
            raise NotImplementedError("not recursive")
        return 1 - info["engine_seconds"] / info["recursion_seconds"]

    def track_imbalance(self, *case: object) -> float:
        """Heaviest part over the mean, less 1."""
        return self.partition.imbalance

    def track_connectivity_minus_one(self, *case: object) -> float:
        """Σ (λ - 1)."""
        return self.connectivity.connectivity_minus_one()

    def track_sum_of_squares(self, *case: object) -> float:
        """Σ λ² over the cut nets."""
        return self.connectivity.power(2)

    def track_max_connectivity(self, *case: object) -> float:
        """λ_max."""
        return self.connectivity.max_connectivity()

    def track_items_in_every_part(self, *case: object) -> float:
        """Items with λ = K."""
        return self.connectivity.histogram()[-1]

    def track_volume_at_eta_8(self, *case: object) -> float:
        """Rows an epoch (eq. 8)."""
        return self.connectivity.pasgd_volume(8)

    def track_staleness_at_eta_8(self, *case: object) -> float:
        """Stale rows used an epoch (eq. 9)."""
        return self.connectivity.pasgd_staleness(8)

    track_seconds.unit = "s"  # type: ignore[attr-defined]
