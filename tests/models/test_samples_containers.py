"""What holds the samples decides nothing: the same rows give the same bits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import dask.array
import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import shuffle

from daskpart import LinearRegression, LinearSVC, LogisticRegression, MLPClassifier, MLPRegressor
from daskpart.errors import InputError

SGD = {"solver": "sgd", "max_iter": 2, "batch_size": 3, "n_ranks": 2, "transport": "local"}
MODELS = {
    "lbfgs": LogisticRegression(max_iter=5, tol=1, n_ranks=2, transport="local"),
    "adagrad": LogisticRegression(**SGD),
    "optimal rate": LogisticRegression(optimizer="sgd", **SGD),
    "TopK": LogisticRegression(top_k=2, **SGD),
    "adam": LogisticRegression(optimizer="adam", **SGD),
    "weights on a server": LogisticRegression(aggregation="server", partitioner="random", **SGD),
    "blocks on a server": LogisticRegression(
        **{**SGD, "solver": "server"}, l1_ratio=0.3, partitioner="random"
    ),
    "huber": LinearRegression("huber", alpha=0.1, l1_ratio=0.2, **SGD),
    "mlp": MLPClassifier((3,), max_iter=2, batch_size=3, n_ranks=2, transport="local"),
}


def in_pieces(table, random):
    """Csr rows whose entries lie in no order, each in two pieces that add up to it exactly."""
    whole = scipy.sparse.coo_array(table)
    half = np.round(whole.data / 2)
    rows, columns = (np.concatenate([index, index]) for index in whole.coords)
    data = np.concatenate([half, whole.data - half])
    order = random.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    pointer = np.searchsorted(rows[order], np.arange(len(table) + 1))
    return scipy.sparse.csr_array((data[order], columns[order], pointer), shape=table.shape)


def learnt(model, X, y):
    model.fit(X, y)
    return [*model.coefs_, *model.intercepts_] if hasattr(model, "coefs_") else [model.coef_]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1 << 20), n_rows=st.integers(5, 12), n_features=st.integers(1, 6))
def test_containers_of_the_same_rows_give_the_same_bits(name, seed, n_rows, n_features):
    random = np.random.default_rng(seed)
    shape = (n_rows, n_features)
    table = np.round(random.normal(0, 5, shape)) * (random.random(shape) < 0.6)
    y, pieces = random.permutation(np.arange(n_rows) % 2), in_pieces(table, random)
    before = [array.copy() for array in (pieces.data, pieces.indices, pieces.indptr)]
    chunks = dask.array.from_array(table, chunks=(3, -1))
    expected = learnt(MODELS[name], scipy.sparse.csr_array(table), y)
    for X in (
        pieces,
        sparse.COO.from_numpy(table),
        sparse.DOK.from_numpy(table),
        xarray.DataArray(sparse.GCXS.from_numpy(table)),
        chunks.map_blocks(lambda block: in_pieces(block, random), dtype=float),
        chunks.map_blocks(sparse.DOK.from_numpy, dtype=float),
    ):
        for found, wanted in zip(learnt(MODELS[name], X, y), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    for array, was in zip((pieces.data, pieces.indices, pieces.indptr), before, strict=True):
        np.testing.assert_array_equal(array, was)  # what a caller has is not put in order for him


@pytest.mark.parametrize("fill", [1.0, np.nan])
def test_values_that_are_not_stored_are_0(fill):
    X, y = sparse.COO.from_numpy(np.full((4, 2), fill), fill_value=fill), [0, 1, 0, 1]
    model = LogisticRegression(n_ranks=1, transport="local")
    with pytest.raises(InputError, match=r"X is a sparse array with fill value .*fill_value=0"):
        model.fit(X, y)
    with pytest.raises(InputError, match="sparse array with fill value"):
        model.fit(np.eye(4, 2), y).predict(X)


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 1 << 20), n_targets=st.integers(1, 3))
def test_sparse_targets_are_the_dense_ones(seed, n_targets):
    random = np.random.default_rng(seed)
    rows, table = random.normal(size=(8, 3)), np.eye(3)[random.integers(0, 3, 8)][:, :n_targets]
    table[:2] = [[0], [1]]
    chunks = dask.array.from_array(rows, chunks=(3, -1))
    kinds = [sparse.COO.from_numpy, sparse.GCXS.from_numpy, scipy.sparse.coo_array]
    y = table
    if n_targets == 1:
        y, kinds = table[:, 0], kinds[:2]  # scipy has tables
    for model in (LinearRegression(alpha=1, n_ranks=2, transport="local"), MODELS["mlp"]):
        expected, score = learnt(model, rows, y), model.score(rows, y)
        for kind in kinds:
            for X in (rows, chunks):
                for one, other in zip(learnt(model, X, kind(y)), expected, strict=True):
                    assert np.array_equal(one, other)
            assert model.score(rows, kind(y)) == score


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.zeros(8), "non-zero"),
        (np.ones(7), r"\(7,\)"),
        (np.ones((8, 2)), r"2D array|\(8, 2\)"),
        (np.full(8, np.nan), "NaN"),
        (np.full(8, np.inf), "infinity|inf"),
        (np.arange(8) - 1.0, r"sample_weight\[0\] is -1"),
        (["heavy"] * 8, "sample_weight: could not convert"),
        (np.arange(8).astype("M8[D]"), "sample_weight holds times"),
        (np.ones(8) + 1j, "omplex"),
    ],
)
def test_weights_that_cannot_be_are_told_alike_of_rows_here_and_of_chunks(weight, words):
    rows, y = np.arange(8.0)[:, None], np.arange(8) % 2
    for X in (rows, dask.array.from_array(rows, chunks=(3, -1))):
        for model in (MODELS["lbfgs"], MODELS["huber"]):
            with pytest.raises(InputError, match=words):
                model.fit(X, y, weight)


@pytest.mark.parametrize(
    ("name", "y", "words"),
    [
        ("huber", ["low", "high"] * 4, "y must hold numbers: could not convert .*'low'"),
        ("huber", np.array([b"1"] * 7 + [b"x"]), "y must hold numbers"),
        ("huber", [frozenset()] * 8, "y must hold numbers"),
        ("lbfgs", np.linspace(0, 1, 8), "Unknown label type: continuous"),
        ("mlp", np.linspace(0, 1, 8), "Unknown label type: continuous"),
    ],
)
def test_targets_that_cannot_be_learnt_are_told_alike_of_rows_here_and_of_chunks(name, y, words):
    rows = np.arange(8.0)[:, None]
    for X in (rows, dask.array.from_array(rows, chunks=(3, -1))):
        with pytest.raises(InputError, match=words):
            MODELS[name].fit(X, y)


TABLES = {
    name: kind(max_iter=100, n_ranks=2, transport="local")
    for name, kind in {
        "logistic": LogisticRegression, "linear": LinearRegression, "svm": LinearSVC,
        "mlp": partial(MLPClassifier, (3,), tol=1),
        "mlp numbers": partial(MLPRegressor, (3,), tol=1),
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_nullable_tables_of_pandas_are_the_plain_ones(name, several, kind):
    """A table of several of them is one of objects to NumPy; scikit-learn refused its score."""
    model, random = TABLES[name], np.random.default_rng(0)
    if several and name in ("logistic", "svm"):
        pytest.skip("one target each")
    X = random.integers(0, 5, (30, 2))
    y = (X > 2).astype(int) if several else (X[:, 0] > 2).astype(int)
    nullable = pd.DataFrame(X).astype("Int64")
    targets = (pd.DataFrame if several else pd.Series)(y).astype(kind)
    weight = pd.Series(1 + np.arange(30)).astype("Int64")
    expected = learnt(model, X, y)
    for found, wanted in zip(learnt(model, nullable, targets), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert model.score(nullable, targets, weight) == model.score(X, y, weight.to_numpy())
    chunks = dask.array.from_array(X.astype(float), chunks=(20, -1))
    assert model.score(chunks, targets) == pytest.approx(model.score(X, y))
    hidden = pd.Series(np.arange(30) == 3)
    lacking = targets.mask(hidden) if not several else targets.mask(hidden, axis=0)
    for call in (model.fit, model.score):
        for rows in (nullable, chunks):
            with pytest.raises(InputError, match=r"y\[3\] is (missing|\[?nan)|y contains NaN"):
                call(rows, lacking)
            with pytest.raises(InputError, match=r"sample_weight\[3\] is nan"):
                call(rows, targets, weight.mask(hidden))


@pytest.mark.parametrize("name", ["lbfgs", "mlp"])
@pytest.mark.parametrize("path", ["rows.csv", Path("rows.csv")])
def test_the_name_of_a_file_is_no_data(name, path):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    model = clone(MODELS[name]).fit(X, y)
    calls = (
        lambda: clone(model).fit(path, y), lambda: clone(model).fit(path), lambda: model.plan(path),
        lambda: model.predict(path), lambda: model.score(path, y),
        lambda: clone(model).fit(X, y, eval_set=(path, y)),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(InputError, match=r"X is 'rows\.csv': give rows.*survey\(path\)"):
            call()
    with pytest.raises(InputError, match=r"y is 'label': give the targets themselves"):
        clone(model).fit(X, "label")


@pytest.mark.parametrize("name", ["lbfgs", "mlp"])
@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_dataset_is_told_to_be_no_array_but_several(name, is_lazy):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    dataset = xarray.Dataset({"counts": (("row", "word"), X), "label": ("row", y)})
    dataset = dataset.chunk(2) if is_lazy else dataset
    model = clone(MODELS[name]).fit(X, y)
    for what, call in (
        ("X", lambda: clone(model).fit(dataset, y)), ("X", lambda: model.predict(dataset)),
        ("y", lambda: clone(model).fit(X, dataset)), ("y", lambda: model.score(X, dataset)),
        ("sample_weight", lambda: clone(model).fit(X, y, dataset)),
    ):  # fmt: skip
        words = rf"{what} is a Dataset of 'counts', 'label': .* such as dataset\['counts'\]"
        with pytest.raises(InputError, match=words):
            call()


class LazyFrame:
    """Called as that of polars, and as little of an array."""


@pytest.mark.parametrize("name", ["lbfgs", "mlp"])
@pytest.mark.parametrize(
    ("rows", "instead"),
    [
        (LazyFrame(), r"its collect\(\)"),
        ({"a": [1.0]}, r"pandas\.DataFrame\(it\)"),
        (networkx.path_graph(2), r"networkx\.to_scipy_sparse_array"),
        (iter([[1.0], [2.0]]), "an array"),
    ],
)
def test_what_holds_no_rows_is_told_what_would(name, rows, instead):
    model = clone(MODELS[name])
    with pytest.raises(InputError, match=rf"as a table of samples; give {instead}"):
        model.fit(rows, [0, 1])
    with pytest.raises(InputError, match=rf"as a table of samples; give {instead}"):
        model.fit([[1.0], [2.0]], [0, 1]).predict(rows)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_an_index_in_another_order_beside_a_table_is_refused(name, several):
    """Rows went by their order, whatever the index said: a model of the wrong targets."""
    model, random = TABLES[name], np.random.default_rng(0)
    if several and "mlp" not in name:
        pytest.skip("one target each")
    X = pd.DataFrame(random.normal(size=(30, 2)), columns=["a", "b"]).rename("row {}".format)
    y = pd.Series((X.a > 0).astype(int) + 0.0, X.index)
    y = pd.DataFrame({"p": y, "q": 1 - y}) if several else y
    weight = pd.Series(1.0 + np.arange(30), X.index)
    expected = learnt(model, X, y)
    for beside in (y, y.set_axis(X.index + "'"), y.reset_index(drop=True), y[::-1].loc[X.index]):
        for found, wanted in zip(learnt(model, X, beside), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    for X_like, turned in ((X, y[::-1]), (X[::-1], y)):
        words = r"y has the index of X in another order.* give y\.loc\[X\.index\], or y\.to_numpy"
        for call in (model.fit, model.score):
            with pytest.raises(InputError, match=words):
                call(X_like, turned)
        with pytest.raises(InputError, match=words):
            model.fit(X, y, eval_set=(X_like, turned))
    with pytest.raises(InputError, match=r"sample_weight has the index of X in another order"):
        model.fit(X, y, weight[::-1])
    with pytest.raises(InputError, match=r"sample_weight has the index of X in another order"):
        model.score(X, y, weight[::-1])
    model.fit(X, y, weight).score(X, y, weight)


def test_rows_that_scikit_learn_deals_out_are_in_one_order():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 2)), columns=["a", "b"]).rename("row {}".format)
    y = pd.Series(np.where(X.a > 0, "yes", "no"), X.index)
    model = TABLES["logistic"]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    chain = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    assert chain.fit(X_train, y_train).score(X_test, y_test) > 0.9
    assert cross_val_score(chain, *shuffle(X, y, random_state=1)).mean() > 0.9
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=KFold(3, shuffle=True, random_state=0))
    assert search.fit(X, y).best_score_ > 0.9
    assert CalibratedClassifierCV(model, cv=3).fit(X, y).score(X, y) > 0.9
    assert permutation_importance(model.fit(X, y), X, y).importances_mean[0] > 0.1
    drawn = random.integers(0, 60, 60)  # a bootstrap has rows twice
    assert model.fit(X.iloc[drawn], y.iloc[drawn]).score(X, y) > 0.9
