"""Tables through pandas: parquet files, and text files in which not all is a number.

    A2SUAM1J3GNN3B,0000013714,5.0     -->  user x item, labelled by the text ids in sorted order
    76561198000000001,10,5.0,today    -->  labelled by numbers that float64 cannot hold

The scanner knows numbers only, as float64; pandas makes tables of text.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas
import xarray

from daskpart._floor.checks import needs_pyarrow
from daskpart.containers.column_names import known_places, plain_word
from daskpart.containers.coordinates import as_labels
from daskpart.errors import InputError, ReadError

from .assembly import cast_values, expected_value, labelled, value_type
from .detection import is_number, names_both_sides
from .dialect import EDGES, RATINGS, Dialect, Relation, choose_columns
from .messages import ABOUT_TEXT_IDS, ABSENT, about_no_number, cut_short, of_pandas, shown
from .scanning import LARGEST_ID
from .streams import fail_at_encoding, head, opened, unpacked

# in place of "::", as pandas parts at one character; a tab may be in an id
_UNIT_SEPARATOR = "\x1f"
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}")  # as text files have one


def read_parquet(
    path: str,
    *,
    columns: Sequence[str | int] | None = None,
    dtype: np.typing.DTypeLike = np.float32,
    repeats: Literal["last", "sum"] | None = None,
) -> xarray.DataArray:
    """Read a frame from a parquet file; options and result as `read_ratings`.

    One whose columns name a source and a target is read as `read_edges` does.
    """
    return read_parquet_relation(path, None, columns, dtype, repeats)


def read_parquet_relation(
    path: str,
    relation: Relation | None,
    columns: Sequence[str | int] | None,
    dtype: np.typing.DTypeLike,
    repeats: Literal["last", "sum"] | None,
) -> xarray.DataArray:
    """Read ratings or edges from a parquet file; None: those that its columns tell."""
    frame = _with_index(parquet_frame(path), columns)
    names = [str(name) for name in frame.columns]
    if relation is None:
        are_edges = columns is None and names_both_sides(names, EDGES.names)
        relation = EDGES if are_edges else RATINGS
    chosen = choose_columns(names, len(names), columns, path, relation)
    how = repeats or ("sum" if relation.one_side else "last")
    return _from_frame(frame, relation, chosen, value_type(dtype), path, None, how)


def holds_parquet(path: str) -> bool:
    """Whether a file begins as those of parquet do."""
    return head(path, 4) == b"PAR1"


def parquet_frame(path: str, **how: Any) -> pandas.DataFrame:
    """What a parquet file holds (ReadError); `how` are further arguments of pandas."""
    content = unpacked(path)
    try:
        with needs_pyarrow("reading parquet"):
            return pandas.read_parquet(content, **how)
    except InputError:
        raise
    except (ValueError, OSError, NotImplementedError) as error:
        raise ReadError(f"{path}: not a parquet file that can be read: {error}") from error


def _with_index(frame: pandas.DataFrame, columns: Any) -> pandas.DataFrame:
    """An index that names a side, as groupby leaves it, is columns of the file like all others."""
    names = [name for name in frame.index.names if name is not None]
    if columns is None:
        plain = [plain_word(name) for name in names]
        sides = (
            places for each in (RATINGS, EDGES) for places in known_places(plain, each.names)[:2]
        )
        is_meant = any(sides)
    else:  # checked where columns are chosen; positions count those that are no index
        is_meant = hasattr(columns, "__len__") and bool({*names} & {*map(str, columns)})
    return frame.reset_index() if is_meant and not {*names} & {*frame.columns} else frame


def read_table_relation(
    path: str,
    relation: Relation,
    dialect: Dialect,
    dtype: np.dtype,
    repeats: Literal["last", "sum"],
    are_text: tuple[bool, bool],
) -> xarray.DataArray:
    """Read a table whose ids are text, or whole numbers up to 2^63 - 1.

    `are_text` says which, of each side. Beside text what is no number makes text of its column.
    """
    n_before = dialect.lines_before
    delimiter = _UNIT_SEPARATOR if dialect.delimiter == "::" else dialect.delimiter
    with opened(path) as stream:
        content: Any = stream
        if dialect.delimiter == "::":
            content = io.BytesIO(stream.read().replace(b"::", _UNIT_SEPARATOR.encode()))
        try:
            frame = pandas.read_csv(
                content,
                sep=r"\s+" if delimiter is None else delimiter,
                header=None,
                skiprows=n_before,
                dtype={position: str for position in dialect.columns[:2]},
                keep_default_na=False,
                skipinitialspace=True,
            )
        except UnicodeDecodeError:
            fail_at_encoding(path)
        except ValueError as error:  # also what pandas raises by its own names
            raise ReadError(f"{path}{of_pandas(error)}") from error
    beyond = frame.iloc[:1, dialect.n_columns :]
    if delimiter == "\t" and (beyond.isna() | (beyond == "")).all(axis=None):
        frame = frame.iloc[:, : dialect.n_columns]  # tabs at the end of the first line tell nothing
    if frame.shape[1] != dialect.n_columns:
        raise ReadError(
            f"{path}, line {n_before + 1}: expected {dialect.n_columns} columns as in the first "
            f"line, found {frame.shape[1]}"
        )
    for what, position, is_text in zip(relation.ids, dialect.columns, are_text, strict=False):
        written = frame[position]
        if not is_text:
            numbers, good = _as_ids(written)
            if good.all():
                frame[position] = numbers
                continue
            if not any(are_text):
                first = int(np.argmin(good))
                found = written.iloc[first]
                raise ReadError(
                    f"{path}, line {first + n_before + 1} (blank lines not counted): expected a "
                    f"whole {what} from 0 to 2^63 - 1, found {found!r}",
                    **(ABOUT_TEXT_IDS if _can_only_be_text(found) else {}),
                )
        _refuse_lines(written, delimiter or " ", what, f"{path}, line", n_before + 1)
    return _from_frame(frame, relation, dialect.columns, dtype, path, n_before + 1, repeats)


def _can_only_be_text(written: str) -> bool:
    """Whether an id is no number, or one that int64 cannot hold, such as 9223372036854775808."""
    return not is_number(written) or 2.0**63 <= float(written) < np.inf


def _refuse_lines(
    written: pandas.Series, delimiter: str, what: str, place: str, first_line: int
) -> None:
    """Refuse a name that goes on over cells of the next lines: their rows would be lost."""
    broken = written.str.contains("\n", regex=False, na=False)
    for row in np.flatnonzero(broken).tolist():  # hardly any; a file may have 10^8 names
        name = written.iloc[row]
        if delimiter in name:
            raise ReadError(
                f"{place} {row + first_line} (blank lines not counted): the {what} "
                f"{cut_short(name)!r} goes over several lines; is a quote not closed? Put a name "
                'that begins with a quote in quotes, and double those in it: """abc"'
            )


def _as_ids(written: pandas.Series) -> tuple[pandas.Series, np.ndarray]:
    """Numbers as int64, and which of them are what was written."""
    numbers = pandas.to_numeric(written, errors="coerce")
    found = numbers.to_numpy()
    if found.dtype.kind in "iu":
        return numbers, (found >= 0) & (found < 2**63)
    good = (found >= 0) & (found < LARGEST_ID) & (found == np.floor(found))
    return numbers.where(good, 0).astype(np.int64), good


def _as_numbers(given: pandas.Series) -> np.ndarray:
    """Ratings as float64, of bools 1 and 0 as in every container; NaN where there is no number."""
    if given.dtype.kind in "mM":  # times, which pandas would make numbers of
        return np.full(len(given), np.nan)
    try:
        return pandas.to_numeric(given, errors="coerce").to_numpy(dtype=np.float64)
    except OverflowError:  # of whole numbers with hundreds of digits
        return np.array([_as_number(value) for value in given])


def _as_number(value: Any) -> float:
    try:
        return np.nan if isinstance(value, str) and not is_number(value) else float(value)
    except OverflowError:
        return np.inf


def _as_labels(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids as int64 where they are whole numbers, else as text; and which of them can be ids."""
    if found.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            whole = found.astype(np.int64)
        return whole, (whole == found) & (found >= 0)
    text = as_labels(np.array([str(label) for label in found], object))
    return text, text != ""


def numbered_ids(side: pandas.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of each id of a column, -1 where there is none; all ids; which of them can be."""
    code, found = _factorized(side)
    return (code, *_as_labels(np.asarray(found)))


def _plain_text(label: Any) -> Any:
    """Text without blanks around it, also that of bytes, which parquet files of others hold."""
    text = label.decode() if isinstance(label, bytes) else label
    return text.strip(" ") if isinstance(text, str) else text


def _factorized(side: pandas.Series) -> tuple[np.ndarray, Any]:
    """The number of each id, and all ids in order; blanks around text are none of its own."""
    code, found = pandas.factorize(side, sort=True)
    if found.dtype.kind in "biuf":
        return code, found
    written = np.asarray(found, object).tolist()  # at once: Arrow gives texts one by one, slowly
    stripped = [_plain_text(each) for each in written]
    if stripped == written:
        return code, found
    again, ids = pandas.factorize(np.array(stripped, object), sort=True)
    return np.append(again, -1)[code], ids  # the code of an absent id is -1, the last place


def _from_frame(
    frame: pandas.DataFrame,
    relation: Relation,
    columns: tuple[int, ...],
    dtype: np.dtype,
    path: str,
    first_line: int | None,
    repeats: Literal["last", "sum"],
) -> xarray.DataArray:
    """Factorise the id columns and check the values; `first_line` turns rows into line numbers."""

    def place(row: int) -> str:
        if first_line is None:
            return f"{path}, row {row}"
        return f"{path}, line {row + first_line} (blank lines not counted)"

    if not len(frame):
        raise ReadError(f"{path}: there are no {relation.lines} in it")
    codes, labels = [], []
    sides = [frame.iloc[:, position] for position in columns[:2]]
    if relation.one_side:
        sides = [pandas.concat(sides, ignore_index=True)]
    for what, side in zip(relation.ids, sides, strict=False):
        try:
            code, label, usable = numbered_ids(side)
        except (TypeError, UnicodeDecodeError) as error:  # lists, or no text, in a parquet file
            raise ReadError(
                f"{path}: a {what} is a number or text; found {shown(side.iloc[0])} ({error})"
            ) from error
        good = np.append(usable, False)[code]  # the code of an absent id is -1, the last place
        if not good.all():
            first = int(np.argmin(good))
            row = first % len(frame)
            given = side.iloc[first]
            raise ReadError(
                f"{place(row)}: no usable {what}, found {shown(given)}; "
                + (
                    "leave out lines without one"
                    if isinstance(given, str) or pandas.isna(given)
                    else "ids are whole numbers from 0 to 2^63 - 1, or text: make it of larger ones"
                )
            )
        codes.append(code)
        labels.append(label)
    if relation.one_side:
        codes, labels = [*codes[0].reshape(2, -1)], 2 * labels
    if len(columns) == 2:
        values = np.ones(len(frame), dtype)
    else:
        values = _values(frame.iloc[:, columns[2]], relation, dtype, place)
    one, other = codes
    both = (labels[0], labels[1])
    return labelled(one, other, values, both, relation.dims, relation.value, path, repeats)


def _values(
    given: pandas.Series, relation: Relation, dtype: np.dtype, place: Callable[[int], str]
) -> np.ndarray:
    """A column of values in their type (ReadError for what is none); `place` tells of a row."""
    values, good = cast_values(_as_numbers(given), dtype)
    if good.all():
        return values
    first = int(np.argmin(good))
    found = given.iloc[first]
    problem = (
        f"{place(first)}: {expected_value(relation.value, dtype)}, found {shown(found)}"
        f"{about_no_number(str(found))}"
    )
    if isinstance(found, datetime.date | datetime.timedelta) or _DATE.match(str(found)):
        name = f"the column {given.name!r}" if isinstance(given.name, str) else "that column"
        raise ReadError(
            f"{problem}; {name} says when.",
            option="columns",
            advice=f" Say columns=({', '.join(relation.dims)}), and the {relation.value} behind "
            "them where there is one",
            in_file=" Leave it out",
        )
    if str(found).strip().lower() in (*ABSENT, "<na>"):
        problem += "; leave out lines without one"
    raise ReadError(problem)
