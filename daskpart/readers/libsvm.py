"""Examples with a target: the libsvm text format.

    -1 3:1 11:1 14:1         target -1, features 3, 11, 14 (1-based)
    +1 5:0.5                 -->  data (csr), target

A feature index 0 anywhere makes the file 0-based, as in scikit-learn's reader; the ``qid:4`` that
files of rankings have behind the label is passed over, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskpart._floor.checks import several, whole_number
from daskpart._floor.compressed_rows import compressed_rows
from daskpart.containers.coordinates import index_dtype
from daskpart.errors import InputError, ReadError

from .assembly import cast_values, value_type
from .libsvm_kernel import plain_lines
from .scanning import LARGEST_ID, Chunk, NoNumberError, read_chunks, rows_of
from .scanning import Rows as Numbers

if TYPE_CHECKING:
    from .example_tables import Table

SEPARATORS = ":"
_COLON = ord(":")
_QUERY = re.compile(rb"(?m)^([ \t]*[^\s:#]+[ \t]+)(qid:\d+)(?!\S)")
_SEVERAL_LABELS = re.compile(rb"(?m)^[ \t]*[^\s:,#]+(,[^\s:,#]+)+\s")
_FEATURE_CHUNK = 1 << 20  # taken apart it is about forty times as much for a moment


@dataclass(frozen=True)
class Wanted:
    """What rows of a file must keep, and the type of their values.

    Attributes
    ----------
    n_features : int or None
        Features beyond are refused, with their line.
    zero_based : bool or None
        Whether the first feature is 0; None: so if an index 0 occurs.
    labels : tuple of float or of str, or None
        The only labels that may occur; None: any. Text for a table whose labels are text.
    dtype : dtype
    table : Table or None
        Of examples that are rows of a table; None: libsvm.
    """

    n_features: int | None = None
    zero_based: bool | None = None
    labels: tuple[Any, ...] | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    table: Table | None = None

    @classmethod
    def checked(
        cls,
        n_features: int | None = None,
        zero_based: bool | None = None,
        dtype: np.typing.DTypeLike = np.float64,
        labels: Iterable[Any] | None = None,
    ) -> Wanted:
        """From what a user gives (InputError)."""
        if n_features is not None:
            n_features = whole_number(n_features, "n_features", least=1, most=LARGEST_ID)
        if isinstance(labels, np.ndarray):
            labels = labels.tolist()  # Python's own, as messages show them
        if isinstance(labels, str):  # not its letters
            raise InputError(f"labels is {labels!r}: give a list of the labels that may occur")
        allowed = None if labels is None else tuple(several(labels, "labels", "a list of labels"))
        if allowed and not all(isinstance(each, str) for each in allowed):
            try:
                allowed = tuple(float(each) for each in allowed)
            except (TypeError, ValueError):
                raise InputError(f"labels={allowed!r}: give numbers, or give text") from None
        return cls(n_features, zero_based, allowed, value_type(dtype))

    @property
    def most_index(self) -> int:
        """The largest index, as written, that can be one of the features."""
        if self.n_features is None:
            return LARGEST_ID
        return self.n_features - (self.zero_based is True)

    def allows(self, rows: Rows) -> bool:
        """Whether all features and labels may occur."""
        known = self.labels is None or bool(np.isin(rows.labels, self.labels).all())
        return known and rows.most <= self.most_index


class Rows(NamedTuple):
    """Rows of a file as they are written: the first feature may be 0 or 1.

    Attributes
    ----------
    lengths : int64[n_rows]
        Features of each row.
    indices : int32 or int64 [n]
        Rising within a row.
    values : ndarray [n]
    labels : float64[n_rows]
        Of a table whose labels are text their numbers; while it is surveyed the text.
    """

    lengths: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray

    @property
    def pointer(self) -> np.ndarray:
        """Row r holds ``indices[pointer[r]:pointer[r + 1]]``; int64[n_rows + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @property
    def least(self) -> int:
        """The smallest index; 1 if there is none."""
        return int(self.indices.min()) if len(self.indices) else 1

    @property
    def most(self) -> int:
        """The largest index; 0 if there is none."""
        return int(self.indices.max(initial=0))

    @classmethod
    def joined(cls, blocks: Sequence[Rows]) -> Rows:
        """The rows of some blocks, one after another."""
        blocks = blocks or [block_of(Chunk("", b"", b"", 0))]
        return cls(*(np.concatenate(each) for each in zip(*blocks, strict=True)))

    def where(self, mask: np.ndarray) -> Rows:
        """Those rows for which a mask, bool[n_rows], is true."""
        entries = np.repeat(mask, self.lengths)
        return Rows(
            self.lengths[mask], self.indices[entries], self.values[entries], self.labels[mask]
        )

    def matrix(self) -> sp.csr_array:
        """As compressed rows, whose indices are those that are written."""
        shape = (len(self.lengths), self.most + 1)
        return compressed_rows(self.values, self.indices, self.pointer, shape)

    def with_rising_indices(self) -> Rows:
        """The same, with the features of each row in order."""
        matrix = self.matrix()
        matrix.sort_indices()
        return self._replace(indices=matrix.indices, values=matrix.data)

    def examples(self, first: int, width: int) -> Examples:
        """As a matrix, where `first` is the index of the first feature."""
        dtype = np.dtype(index_dtype(max(width, len(self.indices))))
        indices = self.indices.astype(dtype)
        indices -= dtype.type(first)
        shape = (len(self.lengths), width)
        matrix = sp.csr_array((self.values, indices, self.pointer.astype(dtype)), shape=shape)
        matrix.has_canonical_format = True
        return Examples(matrix, self.labels)


class Examples(NamedTuple):
    """Examples to learn from; unpacks as ``data, target``.

    Attributes
    ----------
    data : scipy.sparse.csr_array, shape (n_examples, n_features)
    target : ndarray of float64, shape (n_examples,)
        Of a table also text, or bools.
    """

    data: sp.csr_array
    target: np.ndarray


def read_libsvm(
    path: str,
    *,
    n_features: int | None = None,
    zero_based: bool | None = None,
    dtype: np.typing.DTypeLike = np.float64,
) -> Examples:
    """Read a libsvm file.

    Parameters
    ----------
    path : str
    n_features : int, optional
        Number of columns, for a test set to match its training set. By default as many as the
        largest index needs.
    zero_based : bool, optional
        Whether the first feature is 0. By default so if an index 0 occurs.
    dtype : dtype, default=float64

    Returns
    -------
    Examples
        ``data`` (csr_array with sorted indices, explicit zeros kept) and ``target``.
    """
    wanted = Wanted.checked(n_features, zero_based, dtype)
    rows = _rows(path, wanted)
    return rows.examples(*numbering(path, rows.least, rows.most, wanted))


def read_numbered_alike(path: str, *tests: str) -> list[Examples]:
    """Read a training file and test files with features of the same numbers.

    There are as many as the largest index in all of them needs, and an index 0 in one makes all
    0-based: a small file may lack the last feature, or the first.
    """
    read = [_rows(each, Wanted()) for each in (path, *tests)]
    least, most = min(rows.least for rows in read), max(rows.most for rows in read)
    first, width = numbering(path, least, most, Wanted())
    return [rows.examples(first, width) for rows in read]


def _rows(path: str, wanted: Wanted) -> Rows:
    rows = Rows.joined([block_of(chunk, wanted) for chunk in read_chunks(path, SEPARATORS)])
    if not len(rows.labels):
        raise ReadError(f"{path}: there are no examples in it")
    return rows


def feature_chunks(path: str | os.PathLike[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read which features the examples have, a MiB of text at a time, values left out.

    Yields
    ------
    lengths : int64[n_examples of the chunk]
    indices : int32 or int64 [lengths.sum()]
        As written: only the end of the file tells whether the first feature is 0 or 1.

    Raises
    ------
    ReadError
        As `read_libsvm`, of values that are dropped too.
    """
    found = False
    for chunk in read_chunks(os.fspath(path), SEPARATORS, chunk_bytes=_FEATURE_CHUNK):
        rows = block_of(chunk)
        if len(rows.labels):
            found = True
            yield rows.lengths, rows.indices
    if not found:
        raise ReadError(f"{path}: there are no examples in it")


def checked_width(
    path: str | os.PathLike[str], needed: int, wanted: int | None, name: str = "n_features"
) -> int:
    """How many features the data shall have: as wanted (by the argument `name`), or as needed.

    Raises
    ------
    InputError
        Fewer are wanted than the file needs.
    """
    if wanted is not None and wanted < needed:
        raise InputError(f"{path}: {name}={wanted}, but the file needs {needed}")
    return needed if wanted is None else wanted


def numbering(
    path: str | os.PathLike[str], least: int, most: int, wanted: Wanted
) -> tuple[int, int]:
    """The first feature (0 or 1) and the number of features, of the indices in a file.

    Parameters
    ----------
    path : path
    least, most : int
        The smallest and largest index as written; 1 and 0 where there is none.
    wanted : Wanted

    Raises
    ------
    InputError
        The index 0 where the first feature is said to be 1; fewer features than occur.
    """
    if wanted.zero_based is False and not least:
        raise InputError(f"{path}: zero_based=False, but the feature index 0 occurs")
    first = int(least > 0) if wanted.zero_based is None else int(not wanted.zero_based)
    return first, checked_width(path, most + 1 - first, wanted.n_features)


def block_of(chunk: Chunk, wanted: Wanted | None = None) -> Rows:
    """The rows of a chunk, all checked.

    Raises
    ------
    ReadError
        Whatever `Wanted` or the format does not allow: path, line, what was found.
    """
    wanted = wanted or Wanted()
    if b"q" in chunk.text and b"qid:" in chunk.text:  # one letter is found several times as fast
        blanked = _QUERY.sub(lambda found: found[1] + b" " * len(found[2]), chunk.text)
        chunk = replace(chunk, text=blanked)
    plain = plain_lines(chunk.text)
    if plain is not None:
        values, good = cast_values(plain.values, wanted.dtype)
        if good.all() and np.isfinite(plain.labels).all():
            found = Rows(plain.lengths, _narrow(plain.indices), values, plain.labels)
            if wanted.allows(found):
                return found
    try:
        rows = rows_of(chunk)
    except NoNumberError as error:
        if error.place == 0 and _SEVERAL_LABELS.search(chunk.text):
            raise ReadError(
                f"{error}; a line with several labels is not read: "
                "sklearn.datasets.load_svmlight_file(…, multilabel=True) does that"
            ) from None
        raise
    return _scanned(rows, wanted)


def _narrow(index: np.ndarray) -> np.ndarray:
    return index.astype(index_dtype(int(index.max(initial=0)) + 1))


def _scanned(rows: Numbers, wanted: Wanted) -> Rows:
    """The rows of a chunk by the scanner, which names the line of what is wrong."""
    first = rows.pointer[:-1]
    lengths = np.diff(rows.pointer)
    is_value = rows.bytes_before() == _COLON
    place = np.arange(len(rows.numbers)) - np.repeat(first, lengths)
    wrong = np.flatnonzero(is_value != ((place > 0) & (place % 2 == 0)))
    if len(wrong) or (lengths % 2 == 0).any():
        odd_one = wrong[0] if len(wrong) else first[np.argmax(lengths % 2 == 0)]
        rows.fail_at(int(odd_one), "expected a label and then index:value pairs")
    is_index = (place % 2).astype(bool)
    index = _narrow(rows.ids(is_index, "feature index"))
    index_rows = np.repeat(np.arange(rows.n_rows), lengths // 2)
    _refuse_repeats(rows, index_rows, index)
    value = rows.values(is_value, "feature value", wanted.dtype)
    label = rows.values(first, "label", np.dtype(np.float64))
    found = Rows(lengths // 2, index, value, label)
    if not wanted.allows(found):
        beyond = np.flatnonzero(index > wanted.most_index)
        if len(beyond):
            rows.fail(
                int(index_rows[beyond[0]]),
                f"expected feature indices up to {wanted.most_index}, as there are "
                f"{wanted.n_features} features; found {index[beyond[0]]}",
            )
        refuse_labels(rows, label, wanted.labels)
    return found.with_rising_indices()


def refuse_labels(rows: Numbers, labels: np.ndarray, allowed: Sequence[Any] | None) -> None:
    """Refuse labels that may not occur, with the line of the first (ReadError)."""
    if allowed is None:
        return
    strange = np.flatnonzero(~np.isin(labels, allowed))
    if len(strange):
        shown = repr if labels.dtype.kind == "U" else "{:g}".format
        words, found = ", ".join(map(shown, allowed)), shown(labels[strange[0]].item())
        rows.fail(int(strange[0]), f"expected one of the labels {words}; found {found}")


def _refuse_repeats(rows: Numbers, index_rows: np.ndarray, index: np.ndarray) -> None:
    same_row = index_rows[1:] == index_rows[:-1]
    if not (same_row & (np.diff(index) <= 0)).any():
        return
    order = np.lexsort((index, index_rows))
    repeated = (np.diff(index_rows[order]) == 0) & (np.diff(index[order]) == 0)
    if repeated.any():
        at = order[int(np.argmax(repeated))]
        rows.fail(int(index_rows[at]), f"expected each feature once, found {index[at]} twice")
