"""A file takes the place of another only when it is whole.

replacing("cut.npz")    .cut.npz.….partial  ── written, closed ──▶  cut.npz      (os.replace)
                        ├── a full disk, Ctrl-C: removed, and the old cut.npz still there
                        └── killed: left behind, and removed by the next write to cut.npz
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    What is there stays as it was until then, and after an error; a link is followed. The file is
    made in the folder of `path`, as only there it can take its place in one step.

    Raises
    ------
    OSError
        When the disk refuses; it names `path`, and says what is there now.
    """
    place = Path(path_text(path)).expanduser().resolve()
    if not place.parent.is_dir():
        words = f"{place} cannot be written: there is no folder {place.parent}"
        raise FileNotFoundError(errno.ENOENT, words)
    if place.is_dir():
        words = f"{place} cannot be written: it is a folder, give a file"
        raise IsADirectoryError(errno.EISDIR, words)
    remove_left_behind(place)
    beside = partial_of(place)
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.filename not in (None, str(beside)):
            raise
        if error.errno is None:
            raise
        words = f"{error.strerror}; {kept_words(place)}"
        raise OSError(error.errno, words, path_text(path)) from error


def kept_words(target: Path) -> str:
    """What a write that failed has left at `target`."""
    return "what was there before is untouched" if target.exists() else "nothing was left there"


def partial_of(target: Path) -> Path:
    """A path beside `target` for what is to become it, of this process and this write alone."""
    own = f"{_processes()}-{os.getpid()}-{secrets.token_hex(4)}"
    return target.with_name(f".{target.name}.{own}.partial")


def remove_left_behind(target: Path) -> None:
    """Remove what was to become `target` and whose process has ended: it was killed.

    What another machine or another container began stays: whether its process still writes cannot
    be told from here.
    """
    here = _processes()
    if not here:
        return
    begun = re.compile(rf"{re.escape(f'.{target.name}.{here}')}-(\d{{1,9}})-[0-9a-f]+\.partial")
    with suppress(OSError):  # another write removes it, too; or this one may not list the folder
        for entry in target.parent.iterdir():
            found = begun.fullmatch(entry.name)
            if found and not _is_alive(int(found[1])):
                remove(entry)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _processes() -> str:
    """A word for the processes that are seen from here by their numbers; "": it is not known.

    A number means another process on another machine, after a restart, and in a container that
    counts its own. Asked anew each time: a process may be put into a container after a fork.
    """
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text()
        counted = os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux
        return ""
    return hashlib.sha256(f"{started}{counted}".encode()).hexdigest()[:12]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True
