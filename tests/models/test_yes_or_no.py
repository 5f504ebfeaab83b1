"""`MatrixFactorization(loss="logistic")`: what is yes and no, what is learnt of it, new users."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.models.matrix_factorization import fold_in
from daskpart.models.matrix_factorization.fold_in import solve_rows
from daskpart.models.matrix_factorization.predicting import predictions
from daskpart.models.matrix_factorization.yes_or_no import as_answers
from daskpart.models.optimisation.log_loss import log_losses

N_USERS, N_ITEMS = 150, 90
SMALL = {"loss": "logistic", "n_ranks": 3, "partitioner": "random", "transport": "local"}


def model(n_components=3, **changes):
    return daskpart.MatrixFactorization(n_components, **SMALL | {"max_iter": 5} | changes)


@pytest.fixture(scope="module")
def planted():
    """Answers drawn by known probabilities, of most pairs: a table, and those probabilities."""
    random = np.random.default_rng(0)
    W, H = random.normal(size=(N_USERS, 2)), random.normal(size=(N_ITEMS, 2))
    chance = expit(0.6 + 1.5 * W @ H.T + 0.5 * random.normal(size=N_ITEMS))
    users, items = np.nonzero(random.random(chance.shape) < 0.8)
    answers = random.random(users.size) < chance[users, items]
    return pd.DataFrame({"user": users, "item": items, "liked": answers.astype(int)}), chance


def split(table):
    test = np.random.default_rng(1).random(len(table)) < 0.2
    return table[~test], table[test]


@pytest.fixture(scope="module")
def fitted(planted):
    train, _ = split(planted[0])
    return model(rating="liked").fit(train)


def sparse_of(table, **coding):
    values = table["liked"].to_numpy(float)
    no = coding.get("no", 0)
    cells = (np.where(values == 1, 1, no), (table["user"], table["item"]))
    return scipy.sparse.coo_array(cells, shape=(N_USERS, N_ITEMS))


# -- what it learns ---


@pytest.mark.parametrize(
    ("options", "gap"),
    [
        ({"n_ranks": 1}, 0.05),
        ({"eta": 1}, 0.05),
        ({"eta": 3, "axis": "columns"}, 0.05),
        ({"schedule": "dsgd", "averaging": "ratings"}, 0.05),
        ({"schedule": "gasgd", "eta": 2}, 0.05),
        ({"learning_rate": "bold-driver", "initial_learning_rate": 0.05}, 0.05),
        ({"learning_rate": "decay", "initial_learning_rate": 0.1}, 0.05),
        ({"biases": False}, 0.05),
        (
            {"nonnegative": True, "n_components": 6, "regularization": 0.01},
            0.1,
        ),  # tastes of either sign take more of these
    ],
)
def test_it_learns_a_planted_model(planted, options, gap):
    """It orders pairs nearly as the truth does, and of what it gives 0.7 about 0.7 are yes."""
    table, chance = planted
    train, test = split(table)
    options = {"n_components": 3, "max_iter": 80, "regularization": 0.02} | options
    found = model(rating="liked", **options).fit(train)
    predicted = found.predict(test[["user", "item"]])
    answers = test["liked"].to_numpy()
    best = roc_auc_score(answers, chance[test["user"], test["item"]])
    assert roc_auc_score(answers, predicted) > best - gap > 0.7
    assert ((predicted > 0) & (predicted < 1)).all()
    shares = [(predicted[each].mean(), answers[each].mean())
              for each in np.array_split(np.argsort(predicted), 5)]  # fmt: skip
    np.testing.assert_allclose(*zip(*shares, strict=True), atol=0.1)
    assert found.comm_report_.matches
    assert found.history_["train_loss"].iloc[-1] < 0.9 * found.history_["train_loss"].iloc[0]


def test_it_begins_at_the_share_of_yes(planted):
    """μ is its log-odds; without biases it is where predictions of strangers stand."""
    train, test = split(planted[0])
    share = train["liked"].mean()
    still = {"max_iter": 1, "initial_learning_rate": 1e-9, "init_scale": 0.0, "rating": "liked"}
    begun = model(**still).fit(train)
    assert begun.global_mean_ == pytest.approx(logit(share))
    np.testing.assert_allclose(begun.predict(test[["user", "item"]]), share, rtol=1e-5)
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert begun.history_["train_loss"][0] == pytest.approx(entropy, rel=1e-5)
    plain = model(biases=False, **still).fit(train)
    assert plain.global_mean_ == 0
    np.testing.assert_allclose(plain.predict(test[["user", "item"]]), share, rtol=1e-5)
    for one in (begun, plain):
        assert one.predict([("nobody", 3)], unknown="mean")[0] == pytest.approx(share, rel=1e-5)


def test_score_and_validation_are_the_log_loss(planted):
    train, test = split(planted[0])
    found = model(rating="liked", max_iter=40, patience=3, initial_learning_rate=0.3)
    found.set_params(n_components=12, regularization=0.0).fit(train, validation=test)
    measured = found.history_["validation_loss"]
    assert found.best_iteration_ == 1 + int(measured.argmin()) == len(measured) - 3 < 37
    probabilities = found.predict(test[["user", "item"]]).astype(float)
    assert -found.score(test) == pytest.approx(log_loss(test["liked"], probabilities), rel=1e-4)
    assert -found.score(test) == pytest.approx(measured.min(), rel=1e-6)
    strangers = pd.concat([test, pd.DataFrame({"user": [-5], "item": [0], "liked": [1]})])
    assert found.score(strangers, unknown="nan") == found.score(test)
    with pytest.raises(InputError, match="knows user and item of none"):
        found.score(strangers[-1:], unknown="nan")
    assert np.isfinite(found.score(strangers, unknown="mean"))


def test_a_probability_that_rounds_to_nothing_costs_no_infinity(fitted):
    state = fitted.state_
    surely = copy(fitted)
    surely.state_ = replace(state, user_bias=np.full_like(state.user_bias, -300.0))
    assert surely.predict([(0, 0)])[0] == 0
    assert -surely.score([(0, 0, 1), (1, 0, 0)]) == pytest.approx(150, rel=0.02)


def test_lists_are_ranked_by_scores_and_show_probabilities(fitted, planted):
    lists = fitted.recommend([3, 5], n=4)
    shown = fitted.predict(lists[["user", "item"]])
    np.testing.assert_allclose(lists["score"], shown, rtol=1e-5)
    state = fitted.state_
    of_user = np.repeat(np.int32(3), N_ITEMS), np.arange(N_ITEMS, dtype=np.int32)
    order = np.argsort(-predictions(state, *of_user))
    unseen = order[~fitted.seen_[[3]].toarray()[0][order]]
    assert lists["item"][lists["user"] == 3].tolist() == unseen[:4].tolist()
    every = fitted.recommend_all(4).compute()
    pd.testing.assert_frame_equal(every[every["user"] == 3].reset_index(drop=True), lists[:4])
    new = fitted.recommend_new({3: True, 7: False, 11: True}, n=5)
    assert new["score"].between(0, 1).all() and not set(new["item"]) & {3, 7, 11}
    liked = planted[0][planted[0]["liked"] == 1]
    table = daskpart.metrics.evaluate_ranking(fitted, liked, 5, exclude_seen="others")
    assert 0 < table["ndcg"].iloc[0] < 1


def test_weight_2_and_weight_0(planted):
    """A weight multiplies the loss; 0 is an answer that is not there."""
    train, _ = split(planted[0])
    ones = np.ones(len(train))
    found = [
        model(rating="liked", initial_learning_rate=1e-9, max_iter=1).fit(train, sample_weight=w)
        for w in (ones, 2 * ones, np.where(train["liked"] == 1, 3.0, 1.0))
    ]
    losses = [one.history_["train_loss"][0] for one in found]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    share = 3 * train["liked"].sum() / (3 * train["liked"].sum() + (train["liked"] == 0).sum())
    assert found[2].global_mean_ == pytest.approx(logit(share))
    kept = train["user"] != 7
    left_out = model(rating="liked").fit(train, sample_weight=kept.to_numpy(float))
    assert left_out.state_.n_users == N_USERS and left_out.seen_[[7]].nnz == 0


# -- what is yes, and what is no ---


CODINGS = {
    "numbers": lambda table: table,
    "flags": lambda table: table.assign(liked=table["liked"] == 1),
    "signs": lambda table: table.assign(liked=2 * table["liked"] - 1),
    "records": lambda table: list(table.itertuples(index=False, name=None)),
    "dask": lambda table: _frame_of_dask(table.assign(liked=table["liked"] == 1)),
}


def _frame_of_dask(table):
    dask_frames = pytest.importorskip("dask.dataframe")
    return dask_frames.from_pandas(table, npartitions=3)


@pytest.mark.parametrize("coding", CODINGS)
def test_one_answer_in_any_coding_is_one_fit(planted, fitted, coding):
    train, test = split(planted[0])
    name = None if coding == "records" else "liked"
    other = model(rating=name).fit(CODINGS[coding](train))
    np.testing.assert_array_equal(other.state_.item_factors, fitted.state_.item_factors)
    assert (other.state_.lowest, other.state_.highest) == (0, 1)
    assert other.score(CODINGS[coding](test)) == fitted.score(test)


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("no", [0, -1])
def test_lazy_answers_are_coded_on_their_ranks(planted, no, axis):
    X = sparse.COO.from_scipy_sparse(sparse_of(planted[0], no=-1))
    X = X if no else sparse.COO(X.coords, (X.data > 0).astype(float), shape=X.shape)
    lazy = dask.array.from_array(X, chunks=(40, N_ITEMS))
    parts = np.arange(N_USERS if axis == "rows" else N_ITEMS) % 3
    one, other = (model(partitioner=parts, axis=axis).fit(given) for given in (X, lazy))
    np.testing.assert_array_equal(one.state_.user_factors, other.state_.user_factors)
    assert (other.state_.lowest, other.state_.highest) == (0, 1)


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.0]), min_size=1, max_size=12),
)
@settings(deadline=None)
def test_what_is_neither_is_refused_and_named(values):
    n = len(values)
    matrix = as_matrix(pd.DataFrame({"user": [f"u{i:02}" for i in range(n)], "item": "tea",
                                     "rating": values}))  # fmt: skip
    wrong = [i for i, value in enumerate(values) if value not in (0, 1, -1)]
    if wrong:
        with pytest.raises(InputError) as raised:
            as_answers(matrix)
        assert f"there is {values[wrong[0]]:g} at user" in str(raised.value)
        assert f"(u{wrong[0]:02}), item 0 (tea)" in str(raised.value)
    elif 0 in values and -1 in values:
        with pytest.raises(InputError, match="no as 0 or as −1"):
            as_answers(matrix)
    else:
        assert as_answers(matrix).values.tolist() == [float(value == 1) for value in values]


def test_what_is_nearly_a_yes_is_told_in_full():
    """There was 1, it said, where 1 is a yes."""
    for nearly in (np.float32(0.9999999), np.float64(1 + 1e-12)):
        with pytest.raises(InputError, match=f"there is {nearly!s} at user 0".replace(".", r"\.")):
            as_answers(scipy.sparse.csr_array(np.array([[nearly, 1]], nearly.dtype)))


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize(
    ("value", "words"),
    [(3.0, "there is 3 at user 140, item 88"), (0.0, "there is 0 at user 140, item 88, and -1 at")],
)
def test_wrong_answers_of_one_rank_are_named_where_they_are_lazy(planted, axis, value, words):
    table = planted[0]
    table = table[(table["user"] != 140) | (table["item"] != 88)]
    one = pd.DataFrame({"user": [140], "item": [88], "liked": [1]})
    X = sparse.COO.from_scipy_sparse(sparse_of(pd.concat([table, one]), no=-1).tocsr())
    X.data[(X.coords == [[140], [88]]).all(axis=0)] = value
    lazy = dask.array.from_array(X, chunks=(50, N_ITEMS))
    with pytest.raises(InputError, match=words):
        model(axis=axis).fit(lazy)


def test_wrong_answers_are_refused_wherever_they_are_given(planted, fitted):
    train, test = split(planted[0])
    stars = test.assign(liked=test["liked"] + 3)
    fresh = model(rating="liked")
    learn = (fresh.fit, fresh.partial_fit, lambda given: fresh.fit(train, validation=given))
    for refuses in (fitted.score, fitted.transform, fitted.recommend_new, *learn):
        with pytest.raises(InputError, match="ratings that are yes"):
            refuses(stars)


@pytest.mark.parametrize(("answer", "words"), [(1, "say yes"), (0, "say no"), (-1, "say no")])
def test_answers_that_are_all_the_same_are_refused(planted, answer, words):
    alike = planted[0].assign(liked=answer)
    said = f"all ratings {words}, .* ImplicitFactorization"
    with pytest.raises(InputError, match=said):
        model(rating="liked").plan(alike)  # before anything is cut
    lazy = dask.array.from_array(sparse.COO.from_scipy_sparse(sparse_of(alike, no=-1)), chunks=50)
    with pytest.raises(InputError, match=said):
        model().fit(lazy)
    going_on = model(rating="liked").fit(planted[0])
    going_on.partial_fit(alike[alike["item"] == 3])  # of a batch it may be so
    assert going_on.state_.is_finite()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"clip": True}, "probabilities, within 0 and 1: leave clip out"),
        ({"clip": (0.2, 0.8)}, "leave clip out"),
        ({"nonnegative": True, "biases": False}, "never say no"),
        ({"patience": 2}, "patience needs validation"),
    ],
)
def test_what_does_not_go_with_it_is_refused(planted, wrong, words):
    with pytest.raises(InputError, match=words):
        model(rating="liked", **wrong).fit(planted[0])


def test_a_range_set_behind_the_fit_is_refused_too(planted):
    found = model(rating="liked").fit(planted[0]).set_params(clip=True)
    for asked in (lambda: found.predict([(0, 0)]), lambda: found.recommend(0)):
        with pytest.raises(InputError, match="leave clip out"):
            asked()


@pytest.mark.parametrize(
    ("before", "after"), [("squared", "logistic"), ("logistic", "squared"), ("logistic", "bpr")]
)
def test_no_fit_goes_on_from_scores_of_another_kind(planted, before, after):
    table = planted[0][planted[0]["liked"] == 1] if after == "bpr" else planted[0]
    found = model(rating="liked", loss=before, warm_start=True).fit(planted[0])
    found.set_params(loss=after)
    for train in (found.fit, found.partial_fit):
        with pytest.raises(InputError, match=f'last fit had loss="{before}"'):
            train(table)
    found.set_params(warm_start=False).fit(table)


def test_biases_come_and_go_between_fits(planted):
    train, test = split(planted[0])
    found = model(rating="liked", max_iter=40, biases=False, warm_start=True).fit(train)
    still = {"max_iter": 1, "initial_learning_rate": 1e-9, "learning_rate": "constant"}
    before = found.predict(test[["user", "item"]])
    found.set_params(biases=True, **still).fit(train)
    assert found.global_mean_ == pytest.approx(logit(train["liked"].mean()))
    np.testing.assert_allclose(found.predict(test[["user", "item"]]), before, atol=1e-4)


# -- new users ---


@pytest.mark.parametrize("regularization", [0.02, 1.0])
def test_new_users_are_those_of_scikit_learn(planted, regularization):
    found = model(rating="liked", biases=False, regularization=regularization, max_iter=30)
    found.fit(planted[0])
    X = sparse_of(planted[0]).tocsr()
    rows, items = found.transform(X).to_numpy(), found.state_.item_factors.astype(float)
    for user in range(0, N_USERS, 10):
        own = slice(*X.indptr[user : user + 2])
        n = own.stop - own.start
        peer = LogisticRegression(
            C=1 / (regularization * n), fit_intercept=False, solver="newton-cholesky", tol=1e-10
        ).fit(items[X.indices[own]], X.data[own])
        np.testing.assert_allclose(rows[user], peer.coef_[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("regularization", [1e-9, 1e-3, 0.3])
def test_new_rows_are_the_minimum(planted, nonnegative, regularization, monkeypatch):
    """With biases and weights, also of users of one mind: the gradient is 0, or held at 0.

    Seven users at a time.
    """
    monkeypatch.setattr(fold_in, "_BLOCK_WORDS", 7 * 4**2)
    found = model(rating="liked", max_iter=30, nonnegative=nonnegative).fit(planted[0])
    state, matrix = found.state_, as_answers(planted[0], ("user", "item", "liked"))
    answers = np.where(matrix.rows % 5 == 0, 1, matrix.values)  # these are of one mind
    weights = np.random.default_rng(0).uniform(0.1, 3, matrix.nnz)
    rows, bias = solve_rows(
        matrix.row_pointer(), matrix.columns, answers, state, regularization, True, nonnegative,
        weights, logistic=True,
    )  # fmt: skip
    H, x = state.item_factors[matrix.columns].astype(float), rows.astype(float)
    scores = state.global_mean + state.item_bias[matrix.columns] + bias[matrix.rows]
    scores = scores + (x[matrix.rows] * H).sum(axis=1)
    slopes = weights * (answers - expit(scores))
    counts = np.bincount(matrix.rows, weights)
    downhill = np.stack([np.bincount(matrix.rows, slopes * H[:, f]) for f in range(3)], axis=1)
    downhill -= regularization * counts[:, None] * x
    size = 1e-4 * counts[:, None]
    if nonnegative:
        assert (x >= 0).all() and (downhill[x == 0] <= 1e-3 * counts.max()).all()
        downhill[x == 0] = 0
    assert (np.abs(downhill) < size).all()
    by_bias = np.bincount(matrix.rows, slopes) - regularization * counts * bias
    assert (np.abs(by_bias) < size[:, 0]).all()


def test_a_user_who_says_nothing_is_zeros_and_one_of_one_word_is_not(fitted):
    X = scipy.sparse.csr_array(([1.0], ([1], [4])), shape=(3, N_ITEMS))
    found = fitted.transform(X)
    assert not found[[0, 2]].to_numpy().any() and not found["bias"][[0, 2]].to_numpy().any()
    assert found["bias"][1] > 0
    with pytest.raises(InputError, match="no solution without a penalty"):
        model(rating="liked", regularization=0.0).fit(sparse_of_all()).transform(X)


def sparse_of_all():
    random = np.random.default_rng(3)
    cells = np.nonzero(random.random((20, N_ITEMS)) < 0.5)
    return scipy.sparse.coo_array(
        (random.integers(0, 2, cells[0].size).astype(float), cells), shape=(20, N_ITEMS)
    )


def test_new_users_and_items_join_by_name(planted):
    table = planted[0]
    new = (table["user"] >= 130) | (table["item"] >= 80)
    found = model(rating="liked", max_iter=40, n_ranks=2).fit(table[~new])
    found.partial_fit(table[new])
    assert found.user_factors_.shape == (N_USERS, 3) and found.item_factors_.shape == (N_ITEMS, 3)
    assert 0 < found.new_rows_distance_ < 1
    base = table["liked"][new].mean()
    entropy = -base * np.log(base) - (1 - base) * np.log(1 - base)
    assert -found.score(table[new]) < 0.85 * entropy


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=5))
def test_losses_are_never_infinite(scores):
    scores = np.array(scores)
    for answer in (0.0, 1.0):
        found = log_losses(np.full(scores.size, answer), scores)
        sign = 1 if answer else -1
        np.testing.assert_allclose(found, np.maximum(-sign * scores, 0), atol=np.log(2) + 1e-9)
