"""New slices of one mode: rows, labels, and the factors of the other modes."""

from __future__ import annotations

import numpy as np
import pytest
import sparse
import xarray as xr
from dense_cp import whole
from sklearn.exceptions import NotFittedError

import daskpart
from daskpart.errors import InputError

OPTIONS = {
    "n_ranks": 2,
    "transport": "local",
    "partitioner": "random",
    "max_iter": 300,
    "tol": 1e-9,
}


def model(**changes):
    return daskpart.CPDecomposition(3, **OPTIONS | changes)


def months(noise=0.0, n_months=24, seed=0):
    """user × item × month of three components, with names."""
    random = np.random.default_rng(seed)
    factors = []
    for extent in (15, 12, n_months):
        kept = random.random((extent, 3)) < 0.6
        kept[np.arange(extent), np.arange(extent) % 3] = True  # no slice is empty
        factors.append(random.random((extent, 3)) * kept)
    dense = whole(factors, np.ones(3))
    dense[dense > 0] += noise * dense.std() * random.normal(size=int((dense > 0).sum()))
    return xr.DataArray(
        sparse.COO.from_numpy(dense), dims=("user", "item", "month"),
        coords={"user": [f"u{i:02}" for i in range(15)], "month": np.arange(n_months)},
    )  # fmt: skip


@pytest.mark.parametrize("missing", ["zero", "unknown"])
def test_slices_without_noise_are_taken_in_exactly(missing):
    X = months()
    grown = model(missing=missing).fit(X.isel(month=slice(0, 16)))
    assert grown.fit_ > 0.999
    grown.partial_fit(X.isel(month=slice(16, 20)), mode="month")
    grown.partial_fit(X.isel(month=slice(20, 24)), mode=2)
    assert grown.factors_["month"].shape == (24, 3)
    assert grown.factors_["month"]["month"].to_numpy().tolist() == list(range(24))
    np.testing.assert_allclose(np.linalg.norm(grown.factors_["month"], axis=0), 1)
    assert np.isnan(grown.fit_) and grown.history_.empty and grown.score(X) > 0.998
    assert grown.predict([("u03", 4, 22)])[0] == pytest.approx(X.data[3, 4, 22], abs=1e-2)


def test_the_other_factors_move_too():
    X = months(noise=0.5)
    fitted = model().fit(X.isel(month=slice(0, 8)))
    still = daskpart.CPDecomposition.from_dataset(fitted.to_dataset())
    rows = still.transform(X, mode="month").to_numpy() * still.weights_.to_numpy()
    dense, full = X.data.todense(), model().fit(X).fit_
    user, item, _ = still.state_.factors
    alone = 1 - np.linalg.norm(dense - whole([user, item, rows], np.ones(3))) / np.linalg.norm(
        dense
    )
    grown = fitted.partial_fit(X.isel(month=slice(8, 24)), mode="month")
    assert alone < grown.score(X) <= full + 1e-9
    assert full - grown.score(X) < 0.02


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_ridge_is_that_of_the_fit(ridge):
    """After a fit that has converged the first mode is solved as if the old nonzeros were there."""
    X = months(noise=0.5)
    fitted = model(ridge=ridge, max_iter=3000, tol=1e-14).fit(X.isel(month=slice(0, 16)))
    state, dense = fitted.state_, X.data.todense()
    _, item, month = (np.array(factor) for factor in state.factors)
    new = X.isel(month=slice(16, 24))
    rows = fitted.transform(new, mode="month").to_numpy() * state.weights
    month = np.concatenate((month * state.weights, rows))
    # weights are in the factor of months here, where a fit has them in that which it solves for
    system = (item.T @ item) * (month.T @ month) + ridge * np.diag(state.weights**2)
    user = np.linalg.solve(system, np.einsum("ijk,jr,kr->ri", dense, item, month)).T
    fitted.partial_fit(new, mode="month")
    found = fitted.state_.factors[0]
    np.testing.assert_allclose(found, user / np.linalg.norm(user, axis=0), atol=1e-5)


def test_new_slices_go_with_the_factors_that_moved():
    """Of other columns and ten times as large: the norms of what moved are the new rows', too."""
    X = months(noise=0.2)
    fitted = model(max_iter=3000, tol=1e-14).fit(X.isel(month=slice(0, 16)))
    new = 10 * months(noise=0.2, seed=1).isel(month=slice(16, 24))
    user, item, month = (np.array(factor) for factor in fitted.state_.factors)
    month *= fitted.state_.weights
    rows = fitted.transform(new, mode="month").to_numpy() * fitted.state_.weights
    dense, every = new.data.todense(), np.concatenate((month, rows))

    def gram(factor):
        return factor.T @ factor

    before, now = gram(item) * gram(month), gram(item) * gram(rows)
    products = user @ before + np.einsum("ijk,jr,kr->ir", dense, item, rows)
    before_of_item = gram(user) * gram(month)
    user = products @ np.linalg.inv(before + now)
    before, now = before_of_item, gram(user) * gram(rows)
    products = item @ before + np.einsum("ijk,ir,kr->jr", dense, user, rows)
    item = products @ np.linalg.inv(before + now)
    state = fitted.partial_fit(new, mode="month").state_
    expected = whole([user, item, every], np.ones(3))
    np.testing.assert_allclose(whole(state.factors, state.weights), expected, atol=1e-9)


def test_a_component_of_nothing_stays_one():
    X = months()
    start = [np.random.default_rng(0).random((n, 3)) * [1, 1, 0] for n in (15, 12, 16)]
    grown = model(init=start, max_iter=2).fit(X.isel(month=slice(0, 16)))
    assert grown.weights_[2] == 0
    grown.partial_fit(X.isel(month=slice(16, 24)), mode="month")
    assert grown.state_.is_finite() and grown.weights_[2] == 0


def test_columns_of_a_matrix_are_counted():
    X = months().data[:, :, 0] + months().data[:, :, 5]
    fitted = model(max_iter=3).fit(X[:, :8]).partial_fit(X[:, 8:], mode=1)
    assert fitted.n_features_in_ == 12
    assert fitted.fit(X[:10]).partial_fit(X[10:], mode=0).n_features_in_ == 12


def test_other_components_take_no_slices_in():
    X = months()
    fitted = model(max_iter=2).fit(X.isel(month=slice(0, 16))).set_params(n_components=2)
    with pytest.raises(InputError, match="had 3 components, n_components is 2"):
        fitted.partial_fit(X.isel(month=slice(16, 24)), mode="month")


def test_signs_stay_and_a_fit_goes_on(tmp_path):
    X = months(noise=0.3)
    grown = model(nonnegative=True, warm_start=True).fit(X.isel(month=slice(0, 12)))
    grown.partial_fit(X.isel(month=slice(12, 24)), mode="month")
    assert all((factor.to_numpy() >= 0).all() for factor in grown.factors_)
    grown.save(tmp_path / "model")
    again = daskpart.CPDecomposition.load(tmp_path / "model")
    assert again.score(X) == grown.score(X)
    before = grown.score(X)
    assert grown.fit(X).fit_ >= before - 1e-9  # begins where it stood


def test_positions_go_on_where_there_are_no_names():
    X = months().data
    grown = model().fit(X[:, :, :16]).partial_fit(X[:, :, 16:], mode=2)
    assert grown.state_.shape == X.shape and grown.score(X) > 0.998
    new_users = model().fit(X[:12]).partial_fit(X[12:], mode=0)
    assert new_users.score(X) > 0.998


@pytest.mark.parametrize(
    ("change", "mode", "words"),
    [
        (lambda X: X.isel(month=slice(14, 18)), "month", "2 of the month slices .* such as 14:"),
        (lambda X: X.isel(month=slice(16, 18)), "town", "mode='town' is unknown"),
        (lambda X: X.isel(month=slice(16, 18)).drop_vars("month"), "month", "give the new ones"),
        (lambda X: X.isel(month=slice(16, 18)).assign_coords(month=["a", "b"]), "month", "kind"),
        (lambda X: X.isel(month=slice(16, 18), item=slice(0, 5)), "month", "5 indices along item"),
        (lambda X: X.isel(item=slice(0, 5)).assign_coords(item=list("abcde")), "item", "have none"),
    ],
)
def test_bad_slices(change, mode, words):
    X = months()
    fitted = model(max_iter=3).fit(X.isel(month=slice(0, 16)))
    new = change(X) if mode != "item" else change(X.isel(month=slice(0, 16)))
    with pytest.raises(InputError, match=words):
        fitted.partial_fit(new, mode=mode)


def test_something_must_be_fitted_before():
    with pytest.raises(NotFittedError):
        model().partial_fit(months(), mode="month")
