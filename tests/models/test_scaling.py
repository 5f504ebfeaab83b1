"""Ratings of any scale and shape: what is given back is in their own units."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
import scipy.sparse
import sparse
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.scaling import (
    TAIL,
    Summary,
    nearest_power_of_two,
    rank_ends,
    rank_sums,
    split_unit,
    summary_of,
)


def model(**options):
    chosen = {"n_ranks": 2, "partitioner": "block", "transport": "local", "max_iter": 8} | options
    return daskpart.MatrixFactorization(6, **chosen)


def table(values=None, shape=(200, 80), n=4000, seed=0):
    """Values with effects of rows and columns, at cells that are drawn."""
    random = np.random.default_rng(seed)
    cells = random.choice(shape[0] * shape[1], n, replace=False)
    rows, columns = np.divmod(np.sort(cells), shape[1])
    z = random.normal(size=shape[0])[rows] + random.normal(size=shape[1])[columns]
    z = (z + 0.3 * random.normal(size=n)) / 1.5
    return scipy.sparse.csr_array((values(z), (rows, columns)), shape=shape)


def stars(z):
    return np.clip(np.round(3.5 + z), 1, 5).astype(np.float32)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(1, 4))
def test_a_summary_of_ranks_is_that_of_all(values, n_ranks):
    values = np.array(values)
    parts = np.array_split(values, n_ranks)
    sums = np.sum([rank_sums(part) for part in parts], axis=0)
    ends = np.max([rank_ends(part) for part in parts], axis=0)
    found = summary_of(sums, ends)
    size = max(1.0, np.abs(values).max())
    assert found.count == len(values)
    assert found.mean == pytest.approx(values.mean(), abs=1e-9 * size)
    assert found.deviation == pytest.approx(values.std(), abs=1e-6 * size)
    assert (found.lowest, found.highest) == (values.min(), values.max())


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 4)), min_size=1, max_size=30))
def test_whole_weights_are_repetitions(drawn):
    values, weights = map(np.array, zip(*drawn, strict=True))
    found = rank_sums(values, weights.astype(np.float32))
    np.testing.assert_allclose(found, rank_sums(np.repeat(values, weights)), rtol=1e-9, atol=1e-3)


@given(st.floats(1e-30, 1e30))
def test_units_are_powers_of_two_and_split_exactly(size):
    unit = nearest_power_of_two(size)
    assert np.frexp(unit)[0] == 0.5 and 0.7 < size / unit < 1.42
    users, items = split_unit(unit)
    assert users * items == unit and users in (items, 2 * items)


def test_stars_are_their_own_unit_and_tails_decide():
    assert Summary(9, 3.6, 1.1, 1, 5).unit(True) == 1
    assert Summary(9, 3.6, 1.1, 1, 5).unit(False) == 1
    assert Summary(9, 10.0, 1.0, 0, 10 + 64 * TAIL).unit(True) == 64
    assert Summary(9, 10.0, 1.0, 10 - 64 * TAIL, 20).unit(True) == 64
    assert Summary(9, 7.0, 0.0, 7, 7).unit(True) == 1
    for mean in (-1000.0, 1000.0):  # which is subtracted, unless the factors hold it
        assert Summary(9, mean, 1.0, mean - 2, mean + 2).unit(True) == 1
        assert Summary(9, mean, 1.0, mean - 2, mean + 2).unit(False) == 64


@pytest.mark.parametrize("biases", [True, False])
def test_a_thousandfold_of_the_values_is_a_thousandfold_of_the_predictions(biases):
    X = table(stars)
    one, thousand = model(biases=biases).fit(X), model(biases=biases).fit(X * np.float32(1000))
    binary = model(biases=biases).fit(X * np.float32(1024))
    predicted = one.predict(X).data
    np.testing.assert_array_equal(binary.predict(X).data, 1024 * predicted)
    error = thousand.predict(X).data / 1000 - predicted
    assert np.sqrt(np.mean(error**2)) < 0.02
    assert thousand.score(X * 1000) == pytest.approx(1000 * one.score(X), rel=0.02)
    assert binary.history_["train_rmse"].tolist() == (1024 * one.history_["train_rmse"]).tolist()
    new = X[:5] * np.float32(1024)
    np.testing.assert_allclose(  # of a new user, with the γ of the fit
        binary.transform(new).values @ binary.item_factors_.values.T,
        1024 * (one.transform(X[:5]).values @ one.item_factors_.values.T),
        rtol=1e-4, atol=1e-2,
    )  # fmt: skip


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_heavy_tails_converge_with_the_defaults(sigma, biases):
    X = table(lambda z: np.exp(sigma * z), (300, 120), 12000)
    train, test = daskpart.datasets.train_test_split_ratings(X, 0.2, 0)
    fitted = model(biases=biases, max_iter=20).fit(train)
    of_the_mean = np.sqrt(np.mean((test.data - train.data.mean()) ** 2))
    assert -fitted.score(test) < 0.97 * of_the_mean
    train_rmse = fitted.history_["train_rmse"].to_numpy()
    assert np.isfinite(train_rmse).all() and train_rmse[-1] < 0.5 * train_rmse[0]


def test_a_fit_goes_on_in_its_unit(tmp_path):
    X, path = table(lambda z: 5e4 + 3e3 * z), tmp_path / "run.npz"
    whole = model(max_iter=6).fit(X)
    assert whole.state_.unit > 1000
    model(max_iter=3, checkpoint_path=path).fit(X)
    resumed = model(max_iter=6, checkpoint_path=path, resume=True).fit(X)
    for name in ("user_factors", "item_factors", "user_bias", "item_gradient"):
        np.testing.assert_array_equal(getattr(whole.state_, name), getattr(resumed.state_, name))
    unit = whole.state_.unit
    whole.partial_fit(X * 1e-3)  # other values: the unit of the state stays
    assert whole.state_.unit == unit


def test_predictions_clipped_on_wish():
    X = table(stars)
    free, own = model(biases=False).fit(X), model(biases=False, clip=True).fit(X)
    given = model(biases=False, clip=(2, 4)).fit(X)
    every = scipy.sparse.csr_array(np.ones(X.shape))
    predicted = free.predict(every).toarray()
    assert predicted.max() > 4
    np.testing.assert_array_equal(own.predict(every).toarray(), np.clip(predicted, 1, 5))
    np.testing.assert_array_equal(given.predict(every).toarray(), np.clip(predicted, 2, 4))
    assert own.score(X) >= free.score(X) > given.score(X)
    validated = model(biases=False, clip=True).fit(X, validation=X)
    assert validated.history_["validation_rmse"].iloc[-1] == pytest.approx(-own.score(X))
    for wrong in ((4, 2), (1,), (1, 2, 3), ("a", "b")):
        with pytest.raises(InputError, match="give True"):
            model(clip=wrong).fit(X)
        with pytest.raises(InputError, match="give True"):  # it may be set behind a fit
            free.set_params(clip=wrong).predict(every)


def test_values_beyond_float32_are_refused():
    with pytest.raises(InputError, match="beyond the range of float32"):
        model().fit(table(lambda z: 1e300 * np.exp(z)))


def in_memory(X):
    return X


def in_chunks(X):
    array = sparse.COO.from_scipy_sparse(X)
    return dask.array.from_array(array, chunks=(X.shape[0] // 2, X.shape[1]))


@pytest.mark.parametrize("rating", [3e38, 1e300])
def test_new_rows_beyond_float32_are_refused(rating):
    """Their factors became infinite, with a warning of NumPy's."""
    X = table(lambda z: 1e-9 * z)
    fitted = model().fit(X)
    X.data[:] = rating
    for call in (fitted.transform, fitted.recommend_new):
        with pytest.raises(InputError, match=r"new ratings go up to .*beyond the range of float32"):
            call(X)


@pytest.mark.parametrize("largest", [1e-300, 1e-46, 1e-40])
@pytest.mark.parametrize("held", [in_memory, in_chunks])
def test_values_that_float32_rounds_off_are_refused(held, largest):
    """They were trained as zeros, or as three digits of what was given."""
    X = table(stars).astype(np.float64)
    X.data *= largest / np.abs(X.data).max()
    with pytest.raises(InputError, match="multiply them by a constant"):
        model().fit(held(X))
    X.data[0] = 1  # one number that it holds, and the others are 0 beside that
    fitted = model().fit(held(X))
    assert np.isfinite(fitted.history_["train_rmse"]).all()
