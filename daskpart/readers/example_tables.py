"""Examples in a table, a row each: CSV in byte ranges, parquet in row groups.

    age,hours,rich          label="rich"
    39,40,0                 target 0, features age 39, hours 40
    50,0,1                  target 1, feature  age 50            zeros are not stored

Features are numbers; labels may be text or bools (`text_labels`). A line of a CSV file is a row, so
a file can be cut anywhere; of parquet see `row_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from daskpart._floor.checks import needs_pyarrow
from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError, ReadError

from .detection import cells_of, is_number, separator_of
from .dialect import position_of
from .libsvm import Rows, Wanted, refuse_labels
from .scanning import Chunk, rows_of
from .streams import (
    BYTE_ORDER_MARK,
    fail_at_encoding,
    only_names_separator,
    opened,
    plain_name,
    refuse_no_text,
)
from .text_labels import cut_labels, first_label, is_text, numbered

_PARQUET = (".parquet", ".pq")
_NAMES_OF_INDEX = ("", "Unnamed: 0")  # as to_csv writes it, and as read_csv calls it then
_MORE_LINES = 20  # behind the first one: one of them has a label


@dataclass(frozen=True)
class Table:
    """How a table of examples is written.

    Attributes
    ----------
    n_columns : int
    label : int
        Position of the label.
    names : tuple of str, or None
        Of all columns, where the file names them.
    separators : str
        Of cells; empty for parquet.
    begin : int
        Bytes before the first row.
    has_text : bool
        Whether labels are text; bools of parquet are read as such.
    texts : tuple of str, or None
        Of labels that are text all that occur, sorted: rows then have their numbers. None: a survey
        looks for them, and rows have what was written.
    blocks_of_groups : tuple of int
        How many blocks there are of each row group of parquet; a survey finds it.
    """

    n_columns: int
    label: int
    names: tuple[str, ...] | None = None
    separators: str = ""
    begin: int = 0
    has_text: bool = False
    texts: tuple[str, ...] | None = None
    blocks_of_groups: tuple[int, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of all columns but the label."""
        if self.names is None:
            return None
        return self.names[: self.label] + self.names[self.label + 1 :]

    def rows_of(self, chunk: Chunk, wanted: Wanted) -> Rows:
        """The rows of some lines (ReadError with the line of what is no number)."""
        if self.has_text:
            return self._with_text(chunk, wanted)
        found = rows_of(replace(chunk, names=self.names or ()), self.n_columns)
        is_label = np.arange(len(found.numbers)) % self.n_columns == self.label
        labels = found.values(is_label, "label", np.dtype(np.float64))
        values = found.values(~is_label, "value", wanted.dtype)
        refuse_labels(found, labels, wanted.labels)
        return self.sparse(values, labels)

    def _with_text(self, chunk: Chunk, wanted: Wanted) -> Rows:
        """The same where labels are text."""
        cut, labels = cut_labels(chunk, self.separators, self.label, self.n_columns)
        found = rows_of(replace(cut, names=self.feature_names or ()), self.n_columns - 1)
        values = found.values(slice(None), "value", wanted.dtype)
        refuse_labels(found, labels, wanted.labels)
        return self.sparse(values, self.handed_on(labels, chunk.path))

    def handed_on(self, labels: Any, path: str) -> Any:
        """Labels that are text, as rows have them."""
        return labels if self.texts is None else numbered(labels, self.texts, path)

    def sparse(self, values: np.ndarray, labels: np.ndarray) -> Rows:
        """Rows without their zeros."""
        cells = values.reshape(-1, self.n_columns - 1)
        rows, columns = np.nonzero(cells)
        lengths = np.bincount(rows, minlength=len(cells)).astype(np.int64)
        return Rows(lengths, columns.astype(index_dtype(self.n_columns)), cells[rows, columns],
                    labels)  # fmt: skip


def is_parquet(path: str) -> bool:
    """Whether a name is that of a parquet file."""
    return plain_name(path).endswith(_PARQUET)


def is_table(path: str) -> bool:
    """Whether a name is that of a table, of which a label must be named."""
    return is_parquet(path) or plain_name(path).endswith((".csv", ".tsv"))


def table_of(path: str, label: str | int) -> Table:
    """How a table is written, by its first lines or its schema.

    The label of the first row tells whether labels are text.

    Raises
    ------
    InputError
        There is no such column, or the first one is the index of a DataFrame.
    """
    if is_parquet(path):
        with opened(path) as stream:
            schema = parquet_file(stream, path).schema_arrow
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = [name for name in schema.names if name not in index]
        found = _checked(path, names, names, label)
        return replace(found, has_text=_holds_text(schema.field(names[found.label]).type))
    before, first, others = beginning(path)
    try:
        line = first.removeprefix(BYTE_ORDER_MARK).decode("utf-8").strip()
    except UnicodeDecodeError:  # names that are no longer those of the file are not found again
        fail_at_encoding(path)
    separator = separator_of(line)
    separator = "," if separator in (None, "::") else separator
    cells = cells_of(line, separator)
    if all(is_number(cell) for cell in cells) or _is_row(cells, label, others, separator):
        found = _checked(path, cells, None, label, separator, before)
        return replace(found, has_text=is_text(cells[found.label]))
    found = _checked(path, cells, cells, label, separator, before + len(first))
    if cells[0] in _NAMES_OF_INDEX and found.label:
        _refuse_index(path, others, separator)
    return replace(found, has_text=is_text(first_label(others, separator, found.label)))


def beginning(path: str) -> tuple[int, bytes, list[bytes]]:
    """The first line, however long, how many bytes of ``sep=;`` stand above it, some lines below.

    These are not blank.
    """
    with opened(path) as stream:
        first = stream.readline()
        if not first:
            raise ReadError(f"{path}: the file is empty")
        refuse_no_text(path, first)
        before = len(first) if only_names_separator(first) else 0
        if before:
            first = stream.readline()
        return before, first, list(islice((line for line in stream if line.strip()), _MORE_LINES))


def _refuse_index(path: str, lines: Sequence[bytes], separator: str) -> None:
    """Refuse a first column, which has no name, if it numbers the rows: a DataFrame's index."""
    cells = [cells_of(line.decode("utf-8", "replace"), separator)[0] for line in lines]
    if len(set(cells)) == len(cells) > 1 and all(map(str.isdecimal, cells)):
        raise InputError(
            f"{path}: the first column has no name and numbers the rows, as to_csv of pandas "
            "writes an index; it is no feature: write the file with index=False"
        )


def _is_row(
    cells: Sequence[str], label: str | int, others: Sequence[bytes], separator: str
) -> bool:
    """Whether a first line is a row whose label is text, 39,40,yes, and no header, 0,1,rich."""
    if not isinstance(label, Real) or not 0 <= label < len(cells):
        return False
    rest = [cell for place, cell in enumerate(cells) if place != label]
    if not rest or not all(map(is_number, rest)) or not is_text(cells[label]):
        return False
    by_place = [str(place) for place in range(len(cells))]
    if rest in (by_place[:-1], by_place[1:], by_place[:label] + by_place[label + 1 :]):
        return False
    second = first_label(others, separator, label)
    return second is None or is_text(second)


def _holds_text(kind: Any) -> bool:
    """Whether a column of parquet is of text, of categories that are text, or of bools."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind))


def _checked(
    path: str, cells: Sequence[str], names: Sequence[str] | None, label: str | int,
    separator: str = "", begin: int = 0,
) -> Table:  # fmt: skip
    position = position_of(label, names, len(cells), path)
    if len(cells) < 2:
        raise InputError(
            f"{path}: there is no column but the label, only {cells[0]!r}; give features beside "
            "it, and no line above the header"
        )
    return Table(len(cells), position, None if names is None else tuple(names), separator, begin)


def parquet_file(stream: Any, path: str) -> Any:
    """A parquet file, as pyarrow opens it (ReadError)."""
    with needs_pyarrow("reading parquet"):
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        return ParquetFile(stream)
    except ArrowException as error:
        raise ReadError(f"{path}: not a parquet file that can be read: {error}") from error
