"""How a table of ratings or edges is written: separator, header, and which columns matter.

userId,movieId,rating,timestamp     -->  comma, one line before the data, columns 0 1 2
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from daskpart._floor.checks import several
from daskpart._floor.words import listed
from daskpart.containers.column_names import (
    EDGE_COLUMN_NAMES,
    RATING_COLUMN_NAMES,
    TIMES,
    Known,
    column_behind,
    in_their_order,
    known_places,
    plain_word,
)
from daskpart.errors import InputError, ReadError

from .detection import cells_of, is_number, names_both_sides, separator_of
from .messages import has_decimal_comma
from .streams import numbered_lines

_LEADING_ZERO = re.compile(r"0\d")
_WITH_ATTRIBUTES = re.compile(r"[^\s,;]+[\s,;]+[^\s,;]+[\s,;]+\{.*\}")  # 0 1 {'weight': 2.5}


@dataclass(frozen=True)
class Relation:
    """What the lines of a table say: that two things belong together, and how much.

    Attributes
    ----------
    dims : (str, str)
        What the two sides are called.
    value : str
        What a third column says, if there is one.
    names : tuple of tuple of set of str
        Of the three columns as people call them, lower case and without other signs than letters
        and digits; of each those first that tell best.
    one_side : bool
        Whether both sides are of one kind, so that an id means the same on both.
    """

    dims: tuple[str, str]
    value: str
    names: Known
    one_side: bool = False

    @property
    def columns(self) -> str:
        """All three, as one says them."""
        return f"{self.dims[0]}, {self.dims[1]} and, if any, {self.value}"

    @property
    def lines(self) -> str:
        """What the lines are."""
        return "edges" if self.one_side else f"{self.value}s"

    @property
    def ids(self) -> tuple[str, str]:
        """What is read on each side."""
        first, second = ("node", "node") if self.one_side else self.dims
        return f"{first} id", f"{second} id"


RATINGS = Relation(("user", "item"), "rating", RATING_COLUMN_NAMES)
EDGES = Relation(("source", "target"), "weight", EDGE_COLUMN_NAMES, one_side=True)


@dataclass(frozen=True)
class Dialect:
    """How a table is written; `columns`: positions of both sides and, if any, of the value.

    `lines_before`: how many lines stand before the first of data, with the header and comments.
    `ids_are_text`: whether those of each side are; of one kind both or none.
    `others_are_text`: whether a column that is not read holds what is no number. `first_edge`: the
    names on the first line, where it is taken for an edge between names, and may be a header.
    """

    delimiter: str | None
    n_columns: int
    lines_before: int
    columns: tuple[int, ...]
    ids_are_text: tuple[bool, bool]
    others_are_text: bool = False
    first_edge: tuple[str, ...] = ()


def choose_columns(
    names: Sequence[str] | None,
    n_columns: int,
    columns: Sequence[str | int] | None,
    path: str,
    relation: Relation = RATINGS,
) -> tuple[int, ...]:
    """Positions of both sides and of the value among the columns of a table.

    By `columns` if given, else by well-known names of the header, else the first two or three; a
    column that says when is no value. Where names tell both sides of a rating only, the one other
    column is the value if it stands behind them.

    Raises
    ------
    ReadError
        For fewer than two columns, more than three of which no name tells, or names that tell
        another order.
    """
    if columns is not None:
        if len(columns := _listed(columns, relation)) not in (2, 3):
            raise InputError(f"columns names {relation.columns}; got {columns!r}")
        chosen = tuple(position_of(column, names, n_columns, path) for column in columns)
        if len(set(chosen)) < len(chosen):
            raise InputError(f"columns is {columns!r}: give another column for each")
        return chosen
    if names is not None:
        plain = [plain_word(name) for name in names]
        places = known_places(plain, relation.names)
        named = [len(each) for each in places]
        if named[:2] == [1, 1]:
            (first,), (second,) = places[:2]
            others = {*plain} - {plain[first], plain[second]}
            behind = None if relation.one_side else column_behind(plain, first, second)
            if named[2] == 1:
                return first, second, places[2][0]
            if named[2] == 0 and behind is not None:
                return first, second, behind
            if named[2] == 0 and (relation.one_side or others <= TIMES):
                return first, second
        if n_columns > 3 + (plain[-1] in TIMES) or not in_their_order(places):
            raise ReadError(
                f"{path}: which of {listed(names)} are {relation.columns}?",
                option="columns",
                advice=f" Say columns=({', '.join((*relation.dims, relation.value))})",
                in_file=" Call them so in the file",
            )
        n_columns -= n_columns == 3 and plain[2] in TIMES
    if n_columns < 2:
        raise ReadError(
            f"{path}: expected at least the columns {' and '.join(relation.dims)}, found "
            f"{n_columns}"
        )
    if n_columns > 3 and relation.one_side:
        raise ReadError(f"{path}: expected {relation.columns}; found {n_columns} columns")
    return tuple(range(min(n_columns, 3)))


def _listed(columns: Sequence[str | int], relation: Relation) -> list[str | int]:
    """The columns that were named, however they come (InputError)."""
    wanted = f"a list with the names or positions of {relation.columns}"
    if isinstance(columns, str):
        raise InputError(f"columns is {columns!r}: give {wanted}")
    return several(columns, "columns", wanted)


def position_of(column: str | int, names: Sequence[str] | None, n_columns: int, path: str) -> int:
    """Where a column is that was named, or counted from 0 (InputError)."""
    if isinstance(column, str) and names is not None and column in names:
        return list(names).index(column)
    if isinstance(column, Integral) and not isinstance(column, bool) and 0 <= column < n_columns:
        return int(column)
    known = f"positions 0 to {n_columns - 1}" if names is None else listed(names, str(column))
    raise InputError(f"{path}: no column {column!r}; the columns are {known}")


def _names_numbers(cells: Sequence[Sequence[str]], ids: Sequence[str | int]) -> bool:
    """Whether the first line can only be a header: no number where one is below, ids apart.

    ``caller,callee,minutes`` over ``ann,bob,12``.
    """
    if len(cells) < 2:
        return False
    pairs = enumerate(zip(*cells[:2], strict=False))
    return any(a and not _is_amount(a) and _is_amount(b) for at, (a, b) in pairs if at not in ids)


def _is_amount(cell: str) -> bool:
    """Whether a cell is a number, or one with a decimal comma: a reader of numbers tells of it."""
    return is_number(cell) or has_decimal_comma(cell)


def _has_header(
    cells: Sequence[Sequence[str]], columns: Sequence[str | int] | None, relation: Relation
) -> bool | None:
    """Whether the first of two lines names the columns; None where it may be data as well."""
    first, below = cells[0], [cell for line in cells[1:] for cell in line]
    if any(map(_is_amount, first)):
        return False
    if any(isinstance(column, str) for column in columns or ()):
        return True
    if names_both_sides(first, relation.names):
        return True
    if relation.one_side:
        ids = (columns or [0, 1])[:2]  # by position, as none is named
        if (columns or len(first) == 3) and _names_numbers(cells, ids):
            return True
        of_ids = [cell for place, cell in enumerate(below) if place in ids]
        return None if any(map(is_number, of_ids)) else False  # an edge between names
    return True if any(map(_is_amount, below)) else None


def _are_text(ids: Sequence[str]) -> bool:
    """Whether ids are text: the first is no number, or one would lose its zeros, as 007 would."""
    first_is_text = any(cell != "" and not is_number(cell) for cell in ids[:1])
    return first_is_text or any(map(_LEADING_ZERO.match, ids))


def _refuse_no_columns(path: str, line: str, cells: Sequence[str], relation: Relation) -> None:
    """ReadError for a first line of one column, or with what networkx writes behind an edge.

    Before it is asked for a header, of which there is nothing to tell.
    """
    if len(cells) < 2:
        raise ReadError(
            f"{path}: its first line, {line[:60]!r}, is one column, expected are at least "
            f"{' and '.join(relation.dims)}; tabs, commas, semicolons, '|', '::' or blanks part "
            "columns"
        )
    if relation.one_side and _WITH_ATTRIBUTES.fullmatch(line.strip()):
        raise ReadError(
            f"{path}: what stands behind the edge in {line[:60]!r} are the attributes that "
            "networkx.write_edgelist writes; write with data=False, or data=['weight']"
        )


def dialect_of(
    path: str,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    relation: Relation = RATINGS,
) -> Dialect:
    """Find out how a table is written from its first lines."""
    nothing = f"{path}: there are no {relation.lines} in it, only"
    numbered = numbered_lines(path)
    if not numbered:
        raise ReadError(f"{nothing} blank lines or comments")
    columns = None if columns is None else _listed(columns, relation)
    lines = [line for _, line in numbered]
    delimiter = separator_of(lines[0])
    cells = [cells_of(line, delimiter) for line in lines]
    _refuse_no_columns(path, lines[0], cells[0], relation)
    said = header is not None or any(map(_is_amount, cells[0]))
    if header is None:
        header = _has_header(cells[:2], columns, relation)
    if header is None:
        names = " and ".join(relation.dims)
        raise ReadError(
            f"{path}: is its first line, {lines[0][:60]!r}, a header?",
            option="header",
            advice=f" Say header=True or False, or name its columns {names}, in the file or by "
            "columns=",
            in_file=f" Name its columns {names}",
        )
    if header and len(lines) < 2:
        raise ReadError(f"{nothing} a header")
    positions = choose_columns(cells[0] if header else None, len(cells[0]), columns, path, relation)
    data = cells[1:] if header else cells
    first, second = (
        _are_text([line[position] for line in data if position < len(line)])
        for position in positions[:2]
    )
    if relation.one_side:
        first = second = first or second
    others = [cell for position, cell in enumerate(data[0]) if position not in positions]
    others_are_text = (
        delimiter is not None
        and not all(map(is_number, others))
        and all(cell.isprintable() for cell in others)  # else the file is damaged
    )
    may_be_header = relation.one_side and not said and not header
    return Dialect(
        delimiter,
        len(cells[0]),
        lines_before=numbered[1 if header else 0][0] - 1,
        columns=positions,
        ids_are_text=(first, second),
        others_are_text=others_are_text,
        first_edge=tuple(cells[0][place] for place in positions[:2]) if may_be_header else (),
    )
