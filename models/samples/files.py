"""Samples in a file: each rank reads its range, rows go to their ranks as they are read.

libsvm, or a table
    survey(path) ─► FileSamples ─► plan: shuffled rows of each rank ─► examples_on_ranks ─► RankRows

Nothing of the file passes the client but its labels, if they are classes. The samples are those of
`examples.shuffled_rows`, so a fit depends on the seed and on the number of ranks, not on how the
file was cut or packed, nor on whether a rank has its rows in memory or on disk: either way they are
shuffled in blocks of `_BLOCK_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.models.base.class_weights import check_total
from daskpart.models.base.reports import bytes_words
from daskpart.partitions import Partition
from daskpart.readers import ExamplesFile
from daskpart.readers.libsvm import Examples

from .examples import (
    MEMORY_SHARE,
    Reading,
    examples_on_ranks,
    readings,
    row_bytes,
    shuffled_rows,
)
from .examples_on_disk import StoredExamples
from .file_answers import answers_of_file, labels_of_file
from .problem import Samples
from .rows import RankRows, Rows, StoredRows, rank_rows

_BLOCK_BYTES = 32 << 20  # of rows that are shuffled among themselves, and in memory at a time
Encode = Callable[[NDArray[Any], Any], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Labels:
    """What the labels of a file are to a model.

    Attributes
    ----------
    classes : ndarray or None
        None: labels are targets of a regression.
    encode : callable
        ``encode(labels, classes)``: of a regression `numbers` or `counts`, else `encoded` or
        `class_numbers`.
    weights : float64 ndarray like classes, or None
        Of a sample of each class, of mean 1 over the samples.
    """

    classes: NDArray[Any] | None
    encode: Encode
    weights: NDArray[np.float64] | None

    def target(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Targets as numbers."""
        return self.encode(labels, self.classes)

    def weight(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """What each sample counts."""
        if self.weights is None or self.classes is None:
            return np.ones(len(labels))
        return self.weights[np.searchsorted(self.classes, labels)]


class FileSamples(Samples):
    """Samples of a surveyed file, none of them here.

    Parameters
    ----------
    file : ExamplesFile
    encode, classes
        As of `Labels`.
    n_outputs : int
    class_weights : float64 ndarray like classes, or None
    """

    unshuffled: ClassVar[str] = "block"

    def __init__(
        self,
        file: ExamplesFile,
        encode: Encode,
        n_outputs: int,
        classes: NDArray[Any] | None,
        class_weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.file, self.classes, self.class_weights = file, classes, class_weights
        self.n_outputs = n_outputs
        self.n_samples, self.n_features = file.shape
        self.total_weight, weights = float(self.n_samples), None
        if class_weights is not None:
            assert classes is not None
            with np.errstate(over="ignore"):  # it is told
                self.total_weight = float(label_mass(file, classes) @ class_weights)
        check_total(self.total_weight)
        if class_weights is not None:
            weights = class_weights * (self.n_samples / self.total_weight)
        self._known = Labels(classes, encode, weights)
        self.validation: Samples | None = None

    @property
    def several(self) -> bool:
        """Whether a sample has several targets: a line has one label."""
        return False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.file.wanted.dtype

    @property
    def n_stored(self) -> int:
        """Stored values, as the survey counted them."""
        return self.file.nnz

    def fingerprint(self) -> str:
        """Shape, and checksums of the text."""
        return self.file.fingerprint()

    @cached_property
    def target(self) -> NDArray[np.float64]:  # type: ignore[override]
        """Of all samples, of a file that is held out: the others learn theirs as they read."""
        return self._known.target(self._labels)

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """Of all samples, as `target`."""
        return self._known.weight(self._labels)

    @cached_property
    def _labels(self) -> NDArray[Any]:
        return labels_of_file(self.file)

    def outputs(self, of_rows: Callable[[Any], NDArray[Any]]) -> NDArray[np.float64]:
        """What a model answers for all samples, which are read for it."""
        return np.asarray(answers_of_file(self.file, of_rows)[0])

    def members(
        self, n_ranks: int, seed: int | None, batch_size: int = 1
    ) -> list[NDArray[np.int64]]:
        """The samples of each rank, in the order in which it holds them; None: as in the file."""
        if seed is not None:
            return shuffled_rows(self.n_samples, n_ranks, seed)
        borders = [self.file.row_pointer[own.start] for own in self.file.ranges(n_ranks)]
        return np.split(np.arange(self.n_samples), borders[1:])

    def rows_on(self, comm: Any, seed: int | None, partition: Partition | None = None) -> Any:
        """Rows of each rank, read there; a PerRank of RankRows, or of StoredRows.

        A partition says the rank of each row; a rank then has them in the order of the file.
        """
        own = readings(self.file, comm.n_ranks, partition=partition)
        handed = comm.values(own)
        if partition is not None:
            seed = 0  # rows travel, by the keys of the readings
        options = {"n_rounds": len(own[0].rounds), "seed": seed}
        examples = comm.run(examples_on_ranks, handed, **options)
        return comm.settle(comm.map(_rank_rows, examples, handed, labels=self._known))

    def bytes_of(
        self, members: Sequence[NDArray[np.int64]], *, dense: bool = False
    ) -> NDArray[np.int64]:
        """Bytes of each rank's rows, about: as if all were of one length."""
        each = row_bytes(self.file)
        if dense:
            each = 24 + self.file.shape[1] * self.dtype.itemsize
        least = each * self.block_rows if self.file.on_disk is True else np.inf
        return np.array([int(min(each * len(own), least)) for own in members])

    @property
    def on_disk(self) -> str:
        """When ranks keep rows on disk, in words; "" for never."""
        if self.file.on_disk != "auto":
            return "all" if self.file.on_disk else ""
        block = bytes_words(row_bytes(self.file) * self.block_rows)
        return f"where they take over {MEMORY_SHARE:.0%} of a rank's memory, then {block} in memory"

    @property
    def block_rows(self) -> int:
        """As many as make a block."""
        return max(1, _BLOCK_BYTES // row_bytes(self.file))


def _rank_rows(examples: Examples | StoredExamples, own: Reading, *, labels: Labels) -> Rows:
    as_rows = partial(_in_memory, rank=own.rank, labels=labels, labels_of=own.file.labels_of)
    if isinstance(examples, StoredExamples):
        return StoredRows(own.rank, examples, as_rows)
    return as_rows(examples)


def _in_memory(
    examples: Examples,
    *,
    rank: int,
    labels: Labels,
    labels_of: Callable[[NDArray[np.float64]], NDArray[Any]],
) -> RankRows:
    own = labels_of(examples.target)
    return rank_rows(rank, examples.data, labels.target(own), labels.weight(own))


def label_mass(file: ExamplesFile, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Samples of each class in a file whose labels are among the classes."""
    mass = np.zeros(len(classes))
    mass[np.searchsorted(classes, classes_of(file))] = file.label_counts
    return mass


def check_file(
    file: ExamplesFile, y: Any, sample_weight: Any, classes: Any, encode: Encode
) -> None:
    """Refuse a file that a classifier with these classes (None: a regression) cannot take.

    Raises
    ------
    InputError
        If y or weights are given beside, a label is none of the classes or no target for
        `encode`, or labels are text and this is a regression.
    """
    if y is not None or sample_weight is not None:
        raise InputError("a file has its own targets, and no weights: give X alone, with y=None")
    if file.wanted.dtype not in (np.float32, np.float64):
        raise InputError(f"values are {file.wanted.dtype}: survey the file with dtype float32 or "
                         "float64")  # fmt: skip
    if classes is None and file.labels is not None and file.labels.dtype.kind == "U":
        raise InputError(
            f"{file.path}: labels are text, such as {str(file.labels[0])!r}, and a regression "
            "learns numbers; use a classifier, or another column"
        )
    known = file.labels if classes is None else classes_of(file)
    if known is not None:
        encode(known, classes)


def classes_of(file: ExamplesFile) -> NDArray[Any]:
    """The labels of a file, if they can be classes (InputError)."""
    if file.labels is None:
        raise InputError(
            f"{file.path}: more than 10,000 labels are no classes; use LinearRegression"
        )
    if file.labels.dtype.kind in "Ub":
        return file.labels
    parts = file.labels[file.labels != np.floor(file.labels)]
    if len(parts):
        raise InputError(
            f"{file.path}: a label is {parts[0]:g}, and classes are whole numbers; for real "
            "targets use a regression"
        )
    return file.labels
