"""Linear models come to the optimum of scikit-learn, and SGD close to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sklearn.linear_model
import sklearn.svm
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from test_linear_estimators import EXACT, reference, samples

import daskpart
from daskpart import LinearRegression, LinearSVC, LogisticRegression
from daskpart.errors import InputError


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("options", [
    {}, {"C": 0.03}, {"C": 100.0}, {"fit_intercept": False}, {"class_weight": "balanced"},
    {"class_weight": {0: 3.0}},
])  # fmt: skip
def test_lbfgs_finds_the_coefficients_of_scikit_learn(n_classes, options):
    X, y = samples(n_classes)
    weights = np.random.default_rng(1).random(len(y))
    model = LogisticRegression(**options, **EXACT).fit(X, y, weights)
    expected = reference(**options).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.coef_.shape == expected.coef_.shape


def test_one_against_the_rest():
    X, y = samples(3)
    model = LogisticRegression(multi_class="ovr", **EXACT).fit(X, y)
    for c in range(3):
        expected = reference().fit(X, y == c)
        np.testing.assert_allclose(model.coef_[c], expected.coef_[0], atol=1e-4)
        np.testing.assert_allclose(model.intercept_[c], expected.intercept_[0], atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_without_penalty():
    X, y = samples(3)
    model = LogisticRegression(C=np.inf, **EXACT).fit(X, y)
    expected = reference(C=np.inf).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-4)


def test_squared_hinge_is_at_its_optimum():
    X, y = samples()
    target = 2 * y - 1
    model = LinearSVC(C=0.1, **EXACT).fit(X, y)

    def objective(w: np.ndarray) -> float:
        gap = np.maximum(0, 1 - target * (X @ w[:-1] + w[-1]))
        return 0.1 * (gap**2).sum() + 0.5 * w[:-1] @ w[:-1]

    best = minimize(objective, np.zeros(X.shape[1] + 1), tol=1e-12)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best.x, atol=1e-4)


def test_least_squares_ridge_and_huber():
    X, y = samples(n=80)
    y = X @ np.arange(12.0) + 3 + np.random.default_rng(2).normal(size=80)
    weights = np.random.default_rng(1).random(80)
    model = LinearRegression(**EXACT).fit(X, y, weights)
    expected = sklearn.linear_model.LinearRegression().fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    assert model.intercept_ == pytest.approx(expected.intercept_)
    ridge = sklearn.linear_model.Ridge(0.1 * weights.sum()).fit(X, y, weights)
    model = LinearRegression(alpha=0.1, **EXACT).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-6)
    y[3] += 1000
    robust = LinearRegression("huber", **EXACT).fit(X, y)
    np.testing.assert_allclose(robust.coef_, np.arange(12.0), atol=0.5)
    slope = np.clip(robust.predict(X) - y, -1.35, 1.35)
    np.testing.assert_allclose(X.T @ slope / 80, 0, atol=1e-8)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_several_targets_have_the_coefficients_of_scikit_learn(n_ranks, tmp_path):
    X, y = samples(n=80)
    Y = np.random.default_rng(2).normal(size=(80, 3)) + y[:, None]
    weights = np.random.default_rng(1).random(80)
    ridge = sklearn.linear_model.Ridge(0.1 * weights.sum()).fit(X, Y, weights)
    model = LinearRegression(alpha=0.1, **{**EXACT, "n_ranks": n_ranks}).fit(X, Y, weights)
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-6)
    assert model.score(X, Y, weights) == pytest.approx(ridge.score(X, Y, weights))
    model.save(tmp_path / "model")
    again = LinearRegression.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InputError, match="3 outputs"):
        model.set_params(warm_start=True).fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="1d"):
        LogisticRegression(**EXACT).fit(X, (Y > 0).astype(int))


def mean_loss(model: Any, X: Any, y: Any, weights: Any = None) -> float:
    """C Σ s log loss + ½ ‖w‖², a sample."""
    weights = np.ones(len(y)) if weights is None else weights
    own = model.predict_proba(X)[np.arange(len(y)), y]
    total = -(weights @ np.log(own)) + (model.coef_**2).sum() / (2 * model.C)
    return float(total / weights.sum())


def drawn_weights(y: Any, weighted: bool) -> Any:
    return np.random.default_rng(0).uniform(0.2, 2.0, len(y)) if weighted else None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sgd_with_a_decaying_rate_comes_within_a_thousandth(n_classes):
    X, y = samples(n_classes, 400)
    for more in ({"n_ranks": 1}, {"n_ranks": 1, "average": True}, {"n_ranks": 2}):
        model = LogisticRegression(
            C=0.1, solver="sgd", batch_size=8, max_iter=100, tol=0, transport="local", **more
        ).fit(X, y)
        best = mean_loss(reference(C=0.1).fit(X, y), X, y)
        assert mean_loss(model, X, y) <= 1.001 * best


@pytest.fixture(scope="module")
def a9a(shared_data) -> tuple[Any, Any]:
    """12,000 samples with targets of 1 and −1; nobody changes them."""
    train = daskpart.read(shared_data / "linear" / "a9a.libsvm.gz")
    return scipy.sparse.csr_matrix(train.data)[:12_000], np.sign(train.target)[:12_000]


@pytest.mark.parametrize("weighted", [False, True])
def test_a9a_reaches_the_optimum(a9a, weighted):
    X, y = a9a[0], (a9a[1] > 0).astype(int)
    # its columns are one-hot groups: the objective is flat along them, so tolerances are tight
    expected = sklearn.linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12)
    weights = drawn_weights(y, weighted)
    expected.fit(X.toarray(), y, weights)
    model = LogisticRegression(**{**EXACT, "tol": 1e-10}).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)
    by_sgd = LogisticRegression(transport="local", solver="sgd", max_iter=100, tol=0)
    by_sgd.fit(X, y, weights)
    assert mean_loss(by_sgd, X, y, weights) <= 1.001 * mean_loss(expected, X, y, weights)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_linear_svc_reaches_the_optimum_on_a9a(a9a, loss):
    """Without an intercept, which liblinear penalises."""
    X, y = (each[:6000] for each in a9a)

    def objective(model: Any) -> float:
        gap, w = np.maximum(0, 1 - y * (X @ model.coef_[0])), model.coef_[0]
        return float((gap if loss == "hinge" else gap**2).mean() + w @ w / (2 * len(y)))

    plain = {"loss": loss, "fit_intercept": False}
    exact = sklearn.svm.LinearSVC(dual=loss == "hinge", max_iter=100_000, random_state=0, **plain)
    model = LinearSVC(solver="sgd", batch_size=16, max_iter=300, tol=0, transport="local", **plain)
    assert objective(model.fit(X, y)) <= 1.001 * objective(exact.fit(X, y))


@pytest.mark.parametrize("weighted", [False, True])
def test_digits_reach_the_optimum(weighted):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16, y[:600]
    weights = drawn_weights(y, weighted)
    expected = reference(C=0.1).fit(X, y, weights)
    model = LogisticRegression(C=0.1, **EXACT).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-4)
    sgd = {"C": 0.1, "transport": "local", "solver": "sgd", "batch_size": 16, "tol": 0}
    by_sgd = LogisticRegression(max_iter=200, **sgd).fit(X, y, weights)
    assert mean_loss(by_sgd, X, y, weights) <= 1.001 * mean_loss(expected, X, y, weights)
