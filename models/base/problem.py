"""The data of a fit, checked: in this process, or as a Dask collection whose blocks stay away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from daskpart._floor.checks import refuse_masked, refuse_path_or_dataset
from daskpart.containers.coordinates import is_a
from daskpart.containers.tables import column_from_arrow
from daskpart.errors import InputError
from daskpart.readers.detection import is_number


class Problem(ABC):
    """What a model is fitted to.

    Attributes
    ----------
    n_features : int or None
        For `n_features_in_`.
    """

    n_features: int | None = None

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that differs for other data, as far as can be known without computing."""

    def identity(self) -> dict[str, Any]:
        """What of the data must be equal for a resumed fit to be the same fit, as JSON."""
        return {"data": self.fingerprint()}

    def named(self, state: Any) -> Any:
        """A checkpoint of the same data with the names that these have: no identity holds them."""
        return state

    def fingerprint_of_validation(self) -> str:
        """A short text that differs for other data to measure by; "" if `fingerprint` tells."""
        return ""


def check_components(state: Any, n_components: int) -> None:
    """Check that a state has as many components as the fit that goes on from it (InputError)."""
    if state.n_components != n_components:
        raise InputError(
            f"the last fit had {state.n_components} components, n_components is {n_components}: "
            "set it back, or begin anew by fit with warm_start=False"
        )


def share_held_out(model: Any, name: str, data: Mapping[str, Any]) -> float:
    """The share that a fit holds out of its data.

    Of ``partial_fit`` none: a batch is all to be learnt from, and its one step cannot stop early.

    Parameters
    ----------
    name : str
        The argument of ``fit`` by which data to measure by may be given instead.
    data : mapping
        Further arguments of ``fit``; of ``partial_fit`` "one_step", too.

    Raises
    ------
    InputError
        Where both are asked for, or `patience` would have nothing to look at.
    """
    if data.get("one_step"):
        return 0.0
    share, given = float(model.validation_fraction), data.get(name)
    if share and given is not None:
        raise InputError(f"give {name}=… or validation_fraction, not both")
    if model.patience is not None and not share and given is None:
        raise InputError(f"patience needs {name}=… or validation_fraction above 0")
    return share


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection, or a DataArray over one: its blocks stay where they are.

    A Dataset is not, be its arrays lazy: it is no one collection of rows.
    """
    inner, is_dataset = held_by(X), hasattr(type(X), "data_vars")
    return not is_dataset and getattr(inner, "__dask_graph__", lambda: None)() is not None


def is_lazy_array(X: Any) -> bool:
    """Whether X is lazy and an array: no bag, and no frame."""
    return is_lazy(X) and isinstance(getattr(X, "chunks", None), tuple)


def lazy_name(X: Any) -> str:
    """How Dask calls the data of a lazy array, or of a DataArray over one: other data, other name.

    Dask makes it of what the array is made of, so it is the same in another process that makes it
    the same way, unless part of that has a drawn name, as `dask.delayed` without ``pure=True``.
    """
    return f"Dask array {held_by(X).name}"  # a DataArray's own name is any text


def held_by(X: Any) -> Any:
    """What a DataArray holds; another container as it is."""
    return getattr(X, "data", X) if hasattr(X, "coords") and hasattr(X, "dims") else X


def refuse_times(X: Any) -> None:
    """Refuse features that are dates or durations (InputError).

    NumPy makes numbers of them, such as microseconds since 1970, which drown all other features.
    """
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # a table of pandas or polars, no column
        named = zip(X.columns, X.dtypes, strict=False)
        times = [(f"column {name!r} of X", kind) for name, kind in named if _of_times(kind)]
    else:
        kind = getattr(X, "dtype", None)
        times = [("X", kind)] if _of_times(kind) else []
    for what, kind in times:
        raise InputError(
            f"{what} holds times ({kind}): features are numbers; give what matters of them, such "
            "as the hour, the day of the week or days since a date, or leave it out"
        )


def _of_times(kind: Any) -> bool:
    is_temporal = getattr(kind, "is_temporal", None)  # of polars
    return getattr(kind, "kind", "") in ("m", "M") or (is_temporal is not None and is_temporal())


def refuse_times_as_targets(y: NDArray[Any]) -> None:
    """Refuse numbers to learn that are dates or durations (InputError).

    NumPy would count nanoseconds, or whatever their unit is.
    """
    if y.dtype.kind in "mM":
        raise InputError(f"y holds times ({y.dtype}): give numbers, such as days")


def in_memory(values: Any, what: str) -> Any:
    """What a Dask collection holds; anything else as it is (InputError for masked values)."""
    found = values.compute() if is_dask_collection(values) else values
    refuse_masked(found, what)
    return found


def refuse_another_order(X: Any, given: Any, name: str) -> None:
    """Refuse what stands beside a DataFrame and has its index in another order (InputError).

    Rows go together by their order, so of another index nothing is said; but of that one, in
    another order, most would stand beside a row that is not theirs.
    """
    kinds = ("Series", "DataFrame")
    if not is_a(X, "pandas", "DataFrame") or not any(is_a(given, "pandas", kind) for kind in kinds):
        return
    lines, own = X.index, given.index
    if own.equals(lines) or len(own) != len(lines):
        return
    if own.is_unique and own.isin(lines).all():
        raise InputError(
            f"{name} has the index of X in another order, and is taken by its order: give "
            f"{name}.loc[X.index], or {name}.to_numpy() if it is in the order of X"
        )


def checked_weights(sample_weight: Any, samples: Any) -> NDArray[np.float64]:
    """A weight for each of some samples; None: all are 1.

    Raises
    ------
    InputError
        For masked values, times, another number of weights than samples, those below 0, NaN or
        infinity, and where all are 0.
    """
    from sklearn.utils.validation import _check_sample_weight  # not for ranks

    wanted = "the weights themselves, one for each sample"
    refuse_path_or_dataset(sample_weight, "sample_weight", wanted)
    sample_weight = in_memory(sample_weight, "sample weights")
    if getattr(getattr(sample_weight, "dtype", None), "kind", "") in ("m", "M"):
        raise InputError(f"sample_weight holds times ({sample_weight.dtype}): give numbers")
    try:
        weights = _check_sample_weight(sample_weight, samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        words, found = str(error), np.asarray(sample_weight)
        if found.dtype.kind == "f" and found.ndim == 1 and not np.isfinite(found).all():
            where = int(np.argmin(np.isfinite(found)))
            words = f"sample_weight[{where}] is {found[where]}: NaN and infinity are not allowed"
        raise InputError(
            f"sample_weight: {words}" if words.startswith("could not convert") else words
        ) from error
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        raise InputError(
            f"sample_weight[{negative[0]}] is {weights[negative[0]]}: weights are 0 or more"
        )
    return np.asarray(weights)


def numbers_to_learn(y: Any) -> NDArray[np.float64]:
    """Targets of a regression in float64.

    Raises
    ------
    InputError
        For times, what else is no number, and numbers that are missing or infinite.
    """
    found = np.asarray(y)
    refuse_times_as_targets(found)
    if found.dtype == object:  # of pandas, whose NA is no number, nor made one
        import pandas as pd  # not for ranks

        found = np.where(pd.isna(found), np.nan, found)
    try:
        numbers = found.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"y must hold numbers: {error}") from None
    refuse_not_finite(numbers)
    return numbers


def refuse_not_finite(y: NDArray[Any]) -> None:
    """Refuse targets of which one is NaN or infinite (InputError); says which."""
    if not np.isfinite(y).all():
        where = int(np.argwhere(~np.isfinite(y))[0, 0])
        raise InputError(f"y[{where}] is {y[where]}: NaN and infinity are not allowed")


def dense_targets(y: Any) -> Any:
    """A sparse y, a table of several targets, say, a column of Arrow's, texts, as NumPy has them.

    Any other as it is.
    """
    refuse_path_or_dataset(y, "y", "the targets themselves, one for each row")
    if is_a(y, "sparse", "SparseArray"):
        return y.todense()
    toarray = getattr(y, "toarray", None)  # of scipy
    return text_objects(column_from_arrow(y)) if toarray is None else toarray()


def text_objects(labels: Any) -> Any:
    """Texts of NumPy's StringDType as objects, as scikit-learn knows them; all else as it is."""
    dtype = getattr(labels, "dtype", None)
    return labels.astype(object) if getattr(dtype, "kind", "") == "T" else labels


def scipy_rows(X: Any) -> Any:
    """Rows of pydata/sparse as scipy has them; anything else as it is.

    Raises
    ------
    InputError
        If what is not stored is not 0.
    """
    if not is_a(X, "sparse", "SparseArray"):
        return X
    if X.fill_value != 0:
        raise InputError(
            f"X is a sparse array with fill value {X.fill_value}: a feature that is not stored is "
            "0. Give X.todense(), or a sparse array with fill_value=0"
        )
    return X.asformat("coo").to_scipy_sparse()


def canonical_rows(X: Any) -> csr_array:
    """Csr rows that have each of their features once, in rising order, as a copy if they had not.

    Steps square values and gradients entry by entry: one in two pieces would count as less.
    """
    rows = csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()  # the arrays may be the caller's
        rows.sum_duplicates()
    return rows


def refused(error: ValueError, X: Any, y: Any = None) -> InputError:
    """What scikit-learn refused, as an error of ours that says where it is.

    That is where the first number is that is NaN or infinite, or the column that holds text.
    """
    words = str(error)
    for name, given in (("X", X), ("y", y)):
        if words.startswith(f"Input {name} contains"):
            words = words.splitlines()[0]  # behind it other estimators are praised
            with suppress(TypeError, ValueError):  # of what is no array of numbers
                words += f" The first is {_first_not_finite(given, name)}."
    if words.startswith("could not convert string to float"):
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")  # of pandas or polars
        columns = {f"column {name!r} of X": X[name] for name in X.columns} if is_frame else {"X": X}
        texts = (each for each in columns.items() if not _holds_numbers(each[1]))
        where, column = next(texts, ("", ()))
        if where:
            values = np.asarray(column, object).ravel().tolist()
            text = next((each for each in values if not is_number(str(each))), values[0])
            words = (
                f"{where} holds text, such as {str(text)!r}: features are numbers; encode it, "
                "categories by pandas.get_dummies or OneHotEncoder of scikit-learn, sentences by "
                "its TfidfVectorizer, or leave it out"
            )
    return InputError(words)


def _first_not_finite(given: Any, name: str) -> str:
    if issparse(given):
        entries: Any = coo_array(given)  # type: ignore[call-overload]
        values, places = entries.data, np.array(entries.coords)
        first = places[:, np.argmin(np.isfinite(values))]
    else:
        if hasattr(given, "iloc"):  # of pandas, whose NA is no number
            given_values = given.to_numpy(np.float64, na_value=np.nan)
        else:
            given_values = np.asarray(given, np.float64)
        first = np.argwhere(~np.isfinite(given_values))[0]
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        row, column = (
            labels.tolist()[place]
            for labels, place in zip((given.index, given.columns), first, strict=True)
        )
        return f"in row {row!r}, column {column!r}"
    return f"{name}[{', '.join(map(str, first))}]"


def _holds_numbers(column: Any) -> bool:
    try:
        np.asarray(column, np.float64)
    except (TypeError, ValueError):
        return False
    return True
