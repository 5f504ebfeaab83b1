"""Hold ratings out: the same cells as one matrix, dealt to two of the same shape.

all      * * . *        train    * . . *        test     . * . .
         . * * .    =            . * * .    +            . . . .

or the lines of a table by their time: the last of each user, or all that is later than a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import sparse
import xarray
from pandas.api.types import is_scalar

from daskpart._floor.checks import fraction, random_generator, whole_number
from daskpart._floor.words import listed
from daskpart.containers.column_names import pair_columns, time_column
from daskpart.containers.matrix import LabelledMatrix, sparse_triples, without_repeats
from daskpart.containers.tables import from_arrow, is_table
from daskpart.errors import InputError, warn


def train_test_split_ratings(
    X: Any, test_fraction: float = 0.1, random_state: int | np.random.Generator = 0
) -> tuple[Any, Any]:
    """Deal the entries of a sparse matrix, or the lines of a table, at random to two sides.

    Parameters
    ----------
    X : xarray.DataArray over sparse.COO, sparse.COO, scipy.sparse array or matrix, or DataFrame
        Of pandas; one of polars, pyarrow or DuckDB gives two of pandas.
    test_fraction : float, default=0.1
        Between 0 and 1, both excluded. round(test_fraction * nnz) entries (lines) are held out.
    random_state : int or numpy.random.Generator, default=0

    Returns
    -------
    train, test : of the type of `X`
        Same shape, labels, names and dtype as `X`; scipy.sparse input gives csr. Explicit zeros
        stay entries, save for the formats BSR and DIA, where a stored zero is padding. Lines stay
        in their order; a user of few lines may have all of them on one side.

    Raises
    ------
    InputError
        `X` is dense, or so small that one side would be empty.

    Warns
    -----
    DaskpartWarning
        A position of a scipy.sparse container is stored more than once: as in a fit, the last is
        kept, so that no cell is on both sides.

    Examples
    --------
    >>> import daskpart
    >>> counts = daskpart.datasets.load_python_source(min_modules=3)["counts"]
    >>> train, test = daskpart.datasets.train_test_split_ratings(counts, 0.1)
    >>> train.dims, train.shape == test.shape, train.data.nnz + test.data.nnz == counts.data.nnz
    (('module', 'identifier'), True, True)
    """
    fraction(test_fraction, "test_fraction")
    X = from_arrow(X)
    if isinstance(X, xarray.DataArray):
        train, test = train_test_split_ratings(X.data, test_fraction, random_state)
        return X.copy(data=train), X.copy(data=test)
    take: Callable[[Any, np.ndarray], Any]
    if sp.issparse(X):
        # read as a fit reads it, before anything is drawn: what it stores twice is one entry
        rows, columns, values, (n_rows, n_columns) = sparse_triples(X)
        read = LabelledMatrix(rows, columns, values, (n_rows, n_columns))
        X = _alike(without_repeats(read, "last").to_scipy(), X)
        n_entries, take = X.nnz, _take_scipy
    elif isinstance(X, sparse.COO):
        n_entries, take = X.nnz, _take_coo
    elif isinstance(X, pd.DataFrame):
        n_entries, take = len(X), _take_lines
    else:
        raise InputError(
            f"X is {type(X).__name__}; give a DataArray over sparse.COO, a sparse.COO, a "
            "scipy.sparse array, or a DataFrame with one line a rating"
        )
    n_test = round(test_fraction * n_entries)
    if not 0 < n_test < n_entries:
        raise InputError(
            f"test_fraction={test_fraction} of {n_entries} entries holds out {n_test}; "
            "both sides need at least one"
        )
    held_out = np.zeros(n_entries, bool)
    generator = random_generator(random_state)
    held_out[generator.choice(n_entries, n_test, replace=False, shuffle=False)] = True
    return take(X, ~held_out), take(X, held_out)


def _take_coo(X: sparse.COO, chosen: np.ndarray) -> sparse.COO:
    return sparse.COO(
        X.coords[:, chosen],
        X.data[chosen],
        shape=X.shape,
        sorted=True,
        has_duplicates=False,
        fill_value=X.fill_value,
    )


def _take_lines(X: pd.DataFrame, chosen: np.ndarray) -> pd.DataFrame:
    return X[chosen]


def _take_scipy(X: Any, chosen: np.ndarray) -> Any:
    entries = X.tocoo()
    cells = (entries.data[chosen], (entries.row[chosen], entries.col[chosen]))
    return _alike(sp.csr_array(cells, shape=X.shape), X)


def _alike(found: sp.csr_array, X: Any) -> Any:
    """An array for an array, a matrix for a matrix."""
    return found if isinstance(X, sp.sparray) else sp.csr_matrix(found)


# -- of tables with times: a recommender is judged by what comes later ---


def leave_last_out(
    frame: pd.DataFrame, n: int = 1, *, user: str | None = None, time: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hold out the last lines of each user.

    Training sees what others did later than a line that is held out: where that matters, as it does
    when tastes change, take `split_by_time`. A warning says how many lines this concerns.

    Parameters
    ----------
    frame : DataFrame
        One line a rating or event. Of pandas; one of polars, pyarrow or DuckDB is converted.
    n : int, default=1
        Lines of each user that are held out; users with no more lines stay whole in training.
    user, time : str, optional
        Names of the columns; default: told by names that people use (userId, timestamp, …).

    Returns
    -------
    train, test : DataFrame
        In the old order. Of lines at the same time the later ones are the last.

    Raises
    ------
    InputError
        For n < 1, a column that is not there, users or times that are missing, or times as text.

    Warns
    -----
    DaskpartWarning
        Training sees the future.

    Examples
    --------
    >>> import pandas as pd
    >>> from daskpart.datasets import leave_last_out
    >>> clicks = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 7, 9], "time": [1, 8, 2, 9]})
    >>> train, test = leave_last_out(clicks)
    >>> test["item"].tolist()
    [8, 9]
    """
    n = whole_number(n, "n", 1)
    frame = _required_frame(frame)
    who, when = _user_and_time(frame, user, time)
    order = np.lexsort((when, who))  # stable
    from_the_end = np.empty(len(frame), np.int64)
    sizes = np.bincount(who)
    ends = np.cumsum(sizes)
    from_the_end[order] = np.repeat(ends, sizes) - np.arange(len(frame))
    held_out = (from_the_end <= n) & (sizes[who] > n)
    if held_out.any():
        late = int(np.count_nonzero(when[~held_out] > when[held_out].min()))
        if late:
            warn(
                f"training sees the future: {late} of its {int((~held_out).sum())} lines are later "
                "than the first that is held out; split_by_time holds out all that is later"
            )
    return _two_sides(frame, held_out)


def split_by_time(
    frame: pd.DataFrame, test_fraction: float = 0.1, *, time: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hold out all that is later than one point in time, for all users: no line is seen too early.

    Parameters
    ----------
    frame : DataFrame
        As for `leave_last_out`.
    test_fraction : float, default=0.1
        Between 0 and 1, both excluded. round(test_fraction * lines) of them are held out, at least
        one, and those that are at the same time as the first of these.
    time : str, optional
        As for `leave_last_out`.

    Returns
    -------
    train, test : DataFrame
        In the old order.

    Raises
    ------
    InputError
        For a share not between 0 and 1, a column that is not there, times as text, or times of
        which one side has all.

    Examples
    --------
    >>> import pandas as pd
    >>> from daskpart.datasets import split_by_time
    >>> clicks = pd.DataFrame({"user": [1, 1, 2, 2], "item": [7, 8, 7, 9], "time": [1, 8, 2, 9]})
    >>> train, test = split_by_time(clicks, 0.25)
    >>> test["time"].tolist()
    [9]
    """
    fraction(test_fraction, "test_fraction")
    frame = _required_frame(frame)
    when = _times(frame, time)
    n_test = max(1, round(test_fraction * len(when)))
    point = np.sort(when)[len(when) - n_test]
    return _two_sides(frame, when >= point)


def user_folds(
    X: Any, n_folds: int = 5, random_state: int | np.random.Generator = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Deal the users of a matrix to folds, for cross-validation on users that training never saw.

    Fit on the rows of one side, and judge by `recommend_new` or `transform` on those of the other.

    Parameters
    ----------
    X : container with a shape
        Its rows are users.
    n_folds : int, default=5
    random_state : int or numpy.random.Generator, default=0

    Returns
    -------
    folds : iterator of (train, test), int64 ndarrays
        Rows, rising.

    Raises
    ------
    InputError
        For fewer than two folds, or more than there are users; for a table of ratings.

    Examples
    --------
    >>> import scipy.sparse
    >>> from daskpart import ImplicitFactorization
    >>> from daskpart.datasets import user_folds
    >>> clicks = scipy.sparse.random(40, 20, 0.5, "csr", random_state=0)
    >>> for train, test in user_folds(clicks, 2):
    ...     model = ImplicitFactorization(2, n_ranks=1, transport="local").fit(clicks[train])
    ...     print(len(test), len(model.recommend_new(clicks[test], n=3)))
    20 60
    20 60
    """
    shape = getattr(X, "shape", ())
    if not shape:
        raise InputError(f"X is a {type(X).__name__}: give a container with a shape, a row a user")
    n_users = whole_number(shape[0], "the number of rows of X", 0)
    n_folds = whole_number(n_folds, "n_folds", 2)
    if is_table(X):
        raise InputError(
            "X is a DataFrame, which holds a rating a line: give a row a user, such as "
            "daskpart.containers.as_matrix(X).to_scipy(); or take lines of whole users, by "
            "scikit-learn's GroupKFold(shuffle=True).split(X, groups=X['user'])"
        )
    if n_folds > n_users:
        raise InputError(f"n_folds={n_folds}; give 2 to {n_users}, the number of users")
    fold = random_generator(random_state).permutation(n_users) % n_folds
    return _folds(fold, n_folds)


def _folds(fold: np.ndarray, n_folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for number in range(n_folds):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _two_sides(frame: pd.DataFrame, held_out: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    if held_out.all() or not held_out.any():
        raise InputError(
            f"{int(held_out.sum())} of {len(frame)} lines would be held out: both sides need some"
        )
    return frame[~held_out], frame[held_out]


def _user_and_time(
    frame: pd.DataFrame, user: str | None, time: str | None
) -> tuple[np.ndarray, np.ndarray]:
    places = pair_columns(frame, (user, None, None))
    if user is not None:
        column = frame[user]
    elif places is not None:
        column = frame.iloc[:, places[0]]
    else:
        raise InputError("no column says who: give user=, its name")
    if column.isna().any():
        raise InputError(f"column {column.name!r} has missing users; drop these lines")
    return pd.factorize(column)[0], _times(frame, time)


def _required_frame(data: Any) -> pd.DataFrame:
    frame = from_arrow(data)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"frame is a {type(frame).__name__}: give a pandas.DataFrame, one line a rating"
        )
    if frame.empty:
        raise InputError("there are no lines in the frame: nothing can be held out")
    return frame


def _times(frame: pd.DataFrame, time: str | None) -> np.ndarray:
    column = time if time is not None else time_column(frame)
    if column is None or not is_scalar(column) or column not in frame.columns:
        shown = listed(frame.columns)
        named = "of times" if column is None else column
        raise InputError(f"no column {named} among {shown}: give time=, its name")
    if frame[column].isna().any():
        raise InputError(f"column {column!r} has missing times; drop these lines")
    when = frame[column].to_numpy()
    texts = [each for each in when if isinstance(each, str)] if when.dtype.kind in "OUT" else []
    if texts:  # "1000000000" comes before "999999999"
        raise InputError(
            f"column {column!r} has times as text, such as {texts[0]!r}, whose order is that of "
            "words: convert it by pandas.to_datetime, or by pandas.to_numeric where they are "
            "seconds"
        )
    return when
