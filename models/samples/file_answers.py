"""What a fitted model answers for a surveyed file: piece by piece, in the order of the file.

    blocks of the file   │ 0 1 2 │ 3 4 5 │ 6 …        a task reads and answers, keeps no rows
                             ▼       ▼
    answers              ├───────┼───────┼─ …         and the labels beside them, read with them

A task has 32 MB of the text in memory. A compressed file is one task, as its bytes come in order:
its text is unpacked to the disk of who reads it, and answered from there as many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from daskpart.models.base.resources import rank_folder
from daskpart.readers import ExamplesFile

from .examples_on_disk import Disk, UnpackedText

_PIECE_BYTES = 32 << 20


def answers_of_file(
    file: ExamplesFile, of_rows: Callable[[Any], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What a model answers for the rows of a file, ``of_rows(csr rows)``, and their labels.

    Tasks run where the current client has them run, else on threads of this process.
    """
    ranges = file.in_rounds(range(len(file.blocks)), _PIECE_BYTES)
    pointer = file.row_pointer
    pieces = [each for each in ranges if pointer[each.stop] > pointer[each.start]]
    of_task = [pieces] if file.is_compressed else [[piece] for piece in pieces]
    answer = dask.delayed(answer_pieces, pure=False)
    given = dask.delayed((file, of_rows), traverse=False)
    found = dask.compute(*(answer(given, own) for own in of_task))
    answers, labels = zip(*found, strict=True)
    return np.concatenate(answers), np.concatenate(labels)


def answer_pieces(
    given: tuple[ExamplesFile, Callable[[Any], NDArray[Any]]], pieces: Sequence[range]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Answers and labels for some pieces, one after another; what a task does."""
    file, of_rows = given
    text = None
    if len(pieces) > 1:  # of a compressed file: once unpacked, not again for each
        start, stop = file.blocks[0].start, file.blocks[-1].stop
        text = UnpackedText(Disk(rank_folder(), stop - start), file.path, start, stop)
    answers, labels = [], []
    for piece in pieces:
        rows = file.examples_of(piece, text)
        answers.append(of_rows(rows.data))
        labels.append(rows.target)
    return np.concatenate(answers), np.concatenate(labels)


def labels_of_file(file: ExamplesFile) -> NDArray[Any]:
    """The labels of a file, in its order; no process holds the rows."""
    return answers_of_file(file, _nothing)[1]


def _nothing(rows: Any) -> NDArray[np.float64]:
    """The answer where labels alone are asked for."""
    return np.empty(0)
