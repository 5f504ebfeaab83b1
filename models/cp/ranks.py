"""From a tensor and the part of each nonzero to what every rank holds (Abubaker et al., §2.2).

    factor rows of mode m on rank k, in its local order

    owned                                │ nonlocal
      rows that this rank answers for    │   rows that its nonzeros touch and another rank owns
      (local, local-shared)              │
      └── solved here, Gram, norms       └── arrive by the expand, leave by the reduce

The order is that of `containers.numbering.number_owned`: the ranks' owned rows together are the
whole factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskpart.containers.coordinates import stable_order
from daskpart.containers.numbering import Numbering
from daskpart.containers.tensor import LabelledTensor

from .layout.by_row import EntriesByRow
from .layout.layout import TensorLayout
from .layout.sorting import CHUNK, Nonzeros

Layout = TypeVar("Layout", TensorLayout, EntriesByRow)


@dataclass(eq=False)
class RankNonzeros:
    """The nonzeros of one part as they are handed to its rank, which uses them up.

    Attributes
    ----------
    rank : int
    coordinates : ndarray of int32, shape (n_modes, nnz)
        Global indices.
    values : ndarray of shape (nnz,)
    taken : bool
        Whether the rank has laid them out: nothing is left here.
    """

    rank: int
    coordinates: NDArray[np.int32]
    values: NDArray[Any]
    taken: bool = False

    def take(self, dtype: Any) -> Nonzeros:
        """Give them away, with values of a type; a second time is an error."""
        if self.taken:
            raise RuntimeError(f"the nonzeros of rank {self.rank} were laid out before")
        coordinates = np.require(self.coordinates, np.int32, ["C_CONTIGUOUS", "WRITEABLE"])
        with np.errstate(over="ignore"):  # what became infinite is refused with the norm of all
            values = self.values.astype(dtype, copy=False)
        self.coordinates, self.values = np.empty((0, 0), np.int32), np.empty(0, dtype)
        self.taken = True
        return Nonzeros(coordinates, values, given_away=True)


@dataclass(frozen=True, eq=False)
class RankRows:
    """The factor rows of one rank.

    Attributes
    ----------
    rows : tuple of ndarray of int32, one a mode
        Global indices in local order: owned, then nonlocal.
    n_owned : tuple of int, one a mode
    shape : tuple of int
        Of the whole tensor.
    """

    rows: tuple[NDArray[np.int32], ...]
    n_owned: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RankTensor(Generic[Layout]):
    """What one rank works on, fixed for the whole fit.

    Attributes
    ----------
    layout : TensorLayout or EntriesByRow
        Its nonzeros, in local indices.
    rows : tuple of ndarray of int32, one a mode
        Global indices of its factor rows: owned, then nonlocal.
    n_owned : tuple of int, one a mode
    """

    layout: Layout
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
    ends = np.cumsum(np.bincount(parts, minlength=n_ranks))
    own = np.split(stable_order(parts, n_ranks), ends[:-1])
    return [  # copies, as ranks use them up
        RankNonzeros(rank, tensor.coordinates[:, mine], tensor.values[mine])
        for rank, mine in enumerate(own)
    ]


def rows_of_ranks(numberings: Sequence[Numbering], shape: Sequence[int]) -> list[RankRows]:
    """Each rank's factor rows of all modes."""
    n_ranks = len(numberings[0].sizes)
    return [
        RankRows(
            tuple(numbering.of_rank(rank) for numbering in numberings),
            tuple(int(numbering.sizes[rank, 0]) for numbering in numberings),
            tuple(int(extent) for extent in shape),
        )
        for rank in range(n_ranks)
    ]


def arrange(
    nonzeros: RankNonzeros, rows: RankRows, *, dtype: str, memory: str, by_row: bool = False
) -> RankTensor[Any]:
    """Lay out a rank's nonzeros for MTTKRP or normal equations, in local indices; uses them up.

    At no time more is held than twice the nonzeros (int32 coordinates and values, as given), and
    what has a size of the rank's factor rows.

    Parameters
    ----------
    nonzeros : RankNonzeros
    rows : RankRows
    dtype : str
        "float32" or "float64", of values and factors.
    memory : {"fast", "small"}
        See `TensorLayout.build`.
    by_row : bool
        For normal equations of each row, and not for MTTKRP.
    """
    own = nonzeros.take(dtype)
    for mode, (held, extent) in enumerate(zip(rows.rows, rows.shape, strict=True)):
        to_local(own.coordinates[mode], held, extent)  # a view with a name would keep them
    shape = [len(held) for held in rows.rows]
    if by_row:
        return RankTensor(EntriesByRow.of(own, shape), rows.rows, rows.n_owned)
    return RankTensor(TensorLayout.of(own, shape, memory=memory), rows.rows, rows.n_owned)


def to_local(index: NDArray[np.int32], held: NDArray[np.int32], extent: int) -> None:
    """Put each index's place in `held` over it, some thousand at a time.

    By a table of the whole mode; where that is longer than the indices, by binary search.
    """
    by_table = extent <= index.size
    if by_table:
        places = np.empty(extent, np.int32)
        places[held] = np.arange(len(held), dtype=np.int32)
    else:
        order = np.argsort(held)
        rising = held[order]
    for begin in range(0, index.size, CHUNK):
        chunk = index[begin : begin + CHUNK]
        chunk[:] = places[chunk] if by_table else order[np.searchsorted(rising, chunk)]


def squared_norm(tensor: RankTensor) -> NDArray[np.float64]:
    """Sum of the squares of a rank's nonzeros, shape (1,)."""
    values = tensor.layout.values
    # no copy, and no BLAS
    return np.array([np.einsum("n,n->", values, values, dtype=np.float64)])
