"""Poisson regression: scikit-learn's optimum on any ranks, from memory, chunks and files."""

import dask.array as da
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sklearn.linear_model
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart import PoissonRegressor
from daskpart.errors import InputError
from daskpart.models.linear.losses import _poisson
from daskpart.readers import survey

LOCAL = {"n_ranks": 2, "transport": "local"}
EXACT = {"transport": "local", "tol": 1e-10, "max_iter": 1000}


def samples(seed=0, n_samples=120, n_features=5):
    """Sparse features, counts of which many are 0, and times that they were counted in."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_samples, n_features)) * (random.random((n_samples, n_features)) < 0.6)
    times = random.uniform(0.2, 3.0, n_samples)
    counts = random.poisson(times * np.exp(X[:, 0] - 0.5 * X[:, 1] + 0.3)).astype(float)
    return X, counts, times


@given(score=st.floats(-20, 20), y=st.one_of(st.just(0.0), st.floats(1e-3, 1e3)))
def test_the_loss_is_half_the_deviance_and_the_slope_its_derivative(score, y):
    loss, mean = _poisson.py_func, np.exp(score)
    deviance = (y * np.log(y / mean) if y else 0.0) - y + mean
    scale = mean + y * (1 + abs(score)) + 1
    found, slope = loss(score, y)
    assert found == pytest.approx(deviance, abs=1e-12 * scale)
    step = 1e-5
    quotient = (loss(score + step, y)[0] - loss(score - step, y)[0]) / (2 * step)
    assert slope == pytest.approx(quotient, abs=1e-6 * scale)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_of_counts_in_millions_the_optimum_is_found(seed, l1_ratio):
    """Where losses are small beside what they are differences of."""
    random, alpha, tol = np.random.default_rng(seed), 1e-3, 1e-3
    X = random.normal(size=(30, 4)) * 10.0 ** random.integers(-1, 2, size=4)
    y = random.poisson(1e6 * np.exp(X @ random.normal(size=4) / np.abs(X).max(axis=0).sum()))
    model = PoissonRegressor(alpha, l1_ratio=l1_ratio, tol=tol, max_iter=1000, **LOCAL).fit(X, y)
    apart = (model.predict(X) - y) / len(y)
    slope = X.T @ apart + alpha * (1 - l1_ratio) * model.coef_
    slope += alpha * l1_ratio * np.sign(model.coef_)
    assert np.abs(slope[model.coef_ != 0]).max() < 1.1 * tol and abs(apart.sum()) < 1.1 * tol
    assert (model.history_["loss"] >= 0).all()


@given(
    seed=st.integers(0, 100),
    n_ranks=st.integers(1, 8),
    alpha=st.sampled_from([0.0, 0.01, 1.0]),
    weighted=st.booleans(),
    intercept=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_coefficients_are_scikit_learns(seed, n_ranks, alpha, weighted, intercept):
    X, y, times = samples(seed)
    weight = times if weighted else None
    y = y / times if weighted else y
    kept = {"alpha": alpha, "fit_intercept": intercept}
    theirs = sklearn.linear_model.PoissonRegressor(**kept, tol=1e-12, max_iter=10_000)
    theirs.fit(X, y, weight)
    model = PoissonRegressor(**kept, n_ranks=n_ranks, **EXACT)
    model.fit(scipy.sparse.csr_array(X), y, weight)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-4)
    assert model.score(X, y, weight) == pytest.approx(theirs.score(X, y, weight), abs=1e-6)


def test_an_l1_term_has_the_optimum_of_a_bounded_problem():
    """w = u − v with u, v ≥ 0, of which the sum is the L1 term: smooth, so scipy finds it."""
    X, y, _ = samples()
    n_features, alpha = X.shape[1], 0.2

    def objective(values):
        scores = X @ (values[:n_features] - values[n_features:-1]) + values[-1]
        apart = np.exp(scores) - y
        slope = X.T @ apart / len(y)
        loss = (np.exp(scores) - y * scores).mean() + alpha * values[:-1].sum()
        return loss, np.concatenate([slope + alpha, alpha - slope, [apart.mean()]])

    found = scipy.optimize.minimize(
        objective, np.zeros(2 * n_features + 1), jac=True,
        bounds=[(0, None)] * (2 * n_features) + [(None, None)],
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    model = PoissonRegressor(alpha, l1_ratio=1, n_ranks=3, **EXACT).fit(X, y)
    expected = found.x[:n_features] - found.x[n_features:-1]
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, found.x[-1], atol=1e-5)
    assert (model.coef_ == 0).any() and (model.coef_ != 0).any()


@pytest.mark.parametrize("more", [{}, {"optimizer": "sgd"}, {"top_k": 2}, {"optimizer": "adam"}])
def test_sgd_comes_near_the_optimum(more):
    X, y, _ = samples()
    best = PoissonRegressor(0.01, **LOCAL, tol=1e-9, max_iter=500).fit(X, y)
    model = PoissonRegressor(0.01, solver="sgd", max_iter=200, tol=0, batch_size=8, **LOCAL, **more)
    model.fit(X, y)
    assert model.score(X, y) > best.score(X, y) - 0.01


def test_chunks_and_files_have_the_model_of_memory(tmp_path):
    X, y, _ = samples()
    model = PoissonRegressor(**LOCAL, tol=1e-9).fit(X, y)
    chunks = da.from_array(X, (50, -1))
    lazily = PoissonRegressor(**LOCAL, tol=1e-9).fit(chunks, y)
    np.testing.assert_allclose(lazily.coef_, model.coef_, atol=1e-8)
    answers = lazily.predict(chunks)
    assert isinstance(answers, da.Array)
    np.testing.assert_allclose(answers.compute(), lazily.predict(X), rtol=1e-12)
    lines = [
        f"{label:g} " + " ".join(f"{j + 1}:{row[j]!r}" for j in np.flatnonzero(row))
        for label, row in zip(y, X.tolist(), strict=True)
    ]
    lines = [line.replace("np.float64(", "") for line in lines]
    (tmp_path / "x.libsvm").write_text("\n".join(lines) + "\n")
    file = survey(tmp_path / "x.libsvm")
    read = PoissonRegressor(**LOCAL, tol=1e-9).fit(file)
    np.testing.assert_allclose(read.coef_, model.coef_, atol=1e-8)
    assert read.score(file) == pytest.approx(model.score(X, y), abs=1e-8)
    (tmp_path / "y.libsvm").write_text("1 1:2\n-3 1:1\n")
    with pytest.raises(InputError, match="y holds -3: counts"):
        PoissonRegressor(**LOCAL).fit(survey(tmp_path / "y.libsvm"))


def test_what_is_no_count_is_refused():
    X, y, _ = samples()
    wrong = np.where(np.arange(len(y)) == 7, -0.5, y)
    model = PoissonRegressor(**LOCAL).fit(X, y)
    for call in (
        lambda: model.fit(X, wrong),
        lambda: model.fit(da.from_array(X, (50, -1)), wrong),
        lambda: model.fit(X, y, eval_set=(X, wrong)),
        lambda: model.score(X, wrong),
    ):
        with pytest.raises(InputError, match=r"y holds -0\.5: counts and rates are 0 or above"):
            call()
    with pytest.raises(InputError, match="coef has 2 rows: PoissonRegressor has one output"):
        model.set_coefs(np.ones((2, 5)))


def test_weights_from_elsewhere_predict_and_rows_beyond_the_fit_are_infinite():
    X, y, _ = samples()
    theirs = sklearn.linear_model.PoissonRegressor().fit(X, y)
    model = PoissonRegressor(**LOCAL).set_coefs(theirs.coef_, theirs.intercept_)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X))
    model.set_coefs(np.ones(5))
    assert model.predict(np.full((1, 5), 1e4)) == np.inf
    assert model.predict(np.full((1, 5), -1e4)) == 0
    assert np.isfinite(model.score(np.full((2, 5), -1e4), [0, 1]))


def test_predictions_beyond_all_numbers_have_a_score():
    model = PoissonRegressor(**LOCAL).set_coefs([1000.0])
    for X in ([[1.0], [0.0]], [[-1.0], [0.0]], [[-0.709], [0.7]]):
        assert model.score(X, [5e6, 1.0]) < -100


@pytest.mark.parametrize("y", [0.0, 0.1, 1.0])
def test_where_all_counts_are_alike_the_score_is_that_of_r2(y):
    """There is no deviance to explain, as in a fold of rare events."""
    X, _, _ = samples()
    model, last = PoissonRegressor(**LOCAL), np.arange(len(X)) == len(X) - 1
    for coef, expected in (np.ones(5), 0.0), (np.zeros(5), float(y == 1)):
        model.set_coefs(coef)
        assert model.score(X, np.full(len(X), y)) == expected
        if y != 1:
            assert model.score(X, np.where(last, 2.0, y), np.where(last, 0.0, 1.0)) == expected
