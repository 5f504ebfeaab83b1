"""Ratings in lines: MovieLens and its many cousins.

    u.data       196\\t242\\t3\\t881250949
    ratings.dat  1::1193::5::978300760            -->  user x item, float32, labelled by the ids
    ratings.csv  userId,movieId,rating,timestamp

The first lines tell the dialect: separator, header, which columns matter, and whether ids are
numbers. Numbers are scanned chunk by chunk; ids that are text go through a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray

from .assembly import factorize, labelled, value_type
from .dialect import DIMS, dialect_of
from .frames import read_text_ratings
from .scanning import read_rows


def read_ratings(
    path: str,
    *,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    text_ids: bool | None = None,
    dtype: np.typing.DTypeLike = np.float32,
    repeats: Literal["last", "sum"] = "last",
) -> xarray.DataArray:
    """Read a file with a rating a line.

    Parameters
    ----------
    path : str
    columns : sequence of 2 or 3 str or int, optional
        Names (in the header) or positions of user, item and rating. By default well-known names,
        else the first three columns; two columns are implicit ratings of 1.
    header : bool, optional
        Whether the first line names the columns. By default it does when nothing in it is a number.
    text_ids : bool, optional
        Keep ids as text (needs pandas). By default where the first line of data shows such ids.
    dtype : dtype, default float32
    repeats : {"last", "sum"}
        What a cell has that occurs more than once: "sum" for events, of which each line is one.

    Returns
    -------
    xarray.DataArray
        ``rating``, dims user and item, over a sparse.COO.
    """
    dialect = dialect_of(path, columns, header)
    rating_type = value_type(dtype)
    if dialect.ids_are_text if text_ids is None else text_ids:
        return read_text_ratings(path, dialect, rating_type, repeats)
    users, items, ratings = [], [], []
    separators = '",;:' if dialect.delimiter == "::" else '",;'
    for rows in read_rows(
        path, separators, n_columns=dialect.n_columns, skip_lines=dialect.lines_before
    ):
        user, item, *rating = (np.s_[column :: dialect.n_columns] for column in dialect.columns)
        users.append(rows.ids(user, "user id"))
        items.append(rows.ids(item, "item id"))
        ratings.append(
            rows.values(rating[0], "rating", rating_type)
            if rating
            else np.ones(len(users[-1]), rating_type)
        )
    return labelled_ratings(users, items, ratings, path, repeats)


def labelled_ratings(
    users: list[np.ndarray],
    items: list[np.ndarray],
    ratings: list[np.ndarray],
    path: str,
    repeats: Literal["last", "sum"] = "last",
) -> xarray.DataArray:
    """The ratings of all chunks, ids to labels, as one labelled matrix."""
    user, user_ids = factorize(np.concatenate(users))
    users.clear()
    item, item_ids = factorize(np.concatenate(items))
    items.clear()
    values, ids = np.concatenate(ratings), (user_ids, item_ids)
    return labelled(user, item, values, ids, DIMS, "rating", str(path), repeats)
