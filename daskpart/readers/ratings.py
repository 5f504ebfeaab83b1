"""Ratings in lines: MovieLens and its many cousins.

    u.data       196\\t242\\t3\\t881250949
    ratings.dat  1::1193::5::978300760            -->  user x item, float32, labelled by the ids
    ratings.csv  userId,movieId,rating,timestamp

The first lines tell the dialect: separator, header, which columns matter, and whether ids are
numbers. Numbers are scanned chunk by chunk; ids that are text go through a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray

from daskpart.errors import InputError, ReadError

from .assembly import factorize, labelled, value_type
from .detection import is_number
from .messages import listed
from .scanning import read_rows
from .streams import numbered_lines

DIMS = ("user", "item")
_KNOWN_NAMES = (
    {"user", "userid", "uid", "userindex", "reviewerid", "member", "customerid"},
    {"item", "itemid", "iid", "itemindex", "movie", "movieid", "artistid", "product", "productid",
     "asin", "isbn", "book", "bookid", "songid", "businessid", "jokeid", "animeid"},
    {"rating", "ratings", "score", "stars", "weight", "overall", "value", "count", "bookrating"},
)  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    """How a ratings file is written; `columns`: positions of user, item and, if any, rating.

    `lines_before`: how many lines stand before the first rating, with the header and comments.
    """

    delimiter: str | None
    n_columns: int
    lines_before: int
    columns: tuple[int, ...]
    ids_are_text: bool


def choose_columns(
    names: Sequence[str] | None, n_columns: int, columns: Sequence[str | int] | None, path: str
) -> tuple[int, ...]:
    """Positions of user, item and rating among the columns of a table.

    By `columns` if given, else by well-known names of the header, else the first two or three.
    """
    if columns is not None:
        if len(columns) not in (2, 3):
            raise InputError(f"columns names user, item and, if any, rating; got {columns!r}")
        return tuple(_position(column, names, n_columns, path) for column in columns)
    found: list[int] = []
    if names is not None:
        plain = ["".join(filter(str.isalnum, name.lower())) for name in names]
        found = [i for known in _KNOWN_NAMES for i, name in enumerate(plain) if name in known][:3]
        named = [sum(plain[i] in known for i in found) for known in _KNOWN_NAMES]
        if named in ([1, 1, 1], [1, 1, 0]) and (named[2] or n_columns == 2):
            return tuple(found)
    if n_columns < 2:
        raise ReadError(f"{path}: expected at least the columns user and item, found {n_columns}")
    return tuple(range(min(n_columns, 3)))


def _position(column: str | int, names: Sequence[str] | None, n_columns: int, path: str) -> int:
    if isinstance(column, str) and names is not None and column in names:
        return list(names).index(column)
    if not isinstance(column, str) and 0 <= column < n_columns:
        return int(column)
    known = f"positions 0 to {n_columns - 1}" if names is None else listed(list(names), str(column))
    raise InputError(f"{path}: no column {column!r}; the columns are {known}")


def dialect_of(
    path: str, columns: Sequence[str | int] | None = None, header: bool | None = None
) -> Dialect:
    """Find out how a ratings file is written from its first lines."""
    numbered = numbered_lines(path)
    if not numbered:
        raise ReadError(f"{path}: there are no ratings in it, only blank lines or comments")
    lines = [line for _, line in numbered]
    delimiter = next((mark for mark in ("::", "\t", ",", ";") if mark in lines[0]), None)
    cells = [[cell.strip().strip('"') for cell in line.split(delimiter)] for line in lines[:2]]
    if header is None:
        header = not any(is_number(cell) for cell in cells[0])
    if header and len(lines) < 2:
        raise ReadError(f"{path}: there are no ratings in it, only a header")
    positions = choose_columns(cells[0] if header else None, len(cells[0]), columns, path)
    data = cells[1] if header else cells[0]
    ids = [data[position] for position in positions[:2] if position < len(data)]
    ids_are_text = any(cell != "" and not is_number(cell) for cell in ids)
    lines_before = numbered[1 if header else 0][0] - 1
    return Dialect(delimiter, len(cells[0]), lines_before, positions, ids_are_text)


def read_ratings(
    path: str,
    *,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    text_ids: bool | None = None,
    dtype: np.typing.DTypeLike = np.float32,
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

    Returns
    -------
    xarray.DataArray
        ``rating``, dims user and item, over a sparse.COO.
    """
    dialect = dialect_of(path, columns, header)
    rating_type = value_type(dtype)
    if dialect.ids_are_text if text_ids is None else text_ids:
        from .frames import read_text_ratings

        return read_text_ratings(path, dialect, rating_type)
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
    return labelled_ratings(users, items, ratings, path)


def labelled_ratings(
    users: list[np.ndarray],
    items: list[np.ndarray],
    ratings: list[np.ndarray],
    path: str,
) -> xarray.DataArray:
    """The ratings of all chunks, ids to labels, as one labelled matrix."""
    user, user_ids = factorize(np.concatenate(users))
    users.clear()
    item, item_ids = factorize(np.concatenate(items))
    items.clear()
    return labelled(
        user, item, np.concatenate(ratings), (user_ids, item_ids), DIMS, "rating", str(path)
    )
