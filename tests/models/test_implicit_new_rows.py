"""Rows of users that were not in the fit, each at the minimum of its own equations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import sparse
import xarray as xr
from test_implicit_factorization import counts, exact_rows, model

import daskpart
from daskpart.errors import InputError


def least_squares(user, H, alpha=1.0):
    """A matrix and a goal: the row of this user is nearest to it; the square of 0.1 is λ."""
    root = np.sqrt(1 + alpha * user)  # of the confidences
    matrix = np.vstack((root[:, None] * H, 0.1 * np.eye(5)))
    return matrix, np.append(root * (user > 0), np.zeros(5))


def test_new_users_are_solved_as_those_of_the_fit():
    X = counts()
    fitted = model(solver="cholesky").fit(X)
    H = fitted.item_factors_.values.astype(float)
    rows = fitted.transform(X).values
    expected = exact_rows(X.toarray().astype(float), H, 1.0, 0.01, 0.0)
    np.testing.assert_allclose(rows, expected, atol=1e-4)
    new = fitted.recommend_new(X[:3], n=4)
    assert len(new) == 12
    seen = {(u, i) for u, i in zip(*X[:3].nonzero(), strict=True)}
    assert not seen & set(zip(new["user"], new["item"], strict=True))


@pytest.mark.parametrize("most", [5, 1e4, 1e7])
def test_nonnegative_rows_of_new_users_are_exact(most):
    """Components that are much alike, or counts far apart, take coordinate descent many sweeps."""
    X, random = counts(), np.random.default_rng(0)
    X.data = np.exp(random.uniform(0, np.log(most), X.nnz)).round()
    fitted = model(solver="cholesky", nonnegative=True, max_iter=1).fit(X)
    H = random.random((40, 1)) + 0.6 * random.random((40, 5))
    fitted.state_.item_factors[:] = H
    rows = fitted.transform(X).values
    for row, user in zip(rows, X.toarray().astype(float), strict=True):
        system, goal = least_squares(user, H)
        best, _ = scipy.optimize.nnls(system, goal)
        np.testing.assert_allclose(row, best, atol=5e-4)
        assert np.linalg.norm(system @ (row - best)) <= 1e-4 * np.linalg.norm(goal)


def test_nonnegative_rows_that_need_ever_more_sweeps_are_exact():
    """Of components that are almost one the sweeps ended before the minimum, and nobody said so."""
    X, random = counts(), np.random.default_rng(0)
    fitted = model(solver="cholesky", nonnegative=True, max_iter=1, alpha=100.0).fit(X)
    H = fitted.state_.item_factors
    H[:] = random.random((40, 1)) + 0.01 * random.random((40, 5))
    for row, user in zip(fitted.transform(X).values, X.toarray().astype(float), strict=True):
        system, goal = least_squares(user, H, alpha=100)
        _, least = scipy.optimize.nnls(system, goal)
        assert np.linalg.norm(system @ row - goal) <= (1 + 1e-6) * least


@pytest.mark.parametrize("most", [1e4, 1e6])
def test_signed_rows_of_new_users_are_exact(most):
    """In the float32 of the iterations components that are much alike are rounded off."""
    X, random = counts(), np.random.default_rng(0)
    X.data = np.exp(random.uniform(0, np.log(most), X.nnz)).round()
    fitted = model(max_iter=1).fit(X)
    H = fitted.state_.item_factors
    H[:] = random.random((40, 1)) + 0.1 * random.random((40, 5))
    for row, user in zip(fitted.transform(X).values, X.toarray().astype(float), strict=True):
        system, goal = least_squares(user, H)
        _, (least,), *_ = np.linalg.lstsq(system, goal, rcond=None)
        assert np.sum((system @ row - goal) ** 2) == pytest.approx(least, rel=1e-5)


def test_new_rows_that_cannot_be_solved_are_refused():
    """They were NaN, and nothing was recommended."""
    X = counts()
    fitted = model().fit(X)
    X.data[3] = 1e30
    for call in (fitted.transform, fitted.recommend_new):
        with pytest.raises(InputError, match=r"1 of 60 new rows .* goes up to 1e\+30"):
            call(X)


def test_new_rows_without_a_penalty_are_of_least_norm():
    """More components than items: many rows are as good, and the equations are singular."""
    random = np.random.default_rng(0)
    users, items = random.integers(0, 12, 40), random.integers(0, 3, 40)
    known = pd.DataFrame({"user": users, "item": items}).drop_duplicates()
    model = daskpart.ImplicitFactorization(8, regularization=0, n_ranks=1, max_iter=3).fit(known)
    new = pd.DataFrame({"user": [99], "item": [0]})
    (row,) = np.asarray(model.transform(new), np.float64)
    H, wanted = model.state_.item_factors.astype(float), np.eye(3)[0]
    weights = 1 + model.alpha * wanted
    best = np.linalg.lstsq(H * np.sqrt(weights)[:, None], wanted * np.sqrt(weights), rcond=1e-6)[0]
    np.testing.assert_allclose(row, best, rtol=1e-2, atol=1e-3)
    model.partial_fit(new)
    assert model.state_.is_finite() and np.isfinite(model.new_rows_distance_)


def test_nonnegative_rows_converge_however_many_sweeps_it_takes():
    options = {"nonnegative": True, "alpha": 40.0, "regularization": 1e-6, "max_iter": 20}
    X = counts()
    fitted = model(solver="cholesky", **options).set_params(n_components=32).fit(X)
    H = fitted.state_.item_factors.astype(float)
    rows = fitted.transform(X).values
    for row, user in zip(rows, X.toarray().astype(float), strict=True):
        root = np.sqrt(1 + 40 * user)
        system = np.vstack((root[:, None] * H, 1e-3 * np.eye(32)))
        goal = np.append(root * (user > 0), np.zeros(32))
        best, _ = scipy.optimize.nnls(system, goal, maxiter=10_000)
        assert np.linalg.norm(row - best) <= 1e-3 * np.linalg.norm(best)


def test_features_are_columns_that_no_list_has():
    """A new user of whom features alone are known gets what users with these features take to."""
    random = np.random.default_rng(0)
    kind = np.arange(200) % 5
    dense = random.random((200, 50)) < np.where(np.arange(50) % 5 == kind[:, None], 0.6, 0.05)
    events = pd.DataFrame(np.argwhere(dense), columns=["user", "item"]).astype({"item": object})
    features = pd.DataFrame({"user": np.arange(200), "item": [f"kind {each}" for each in kind]})
    known, told = (part[part["user"] < 150].assign(rating=1.0) for part in (events, features))
    fitted = model(solver="cholesky").fit(pd.concat([known, told.assign(rating=5.0)]))
    new = features[features["user"] >= 150].assign(rating=5.0)
    lists = fitted.recommend_new(new, n=10, items=known["item"].unique())
    assert not {*lists["item"]} & {*features["item"]}
    assert (lists["item"].astype(int) % 5 == kind[lists["user"]]).mean() > 0.95
    other = fitted.recommend_new(new, n=10, exclude=features["item"].unique())
    pd.testing.assert_frame_equal(lists, other)


def test_a_batch_without_new_users_is_seen_and_moves_nothing():
    """The same batch with one stranger more was taken in; alone it was an error about shapes."""
    X = counts().tocoo()
    table = pd.DataFrame({"user": X.coords[0], "item": X.coords[1], "rating": X.data})
    old = table[table.index % 3 > 0]
    batch = table.drop(old.index)
    batch = batch[batch["user"].isin(old["user"]) & batch["item"].isin(old["item"])][:20]
    fitted, before = model().fit(old), model().fit(old)
    fitted.partial_fit(batch)
    for name in ("user_factors", "item_factors"):
        np.testing.assert_array_equal(getattr(fitted.state_, name), getattr(before.state_, name))
    assert fitted.n_iter_ == before.n_iter_ and fitted.new_rows_distance_ == 0
    assert fitted.seen_.sum() == len(old) + len(batch)
    user = batch["user"].iloc[0]
    shown = fitted.recommend(user, n=40)["item"]
    assert not shown.isin(batch["item"][batch["user"] == user]).any()


@pytest.mark.parametrize("n_users", [8, 5])
@pytest.mark.parametrize("of_fit", [("user", "item"), ("user",), ("item",)])
@pytest.mark.parametrize("of_batch", [("user", "item"), ("user",), ("item",)])
def test_a_batch_has_labels_where_the_fit_has(n_users, of_fit, of_batch):
    """Without those of one side it took away, or gave, the names that this side had; or broke."""
    random = np.random.default_rng(0)
    labels = {"user": np.array([*"abcdefgh"]), "item": np.array([*"uvwxyz"])}

    def events(n_users, n_items, names):
        counts = sparse.COO.from_numpy(random.integers(1, 4, (n_users, n_items)).astype(float))
        coords = {name: labels[name][:n] for name, n in
                  (("user", n_users), ("item", n_items)) if name in names}  # fmt: skip
        return xr.DataArray(counts, dims=("user", "item"), coords=coords)

    fitted = model(n_ranks=2, max_iter=2).fit(events(8, 6, of_fit))
    rows, state = fitted.user_factors_.copy(), fitted.state_
    fits = of_batch == of_fit and ("item" in of_fit) and (n_users == 8 or "user" in of_fit)
    batch = events(n_users, 4, of_batch)
    if fits:
        fitted.partial_fit(batch)
        assert fitted.user_factors_.equals(rows)
    else:
        with pytest.raises(InputError, match=r"give both labels, or none|have shape"):
            fitted.partial_fit(batch)
        assert fitted.state_ is state
