"""Examples in a parquet file: a row group is read as a whole, and cut into blocks.

row group 0    ▭▭▭▭▭▭▭▭ … ▭    blocks 0 to 31       pandas writes a million rows as one group;
row group 1    ▭▭▭▭▭▭▭▭ … ▭    blocks 32 to 63      ranks that share it unpack it each, and
                                                    take no more than their rows out of it
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from daskpart.errors import ReadError

from .assembly import cast_values
from .example_blocks import Block
from .example_tables import Table, parquet_file
from .libsvm import Rows, Wanted
from .messages import shown
from .streams import opened
from .unchanged import changed, rows_checksum


def sizes_of_groups(path: str) -> list[tuple[int, int]]:
    """Bytes and rows of each row group of a parquet file."""
    with opened(path) as stream:
        found = parquet_file(stream, path).metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        return [(group.total_byte_size, group.num_rows) for group in groups]


def survey_group(
    path: str, number: int, start: int, sizes: tuple[int, int], n_blocks: int, wanted: Wanted
) -> list[Block]:
    """A row group that begins at a byte as about so many blocks; what a task does."""
    n_bytes, n_rows = sizes
    n_blocks = max(1, min(n_blocks, n_rows))
    pointer = np.linspace(0, n_rows, n_blocks + 1).astype(int).tolist()
    borders = np.linspace(start, start + n_bytes, n_blocks + 1).astype(int).tolist()
    pieces = _pieces(path, number, n_rows, pointer, wanted)
    return [
        Block.of(rows, *place, rows_checksum(rows))
        for rows, place in zip(pieces, pairwise(borders), strict=True)
    ]


class RowGroups:
    """The row groups of a file that was surveyed.

    Parameters
    ----------
    path : str
    wanted : Wanted
        With how many blocks there are in each group.
    blocks : sequence of Block
    """

    def __init__(self, path: str, wanted: Wanted, blocks: Sequence[Block]) -> None:
        self._path, self._wanted, self._blocks = path, wanted, blocks
        ends = np.cumsum([0, *_table_of(wanted).blocks_of_groups])
        self._groups = [range(*pair) for pair in pairwise(ends.tolist())]
        self._row_pointer = np.cumsum([0, *(block.n_rows for block in blocks)])

    def group_of(self, block: int) -> range:
        """All blocks of the row group that a block is of."""
        return self._groups[bisect(self._groups, block, key=lambda group: group.stop)]

    def rows(self, blocks: range) -> Iterator[Rows]:
        """The rows of consecutive blocks, one by one; each row group is read once.

        Raises
        ------
        ReadError
            The file has changed since the survey.
        """
        texts = _table_of(self._wanted).texts
        known = None if texts is None else np.array(texts)
        for number, group in enumerate(self._groups):
            own = range(max(group.start, blocks.start), min(group.stop, blocks.stop))
            if not own:
                continue
            first, *_, last = self._row_pointer[group.start : group.stop + 1].tolist()
            pointer = (self._row_pointer[own.start : own.stop + 1] - first).tolist()
            pieces = _pieces(self._path, number, last - first, pointer, self._wanted)
            for block, rows in zip(own, pieces, strict=True):
                if rows_checksum(rows, known) != self._blocks[block].checksum:
                    raise changed(self._path, self._blocks[block])
                yield rows


def _table_of(wanted: Wanted) -> Table:
    assert wanted.table is not None
    return wanted.table


def _pieces(
    path: str, number: int, n_rows: int, pointer: Sequence[int], wanted: Wanted
) -> Iterator[Rows]:
    """The rows of a row group between each two of some places in it; it has `n_rows` in all."""
    table = _table_of(wanted)
    columns = None if table.names is None else [*table.names]
    with opened(path) as stream:
        file = parquet_file(stream, path)
        if (
            number >= file.num_row_groups
            or file.metadata.row_group(number).num_rows != n_rows
            or set(columns or ()) - set(file.schema_arrow.names)
        ):
            raise ReadError(
                f"{path}: its row groups or columns are not those that it had when it was "
                "surveyed; leave the file alone while it is read"
            )
        group = file.read_row_group(number, columns=columns)
    for begin, end in pairwise(pointer):
        frame = group.slice(begin, end - begin).to_pandas(ignore_metadata=True)
        frame.index += begin
        yield _rows_of(frame, table, f"{path}, row group {number}", wanted)


def _rows_of(frame: Any, table: Table, where: str, wanted: Wanted) -> Rows:
    name = frame.columns[table.label]
    features = [_numbers(frame, each, where, wanted.dtype) for each in frame if each != name]
    labels = (_texts if table.has_text else _numbers)(frame, name, where)
    if wanted.labels is not None and not np.isin(labels, wanted.labels).all():
        strange = labels[~np.isin(labels, wanted.labels)][0].item()
        raise ReadError(f"{where}: expected one of the labels {wanted.labels}; found {strange!r}")
    if table.has_text:
        labels = table.handed_on(labels, where.partition(", row group")[0])
    return table.sparse(np.column_stack(features), labels)


def _numbers(
    frame: Any, name: str, where: str, dtype: np.typing.DTypeLike = np.float64
) -> np.ndarray:
    """A column in a type of numbers (ReadError for what is no finite number, or does not fit)."""
    column = frame[name]
    if column.dtype.kind not in "biuf":
        raise ReadError(f"{where}: column {name!r} is {column.dtype}; expected numbers")
    cells, good = cast_values(column.to_numpy(np.float64), np.dtype(dtype))
    if not good.all():
        row = frame.index[np.argmin(good)]
        beyond = f", which {np.dtype(dtype)} cannot hold" if np.isfinite(column[row]) else ""
        raise ReadError(
            f"{where}, row {row}: expected a finite number in column {name!r}, "
            f"found {shown(column[row])}{beyond}"
        )
    return cells


def _texts(frame: Any, name: str, where: str) -> np.ndarray:
    """A column of labels as text, stripped as those of CSV (ReadError for one that is missing)."""
    column = frame[name]
    labels = np.char.strip(column.to_numpy(dtype=str))
    missing = column.isna().to_numpy() | (labels == "")
    if missing.any():
        raise ReadError(
            f"{where}, row {frame.index[np.argmax(missing)]}: there is no label in column "
            f"{name!r}; leave out rows without one"
        )
    return labels
