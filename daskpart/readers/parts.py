"""Partition files: the part of each vertex, in the order of the vertices.

hMETIS, METIS, KaHyPar   one a line            PaToH   many a line
                         0                             0 0 1 2 1 …
                         2
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number

from .assembly import check_extent
from .lines import read_lines
from .streams import location

_MOST_PARTS = int(np.iinfo(np.int32).max)


def read_parts(
    path: str | os.PathLike[str], n_parts: int | None = None
) -> tuple[NDArray[np.int32], int]:
    """The part of each vertex, below `n_parts` if that is given, and the largest part.

    Raises
    ------
    ReadError
        A number that is no part, with its line.
    """
    limit = _MOST_PARTS if n_parts is None else whole_number(n_parts, "n_parts", least=1)
    lines = read_lines(location(path))
    wrong = np.flatnonzero(lines.numbers >= limit)
    if len(wrong):
        lines.fail_at(
            int(wrong[0]),
            f"part {lines.numbers[wrong[0]]} is out of range: parts are 0 to {limit - 1}",
        )
    largest = int(lines.numbers.max())
    if n_parts is None:
        check_extent(lines.path, largest, len(lines.numbers), "parts")
    return lines.numbers.astype(np.int32), largest
