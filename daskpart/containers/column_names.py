"""Which columns of a table are users, items and ratings, or ends of edges: by what they are called.

    userId  movie_id  Stars  Datum         names in their plainest form: userid, movieid, stars
      │        │        │      │
     user     item    rating  a time       a column of dates is one, whatever it is called

Where names tell nothing, the first three columns are taken, if there are no others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from daskpart._floor.words import listed
from daskpart.errors import InputError

from .coordinates import is_a

Columns: TypeAlias = tuple[str | None, str | None, str | None]
# as `plain_word` has them
_NAMES = (
    {"user", "userid", "uid", "reviewerid", "customer", "customerid"},
    {"item", "itemid", "iid", "movie", "movieid", "product", "productid", "asin", "film", "book",
     "bookid", "isbn", "artist", "artistid", "track", "trackid"},
    {"rating", "ratings", "stars", "score", "overall"},
)  # fmt: skip
# where no column has one of those names; beside a rating a weight or a count says something else
_FURTHER_NAMES = (
    {"userindex", "member"},
    {"itemindex", "songid", "businessid", "jokeid", "animeid", "sku"},
    {"weight", "value", "count", "bookrating", "plays", "clicks", "quantity", "qty"},
)
Known: TypeAlias = tuple[tuple[set[str], ...], ...]
"""For each of the three columns the names by which it is known, the better ones first."""

RATING_COLUMN_NAMES: Known = tuple(zip(_NAMES, _FURTHER_NAMES, strict=True))
EDGE_COLUMN_NAMES: Known = (
    ({"source", "sourceid", "src", "from", "fromid", "fromnode", "fromnodeid", "u"},),
    ({"target", "targetid", "dst", "dest", "destination", "to", "toid", "tonode", "tonodeid",
      "v"},),
    ({"weight", "w", "value"},),
)  # fmt: skip
_KIND_BEHIND = re.compile(":(token|float)(_seq)?$")
TIMES = {"timestamp", "time", "date", "datetime", "unixreviewtime"}


def pair_columns(frame: Any, columns: Columns = (None, None, None)) -> tuple[int, int] | None:
    """Places of user and item: by names that people use, else the first two of a few columns.

    None where neither tells.
    """
    plain, found = _named_columns(frame, columns)
    if all(len(places) == 1 for places in found[:2]):
        return found[0][0], found[1][0]
    few = len(plain) in (2, 3) or (len(plain) == 4 and plain[3] in TIMES)
    return (0, 1) if few and in_their_order(found) else None


def time_column(frame: Any) -> Any:
    """The name of the one column that says when, by names that people use, else by its dates.

    None where neither tells.
    """
    by_name = [at for at, name in enumerate(frame.columns) if plain_word(name) in TIMES]
    places = by_name or np.flatnonzero(_holds_dates(frame)).tolist()
    return frame.columns[places[0]] if len(places) == 1 else None


def _holds_dates(frame: Any) -> list[bool]:
    """Which columns say when, whatever they are called."""
    return [getattr(dtype, "kind", "O") == "M" for dtype in frame.dtypes]


def _holds_numbers(frame: Any, place: int) -> bool:
    return getattr(frame.dtypes.iloc[place], "kind", "O") in "biuf"


def plain_word(name: object) -> str:
    """The name of a column in its plainest form: user-id, "User ID" and userId are userid.

    So is user_id:token, as RecBole writes the kind of a column behind its name.
    """
    return "".join(filter(str.isalnum, _KIND_BEHIND.sub("", str(name).lower())))


def known_places(plain: Sequence[str], known: Known) -> list[list[int]]:
    """The places of the names for each column; of further names where there is none of the first.

    Examples
    --------
    >>> known_places(["user", "item", "count", "rating"], RATING_COLUMN_NAMES)
    [[0], [1], [3]]
    """

    def places(words: set[str]) -> list[int]:
        return [at for at, name in enumerate(plain) if name in words]

    return [next(filter(None, map(places, sets)), []) for sets in known]


def in_their_order(found: Sequence[Sequence[int]]) -> bool:
    """Whether no name says that a column is another one than its place does."""
    return all(set(places) <= {place} for place, places in enumerate(found))


def column_behind(plain: Sequence[str], user: int, item: int) -> int | None:
    """The place of the rating that nobody knows by its name: the only other column, behind both.

    `plain` are the names in their plainest form; a column that says when is none.
    """
    others = [at for at, name in enumerate(plain) if at not in (user, item) and name not in TIMES]
    return others[0] if len(others) == 1 and others[0] > max(user, item) else None


def _named_columns(frame: Any, columns: Columns) -> tuple[list[str], list[list[int]]]:
    """Names in their plainest form, and the places of names for user, item and rating."""
    names, found = [*map(str, frame.columns)], []
    dated = zip(names, _holds_dates(frame), strict=True)
    plain = ["date" if is_time else plain_word(name) for name, is_time in dated]
    # a column that was given as one is no other
    free = [word if name not in columns else "" for word, name in zip(plain, names, strict=True)]
    by_name = known_places(free, RATING_COLUMN_NAMES)
    for given, places in zip(columns, by_name, strict=True):
        if given is None:
            found.append(places)
        elif names.count(str(given)) == 1:
            found.append([names.index(str(given))])
        else:
            raise InputError(
                f"the DataFrame has {names.count(str(given)) or 'no'} columns called {given!r}, "
                f"which was given as a name; it has {listed(names)}"
            )
    return plain, found


def rating_columns(
    frame: Any, columns: Columns = (None, None, None), events: bool = False
) -> tuple[int, int, int | None]:
    """Places of user, item and rating: given, by names that people use, or the first three columns.

    Where names tell user and item, the only other column is the rating if it stands behind both. A
    fourth column may say when; it is not read. With `events` there may be no rating (None), and a
    column of text is none.

    Raises
    ------
    InputError
        Nothing tells which is which, or a name that was given is not there.
    """
    names = [str(name) for name in frame.columns]
    plain, found = _named_columns(frame, columns)
    if all(len(places) == 1 for places in found):
        return found[0][0], found[1][0], found[2][0]
    if len(found[0]) == len(found[1]) == 1 and not found[2]:
        behind = column_behind(plain, found[0][0], found[1][0])
        if behind is not None and not (events and not _holds_numbers(frame, behind)):
            return found[0][0], found[1][0], behind
        if events:
            return found[0][0], found[1][0], None
    if all(is_a(dtype, "pandas", "SparseDtype") for dtype in frame.dtypes):  # records have no zeros
        raise InputError(
            f"a DataFrame of sparse columns was given, {listed(names)}: that is a matrix, with a "
            "column for each item. Give frame.sparse.to_coo(), or to keep its names "
            "xarray.DataArray(sparse.COO(frame.sparse.to_coo()), [('user', frame.index), ('item', "
            "frame.columns)])"
        )
    times = len(names) > 2 and plain[-1] in TIMES
    nobody_said = all(each is None for each in columns) and in_their_order(found)
    if nobody_said and events and len(names) - times == 2:
        return 0, 1, None
    if nobody_said and len(names) - (times and len(names) == 4) == 3:
        return 0, 1, 2
    shown = listed(names)
    if len(names) < 3 and any(name is not None for name in getattr(frame.index, "names", ())):
        shown += " and a named index, which is not read (reset_index() makes columns of it),"
    raise InputError(
        f"a DataFrame with the columns {shown} was given; allowed are the columns 'user', 'item' "
        "and 'rating' (and others, ignored), or exactly three in that order and a timestamp. "
        "Rename, select, or say which they are: user=, item=, rating= of a model. Of a table with "
        "a column for each item, table.stack().dropna().reset_index() has such lines"
    )
