"""Ratings of a fit: checked, named, told apart from others, and held out for validation."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from daskpart.containers.matrix import Columns, LabelledMatrix, as_matrix, is_dask_frame
from daskpart.errors import InputError
from daskpart.models.base.problem import Problem, is_lazy

from .pairs import entry_positions
from .predicting import predictions
from .state import MFState, blank_state

Blank = TypeVar("Blank", bound=MFState)


@dataclass(eq=False)
class Ratings(Problem):
    """What is factorized.

    Attributes
    ----------
    matrix : LabelledMatrix or lazy Dask collection
    validation : Validation or None
        Ratings that training does not see.
    seen_before : csr_array of bool or None
        Pattern of earlier ratings that a fit goes on from.
    known : (int, int) or None
        Users and items of that fit.
    """

    matrix: Any
    validation: Validation | None = None
    seen_before: Any = None
    known: tuple[int, int] | None = None

    @classmethod
    def of(cls, X: Any, columns: Columns = (None, None, None)) -> Ratings:
        """From any container of ratings; lazy arrays stay as they are."""
        stays = is_lazy(X) and not is_dask_frame(X)
        return cls(X if stays else as_matrix(X, columns))

    @property
    def in_memory(self) -> bool:
        """Whether the ratings are in this process."""
        return isinstance(self.matrix, LabelledMatrix)

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""
        n_users, n_items = map(int, self.matrix.shape)
        return n_users, n_items

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """N."""
        return self.shape[1]

    @property
    def names(self) -> tuple[str, str]:
        """Names of both axes: those of the container, else user and item."""
        if self.in_memory:
            return self.matrix.row_name, self.matrix.column_name
        dims = getattr(self.matrix, "dims", ("user", "item"))
        return str(dims[0]), str(dims[1])

    @property
    def labels(self) -> tuple[Any, Any]:
        """Names of users and of items; None where they have none."""
        if self.in_memory:
            return self.matrix.row_labels, self.matrix.column_labels
        if not hasattr(self.matrix, "coords"):
            return None, None
        coords = self.matrix.coords
        user, item = (
            np.asarray(coords[name]) if name in coords else None for name in self.matrix.dims
        )
        return user, item

    @cached_property
    def _fingerprint(self) -> str:
        if not self.in_memory:
            return f"lazy {self.shape}"
        checksum = 0
        for array in (self.matrix.rows, self.matrix.columns, self.matrix.values):
            checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        return f"{self.matrix.nnz} ratings, checksum {checksum:08x}"

    def fingerprint(self) -> str:
        """A short text that differs for other ratings."""
        return self._fingerprint

    def identity(self) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        return {"data": self.fingerprint(), "shape": [*self.shape]}

    def blank(self, n_components: int, kind: type[Blank] = MFState) -> Blank:  # type: ignore[assignment]
        """A state of zeros with the shape, labels and names of these ratings."""
        return blank_state(self.shape, n_components, self.names, self.labels, kind)

    def check_same(self, state: MFState) -> None:
        """Check that these are the users and items of a state, in the same order (InputError)."""
        if state.shape != self.shape:
            raise InputError(
                f"the ratings have shape {self.shape}, the model was fitted on {state.shape}; give "
                "ratings of the same users and items"
            )
        known_labels = (state.user_labels, state.item_labels)
        names = (state.user_name, state.item_name)
        for name, known, given in zip(names, known_labels, self.labels, strict=True):
            same = known is given  # both without labels
            if known is not None and given is not None:
                same = np.array_equal(known, given)
            if not same:
                raise InputError(f"the {name} labels differ from those of the fit")

    def with_validation(
        self,
        given: Any,
        fraction: float,
        random_state: int,
        columns: Columns = (None, None, None),
    ) -> Ratings:
        """These ratings, less a share that is held out; or beside others that were given."""
        if given is not None:
            if fraction:
                raise InputError("give validation=… or validation_fraction, not both")
            other = Ratings.of(given, columns)
            return replace(self, validation=Validation(other.matrix, self.blank(1)))
        if not fraction:
            return self
        training, outside = hold_out(self.matrix, fraction, random_state)
        return replace(self, matrix=training, validation=Validation(outside, self.blank(1)))


class Validation:
    """Ratings that training does not see.

    Parameters
    ----------
    ratings : LabelledMatrix
    state : MFState
        With the users and items of the fit.

    Raises
    ------
    InputError
        For users or items that the training ratings do not have.
    """

    def __init__(self, ratings: Any, state: MFState) -> None:
        if not isinstance(ratings, LabelledMatrix):
            raise InputError("validation ratings must be in memory; give a sparse container")
        self._values = ratings.values
        self._rows, self._columns = entry_positions(ratings, state)

    def rmse(self, state: MFState, ends: tuple[float, float] | None = None) -> float:
        """Root mean squared error of a state on these ratings, predictions clipped to `ends`."""
        predicted = predictions(state, self._rows, self._columns)
        if ends is not None:
            np.clip(predicted, *ends, out=predicted)
        errors = np.subtract(self._values, predicted, dtype=np.float64)
        return float(np.sqrt(np.mean(errors * errors)))


def hold_out(
    ratings: Any, fraction: float, random_state: int
) -> tuple[LabelledMatrix, LabelledMatrix]:
    """Split off a random share of the ratings: what stays, and the share.

    Raises
    ------
    InputError
        For a share that leaves one side empty, or lazy ratings.
    """
    if not isinstance(ratings, LabelledMatrix):
        raise InputError("validation_fraction needs ratings in memory; give validation=… instead")
    generator = np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(1 << 20,)))
    outside = generator.random(ratings.nnz) < fraction
    if outside.all() or not outside.any():
        raise InputError(
            f"validation_fraction={fraction} of {ratings.nnz} ratings leaves one side empty"
        )
    return _chosen(ratings, ~outside), _chosen(ratings, outside)


def _chosen(ratings: LabelledMatrix, mask: np.ndarray) -> LabelledMatrix:
    return replace(
        ratings,
        rows=ratings.rows[mask],
        columns=ratings.columns[mask],
        values=ratings.values[mask],
    )
