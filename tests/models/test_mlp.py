"""Perceptrons: gradients, ranks, sums by layer, TopK, weights, resume, bad input."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same_states, on_threads
from sklearn import neural_network
from sklearn.datasets import load_digits

import daskpart
from daskpart import MLPClassifier, MLPRegressor
from daskpart.errors import DivergenceError, InputError
from daskpart.models.mlp import sgd
from daskpart.models.mlp.network import Network, layer_gradient
from daskpart.models.networks.activations import ACTIVATIONS
from daskpart.models.networks.losses import SigmoidLoss, SoftmaxLoss, SquaredLoss
from daskpart.models.optimisation.aggregation import same_order

LOCAL: dict[str, Any] = {"transport": "local", "tol": 0, "max_iter": 3}


def samples(n: int = 97, n_features: int = 12, n_classes: int = 3) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = scipy.sparse.random(n, n_features, 0.4, "csr", random_state=random)
    truth = random.normal(size=(n_features, n_classes))
    return X, (X @ truth + 0.1 * random.normal(size=(n, n_classes))).argmax(axis=1)


def classifier(**more: Any) -> MLPClassifier:
    made = {
        "hidden_layer_sizes": (7, 5),
        "optimizer": "sgd",
        "learning_rate_init": 0.2,
        "batch_size": 6,
        "n_ranks": 2,
    }
    return MLPClassifier(**{**made, **LOCAL, **more})


def weights_of(model: Any) -> np.ndarray:
    return np.concatenate([array.ravel() for array in model.state_.weights.values()])


# -- one rank ---


def loss_at(network: Network, vectors: Any, X: Any, targets: Any, weight: Any) -> float:
    return float(network.loss.sums(network.forward(vectors, X)[-1], targets, weight)[0])


def gradients_of(network: Network, vectors: Any, X: Any, targets: Any, weight: Any) -> list[Any]:
    *values, outputs = network.forward(vectors, X)
    slopes, found = network.loss.sums_and_gradient(outputs, targets)[1] * weight[:, None], []
    for place in reversed(range(network.n_layers)):
        found.insert(0, layer_gradient(values[place], slopes).to_numpy())
        if place:
            slopes = network.back(vectors[place], values[place], slopes, place)
    return found


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", [SoftmaxLoss(), SigmoidLoss(), SquaredLoss()])
@pytest.mark.parametrize("sparse", [True, False])
def test_gradients_are_finite_differences(activation, loss, sparse):
    random = np.random.default_rng(1)
    n_outputs = 1 if loss.name == "squared" else 3
    network = Network((6, 5, 4, n_outputs), activation, loss, "float64")
    vectors = [random.normal(size=size) for size in network.sizes()]
    X = scipy.sparse.random_array((9, 6), density=0.4, rng=random).tocsr()
    X = X if sparse else X.toarray()
    targets = {
        "softmax": random.integers(0, 3, 9),
        "sigmoid": random.integers(0, 2, (9, 3)),
        "squared": random.normal(size=(9, 1)),
    }[loss.name]
    weight = random.uniform(0.5, 2, 9)
    found = gradients_of(network, vectors, X, targets, weight)
    for place, vector in enumerate(vectors):
        for at in random.choice(len(vector), min(12, len(vector)), replace=False):
            kept, both = vector[at], []
            for step in (1e-6, -1e-6):
                vector[at] = kept + step
                both.append(loss_at(network, vectors, X, targets, weight))
            vector[at] = kept
            assert found[place][at] == pytest.approx((both[0] - both[1]) / 2e-6, abs=1e-5)


def test_the_gradient_of_sparse_rows_has_entries_of_their_features_only():
    X = scipy.sparse.csr_array(([1.0, 2.0], [700, 5], [0, 1, 2]), shape=(2, 1000))
    slopes = np.array([[1.0, 2.0], [0.0, 3.0]])
    stream = layer_gradient(X, slopes)
    assert stream.n_entries == 2 + 1 + 2  # a row of two, a row of one, the bias
    dense = layer_gradient(X.toarray(), slopes)
    np.testing.assert_array_equal(stream.to_numpy(), dense.to_numpy())


@pytest.mark.parametrize("loss", [SoftmaxLoss(), SigmoidLoss(), SquaredLoss()])
def test_a_weight_of_two_is_a_row_twice(loss):
    random = np.random.default_rng(0)
    outputs, targets = random.normal(size=(5, 3)), random.integers(0, 2, (5, 3))
    targets = targets[:, 0] if loss.name == "softmax" else targets
    twice = [0, 0, 1, 2, 3, 4, 4]
    found = loss.sums(outputs, targets, np.array([2.0, 1, 1, 1, 2]))
    np.testing.assert_allclose(found, loss.sums(outputs[twice], targets[twice]))


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize(("kind", "share"), [("class", 1), ("numbers", 2 / 3), ("several", 1 / 3)])
def test_steps_are_those_of_scikit_learn(kind, share, activation):
    """As the guide says of rates and alpha: of three columns our gradient is a share of theirs."""
    X, y = samples()
    X, weight = X.toarray(), np.random.default_rng(2).random(97)
    targets = {"class": y, "numbers": np.eye(3)[y] - 0.3, "several": np.eye(3, dtype=int)[y]}[kind]
    of_theirs, of_ours = (
        (neural_network.MLPRegressor, MLPRegressor) if kind == "numbers"
        else (neural_network.MLPClassifier, MLPClassifier)
    )  # fmt: skip
    theirs = of_theirs(
        hidden_layer_sizes=(7, 5), alpha=2.0, solver="sgd", momentum=0, learning_rate_init=0.1,
        batch_size=97, shuffle=False, activation=activation,
    )  # fmt: skip
    named = {} if kind == "numbers" else {"classes": [0, 1, 2]}
    theirs.partial_fit(X, targets, **named)
    ours = of_ours(
        (7, 5), alpha=2.0 * share / weight.sum(), optimizer="sgd", learning_rate_init=0.1 / share,
        batch_size=49, n_ranks=2, shuffle=False, activation=activation, **LOCAL,
    ).partial_fit(X, targets, **named)  # fmt: skip
    pairs = zip(theirs.coefs_, theirs.intercepts_, strict=True)
    ours.state_ = replace(ours.state_, weights={
        f"{place}.{name}": array.copy() for place, pair in enumerate(pairs)
        for name, array in zip(("weight", "bias"), pair, strict=True)
    })  # fmt: skip
    for _ in range(3):
        theirs.partial_fit(X, targets, sample_weight=weight)
        ours.partial_fit(X, targets, sample_weight=weight)
    for own, other in ((ours.coefs_, theirs.coefs_), (ours.intercepts_, theirs.intercepts_)):
        for one, another in zip(own, other, strict=True):
            np.testing.assert_allclose(one, another, rtol=1e-9, atol=1e-12)


# -- many ranks ---


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "adam"])
def test_k_ranks_with_batches_of_b_are_one_with_k_times_b(optimizer):
    X, y = samples()
    weights = np.random.default_rng(3).random(97)
    more = {"optimizer": optimizer, "learning_rate_init": 0.02, "alpha": 0.01}
    fits = [
        classifier(n_ranks=n_ranks, batch_size=24 // n_ranks, **more).fit(X, y, weights)
        for n_ranks in (1, 2, 4)
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(weights_of(fit), weights_of(fits[0]), atol=1e-10)
        np.testing.assert_allclose(fit.history_.loss, fits[0].history_.loss, atol=1e-10)


def test_the_regressor_is_that_of_one_rank_too():
    X, y = samples()
    fits = [
        MLPRegressor(6, n_ranks=k, batch_size=24 // k, learning_rate_init=0.01, **LOCAL).fit(
            X, y + 0.5
        )
        for k in (1, 3)
    ]
    np.testing.assert_allclose(weights_of(fits[0]), weights_of(fits[1]), atol=1e-10)


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_sparse_sums_give_the_bits_of_dense_ones(n_ranks):
    X, y = samples()
    dense = classifier(n_ranks=n_ranks, aggregation="dense").fit(X, y)
    for aggregation in ("auto", *same_order(n_ranks)):
        sparse = classifier(n_ranks=n_ranks, aggregation=aggregation).fit(X, y)
        assert_same_states(sparse, dense)


def same_bits_of(one: Any, other: Any) -> bool:
    return weights_of(one).tobytes() == weights_of(other).tobytes()


@pytest.mark.parametrize("options", [
    {"aggregation": "dense"}, {"aggregation": "auto", "optimizer": "adam"},
    {"top_k": 2, "top_k_bucket": 20},
    {"top_k": 2, "top_k_bucket": 20, "top_k_approximate": True},
    {"aggregation": "ssar-recursive-doubling", "top_k": 3},
])  # fmt: skip
def test_ranks_by_themselves_give_the_same_bits(options):
    X, y = samples()
    expected = classifier(n_ranks=4, **options).fit(X, y)
    model = on_threads(classifier(n_ranks=4, **options)).fit(X, y)
    assert_same_states(model, expected)


@pytest.mark.cluster
def test_all_transports_give_the_same_bits(client):
    X, y = samples()
    make = {"n_ranks": 4, "top_k": 2, "top_k_bucket": 20, "max_iter": 2}
    expected = classifier(**make).fit(X, y)
    for transport in ("graph", "dask"):
        model = classifier(**make, transport=transport).fit(X, y, client=client)
        assert_same_states(model, expected)


def test_the_sum_of_a_layer_is_under_way_while_the_layer_before_is_computed(monkeypatch):
    """The order of a step: every sum is posted before the next backward, collected after all."""
    X, y = samples()
    seen: list[str] = []
    backward, move = sgd.backward, sgd.move

    def noted_backward(model: Any, *, layer: int, fit: Any) -> Any:
        seen.append(f"backward {layer}")
        return backward(model, layer=layer, fit=fit)

    def noted_move(model: Any, total: Any, *, layer: int, **more: Any) -> Any:
        seen.append(f"move {layer}")
        return move(model, total, layer=layer, **more)

    class Noted(sgd.Aggregator):  # type: ignore[misc]
        def post(self, comm: Any, gradients: Any, feedback: Any) -> Any:
            seen.append("post")
            return super().post(comm, gradients, feedback)

    model = classifier(n_ranks=1, batch_size=97, max_iter=1)
    monkeypatch.setattr(sgd, "backward", noted_backward)
    monkeypatch.setattr(sgd, "move", noted_move)
    aggregator = model._aggregator(0)
    noted = Noted(aggregator.name, aggregator.compressor)
    monkeypatch.setattr(model, "_aggregators", lambda network, seed: (noted,) * network.n_layers)
    model.fit(X, y)
    expected = ["backward 2", "post", "backward 1", "post", "backward 0", "post"]
    assert seen == [*expected, "move 2", "move 1", "move 0"]


# -- TopK ---


@pytest.mark.parametrize("n_ranks", [1, 2, 4])
@pytest.mark.parametrize("more", [{"top_k_bucket": 8}, {"top_k_bucket": None},
                                  {"top_k_approximate": True}])  # fmt: skip
def test_top_k_of_all_entries_is_plain_sgd_to_the_bit(n_ranks, more):
    X, y = samples()
    plain = classifier(n_ranks=n_ranks).fit(X, y)
    sent = classifier(n_ranks=n_ranks, top_k=more.get("top_k_bucket") or 512, **more).fit(X, y)
    assert same_bits_of(sent, plain) and not sent.state_.residual.any()


def test_two_of_512_reach_the_accuracy_of_plain_sgd_on_digits():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    options = {
        "n_ranks": 4,
        "batch_size": 32,
        "hidden_layer_sizes": (64,),
        "learning_rate_init": 0.5,
        "max_iter": 25,
    }
    plain, sent = (
        classifier(**options, **more).fit(X[:1400], y[:1400]) for more in ({}, {"top_k": 2})
    )
    scores = [model.score(X[1400:], y[1400:]) for model in (plain, sent)]
    assert scores[0] > 0.9 and scores[1] > scores[0] - 0.01
    assert 20 * sent.history_.bytes.mean() < plain.history_.bytes.mean()
    assert sent.state_.residual.any() and sent.state_.residual.dtype == np.float32


def test_sparse_features_move_few_bytes():
    random = np.random.default_rng(0)
    X = scipy.sparse.random(200, 20_000, 0.001, "csr", random_state=random)
    y = random.integers(0, 2, 200)
    sent = {
        name: classifier(aggregation=name, n_ranks=4, max_iter=1).fit(X, y).history_.bytes.iloc[0]
        for name in ("auto", "dense")
    }
    assert 3 * sent["auto"] < sent["dense"]


# -- as a user meets it ---


def test_attributes_are_those_of_scikit_learn():
    X, y = samples()
    model = classifier().fit(X, np.array(["a", "b", "c"])[y])
    assert [each.shape for each in model.coefs_] == [(12, 7), (7, 5), (5, 3)]
    assert [each.shape for each in model.intercepts_] == [(7,), (5,), (3,)]
    assert model.classes_.tolist() == ["a", "b", "c"] and model.n_layers_ == 4
    assert model.n_outputs_ == 3 and model.loss_ == model.history_.loss.iloc[-1]
    H = X.toarray()
    for place, (W, b) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        H = H @ W + b
        H = np.maximum(H, 0) if place < 2 else np.exp(H) / np.exp(H).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), H)
    assert (model.predict(X) == model.classes_[H.argmax(axis=1)]).all()


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_the_history_has_the_last_rate_and_the_density_of_a_sum(n_ranks):
    X = np.random.default_rng(1).normal(size=(97, 12)) * (np.arange(12) % 2)
    rates = {"learning_rate": "invscaling", "power_t": 1.0, "learning_rate_init": 1e-3}
    model = classifier(activation="tanh", alpha=0, n_ranks=n_ranks, **rates).fit(X, samples()[1])
    last = -(-97 // (6 * n_ranks)) * np.arange(1, model.n_iter_ + 1)
    np.testing.assert_allclose(model.history_["learning_rate"], 1e-3 / last)
    size = weights_of(model).size  # six features have no entry, so no sum has one
    np.testing.assert_allclose(model.history_["density"], 1 - 6 * 7 / size)


def test_approximate_topk_draws_for_each_layer_by_itself():
    model = classifier(top_k=2, top_k_approximate=True)
    network = Network((12, 7, 5, 3), "relu", SoftmaxLoss(), "float64")
    drawn = {each.compressor.random_state for each in model._aggregators(network, 4)}
    assert len(drawn) == network.n_layers


def test_it_learns_what_no_line_separates():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (400, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = MLPClassifier(
        20, learning_rate_init=0.02, max_iter=60, n_ranks=2, transport="local", tol=0
    )
    assert model.fit(X, y).score(X, y) > 0.95
    fit = MLPRegressor(
        20, learning_rate_init=0.02, max_iter=60, n_ranks=2, transport="local", tol=0
    )
    assert fit.fit(X, X[:, 0] * X[:, 1]).score(X, X[:, 0] * X[:, 1]) > 0.9


def test_several_targets_are_one_loss(tmp_path):
    import dask.array as da

    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (300, 2))
    Y = np.stack([X[:, 0] * X[:, 1], X.sum(axis=1), -X[:, 0]], axis=1)
    more = {"learning_rate_init": 0.02, "max_iter": 40, "tol": 0, "transport": "local"}
    one, three = (MLPRegressor(20, n_ranks=k, batch_size=60 // k, **more) for k in (1, 3))
    one.fit(X, Y, eval_set=(X, Y))
    three.fit(da.from_array(X, chunks=(70, 2)), da.from_array(Y, chunks=(100, 3)))
    np.testing.assert_allclose(three.fit(X, Y).predict(X), one.predict(X), atol=1e-8)
    assert one.predict(X).shape == (300, 3) and one.n_outputs_ == 3
    assert one.score(X, Y) > 0.9
    mean = np.square(one.predict(X) - Y).mean()
    assert one.history_["validation_loss"].iloc[-1] == pytest.approx(mean)
    still = MLPRegressor(20, learning_rate_init=1e-12, alpha=0, **LOCAL).fit(X, Y)
    mean = np.square(still.predict(X) - Y).mean()
    assert still.history_["loss"].iloc[-1] == pytest.approx(mean)
    lazy = three.predict(da.from_array(X, chunks=(70, 2)))
    assert lazy.shape == (300, 3) and lazy.chunks[0] == (70, 70, 70, 70, 20)
    np.testing.assert_allclose(lazy.compute(), three.predict(X))
    lines = daskpart.LinearRegression(n_ranks=2).fit(da.from_array(X, chunks=(70, 2)), Y)
    lazy = lines.predict(da.from_array(X, chunks=(70, 2)))
    assert lazy.shape == (300, 3)
    np.testing.assert_allclose(lazy.compute(), lines.predict(X))
    with pytest.raises(InputError, match=r"y has shape \(300, 3\), X has 300 samples"):
        daskpart.LogisticRegression(n_ranks=1).fit(da.from_array(X, chunks=(70, 2)), Y > 0)


def test_several_classes_have_a_probability_each(tmp_path):
    import dask.array as da

    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (300, 2))
    Y = np.stack([X[:, 0] * X[:, 1] > 0, X.sum(axis=1) > 0, -X[:, 0] > 0.3], axis=1).astype(int)
    more = {"learning_rate_init": 0.02, "max_iter": 40, "tol": 0, "transport": "local"}
    one, three = (MLPClassifier(20, n_ranks=k, batch_size=60 // k, **more) for k in (1, 3))
    one.fit(X, Y, eval_set=(X, Y))
    three.fit(scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y))
    np.testing.assert_allclose(three.predict_proba(X), one.predict_proba(X), atol=1e-8)
    found, shares = one.predict(X), one.predict_proba(X)
    np.testing.assert_array_equal(found, shares > 0.5)
    assert one.several_ and one.classes_.tolist() == [0, 1, 2]
    assert one.score(X, Y) == (found == Y).all(axis=1).mean() > 0.8
    last = one.history_.iloc[-1]
    loss = -np.where(Y, np.log(shares), np.log1p(-shares)).mean()
    assert last.validation_loss == pytest.approx(loss)
    assert last.validation_score == pytest.approx(one.score(X, Y))
    still = MLPClassifier(20, learning_rate_init=1e-12, alpha=0, **LOCAL).fit(X, Y)
    shares = still.predict_proba(X)
    loss = -np.where(Y, np.log(shares), np.log1p(-shares)).mean()
    assert still.history_.loss.iloc[-1] == pytest.approx(loss)
    assert 0 < still.score(X, Y) < 1
    assert still.history_.score.iloc[-1] == pytest.approx(still.score(X, Y))
    lazy = one.predict(da.from_array(X, chunks=(70, 2)))
    assert lazy.shape == (300, 3) and lazy.dtype == found.dtype
    np.testing.assert_array_equal(lazy.compute(), found)
    one.save(tmp_path / "model")
    np.testing.assert_array_equal(MLPClassifier.load(tmp_path / "model").predict(X), found)


def test_several_classes_go_on_by_partial_fit():
    X, y = samples()
    Y = np.stack([y == 0, y > 0], axis=1).astype(int)
    model = classifier(max_iter=2).partial_fit(X, Y, classes=[0, 1]).partial_fit(X, Y)
    np.testing.assert_array_equal(weights_of(model), weights_of(classifier(max_iter=2).fit(X, Y)))
    with pytest.raises(InputError, match=r"classes are 0 to 1, not \[0, 2\]"):
        classifier().partial_fit(X, Y, classes=[0, 2])
    with pytest.raises(InputError, match=r"y\[\d+, 0\] is 2: a table .*MultiOutputClassifier"):
        classifier().fit(X, np.stack([y, y], axis=1))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("several", [True, False])
def test_one_class_does_not_become_several(how, several):
    X, y = samples()
    table = (np.arange(3) == y[:, None]).astype(int)
    one, other = (table, y) if several else (y, table)
    model = classifier(warm_start=True).fit(X, one)
    before, kind = weights_of(model), "several classes" if several else "one class"
    with pytest.raises(InputError, match=f"the last fit was on {kind} a sample"):
        getattr(model, how)(X, other)
    assert model.several_ is several
    np.testing.assert_array_equal(weights_of(model), before)
    assert getattr(model, how)(X, one).n_iter_ > 3


def test_float32_stays_float32_and_files_are_as_memory(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    X, y = samples()
    assert classifier().fit(X.astype(np.float32), y).coefs_[0].dtype == np.float32
    dump_svmlight_file(X, y, str(tmp_path / "X.libsvm"), zero_based=False)
    file = daskpart.readers.survey(tmp_path / "X.libsvm", labels=(0, 1, 2))
    model = classifier(n_ranks=3).fit(file)
    assert model.score(X, y) > 0.4 and len(model.classes_) == 3
    two = classifier().fit(X, y > 0)
    assert two.predict_proba(X).shape == (97, 2)


def test_dask_collections_are_learnt_from_and_answered_lazily():
    import dask.array as da

    X, y = samples()
    lazy = da.from_array(X.toarray(), chunks=(30, -1))
    model = classifier(patience=2).fit(lazy, y, eval_set=(lazy, y))
    memory = classifier(patience=2).fit(X, y, eval_set=(X, y))
    assert same_bits_of(model, memory)
    np.testing.assert_allclose(
        model.history_.validation_loss, memory.history_.validation_loss, rtol=1e-12
    )
    assert model.history_.validation_score[model.best_iteration_ - 1] == model.score(X, y)
    np.testing.assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(X))
    assert (model.predict(lazy).compute() == model.predict(X)).all()


@pytest.mark.parametrize("approximate", [False, True])
def test_partial_fit_goes_on_with_the_bits_of_a_fit(approximate):
    """Also of what is drawn: it goes by the steps of the fit."""
    X, y = samples()
    options = {"top_k": 2, "top_k_bucket": 20, "top_k_approximate": approximate}
    parts, whole = classifier(**options), classifier(**options)
    for _ in range(3):
        parts.partial_fit(X, y, classes=[0, 1, 2])
    assert_same_states(parts, whole.fit(X, y))
    with pytest.raises(InputError, match="differ from those of the first call"):
        parts.partial_fit(X, y, classes=[0, 1])


# -- what is refused ---


@pytest.mark.parametrize(("make", "words"), [
    (lambda: MLPClassifier(0), "hidden_layer_sizes"),
    (lambda: MLPClassifier((3, 2.5)), "give widths from 1"),
    (lambda: MLPClassifier((True,)), r"hidden_layer_sizes=\(True,\): give widths from 1"),
    (lambda: MLPClassifier(learning_rate="optimal"), "learning_rate"),
    (lambda: MLPClassifier(top_k_approximate=True), "needs top_k"),
    (lambda: MLPClassifier(aggregation="mine"), "aggregation"),
    (lambda: MLPClassifier(alpha=-1), "alpha"),
    (lambda: MLPClassifier(patience=2), "needs eval_set"),
])  # fmt: skip
def test_parameters_that_cannot_be(make, words):
    X, y = samples()
    with pytest.raises(InputError, match=words):
        make().set_params(**LOCAL).fit(X, y)


def test_data_that_cannot_be():
    X, y = samples()
    model = classifier()
    with pytest.raises(InputError, match="one class only"):
        model.fit(X, np.zeros(97))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((97, 2), np.nan), y)
    with pytest.raises(InputError, match=r"sample_weight\[0\] is -1"):
        model.fit(X, y, -np.ones(97))
    model.fit(X, y)
    with pytest.raises(ValueError, match="12 features"):
        model.predict(X[:, :5])
    with pytest.raises(InputError, match="make a network of the weights"):
        model.set_params(warm_start=True, hidden_layer_sizes=3).fit(X, y)


@pytest.mark.parametrize("more", [{}, {"top_k": 2}])
def test_a_fit_that_diverges_keeps_the_last_good_epoch(more):
    X, y = samples()
    model = MLPRegressor(
        5, optimizer="sgd", learning_rate_init=1e3, batch_size=4, n_ranks=2, **LOCAL, **more
    )
    model.set_params(max_iter=30)
    with pytest.raises(DivergenceError, match="Lower learning_rate_init"):
        model.fit(X * 100, y * 1000.0)
    for max_iter in range(1, 8):  # with one batch an epoch the loss tells only in the next one
        model = classifier(learning_rate_init=1e5, batch_size=97, max_iter=max_iter, **more)
        with suppress(DivergenceError):
            model.fit(X.astype(np.float32), y)
        if hasattr(model, "state_"):
            assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("looks", [False, True], ids=["in runs", "epoch by epoch"])
def test_weights_that_had_a_loss_are_kept_where_the_next_diverge(looks, tmp_path):
    """Those of the first epoch have one, however large; the step from there has no end."""
    X, y = samples()
    path = {"checkpoint_path": tmp_path / "run.npz"} if looks else {}
    model = classifier(learning_rate_init=1e10, batch_size=97, max_iter=9, **path)
    with pytest.raises(DivergenceError, match=r"in epoch 2.*after epoch 1 is kept"):
        model.fit(X.astype(np.float32), y)
    assert model.n_iter_ == 1 and np.isfinite(model.predict_proba(X)).all()


def test_more_ranks_than_samples():
    X, y = samples(5)
    assert classifier(n_ranks=7, batch_size=1).fit(X, y).n_iter_ == 3


@pytest.mark.parametrize("tol", [0, 10.0])
def test_each_partial_fit_is_an_epoch_and_other_data_are_trained_on(tol):
    """However little the last epoch, perhaps of other samples, changed."""
    X, y = samples()
    model = classifier(tol=tol)
    for call in range(1, 4):
        assert model.partial_fit(X, y, classes=[0, 1, 2]).n_iter_ == call
    before = weights_of(model)
    model.set_params(warm_start=True).fit(X, 2 - y)
    assert model.n_iter_ > 3 and not np.array_equal(weights_of(model), before)


def test_a_fit_ends_when_the_least_loss_falls_no_more(tmp_path):
    """Not at an epoch that happens to be like the one before; also where it goes on in between."""
    X, y = samples()
    options = {"tol": 0.01, "max_iter": 400}
    whole = classifier(**options).fit(X, y)
    least = np.minimum.accumulate(whole.history_.loss.to_numpy())
    fell = least[:-10] - least[10:]
    assert fell[-1] < 0.01 and (fell[:-1] >= 0.01).all() and len(least) < 400
    assert (np.abs(np.diff(whole.history_.loss)[:-1]) < 0.01).any()

    path = {"checkpoint_path": tmp_path / "run.npz"}
    classifier(**options | path | {"max_iter": len(least) - 4}).fit(X, y)
    resumed = classifier(**options, **path, resume=True).fit(X, y)
    assert resumed.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(weights_of(resumed), weights_of(whole))
    again = classifier(**options | path, resume=True).fit(X, y)
    assert again.n_iter_ == whole.n_iter_
    assert whole.set_params(warm_start=True).fit(X, 2 - y).n_iter_ > len(least) + 10
    assert classifier(**options | {"tol": 0, "max_iter": 40}).fit(X, y).n_iter_ == 40


def test_a_warm_start_may_change_optimiser_ranks_and_topk():
    X, y = samples()
    model = classifier(warm_start=True, top_k=2).fit(X, y)
    rate = {"learning_rate_init": 0.1}
    for other in ({"optimizer": "adam", "top_k": None}, {"n_ranks": 3}, {"top_k": 1, **rate},
                  {"optimizer": "adagrad", "n_ranks": 2}):  # fmt: skip
        done, kept = model.n_iter_, len(model.history_)
        assert model.set_params(**other).fit(X, y).n_iter_ == done + 3 == kept + 3
        assert len(model.state_.residual) == model.n_ranks


def test_an_epoch_that_diverges_in_its_batches_leaves_the_one_before():
    """Its loss is no longer finite, but that of its first batch was."""
    X = np.random.default_rng(0).normal(size=(400, 5))
    model = MLPRegressor(
        20, optimizer="momentum", learning_rate_init=0.05, batch_size=8, n_ranks=1, **LOCAL
    )
    with pytest.raises(DivergenceError, match=r"in epoch 2.*after epoch 1 is kept"):
        model.set_params(max_iter=5, tol=0).fit(X, 3 * X[:, 0])
    assert model.n_iter_ == 1 and np.isfinite(model.predict(X)).all()


def test_a_warm_start_computes_in_the_dtype_of_its_data():
    X, y = samples()
    model = classifier(warm_start=True, top_k=2, optimizer="adam").fit(X.astype(np.float32), y)
    for dtype in ("f8", "f4"):
        model.fit(X.astype(dtype), y)
        arrays = [*model.coefs_, model.state_.residual, *model.state_.slots.values()]
        assert {each.dtype for each in arrays} == {np.dtype(dtype)}
