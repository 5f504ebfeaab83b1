"""Tables of other libraries are read as those of pandas."""

from __future__ import annotations

import datetime
import sys

import dask.dataframe
import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import sparse
import xarray

import daskpart
from daskpart.containers import as_matrix, as_tensor
from daskpart.containers.tables import column_from_arrow, from_arrow, table_in_memory
from daskpart.datasets import leave_last_out, split_by_time, train_test_split_ratings, user_folds

pyarrow = pytest.importorskip("pyarrow")

_FRAME = pd.DataFrame(
    {
        "user": ["ann", "bob", "cem", "ann", "bob", "cem"],
        "item": [30, 10, 20, 10, 30, 10],
        "rating": [1.0, 2.5, 3.0, 4.0, 0.5, 2.0],
        "timestamp": [1, 2, 3, 4, 5, 6],
    }
)
_TABLES = {
    "pyarrow": pyarrow.Table.from_pandas(_FRAME),
    "polars": polars.from_pandas(_FRAME),
    "dask": dask.dataframe.from_pandas(_FRAME, npartitions=2),
}


@pytest.mark.parametrize("library", _TABLES)
def test_tables_of_all_libraries_are_the_same_matrix(library):
    expected, found = as_matrix(_FRAME), as_matrix(_TABLES[library])
    for name in ("rows", "columns", "values", "row_labels", "column_labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    assert (found.row_name, found.column_name) == ("user", "item")


@pytest.mark.parametrize("library", _TABLES)
def test_tables_of_all_libraries_are_the_same_tensor(library):
    expected, found = as_tensor(_FRAME), as_tensor(_TABLES[library])
    np.testing.assert_array_equal(found.coordinates, expected.coordinates)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.dims == expected.dims == ("user", "item", "timestamp")


def test_what_is_no_table_stays_as_it_is():
    for data in (_FRAME, _FRAME["user"], polars.Series([1]), pyarrow.array([1]), [1], "a", None):
        assert from_arrow(data) is data
        assert table_in_memory(data) is data
    matrix = scipy.sparse.eye_array(3)
    assert from_arrow(matrix) is matrix
    lazy = _TABLES["dask"]
    assert from_arrow(lazy) is lazy
    pd.testing.assert_frame_equal(table_in_memory(lazy), lazy.compute())
    pd.testing.assert_series_equal(table_in_memory(lazy["rating"]), _FRAME["rating"])


def test_labelled_arrays_are_no_tables_whatever_their_sides_are_called():
    """They offer Arrow's stream, too, and a side of theirs is an attribute."""
    cells = sparse.COO(np.array([[0, 1, 2], [1, 2, 0]]), np.array([1.0, 2, 3]), (3, 3))
    sides = {"column_names": [*"abc"], "columns": [*"abc"]}
    array = xarray.DataArray(cells, coords=sides, dims=[*sides])
    for data in (array, array["columns"], array.to_dataset(name="x")):
        assert from_arrow(data) is table_in_memory(data) is column_from_arrow(data) is data
    np.testing.assert_array_equal(as_matrix(array).values, [1, 2, 3])
    assert as_tensor(array).dims == tuple(sides)
    model = daskpart.GCNClassifier(max_iter=1).fit(None, [0, 1, 0], graph=array)
    assert len(model.predict()) == 3
    model = daskpart.MatrixFactorization(1, max_iter=1).fit(array, sample_weight=array)
    assert model.predict(array).dims == tuple(sides)


def test_columns_of_other_libraries_are_arrays():
    for column in (polars.Series([1, 2]), pyarrow.array([1, 2]), pyarrow.chunked_array([[1, 2]])):
        assert isinstance(column_from_arrow(column), np.ndarray)
        assert column_from_arrow(column).tolist() == [1, 2]
    for data in (_FRAME, _FRAME["user"], *_TABLES.values(), [1], "a", None, np.ones(1)):
        assert column_from_arrow(data) is data


def test_missing_users_and_ratings_are_found_in_other_tables_too():
    table = polars.DataFrame({"user": ["a", None], "item": ["x", "y"], "rating": [1, 2]})
    with pytest.raises(daskpart.errors.InputError, match="column 'user' has 1 missing value"):
        as_matrix(table)
    table = polars.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1, None]})
    with pytest.raises(daskpart.errors.InputError, match="NaN"):
        as_matrix(table)


def test_a_lazy_frame_is_told_to_be_collected():
    with pytest.raises(daskpart.errors.InputError, match=r"LazyFrame .* give its collect\(\)"):
        as_matrix(_TABLES["polars"].lazy())


def test_tables_without_pyarrow_say_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(daskpart.errors.InputError, match=r"DataFrame of polars.* needs pyarrow"):
        as_matrix(_TABLES["polars"])


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_tables_of_other_libraries_are_split_as_those_of_pandas(library):
    table = _TABLES[library]
    for split, held in ((train_test_split_ratings, 0.4), (split_by_time, 0.4), (leave_last_out, 1)):
        for found, expected in zip(split(table, held), split(_FRAME, held), strict=True):
            pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_folds_refuse_a_table_before_they_convert_it(library, monkeypatch):
    monkeypatch.setattr(pd.DataFrame, "from_arrow", None)
    with pytest.raises(daskpart.errors.InputError, match=r"holds a rating a line.*GroupKFold"):
        user_folds(_TABLES[library])


def test_dates_in_tables_of_polars_are_times_too():
    days = [datetime.date(2020, 1, day) for day in range(1, 7)]
    found = as_matrix(_TABLES["polars"].drop("timestamp").with_columns(day=polars.Series(days)))
    np.testing.assert_array_equal(found.values, as_matrix(_FRAME).values)
