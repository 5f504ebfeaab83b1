"""Lines of numbers to flat arrays.

    196,242,3,881250949        numbers  196 242 3 881250949 186 302 ...
    186,302,3,891717742   -->  pointer  0 4 8 ...      row r: numbers[pointer[r]:pointer[r + 1]]
                               lines    1 2 ...        where each row stands in the file

All text formats of `daskpart.read` are rows of numbers; they differ in separators and in what the
columns mean. pandas reads them, every value the nearest double: a chunk whose rows are equally long
as the table that it is, any other with one number a line, which is a table, too. NumPy finds where
numbers and rows begin. What pandas refuses is read again number by number, so every nonsense is
found with its line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import ReadError

from .assembly import cast_values, expected_value
from .messages import about_empty_cells, about_no_number, cut_short
from .streams import BYTE_ORDER_MARK, CHUNK_BYTES, opened, refuse_no_text, text_chunks

LARGEST_ID = 2**53


class LargeIdError(ReadError):
    """An id is whole, and larger than float64 can tell from its neighbours."""


class NoNumberError(ReadError):
    """A word is no number; `place`: where it stands among those of its line, from 0."""

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.place = place


_LINE_END = ord("\n")
_BLANKS = b" \t\r\v\f"
_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
Which = slice | NDArray[np.bool_] | NDArray[np.integer]
_Error = Callable[[str], ReadError]


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file, and how they are read.

    Attributes
    ----------
    path : str
    text : bytes
        As it stands in the file.
    separators : bytes
        What parts numbers, line ends apart.
    lines_before : int or None
        None: to be counted in the file, should a message need it.
    blank_lines : bool
        Whether a line of nothing is a row.
    start : int
        Where the text begins in the file, in bytes; needed where `lines_before` is None.
    written : bytes or None
        The lines as they stand in the file, for messages, where the text is a part of them.
    names : tuple of str
        What the numbers of a line are called, if anything.
    """

    path: str
    text: bytes
    separators: bytes
    lines_before: int | None
    blank_lines: bool = False
    start: int = 0
    written: bytes | None = None
    names: tuple[str, ...] = ()

    @cached_property
    def first_line(self) -> int:
        """The number of the first line in the file, from 1."""
        if self.lines_before is not None:
            return self.lines_before + 1
        return _line_ends_before(self.path, self.start) + 1

    @cached_property
    def comments(self) -> list[tuple[int, int]]:
        """Where comments begin and end: from # or % to the line's end.

        A % right behind a digit is none, as in 50%: that is no number, and a reader says so.
        """
        if b"#" not in self.text and b"%" not in self.text:
            return []
        text, found, end = np.frombuffer(self.text, np.uint8), [], 0
        for start in np.flatnonzero((text == ord("#")) | (text == ord("%"))).tolist():
            if start < end or (self.text[start - 1 : start].isdigit() and text[start] == ord("%")):
                continue
            end = self.text.find(b"\n", start) % (len(text) + 1)  # -1: the text's end
            found.append((start, end))
        return found

    @cached_property
    def content(self) -> bytes:
        """The text with blanks in place of comments."""
        if not self.comments:
            return self.text
        blanked = bytearray(self.text)
        for start, end in self.comments:
            blanked[start:end] = b" " * (end - start)
        return bytes(blanked)

    @cached_property
    def one_a_line(self) -> bytes:
        """The content with a line end in place of every separator."""
        # pandas would cut at a comma: one that separates nothing becomes a byte of no number
        ends = bytes.maketrans(b"," + self.separators, b"?" + b"\n" * len(self.separators))
        return self.content.translate(ends)

    @cached_property
    def layout(self) -> _Layout:
        """Where numbers and rows begin."""
        is_part = np.frombuffer(self.one_a_line, np.uint8) != _LINE_END
        starts = np.flatnonzero(is_part[1:] > is_part[:-1]) + 1
        if is_part[0]:
            starts = np.append(0, starts)
        line_ends = np.flatnonzero(np.frombuffer(self.content, np.uint8) == _LINE_END)
        if not self.content.endswith(b"\n"):
            line_ends = np.append(line_ends, len(self.content))
        pointer = np.append(0, np.searchsorted(starts, line_ends))
        kept = np.diff(pointer) > 0
        if self.blank_lines:
            is_remark = np.zeros(len(kept), bool)
            is_remark[np.searchsorted(line_ends, [start for start, _ in self.comments])] = True
            kept |= ~is_remark
        return _Layout(starts, np.append(pointer[:-1][kept], len(starts)), np.flatnonzero(kept))

    def as_table(self, n_columns: int) -> NDArray[np.float64] | None:
        """The numbers of a plain table, row by row; None where there is anything uncommon."""
        if self.comments:
            return None
        commas = bytes.maketrans(b"," + self.separators, b"?" + b"," * len(self.separators))
        table = self.text.translate(commas).replace(b",,", b",").replace(b",\n", b"\n")
        return _parsed(table, n_columns)

    def number_by_number(self) -> NDArray[np.float64]:
        """Read what pandas refused: "nan" is a number, anything else an error with its line."""
        words = self.one_a_line.split()
        for number, word in enumerate(words):
            if not _NUMBER.fullmatch(word):
                rows = Rows(self, np.empty(0))
                written = rows.written(number)
                found = f"{rows.column(number)}, found {written!r}{about_no_number(written)}"
                error = partial(NoNumberError, place=rows.place(number))
                rows.fail_at(number, f"expected a number{found}", error)
        return np.array([float(word) for word in words])


class _Layout(NamedTuple):
    starts: NDArray[np.int64]
    pointer: NDArray[np.int64]
    lines: NDArray[np.int64]  # from 0, of the chunk


@dataclass(frozen=True)
class Rows:
    """Rows of numbers from one chunk of a file."""

    chunk: Chunk
    numbers: NDArray[np.float64]

    @property
    def pointer(self) -> NDArray[np.int64]:
        """Row r holds ``numbers[pointer[r]:pointer[r + 1]]``; shape (n_rows + 1,)."""
        return self.chunk.layout.pointer

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line of each row in the file, counted from 1; shape (n_rows,)."""
        return self.chunk.first_line + self.chunk.layout.lines

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.chunk.layout.lines)

    def written(self, number: int) -> str:
        """A number as it stands in the file."""
        start = int(self.chunk.layout.starts[number])
        end = self.chunk.one_a_line.find(b"\n", start)
        text = self.chunk.text[start : end if end >= 0 else None]
        return cut_short(text.decode("utf-8", "replace"), most=40)

    def _row_at(self, number: int) -> int:
        """The row that holds ``numbers[number]``."""
        return int(np.searchsorted(self.pointer, number, side="right")) - 1

    def place(self, number: int) -> int:
        """Where in its line a number stands, counted from 0."""
        return number - int(self.pointer[self._row_at(number)])

    def column(self, number: int) -> str:
        """Where in its line a number stands, as words, if columns have names; else nothing."""
        at = self.place(number)
        return f" in column {self.chunk.names[at]!r}" if at < len(self.chunk.names) else ""

    def bytes_before(self) -> NDArray[np.uint8]:
        """The byte before each number: its separator, or a line end."""
        return np.frombuffer(b"\n" + self.chunk.content, np.uint8)[self.chunk.layout.starts]

    def fail(self, row: int, problem: str, error: _Error = ReadError) -> NoReturn:
        """Raise the error that names the path, the line of `row`, and the problem."""
        shown = cut_short(self._written(row))
        line = self.chunk.first_line + int(self.chunk.layout.lines[row])
        raise error(f"{self.chunk.path}, line {line}: {problem}; the line is {shown!r}")

    def _written(self, row: int) -> str:
        """The line of a row, as it stands in the file."""
        of_chunk = int(self.chunk.layout.lines[row])
        text = self.chunk.text if self.chunk.written is None else self.chunk.written
        return text.split(b"\n", of_chunk + 1)[of_chunk].decode("utf-8", "replace").rstrip("\r\n ")

    def fail_at(self, number: int, problem: str, error: _Error = ReadError) -> NoReturn:
        """As `fail`, for the row that holds ``numbers[number]``."""
        self.fail(self._row_at(number), problem, error)

    def check_lengths(self, n_columns: int) -> None:
        """Refuse rows that have not `n_columns` numbers."""
        lengths = np.diff(self.pointer)
        wrong = np.flatnonzero(lengths != n_columns)
        if len(wrong):
            row = int(wrong[0])
            advice = about_empty_cells(self._written(row))
            self.fail(row, f"expected {n_columns} numbers in a line, found {lengths[row]}{advice}")

    def ids(self, which: Which, what: str) -> NDArray[np.int64]:
        """``numbers[which]`` as names: whole, not negative, below 2^53; 7.0 is 7."""
        values = self.numbers[which]
        good = (values >= 0) & (values < LARGEST_ID) & (values == np.floor(values))
        if not good.all():
            first = values[int(np.argmin(good))]
            error = LargeIdError if LARGEST_ID <= first < np.inf else ReadError
            problem = f"expected a whole {what} from 0 to 2^53 - 1, found"
            self._fail_first(which, good, problem, error)
        return values.astype(np.int64)

    def positions(
        self, which: Which, what: str, first: int = 0, last: int = LARGEST_ID - 1
    ) -> NDArray[np.int64]:
        """``numbers[which]`` as positions or amounts: in digits alone, `first` to `last`."""
        values = self.numbers[which]
        good = (values >= first) & (values <= last)
        content = np.frombuffer(self.chunk.one_a_line, np.uint8)
        other = np.flatnonzero((content - np.uint8(48) > 9) & (content != _LINE_END))
        if len(other):
            in_digits = np.ones(len(self.numbers), bool)
            in_digits[np.searchsorted(self.chunk.layout.starts, other, side="right") - 1] = False
            good &= in_digits[which]
        if not good.all():
            most = "2^53 - 1" if last == LARGEST_ID - 1 else str(last)
            self._fail_first(which, good, f"expected a whole {what} from {first} to {most}, found")
        return values.astype(np.int64)

    def values(self, which: Which, what: str, dtype: np.dtype) -> NDArray:
        """``numbers[which]`` as finite numbers of `dtype`."""
        cast, good = cast_values(self.numbers[which], dtype)
        if not good.all():
            self._fail_first(which, good, f"{expected_value(what, dtype)}, found")
        return cast

    def _fail_first(
        self,
        which: Which,
        good: NDArray[np.bool_],
        problem: str,
        error: type[ReadError] = ReadError,
    ) -> NoReturn:
        number = int(np.arange(len(self.numbers))[which][np.argmin(good)])
        self.fail_at(number, f"{problem} {self.written(number)}{self.column(number)}", error)


def read_rows(
    path: str,
    separators: str,
    *,
    n_columns: int | None = None,
    skip_lines: int = 0,
    blank_lines: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Rows]:
    """Read a text file of numbers chunk by chunk.

    Parameters
    ----------
    path : str
    separators : str
        ASCII characters that separate numbers, besides blank, tab and carriage return. Runs count
        as one.
    n_columns : int, optional
        How many numbers every row holds; others are refused.
    skip_lines : int
        How many lines at the head of the file are left out.
    blank_lines : bool
        Whether a line of nothing (no comment either) is a row without numbers.
    chunk_bytes : int
        About how much is held at a time.

    Yields
    ------
    Rows
        Comments (from # or % to the line's end) are left out, and blank lines where not asked for.

    Raises
    ------
    ReadError
        What is no number, or a row of another length: path, line, what was found.
    """
    for chunk in read_chunks(path, separators, skip_lines, blank_lines, chunk_bytes):
        yield rows_of(chunk, n_columns)


def read_chunks(
    path: str,
    separators: str,
    skip_lines: int = 0,
    blank_lines: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """As `read_rows`, before anything is read of the text."""
    apart = apart_by(separators)
    lines_before = 0
    with opened(path) as stream:
        for text in text_chunks(stream, chunk_bytes):
            if not lines_before:
                refuse_no_text(path, text)
            n_lines = text.count(b"\n")
            if skip_lines:
                text, skip_lines = _without_lines(text, skip_lines)
            yield Chunk(path, text, apart, lines_before, blank_lines)
            lines_before += n_lines


def apart_by(separators: str) -> bytes:
    """All that parts numbers, line ends apart."""
    return separators.encode() + _BLANKS


def rows_of(chunk: Chunk, n_columns: int | None = None) -> Rows:
    """The numbers of a chunk, row by row; ReadError as `read_rows`."""
    if n_columns is not None:
        numbers = chunk.as_table(n_columns)
        if numbers is not None:
            return Rows(chunk, numbers)
    numbers = _parsed(chunk.one_a_line, 1)
    if numbers is None or len(numbers) != len(chunk.layout.starts):
        numbers = chunk.number_by_number()
    rows = Rows(chunk, numbers)
    if n_columns is not None:
        rows.check_lengths(n_columns)
    return rows


def _line_ends_before(path: str, position: int) -> int:
    """Line ends before a byte of the file; for a message, as it may have to read much."""
    found = 0
    with opened(path) as stream:
        while position and (text := stream.read(min(position, CHUNK_BYTES))):
            found, position = found + text.count(b"\n"), position - len(text)
    return found


def _without_lines(text: bytes, n_lines: int) -> tuple[bytes, int]:
    """Blank the first lines; how many are still to be left out."""
    end, left = 0, n_lines
    while left and end < len(text):
        end = text.find(b"\n", end) + 1 or len(text)
        left -= 1
    return b"\n" * text.count(b"\n", 0, end) + text[end:], left


def _parsed(table: bytes, n_columns: int) -> NDArray[np.float64] | None:
    """The numbers of a table with commas, row by row; None where pandas finds anything else."""
    import pandas  # not for ranks that read no text

    if table.startswith(BYTE_ORDER_MARK):  # a second one, which pandas would pass over
        return None
    try:
        frame = pandas.read_csv(
            io.BytesIO(table),
            header=None,
            dtype=np.float64,
            na_filter=False,
            quoting=csv.QUOTE_NONE,
        )
    except pandas.errors.EmptyDataError:
        return np.empty(0)
    except ValueError:  # also what pandas raises by its own names
        return None
    return frame.to_numpy().ravel() if frame.shape[1] == n_columns else None
