"""Named arrays and a JSON header on disk: the new version is there whole, or the old one still is.

    write    .name.….partial  ──fsync──►  rename to name               (file: one atomic step)
    folder   .name.….partial/ ──fsync──►  name → .name.previous, .name.….partial → name,
                                          previous removed

Each write has a partial copy of its own, so that two at once leave one of the two, whole; that of a
process that was killed is removed by the next write. A link is followed: what it points to changes.
A full disk, an error or Ctrl-C in the middle removes the partial copy and leaves what was there
before. A process killed between the two renames of a folder leaves `.name.previous`, which readers
fall back to.
`.npz` is one file; `.zarr` is a folder with one array each and needs zarr. Nothing is ever pickled,
and a checksum of every array stands in the header, so that damage is found when reading.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from daskpart.errors import InputError, MissingPackageError, ReadError

from .atomic import kept_words, partial_of, remove, remove_left_behind, replacing
from .checks import path_text
from .checksum import checksum

# of other reasons, such as a folder that may not be written to, what is free says nothing
_NO_SPACE = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

SUFFIXES = (".npz", ".zarr")
_HEADER = "header"
_FORMAT = 1


def plain(value: Any) -> Any:
    """`value` as what JSON holds: dicts, lists, str, int, float, bool, None (float bits are kept).

    Raises
    ------
    TypeError
        For an object that has no such form.
    """
    return json.loads(json.dumps(value, default=_plain_scalar))


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} {value!r} has no JSON form")


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray], header: dict) -> None:
    """Write `arrays` and `header` to `path` (.npz or .zarr), whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.npz`` (a file) or ``.zarr`` (a folder; needs zarr). Replaced if it is there.
    arrays : dict of ndarray
        Numbers only (no text, no objects).
    header : dict
        Anything that `plain` takes.

    Raises
    ------
    InputError
        For another suffix, or arrays of objects, or with masks.
    MissingPackageError
        For ``.zarr`` where zarr is not installed.
    OSError
        When the disk refuses; the message says how much space is needed, and what was at `path`
        before is untouched.
    """
    target = Path(path_text(path)).expanduser()
    suffix = checked_suffix(target)
    full_header = {"format": _FORMAT, "checksums": _checksums(arrays), "content": header}
    # once, as a long history is most of a checkpoint
    written = json.dumps(full_header, default=_plain_scalar)
    text = np.frombuffer(written.encode(), dtype=np.uint8)
    everything = {_HEADER: text, **arrays}
    objects = [name for name, array in everything.items() if array.dtype.hasobject]
    if objects:
        raise InputError(f"{', '.join(objects)} hold objects, which would have to be pickled.")
    masked = [name for name, array in everything.items() if isinstance(array, np.ma.MaskedArray)]
    if masked:
        raise InputError(f"{', '.join(masked)} have masks, which would be lost: fill them first.")
    n_bytes = sum(array.nbytes for array in everything.values())
    if suffix == ".npz":
        target = _real(target)
        with _or_untouched(target, n_bytes):
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                np.savez(file, **everything)  # type: ignore[arg-type]
            _flush(target.parent)
    else:
        zarr = _zarr()
        replace_folder(target, lambda partial: _write_zarr(zarr, partial, everything), n_bytes)


def read_arrays(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Read the arrays and the header that `write_arrays` wrote.

    Raises
    ------
    ReadError
        When `path` is absent, is damaged, or was not written by `write_arrays`.
    PermissionError, MemoryError
        When it may not be read, or does not fit: nothing is known of what is in it.
    """
    target = Path(path_text(path)).expanduser()
    suffix = checked_suffix(target)
    source = existing(target)
    zarr = _zarr() if suffix == ".zarr" else None
    try:
        arrays = _read_npz(source) if zarr is None else _read_zarr(zarr, source)
        header = json.loads(arrays.pop(_HEADER).tobytes())
        checksums, content = header["checksums"], header["content"]
    except (KeyboardInterrupt, MemoryError, PermissionError):  # the file may be whole
        raise
    except Exception as error:  # zipfile, zlib, json and zarr each raise kinds of their own
        raise ReadError(
            f"{source} cannot be read ({type(error).__name__}: {error}). It is damaged or was not "
            "written by daskpart; use an earlier checkpoint."
        ) from error
    _check(source, arrays, checksums)
    return arrays, content


def checked_suffix(path: Path) -> str:
    """The suffix of `path`, one of SUFFIXES; InputError for any other."""
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"{path} must end in one of {', '.join(SUFFIXES)}; got the suffix {path.suffix!r}."
        )
    return path.suffix


def existing(target: Path) -> Path:
    """`target`, or the copy kept while it was being replaced; ReadError when neither is there."""
    for candidate in (target, _beside(_real(target), "previous")):
        if candidate.exists():
            return candidate
    beside = sorted(found.name for found in target.parent.glob("*") if found.suffix in SUFFIXES)
    there = f"; the folder holds {', '.join(beside[:5])}" if beside else ""
    raise ReadError(f"there is nothing at {target} (looked from {Path.cwd()}){there}.")


def replace_folder(target: Path, write: Callable[[Path], None], n_bytes: int) -> None:
    """Let `write` fill a partial folder, then put it in the place of `target`."""
    target = _real(target)
    partial = partial_of(target)
    with _or_untouched(target, n_bytes, partial):
        partial.mkdir(parents=True)
        remove_left_behind(target)
        write(partial)
        for written in (partial, *partial.rglob("*")):
            _flush(written)
        while partial.exists():
            _change_places(partial, target)
        _flush(target.parent)
        with _others_between():
            _remove_previous(target)


def _change_places(partial: Path, target: Path) -> None:
    """Rename a folder; it is still there where another write to `target` came between."""
    with _others_between():
        # a folder cannot be renamed onto another: the old one steps aside for one moment
        if target.exists():
            _remove_previous(target)
            os.replace(target, _beside(target, "previous"))
        os.replace(partial, target)


def _remove_previous(target: Path) -> None:
    """Under a name that is this write's alone: another one may put a folder there at any moment."""
    previous, old = _beside(target, "previous"), partial_of(target)
    if previous.exists():
        os.replace(previous, old)
        remove(old)


@contextmanager
def _others_between() -> Iterator[None]:
    """Stop where a folder has come or gone meanwhile: another write did so."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


@contextmanager
def _or_untouched(target: Path, n_bytes: int, partial: Path | None = None) -> Iterator[None]:
    """Say what a disk needs that refuses; of a folder also remove the partial copy."""
    try:
        yield
    except BaseException as error:
        if partial is not None:
            remove(partial)
            previous = _beside(target, "previous")
            if previous.exists() and not target.exists():  # stopped between the two renames
                os.replace(previous, target)
        if isinstance(error, OSError):
            raise OSError(error.errno, _refusal(target, n_bytes, error)) from error
        raise


def _refusal(target: Path, n_bytes: int, error: OSError) -> str:
    while isinstance(error.__cause__, OSError):  # of a file in the folder: what the disk said
        error = error.__cause__
    words = f"{target} was not written: {error.strerror or error}"
    if error.errno not in _NO_SPACE:
        return f"{words}; {kept_words(target)}."
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    return (
        f"{words}. It needs {n_bytes / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free in {folder}; "
        f"{kept_words(target)}."
    )


def _real(target: Path) -> Path:
    """Where a link leads, so that it stays one and the copy lies on the disk that it leads to."""
    return Path(os.path.realpath(target))


def _beside(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}")


def _flush(path: Path) -> None:
    """Wait until the disk holds `path`; a power cut after the rename must not find it empty."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@contextmanager
def opened_npz(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The arrays of an `.npz` file, read as they are asked for.

    Raises
    ------
    ReadError
        When it is absent, damaged or lacks an array.
    """
    place = Path(path_text(path)).expanduser()
    try:  # NumPy leaves a file open that it cannot read
        with open(place, "rb") as stream:
            if not zipfile.is_zipfile(stream):  # NumPy would advise to unpickle it
                raise zipfile.BadZipFile("no archive of arrays")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                yield file
    except FileNotFoundError:
        raise ReadError(
            f"{os.fspath(path)} cannot be read: there is no such file (looked from {Path.cwd()})"
        ) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise ReadError(
            f"{os.fspath(path)} cannot be read ({reason}). It is damaged or is something else."
        ) from error


def _write_zarr(zarr: Any, path: Path, arrays: dict[str, np.ndarray]) -> None:
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    # zarr leaves out chunks of zeros, and takes -0 for one: it would come back with another sign
    config = {"write_empty_chunks": True}
    for name, array in arrays.items():
        held = np.asarray(array, order="C")
        group.create_array(name, data=held, chunks=_chunks(array), config=config)


def _chunks(array: np.ndarray) -> tuple[int, ...]:
    """Whole rows, about 16 MB a chunk: few files, and a write never copies the whole array."""
    if not array.ndim:
        return ()
    row_bytes = max(1, array.nbytes // max(1, array.shape[0]))
    rows = min(max(1, array.shape[0]), max(1, (16 << 20) // row_bytes))
    return (rows, *(max(1, size) for size in array.shape[1:]))


def _read_zarr(zarr: Any, path: Path) -> dict[str, np.ndarray]:
    group = zarr.open_group(str(path), mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise MissingPackageError(
            "a .zarr checkpoint needs zarr: pip install 'daskpart[io]', "
            "or use a path ending in .npz"
        ) from error
    return zarr


def _checksums(arrays: dict[str, np.ndarray]) -> dict[str, int]:
    return {name: checksum(array) for name, array in arrays.items()}


def _check(source: Path, arrays: dict[str, np.ndarray], checksums: dict[str, int]) -> None:
    found = _checksums(arrays)
    wrong = sorted(name for name in checksums if found.get(name) != checksums[name])
    if wrong:
        raise ReadError(
            f"{source} is damaged: {', '.join(wrong)} differ(s) from what was written. "
            "Use an earlier checkpoint."
        )
