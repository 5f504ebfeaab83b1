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

from daskpart._floor.checks import ids_below, whole_number, whole_numbers
from daskpart._floor.distinct import distinct
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

    Raises
    ------
    InputError
        Where numbers are out of range, or of another length than the shape.

    Examples
    --------
    >>> from daskpart import plots
    >>> rows, columns = [0, 1, 1, 2], [0, 0, 1, 2]
    >>> form = plots.bordered_form(rows, columns, (3, 3), [0, 0, 1], 2)
    >>> form.row_order.tolist()
    [0, 1, 2]
    """
    n_parts = whole_number(n_parts, "n_parts", least=1)
    row_of, column_of, shape = checked_entries(rows, columns, shape)
    assignment = ids_below(assignment, n_parts, "part number").astype(np.int64)
    if len(assignment) != shape[0]:
        raise InputError(
            f"the partition assigns {len(assignment)} rows, the matrix has {shape[0]}: "
            "give the partition that was made for this matrix"
        )
    owner = np.zeros(shape[1], np.int64) if owners is None else whole_numbers(owners, "owner")
    if len(owner) != shape[1]:
        raise InputError(f"{len(owner)} owners for {shape[1]} columns: give one each")
    cells = column_of.astype(np.int64) * n_parts + assignment[row_of]
    pairs = distinct(cells, shape[1] * n_parts)
    touched, part = np.divmod(pairs, n_parts)
    connectivity = np.bincount(touched, minlength=shape[1])
    first_part = np.zeros(shape[1], dtype=np.int64)
    first_part[touched[::-1]] = part[::-1]  # pairs are sorted: the last written is the first part
    local = np.flatnonzero(connectivity == 1)
    local = local[np.argsort(first_part[local], kind="stable")]
    linking = np.flatnonzero(connectivity > 1)
    ids_below(owner[linking], n_parts, "owner")  # who owns a local column does not matter
    linking = linking[np.lexsort((connectivity[linking], owner[linking]))]
    return BorderedForm(
        row_order=np.argsort(assignment, kind="stable"),
        row_pointer=_pointer(assignment, n_parts),
        column_order=np.concatenate([local, linking]),
        local_pointer=_pointer(first_part[local], n_parts),
        border_pointer=(None if owners is None else len(local) + _pointer(owner[linking], n_parts)),
    )


def checked_entries(
    rows: ArrayLike, columns: ArrayLike, shape: tuple[int, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32], tuple[int, int]]:
    """Rows and columns inside of the shape, as many of both, and the shape (else InputError)."""
    sides = whole_numbers(shape, "side").tolist()
    if len(sides) != 2:
        raise InputError(f"shape is {shape!r}: give two numbers, of rows and columns")
    row_of, column_of = ids_below(rows, sides[0], "row"), ids_below(columns, sides[1], "column")
    if len(row_of) != len(column_of):
        raise InputError(f"{len(row_of)} rows and {len(column_of)} columns: give pairs")
    return row_of, column_of, (sides[0], sides[1])


def _pointer(group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Where each group begins once its members stand together: int64[n_groups + 1]."""
    pointer = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=n_groups), out=pointer[1:])
    return pointer
