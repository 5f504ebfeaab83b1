"""Samples and what is to be learnt of them, checked and encoded.

X, y, sample_weight ─► csr rows, targets as numbers, weights of mean 1 ─► rows of each rank

classes   0, 1, 2 …, or of two −1, +1          regression   y itself
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from dask.base import tokenize
from numpy.typing import NDArray

from daskpart._floor.checksum import checksum
from daskpart.errors import InputError
from daskpart.models.base.class_weights import check_total
from daskpart.models.base.labels import with_missing
from daskpart.models.base.problem import Problem

from .lazy import answered, ranks_of_chunks
from .rows import members_of_ranks, rank_rows


class Outputs(NamedTuple):
    """What a model answers whose weights were trained elsewhere.

    Attributes
    ----------
    n_outputs : int
    classes : ndarray or None
        None: numbers.
    several : bool
        Whether a sample has several targets.
    """

    n_outputs: int
    classes: NDArray[Any] | None
    several: bool


class Samples(Problem):
    """Checked rows of X and what is to be learnt of them, in this process.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
        Checked.
    target : float64 ndarray of shape (n_samples,) or (n_samples, n_outputs)
        See `encoded` and `class_numbers`; of a regression the numbers themselves.
    n_outputs : int
    sample_weight : float64 ndarray of shape (n_samples,)
        Checked.
    classes : ndarray or None
    class_weights : float64 ndarray like classes, or None
        That are in the sample weights already.

    Attributes
    ----------
    total_weight : float
        Sum of the sample weights.
    """

    unshuffled: ClassVar[str] = "cyclic"  # in a word how samples lie on ranks where nobody shuffles

    def __init__(
        self,
        X: Any,
        target: NDArray[np.float64],
        n_outputs: int,
        sample_weight: NDArray[np.float64],
        classes: NDArray[Any] | None = None,
        class_weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.class_weights = class_weights
        self.X, self.target, self.n_outputs, self.classes = X, target, n_outputs, classes
        self.n_samples, self.n_features = self.X.shape
        self.total_weight = float(sample_weight.sum())
        self.weight = sample_weight * (self.n_samples / self.total_weight)
        self.validation: Samples | None = None

    @property
    def several(self) -> bool:
        """Whether a sample has several targets."""
        return self.target.ndim == 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values: float32 or float64."""
        return np.dtype(np.float32 if self.X.dtype == np.float32 else np.float64)

    @property
    def n_stored(self) -> int:
        """Stored values; where that is not known beforehand all that there can be."""
        return int(self.X.nnz)

    def outputs(self, of_rows: Callable[[Any], NDArray[Any]]) -> NDArray[np.float64]:
        """What a model answers for all samples: ``of_rows(rows)`` of shape (n_rows, n_outputs)."""
        return np.asarray(of_rows(self.X))

    def fingerprint(self) -> str:
        """Shape, and a checksum of all that is learnt from."""
        X = self.X
        check = checksum(X.data, X.indices, X.indptr, self.target, self.weight)
        named = "" if self.classes is None else tokenize(self.classes)[:8]
        return f"{self.n_samples} × {self.n_features}, {check:08x} {named}".strip()

    def fingerprint_of_validation(self) -> str:
        """The same of the samples to measure by."""
        return "" if self.validation is None else self.validation.fingerprint()

    def members(
        self, n_ranks: int, seed: int | None, batch_size: int = 1
    ) -> list[NDArray[np.int64]]:
        """The samples of each rank, in the order in which it holds them; None: `unshuffled`."""
        return members_of_ranks(self.n_samples, n_ranks, batch_size, seed)

    def rows_of(self, members: Sequence[NDArray[np.int64]]) -> Any:
        """Rows of each rank; one rank alone gets no copy."""
        if len(members) == 1:
            return [rank_rows(0, self.X, self.target, self.weight, members[0])]
        return [
            rank_rows(rank, self.X[own], self.target[own], self.weight[own])
            for rank, own in enumerate(members)
        ]

    @property
    def on_disk(self) -> str:
        """When ranks keep rows on disk, in words; "" for never."""
        return ""

    @property
    def block_rows(self) -> int | None:
        """Rows of a rank that are shuffled among themselves in an epoch; None: all."""
        return None

    def steps_of_block(self, batch_size: int) -> int | None:
        """As many steps, at least one; None: all of an epoch."""
        return None if self.block_rows is None else max(1, self.block_rows // batch_size)

    def bytes_of(
        self, members: Sequence[NDArray[np.int64]], *, dense: bool = False
    ) -> NDArray[np.int64]:
        """Bytes of each rank's rows; `dense`: where they hold all their features."""
        row = 16 + self.target.nbytes // self.n_samples  # pointer, weight, targets
        if dense:
            row += self.X.shape[1] * self.dtype.itemsize
            return np.array([row * len(own) for own in members])
        lengths = np.diff(self.X.indptr)
        entry = self.X.data.itemsize + self.X.indices.itemsize
        return np.array([lengths[own].sum() * entry + row * len(own) + 8 for own in members])


class LazySamples(Samples):
    """The same of a Dask array: its rows go from their chunks to their ranks, past the client.

    Parameters
    ----------
    X, target, n_outputs, sample_weight, classes, class_weights
        As of `Samples`.
    columns : ndarray of object, or None
        Names of the features, for errors in chunks.
    """

    def __init__(self, *given: Any, columns: NDArray[Any] | None) -> None:
        super().__init__(*given)
        self.columns = columns

    def fingerprint(self) -> str:
        """Name of the array, and a digest of targets and weights."""
        digest = tokenize(self.X.name, self.target, self.weight, self.classes)
        return f"{self.n_samples} × {self.n_features}, {digest[:16]}"

    @property
    def n_stored(self) -> int:
        """All, as nothing is known before the chunks are read."""
        return self.n_samples * self.n_features

    def outputs(self, of_rows: Callable[[Any], NDArray[Any]]) -> NDArray[np.float64]:
        """The same, computed on the chunks of the samples."""
        found = answered(self.X, self.columns, of_rows, self.n_outputs, np.float64)
        return np.asarray(found.compute())

    def rows_of(self, members: Sequence[NDArray[np.int64]]) -> Any:
        """Rows of each rank, as a Dask collection."""
        return ranks_of_chunks(self.X, members, self.target, self.weight, self.columns)

    def bytes_of(
        self, members: Sequence[NDArray[np.int64]], *, dense: bool = False
    ) -> NDArray[np.int64]:
        """Nothing is known before the chunks are read."""
        return np.zeros(len(members), np.int64)


def encoded(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Labels for one output of two classes, else one a class: ±1, else the number of the class.

    Raises as `class_numbers`.
    """
    target = class_numbers(y, classes)
    return 2.0 * target - 1.0 if len(classes) == 2 else target


def numbers(y: NDArray[Any], classes: Any) -> NDArray[np.float64]:
    """Targets of a regression: themselves."""
    return np.asarray(y, np.float64)


def counts(y: NDArray[Any], classes: Any) -> NDArray[np.float64]:
    """Targets that are counts or rates: themselves (InputError for one below 0)."""
    y = np.asarray(y, np.float64)
    if (y < 0).any():
        raise InputError(
            f"y holds {y.min():g}: counts and rates are 0 or above; other numbers are for a "
            "LinearRegression"
        )
    return y


def class_numbers(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """The number of the class of each label.

    Raises
    ------
    InputError
        For labels that are not among the classes, or fewer than two classes.
    """
    if len(classes) < 2:
        raise InputError(
            f"there is one class only, {classes.tolist()[0]!r}, to learn from: a classifier needs "
            "samples of at least two. Hand it more data, hold out less, or take another target."
        )
    places = np.searchsorted(classes, y)
    places[places == len(classes)] = 0
    strange = np.flatnonzero(classes[places] != y)
    if len(strange):
        found = np.asarray(y)[strange].tolist()[0]
        raise InputError(
            f"y[{strange[0]}] is {found!r}, which is none of the classes {classes.tolist()} that "
            "the model learns (those of eval_set are the fit's); partial_fit takes all of them in "
            "classes= on its first call"
        )
    numbers: NDArray[np.float64] = places.astype(np.float64)
    return numbers


def refuse_missing(y: Any) -> None:
    """Refuse labels of which one is None, NaN or NA (InputError); says which."""
    import pandas as pd

    labels = with_missing(y)
    if labels.ndim != 1 or labels.dtype != object:
        return  # numbers are checked as such
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise InputError(
            f"y[{missing[0]}] is missing, as are {len(missing)} of {len(y)} labels: a classifier "
            "needs all. Leave out the samples without one"
        )


def weights_of(
    sample_weight: NDArray[Any], class_weights: NDArray[Any] | None, y: Any, classes: Any
) -> NDArray[Any]:
    """Weights of the samples times those of their classes (InputError if all are 0)."""
    if class_weights is not None:
        sample_weight = sample_weight * class_weights[np.searchsorted(classes, y)]
    with np.errstate(over="ignore"):  # it is told
        check_total(float(sample_weight.sum()))
    return sample_weight
