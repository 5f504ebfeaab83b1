"""L-BFGS with an L1 term: the pseudo-gradient, and the optimum of other solvers on any ranks."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sklearn.linear_model
import sklearn.svm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from daskpart import LinearRegression, LinearSVC, LogisticRegression
from daskpart.models.linear.orthants import keep_signs, orthant_of, pseudo_gradient

EXACT = {"transport": "local", "tol": 1e-9, "max_iter": 5000}
ZERO_OFTEN = st.sampled_from([-2.0, -0.5, 0.0, 0.0, 0.25, 1.0])


def samples(n_samples=150, n_features=12, n_classes=2):
    """Some features say much, some nothing, and one is always zero."""
    random = np.random.default_rng(3)
    X = random.normal(size=(n_samples, n_features)) * (random.random((n_samples, n_features)) < 0.6)
    X[:, 4] = 0
    scores = X[:, :5] @ random.normal(size=(5, n_classes))
    y = (scores + 0.7 * random.normal(size=scores.shape)).argmax(axis=1)
    return X, y, random.uniform(0.2, 2.0, n_samples)


@given(
    arrays(np.float64, 6, elements=ZERO_OFTEN),
    arrays(np.float64, 6, elements=ZERO_OFTEN),
    st.sampled_from([0.0, 0.5, 0.75]),
    st.integers(0, 6),
)
def test_the_pseudo_gradient_is_the_steepest_way_up(weights, gradient, l1, n_penalised):
    """Along each axis: the slope of the way down if there is one, else 0."""
    pseudo = pseudo_gradient(gradient, weights, l1, n_penalised)
    for i, (w, g) in enumerate(zip(weights, gradient, strict=True)):
        strength = l1 if i < n_penalised else 0.0
        # of g·x + strength |w + x|, by the quotient at ±h, h shorter than any |w| that is not 0
        right, left = (
            (g * h + strength * (abs(w + h) - abs(w))) / abs(h) for h in (2.0**-20, -(2.0**-20))
        )
        expected = right if right < 0 else -left if left < 0 else 0.0
        assert pseudo[i] == expected


@given(
    arrays(np.float64, 5, elements=ZERO_OFTEN),
    arrays(np.float64, 5, elements=ZERO_OFTEN),
    arrays(np.float64, 5, elements=st.floats(-3, 3)),
)
def test_a_step_keeps_to_the_orthant(weights, pseudo, move):
    tried = weights + move
    kept = tried.copy()
    keep_signs(kept, orthant_of(weights, pseudo))
    for before, downhill, wanted, got in zip(weights, -pseudo, tried, kept, strict=True):
        side = np.sign(before or downhill)  # products of the numbers themselves can come to 0
        assert got == (wanted if np.sign(wanted) == side else 0)


@pytest.mark.parametrize("n_ranks", [1, 3, 8])
@pytest.mark.parametrize("l1_ratio", [0.4, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_lasso_and_elastic_net_are_scikit_learns(n_ranks, l1_ratio, weighted):
    X, y, weight = samples()
    y, weight = X[:, :3].sum(axis=1) + 0.1 * y, weight if weighted else None
    theirs = sklearn.linear_model.ElasticNet(0.05, l1_ratio=l1_ratio, tol=1e-14, max_iter=10_000)
    theirs.fit(X, y, weight)
    model = LinearRegression(alpha=0.05, l1_ratio=l1_ratio, n_ranks=n_ranks, **EXACT)
    model.fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-6)
    assert ((model.coef_ == 0) == (theirs.coef_ == 0)).all() and (model.coef_ == 0).any()


def test_each_of_several_targets_has_the_lasso_that_it_has_alone():
    X, y, _ = samples()
    Y = np.column_stack([X[:, 0] + y, 10 * X[:, 1] - X[:, 2], 0 * y])
    lasso = LinearRegression(alpha=0.1, l1_ratio=1, n_ranks=2, **EXACT).fit(X, Y)
    for coefficients, target in zip(lasso.coef_, Y.T, strict=True):
        alone = sklearn.linear_model.Lasso(0.1, tol=1e-14).fit(X, target)
        np.testing.assert_allclose(coefficients, alone.coef_, atol=1e-6)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_is_scikit_learns(n_ranks, l1_ratio, n_classes):
    X, y, weight = samples(n_classes=n_classes)
    theirs = sklearn.linear_model.LogisticRegression(
        C=0.2, l1_ratio=l1_ratio, solver="saga", tol=1e-10, max_iter=50_000, random_state=0
    )
    theirs.fit(X, y, weight)
    model = LogisticRegression(C=0.2, l1_ratio=l1_ratio, n_ranks=n_ranks, **EXACT)
    model.fit(scipy.sparse.csr_array(X), y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert ((model.coef_ == 0) == (theirs.coef_ == 0)).all() and (model.coef_ == 0).any()
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_a_support_vector_machine_is_scikit_learns(n_ranks):
    X, y, _ = samples(n_classes=3)
    theirs = sklearn.svm.LinearSVC(
        penalty="l1", C=0.1, fit_intercept=False, tol=1e-10, max_iter=100_000, random_state=0
    )
    theirs.fit(X, y)
    model = LinearSVC(0.1, l1_ratio=1, fit_intercept=False, n_ranks=n_ranks, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert not model.intercept_.any()


def test_the_huber_loss_has_the_optimum_of_a_bounded_problem():
    """w = u − v with u, v ≥ 0, of which the sum is the L1 term: smooth, so scipy finds it."""
    X, y, _ = samples()
    target, alpha, epsilon = 3 * X[:, 0] - X[:, 1] + 5 * (y == 0), 0.1, 0.7
    n_features = X.shape[1]

    def objective(values):
        positive, negative = values[:n_features], values[n_features:-1]
        apart = X @ (positive - negative) + values[-1] - target
        size = np.abs(apart)
        each = np.where(size <= epsilon, apart**2 / 2, epsilon * (size - epsilon / 2))
        slope = X.T @ np.clip(apart, -epsilon, epsilon) / len(target)
        middle = np.clip(apart, -epsilon, epsilon).mean()
        penalty = alpha * (positive.sum() + negative.sum())
        return each.mean() + penalty, np.concatenate([slope + alpha, alpha - slope, [middle]])

    bounds = [(0, None)] * (2 * n_features) + [(None, None)]
    found = scipy.optimize.minimize(
        objective, np.zeros(2 * n_features + 1), jac=True, bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    model = LinearRegression("huber", alpha=alpha, l1_ratio=1, epsilon=epsilon, n_ranks=2, **EXACT)
    model.fit(X, target)
    coefficients = found.x[:n_features] - found.x[n_features:-1]
    np.testing.assert_allclose(model.coef_, coefficients, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, found.x[-1], atol=1e-5)
    assert (model.coef_ == 0).any() and (model.coef_ != 0).any()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_features_of_any_scale_are_borne(scale):
    X, y, _ = samples()
    model = LogisticRegression(C=1.0, l1_ratio=1, n_ranks=2, **EXACT).fit(X, y)
    scaled = LogisticRegression(
        C=1.0 / scale, l1_ratio=1, n_ranks=2, **EXACT | {"tol": 1e-9 * scale}
    )
    scaled.fit(X * scale, y)
    np.testing.assert_allclose(scaled.coef_ * scale, model.coef_, atol=1e-4)


def test_a_strong_penalty_leaves_the_intercept_alone():
    X, y, _ = samples()
    model = LogisticRegression(C=1e-9, l1_ratio=1, n_ranks=2, **EXACT).fit(X, y)
    assert not model.coef_.any()
    np.testing.assert_allclose(model.intercept_, np.log(y.mean() / (1 - y.mean())), rtol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), n_ranks=st.integers(2, 5), l1_ratio=st.floats(0.1, 1.0))
@settings(max_examples=20, deadline=None)
def test_more_ranks_find_the_same_optimum(seed, n_ranks, l1_ratio):
    random = np.random.default_rng(seed)
    X = random.normal(size=(40, 6)) * (random.random((40, 6)) < 0.5)
    y = np.arange(40) % 2
    how = {"C": 0.5, "l1_ratio": l1_ratio, **EXACT}
    one = LogisticRegression(n_ranks=1, **how).fit(X, y)
    some = LogisticRegression(n_ranks=n_ranks, **how).fit(X, y)
    np.testing.assert_allclose(some.coef_, one.coef_, atol=1e-6)
    np.testing.assert_allclose(some.intercept_, one.intercept_, atol=1e-6)


def test_a_warm_start_goes_from_one_penalty_to_another():
    X, y, _ = samples()
    model = LogisticRegression(n_ranks=2, warm_start=True, **EXACT).fit(X, y)
    assert (model.coef_ != 0).sum() > 10
    model.set_params(l1_ratio=1.0, C=0.2).fit(X, y)
    anew = LogisticRegression(0.2, l1_ratio=1.0, n_ranks=2, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.coef_, anew.coef_, atol=1e-6)
