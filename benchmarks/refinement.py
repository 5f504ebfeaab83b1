"""Refinement and hypercube mapping: seconds, and what comes out."""

from __future__ import annotations

import warnings
from functools import cache

import scipy.sparse

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning
from daskpart.owners import embedded_packed_owners, packed_owners

from .data import ratings

METRICS = (
    "power", "max-connectivity", "concurrent-volume", "routed-volume", "busiest-volume",
    "max-send-volume", "max-volume",
)  # fmt: skip


@cache
def instance(data: str) -> daskpart.Hypergraph:
    """Column-net hypergraph of a rating matrix."""
    rows, columns, values = ratings(data)
    return daskpart.Hypergraph.column_net(scipy.sparse.coo_array((values, (rows, columns))))


@cache
def start(data: str, n_parts: int, method: str) -> daskpart.Partition:
    """What is refined: no polish, as in the papers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        return daskpart.partition(instance(data), n_parts, method=method, polish=False)


class Refining:
    """Each metric, from recursive bipartitioning."""

    params = (METRICS, ["ml-100k"], [16])
    param_names = ("metric", "data", "n_parts")
    timeout = 300

    def setup(self, metric: str, data: str, n_parts: int) -> None:
        self.track_what_is_left(metric, data, n_parts)  # compiles

    def time_refine(self, metric: str, data: str, n_parts: int) -> None:
        daskpart.refine(instance(data), start(data, n_parts, "recursive"), metric)

    def track_what_is_left(self, metric: str, data: str, n_parts: int) -> float:
        """The metric afterwards, against before."""
        found = daskpart.refine(instance(data), start(data, n_parts, "recursive"), metric)
        return found.info["metric_after"] / max(found.info["metric_before"], 1)


class Mapping:
    """Parts as ranks of a hypercube, and the owners of what they share."""

    params = (["ml-100k"], [16])
    param_names = ("data", "n_parts")

    def setup(self, data: str, n_parts: int) -> None:
        mapped = start(data, n_parts, "hypercube")
        self.connectivity = Connectivity.from_partition(instance(data), mapped)
        self.time_owners_embedded(data, n_parts)
        self.time_owners_point_to_point(data, n_parts)  # both compile

    def time_mapping(self, data: str, n_parts: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BalanceWarning)
            daskpart.partition(instance(data), n_parts, method="hypercube", polish=False)

    def time_owners_embedded(self, data: str, n_parts: int) -> None:
        embedded_packed_owners([self.connectivity])

    def time_owners_point_to_point(self, data: str, n_parts: int) -> None:
        packed_owners([self.connectivity])

    def track_concurrent_volume(self, data: str, n_parts: int) -> int:
        """Of the mapping."""
        return self.connectivity.concurrent_volume()
