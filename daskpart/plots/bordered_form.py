"""The singly bordered block-diagonal order of a sparse matrix (η-PASGD paper, Fig. 1).

         local columns of          linking columns
         part 0 │ part 1 │ part 2 │ owned by 0 │ 1 │ 2
    R⁰   ██     │        │        │ ▒▒▒        │ ▒ │
    R¹          │ ███    │        │ ▒ ▒        │ ▒ │ ▒
    R²          │        │  ██    │  ▒▒        │   │ ▒

Rows are grouped by part. A column whose nonzeros lie in one part is local to it; the others link
parts, and form the border. Off the diagonal the blocks left of the border are empty. Arrays only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart.errors import InputError


@dataclass(frozen=True)
class BorderedForm:
    """The singly bordered block-diagonal order of a sparse matrix (Fig. 1).

    Attributes
    ----------
    row_order : int64[M]
        Rows in the order drawn, grouped by part.
    row_pointer : int64[K + 1]
        Part k holds ``row_order[row_pointer[k]:row_pointer[k + 1]]``.
    column_order : int64[at most N]
        Columns in the order drawn: local to part 0, to part 1, …, then the linking ones grouped by
        owner. Empty columns are left out.
    local_pointer : int64[K + 1]
        The local columns of part k are ``column_order[local_pointer[k]:local_pointer[k + 1]]``;
        the border begins at ``local_pointer[K]``.
    border_pointer : int64[K + 1] or None
        Linking columns that rank k owns, as ``local_pointer``; None where owners are not known.
    """

    row_order: NDArray[np.int64]
    row_pointer: NDArray[np.int64]
    column_order: NDArray[np.int64]
    local_pointer: NDArray[np.int64]
    border_pointer: NDArray[np.int64] | None = None

    @property
    def n_parts(self) -> int:
        """Number of parts, K."""
        return len(self.row_pointer) - 1

    @property
    def n_linking(self) -> int:
        """Number of columns in the border."""
        return len(self.column_order) - int(self.local_pointer[-1])


def bordered_form(
    rows: ArrayLike,
    columns: ArrayLike,
    shape: tuple[int, int],
    assignment: ArrayLike,
    n_parts: int,
    owners: ArrayLike | None = None,
) -> BorderedForm:
    """Order rows and columns as in Fig. 1.

    Parameters
    ----------
    rows, columns : int[nnz]
        Coordinates of the nonzeros.
    shape : (M, N)
    assignment : int[M]
        Part of each row.
    n_parts : int
        Number of parts, K.
    owners : int[N], optional
        Owner of each column: linking columns are grouped by it. Without it they stand in rising
        connectivity λ.

    Returns
    -------
    BorderedForm
    """
    assignment = np.asarray(assignment, dtype=np.int64)
    if len(assignment) != shape[0]:
        raise InputError(
            f"the partition assigns {len(assignment)} rows, the matrix has {shape[0]}: "
            "give the partition that was made for this matrix"
        )
    pairs = np.unique(np.asarray(columns, dtype=np.int64) * n_parts + assignment[np.asarray(rows)])
    touched, part = np.divmod(pairs, n_parts)
    connectivity = np.bincount(touched, minlength=shape[1])
    first_part = np.zeros(shape[1], dtype=np.int64)
    first_part[touched[::-1]] = part[::-1]  # pairs are sorted: the last written is the first part
    local = np.flatnonzero(connectivity == 1)
    local = local[np.argsort(first_part[local], kind="stable")]
    linking = np.flatnonzero(connectivity > 1)
    owner = np.zeros(shape[1], np.int64) if owners is None else np.asarray(owners, dtype=np.int64)
    linking = linking[np.lexsort((connectivity[linking], owner[linking]))]
    return BorderedForm(
        row_order=np.argsort(assignment, kind="stable"),
        row_pointer=_pointer(assignment, n_parts),
        column_order=np.concatenate([local, linking]),
        local_pointer=_pointer(first_part[local], n_parts),
        border_pointer=(None if owners is None else len(local) + _pointer(owner[linking], n_parts)),
    )


def _pointer(group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Where each group begins once its members stand together: int64[n_groups + 1]."""
    pointer = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=n_groups), out=pointer[1:])
    return pointer
