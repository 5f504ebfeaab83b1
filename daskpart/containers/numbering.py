"""Local numbering: the order in which each rank keeps the items that it has to do with.

    items of rank k, in its own order (η-PASGD, Fig. 1; CP decomposition, §2.2)

    local | owned | nonlocal       `number_touched`: what shards hold
      │       │        └─ other ranks touch it too, and one of them owns it
      │       └────────── other ranks touch it too, and this rank owns it
      └────────────────── no other rank has to do with it

         owned    | nonlocal       `number_owned`: what factor rows need; the owned rows of all
      local, owned                 ranks together are the whole factor

Within each group items rise by their global id. So what a rank sends (reduce) is its last group,
what it gathers (reduce) and hands out (expand) the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .coordinates import stable_order

if TYPE_CHECKING:
    from daskpart.connectivity import Connectivity


@dataclass(frozen=True, eq=False)
class Numbering:
    """The items of each rank, in its local order.

    Attributes
    ----------
    pointer : ndarray of int64, shape (n_parts + 1,)
    items : ndarray of int, shape (n_pairs,)
        Rank k holds ``items[pointer[k]:pointer[k + 1]]``, group after group.
    sizes : ndarray of int64, shape (n_parts, n_groups)
        Items of each group of each rank.
    """

    pointer: NDArray[np.int64]
    items: NDArray[Any]
    sizes: NDArray[np.int64]

    def of_rank(self, rank: int) -> NDArray[Any]:
        """Items of one rank in its local order."""
        return self.items[self.pointer[rank] : self.pointer[rank + 1]]

    def first_group(self, rank: int) -> NDArray[Any]:
        """Its local items (`number_touched`), or those that it owns (`number_owned`)."""
        begin = self.pointer[rank]
        return self.items[begin : begin + self.sizes[rank, 0]]

    def of_ranks(self) -> list[NDArray[Any]]:
        """`of_rank` of each."""
        return [self.of_rank(rank) for rank in range(len(self.sizes))]

    def first_groups(self) -> list[NDArray[Any]]:
        """`first_group` of each."""
        return [self.first_group(rank) for rank in range(len(self.sizes))]


def number_touched(connectivity: Connectivity) -> Numbering:
    """Number what each rank touches: local, owned, nonlocal; int64. Cost: O(items + pairs).

    An item that one rank touches and another owns is nonlocal, for its row has to travel.
    """
    assert connectivity.owners is not None
    n_sharers = np.diff(connectivity.pointer)
    items = np.repeat(np.arange(connectivity.n_items), n_sharers)
    is_owned = connectivity.owners[items] == connectivity.parts
    is_local = is_owned & (n_sharers[items] == 1)
    group = np.where(is_local, 0, np.where(is_owned, 1, 2))
    return _by_rank(items, connectivity.parts, group, connectivity.n_parts, 3)


def number_owned(connectivity: Connectivity) -> Numbering:
    """Number what each rank owns or touches: owned, nonlocal; int32. Cost: O(items + pairs).

    An owner need not touch its item: under a hypercube embedding a rank that forwards a row may own
    it. An item that no rank touches is owned by a rank in turn.
    """
    assert connectivity.owners is not None
    n_ranks, n_items = connectivity.n_parts, connectivity.n_items
    every = np.arange(n_items, dtype=np.int32)
    owners = np.where(connectivity.owners < 0, every % n_ranks, connectivity.owners)
    touched = np.repeat(every, np.diff(connectivity.pointer))
    touches_own = np.zeros(n_items, bool)
    touches_own[touched[connectivity.parts == owners[touched]]] = True
    added = every[~touches_own]
    items = np.concatenate((touched, added))
    ranks = np.concatenate((connectivity.parts, owners[added]))
    rising = stable_order(items, n_items)
    items, ranks = items[rising], ranks[rising]
    return _by_rank(items, ranks, owners[items] != ranks, n_ranks, 2)


def _by_rank(
    items: NDArray[Any], ranks: NDArray[Any], group: NDArray[Any], n_ranks: int, n_groups: int
) -> Numbering:
    """Pairs of rising items, ordered by rank and then by group."""
    key = ranks.astype(np.int64) * n_groups + group
    sizes = np.bincount(key, minlength=n_ranks * n_groups).reshape(-1, n_groups)
    pointer = np.concatenate(([0], np.cumsum(sizes.sum(axis=1)))).astype(np.int64)
    order = stable_order(key, n_ranks * n_groups)
    return Numbering(pointer, items[order], sizes.astype(np.int64))
