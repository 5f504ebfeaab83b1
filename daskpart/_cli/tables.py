"""Tables with a header as they are written, and text files with a name or a label a line.

    day,trips            numbers where all of a column are some, and none changes: 007 stays text
    2024-01-30,7    ──►  bools where all are True or False
                         text else, without the blanks around it, NaN where a cell is empty

The readers of `daskpart.readers` know what the columns mean; here a command is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.words import counted
from daskpart.errors import InputError
from daskpart.readers import detection
from daskpart.readers.example_tables import beginning, is_parquet
from daskpart.readers.messages import ABSENT, of_pandas
from daskpart.readers.streams import fail_at_encoding, location, opened
from daskpart.readers.text_labels import TRUTHS

from .terminal import say_aside

if TYPE_CHECKING:
    import pandas as pd


def read_table(source: str | Path, as_written: bool = False) -> pd.DataFrame:
    """A CSV file with a header, or a Parquet file.

    A column of CSV is of numbers where all that is written in it are some, and of bools where all
    are True or False. 007 is no number, it would become 7, and where others are text NA is a
    country. All may stay text, too, as it is written, and in Parquet whole numbers where some are
    missing. Blanks around text are left out.

    Raises
    ------
    InputError
        For a file that is not there, or no such table.
    """
    import pandas as pd

    from daskpart.readers.frames import parquet_frame

    path = location(source)
    if is_parquet(path):
        kept = {"dtype_backend": "numpy_nullable"} if as_written else {}
        return parquet_frame(path, **kept).apply(_without_blanks)
    mark, n_before, _ = _separator(path)
    how = {"sep": mark, "skipinitialspace": mark != " ", "skiprows": n_before}
    try:
        with opened(path) as stream:
            table = cells_of(stream, source, **how)
    except pd.errors.EmptyDataError:
        raise InputError(f"{source}: the file is empty") from None
    except pd.errors.ParserError as error:
        raise InputError(f"{source}{of_pandas(error)}") from error
    except UnicodeDecodeError:
        fail_at_encoding(path)
    return table.apply(_without_blanks if as_written else as_meant)


def cells_of(content: Any, source: str | Path, **how: Any) -> pd.DataFrame:
    """The cells of a CSV file as text; `how` are further arguments of `pandas.read_csv`.

    Raises
    ------
    InputError
        Where the first line has more cells than its header; pandas says so of a later line.
    """
    import pandas as pd

    table = pd.read_csv(content, dtype=str, keep_default_na=False, **how)
    n_cells, n_columns = table.index.nlevels + table.shape[1], table.shape[1]
    if len(table) and not isinstance(table.index, pd.RangeIndex):  # it took the first for labels
        raise InputError(
            f"{source}, first line below the header: expected {counted(n_columns, 'cell')} as in "
            f"the header, found {n_cells}; give each column a name, and end no line with a "
            "separator"
        )
    return table


def header_of(source: str | Path) -> list[str]:
    """The cells of the header of a CSV file as they are written, also where two are the same."""
    mark, _, header = _separator(location(source))
    return detection.cells_of(header, mark)


def _separator(path: str) -> tuple[str, int, str]:
    """What stands between the columns, by the header; a comma if there is one column.

    And how many lines, of ``sep=;``, stand above it; and itself.
    """
    n_before, first, below = beginning(path)
    header = first.decode("utf-8-sig", "replace").strip()
    if not header and below:  # blank lines above it are passed over
        header = below[0].decode("utf-8", "replace").strip()
    mark = detection.separator_of(header)
    mark = mark or next((mark for mark in "| " if mark in header), ",")
    return mark, int(n_before > 0), header


def as_meant(column: pd.Series) -> pd.Series:
    """Numbers or bools, NaN or NA where there is none; else the text, also of 007 for one."""
    import pandas as pd

    text = column.str.strip()
    absent = text.str.lower().isin(ABSENT)
    if not absent.all() and text[~absent].isin(TRUTHS).all():
        return text.map(TRUTHS).astype("boolean" if absent.any() else bool)
    numbers = pd.to_numeric(text.mask(absent), errors="coerce")
    changed = text.str.match(r"[+-]?0\d")
    if numbers.dtype.kind == "f":
        changed |= text.str.fullmatch(r"[+-]?\d{16,}")
    if absent.all() or changed.any() or not numbers[~absent].notna().all():
        words = _without_blanks(column)
        return words.mask(words == "")
    return numbers


def _without_blanks(column: pd.Series) -> pd.Series:
    """Text without blanks around it, as the readers have it; another column as it is."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    is_text = pd.api.types.infer_dtype(column, skipna=True) == "string"
    return column.str.strip(" ") if is_text else column


def lines_of(path: str | Path) -> list[str]:
    """Lines of a text file that may be compressed; one with U+2028 or the like in it stays one.

    Raises
    ------
    InputError
        For a file that is not there, or not in UTF-8.
    """
    with opened(location(path)) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        fail_at_encoding(location(path))
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def read_names(path: str, n: int, needed: str) -> np.ndarray:
    """The first `n` lines; that there are more is told, as a heading would move all by one.

    Raises
    ------
    InputError
        As `lines_of`; or there are fewer than `needed`, in words.
    """
    lines = lines_of(path)
    if len(lines) < n:
        raise InputError(f"{path}: {counted(len(lines), 'line')}, but {needed}")
    left = sum(line.strip() != "" for line in lines[n:])
    if left:
        say_aside(
            f"{path}: of {n + left:,} lines the first {n:,} are taken as names; if one of them is "
            "a heading, remove it"
        )
    return np.array(lines[:n])
