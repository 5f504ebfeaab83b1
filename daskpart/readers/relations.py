"""Tables that say what belongs together, a line each: ratings, and edges of a graph.

    user,item,rating                 -->  user x item, labelled by the ids of each
    source,target,weight             -->  square, labelled by the ids of both

The first lines tell the dialect: separator, header, which columns matter, and whether ids are
numbers, which 007 is not. Numbers are scanned chunk by chunk, as float64; text goes through a
table, and so do ids that are larger than these can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray

from daskpart.errors import ReadError, warn

from .assembly import factorize, labelled, value_type
from .dialect import Dialect, Relation, dialect_of
from .frames import read_table_relation
from .messages import ABOUT_TEXT_IDS
from .scanning import LargeIdError, NoNumberError, read_rows


def read_relation(
    path: str,
    relation: Relation,
    *,
    columns: Sequence[str | int] | None,
    header: bool | None,
    text_ids: bool | None,
    dtype: np.typing.DTypeLike,
    repeats: Literal["last", "sum"],
) -> xarray.DataArray:
    """Read a table; parameters as of `read_ratings` and `read_edges`."""
    dialect = dialect_of(path, columns, header, relation)
    are_text = dialect.ids_are_text if text_ids is None else (text_ids, text_ids)
    found = _read(path, relation, dialect, are_text, value_type(dtype), repeats)
    if dialect.first_edge:
        _tell_of_header(path, dialect, found)
    return found


def _tell_of_header(path: str, dialect: Dialect, edges: xarray.DataArray) -> None:
    """Warn where the first line alone joins two names that no other line has: a header does."""
    pairs, names = edges.data.coords, edges["source"].to_numpy()
    n_lines = np.bincount(pairs.ravel(), minlength=len(names))
    apart = pairs[:, (n_lines[pairs] == 1).all(axis=0)]
    if apart.shape[1] == 1 < pairs.shape[1] and (names[apart[:, 0]] == dialect.first_edge).all():
        first = (dialect.delimiter or " ").join(dialect.first_edge)
        warn(
            f"{path}: the first line, {first[:60]!r}, is taken for an edge, but no other line has "
            "its names: if it is a header, call its columns source and target"
        )


def _read(
    path: str,
    relation: Relation,
    dialect: Dialect,
    are_text: tuple[bool, bool],
    of_values: np.dtype,
    repeats: Literal["last", "sum"],
) -> xarray.DataArray:
    """By numbers where both sides have them, else as a table."""
    if not any(are_text) and not dialect.others_are_text:
        try:
            return _read_numbers(path, relation, dialect, of_values, repeats)
        except LargeIdError:
            pass
        except NoNumberError as error:
            if error.place in dialect.columns[:2]:
                raise ReadError(str(error), **ABOUT_TEXT_IDS) from None
            if error.place in dialect.columns or dialect.delimiter is None:
                raise
            # text in a column that is not read, of which the first line has a number
    return read_table_relation(path, relation, dialect, of_values, repeats, are_text)


def _read_numbers(
    path: str,
    relation: Relation,
    dialect: Dialect,
    of_values: np.dtype,
    repeats: Literal["last", "sum"],
) -> xarray.DataArray:
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    values = []
    separators = {"::": '",;:', ";": '";', "|": '"|'}.get(dialect.delimiter or "", '",;')
    for rows in read_rows(
        path, separators, n_columns=dialect.n_columns, skip_lines=dialect.lines_before
    ):
        first, second, *third = (np.s_[column :: dialect.n_columns] for column in dialect.columns)
        for side, which, what in zip(sides, (first, second), relation.ids, strict=True):
            side.append(rows.ids(which, what))
        values.append(
            rows.values(third[0], relation.value, of_values)
            if third
            else np.ones(len(sides[0][-1]), of_values)
        )
    return labelled_relation(relation, sides, values, path, repeats)


def labelled_relation(
    relation: Relation,
    sides: tuple[list[np.ndarray], list[np.ndarray]],
    values: list[np.ndarray],
    path: str,
    repeats: Literal["last", "sum"],
) -> xarray.DataArray:
    """What all chunks gave as one labelled matrix; `sides` is emptied."""
    if relation.one_side:
        codes, ids = factorize(np.concatenate(sides[0] + sides[1]))
        (first, second), labels = codes.reshape(2, -1), (ids, ids)
    else:
        first, ids = factorize(np.concatenate(sides[0]))
        sides[0].clear()
        second, others = factorize(np.concatenate(sides[1]))
        labels = (ids, others)
    for side in sides:
        side.clear()
    joined = np.concatenate(values)
    return labelled(first, second, joined, labels, relation.dims, relation.value, path, repeats)
