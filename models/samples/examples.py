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
read: rows wait in buckets, consecutive slices of the keys, each ordered by itself. Where its rows
would take more than a quarter of its memory, buckets and rows are on its disk; see
`examples_on_disk`. Of a compressed file it unpacks its range to its disk first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskpart._floor.hashing import row_keys
from daskpart.collectives.messages import Exchange, ValueInbox
from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError
from daskpart.models.base.reports import bytes_words
from daskpart.models.base.resources import rank_folder, rank_memory
from daskpart.partitions import Partition
from daskpart.readers.libsvm import Examples, Rows
from daskpart.readers.ranges import ExamplesFile

from .examples_on_disk import Disk, Spool, StoredExamples, UnpackedText

_ROUND_BYTES = 4 << 20
_BUCKETS = 64  # of a rank, at least
_LARGE_ENTRIES = 1 << 15  # of a block that an allocator gives back
_BUCKET_BYTES = 32 << 20  # of rows on disk, about
_SMALL_BYTES = 64 << 20  # of rows that are in memory anyhow
MEMORY_SHARE = 0.25  # for rows; arrays are made anew as they arrive, and messages take some


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
        matrix = self.rows.matrix()[order]
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
    n_ranks : int
    keys : uint64 ndarray, or None
        Of the rows that it reads, where a partition says their ranks.
    """

    rank: int
    file: ExamplesFile
    rounds: list[range]
    n_ranks: int
    keys: NDArray[np.uint64] | None = None

    @property
    def n_bytes(self) -> int:
        """Of the rows that it will get, about."""
        return row_bytes(self.file) * self.file.shape[0] // self.n_ranks

    def keys_of(self, blocks: range, seed: int) -> NDArray[np.uint64]:
        """Of the rows of some of its blocks."""
        pointer = self.file.row_pointer
        begin, end = (int(pointer[blocks.start]), int(pointer[blocks.stop])) if blocks else (0, 0)
        if self.keys is None:
            return row_keys(end - begin, seed, begin)
        first = int(pointer[next(each.start for each in self.rounds if each)]) if blocks else 0
        return self.keys[begin - first : end - first]


@dataclass(eq=False)
class _Waiting:
    """Rows that have arrived at a rank, in memory, by bucket; `Spool` is the same on disk."""

    buckets: list[list[_Block]] = field(default_factory=lambda: [[] for _ in range(_BUCKETS)])
    small: list[list[_Block]] = field(default_factory=lambda: [[] for _ in range(_BUCKETS)])

    def __len__(self) -> int:
        return len(self.buckets)

    def put(self, bucket: int, block: _Block) -> None:
        """Keep a block; small ones are joined to a large one, each row once.

        An allocator gives large arrays back when they are let go, and keeps small ones.
        """
        small = self.small[bucket]
        small.append(block.copy())
        if sum(len(each.rows.indices) for each in small) >= _LARGE_ENTRIES:
            self.buckets[bucket].append(_joined(small))
            small.clear()

    def take(self, bucket: int) -> list[_Block]:
        """Hand out the blocks of a bucket."""
        waiting = [*self.buckets[bucket], *self.small[bucket]]
        self.buckets[bucket], self.small[bucket] = [], []
        return waiting


def row_bytes(file: ExamplesFile) -> int:
    """Of a row in memory, on average."""
    n_rows, n_features = file.shape
    entry = np.dtype(index_dtype(n_features)).itemsize + file.wanted.dtype.itemsize
    return 24 + file.nnz * entry // n_rows


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
        About as much of the text a round and rank.
    partition : Partition, optional
        The rank of each row.
    """
    own = file.ranges(n_ranks)
    keys: list[Any] = [None] * n_ranks
    if partition is not None:
        of_all, pointer = placed_keys(partition), file.row_pointer
        keys = [of_all[pointer[each.start] : pointer[each.stop]] for each in own]
    rounds = [file.in_rounds(blocks, round_bytes) for blocks in own]
    n_rounds = max(map(len, rounds))
    return [
        Reading(rank, file, each + [range(0)] * (n_rounds - len(each)), n_ranks, keys[rank])
        for rank, each in enumerate(rounds)
    ]


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
    PerRank of Examples, or of StoredExamples where the rank keeps them on disk

    Notes
    -----
    n_ranks (n_ranks − 1) messages a round; all rows but one in n_ranks travel once.
    """
    n_ranks = comm.n_ranks
    pairs = [(i, j) for i in range(n_ranks) for j in range(n_ranks) if i != j]
    exchange = Exchange.from_pairs(n_ranks, pairs if seed is not None else [])
    pack = partial(_pack, n_ranks=n_ranks)
    text, held = comm.settle(comm.map(_unpacked, own), comm.map(_nothing, own))
    for number in range(n_rounds):
        block = comm.map(_read, own, text, number=number, seed=seed)
        arriving = comm.post_values(exchange, block, pack, "examples", number)
        done = None if seed is not None else number / n_rounds
        held = comm.collect(arriving, held, _arrange, block, n_ranks=n_ranks, done=done)
        held = comm.settle(held)
    return comm.update(_assemble, held, own)


def _nothing(own: Reading) -> _Waiting | Spool:
    n_bytes, on_disk = own.n_bytes, own.file.on_disk
    if on_disk == "auto":
        on_disk = n_bytes > _SMALL_BYTES and n_bytes > MEMORY_SHARE * rank_memory(own.n_ranks)
    if not on_disk:
        if n_bytes > rank_memory(own.n_ranks):
            raise InputError(
                f"the rows of a rank take about {bytes_words(n_bytes)} in memory, of the "
                f"{bytes_words(rank_memory(own.n_ranks))} that it may take: give more ranks or "
                "workers with more memory, or survey with on_disk='auto'"
            )
        return _Waiting()
    # for a moment both the buckets and the ordered rows are there
    return Spool(Disk(rank_folder(), 2 * n_bytes), max(_BUCKETS, n_bytes // _BUCKET_BYTES))


def _unpacked(own: Reading) -> UnpackedText | None:
    """The range of a compressed file, where it is read in several rounds."""
    blocks = [number for each in own.rounds for number in each]
    if not own.file.is_compressed or len(own.rounds) == 1 or not blocks:
        return None
    start, stop = own.file.blocks[blocks[0]].start, own.file.blocks[blocks[-1]].stop
    return UnpackedText(Disk(rank_folder(), stop - start), own.file.path, start, stop)


def _read(own: Reading, text: UnpackedText | None, *, number: int, seed: int | None) -> _Block:
    blocks = own.rounds[number]
    rows = own.file.rows_of(blocks, text)
    if seed is None:
        first = int(own.file.row_pointer[blocks[0]]) if blocks else 0
        return _Block(np.arange(first, first + len(rows.labels), dtype=np.uint64), rows)
    return _Block(own.keys_of(blocks, seed), rows).ordered()


def _pack(
    block: _Block, source: int, destinations: list[int], *, n_ranks: int
) -> list[tuple[NDArray[Any], ...]]:
    parts = [block.of_slice(destination, n_ranks) for destination in destinations]
    return [(part.keys, *part.rows) for part in parts]


def _arrange(
    held: _Waiting | Spool, inbox: ValueInbox, block: _Block, *, n_ranks: int, done: float | None
) -> _Waiting | Spool:
    """Put what arrived, and what stays, into buckets; `done`: the share of rounds, unshuffled."""
    if done is not None:
        held.put(int(done * len(held)), block)
        return held
    arrived = [_Block(keys, Rows(*rows)) for keys, *rows in inbox.payloads]
    own = _joined([block.of_slice(inbox.rank, n_ranks), *arrived]).ordered()
    for number in range(len(held)):
        part = own.of_slice(inbox.rank * len(held) + number, n_ranks * len(held))
        if len(part.keys):
            held.put(number, part)
    return held


def _joined(blocks: list[_Block]) -> _Block:
    keys = np.concatenate([block.keys for block in blocks])
    return _Block(keys, Rows.joined([block.rows for block in blocks]))


def _assemble(held: _Waiting | Spool, own: Reading) -> Examples | StoredExamples:
    return _stored(held, own) if isinstance(held, Spool) else _in_memory(held, own)


def _stored(spool: Spool, own: Reading) -> StoredExamples:
    """All buckets in order, one after another."""
    found = StoredExamples(spool.disk, own.file.n_features, own.file.wanted.dtype)
    for bucket in range(len(spool)):
        pieces = spool.take(bucket)
        if pieces:
            found.append(_joined(pieces).ordered().rows, own.file.first)
    found.flush()
    spool.close()
    return found


def _in_memory(held: _Waiting, own: Reading) -> Examples:
    """One matrix of all buckets; each is let go as soon as its rows are in it."""
    every = [block for bucket in (*held.buckets, *held.small) for block in bucket]
    n_rows = sum(len(block.keys) for block in every)
    nnz = sum(len(block.rows.indices) for block in every)
    every.clear()
    width, first = own.file.n_features, own.file.first
    indices = np.empty(nnz, index_dtype(max(width, nnz)))
    values, labels = np.empty(nnz, own.file.wanted.dtype), np.empty(n_rows)
    pointer = np.zeros(n_rows + 1, indices.dtype)
    row = feature = 0
    for bucket in range(len(held)):
        pieces = held.take(bucket)
        if not pieces:
            continue
        rows = _joined(pieces).ordered().rows
        pieces.clear()
        last, end = row + len(rows.labels), feature + len(rows.indices)
        np.subtract(rows.indices, first, out=indices[feature:end], casting="same_kind")
        values[feature:end], labels[row:last] = rows.values, rows.labels
        pointer[row + 1 : last + 1] = feature + np.cumsum(rows.lengths)
        row, feature = last, end
    matrix = sp.csr_array((values, indices, pointer), shape=(n_rows, width))
    matrix.has_canonical_format = True
    return Examples(matrix, labels)
