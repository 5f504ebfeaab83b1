"""Files whose lines mean something by their number: whole numbers, line by line.

    % a remark            line_of   2 3 4
    3 2                   pointer   0 2 4 4
    1 2             -->   numbers   3 2 1 2
    (blank)

A blank line may be a net without pins or a vertex without neighbours, so it is kept; who reads the
format decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from daskpart.containers.coordinates import index_dtype
from daskpart.errors import ReadError

from .scanning import read_rows


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows of whole numbers, each with its line in the file.

    Parameters
    ----------
    path : str
    numbers : int32 or int64 [n]
        Not negative.
    pointer : int64[n_rows + 1]
        Row r holds ``numbers[pointer[r]:pointer[r + 1]]``.
    line_of : int64[n_rows]
        Counted from 1.
    """

    path: str
    numbers: NDArray[np.signedinteger]
    pointer: NDArray[np.int64]
    line_of: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.line_of)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Numbers of each row."""
        return np.diff(self.pointer)

    def row(self, row: int) -> list[int]:
        """The numbers of one row."""
        return self.numbers[self.pointer[row] : self.pointer[row + 1]].tolist()

    def from_row(self, first: int) -> Lines:
        """The rows from `first` on."""
        start = self.pointer[first]
        return Lines(
            self.path, self.numbers[start:], self.pointer[first:] - start, self.line_of[first:]
        )

    def until_row(self, last: int) -> Lines:
        """The rows before `last`."""
        end = self.pointer[last]
        return Lines(self.path, self.numbers[:end], self.pointer[: last + 1], self.line_of[:last])

    def without_blanks(self) -> Lines:
        """The rows that hold a number."""
        kept = self.sizes > 0
        pointer = np.append(self.pointer[:-1][kept], len(self.numbers))
        return Lines(self.path, self.numbers, pointer, self.line_of[kept])

    def first_rows(self, n_rows: int) -> Lines | None:
        """The first `n_rows` rows where all after them are blank, else None."""
        if self.n_rows < n_rows or self.sizes[n_rows:].any():
            return None
        return self.until_row(n_rows)

    def row_at(self, position: int) -> int:
        """The row that holds ``numbers[position]``."""
        return int(np.searchsorted(self.pointer, position, side="right")) - 1

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise the `ReadError` that names the path, the line of `row`, and the problem."""
        raise ReadError(f"{self.path}, line {self.line_of[row]}: {problem}")

    def fail_at(self, position: int, problem: str) -> NoReturn:
        """As `fail`, for the row that holds ``numbers[position]``."""
        self.fail(self.row_at(position), problem)


def read_lines(path: str) -> Lines:
    """Read a file of whole numbers; blank lines are rows, remarks (# or %) are none.

    Raises
    ------
    ReadError
        A number that is not whole or is negative, with its line; or nothing but blank lines.
    """
    numbers, sizes, lines = [], [], []
    for rows in read_rows(path, "", blank_lines=True):
        found = rows.positions(np.s_[:], "number")
        numbers.append(found.astype(index_dtype(int(found.max(initial=0)) + 1)))
        sizes.append(np.diff(rows.pointer))
        lines.append(rows.lines)
    pointer = np.concatenate([[0], *sizes]).cumsum().astype(np.int64)
    if not pointer[-1]:
        raise ReadError(f"{path}: there are no numbers in it, only blank lines or remarks")
    return Lines(path, np.concatenate(numbers), pointer, np.concatenate(lines))


def with_header(path: str, expected: str, widths: tuple[int, ...]) -> tuple[list[int], Lines]:
    """The numbers of the first line that holds any, and the rows after it.

    Raises
    ------
    ReadError
        As `read_lines`; or the first line has another number of numbers than `widths` allow.
    """
    lines = read_lines(path)
    first = int(np.argmax(lines.sizes > 0))
    header = lines.row(first)
    if len(header) not in widths:
        lines.fail(first, f"expected {expected}, found {len(header)} numbers")
    return header, lines.from_row(first + 1)
