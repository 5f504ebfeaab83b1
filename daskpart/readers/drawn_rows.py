"""Rows of a surveyed file drawn by chance: some to judge by, the others to learn from.

    row of the file   0  1  2  3  4  5  6  7  8  9  …
    hash of it        ▂  ▇  ▅  ▁  █  ▃  ▆  ▂  ▄  ▇        below the share: drawn
    drawn             0        3           7
    the others           1  2     4  5  6     8  9        each with numbers of its own, from 0

Neither is written anywhere: who reads a block drops the rows that are not its own. Which rows are
drawn depends on the seed and on the order of the file, not on how it was cut or packed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import fraction as checked_fraction
from daskpart._floor.checks import random_generator
from daskpart._floor.hashing import row_keys
from daskpart.errors import InputError

from .libsvm import Rows

if TYPE_CHECKING:
    from .example_blocks import Block
    from .ranges import ExamplesFile

_TASK_BYTES = 32 << 20


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Which rows of a file another `ExamplesFile` has.

    Attributes
    ----------
    whole : ExamplesFile
    share : float
    seed : int
    drawn : bool
        Those that are drawn, or all others.
    """

    whole: ExamplesFile
    share: float
    seed: int
    drawn: bool

    def mask(self, blocks: range) -> NDArray[np.bool_]:
        """Which of the rows of some blocks of the whole file."""
        pointer = self.whole.row_pointer
        begin, end = int(pointer[blocks.start]), int(pointer[blocks.stop])
        keys = row_keys(end - begin, self.seed, begin)
        return (keys < np.uint64(self.share * 2**64)) == self.drawn

    def rows_of(self, blocks: range, text: Any) -> Rows:
        """Those of some blocks; as `ExamplesFile.rows_of`."""
        rows = self.whole.rows_of(blocks, text)
        return rows.where(self.mask(blocks)) if blocks else rows

    @property
    def words(self) -> str:
        """What tells these rows from others of the file."""
        before = self.whole.drawn.words if self.whole.drawn else ""
        return f"{before}{self.share} {self.seed} {self.drawn}; "


def split(
    file: ExamplesFile, fraction: float, random_state: Any, client: Any
) -> tuple[ExamplesFile, ExamplesFile]:
    """The rows that are not drawn, and those that are; see `ExamplesFile.split`."""
    share = checked_fraction(fraction, "fraction")
    seed = int(random_generator(random_state).integers(2**63))
    count = dask.delayed(counted_blocks, pure=False)
    both = [DrawnRows(file, share, seed, drawn) for drawn in (False, True)]
    every = range(len(file.blocks))
    # the bytes of a compressed file come in order
    ranges = [every] if file.is_compressed else file.in_rounds(every, _TASK_BYTES)
    given = dask.delayed(both, traverse=False)
    tasks = [count(given, own) for own in ranges]
    found = client.gather(client.compute(tasks)) if client is not None else dask.compute(*tasks)
    pairs = [pair for of_task in found for pair in of_task]
    files = []
    for drawn, blocks in zip(both, zip(*pairs, strict=True), strict=True):
        if not sum(block.n_rows for block in blocks):
            which = "is drawn" if drawn.drawn else "is left"
            raise InputError(
                f"of the {file.shape[0]:,} examples in {file.path} none {which} at a share of "
                f"{share:g}: give another fraction"
            )
        files.append(replace(file, blocks=blocks, drawn=drawn))
    return files[0], files[1]


def counted_blocks(both: list[DrawnRows], blocks: range) -> list[tuple[Block, ...]]:
    """What some blocks hold of either kind of row; what a task does."""
    file = both[0].whole
    found = []
    for number, rows in zip(blocks, file.rows_by_block(blocks), strict=True):
        masks = [each.mask(range(number, number + 1)) for each in both]
        found.append(tuple(_counted(file, number, rows.where(mask)) for mask in masks))
    return found


def _counted(file: ExamplesFile, number: int, rows: Rows) -> Block:
    block = file.blocks[number]
    labels, counts = np.unique(rows.labels, return_counts=True)
    if file.texts is not None:
        labels = np.array(file.texts)[labels.astype(np.int64)]
    return block._replace(
        n_rows=len(rows.labels), nnz=len(rows.indices), labels=labels, counts=counts
    )
