"""Estimators take tables of other libraries as they take those of pandas."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars
import pytest

import daskpart
from daskpart.errors import DaskpartWarning, InputError

pyarrow = pytest.importorskip("pyarrow")

_LIBRARIES = {
    "polars": polars.from_pandas,
    "pyarrow": lambda frame: pyarrow.Table.from_pandas(frame, preserve_index=False),
}
_COLUMNS = [polars.Series, pyarrow.array, lambda names: pyarrow.chunked_array([names])]
library = pytest.mark.parametrize("converted", _LIBRARIES.values(), ids=_LIBRARIES)


def _ratings():
    random = np.random.default_rng(0)
    cells = np.unique(random.integers(0, 30 * 20, 300))
    users, items = np.char.add("u", (cells // 20).astype(str)), cells % 20
    return pd.DataFrame({"user": users, "item": items, "rating": random.normal(3, 1, len(cells))})


@library
def test_factors_of_a_table(converted):
    frame = _ratings()
    table = converted(frame)
    model = daskpart.MatrixFactorization(3, max_iter=3, random_state=0)
    expected = model.fit(frame, validation=frame[:20])
    predicted, ranking = expected.predict(frame), expected.recommend(["u3"], n=4)
    score, new = expected.score(frame), expected.transform(frame[:30])
    found = model.fit(table, validation=converted(frame[:20]))
    np.testing.assert_array_equal(found.predict(table), predicted)
    pd.testing.assert_frame_equal(found.recommend(["u3"], n=4), ranking)
    assert found.score(table) == score
    np.testing.assert_array_equal(found.transform(converted(frame[:30])), new)


@pytest.mark.parametrize("column", _COLUMNS)
def test_names_in_a_column_of_another_library(column):
    model = daskpart.MatrixFactorization(3, max_iter=3, random_state=0).fit(_ratings())
    expected = model.recommend(["u3", "u1"], n=4)
    pd.testing.assert_frame_equal(model.recommend(column(["u3", "u1"]), n=4), expected)
    expected = model.similar_items([3, 4], n=2)
    pd.testing.assert_frame_equal(model.similar_items(column([3, 4]), n=2), expected)


@pytest.mark.parametrize("column", _COLUMNS)
def test_weights_in_a_column_of_another_library(column):
    frame = _ratings()
    weights = np.linspace(0.5, 1.5, len(frame))
    model = daskpart.MatrixFactorization(3, max_iter=3, random_state=0)
    expected = model.fit(frame, sample_weight=weights).predict(frame)
    found = model.fit(polars.from_pandas(frame), sample_weight=column(weights))
    np.testing.assert_array_equal(found.predict(frame), expected)


@library
def test_events_of_a_table(converted):
    frame = _ratings()[["user", "item"]]
    model = daskpart.ImplicitFactorization(3, max_iter=3, random_state=0)
    expected = model.fit(frame).recommend(["u3"], n=4)
    pd.testing.assert_frame_equal(model.fit(converted(frame)).recommend(["u3"], n=4), expected)


@library
def test_cp_of_a_table(converted):
    frame = _ratings().assign(day=lambda frame: frame.item % 5)
    cells = frame[["user", "item", "day"]]
    model = daskpart.CPDecomposition(2, max_iter=4, random_state=0)
    expected = model.fit(frame[["user", "item", "day", "rating"]])
    values, score = expected.predict(cells), expected.score(cells, frame["rating"])
    found = model.fit(converted(cells), frame["rating"])
    np.testing.assert_array_equal(found.predict(converted(cells)), values)
    np.testing.assert_array_equal(found.reconstruct(converted(cells)), values)
    assert found.score(converted(cells), frame["rating"].to_numpy()) == score


@library
def test_a_graph_in_tables(converted):
    random = np.random.default_rng(1)
    edges = pd.DataFrame(random.permutation(3600)[:200][:, None] // [60, 1] % 60)
    edges.columns = ["source", "target"]
    X = pd.DataFrame(random.normal(size=(60, 4)), columns=[*"abcd"])
    y = pd.DataFrame({"y": random.integers(0, 2, 60)})["y"]
    model = daskpart.GCNClassifier(max_iter=4, random_state=0)
    expected = model.fit(X, y, graph=edges).predict_proba(X, graph=edges)
    found = model.fit(converted(X), y, graph=converted(edges))
    np.testing.assert_array_equal(
        found.predict_proba(converted(X), graph=converted(edges)), expected
    )
    assert [*found.feature_names_in_] == [*"abcd"]


def test_edges_of_a_table_go_by_number_beside_rows_with_numbers_in_another_order():
    """As those of a DataFrame do, where a matrix has the order of the rows of features."""
    edges = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 0]})
    X = pd.DataFrame(np.eye(3), index=[2, 0, 1])
    y = pd.Series([0, 1, 1], index=[2, 0, 1])
    model = daskpart.GCNClassifier(max_iter=2, random_state=0)
    expected = model.fit(X, y, graph=edges).predict_proba(X)
    found = model.fit(X, y, graph=polars.from_pandas(edges)).predict_proba(X)
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(expected))


@pytest.mark.parametrize("kind", ["LogisticRegression", "MLPClassifier"])
def test_what_is_no_number_in_a_table_of_polars_is_told_by_its_column(kind):
    table = polars.DataFrame({"height": [1.0, 2.0, 3.0], "day": [1.0, 2.0, 3.0]})
    model = getattr(daskpart, kind)(max_iter=2)
    dates = polars.Series([datetime.date(2020, 1, day) for day in (1, 2, 3)])
    with pytest.raises(InputError, match="column 'day' of X holds times"):
        model.fit(table.with_columns(day=dates), [0, 1, 0])
    with pytest.raises(InputError, match="column 'day' of X holds text, such as 'Monday'"):
        model.fit(table.with_columns(day=polars.Series(["1", "Monday", "2"])), [0, 1, 0])


def test_repeated_ratings_of_a_table_are_warned_of():
    table = polars.DataFrame({"user": [1, 1], "item": [2, 2], "rating": [3.0, 4.0]})
    with pytest.warns(DaskpartWarning, match="1 of 2 ratings repeat a position"):
        daskpart.MatrixFactorization(1, max_iter=1).fit(table)
