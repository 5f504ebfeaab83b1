"""Fits that go on with other ratings: new users and items, other order, what stays as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import dask.array
import numpy as np
import pandas as pd
import pytest
import sparse
import xarray as xr

import daskpart
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.growing import grown, joined
from daskpart.models.matrix_factorization.mean import with_biases, without_biases
from daskpart.models.matrix_factorization.predicting import predictions
from daskpart.models.matrix_factorization.rank_data import fill_starting_rows
from daskpart.models.matrix_factorization.scaling import split_unit
from daskpart.models.matrix_factorization.state import MFState

FAST = {"n_ranks": 3, "max_iter": 3, "partitioner": "random", "transport": "local"}


def model(n_components=4, **changes):
    return daskpart.MatrixFactorization(n_components, **(FAST | changes))


@pytest.fixture(scope="module")
def triples(ratings):
    return as_matrix(ratings)


def test_partial_fit_refuses_another_shape_without_labels(triples):
    X = triples.to_scipy()
    fitted = model().fit(X)
    with pytest.raises(InputError, match="shape"):
        fitted.partial_fit(X[:70])


def test_one_new_user_on_several_ranks_is_no_cut_to_warn_of(triples):
    """All of its ratings are on one rank: no cut can be even. Warnings are errors here."""
    frame = triples.to_frame()
    fitted = model(n_ranks=2).fit(frame)
    fitted.partial_fit(frame[:2].assign(user=80))
    assert fitted.user_factors_.shape[0] == 81


def test_predictions_are_clipped_to_the_ratings_of_all_batches(triples):
    frame = triples.to_frame().astype({"rating": float})
    fitted, seen = model(n_ranks=2, max_iter=1).fit(frame), frame["rating"].tolist()
    for batch in ([3.0, 3.1], [-7.0, 3.0], [3.0, 90.0]):
        state = fitted.partial_fit(frame[:2].assign(rating=batch)).state_
        seen += batch
        assert (state.lowest, state.highest) == pytest.approx((min(seen), max(seen)))


def test_partial_fit_takes_new_users_and_items(triples):
    frame = triples.to_frame()
    new = (frame["user"] >= 70) | (frame["item"] >= 45)
    fitted = model(max_iter=15, n_ranks=2).fit(frame[~new])
    before = fitted.user_factors_.sel(user=3)
    fitted.partial_fit(frame[new])
    assert fitted.user_factors_.shape[0] == 80 and fitted.item_factors_.shape[0] == 50
    assert fitted.n_iter_ == 16 and fitted.state_.is_finite()
    assert fitted.state_.user_labels[:70].tolist() == list(range(70))
    assert before.shape == fitted.user_factors_.sel(user=3).shape
    assert 0 < fitted.new_rows_distance_ < 1
    # what was rated before and now is seen, and nothing else
    assert fitted.seen_.sum() == len(frame)
    whole = model(max_iter=16, n_ranks=2).fit(frame)
    mean = np.sqrt(np.mean((frame["rating"][new] - frame["rating"][~new].mean()) ** 2))
    assert -fitted.score(frame[new]) < 0.8 * mean
    assert -fitted.score(frame[new]) < 1.25 * -whole.score(frame[new])
    unmet = sorted(set(range(70)) - set(frame["user"][new]))
    old = model(max_iter=15, n_ranks=2).fit(frame[~new])
    for user in unmet[:3]:  # users that the batch lacks stay as they are
        rows = [each.user_factors_.sel(user=user) for each in (fitted, old)]
        np.testing.assert_array_equal(*rows)


def test_the_distance_of_new_rows_is_to_their_ridge_solution(triples):
    """Where the new user is put on its solution by `transform`, it is 0."""
    from daskpart.models.matrix_factorization.growing import new_rows_distance

    frame = triples.to_frame()
    new = frame["user"] >= 70
    fitted = model(n_ranks=2).fit(frame[~new]).partial_fit(frame[new])
    state, matrix = fitted.state_, joined(as_matrix(frame[new]), fitted.state_)
    assert new_rows_distance(state, matrix, (70, 50), 0.05, True) == fitted.new_rows_distance_ > 0
    rows = fitted.transform(frame[new])
    state.user_factors[70:], state.user_bias[70:] = rows, rows.coords["bias"]
    assert new_rows_distance(state, matrix, (70, 50), 0.05, True) < 1e-6


@pytest.mark.parametrize("scale", [1, 32])
def test_new_users_and_items_begin_at_their_ridge_solutions(triples, scale):
    """Users by the items that were known, then items by all users; in the unit of the fit."""
    frame = triples.to_frame().astype({"rating": float})
    frame["rating"] *= scale
    known = (frame["user"] < 75) & (frame["item"] < 46)
    fitted = model(learning_rate="constant", initial_learning_rate=1e-9).fit(frame[known])
    expected = fitted.transform(frame[(frame["user"] >= 75) & (frame["item"] < 46)])
    state = fitted.partial_fit(frame[~known]).state_
    of_users, of_items = split_unit(state.trained_unit)
    assert (of_users != of_items) == (scale > 1)
    found = fitted.user_factors_.sel(user=expected["user"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)
    found = fitted.user_bias_.sel(user=expected["user"])
    np.testing.assert_allclose(found, expected.coords["bias"], rtol=1e-4, atol=1e-5 * scale)
    for item, rated in frame[frame["item"] >= 46].groupby("item"):
        users, place = state.users().positions(rated["user"]), state.items().positions([item])[0]
        own = np.column_stack((state.user_factors[users] / of_users, np.ones(len(users))))
        goal = rated["rating"].to_numpy() - state.global_mean - state.user_bias[users]
        ridge = fitted.regularization * len(users) * np.eye(own.shape[1])
        row = np.linalg.solve(own.T @ own + ridge, own.T @ goal / state.trained_unit)
        found = [
            *state.item_factors[place] / of_items,
            state.item_bias[place] / of_users / of_items,
        ]
        np.testing.assert_allclose(found, row, rtol=1e-3, atol=1e-4)


def test_a_fit_that_goes_on_without_biases_has_none(triples):
    frame = triples.to_frame()
    new = frame["user"] >= 75
    fitted = model(warm_start=True).fit(frame[~new]).set_params(biases=False)
    whole = fitted.fit(frame[~new])
    assert not whole.state_.user_bias.any() and not whole.state_.item_bias.any()
    # what is predicted is what was trained: the error of an epoch that moves nothing
    still = {"learning_rate": "constant", "initial_learning_rate": 1e-12, "max_iter": 1}
    whole.set_params(**still).fit(frame[~new])
    assert -whole.score(frame[~new]) == pytest.approx(whole.history_["train_rmse"].iloc[-1])
    grown = model().fit(frame[~new]).set_params(biases=False, **still).partial_fit(frame[new])
    assert not grown.state_.user_bias.any() and grown.new_rows_distance_ < 1e-6


@pytest.mark.parametrize("low", [0, 1000, -1000])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("biases", [True, False])
def test_the_mean_goes_on_with_and_without_biases(triples, low, how, biases):
    """A fit with μ goes on without, and the other way round, about as well as one of that kind."""
    frame = triples.to_frame()
    frame["rating"] += low
    fitted = model(max_iter=30, biases=not biases, warm_start=True).fit(frame)
    before = -fitted.score(frame)
    getattr(fitted.set_params(biases=biases, max_iter=1), how)(frame)
    assert fitted.global_mean_ == (pytest.approx(frame["rating"].mean()) if biases else 0)
    assert fitted.state_.user_bias.any() == biases
    fresh = model(max_iter=30, biases=biases).fit(frame)
    assert fitted.state_.unit == fresh.state_.unit
    assert -fitted.score(frame) < 1.5 * max(before, -fresh.score(frame))


@pytest.mark.parametrize("mean", [3.5, -3.5, 0.0])
def test_a_model_gets_biases_and_predicts_the_same(mean):
    random = np.random.default_rng(0)
    factors = [random.normal(size=(n, 4)).astype(np.float32) for n in (6, 5)]
    factors[0][2] = 0  # a user without ratings
    zeros = [np.zeros(n, np.float32) for n in (6, 5)]
    state = with_biases(MFState(*factors, *zeros, rating_mean=mean))
    pairs = np.repeat(np.arange(6), 5), np.tile(np.arange(5), 6)
    found = predictions(state, *pairs).reshape(6, 5)
    rated = np.arange(6) != 2
    np.testing.assert_allclose(found[rated], (factors[0] @ factors[1].T)[rated], atol=1e-5)
    assert not state.user_factors[2].any() and state.user_bias[2] == 0
    for left in (state.user_factors[rated], state.item_factors):  # without their means
        np.testing.assert_allclose(left.mean(axis=0), 0, atol=1e-6)
    back = without_biases(replace(state, user_bias=zeros[0], item_bias=zeros[1]))
    shift = (back.user_factors - state.user_factors)[rated]
    assert back.global_mean == 0 and not back.user_factors[2].any()
    other = back.item_factors - state.item_factors
    np.testing.assert_allclose(shift @ other.T, mean, rtol=1e-4, atol=1e-6)


def test_what_was_seen_in_a_lazy_fit_stays_unknown(triples):
    X = triples.to_scipy()
    lazy = dask.array.from_array(sparse.COO.from_scipy_sparse(X), chunks=(40, 50))
    fitted = model().fit(lazy)
    for step in (fitted.partial_fit, fitted.partial_fit, fitted.fit):
        with pytest.raises(InputError, match="does not know which ratings were seen"):
            fitted.recommend(0)
        step(X)
    assert fitted.seen_.nnz == X.nnz  # by the fit, which began anew


def test_the_distance_of_new_rows_is_that_of_the_last_fit(triples):
    frame = triples.to_frame()
    fitted = model(n_ranks=2).fit(frame[frame["user"] < 70]).partial_fit(frame)
    assert fitted.new_rows_distance_ > 0
    assert not hasattr(fitted.partial_fit(frame), "new_rows_distance_")


def test_strangers_get_the_mean_of_the_fit_after_partial_fit(triples):
    frame = triples.to_frame()
    fitted = model(biases=False, n_ranks=1).fit(frame)
    before = fitted.predict([(999, 999)], unknown="mean")
    fitted.partial_fit(pd.DataFrame({"user": [100] * 2, "item": [0, 1], "rating": [-50.0, -50.0]}))
    np.testing.assert_array_equal(fitted.predict([(999, 999)], unknown="mean"), before)
    assert before == pytest.approx(frame["rating"].mean(), rel=1e-4)


@pytest.mark.parametrize("kind", [daskpart.MatrixFactorization, daskpart.ImplicitFactorization])
@pytest.mark.parametrize("as_text", [True, False])
def test_new_labels_of_another_kind_are_refused(kind, as_text):
    table = pd.DataFrame({"user": np.arange(60) % 20, "item": np.arange(60) % 7, "rating": 1.0})
    batch = pd.DataFrame({"user": [112, 112], "item": [0, 1], "rating": 1.0})
    one = table if as_text else batch
    one["user"] = one["user"].map("{:02}".format).astype(object)
    fitted = kind(2, max_iter=1, n_ranks=1, transport="local").fit(table)
    with pytest.raises(InputError, match=r"user labels are .*give labels of one kind"):
        fitted.partial_fit(batch)


@pytest.mark.parametrize("kind", [daskpart.MatrixFactorization, daskpart.ImplicitFactorization])
def test_a_fit_of_everything_goes_on_after_new_users(kind, triples):
    """Frames sort their labels; new ones stand behind the others in the model."""
    frame = triples.to_frame().assign(rating=lambda table: table["rating"].abs() + 0.5)
    frame["user"] = frame["user"].map("u{:02}".format)
    new = frame["user"].isin(["u00", "u40"]) | (frame["item"] == 7)
    fitted = kind(4, n_ranks=2, max_iter=3, warm_start=True, transport="local").fit(frame[~new])
    fitted.partial_fit(frame[new])
    assert fitted.user_factors_.coords["user"].values[-1] in ("u00", "u40")
    still = {"max_iter": 1}
    if kind is daskpart.MatrixFactorization:
        still |= {"learning_rate": "constant", "initial_learning_rate": 1e-12}
    before = fitted.predict(frame)
    fitted.set_params(**still).fit(frame)
    assert fitted.user_factors_.coords["user"].values.tolist() == sorted(frame["user"].unique())
    if kind is daskpart.MatrixFactorization:  # an epoch that moves nothing
        np.testing.assert_allclose(fitted.predict(frame), before, rtol=1e-4, atol=1e-5)
    assert np.corrcoef(fitted.predict(frame), before)[0, 1] > 0.8
    assert set(fitted.recommend("u40", n=50)["item"]).isdisjoint(
        frame["item"][frame["user"] == "u40"]
    )
    with pytest.raises(InputError, match="labels differ"):
        fitted.fit(frame.replace({"user": {"u13": "stranger"}}))


@pytest.mark.parametrize("best", [False, True])
def test_rows_of_a_state_move_with_their_labels(best):
    def draw(*shape):
        return np.random.default_rng(0).normal(size=shape).astype(np.float32)

    beside = {"user_factors": 2 * draw(3, 2), "item_bias": draw(4)} if best else {}
    state = MFState(draw(3, 2), draw(4, 2), draw(3), draw(4), user_gradient=draw(3), best=beside,
                    user_labels=np.array([1, 2, 3]), item_labels=np.arange(4))  # fmt: skip
    moved = state.reordered("user", np.array([2, 0, 1]), np.array([3, 1, 2]))
    for name in ("user_factors", "user_bias", "user_gradient"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(state, name)[[2, 0, 1]])
    assert moved.item_bias is state.item_bias and moved.users().positions([3]).tolist() == [0]
    if best:
        np.testing.assert_array_equal(moved.best["user_factors"], beside["user_factors"][[2, 0, 1]])
        assert moved.best["item_bias"] is beside["item_bias"]


@pytest.mark.parametrize("kind", [daskpart.MatrixFactorization, daskpart.ImplicitFactorization])
@pytest.mark.parametrize(
    "use", ["predict", "score", "transform", "recommend_new", "partial_fit", "fit"]
)
def test_what_is_turned_round_is_refused_everywhere(kind, use):
    square = as_matrix(daskpart.datasets.power_law_ratings(30, 30, 300, random_state=0))
    X = square.to_xarray()
    X = X.copy(data=abs(X.data) + X.data.astype(bool))
    fitted = kind(2, max_iter=1, n_ranks=1, transport="local", warm_start=True).fit(X)
    with pytest.raises(InputError, match="other way round"):
        getattr(fitted, use)(X.T)


def test_nothing_is_held_out_of_a_batch(triples):
    frame = triples.to_frame()
    batch = pd.DataFrame({"user": [100, 100], "item": [0, 1], "rating": [3.0, 4.0]})
    for patience in (None, 2):
        fitted = model(validation_fraction=0.1, patience=patience, n_ranks=1).fit(frame)
        fitted.partial_fit(batch)
        assert fitted.seen_[-1].sum() == 2 and fitted.best_iteration_ is None
        assert np.isnan(fitted.history_["validation_rmse"].iloc[-1])


def test_new_users_without_an_entry_have_rows_of_zeros(triples):
    fitted = model(n_ranks=1).fit(triples.to_frame())
    batch = LabelledMatrix(
        np.array([0, 0], np.int32), np.array([0, 1], np.int32), np.array([3.0, 4.0], np.float32),
        (2, 3), np.array([100, 101]), np.array([0, 1, 99]), "user", "item",
    ).to_xarray()  # fmt: skip
    fitted.partial_fit(batch)
    assert fitted.user_factors_.sel(user=100).any()
    assert not fitted.user_factors_.sel(user=101).any()
    assert not fitted.item_factors_.sel(item=99).any()


@pytest.mark.parametrize("nonnegative", [False, True])
def test_new_users_of_new_items_alone_begin_as_those_of_a_fit(triples, nonnegative):
    """There is nothing to solve their rows by; in the unit of the fit, and of its signs."""
    frame = triples.to_frame().astype({"rating": float})
    frame["rating"] *= 32
    state = model(n_ranks=1, max_iter=1, nonnegative=nonnegative).fit(frame).state_
    batch = joined(as_matrix(frame[:2].assign(user=[100, 101], item=[99, 99])), state)
    how = {"regularization": 0.1, "biases": True, "nonnegative": nonnegative}
    found = grown(state, batch, **how, init_scale=0.5, random_state=7)
    expected = np.zeros_like(found.user_factors)
    fill_starting_rows(expected, "user", 7, 0.5 * np.sqrt(state.trained_unit))
    assert state.trained_unit > 1 and (expected[-2:] < 0).any()
    expected = np.abs(expected) if nonnegative else expected
    np.testing.assert_array_equal(found.user_factors[-2:], expected[-2:])
    assert found.item_factors[-1].any() and not found.user_bias[-2:].any()


def test_a_bold_driver_compares_no_error_with_that_of_other_ratings(triples):
    frame = triples.to_frame()
    few = frame.iloc[:200]
    fitted = model(learning_rate="bold-driver", max_iter=2, n_ranks=1).fit(frame)
    for batch in (few, frame, few):
        rate = fitted.state_.learning_rate_state["rate"]
        fitted.partial_fit(batch)  # the sum over fewer is less, whatever was learnt
        assert fitted.state_.learning_rate_state["rate"] == rate
        fitted.partial_fit(batch)
        assert fitted.state_.learning_rate_state["rate"] == pytest.approx(1.05 * rate)
    rate = fitted.state_.learning_rate_state["rate"]
    fitted.set_params(n_ranks=2, partitioner="block").partial_fit(few)  # the same on other ranks
    assert fitted.state_.learning_rate_state["rate"] in (1.05 * rate, 0.5 * rate)


@pytest.mark.parametrize(
    "kind", ["MatrixFactorization", "ImplicitFactorization", "CPDecomposition"]
)
def test_a_resumed_fit_has_the_names_of_its_data(kind, tmp_path):
    """They were those of the checkpoint, whatever the same numbers are called now."""
    values = sparse.random((9, 7), nnz=40, random_state=0)
    letters, digits = list("abcdefghi"), [f"user {i}" for i in range(9)]
    first = xr.DataArray(values, dims=("user", "item"), coords={"user": letters})
    others = (
        first.assign_coords(user=digits),
        first.rename(user="reader"),
        xr.DataArray(values, dims=("user", "item")),
    )
    for number, other in enumerate(others):
        make = partial(getattr(daskpart, kind), 3, checkpoint_path=tmp_path / f"{number}.npz")
        make = partial(make, **FAST)
        make().fit(first)
        resumed = make(resume=True).set_params(max_iter=5).fit(other)
        expected = make(checkpoint_path=None).set_params(max_iter=5).fit(other)
        for one, wanted in zip(_tables(resumed), _tables(expected), strict=True):
            xr.testing.assert_identical(one, wanted)


def _tables(fitted):
    if hasattr(fitted, "factors_"):
        return fitted.factors_
    return [fitted.user_factors_, fitted.item_factors_]


@pytest.mark.parametrize("kind", [daskpart.MatrixFactorization, daskpart.ImplicitFactorization])
def test_a_warm_fit_takes_new_users_and_items_wherever_they_stand(kind, triples):
    """It took them where they sorted behind the others alone, and ImplicitFactorization never."""
    frame = triples.to_frame().assign(rating=lambda table: table["rating"].abs() + 0.5)
    frame["user"] = frame["user"].map("u{:02}".format)
    new = frame["user"].isin(["u00", "u40"]) | (frame["item"] == 7)
    options = {"n_ranks": 2, "max_iter": 5, "transport": "local"}
    before = kind(4, **options).fit(frame[~new])
    expected = kind(4, **options).fit(frame[~new])
    expected.partial_fit(frame[new] if kind is daskpart.ImplicitFactorization else frame)
    going_on = before.set_params(warm_start=True, max_iter=1).fit(frame)
    for fitted in (going_on, expected):
        assert fitted.state_.shape == (80, 50) and fitted.seen_.nnz == len(frame)
    assert going_on.state_.user_labels.tolist() == sorted(frame["user"].unique())
    assert np.corrcoef(going_on.predict(frame), expected.predict(frame))[0, 1] > 0.95
    with pytest.raises(InputError, match=r"2 of its 80 are not in these ratings, and 0 of these"):
        going_on.fit(frame[~frame["user"].isin(["u00", "u40"])])
    before = kind(4, **options, warm_start=True).fit(frame[~frame["user"].isin(["u00", "u40"])])
    with pytest.raises(InputError, match=r"1 of its 78 are not in these ratings, and 2 of these"):
        before.fit(frame[frame["user"] != "u03"])
