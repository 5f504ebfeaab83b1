"""BPR on a rank: which unseen items it may draw for a triple (user, seen, unseen), and its weight.

    cell (k, t)    items that rank k may change in sub-epoch t     C(k, t)
    triple         user and seen item: a rating of the cell        unseen: any of C(k, t) that the
                                                                   user has not seen

Both item rows of a triple must be in the cell: only there is nobody else at work on them, so a run
without staleness stays one with triples. So the unseen ones come from the share |C(k, t)| / N of
the catalogue, not from all of it, and an item of a small cell would be drawn the more often. Each
triple therefore counts |C(k, t)|, over the mean of that over all triples: then any two pairs of a
seen and an unseen item that meet in a cell have the same expected weight, whatever the cell. Pairs
of items that no cell of a user's rank has together meet on other ranks only. With one rank and one
sub-epoch all weights are 1, and this is BPR as it was published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskpart._floor.hashing import GOLDEN, mixed

from .kernels.bpr import draw_unseen


@dataclass(frozen=True)
class Negatives:
    """What a rank draws unseen items from, fixed for the whole fit.

    Attributes
    ----------
    seed : int
    candidates : int32 ndarray
        Local positions of the items of each cell.
    cell_pointer : int64 ndarray of shape (n_sub_epochs + 1,)
    weights : float32 ndarray of shape (n_sub_epochs,)
        What a triple of each cell counts.
    seen_pointer, seen_items : int64 ndarray of shape (n_users + 1,), int32 ndarray
        Local positions of what each user has seen, rising.
    """

    seed: int
    candidates: np.ndarray
    cell_pointer: np.ndarray
    weights: np.ndarray
    seen_pointer: np.ndarray
    seen_items: np.ndarray

    def draw(self, ratings: Any, sub_epoch: int, epoch: int) -> np.ndarray:
        """The unseen item of each triple of a cell, int32; −1 for those whose users saw all."""
        cell = slice(*ratings.cell_pointer[sub_epoch : sub_epoch + 2])
        begin, end = self.cell_pointer[sub_epoch : sub_epoch + 2]
        rows, columns = ratings.rows[cell], ratings.columns[cell]
        drawn = np.empty(rows.size, np.int32)
        word = mixed(np.array([self.seed], np.uint64) + np.array([epoch], np.uint64) * GOLDEN)[0]
        draw_unseen(
            rows, columns, ratings.users, ratings.items, word, self.candidates, begin, end,
            self.seen_pointer, self.seen_items, drawn,
        )  # fmt: skip
        return drawn


Pairs = tuple[np.ndarray, np.ndarray]  # users, and the item of each


def negatives_of(
    shard: Any,
    positions: np.ndarray,
    schedule: Any,
    random_state: int,
    seen_before: Pairs | None = None,
) -> Negatives:
    """What the rank of a shard draws from.

    Parameters
    ----------
    shard : Shard
    positions : ndarray of int
        Local positions of ``schedule.items``.
    schedule : RankSchedule
    random_state : int
    seen_before : (ndarray of int, ndarray of int), optional
        Local positions of what users had in an earlier fit, which is not unseen either.
    """
    rows, columns = shard.row_index, shard.column_index
    if seen_before is not None:
        rows = np.concatenate((rows, seen_before[0]))
        columns = np.concatenate((columns, seen_before[1]))
    order = np.argsort(schedule.sub_epoch, kind="stable")
    in_cell = np.bincount(schedule.sub_epoch, minlength=schedule.n_sub_epochs)
    by_user = np.lexsort((columns, rows))
    seen = np.bincount(rows, minlength=shard.rows.size)
    seed = np.random.SeedSequence(random_state, spawn_key=(1 << 21,)).generate_state(1, np.uint64)
    return Negatives(
        seed=int(seed[0]),
        candidates=positions[order].astype(np.int32),
        cell_pointer=np.concatenate(([0], np.cumsum(in_cell))).astype(np.int64),
        weights=schedule.triple_weights.astype(np.float32),
        seen_pointer=np.concatenate(([0], np.cumsum(seen))).astype(np.int64),
        seen_items=columns[by_user].astype(np.int32),
    )


def triple_weights(schedule: Any) -> np.ndarray:
    """What a triple of each cell counts, float64 of shape (n_ranks, n_sub_epochs): see above."""
    if schedule.sub_epoch is None:
        return np.ones(schedule.cell_nonzeros.shape)
    on_offer = np.zeros(schedule.cell_nonzeros.shape)
    np.add.at(on_offer, (schedule.incidence.parts, schedule.sub_epoch), 1)
    mean = (schedule.cell_nonzeros * on_offer).sum() / max(1, schedule.cell_nonzeros.sum())
    return on_offer / max(mean, 1.0)
