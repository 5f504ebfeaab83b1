"""From what a user holds to positions in the factors: pairs of labels, or a container's pattern.

[("ann", "tea"), …]   (n, 2) array   DataFrame   ──►  rows, columns: int32 of shape (n,)
sparse container with or without labels          ──►  the same, one for each stored entry
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from daskpart.containers.matrix import LabelledMatrix, pair_columns
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.labels import LabelIndex

from .state import MFState

_ALLOWED = (
    "give pairs as an array of shape (n, 2), a list of (user, item), a DataFrame with a user and "
    "an item column, or a sparse container whose pattern is predicted"
)


def is_pairs(data: Any) -> bool:
    """Whether `data` lists pairs, rather than being a sparse container."""
    return isinstance(data, pd.DataFrame | np.ndarray | list | tuple)


def pair_positions(pairs: Any, factors: MFState) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both factors for each (user, item) pair of labels.

    Raises
    ------
    InputError
        When these are not pairs, or labels are unknown (names the first and how many).
    """
    users, items = _columns_of_frame(pairs, factors) if _is_frame(pairs) else _columns(pairs)
    return factors.users().positions(users), factors.items().positions(items)


def entry_positions(matrix: LabelledMatrix, factors: MFState) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both factors for each stored entry; labels are matched where `matrix` has them.

    Raises
    ------
    InputError
        When entries lie outside the model, or in rows or columns whose labels are unknown.
    """
    if matrix.row_labels is None and matrix.shape[0] != factors.n_users:
        warnings.warn(
            f"{matrix.shape[0]} unlabelled rows for a model of {factors.n_users} "
            f"{factors.user_name}s: row i is taken for {factors.user_name} i. Label the rows where "
            "they are others, as in cross-validation.",
            DaskpartWarning,
            stacklevel=3,
        )
    users = side_positions(matrix.rows, matrix.row_labels, factors.users())
    return users, item_positions(matrix, factors)


def item_positions(matrix: LabelledMatrix, factors: MFState) -> np.ndarray:
    """The item of each stored entry.

    Raises
    ------
    InputError
        For labels that are unknown, and without labels for another number of columns.
    """
    if matrix.column_labels is None and matrix.shape[1] != factors.n_items:
        raise InputError(
            f"the ratings have {matrix.shape[1]} columns without labels, the model knows "
            f"{factors.n_items} {factors.item_name}s: give as many columns, or label them"
        )
    return side_positions(matrix.columns, matrix.column_labels, factors.items())


def side_positions(entries: np.ndarray, labels: np.ndarray | None, index: LabelIndex) -> np.ndarray:
    """Positions in the model of `entries`, which count along an axis with `labels` (or none)."""
    used = np.unique(entries)
    if labels is None:  # unlabelled: a position means the same here and in the model
        return LabelIndex(None, index.n, index.name).positions(used)[np.searchsorted(used, entries)]
    return index.positions(labels[used])[np.searchsorted(used, entries)]


def _is_frame(pairs: Any) -> bool:
    return isinstance(pairs, pd.DataFrame)


def _columns_of_frame(frame: pd.DataFrame, factors: MFState) -> tuple[Any, Any]:
    if factors.user_name in frame.columns and factors.item_name in frame.columns:
        return frame[factors.user_name], frame[factors.item_name]
    places = pair_columns(frame)
    if places is not None:
        return frame.iloc[:, places[0]], frame.iloc[:, places[1]]
    raise InputError(
        f"the DataFrame has no columns {factors.user_name!r} and {factors.item_name!r}: it has "
        f"{', '.join(map(str, frame.columns[:8]))}; {_ALLOWED}."
    )


def _columns(pairs: Any) -> tuple[Any, Any]:
    if isinstance(pairs, np.ndarray):
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(f"an array of shape {pairs.shape} does not list pairs; {_ALLOWED}.")
        return pairs[:, 0], pairs[:, 1]
    # columns are taken apart before numpy sees them: it would make one dtype of both
    wrong = [p for p in pairs if isinstance(p, str) or not hasattr(p, "__len__") or len(p) != 2]
    if wrong:
        raise InputError(f"{wrong[0]!r} is not a pair; {_ALLOWED}.")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
