"""Parsa on real data: seconds of the whole run, and what it saves over random parts."""

from __future__ import annotations

from functools import cache

import scipy.sparse

import daskpart
from daskpart.parsa.bipartite import Bipartite

from .data import ratings

N_PARTS = 16
WAYS: dict[str, dict] = {
    "whole": {},
    "8 blocks": {"n_blocks": 8},
    "8 blocks, extra pass": {"n_blocks": 8, "extra_passes": 1},
    "polished": {"polish": True},
}


@cache
def bipartite(name: str) -> Bipartite:
    """Rows as data, columns as parameters."""
    rows, columns, values = ratings(name)
    return Bipartite.from_matrix(scipy.sparse.coo_array((values, (rows, columns))))


class Placing:
    """16 parts, from a graph in memory."""

    params = (["gowalla", "imdb-bow", "ego-twitter"], list(WAYS))
    param_names = ("data", "way")
    timeout = 300

    def setup(self, data: str, way: str) -> None:
        """The graph, and compiled kernels."""
        self.graph, self.how = bipartite(data), WAYS[way]
        daskpart.parsa.partition(self.graph.hypergraph(), 2, **self.how)

    def time_parsa(self, *case: object) -> None:
        """Parts and placement, without the random parts."""
        daskpart.parsa.partition(self.graph, N_PARTS, compare=False, **self.how)

    def track_improvement_of_largest_memory(self, *case: object) -> float:
        """(random - x) / x of the largest neighbour set."""
        return self._told()["improvement: memory, maximum"]

    def track_improvement_of_largest_traffic(self, *case: object) -> float:
        """(random - x) / x of the busiest part's traffic."""
        return self._told()["improvement: traffic, maximum"]

    def track_traffic_over_bound(self, *case: object) -> float:
        """Maximal traffic over the least that any placement could have; 1 is the optimum."""
        told = self._told()
        return told["traffic, maximum"] / told["traffic, bound"]

    def _told(self) -> dict:
        return daskpart.parsa.partition(self.graph, N_PARTS, **self.how).to_dict()
