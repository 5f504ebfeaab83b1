"""Which rank has which samples, and in which order it takes them: the same steps for any K.

    all samples, shuffled once     p = 0 1 2 3 4 5 6 7 8 …      B = K · batch_size slots
    slot  = p mod B                    a rank has batch_size slots: those of its samples
    step  = place in the slot          shuffled anew each epoch, slot by slot

A step takes one sample of every slot. Slots are shuffled by their number, not by rank, so K ranks
with batches of b take the same samples in the same step as one rank with batches of K·b. Where rows
are placed by a partition, each rank shuffles its own; a rank with fewer rows ends its epoch early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import epoch_order


@dataclass(frozen=True, eq=False)
class RankRows:
    """A rank's samples, in the order of the global shuffle.

    Attributes
    ----------
    rank : int
    pointer : int64 ndarray of shape (n_rows + 1,)
    indices : int32 or int64 ndarray of shape (nnz,)
    data : float32 or float64 ndarray of shape (nnz,)
        Values; gradients are sent in their dtype.
    target : float64 ndarray of shape (n_rows,)
        ±1, the number of a class, or a number.
    weight : float64 ndarray of shape (n_rows,)
        Mean 1 over the samples of all ranks.
    places : int64 ndarray of shape (n_rows,), or None
        Where each row of the order above lies, of a rank that has all rows as they were given.
    """

    rank: int
    pointer: NDArray[np.int64]
    indices: NDArray[Any]
    data: NDArray[Any]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    places: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        held = (self.pointer, self.indices, self.data, self.target, self.weight)
        return sum(array.nbytes for array in held)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What every kernel takes first."""
        return self.pointer, self.indices, self.data, self.target, self.weight


def rank_rows(rank: int, X: Any, target: Any, weight: Any, places: Any = None) -> RankRows:
    """Rows of a csr matrix as a rank holds them."""
    return RankRows(
        rank,
        X.indptr.astype(np.int64, copy=False),
        X.indices,
        X.data,
        np.asarray(target, np.float64),
        np.asarray(weight, np.float64),
        places,
    )


def members_of_ranks(
    n_samples: int, n_ranks: int, batch_size: int, random_state: int, shuffle: bool
) -> list[NDArray[np.int64]]:
    """The samples of each rank, in the order in which the rank holds them."""
    order = np.arange(n_samples)
    if shuffle:
        order = np.random.default_rng([random_state, 1]).permutation(n_samples)
    owner = np.arange(n_samples) % (n_ranks * batch_size) // batch_size
    return [order[owner == rank] for rank in range(n_ranks)]


def order_of_epoch(rows: RankRows, batch_size: int, seed: int, shuffle: bool) -> NDArray[np.int64]:
    """The order in which a rank takes its rows; `seed` is that of the epoch."""
    order = np.arange(len(rows))
    if shuffle:
        epoch_order(batch_size, rows.rank * batch_size, np.uint64(seed), order)
    return order if rows.places is None else rows.places[order]


def seed_of_epoch(random_state: int, epoch: int) -> int:
    """Of the shuffle of an epoch."""
    return int(np.random.SeedSequence([random_state, 2, epoch]).generate_state(1, np.uint64)[0])
