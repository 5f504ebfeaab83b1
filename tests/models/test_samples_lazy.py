"""Samples in Dask collections that cannot be learnt from: the error names chunk and column."""

from __future__ import annotations

import dask.array
import numpy as np
import pandas as pd
import pytest

from daskpart import LinearRegression, LogisticRegression, MLPClassifier
from daskpart.errors import InputError
from daskpart.models.samples.lazy import ranks_of_chunks

LOCAL = {"n_ranks": 2, "transport": "local"}
RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(RANDOM.normal(size=(60, 3)), columns=["age", "height", "income"])
Y = (FRAME.age > 0).astype(int)


def with_one(value):
    """The frame with a value that is no number in its column of heights."""
    frame = FRAME.copy()
    if value is not np.nan:
        frame["height"] = frame.height.astype("Float64" if value is pd.NA else object)
    frame.loc[41, "height"] = value
    return frame


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "Input contains NaN"),
        ("tall", "could not convert string to float: 'tall'"),
        (pd.NA, "'NAType'"),
    ],
)
def test_what_is_no_number_in_a_dask_frame_is_told_with_its_column(value, words):
    import dask.dataframe as dd

    lazy = dd.from_pandas(with_one(value), npartitions=3)
    with pytest.raises(InputError, match=f"begins at row 40: .*{words}.*, in column 'height'"):
        LogisticRegression(**LOCAL).fit(lazy, Y)
    fitted = MLPClassifier(max_iter=1, **LOCAL).fit(FRAME, Y)
    with pytest.raises(InputError, match=f"in a chunk: .*{words}.*, in column 'height'"):
        fitted.predict(lazy).compute()
    good = dd.from_pandas(FRAME, npartitions=3)
    with pytest.raises(InputError, match=f"{words}.*, in column 'height'"):
        LinearRegression(**LOCAL).fit(good, FRAME.age, eval_set=(lazy, FRAME.age))


def test_of_columns_without_names_the_number_is_told():
    import dask.array as da

    X = FRAME.to_numpy(copy=True)
    X[33, 2] = np.inf
    X = np.hstack([X, np.zeros((60, 50))])
    lazy = da.from_array(X, chunks=(20, -1))
    for blocks in (lazy, lazy.map_blocks(_sparse_block)):
        with pytest.raises(InputError, match=r"begins at row 20: .* infinity .*, in column 2$"):
            LinearRegression(**LOCAL).fit(blocks, Y)


def _sparse_block(block):
    import sparse

    return sparse.COO.from_numpy(block)


@pytest.mark.parametrize("value", [np.nan, pd.NA])
def test_predictions_for_rows_in_memory_name_row_and_column_as_fits_do(value):
    fitted = LogisticRegression(**LOCAL).fit(FRAME, Y)
    for call in (fitted.predict, lambda X: fitted.fit(X, Y)):
        with pytest.raises(InputError, match=r"NaN\. The first is in row 41, column 'height'"):
            call(with_one(value))
    with pytest.raises(InputError, match="column 'height' of X holds text"):
        fitted.predict(with_one("tall"))


def test_a_column_alone_is_no_table_and_a_dataset_no_array():
    import xarray as xr

    for model in (LogisticRegression(**LOCAL), MLPClassifier(max_iter=1, **LOCAL)):
        for given, words in (
            (FRAME.age, "Expected a 2-dimensional container"),
            (pd.Series([*"ab"] * 30), "X holds text, such as 'a': .*TfidfVectorizer"),
            (pd.Series(pd.date_range("2024", periods=60)), "holds times"),
            (xr.Dataset({"a": ("x", Y.to_numpy())}), "X is a Dataset of .a.: give one"),
        ):
            with pytest.raises((InputError, TypeError), match=words):
                model.fit(given, Y)


def test_targets_of_dask_rows_are_real_numbers():
    """Of rows in memory scikit-learn refuses others; NumPy lets go of what is not real."""
    import dask.array as da

    lazy = da.from_array(FRAME.to_numpy(), chunks=(20, -1))
    with pytest.raises(InputError, match="y holds complex numbers"):
        LinearRegression(**LOCAL).fit(lazy, Y.to_numpy() * 1j)


def test_times_are_no_targets():
    import dask.array as da

    X, days = FRAME.to_numpy(), pd.Series(pd.date_range("2020", periods=60))
    for rows in (X, da.from_array(X, chunks=(20, -1))):
        for y in (days, (days - days[0]).to_numpy()):
            with pytest.raises(InputError, match="y holds times"):
                LinearRegression(**LOCAL).fit(rows, y)


def test_masked_values_are_not_unmasked():
    import dask.array as da

    X, hidden = FRAME.to_numpy(), np.arange(60) == 7
    y, weight = (np.ma.masked_array(each, mask=hidden) for each in (Y.to_numpy(), np.ones(60)))
    rows = np.ma.masked_array(X, mask=np.outer(hidden, [0, 1, 0]))
    lazy, hidden_lazy = (da.from_array(each, chunks=(20, -1)) for each in (X, rows))
    for model in (LogisticRegression(**LOCAL), LinearRegression(**LOCAL)):
        for arguments in ((rows, Y), (X, y), (X, Y, weight), (lazy, y), (lazy, Y, weight)):
            with pytest.raises(InputError, match="hold 1 masked"):
                model.fit(*arguments)
        with pytest.raises(InputError, match="features in the chunk that begins at row 0 hold 1"):
            model.fit(hidden_lazy, Y)
        nothing_hidden = model.fit(np.ma.masked_array(X), np.ma.masked_array(Y))
        with pytest.raises(InputError, match="hold 1 masked"):
            nothing_hidden.predict(rows)
        with pytest.raises(InputError, match="hold 1 masked"):
            nothing_hidden.score(X, y)


@pytest.mark.parametrize("shape", [(60, 1), (60, 2), (1, 60), (59,), (), None])
def test_weights_have_one_shape_in_memory_and_lazily(shape):
    """A column was taken lazily alone, and one number in memory alone."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 3)), random.integers(0, 2, 60)
    weight = 2.0 if shape is None else np.ones(shape)
    rows = [dask.array.from_array(each, chunks=20) for each in (X, y)]
    if shape is None:
        one, other = (
            LogisticRegression(n_ranks=1, tol=1).fit(*given, sample_weight=weight)
            for given in ((X, y), rows)
        )
        np.testing.assert_array_equal(one.coef_, other.coef_)
        return
    lazy = dask.array.from_array(weight) if weight.ndim else weight
    for given, of_them in (((X, y), weight), (rows, weight), (rows, lazy)):
        with pytest.raises(InputError, match=r"1D array or scalar|shape|1 dimension"):
            LogisticRegression(n_ranks=1).fit(*given, sample_weight=of_them)


def test_rows_of_ranks_have_the_name_of_all_that_they_are_made_of():
    """On a cluster results of one name are one: of another target they would be those before."""
    array = dask.array.ones((6, 2), chunks=(3, -1))
    members, ones = [np.arange(3), np.arange(3, 6)], np.ones(6)
    given = (array, members, ones, ones)
    others = (array + 1, members[::-1], 2 * ones, 2 * ones)
    changed = [(*given[:i], others[i], *given[i + 1 :]) for i in range(4)]
    again, *names = [ranks_of_chunks(*each).keys[0] for each in (given, given, *changed)]
    assert again == names[0] and len(set(names)) == 5
