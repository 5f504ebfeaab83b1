"""Weights of elsewhere in linear models and perceptrons: they predict, and a fit goes on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import linear_model, neural_network, svm

from daskpart import LinearRegression, LinearSVC, LogisticRegression, MLPClassifier, MLPRegressor
from daskpart.errors import InputError
from daskpart.models.base.state import same_bits
from daskpart.models.mlp.perceptron import Perceptron

HERE = {"n_ranks": 2, "transport": "local"}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 4))
NUMBERS = X @ [1.0, 2.0, 3.0, 4.0] + 1
TABLE = np.column_stack((NUMBERS, -X[:, 0]))
LABELS = {
    2: np.where(X[:, 0] > 0, "yes", "no"),
    3: np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.4, 0.4])],
}


@pytest.mark.parametrize("n_classes", LABELS)
def test_linear_classifiers_of_scikit_learn(n_classes):
    y = LABELS[n_classes]
    theirs = linear_model.LogisticRegression().fit(X, y)
    mine = LogisticRegression(**HERE).set_coefs(
        theirs.coef_, theirs.intercept_, classes=theirs.classes_
    )
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X))
    assert mine.score(X, y) == theirs.score(X, y) and mine.coef_.shape == theirs.coef_.shape
    theirs = svm.LinearSVC().fit(X, y)
    mine = LinearSVC(**HERE).set_coefs(theirs.coef_, theirs.intercept_, classes=theirs.classes_)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X))


@pytest.mark.parametrize("y", [NUMBERS, TABLE])
def test_regressions_of_scikit_learn(y):
    theirs = linear_model.Ridge().fit(X, y)
    mine = LinearRegression(**HERE).set_coefs(theirs.coef_, theirs.intercept_)
    np.testing.assert_allclose(mine.predict(X), theirs.predict(X))
    assert np.shape(mine.intercept_) == np.shape(theirs.intercept_)
    through = linear_model.Ridge(fit_intercept=False).fit(X, y)
    mine.set_coefs(through.coef_, through.intercept_)
    np.testing.assert_allclose(mine.predict(X), through.predict(X))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("hidden", [(), (5,), (5, 3)])
def test_perceptrons_of_scikit_learn(hidden, tmp_path):
    options = {"hidden_layer_sizes": hidden, "activation": "tanh"}
    for y in (*LABELS.values(), (TABLE > 0).astype(int)):
        theirs = neural_network.MLPClassifier(**options, max_iter=20).fit(X, y)
        names = {"several": True} if y.ndim == 2 else {"classes": theirs.classes_}
        mine = MLPClassifier(**options, **HERE).set_coefs(
            theirs.coefs_, theirs.intercepts_, **names
        )
        np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X))
        assert mine.score(X, y) == theirs.score(X, y)
        mine.save(tmp_path / "model")
        loaded = MLPClassifier.load(tmp_path / "model")
        assert same_bits(loaded.state_, mine.state_) and loaded.score(X, y) == mine.score(X, y)
        assert mine.partial_fit(X, y).n_iter_ == 1
    for y in (NUMBERS, TABLE):
        theirs = neural_network.MLPRegressor(**options, max_iter=20).fit(X, y)
        mine = MLPRegressor(**options, **HERE).set_coefs(theirs.coefs_, theirs.intercepts_)
        np.testing.assert_allclose(mine.predict(X), theirs.predict(X))
        assert mine.partial_fit(X, y).n_iter_ == 1
    assert mine.set_coefs(*_short(theirs)).predict(X).dtype == np.float64
    assert {each.dtype for each in mine.coefs_} == {np.dtype("float32")}


def _short(theirs):
    return [[each.astype("f") for each in given] for given in (theirs.coefs_, theirs.intercepts_)]


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(**HERE),
        LogisticRegression(solver="server", max_iter=3, **HERE),
        LogisticRegression(solver="sgd", max_iter=3, **HERE),
        LogisticRegression(solver="sgd", aggregation="server", max_iter=3, **HERE),
        LogisticRegression(solver="sgd", optimizer="sgd", top_k=2, max_iter=3, **HERE),
        LinearRegression(**HERE),
        MLPClassifier((3,), max_iter=3, top_k=2, **HERE),
        MLPRegressor((3,), max_iter=3, **HERE),
    ],
)
def test_a_fit_goes_on_from_them_as_from_its_own_first_weights(model):
    y = LABELS[3] if hasattr(model, "predict_proba") else TABLE
    classes = {"classes": np.unique(y)} if y.ndim == 1 else {}
    expected = model.fit(X, y).state_
    if isinstance(model, Perceptron):
        problem = model._problem(X, y, {}, 0)
        first = model._network_of(problem).first_weights(0)
        given = [[first[f"{place}.{name}"] for place in (0, 1)] for name in ("weight", "bias")]
    else:
        given = [np.zeros_like(model.coef_)]
    model.set_params(warm_start=True).set_coefs(*given, **classes)
    assert model.n_iter_ == 0 and not hasattr(model, "plan_report_")
    found = model.fit(X, y).state_
    for name in ("seconds", "seconds_computing", "seconds_communicating"):
        for state in (found, expected):
            for row in state.history:
                row.pop(name)
    assert same_bits(found, expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LogisticRegression().set_coefs(np.eye(2)), "coef has 2 rows"),
        (lambda: LogisticRegression().set_coefs([[1, np.nan]]), "1 NaN or infinite among 2 coef"),
        (lambda: LogisticRegression().set_coefs(np.ones((1, 1, 1))), "coef values have the shape"),
        (lambda: LinearRegression().set_coefs(np.eye(3), [1, 2]), "intercept has shape"),
        (lambda: LinearRegression().set_coefs([1.0], classes=[1]), "classes=.*: LinearRegression"),
        (lambda: LinearSVC().set_coefs([1], classes=["b", "a"]), r"classes are \['b', 'a'\], and"),
        (lambda: LinearSVC().set_coefs([1], classes=["b"]), r"weights are of 2: name each once"),
        (lambda: LinearSVC().set_coefs([1], classes=["b", 1]), "b"),
        (lambda: MLPClassifier().set_coefs([np.eye(2)], [[0, 0]]), r"\(2, 100\), \(100, 2\)"),
        (lambda: MLPClassifier(()).set_coefs([np.eye(2)], [[0]]), r"intercepts \[1\]"),
        (lambda: MLPClassifier(()).set_coefs([], []), r"coefs have \[\]"),
        (lambda: MLPClassifier(()).set_coefs(None, []), "coefs is None: give a list of arrays"),
        (lambda: MLPClassifier(()).set_coefs([["x"]], [[0]]), r"coefs\[0\] values have the shape"),
        (
            lambda: MLPClassifier(()).set_coefs(
                [np.eye(2)], [[0, 0]], classes=[1, 2], several=True
            ),
            "they are the numbers of the outputs",
        ),
    ],
)
def test_weights_that_fit_nothing_are_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
