"""FROSTT tensors (.tns): an index for each mode, then the value.

    1 1 5 1          mode 1, 2, 3, value
    1 1 6 104        -->  COO of order 3, 0-based

Indices are 1-based by the format's definition. Files from other tools hold a 0 here and there; an
index 0 in a mode makes that mode 0-based, and where none tells, `zero_based` does. The file carries
no shape: the largest index of each mode sets it, unless `shape` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import sparse

from daskpart._floor.checks import whole_numbers
from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError, ReadError, warn

from .assembly import assemble, value_type
from .scanning import read_rows
from .streams import first_lines

_REMARK = re.compile("[#%]")


def read_tns(
    path: str,
    *,
    shape: Sequence[int] | None = None,
    zero_based: bool | None = None,
    dtype: np.typing.DTypeLike = np.float64,
) -> sparse.COO:
    """Read a FROSTT tensor of any order.

    Parameters
    ----------
    path : str
    shape : sequence of int, optional
        The extents; by default one more than the largest index of each mode.
    zero_based : bool, optional
        Whether the first index of each mode is 0. By default so of a mode where an index 0 occurs.
    dtype : dtype, default=float64

    Returns
    -------
    sparse.COO
        Sorted, explicit zeros kept, indices int32.

    Raises
    ------
    InputError
        An index 0 in spite of ``zero_based=False``, or a shape that cannot hold the entries.

    Warns
    -----
    DaskpartWarning
        A mode holds the index 0 and is read as 0-based, unsaid; or cells occur twice and are
        summed.
    """
    entry_type = value_type(dtype)
    lines = first_lines(path)
    if not lines:
        raise ReadError(f"{path}: there are no entries in it, only blank lines or comments")
    order = len(_REMARK.split(lines[0])[0].replace(",", " ").split()) - 1
    if order < 1:
        raise ReadError(
            f"{path}: expected at least one index and a value a line, found {lines[0][:60]!r}"
        )
    indices: list[list[np.ndarray]] = [[] for _ in range(order)]
    values = []
    for rows in read_rows(path, ",", n_columns=order + 1):
        for mode in range(order):
            index = rows.ids(np.s_[mode :: order + 1], f"index of mode {mode + 1}")
            indices[mode].append(index.astype(index_dtype(int(index.max(initial=0)) + 1)))
        values.append(rows.values(np.s_[order :: order + 1], "value", entry_type))
    modes = [
        _from_zero(np.concatenate(parts), mode, path, zero_based)
        for mode, parts in enumerate(indices)
    ]
    found = tuple(int(index.max()) + 1 for index in modes)
    if shape is not None:
        given = tuple(whole_numbers(shape, "extent").tolist())
        if len(given) != order or any(a < b for a, b in zip(given, found, strict=False)):
            raise InputError(f"{path}: shape={given} cannot hold the entries, which need {found}")
        found = given
    return assemble(modes, np.concatenate(values), found, str(path), repeats="sum")


def _from_zero(index: np.ndarray, mode: int, path: str, zero_based: bool | None) -> np.ndarray:
    """The indices of a mode counted from 0."""
    if zero_based:
        return index
    if index.min():
        index -= 1
        return index
    if zero_based is not None:
        raise InputError(f"{path}: zero_based=False, but mode {mode + 1} holds the index 0")
    warn(
        f"{path}: mode {mode + 1} holds the index 0, so this mode is read as 0-based "
        "(the others as 1-based unless a warning says so)"
    )
    return index
