"""Partitioners on ratings: seconds, λ_max, Σλ², connectivity − 1, volume and staleness.

One number a case; `python -m benchmarks.studies.partitions` writes them as one table. The metrics
that the η-PASGD paper plots are those at η = 8 here and over all η in `benchmarks.studies.eta`.
"""

from __future__ import annotations

from functools import cache

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.partitions import Partition

from . import data
from .studies.problem import connectivity_of, matrix

ETA = 8
COMPARED = ("RAND", "METIS", "HP, λ−1", "HP-λ²")


@cache
def hypergraph(name: str) -> daskpart.Hypergraph:
    """Users as vertices, items as nets, of all ratings."""
    triples = data.ratings(name)
    shape = (int(triples[0].max()) + 1, int(triples[1].max()) + 1)
    return daskpart.Hypergraph.column_net(matrix(triples, shape))


@cache
def partitioned(name: str, n_parts: int, method: str) -> tuple[Partition, Connectivity]:
    """A partition, made once for all its numbers, kernels compiled before."""
    connectivity_of(hypergraph(name), 2, method)
    return connectivity_of(hypergraph(name), n_parts, method)


class PartitionersOnRatings:
    """What each partitioner reaches, and how long it takes."""

    params = (["ml-1m", "gowalla"], [8, 64, 512], list(COMPARED))
    param_names = ("data", "n_parts", "method")
    timeout = 1200

    def setup(self, name: str, n_parts: int, method: str) -> None:
        """The partition, kept between the numbers."""
        self.partition, self.connectivity = partitioned(name, n_parts, method)

    def track_seconds(self, *case: object) -> float:
        """To partition, kernels compiled, hypergraph there."""
        return self.partition.info["seconds"]

    def track_max_connectivity(self, *case: object) -> float:
        """λ_max."""
        return self.connectivity.max_connectivity()

    def track_sum_of_squares(self, *case: object) -> float:
        """Σ λ² over the cut nets."""
        return self.connectivity.power(2)

    def track_connectivity_minus_one(self, *case: object) -> float:
        """Σ (λ − 1)."""
        return self.connectivity.connectivity_minus_one()

    def track_volume_at_eta_8(self, *case: object) -> float:
        """Rows sent an epoch (eq. 8)."""
        return self.connectivity.pasgd_volume(ETA)

    def track_staleness_at_eta_8(self, *case: object) -> float:
        """Stale rows used an epoch (eq. 9)."""
        return self.connectivity.pasgd_staleness(ETA)

    track_seconds.unit = "s"  # type: ignore[attr-defined]
