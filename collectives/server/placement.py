"""Which shard holds which id, and where in it.

    id       0  1  2  3  4  5          given: a partition of the ids (Parsa's V)
    owner    1  0  1  1  0  2          hashed: mixed bits of the id, modulo the shards
    slot     0  0  1  2  1  0     shard 1 = rows of ids 0, 2, 3

Messages carry slots, which are half as long as ids, and a shard needs no look-up.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import as_array
from daskpart._floor.hashing import GOLDEN, mixed
from daskpart.errors import InputError


class Directory:
    """The owner of each id, int32[n_items], and its place in the owner's shard."""

    def __init__(self, owner: NDArray[np.int32], n_shards: int) -> None:
        self.owner, self.n_shards, self.n_items = owner, n_shards, len(owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return Directory, (self.owner, self.n_shards)  # what follows from it does not travel

    @cached_property
    def slot(self) -> NDArray[np.int32]:
        """int32[n_items]: place of each id in its shard, in rising order of the ids."""
        slot = np.empty(self.n_items, np.int32)
        for ids in self.ids_of_shards:
            slot[ids] = np.arange(len(ids), dtype=np.int32)
        return slot

    @cached_property
    def ids_of_shards(self) -> list[NDArray[np.int64]]:
        """The ids on each shard, rising."""
        return self._positions_by_shard(self._sortable)

    @cached_property
    def _sortable(self) -> NDArray[Any]:
        # numpy sorts short integers by radix, in linear time
        return self.owner.astype(np.uint16) if self.n_shards <= 65_536 else self.owner

    def prepare(self) -> None:
        """Work the slots out now, before ranks on several threads share them."""
        _ = self.slot

    def split(self, ids: NDArray[Any]) -> list[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
        """The shards of some ids, rising; where its ids stand among them, and their slots."""
        pieces = enumerate(self._positions_by_shard(self._sortable[ids]))
        return [(shard, at, self.slot[ids[at]]) for shard, at in pieces if len(at)]

    def joined(self, pieces: list[NDArray[Any]]) -> NDArray[Any]:
        """Rows of all ids, of the rows of each shard."""
        values = np.empty((self.n_items, *pieces[0].shape[1:]), pieces[0].dtype)
        for ids, piece in zip(self.ids_of_shards, pieces, strict=True):
            values[ids] = piece
        return values

    def _positions_by_shard(self, owner: NDArray[Any]) -> list[NDArray[np.int64]]:
        counts = np.bincount(owner, minlength=self.n_shards)
        return np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])


def place_items(placement: Any, n_items: int, n_shards: int) -> Directory:
    """The directory of a placement that a user gives: "hashed", shards by id, or a `Partition`.

    InputError if it is of another length, for another number of shards, or names none of them.
    """
    if isinstance(placement, str):
        if placement != "hashed":
            raise InputError(f"placement is {placement!r}: give 'hashed', an array or a Partition")
        words = mixed(np.arange(n_items, dtype=np.uint64) + GOLDEN)  # the same on every machine
        return Directory((words % np.uint64(n_shards)).astype(np.int32), n_shards)
    parts = getattr(placement, "n_parts", n_shards)
    if parts != n_shards:
        raise InputError(
            f"placement is a partition into {parts} parts, the server has {n_shards} shards (one a "
            "rank): make both the same"
        )
    owner = as_array(getattr(placement, "assignment", placement), "shards of a placement")
    if owner.shape != (n_items,) or owner.dtype.kind not in "iu":
        raise InputError(
            f"placement of shape {owner.shape} and dtype {owner.dtype}: give a whole number, the "
            f"shard, for each of the {n_items} ids"
        )
    outside = np.flatnonzero((owner < 0) | (owner >= n_shards))
    if len(outside):
        raise InputError(
            f"placement puts id {outside[0]} on shard {owner[outside[0]]}: shards are 0 to "
            f"{n_shards - 1} ({len(outside)} ids are placed outside)"
        )
    return Directory(owner.astype(np.int32), n_shards)
