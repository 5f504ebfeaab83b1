"""From what a user holds to positions in the factors: pairs of labels, or a container's pattern.

[("ann", "tea"), …]   (n, 2) array   DataFrame   ──►  rows, columns: int32 of shape (n,)
sparse container with or without labels          ──►  the same, one for each stored entry
"""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from daskpart._floor.checks import one_of
from daskpart._floor.distinct import distinct
from daskpart._floor.words import plural
from daskpart.containers.column_names import Columns, pair_columns
from daskpart.containers.matrix import LabelledMatrix
from daskpart.containers.tables import is_dask_frame
from daskpart.errors import InputError, warn
from daskpart.models.base.labels import LabelIndex

from .state import MFState

UNKNOWN = ("raise", "mean", "nan")
_ALLOWED = (
    "give pairs as an array of shape (n, 2), a list of (user, item), a DataFrame with a user and "
    "an item column, or a sparse container whose pattern is predicted"
)


def is_pairs(data: Any) -> bool:
    """Whether `data` lists pairs, rather than being a sparse container."""
    import pandas as pd  # here, as ranks import this module

    return isinstance(data, pd.DataFrame | np.ndarray | list | tuple) or is_dask_frame(data)


def refuse_one_side(data: Any) -> None:
    """Refuse a name by itself, and the names of one side: ``predict(user, item)`` (InputError)."""
    is_name = isinstance(data, str | Number)
    if is_name or getattr(data, "ndim", 2) < 2:
        told = repr(data) if is_name else f"a {type(data).__qualname__} of one dimension"
        raise InputError(f"{told} does not list pairs; {_ALLOWED}.")


def pair_positions(
    pairs: Any,
    factors: MFState,
    unknown: str = "raise",
    columns: Columns = (None, None, None),
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both factors for each (user, item) pair of labels.

    Parameters
    ----------
    pairs : array, list or DataFrame
    factors : MFState
    unknown : {"raise", "mean", "nan"}
        Whether labels that the model does not know are refused, or come back as −1.
    columns : tuple
        Names of the columns of a DataFrame, as for `as_matrix`.

    Raises
    ------
    InputError
        When these are not pairs, or labels are unknown (names the first and how many).
    """
    import pandas as pd

    if isinstance(pairs, pd.DataFrame) or is_dask_frame(pairs):
        chosen = pairs.iloc[:, [*pair_places(pairs, factors, columns)]]
        chosen = chosen.compute() if is_dask_frame(chosen) else chosen
        users, items = chosen.iloc[:, 0], chosen.iloc[:, 1]
    else:
        users, items = _columns(pairs)
    return _looked_up(factors.users(), users, unknown), _looked_up(factors.items(), items, unknown)


def _looked_up(index: LabelIndex, labels: Any, unknown: str | None) -> np.ndarray:
    if unknown is None:
        return index.positions(labels)
    one_of(unknown, "unknown", UNKNOWN)
    if unknown == "raise":
        return index.positions(labels, "say unknown='nan'")
    return index.find(labels)


def check_names(names: tuple[str, str], factors: MFState) -> None:
    """Refuse rows and columns that are named the other way round in the model (InputError)."""
    rows, columns = names
    if rows != columns and (columns, rows) == (factors.user_name, factors.item_name):
        raise InputError(
            f"rows are {plural(rows)} and columns are {plural(columns)}, which is the other way "
            "round in the model: give the transpose"
        )


def entry_positions(
    matrix: LabelledMatrix, factors: MFState, unknown: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both factors for each stored entry; labels are matched where `matrix` has them.

    `unknown` is that of `pair_positions`; None: refused, where the caller knows no such option.

    Raises
    ------
    InputError
        When entries lie outside the model, or in rows or columns whose labels are unknown; when
        rows and columns are named the other way round.
    """
    items = item_positions(matrix, factors, unknown)
    if matrix.row_labels is None and matrix.shape[0] != factors.n_users:
        warn(
            f"{matrix.shape[0]} unlabelled rows for a model of {factors.n_users} "
            f"{plural(factors.user_name)}: row i is taken for {factors.user_name} i. Label the "
            "rows where they are others, as in cross-validation."
        )
    return side_positions(matrix.rows, matrix.row_labels, factors.users(), unknown), items


def item_positions(
    matrix: LabelledMatrix, factors: MFState, unknown: str | None = None
) -> np.ndarray:
    """The item of each stored entry.

    Raises
    ------
    InputError
        For labels that are unknown, and without labels for another number of columns; when rows
        and columns are named the other way round.
    """
    check_names((matrix.row_name, matrix.column_name), factors)
    if matrix.column_labels is None and matrix.shape[1] != factors.n_items:
        raise InputError(
            f"the ratings have {matrix.shape[1]} columns without labels, the model knows "
            f"{factors.n_items} {plural(factors.item_name)}: give as many columns, or label them"
        )
    return side_positions(matrix.columns, matrix.column_labels, factors.items(), unknown)


def side_positions(
    entries: np.ndarray, labels: np.ndarray | None, index: LabelIndex, unknown: str | None = None
) -> np.ndarray:
    """Positions in the model of `entries`, which count along an axis with `labels` (or none)."""
    used = distinct(entries, int(entries.max(initial=-1)) + 1)
    if labels is None:  # unlabelled: a position means the same here and in the model
        _looked_up(LabelIndex(None, index.n, index.name), used, unknown)  # refuses
        return np.where(entries < index.n, entries, -1)
    places = np.full(len(labels), -1, np.int32)
    places[used] = _looked_up(index, labels[used], unknown)
    return places[entries]


def pair_places(frame: Any, factors: MFState, columns: Columns) -> tuple[int, int]:
    """Places of user and item in a DataFrame of pairs: named as in the fit, or as people do.

    Raises
    ------
    InputError
        When names do not tell.
    """
    names = [str(name) for name in frame.columns]
    if factors.user_name in names and factors.item_name in names:
        return names.index(factors.user_name), names.index(factors.item_name)
    places = pair_columns(frame, columns)
    if places is not None:
        return places
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
