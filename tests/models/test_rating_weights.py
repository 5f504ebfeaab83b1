"""`sample_weight` and `nonnegative` of MatrixFactorization."""

from __future__ import annotations

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse
import sparse
import xarray as xr

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.fold_in import solve_rows
from daskpart.models.matrix_factorization.kernels.sgd import lanes_of, sgd_fixed_rate
from daskpart.models.matrix_factorization.pasgd import RowLayout
from daskpart.models.matrix_factorization.plan import plan_fit, rank_weights
from daskpart.models.matrix_factorization.problem import Ratings
from daskpart.models.matrix_factorization.text import MFText
from daskpart.models.optimisation.learning_rates import learning_rate

SCHEDULES = [("pasgd", 1), ("pasgd", 3), ("dsgd", None), ("gasgd", 2)]


def _ratings() -> scipy.sparse.coo_array:
    ratings = daskpart.datasets.power_law_ratings(50, 30, 600, random_state=1)
    return as_matrix(ratings).to_scipy().tocoo()


def _model(**parameters):
    return daskpart.MatrixFactorization(
        4, n_ranks=3, partitioner="random", max_iter=3, **parameters
    )


@pytest.mark.parametrize(("schedule", "eta"), SCHEDULES)
def test_weight_0_is_a_rating_that_is_not_there(schedule, eta):
    ratings = _ratings()
    weights = (np.random.default_rng(0).random(ratings.nnz) < 0.7).astype(float)
    kept = scipy.sparse.coo_array(
        (ratings.data[weights > 0], tuple(c[weights > 0] for c in ratings.coords)), ratings.shape
    )
    one = _model(schedule=schedule, eta=eta).fit(ratings, sample_weight=weights * 0 + weights)
    other = _model(schedule=schedule, eta=eta).fit(kept, sample_weight=np.ones(kept.nnz))
    np.testing.assert_array_equal(one.state_.user_factors, other.state_.user_factors)
    np.testing.assert_array_equal(one.state_.item_bias, other.state_.item_bias)
    assert one.seen_.nnz == kept.nnz


@pytest.mark.parametrize("rate", ["adagrad", "constant"])
def test_weights_of_1_change_nothing(rate):
    ratings = _ratings()
    one = _model(learning_rate=rate).fit(ratings)
    other = _model(learning_rate=rate).fit(ratings, sample_weight=np.ones(ratings.nnz))
    np.testing.assert_allclose(one.state_.user_factors, other.state_.user_factors, rtol=1e-4)
    np.testing.assert_allclose(one.history_["train_rmse"], other.history_["train_rmse"], rtol=1e-6)


@pytest.mark.parametrize(("schedule", "axis"), [("pasgd", "rows"), ("pasgd", "columns"),
                                                ("dsgd", "rows"), ("gasgd", "rows")])  # fmt: skip
def test_each_rating_gets_its_own_weight_on_its_rank(schedule, axis):
    """Weights that equal the values: so they do on the ranks."""
    matrix = as_matrix(abs(_ratings()))
    layout = RowLayout(4, True, True)
    plan = plan_fit(
        matrix, 3, schedule=schedule, eta=1, partitioner="random", axis=axis, averaging="mean",
        layout=layout, random_state=0,
    )  # fmt: skip
    with LocalCommunicator(3, n_threads=1) as comm:
        text = MFText(
            comm, plan, learning_rate("adagrad", 0.1), 0.1, 0.1, 1.0,
            weights=rank_weights(plan, matrix),
        )  # fmt: skip
        text.begin_from(Ratings.of(matrix).blank(4))
        held = text._ratings.content
        assert text._summary.count == pytest.approx(matrix.values.sum(), rel=1e-5)
    for ratings in held:
        np.testing.assert_array_equal(ratings.weights, ratings.values)


def _step(values, weights, rate):
    """Both factors after the ratings of one user and one item, by the kernel."""
    n = len(values)
    user, item = np.full((1, 16), 0.3, np.float32), np.full((1, 16), 0.4, np.float32)
    at, ones = np.zeros(n, np.int32), np.ones(1, np.float32)
    bias = [np.zeros(1, np.float32) for _ in range(2)]
    sgd_fixed_rate(
        lanes_of(16), at, at, np.array(values, np.float32), 0, n, 16, user, item, *bias, ones, ones,
        np.float32(0), np.float32(rate), np.float32(0.1), True, np.array(weights, np.float32),
        False, None,
    )  # fmt: skip
    return np.concatenate((user[0], item[0], *bias)).astype(float)


def test_weight_2_is_two_ratings_to_first_order():
    """One step of double length, where two ratings make two steps: they part as rate²."""
    gaps = []
    for rate in (0.02, 0.01):
        once, twice = _step([3.0], [2.0], rate), _step([3.0, 3.0], [1.0, 1.0], rate)
        moved = np.abs(twice - _step([], [], rate)).max()
        gaps.append(np.abs(once - twice).max())
        assert gaps[-1] < 0.2 * moved
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.3)


def test_weights_follow_the_order_of_the_container():
    """One order, another, a table, records, a sparse container of weights: the same fit."""
    ratings = _ratings()
    weights = np.random.default_rng(1).uniform(0.5, 2, ratings.nnz)
    order = np.random.default_rng(2).permutation(ratings.nnz)
    users, items = ratings.coords
    shuffled = scipy.sparse.coo_array(
        (ratings.data[order], (users[order], items[order])), ratings.shape
    )
    expected = _model().fit(ratings, sample_weight=weights)
    as_sparse = scipy.sparse.coo_array((weights, ratings.coords), ratings.shape)
    for found in (
        _model().fit(shuffled, sample_weight=weights[order]),
        _model().fit(shuffled, sample_weight=as_sparse.tocsc()),
        _model().fit(ratings, sample_weight=weights.tolist()),
    ):
        np.testing.assert_array_equal(found.state_.item_factors, expected.state_.item_factors)
    table = pd.DataFrame({"user": users, "item": items, "rating": ratings.data})
    by_table = _model().fit(table, sample_weight=pd.Series(weights))
    again = _model().fit(table.iloc[order], sample_weight=weights[order])
    np.testing.assert_array_equal(by_table.state_.item_factors, again.state_.item_factors)


def test_labelled_weights_go_to_the_ratings_of_their_names():
    """Every cell is rated, so that only names tell which weight is whose."""
    random = np.random.default_rng(5)
    users, items = [f"u{i}" for i in range(6)], [f"i{j}" for j in range(5)]

    def labelled(values):
        coords = {"user": users, "item": items}
        return xr.DataArray(sparse.COO(values), coords=coords, dims=("user", "item"))

    ratings, weights = (labelled(random.uniform(0.5, 2, (6, 5))) for _ in range(2))
    expected = _model().fit(ratings, sample_weight=weights)
    for given in (weights[::-1], weights[:, random.permutation(5)]):
        found = _model().fit(ratings, sample_weight=given)
        np.testing.assert_array_equal(found.state_.user_factors, expected.state_.user_factors)
    positions = _model().fit(ratings, sample_weight=weights.data)
    np.testing.assert_array_equal(positions.state_.user_factors, expected.state_.user_factors)
    with pytest.raises(InputError, match="other entries"):
        _model().fit(ratings, sample_weight=weights.assign_coords(user=[*users[1:], "u9"]))
    with pytest.raises(InputError, match="the other way round"):
        _model().fit(ratings[:5], sample_weight=weights[:5].T)


def test_weights_may_be_of_dask_as_the_table_may():
    rows, items = (ratings := _ratings()).coords
    table = pd.DataFrame({"user": rows, "item": items, "rating": ratings.data})
    weights = pd.Series(np.linspace(0.5, 2, len(table)))
    expected = _model().fit(table, sample_weight=weights).state_.user_factors
    parts, parts_of_weights = (
        dask.dataframe.from_pandas(x, npartitions=3) for x in (table, weights)
    )
    for X, given in (
        (parts, weights),
        (parts, parts_of_weights),
        (table, parts_of_weights),
        (table, dask.array.from_array(weights.to_numpy(), chunks=50)),
    ):
        found = _model().fit(X, sample_weight=given).state_.user_factors
        np.testing.assert_array_equal(found, expected)


def test_weights_by_the_lines_of_a_table_in_another_order_are_refused():
    """They went by their order, whatever their index said."""
    rows, items = (ratings := _ratings()).coords
    table = pd.DataFrame({"user": rows, "item": items, "rating": ratings.data})
    weight = pd.Series(1 + np.arange(len(table)) % 3, table.index)
    turned = weight[::-1]
    with pytest.raises(InputError, match="has the index of X in another order"):
        _model().fit(table, sample_weight=turned)
    fits = [
        _model().fit(table, sample_weight=given)
        for given in (weight, turned[table.index], weight.set_axis(weight.index + 7))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.user_factors_, fits[0].user_factors_)


def test_a_heavy_rating_is_met_more_closely():
    ratings = _ratings()
    ratings.data[:] = np.random.default_rng(3).normal(3, 1, ratings.nnz)
    weights = np.where(np.arange(ratings.nnz) % 7 == 0, 2.0, 0.1)
    heavy = weights > 1
    pairs = np.stack(ratings.coords, axis=1)[heavy]

    def error(**fitted):
        model = daskpart.MatrixFactorization(4, n_ranks=2, max_iter=30).fit(ratings, **fitted)
        return np.sqrt(np.mean((model.predict(pairs) - ratings.data[heavy]) ** 2))

    assert error(sample_weight=weights) < 0.7 * error()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.ones(5), "length 5"),
        (-np.ones(600), "0 or more"),
        (np.zeros(600), "0 everywhere"),
        (np.full(600, 1e-50), "0 everywhere"),  # as float32, which SGD takes
        ([np.nan, *[1.0] * 599], "1 NaN or infinite among 600 sample weights: give finite"),
        (np.full(600, 1e300), r"sample_weight goes up to 1e\+300, beyond the range of float32"),
        (np.full(600, "a"), "sample weights are of type <U1: give real numbers"),
        (scipy.sparse.eye_array(50, 30).tocsr(), "other entries"),
    ],
)
def test_weights_that_do_not_fit_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        _model().fit(_ratings(), sample_weight=wrong)


@pytest.mark.parametrize("more", [{"sample_weight": np.ones(600)}, {}])
def test_the_memory_of_a_plan_is_that_of_its_fit(more):
    """Weights, and items to draw, take 4 bytes a rating; a plan may be made without them."""
    loss = "squared" if more else "bpr"
    plan, events = _model().plan(abs(_ratings())), abs(_ratings())
    given = _model(loss=loss).fit(events, plan=plan, **more).plan_report_.memory
    own = _model(loss=loss).fit(events, **more).plan_report_.memory
    np.testing.assert_array_equal(given["ratings"], own["ratings"])


# -- nonnegative ---


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("rate", ["adagrad", "constant"])
@pytest.mark.parametrize(("schedule", "eta"), SCHEDULES)
def test_no_factor_is_below_zero(schedule, eta, rate, biases):
    model = _model(
        nonnegative=True, biases=biases, schedule=schedule, eta=eta, learning_rate=rate
    ).fit(_ratings())
    state = model.state_
    assert state.user_factors.min() >= 0 and state.item_factors.min() >= 0
    assert state.item_factors.any()
    assert model.transform(_ratings()).values.min() >= 0


def test_bpr_can_be_nonnegative_too():
    model = _model(nonnegative=True, loss="bpr").fit(abs(_ratings()))
    assert model.state_.user_factors.min() == 0
    assert model.state_.item_factors.min() >= 0


def test_a_nonnegative_product_is_found():
    random = np.random.default_rng(0)
    W, H = random.random((60, 3)), random.random((40, 3))
    known = random.random((60, 40)) < 0.5
    ratings = scipy.sparse.coo_array(((W @ H.T)[known], np.nonzero(known)))
    model = daskpart.MatrixFactorization(
        3, nonnegative=True, biases=False, n_ranks=2, max_iter=200, regularization=1e-4
    ).fit(ratings)
    users, items = np.nonzero(~known)
    missed = model.predict(np.stack([users, items], axis=1)) - (W @ H.T)[~known]
    assert np.sqrt(np.mean(missed**2)) < 0.1 * (W @ H.T).std()


def test_a_fit_that_goes_on_is_projected_first():
    ratings = _ratings()
    model = _model(warm_start=True).fit(ratings)
    assert model.state_.user_factors.min() < 0
    model.set_params(nonnegative=True).fit(ratings)
    assert model.state_.user_factors.min() >= 0


@pytest.mark.parametrize("biases", [True, False])
def test_new_rows_are_the_constrained_minimum(biases):
    """No small step that is allowed makes the ridge objective smaller."""
    ratings = _ratings()
    model = _model(nonnegative=True, biases=biases, regularization=0.1).fit(ratings)
    matrix, state = as_matrix(ratings), model.state_
    weights = np.random.default_rng(1).uniform(0.1, 3, len(matrix.values))
    rows, bias = solve_rows(
        matrix.row_pointer(), matrix.columns, matrix.values, state, 0.1, biases, True, weights
    )

    def objective(rows, bias):
        of_entry = matrix.rows
        predicted = (rows[of_entry] * state.item_factors[matrix.columns]).sum(axis=1)
        predicted = predicted + bias[of_entry] + state.item_bias[matrix.columns]
        errors = matrix.values - predicted - state.global_mean
        counts = np.bincount(of_entry, weights, minlength=50)
        found = np.bincount(of_entry, weights * errors**2, 50)
        return found + 0.1 * counts * ((rows**2).sum(axis=1) + bias**2)

    best = objective(rows.astype(float), bias.astype(float))
    for f in range(4):
        for step in (1e-2, -1e-2):
            moved = rows.astype(float)
            moved[:, f] = np.maximum(moved[:, f] + step, 0)
            assert (objective(moved, bias.astype(float)) >= best - 1e-4).all()


def test_ratings_that_count_next_to_nothing_say_nothing_of_new_rows():
    """Those of weight 0 are left out, so one that is nearly 0 must not count as a whole one."""
    ratings = _ratings()
    users, items = ratings.coords
    known = pd.DataFrame({"user": users, "item": items, "rating": ratings.data})
    more = pd.DataFrame({"user": 900, "item": np.arange(10), "rating": [5.0] * 5 + [1.0] * 5})
    found = []
    for least in (0.0, 1e-7):
        model = _model().set_params(n_ranks=1).fit(known)
        model.partial_fit(more, sample_weight=[1.0] * 5 + [least] * 5)
        found.append(np.append(model.state_.user_factors[-1], model.state_.user_bias[-1]))
        assert model.new_rows_distance_ < 0.5
    np.testing.assert_allclose(*found, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("biases", [True, False])
def test_nonnegative_rows_of_new_users_are_exact(biases):
    """Items that are much alike took coordinate descent more sweeps than it did."""
    random = np.random.default_rng(0)
    X = scipy.sparse.random_array((30, 40), density=0.4, rng=random, format="csr")
    X.data = 1 + 4 * X.data  # of a unit of 1, so that γ is that of the equations below
    fitted = daskpart.MatrixFactorization(
        8, nonnegative=True, biases=biases, regularization=1e-3, n_ranks=1, max_iter=1
    ).fit(X)
    assert fitted.state_.unit == 1
    H = (random.random((40, 1)) + 0.3 * random.random((40, 8))).astype(np.float32)
    fitted.state_.item_factors[:] = H
    fitted.state_.item_bias[:] = 0
    rows = fitted.transform(X).values
    for user in range(30):
        own = slice(*X.indptr[user : user + 2])
        n, read = own.stop - own.start, H[X.indices[own]].astype(float)
        system = np.column_stack((read, np.ones(n))) if biases else read
        penalty = np.sqrt(1e-3 * n) * np.eye(system.shape[1])
        low = np.zeros(system.shape[1])
        low[8:] = -np.inf
        goal = np.append(X.data[own] - fitted.state_.global_mean, np.zeros(len(low)))
        best = scipy.optimize.lsq_linear(
            np.vstack((system, penalty)), goal, (low, np.inf), tol=1e-14
        ).x
        np.testing.assert_allclose(rows[user], best[:8], atol=1e-4)
