"""The stochastic model: nets of sampled mini-batches, so that expected traffic is what is cut.

    mini-batch 1   net of source j: {targets that need j} ∪ {j}   ┐
    mini-batch 2   …                                              ├─▶ one hypergraph over all
    mini-batch b   …                                              ┘   vertices (Algorithm 3)

The mean connectivity of these nets is within θ of that of a net drawn at random, with probability
1 - δ, once there are (K - 1)² / (2 θ²) ln(2 / δ) of them (Hoeffding; eq. 14): b is at least that.
The bound is one for a partition that is given. One that is sought to be good on these nets cuts
for nothing what no mini-batch had, so they must also hold the graph's edges several times: with
the bound alone partitions came out twice as bad as those of the whole graph, with eight times the
edges 10 % better.

Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022, section 4.3.3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from daskpart._floor.checks import checked_seed, finite_number, fraction, whole_number
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph, from_incidence

from .matrix_models import column_net_self_loops
from .model import DataModel
from .samplers import Adjacency, Layer, Sampler, VertexSampler

_MOST_FOR_COVERAGE = 10_000
_MOST_NETS = np.iinfo(np.int32).max


def nets_needed(n_parts: int, theta: float, delta: float) -> int:
    """How many nets estimate the mean connectivity within θ with probability 1 - δ (eq. 14).

    Parameters
    ----------
    n_parts : int
    theta : float
        Error of the mean connectivity, above 0.
    delta : float
        Probability that the error is larger, between 0 and 1.

    Returns
    -------
    n_nets : int
        The least that is enough.

    Raises
    ------
    InputError
        A value out of these ranges, or one for which more nets are needed than can be numbered.
    """
    n_parts = whole_number(n_parts, "n_parts", least=1)
    theta, delta = finite_number(theta, "theta", above=True), fraction(delta, "delta")
    squared = 2 * theta * theta or math.ulp(0.0)  # too small for a float is no zero; too large: ∞
    needed = (n_parts - 1) ** 2 / squared * math.log(2 / delta)
    if not needed <= _MOST_NETS:
        raise InputError(
            f"theta is {theta!r}, delta is {delta!r}: with {n_parts} parts that takes "
            f"{needed:.3g} nets, too many for 32-bit numbers: use a larger theta"
        )
    return max(1, math.ceil(needed))


def stochastic(
    matrix: Any,
    n_parts: int,
    *,
    sampler: Sampler | None = None,
    theta: float = 0.1,
    delta: float = 0.5,
    coverage: float = 8,
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
        What a mini-batch is: `VertexSampler`, `NeighbourSampler`, `LayerSampler`, or an object with
        their method. The default takes a tenth of the vertices, two at least.
    theta, delta : float
        As in `nets_needed`; the defaults are the paper's (section 5).
    coverage : float, default=8
        Mini-batches are drawn until they also hold this many times as many edges as the graph (but
        no more than 10,000 for that); 0 leaves it at the bound, as in the paper.
    n_batches : int, optional
        So many mini-batches, whatever the bound and the coverage.
    random_state : int, default=0
        Same number, same mini-batches.

    Returns
    -------
    DataModel
        Every vertex of the graph is in it, drawn or not. Nets of one pin, which nothing can cut,
        are left out, and equal nets of two pins are one, their costs added. ``facts`` tells b
        ("batches"), how many nets they had ("nets") and the options, ``random_state`` as "seed":
        ``connectivity_minus_one() / b`` is the mean volume of a mini-batch's expand.

    Raises
    ------
    InputError
        The matrix is not square, or an option is out of range.
    """
    entries = as_matrix(matrix)
    whole = column_net_self_loops(entries)
    n_parts = whole_number(n_parts, "n_parts", least=1, most=whole.hypergraph.n_vertices)
    needed = nets_needed(n_parts, theta, delta)
    if n_batches is not None:
        n_batches = whole_number(n_batches, "n_batches", least=1)
    seed = checked_seed(random_state)
    n_vertices = whole.hypergraph.n_vertices
    chosen = _tenth_or_two(n_vertices) if sampler is None else sampler
    if not hasattr(chosen, "draw"):
        raise InputError(f"sampler is {sampler!r}: give a VertexSampler, or what has its method")
    finite_number(coverage, "coverage")
    graph, generator = Adjacency.of(entries), np.random.default_rng(seed)
    edges_needed = coverage * len(graph.neighbours)
    layers: list[Layer] = []
    n_drawn, n_nets, n_edges = 0, 0, 0
    while (
        n_drawn < n_batches
        if n_batches is not None
        else n_nets < needed or (n_edges < edges_needed and n_drawn < _MOST_FOR_COVERAGE)
    ):
        drawn = chosen.draw(graph, generator)
        layers += drawn
        n_drawn += 1
        n_nets += _size(drawn, n_nets)
        n_edges += sum(len(layer.targets) for layer in drawn)
    hypergraph = replace(
        _without_trifles(_merged(layers, n_vertices)),
        vertex_weights=whole.hypergraph.vertex_weights,
    )
    facts = {
        "batches": n_drawn,
        "nets": n_nets,
        "theta": theta,
        "delta": delta,
        "coverage": coverage,
        "sampler": repr(chosen),
        "seed": seed,
    }
    return replace(whole, hypergraph=hypergraph, name="stochastic", facts=facts)


def _tenth_or_two(n_vertices: int) -> Sampler:
    """The default: of a small graph a tenth is one vertex, which needs nobody's features."""
    tenth = VertexSampler()
    return tenth if tenth.count(n_vertices) > 1 else VertexSampler(min(2, n_vertices))


def _size(layers: list[Layer], n_nets: int) -> int:
    """Nets of a mini-batch, if there are any and they can be numbered after `n_nets` others."""
    size = sum(len(layer.vertices) for layer in layers)
    if not size:
        raise InputError("the sampler drew a mini-batch without a vertex: each needs one at least")
    if n_nets + size > _MOST_NETS:
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


def _without_trifles(hypergraph: Hypergraph) -> Hypergraph:
    """The same cut sizes from fewer nets: none of one pin, and each pair of pins once."""
    sizes = np.diff(hypergraph.net_pointer)
    n_vertices, starts = hypergraph.n_vertices, hypergraph.net_pointer[:-1]
    low = hypergraph.pins[starts[sizes == 2]].astype(np.int64)
    pairs, counts = np.unique(
        low * n_vertices + hypergraph.pins[starts[sizes == 2] + 1], return_counts=True
    )
    ends = np.stack([pairs // n_vertices, pairs % n_vertices], axis=1).astype(np.int32)
    large = sizes > 2
    pointer = np.concatenate([[0], np.full(len(pairs), 2), sizes[large]]).cumsum()
    return Hypergraph(
        n_vertices,
        pointer.astype(np.int64),
        np.concatenate([ends.ravel(), hypergraph.pins[np.repeat(large, sizes)]]),
        hypergraph.vertex_weights,
        np.concatenate([counts, hypergraph.net_costs[large]]).astype(np.int64),
    )
