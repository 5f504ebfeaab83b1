"""Ratings of users and items that the model has not met, for `partial_fit`: labels grow.

    state: ann bob │ tea jam        batch: bob zoe │ jam ham
    joined: ann bob zoe │ tea jam ham        what was known stays where it is

A new user's row is the best one (see `fold_in`) against the items that it rated and the model knows
(`fold_in`), a new item's that against its users, the new ones among them; then the epoch of
`partial_fit` trains all that the batch touches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from daskpart.containers.matrix import LabelledMatrix, from_triples
from daskpart.models.base.labels import more_labels

from .fold_in import solve_rows
from .pairs import check_names
from .rank_data import fill_starting_rows
from .scaling import split_unit
from .state import MFState


def joined(matrix: LabelledMatrix, state: MFState) -> LabelledMatrix:
    """The ratings in the positions of a state, with what is new behind what is known.

    Without labels on either side positions are what they are.

    Raises
    ------
    InputError
        For rows and columns the other way round, and new labels of another kind.
    """
    check_names((matrix.row_name, matrix.column_name), state)
    rows, row_labels, n_rows = _side(matrix.row_labels, matrix.shape[0], state, "user")
    columns, column_labels, n_columns = _side(matrix.column_labels, matrix.shape[1], state, "item")
    if row_labels is matrix.row_labels and column_labels is matrix.column_labels:
        return matrix
    return from_triples(
        rows[matrix.rows], columns[matrix.columns], matrix.values, (n_rows, n_columns),
        row_labels, column_labels, state.user_name, state.item_name,
    )  # fmt: skip


def _side(labels: Any, n: int, state: MFState, axis: str) -> tuple[np.ndarray, Any, int]:
    """Where each entry of an axis goes; the labels of the axis then, and their number."""
    known, places = state.labels_on(axis), np.arange(n)
    if labels is None or known is None or np.array_equal(labels, known):
        return places, labels, n
    found = state.index_of(axis).find(labels).astype(np.int64)
    new = found < 0
    found[new] = len(known) + np.arange(int(new.sum()))
    every = more_labels(known, labels[new], state.axis_name(axis)) if new.any() else known
    return found, every, len(every)


def continues(matrix: LabelledMatrix, state: MFState) -> bool:
    """Whether users and items of `matrix` are those of a state with others behind them."""
    sides = _labels(matrix, state)
    if state.shape == matrix.shape or any(one is None or other is None for one, other in sides):
        return False
    return all(np.array_equal(known, labels[: len(known)]) for known, labels in sides)


def has_the_same(matrix: LabelledMatrix, state: MFState) -> bool:
    """Whether users and items of `matrix` are those of a state, in its order."""
    sides = _labels(matrix, state)
    return state.shape == matrix.shape and all(np.array_equal(*side) for side in sides)


def _labels(matrix: LabelledMatrix, state: MFState) -> list[tuple[Any, Any]]:
    """Of users and of items the labels of a state and of `matrix`."""
    return [(state.user_labels, matrix.row_labels), (state.item_labels, matrix.column_labels)]


def grown(
    state: MFState,
    matrix: LabelledMatrix,
    *,
    regularization: float,
    biases: bool,
    init_scale: float,
    random_state: int,
    nonnegative: bool = False,
    loss: str = "squared",
    weights: LabelledMatrix | None = None,
) -> MFState:
    """A state with rows for all users and items of `matrix`, which continues it.

    `weights` are those of its entries. By BPR, under which a row is no problem of its own, new ones
    are as at the start of a fit. Those without an entry are zeros, as in a fit.
    """
    (n_users, n_items), shape = state.shape, matrix.shape
    scale = init_scale * np.sqrt(state.trained_unit)
    new: dict[str, Any] = {}
    sides = (("user", n_users, matrix.rows), ("item", n_items, matrix.columns))
    for (side, old, entries), n in zip(sides, shape, strict=True):
        rows = np.zeros((n, state.n_components), np.float32)
        fill_starting_rows(rows, side, random_state, scale)
        rows = np.abs(rows) if nonnegative else rows
        rows[np.bincount(entries, minlength=n) == 0] = 0
        rows[:old] = getattr(state, f"{side}_factors")
        new[f"{side}_factors"] = rows
        for name, start in (("bias", 0.0), ("gradient", 1.0)):
            filled = np.full(n, start, np.float32)
            filled[:old] = getattr(state, f"{side}_{name}")
            new[f"{side}_{name}"] = filled
    state = replace(state, **new, user_labels=matrix.row_labels, item_labels=matrix.column_labels)
    if loss == "bpr":
        return state
    of_users, of_items = split_unit(state.trained_unit)
    how = (regularization, biases, nonnegative, loss == "logistic")
    _fold_in(state, matrix, weights, n_users, n_items, *how)
    turned, others = _turned(state), matrix.transposed()
    _fold_in(turned, others, _transposed(weights), n_items, shape[0], *how)
    state.item_factors[n_items:] = turned.user_factors[n_items:] * np.float32(of_items / of_users)
    state.item_bias[n_items:] = turned.user_bias[n_items:]
    return state


def new_rows_distance(
    state: MFState,
    matrix: LabelledMatrix,
    known: tuple[int, int],
    regularization: float,
    biases: bool,
    nonnegative: bool = False,
    loss: str = "squared",
    weights: LabelledMatrix | None = None,
) -> float:
    """‖Z − Z*‖ / ‖Z*‖ over the rows, biases among them, of users and items that are new.

    Z are the rows as they are, Z* the best of each for its ratings in `matrix`, the rows of the
    other side as they are.

    Parameters
    ----------
    state : MFState
    matrix : LabelledMatrix
        In the positions of the state.
    known : (int, int)
        Users and items that stand before the new ones.
    regularization : float
    biases, nonnegative : bool
    loss : {"squared", "logistic"}
    weights : LabelledMatrix, optional
        Of the ratings, entry by entry.
    """
    new, optima = [], []
    for side, ratings, counts, n_known in (
        (state, matrix, weights, known[0]),
        (_turned(state), matrix.transposed(), _transposed(weights), known[1]),
    ):
        best = replace(side, user_factors=side.user_factors.copy(), user_bias=side.user_bias.copy())
        how = (regularization, biases, nonnegative, loss == "logistic")
        _fold_in(best, ratings, counts, n_known, ratings.shape[1], *how)
        for name in ("user_factors", "user_bias"):
            new.append(getattr(side, name)[n_known:])
            optima.append(getattr(best, name)[n_known:])
    return distance(new, optima)


def distance(rows: list[np.ndarray], optima: list[np.ndarray]) -> float:
    """‖Z − Z*‖ / ‖Z*‖ over all of these rows Z together; 0 where Z* is."""
    apart = sum(
        float(np.square(one - best.astype(np.float64)).sum())
        for one, best in zip(rows, optima, strict=True)
    )
    whole = sum(float(np.square(best.astype(np.float64)).sum()) for best in optima)
    return float(np.sqrt(apart / whole)) if whole else 0.0


def _turned(state: MFState) -> MFState:
    """The same model with users and items exchanged."""
    of_users, of_items = split_unit(state.trained_unit)
    return replace(
        state,
        user_factors=state.item_factors * np.float32(of_users / of_items),
        item_factors=state.user_factors * np.float32(of_items / of_users),
        user_bias=state.item_bias, item_bias=state.user_bias,
        user_gradient=state.item_gradient, item_gradient=state.user_gradient,
        user_labels=state.item_labels, item_labels=state.user_labels,
    )  # fmt: skip


def _transposed(weights: LabelledMatrix | None) -> LabelledMatrix | None:
    return None if weights is None else weights.transposed()


def _fold_in(
    state: MFState,
    matrix: LabelledMatrix,
    weights: LabelledMatrix | None,
    n_known: int,
    n_others: int,
    regularization: float,
    biases: bool,
    nonnegative: bool,
    logistic: bool,
) -> None:
    """Solve the users behind `n_known` from their ratings of the first `n_others`, in place."""
    chosen = (matrix.rows >= n_known) & (matrix.columns < n_others)
    rows = matrix.rows[chosen] - n_known
    counts = np.bincount(rows, minlength=matrix.shape[0] - n_known)
    pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    found, bias = solve_rows(
        pointer, matrix.columns[chosen], matrix.values[chosen], state, regularization, biases,
        nonnegative, None if weights is None else weights.values[chosen], logistic=logistic,
    )  # fmt: skip
    rated = np.flatnonzero(counts)
    state.user_factors[n_known + rated] = found[rated]
    state.user_bias[n_known + rated] = bias[rated]
