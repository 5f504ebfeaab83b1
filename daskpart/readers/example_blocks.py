"""Blocks of a file of examples: where they are, what they hold, and whether they still do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .libsvm import Rows

MOST_LABELS = 10_000  # more are no classes


class Block(NamedTuple):
    """Whole lines of a file, or rows of a row group of parquet, and what they hold.

    Attributes
    ----------
    start, stop : int
        In bytes of the text; of parquet, of what its row groups are unpacked to.
    n_rows, nnz : int
    least, most : int
        Feature indices as written; 1 and 0 where there are none.
    labels : ndarray of float64, or of str
        Those that occur, rising; of the first `MOST_LABELS` + 1 alone.
    counts : ndarray of int64
        Rows of each of these labels.
    checksum : int
        CRC-32 of the text; of parquet, of the rows.
    """

    start: int
    stop: int
    n_rows: int
    nnz: int
    least: int
    most: int
    labels: NDArray[Any]
    counts: NDArray[np.int64]
    checksum: int

    @classmethod
    def of(cls, rows: Rows, start: int, stop: int, checksum: int) -> Block:
        """The block of some rows."""
        labels, counts = np.unique(rows.labels, return_counts=True)
        sizes = len(rows.labels), len(rows.indices), rows.least, rows.most
        some = slice(MOST_LABELS + 1)
        return cls(start, stop, *sizes, labels[some], counts[some], checksum)


def labels_in(blocks: Iterable[Block]) -> NDArray[Any]:
    """The labels of some blocks, rising; those without rows have none of any kind."""
    return np.unique(np.concatenate([block.labels for block in blocks if block.n_rows]))
