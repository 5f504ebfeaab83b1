"""When each rank works on which item: the sub-epochs of η-PASGD.

An epoch is cut into η sub-epochs. All nonzeros of column j on rank k are processed in exactly one
of them (eq. 6), and h_j is touched in min(η, λ_j) of them (eq. 7), its λ_j ranks spread as evenly
as possible:

            t = 0      t = 1      t = 2      t = 3
    h_j     p2         p3 p5      p1 p7      p4 p6          λ_j = 7, η = 4  (Fig. 2 of the paper)
            └─expand──►└reduce,expand─►… ──────────►(next epoch)

Among the assignments that satisfy both, we look for one that balances the nonzeros over the
(rank, sub-epoch) cells, since the slowest cell of a sub-epoch sets the pace: items in falling order
of their nonzeros, each rank into its least loaded sub-epoch that the item may still use; local
columns (λ = 1) come last and fill the gaps.

The ranks that share an item in one sub-epoch are a *group*. Groups are all that the messages depend
on, here and in the schedules that η-PASGD is compared with (`strata`, `copies`):

    reduce(t)   the members of a group send their copies to the group's owner
    expand(t)   the owner sends the mean to the members of the item's *next* group,
                around the end of the epoch too

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §3.3–3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from daskpart._floor.compressed_rows import entries_of_rows
from daskpart._floor.kernels import kernel
from daskpart.collectives.plan import Plan, Round


@kernel
def _assign_sub_epochs(pointer, parts, counts, item_order, by_weight, room, load, sub_epoch):
    """Fill `sub_epoch` for each (item, rank) pair; `load` holds nonzeros per (rank, sub-epoch).

    `by_weight` lists the pairs of each item by falling count, `room` has a place a sub-epoch.
    """
    n_sub_epochs = load.shape[1]
    for item in item_order:
        begin, end = pointer[item], pointer[item + 1]
        base = (end - begin) // n_sub_epochs
        larger = end - begin - base * n_sub_epochs  # so many sub-epochs take one rank more
        for t in range(n_sub_epochs):
            room[t] = base
        for place in range(begin, end):
            pair = by_weight[place]
            rank = parts[pair]
            best = -1
            for t in range(n_sub_epochs):
                open_ = room[t] > 0 or (room[t] == 0 and larger > 0)
                if open_ and (best < 0 or load[rank, t] < load[rank, best]):
                    best = t
            if room[best] == 0:
                larger -= 1
            room[best] -= 1
            sub_epoch[pair] = best
            load[rank, best] += counts[pair]


@dataclass(frozen=True)
class SubEpochSchedule:
    """Who works on which item when, and who averages it.

    Attributes
    ----------
    incidence : Connectivity
        Item → ranks that hold its row at some time, with the ratings that they have on it.
    n_sub_epochs : int
    sub_epoch : ndarray of int32, shape (n_pairs,), or None
        Sub-epoch of each (item, rank) pair of `incidence`. None: a pair is in all of them, and a
        rank deals its ratings to them at random.
    cell_nonzeros : ndarray of int64, shape (n_ranks, n_sub_epochs)
        Nonzeros that a rank processes in a sub-epoch.
    group_item, group_sub_epoch, group_owner : ndarray of int32, shape (n_groups,)
        The groups, sorted by item, then sub-epoch.
    group_pointer : ndarray of int64, shape (n_groups + 1,)
    group_ranks : ndarray of int32
        Members of group g: ``group_ranks[group_pointer[g]:group_pointer[g + 1]]``, rising.
    """

    incidence: Any
    n_sub_epochs: int
    sub_epoch: np.ndarray | None
    cell_nonzeros: np.ndarray
    group_item: np.ndarray
    group_sub_epoch: np.ndarray
    group_owner: np.ndarray
    group_pointer: np.ndarray
    group_ranks: np.ndarray

    @property
    def n_ranks(self) -> int:
        """K."""
        return int(self.incidence.n_parts)

    @property
    def n_items(self) -> int:
        """Items, those without ratings among them."""
        return int(self.incidence.n_items)

    @property
    def cell_imbalance(self) -> float:
        """Σ_t max_k cell(k, t) over Σ_t mean_k cell(k, t), less one: the cost of waiting."""
        mean = self.cell_nonzeros.mean(axis=0).sum()
        return float(self.cell_nonzeros.max(axis=0).sum() / mean - 1) if mean else 0.0

    @property
    def group_size(self) -> np.ndarray:
        """λ^t of each group: how many ranks update the item at once, int64 of shape (n_groups,)."""
        return np.diff(self.group_pointer)

    @property
    def staleness(self) -> int:
        """Rows per epoch updated from a stale copy, Σ (λ^t − 1): equals eq. 9 with F = 1."""
        return int((self.group_size - 1).sum())

    @cached_property
    def next_group(self) -> np.ndarray:
        """The item's following group, around the end of the epoch; int64 of shape (n_groups,)."""
        following = np.arange(1, self.group_item.size + 1)
        # the first group of an item follows its last one, which stands before that of the next
        following[np.roll(self._first_groups, -1) - 1] = self._first_groups
        return following

    @cached_property
    def home(self) -> np.ndarray:
        """The rank that holds an item's final row between epochs, −1 for unused items.

        It is the owner in the item's first group: the last expand of an epoch leads there.
        """
        home = np.full(self.n_items, -1, np.int32)
        home[self.group_item[self._first_groups]] = self.group_owner[self._first_groups]
        return home

    @cached_property
    def _first_groups(self) -> np.ndarray:
        """The first group of each item that has some, rising."""
        return np.flatnonzero(np.diff(self.group_item, prepend=-1))

    def holds(self, items: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Whether each rank holds the row of the item beside it at some time, as bool array."""
        held = self._pairs(items_of_pairs(self.incidence), self.incidence.parts)
        return np.isin(self._pairs(items, ranks), held)

    def final_rows_plan(self, items: np.ndarray, ranks: np.ndarray) -> Plan:
        """Messages between two epochs: final rows of `items`, each to the rank beside it.

        From their home; ranks of an item's first group have them, and the owner in its last one, by
        which they were made; of unused items there are none. Other ranks have stale copies at most,
        which they are sent anew before they work on them: so the rows may be written over these. No
        pair may be given twice.
        """
        home, first = self.home[items], self._first_groups
        last = np.roll(first, -1) - 1
        members, size = self._members(first)
        of_first = self._pairs(np.repeat(self.group_item[first], size), members)
        of_last = self._pairs(self.group_item[last], self.group_owner[last])
        held = np.isin(self._pairs(items, ranks), np.concatenate((of_first, of_last)))
        travels = (home >= 0) & ~held
        return self._transfers(home[travels], ranks[travels], items[travels])

    def reduce_plan(self, sub_epoch: int) -> Plan:
        """Messages that carry the copies of a sub-epoch's shared items to their owners."""
        groups = self._groups[sub_epoch]
        return self._from_owners(groups, groups).reversed()

    def expand_plan(self, sub_epoch: int) -> Plan:
        """Messages that carry a sub-epoch's items from their owners to the next users."""
        groups = self._groups[sub_epoch]
        return self._from_owners(groups, self.next_group[groups])

    @cached_property
    def _groups(self) -> list[np.ndarray]:
        """The groups of each sub-epoch, rising."""
        # looked for once, and plans are made of them alone: there may be as many sub-epochs as
        # ranks, and most items are in few of them
        order = np.argsort(self.group_sub_epoch, kind="stable")
        sizes = np.bincount(self.group_sub_epoch, minlength=self.n_sub_epochs)
        return np.split(order, np.cumsum(sizes)[:-1])

    def _from_owners(self, groups: np.ndarray, others: np.ndarray) -> Plan:
        """Messages that carry each group's item from its owner to the members of the other."""
        members, size = self._members(others)
        owners = np.repeat(self.group_owner[groups], size)
        items = np.repeat(self.group_item[groups], size)
        travels = owners != members
        return self._transfers(owners[travels], members[travels], items[travels])

    def _members(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The members of some groups, one group after the other, and how many each has."""
        pointer, places = entries_of_rows(self.group_pointer, groups)
        return self.group_ranks[places], np.diff(pointer)

    def _pairs(self, items: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """A number for each (item, rank)."""
        return items * np.int64(self.n_ranks) + ranks

    def _transfers(self, source: np.ndarray, destination: np.ndarray, items: np.ndarray) -> Plan:
        messages = Round.from_transfers(self.n_ranks, source, destination, items)
        return Plan("expand", self.n_items, (messages,))


def items_of_pairs(incidence: Any) -> np.ndarray:
    """The item of each (item, rank) pair, int32."""
    return np.repeat(np.arange(incidence.n_items, dtype=np.int32), np.diff(incidence.pointer))


def make_schedule(connectivity: Any, n_sub_epochs: int, random_state: int = 0) -> SubEpochSchedule:
    """Assign each (item, rank) pair to a sub-epoch and choose owners.

    Parameters
    ----------
    connectivity : Connectivity
        Item → ranks, with the nonzeros of the item on each rank in `counts`.
    n_sub_epochs : int
        η, at least 1. Beyond λ_max it changes nothing but the balance of the cells.
    random_state : int
        Seeds the owners: any member of a group, at random, as in the paper (§5.1.1).

    Returns
    -------
    SubEpochSchedule
    """
    pointer, parts, counts = connectivity.pointer, connectivity.parts, connectivity.counts
    degree, item_of_pair = np.diff(pointer), items_of_pairs(connectivity)
    weight = np.bincount(item_of_pair, weights=counts, minlength=degree.size)
    used = np.flatnonzero(degree)
    item_order = used[np.lexsort((-weight[used], degree[used] == 1))]
    cell_nonzeros = np.zeros((connectivity.n_parts, n_sub_epochs), np.int64)
    sub_epoch = np.zeros(parts.size, np.int32)
    by_weight = np.lexsort((-counts, item_of_pair))
    room = np.empty(n_sub_epochs, np.int64)
    _assign_sub_epochs(
        pointer, parts, counts, item_order, by_weight, room, cell_nonzeros, sub_epoch
    )
    return grouped(connectivity, sub_epoch, cell_nonzeros, random_state)


def grouped(
    incidence: Any, sub_epoch: np.ndarray, cell_nonzeros: np.ndarray, random_state: int = 0
) -> SubEpochSchedule:
    """The schedule in which each (item, rank) pair of `incidence` works in its `sub_epoch`."""
    n_sub_epochs, item_of_pair = cell_nonzeros.shape[1], items_of_pairs(incidence)
    by_group = np.lexsort((incidence.parts, sub_epoch, item_of_pair))
    key = item_of_pair[by_group].astype(np.int64) * n_sub_epochs + sub_epoch[by_group]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    group_pointer = np.append(starts, key.size).astype(np.int64)
    generator = np.random.default_rng(random_state)
    chosen = starts + (generator.random(starts.size) * np.diff(group_pointer)).astype(np.int64)
    group_ranks = incidence.parts[by_group]
    return SubEpochSchedule(
        incidence=incidence,
        n_sub_epochs=n_sub_epochs,
        sub_epoch=sub_epoch,
        cell_nonzeros=cell_nonzeros,
        group_item=(key[starts] // n_sub_epochs).astype(np.int32),
        group_sub_epoch=(key[starts] % n_sub_epochs).astype(np.int32),
        group_owner=group_ranks[chosen],
        group_pointer=group_pointer,
        group_ranks=group_ranks,
    )
