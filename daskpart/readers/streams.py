"""Files as streams of whole lines, whatever they are compressed with.

    ratings.csv.xz --lzma--> bytes --cut at the last line end--> chunk | chunk | chunk

A chunk is a few MiB, so a file of any size is read in bounded memory. Everything that the operating
system or a decompressor may complain about becomes a `ReadError` that names the path.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from daskpart.errors import InputError, ReadError

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
CHUNK_BYTES = 4 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def plain_name(path: Path) -> str:
    """The lower-case file name without the suffix of its compression."""
    name = path.name.lower()
    for suffix in _OPENERS:
        name = name.removesuffix(suffix)
    return name


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for reading, decompressed by its suffix.

    Raises
    ------
    ReadError
        The file is missing, unreadable, cut short, or damaged; also when that shows only later,
        while the body of the ``with`` reads.
    """
    opener = _OPENERS.get(path.suffix.lower(), open)
    try:
        with opener(path, "rb") as stream:
            yield cast(IO[bytes], stream)
    except FileNotFoundError:
        raise ReadError(f"{path}: there is no such file (looked from {Path.cwd()})") from None
    except IsADirectoryError:
        raise ReadError(f"{path}: this is a folder; give the file inside it") from None
    except EOFError as error:
        raise ReadError(
            f"{path}: the compressed file ends early (cut short in a download or a copy?); "
            "fetch it again"
        ) from error
    except (OSError, lzma.LZMAError, zlib.error) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error


@contextmanager
def opened_for_writing(path: Path) -> Iterator[IO[bytes]]:
    """Open `path` for writing, compressed by its suffix.

    Raises
    ------
    InputError
        The file cannot be written: no such folder, no permission, no space.
    """
    opener = _OPENERS.get(path.suffix.lower(), open)
    try:
        with opener(path, "wb") as stream:
            yield cast(IO[bytes], stream)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def text_chunks(stream: IO[bytes], chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Cut a stream into pieces of about `chunk_bytes` bytes that end with a line.

    Parameters
    ----------
    stream : binary file
    chunk_bytes : int
        A line longer than this makes its chunk longer, nothing else.
    """
    pieces: list[bytes] = []
    first = True
    while data := stream.read(chunk_bytes):
        if first:
            data, first = data.removeprefix(_BYTE_ORDER_MARK), False
        cut = data.rfind(b"\n") + 1
        pieces.append(data[:cut] if cut else data)
        if cut:
            yield b"".join(pieces)
            pieces = [data[cut:]]
    rest = b"".join(pieces)
    if rest:
        yield rest


def head(path: Path, n_bytes: int = 1 << 16) -> bytes:
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
    data = data.removeprefix(_BYTE_ORDER_MARK)
    return data if len(data) < n_bytes - 3 or b"\n" not in data else data[: data.rfind(b"\n") + 1]


def first_lines(path: Path) -> list[str]:
    """The lines with content at the head of a text file: no blank ones, no comments (#, %)."""
    lines = (line.strip() for line in head(path).decode("utf-8", "replace").splitlines())
    return [line for line in lines if line and line[0] not in "#%"]
