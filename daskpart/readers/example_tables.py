"""Examples in a table, a row each: CSV in byte ranges, parquet in row groups.

    age,hours,rich          label="rich"
    39,40,0                 target 0, features age 39, hours 40
    50,0,1                  target 1, feature  age 50            zeros are not stored

All columns are numbers. A line of a CSV file is a row, so a file can be cut anywhere; a parquet
file is cut at its row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError, ReadError

from .assembly import cast_values
from .detection import is_number
from .dialect import position_of
from .libsvm import Rows, Wanted, refuse_labels
from .scanning import Chunk, rows_of
from .streams import BYTE_ORDER_MARK, head, opened, plain_name

_PARQUET = (".parquet", ".pq")


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
    """

    n_columns: int
    label: int
    names: tuple[str, ...] | None = None
    separators: str = ""
    begin: int = 0

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of all columns but the label."""
        if self.names is None:
            return None
        return self.names[: self.label] + self.names[self.label + 1 :]

    def rows_of(self, chunk: Chunk, wanted: Wanted) -> Rows:
        """The rows of some lines (ReadError with the line of what is no number)."""
        found = rows_of(chunk, self.n_columns)
        is_label = np.arange(len(found.numbers)) % self.n_columns == self.label
        labels = found.values(is_label, "label", np.dtype(np.float64))
        values = found.values(~is_label, "value", wanted.dtype)
        refuse_labels(found, labels, wanted)
        return self._sparse(values, labels)

    def group(self, path: str, number: int, wanted: Wanted) -> Rows:
        """The rows of a row group of a parquet file."""
        with opened(path) as stream:
            columns = None if self.names is None else [*self.names]
            group = _parquet(stream, path).read_row_group(number, columns=columns)
        frame = group.to_pandas(ignore_metadata=True)
        cells = np.column_stack([_numbers(frame, name, path, number) for name in frame])
        labels = cells[:, self.label].astype(np.float64)
        if wanted.labels is not None and not np.isin(labels, wanted.labels).all():
            strange = labels[~np.isin(labels, wanted.labels)][0]
            raise ReadError(
                f"{path}, row group {number}: expected one of the labels {wanted.labels}; found "
                f"{strange:g}"
            )
        return self._sparse(np.delete(cells, self.label, axis=1).astype(wanted.dtype), labels)

    def _sparse(self, values: np.ndarray, labels: np.ndarray) -> Rows:
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
    return is_parquet(path) or plain_name(path).endswith(".csv")


def table_of(path: str, label: str | int) -> Table:
    """How a table is written, by its first lines or its schema.

    Raises
    ------
    InputError
        There is no such column.
    """
    if is_parquet(path):
        with opened(path) as stream:
            schema = _parquet(stream, path).schema_arrow
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        names = [name for name in schema.names if name not in index]
        return _checked(path, names, names, label)
    start = head(path)
    first = start.split(b"\n", 1)[0]
    line = first.decode("utf-8", "replace").strip()
    separator = next((mark for mark in "\t,;" if mark in line), ",")
    cells = [cell.strip().strip('"') for cell in line.split(separator)]
    if all(is_number(cell) for cell in cells):
        return _checked(path, cells, None, label, separator)
    with opened(path) as stream:
        mark = len(BYTE_ORDER_MARK) * stream.read(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK)
    return _checked(path, cells, cells, label, separator, len(first) + 1 + mark)


def _checked(
    path: str, cells: Sequence[str], names: Sequence[str] | None, label: str | int,
    separator: str = "", begin: int = 0,
) -> Table:  # fmt: skip
    position = position_of(label, names, len(cells), path)
    if len(cells) < 2:
        raise InputError(f"{path}: there is no column but the label {label!r}")
    return Table(len(cells), position, None if names is None else tuple(names), separator, begin)


def group_bytes(path: str) -> list[int]:
    """Bytes of each row group of a parquet file."""
    with opened(path) as stream:
        found = _parquet(stream, path).metadata
        return [found.row_group(n).total_byte_size for n in range(found.num_row_groups)]


def _parquet(stream: Any, path: str) -> Any:
    try:
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            "reading parquet needs pyarrow; install it with: pip install 'daskpart[io]'"
        ) from error
    try:
        return ParquetFile(stream)
    except ArrowException as error:
        raise ReadError(f"{path}: not a parquet file that can be read: {error}") from error


def _numbers(frame: Any, name: str, path: str, group: int) -> np.ndarray:
    """A column as float64 (ReadError for what is no finite number)."""
    column = frame[name]
    if column.dtype.kind not in "biuf":
        raise ReadError(f"{path}: column {name!r} is {column.dtype}; expected numbers")
    cells, good = cast_values(column.to_numpy(np.float64), np.dtype(np.float64))
    if not good.all():
        row = int(np.argmin(good))
        raise ReadError(
            f"{path}, row group {group}, row {row}: expected a finite number in column {name!r}, "
            f"found {column.iloc[row]!r}"
        )
    return cells
