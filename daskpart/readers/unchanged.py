"""Whether a file is still what it was when it was surveyed, told by the checksums of its blocks.

    survey     │ 8f1c │ 02aa │ 77d0 │        of each block
    reading      8f1c   02aa   913b  ✗       its text has changed: no row of it is used

What a rank reads must be what was counted: features beyond the counted ones have no place, and
labels that nobody knows would be taken for others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checksum import checksum
from daskpart.errors import ReadError

from .libsvm import Rows
from .scanning import Chunk

if TYPE_CHECKING:
    from .example_blocks import Block


def unchanged(path: str, chunks: Iterable[Chunk], blocks: Sequence[Block]) -> Iterator[Chunk]:
    """The chunks of consecutive blocks; `ReadError` behind a block whose text has changed.

    Chunks are cut anywhere between lines.
    """
    left = list(reversed(blocks))
    found, place = 0, blocks[0].start
    for chunk in chunks:
        yield chunk  # first: what cannot be read is told with its line
        text, start = memoryview(chunk.text), chunk.start
        if start != place:  # in the middle of a line, as it is now
            raise changed(path, (left or blocks)[-1])
        while place < start + len(text):
            if not left:  # the last line has become longer
                raise changed(path, blocks[-1])
            before, place = place, min(left[-1].stop, start + len(text))
            found = zlib.crc32(text[before - start : place - start], found)
            if place == left[-1].stop:
                block = left.pop()
                if found != block.checksum:
                    raise changed(path, block)
                found = 0
    if left:
        raise changed(path, left[-1])


def changed(path: str, block: Block) -> ReadError:
    """The error that says so."""
    return ReadError(
        f"{path}: bytes {block.start} to {block.stop} are not what they were when it was surveyed; "
        "leave the file alone while it is read"
    )


def rows_checksum(rows: Rows, texts: NDArray[Any] | None = None) -> int:
    """CRC-32 of all that some rows hold; `texts`: what their labels are the numbers of, if text."""
    labels = rows.labels if texts is None else texts[rows.labels.astype(np.int64)]
    if labels.dtype.kind == "U":  # as wide as the longest of them: other texts widen the array
        labels = np.frombuffer("\0".join(labels.tolist()).encode(), np.uint8)
    return checksum(rows.lengths, rows.indices, rows.values, labels)
