"""Graphs and sets as lines of ids.

    edges       0 1        adjacency   0 4 8 15      user 0 took items 4, 8, 15
                0 4 2.5                1 4           user 1 took item 4

Ids are names, not positions, so both give labelled matrices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray

from daskpart.errors import ReadError

from .assembly import value_type
from .dialect import EDGES, RATINGS
from .frames import holds_parquet, read_parquet_relation
from .relations import labelled_relation, read_relation
from .scanning import NoNumberError, read_rows
from .streams import numbered_lines

_LEADING_ZERO = re.compile(r"(?<![^\s,;])0\d+")
_INSTEAD = (
    "; only numbers are ids in these lines. Write a line a pair, user,item under this header, "
    "and read it as ratings, where ids may be text"
)


def read_edges(
    path: str,
    *,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    text_ids: bool | None = None,
    dtype: np.typing.DTypeLike = np.float32,
    repeats: Literal["last", "sum"] = "sum",
) -> xarray.DataArray:
    """Read a list of directed edges, two columns or, with weights, three.

    Parameters
    ----------
    path : str
        Separated by blanks, tabs, commas or semicolons; comments from # or % where ids are numbers,
        else before the first edge alone. Or parquet, of which `header` and `text_ids` say nothing.
    columns : sequence of 2 or 3 str or int, optional
        Names (in the header) or positions of source, target and weight. By default well-known
        names, such as those that Gephi writes, else all columns in this order.
    header : bool, optional
        Whether the first line names the columns. By default it does when it names a source and a
        target, or has text where the next has a weight, or where `columns` has names; where it may
        be one, and does none of it, the error asks. Names over names are an edge, with a warning if
        no other line has them.
    text_ids : bool, optional
        Keep ids as text. By default where one of the first edge is no number, or one of the first
        64 KiB has leading zeros, as 007; leading zeros that only come later are lost.
    dtype : dtype, default=float32
    repeats : {"sum", "last"}, default="sum"
        Weight of an edge that is there more than once: all added up, or that of its last line.

    Returns
    -------
    xarray.DataArray
        ``weight`` (1 where the file has none), dims source and target, both labelled with all the
        node ids in sorted order, so the matrix is square; over a sparse.COO. An undirected graph
        is as one-sided as its file.
    """
    if holds_parquet(path):
        return read_parquet_relation(path, EDGES, columns, dtype, repeats)
    return read_relation(
        path, EDGES, columns=columns, header=header, text_ids=text_ids, dtype=dtype, repeats=repeats
    )


def read_adjacency(
    path: str,
    *,
    dtype: np.typing.DTypeLike = np.float32,
    repeats: Literal["last", "sum"] = "last",
) -> xarray.DataArray:
    """Read lines of a user and then the items that the user took (gowalla's format).

    Returns
    -------
    xarray.DataArray
        ``rating``, all 1, dims user and item, over a sparse.COO. A user without items has no row.

    Raises
    ------
    ReadError
        An id is text, or one of the first 64 KiB has leading zeros: only numbers are ids here.
    """
    rating_type = value_type(dtype)
    users, items, ratings = [], [], []
    for number, line in numbered_lines(path):
        found = _LEADING_ZERO.search(line)
        if found:
            short = found[0].lstrip("0") or "0"
            raise ReadError(f"{path}, line {number}: {found[0]} would become {short}{_INSTEAD}")
    try:
        for rows in read_rows(path, ",;"):
            first = rows.pointer[:-1]
            taken = np.diff(rows.pointer) - 1
            users.append(np.repeat(rows.ids(first, "user id"), taken))
            is_item = np.ones(len(rows.numbers), bool)
            is_item[first] = False
            items.append(rows.ids(is_item, "item id"))
            ratings.append(np.ones(len(items[-1]), rating_type))
    except NoNumberError as error:
        raise ReadError(f"{error}{_INSTEAD}") from None
    if not sum(map(len, users)):
        raise ReadError(f"{path}: there are no items in it")
    return labelled_relation(RATINGS, (users, items), ratings, path, repeats)
