"""Keys to sort nonzeros by first, so that the rows of factors that they read come from caches.

    by popularity of the leaf          by blocks, more of them where a row has more nonzeros

    group │ 0  0  1  2  2  2  2        row with many │ 4    │ 5    │ 6    │ 7    │
    leaf  │ by number of nonzeros      half of them  │ 2           │ 3           │
                                       others        │ 1                         │  leaf ►

Fibres are read in the order of these keys, and cut into pieces where the key changes. The 128 rows
that most nonzeros read then stay in the first-level cache until all of these are done, the next
ones in the second level. Both rules cut only where pieces stay long on average: each costs some
nanoseconds.

Source: Choi, Liu, Smith and Simon, "Blocking optimization techniques for sparse tensor
computation", IPDPS 2018; there with blocks of equal size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .sorting import CHUNK, Source, gather

_LONG_PIECE = 64  # bytes of its values in the mean, at least, where popularity cuts
_LONG_BLOCK_PIECE = 32  # nonzeros of it where blocks do
_FIRST_GROUP = 128  # rows of 16 components in float64: half the first-level cache


def popularity_pays(length: float, extent: int, itemsize: int) -> bool:
    """Whether fibres of this mean length may be cut by groups of so many leaves.

    What a piece saves grows with the bytes of the rows that it reads, what it costs does not.
    """
    return extent > _FIRST_GROUP and length * itemsize >= _LONG_PIECE * _n_groups(extent)


def popularity_keys(source: Source, leaf: int, extent: int) -> NDArray[np.uint32]:
    """Of each nonzero the group of its leaf: 0 for those with most nonzeros, 1 for as many more, …

    Every group but the first is as large as all before it.
    """
    counts = np.bincount(source.index(leaf), minlength=extent)
    ends = _FIRST_GROUP << np.arange(_n_groups(extent) - 1)
    groups = np.empty(extent, np.uint32)
    groups[np.argsort(-counts, kind="stable")] = np.searchsorted(ends, np.arange(extent), "right")
    index = source.index(leaf)
    return gather(groups, index, np.empty(index.size, np.uint32))


def block_keys(
    source: Source, shape: Sequence[int], row_mode: int, leaf: int
) -> NDArray[np.uint32] | None:
    """Of each nonzero the block of leaves it is in: the more nonzeros its row has, the smaller.

    Numbered as in a heap: 1 for all leaves, 2 and 3 for halves, 4 to 7 for quarters. None where no
    row has nonzeros enough.
    """
    row, along = source.index(row_mode), source.index(leaf)
    most_fibres = max(1, int(np.prod(shape, dtype=float) / shape[row_mode] / shape[leaf]))
    enough = np.bincount(row, minlength=shape[row_mode]) / (_LONG_BLOCK_PIECE * most_fibres)
    halved = np.log2(np.maximum(enough, 1)).astype(np.int64)
    if not halved.any():
        return None
    keys = np.empty(row.size, np.uint32)
    for begin in range(0, keys.size, CHUNK):
        chunk = slice(begin, begin + CHUNK)
        times = halved[row[chunk]]
        keys[chunk] = (1 << times) + (along[chunk].astype(np.int64) << times) // shape[leaf]
    return keys


def _n_groups(extent: int) -> int:
    return 1 + (max(0, extent - 1) // _FIRST_GROUP).bit_length()
