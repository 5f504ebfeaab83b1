"""Labels of vertices, of which some are known: classes, several classes, or numbers.

unlabelled    of classes −1, NaN or None      (in a table of several columns: NaN in any, or −1 in
                                              all; among texts "-1" and "")
              of numbers NaN, in any column
              of either what a numpy.ma.MaskedArray masks

Pandas and scikit-learn are imported where y is read: ranks, which import this file too, never do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.containers.coordinates import as_labels, is_a
from daskpart.errors import InputError
from daskpart.models.base.labels import sorting_labels, with_missing
from daskpart.models.base.problem import dense_targets, refuse_times_as_targets


@dataclass(frozen=True, eq=False)
class Targets:
    """What is known of each vertex.

    Attributes
    ----------
    values : ndarray of shape (n,) or (n, n_columns)
        Class numbers, 0 and 1 of several classes, or numbers; whatever where unlabelled.
    labelled : ndarray of bool, shape (n,)
    classes : ndarray or None
        None: numbers.
    n_outputs : int
        Columns of the network's output.
    kind : {"classes", "several", "numbers"}
    columns : ndarray or None
        Names of the columns of numbers, where y has them.
    """

    values: NDArray[Any]
    labelled: NDArray[np.bool_]
    classes: NDArray[Any] | None
    n_outputs: int
    kind: str
    columns: NDArray[Any] | None = None

    def at(self, rows: NDArray[np.int64]) -> Targets:
        """In another order; unlabelled where a row is −1."""
        labelled = self.labelled[rows] & (rows >= 0)
        return replace(self, values=self.values[rows], labelled=labelled)

    def spreads(self, chosen: NDArray[np.bool_]) -> tuple[float, ...]:
        """Of numbers: the sum of squares of each column around its mean, over chosen vertices."""
        values = self.values[chosen]
        if self.kind != "numbers" or not len(values):
            return ()
        return tuple(np.square(values - values.mean(axis=0)).sum(axis=0).tolist())

    @property
    def terms_a_vertex(self) -> int:
        """Labelled values of a vertex."""
        return 1 if self.kind == "classes" else self.n_outputs


def _plain(y: Any) -> NDArray[Any]:
    if is_a(y, "xarray", "DataArray") or is_a(y, "dask.array", "Array"):
        y = np.asarray(y)
    if np.ma.isMaskedArray(y):
        masked, y = np.ma.getmaskarray(y), np.ma.getdata(y).astype(object)
        y[masked] = None
    y = dense_targets(y)  # MultiLabelBinarizer gives a sparse one
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    try:
        found = with_missing(y)
    except ValueError:
        raise InputError(
            "y is a list whose rows differ in length: give a label, or a row of as many columns, "
            "for each vertex, of NaN where it is unlabelled"
        ) from None
    if found.dtype == object:  # of pandas; its NA is no number, nor made one
        import pandas as pd

        found = np.where(pd.isna(found), np.nan, found)
    if found.dtype == np.float16:  # of which pandas makes no index
        found = found.astype(np.float32)
    if found.ndim == 2 and found.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        found = column_or_1d(found, warn=True)
    if found.ndim not in (1, 2) or 0 in found.shape[1:]:
        raise InputError(f"y has shape {found.shape}; give one label, or one row, for each vertex")
    if found.dtype.kind in "fO" and np.isin(found, (np.inf, -np.inf)).any():
        raise InputError(
            "Input y contains infinity or a value too large for its type: label with finite numbers"
        )
    return found


def class_targets(y: Any, classes: Any = None, *, to_judge: bool = False) -> Targets:
    """Classes of vertices, or a table of 0 and 1, a column for each class.

    Parameters
    ----------
    y : array-like
    classes : ndarray or None
        All classes there are, each once, in the order of the outputs, which is that of the columns
        of a table; None: those in y, sorted, or the names of the columns, else their numbers.
    to_judge : bool
        Of a model that knows `classes`: other labels count, as number −1, which no answer has.

    Raises
    ------
    InputError
        For labels out of range, or where no vertex is labelled, or all are of one class.
    """
    import pandas as pd

    given = _plain(y)
    if given.ndim == 2:
        return _several(*_by_name(y, given, classes, "the classes are"))
    unknown = pd.isna(given)
    plain = (int, float, np.integer, np.floating)
    if given.dtype.kind in "iuf" or (  # a duration of NumPy would pass for a whole number
        given.dtype == object and all(isinstance(label, plain) for label in given[~unknown])
    ):
        numbers = np.where(unknown, np.nan, given).astype(np.float64)
        whole = numbers[~unknown]
        if (whole != np.floor(whole)).any():
            raise InputError(
                "Unknown label type: continuous. y holds numbers that are not whole; give classes, "
                "or use GCNRegressor"
            )
        unknown |= numbers == -1
        if (numbers[~unknown] < 0).any():
            worst = int(numbers[~unknown].min())
            raise InputError(
                f"label {worst} is out of range: classes are numbered from 0, −1 is unlabelled"
            )
    else:
        unknown |= np.isin(given.astype(str), ("-1", ""))  # of a file of texts
    _require_some(~unknown)
    known = given[~unknown]
    if given.dtype == object and len({type(label) for label in known}) == 1:
        known = np.array(known.tolist())
    if known.dtype.kind == "f" and unknown.any():  # whole numbers, which NaN had made floats
        known = known.astype(np.int64)
    with sorting_labels(known):
        found, codes = np.unique(known, return_inverse=True)
    if classes is not None:
        names = classes
        places = pd.Index(names).get_indexer(pd.Index(found))
        if (places < 0).all() if to_judge else (places < 0).any():
            raise InputError(
                f"label {found.tolist()[int(np.argmin(places))]!r} is out of range: the classes "
                f"are {names.tolist()}"
            )
        found, codes = names, places[codes]
    elif len(found) < 2:
        raise InputError(
            f"y has one class only, {found.tolist()[0]!r}: give two or more (−1 is no class, it "
            "says that a vertex is unlabelled; classes −1 and 1 as 0 and 1)"
        )
    values = np.full(len(given), -1, np.int64)
    values[~unknown] = codes
    return Targets(values, ~unknown, found, len(found), "classes")


def _by_name(y: Any, given: NDArray[Any], known: NDArray[Any] | None, those: str) -> Any:
    """A table and its columns, as those of a pandas DataFrame are named; in the order known."""
    if not hasattr(y, "iloc"):
        return given, known
    names = as_labels(y.columns.to_numpy())
    plain = np.arange(len(names))
    if known is None or np.array_equal(names, plain) or np.array_equal(known, plain):
        return given, names if known is None else known
    places = {name: place for place, name in enumerate(names.tolist())}
    if set(places) != set(known.tolist()):
        raise InputError(f"y has the columns {names.tolist()}, {those} {known.tolist()}")
    return given[:, [places[name] for name in known.tolist()]], known


def _several(given: NDArray[Any], classes: NDArray[Any] | None) -> Targets:
    classes = np.arange(given.shape[1]) if classes is None else classes
    if len(set(classes.tolist())) != len(classes) or len(classes) != given.shape[1]:
        raise InputError(
            f"y has {given.shape[1]} columns, a class each, and classes are {classes.tolist()}: "
            "name each column once"
        )
    try:
        table = given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"y has {given.shape[1]} columns, a class each, and holds what is no number: a table "
            "of several classes holds 0 and 1, NaN where a vertex is unlabelled; of texts give one "
            "column, or a column for each text, as sklearn.preprocessing.MultiLabelBinarizer does"
        ) from None
    unknown = np.isnan(table).any(axis=1) | (table == -1).all(axis=1)
    _require_some(~unknown)
    known = table[~unknown]
    strange = known[(known != 0) & (known != 1)]
    if strange.size:
        raise InputError(
            f"label {strange[0]:g} is out of range: a table of several classes holds 0 and 1, "
            "NaN where a vertex is unlabelled"
        )
    values = np.where(unknown[:, None], 0, table)
    return Targets(values, ~unknown, classes, table.shape[1], "several")


def number_targets(y: Any, columns: NDArray[Any] | None = None) -> Targets:
    """Numbers of vertices, one or several each; NaN where unknown.

    Parameters
    ----------
    y : array-like
    columns : ndarray or None
        Names of the columns of a model, in their order; None: those of y, if it has some.

    Raises
    ------
    InputError
        Where y holds no numbers, or none is known; for columns of other names.
    """
    try:
        given = _plain(y)
        if given.dtype.kind == "c":  # NumPy would drop what is not real
            raise InputError("Complex data not supported: give real numbers as y")
        refuse_times_as_targets(given)
        given = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"y must hold numbers, NaN where they are unknown: {error}") from None
    table = given[:, None]
    if given.ndim == 2:
        table, columns = _by_name(y, given, columns, "those of the fit are")
    labelled = np.asarray(~np.isnan(table).any(axis=1))
    _require_some(labelled)
    values = np.where(labelled[:, None], table, 0)
    return Targets(values, labelled, None, table.shape[1], "numbers", columns)


def _require_some(labelled: NDArray[np.bool_]) -> None:
    if not labelled.any():
        raise InputError(
            f"none of the {len(labelled)} vertices is labelled: give some of y another value than "
            "NaN (of classes also −1 and None say that a vertex is unlabelled)"
        )
