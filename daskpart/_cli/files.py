"""What the command writes: a file takes the place of another only when it is whole.

top.csv    .top.csv.….partial  ── whole ──▶  top.csv
           └── a full disk, Ctrl-C: the old top.csv is still there
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from daskpart._floor.archive import checked_suffix
from daskpart._floor.atomic import check_writable
from daskpart.errors import InputError
from daskpart.partitions import Partition
from daskpart.readers.streams import location, opened_for_writing

from .terminal import say, say_aside

# what the commands call their results: one beside those of a run is of another run, most likely;
# a command writes no other names, which their tests look at
_RESULT = re.compile(
    r"model|factors\.zarr|metrics\.json|report\.html|(parsa|partition)\.npz|nonzero-parts\.txt\.gz"
    r"|(assignment|coefficients|comparison|components|embedding|history|labels|owners)\.csv"
    r"|(coefficients|comparison|component_\d+|confusion|density|embedding|halo|partition|parts|sent"
    r"|spy|timeline|traffic|training)\.png"
)


def place_for(path: Path) -> Path:
    """The path that a file is written to, its folder made if it is absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def check_out(folder: Path, *sources: str | Path | None, **written: Path | None) -> None:
    """Refuse, before anything is computed, a folder for results that cannot be written.

    Parameters
    ----------
    folder : Path
    *sources : str, Path or None
        What is read.
    **written : Path or None
        What is written besides, by its option; it need not be there yet.

    Raises
    ------
    InputError
        If one of these lies in it and is called as a result.
    OSError
        Where nothing can be written.
    """
    for source in filter(None, sources):
        path = Path(_local(str(source)))
        if path.is_file() and _is_result(path, folder):
            raise InputError(
                f"{source} is read, and a result of that name would take its place: give another "
                "--out"
            )
    for name, target in written.items():
        if target is not None and _is_result(target, folder):
            raise InputError(
                f"--{name.replace('_', '-')} {target} is where a result of that name is written: "
                "give another name, or another --out"
            )
    check_writable(folder)


def is_called_as_result(name: str) -> bool:
    """Whether a command calls one of its results so."""
    return _RESULT.fullmatch(name) is not None


def _is_result(path: Path, folder: Path) -> bool:
    """Whether a result in that folder would have this path."""
    return is_called_as_result(path.name) and path.parent.resolve() == folder.resolve()


def check_target(path: Path, source: str) -> None:
    """Refuse, before anything is computed, to write to what is read, or where nothing can be.

    Raises
    ------
    InputError
        If `path` is the source.
    OSError
        Where nothing can be written.
    """
    read = _local(source)
    if path.exists() and os.path.exists(read) and path.samefile(read):
        raise InputError(f"{path} is read, and would be overwritten: name another file")
    check_writable(path.parent)


def check_plan(path: Path) -> None:
    """Refuse, before anything is cut, a name that no plan has, or one that cannot be written.

    Raises
    ------
    InputError
        If it ends in another suffix than an archive.
    OSError
        Where nothing can be written.
    """
    checked_suffix(path)
    if not path.exists():
        check_writable(path.parent)


def _local(source: str) -> str:
    """A path, also of an address of this machine."""
    return location(source).removeprefix("file://")


def write_asked(partition: Partition, path: Path, of: str) -> tuple[Path, str]:
    """Write parts where --output says, as its name says; the file and what it is, in words."""
    if path.suffix == ".npz":
        partition.save(place_for(path))
        return path, "the partition once more: daskpart.Partition.load"
    partition.write(place_for(path))
    return path, f"part of each {of}, one a line"


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


def write_table(path: Path, heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> Path:
    """Write lines under a heading as CSV; gives where it is."""
    with text_file(path) as file:
        csv.writer(file).writerows(chain([heads], lines))
    return path


def say_files(files: list[tuple[Path, str]], folder: Path) -> None:
    """Say what was written, a line a file, with what it is; and what else is in the folder of it.

    Results of an earlier run stay there: who wrote them, and whether they are needed, is not known.
    """
    width = max(len(str(path)) for path, _ in files)
    for path, words in files:
        say(f"  {path!s:{width}}  {words}")
    written = {path.name for path, _ in files}
    others = [path.name for path in folder.iterdir() if is_called_as_result(path.name)]
    left = sorted({*others} - written)
    if left:
        say_aside(f"{folder} also has {', '.join(left)}, which this run did not write")
