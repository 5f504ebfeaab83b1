"""A file takes the place of another only when it is whole.

replacing("cut.npz")    .cut.npz.3f2a  ── written, closed ──▶  cut.npz      (os.replace)
                        └── a full disk, Ctrl-C: removed, and the old cut.npz still there
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO

from .checks import path_text


def check_writable(folder: str | PathLike[str]) -> None:
    """Make a file in it for a moment, or where it would be made: leaves nothing behind.

    Raises
    ------
    OSError
        Where nothing can be written; the message names the folder.
    """
    try:
        place = Path(folder).expanduser().absolute()
        there = next(each for each in (place, *place.parents) if each.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        words = f"nothing can be written to the folder {os.fspath(folder)}: {error.strerror}"
        raise OSError(error.errno, words) from error


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the context is left without an error.

    Parameters
    ----------
    path : str or path-like
        What is there stays as it was until then, and after an error. A link is followed.

    Notes
    -----
    The file is made in the folder of `path`, as only there it can take its place in one step.
    """
    place = Path(path_text(path)).expanduser().resolve()
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place} cannot be written: there is no folder {place.parent}")
    if place.is_dir():
        raise IsADirectoryError(f"{place} cannot be written: it is a folder, give a file")
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
