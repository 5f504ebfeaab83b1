"""Mini-batches of a graph: which vertices compute, and whose features each of them needs.

    vertex sampler           neighbour sampler            layer sampler
    some vertices and        seeds, then a few            each layer some vertices, drawn by
    the edges among them     neighbours of each,          importance, and the edges from one
                             layer by layer               layer's to the next one's
    [V' ⇄ V']                [seeds ← V1], [V1 ← V2]      [V0 ← V1], [V1 ← V2]

A layer is a list of edges target ← source: the rank that holds the target needs the features of the
source. Every target is a source too, its own (Â has self loops).

Neighbour sampling: Hamilton, Ying, Leskovec, "Inductive representation learning on large graphs",
NIPS 2017, Algorithm 2. Layer-wise importance sampling: Chen, Ma, Xiao, "FastGCN", ICLR 2018,
eq. 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._floor.kernels import kernel
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A square pattern in compressed rows without its diagonal.

    Parameters
    ----------
    pointer : int64[n_vertices + 1]
    neighbours : int32[n_edges]
        Vertex i needs ``neighbours[pointer[i]:pointer[i + 1]]``.
    """

    pointer: NDArray[np.int64]
    neighbours: NDArray[np.int32]

    @classmethod
    def of(cls, entries: LabelledMatrix) -> Adjacency:
        """The pattern of a square matrix, sorted by row."""
        others = entries.rows != entries.columns
        pointer = np.zeros(entries.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(entries.rows[others], minlength=entries.shape[0]), out=pointer[1:])
        return cls(pointer, entries.columns[others])

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.pointer) - 1

    @cached_property
    def importance(self) -> NDArray[np.float64]:
        """Squared norms of the columns of Â = D^(-1/2) (A + I) D^(-1/2), as probabilities."""
        degrees = np.diff(self.pointer) + 1.0
        needed_by = np.repeat(1 / degrees, np.diff(self.pointer))
        sums = np.bincount(self.neighbours, needed_by, minlength=self.n_vertices)
        squared = (sums + 1 / degrees) / degrees
        return squared / squared.sum()


@dataclass(frozen=True, eq=False)
class Layer:
    """Edges of one layer of a mini-batch.

    Parameters
    ----------
    vertices : int32[n_sources]
        All sources, targets included, each once.
    targets, sources : int32[n_edges]
        Vertex ``targets[e]`` needs the features of ``sources[e]``, another vertex.
    """

    vertices: NDArray[np.int32]
    targets: NDArray[np.int32]
    sources: NDArray[np.int32]


class Sampler(Protocol):
    """Draws mini-batches; any object with this one method will do."""

    def draw(self, graph: Adjacency, generator: np.random.Generator) -> list[Layer]:
        """The layers of one mini-batch, the one that is computed last first."""
        ...


@dataclass(frozen=True)
class VertexSampler:
    """Vertices drawn evenly, and all edges among them.

    Parameters
    ----------
    size : int or float
        Vertices of a mini-batch: how many, or, below 1, which share of the graph's.
    """

    size: int | float = 0.1

    def draw(self, graph: Adjacency, generator: np.random.Generator) -> list[Layer]:
        """One layer: all layers of a model work on the same subgraph."""
        n_chosen = _count(self.size, graph.n_vertices)
        chosen = _drawn(generator, graph.n_vertices, n_chosen)
        return [_edges_between(graph, chosen, chosen)]


@dataclass(frozen=True)
class NeighbourSampler:
    """Seeds drawn evenly, then at most so many neighbours of each vertex, layer by layer.

    Parameters
    ----------
    size : int or float
        Seeds of a mini-batch: how many, or, below 1, which share of the graph's vertices.
    fanouts : sequence of int
        Neighbours drawn for each target of each layer, the last layer of the model first.
    """

    size: int | float = 0.01
    fanouts: Sequence[int] = (10, 10)

    def draw(self, graph: Adjacency, generator: np.random.Generator) -> list[Layer]:
        """A layer for each fanout; the sources of one are the targets of the next."""
        n_seeds = _count(self.size, graph.n_vertices)
        if not len(self.fanouts):
            raise InputError("fanouts is empty: give one number of neighbours for each layer")
        targets = _drawn(generator, graph.n_vertices, n_seeds)
        layers = []
        for fanout in self.fanouts:
            most = whole_number(fanout, "fanout", least=1)
            degrees = np.diff(graph.pointer)[targets]
            draws = generator.random(int(degrees.sum()))
            kept = int(np.minimum(degrees, most).sum())
            ends = _few_neighbours(graph.pointer, graph.neighbours, targets, most, draws, kept)
            vertices = np.union1d(targets, ends[1])
            layers.append(Layer(vertices, *ends))
            targets = vertices
        return layers


@dataclass(frozen=True)
class LayerSampler:
    """Vertices drawn for each layer by their importance, and the edges from layer to layer.

    Parameters
    ----------
    size : int or float
        Vertices of each layer: how many, or, below 1, which share of the graph's.
    n_layers : int
    """

    size: int | float = 0.1
    n_layers: int = 2

    def draw(self, graph: Adjacency, generator: np.random.Generator) -> list[Layer]:
        """`n_layers` layers; the batch itself is drawn evenly, what it needs by importance."""
        n_chosen = _count(self.size, graph.n_vertices)
        n_layers = whole_number(self.n_layers, "n_layers", least=1)
        targets = _drawn(generator, graph.n_vertices, n_chosen)
        layers = []
        for _ in range(n_layers):
            sources = _drawn(generator, graph.n_vertices, n_chosen, graph.importance)
            layers.append(_edges_between(graph, targets, sources))
            targets = sources
        return layers


def _count(size: Any, n_vertices: int) -> int:
    """A number of vertices from a number or a share."""
    if isinstance(size, float | np.floating) and 0 < size < 1:
        return max(1, round(float(size) * n_vertices))
    return whole_number(size, "size of a mini-batch", least=1, most=n_vertices)


def _drawn(
    generator: np.random.Generator,
    n_vertices: int,
    n_drawn: int,
    probabilities: NDArray[np.float64] | None = None,
) -> NDArray[np.int32]:
    """Different vertices, rising."""
    drawn = generator.choice(n_vertices, n_drawn, replace=False, p=probabilities)
    return np.sort(drawn).astype(np.int32)


def _edges_between(
    graph: Adjacency, targets: NDArray[np.int32], sources: NDArray[np.int32]
) -> Layer:
    is_source = np.zeros(graph.n_vertices, bool)
    is_source[sources] = True
    ends = _edges_into(graph.pointer, graph.neighbours, targets, is_source)
    return Layer(np.union1d(targets, sources), *ends)


@kernel
def _edges_into(
    pointer: NDArray, neighbours: NDArray, targets: NDArray, is_source: NDArray
) -> tuple[NDArray, NDArray]:
    """The edges from each target to those of its neighbours that are sources."""
    n_edges = 0
    for target in targets:
        for position in range(pointer[target], pointer[target + 1]):
            n_edges += is_source[neighbours[position]]
    ends = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    edge = 0
    for target in targets:
        for position in range(pointer[target], pointer[target + 1]):
            if is_source[neighbours[position]]:
                ends[0][edge], ends[1][edge] = target, neighbours[position]
                edge += 1
    return ends


@kernel
def _few_neighbours(
    pointer: NDArray, neighbours: NDArray, targets: NDArray, most: int, draws: NDArray, n_edges: int
) -> tuple[NDArray, NDArray]:
    """Edges to `most` neighbours of each target, or all: selection sampling, a draw a neighbour."""
    ends = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    edge, at = 0, 0
    for target in targets:
        left = pointer[target + 1] - pointer[target]
        wanted = min(most, left)
        for position in range(pointer[target], pointer[target + 1]):
            if draws[at] * left < wanted:  # Knuth, volume 2, section 3.4.2, algorithm S
                ends[0][edge], ends[1][edge] = target, neighbours[position]
                edge += 1
                wanted -= 1
            left -= 1
            at += 1
    return ends
