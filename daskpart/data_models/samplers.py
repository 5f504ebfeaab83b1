"""Mini-batches of a graph: which vertices compute, and whose features each of them needs.

    vertex sampler           neighbour sampler            layer sampler
    some vertices and        seeds, then a few            each layer some vertices, drawn by
    the edges among them     neighbours of each,          importance, and the edges from one
                             layer by layer               layer's to the next one's
    [V' ⇄ V']                [seeds ← V1], [V1 ← V2]      [V0 ← V1], [V1 ← V2]

A layer is a list of edges target ← source: the rank that holds the target needs the features of the
source. Every target is a source too, its own (Â has self loops), and the sources of a layer are the
targets of the one below it.

What is drawn is decided by a key and the numbers of vertices alone (`draws`). So ranks that hold
parts of a graph draw one mini-batch together without a word, and data models draw such ones.

Neighbour sampling: Hamilton, Ying, Leskovec, "Inductive representation learning on large graphs",
NIPS 2017, Algorithm 2. Layer-wise importance sampling: Chen, Ma, Xiao, "FastGCN", ICLR 2018,
eq. 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import as_array, ids_below, several, whole_number
from daskpart._floor.distinct import distinct
from daskpart._floor.kernels import kernel
from daskpart._incidence import group
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError

from .draws import drawn_with, few_neighbours, shuffled

_FANOUTS = "one number of neighbours for each layer"


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
    _drawn_by_importance: dict[int, NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, entries: LabelledMatrix) -> Adjacency:
        """The pattern of a square matrix, sorted by row."""
        others = entries.rows != entries.columns
        return cls(*group(entries.rows[others], entries.columns[others], entries.shape[0]))

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

    def drawn_by_importance(self, n_drawn: int) -> NDArray[np.float64]:
        """The probability of each vertex to be drawn, by its importance and 1 at most; read-only.

        So many are drawn in the mean. Made once for each number: mini-batch after mini-batch asks.
        """
        if n_drawn not in self._drawn_by_importance:
            drawn = self._with_sum(n_drawn)
            drawn.flags.writeable = False  # it is everybody's
            self._drawn_by_importance[n_drawn] = drawn
        return self._drawn_by_importance[n_drawn]

    def _with_sum(self, n_drawn: int) -> NDArray[np.float64]:
        certain = np.zeros(self.n_vertices, bool)
        while True:
            rest = np.where(certain, 0.0, self.importance)
            found = (n_drawn - certain.sum()) * rest / max(rest.sum(), np.finfo(float).tiny)
            more = found >= 1
            if not more.any():
                return np.where(certain, 1.0, found)
            certain |= more


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
class _Drawn:
    """The base: how many vertices a mini-batch begins at, or, below 1, which share of all."""

    size: int | float

    def count(self, n_vertices: int) -> int:
        """`size` as a number, of so many vertices.

        Raises
        ------
        InputError
            If it is not a share, nor a whole number from 1 to `n_vertices`.
        """
        if isinstance(self.size, float | np.floating) and 0 < self.size < 1:
            return max(1, round(float(self.size) * n_vertices))
        return whole_number(self.size, "size of a mini-batch", least=1, most=n_vertices)

    def to_dict(self) -> dict[str, Any]:
        """All parameters."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The sampler that `to_dict` described."""
        return cls(**values)

    def _seeds(
        self, graph: Adjacency, generator: np.random.Generator, n_seeds: int | None
    ) -> NDArray[np.int64]:
        """The vertices that a mini-batch begins at, rising; None: as many as `size` says."""
        known = self._may_begin(graph.n_vertices)
        n = graph.n_vertices if known is None else len(known)
        n_seeds = self.count(n) if n_seeds is None else n_seeds
        chosen = np.sort(shuffled(np.arange(n_seeds), n, _key(generator)))
        return chosen if known is None else known[chosen]

    def _may_begin(self, n_vertices: int) -> NDArray[np.int64] | None:
        """Vertices that a mini-batch may begin at, rising, each once; None: all."""
        seeds = getattr(self, "seeds", None)
        if seeds is None:
            return None
        given = as_array(seeds, "seeds")
        if given.dtype == np.bool_:
            raise InputError(
                f"seeds are a mask of shape {given.shape}: give the numbers of the vertices, as by "
                "numpy.flatnonzero(mask)"
            )
        known = distinct(ids_below(given, n_vertices, "seed"), n_vertices)
        if not known.size:
            raise InputError(
                "seeds is empty: give a vertex that a mini-batch may begin at, or None"
            )
        return known


@dataclass(frozen=True)
class VertexSampler(_Drawn):
    """Vertices drawn evenly, and all edges among them.

    Parameters
    ----------
    size : int or float, default=0.1
        Vertices of a mini-batch: how many, or, below 1, which share of the graph's.
    """

    size: int | float = 0.1

    def draw(
        self, graph: Adjacency, generator: np.random.Generator, n_seeds: int | None = None
    ) -> list[Layer]:
        """One layer: all layers of a model work on the same subgraph.

        It has `n_seeds` vertices, as the last mini-batch of an epoch may; None: `size`.
        """
        chosen = self._seeds(graph, generator, n_seeds)
        is_source = np.zeros(graph.n_vertices, bool)
        is_source[chosen] = True
        return [_layer(graph, chosen, *edges_to(graph, chosen, is_source))]


@dataclass(frozen=True)
class NeighbourSampler(_Drawn):
    """Seeds drawn evenly, then at most so many neighbours of each vertex, layer by layer.

    Parameters
    ----------
    size : int or float, default=0.01
        Seeds of a mini-batch: how many, or, below 1, which share of those there are.
    fanouts : sequence of int, default=(10, 10)
        Neighbours drawn for each target of each layer, the last layer of the model first.
    seeds : int array, optional
        Vertices that a mini-batch may begin at, such as those to train on; default: all.
    """

    size: int | float = 0.01
    fanouts: Sequence[int] = (10, 10)
    seeds: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        several(self.fanouts, "fanouts", _FANOUTS)

    def draw(
        self, graph: Adjacency, generator: np.random.Generator, n_seeds: int | None = None
    ) -> list[Layer]:
        """A layer for each fanout; the sources of one are the targets of the next.

        It begins at `n_seeds` vertices, as the last mini-batch of an epoch may; None: at `size`.
        """
        if not len(self.fanouts):
            raise InputError(f"fanouts is empty: give {_FANOUTS}")
        targets, layers = self._seeds(graph, generator, n_seeds), []
        ids = np.arange(graph.n_vertices)
        for fanout in self.fanouts:
            most = whole_number(fanout, "fanout", least=1)
            kept = few_neighbours(
                graph.pointer, graph.neighbours, targets, ids, most, _key(generator)
            )
            layers.append(_layer(graph, targets, *kept))
            targets = layers[-1].vertices.astype(np.int64)
        return layers


@dataclass(frozen=True)
class LayerSampler(_Drawn):
    """Vertices drawn for each layer by their importance, and the edges from layer to layer.

    Of those that are drawn for a layer only those count that a target reads.

    Parameters
    ----------
    size : int or float, default=0.1
        Seeds of a mini-batch, drawn evenly: how many, or, below 1, which share of those there are.
        So many vertices are drawn for each layer, too, in the mean.
    n_layers : int, default=2
    seeds : int array, optional
        Vertices that a mini-batch may begin at, such as those to train on; default: all.
    """

    size: int | float = 0.1
    n_layers: int = 2
    seeds: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def probabilities(self, graph: Adjacency) -> NDArray[np.float64]:
        """The probability of each vertex to be drawn for a layer: its importance, 1 at most."""
        known = self._may_begin(graph.n_vertices)
        n_drawn = self.count(graph.n_vertices if known is None else len(known))
        return graph.drawn_by_importance(n_drawn)

    def draw(
        self, graph: Adjacency, generator: np.random.Generator, n_seeds: int | None = None
    ) -> list[Layer]:
        """`n_layers` layers; the sources of one are the targets of the next.

        It begins at `n_seeds` vertices, as the last mini-batch of an epoch may, and draws as many
        for each layer as ever; None: at `size`.
        """
        n_layers = whole_number(self.n_layers, "n_layers", least=1)
        targets, layers = self._seeds(graph, generator, n_seeds), []
        probabilities, ids = self.probabilities(graph), np.arange(graph.n_vertices)
        for _ in range(n_layers):
            kept = edges_to_drawn(graph, targets, probabilities, ids, _key(generator))
            layers.append(_layer(graph, targets, *kept))
            targets = layers[-1].vertices.astype(np.int64)
        return layers


def edges_to(
    graph: Adjacency, targets: NDArray[np.int64], is_source: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries of the rows of some targets whose columns are sources; how many each target has."""
    counts = np.empty(len(targets), np.int64)
    _count_edges(graph.pointer, graph.neighbours, targets, is_source, counts)
    entries = np.empty(int(counts.sum()), np.int64)
    _list_edges(graph.pointer, graph.neighbours, targets, is_source, entries)
    return entries, counts


def edges_to_drawn(
    graph: Adjacency,
    targets: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    ids: NDArray[np.int64],
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As `edges_to`, of sources that are drawn with their probabilities.

    What is drawn does not depend on what else is: so only those that a target reads are asked,
    which are few of a large graph.
    """
    is_source = np.zeros(len(ids), bool)
    _mark_read(graph.pointer, graph.neighbours, targets, is_source)
    read = np.flatnonzero(is_source)
    is_source[read] = drawn_with(probabilities[read], ids[read], key)
    return edges_to(graph, targets, is_source)


def _key(generator: np.random.Generator) -> np.uint64:
    return generator.integers(2**64, dtype=np.uint64)


def _layer(
    graph: Adjacency,
    targets: NDArray[np.int64],
    entries: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> Layer:
    sources = graph.neighbours[entries]
    of_edges = np.repeat(targets, counts).astype(np.int32)
    vertices = distinct(np.concatenate([targets, sources]), graph.n_vertices)
    return Layer(vertices.astype(np.int32), of_edges, sources)


@kernel
def _mark_read(pointer, neighbours, targets, is_read):
    for target in targets:
        for place in range(pointer[target], pointer[target + 1]):
            is_read[neighbours[place]] = True


@kernel
def _count_edges(pointer, neighbours, targets, is_source, counts):
    for t in range(targets.size):
        counts[t] = 0
        for place in range(pointer[targets[t]], pointer[targets[t] + 1]):
            counts[t] += is_source[neighbours[place]]


@kernel
def _list_edges(pointer, neighbours, targets, is_source, entries):
    found = 0
    for target in targets:
        for place in range(pointer[target], pointer[target + 1]):
            if is_source[neighbours[place]]:
                entries[found] = place
                found += 1
