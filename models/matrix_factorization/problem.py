"""Ratings of a fit: checked, named, told apart from others, and held out for validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import scipy.sparse

from daskpart._floor.checks import real_numbers
from daskpart._floor.checksum import checksum
from daskpart.containers.matrix import (
    Columns,
    LabelledMatrix,
    as_matrix,
    from_triples,
    stored_triples,
)
from daskpart.containers.tables import column_from_arrow
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.problem import (
    Problem,
    in_memory,
    is_lazy_array,
    lazy_name,
    refuse_another_order,
)

from .growing import joined
from .pairs import check_names, entry_positions
from .state import MFState, blank_state
from .yes_or_no import as_answers

if TYPE_CHECKING:
    from daskpart.models.metrics import HeldOut

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
    weights : LabelledMatrix or None
        What each rating counts, in the pattern of `matrix`; None: all count 1.
    """

    matrix: Any
    validation: Validation | None = None
    seen_before: Any = None
    known: tuple[int, int] | None = None
    weights: LabelledMatrix | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        columns: Columns = (None, None, None),
        *,
        kind: str = "ratings",
        sample_weight: Any = None,
    ) -> Ratings:
        """From any container; lazy arrays stay as they are.

        Parameters
        ----------
        X : container
        columns : (str or None, str or None, str or None)
        kind : {"ratings", "events", "answers"}
            What is stored: numbers, counts above 0, or yes and no.
        sample_weight : array or container, optional

        Raises
        ------
        InputError
            For values that are not of the kind, and weights that do not fit.
        """
        lazy = is_lazy_array(X)
        if lazy and sample_weight is not None:
            raise InputError("sample_weight needs ratings in memory")
        if lazy:
            return cls(X)
        matrix = _READERS[kind](X, columns)
        if sample_weight is None:
            return cls(matrix)
        repeats: Literal["last", "sum"] = "sum" if kind == "events" else "last"
        weights = _weights_of(X, sample_weight, matrix, columns, repeats)
        counted = weights.values.astype(np.float32) > 0  # as SGD takes them
        if not counted.any():
            raise InputError("sample_weight is 0 everywhere: nothing is left to learn from")
        if counted.all():
            return cls(matrix, weights=weights)
        return cls(_chosen(matrix, counted), weights=_chosen(weights, counted))

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
    def _stored(self) -> str:
        if not self.in_memory:
            return lazy_name(self.matrix)
        return _words_of(self.matrix)

    def fingerprint(self) -> str:
        """A short text that differs for other ratings, and other numbers of users and items."""
        n_users, n_items = self.shape
        return f"{n_users} × {n_items}, {self._stored}" if self.in_memory else self._stored

    def fingerprint_of_validation(self) -> str:
        """A short text that differs for other held-out ratings."""
        return "" if self.validation is None else _words_of(self.validation)

    def identity(self) -> dict[str, Any]:
        """What must be equal for a resumed fit to be the same fit."""
        weights = {} if self.weights is None else {"weights": _words_of(self.weights)}
        return {"data": self._stored, "shape": [*self.shape], **weights}

    def named(self, state: Blank) -> Blank:
        """A state of these ratings with their labels and names, whatever they were called then."""
        (user, item), (users, items) = self.names, self.labels
        state = replace(state, user_labels=users, item_labels=items, user_name=user, item_name=item)
        state.users(), state.items()  # as in a first state: labels that stand twice are refused
        return state

    def blank(self, n_components: int, kind: type[Blank] = MFState) -> Blank:  # type: ignore[assignment]
        """A state of zeros with the shape, labels and names of these ratings."""
        return blank_state(self.shape, n_components, self.names, self.labels, kind)

    def in_order(self, state: Blank) -> Blank:
        """A state with its users and items in the order of these ratings.

        Raises
        ------
        InputError
            When they are not the same users and items; for new ones the state is to be grown first.
        """
        check_names(self.names, state)
        for axis, given, n in zip(("user", "item"), self.labels, self.shape, strict=True):
            known = state.labels_on(axis)
            name, extent = state.axis_name(axis), state.axes()[axis]
            if (known is None) != (given is None):
                raise InputError(
                    f"the {name} labels differ from those of the fit: give both labels, or none"
                )
            if known is None or given is None:
                if n != extent:
                    raise InputError(
                        f"the ratings have shape {self.shape}, the model was fitted on "
                        f"{state.shape}; give ratings of the same users and items"
                    )
                continue
            if np.array_equal(known, given):
                continue
            order = state.index_of(axis).find(given)
            here = np.bincount(order[order >= 0], minlength=extent)
            if n != extent or (here != 1).any():
                raise InputError(
                    f"the {name} labels differ from those of the fit: {(here == 0).sum():,} of its "
                    f"{extent:,} are not in these ratings, and {(order < 0).sum():,} of these are "
                    "new. A fit that goes on trains all: give old and new ratings together, in "
                    "memory"
                )
            state = state.reordered(axis, order, given)
        return state

    def with_validation(
        self,
        given: Any,
        fraction: float,
        random_state: int,
        columns: Columns = (None, None, None),
        *,
        kind: str = "ratings",
    ) -> Ratings:
        """These ratings, less a share that is held out; or beside others that were given."""
        if given is not None:
            if kind == "events" and not self.in_memory:
                raise InputError(
                    "validation_ndcg leaves out what users have in X, and the events of a Dask "
                    "array stay on the workers: give X.compute(), or leave validation out and "
                    "judge by metrics.evaluate_ranking(model, …, exclude_seen=False)"
                )
            other = Ratings.of(given, columns, kind=kind)
            return replace(self, validation=Validation(other.matrix, self.blank(1)))
        if not fraction:
            return self
        training, outside = hold_out(self.matrix, fraction, random_state)
        # positions are those of the fit: names need not be looked up
        outside = replace(outside, row_labels=None, column_labels=None)
        weights = self.weights
        if weights is not None:  # of the same pattern, so the same entries are held out
            weights, _ = hold_out(weights, fraction, random_state)
        validation = Validation(outside, self.blank(1))
        return replace(self, matrix=training, validation=validation, weights=weights)


def _words_of(ratings: LabelledMatrix | Validation) -> str:
    found = checksum(ratings.rows, ratings.columns, ratings.values)
    return f"{ratings.values.size} ratings, checksum {found:08x}"


def as_events(X: Any, columns: Columns = (None, None, None)) -> LabelledMatrix:
    """Counts of events from any container; positions that come more than once are added up.

    Raises
    ------
    InputError
        For counts that are not above 0.
    """
    triples = stored_triples(X, columns, True)
    matrix = from_triples(*triples, repeats="sum")
    check_counts(float(np.min(triples[2])))  # before they are added up
    return matrix


_READERS: dict[str, Callable[..., LabelledMatrix]] = {
    "ratings": as_matrix,
    "events": as_events,
    "answers": as_answers,
}


def check_counts(lowest: float) -> None:
    """Refuse counts of events, the lowest of which is given, that are not above 0 (InputError)."""
    if lowest <= 0:
        raise InputError(
            f"the counts go down to {lowest:g}: an event has a count above 0. "
            "Leave the others out, as by X.eliminate_zeros() or a mask; where they are a no, "
            'MatrixFactorization(loss="logistic") learns from it'
        )


def _weights_of(
    X: Any,
    given: Any,
    matrix: LabelledMatrix,
    columns: Columns,
    repeats: Literal["last", "sum"],
) -> LabelledMatrix:
    """Weights in the pattern of the ratings: a container of that pattern, or one an entry of X.

    Raises
    ------
    InputError
        For other entries or names than those of the ratings, and weights that cannot be.
    """
    import pandas as pd  # here, as ranks import this module

    given = column_from_arrow(given)
    if getattr(given, "ndim", 2) == 1:
        given = in_memory(given, "sample weights")
    if isinstance(given, np.ndarray | pd.Series | list) and np.ndim(given) == 1:
        rows, items, values, *more = stored_triples(X, columns, repeats == "sum")
        if len(given) != len(values):
            raise InputError(
                f"sample_weight has length {len(given)} for {len(values)} stored ratings: give one "
                "a rating, in the order in which X has them, or a container of their pattern"
            )
        refuse_another_order(X, given, "sample_weight")
        real_numbers(given, "sample weight")  # else they were refused as ratings
        with warnings.catch_warnings():  # of ratings that come twice it was said already
            warnings.simplefilter("ignore", DaskpartWarning)
            weights = from_triples(rows, items, np.asarray(given), *more, repeats=repeats)
    else:  # by names, as they may come in another order than those of the ratings
        weights = joined(as_matrix(given, columns), Ratings(matrix).blank(1))
    alike = all(
        np.array_equal(getattr(weights, name), getattr(matrix, name))
        for name in ("rows", "columns")
    )
    if not alike or weights.shape != matrix.shape:
        raise InputError("sample_weight stores other entries than X: give a weight for each rating")
    if weights.values.min() < 0:
        raise InputError(f"sample_weight goes down to {weights.values.min():g}: give 0 or more")
    if weights.values.max() > np.finfo(np.float32).max:
        raise InputError(
            f"sample_weight goes up to {weights.values.max():g}, beyond the range of float32 "
            "(3e38): divide the weights by a constant"
        )
    return weights


class Validation:
    """Ratings that training does not see.

    Parameters
    ----------
    ratings : LabelledMatrix
    state : MFState
        With the users and items of the fit.

    Attributes
    ----------
    rows, columns : int array of shape (n,)
        Users and items of the fit.
    values : ndarray of shape (n,)

    Raises
    ------
    InputError
        For users or items that the training ratings do not have.
    """

    def __init__(self, ratings: Any, state: MFState) -> None:
        if not isinstance(ratings, LabelledMatrix):
            raise InputError("validation ratings must be in memory; give a sparse container")
        self._ratings, self._state, self.values = ratings, state, ratings.values
        self.rows, self.columns = entry_positions(ratings, state)

    def events(self, seen: scipy.sparse.csr_array) -> HeldOut:
        """These ratings as events to be offered, less what was seen in training."""
        from daskpart.models.metrics import HeldOut

        return HeldOut(self._ratings, self._state, seen)


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
