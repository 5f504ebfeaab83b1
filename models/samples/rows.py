"""Which rank has which samples, and in which order it takes them: the same steps for any K.

    all samples, shuffled once     p = 0 1 2 3 4 5 6 7 8 …      B = K · batch_size slots
    slot  = p mod B                    a rank has batch_size slots: those of its samples
    step  = place in the slot          shuffled anew each epoch, slot by slot

A step takes one sample of every slot. Slots are shuffled by their number, not by rank, so K ranks
with batches of b take the same samples in the same step as one rank with batches of K·b. Where rows
are placed by a partition, each rank shuffles its own; a rank with fewer rows ends its epoch early.

    steps of an epoch   │ block 2 │ block 0 │ block 1 │ rest │      blocks in another order each
                            ╰─ rows of this block alone are shuffled, and are in memory

Rows of a large file are shuffled block by block, so that they need not be in memory: blocks change
places, and rows of a block theirs. As rows lie in random order from the beginning a block is a
sample of all (Xu et al. 2022, "In-database machine learning with CorgiPile", §4, without its loss).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from daskpart._floor.compressed_rows import compressed_rows
from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.readers.libsvm import Examples

from .examples_on_disk import StoredExamples


class Encoded(Protocol):
    """Samples in memory, in whatever form."""

    @property
    def nbytes(self) -> int: ...


class RankSamples(Encoded, Protocol):
    """Samples of a rank in memory, as a model takes them."""

    @property
    def rank(self) -> int: ...

    @property
    def places(self) -> NDArray[np.int64] | None: ...

    def __len__(self) -> int: ...

    def between(self, begin: int, end: int) -> Self:
        """Consecutive ones."""
        ...


class EpochPosition(Protocol):
    """Where a rank is in an epoch: its blocks in their order, and the order of the one at hand."""

    epoch: int
    blocks: NDArray[np.int64]
    order: NDArray[np.int64]


Held = TypeVar("Held", bound=RankSamples)
Kept = TypeVar("Kept", bound=Encoded)
Other = TypeVar("Other", bound=Encoded)


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
    target : float64 ndarray of shape (n_rows, 1) or (n_rows, n_outputs)
        ±1, the number of a class, or a number; of several targets one for each output.
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

    def between(self, begin: int, end: int) -> RankRows:
        """Consecutive rows, as a view; of all rows these themselves."""
        if begin == 0 and end == len(self):
            return self
        return replace(
            self,
            pointer=self.pointer[begin : end + 1],
            target=self.target[begin:end],
            weight=self.weight[begin:end],
        )

    def matrix(self, n_features: int) -> csr_array:
        """As a csr matrix."""
        own = slice(int(self.pointer[0]), int(self.pointer[-1]))
        pointer = self.pointer - self.pointer[0]
        return compressed_rows(self.data[own], self.indices[own], pointer, (len(self), n_features))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self.pointer[-1] - self.pointer[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        held = (self.pointer, self.indices, self.data, self.target, self.weight)
        return sum(array.nbytes for array in held)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What every kernel takes first."""
        return self.pointer, self.indices, self.data, self.target, self.weight


class StoredRows(Generic[Kept]):
    """A rank's samples on its disk; in memory are those that were asked for last.

    Parameters
    ----------
    rank : int
    examples : StoredExamples
    encode : callable
        Makes of `Examples` what a model takes, such as `RankRows`.

    Attributes
    ----------
    disk : Disk
    nbytes : int
        Bytes of rows that were in memory at most.
    """

    def __init__(
        self, rank: int, examples: StoredExamples, encode: Callable[[Examples], Kept]
    ) -> None:
        self.rank, self._examples, self._encode = rank, examples, encode
        self.dtype, self.nnz, self.nbytes = examples.dtype, examples.nnz, 0
        self.disk = examples.disk
        self._last: tuple[int, int, Kept] | None = None

    def __len__(self) -> int:
        return self._examples.n_rows

    def copy(self) -> Self:
        """These: nobody writes to them."""
        return self

    def encoded(self, further: Callable[[Kept], Other]) -> StoredRows[Other]:
        """The same samples, encoded further as they are read."""
        return StoredRows(self.rank, self._examples, lambda read: further(self._encode(read)))

    def between(self, begin: int, end: int) -> Kept:
        """Consecutive rows, read if they are not there."""
        last = self._last
        if last is None or last[:2] != (begin, end):
            self._last = last = None  # first let go, then read
            last = self._last = (begin, end, self._encode(self._examples.read(begin, end)))
            self.nbytes = max(self.nbytes, last[2].nbytes)
        return last[2]


Rows = RankRows | StoredRows[RankRows]


def in_blocks(rows: Held | StoredRows[Kept], length: int | None) -> Iterator[Held | Kept]:
    """All rows of a rank, so many at a time; None: at once."""
    step = max(1, len(rows) if length is None else length)
    for begin in range(0, max(1, len(rows)), step):
        yield rows.between(begin, min(begin + step, len(rows)))


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Which samples make a step, equal on all ranks.

    Attributes
    ----------
    sizes : tuple of int
        Samples of each rank.
    batch_size, random_state : int
    shuffle : bool
    block : int or None
        Steps whose rows are shuffled among themselves; None: all of an epoch.
    """

    sizes: tuple[int, ...]
    batch_size: int
    random_state: int
    shuffle: bool
    block: int | None = None

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

    @property
    def block_steps(self) -> int:
        """Steps of a block."""
        return max(1, self.n_steps if self.block is None else min(self.block, self.n_steps))

    @property
    def block_rows(self) -> int | None:
        """Rows of a rank in a block."""
        return None if self.block is None else self.block_steps * self.batch_size

    def blocks(self, epoch: int) -> NDArray[np.int64]:
        """The blocks in the order of an epoch: those that are whole on all ranks, then the rest."""
        numbers = np.arange(-(-self.n_steps // self.block_steps))
        whole = min(self.sizes) // (self.batch_size * self.block_steps)
        if self.shuffle and len(numbers) > 1:
            random = np.random.default_rng([self.random_state, 4, epoch])
            numbers[:whole] = random.permutation(whole)
        return numbers

    def rows_of_block(self, rows: Held | StoredRows[Held], block: int) -> Held:
        """The rows of a rank in a block."""
        length = self.block_rows or len(rows)
        begin, end = (min(number * length, len(rows)) for number in (block, block + 1))
        return rows.between(begin, end)

    def order(self, rows: RankSamples, epoch: int, block: int = 0) -> NDArray[np.int64]:
        """The order in which a rank takes its rows of a block in an epoch."""
        seed = seed_of_epoch(self.random_state, epoch, block)
        return order_of_epoch(rows, self.batch_size, seed, self.shuffle)

    def batch(
        self, rows: Held | StoredRows[Held], position: EpochPosition, step: int
    ) -> tuple[Held, NDArray[np.int64]]:
        """Rows of the block of a step, put in order as it begins, and which of them it takes."""
        place, in_block = divmod(step, self.block_steps)
        block = int(position.blocks[place])
        own = self.rows_of_block(rows, block)
        if not in_block:
            position.order = self.order(own, position.epoch, block)
        return own, self.of_step(position.order, step)

    def of_step(self, order: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """The rows of a rank in a step of an epoch, from the order of the step's block."""
        place = step % self.block_steps
        return order[place * self.batch_size : (place + 1) * self.batch_size]


def rank_rows(rank: int, X: Any, target: Any, weight: Any, places: Any = None) -> RankRows:
    """Rows of a csr matrix as a rank holds them."""
    return RankRows(
        rank,
        X.indptr.astype(np.int64, copy=False),
        X.indices,
        X.data,
        in_columns(np.asarray(target, np.float64)),
        np.asarray(weight, np.float64),
        places,
    )


def in_columns(target: NDArray[Any]) -> NDArray[Any]:
    """Targets with a column for each output, or one for all."""
    return target[:, None] if target.ndim == 1 else target


def members_of_ranks(
    n_samples: int, n_ranks: int, batch_size: int, seed: int | None
) -> list[NDArray[np.int64]]:
    """The samples of each rank, in the order in which the rank holds them; None: not shuffled."""
    order = np.arange(n_samples)
    if seed is not None:
        order = np.random.default_rng([seed, 1]).permutation(n_samples)
    owner = np.arange(n_samples) % (n_ranks * batch_size) // batch_size
    return [own for (own,) in cut_by_part(owner, n_ranks, order)]


def order_of_epoch(
    rows: RankSamples, batch_size: int, seed: int, shuffle: bool
) -> NDArray[np.int64]:
    """The order in which a rank takes its rows; `seed` is that of the epoch."""
    order = np.arange(len(rows))
    if shuffle:
        epoch_order(batch_size, rows.rank * batch_size, np.uint64(seed), order)
    return order if rows.places is None else rows.places[order]


def seed_of_epoch(random_state: int, epoch: int, block: int = 0) -> int:
    """Of the shuffle of a block of an epoch."""
    drawn = np.random.SeedSequence([random_state, 2, epoch]).generate_state(block + 1, np.uint64)
    return int(drawn[block])


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
