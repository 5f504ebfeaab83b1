"""Examples of a file on ranks, in random order: read in blocks, dealt out as they are read.

    round 1   rank 0 reads a block ─┬─ rows whose key is in rank 0's slice ─▶ rank 0
                                    └─ rows whose key is in rank 1's slice ─▶ rank 1
    round 2   …

    keys      0 ─────── rank 0 ───────┬─────── rank 1 ─────── 2^64     key = hash of the row number
              bucket │ bucket │ …     │ bucket │ bucket │ …

At the end each rank orders its rows by key. So the order of all rows, rank after rank, is one
random order of the file, the same for any number of ranks; it depends on the seed alone. Data
sorted by class, as many files are, would otherwise ruin a learner that sees rows in turn.

A rank never holds more than its rows as CSR, one bucket of them twice, and the block that is being
read: rows wait in buckets, consecutive slices of the keys, each ordered by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskpart._floor.hashing import GOLDEN, mixed
from daskpart.collectives.messages import Exchange, ValueInbox
from daskpart.containers.coordinates import index_dtype
from daskpart.partitions import Partition
from daskpart.readers.libsvm import Examples, Rows
from daskpart.readers.ranges import ExamplesFile

_ROUND_BYTES = 16 << 20
_BUCKETS = 16  # of a rank


def row_keys(n_rows: int, seed: int, first: int = 0) -> NDArray[np.uint64]:
    """A key for each row by its number; all differ, and in their order rows are shuffled.

    Parameters
    ----------
    n_rows : int
    seed : int
    first : int
        Number of the first row.
    """
    rows = np.arange(first, first + n_rows, dtype=np.uint64)
    return mixed(rows * GOLDEN + mixed(np.array([seed], np.uint64) + GOLDEN))


def placed_keys(partition: Partition) -> NDArray[np.uint64]:
    """A key for each row so that it goes to its part, and rows of a part keep their order."""
    n_parts = partition.n_parts
    keys = np.empty(len(partition.assignment), np.uint64)
    for part in range(n_parts):
        own = partition.members(part)
        step = (1 << 64) // (n_parts * (len(own) + 1))
        first = np.uint64(-(-(part << 64) // n_parts))
        keys[own] = first + np.arange(len(own), dtype=np.uint64) * np.uint64(step)
    return keys


def shuffled_rows(n_rows: int, n_ranks: int, seed: int) -> list[NDArray[np.int64]]:
    """The rows of each rank, in the order that `examples_on_ranks` gives them.

    For data in memory: a fit on them and one on a file of them then are the same.
    """
    keys = row_keys(n_rows, seed)
    order = np.argsort(keys)
    rising = keys[order]
    return np.split(order, [_row_at(rising, rank, n_ranks) for rank in range(1, n_ranks)])


def _row_at(keys: NDArray[np.uint64], number: int, n_slices: int) -> int:
    """Where in rising keys a slice begins."""
    if number == n_slices:
        return len(keys)
    return int(np.searchsorted(keys, np.uint64((number << 64) // n_slices)))


class _Block(NamedTuple):
    """Rows and their keys, by rising key."""

    keys: NDArray[np.uint64]
    rows: Rows

    def ordered(self) -> _Block:
        order = np.argsort(self.keys)
        pointer = np.concatenate([[0], np.cumsum(self.rows.lengths)])
        shape = (len(order), self.rows.most + 1)
        matrix = sp.csr_array((self.rows.values, self.rows.indices, pointer), shape=shape)[order]
        rows = Rows(
            np.diff(matrix.indptr).astype(np.int64),
            matrix.indices,
            matrix.data,
            self.rows.labels[order],
        )
        return _Block(self.keys[order], rows)

    def of_slice(self, number: int, n_slices: int) -> _Block:
        """A view of the rows whose keys are in one of `n_slices` equal slices."""
        begin = _row_at(self.keys, number, n_slices)
        end = _row_at(self.keys, number + 1, n_slices)
        features = slice(*(int(self.rows.lengths[:row].sum()) for row in (begin, end)))
        rows = Rows(
            self.rows.lengths[begin:end],
            self.rows.indices[features],
            self.rows.values[features],
            self.rows.labels[begin:end],
        )
        return _Block(self.keys[begin:end], rows)

    def copy(self) -> _Block:
        return _Block(self.keys.copy(), Rows(*(array.copy() for array in self.rows)))


@dataclass(frozen=True, eq=False)
class Reading:
    """What one rank reads.

    Attributes
    ----------
    rank : int
    file : ExamplesFile
    rounds : list of range
        Blocks of the file; as many rounds on every rank, so some may be empty.
    keys : uint64 ndarray, or None
        Of the rows that it reads, where a partition says their ranks.
    """

    rank: int
    file: ExamplesFile
    rounds: list[range]
    keys: NDArray[np.uint64] | None = None

    def keys_of(self, blocks: range, seed: int) -> NDArray[np.uint64]:
        """Of the rows of some of its blocks."""
        pointer = self.file.row_pointer
        begin, end = (int(pointer[blocks.start]), int(pointer[blocks.stop])) if blocks else (0, 0)
        if self.keys is None:
            return row_keys(end - begin, seed, begin)
        first = int(pointer[next(each.start for each in self.rounds if each)]) if blocks else 0
        return self.keys[begin - first : end - first]


@dataclass(eq=False)
class _Held:
    """Rows that have arrived at a rank, by bucket."""

    buckets: list[list[_Block]] = field(default_factory=list)


def readings(
    file: ExamplesFile,
    n_ranks: int,
    round_bytes: int = _ROUND_BYTES,
    partition: Partition | None = None,
) -> list[Reading]:
    """What each rank reads, round by round.

    Parameters
    ----------
    file : ExamplesFile
    n_ranks : int
    round_bytes : int
        About as much of the file a round and rank. A compressed file is read in one round, as it
        has to be unpacked from its beginning.
    partition : Partition, optional
        The rank of each row.
    """
    own = file.ranges(n_ranks)
    keys: list[Any] = [None] * n_ranks
    if partition is not None:
        of_all, pointer = placed_keys(partition), file.row_pointer
        keys = [of_all[pointer[each.start] : pointer[each.stop]] for each in own]
    rounds = [_in_rounds(file, blocks, round_bytes) for blocks in own]
    n_rounds = max(map(len, rounds))
    return [
        Reading(rank, file, each + [range(0)] * (n_rounds - len(each)), keys[rank])
        for rank, each in enumerate(rounds)
    ]


def _in_rounds(file: ExamplesFile, blocks: range, round_bytes: int) -> list[range]:
    if file.is_compressed or not blocks:
        return [blocks]
    start = file.blocks[blocks[0]].start
    numbers = [(file.blocks[block].stop - start - 1) // round_bytes for block in blocks]
    borders = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    ends = [*borders[1:], len(blocks)]
    return [blocks[begin:end] for begin, end in zip(borders, ends, strict=True)]


def examples_on_ranks(comm: Any, own: Any, *, n_rounds: int, seed: int | None) -> Any:
    """Each rank's examples of a file; a text.

    Parameters
    ----------
    comm : Communicator
    own : PerRank of Reading
        From `readings`.
    n_rounds : int
        Of each of them.
    seed : int or None
        Of the order of all rows; None: each rank keeps what it reads, in the order of the file.

    Returns
    -------
    PerRank of Examples

    Notes
    -----
    n_ranks (n_ranks − 1) messages a round; all rows but one in n_ranks travel once.
    """
    n_ranks = comm.n_ranks
    pairs = [(i, j) for i in range(n_ranks) for j in range(n_ranks) if i != j]
    exchange = Exchange.from_pairs(n_ranks, pairs if seed is not None else [])
    pack = partial(_pack, n_ranks=n_ranks)
    held = comm.map(_nothing, own)
    for number in range(n_rounds):
        block = comm.map(_read, own, number=number, seed=seed)
        arriving = comm.post_values(exchange, block, pack, "examples", number)
        bucket = None if seed is not None else number * _BUCKETS // n_rounds
        held = comm.collect(arriving, held, _arrange, block, n_ranks=n_ranks, bucket=bucket)
        held = comm.settle(held)
    return comm.update(_assemble, held, own)


def _nothing(own: Reading) -> _Held:
    return _Held([[] for _ in range(_BUCKETS)])


def _read(own: Reading, *, number: int, seed: int | None) -> _Block:
    blocks = own.rounds[number]
    rows = own.file.rows_of(blocks)
    if seed is None:
        first = int(own.file.row_pointer[blocks[0]]) if blocks else 0
        return _Block(np.arange(first, first + len(rows.labels), dtype=np.uint64), rows)
    return _Block(own.keys_of(blocks, seed), rows).ordered()


def _pack(
    block: _Block, source: int, destination: int, *, n_ranks: int
) -> tuple[NDArray[Any], ...]:
    part = block.of_slice(destination, n_ranks)
    return (part.keys, *part.rows)


def _arrange(
    held: _Held, inbox: ValueInbox, block: _Block, *, n_ranks: int, bucket: int | None
) -> _Held:
    """Put what arrived, and what stays, into buckets; copies, so that messages can go."""
    if bucket is not None:
        held.buckets[bucket].append(block)
        return held
    arrived = [_Block(keys, Rows(*rows)) for keys, *rows in inbox.payloads]
    for each in (block.of_slice(inbox.rank, n_ranks), *arrived):
        for number, of_bucket in enumerate(held.buckets):
            part = each.of_slice(inbox.rank * _BUCKETS + number, n_ranks * _BUCKETS)
            if len(part.keys):
                of_bucket.append(part.copy())
    return held


def _assemble(held: _Held, own: Reading) -> Examples:
    """One matrix of all buckets; each is let go as soon as its rows are in it."""
    blocks = [block for bucket in held.buckets for block in bucket]
    n_rows = sum(len(block.keys) for block in blocks)
    nnz = sum(len(block.rows.indices) for block in blocks)
    del blocks
    width, first = own.file.n_features, own.file.first
    indices = np.empty(nnz, index_dtype(max(width, nnz)))
    values, labels = np.empty(nnz, own.file.wanted.dtype), np.empty(n_rows)
    pointer = np.zeros(n_rows + 1, indices.dtype)
    row = feature = 0
    for bucket in held.buckets:
        if not bucket:
            continue
        keys = np.concatenate([block.keys for block in bucket])
        rows = _Block(keys, Rows.joined([block.rows for block in bucket])).ordered().rows
        bucket.clear()
        last, end = row + len(keys), feature + len(rows.indices)
        np.subtract(rows.indices, first, out=indices[feature:end], casting="same_kind")
        values[feature:end], labels[row:last] = rows.values, rows.labels
        pointer[row + 1 : last + 1] = feature + np.cumsum(rows.lengths)
        row, feature = last, end
    matrix = sp.csr_array((values, indices, pointer), shape=(n_rows, width))
    matrix.has_canonical_format = True
    return Examples(matrix, labels)
