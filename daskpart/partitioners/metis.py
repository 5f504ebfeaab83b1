"""METIS on a graph: the edges themselves, or the star expansion of a hypergraph.

    net {a, b, c}           a   b   c        vertices keep their weights,
                             \\  |  /         the star's centre weighs 0
                               net

On edges that cost the same METIS minimises its communication volume (connectivity - 1 came out 4 to
15 % lower than with its edge cut), which knows no costs; else, or where cut nets are what counts,
the edge cut. On stars it minimises the edge cut: the volume of stars with thousands of rays took 25
times as long (ml-1m, K = 64) for 0.8 %.
Where pymetis has no wheel, the same graph goes to a hypergraph engine as nets of two pins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph

if TYPE_CHECKING:
    from .engine import Engine

try:
    import pymetis
except ImportError:  # no wheel for this platform
    pymetis = None

_INT32 = int(np.iinfo(np.int32).max)


def is_installed() -> bool:
    """Whether pymetis can be used here."""
    return pymetis is not None


def has_stars(hypergraph: Hypergraph) -> bool:
    """Whether a net that costs something has more than two pins."""
    sizes = np.diff(hypergraph.net_pointer)
    return bool((sizes[hypergraph.net_costs > 0] > 2).any())


def two_pin_graph(hypergraph: Hypergraph) -> Hypergraph:
    """The graph that METIS gets, as nets of two pins each: vertices first, then centres of stars.

    A hypergraph without a net of more than two pins is a graph already. Nets that cost nothing are
    left out: to METIS an edge costs 1 at least.
    """
    hypergraph = _without_free_nets(hypergraph)
    sizes = np.diff(hypergraph.net_pointer)
    if not has_stars(hypergraph):
        edges = sizes == 2
        starts = hypergraph.net_pointer[:-1][edges]
        ends = np.stack([hypergraph.pins[starts], hypergraph.pins[starts + 1]], axis=1)
        n_vertices, weights = hypergraph.n_vertices, hypergraph.vertex_weights
        costs = hypergraph.net_costs[edges]
    else:
        centres = hypergraph.n_vertices + np.repeat(np.arange(hypergraph.n_nets), sizes)
        ends = np.stack([hypergraph.pins, centres.astype(np.int32)], axis=1)
        n_vertices = hypergraph.n_vertices + hypergraph.n_nets
        weights = np.append(hypergraph.vertex_weights, np.zeros(hypergraph.n_nets, np.int64))
        costs = np.repeat(hypergraph.net_costs, sizes)
    pointer = np.arange(0, 2 * len(ends) + 1, 2, dtype=np.int64)
    return Hypergraph(n_vertices, pointer, ends.ravel(), weights, costs)


def _without_free_nets(hypergraph: Hypergraph) -> Hypergraph:
    paid = hypergraph.net_costs > 0
    if paid.all():
        return hypergraph
    sizes = np.diff(hypergraph.net_pointer)
    pointer = np.concatenate([[0], np.cumsum(sizes[paid])])
    pins = hypergraph.pins[np.repeat(paid, sizes)]
    return Hypergraph(
        hypergraph.n_vertices, pointer, pins, hypergraph.vertex_weights, hypergraph.net_costs[paid]
    )


def metis_parts(
    hypergraph: Hypergraph,
    n_parts: int,
    epsilon: float,
    random_state: int,
    engine: Engine,
    *,
    edge_cut: bool = False,
) -> NDArray[np.int32]:
    """Cut the graph of a hypergraph with METIS, or with `engine` where pymetis is not installed.

    Parameters
    ----------
    hypergraph : Hypergraph
        Nets of one or two pins are edges; larger ones become stars.
    n_parts : int
    epsilon : float
        Becomes METIS's ufactor, in steps of 0.001.
    random_state : int
    engine : Engine
        Stands in where pymetis is not installed; its `partition` is called.
    edge_cut : bool
        Minimise the edge cut, METIS's default, rather than the communication volume, also where
        all edges cost the same.

    Returns
    -------
    int32[n_vertices]

    Raises
    ------
    InputError
        The graph is too large for the 32-bit indices of METIS.
    """
    graph = two_pin_graph(hypergraph)
    if is_installed():
        costs = graph.net_costs
        costs_alike = len(costs) == 0 or costs.min() == costs.max()
        by_volume = costs_alike and not edge_cut and not has_stars(hypergraph)
        parts = _call_metis(graph, n_parts, epsilon, random_state, by_volume)
    else:
        parts = engine.partition(graph, n_parts, epsilon, random_state)
    return np.asarray(parts, np.int32)[: hypergraph.n_vertices]


def _call_metis(
    graph: Hypergraph, n_parts: int, epsilon: float, random_state: int, by_volume: bool
) -> NDArray[np.int32]:
    if graph.n_pins > _INT32:
        raise InputError(
            f"the graph has {graph.n_nets} edges, METIS takes at most {_INT32 // 2}: "
            "use method='recursive' or 'direct'"
        )
    # every edge seen from both ends: the turned nets, and of each the other pin
    edges = graph.nets
    other = graph.pins[2 * edges.astype(np.int64)] + graph.pins[2 * edges.astype(np.int64) + 1]
    here = np.repeat(np.arange(graph.n_vertices, dtype=np.int32), np.diff(graph.vertex_pointer))
    scale = graph.total_weight // 2**30 + 1  # METIS adds weights in 32 bits
    weights = (graph.vertex_weights // scale).astype(np.int32)
    # of a part without a vertex that weighs METIS tells on the terminal, past Python
    n_parts = min(n_parts, max(1, int(np.count_nonzero(weights))))
    costs_scale = -(-int(graph.net_costs.max(initial=1)) // 2**20)
    options = pymetis.Options(
        seed=random_state % 2**31,
        ufactor=min(max(1, round(1000 * epsilon)), 2**30),
        objtype=pymetis.ObjType.VOL if by_volume else pymetis.ObjType.CUT,
    )
    _, parts = pymetis.part_graph(
        n_parts,
        pymetis.CSRAdjacency(graph.vertex_pointer.astype(np.int32), other - here),
        vweights=weights,
        eweights=np.maximum(graph.net_costs[edges] // costs_scale, 1).astype(np.int32),
        options=options,
        recursive=not by_volume and n_parts <= 8,  # volume is for METIS's k-way only
    )
    return np.asarray(parts, np.int32)
