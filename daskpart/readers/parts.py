"""Numbers of vertices, in the order of the vertices: the part of each, or its weights.

parts   hMETIS, METIS, KaHyPar   one a line        weights   a line a vertex, a column a weight
                                 0                           12 1
                                 2                           7 0
        PaToH                    many a line
                                 0 0 1 2 1 …
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._floor.words import counted

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


def read_weights(path: str | os.PathLike[str]) -> NDArray[np.int64]:
    """Weights of the vertices, int64[n_vertices, n_weights]; blank lines are passed over.

    Raises
    ------
    ReadError
        A number that is no weight, or a line of more or fewer than the first, with its line.
    """
    lines = read_lines(location(path)).without_blanks()
    sizes = lines.sizes
    wrong = np.flatnonzero(sizes != sizes[0])
    if len(wrong):
        row = int(wrong[0])
        lines.fail(row, f"{counted(int(sizes[row]), 'weight')}, but {sizes[0]} in the first line")
    return lines.numbers.reshape(-1, sizes[0]).astype(np.int64)
