"""A rank's rows of Â, its columns split in two: those of own vertices, and those of the halo.

              own vertices   halo: owned by rank 0 │ rank 2 …
    own row [    local     │         remote              ]     local · H_own  while messages travel
                                                               remote · H_halo once they are there

The halo is ordered by owner and then by vertex, so what one rank sends is one block of it
(Demirci et al., VLDB 2022, equations 7 to 9). A layer of a mini-batch makes rows for the first of
its own vertices only, those that the layer behind reads; all of them are columns.

Own vertices may stand in any order. In one that has neighbours near each other, rows of H that a
product reads are more often in the caches still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from daskpart.collectives import Plan
from daskpart.partitions import Partition

from .operators import narrow

Csr = tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]

_N_COMPARED = 1 << 20  # edges by which two orders are compared


@dataclass(frozen=True, eq=False)
class Halves:
    """A rank's rows of a matrix.

    Attributes
    ----------
    local, remote : (indptr, indices, data)
        Columns are positions in the own vertices, and in the halo. Joined, all entries are in
        `local`, and positions of the halo come behind those of the own vertices.
    halo : int64 ndarray
        Vertices of other ranks that the columns name, by owner.
    n_own : int
        Own vertices, which are the first columns.
    """

    local: Csr
    remote: Csr
    halo: NDArray[np.int64]
    n_own: int

    @property
    def n_rows(self) -> int:
        """Rows: of the first own vertices, in a full batch of all."""
        return len(self.local[0]) - 1

    @property
    def n_halo(self) -> int:
        """Rows that the rank gets."""
        return len(self.halo)


@dataclass(frozen=True, eq=False)
class RankGraph:
    """What a rank holds of the graph.

    Attributes
    ----------
    own : int64 ndarray
        Its vertices, in the order in which it has them; in a mini-batch those of the layer, rows
        first.
    forward, backward : Halves
        Rows of Â, and of Âᵀ; one object where Â is symmetric.
    """

    own: NDArray[np.int64]
    forward: Halves
    backward: Halves

    def columns_of(self, halves: Halves) -> NDArray[np.int64]:
        """The vertices of all columns: own ones, then the halo."""
        return np.concatenate([self.own, halves.halo])


def halves_of(
    matrix: Any, own: NDArray[np.int64], halo: NDArray[np.int64], joined: bool = False
) -> Halves:
    """The rows of a rank, split.

    Parameters
    ----------
    matrix : scipy CSR array of shape (n, n)
    own, halo : int64 ndarrays
        Vertices of the rank, and those of others that its rows name, by owner.
    joined : bool
        See `Halves`.
    """
    if np.array_equal(own, np.arange(matrix.shape[0])):
        nothing = (np.zeros_like(matrix.indptr), matrix.indices[:0], matrix.data[:0])
        return Halves((matrix.indptr, matrix.indices, matrix.data), nothing, halo, len(own))
    rows = matrix[own]
    place = np.empty(matrix.shape[1], np.int32)
    place[own] = np.arange(len(own), dtype=np.int32)
    place[halo] = np.arange(len(own), len(own) + len(halo), dtype=np.int32)
    rows.indices = place[rows.indices]
    return halves_of_positions(rows, len(own), halo, joined)


def halves_of_positions(rows: Any, n_own: int, halo: NDArray[np.int64], joined: bool) -> Halves:
    """Rows whose columns are positions already: own vertices, and behind them the halo.

    Parameters
    ----------
    rows : scipy CSR array of shape (n_rows, n_own + n_halo or more)
    n_own : int
    halo, joined
        As in `halves_of`.
    """
    inside = np.ones(rows.nnz, bool) if joined else rows.indices < n_own
    return Halves(_some(rows, inside, 0), _some(rows, ~inside, n_own), halo, n_own)


def _some(rows: Any, chosen: NDArray[np.bool_], first: int) -> Csr:
    """Chosen entries, columns counted from `first`."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    columns = rows.indices[chosen] - np.int32(first)
    indptr = before[rows.indptr].astype(rows.indptr.dtype)
    found = scipy.sparse.csr_array((rows.data[chosen], columns, indptr), rows.shape)
    narrow(found)  # and sorted: the halo's order is by owner, not by vertex
    return found.indptr, found.indices, found.data


def halo_of(plan: Plan, rank: int) -> NDArray[Any]:
    """Vertices of others that a rank reads in a product whose messages are planned."""
    return plan.rounds[0].of_rank(rank).in_items


def near_neighbours(pattern: Any, partition: Partition, symmetric: bool) -> list[NDArray[np.int64]]:
    """Each rank's vertices, in an order in which neighbours stand near each other.

    That is the reverse Cuthill–McKee order of its part of the graph, which takes as long as a few
    products, or the rising one where that has neighbours nearer, as where who numbered the vertices
    knew of their clusters.

    Parameters
    ----------
    pattern : scipy CSR array of shape (n, n)
        Of Â.
    partition : Partition
    symmetric : bool
        Whether every edge goes both ways.
    """
    found = []
    for rank in range(partition.n_parts):
        own = partition.members(rank)
        block = narrow(pattern[own][:, own])
        if block.indptr.dtype == np.int32:  # all that scipy takes
            order = reverse_cuthill_mckee(block, symmetric_mode=symmetric)
            places = np.empty_like(order)
            places[order] = np.arange(len(order), dtype=order.dtype)
            if _distance(block, places) < _distance(block, np.arange(len(own))):
                own = own[order]
        found.append(own)
    return found


def _distance(block: Any, places: NDArray[Any]) -> float:
    """Bits of the distance between the places of neighbours, summed over some of the edges."""
    some = slice(None, None, 1 + block.nnz // _N_COMPARED)
    rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[some]
    return float(np.log2(1 + np.abs(places[rows] - places[block.indices[some]])).sum())


def cut_graph(
    matrix: Any,
    own: Sequence[NDArray[np.int64]],
    there: Plan,
    back: Plan | None,
    joined: bool = False,
) -> list[RankGraph]:
    """Each rank's part.

    Parameters
    ----------
    matrix : scipy CSR array
        Â.
    own : sequence of int64 ndarray
        The vertices of each rank, in the order in which it has them.
    there, back : Plan
        Messages of a product with Â, and with Âᵀ; None: Â is symmetric.
    joined : bool
        See `Halves`.
    """
    transposed = None if back is None else narrow(scipy.sparse.csr_array(matrix.T))
    parts = []
    for rank, vertices in enumerate(own):
        forward = backward = halves_of(matrix, vertices, halo_of(there, rank), joined)
        if back is not None:
            backward = halves_of(transposed, vertices, halo_of(back, rank))
        parts.append(RankGraph(vertices, forward, backward))
    return parts
