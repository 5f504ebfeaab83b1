"""From a tensor and the part of each nonzero to what every rank holds (seed paper: §2.2).

    factor rows of mode m on rank k, in its local order

    owned                                │ nonlocal
      rows that this rank answers for    │   rows that its nonzeros touch and another rank owns
      (local, local-shared)              │
      └── solved here, Gram, norms       └── arrive by the expand, leave by the reduce

Both blocks rise by global index. A row that no nonzero touches is owned too, by a rank in turn, so
that the ranks' owned rows together are the whole factor. An owner need not touch its row: under a
hypercube embedding a rank that forwards a row may own it (§5.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.connectivity import Connectivity
from daskpart.containers import stable_order
from daskpart.tensors import LabelledTensor

from .tensor_layout import TensorLayout


@dataclass(frozen=True, eq=False)
class RowNumbering:
    """The factor rows of one mode on every rank, in the ranks' local orders.

    Attributes
    ----------
    pointer : ndarray of int64, shape (n_ranks + 1,)
    rows : ndarray of int32
        Rank k holds the rows ``rows[pointer[k]:pointer[k + 1]]``: owned, then nonlocal.
    n_owned : ndarray of int64, shape (n_ranks,)
    """

    pointer: NDArray[np.int64]
    rows: NDArray[np.int32]
    n_owned: NDArray[np.int64]

    def of_rank(self, rank: int) -> NDArray[np.int32]:
        """Global indices of the rows of one rank."""
        return self.rows[self.pointer[rank] : self.pointer[rank + 1]]

    def owned_by(self, rank: int) -> NDArray[np.int32]:
        """Global indices of the rows that a rank answers for, rising."""
        begin = self.pointer[rank]
        return self.rows[begin : begin + self.n_owned[rank]]


def number_rows(connectivity: Connectivity) -> RowNumbering:
    """Number the factor rows of one mode on every rank. Cost: O(rows + pairs).

    Parameters
    ----------
    connectivity : Connectivity
        Of the mode, with owners.
    """
    assert connectivity.owners is not None
    n_ranks, n_rows = connectivity.n_parts, connectivity.n_items
    every = np.arange(n_rows, dtype=np.int32)
    owners = np.where(connectivity.owners < 0, every % n_ranks, connectivity.owners)
    touched = np.repeat(every, np.diff(connectivity.pointer))
    touches_own = np.zeros(n_rows, bool)
    touches_own[touched[connectivity.parts == owners[touched]]] = True
    added = every[~touches_own]
    rows = np.concatenate((touched, added))
    ranks = np.concatenate((connectivity.parts, owners[added])).astype(np.int64)
    by_row = stable_order(rows, max(n_rows, 1))
    rows, ranks = rows[by_row], ranks[by_row]
    key = 2 * ranks + (owners[rows] != ranks)
    sizes = np.bincount(key, minlength=2 * n_ranks).reshape(-1, 2)
    pointer = np.concatenate(([0], np.cumsum(sizes.sum(axis=1)))).astype(np.int64)
    return RowNumbering(pointer, rows[stable_order(key, 2 * n_ranks)], sizes[:, 0].astype(np.int64))


@dataclass(frozen=True, eq=False)
class RankNonzeros:
    """The nonzeros of one part as they are handed to its rank.

    Attributes
    ----------
    rank : int
    coordinates : ndarray of int32, shape (n_modes, nnz)
        Global indices.
    values : ndarray of shape (nnz,)
    """

    rank: int
    coordinates: NDArray[np.int32]
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class RankRows:
    """The factor rows of one rank.

    Attributes
    ----------
    rank : int
    rows : tuple of ndarray of int32, one a mode
        Global indices in local order: owned, then nonlocal.
    n_owned : tuple of int, one a mode
    shape : tuple of int
        Of the whole tensor.
    """

    rank: int
    rows: tuple[NDArray[np.int32], ...]
    n_owned: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RankTensor:
    """What one rank works on, fixed for the whole fit.

    Attributes
    ----------
    rank : int
    layout : TensorLayout
        Its nonzeros, in local indices.
    rows : tuple of ndarray of int32, one a mode
        Global indices of its factor rows: owned, then nonlocal.
    n_owned : tuple of int, one a mode
    """

    rank: int
    layout: TensorLayout
    rows: tuple[NDArray[np.int32], ...]
    n_owned: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the nonzeros as laid out, and of the numbering."""
        return self.layout.nbytes + sum(rows.nbytes for rows in self.rows)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes


def split_nonzeros(
    tensor: LabelledTensor, parts: NDArray[np.int32], n_ranks: int
) -> list[RankNonzeros]:
    """Cut a tensor in memory into one piece a rank, in its old order."""
    order = stable_order(parts, n_ranks)
    ends = np.cumsum(np.bincount(parts, minlength=n_ranks))
    starts = np.concatenate(([0], ends[:-1]))
    pieces = []
    for rank, (start, end) in enumerate(zip(starts, ends, strict=True)):
        mine = order[start:end]
        pieces.append(RankNonzeros(rank, tensor.coordinates[:, mine], tensor.values[mine]))
    return pieces


def rows_of_ranks(numberings: Sequence[RowNumbering], shape: Sequence[int]) -> list[RankRows]:
    """Each rank's factor rows of all modes."""
    n_ranks = len(numberings[0].n_owned)
    return [
        RankRows(
            rank,
            tuple(numbering.of_rank(rank) for numbering in numberings),
            tuple(int(numbering.n_owned[rank]) for numbering in numberings),
            tuple(int(extent) for extent in shape),
        )
        for rank in range(n_ranks)
    ]


def arrange(
    nonzeros: RankNonzeros, rows: RankRows, *, dtype: str, n_components: int, memory: str
) -> RankTensor:
    """Lay out a rank's nonzeros for MTTKRP, in its local indices.

    Parameters
    ----------
    nonzeros : RankNonzeros
    rows : RankRows
    dtype : str
        "float32" or "float64", of values and factors.
    n_components : int
        R.
    memory : {"fast", "small"}
        See `TensorLayout.build`.
    """
    local = np.empty_like(nonzeros.coordinates, order="C")
    for mode, (held, extent) in enumerate(zip(rows.rows, rows.shape, strict=True)):
        place = np.empty(extent, np.int32)  # only the touched pages cost anything
        place[held] = np.arange(len(held), dtype=np.int32)
        local[mode] = place[nonzeros.coordinates[mode]]
    extents = [len(held) for held in rows.rows]
    values = nonzeros.values.astype(dtype, copy=False)
    layout = TensorLayout.build(local, values, extents, memory=memory, rank=n_components)
    return RankTensor(nonzeros.rank, layout, rows.rows, rows.n_owned)


def squared_norm(tensor: RankTensor) -> float:
    """Sum of the squares of a rank's nonzeros."""
    values = tensor.layout.values.astype(np.float64)
    return float(values @ values)
