"""Lines of numbers to flat arrays, in one compiled pass over the bytes.

    196,242,3,881250949        tokens   196 242 3 881250949 186 302 ...
    186,302,3,891717742   -->  pointer  0 4 8 ...      row r: tokens[pointer[r]:pointer[r + 1]]
                               before   \\n , , , ...  the separator that each token follows

All text formats of `daskpart.read` are rows of numbers; they differ in separators and in what the
columns mean. The kernel takes the numbers that a double gives at once (a mantissa up to 2^53 times
or over a power of ten up to 10^22: W. Clinger, "How to read floating point numbers accurately",
PLDI 1990); any other token, "nan" and nonsense among them, is noted and left to `float`, so every
value is the nearest double and every nonsense is found with its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart.errors import ReadError

from .assembly import cast_values
from .streams import CHUNK_BYTES, opened, text_chunks

LARGEST_ID = 2**53
_SEPARATOR, _LINE_END, _COMMENT = 1, 2, 3
_POWERS_OF_TEN = 10.0 ** np.arange(23)


@kernel
def _power(text, position):
    """The power of ten written at `position`, where it ends, and whether there is one."""
    minus = position < len(text) and text[position] == 45
    if position < len(text) and (minus or text[position] == 43):
        position += 1
    power, digits = 0, 0
    while position < len(text) and 48 <= text[position] <= 57 and digits < 4:
        power = power * 10 + (text[position] - 48)
        digits += 1
        position += 1
    return (-power if minus else power), position, digits > 0


@kernel
def _number(text, start, kind):
    """Value of the token at `start`, where it ends, and whether the value is exact."""
    position = start
    negative = text[position] == 45
    if negative or text[position] == 43:
        position += 1
    mantissa, digits, exponent, point = 0, 0, 0, False
    while position < len(text):
        byte = text[position]
        if 48 <= byte <= 57:
            if digits < 18:
                mantissa = mantissa * 10 + (byte - 48)
            digits += 1
            if point:
                exponent -= 1
        elif byte == 46 and not point:
            point = True
        else:
            break
        position += 1
    plain = 0 < digits <= 18
    if plain and position < len(text) and (text[position] | 32) == 101:  # e or E
        power, position, plain = _power(text, position + 1)
        exponent += power
    while position < len(text) and kind[text[position]] == 0:
        plain = False
        position += 1
    exact = plain and mantissa <= 9007199254740992 and -22 <= exponent <= 22
    value = 0.0
    if exact:
        value = float(mantissa)
        value = (
            value * _POWERS_OF_TEN[exponent] if exponent > 0 else value / _POWERS_OF_TEN[-exponent]
        )
    return (-value if negative else value), position, exact


@kernel
def _scan(text, kind, blank_lines, tokens, before, pointer, starts, hard):
    """Fill the arrays from `text`; the numbers of tokens, rows and hard tokens."""
    n_tokens, n_rows, n_hard = 0, 0, 0
    position, in_row, separator, line_start, remark = 0, False, 10, 0, False
    pointer[0] = 0
    while position < len(text):
        byte = text[position]
        what = kind[byte]
        if what == 0:
            if not in_row:
                starts[n_rows], in_row = position, True
            value, end, exact = _number(text, position, kind)
            if not exact:
                hard[n_hard, 0], hard[n_hard, 1] = n_tokens, position
                hard[n_hard, 2] = end
                n_hard += 1
            tokens[n_tokens], before[n_tokens] = value, separator
            n_tokens += 1
            position = end
        elif what == 3:
            remark = not in_row
            while position < len(text) and text[position] != 10:
                position += 1
        else:
            separator = byte
            position += 1
            if what != 2:
                continue
            if not in_row and blank_lines and not remark:
                starts[n_rows], in_row = line_start, True
            if in_row:
                n_rows, in_row = n_rows + 1, False
                pointer[n_rows] = n_tokens
            line_start, remark = position, False
    if in_row:
        n_rows += 1
        pointer[n_rows] = n_tokens
    return n_tokens, n_rows, n_hard


@dataclass(frozen=True)
class Rows:
    """Rows of numbers from one chunk of a file.

    Attributes
    ----------
    tokens : ndarray of float64, shape (n_tokens,)
    before : ndarray of uint8, shape (n_tokens,)
        The byte of the separator that the token follows.
    pointer : ndarray of int64, shape (n_rows + 1,)
        Row r holds ``tokens[pointer[r]:pointer[r + 1]]``.
    starts : ndarray of int64, shape (n_rows,)
        Where the row begins in `text`; gives the line number when a row is found bad.
    """

    path: Path
    text: bytes
    lines_before: int
    tokens: np.ndarray
    before: np.ndarray
    pointer: np.ndarray
    starts: np.ndarray

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.starts)

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise the `ReadError` that names the path, the line of `row`, and the problem."""
        self.fail_at(int(self.starts[row]), problem)

    def fail_at(self, position: int, problem: str) -> NoReturn:
        """As `fail`, for the line that holds byte `position` of the chunk."""
        line = self.lines_before + self.text.count(b"\n", 0, position) + 1
        begin = self.text.rfind(b"\n", 0, position) + 1
        end = self.text.find(b"\n", position)
        shown = self.text[begin : end if end >= 0 else None].decode("utf-8", "replace").rstrip()
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise ReadError(f"{self.path}, line {line}: {problem}; the line is {shown!r}")

    def columns(self, n_columns: int) -> np.ndarray:
        """The rows as a table, float64[n_rows, n_columns]; each must have `n_columns` numbers."""
        widths = np.diff(self.pointer)
        wrong = np.flatnonzero(widths != n_columns)
        if len(wrong):
            found = widths[wrong[0]]
            self.fail(
                int(wrong[0]), f"expected {n_columns} columns as in the first line, found {found}"
            )
        return self.tokens.reshape(-1, n_columns)

    def ids(self, values: np.ndarray, what: str, rows: np.ndarray | None = None) -> np.ndarray:
        """`values` as int64 ids: whole, not negative, below 2^53.

        `rows` gives the row of each value where that is not its position.
        """
        good = (values >= 0) & (values < LARGEST_ID) & (values == np.floor(values))
        if not good.all():
            first = int(np.argmin(good))
            self.fail(
                first if rows is None else int(rows[first]),
                f"expected a whole {what} from 0 to 2^53 - 1, found {values[first]:.16g}",
            )
        return values.astype(np.int64)

    def numbers(
        self, values: np.ndarray, what: str, dtype: np.dtype, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """`values` as finite numbers of `dtype`; `rows` as in `ids`."""
        cast, good = cast_values(values, dtype)
        if not good.all():
            first = int(np.argmin(good))
            self.fail(
                first if rows is None else int(rows[first]),
                f"expected a finite {what} that {dtype} can hold, found {float(values[first])}",
            )
        return cast


def read_rows(
    path: Path,
    separators: str,
    *,
    skip_header: bool = False,
    blank_lines: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Rows]:
    """Read a text file of numbers chunk by chunk.

    Parameters
    ----------
    path : Path
    separators : str
        ASCII characters that separate numbers, besides blank, tab and carriage return. Runs count
        as one.
    skip_header : bool
        Leave out the first line with content.
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
        A token that is no number: path, line, what was found.
    """
    kind = np.zeros(256, np.uint8)
    kind[[ord(character) for character in separators + " \t\r\v\f"]] = _SEPARATOR
    kind[ord("\n")] = _LINE_END
    kind[[ord("#"), ord("%")]] = _COMMENT
    with opened(path) as stream:
        lines_before = 0
        for text in text_chunks(stream, chunk_bytes):
            n_lines = text.count(b"\n")
            if skip_header:
                text, skip_header = _without_header(text)
            yield _rows_of(path, text, lines_before, kind, blank_lines)
            lines_before += n_lines


def _without_header(text: bytes) -> tuple[bytes, bool]:
    """Blank the first line with content; whether the header is still to come."""
    position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        if line.strip() and line.lstrip()[:1] not in (b"#", b"%"):
            return b"\n" * text.count(b"\n", 0, position) + text[position:], False
    return text, True


def _rows_of(
    path: Path, text: bytes, lines_before: int, kind: np.ndarray, blank_lines: bool
) -> Rows:
    most = len(text) // 2 + 1  # a token takes a byte, and one to part it from the next
    lines = len(text) + 1 if blank_lines else most
    tokens, before = np.empty(most), np.empty(most, np.uint8)
    pointer, starts = np.empty(lines + 1, np.int64), np.empty(lines, np.int64)
    hard = np.empty((most, 3), np.int64)
    content = np.frombuffer(text, np.uint8)
    n_tokens, n_rows, n_hard = _scan(
        content, kind, blank_lines, tokens, before, pointer, starts, hard
    )
    rows = Rows(
        path,
        text,
        lines_before,
        tokens[:n_tokens],
        before[:n_tokens],
        pointer[: n_rows + 1],
        starts[:n_rows],
    )
    for token, start, end in hard[:n_hard].tolist():
        tokens[token] = _parse(rows, start, end)
    return rows


def _parse(rows: Rows, start: int, end: int) -> float:
    written = rows.text[start:end]
    try:
        if b"_" in written:  # float() takes 1_000 for a number
            raise ValueError
        return float(written)
    except ValueError:
        found = written.decode("utf-8", "replace")
        rows.fail_at(start, f"expected a number, found {found[:40]!r}")
