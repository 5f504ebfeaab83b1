"""One rank's share of a mini-batch: its vertices, the edges that are kept, what it needs of others.

    seeds of the batch ─► edges of the last layer ─► vertices that they read ─► edges of the layer
    (own ones)            below … ─► all vertices of the batch

    own vertices, as they came   │ seeds │ what they read │ what those read │
    rows of the last layer       ├───────┤
    its columns                  ├───────┴────────────────┤
    rows of the layer below      ├────────────────────────┤
    its columns                  ├────────────────────────┴─────────────────┤

So a layer makes rows only for what the layer behind it reads. Samplers:

    vertex      one graph, for all layers: the edges among the batch
    neighbour   a graph a layer: at most so many neighbours of each of its targets
    layer       a graph a layer: the neighbours that are drawn for the layer, by importance

What is drawn follows from a seed and the numbers of vertices (`daskpart.data_models.draws`), so the
batch is the same on any number of ranks. Where rows of Â are means, a row of a mini-batch is the
mean of what is kept of it: its entries are scaled to the sum of the whole row. Where they are sums
(GIN), an entry is divided by the probability that it is kept. GAT's softmax does without either.

Sources: Demirci et al., VLDB 2022, §4.3.3; Hamilton et al., NIPS 2017; Chen et al., "FastGCN", ICLR
2018; rows scaled: Zou et al., "Layer-dependent importance sampling", NeurIPS 2019, §3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import entries_of_rows
from daskpart._floor.distinct import distinct
from daskpart.collectives.messages import RankMessages, ValueInbox
from daskpart.data_models import Adjacency, LayerSampler, NeighbourSampler, VertexSampler
from daskpart.data_models.draws import few_neighbours, key_of, shuffled
from daskpart.data_models.samplers import edges_to, edges_to_drawn

from .operators import narrow
from .passes import RankData, RankTargets
from .ranks import RankGraph, halves_of_positions
from .rows import Rows, SparseRows

GraphSampler = VertexSampler | NeighbourSampler | LayerSampler
SAMPLERS: dict[str, type[GraphSampler]] = {
    "vertex": VertexSampler,
    "neighbour": NeighbourSampler,
    "layer": LayerSampler,
}

_MARKS = 16  # for each id: a table of n places takes less time than to search for the ids


@dataclass(frozen=True)
class Batches:
    """What all ranks know of the mini-batches of a fit.

    Parameters
    ----------
    sampler : GraphSampler
        Without its seeds: each rank knows its own.
    n_seeds : int
        Vertices that mini-batches begin at, over all ranks: an epoch has each of them once.
    size : int
        Seeds of a mini-batch; the last of an epoch may have fewer.
    graph_of : tuple of int
        Which graph of a mini-batch each layer of the network works on; they are drawn in the order
        0, 1 … from the last layer down.
    times : tuple of int
        How many times the rows of each graph's halo travel in a mini-batch, both ways together.
    seed : int
    rows_are_means : bool
        Of the operator.
    joined : bool
        See `Halves`.
    is_always_the_same : bool
        An epoch is one mini-batch, of all neighbours: that is drawn once for all epochs.
    """

    sampler: GraphSampler
    n_seeds: int
    size: int
    graph_of: tuple[int, ...]
    times: tuple[int, ...]
    seed: int
    rows_are_means: bool
    joined: bool
    is_always_the_same: bool = False

    @property
    def n_batches(self) -> int:
        """Mini-batches of an epoch."""
        return -(-self.n_seeds // self.size)

    @property
    def n_graphs(self) -> int:
        """Graphs of a mini-batch."""
        return len(self.times)


@dataclass(frozen=True, eq=False)
class RankRows:
    """What a rank draws from: its rows of Â, own vertices and halo as one list of columns.

    Attributes
    ----------
    graph : Adjacency
        Without the diagonal; columns are positions in `ids`.
    values : ndarray
        Of its entries.
    diagonal : ndarray of shape (n_own,)
    sums : ndarray of shape (n_own,)
        Of whole rows.
    ids : int64 ndarray
        Vertices: own ones, then the halo.
    seeds, numbers : int64 ndarrays
        Own positions of vertices that a mini-batch may begin at, and which they are of all such.
    probabilities : float64 ndarray, as `ids`
        To be drawn for a layer; empty for other samplers.
    """

    graph: Adjacency
    values: NDArray[Any]
    diagonal: NDArray[Any]
    sums: NDArray[Any]
    ids: NDArray[np.int64]
    seeds: NDArray[np.int64]
    numbers: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @property
    def n_own(self) -> int:
        """Own vertices."""
        return len(self.diagonal)


@dataclass(frozen=True, eq=False)
class EpochOrder:
    """Which mini-batch of an epoch each vertex is in.

    Attributes
    ----------
    seeds, pointer : int64 ndarrays
        Own positions of the seeds by mini-batch: those of b are ``seeds[pointer[b]:pointer[b+1]]``.
    batch_of : int64 ndarray, as ``RankRows.ids``
        For the vertex sampler, whose mini-batches are known of the halo, too; else empty.
    """

    seeds: NDArray[np.int64]
    pointer: NDArray[np.int64]
    batch_of: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LayerEdges:
    """The edges of a layer of a mini-batch on a rank.

    Attributes
    ----------
    targets : int64 ndarray
        Own positions; of the last layer the seeds, rising, else `grown` of the layer behind.
    counts, columns, values : ndarrays
        Edges of each target: how many, positions in ``RankRows.ids``, entries of the operator.
    diagonal : ndarray
        Entries of the targets themselves.
    halo : int64 ndarray
        Positions in the halo that the columns name, rising.
    asked : dict of int to int32 ndarray
        Those of each rank that may be read, as places in the list of what that rank may send.
    to_send : list of int64 ndarray
        Own positions that each reader asked for.
    grown : int64 ndarray
        Own positions that the layer before makes rows for: the targets, then what else the columns
        name, and other ranks ask for.
    """

    targets: NDArray[np.int64]
    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]
    diagonal: NDArray[Any]
    halo: NDArray[np.int64]
    asked: dict[int, NDArray[np.int32]]
    to_send: list[NDArray[np.int64]]
    grown: NDArray[np.int64]

    def copy(self) -> LayerEdges:
        """Nothing in it is ever overwritten."""
        return self


# -- set-up ---


def drawn_from(data: RankData, seeds: Any) -> RankRows:
    """The rows of a rank as samplers read them.

    Parameters
    ----------
    data : RankData
    seeds : tuple of ndarray
        ``seeds``, ``numbers`` and ``probabilities`` of `RankRows`.
    """
    halves, n_own = data.graph.forward, data.graph.forward.n_own
    both, shifts = (halves.local, halves.remote), (np.int32(0), np.int32(n_own))
    rows = np.concatenate([np.repeat(np.arange(n_own), np.diff(indptr)) for indptr, *_ in both])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    columns = np.concatenate(
        [indices + shift for (_, indices, _), shift in zip(both, shifts, strict=True)]
    )[order]
    values = np.concatenate([each for *_, each in both])[order]
    loops = columns == rows
    diagonal = np.zeros(n_own, values.dtype)
    diagonal[rows[loops]] = values[loops]
    sums = np.bincount(rows, values, minlength=n_own).astype(values.dtype)
    pointer = np.concatenate(([0], np.cumsum(np.bincount(rows[~loops], minlength=n_own))))
    graph = Adjacency(pointer.astype(np.int64), columns[~loops])
    ids = data.graph.columns_of(halves)
    return RankRows(graph, values[~loops], diagonal, sums, ids, *seeds)


def order_of_epoch(rows: RankRows, *, batches: Batches, number: int) -> EpochOrder:
    """Shuffle all seeds, and say which mini-batch those of this rank are in."""
    key, n, size = key_of(batches.seed, number), batches.n_seeds, batches.size
    batch_of = np.empty(0, np.int64)
    if isinstance(batches.sampler, VertexSampler):
        batch_of = shuffled(rows.ids, n, key) // size
        of_seeds = batch_of[: rows.n_own]
    else:
        of_seeds = shuffled(rows.numbers, n, key) // size
    order = np.argsort(of_seeds, kind="stable")
    pointer = np.searchsorted(of_seeds[order], np.arange(batches.n_batches + 1))
    return EpochOrder(rows.seeds[order], pointer, batch_of)


# -- edges of a layer ---


def first_targets(order: EpochOrder, *, batch: int) -> NDArray[np.int64]:
    """Own positions of the seeds of a mini-batch, rising."""
    return order.seeds[order.pointer[batch] : order.pointer[batch + 1]].copy()


def sampled_edges(
    rows: RankRows,
    order: EpochOrder,
    before: Any,
    messages: list[RankMessages],
    *,
    batches: Batches,
    number: int,
    batch: int,
    index: int,
) -> LayerEdges:
    """The edges into the targets of a layer, and what they read of others.

    Parameters
    ----------
    rows : RankRows
    order : EpochOrder
    before : int64 ndarray or LayerEdges
        The seeds, or the edges of the layer above.
    messages : list of RankMessages
        Of a product with all of Â; the first is read.
    batches : Batches
    number, batch : int
        The epoch, and the mini-batch in it.
    index : int
        Of the graph.
    """
    targets = before if isinstance(before, np.ndarray) else before.grown
    entries, counts, factors = _kept(rows, order, targets, batches, number, batch, index)
    columns, values = rows.graph.neighbours[entries], rows.values[entries]
    diagonal = rows.diagonal[targets]
    if batches.rows_are_means:
        of_edges = np.repeat(np.arange(len(targets)), counts)
        sums = np.bincount(of_edges, values, minlength=len(targets)) + diagonal
        scale = np.divide(rows.sums[targets], sums, out=np.ones(len(targets)), where=sums > 0)
        values = (values * scale[of_edges]).astype(values.dtype)
        diagonal = (diagonal * scale).astype(values.dtype)
    elif not batches.joined:
        values = (values * factors).astype(values.dtype)
    n_halo = len(rows.ids) - rows.n_own
    halo = distinct(columns[columns >= rows.n_own].astype(np.int64) - rows.n_own, n_halo)
    asked, begin = {}, 0
    for source, positions in zip(messages[0].sources, messages[0].in_positions, strict=True):
        low, high = np.searchsorted(halo, (begin, begin + len(positions)))
        asked[source] = (halo[low:high] - begin).astype(np.int32)
        begin += len(positions)
    own = columns[columns < rows.n_own].astype(np.int64)
    grown = appended(targets, own, n=rows.n_own)
    return LayerEdges(targets, counts, columns, values, diagonal, halo, asked, [], grown)


def _kept(
    rows: RankRows, order: EpochOrder, targets: NDArray[np.int64], batches: Batches, number: int,
    batch: int, index: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Any]:  # fmt: skip
    """Entries of the rows of the targets, how many of each, and 1 / the probability of each."""
    sampler, graph = batches.sampler, rows.graph
    if isinstance(sampler, VertexSampler):
        entries, counts = edges_to(graph, targets, order.batch_of == batch)
        n_drawn = min(batches.size, batches.n_seeds - batch * batches.size)
        return entries, counts, (batches.n_seeds - 1) / max(n_drawn - 1, 1)
    key = key_of(batches.seed, number, batch + 1, index + 1)
    if isinstance(sampler, NeighbourSampler):
        most = sampler.fanouts[index]
        entries, counts = few_neighbours(
            graph.pointer, graph.neighbours, targets, rows.ids, most, key
        )
        degrees = np.diff(graph.pointer)[targets]
        return entries, counts, np.repeat(degrees / np.maximum(counts, 1), counts)
    entries, counts = edges_to_drawn(graph, targets, rows.probabilities, rows.ids, key)
    return entries, counts, 1 / rows.probabilities[graph.neighbours[entries]]


def pack_asked(
    edges: LayerEdges, source: int, destinations: list[int]
) -> list[tuple[NDArray[Any], ...]]:
    """What this rank reads of others."""
    return [(edges.asked[destination],) for destination in destinations]


def with_readers(edges: LayerEdges, inbox: ValueInbox, messages: list[RankMessages]) -> LayerEdges:
    """Which own vertices others read: they are of the batch, too."""
    own = [
        positions[asked]
        for positions, (asked,) in zip(messages[0].out_positions, inbox.payloads, strict=True)
    ]
    if any(map(len, own)):
        n = 1 + max(int(each.max(initial=-1)) for each in (edges.grown, *own))
        edges = replace(edges, grown=appended(edges.grown, *own, n=n))
    return replace(edges, to_send=own)


# -- the batch as the passes read it ---


def batch_data(
    data: RankData,
    rows: RankRows,
    edges: LayerEdges,
    *,
    batches: Batches,
    with_features: bool,
    with_targets: bool,
) -> RankData:
    """The part of a rank's data that is in a layer of a mini-batch.

    Parameters
    ----------
    data : RankData
    rows : RankRows
    edges : LayerEdges
    batches : Batches
    with_features, with_targets : bool
        The first layer of a network reads features, what the last one makes is held against the
        targets.
    """
    own, n_own, n_rows = edges.grown, len(edges.grown), len(edges.targets)
    inside = edges.columns < rows.n_own
    columns = np.empty(len(edges.columns), np.int64)
    columns[inside] = places_in(own, edges.columns[inside], rows.n_own)
    outside = edges.columns[~inside] - rows.n_own
    columns[~inside] = n_own + np.searchsorted(edges.halo, outside)
    loops = np.flatnonzero(edges.diagonal)  # the targets are the first columns
    ends = (
        np.concatenate([loops, np.repeat(np.arange(n_rows), edges.counts)]),
        np.concatenate([loops, columns]),
    )
    values = np.concatenate([edges.diagonal[loops], edges.values])
    shape = (n_rows, n_own + max(len(edges.halo), 1))
    matrix = narrow(scipy.sparse.coo_array((values, ends), shape).tocsr())
    halo = rows.ids[rows.n_own :][edges.halo]
    halves = halves_of_positions(matrix, n_own, halo, batches.joined)
    graph = RankGraph(rows.ids[own], halves, halves)
    seeds = edges.targets if with_targets else edges.targets[:0]
    features = _rows_at(data.rows, own if with_features else own[:0])
    return RankData(graph, features, None, _targets_of(data.targets, seeds))


def batch_messages(
    edges: LayerEdges, rows: RankRows, messages: list[RankMessages]
) -> list[RankMessages]:
    """Who gets which rows of the batch in a layer, and the way back."""
    whole, own = messages[0], edges.grown
    arriving = np.cumsum([0, *map(len, edges.asked.values())]) + len(own)
    coming = [np.arange(*ends) for ends in pairwise(arriving)]
    going = [places_in(own, positions, rows.n_own) for positions in edges.to_send]
    return [
        RankMessages(whole.rank, whole.destinations, going, whole.sources, coming),
        RankMessages(whole.rank, whole.sources, coming, whole.destinations, going),
    ]


def rows_asked_for(before: int, *of_layers: LayerEdges, times: tuple[int, ...]) -> int:
    """Rows that a rank gets or gives back, by the indices that it asked for, with those before."""
    return before + sum(n * len(edges.halo) for edges, n in zip(of_layers, times, strict=True))


def _rows_at(rows: Rows, places: NDArray[np.int64]) -> Rows:
    if not isinstance(rows, SparseRows):
        return rows.take(places, axis=0)
    pointer, at = entries_of_rows(rows.indptr, places)
    return SparseRows(pointer, rows.indices[at], rows.data[at], rows.n_columns)


def _targets_of(targets: RankTargets, seeds: NDArray[np.int64]) -> RankTargets:
    """Those of the seeds, which the last layer makes rows for."""
    there = np.searchsorted(targets.training, seeds)
    inside = there < len(targets.training)
    inside[inside] = targets.training[there[inside]] == seeds[inside]
    nobody = targets.validation[:0], targets.validation_values[:0]
    values = targets.training_values[there[inside]]
    return RankTargets(np.flatnonzero(inside), values, *nobody)


def appended(first: NDArray[np.int64], *more: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Ids below n, each once, as they are, then those of more that are not among them, rising."""
    every = distinct(np.concatenate([first, *more]), n)
    is_new = np.ones(len(every), bool)
    is_new[np.searchsorted(every, first)] = False
    return np.concatenate([first, every[is_new]])


def places_in(known: NDArray[np.int64], ids: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Where ids stand in those that are known, all below n."""
    if n > _MARKS * len(ids):
        order = np.argsort(known)
        return order[np.searchsorted(known, ids, sorter=order)]
    places = np.empty(n, np.int64)
    places[known] = np.arange(len(known))
    return places[ids]
