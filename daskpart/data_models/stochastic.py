"""The stochastic model: nets of sampled mini-batches, so that expected traffic is what is cut.

    mini-batch 1   net of source j: {targets that need j} ∪ {j}   ┐
    mini-batch 2   …                                              ├─▶ one hypergraph over all
    mini-batch b   …                                              ┘   vertices (Algorithm 3)

The mean connectivity of these nets is within θ of that of a net drawn at random, with probability
1 - δ, once there are (K - 1)² / (2 θ²) ln(2 / δ) of them (Hoeffding; eq. 14): that sets b.

Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022, section 4.3.3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from daskpart._checks import whole_number
from daskpart.containers import as_coo
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph, from_incidence

from .matrix_models import column_net_self_loops
from .model import DataModel
from .samplers import Adjacency, Layer, Sampler, VertexSampler


def nets_needed(n_parts: int, theta: float, delta: float) -> int:
    """How many nets estimate the mean connectivity within θ with probability 1 - δ (eq. 14).

    Parameters
    ----------
    n_parts : int
    theta : float
        Error of the mean connectivity, above 0.
    delta : float
        Probability that the error is larger, between 0 and 1.

    Raises
    ------
    InputError
        A value out of these ranges.
    """
    n_parts = whole_number(n_parts, "n_parts", least=1)
    if not (isinstance(theta, int | float) and 0 < theta < math.inf):
        raise InputError(f"theta is {theta!r}: give an error of the mean connectivity above 0")
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise InputError(f"delta is {delta!r}: give a probability between 0 and 1")
    return max(1, math.ceil((n_parts - 1) ** 2 / (2 * theta**2) * math.log(2 / delta)))


def stochastic(
    matrix: Any,
    n_parts: int,
    *,
    sampler: Sampler | None = None,
    theta: float = 0.1,
    delta: float = 0.5,
    n_batches: int | None = None,
    random_state: int = 0,
) -> DataModel:
    """Vertices as `column_net_self_loops`; nets of as many mini-batches as the bound asks for.

    Parameters
    ----------
    matrix : container
        A graph, square; row i says whose features vertex i needs.
    n_parts : int
        How many parts it will be cut into: the bound depends on it.
    sampler : Sampler, optional
        What a mini-batch is: `VertexSampler` (the default), `NeighbourSampler`, `LayerSampler`, or
        an object with their method.
    theta, delta : float
        As in `nets_needed`; the defaults are the paper's (section 5).
    n_batches : int, optional
        So many mini-batches, whatever the bound.
    random_state : int
        Same number, same mini-batches.

    Returns
    -------
    DataModel
        Every vertex of the graph is in it, drawn or not. ``facts["batches"]`` tells b, so
        ``Connectivity.connectivity_minus_one() / b`` is the mean volume of a mini-batch's expand.

    Raises
    ------
    InputError
        The matrix is not square, or an option is out of range.
    """
    entries = as_coo(matrix)
    whole = column_net_self_loops(entries)
    n_parts = whole_number(n_parts, "n_parts", least=1, most=whole.hypergraph.n_vertices)
    needed = nets_needed(n_parts, theta, delta)
    if n_batches is not None:
        n_batches = whole_number(n_batches, "n_batches", least=1)
    seed = whole_number(random_state, "random_state", least=0, most=2**63 - 1)
    chosen: Sampler = VertexSampler() if sampler is None else sampler
    graph, generator = Adjacency.of(entries), np.random.default_rng(seed)
    layers: list[Layer] = []
    n_drawn, n_nets = 0, 0
    while n_drawn < n_batches if n_batches is not None else n_nets < needed:
        drawn = chosen.draw(graph, generator)
        layers += drawn
        n_drawn += 1
        n_nets += _size(drawn, n_nets)
    hypergraph = replace(
        _merged(layers, graph.n_vertices), vertex_weights=whole.hypergraph.vertex_weights
    )
    facts = {"batches": n_drawn, "theta": theta, "delta": delta, "sampler": repr(chosen)}
    return replace(whole, hypergraph=hypergraph, name="stochastic", facts=facts)


def _size(layers: list[Layer], n_nets: int) -> int:
    """Nets of a mini-batch, if there are any and they can be numbered after `n_nets` others."""
    size = sum(len(layer.vertices) for layer in layers)
    if not size:
        raise InputError("the sampler drew a mini-batch without a vertex: each needs one at least")
    if n_nets + size > np.iinfo(np.int32).max:
        raise InputError(
            f"mini-batches of {size} nets are too many for 32-bit numbers: "
            "use a larger theta, or fewer mini-batches (n_batches)"
        )
    return size


def _merged(layers: list[Layer], n_vertices: int) -> Hypergraph:
    """A net for each source of each layer: the source itself, and the targets that need it."""
    pins, nets, n_nets = [], [], 0
    place = np.empty(n_vertices, np.int32)
    for layer in layers:
        own = np.arange(n_nets, n_nets + len(layer.vertices), dtype=np.int32)
        place[layer.vertices] = own
        pins += [layer.vertices, layer.targets]
        nets += [own, place[layer.sources]]
        n_nets += len(own)
    return from_incidence(np.concatenate(pins), np.concatenate(nets), n_vertices, n_nets)
