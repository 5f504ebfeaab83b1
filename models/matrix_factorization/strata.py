"""DSGD: K strata an epoch, in each of which every rank works on an item block of its own.

              t = 0   t = 1   t = 2          rank k works on block (k + t) mod K; then the whole
    rank 0     B0      B1      B2            block moves on to rank k − 1, whether or not that has
    rank 1     B1      B2      B0            ratings of all its items
    rank 2     B2      B0      B1

No two ranks work on a row at once, so nothing is stale, and nothing is averaged. It costs K · N
rows an epoch wherever the users lie: blocks know nothing of who rates what, which is what a cut for
η-PASGD is about. Items are dealt to blocks by falling number of ratings, each to the lightest.

Source: Gemulla, Nijkamp, Haas, Sismanis, "Large-Scale Matrix Factorization with Distributed
Stochastic Gradient Descent" (KDD 2011), §4.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from daskpart.connectivity import Connectivity

from .schedule import SubEpochSchedule, grouped, items_of_pairs


def strata_schedule(connectivity: Connectivity) -> SubEpochSchedule:
    """The schedule of DSGD.

    Parameters
    ----------
    connectivity : Connectivity
        Item → ranks, with the ratings of the item on each rank in `counts`.

    Returns
    -------
    SubEpochSchedule
        With K sub-epochs. Every rank holds every item that has ratings, once an epoch.
    """
    n_ranks = connectivity.n_parts
    weight = np.bincount(items_of_pairs(connectivity), connectivity.counts, connectivity.n_items)
    block = item_blocks(weight, n_ranks)
    everywhere = _on_every_rank(connectivity)
    sub_epoch = ((block[items_of_pairs(everywhere)] - everywhere.parts) % n_ranks).astype(np.int32)
    cells = np.zeros((n_ranks, n_ranks), np.int64)
    np.add.at(cells, (everywhere.parts, sub_epoch), everywhere.counts)
    return grouped(everywhere, sub_epoch, cells)


def item_blocks(weight: Any, n_blocks: int) -> np.ndarray:
    """The block of each item, of about equal weight: int64 of shape (n_items,)."""
    block = np.zeros(len(weight), np.int64)
    lightest = [(0.0, each) for each in range(n_blocks)]
    for item in np.argsort(-weight, kind="stable").tolist():
        load, chosen = lightest[0]
        block[item] = chosen
        # a unit more than the ratings: rows travel too, so items without many are shared out
        heapq.heapreplace(lightest, (load + weight[item] + 1, chosen))
    return block


def _on_every_rank(connectivity: Connectivity) -> Connectivity:
    """The incidence in which every item in use lies on all ranks; counts may be 0 there."""
    n_ranks, used = connectivity.n_parts, np.diff(connectivity.pointer) > 0
    pointer = np.concatenate(([0], np.cumsum(used * n_ranks))).astype(np.int64)
    counts = np.zeros(pointer[-1], np.int64)
    counts[pointer[items_of_pairs(connectivity)] + connectivity.parts] = connectivity.counts
    parts = np.tile(np.arange(n_ranks, dtype=np.int32), int(used.sum()))
    return Connectivity(pointer, parts, counts, n_ranks, connectivity.costs)
