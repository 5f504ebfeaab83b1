"""What `daskpart fit logistic`, `svm`, `linear`, `poisson` and `mlp` learn from, read in two ways.

    here     this process ── reads the file ── X, y ── hands rows out ──▶ ranks
    ranks    this process ── surveys it ── ExamplesFile ──▶ ranks, each of which reads its part

The second takes files of any size; rows to judge by are then drawn by `ExamplesFile.split`.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.words import counted
from daskpart.errors import InputError
from daskpart.readers.streams import is_address, is_compressed, location, opened, stored_bytes

from .options import is_typed, refuse

READERS = ("auto", "here", "ranks")
_UNPACKED = 5  # times as large as a compressed file or a parquet file may be what is in it


class SampleSet(NamedTuple):
    """Samples with their labels; what ``fit`` and ``score`` take as X and y.

    Attributes
    ----------
    X : csr_array or ExamplesFile
    y : ndarray, or None
        None: in the file.
    """

    X: Any
    y: NDArray[Any] | None

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.X.shape[0])

    def labels(self) -> NDArray[Any]:
        """Of all samples; of a file they are read for it."""
        if self.y is not None:
            return self.y
        from daskpart.models.samples.file_answers import labels_of_file

        return labels_of_file(self.X)

    def counts(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Classes, rising, and the samples of each."""
        if self.y is not None:
            return np.unique(self.y, return_counts=True)
        from daskpart.models.samples.files import classes_of

        return classes_of(self.X), self.X.label_counts

    def split(self, share: float, seed: Any) -> tuple[SampleSet, SampleSet | None]:
        """The rest, and a share of the samples, None where that is less than one."""
        if int(self.size * share) == 0:
            return self, None
        if self.y is None:
            rest, held = self.X.split(share, random_state=seed)
            return SampleSet(rest, None), SampleSet(held, None)
        order = np.random.default_rng(seed).permutation(self.size)
        places = np.split(order, [int(self.size * share)])
        held, kept = (np.sort(each) for each in places)
        return SampleSet(self.X[kept], self.y[kept]), SampleSet(self.X[held], self.y[held])


def check_samples(source: str, given: dict[str, Any]) -> None:
    """Refuse options of reading that this file, or others of them, leave without use."""
    from daskpart.readers.example_tables import is_table

    if given.get("test") is not None:
        refuse(("test_fraction",), "--test is what it is judged by")
    if given["label"] is not None and Path(source).expanduser().is_file() and not is_table(source):
        refuse(("label",), f"{source} is no table, each line begins with its label")


def read_samples(
    source: str, test: str | None, label: str | None, reader: str
) -> tuple[SampleSet, SampleSet | None, NDArray[Any] | None]:
    """Samples of a file, of the file to judge by, and what a table calls its features.

    Parameters
    ----------
    source : str
        A path, or an address that fsspec knows.
    test : str or None
        Another.
    label : str or None
        Of a table: name or place of the column that is to be learnt.
    reader : str
        One of `READERS`.

    Raises
    ------
    ReadError
        A file that is not there, or cannot be read.
    InputError
        A table without `label`.
    """
    import dask

    from daskpart.readers.example_tables import is_table
    from daskpart.readers.libsvm import read_numbered_alike

    paths = [location(path) for path in (source, test) if path]
    for path in paths:
        with opened(path):  # else what is wrong with the second is told behind the first
            pass
        if label is None and is_table(path):
            raise InputError(f"{path} is a table: say which column is to be learnt, --label COLUMN")
    by_ranks = reader == "ranks" or (reader == "auto" and _is_large(paths))
    if by_ranks:  # which may have been started in another folder
        paths = [path if is_address(path) else str(Path(path).absolute()) for path in paths]
    names = None
    if label is None and not by_ranks:
        sets = [SampleSet(*each) for each in read_numbered_alike(*paths)]
    else:
        # workers need not see what this process reads
        with nullcontext() if by_ranks else dask.config.set(scheduler="threads"):
            files = _surveyed(paths, label)
        if files[0].feature_names is not None:
            names = np.array(files[0].feature_names)
        if by_ranks:
            sets = [SampleSet(file, None) for file in files]
        else:
            sets = [SampleSet(*file.examples_of(range(len(file.blocks)))) for file in files]
    return sets[0], sets[1] if len(sets) > 1 else None, names


def _is_large(paths: list[str]) -> bool:
    """Whether so much text takes more of the memory of this process than a rank gives to rows."""
    from daskpart.models.base.resources import rank_memory
    from daskpart.models.samples.examples import MEMORY_SHARE
    from daskpart.readers.example_tables import is_parquet

    packed = [is_parquet(path) or is_compressed(path) for path in paths]
    sizes = np.array([stored_bytes(path) or 0 for path in paths])
    return bool(sizes @ np.where(packed, _UNPACKED, 1) > MEMORY_SHARE * rank_memory(1))


def _surveyed(paths: list[str], label: str | None) -> list[Any]:
    """The files, surveyed; of one kind and with features of the same numbers."""
    from daskpart.readers.example_tables import table_of
    from daskpart.readers.ranges import numbered_alike, survey

    column: Any = label
    if label is not None:
        named = table_of(paths[0], 0).names or ()
        column = int(label) if label.isdigit() and label not in named else label
    files = [survey(path, label=column) for path in paths]
    return list(numbered_alike(*files)) if len(files) > 1 else files


def hold_out(samples: SampleSet, given: dict[str, Any]) -> tuple[SampleSet, SampleSet | None]:
    """The samples to learn from, and those to judge by.

    Raises
    ------
    InputError
        Where a share that somebody typed comes to less than one sample.
    """
    share = given["test_fraction"]
    rest, held = samples.split(share, given["random_state"])
    if held is None and share and is_typed("test_fraction"):
        raise InputError(
            f"--test-fraction {share:g} holds out 0 of {counted(samples.size, 'sample')}, and both "
            "sides need some: give another, or 0"
        )
    return rest, held
