"""Samples to measure a loss on: what does not fit those that are learnt from is refused."""

from __future__ import annotations

from functools import partial
from itertools import cycle

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import GridSearchCV

from daskpart import LinearRegression, LinearSVC, LogisticRegression, MLPClassifier, MLPRegressor
from daskpart.errors import InputError
from daskpart.readers import survey

LOCAL = {"n_ranks": 1, "transport": "local", "max_iter": 2, "tol": 0}
RANKS = {"n_ranks": 2, "transport": "local", "max_iter": 3, "tol": 0}
RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(40, 3))
Y = X @ RANDOM.normal(size=(3, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [
    lambda: LinearRegression(**LOCAL), lambda: MLPRegressor((3,), **LOCAL)
])  # fmt: skip
@pytest.mark.parametrize(("here", "there"), [(1, 2), (2, 1), (2, 4)])
def test_targets_of_another_number_are_refused(make, here, there):
    """numpy would stretch one column over many, and the loss would be that of no model."""
    with pytest.raises(InputError, match=r"eval_set have .* targets? each, those of the fit "):
        make().fit(X, Y[:, :here], eval_set=(X, Y[:, :there]))
    assert "validation_loss" in make().fit(X, Y[:, :here], eval_set=(X, Y[:, :here])).history_


def test_a_file_has_one_target(tmp_path):
    rows = [f"{y} 1:{x[0]} 2:{x[1]} 3:{x[2]}\n" for x, y in zip(X, Y[:, 0], strict=True)]
    (tmp_path / "x.libsvm").write_text("".join(rows))
    file = survey(tmp_path / "x.libsvm")
    with pytest.raises(InputError, match="one target each, those of the fit 2 targets each"):
        LinearRegression(**LOCAL).fit(X, Y[:, :2], eval_set=(file, None))


def test_one_class_is_not_several():
    with pytest.raises(InputError, match="one target each, those of the fit 4 targets each"):
        MLPClassifier((3,), **LOCAL).fit(X, Y > 0, eval_set=(X, Y.argmax(axis=1)))


MODELS = {
    "logistic": partial(LogisticRegression, C=0.1, max_iter=40, n_ranks=2, transport="local"),
    "sgd": partial(LogisticRegression, solver="sgd", batch_size=5, **RANKS),
    "balanced": partial(
        LogisticRegression, solver="sgd", batch_size=5, class_weight="balanced", **RANKS
    ),
    "server": partial(
        LogisticRegression, solver="sgd", aggregation="server", partitioner="random", **RANKS
    ),
    "svm": partial(LinearSVC, solver="sgd", batch_size=5, **RANKS),
    "linear": partial(LinearRegression, solver="sgd", batch_size=5, **RANKS),
    "mlp": partial(MLPClassifier, (3,), batch_size=5, **RANKS),
    "mlp numbers": partial(MLPRegressor, (3,), batch_size=5, **RANKS),
}


def weights(model):
    return [*model.coefs_] if hasattr(model, "coefs_") else [model.coef_, model.intercept_]


def assert_same(found, expected):
    for one, other in zip(weights(found), weights(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    columns = [each for each in expected.history_ if "loss" in each or "score" in each]
    assert "validation_loss" in columns
    pd.testing.assert_frame_equal(found.history_[columns], expected.history_[columns])


def wide(n_samples=200):
    random = np.random.default_rng(0)
    table = np.round(random.normal(size=(n_samples, 4)), 3)
    return table, np.where(table[:, 0] + 0.3 * random.normal(size=n_samples) > 0, 2.0, 7.0)


@pytest.mark.parametrize(("name", "seed"), [*zip(MODELS, cycle([0, 3]), strict=False)])
def test_a_share_is_held_out_as_by_hand(name, seed):
    """Drawn as the command line draws it; classes and their weights are of what is left."""
    table, y = wide()
    held, kept = (
        np.sort(own) for own in np.split(np.random.default_rng([seed, 1]).permutation(200), [40])
    )
    by_hand = MODELS[name](random_state=seed).fit(
        table[kept], y[kept], eval_set=(table[held], y[held])
    )
    make = partial(MODELS[name], random_state=seed, validation_fraction=0.2)
    containers = (
        table, scipy.sparse.csr_array(table), pd.DataFrame(table),
        dask.array.from_array(table, chunks=(30, 4)),
        dask.array.from_array(table, chunks=(30, 4)).map_blocks(scipy.sparse.csr_matrix),
    )  # fmt: skip
    for X in containers:
        assert_same(make().fit(X, y), by_hand)
    planned = make()
    plan = planned.plan(table, y)
    assert plan.partition is None or sum(map(len, plan.members)) == 160
    assert_same(planned.fit(table, y, plan=plan), by_hand)


@pytest.mark.parametrize("name", ["sgd", "balanced", "linear", "mlp"])
def test_a_share_of_a_file_is_that_of_its_split(name, tmp_path):
    table, y = wide()
    dump_svmlight_file(table, y, str(tmp_path / "x.libsvm"), zero_based=False)
    file = survey(tmp_path / "x.libsvm")
    rest, held = file.split(0.2, random_state=[0, 1])
    by_hand = MODELS[name]().fit(rest, eval_set=(held, None))
    found = MODELS[name](validation_fraction=0.2).fit(file)
    assert_same(found, by_hand)
    with pytest.raises(InputError, match=r"a file has its own targets"):
        MODELS[name](validation_fraction=0.2).fit(file, y)


def test_weights_of_samples_held_out_count():
    table, y = wide()
    make = partial(MODELS["sgd"], validation_fraction=0.2)
    weight = np.where(np.arange(200) % 2, 3.0, 1.0)
    fitted = make().fit(table, y, weight)
    held = np.sort(np.random.default_rng([0, 1]).permutation(200)[:40])
    chances = fitted.predict_proba(table[held])
    right = chances[np.arange(40), (y[held] == 7).astype(int)]
    expected = np.average(-np.log(right), weights=weight[held])
    assert fitted.history_["validation_loss"].iloc[-1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["sgd", "mlp"])
def test_patience_looks_at_a_share(name):
    table, y = wide()
    rate = {"learning_rate_init" if name == "mlp" else "eta0": 0.5}
    make = partial(MODELS[name], patience=1, **rate)
    fitted = make(max_iter=100, validation_fraction=0.3).fit(table, y)
    assert fitted.n_iter_ < 100
    assert fitted.best_iteration_ == fitted.history_["validation_loss"].argmin() + 1
    with pytest.raises(InputError, match="needs eval_set=… or validation_fraction above 0"):
        make().fit(table, y)
    with pytest.raises(InputError, match=r"give eval_set=… or validation_fraction, not both"):
        make(validation_fraction=0.3).fit(table, y, eval_set=(table, y))
    with pytest.raises(InputError, match=r"'validation_fraction'.* Got 1"):
        make(validation_fraction=1.0).fit(table, y)
    with pytest.raises(InputError, match=r"validation_fraction=0.001 of 200 samples is less than"):
        make(validation_fraction=0.001).fit(table, y)


def test_partial_fit_learns_from_all():
    table, y = wide()
    classes = np.unique(y)
    one, other = (
        MODELS["sgd"](validation_fraction=share).partial_fit(table, y, classes)
        for share in (0.0, 0.5)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_a_class_that_is_held_out_whole_is_told(tmp_path):
    table, y = wide(60)
    y[np.random.default_rng([0, 1]).permutation(60)[0]] = 9.0
    dump_svmlight_file(table, y, str(tmp_path / "x.libsvm"), zero_based=False)
    file = survey(tmp_path / "x.libsvm")
    make = partial(MODELS["mlp"], validation_fraction=0.2)
    words = r"all samples of class 9.0 were drawn by validation_fraction"
    for X in (table, dask.array.from_array(table, chunks=(30, 4))):
        with pytest.raises(InputError, match=words):
            make().fit(X, y)
    with pytest.raises(InputError, match=r"one class only, False, to learn from: .* hold out less"):
        make().fit(table, y == 9.0)
    y[y == 9.0] = 2.0
    names = np.where(y == 2.0, "yes", "no")
    assert make().fit(table, names).classes_.tolist() == ["no", "yes"]
    several = np.stack([y == 2, np.arange(60) == 0], axis=1)
    assert make().fit(table, several).several_
    drawn = [
        seed for seed in range(40) if 9.0 not in file.split(0.2, random_state=[seed, 1])[0].labels
    ]
    assert drawn
    with pytest.raises(InputError, match=words):
        make(random_state=drawn[0]).fit(file)


def test_scikit_learn_may_search_with_a_share_held_out():
    table, y = wide()
    model = MODELS["sgd"](validation_fraction=0.2, patience=2, max_iter=20)
    search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=3).fit(table, y)
    assert search.best_score_ > 0.8
    assert clone(model).get_params()["validation_fraction"] == 0.2
