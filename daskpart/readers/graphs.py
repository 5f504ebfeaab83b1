"""Graphs and sets as lines of ids.

    edges       0 1        adjacency   0 4 8 15      user 0 took items 4, 8, 15
                0 4 2.5                1 4           user 1 took item 4

Ids are names, not positions, so both give labelled matrices.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray

from daskpart.errors import ReadError

from .assembly import factorize, labelled, value_type
from .ratings import labelled_ratings
from .scanning import read_rows
from .streams import first_lines


def read_edges(path: str, *, dtype: np.typing.DTypeLike = np.float32) -> xarray.DataArray:
    """Read a list of directed edges, two columns or, with weights, three.

    Parameters
    ----------
    path : str
        Separated by blanks, tabs, commas or semicolons; comments from # or %.
    dtype : dtype, default float32

    Returns
    -------
    xarray.DataArray
        ``weight`` (1 where the file has none), dims source and target, both labelled with all the
        node ids in sorted order, so the matrix is square; over a sparse.COO. An undirected graph
        is as one-sided as its file.
    """
    weight_type = value_type(dtype)
    lines = first_lines(path)
    if not lines:
        raise ReadError(f"{path}: there are no edges in it, only blank lines or comments")
    n_columns = len(lines[0].replace(",", " ").replace(";", " ").split())
    if n_columns not in (2, 3):
        raise ReadError(
            f"{path}: expected source, target and, if any, weight; found {n_columns} columns"
        )
    nodes, weights = [], []
    for rows in read_rows(path, ",;", n_columns=n_columns):
        nodes.append(np.stack([rows.ids(np.s_[side::n_columns], "node id") for side in (0, 1)]))
        weights.append(
            rows.values(np.s_[2::3], "weight", weight_type)
            if n_columns == 3
            else np.ones(nodes[-1].shape[1], weight_type)
        )
    ends = np.concatenate(nodes, axis=1)
    codes, ids = factorize(ends.ravel())
    source, target = codes.reshape(2, -1)
    return labelled(
        source,
        target,
        np.concatenate(weights),
        (ids, ids),
        ("source", "target"),
        "weight",
        str(path),
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
    """
    rating_type = value_type(dtype)
    users, items, ratings = [], [], []
    for rows in read_rows(path, ",;"):
        first = rows.pointer[:-1]
        taken = np.diff(rows.pointer) - 1
        users.append(np.repeat(rows.ids(first, "user id"), taken))
        is_item = np.ones(len(rows.numbers), bool)
        is_item[first] = False
        items.append(rows.ids(is_item, "item id"))
        ratings.append(np.ones(len(items[-1]), rating_type))
    if not sum(map(len, users)):
        raise ReadError(f"{path}: there are no items in it")
    return labelled_ratings(users, items, ratings, path, repeats)
