"""A rank's examples on its disk: spread over buckets as they arrive, then in order, read in blocks.

    rounds ─► Spool    │ piece of bucket 3 │ piece of bucket 0 │ …        as they come
                            │ a bucket at a time is read and ordered
                            ▼
              StoredExamples    pointer │ indices │ values │ target       one after another
                                    ▲
    a block of consecutive rows ────┘ is read into memory

What is in memory of a file of any size is a bucket, or a block. Files are read and written, not
mapped: pages that are mapped count as memory of the process. They have no name, so that they are
gone with the process, however it ends.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import compressed_rows
from daskpart.containers.coordinates import index_dtype
from daskpart.readers.libsvm import Examples, Rows
from daskpart.readers.streams import CHUNK_BYTES, opened


class Disk:
    """A folder for files without a name.

    Parameters
    ----------
    folder : str
    n_bytes : float
        What will be needed, about.

    Raises
    ------
    OSError
        Where as much is not free.
    """

    def __init__(self, folder: str, n_bytes: float) -> None:
        self.folder, self.n_bytes = folder, n_bytes
        if shutil.disk_usage(folder).free < n_bytes:
            raise OSError(self._refusal("there is too little space"))

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Say what was needed and what is there when the disk refuses."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, self._refusal(error.strerror or str(error))) from error

    def _refusal(self, reason: str) -> str:
        free = shutil.disk_usage(self.folder).free
        return (
            f"rows could not be kept in {self.folder}: {reason}. This rank needs about "
            f"{self.n_bytes / 1e6:,.1f} MB there, {free / 1e6:,.1f} MB are free. Give another "
            "folder (local_directory of the workers, or dask's temporary-directory), or more ranks."
        )


class _File:
    """A file without a name, closed when nobody has it any more."""

    def __init__(self, disk: Disk) -> None:
        with disk.refusals():
            self.stream: Any = tempfile.TemporaryFile(dir=disk.folder)
        self.close = weakref.finalize(self, _close, self.stream)


def _close(stream: Any) -> None:
    with suppress(OSError):  # of what a full disk did not take; that was said before
        stream.close()


class UnpackedText:
    """A range of the text of a compressed file: unpacked once, then read at any place.

    Parameters
    ----------
    disk : Disk
    path : str
    start, stop : int
        In bytes of the text.
    """

    def __init__(self, disk: Disk, path: str, start: int, stop: int) -> None:
        self._first = at = max(0, start - 1)  # with the line end before it: readers look for it
        self._file = _File(disk)
        with opened(path) as packed:
            packed.seek(at)
            while at < stop and (piece := packed.read(min(CHUNK_BYTES, stop - at))):
                with disk.refusals():
                    self._file.stream.write(piece)
                at += len(piece)
        with disk.refusals():
            self._file.stream.flush()

    def copy(self) -> UnpackedText:
        """This one: its readers say where they read."""
        return self

    def seek(self, place: int) -> None:
        """Go to a byte of the text."""
        self._file.stream.seek(place - self._first)

    def read(self, n_bytes: int) -> bytes:
        """The next bytes."""
        found: bytes = self._file.stream.read(n_bytes)
        return found

    def readline(self) -> bytes:
        """The rest of a line."""
        found: bytes = self._file.stream.readline()
        return found


class Spool:
    """Pieces of buckets in one file, in the order in which they came.

    Parameters
    ----------
    disk : Disk
    n_buckets : int
    """

    def __init__(self, disk: Disk, n_buckets: int) -> None:
        self.disk, self._file = disk, _File(disk)
        self._starts: list[list[int]] = [[] for _ in range(n_buckets)]

    def __len__(self) -> int:
        return len(self._starts)

    def copy(self) -> Spool:
        """A second one that goes on by itself: the file only grows, so they share it."""
        other = object.__new__(Spool)
        other.disk, other._file = self.disk, self._file
        other._starts = [starts.copy() for starts in self._starts]
        return other

    def put(self, bucket: int, piece: Any) -> None:
        """Write a piece."""
        with self.disk.refusals():
            self._starts[bucket].append(self._file.stream.seek(0, 2))
            pickle.dump(piece, self._file.stream, protocol=5)

    def take(self, bucket: int) -> list[Any]:
        """Read the pieces of a bucket."""
        return list(Bucket(self, bucket))

    def starts(self, bucket: int) -> list[int]:
        """Where the pieces of a bucket begin."""
        return self._starts[bucket]

    def piece(self, start: int) -> Any:
        """Read one."""
        with self.disk.refusals():
            self._file.stream.seek(start)
            return pickle.load(self._file.stream)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


@dataclass(frozen=True, eq=False)
class Bucket:
    """The pieces of a bucket, read one after the other, each time anew.

    Attributes
    ----------
    spool : Spool
    number : int
    """

    spool: Spool
    number: int

    def __iter__(self) -> Iterator[Any]:
        return map(self.spool.piece, self.spool.starts(self.number))


class StoredExamples:
    """Examples that a rank has on disk.

    Parameters
    ----------
    disk : Disk
    width : int
        Features.
    dtype : dtype
        Of the values.
    """

    def __init__(self, disk: Disk, width: int, dtype: np.dtype[Any]) -> None:
        self.disk, self.width, self.n_rows, self.nnz = disk, width, 0, 0
        dtypes = (np.dtype(np.int64), np.dtype(index_dtype(width)), np.dtype(dtype))
        self.dtype, self._dtypes = dtypes[2], (*dtypes, np.dtype(np.float64))
        self._files = [_File(disk) for _ in self._dtypes]

    def append(self, rows: Rows, first: int) -> None:
        """Write some rows behind the last; `first` is the index of the first feature, 0 or 1."""
        ends = self.nnz + np.cumsum(rows.lengths)
        columns = (ends, rows.indices - first, rows.values, rows.labels)
        with self.disk.refusals():
            for file, column, dtype in zip(self._files, columns, self._dtypes, strict=True):
                file.stream.write(np.ascontiguousarray(column, dtype))
        self.n_rows += len(rows.labels)
        self.nnz += len(rows.indices)

    def flush(self) -> None:
        """Have everything on disk, or hear of it (OSError)."""
        with self.disk.refusals():
            for file in self._files:
                file.stream.flush()

    def read(self, begin: int, end: int) -> Examples:
        """Rows `begin` to `end` − 1, new in memory."""
        pointer = np.zeros(end - begin + 1, np.int64)
        if begin:
            pointer[:] = self._column(0, begin - 1, end)
        else:
            pointer[1:] = self._column(0, 0, end)
        features = int(pointer[0]), int(pointer[-1])
        indices, values = self._column(1, *features), self._column(2, *features)
        shape = (end - begin, self.width)
        matrix = compressed_rows(values, indices, pointer - pointer[0], shape)
        matrix.has_canonical_format = True
        return Examples(matrix, self._column(3, begin, end))

    def _column(self, number: int, begin: int, end: int) -> NDArray[Any]:
        stream, dtype = self._files[number].stream, self._dtypes[number]
        found = np.empty(end - begin, dtype)
        with self.disk.refusals():
            stream.seek(begin * dtype.itemsize)
            n_bytes = stream.readinto(found.view(np.uint8))
        if n_bytes != found.nbytes:
            raise OSError(f"a file in {self.disk.folder} ends before byte {end * dtype.itemsize}")
        return found
