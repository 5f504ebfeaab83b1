"""What a mini-batch takes on each rank, told by some that were drawn to see.

mini-batch ─► for each of its graphs and each rank   edges, targets, sources, halo, rows to send
           ─► its matrices, messages and lists, its own features, what layers make of them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.distinct import distinct
from daskpart.data_models import Layer
from daskpart.partitions import Partition

from .network import LayerSizes, Network

Counts = NDArray[Any]


@dataclass(frozen=True, eq=False)
class BatchCounts:
    """Sizes of a mini-batch, float64 of shape (n_graphs, n_ranks) each.

    Attributes
    ----------
    targets : ndarray
        Vertices that a graph's edges go into.
    edges : ndarray
        Without those from a vertex to itself.
    sources : ndarray
        Own vertices that a graph names; those of the last graph are all of the mini-batch.
    halo, sent : ndarray
        Rows that a rank gets, and gives, in one product.
    """

    targets: Counts
    edges: Counts
    sources: Counts
    halo: Counts
    sent: Counts

    @classmethod
    def of(cls, layers: Sequence[Layer], partition: Partition, seeds: Counts) -> BatchCounts:
        """Of one mini-batch, whose graphs are `layers`, the last of the model first.

        `seeds` are the targets of the first graph on each rank, in the mean, as some may have no
        edge.
        """
        owners, n_ranks = partition.assignment, partition.n_parts

        def counted(vertices: NDArray[Any]) -> NDArray[np.int64]:
            return np.bincount(owners[vertices], minlength=n_ranks)

        found, targets = [], seeds
        for layer in layers:
            read, readers = np.divmod(foreign_pairs(layer, partition), n_ranks)
            edges, sources, sent = map(counted, (layer.targets, layer.vertices, read))
            halo = np.bincount(readers, minlength=n_ranks)
            found.append((targets, edges, sources, halo, sent))
            targets = sources
        return cls(*np.moveaxis(np.array(found, np.float64), 1, 0))

    @classmethod
    def mean(cls, each: Sequence[BatchCounts]) -> BatchCounts:
        """The mean of several mini-batches."""
        names = [own.name for own in fields(cls)]
        return cls(*(np.mean([getattr(one, name) for one in each], axis=0) for name in names))


def foreign_pairs(layer: Layer, partition: Partition) -> NDArray[np.int64]:
    """source · n_ranks + reader: each source of a layer, and each rank that reads what it lacks."""
    owners, n_ranks = partition.assignment, partition.n_parts
    readers = owners[layer.targets]
    foreign = readers != owners[layer.sources]
    pairs = layer.sources[foreign].astype(np.int64) * n_ranks + readers[foreign]
    return distinct(pairs, len(owners) * n_ranks)


def batch_bytes(
    counts: BatchCounts,
    network: Network,
    graph_of: Sequence[int],
    row_bytes: NDArray[np.float64],
    n_trained: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of a mini-batch on each rank but for its labels: as it is drawn, and made of it.

    Both are float64 of shape (n_ranks,).

    Parameters
    ----------
    counts : BatchCounts
    network : Network
    graph_of : sequence of int
        Which graph each layer works on.
    row_bytes : float64 ndarray of shape (n_ranks,)
        Of the features of a vertex, and of what dropout makes of them.
    n_trained : float64 ndarray of shape (n_ranks,)
        Vertices that are trained on.
    """
    itemsize = np.dtype(network.dtype).itemsize
    first, n_own = graph_of[0], np.maximum(counts.sources, counts.targets)
    # Â of a mean has no entries from a vertex to itself
    entries = counts.edges + (counts.targets if network.operator != "mean" else 0)
    graphs = (4 + itemsize) * entries + 8 * (counts.halo + n_own + counts.targets)
    # edges as they were drawn, beside the graphs that were made of them
    drawn = (4 + itemsize) * counts.edges + (8 + itemsize) * counts.targets
    drawn += 12 * counts.halo + 8 * (counts.sent + counts.sources)
    total = np.sum(graphs + drawn, axis=0) + 8 * counts.targets[0]
    total += 8 * (counts.halo + counts.sent)[first]  # messages
    total += row_bytes * n_own[first]
    of_graphs = n_own, counts.targets, counts.halo, counts.sent, entries
    sizes = [LayerSizes(*(each[graph] for each in of_graphs)) for graph in graph_of]
    made = sum(network.made_bytes(sizes)) + network.passing_bytes(sizes, n_trained)
    for layer, size in zip(network.layers, sizes, strict=True):
        kept = layer.halo_values * size.n_halo + layer.entry_values * size.n_entries
        made = made + itemsize * kept
    return np.asarray(total), np.asarray(made)
