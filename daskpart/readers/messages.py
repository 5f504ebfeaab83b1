"""Parts of error messages: values as they are shown, and advice."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# further arguments of a ReadError
ABOUT_TEXT_IDS = {"option": "text_ids", "advice": "; if ids are text, say text_ids=True"}
_EMPTY_CELL = re.compile(r"(?:^|[,;\t])\s*(?:[,;\t]|$)")
_OTHER_WIDTH = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")
ABSENT = ("", "na", "n/a", "nan", "null", "none")  # how tables write a number that is missing
_ANSWERS = ("yes", "no", "y", "n")
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")


def shown(value: Any) -> str:
    """A value for a message as Python writes it: numpy's numbers without the name of their type.

    Examples
    --------
    >>> shown(np.float64("inf")), shown("x")
    ('inf', "'x'")
    """
    return repr(value.item() if isinstance(value, np.generic) else value)


def cut_short(text: str, most: int = 60) -> str:
    """A line or a word of a file for a message, with not more than so many letters.

    Examples
    --------
    >>> cut_short("1 2 3"), cut_short("1 2 3 4 5 6", most=8)
    ('1 2 3', '1 2 3...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def has_decimal_comma(found: str) -> bool:
    """Whether it is a number with a decimal comma, perhaps with points between thousands."""
    return _DECIMAL_COMMA.fullmatch(found) is not None


def about_no_number(found: str) -> str:
    """What to do about a decimal comma, or a yes or no, to end a message with; else nothing.

    Examples
    --------
    >>> about_no_number("3,5"), about_no_number("x")
    ('; decimal commas are not read: write 3.5', '')
    >>> about_no_number("1.250,00")
    '; decimal commas are not read: write 1250.00'
    >>> about_no_number("Yes")
    '; write yes and no as 1 and 0'
    """
    if found.lower() in _ANSWERS:
        return "; write yes and no as 1 and 0"
    if not has_decimal_comma(found):
        return ""
    plain = found.replace(".", "").replace(",", ".")
    return f"; decimal commas are not read: write {plain}"


def of_pandas(error: Exception) -> str:
    """What pandas says of a table, to follow the name of its file.

    Examples
    --------
    >>> of_pandas(ValueError("Error tokenizing data. C error: Expected 3 fields in line 8, saw 4"))
    ', line 8: expected 3 cells, found 4; put a cell that holds a separator in quotes'
    """
    words = str(error).strip()
    found = _OTHER_WIDTH.search(words)
    if found is None:
        return f": {words}"
    wanted, line, n_cells = found.groups()
    return (
        f", line {line}: expected {wanted} cells, found {n_cells}; put a cell that holds a "
        "separator in quotes"
    )


def about_empty_cells(line: str) -> str:
    """What to do about a line of a table with an empty cell, to end a message with; else nothing.

    Examples
    --------
    >>> about_empty_cells("1,,2"), about_empty_cells("1,2")
    ('; a cell is empty: fill in missing values, or leave out their lines', '')
    """
    if not _EMPTY_CELL.search(line):
        return ""
    return "; a cell is empty: fill in missing values, or leave out their lines"
