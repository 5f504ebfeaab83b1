"""Models of samples that go on from an earlier fit: what stays, is dropped, or refused."""

from __future__ import annotations

import pickle

import dask.array
import numpy as np
import pytest

from daskpart import LinearRegression, LinearSVC, LogisticRegression, MLPClassifier
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.early_stopping import Watch
from daskpart.models.base.trainer import Trainer
from daskpart.models.linear.sgd import MEAN_BEGAN
from daskpart.models.optimisation.optimisers import BEGAN

LOCAL = {"n_ranks": 2, "transport": "local"}
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(60, 4)) + 1.0
Y = (X @ [1.0, -1.0, 0.5, 0.0] > 0.2).astype(int)
NAMES = np.array(["no", "yes"])[Y]


# -- the intercept ---


@pytest.mark.parametrize("options", [
    {"solver": "lbfgs"}, {"solver": "sgd"}, {"solver": "sgd", "optimizer": "adam"},
    {"solver": "sgd", "aggregation": "server"}, {"solver": "server"},
    {"solver": "sgd", "top_k": 1, "batch_size": 8},
])  # fmt: skip
def test_an_intercept_that_is_not_wanted_any_more_is_gone(options):
    model = LogisticRegression(warm_start=True, max_iter=3, tol=0, **options, **LOCAL)
    before = model.fit(X, Y).state_
    assert model.intercept_[0]
    weights = before.weights.copy()
    model.set_params(fit_intercept=False).fit(X, Y)
    assert model.intercept_.tolist() == [0.0]
    np.testing.assert_array_equal(model.decision_function(X), X @ model.coef_[0])
    np.testing.assert_array_equal(before.weights, weights)  # the old state is as it was
    if options["solver"] == "sgd":
        model.set_params(fit_intercept=True).fit(X, Y).set_params(fit_intercept=False)
        assert model.partial_fit(X, Y).intercept_.tolist() == [0.0]


# -- what TopK has not sent ---


MADE = pytest.mark.parametrize("make", [
    lambda **more: LogisticRegression(solver="sgd", top_k=1, **more),
    lambda **more: LogisticRegression(solver="sgd", top_k=1, aggregation="server", **more),
    lambda **more: MLPClassifier((3,), optimizer="sgd", top_k=1, top_k_bucket=None, **more),
])  # fmt: skip


def _rate(model):
    return "learning_rate_init" if isinstance(model, MLPClassifier) else "eta0"


@pytest.fixture
def begun(monkeypatch):
    """The states that fits begin from."""
    states, keep = [], Trainer._start_at
    monkeypatch.setattr(
        Trainer, "_start_at", lambda self, state: (states.append(state), keep(self, state))[1]
    )
    return states


@pytest.mark.parametrize("how", ["warm_start", "partial_fit", "other parameters", "resume"])
@MADE
def test_what_was_not_sent_of_other_data_is_not_sent(make, how, begun, tmp_path):
    options = {**LOCAL, "batch_size": 8, "max_iter": 2, "tol": 0, "warm_start": True}
    model = make(**options, checkpoint_path=tmp_path / "run.npz").fit(X, Y)
    kept = model.state_.residual
    assert kept.any()
    if how == "resume":
        model.set_params(resume=True, max_iter=3).fit(X, Y)
    elif how == "partial_fit":
        model.set_params(checkpoint_path=None).partial_fit(1 - X[:50], Y[:50])
    else:
        other = {_rate(model): 0.01} if how == "other parameters" else {}
        model.set_params(checkpoint_path=None, **other).fit(X if other else 1 - X, Y)
    found = begun[-1].residual
    assert found.shape == kept.shape and (begun[-1].epoch, found.any()) == (
        2, how in ("partial_fit", "resume"),
    )  # fmt: skip
    if found.any():
        np.testing.assert_array_equal(found, kept)


@pytest.mark.parametrize("n_ranks", [1, 3])
@MADE
def test_other_ranks_have_in_sum_what_was_not_sent(make, n_ranks, begun, tmp_path):
    options = {"transport": "local", "batch_size": 8, "tol": 0}
    checkpoints = {"checkpoint_path": tmp_path / "run.npz"}
    kept = make(n_ranks=2, max_iter=2, **options, **checkpoints).fit(X, Y).state_.residual
    with pytest.warns(DaskpartWarning, match="it goes on"):
        make(n_ranks=n_ranks, max_iter=3, resume=True, **options, **checkpoints).fit(X, Y)
    found = begun[-1].residual
    assert len(found) == n_ranks and kept.any()
    np.testing.assert_allclose(found.sum(axis=0), kept.sum(axis=0))


# -- classes ---


@pytest.mark.parametrize("make", [
    lambda: LogisticRegression(max_iter=2, tol=0, warm_start=True, solver="sgd", **LOCAL),
    lambda: LinearSVC(max_iter=2, tol=0, warm_start=True, solver="sgd", **LOCAL),
    lambda: MLPClassifier((3,), max_iter=2, tol=0, warm_start=True, **LOCAL),
])  # fmt: skip
def test_a_warm_start_of_other_classes_is_refused(make):
    model = make().fit(X, NAMES)
    with pytest.raises(InputError, match=r"\['maybe', 'yes'\].*\['no', 'yes'\]"):
        model.fit(X, np.where(NAMES == "no", "maybe", NAMES))
    with pytest.raises(InputError, match=r"warm_start=False"):
        model.fit(X, Y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.fit(X[::2], NAMES[::2]).n_iter_ == 4


# -- steps of the optimiser ---


@pytest.mark.parametrize("make", [
    lambda **how: LogisticRegression(solver="sgd", average=False, eta0=0.01, **how),
    lambda **how: MLPClassifier((3,), alpha=0.0, learning_rate_init=0.01, **how),
])  # fmt: skip
def test_adam_that_begins_late_counts_its_own_steps(make):
    """Its first step is as long as the rate whenever it begins: means are corrected for that."""
    how = {"max_iter": 1, "tol": 0, "batch_size": 60, "n_ranks": 1, "transport": "local"}
    model = make(optimizer="sgd", warm_start=True, **how).fit(X, Y)
    for _ in range(4):
        model.partial_fit(X, Y)
    before = np.concatenate([np.ravel(each) for each in _weights(model)])
    model.set_params(optimizer="adam", learning_rate="constant").fit(X, Y)
    moved = np.abs(np.concatenate([np.ravel(each) for each in _weights(model)]) - before)
    np.testing.assert_allclose(moved[moved > 0], 0.01, rtol=1e-3)
    assert model.state_.steps == 6
    model.partial_fit(X, Y)
    assert model.state_.slots[BEGAN] == 5  # after the steps of the other optimiser


def _weights(model):
    weights = model.state_.weights
    return list(weights.values()) if isinstance(weights, dict) else [weights]


@pytest.mark.parametrize("there", ["auto", "server"])
def test_to_and_from_a_server_goes_on_at_the_weights_that_predict(there):
    """Where "auto" is averaged AdaGrad of messages, and plain SGD on a server."""
    how = {"solver": "sgd", "max_iter": 3, "tol": 0, "warm_start": True, "eta0": 0.1, **LOCAL}
    model = LogisticRegression(aggregation=there, **how).fit(X, Y)
    answers = np.r_[model.coef_[0], model.intercept_]
    model.set_params(aggregation="auto" if there == "server" else "server", eta0=1e-12)
    model.set_params(learning_rate="constant").fit(X, Y)
    np.testing.assert_allclose(np.r_[model.coef_[0], model.intercept_], answers, atol=1e-8)
    fresh = set(LogisticRegression(aggregation=model.aggregation, **how).fit(X, Y).state_.slots)
    assert set(model.state_.slots) - {BEGAN, MEAN_BEGAN} == fresh


def test_a_plan_for_messages_is_refused_on_a_server():
    """There "auto" places rows by Parsa."""
    how = {"solver": "sgd", "max_iter": 1, "tol": 0, **LOCAL}
    plan = LogisticRegression(**how).plan(X, Y)
    assert plan.partitioner == "shuffle"
    with pytest.raises(InputError, match="aggregation"):
        LogisticRegression(aggregation="server", **how).fit(X, Y, plan=plan)


# -- the loss ---


@pytest.mark.parametrize("make", [
    lambda **how: LogisticRegression(solver="sgd", average=False, **how),
    lambda **how: LogisticRegression(solver="sgd", **how),
    lambda **how: LogisticRegression(solver="sgd", aggregation="server", **how),
    lambda **how: LogisticRegression(solver="server", **how),
    lambda **how: MLPClassifier((3,), **how),
])  # fmt: skip
def test_a_loss_is_not_compared_with_that_of_another_fit(make):
    """The change between two fits says nothing of how far one of them is."""
    model = make(max_iter=4, tol=0, warm_start=True, **LOCAL).fit(X, Y)
    other = model.state_.loss
    model.set_params(max_iter=2, tol=100.0).fit(X, 1 - Y)
    assert model.n_iter_ == 6  # the loss of its first step had none before it
    assert np.isnan(model.history_["change"].iloc[4])
    assert model.state_.loss != other


# -- patience ---


def test_a_model_with_patience_learns_batch_by_batch():
    """One step cannot stop early, so there is nothing to watch."""
    how = {"solver": "sgd", "max_iter": 5, "tol": 0, **LOCAL}
    patient, plain = LinearRegression(patience=2, **how), LinearRegression(**how)
    for half in (slice(30), slice(30, 60)):
        patient.partial_fit(X[half], X[half, 0])
        plain.partial_fit(X[half], X[half, 0])
    np.testing.assert_array_equal(patient.coef_, plain.coef_)
    assert patient.best_iteration_ is None and patient.n_iter_ == 2
    with pytest.raises(InputError, match="eval_set"):
        patient.fit(X, X[:, 0])
    patient.fit(X, X[:, 0], eval_set=(X, X[:, 0]))
    assert isinstance(patient._watch(), Watch) and patient.best_iteration_ is not None
    patient.partial_fit(X, X[:, 0])
    assert patient.best_iteration_ is None


# -- widths, and what goes into a graph ---


@pytest.mark.parametrize("hidden", [5, np.int64(5), np.array([5])[0], (np.int64(5),), [5]])
def test_widths_may_be_any_whole_numbers(hidden):
    model = MLPClassifier(hidden, max_iter=1, tol=0, **LOCAL).fit(X, Y)
    assert [each.shape for each in model.coefs_] == [(4, 5), (5, 2)]
    assert repr(model.plan(X, Y)) and model.partial_fit(X, Y).n_iter_ == 2


@pytest.mark.parametrize("make", [
    lambda: LogisticRegression(solver="sgd", average=False, optimizer="adam", **LOCAL),
    lambda: MLPClassifier((300,), optimizer="momentum", **LOCAL),
])  # fmt: skip
def test_lazy_answers_carry_no_more_than_they_need(make):
    """Weights once: neither what the optimiser remembers, nor what TopK has not sent."""
    wide = np.hstack([X, np.zeros((60, 500))])
    model = make().set_params(max_iter=1, tol=0, top_k=3).fit(wide, Y)
    chunks = dask.array.from_array(wide, chunks=(20, -1))
    lazy = model.predict_proba(chunks)
    np.testing.assert_allclose(lazy.compute(), model.predict_proba(wide), rtol=1e-12)
    handed = pickle.dumps(dict(lazy.dask.layers[lazy.name]))
    weights = sum(each.nbytes for each in _weights(model))
    assert len(handed) < 1.2 * weights + 20_000
    assert model.state_.residual.size and model.state_.slots  # the model itself keeps them
