"""Files as streams of whole lines, wherever they lie and whatever they are compressed with.

    ratings.csv.xz --fsspec, lzma--> bytes --cut at the last line end--> chunk | chunk | chunk

A chunk is a few MiB, so a file of any size is read in bounded memory. fsspec opens paths and
addresses (``s3://``, ``https://`` ...; it names the package that an address needs). Everything that
the operating system or a decompressor may complain about becomes a `ReadError` that names the path.
"""

from __future__ import annotations

import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import fsspec
from fsspec.compression import compr
from fsspec.core import OpenFile, url_to_fs

from daskpart._floor.atomic import replacing
from daskpart._floor.checks import path_text
from daskpart.errors import DaskpartError, InputError, ReadError

_DAMAGED = (OSError, lzma.LZMAError, zlib.error)  # what an address brings depends on its package
_COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".bz2": "bz2"}
CHUNK_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_COMMENT_BEHIND = re.compile(r"^((?:[-+]?[\d.]+(?:[eE][-+]?\d+)? +){2,})[#%].*")  # 1 2 0.5 % x
_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=.?\s*", re.IGNORECASE)
# how compressed files begin; `opened` has unpacked those whose names say it
_PACKED = {
    b"\x1f\x8b": "packed by gzip, and its name does not say so: end it in .gz",
    b"BZh": "packed by bzip2, and its name does not say so: end it in .bz2",
    b"\xfd7zXZ\x00": "packed by xz, and its name does not say so: end it in .xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd, which is not read here: unpack it, as by zstd -d",
    b"PK\x03\x04": "a zip: unpack it, and give the file inside",
}


def location(path: str | os.PathLike[str]) -> str:
    """A path with ``~`` expanded, or an address as it is."""
    place = path_text(path)
    return place if is_address(place) else os.path.expanduser(place)


def plain_name(path: str | os.PathLike[str]) -> str:
    """The lower-case file name without the suffix of its compression."""
    name = os.path.basename(path).lower()
    for suffix in _COMPRESSIONS:
        name = name.removesuffix(suffix)
    return name


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Whether `opened` decompresses it."""
    return _compression_of(path) is not None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open `path` for reading, decompressed by its suffix.

    Raises
    ------
    ReadError
        The file is missing, unreadable, cut short, or damaged; also when that shows only later,
        while the body of the ``with`` reads.
    InputError
        An address of an unknown kind, or of one that needs a package which is not installed.
    """
    if not is_address(path) and Path(path).is_fifo():  # to open it would wait for who writes
        raise ReadError(
            f"{path}: this is a pipe, and can be read only once; write it to a file, and give that"
        )
    try:
        with _open_file(path, "rb") as stream:
            yield stream
    except DaskpartError:
        raise
    except FileNotFoundError:
        looked = "" if is_address(path) else f" (looked from {os.getcwd()})"
        raise ReadError(f"{path}: there is no such file{looked}") from None
    except IsADirectoryError:
        raise ReadError(
            f"{path}: this is a folder; give the file inside it, or what xarray.open_zarr makes of "
            "a folder of zarr"
        ) from None
    except EOFError as error:
        raise ReadError(
            f"{path}: the compressed file ends early (cut short in a download or a copy?); "
            "fetch it again"
        ) from error
    except Exception as error:
        if not isinstance(error, _DAMAGED) and not is_address(path):
            raise
        raise ReadError(f"{path}: cannot be read: {error}") from error


@contextmanager
def opened_for_writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open `path` for writing, compressed by its suffix.

    A file takes the place of the old one when it is whole; addresses and what is no file, such as
    /dev/stdout, are written as they are.

    Raises
    ------
    InputError
        The file cannot be written: no such folder, no permission, no space.
    """
    try:
        if _can_be_replaced(path):
            with replacing(path) as file, _compressed(file, path) as stream:
                yield stream
        else:
            with _open_file(path, "wb") as stream:
                yield stream
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _can_be_replaced(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a file, or of none yet in a folder."""
    place = os.path.abspath(path)
    if is_address(path) or place.startswith(("/dev/", "/proc/")):  # stdout may be a file
        return False
    is_free = os.path.isdir(os.path.dirname(place)) and not os.path.lexists(place)
    return is_free or os.path.isfile(place)


@contextmanager
def _compressed(file: IO[bytes], path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream that goes to an open file as the suffix of `path` says, and leaves it open."""
    compression = _compression_of(path)
    if compression is None:
        yield file
        return
    # gzip writes a name into the file, which should not be that of the moment
    named = {"filename": os.path.basename(path)} if compression == "gzip" else {}
    with compr[compression](file, mode="wb", **named) as stream:
        yield stream


def stored_bytes(path: str | os.PathLike[str]) -> int | None:
    """Bytes of a file as it lies there, packed or not; None where its place does not tell."""
    system, inside = _located(path)
    return system.size(inside)


def _open_file(path: str | os.PathLike[str], mode: str) -> OpenFile:
    system, inside = _located(path)
    return OpenFile(system, inside, mode, compression=_compression_of(path))


def _located(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The file system of a path or an address, and what the file is called there."""
    place = os.fspath(path)
    try:
        # not by its name alone: fsspec reads more into "::" and "*" than a file name means
        return url_to_fs(place) if is_address(place) else (fsspec.filesystem("file"), place)
    except (ImportError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error


def _compression_of(path: str | os.PathLike[str]) -> str | None:
    return _COMPRESSIONS.get(os.path.splitext(os.fspath(path))[1].lower())


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether it is an address, such as ``s3://…``, and no path."""
    return "://" in os.fspath(path)


def unpacked(path: str | os.PathLike[str]) -> io.BytesIO:
    """All of a file, decompressed.

    Raises
    ------
    ReadError
        As `opened`; also when the file is empty.
    """
    with opened(path) as stream:
        content = io.BytesIO(stream.read())
    if not content.getbuffer().nbytes:
        raise ReadError(f"{path}: the file is empty")
    return content


def text_chunks(stream: IO[bytes], chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Cut a stream into pieces of about `chunk_bytes` bytes that end with a line.

    A longer line makes its chunk longer, nothing else.
    """
    pieces: list[bytes] = []
    first = True
    while data := stream.read(chunk_bytes):
        if first:
            data, first = data.removeprefix(BYTE_ORDER_MARK), False
        cut = data.rfind(b"\n") + 1
        pieces.append(data[:cut] if cut else data)
        if cut:
            yield b"".join(pieces)
            pieces = [data[cut:]]
    rest = b"".join(pieces)
    if rest:
        yield rest


def head(path: str | os.PathLike[str], n_bytes: int = 1 << 16) -> bytes:
    """The first `n_bytes` bytes, decompressed; a last line that is cut is left out.

    Raises
    ------
    ReadError
        As `opened`; also when the file is empty.
    """
    with opened(path) as stream:
        data = stream.read(n_bytes)
    if not data:
        raise ReadError(f"{path}: the file is empty")
    data = data.removeprefix(BYTE_ORDER_MARK)
    return data if len(data) < n_bytes - 3 or b"\n" not in data else data[: data.rfind(b"\n") + 1]


def refuse_no_text(path: str | os.PathLike[str], start: bytes) -> None:
    """Say what the first bytes of a file are, where they are no text with lines and one can tell.

    Raises
    ------
    ReadError
        The text is UTF-16, or compressed under a name that does not tell, or its lines end in
        carriage returns alone, which would make one line of it.
    """
    if start.startswith(_UTF16):
        raise ReadError(f"{path}: the text is UTF-16, as some programs write it; save it as UTF-8")
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise ReadError(f"{path}: the file is {what}")
    if b"\n" not in start and b"\r" in start.rstrip(b"\r") and b"\0" not in start:
        raise ReadError(
            f"{path}: its lines end in carriage returns alone, as old programs write them; save it "
            "with the line ends of today"
        )


def fail_at_encoding(path: str) -> NoReturn:
    """Name the line that is not UTF-8."""
    with opened(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                raise ReadError(
                    f"{path}, line {number}: the text is not UTF-8; the line is {line[:60]!r}; "
                    "save the file as UTF-8"
                ) from None
    raise ReadError(f"{path}: the text is not UTF-8")


def only_names_separator(line: bytes) -> bool:
    """Whether a first line says no more than what parts columns, ``sep=;``, to Excel.

    It is passed over, as the lines below tell the same.
    """
    return _SEPARATOR_LINE.fullmatch(line) is not None


def numbered_lines(path: str | os.PathLike[str]) -> list[tuple[int, str]]:
    """The lines with content at the head of a text file, each with its number from 1.

    Blank lines and comments (#, %) are left out, also those behind two numbers and more: behind
    one, or in a table with commas, such a sign may begin a name. So is a first ``sep=;``. ReadError
    as `head`, and for what is no text.
    """
    start = head(path)
    refuse_no_text(path, start)
    lines = start.decode("utf-8", "replace").split("\n")
    if only_names_separator(lines[0].encode()):
        lines[0] = ""
    stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
    return [
        (number, _COMMENT_BEHIND.sub(r"\1", line).rstrip())
        for number, line in stripped
        if line and line[0] not in "#%"
    ]


def first_lines(path: str | os.PathLike[str]) -> list[str]:
    """As `numbered_lines`, without the numbers."""
    return [line for _, line in numbered_lines(path)]
