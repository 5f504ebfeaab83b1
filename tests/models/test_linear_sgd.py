"""SGD of linear models: against a dense serial twin, across ranks, sums and transports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same_states, on_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import ElasticNet

from daskpart import LinearRegression, LinearSVC, LogisticRegression
from daskpart.models.base.state import same_bits
from daskpart.models.base.trainer import Trainer
from daskpart.models.linear.losses import LOSSES, slopes_of
from daskpart.models.optimisation.aggregation import same_order
from daskpart.models.optimisation.schedules import schedule_of
from daskpart.models.samples.rows import members_of_ranks, order_of_epoch, rank_rows, seed_of_epoch

LOCAL = {
    "transport": "local", "solver": "sgd", "tol": 0, "optimizer": "sgd", "average": False,
}  # fmt: skip


def samples(n: int = 90, n_features: int = 40, n_classes: int = 2, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    X = scipy.sparse.random(n, n_features, 0.2, "csr", random_state=random)
    truth = random.normal(size=(n_features, n_classes))
    return X, (X @ truth + 0.1 * random.normal(size=(n, n_classes))).argmax(axis=1)


def loss_and_slopes(model: Any, scores: np.ndarray, target: float) -> tuple[float, np.ndarray]:
    slopes = scores.copy()
    loss = LOSSES[model].code
    return slopes_of.py_func(loss, 0.7, slopes, np.full((1, 1), target), 0), slopes


def _python(monkeypatch: Any) -> None:
    """The losses as plain Python: they are called by kernels only."""
    from daskpart.models.linear import losses

    for name in ("_log", "_hinge", "_squared_hinge", "_huber", "_poisson", "_one"):
        monkeypatch.setattr(losses, name, getattr(losses, name).py_func)


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_those_of_the_loss(name, monkeypatch):
    _python(monkeypatch)
    random = np.random.default_rng(1)
    for target in (-1.0, 1.0) if name != "multinomial" else (0.0, 2.0):
        scores = 2 * random.normal(size=1 if name != "multinomial" else 3)
        _, slopes = loss_and_slopes(name, scores, target)
        for c in range(len(scores)):
            step = np.zeros(len(scores))
            step[c] = 1e-6
            up, down = (loss_and_slopes(name, scores + s * step, target)[0] for s in (1, -1))
            assert slopes[c] == pytest.approx((up - down) / 2e-6, abs=1e-5)


def test_the_log_loss_does_not_overflow(monkeypatch):
    _python(monkeypatch)
    assert loss_and_slopes("log", np.array([-800.0]), 1.0)[0] == 800.0
    assert loss_and_slopes("multinomial", np.array([900.0, -900.0]), 1.0)[0] == 1800.0


def test_one_against_the_rest_is_a_loss_an_output(monkeypatch):
    _python(monkeypatch)
    scores = np.array([0.3, -0.2, 1.4])
    loss, slopes = loss_and_slopes("hinge", scores, 2.0)
    each = [loss_and_slopes("hinge", scores[c : c + 1], y) for c, y in enumerate((-1, -1, 1))]
    assert loss == pytest.approx(sum(one[0] for one in each))
    np.testing.assert_array_equal(slopes, np.concatenate([one[1] for one in each]))


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize(("n_ranks", "n_targets"), [(1, 4), (5, 2)])
def test_each_of_several_targets_is_learnt_as_alone(n_ranks, loss, optimizer, l1_ratio, n_targets):
    X, y = samples(n=30, n_features=8)
    Y = np.random.default_rng(3).normal(size=(30, n_targets)) + 2 * y[:, None]
    made = {**LOCAL, "optimizer": optimizer, "average": "auto", "alpha": 0.01, "max_iter": 2}
    made |= {"l1_ratio": l1_ratio, "n_ranks": n_ranks, "batch_size": 4, "loss": loss}
    together = LinearRegression(**made).fit(X, Y, eval_set=(X, Y))
    alone = [LinearRegression(**made).fit(X, own, eval_set=(X, own)) for own in Y.T]
    for name in ("coef_", "intercept_"):
        found = np.atleast_1d(getattr(together, name))
        wanted = np.concatenate([np.atleast_1d(getattr(each, name)) for each in alone])
        np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-11, atol=1e-15)
    for name in ("loss", "validation_loss"):
        total = sum(each.history_[name] for each in alone)
        np.testing.assert_allclose(together.history_[name], total)
    np.testing.assert_allclose(
        together.predict(X).reshape(30, -1), np.stack([each.predict(X) for each in alone], axis=1)
    )


# -- who takes which sample when ---


@given(st.integers(1, 60), st.integers(0, 9), st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]))
def test_every_step_takes_the_same_samples_however_many_ranks(n, seed, shape):
    def steps(n_ranks: int, batch: int) -> list[set[int]]:
        members = members_of_ranks(n, n_ranks, batch, seed)
        found: dict[int, set[int]] = {}
        for rank, own in enumerate(members):
            X = scipy.sparse.csr_array((len(own), 1))
            rows = rank_rows(rank, X, np.zeros(len(own)), np.ones(len(own)))
            order = order_of_epoch(rows, batch, seed_of_epoch(seed, 3), True)
            assert sorted(order) == list(range(len(own)))
            for place, row in enumerate(order):
                found.setdefault(place // batch, set()).add(int(own[row]))
        return [found[step] for step in sorted(found)]

    taken = steps(*shape)
    assert taken == steps(1, 6)
    assert set().union(*taken) == set(range(n))


def test_epochs_are_shuffled_anew_and_not_at_all_where_asked():
    X = scipy.sparse.csr_array((30, 1))
    rows = rank_rows(0, X, np.zeros(30), np.ones(30))
    orders = [order_of_epoch(rows, 2, seed_of_epoch(0, epoch), True) for epoch in (1, 2)]
    assert not np.array_equal(*orders)
    assert np.array_equal(order_of_epoch(rows, 2, 5, False), np.arange(30))
    assert np.array_equal(members_of_ranks(10, 2, 2, None)[1], [2, 3, 6, 7])


# -- against a twin that is dense and serial ---


def twin(
    X: np.ndarray, y: np.ndarray, batch: int, n_epochs: int, *, l1: float, l2: float,
    stale: bool = False, rate: float = 0.1,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Logistic regression by whole vectors, samples in their order."""
    w, b, waiting = np.zeros(X.shape[1]), 0.0, None
    for _ in range(n_epochs):
        for begin in range(0, len(y) + batch * stale, batch):
            own, target = X[begin : begin + batch], 2.0 * y[begin : begin + batch] - 1
            gradient = None
            if len(own):
                slope = -target / (1 + np.exp(target * (own @ w + b))) / len(own)
                gradient = own.T @ slope, slope.sum()
            now, waiting = (waiting, gradient) if stale else (gradient, None)
            if now is None:
                continue
            w = w - rate * now[0]
            w = np.sign(w) * np.maximum(np.abs(w) - rate * l1, 0) / (1 + rate * l2)
            b -= rate * now[1]
        waiting = None
    return w, b


@pytest.mark.parametrize("l1_ratio", [0.4, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_lasso_and_elastic_net_by_steps_over_all_samples_are_scikit_learns(l1_ratio, weighted):
    random = np.random.default_rng(2)
    X = random.normal(size=(80, 12))
    y, weights = X @ np.arange(12.0) + random.normal(size=80), random.random(80)
    weights = weights if weighted else None
    expected = ElasticNet(0.3, l1_ratio=l1_ratio, tol=1e-12).fit(X, y, weights)
    options = {"alpha": 0.3, "l1_ratio": l1_ratio, "batch_size": 40, "n_ranks": 2, "max_iter": 300}
    rate = {"learning_rate": "constant", "eta0": 0.3}
    model = LinearRegression(**options, **rate, **LOCAL).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)
    assert model.intercept_ == pytest.approx(expected.intercept_)
    np.testing.assert_array_equal(model.coef_ == 0, expected.coef_ == 0)


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_weights_that_shrink_below_all_bounds_are_folded(n_ranks):
    X, y = samples()
    model = LogisticRegression(
        C=1e-4, n_ranks=n_ranks, batch_size=6 // n_ranks, max_iter=2, shuffle=False,
        learning_rate="constant", eta0=0.1, **LOCAL,
    ).fit(X, y)  # fmt: skip
    strength = 1 / (1e-4 * len(y))
    w, _ = twin(X.toarray(), y, 6, 2, l1=0.0, l2=strength)
    np.testing.assert_allclose(model.coef_[0], w, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_the_mean_of_the_weights_at_the_ends_of_epochs(n_ranks, optimizer):
    X, y = samples()
    options = LOCAL | {"optimizer": optimizer, "learning_rate": "constant", "eta0": 0.1}
    options |= {"n_ranks": n_ranks, "batch_size": 6 // n_ranks}
    mean = np.zeros(X.shape[1] + 1)
    for epoch in (1, 2, 3, 4):
        end = LogisticRegression(max_iter=epoch, **options).fit(X, y)
        mean += 4 / (epoch + 3) * (np.append(end.coef_, end.intercept_) - mean)
    model = LogisticRegression(max_iter=4, **options | {"average": True}).fit(X, y)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), mean, atol=1e-13)


def adagrad_twin(
    X: np.ndarray, y: np.ndarray, batch: int, n_epochs: int, *, l1: float, l2: float, rate: float
) -> tuple[np.ndarray, float]:
    """Logistic regression: the penalty of a weight waits until it has a gradient, or is read."""
    n = X.shape[1]
    w, squares, pending = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n)

    def current() -> np.ndarray:
        size = pending / (np.sqrt(squares[:-1]) + 1e-10)
        soft = np.sign(w[:-1]) * np.maximum(np.abs(w[:-1]) - l1 * size, 0)
        return np.append(soft / (1 + l2 * size), w[-1])

    for _ in range(n_epochs):
        for begin in range(0, len(y), batch):
            own, target = X[begin : begin + batch], 2.0 * y[begin : begin + batch] - 1
            own = np.column_stack([own, np.ones(len(own))])
            gradient = own.T @ (-target / (1 + np.exp(target * (own @ current()))) / len(own))
            moves = gradient != 0
            w[moves] = current()[moves]
            pending[moves[:-1]] = 0
            squares += gradient**2
            w[moves] -= (rate * gradient / (np.sqrt(squares) + 1e-10))[moves]
            pending += rate
        w, pending = current(), np.zeros(n)
    return w[:-1], w[-1]


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("serial", "options", "close"),
    [
        (twin, {"optimizer": "sgd", "learning_rate": "constant"}, 1e-13),
        (adagrad_twin, {"optimizer": "auto"}, 1e-12),
    ],
)
def test_lazy_penalties_are_those_of_whole_vectors(serial, options, close, n_ranks, l1_ratio):
    X, y = samples()
    model = LogisticRegression(
        C=0.5, l1_ratio=l1_ratio, n_ranks=n_ranks, batch_size=6 // n_ranks, max_iter=4,
        shuffle=False, eta0=0.1, **LOCAL | options,
    ).fit(X, y)  # fmt: skip
    strength = 1 / (0.5 * len(y))
    penalty = {"l1": strength * l1_ratio, "l2": strength * (1 - l1_ratio)}
    w, b = serial(X.toarray(), y, 6, 4, rate=0.1, **penalty)
    np.testing.assert_allclose(model.coef_[0], w, atol=close)
    np.testing.assert_allclose(model.intercept_, b, atol=close)
    if l1_ratio == 1:
        assert 0 < np.count_nonzero(w) < len(w)
        np.testing.assert_array_equal(model.coef_[0] == 0, w == 0)


def test_counts_of_words_need_no_scaling():
    """Frequent words first, counted raw: a rate that they bear is too small for all others."""
    random = np.random.default_rng(0)
    n, n_words = 2000, 500
    counts = random.poisson(60.0 / (1 + np.arange(n_words)) ** 0.9, (n, n_words)).astype(float)
    scores = counts @ (random.normal(size=n_words) / np.sqrt(1 + counts.var(axis=0)))
    scores += scores.std() * random.normal(size=n)
    X, y = scipy.sparse.csr_array(counts), scores > np.median(scores)

    def loss(model: Any) -> float:
        margins = np.where(y, 1, -1) * model.decision_function(X)
        return np.logaddexp(0, -margins).mean() + 0.5 * (model.coef_**2).sum() / n

    optimum = loss(LogisticRegression(max_iter=1000, tol=0, transport="local").fit(X, y))
    common = {"solver": "sgd", "transport": "local", "tol": 0, "batch_size": 16, "max_iter": 30}
    assert optimum <= loss(LogisticRegression(**common).fit(X, y)) < 1.1 * optimum
    assert loss(LogisticRegression(optimizer="sgd", **common).fit(X, y)) > 1.3 * optimum


def test_overlapped_sums_are_stale_by_one_step():
    X, y = samples()
    model = LogisticRegression(
        n_ranks=2, batch_size=3, max_iter=2, shuffle=False, overlap=True,
        learning_rate="constant", eta0=0.1, **LOCAL,
    ).fit(X, y)  # fmt: skip
    w, b = twin(X.toarray(), y, 6, 2, l1=0.0, l2=1 / len(y), stale=True)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-13)
    np.testing.assert_allclose(model.intercept_, b, atol=1e-13)


@pytest.mark.parametrize("optimizer", ["momentum", "adagrad", "adam"])
def test_optimisers_give_the_same_on_any_number_of_ranks(optimizer):
    X, y = samples(n_classes=3)
    fits = [
        LogisticRegression(
            n_ranks=n_ranks, batch_size=6 // n_ranks, max_iter=3, learning_rate="constant",
            eta0=0.05, **LOCAL | {"optimizer": optimizer},
        ).fit(X, y)
        for n_ranks in (1, 3)
    ]  # fmt: skip
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-9)
    assert fits[0].score(X, y) > 0.6


# -- across ranks and sums ---


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("kind", ["log", "multinomial", "ovr", "hinge", "squared", "huber"])
def test_k_ranks_with_batches_of_b_are_one_with_k_times_b(kind, optimizer):
    X, y = samples(97, n_classes=2 if kind in ("log", "hinge") else 3)
    make = {
        "log": LogisticRegression,
        "multinomial": LogisticRegression,
        "ovr": lambda **more: LogisticRegression(multi_class="ovr", **more),
        "hinge": lambda **more: LinearSVC(loss="hinge", **more),
        "squared": lambda **more: LinearRegression(alpha=0.01, **more),
        "huber": lambda **more: LinearRegression("huber", alpha=0.01, epsilon=0.5, **more),
    }[kind]
    weights, common = np.random.default_rng(3).random(97), LOCAL | {"optimizer": optimizer}
    fits = [
        make(n_ranks=n_ranks, batch_size=24 // n_ranks, max_iter=4, **common).fit(X, y, weights)
        for n_ranks in (1, 2, 3, 4, 8)
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-10)
        np.testing.assert_allclose(fit.history_.loss, fits[0].history_.loss, atol=1e-10)


def bits_of(model: Any) -> bytes:
    return model.state_.weights.tobytes()


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_sparse_sums_give_the_bits_of_dense_ones(n_ranks, l1_ratio, optimizer):
    X, y = samples(n_classes=3)
    common = {"n_ranks": n_ranks, "batch_size": 4, "max_iter": 2, "l1_ratio": l1_ratio, **LOCAL}
    common["optimizer"] = optimizer
    dense = LogisticRegression(aggregation="dense", **common).fit(X, y)
    for aggregation in ("auto", *same_order(n_ranks)):
        sparse = LogisticRegression(aggregation=aggregation, **common).fit(X, y)
        assert_same_states(sparse, dense)
        assert sparse.history_.density.equals(dense.history_.density)
    for aggregation in ("ssar-recursive-doubling", "dense-ring", "butterfly"):
        other = LogisticRegression(aggregation=aggregation, **common).fit(X, y)
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-12)


@pytest.mark.parametrize("options", [
    {"solver": "lbfgs"},
    {"aggregation": "dense"},
    {"aggregation": "auto", "overlap": True},
    {"aggregation": "auto", "optimizer": "adagrad", "l1_ratio": 0.3},
    {"aggregation": "auto", "top_k": 3, "top_k_approximate": True},
    {"optimizer": "adam", "learning_rate": "constant", "eta0": 0.05},
])  # fmt: skip
def test_ranks_by_themselves_give_the_same_bits(options):
    X, y = samples(n_classes=3)
    make = {"n_ranks": 3, "batch_size": 4, "max_iter": 3, **LOCAL, **options}
    expected = LogisticRegression(**make).fit(X, y)
    model = on_threads(LogisticRegression(**make)).fit(X, y)
    assert_same_states(model, expected)


@pytest.mark.cluster
def test_all_transports_give_the_bits_of_dense_sums_here(client):
    X, y = samples(n_classes=3)
    make = {"n_ranks": 4, "batch_size": 4, "max_iter": 2, "solver": "sgd", "tol": 0, "top_k": 30}
    expected = LogisticRegression(aggregation="dense", transport="local", **make).fit(X, y)
    for transport in ("graph", "dask"):
        model = LogisticRegression(transport=transport, **make).fit(X, y, client=client)
        assert_same_states(model, expected)


# -- TopK ---


@pytest.mark.parametrize("n_ranks", [1, 2, 4])
@pytest.mark.parametrize("approximate", [False, True])
def test_top_k_of_at_least_all_entries_is_plain_sgd_to_the_bit(n_ranks, approximate):
    X, y = samples()
    common = {"n_ranks": n_ranks, "batch_size": 2, "max_iter": 3, "l1_ratio": 0.2, **LOCAL}
    all_sent = LogisticRegression(top_k=41, top_k_approximate=approximate, **common).fit(X, y)
    plain = LogisticRegression(**common).fit(X, y)
    assert bits_of(all_sent) == bits_of(plain)
    assert not all_sent.state_.residual.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["sgd", "adagrad", "momentum", "server"])
@given(
    n_ranks=st.integers(1, 3), batch=st.integers(1, 4), n_classes=st.integers(2, 3),
    approximate=st.booleans(), overlap=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_top_k_of_what_batches_touch_is_plain_sgd_to_the_bit(
    kind, dtype, n_ranks, batch, n_classes, approximate, overlap, seed
):
    """Of more features than that, so that k is smaller than the weights."""
    X, y = samples(40, n_classes=n_classes)
    X = scipy.sparse.csr_array(X.astype(dtype))
    most = n_classes * (1 + batch * int(np.diff(X.indptr).max()))
    X.resize(40, max(40, most))
    on_server = kind == "server"
    common = {
        "solver": "sgd", "transport": "local", "tol": 0, "n_ranks": n_ranks, "batch_size": batch,
        "max_iter": 2, "random_state": seed, "overlap": overlap and not on_server,
        **({"aggregation": "server"} if on_server else {"optimizer": kind}),
    }  # fmt: skip
    all_sent = LogisticRegression(top_k=most, top_k_approximate=approximate, **common).fit(X, y)
    assert most < all_sent.state_.weights.size
    assert bits_of(all_sent) == bits_of(LogisticRegression(**common).fit(X, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adagrad_alone_has_the_bits_of_steps_along_sums(dtype):
    X, y = samples(n_classes=3)
    common = {"n_ranks": 1, "batch_size": 7, "max_iter": 3, **LOCAL, "optimizer": "adagrad"}
    alone = LogisticRegression(**common).fit(X.astype(dtype), y)
    by_sums = LogisticRegression(top_k=10**6, **common).fit(X.astype(dtype), y)
    assert bits_of(alone) == bits_of(by_sums)


def test_what_top_k_leaves_out_is_kept_sent_later_and_learns():
    X, y = samples(300)
    common = {"n_ranks": 3, "batch_size": 10, "max_iter": 30, **LOCAL}
    plain = LogisticRegression(**common).fit(X, y)
    for more in ({"top_k": 4}, {"top_k": 4, "top_k_approximate": True},
                 {"top_k": 1, "top_k_bucket": 10}):  # fmt: skip
        model = LogisticRegression(**more, **common).fit(X, y)
        assert model.state_.residual.any()
        assert model.history_.density.iloc[-1] < plain.history_.density.iloc[-1]
        assert model.history_.bytes.iloc[-1] < plain.history_.bytes.iloc[-1]
        assert model.score(X, y) > plain.score(X, y) - 0.05


def test_sparse_sums_move_fewer_bytes_where_features_are_many():
    X, y = samples(200, 20_000)
    X = scipy.sparse.csr_matrix(X.multiply(scipy.sparse.random(200, 20_000, 0.02) != 0))
    common = {"n_ranks": 4, "batch_size": 5, "max_iter": 1, **LOCAL}
    sent = {
        name: LogisticRegression(aggregation=name, **common).fit(X, y).history_.bytes.iloc[0]
        for name in ("auto", "dense")
    }
    assert 3 * sent["auto"] < sent["dense"]


@pytest.mark.parametrize("solver", ["sgd", "server"])
def test_the_history_has_what_each_epoch_sent_however_many_went_together(solver, monkeypatch):
    X, y = samples(300)
    common = {"transport": "local", "solver": solver, "tol": 0, "max_iter": 6, "n_ranks": 3}
    if solver == "sgd":
        common |= {"batch_size": 10, "top_k": 4, "aggregation": "auto"}
    sent = []
    for length in (1, 4):
        monkeypatch.setattr(Trainer, "_length", lambda *_, length=length: length)
        model = LogisticRegression(**common).fit(X, y)
        sent.append(model.history_[["volume", "messages", "bytes"]])
        assert sent[-1].bytes.sum() == 6 * model.comm_report_.measured_bytes
    assert sent[0].equals(sent[1])
    assert solver == "server" or sent[0].bytes.nunique() > 1


# -- schedules ---


def test_schedules():
    assert schedule_of("constant", 0.3).rates(5, 2, 9).tolist() == [0.3, 0.3]
    np.testing.assert_allclose(schedule_of("invscaling", 2.0, power=1).rates(4, 2, 1), [0.5, 0.4])
    np.testing.assert_allclose(schedule_of("invscaling", 2.0).rates(4, 1, 1), [1.0])
    step = schedule_of("step", 1.0)
    assert [float(step.rates(1, 1, epoch)[0]) for epoch in (1, 10, 11, 21)] == [1, 1, 0.5, 0.25]
    optimal = schedule_of("optimal", 0.0, strength=0.01)
    rates = optimal.rates(1, 3, 1)
    np.testing.assert_allclose(1 / rates[1:] - 1 / rates[:-1], 0.01)
    assert rates[0] == pytest.approx(np.sqrt(1 / np.sqrt(0.01)))
    np.testing.assert_array_equal(optimal.rates(2, 2, 1), rates[1:])


def test_resumed_steps_count_on(tmp_path):
    path = tmp_path / "run.npz"
    make = {"n_ranks": 2, "batch_size": 3, "top_k": 3, **LOCAL, "average": True}
    _resumes_with_the_same_bits(path, make | {"tol": 1e-300})  # a loss at the mean goes along
    _resumes_with_the_same_bits(tmp_path / "adagrad.npz", make | {
        "optimizer": "adagrad", "average": False,
    })  # fmt: skip


def _resumes_with_the_same_bits(path: Any, make: dict[str, Any]) -> None:
    X, y = samples()
    whole = LogisticRegression(max_iter=5, **make).fit(X, y)
    LogisticRegression(max_iter=2, checkpoint_path=path, **make).fit(X, y)
    resumed = LogisticRegression(max_iter=5, checkpoint_path=path, resume=True, **make).fit(X, y)
    assert whole.state_.residual.any() and resumed.state_.steps == 5 * 15
    kept = {"history", "settings"}
    for name in type(whole.state_).__dataclass_fields__.keys() - kept:
        mine, theirs = getattr(whole.state_, name), getattr(resumed.state_, name)
        mine, theirs = (x if isinstance(x, dict) else {name: x} for x in (mine, theirs))
        assert mine.keys() == theirs.keys()
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)
    assert same_bits(whole.state_.copy(), whole.state_)


@pytest.mark.parametrize("weightless", [True, False])
def test_the_loss_at_the_mean_is_of_all_ranks_also_of_those_without_weight(weightless):
    """A rank whose rows weigh nothing, or that has none, has its share of the penalty."""
    X, y = samples(n=8)
    weight = np.repeat([1.0, 0.0], 4)
    n, n_ranks = (8, 2) if weightless else (4, 3)
    model = LogisticRegression(
        n_ranks=n_ranks, batch_size=4 if weightless else 2, shuffle=False, max_iter=3, C=0.5,
        **LOCAL | {"average": True, "tol": 1e-300},
    ).fit(X[:n], y[:n], weight[:n])  # fmt: skip
    scores = np.where(y[:4] > 0, 1, -1) * (X[:4] @ model.coef_[0] + model.intercept_)
    wanted = np.log1p(np.exp(-scores)).mean() + 0.5 / (0.5 * 4) * (model.coef_**2).sum()
    assert model.state_.loss == pytest.approx(wanted, rel=1e-12)
    never_asked = model.set_params(tol=0).fit(X[:n], y[:n], weight[:n])
    assert np.isnan(never_asked.state_.loss) and never_asked.history_["change"].isna().all()


@pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
def test_the_mean_is_of_the_epochs_of_one_fit(optimizer):
    """Weights that learnt the opposite for long would outweigh what a warm start learns."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 10))
    y = X @ random.normal(size=10) > 0
    model = LogisticRegression(
        solver="sgd", optimizer=optimizer, max_iter=30, tol=0, warm_start=True, transport="local",
        n_ranks=2, random_state=0,
    ).fit(X, y)  # fmt: skip
    first = model.set_params(max_iter=1).fit(X, ~y).state_
    assert first.mean == pytest.approx(first.weights)
    model.fit(X, ~y)  # goes on with the same fit, and its mean
    assert model.state_.mean == pytest.approx(0.2 * first.mean + 0.8 * model.state_.weights)
    more = clone(model).fit(X, y)
    before = more.state_
    more.partial_fit(X, ~y)  # a batch of the same
    assert more.state_.mean == pytest.approx(0.2 * before.mean + 0.8 * more.state_.weights)


@pytest.mark.parametrize("kind", ["rows", "server"])
@pytest.mark.parametrize("n_ranks", [1, 2])
def test_samples_of_the_smaller_batch_count_as_all_others(n_ranks, kind):
    """Epochs end with 44 of 300 samples, always of the same places: these had more weight."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    y = X[:, 0] + random.normal(size=300) > 0
    options = LOCAL | {"C": 0.1, "n_ranks": n_ranks, "tol": 0, "max_iter": 100}
    options |= {"aggregation": "server"} if kind == "server" else {"optimizer": "sgd"}
    best = LogisticRegression(C=0.1, tol=1e-10, n_ranks=1, transport="local").fit(X, y)
    found = LogisticRegression(**options | {"solver": "sgd", "batch_size": 128 // n_ranks})
    found.fit(X, y)
    np.testing.assert_allclose(found.coef_, best.coef_, atol=3e-3)
    np.testing.assert_allclose(found.intercept_, best.intercept_, atol=3e-3)
