"""The input of a command: a file or the built-in data as labelled triples; what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from daskpart.containers import LabelledMatrix, as_coo
from daskpart.datasets import load_python_source, train_test_split_ratings
from daskpart.errors import InputError, ReadError
from daskpart.readers import read

BUILT_IN = "python-source"


@dataclass(frozen=True)
class Split:
    """Ratings to learn from, to watch while learning, and to judge by (None: none are held out)."""

    train: LabelledMatrix
    validation: LabelledMatrix | None
    test: LabelledMatrix | None

    def in_words(self) -> str:
        """How many are where, as one line."""
        words = [f"{self.train.nnz:,} to learn from"]
        if self.validation is not None:
            words.append(f"{self.validation.nnz:,} to watch while learning")
        if self.test is not None:
            words.append(f"{self.test.nnz:,} held out to judge by")
        return ", ".join(words)


def load(
    source: str, format: str | None = None, names: tuple[str, str] = ("user", "item")
) -> LabelledMatrix:
    """Read a matrix from a file, or the built-in module × identifier counts.

    Parameters
    ----------
    source : str
        Path, or `BUILT_IN`.
    format : str, optional
        Told from the file without it.
    names : (str, str)
        What rows and columns are called where the file does not say.

    Raises
    ------
    InputError
        Absent or damaged file, unknown format, something that is not a matrix.
    """
    if source == BUILT_IN:
        return as_coo(load_python_source()["counts"])
    if not Path(source).expanduser().exists():
        raise InputError(
            f"{source}: no such file; give a file of ratings or a matrix, or {BUILT_IN!r}, "
            "the data set that needs no file"
        )
    try:
        data = _matrix_of(read(source, format), source)
    except ReadError as error:
        raise ReadError(
            str(error).replace("format= ", "--format ").replace("format=", "--format ")
        ) from error
    matrix = as_coo(data)
    if hasattr(data, "dims"):
        return matrix
    return replace(matrix, row_name=names[0], column_name=names[1])


def _matrix_of(data: Any, source: str) -> Any:
    """The matrix in what a reader gives: examples have one beside the labels, a graph has edges."""
    if hasattr(data, "target"):
        return data.data
    if hasattr(data, "data_vars"):
        if "adjacency" in data:
            return data["adjacency"]
        raise InputError(f"{source} holds {', '.join(map(str, data.data_vars))}: no matrix to cut")
    if len(data.shape) != 2:
        raise InputError(
            f"{source} holds a tensor of {len(data.shape)} modes; this command takes a matrix "
            "(two modes)"
        )
    return data


def hold_out(
    ratings: LabelledMatrix, test_fraction: float, validation_fraction: float, seed: int
) -> Split:
    """Hold out random shares of the ratings; the same seed holds out the same ones.

    The test ratings are those of ``train_test_split_ratings(ratings, test_fraction, seed)``; the
    validation ratings are a share of what is left.

    Raises
    ------
    InputError
        If one side would be empty.
    """
    train, test = _parted(ratings, test_fraction, seed)
    train, validation = _parted(train, validation_fraction, seed)
    return Split(train, validation, test)


def _parted(
    ratings: LabelledMatrix, fraction: float, seed: int
) -> tuple[LabelledMatrix, LabelledMatrix | None]:
    if fraction == 0:
        return ratings, None
    kept, held_out = train_test_split_ratings(ratings.to_xarray(), fraction, seed)
    return as_coo(kept), as_coo(held_out)


def in_words(ratings: LabelledMatrix, source: str) -> str:
    """What was read, as one line."""
    rows, columns = ratings.shape
    density = ratings.nnz / (rows * columns)
    return (
        f"{source}: {ratings.nnz:,} values in {rows:,} {ratings.row_name}s × "
        f"{columns:,} {ratings.column_name}s ({density:.2%} known)"
    )
