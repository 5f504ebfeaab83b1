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

from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel


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


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Which samples make a step, equal on all ranks.

    Attributes
    ----------
    sizes : tuple of int
        Samples of each rank.
    batch_size, random_state : int
    shuffle : bool
    """

    sizes: tuple[int, ...]
    batch_size: int
    random_state: int
    shuffle: bool

    @property
    def n_samples(self) -> int:
        """Of all ranks."""
        return sum(self.sizes)

    @property
    def n_steps(self) -> int:
        """Of an epoch."""
        return -(-max(self.sizes) // self.batch_size)

    def count(self, step: int) -> int:
        """Samples of all ranks in a step of an epoch."""
        done = step * self.batch_size
        return sum(min(max(size - done, 0), self.batch_size) for size in self.sizes)

    def order(self, rows: RankRows, epoch: int) -> NDArray[np.int64]:
        """The order in which a rank takes its rows in an epoch."""
        seed = seed_of_epoch(self.random_state, epoch)
        return order_of_epoch(rows, self.batch_size, seed, self.shuffle)

    def of_step(self, order: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """The rows of a rank in a step of an epoch."""
        return order[step * self.batch_size : (step + 1) * self.batch_size]


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


@kernel
def epoch_order(batch: int, first_slot: int, seed: np.uint64, order: NDArray[Any]) -> None:
    """Shuffle each slot of a rank's rows: the order of an epoch.

    Row ``t · batch + s`` lies in slot ``s`` and is taken at some step by that slot. A slot is
    shuffled by its number among the slots of all ranks, so the same samples meet in a step however
    many ranks share the slots.
    """
    n = len(order)
    for row in range(n):
        order[row] = row
    for slot in range(min(batch, n)):
        state = mixed_word(seed + np.uint64(first_slot + slot) * GOLDEN)
        length = (n - slot + batch - 1) // batch
        for t in range(length - 1, 0, -1):
            state += GOLDEN
            other = int(mixed_word(state) % np.uint64(t + 1)) * batch + slot
            here = t * batch + slot
            order[here], order[other] = order[other], order[here]
