"""The input of a command: a file or the built-in data, as what can be cut; what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.datasets import load_python_source, train_test_split_ratings
from daskpart.errors import InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.readers import read
from daskpart.readers.contents import sparse_inside

BUILT_IN = "python-source"
Cuttable: TypeAlias = LabelledMatrix | LabelledTensor | Hypergraph


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
        return as_matrix(load_python_source()["counts"])
    data = sparse_inside(_read(source, format), source)
    if isinstance(data, Hypergraph) or len(data.shape) != 2:
        what = (
            "a hypergraph"
            if isinstance(data, Hypergraph)
            else f"a tensor of {len(data.shape)} modes"
        )
        raise InputError(f"{source} holds {what}; this command takes a matrix (two modes)")
    return _named(data, names)


def load_any(
    source: str, format: str | None = None
) -> LabelledMatrix | LabelledTensor | Hypergraph:
    """Read whatever can be cut: a matrix as `load` does, a tensor, or a hypergraph."""
    if source == BUILT_IN:
        return load(source)
    data = sparse_inside(_read(source, format), source)
    if isinstance(data, Hypergraph):
        return data
    return as_tensor(data) if len(data.shape) != 2 else _named(data, ("row", "column"))


def _read(source: str, format: str | None) -> Any:
    """What the reader gives; its errors name the option of the command."""
    if not Path(source).expanduser().exists():
        raise InputError(
            f"{source}: no such file; give a file of ratings or a matrix, or {BUILT_IN!r}, "
            "the data set that needs no file"
        )
    try:
        return read(source, format)
    except ReadError as error:
        raise ReadError(
            str(error).replace("format= ", "--format ").replace("format=", "--format ")
        ) from error


def _named(data: Any, names: tuple[str, str]) -> LabelledMatrix:
    matrix = as_matrix(data)
    if hasattr(data, "dims"):
        return matrix
    return replace(matrix, row_name=names[0], column_name=names[1])


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
    return as_matrix(kept), as_matrix(held_out)


def in_words(data: Cuttable, source: str) -> str:
    """What was read, as one line."""
    if isinstance(data, Hypergraph):
        return (
            f"{source}: {data.n_nets:,} nets with {data.n_pins:,} pins on "
            f"{data.n_vertices:,} vertices"
        )
    if isinstance(data, LabelledTensor):
        extents = " × ".join(f"{extent:,}" for extent in data.shape)
        return f"{source}: {data.nnz:,} nonzeros in a tensor of {extents}"
    rows, columns = data.shape
    density = data.nnz / (rows * columns)
    return (
        f"{source}: {data.nnz:,} values in {rows:,} {data.row_name}s × "
        f"{columns:,} {data.column_name}s ({density:.2%} known)"
    )
