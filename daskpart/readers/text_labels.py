"""Labels of a table that are text: cut out of its lines, and numbered once all of them are known.

    39,yes,40          39,40      yes          survey     all labels of the file: no, yes
    50,no,13     ─►    50,13      no      ─►   reading    1, 0
    38,yes,9           38,9       yes

What is left are numbers, which the scanner reads. The labels are in sorted order, as scikit-learn
has classes, so that a label travels as its number and comes back as what it was. Where all are
true or false, in the spellings that pandas knows, they are bools.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import ReadError

from .detection import is_number
from .messages import cut_short
from .scanning import Chunk
from .streams import fail_at_encoding

TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_REMARKS = ("#", "%")
_REMARK = re.compile("[#%].*")


def first_label(lines: Sequence[bytes], separator: str, position: int) -> str | None:
    """The label of the first line that has one; None where there is none, or lines are damaged."""
    text = [line.decode("utf-8", "replace").strip() for line in lines]
    with suppress(csv.Error):  # who reads the file says in which line
        for cells in csv.reader([line for line in text if line], delimiter=separator):
            if position < len(cells) and not cells[0].startswith(_REMARKS):
                return cells[position].strip()
    return None


def is_text(label: str | None) -> bool:
    """Whether a label is something, and no number."""
    return bool(label) and not is_number(str(label))


def cut_labels(
    chunk: Chunk, separator: str, position: int, n_columns: int
) -> tuple[Chunk, NDArray[np.str_]]:
    """Lines without their labels, and the labels.

    Parameters
    ----------
    chunk : Chunk
    separator : str
        Of cells; cells may stand in quotes.
    position, n_columns : int
        Which of how many cells of a line is the label.

    Returns
    -------
    Chunk
        A line of numbers for each line.
    ndarray of str, shape (n_rows,)

    Raises
    ------
    ReadError
        A line with more or fewer cells, or without a label or numbers: path, line, what was found.
    """
    kept: list[str] = []
    labels: list[str] = []
    try:
        text = chunk.text.decode()
    except UnicodeDecodeError:
        fail_at_encoding(chunk.path)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        for cells in rows:
            if rows.line_num != len(kept) + 1:
                raise csv.Error("a quote is not closed")
            # a row that is commented out has all its cells; a first cell may be the label "#1"
            may_be_row = position == 0 and len(cells) == n_columns
            if not any(cells) or (cells[0].startswith(_REMARKS) and not may_be_row):
                kept.append("")
                continue
            if len(cells) != n_columns:
                raise csv.Error(f"expected {n_columns} cells in a line, found {len(cells)}")
            label = cells.pop(position).strip()
            if not label:
                raise csv.Error("there is no label; leave out lines without one")
            numbers = separator.join(cells)
            if not _REMARK.sub("", numbers).strip(f'{separator}" \t\v\f'):
                raise csv.Error("there is a label, but no number")  # which the scanner would skip
            labels.append(label)
            kept.append(numbers)
    except csv.Error as error:
        at = len(kept)
        line = cut_short(lines[at])
        raise ReadError(
            f"{chunk.path}, line {chunk.first_line + at}: {error}; the line is {line!r}"
        ) from None
    return replace(chunk, text="\n".join(kept).encode(), written=chunk.text), np.array(labels, str)


def numbered(labels: NDArray[np.str_], known: Sequence[str], path: str) -> NDArray[np.float64]:
    """The number of each label among those that are known, which are sorted (ReadError)."""
    places = np.searchsorted(known, labels)
    places[places == len(known)] = 0
    strange = labels[np.asarray(known)[places] != labels]
    if len(strange):
        raise ReadError(
            f"{path}: the label {str(strange[0])!r} was not in it when it was surveyed; leave the "
            "file alone while it is read"
        )
    return places.astype(np.float64)


def values_of(known: Sequence[str]) -> NDArray[np.str_] | NDArray[np.bool_]:
    """What the labels are: bools where all are true or false, else text."""
    if all(label in TRUTHS for label in known):
        return np.array([TRUTHS[label] for label in known])
    return np.array(known, str)
