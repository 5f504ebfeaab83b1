"""Users and items that the fit had not, taken in behind those it had, without training.

known rows stay ──► new users from their events on known items
                ──► new items from those of all users  ──► new users again, from all items
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from daskpart.containers.matrix import LabelledMatrix
from daskpart.models.matrix_factorization.growing import distance

from .als import OTHER, SIDES
from .state import ImplicitState

Solved = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def grown(
    state: ImplicitState, matrix: LabelledMatrix, solved: Solved
) -> tuple[ImplicitState, float]:
    """A state with rows for all users and items of `matrix`, which continues it.

    Parameters
    ----------
    state : ImplicitState
    matrix : LabelledMatrix
        Events, the users and items of the state first.
    solved : callable
        ``solved(pointer, columns, values, other)``: rows of one side, exactly, from their events on
        rows of the other.

    Returns
    -------
    state : ImplicitState
    distance : float
        Of the new rows to their optimum while those of the other side stay; see `distance`.
    """
    factors: dict[str, np.ndarray] = {}
    data = {"user": matrix, "item": matrix.transposed()}
    known = dict(zip(SIDES, state.shape, strict=True))
    for side, n in zip(SIDES, matrix.shape, strict=True):
        factors[side] = np.zeros((n, state.n_components), np.float32)
        factors[side][: known[side]] = getattr(state, f"{side}_factors")

    def optimum(side: str) -> np.ndarray:
        """Rows of what is new on a side; the other side stays."""
        given, other = data[side], factors[OTHER[side]]
        pointer = given.row_pointer()
        begin = pointer[known[side]]
        own = pointer[known[side] :] - begin
        return solved(own, given.columns[begin:], given.values[begin:], other)

    for side in ("user", "item", "user"):
        factors[side][known[side] :] = optimum(side)
    apart = distance(
        [factors[side][known[side] :] for side in SIDES], [optimum(side) for side in SIDES]
    )
    new: dict[str, Any] = {f"{side}_factors": factors[side] for side in SIDES}
    for side in SIDES:
        for name in ("bias", "gradient"):
            new[f"{side}_{name}"] = np.zeros(len(factors[side]), np.float32)
    new |= {"user_labels": matrix.row_labels, "item_labels": matrix.column_labels}
    return replace(state, **new), apart
