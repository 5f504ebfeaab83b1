"""How a table of ratings is written: separator, header, and which columns are user, item, rating.

userId,movieId,rating,timestamp     -->  comma, one line before the data, columns 0 1 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskpart.containers.matrix import COLUMN_NAMES, TIMES
from daskpart.errors import InputError, ReadError

from .detection import is_number
from .messages import listed
from .streams import numbered_lines

DIMS = ("user", "item")
_KNOWN_NAMES = tuple(
    known | more
    for known, more in zip(
        COLUMN_NAMES,
        (
            {"userindex", "member"},
            {"itemindex", "songid", "businessid", "jokeid", "animeid", "sku"},
            {"weight", "value", "count", "bookrating", "plays", "clicks", "quantity", "qty"},
        ),
        strict=True,
    )
)


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

    By `columns` if given, else by well-known names of the header, else the first two or three; a
    column that says when is no rating.

    Raises
    ------
    ReadError
        For fewer than two columns, or more than three of which no name tells.
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
        others = [name for i, name in enumerate(plain) if i not in found]
        if named in ([1, 1, 1], [1, 1, 0]) and (named[2] or TIMES.issuperset(others)):
            return tuple(found)
        if n_columns > 3 + (plain[-1] in TIMES):
            raise ReadError(
                f"{path}: which of {listed(list(names))} are user, item and, if any, rating? Say "
                "columns=(user, item, rating)"
            )
        n_columns -= n_columns == 3 and plain[2] in TIMES
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
