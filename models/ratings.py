"""Ratings around a fit: held out for validation, named, and told apart from other ratings."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError

from .kernels.scoring import predict_pairs
from .pairs import entry_positions
from .snapshot import Factors


class Validation:
    """Ratings that training does not see.

    Parameters
    ----------
    ratings : LabelledMatrix
    training : LabelledMatrix or lazy Dask collection
        Its users and items are those that the factors will have.

    Raises
    ------
    InputError
        For users or items that the training ratings do not have.
    """

    def __init__(self, ratings: Any, training: Any) -> None:
        if not isinstance(ratings, LabelledMatrix):
            raise InputError("validation ratings must be in memory; give a sparse container")
        self._values = ratings.values
        self._rows, self._columns = entry_positions(ratings, blank_factors(training, 1, {}))

    def rmse(self, factors: Factors) -> float:
        """Root mean squared error of some factors on these ratings."""
        predicted = np.empty(self._rows.size, np.float32)
        predict_pairs(
            self._rows,
            self._columns,
            factors.user_factors,
            factors.item_factors,
            factors.user_bias,
            factors.item_bias,
            np.float32(factors.global_mean),
            predicted,
        )
        errors = np.subtract(self._values, predicted, dtype=np.float64)
        return float(np.sqrt(np.mean(errors * errors)))


def hold_out(ratings: Any, fraction: float, random_state: int) -> tuple[LabelledMatrix, Validation]:
    """Split off a random share of the ratings.

    Raises
    ------
    InputError
        For a share outside (0, 1), a share that leaves one side empty, or lazy ratings.
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction={fraction!r} must be at least 0 and below 1")
    if not isinstance(ratings, LabelledMatrix):
        raise InputError("validation_fraction needs ratings in memory; give validation=… instead")
    generator = np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(1 << 20,)))
    outside = generator.random(ratings.nnz) < fraction
    if outside.all() or not outside.any():
        raise InputError(
            f"validation_fraction={fraction} of {ratings.nnz} ratings leaves one side empty"
        )
    training = _chosen(ratings, ~outside)
    return training, Validation(_chosen(ratings, outside), training)


def _chosen(ratings: LabelledMatrix, mask: np.ndarray) -> LabelledMatrix:
    return replace(
        ratings,
        rows=ratings.rows[mask],
        columns=ratings.columns[mask],
        values=ratings.values[mask],
    )


def blank_factors(ratings: Any, n_components: int, settings: dict[str, Any]) -> Factors:
    """Factors of zeros with the shape, labels and names of some ratings."""
    n_users, n_items = map(int, ratings.shape)
    names = axis_names(ratings)
    factors = Factors(
        user_factors=np.zeros((n_users, n_components), np.float32),
        item_factors=np.zeros((n_items, n_components), np.float32),
        user_bias=np.zeros(n_users, np.float32),
        item_bias=np.zeros(n_items, np.float32),
        user_gradient=np.ones(n_users, np.float32),
        item_gradient=np.ones(n_items, np.float32),
        user_labels=_labels(ratings, 0),
        item_labels=_labels(ratings, 1),
        user_name=names[0],
        item_name=names[1],
        settings=settings,
    )
    factors.users(), factors.items()  # refuses labels that stand twice, before any work
    return factors


def axis_names(ratings: Any) -> tuple[str, str]:
    """Names of both axes: those of the container, else user and item."""
    if isinstance(ratings, LabelledMatrix):
        return ratings.row_name, ratings.column_name
    dims = getattr(ratings, "dims", ("user", "item"))
    return str(dims[0]), str(dims[1])


def _labels(ratings: Any, axis: int) -> np.ndarray | None:
    if isinstance(ratings, LabelledMatrix):
        return (ratings.row_labels, ratings.column_labels)[axis]
    if not hasattr(ratings, "coords"):
        return None
    name = ratings.dims[axis]
    return np.asarray(ratings.coords[name]) if name in ratings.coords else None


def same_labels(factors: Factors, ratings: Any) -> None:
    """Check that ratings have the users and items of some factors, in the same order.

    Raises
    ------
    InputError
        Names what differs.
    """
    if factors.shape != tuple(map(int, ratings.shape)):
        raise InputError(
            f"the ratings have shape {tuple(ratings.shape)}, the model was fitted on "
            f"{factors.shape}; give ratings of the same users and items"
        )
    for axis, known in enumerate((factors.user_labels, factors.item_labels)):
        given = _labels(ratings, axis)
        same = known is given  # both without labels
        if known is not None and given is not None:
            same = np.array_equal(known, given)
        if not same:
            name = (factors.user_name, factors.item_name)[axis]
            raise InputError(f"the {name} labels differ from those of the fit")


def data_fingerprint(ratings: Any) -> str:
    """A short text that differs for other ratings."""
    if not isinstance(ratings, LabelledMatrix):
        return f"lazy {tuple(map(int, ratings.shape))}"
    checksum = 0
    for array in (ratings.rows, ratings.columns, ratings.values):
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return f"{ratings.nnz} ratings, checksum {checksum:08x}"
