"""A file of examples that no process reads whole: byte ranges, surveyed once, then read by ranks.

    bytes   0 ─────────────┬──────────────┬────────────── size        borders anywhere
    lines   ━━━━━━━ ━━━━━━━━━━ ━━━━━ ━━━━━━━ ━━━━━━━━ ━━━━━━━
    range   ╰─── 0 ───────────╯╰── 1 ──────────╯╰──── 2 ────╯         a line is of the range
                                                                      where it begins
    survey  blocks of whole lines: where, how many rows and features, which labels
    read    rank r  ◀── the blocks that are its own: all ranks together read the file once

So each process opens the file by itself, as with MPI-IO, and nothing of it passes the client; all
must see it under the same path. A compressed file has bytes only in order: ranges count the bytes
of its text, the survey is one task, and a rank unpacks, without parsing, what lies before its own.
So the last rank unpacks all of it; if one rank did so for all, they would wait for it as long.
A CSV file is cut as a libsvm file is; of parquet see `row_groups`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import dask
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._floor.rank_tasks import PinnedTask, RankCollection
from daskpart._floor.sums import sums_by_key
from daskpart.errors import InputError, ReadError

from .drawn_rows import DrawnRows, split
from .example_blocks import MOST_LABELS, Block, labels_in
from .example_tables import Table, is_parquet, is_table, table_of
from .libsvm import SEPARATORS, Examples, Rows, Wanted, block_of, numbering
from .row_groups import RowGroups, sizes_of_groups, survey_group
from .scanning import Chunk, apart_by
from .streams import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
    is_compressed,
    location,
    opened,
    refuse_no_text,
    stored_bytes,
)
from .text_labels import values_of
from .unchanged import unchanged

_SURVEY_BYTES = 32 << 20  # of a task
_LEAST_BLOCKS = 64


@dataclass(frozen=True, eq=False)
class ExamplesFile:
    """A file of examples that was surveyed; made by `survey`.

    Attributes
    ----------
    path : str
    wanted : Wanted
    blocks : tuple of Block
        In the order of the file.
    first : int
        Index of the first feature, 0 or 1.
    n_features : int
    on_disk : bool or "auto"
        Whether ranks that read it keep their rows on disk.
    drawn : DrawnRows or None
        Which rows of another file these are; None: all there are. Blocks then count these alone.
    """

    path: str
    wanted: Wanted
    blocks: tuple[Block, ...]
    first: int
    n_features: int
    on_disk: bool | str = "auto"
    drawn: DrawnRows | None = None

    @property
    def is_compressed(self) -> bool:
        """Whether a rank has to unpack what lies before its range."""
        return is_compressed(self.path)

    @cached_property
    def row_pointer(self) -> NDArray[np.int64]:
        """Rows before each block, and all rows behind; shape (n_blocks + 1,)."""
        return np.cumsum([0, *(block.n_rows for block in self.blocks)])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self.row_pointer[-1]), self.n_features

    @property
    def nnz(self) -> int:
        """Stored values."""
        return sum(block.nnz for block in self.blocks)

    @cached_property
    def labels(self) -> NDArray[Any] | None:
        """The labels that occur, rising; None where there are too many to be classes."""
        found = labels_in(self.blocks)
        if self.texts is not None:
            found = np.unique(self.labels_of(np.searchsorted(self.texts, found)))
        return found if len(found) <= MOST_LABELS else None

    @cached_property
    def label_counts(self) -> NDArray[np.int64]:
        """Rows of each of `labels`, which must not be too many."""
        assert self.labels is not None
        held = [block for block in self.blocks if block.n_rows]
        found = np.concatenate([block.labels for block in held])
        counts = np.concatenate([block.counts for block in held])
        if self.texts is not None:
            found = self.labels_of(np.searchsorted(self.texts, found))
        places = np.searchsorted(self.labels, found)
        return sums_by_key(places, counts, len(self.labels))

    @property
    def texts(self) -> tuple[str, ...] | None:
        """Labels as they are written, if they are text; rows have the numbers of these."""
        return None if self.wanted.table is None else self.wanted.table.texts

    def labels_of(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """What the labels of some rows are: text, bools, or these numbers themselves."""
        return numbers if self.texts is None else values_of(self.texts)[numbers.astype(np.int64)]

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of the columns of a table that has a header."""
        return None if self.wanted.table is None else self.wanted.table.feature_names

    def fingerprint(self) -> str:
        """A short text that differs for other content."""
        of_text = tokenize(
            [block.checksum for block in self.blocks], self.drawn and self.drawn.words
        )
        return f"{self.shape}, {self.nnz} stored, {of_text}"

    def ranges(self, n_ranks: int) -> list[range]:
        """Consecutive blocks for each rank, about equally many bytes; `ReadError` never.

        Returns
        -------
        list of range
            Of block numbers; empty for a rank without any.
        """
        stops = np.array([block.stop for block in self.blocks])
        middle = stops - np.diff(stops, prepend=self.blocks[0].start) / 2
        rank_of = np.minimum(middle * n_ranks // stops[-1], n_ranks - 1)
        borders = np.searchsorted(rank_of, np.arange(n_ranks + 1))
        return [range(*pair) for pair in pairwise(borders.tolist())]

    def in_rounds(self, blocks: range, round_bytes: int) -> list[range]:
        """Some blocks cut into consecutive ranges of about so many bytes of the text.

        Blocks of one row group of parquet stay together, as it is read as a whole.
        """
        if not blocks:
            return [blocks]
        start, groups = self.blocks[blocks[0]].start, self._row_groups
        last = blocks if groups is None else [groups.group_of(block)[-1] for block in blocks]
        numbers = [(self.blocks[block].stop - start - 1) // round_bytes for block in last]
        borders = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
        ends = [*borders[1:], len(blocks)]
        return [blocks[begin:end] for begin, end in zip(borders, ends, strict=True)]

    def rows_of(self, blocks: range, text: Any = None) -> Rows:
        """Read some consecutive blocks.

        Parameters
        ----------
        blocks : range
        text : stream, optional
            Of the text of a compressed file, if somebody has it unpacked; see `chunks_between`.

        Raises
        ------
        ReadError
            The file has changed since the survey.
        """
        if self.drawn is not None:
            return self.drawn.rows_of(blocks, text)
        if not blocks:
            return Rows.joined([])
        start, stop = self.blocks[blocks[0]].start, self.blocks[blocks[-1]].stop
        if self._row_groups is not None:
            return Rows.joined([*self._row_groups.rows(blocks)])
        surveyed = self.blocks[blocks.start : blocks.stop]
        return rows_between(self.path, start, stop, self.wanted, text, surveyed)

    @cached_property
    def _row_groups(self) -> RowGroups | None:
        """Those of a parquet file."""
        return RowGroups(self.path, self.wanted, self.blocks) if is_parquet(self.path) else None

    def rows_by_block(self, blocks: range) -> Iterator[Rows]:
        """Read consecutive blocks one by one; of a compressed file all of them, in one go."""
        if self.drawn is not None:
            for number, rows in zip(blocks, self.drawn.whole.rows_by_block(blocks), strict=True):
                yield rows.where(self.drawn.mask(range(number, number + 1)))
        elif self._row_groups is not None:
            yield from self._row_groups.rows(blocks)
        elif self.is_compressed:
            chunks = _chunks_of_blocks(self.path, self.blocks, _separators(self.wanted))
            rows = None
            for chunk in unchanged(self.path, chunks, self.blocks):
                if rows is not None:  # who asks for the next chunk has this one looked at
                    yield rows
                rows = _rows_of(chunk, self.wanted)
            if rows is not None:
                yield rows
        else:
            yield from (self.rows_of(range(number, number + 1)) for number in blocks)

    def feature_chunks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Which features the examples have, numbered from 0, a block at a time; values left out.

        Yields
        ------
        lengths : int64[n_examples of the block]
        features : int ndarray [lengths.sum()]
        """
        for rows in self.rows_by_block(range(len(self.blocks))):
            yield rows.lengths, rows.indices - self.first

    def examples_of(self, blocks: range, text: Any = None) -> Examples:
        """Some consecutive blocks as a matrix, and their labels; else as `rows_of`."""
        data, numbers = self.rows_of(blocks, text).examples(self.first, self.n_features)
        return Examples(data, self.labels_of(numbers))

    def pieces(self, n_ranks: int) -> RankCollection:
        """The file as a Dask collection of `Examples`, one a rank, in the order of the file.

        Parameters
        ----------
        n_ranks : int
        """
        n_ranks = whole_number(n_ranks, "n_ranks", least=1)
        name = f"examples-{tokenize(self.path, self.fingerprint(), self.wanted, n_ranks)}"
        tasks = {
            (name, rank): PinnedTask((name, rank), self.examples_of, blocks)
            for rank, blocks in enumerate(self.ranges(n_ranks))
        }
        return RankCollection(HighLevelGraph.from_collections(name, tasks), list(tasks))

    def split(
        self, fraction: float, *, random_state: Any = None, client: Any = None
    ) -> tuple[ExamplesFile, ExamplesFile]:
        """Draw a share of the examples by chance: to judge by them what the others have taught.

        The file is looked through once more, in parallel; nothing is written.

        Parameters
        ----------
        fraction : float
            Between 0 and 1. As each example is drawn by itself, about as many are.
        random_state : int or Generator, optional
            An int draws the same examples each time.
        client : distributed.Client, optional
            As for `survey`.

        Returns
        -------
        rest, drawn : ExamplesFile
            Each with the features of this file, and with classes that occur among its own examples.
            They can be split again, as for ``eval_set``.

        Raises
        ------
        InputError
            A share that is none, or so small or large that either has no example.
        ReadError
            The file has changed since the survey.
        """
        return split(self, fraction, random_state, client)

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        return (
            f"ExamplesFile({self.path!r}: {n_rows:,} examples, {n_features:,} features, "
            f"{self.nnz:,} stored values in {len(self.blocks)} blocks)"
        )


def numbered_alike(file: ExamplesFile, test: ExamplesFile) -> list[ExamplesFile]:
    """Two files with features of the same numbers, as `read_numbered_alike` gives them.

    Raises
    ------
    InputError
        Tables with other columns.
    """
    if file.wanted.table is not None:
        if (file.n_features, file.feature_names) != (test.n_features, test.feature_names):
            raise InputError(f"{test.path}: its columns are not those of {file.path}, in order")
        return [file, test]
    blocks = [*file.blocks, *test.blocks]
    least, most = min(block.least for block in blocks), max(block.most for block in blocks)
    first, width = numbering(file.path, least, most, Wanted())
    return [replace(each, first=first, n_features=width) for each in (file, test)]


def survey(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    labels: Iterable[Any] | None = None,
    dtype: np.typing.DTypeLike = np.float64,
    on_disk: bool | str = "auto",
    client: Any = None,
) -> ExamplesFile:
    """Look through a file of examples in parallel, and keep where they are and what they hold.

    Everything in it is parsed and checked; only counts come back.

    Parameters
    ----------
    path : str or path-like
        Or an address that fsspec knows. Workers must find it there, too. A libsvm file; or with
        `label` a table, as CSV (a line a row) or parquet. Its features are numbers.
    label : str or int, optional
        Of a table: name or position of the column that is to be learnt; all others are features. It
        may hold text, which is then what classes are called, or bools. The first row tells whether
        it does; or `labels`, where labels are text of which some look like numbers.
    n_features : int, optional
        Number of features, as of a fit; others are refused.
    zero_based : bool, optional
        Whether the first feature is 0. By default so if an index 0 occurs anywhere in the file.
    labels : iterable of float or of str, optional
        The labels that may occur, such as ``(-1, 1)`` or ``("no", "yes")``. By default any.
    dtype : dtype, default=float64
        Of the values, once they are read.
    on_disk : bool or "auto", default="auto"
        Whether the ranks of a fit keep their rows on disk, and read them in blocks in each epoch or
        iteration. "auto": a rank does so where they would take more than a quarter of its memory: a
        worker's memory limit, over its threads. The result is the same, to the bit. Files without a
        name in the worker's local directory, or where temporary files are; twice the size of the
        rows while they are put in order.
    client : distributed.Client, optional
        Whose workers shall read; default: the current one, else threads of this process.

    Returns
    -------
    ExamplesFile

    Raises
    ------
    ReadError
        The file cannot be read; or a line holds what it may not: the message names the line. A last
        line without line end is read like any other, so one that was cut within a pair
        (``3:1 4:``) is refused and one cut within a number is not seen.
    InputError
        An index 0 in spite of ``zero_based=False``, fewer features than the file needs, or a table
        without `label`, or without such a column.

    Examples
    --------
    >>> from pathlib import Path
    >>> import daskpart
    >>> lines = ["age,hours,rich", *["25,40,no", "50,60,yes"] * 20]
    >>> _ = Path("people.csv").write_text("\\n".join(lines))
    >>> people = daskpart.readers.survey("people.csv", label="rich")
    >>> people.shape, people.labels.tolist()
    ((40, 2), ['no', 'yes'])
    >>> model = daskpart.LogisticRegression(n_ranks=2, transport="local").fit(people)
    >>> model.score(people)
    1.0
    """
    wanted = Wanted.checked(n_features, zero_based, dtype, labels)
    if on_disk not in (True, False, "auto"):
        raise InputError(f'on_disk is {on_disk!r}: give True, False or "auto"')
    place = location(path)
    wanted, begin = _as_written(place, wanted, label)
    step = dask.delayed(survey_range, pure=False)
    if is_parquet(place):
        sizes = sizes_of_groups(place)
        starts = np.cumsum([0, *(n_bytes for n_bytes, _ in sizes)]).tolist()
        n_blocks = -(-_LEAST_BLOCKS // max(1, len(sizes)))  # of a group
        of_group = dask.delayed(survey_group, pure=False)
        tasks = [
            of_group(place, number, starts[number], each, n_blocks, wanted)
            for number, each in enumerate(sizes)
        ]
    elif is_compressed(place):
        size = stored_bytes(place) or CHUNK_BYTES * _LEAST_BLOCKS
        tasks = [step(place, begin, None, wanted, _block_bytes(size))]
    else:
        size = text_size(place)
        borders = np.linspace(begin, size, size // _SURVEY_BYTES + 2).astype(int).tolist()
        tasks = [step(place, *pair, wanted, _block_bytes(size)) for pair in pairwise(borders)]
    if client is not None:
        found = client.gather(client.compute(tasks))
    else:
        found = dask.compute(*tasks)
    blocks = tuple(block for of_task in found for block in of_task)
    if not sum(block.n_rows for block in blocks):
        raise ReadError(f"{place}: there are no examples in it")
    wanted = _with_texts(place, wanted, blocks)
    if is_parquet(place) and wanted.table is not None:
        table = replace(wanted.table, blocks_of_groups=tuple(map(len, found)))
        wanted = replace(wanted, table=table)
    least, most = min(block.least for block in blocks), max(block.most for block in blocks)
    first, width = numbering(place, least, most, wanted)
    return ExamplesFile(place, wanted, blocks, first, width, on_disk)


def _as_written(path: str, wanted: Wanted, label: str | int | None) -> tuple[Wanted, int]:
    """What is wanted of a libsvm file or a table, and where its rows begin."""
    if label is None:
        if is_table(path):
            raise InputError(f"{path} is a table: say which column is to be learnt, label=…")
        with opened(path) as stream:
            refuse_no_text(path, stream.read(1 << 16))
        return wanted, 0
    table = table_of(path, label)
    table = replace(table, has_text=_has_text(path, table, wanted.labels))
    width = table.n_columns - 1
    if wanted.n_features not in (None, width):
        raise InputError(f"{path}: n_features={wanted.n_features}, but the table has {width}")
    return replace(wanted, table=table, n_features=width, zero_based=True), table.begin


def _has_text(path: str, table: Table, labels: tuple[Any, ...] | None) -> bool:
    """Whether labels of a table are read as text: as it seems, or as `labels` say (InputError)."""
    if not labels:
        return table.has_text
    wants_text = isinstance(labels[0], str)
    if wants_text == table.has_text or (wants_text and not is_parquet(path)):
        return wants_text
    found, other = ("text", "text, too") if table.has_text else ("numbers", "numbers")
    raise InputError(f"{path}: its labels are {found}; labels={labels!r} should be {other}")


def _with_texts(path: str, wanted: Wanted, blocks: tuple[Block, ...]) -> Wanted:
    """The same with the labels that were found, if they are text (InputError for too many)."""
    if wanted.table is None or not wanted.table.has_text:
        return wanted
    found = labels_in(blocks)
    if len(found) > MOST_LABELS:
        some = ", ".join(map(repr, found[:3].tolist()))
        raise InputError(
            f"{path}: the labels are more than 10,000 different texts, such as {some}: too many to "
            "be classes. Is label=… the right column?"
        )
    return replace(wanted, table=replace(wanted.table, texts=tuple(found.tolist())))


def _rows_of(chunk: Chunk, wanted: Wanted) -> Rows:
    return block_of(chunk, wanted) if wanted.table is None else wanted.table.rows_of(chunk, wanted)


def survey_range(
    path: str, start: int, stop: int | None, wanted: Wanted, block_bytes: int = CHUNK_BYTES
) -> list[Block]:
    """The blocks of a range; what a task does."""
    blocks = []
    for chunk in chunks_between(path, start, stop, block_bytes, _separators(wanted)):
        end = chunk.start + len(chunk.text)
        blocks.append(Block.of(_rows_of(chunk, wanted), chunk.start, end, zlib.crc32(chunk.text)))
    return blocks


def _separators(wanted: Wanted) -> str:
    """What parts numbers; some programs put quotes round each."""
    return SEPARATORS if wanted.table is None else wanted.table.separators + '"'


def rows_between(
    path: str,
    start: int,
    stop: int | None,
    wanted: Wanted,
    text: Any = None,
    surveyed: Sequence[Block] = (),
) -> Rows:
    """The rows of the lines that begin at a byte from `start` to `stop` − 1.

    Parameters
    ----------
    path : str
    start, stop : int
        Any; None: to the end.
    wanted : Wanted
    text : stream, optional
        See `chunks_between`.
    surveyed : sequence of Block, optional
        What was found there: other text is an error, see `unchanged`.
    """
    chunks = chunks_between(path, start, stop, separators=_separators(wanted), text=text)
    if surveyed:
        chunks = unchanged(path, chunks, surveyed)
    return Rows.joined([_rows_of(chunk, wanted) for chunk in chunks])


def chunks_between(
    path: str,
    start: int,
    stop: int | None,
    chunk_bytes: int = CHUNK_BYTES,
    separators: str = SEPARATORS,
    text: Any = None,
) -> Iterator[Chunk]:
    """The lines that begin at a byte from `start` to `stop` − 1, some whole lines at a time.

    Parameters
    ----------
    path : str
    start, stop : int
        Bytes of the text, any; None: to the end.
    chunk_bytes : int
        A chunk is as much, and the rest of its last line.
    separators : str
        What parts numbers, besides blanks.
    text : stream, optional
        Read in place of the file: its bytes from ``start`` − 1 on, under their places in the file.
    """
    apart = apart_by(separators)
    with opened(path) if text is None else nullcontext(text) as stream:
        at = max(0, start - 1)
        stream.seek(at)
        if start:  # the line that the byte before it is in belongs to the range before
            at += len(stream.readline())
        while stop is None or at < stop:
            n_bytes = chunk_bytes if stop is None else min(chunk_bytes, stop - at)
            lines = _whole_lines(stream, n_bytes, at)
            if not lines:
                return
            yield Chunk(path, lines, apart, None, start=at)
            at += len(lines)


def _chunks_of_blocks(path: str, blocks: Sequence[Block], separators: str) -> Iterator[Chunk]:
    """The text of consecutive blocks, a chunk each; the file is unpacked once."""
    apart = apart_by(separators)
    with opened(path) as stream:
        stream.seek(blocks[0].start)
        for block in blocks:
            lines = _whole_lines(stream, block.stop - block.start, block.start)
            yield Chunk(path, lines, apart, None, start=block.start)


def _whole_lines(stream: Any, n_bytes: int, at: int) -> bytes:
    """So much of a stream that is at a byte `at`, and the rest of the last line; no mark before."""
    lines = stream.read(n_bytes)
    if lines and not lines.endswith(b"\n"):
        lines += stream.readline()
    if not at and lines.startswith(BYTE_ORDER_MARK):
        lines = b" " * len(BYTE_ORDER_MARK) + lines[len(BYTE_ORDER_MARK) :]
    return lines


def _block_bytes(size: int) -> int:
    """Text of a block: of a small file less, so that there is some for each of several ranks."""
    return max(1, min(CHUNK_BYTES, size // _LEAST_BLOCKS))


def text_size(path: str) -> int:
    """Bytes of the text; of a compressed file all of it is unpacked to know."""
    with opened(path) as stream:
        return stream.seek(0, os.SEEK_END)
