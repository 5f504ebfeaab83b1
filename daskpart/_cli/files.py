"""What the command writes: a file takes the place of another only when it is whole.

top.csv    .top.csv.….partial  ── whole ──▶  top.csv
           └── a full disk, Ctrl-C: the old top.csv is still there
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from daskpart.readers.streams import opened_for_writing


def place_for(path: Path) -> Path:
    """The path that a file is written to, its folder made if it is absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def text_file(path: Path, errors: str = "strict") -> Iterator[IO[str]]:
    """A text file to write, packed as its name says; `errors` as of `open`.

    Raises
    ------
    InputError
        As `opened_for_writing`.
    """
    with opened_for_writing(place_for(path)) as file:
        text = io.TextIOWrapper(file, "utf-8", errors, newline="")
        yield text
        text.detach()  # else it closes what is still to be flushed to the disk
