"""Hypergraphs of nets that are listed, or drawn at random; and what a cut of them costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskpart.hypergraph import Hypergraph


def hypergraph_of(nets: Sequence[Any], n_vertices: int, **options: Any) -> Hypergraph:
    pointer = np.cumsum([0, *(len(net) for net in nets)])
    return Hypergraph.from_nets(
        pointer, [pin for net in nets for pin in net], n_vertices, **options
    )


def nets_of(hypergraph: Hypergraph) -> list[list[int]]:
    ends = hypergraph.net_pointer[1:]
    return [net.tolist() for net in np.split(hypergraph.pins, ends)[:-1]]


def random_nets(
    rng: np.random.Generator,
    n_vertices: int,
    n_nets: int,
    sizes: tuple[int, int],
    weights: tuple[int, int] = (1, 2),
    costs: tuple[int, int] = (1, 2),
) -> Hypergraph:
    """Any vertices in a net, also twice; a range is that of `rng.integers`, without its end."""
    lengths = rng.integers(*sizes, n_nets)
    return Hypergraph.from_nets(
        np.concatenate([[0], np.cumsum(lengths)]),
        rng.integers(0, n_vertices, lengths.sum()),
        n_vertices,
        vertex_weights=rng.integers(*weights, n_vertices),
        net_costs=rng.integers(*costs, n_nets),
    )


def random_hypergraph(rng: np.random.Generator, heaviest: int = 4) -> Hypergraph:
    """17 to 59 vertices of weights from 1, and 1 to 39 nets, some of them empty or of cost 0."""
    n_vertices, n_nets = int(rng.integers(17, 60)), int(rng.integers(1, 40))
    return random_nets(rng, n_vertices, n_nets, (0, 12), (1, heaviest + 1), (0, 7))


def paid(hypergraph: Hypergraph, part: np.ndarray, cost_table: np.ndarray) -> int:
    """Straight from the definition: what a net costs, by the number of parts that it meets."""
    return sum(
        int(cost * cost_table[len(set(part[net].tolist()))])
        for net, cost in zip(nets_of(hypergraph), hypergraph.net_costs, strict=True)
    )
