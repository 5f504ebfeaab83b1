"""L-BFGS: the recursion on products is the one on vectors; slices of the pairs lie with ranks."""

import warnings

import numpy as np
import pytest
from fit_tools import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from daskpart import LinearRegression, LogisticRegression, PoissonRegressor
from daskpart.errors import DaskpartWarning, DivergenceError
from daskpart.models.linear.lbfgs import (
    N_PAIRS,
    add_combination,
    add_products,
    slice_of,
    two_loops,
)


def by_vectors(gradient, moves, changes):
    """Nocedal and Wright 2006, algorithm 7.4."""
    direction, weights = -gradient, []
    for move, change in zip(reversed(moves), reversed(changes), strict=True):
        weights.append((move @ direction) / (move @ change))
        direction = direction - weights[-1] * change
    if len(moves):
        direction *= (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for move, change, weight in zip(moves, changes, reversed(weights), strict=True):
        direction = direction + (weight - (change @ direction) / (move @ change)) * move
    return direction


@given(
    n_pairs=st.integers(1, 6),
    n_known=st.integers(0, 6),
    size=st.integers(7, 2100),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_two_loops_over_products_are_those_over_vectors(n_pairs, n_known, size, seed):
    n_known = min(n_known, n_pairs)
    random = np.random.default_rng(seed)
    moves, gradient = random.normal(size=(n_known, size)), random.normal(size=size)
    changes = moves * random.uniform(0.5, 2.0, size)  # they curve upwards
    order = random.permutation(n_pairs)[:n_known].tolist()
    pairs = np.zeros((2 * n_pairs, size))
    pairs[order], pairs[[n_pairs + row for row in order]] = moves, changes
    products = np.zeros((2 * n_pairs, 2 * n_pairs + 1))
    for row in range(n_pairs):
        columns = np.zeros((2 * n_pairs, 3))
        add_products(pairs, pairs[row], pairs[n_pairs + row], gradient, columns)
        products[:, [row, n_pairs + row, -1]] = columns
    np.testing.assert_allclose(products[:, :-1], pairs @ pairs.T, rtol=1e-10, atol=1e-9)
    of_gradient, of_pairs = two_loops(products, order)
    direction = of_gradient * gradient
    add_combination(pairs[:n_pairs], pairs[n_pairs:], of_pairs, direction)
    expected = by_vectors(gradient, moves, changes)
    np.testing.assert_allclose(direction, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@given(size=st.integers(0, 50), n_ranks=st.integers(1, 12))
def test_slices_are_all_of_a_vector_in_order(size, n_ranks):
    slices = [slice_of(size, rank, n_ranks) for rank in range(n_ranks)]
    assert [i for each in slices for i in range(each.start, each.stop)] == list(range(size))
    assert all(each.stop - each.start <= -(-size // n_ranks) for each in slices)


def test_ranks_with_few_weights_or_none_find_the_same_optimum():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    y = (X @ [1.0, -2.0, 0.5, 0.0] + random.normal(size=60) > 0).astype(int)
    one, *several = (
        LogisticRegression(n_ranks=n_ranks, transport="local", tol=1e-9).fit(X, y)
        for n_ranks in (1, 2, 3, 8)
    )
    for some in several:
        np.testing.assert_allclose(some.coef_, one.coef_, atol=1e-7)
        np.testing.assert_allclose(some.intercept_, one.intercept_, atol=1e-7)


def samples():
    random = np.random.default_rng(1)
    X = random.normal(size=(200, 30)) * np.logspace(-2, 2, 30)
    return X, (X @ random.normal(size=30) + 20 * random.normal(size=200) > 0).astype(int)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("stop", [3, N_PAIRS + 4])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_a_resumed_fit_has_the_bits_of_an_unbroken_one(n_ranks, stop, l1_ratio, tmp_path):
    """Also when pairs have taken the place of older ones, so rows are in another order."""
    X, y = samples()
    how = {"n_ranks": n_ranks, "transport": "local", "tol": 0.0, "l1_ratio": l1_ratio}
    kept = {**how, "checkpoint_path": tmp_path / "run.npz"}
    last = 2 * N_PAIRS + 5
    whole = LogisticRegression(max_iter=last, **how).fit(X, y)
    LogisticRegression(max_iter=stop, **kept).fit(X, y)
    resumed = LogisticRegression(max_iter=last, resume=True, **kept).fit(X, y)
    assert resumed.n_iter_ == whole.n_iter_ > stop
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    for name, slot in whole.state_.slots.items():
        np.testing.assert_array_equal(resumed.state_.slots[name], slot)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (4, 2)])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("how", ["resume", "warm_start"])
def test_on_other_ranks_it_goes_on_with_its_pairs(before, after, l1_ratio, how, tmp_path):
    """They are of the data, whoever has them; without them it began anew, some iterations back."""
    X, y = samples()
    options = {"transport": "local", "tol": 0.0, "l1_ratio": l1_ratio}
    whole = LogisticRegression(max_iter=8, n_ranks=before, **options).fit(X, y)
    options["checkpoint_path"] = tmp_path / "run.npz" if how == "resume" else None
    part = LogisticRegression(max_iter=5, n_ranks=before, **options).fit(X, y)
    if how == "resume":
        with pytest.warns(DaskpartWarning, match="is of .* ranks, this fit has .* it goes on"):
            part.set_params(n_ranks=after, max_iter=8, resume=True).fit(X, y)
    else:
        part.set_params(n_ranks=after, max_iter=3, warm_start=True).fit(X, y)
    assert part.n_iter_ == 8
    np.testing.assert_allclose(part.coef_, whole.coef_, rtol=1e-6, atol=1e-9)


def test_a_fit_that_finds_no_way_down_remembers_nothing():
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    fitted = LogisticRegression(n_ranks=2, transport="local").fit(X, y)
    assert "moves" not in fitted.state_.slots and not fitted.coef_.any()


@pytest.mark.parametrize("before", ["lbfgs", "sgd"])
def test_a_warm_start_is_held_against_gradients_of_its_own_data(before):
    """Of numbers a hundred thousand times smaller than those of the last fit."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X @ [3.0, 2.0, 1.0] * 1e-5
    model = LinearRegression(solver=before, n_ranks=2, warm_start=True, transport="local")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, X @ [1.0, 2.0, 3.0])
    model.set_params(solver="lbfgs").fit(X, y)
    np.testing.assert_allclose(model.coef_, [3e-5, 2e-5, 1e-5], rtol=1e-3)


@pytest.mark.parametrize(("solver", "l1_ratio"), [("lbfgs", 0), ("lbfgs", 0.5), ("sgd", 0)])
@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
def test_features_too_large_to_be_squared_are_told_without_a_word_of_numpy(solver, l1_ratio, size):
    X = np.random.default_rng(0).normal(size=(60, 3)) * size
    for model in (LogisticRegression(), LinearRegression()):
        model.set_params(solver=solver, l1_ratio=l1_ratio, n_ranks=2, transport="local")
        with pytest.raises(DivergenceError, match=r"in epoch 1: .*scale the features"):
            model.fit(X, (X[:, 0] > 0).astype(int))


def test_separable_classes_without_a_penalty_are_followed_until_gradients_vanish():
    """Squares of how gradients change are 0 long before they are."""
    X, y = np.array([[1.0], [-1.0]]), [1, 0]
    model = LogisticRegression(C=np.inf, tol=0, max_iter=700, n_ranks=2, transport="local")
    assert model.fit(X, y).history_["gradient"].iloc[-1] < 1e-170


@pytest.mark.parametrize(("seed", "shift"), [*((seed, 1e6) for seed in range(4)), (0, 0.0)])
@pytest.mark.parametrize("make", [LinearRegression, LogisticRegression])
def test_without_a_tolerance_it_ends_where_no_step_is_found(tmp_path, make, seed, shift):
    """Each further iteration tried the same 40 steps again, or went round the optimum."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(80, 4)) + shift, random.integers(2, size=80)
    options = {"tol": 0, "n_ranks": 2, "transport": "local"}
    model = make(max_iter=300, **options).fit(X, y)
    change = model.history_["change"].to_numpy()
    assert model.n_iter_ < 100 and change[:-1].all() and not change[-1]
    assert model.history_["gradient"].iloc[-1] < 1e-3 * model.history_["gradient"].iloc[0]
    options["checkpoint_path"] = tmp_path / "fit"
    make(max_iter=3, **options).fit(X, y)
    for _ in range(2):  # the second time it is at its end
        assert_same(make(max_iter=300, resume=True, **options).fit(X, y), model)


@pytest.mark.parametrize("seed", [0, 4, 7])  # with steps too long on 2, on 3 and on 5 ranks
def test_a_step_that_is_too_long_is_no_word_of_numpy(seed):
    """Of counts means are infinite there: gradients of ranks infinities of both signs."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(30, 4)) * [0.1, 1.0, 1e3, 1e4]
    y = random.poisson(np.exp(X[:, 0] + X[:, 2] / 1e3))
    model = PoissonRegressor(alpha=1e-3, max_iter=1000, transport="local")
    one, *several = (
        model.set_params(n_ranks=n_ranks).fit(X, y).predict(X) for n_ranks in (1, 2, 3, 5)
    )
    for each in several:
        np.testing.assert_allclose(each, one, rtol=0.01)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.35])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_huber_far_from_all_targets_ends_where_features_are_centred(n_ranks, epsilon):
    """At weights of 0 all slopes are epsilon, and their gradient is rounding."""
    random = np.random.default_rng(2)
    X = random.normal(size=(90, 12))
    X -= X.mean(axis=0)
    y = X @ np.arange(12.0) + 500 + random.normal(size=90)
    model = LinearRegression(
        "huber", epsilon=epsilon, alpha=0.01, n_ranks=n_ranks, transport="local"
    ).fit(X, y)  # without a warning
    assert model.n_iter_ < 100
    slope = np.clip(model.predict(X) - y, -epsilon, epsilon)
    gradient = X.T @ slope / 90 + 0.01 * model.coef_
    np.testing.assert_allclose(gradient, 0, atol=1e-9 * epsilon)
