"""Linear models as estimators: containers, attributes, warm starts, bad input, lazy data."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.linear_model
import sklearn.svm
import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

import daskpart
from daskpart import LinearRegression, LinearSVC, LogisticRegression
from daskpart.errors import InputError

LOCAL = {"n_ranks": 2, "transport": "local"}
EXACT = {"tol": 1e-9, "max_iter": 1000, **LOCAL}


def samples(n_classes: int = 2, n: int = 150, n_features: int = 12) -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    X = random.normal(size=(n, n_features))
    noise = random.normal(size=(n, n_classes))
    return X, (X @ random.normal(size=(n_features, n_classes)) + noise).argmax(axis=1)


def reference(**options: Any) -> Any:
    return sklearn.linear_model.LogisticRegression(tol=1e-10, max_iter=10_000, **options)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_of_a_fit_on_a_server():
    """In full, as `test_contract` has them for those that are of its list."""
    model = LogisticRegression(solver="server", n_blocks=4, max_iter=5, **LOCAL)
    found = check_estimator(model, on_fail=None, on_skip=None)
    assert len(found) > 35
    assert not [each["check_name"] for each in found if each["status"] == "failed"]


@pytest.mark.parametrize("check", [
    check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data,
])  # fmt: skip
def test_a_sample_given_twice_is_a_weight_of_two(check):
    """Those of scikit-learn's checks that the SGD of `test_contract` is excused from."""
    check("LinearSVC", LinearSVC(**LOCAL))


# -- as users meet it ---


def test_sparse_dense_and_narrow_data_agree():
    X, y = samples()
    X[np.abs(X) < 0.7] = 0
    dense = LogisticRegression(**EXACT).fit(X, y)
    for other in (
        scipy.sparse.csr_matrix(X), scipy.sparse.coo_array(X), sparse.COO.from_numpy(X),
        X.astype(np.float32),
    ):  # fmt: skip
        model = LogisticRegression(**EXACT).fit(other, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-5)


def test_names_of_features_and_labels_of_classes():
    X, y = samples()
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.array(["ham", "spam"])[y]
    model = LogisticRegression(**LOCAL).fit(frame, labels)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.classes_.tolist() == ["ham", "spam"] and model.n_features_in_ == 12
    assert set(model.predict(frame)) == {"ham", "spam"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_pipelines_and_grid_search():
    X, y = samples()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(n_ranks=1, transport="local")),
        {"logisticregression__C": [1e-3, 1.0]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_ == {"logisticregression__C": 1.0} and search.best_score_ > 0.7


def test_partial_fit_learns_chunk_by_chunk():
    X, y = samples(3, 300)
    model = LogisticRegression(solver="sgd", batch_size=4, **LOCAL)
    for _ in range(5):
        for begin in range(0, 300, 60):
            own = slice(begin, begin + 60)
            model.partial_fit(X[own], y[own], classes=[0, 1, 2])
    assert model.score(X, y) > 0.6 and model.n_iter_ == 25
    assert model.state_.steps == 25 * 8
    with pytest.raises(InputError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(InputError, match=r"y\[0\] is 7, which is none of the classes"):
        model.partial_fit(X, np.where(np.arange(300) == 0, 7, y))
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'"):
        LogisticRegression().partial_fit  # noqa: B018
    with pytest.raises(InputError, match="first call"):
        LogisticRegression(solver="sgd").partial_fit(X, y)
    line = LinearRegression(solver="sgd", **LOCAL)
    assert line.partial_fit(X, y).partial_fit(X, y).n_iter_ == 2


def test_early_stopping_watches_the_held_out_loss():
    X, y = samples(n=200)
    held = X[150:], y[150:]
    model = LogisticRegression(
        C=1e6, solver="sgd", learning_rate="constant", eta0=1.0, max_iter=200, tol=0, patience=3,
        **LOCAL,
    ).fit(X[:150], y[:150], eval_set=held)  # fmt: skip
    losses = model.history_.validation_loss
    assert model.n_iter_ < 200 and losses.idxmin() == model.n_iter_ - 4
    assert model.best_iteration_ == model.n_iter_ - 3
    expected = -np.log(model.predict_proba(held[0])[np.arange(50), held[1]]).mean()
    assert losses.min() == pytest.approx(expected)
    with pytest.raises(InputError, match="eval_set"):
        LogisticRegression(patience=3, **LOCAL).fit(X, y)
    with pytest.raises(InputError, match="tuple"):
        LogisticRegression(patience=3, **LOCAL).fit(X, y, eval_set=3)


def test_warm_start_goes_on():
    X, y = samples()
    model = LogisticRegression(warm_start=True, max_iter=3, tol=0, **LOCAL).fit(X, y)
    first = model.history_.loss.iloc[-1]
    assert model.fit(X, y).n_iter_ == 6 and model.history_.loss.iloc[-1] < first
    with pytest.raises(InputError, match="the last fit was of 12 features"):
        model.fit(X[:, :5], y)


@pytest.mark.parametrize(("scale", "max_iter"), [(1e-3, 1000), (1.0, 200), (1e4, 200), (1e10, 200)])
def test_features_of_any_scale(scale, max_iter):
    """Money, bytes and nanoseconds: the first step is too long by the square of the scale."""
    X, y = samples()
    model = LogisticRegression(C=1 / scale**2, **EXACT | {"max_iter": max_iter})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # gradients do not fall below rounding
        model.fit(X * scale, y)
    exact = reference().fit(X, y)
    np.testing.assert_allclose(model.coef_ * scale, exact.coef_, rtol=1e-3 if scale < 1 else 1e-6)


@pytest.mark.parametrize("loss, scale", [
    ("squared", 1e-3), ("squared", 1.0), ("squared", 1e4), ("huber", 1e-2),
])  # fmt: skip
def test_a_regression_does_not_ask_for_the_unit_of_its_numbers(scale, loss):
    """Returns of a day are hundredths: their gradients are small before anything is learnt."""
    X, y = samples()
    y = X @ np.arange(12.0) + np.random.default_rng(0).normal(size=len(y))
    make = {"loss": loss, "max_iter": 500, **LOCAL}
    whole = LinearRegression(tol=1e-9, epsilon=1.35, **make).fit(X, y)
    model = LinearRegression(epsilon=1.35 * scale, **make).fit(scale * X, scale * y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.01)
    other = LinearRegression(epsilon=1.35 * scale, warm_start=True, **{**make, "max_iter": 2})
    with pytest.warns(ConvergenceWarning, match="not converged in 2 iterations"):
        other.fit(scale * X, scale * y)
    for alpha in (0, 1e-12 * scale**2):  # of the same fit and of another one
        other.set_params(alpha=alpha, max_iter=500).fit(scale * X, scale * y)
        np.testing.assert_allclose(other.coef_, whole.coef_, atol=0.01)


def test_a_fit_that_is_not_there_yet_says_so():
    X, y = samples()
    with pytest.warns(ConvergenceWarning, match="not converged in 3 iterations"):
        LogisticRegression(max_iter=3, **LOCAL).fit(X, y)
    LogisticRegression(max_iter=3, tol=0, **LOCAL).fit(X, y)  # asked for three
    LogisticRegression(**LOCAL).fit(X, y)


def objective_of(model, X, y):
    """The loss with the penalty, which is what a fit with C=1 minimises."""
    loss = -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()
    return loss + 0.5 * (model.coef_**2).sum() / len(y)


def test_a_warm_start_trains_on_other_data_and_with_other_penalties():
    """A fit that had converged says nothing of another one, nor do the pairs of its L-BFGS."""
    X, y = samples(n_classes=2)
    for first in (3, 1000):  # broken off, and at its optimum
        model = LogisticRegression(warm_start=True, tol=0 if first < 9 else 1e-9, **LOCAL)
        model.set_params(max_iter=first).fit(X, y).set_params(tol=1e-9)
        for C, target in ((1.0, 1 - y), (10.0, 1 - y), (10.0, y)):
            model.set_params(C=C, max_iter=1000).fit(X, target)
            anew = LogisticRegression(**{**EXACT, "C": C}).fit(X, target)
            np.testing.assert_allclose(model.coef_, anew.coef_, atol=1e-5)
        done = model.n_iter_
        assert model.fit(X, y).n_iter_ == done  # the same fit again


@pytest.mark.parametrize("other", ["lbfgs", "server", "adagrad", "sgd", "momentum", "adam"])
@pytest.mark.parametrize("first", ["lbfgs", "server", "adagrad", "momentum", "adam"])
def test_a_warm_start_may_change_solver_optimiser_and_ranks(first, other):
    """It begins at the weights that the model predicts with."""
    X, y = samples(n_classes=2)
    model = LogisticRegression(warm_start=True, tol=0, eta0=0.01, transport="local")
    for name, n_ranks, epochs in ((first, 2, 20), (other, 3, 1)):
        by_sgd = name not in ("lbfgs", "server")
        how = {"solver": "sgd", "optimizer": name} if by_sgd else {"solver": name}
        before = objective_of(model, X, y) if hasattr(model, "state_") else np.inf
        model.set_params(n_ranks=n_ranks, max_iter=epochs, **how).fit(X, y)
        assert objective_of(model, X, y) < before + 0.02
    assert model.n_iter_ == 21


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("first", ["lbfgs", "adagrad"])
def test_adagrad_zeroes_weights_of_features_that_new_samples_lack(first, n_ranks, l1_ratio):
    """As the server does, and L-BFGS; it goes on from others, however late they come."""
    X, y = samples()
    by_sgd = {"solver": "sgd", "optimizer": "adagrad", "average": False, "shuffle": False}
    model = LogisticRegression(warm_start=True, n_ranks=n_ranks, transport="local", max_iter=20)
    model.set_params(**by_sgd if first == "adagrad" else {}).fit(X, y)
    before, late = model.coef_[0], np.where(np.arange(len(y)) < 100, 0, X[:, 3])
    assert before[:3].all()
    X = np.column_stack([np.zeros((len(X), 3)), late, X[:, 4:]])
    model.set_params(**by_sgd, l1_ratio=l1_ratio, eta0=1e-4, max_iter=1, batch_size=10, tol=0)
    kept, free = deepcopy(model), deepcopy(model).set_params(C=np.inf).fit(X, y)
    np.testing.assert_array_equal(free.coef_[0, :3], before[:3])  # no penalty moves them
    kept.partial_fit(X, y)  # of a batch: others may have them
    np.testing.assert_allclose(kept.coef_[0], before, atol=0.01)
    model.fit(X, y)
    np.testing.assert_array_equal(model.coef_[0, :3], 0.0)
    np.testing.assert_allclose(model.coef_[0, 3:], before[3:], atol=0.01)


def test_a_warm_start_with_other_ranks_forgets_what_topk_did_not_send():
    X, y = samples()
    model = LogisticRegression(solver="sgd", warm_start=True, top_k=2, max_iter=2, tol=0, **LOCAL)
    model.fit(X, y)
    for n_ranks, top_k in ((3, 2), (3, None), (2, 2)):
        model.set_params(n_ranks=n_ranks, top_k=top_k).fit(X, y)
        assert len(model.state_.residual) == n_ranks and model.state_.residual.any() == bool(top_k)


def test_a_mean_that_begins_late_begins_at_the_weights():
    X, y = samples()
    model = LogisticRegression(
        solver="sgd", average=False, warm_start=True, max_iter=20, tol=0, **LOCAL
    ).fit(X, y)
    before = np.linalg.norm(model.coef_)
    model.set_params(average=True, max_iter=1).fit(X, y)
    assert np.linalg.norm(model.coef_) == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_history_says_what_was_measured(n_ranks):
    X, y = samples()
    X = X * (np.arange(X.shape[1]) % 2)  # the others have no entry, so no sum has one
    rates = {"learning_rate": "invscaling", "eta0": 1e-3, "power_t": 1.0}
    own = LOCAL | {"n_ranks": n_ranks, "batch_size": 7, "max_iter": 3, "tol": 0}
    model = LogisticRegression(solver="sgd", **rates, **own).fit(X, y)
    wanted = {"loss", "change", "density", "learning_rate", "seconds_computing",
              "seconds_communicating", "messages", "bytes"}  # fmt: skip
    assert wanted <= set(model.history_)
    n_features = X.shape[1]
    np.testing.assert_allclose(model.history_.density, (n_features // 2 + 1) / (n_features + 1))
    n_steps = -(-len(X) // (7 * n_ranks))
    last = n_steps * np.arange(1, 4)  # the rate is that of the last step of an epoch
    np.testing.assert_allclose(model.history_.learning_rate, 1e-3 / last)
    assert model.history_.bytes.gt(0).all()


# -- bad input ---


def test_bad_samples_are_refused():
    X, y = samples()
    model = LogisticRegression(**LOCAL)
    with pytest.raises(InputError, match="one class only"):
        model.fit(X, np.zeros(len(y)))
    broken = X.copy()
    broken[5, 1], broken[9, 0] = np.nan, np.inf
    for given in (broken, scipy.sparse.csr_array(broken), pd.DataFrame(broken)):
        where = "in row 5, column 1" if isinstance(given, pd.DataFrame) else r"X\[5, 1\]"
        with pytest.raises(InputError, match=f"X contains NaN. The first is {where}[.]$"):
            model.fit(given, y)
    with pytest.raises(InputError, match=r"y contains NaN. The first is y\[7\][.]$"):
        LinearRegression(**LOCAL).fit(X, np.where(np.arange(len(y)) == 7, np.nan, 1.0))
    weights = np.ones(len(y))
    weights[7] = -2
    with pytest.raises(InputError, match=r"sample_weight\[7\] is -2"):
        model.fit(X, y, weights)
    with pytest.raises(ValueError, match=r"non-zero|all samples"):
        model.fit(X, y, 0 * weights)
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, y + 0.5 * X[:, 0])
    model.fit(X, y)
    for other in (X[:, :5], np.hstack([X, X])):
        with pytest.raises(ValueError, match="is expecting 12 features"):
            model.predict(other)
    with pytest.raises(InputError, match="none of the classes"):
        LogisticRegression(patience=2, **LOCAL).fit(X, y, eval_set=(X, y + 5))


@pytest.mark.parametrize(("make", "words"), [
    (lambda: LinearSVC(loss="hinge"), "corners"),
    (lambda: LogisticRegression(C=0), "C"),
    (lambda: LogisticRegression(top_k_bucket=4, solver="sgd"), "need top_k"),
    (lambda: LogisticRegression(top_k=4), "need solver='sgd'"),
    (lambda: LogisticRegression(optimizer="adam", average=True, solver="sgd"), "optimizer='sgd'"),
    (lambda: LogisticRegression(average=True, l1_ratio=0.1, solver="sgd"), "not sparse"),
    (lambda: LogisticRegression(aggregation="mine"), "aggregation"),
    (lambda: LogisticRegression(C=np.inf, solver="sgd", optimizer="sgd"), "needs an L2 term"),
    (lambda: LogisticRegression(l1_ratio=0.1, optimizer="adam", solver="sgd"), "or 'adagrad'"),
])  # fmt: skip
def test_parameters_that_contradict_each_other(make, words):
    X, y = samples()
    with pytest.raises(InputError, match=words):
        make().set_params(**LOCAL).fit(X, y)


def test_weights_that_diverge_say_what_to_do():
    X, y = samples()
    model = LinearRegression(
        solver="sgd", learning_rate="constant", eta0=1e3, max_iter=500, **LOCAL
    )
    with pytest.raises(daskpart.errors.DivergenceError, match="Lower eta0"):
        model.fit(X, 1e3 * y)


def test_ranks_without_samples_do_no_harm():
    X, y = samples(n=40)
    for options in ({"solver": "lbfgs"}, {"solver": "sgd", "batch_size": 30, "overlap": True}):
        model = LogisticRegression(n_ranks=5, transport="local", **options).fit(X, y)
        assert min(map(len, model.plan(X, y).members)) == (0 if "batch_size" in options else 8)
        assert model.score(X, y) > 0.7


# -- Dask collections ---


def test_dask_arrays_and_frames_in_lazy_ordered_answers_out():
    import dask.array as da
    import dask.dataframe as dd

    X, y = samples(3)
    labels = np.array(["a", "b", "c"])[y]
    for options in ({"solver": "sgd", "batch_size": 4, "max_iter": 5, "tol": 0}, {}):
        make = LogisticRegression(**options, **LOCAL)
        expected = make.fit(X, labels).state_.weights
        array = da.from_array(X, chunks=(40, 5))
        blocks = da.from_array(X, chunks=(70, -1)).map_blocks(sparse.COO.from_numpy)
        for lazy in (array, blocks):
            model = make.fit(lazy, da.from_array(labels, chunks=33))
            np.testing.assert_array_equal(model.state_.weights, expected)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    lazy = dd.from_pandas(frame, npartitions=4)
    model = make.fit(lazy, dd.from_pandas(pd.Series(labels), npartitions=4))
    np.testing.assert_array_equal(model.state_.weights, expected)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        here = getattr(model, method)(frame)
        for held in (array, lazy):
            there = getattr(model, method)(held)
            assert isinstance(there, da.Array) and there.dtype == here.dtype
            np.testing.assert_allclose(there.compute(), here) if here.dtype.kind == "f" else (
                np.testing.assert_array_equal(there.compute(), here)
            )
    with pytest.raises(InputError, match="feature names"):
        model.predict(lazy[list(frame.columns[::-1])])
    with pytest.raises(InputError, match="has 3 features, LogisticRegression was fitted with 12"):
        model.predict(array[:, :3])
    line = LinearRegression(**LOCAL).fit(array, y, eval_set=(array, y))
    np.testing.assert_allclose(line.predict(array).compute(), line.predict(X))
    assert (line.predict(X) - y).var() / 2 == pytest.approx(line.history_.validation_loss.iloc[-1])


def test_bad_dask_collections_say_where():
    import dask.array as da

    X, y = samples()
    X = X.copy()
    X[77, 3] = np.nan
    lazy = da.from_array(X, chunks=(50, -1))
    with pytest.raises(InputError, match=r"the chunk that begins at row 50: Input contains NaN"):
        LogisticRegression(**LOCAL).fit(lazy, y)
    with pytest.raises(InputError, match=r"y has shape \(10,\), X has 150 samples"):
        LogisticRegression(**LOCAL).fit(lazy, y[:10])
    with pytest.raises(InputError, match=r"sample_weight\[3\] is nan"):
        LogisticRegression(**LOCAL).fit(lazy, y, np.where(np.arange(150) == 3, np.nan, 1))
    with pytest.raises(InputError, match="1 dimensions"):
        LogisticRegression(**LOCAL).fit(lazy[:, 0], y)


def test_scores_of_chunks_of_unknown_length():
    import dask.array as da
    import dask.dataframe as dd

    X, y = samples()
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(12)])
    lazy, target = (dd.from_pandas(each, npartitions=3) for each in (frame, pd.Series(y)))
    weight = np.arange(150.0)
    for make in (LogisticRegression(**LOCAL), LinearRegression(**LOCAL)):
        model = make.fit(lazy, target)
        expected = model.score(frame, y, weight)
        found = model.score(lazy, target, da.from_array(weight, chunks=60))
        assert found == pytest.approx(expected)
        kept = model.score(lazy[lazy.x0 > 0], target[lazy.x0 > 0])
        assert kept == pytest.approx(model.score(frame[frame.x0 > 0], y[frame.x0 > 0]))


@pytest.mark.parametrize("make", [
    lambda y: pd.Series(y.astype(str), dtype="string"), lambda y: pd.Series(y, dtype="Int64"),
    lambda y: pd.Series(pd.Categorical(y.astype(str))), lambda y: pd.Series(y.astype(object)),
])  # fmt: skip
def test_labels_that_are_missing_are_named(make):
    import dask.array as da

    X, y = samples()
    for given in (X, da.from_array(X, chunks=(50, 12))):
        with pytest.raises(ValueError, match=r"y\[7\] is (missing|nan)|y contains NaN"):
            LogisticRegression(**LOCAL).fit(given, make(y).mask(np.arange(150) == 7))
        listed = [np.nan if row == 7 else label for row, label in enumerate(y.astype(str))]
        with pytest.raises(InputError, match=r"y\[7\] is missing"):
            LogisticRegression(**LOCAL).fit(given, listed)


def test_a_data_array_over_sparse_entries():
    import xarray as xr

    X, y = samples()
    X = X * (X > 0.5)
    held = xr.DataArray(sparse.COO.from_numpy(X), dims=("sample", "feature"))
    model = LogisticRegression(**LOCAL).fit(held, y)
    whole = LogisticRegression(**LOCAL).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(held), whole.predict_proba(held))


def test_entries_given_in_pieces_are_placed_as_one():
    X, y = samples()
    whole = scipy.sparse.csr_array(X * (X > 0.5))
    pieces = scipy.sparse.csr_array(
        (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr),
        shape=whole.shape,
    )
    for partitioner in ("parsa", "connectivity"):
        model = LogisticRegression(solver="server", partitioner=partitioner, max_iter=3, **LOCAL)
        plans = [model.plan(each, y).partition.assignment for each in (whole, pieces)]
        np.testing.assert_array_equal(*plans)
    assert pieces.nnz == 2 * whole.nnz
