"""GASGD: ratings are dealt to ranks one by one, and both factors have copies that are averaged.

    nonzeros ─► parts: rows of users and of items, ids 0 … M − 1 and M … M + N − 1, are all shared
    η times an epoch:   SGD over a share of the own ratings
                        reduce   every copy ──► its owner, which averages them
                        expand   the owner ──► every copy

A finer cut than that of whole users, so ranks are in balance whatever the users are, for the price
of users' rows that travel too: 2 η Σ (λ − 1) rows an epoch over users and items.

Source: Petroni, Querzoni, "GASGD: Stochastic Gradient Descent for Distributed Asynchronous Matrix
Completion via Graph Partitioning" (RecSys 2014). There the cut is a greedy one of a stream; here
it is any of `daskpart.partition`, over the fine-grain hypergraph.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.sums import sums_by_key
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix
from daskpart.containers.numbering import number_touched
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition
from daskpart.shards import Shard, Shards

from .schedule import SubEpochSchedule


def hypergraph_of_nonzeros(matrix: LabelledMatrix) -> Hypergraph:
    """Stored entries as vertices, zeros among them; users, then items as nets (the fine grain)."""
    by_item = np.argsort(matrix.columns, kind="stable")
    of_items = np.bincount(matrix.columns, minlength=matrix.shape[1]).cumsum()
    return Hypergraph(
        n_vertices=matrix.nnz,
        net_pointer=np.concatenate((matrix.row_pointer(), matrix.nnz + of_items)).astype(np.int64),
        pins=np.concatenate((np.arange(matrix.nnz), by_item)).astype(np.int32),
        vertex_weights=np.ones(matrix.nnz, np.int64),
        net_costs=np.ones(sum(matrix.shape), np.int64),
    )


def shards_of_nonzeros(matrix: LabelledMatrix, parts: Partition, random_state: int) -> Shards:
    """Each rank's ratings, and the rows of both factors that they touch.

    Parameters
    ----------
    matrix : LabelledMatrix
        M × N.
    parts : Partition
        Of the stored entries, in their order.
    random_state : int
        Draws the owners.

    Returns
    -------
    Shards
        `items` of a shard are ids of users, and of items from M on; it has no `rows`, and
        `row_index` counts in `items` as `column_index` does.
    """
    n_users, n_items = matrix.shape
    of_users, of_items = matrix.rows.astype(np.int64), matrix.columns.astype(np.int64) + n_users
    connectivity = Connectivity.from_pairs(
        np.concatenate((of_users, of_items)),
        np.tile(parts.assignment, 2),
        n_users + n_items,
        parts.n_parts,
    ).with_random_owners(random_state)
    numbering = number_touched(connectivity)
    place = np.empty(n_users + n_items, np.int32)
    held = []
    for rank in range(parts.n_parts):
        own, ids = parts.members(rank), numbering.of_rank(rank).astype(np.int64)
        place[ids] = np.arange(ids.size, dtype=np.int32)
        n_local, n_owned, n_nonlocal = map(int, numbering.sizes[rank])
        held.append(
            Shard(
                rank, np.zeros(0, np.int64), ids, n_local, n_owned, n_nonlocal,
                place[of_users[own]], place[of_items[own]], matrix.values[own],
            )
        )  # fmt: skip
    return Shards(
        parts, connectivity, matrix.shape, matrix.values.dtype, held=held, numbering=numbering
    )


def copies_schedule(connectivity: Connectivity, n_sub_epochs: int) -> SubEpochSchedule:
    """The schedule of GASGD: all copies of a row meet at the end of every sub-epoch.

    Parameters
    ----------
    connectivity : Connectivity
        Row → ranks, with owners.
    n_sub_epochs : int
        η.
    """
    assert connectivity.owners is not None
    degree = np.diff(connectivity.pointer)
    used = np.flatnonzero(degree)
    rows = np.repeat(used, n_sub_epochs)
    pointer = np.concatenate(([0], np.cumsum(degree[rows]))).astype(np.int64)
    begin = np.repeat(connectivity.pointer[rows] - pointer[:-1], degree[rows])
    own = sums_by_key(connectivity.parts, connectivity.counts, connectivity.n_parts)
    own //= 2  # each rating touches two rows
    ends = np.arange(n_sub_epochs + 1)[None, :] * own[:, None] // n_sub_epochs
    return SubEpochSchedule(
        incidence=connectivity,
        n_sub_epochs=n_sub_epochs,
        sub_epoch=None,
        cell_nonzeros=np.diff(ends, axis=1),
        group_item=rows.astype(np.int32),
        group_sub_epoch=np.tile(np.arange(n_sub_epochs, dtype=np.int32), used.size),
        group_owner=connectivity.owners[rows],
        group_pointer=pointer,
        group_ranks=connectivity.parts[begin + np.arange(pointer[-1])],
    )
