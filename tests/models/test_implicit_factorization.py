"""Weighted ALS against a serial twin in numpy that takes all pairs, stored or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse

import daskpart
from daskpart.errors import DaskpartWarning, DivergenceError, InputError
from daskpart.models.implicit_factorization.als import Events, Solve
from daskpart.models.implicit_factorization.kernels.solving import gram_of


def counts(shape=(60, 40), seed=0):
    random = np.random.default_rng(seed)
    dense = random.poisson(0.25, shape) * (random.random(shape) < 0.8)
    dense[7], dense[:, 5] = 0, 0  # a user and an item without events
    return scipy.sparse.csr_array(dense.astype(np.float32))


def model(**options):
    chosen = {"n_ranks": 3, "partitioner": "random", "transport": "local", "max_iter": 4} | options
    return daskpart.ImplicitFactorization(5, **chosen)


def swept_rows(X, rows, other, alpha, regularization, exponent, block):
    """Every row with one block of coordinates after another at its minimum, over all columns."""
    rows = rows.copy()
    for i, line in enumerate(X):
        n_events = np.count_nonzero(line)
        rows[i] *= n_events > 0
        c = 1 + alpha * line
        left = (other * c[:, None]).T @ other
        left += regularization * n_events**exponent * np.eye(other.shape[1])
        for first in range(0, other.shape[1] if n_events else 0, block):
            own = slice(first, first + block)
            slope = (c * (line > 0)) @ other - left @ rows[i]
            rows[i, own] += np.linalg.solve(left[own, own], slope[own])
    return rows


def exact_rows(X, other, alpha, regularization, exponent):
    """Every row by its normal equations: all coordinates are one block."""
    rows = np.zeros((X.shape[0], other.shape[1]))
    return swept_rows(X, rows, other, alpha, regularization, exponent, other.shape[1])


def objective(X, W, H, alpha, regularization, exponent):
    c, p = 1 + alpha * X, X > 0
    penalty = sum(
        (regularization * np.count_nonzero(lines, axis=1) ** exponent) @ (rows**2).sum(axis=1)
        for lines, rows in ((X, W), (X.T, H))
    )
    return (c * (p - W @ H.T) ** 2).sum() + penalty


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize(
    ("n_ranks", "block"),
    [*((n_ranks, None) for n_ranks in (1, 2, 3, 4, 5, 8)), (1, 2), (3, 2), (4, 1), (2, 3), (5, 8)],
)
def test_it_is_the_serial_algorithm(n_ranks, block, exponent):
    """With whole rows at their minimum, by Cholesky, or one block after another."""
    X, options = counts(), {"alpha": 3.0, "regularization": 0.05, "frequency_exponent": exponent}
    how = {"solver": "subspace", "block_size": block} if block else {"solver": "cholesky"}
    fitted = model(n_ranks=n_ranks, **how, **options).fit(X)
    begin = model(max_iter=1)
    problem = begin._problem(X, None, {}, 0)
    state = begin._first_state(problem, begin.plan(X))
    W, H = state.user_factors.astype(float), state.item_factors.astype(float)
    dense = X.toarray().astype(float)
    losses = []
    for _ in range(4):
        W = swept_rows(dense, W, H, *options.values(), block or W.shape[1])
        H = swept_rows(dense.T, H, W, *options.values(), block or W.shape[1])
        losses.append(objective(dense, W, H, *options.values()) / X.nnz)
    np.testing.assert_allclose(fitted.user_factors_.values @ fitted.item_factors_.values.T, W @ H.T,
                               atol=2e-3)  # fmt: skip
    np.testing.assert_allclose(fitted.history_["loss"], losses, rtol=1e-3)
    assert not fitted.state_.user_factors[7].any() and not fitted.state_.item_factors[5].any()


def test_blocks_come_to_the_minimum_of_cholesky():
    X = counts((90, 70))
    options = {"regularization": 0.1, "alpha": 2.0}
    exact = model(solver="cholesky", max_iter=60, **options).fit(X)
    blocks = model(solver="subspace", block_size=2, max_iter=120, **options).fit(X)
    losses = blocks.history_["loss"].to_numpy()
    # both stand in a local minimum, not need be the same one
    assert losses[-1] == pytest.approx(exact.history_["loss"].iloc[-1], rel=1e-2)
    assert (np.diff(losses) < 1e-5).all()


@pytest.mark.parametrize(("solver", "calls"), [("subspace", 200), ("cg", 3)])
def test_sweeps_come_to_the_exact_rows(solver, calls):
    """With the other side held fixed there is one minimum."""
    X, random = counts(), np.random.default_rng(1)
    items = random.normal(size=(40, 6)).astype(np.float32)
    gram = np.empty((6, 6))
    gram_of(items, 40, gram)
    events = Events(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)
    exact, swept = np.zeros((2, 60, 6), np.float32)
    found = Solve("cholesky", 0, 0, 0.1, 1.0, 0)(events, items, gram, exact)
    sweep = Solve(solver, 6, 4, 0.1, 1.0, 0)
    for _ in range(calls):
        objective = sweep(events, items, gram, swept)
    np.testing.assert_allclose(swept, exact, rtol=1e-3, atol=1e-4)
    assert objective == pytest.approx(found, rel=1e-4)


def test_gradients_come_to_the_same():
    X = counts()
    exact = model(solver="cholesky", max_iter=20).fit(X)
    many = model(solver="cg", cg_steps=30, max_iter=20).fit(X)
    three = model(solver="cg", max_iter=40).fit(X)
    loss = exact.history_["loss"].iloc[-1]
    assert many.history_["loss"].iloc[-1] == pytest.approx(loss, rel=1e-3)
    assert three.history_["loss"].iloc[-1] == pytest.approx(loss, rel=2e-2)
    losses = three.history_["loss"].to_numpy()
    assert (np.diff(losses) < 1e-5).all()
    W, H = three.state_.user_factors.astype(float), three.state_.item_factors.astype(float)
    dense = X.toarray().astype(float)
    assert losses[-1] == pytest.approx(objective(dense, W, H, 1.0, 0.01, 0.0) / X.nnz, rel=1e-3)


def test_nonnegative_factors_are():
    X = counts()
    fitted = model(solver="cholesky", nonnegative=True, max_iter=30).fit(X)
    W, H = fitted.state_.user_factors, fitted.state_.item_factors
    assert W.min() >= 0 and H.min() >= 0 and (W > 0).any() and (W == 0).any()
    losses = fitted.history_["loss"].to_numpy()
    assert (np.diff(losses) < 1e-4).all()
    # no slope leads down from where w > 0
    solve = Solve("cholesky", 0, 0, 0.01, 0.0, 4)
    gram, row = np.empty((5, 5)), W[:1].copy()
    gram_of(H, len(H), gram)
    items = X[[0]].indices.astype(np.int32)
    events = Events(np.array([0, items.size]), items, X[[0]].data.copy())
    for _ in range(60):
        solve(events, H, gram, row)
    c = 1 + X[[0]].toarray()[0]
    slope = H.T @ (c * (H @ row[0] - (c > 1))) + 0.01 * row[0]
    assert np.abs(slope[row[0] > 0]).max() < 1e-3 and (slope[row[0] == 0] > -1e-3).all()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("partitioner", ["block", "power"])
@pytest.mark.filterwarnings("ignore::daskpart.errors.BalanceWarning")
def test_what_travels_is_what_was_planned(n_ranks, partitioner):
    fitted = model(n_ranks=n_ranks, partitioner=partitioner, max_iter=2).fit(counts())
    report = fitted.comm_report_
    assert report.matches
    assert report.measured_rows.sum() == sum(fitted.plan_report_.volume)
    assert (n_ranks == 1) == (report.measured_rows.sum() == 0)


@pytest.mark.parametrize("n_ranks", [1, 3, 5])
def test_memory_is_what_was_planned_with_the_rows_on_their_way(n_ranks):
    fitted = model(n_ranks=n_ranks).fit(counts())
    report, plan = fitted.comm_report_, fitted.plan(counts())
    np.testing.assert_array_equal(report.memory, report.expected_memory)
    traffic = [each.traffic() for each in plan.expands.values()]
    rows = [each.sum(axis=0) + each.sum(axis=1) for each in traffic]
    wanted = 8 * np.sum(rows, axis=0) + 4 * 5 * np.max(rows, axis=0)
    np.testing.assert_array_equal(plan.memory().get("messages", 0), wanted)


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_ranks_have_as_much_to_solve_for_their_items(n_ranks):
    """An event of an item takes F² steps, its row F³."""
    X = counts((300, 200))
    plan = model(n_ranks=n_ranks).plan(X)
    owners = plan.connectivities["item"].owners
    work = np.diff(X.tocsc().indptr) + plan.n_components
    held = np.bincount(owners[owners >= 0], work[owners >= 0], n_ranks)
    assert held.max() < 1.01 * held.mean()


@pytest.mark.parametrize("options", [{"alpha": 3.0}, {"solver": "cholesky", "nonnegative": True}])
def test_partial_fit_takes_new_users_and_items(options):
    X = counts().tocoo()
    lines = pd.DataFrame({"user": X.coords[0], "item": X.coords[1], "rating": X.data})
    new = (lines["user"] >= 45) | (lines["item"] >= 34)
    fitted = model(**options, regularization=0.5).fit(lines[~new])
    before, n_seen = fitted.state_, fitted.seen_.nnz
    fitted.partial_fit(lines[new])
    state = fitted.state_
    assert set(state.user_labels) == set(lines["user"]) and state.n_items > before.n_items
    np.testing.assert_array_equal(state.user_factors[: before.n_users], before.user_factors)
    np.testing.assert_array_equal(state.item_factors[: before.n_items], before.item_factors)
    assert fitted.seen_.nnz == n_seen + new.sum()
    # a new user's row is what a fit would solve for, the items as they are
    newest = state.user_labels[before.n_users :]
    rows = fitted.transform(lines[lines["user"].isin(newest)])
    np.testing.assert_allclose(rows, state.user_factors[before.n_users :], atol=1e-6)
    assert 0 < fitted.new_rows_distance_ < 0.3
    unseen = fitted.recommend(int(newest[0]), n=3)
    assert len(unseen) == 3 and np.isfinite(unseen["score"]).all()


def test_new_users_are_taken_in_as_the_known_ones_were_fitted():
    """Parameters that are set behind a fit are of the next one."""
    table = pd.DataFrame({"user": [0, 0, 1, 2, 2, 3], "item": [0, 1, 2, 0, 2, 1]})
    new = pd.DataFrame({"user": [9, 9], "item": [1, 2]})
    rows = []
    for changed in ({}, {"alpha": 30.0, "regularization": 5.0, "frequency_exponent": 1.0}):
        fitted = model(regularization=0.1).fit(table).set_params(**changed)
        rows.append(fitted.partial_fit(new).state_.user_factors)
    np.testing.assert_array_equal(*rows)


def test_a_user_without_events_gets_no_list():
    X = counts()
    fitted = model().fit(X)
    with pytest.warns(DaskpartWarning, match=r"1 user had nothing in the fit, the first 7"):
        assert fitted.recommend([7, 8], n=3)["user"].tolist() == [8, 8, 8]
    everybody = fitted.recommend_all(3).compute()
    assert set(everybody["user"]) == {*range(60)} - {7}
    # with biases there is an order: what everybody likes
    rated = daskpart.MatrixFactorization(3, n_ranks=2, transport="local", max_iter=2).fit(X)
    assert len(rated.recommend(7, n=3)) == 3 and len(rated.recommend_all(3).compute()) == 180
    new = scipy.sparse.csr_array(X[[7, 8]])
    with pytest.warns(DaskpartWarning, match="1 user had nothing that says what they like, the fi"):
        assert set(fitted.recommend_new(new, n=3)["user"]) == {1}


def test_what_has_no_factors_gets_no_list_of_similar_ones():
    fitted = model().fit(counts())
    with pytest.warns(DaskpartWarning, match="1 item had nothing in the fit, the first 5") as told:
        table = fitted.similar_items([5, 6], n=100)
    assert told[0].filename == __file__
    assert set(table["item"]) == {6} and len(table) == 39
    assert set(fitted.similar_all(3).compute()["item"]) == {*range(40)} - {5}
    with pytest.warns(DaskpartWarning, match="1 user had nothing in the fit, the first 7"):
        assert not len(fitted.similar_users(7))


@pytest.mark.parametrize("how", ["warm_start", "partial_fit", "resume"])
def test_a_loss_is_not_compared_with_that_of_other_events(how, tmp_path):
    first, other = counts(seed=0), counts(seed=1)
    fitted = model(warm_start=True, tol=1e6).fit(first)
    assert fitted.n_iter_ == 2  # the second changed by less
    path = tmp_path / "run.npz"
    if how == "resume":  # one iteration on the other events, then it is broken off
        fitted.set_params(max_iter=1, checkpoint_path=path).fit(other)
        fitted = model(max_iter=9, tol=1e6, checkpoint_path=path, resume=True).fit(other)
    else:
        fitted = fitted.fit(other) if how == "warm_start" else fitted.partial_fit(other)
    changes = fitted.history_["loss_change"]
    assert np.isnan(changes[[0, 2]]).all() and not np.isnan(changes[1])
    assert fitted.n_iter_ == 3 + (how != "partial_fit")


def test_a_loss_that_rises_is_no_end():
    fitted = model(warm_start=True, tol=1e-12, max_iter=2).fit(counts())
    fitted.state_.history[-1]["loss"] = 0.0
    assert fitted.fit(counts()).n_iter_ == 4 and fitted.history_["loss_change"][2] > 0


def test_what_is_turned_round_is_refused():
    X = counts()
    fitted = model().fit(X)
    for call in (fitted.score, fitted.transform, fitted.recommend_new):
        with pytest.raises(InputError, match="60 columns without labels"):
            call(scipy.sparse.csr_array(X.T))
    ratings = daskpart.MatrixFactorization(3, n_ranks=2, transport="local")
    with pytest.raises(InputError, match="60 columns without labels"):
        ratings.fit(X, validation=scipy.sparse.csr_array(X.T))


def test_new_users_alone_are_at_their_optimum():
    X = counts().tocoo()
    lines = pd.DataFrame({"user": X.coords[0], "item": X.coords[1], "rating": X.data})
    new = lines["user"] >= 45
    fitted = model().fit(lines[~new]).partial_fit(lines[new])
    assert fitted.new_rows_distance_ < 1e-6


def test_the_distance_of_new_rows_is_that_of_the_last_fit():
    X = counts().tocoo()
    lines = pd.DataFrame({"user": X.coords[0], "item": X.coords[1], "rating": X.data})
    fitted = model().fit(lines[lines["user"] < 45]).partial_fit(lines)
    assert hasattr(fitted, "new_rows_distance_")
    assert not hasattr(fitted.fit(lines), "new_rows_distance_")


def test_other_components_take_nobody_in():
    X = counts().tocoo()
    lines = pd.DataFrame({"user": X.coords[0], "item": X.coords[1], "rating": X.data})
    fitted = model().fit(lines[lines["user"] < 45])
    fitted.set_params(n_components=fitted.n_components + 1)
    with pytest.raises(InputError, match="components, n_components is"):
        fitted.partial_fit(lines)


def test_events_as_people_have_them():
    X = counts().tocoo()
    lines = pd.DataFrame({"who": X.coords[0], "track": X.coords[1], "plays": X.data})
    expected = model(n_ranks=1).fit(X)
    counted = model(n_ranks=1, user="who", rating="plays").fit(lines)
    single = lines.loc[lines.index.repeat(lines["plays"].astype(int)), ["who", "track"]]
    events = model(n_ranks=1, user="who").fit(single)
    assert events.history_["loss"].tolist() == counted.history_["loss"].tolist()
    # a table has no users and items without events, so other rows are drawn
    loss = expected.history_["loss"].iloc[-1]
    assert counted.history_["loss"].iloc[-1] == pytest.approx(loss, rel=0.1)
    assert counted.user_factors_.dims == ("who", "component")


def test_it_ranks_what_was_planted():
    """Two tastes: what is held out of one's own ranks before all of the other."""
    random = np.random.default_rng(0)
    taste = np.repeat([0, 1], 40)
    likes = (taste[:80, None] == np.repeat([0, 1], 20)[None, :40]) & (random.random((80, 40)) < 0.6)
    train = scipy.sparse.csr_array(likes * (random.random(likes.shape) < 0.7), dtype=np.float32)
    test = scipy.sparse.csr_array(likes & (train.toarray() == 0), dtype=np.float32)
    fitted = daskpart.ImplicitFactorization(
        2, n_ranks=2, partitioner="block", transport="local", alpha=5
    ).fit(train)
    found = fitted.recommend_all(5).compute()
    assert (taste[found["user"]] == (found["item"] >= 20)).mean() > 0.99
    assert fitted.score(test) > 0.3 and fitted.score(train) > 0.5


def tastes():
    """Users of two tastes, a share of what each likes, and where that is to learn from."""
    random = np.random.default_rng(0)
    likes = np.repeat([0, 1], 40)[:, None] == np.repeat([0, 1], 20)
    users, items = np.nonzero(random.random(likes.shape) < np.where(likes, 0.5, 0.05))
    table = pd.DataFrame({"user": users + 100, "item": items})
    return table, random.random(len(table)) < 0.7


def test_validation_is_the_score_and_stops_the_fit():
    table, inside = tastes()
    train, test = table[inside], table[~inside]
    chosen = {"max_iter": 30, "solver": "cholesky", "alpha": 20.0, "partitioner": "block"}
    stopped = model(patience=2, **chosen).fit(train, validation=test)
    ndcg = stopped.history_["validation_ndcg"]
    assert len(ndcg) == 2 + 1 + int(ndcg.argmax()) < 30  # by the second without a rise
    assert ndcg.max() == pytest.approx(stopped.score(test))
    assert stopped.best_iteration_ == 1 + int(ndcg.argmax())
    # looking at the state after each iteration changes nothing
    alone = model(**chosen | {"max_iter": stopped.best_iteration_}).fit(train)
    np.testing.assert_array_equal(alone.state_.item_factors, stopped.state_.item_factors)
    assert "validation_ndcg" not in alone.history_


def test_what_is_held_out_is_not_learned_from():
    table, _ = tastes()
    shared = model(validation_fraction=0.2).fit(table)
    assert 0.7 < shared.seen_.nnz / len(table) < 0.9
    assert shared.history_["validation_ndcg"].iloc[-1] > 0.3


@pytest.mark.parametrize("patience", [None, 2])
def test_nothing_is_held_out_of_a_batch(patience):
    table, inside = tastes()
    fitted = model(validation_fraction=0.2, patience=patience).fit(table)
    n_before = len(fitted.history_)
    fitted.partial_fit(table)
    assert fitted.seen_.nnz == len(table) and fitted.best_iteration_ is None
    assert np.isnan(fitted.history_["validation_ndcg"].iloc[-1])
    fitted.partial_fit(table[inside], validation=table[~inside])
    assert fitted.seen_.nnz == inside.sum()
    assert fitted.history_["validation_ndcg"].notna().sum() == n_before + 1
    fresh = model(validation_fraction=0.2, patience=patience).partial_fit(table)
    assert fresh.seen_.nnz == len(table) and "validation_ndcg" not in fresh.history_


def test_validation_that_cannot_be_is_refused():
    table, inside = tastes()
    with pytest.raises(InputError, match="patience needs validation"):
        model(patience=2).fit(table)
    with pytest.raises(InputError, match="not both"):
        model(validation_fraction=0.2).fit(table[inside], validation=table[~inside])
    with pytest.raises(InputError, match="unknown to the model"):
        model().fit(table[inside], validation=table[~inside].assign(user=-1))
    new = pd.DataFrame({"user": 999, "item": [1, 2]})
    with pytest.raises(InputError, match="without an iteration to measure"):
        model().fit(table).partial_fit(new, validation=new)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0}, "alpha"),
        ({"regularization": -1}, "regularization"),
        ({"solver": "lu"}, "solver"),
        ({"nonnegative": True}, 'needs solver="cholesky"'),
        ({"partitioner": "best"}, "unknown"),
        ({"partitioner": "block", "n_ranks": 99}, "99 ranks need as many rows"),
        ({"partitioner": np.zeros(60, int)}, "2 of 3 ranks have no users"),
    ],
)
def test_bad_parameters(changes, message):
    with pytest.raises(InputError, match=message):
        model(**changes).fit(counts())


def test_bad_events():
    for wrong in (0.0, -1.0):
        X = counts()
        X.data[3] = wrong
        with pytest.raises(InputError, match="above 0"):
            model().fit(X)
    with pytest.raises(InputError, match="shape"):
        model().fit(counts()).partial_fit(counts((61, 40)))


def test_singular_equations_say_so():
    X = scipy.sparse.csr_array(np.eye(4, dtype=np.float32))
    with pytest.raises(DivergenceError, match="Raise regularization"):
        model(n_ranks=1, solver="cholesky", regularization=1e-30).fit(X)


@pytest.mark.parametrize("solver", ["cholesky", "subspace"])
def test_without_a_penalty_components_may_not_be_more_than_users_or_items(solver):
    """It is said before anything is computed; 5 components, of 5 items one without events."""
    X = scipy.sparse.csr_array(np.eye(30, 5, dtype=np.float32) + np.eye(30, 5, k=-2))
    fit = {"n_ranks": 1, "solver": solver, "regularization": 0.0}
    assert model(**fit).fit(X).state_.is_finite()
    X = X.tolil()
    X[:, 3] = 0
    for few, side in ((X.tocsr(), "items"), (X.T.tocsr(), "users")):
        with pytest.raises(
            InputError, match=f"regularization=0 .* 4 {side} have events.*solver='cg'"
        ):
            model(**fit).plan(few)
        found = model(**fit | {"solver": "cg", "max_iter": 20}).fit(few)
        assert found.state_.is_finite() and found.history_.loss.iloc[-1] < 0.01


@pytest.mark.parametrize("solver", ["cholesky", "subspace"])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_weak_penalty_is_enough_where_components_are_more_than_items(solver, n_ranks):
    X = scipy.sparse.random(30, 20, 0.3, "csr", random_state=0)
    begin = daskpart.ImplicitFactorization(
        40, regularization=1e-6, solver=solver, n_ranks=n_ranks, transport="local", max_iter=2,
    )  # fmt: skip
    fitted = begin.fit(X)
    W, H = (getattr(fitted.state_, f"{side}_factors").astype(float) for side in ("user", "item"))
    wanted = exact_rows(X.T.toarray(), W, 1.0, 1e-6, 0.0)
    np.testing.assert_allclose(W @ H.T, W @ wanted.T, atol=2e-3)
    assert fitted.history_.loss.is_monotonic_decreasing and fitted.history_.loss.iloc[-1] < 1e-3


def test_counts_far_apart_are_solved_exactly_or_said():
    X = counts()
    X.data[3] = 1e10
    loss = model(solver="cholesky").fit(X).history_.loss
    assert loss.iloc[-1] < 0.8 * loss.iloc[0]
    X.data[3] = 1e30
    with pytest.raises(DivergenceError, match=r"the row.s counts are too far apart"):
        model(solver="cholesky").fit(X)
    with pytest.raises(InputError, match=r"goes up to 1e\+40, beyond the range of float32"):
        model(alpha=1e10).fit(X)


@pytest.mark.parametrize(
    ("solver", "n_ranks"), [("cg", 1), ("cg", 3), ("subspace", 1), ("cholesky", 3)]
)
def test_a_fit_bears_large_counts_or_says_so(solver, n_ranks):
    """In float32 steps from 10⁹ on are rounding alone, and of gradients overflow from 10¹⁰ on."""
    X = counts()
    X.data[::3] = 1e10
    fitted = model(solver=solver, block_size=3, n_ranks=n_ranks, max_iter=8).fit(X)
    loss, W, H = fitted.history_.loss, *factors_of(fitted)
    assert loss.is_monotonic_decreasing and loss.iloc[-1] < 0.7 * loss.iloc[0]
    wanted = objective(X.toarray().astype(float), W, H, 1.0, 0.01, 0.0)
    assert loss.iloc[-1] * X.nnz == pytest.approx(wanted, rel=1e-5)
    X.data[::3] = 1e30
    with pytest.raises(DivergenceError, match=r"iteration 1: .* counts are too far apart"):
        model(solver=solver, n_ranks=n_ranks).fit(X)


@pytest.mark.parametrize("solver", ["cg", "subspace", "cholesky"])
@pytest.mark.parametrize("init_scale", [1e18, 1e20, 1e38])
def test_first_rows_that_are_too_large_are_no_words_of_numpy(solver, init_scale):
    try:  # from exact rows a fit may come back
        model(solver=solver, init_scale=init_scale).fit(counts())
    except DivergenceError as error:
        assert "iteration 1" in str(error) and f"init_scale={init_scale:g}. Lower" in str(error)


@pytest.mark.parametrize("count", [0.0, -1.0])
def test_what_no_fit_takes_for_an_event_is_no_hit(count):
    X = counts()
    fitted = model().fit(X)
    X.data[5] = count
    with pytest.raises(InputError, match=r'a count above 0.*loss="logistic"'):
        fitted.score(X)


@pytest.mark.parametrize("solver", ["cg", "subspace", "cholesky"])
def test_the_objective_is_that_of_all_rows(solver):
    """Of those that are solved in float64, too, as their counts are far apart."""
    X = counts()
    events = events_of(X, None, 0)
    for begin in X.indptr[8:20]:
        events.weights[begin : begin + 2] = 1e14
    random, gram = np.random.default_rng(0), np.zeros((5, 5))
    H = random.normal(size=(40, 5)).astype(np.float32)
    gram_of(H, 40, gram)
    rows = random.normal(size=(60, 5)).astype(np.float32)
    solve, alone = Solve(solver, 3, 5, 0.1, 0.0, 0), 0.0
    for row in range(60):
        one = events.of_rows(np.array([row]))
        if 8 <= row < 20:
            alone += solve._in_double(one, np.array([0]), H, gram, rows[[row]])
        else:
            alone += solve(one, H, gram, rows[[row]])
    assert solve(events, H, gram, rows) == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize("solver", ["cg", "subspace", "cholesky"])
def test_rows_without_large_counts_are_solved_as_ever(solver):
    X = counts()
    one, other = (events_of(X, row, 1e10) for row in (None, 4))
    random, gram = np.random.default_rng(0), np.zeros((5, 5))
    H = random.normal(size=(40, 5)).astype(np.float32)
    gram_of(H, 40, gram)
    begun = random.normal(size=(60, 5)).astype(np.float32)
    rows = [begun.copy(), begun.copy()]
    for each, found in zip((one, other), rows, strict=True):
        Solve(solver, 3, 3, 0.1, 0.0, 0)(each, H, gram, found)
    same = np.arange(60) != 4
    np.testing.assert_array_equal(rows[0][same], rows[1][same])
    dense = X.toarray().astype(float)
    dense[4, X.indices[X.indptr[4]]] = 1e10
    wanted = exact_rows(dense, H.astype(float), 1.0, 0.1, 0.0)
    np.testing.assert_allclose(rows[1][4], wanted[4], rtol=1e-5)


def factors_of(fitted):
    return [getattr(fitted.state_, f"{side}_factors").astype(float) for side in ("user", "item")]


def events_of(X, row, largest):
    """Users of a matrix as `Events`; the first event of a row is made large."""
    weights = X.data.astype(np.float32)
    if row is not None:
        weights[X.indptr[row]] = largest
    return Events(X.indptr.astype(np.int64), X.indices.astype(np.int32), weights)


def test_a_count_below_zero_is_not_summed_away():
    events = pd.DataFrame({"user": [*"aab"], "item": [1, 1, 2], "count": [-1.0, 3.0, 1.0]})
    with pytest.raises(InputError, match="counts go down to -1"):
        model(rating="count").fit(events)
