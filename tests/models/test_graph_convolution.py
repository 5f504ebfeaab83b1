"""Graph convolution: exact gradients, the same training on any ranks, and every bad input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse

import daskpart
from daskpart.collectives import communicator_for
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.graph_convolution import passes
from daskpart.models.graph_convolution.layers import LAYERS, Layer
from daskpart.models.graph_convolution.layers.dense import Dense
from daskpart.models.graph_convolution.passes import RankModel, backward, forward
from daskpart.models.graph_convolution.plan import plan_fit
from daskpart.models.graph_convolution.rows import Dropout, SparseRows
from daskpart.models.graph_convolution.text import laid_out

N = 40


def graph(directed: bool = False, seed: int = 0):
    """A small graph with weights, some vertices of which are alone."""
    found = scipy.sparse.random_array((N, N), density=0.08, rng=np.random.default_rng(seed)).tolil()
    found[3], found[:, 3] = 0, 0
    found = found.tocsr()
    return found if directed else scipy.sparse.csr_array(found + found.T)


def features(kind: str = "dense"):
    random = np.random.default_rng(1)
    X = random.normal(size=(N, 6))
    if kind == "none":
        return None
    return scipy.sparse.csr_array(X * (random.random(X.shape) < 0.3)) if kind == "sparse" else X


def labels(kind: str = "classes"):
    random = np.random.default_rng(2)
    unknown = random.random(N) < 0.3
    if kind == "numbers":
        return np.where(unknown, np.nan, random.normal(size=N))
    if kind == "several":
        return np.where(unknown[:, None], np.nan, random.random((N, 3)) < 0.4)
    return np.where(unknown, -1, random.integers(0, 3, N))


def model(layer: str = "gcn", loss: str = "classes", **options):
    kind = daskpart.GCNRegressor if loss == "numbers" else daskpart.GCNClassifier
    if layer == "gat":
        options = {
            "hidden": (6,),
            "layer_options": {"heads": 2, "output_heads": 2, "attention_dropout": 0.2},
        } | options
    if layer == "appnp":
        options = {"layer_options": {"hops": 3}} | options
    chosen = {"hidden": (5,), "dtype": "float64", "n_ranks": 3, "transport": "local",
              "partitioner": "random", "max_iter": 4, "dropout": 0.3}  # fmt: skip
    return kind(layer=layer, **(chosen | options))


def weights_of(fitted) -> np.ndarray:
    return np.concatenate([weight.ravel() for weight in fitted.coefs_.values()])


# -- gradients ---


def check_gradient(estimator, X, y, A, n_ranks):
    problem = estimator._problem(X, y, {"graph": A}, 0)
    network = estimator._network(problem, 0)
    plan = plan_fit(problem, network, n_ranks, partitioner="random", random_state=0)
    comm = communicator_for("local", n_ranks)
    prepared, data = laid_out(comm, plan, problem)
    check_passes(comm, data, prepared, network)


def check_passes(comm, data, prepared, network):
    """Along directions that move every weight at once, each by another amount."""
    random, step = np.random.default_rng(5), 1e-6
    first = [weight + 0.1 * random.normal(size=weight.shape)
             for weight in network.first_weights().values()]  # fmt: skip
    ends = np.cumsum([weight.size for weight in first])[:-1]

    def loss_and_gradient(flat):
        pieces = zip(np.split(flat, ends), first, strict=True)
        weights = [piece.reshape(weight.shape) for piece, weight in pieces]
        held = comm.values([RankModel(weights, {})] * comm.n_ranks)
        done = forward(comm, data, prepared[0], held, network=network, epoch=1)
        back = backward(comm, data, prepared[1], held, done, network=network, epoch=1)
        total = np.sum(comm.gather(back), axis=0)
        return total[-2] / network.n_terms, total[:-2]

    at = np.concatenate([weight.ravel() for weight in first])
    gradient = loss_and_gradient(at)[1]
    assert gradient.any()
    for direction in random.normal(size=(6, at.size)):
        after, before = (loss_and_gradient(at + sign * step * direction)[0] for sign in (1, -1))
        difference = (after - before) / (2 * step)
        assert gradient @ direction == pytest.approx(difference, rel=2e-5, abs=2e-8)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_of_every_layer(layer, directed, n_ranks):
    """Against finite differences, with every loss; narrowing, widening, features of all kinds."""
    cases = [
        ("dense", (4, 7), "kept", "classes"), ("sparse", (2,), "each", "classes"),
        ("none", (3,), "auto", "classes"), ("dense", (3,), "each", "several"),
        ("dense", (3,), "auto", "numbers"),
    ]  # fmt: skip
    for kind, hidden, first, loss in cases:
        first = first if LAYERS[layer].can_keep else "auto"
        if layer == "gat":
            hidden = tuple(2 * width for width in hidden)
        estimator = model(layer, loss, hidden=hidden, activation="tanh", first_product=first)
        check_gradient(estimator, features(kind), labels(loss), graph(directed), n_ranks)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("loss", ["classes", "several", "numbers"])
@pytest.mark.parametrize("activation", ["relu", "elu", "logistic", "identity"])
def test_gradients_of_every_loss_and_activation(loss, activation, n_ranks):
    estimator = model(loss=loss, activation=activation)
    check_gradient(estimator, features(), labels(loss), graph(), n_ranks)


# -- the same training on any ranks ---


@pytest.mark.parametrize(("kind", "directed"), [("dense", True), ("sparse", False)])
@pytest.mark.parametrize("layer", LAYERS)
def test_any_number_of_ranks_trains_the_same(layer, kind, directed):
    given = features(kind), labels()
    one, *others = (
        model(layer, n_ranks=n_ranks).fit(*given, graph=graph(directed))
        for n_ranks in (1, 2, 3, 4, 5, 8)
    )
    for many in others:
        np.testing.assert_allclose(weights_of(many), weights_of(one), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            many.predict_proba(given[0]), one.predict_proba(given[0]), rtol=1e-9
        )
        assert many.comm_report_.matches
        assert (many.history_["volume"] == many.plan_report_.volume).all()


@pytest.mark.filterwarnings("ignore::daskpart.errors.BalanceWarning")  # so small a graph
@pytest.mark.parametrize("partitioner", ["connectivity", "metis", "random", "block"])
def test_any_partition_trains_the_same(partitioner):
    expected = model(n_ranks=1).fit(features(), labels(), graph=graph())
    found = model(partitioner=partitioner).fit(features(), labels(), graph=graph())
    np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9, atol=1e-12)
    again = model(partitioner=found.partition_).fit(features(), labels(), graph=graph())
    assert weights_of(again).tobytes() == weights_of(found).tobytes()
    by_hand = model(partitioner=found.partition_.assignment)
    assert weights_of(by_hand.fit(features(), labels(), graph=graph())).tobytes() == (
        weights_of(found).tobytes()
    )


def dense_gcn(A, X, y, epochs, rate, hidden, power=0.0, kept=False):
    """A twin: two layers of dense matrices, plain gradient descent, in a few lines."""
    moves = {"learning_rate": "invscaling", "power_t": power} if power else {}
    seed, decays = 3, (0.3, 0.1)
    chosen = {"n_ranks": 1, "hidden": hidden, "first_product": "kept" if kept else "each"}
    fitted = model(**chosen, weight_decay=decays, optimizer="sgd", **moves, random_state=seed,
                   initial_learning_rate=rate, max_iter=epochs).fit(X, y, graph=A)  # fmt: skip
    start = model(**chosen)
    start = start._network(start._problem(X, y, {"graph": A}, seed), seed).first_weights()
    W1, b1, W2, b2 = (weight.copy() for weight in start.values())
    loops = A.toarray() + np.diag(A.diagonal() == 0)  # a loop that is there keeps its weight
    root = 1 / np.sqrt(loops.sum(axis=1))
    hat = root[:, None] * loops * root
    known = np.flatnonzero(y >= 0)
    one_hot, losses = np.eye(3)[y[known]], []
    for epoch in range(epochs):
        of_features, of_hidden = (
            partial(Dropout(0.3, seed, epoch + 1, layer), ids=np.arange(N)) for layer in (0, 1)
        )
        first = of_features(hat @ X) if kept else hat @ of_features(X)
        Z1 = first @ W1 + b1
        H1 = of_hidden(np.maximum(Z1, 0))
        Z2 = hat @ H1 @ W2 + b2
        P = np.exp(Z2[known] - Z2[known].max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        losses.append(-np.log(P[one_hot == 1]).mean())
        G2 = np.zeros_like(Z2)
        G2[known] = (P - one_hot) / len(known)
        S = hat.T @ G2
        G1 = of_hidden(S @ W2.T) * (Z1 > 0)
        steps = first.T @ G1, G1.sum(axis=0), H1.T @ S, G2.sum(axis=0)
        decayed = decays[0] * W1, 0, decays[1] * W2, 0
        for weight, gradient, more in zip((W1, b1, W2, b2), steps, decayed, strict=True):
            weight -= rate / (1 + epoch) ** power * (gradient + more)
    return fitted, np.concatenate([each.ravel() for each in (W1, b1, W2, b2)]), losses


@pytest.mark.parametrize("kept", [False, True], ids=["each", "kept"])
@pytest.mark.parametrize(("directed", "power"), [(False, 0.0), (True, 0.0), (True, 0.5)])
def test_training_is_that_of_dense_matrices(directed, power, kept, monkeypatch):
    """With all that is dropped and decays, and losses of some vertices at a time."""
    monkeypatch.setattr(passes, "LOSS_ROWS", 7)
    data = graph(directed), features(), labels()
    fitted, expected, losses = dense_gcn(*data, 12, 0.5, (5,), power, kept)
    np.testing.assert_allclose(weights_of(fitted), expected, rtol=1e-10)
    np.testing.assert_allclose(fitted.history_["loss"], losses, rtol=1e-10)
    rates = 0.5 / np.arange(1, 13) ** power
    np.testing.assert_allclose(fitted.history_["learning_rate"], rates, rtol=1e-15)


# -- what travels ---


def sharers(A, partition):
    """Σ (λ − 1), counted one vertex at a time."""
    looped = (A + scipy.sparse.eye_array(N)).tocsc()
    parts = partition.assignment
    return sum(
        len(set(parts[looped.indices[looped.indptr[j] : looped.indptr[j + 1]]])) - 1
        for j in range(N)
    )


@pytest.mark.parametrize("directed", [False, True])
def test_volume_is_that_of_equation_11(directed):
    A = graph(directed)
    for first, hidden, n_forward, n_backward in (
        ("each", (6, 6), 3, 2),  # the first layer multiplies by Â first: no gradient comes back
        ("each", (2,), 2, 2),
        ("kept", (2,), 1, 1),
        ("kept", (), 0, 0),
    ):
        fitted = model(hidden=hidden, first_product=first).fit(features(), labels(), graph=A)
        there, back = sharers(A, fitted.partition_), sharers(A.T, fitted.partition_)
        volume = n_forward * there + n_backward * back
        assert fitted.plan_report_.volume == volume
        assert fitted.comm_report_.measured_rows.sum() == volume
        assert fitted.comm_report_.matches
    assert (there != back) == directed


def test_the_narrower_matrix_travels():
    fitted = model(hidden=(2,), first_product="each").fit(features(), labels(), graph=graph())
    report = fitted.plan_report_
    a_row = 8 * (2 + 2)  # H·W of layer 1, two columns wide, H of layer 2, both ways
    assert report.nbytes == 2 * report.rows_of_product * a_row
    assert fitted.comm_report_.measured_bytes == report.nbytes < report.plain_bytes
    assert report.transforms_first == [True, False]


def test_what_plans_save_is_said_in_words_where_it_is_less_than_nothing():
    """Attention sends the outputs of all heads, which are wider here than what comes in."""
    heads = {"heads": 2, "output_heads": 9}
    estimator = model("gat", "numbers", layer_options=heads)
    report = estimator.plan(features(), labels("numbers"), graph=graph()).report()
    assert report.nbytes > report.plain_bytes > 0
    more = report.nbytes / report.plain_bytes - 1
    assert f"{more:.0%} more than H forward and G backward" in report.rows()["bytes an epoch"]


def test_validation_travels_too_and_ends_training():
    held = np.arange(N) % 4 == 0
    fitted = model(patience=3, max_iter=200, initial_learning_rate=0.3)
    fitted.fit(features(), labels(), graph=graph(), validation_mask=held)
    assert fitted.comm_report_.matches and fitted.n_iter_ < 200
    losses = fitted.history_["validation_loss"].to_numpy()
    assert losses.argmin() == len(losses) - 4  # three epochs without a lower one
    score = fitted.score(features(), labels(), mask=held)
    assert score == pytest.approx(fitted.history_["validation_score"].iloc[-4])
    fitted.set_params(monitor="score").fit(
        features(), labels(), graph=graph(), validation_mask=held
    )
    assert fitted.history_["validation_score"].argmax() == fitted.best_iteration_ - 1


@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
@pytest.mark.parametrize("layer", LAYERS)
def test_memory_is_as_planned(layer, kind):
    for more in ({}, {"first_product": "each"}):  # without dropout, of which there is none here
        fitted = model(layer, hidden=(16,), **more).fit(features(kind), labels(), graph=graph())
        held, planned = fitted.comm_report_.memory, fitted.comm_report_.expected_memory
        np.testing.assert_allclose(held, planned, rtol=0.15)


@pytest.mark.parametrize("first_product", ["each", "kept"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_dropout_takes_the_values_of_features_again_and_not_their_places(kind, first_product):
    options = {"hidden": (), "first_product": first_product, "max_iter": 1}
    X = features(kind) @ np.eye(6, 18)  # so wide that X·W travels, and sparse rows stay sparse
    X = scipy.sparse.csr_array(X) if kind == "sparse" else X + 1
    plain, dropped = (
        model(dropout=rate, **options).fit(X, labels(), graph=graph()) for rate in (0.0, 0.5)
    )
    if first_product == "kept":
        X = graph() @ X + X  # of the pattern of Â X
    of_rows = np.count_nonzero(X.toarray() if kind == "sparse" else X, axis=1)
    values = 8 * np.bincount(plain.partition_.assignment, of_rows)
    for name in ("memory", "expected_memory"):
        before, after = (np.array(getattr(each.comm_report_, name)) for each in (plain, dropped))
        np.testing.assert_array_equal(after - before, values)


# -- dropout ---


def test_what_is_dropped_is_drawn_by_vertex():
    rows = np.ones((500, 40))
    whole = Dropout(0.3, seed=1, epoch=2, layer=0)(rows, np.arange(500))
    some = np.array([400, 7, 33])
    np.testing.assert_array_equal(Dropout(0.3, 1, 2, 0)(rows[some], some), whole[some])
    assert set(np.unique(whole)) == {0, 1 / 0.7}
    assert (whole == 0).mean() == pytest.approx(0.3, abs=0.02)
    assert abs(np.corrcoef(whole.T) - np.eye(40)).max() < 0.2
    for other in (Dropout(0.3, 2, 2, 0), Dropout(0.3, 1, 3, 0), Dropout(0.3, 1, 2, 1)):
        assert (other(rows, np.arange(500)) != whole).any()


def test_sparse_rows_lose_what_dense_ones_lose():
    X = scipy.sparse.random_array((50, 20), density=0.3, rng=np.random.default_rng(0), format="csr")
    drop, ids = Dropout(0.5, seed=3, epoch=1), np.arange(50)
    found = drop(SparseRows.of(X), ids)
    again = scipy.sparse.csr_array((found.data, found.indices, found.indptr), shape=X.shape)
    np.testing.assert_allclose(again.toarray(), drop(X.toarray(), ids))


def test_entries_are_dropped_by_both_vertices_and_head_by_head():
    drop, ids = Dropout(0.3, seed=1), np.array([40, 7, 33, 12])  # two rows, all four as columns

    def dropped(n_rows, ids):
        shape = n_rows, len(ids), 3
        indptr, indices = np.arange(n_rows + 1) * len(ids), np.tile(np.arange(len(ids)), n_rows)
        values = np.ones((indices.size, 3))
        return drop.of_entries(indptr, indices.astype(np.int32), values, ids).reshape(shape)

    whole = dropped(60, np.arange(60))
    np.testing.assert_array_equal(dropped(2, ids), whole[np.ix_(ids[:2], ids)])
    assert set(np.unique(whole)) == {0, 1 / 0.7}
    assert (whole == 0).mean() == pytest.approx(0.3, abs=0.02)
    assert abs(np.corrcoef(whole.reshape(-1, 3).T) - np.eye(3)).max() < 0.1
    assert (whole != whole.swapaxes(0, 1)).any()


# -- containers and names ---


def test_every_container_of_a_graph_gives_the_same():
    import dask.array as da
    import pandas as pd
    import xarray

    A = graph()
    coo = A.tocoo()
    frame = pd.DataFrame({"target": coo.col, "weight": coo.data, "source": coo.row})
    array = np.stack([coo.row, coo.col, coo.data], axis=1)
    pydata = sparse.COO.from_scipy_sparse(A)
    given = [A, coo, pydata, da.from_array(pydata, chunks=(20, 20)), frame, array,
             xarray.DataArray(pydata, dims=("reader", "read"))]  # fmt: skip
    X = features()
    expected = model().fit(X, labels(), graph=A).predict_proba(X)
    for each in given:
        found = model().fit(X, labels(), graph=each)
        np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-12)
    others = [sparse.COO.from_numpy(X), da.from_array(X, chunks=7), xarray.DataArray(X),
              pd.DataFrame(X, columns=[*"abcdef"])]  # fmt: skip
    for each in others:
        found = model().fit(each, labels(), graph=A).predict_proba(each)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def test_names_stay_with_predictions():
    names = np.array([f"v{place:02d}" for place in range(N)])
    coo = graph().tocoo()
    edges = pd.DataFrame({"source": names[coo.row], "target": names[coo.col], "w": coo.data})
    X, shuffled = pd.DataFrame(features(), index=names), np.random.default_rng(0).permutation(N)
    X.columns = [*"abcdef"]
    y = pd.Series(labels(), index=names)
    expected = model(n_ranks=1).fit(features(), labels(), graph=graph())
    fitted = model().fit(X, y.iloc[shuffled], graph=edges)
    np.testing.assert_allclose(weights_of(fitted), weights_of(expected), rtol=1e-9, atol=1e-12)
    found = fitted.predict(X.iloc[shuffled])  # in the order of these rows
    assert found.index.tolist() == names[shuffled].tolist()
    np.testing.assert_array_equal(found, expected.predict(features())[shuffled])
    assert fitted.predict(X).index.tolist() == names.tolist()
    assert fitted.transform(X).index.tolist() == names.tolist()
    assert fitted.predict_proba(X).columns.tolist() == [0, 1, 2]


def test_symmetrize_counts_an_edge_both_ways():
    A = graph(directed=True)
    both = scipy.sparse.csr_array(A.maximum(A.T))
    one = model().fit(features(), labels(), graph=both)
    other = model(symmetrize=True).fit(features(), labels(), graph=A)
    assert weights_of(one).tobytes() == weights_of(other).tobytes()


def test_no_graph_is_a_plain_network():
    fitted = model(hidden=()).fit(features(), labels())
    X = features()
    expected = X @ fitted.coefs_["0.weight"] + fitted.coefs_["0.bias"]
    np.testing.assert_array_equal(fitted.predict(X[:7]), expected[:7].argmax(axis=1))
    assert fitted.comm_report_.measured_rows.sum() == 0


def test_labels_of_any_kind():
    names = np.array(["red", "green", None], object)
    y = names[np.arange(N) % 3]
    fitted = model().fit(features(), y, graph=graph())
    assert set(fitted.predict(features())) <= {"red", "green"}
    some = np.where(labels() < 0, np.nan, labels())
    assert model().fit(features(), some, graph=graph()).classes_.tolist() == [0, 1, 2]
    several = model(loss="several").fit(features(), labels("several"), graph=graph())
    assert several.predict(features()).shape == several.predict_proba(features()).shape == (N, 3)
    assert 0 < several.score(features(), labels("several")) < 1
    numbers = model(loss="numbers").fit(features(), labels("numbers"), graph=graph())
    assert numbers.predict(features()).shape == (N,)
    assert numbers.score(features(), labels("numbers")) < 1


@dataclass(frozen=True)
class Residual(Layer):
    """Z = Â H W + b + H: all that a user writes for a layer of his own."""

    reads_inputs: ClassVar[bool] = True

    def leave(self, inputs, total, weights):
        outputs, saved = super().leave(inputs, total, weights)
        return outputs + inputs, saved

    def leave_back(self, inputs, total, saved, gradient, total_back, weights):
        into, more = super().leave_back(inputs, total, saved, gradient, total_back, weights)
        return (None if into is None else into + gradient), more


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_layer_of_a_users_own(n_ranks, tmp_path):
    wide = {"hidden": (3, 3), "layer": Residual}  # as many as features and classes
    X, y = features()[:, :3], labels()
    check_gradient(model(**wide, activation="tanh"), X, y, graph(True), n_ranks)
    one, many = (
        model(**wide, n_ranks=k, max_iter=3).fit(X, y, graph=graph(True)) for k in (1, n_ranks)
    )
    np.testing.assert_allclose(weights_of(many), weights_of(one), rtol=1e-9, atol=1e-12)
    assert many.comm_report_.matches
    with pytest.raises(InputError, match=r"layer=.* cannot be saved"):
        many.save(tmp_path / "model")
    with pytest.raises(InputError, match="layer=Dropout is no layer"):
        model(layer=Dropout).fit(X, y, graph=graph())


def test_layers_before_appnp_are_dense():
    layers = model("appnp", hidden=(4, 3))
    network = layers._network(layers._problem(features(), labels(), {"graph": graph()}, 0), 0)
    assert [type(each) for each in network.layers] == [Dense, Dense, LAYERS["appnp"]]


# -- bad input ---


def with_edge(i, j, weight):
    A = graph().tolil()
    A[i, j] = weight
    return A.tocsr()


BAD = {
    "must be square": {"graph": graph()[:, :-1]},
    "40 vertices, features and labels have 39": {"X": features()[1:], "y": labels()[1:]},
    "differ in length": {"X": features()[1:]},
    "label -3 is out of range": {"y": np.where(labels() == 1, -3, labels())},
    "none of the 40 vertices is labelled": {"y": np.full(N, -1)},
    "class 1 has no labelled vertex": {"validation_mask": labels() == 1},
    "no vertex of validation_mask is labelled": {"validation_mask": labels() == -1},
    "validation_mask names vertices": {"validation_mask": [N]},
    "negative weights": {"graph": with_edge(0, 1, -1.0)},
    "edge weights": {"graph": with_edge(0, 1, np.nan)},
    "contains NaN": {"X": np.where(np.eye(N, 6), np.nan, features())},
    "beyond the graph": {"graph": np.array([[0, 1], [2, 40]])},
    "is a dense array of shape": {"graph": graph().toarray()},
    "cannot read a str as a graph": {"graph": "edges"},
    "X=None needs a graph": {"X": None, "graph": None},
    "y is None": {"y": None},
    "y holds numbers that are not whole": {"y": np.linspace(0, 1, N)},
    "label 2 is out of range: a table": {"y": np.full((N, 2), 2.0)},
    "n_classes": {"options": {"layer_options": {"n_classes": 3}}},
    "patience needs": {"options": {"patience": 3}},
    "not both": {"options": {"validation_fraction": 0.2}, "validation_mask": labels() == 1},
    "cannot be shared by 8 heads": {"options": {"layer": "gat", "layer_options": {}}},
    "give widths from 1": {"options": {"hidden": (4, 0)}},
    "hidden=.True,.: give widths": {"options": {"hidden": (True,)}},
    "weight_decay has 3 numbers": {"options": {"weight_decay": (0.1, 0.2, 0.3)}},
    "weight_decay is -1: give a finite": {"options": {"weight_decay": [-1, 0]}},
    "weight_decay is 'a'": {"options": {"weight_decay": (0, "a")}},
    "there are 40": {"options": {"n_ranks": 41}},
    "is unknown; choose one of": {"options": {"partitioner": "best"}},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    given = {"X": features(), "y": labels(), "graph": graph(), **BAD[message]}
    options = given.pop("options", {})
    with pytest.raises((InputError, ValueError), match=message):
        model(**options).fit(**given)


def test_the_place_of_a_feature_that_is_no_number_is_told():
    broken = features()
    broken[7, 2] = np.inf
    names = [f"v{vertex}" for vertex in range(N)]
    edges = pd.DataFrame({"source": names, "target": names[::-1]})  # in another order than rows
    for X, A in (
        (broken, graph()),
        (scipy.sparse.csr_array(broken), graph()),
        (pd.DataFrame(broken, index=names), edges),
    ):
        where = "in row 'v7', column 2" if A is edges else r"X\[7, 2\]"
        with pytest.raises(InputError, match=f"X contains infinity .*The first is {where}[.]$"):
            model().fit(X, labels(), graph=A)


def test_edges_that_are_there_twice_are_summed_and_said():
    coo = graph().tocoo()
    again = np.stack([coo.row, coo.col, coo.data / 2], axis=1)
    with pytest.warns(DaskpartWarning, match="weights of equal edges are summed"):
        found = model().fit(features(), labels(), graph=np.concatenate([again, again]))
    expected = model().fit(features(), labels(), graph=graph())
    np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-10)


def test_negative_weights_are_borne_where_nothing_is_divided_by_their_sums():
    assert model("gin").fit(features(), labels(), graph=with_edge(0, 1, -1.0)).n_iter_ == 4


def test_another_graph_needs_its_own_features():
    fitted = model().fit(features(), labels(), graph=graph())
    with pytest.raises(InputError, match="give X"):
        fitted.predict()
    with pytest.raises(InputError, match="one row for each vertex"):
        fitted.predict(features()[1:])
    other = fitted.predict(features()[:9], graph=np.array([[0, 1], [1, 0]]))
    assert other.shape == (9,)
    by_identity = model().fit(None, labels(), graph=graph())
    for X in (features(), np.eye(N)):
        with pytest.raises(InputError, match="fitted without features: leave X out"):
            by_identity.predict(X)
    assert by_identity.predict().shape == (N,)
    with pytest.raises(InputError, match="knows no others"):
        by_identity.predict(graph=np.array([[0, 1]]))
    other_way = model().fit(features(), labels(), graph=graph()).fit(None, labels(), graph=graph())
    assert np.array_equal(other_way.predict(), by_identity.predict())
    assert not hasattr(other_way, "n_features_in_")
    with pytest.raises(InputError, match="as many features and classes"):
        fitted.set_params(warm_start=True, hidden=(7,)).fit(features(), labels(), graph=graph())


@pytest.mark.parametrize(("hidden", "width"), [((6, 5), 5), ((), 3)])
def test_embeddings_as_frames(hidden, width):
    fitted = model(hidden=hidden).fit(features(), labels(), graph=graph())
    values = fitted.transform(features())
    frame = fitted.set_output(transform="pandas").transform(features(), graph=graph())
    assert frame.columns.tolist() == [f"embedding{place}" for place in range(width)]
    np.testing.assert_array_equal(frame, values)
    named = pd.DataFrame(features(), index=[f"v{v}" for v in range(N)])
    edges = [(f"v{v}", f"v{(v + 1) % N}") for v in range(N)]
    fitted = model(hidden=hidden).fit(named, labels(), graph=edges)
    plain = fitted.transform(named)  # a frame, as vertices have names
    frame = fitted.set_output(transform="pandas").transform(named)
    assert frame.index.tolist() == named.index.tolist() and frame.columns[0] == "embedding0"
    pd.testing.assert_frame_equal(plain, frame)


def test_a_warm_start_may_change_the_optimiser():
    fitted = model(warm_start=True, optimizer="sgd").fit(features(), labels(), graph=graph())
    for name in ("adam", "momentum", "adam"):
        done = fitted.n_iter_
        fitted.set_params(optimizer=name).fit(features(), labels(), graph=graph())
        assert fitted.n_iter_ > done


def test_nullable_booleans_are_labels():
    import pandas as pd

    unknown = np.arange(N) % 3 == 0
    y = pd.Series(labels() > 0, dtype="boolean").mask(unknown)
    fitted = model().fit(features(), y, graph=graph())
    plain = model().fit(features(), np.where(unknown, -1, labels() > 0), graph=graph())
    assert fitted.classes_.dtype == bool
    same = plain.predict(features()) == 1
    np.testing.assert_array_equal(fitted.predict(features()), same)
