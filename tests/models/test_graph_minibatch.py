"""Mini-batches: the same whatever the ranks, their gradients, what they move and keep."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from fit_tools import Connected, on_threads
from hypothesis import given
from hypothesis import strategies as st
from test_graph_convolution import N, check_passes, features, graph, labels, model, weights_of

import daskpart
from daskpart import data_models
from daskpart.collectives import communicator_for
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.connectivity import Connectivity
from daskpart.data_models import LayerSampler, NeighbourSampler, VertexSampler
from daskpart.errors import InputError
from daskpart.models.graph_convolution import batch_plan, sampling
from daskpart.models.graph_convolution.batch_memory import foreign_pairs
from daskpart.models.graph_convolution.batch_plan import adjacency_of, seeded
from daskpart.models.graph_convolution.layers import GCN
from daskpart.models.graph_convolution.layers.dense import Dense
from daskpart.models.graph_convolution.minibatch import BatchText, mini_batch

LAYERS = ("gcn", "sage", "gin", "gat")  # of one product each
CASES = [(sampler, layer) for sampler in ("neighbour", "layer") for layer in LAYERS] + [
    ("vertex", layer) for layer in (*LAYERS, "sgc", "appnp")
]


def batched(sampler="neighbour", layer="gcn", size=9, **options):
    if sampler == "neighbour":
        sampler = NeighbourSampler(fanouts=(3, 2))
    return model(layer, batch_size=size, sampler=sampler, **options)


def prepared_text(estimator, X, y, A, n_ranks=None):
    """A text on local ranks, and the problem and plan that it works on."""
    problem = estimator._problem(X, y, {"graph": A}, 0)
    plan = estimator._make_plan(
        problem, n_ranks or estimator.n_ranks, transport="local", random_state=0, kept=None
    )
    comm = communicator_for("local", plan.n_ranks)
    text = BatchText(comm, plan, problem, estimator._optimizer(plan.network), None)
    return text, plan, problem, comm


def drawn(text, plan, comm, number=1, batch=0):
    """The mini-batch as the passes work on it, and its edges."""
    order = comm.map(sampling.order_of_epoch, text.fixed[2], batches=plan.batches, number=number)
    static = {name: text.static[name] for name in ("batches", "exchange")}
    return mini_batch(comm, text.fixed, order, number=number, batch=batch, **static)


# -- one batch whatever the ranks ---


@pytest.mark.parametrize(("sampler", "layer"), CASES)
def test_any_number_of_ranks_trains_the_same(sampler, layer):
    """And moves what the batches' indices ask for, to the row."""
    kind, directed = ("dense", True) if layer in ("gcn", "gat", "appnp") else ("sparse", False)
    one, *others = (
        batched(sampler, layer, n_ranks=n_ranks, max_iter=2, validation_fraction=0.2).fit(
            features(kind), labels(), graph=graph(directed)
        )
        for n_ranks in (1, 2, 3, 4)
    )
    for other in others:
        np.testing.assert_allclose(weights_of(other), weights_of(one), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.history_["loss"], one.history_["loss"], rtol=1e-9)
        measured = other.comm_report_.measured_rows.sum()
        assert measured == other.comm_report_.measured_counts["rows asked for"] > 0


@pytest.mark.parametrize("sampler", sampling.SAMPLERS)
@pytest.mark.parametrize("layer", ["gcn", "gat"])
def test_every_transport_gives_the_same_bits(sampler, layer, monkeypatch):
    def fitted(transport, n_ranks):
        options = {"transport": transport, "n_ranks": n_ranks, "max_iter": 1}
        made = batched(sampler, layer, dtype="float32", **options)
        if transport == "auto":
            made = on_threads(made)
        return made.fit(features(), labels(), graph=graph(True))

    local = fitted("local", 3)
    for transport in ("graph", "auto"):
        other = fitted(transport, 3)
        assert weights_of(other).tobytes() == weights_of(local).tobytes()
        kept = ["loss", "score", "volume", "bytes", "rows asked for"]
        assert other.history_[kept].equals(local.history_[kept])


def test_an_epoch_has_every_seed_once():
    for sampler, n_seeds in (("vertex", N), ("neighbour", (labels() >= 0).sum())):
        text, plan, problem, comm = prepared_text(
            batched(sampler), features(), labels(), graph(), n_ranks=3
        )
        for number in (1, 2):
            order = comm.map(
                sampling.order_of_epoch, text.fixed[2], batches=plan.batches, number=number
            )
            found = [
                [
                    own[each.seeds[each.pointer[b] : each.pointer[b + 1]]]
                    for own, each in zip(text.own, comm.gather(order), strict=True)
                ]
                for b in range(plan.batches.n_batches)
            ]
            sizes = [sum(map(len, of_batch)) for of_batch in found]
            assert sizes[:-1] == [9] * (len(sizes) - 1) and 0 < sizes[-1] <= 9
            every = np.sort(np.concatenate([each for of_batch in found for each in of_batch]))
            assert len(every) == n_seeds
            known = np.arange(N) if sampler == "vertex" else np.flatnonzero(problem.training)
            np.testing.assert_array_equal(every, known)
            orders = [each for of_batch in found for each in of_batch]
        assert not np.array_equal(np.concatenate(orders), known)


@pytest.mark.parametrize("transport", ["local", "graph"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("validation_fraction", [0.0, 0.3])
def test_a_mini_batch_that_is_always_the_same_is_drawn_once(
    layer, validation_fraction, transport, monkeypatch
):
    """The bits are those of drawing it in each epoch; indices do not travel again."""
    y = labels()
    options = {"dropout": 0.3, "validation_fraction": validation_fraction, "max_iter": 3}
    n_seeds = int((y >= 0).sum()) - round(validation_fraction * (y >= 0).sum())
    sampler = NeighbourSampler(fanouts=(N, N))

    def fitted():
        made = model(layer, batch_size=n_seeds, sampler=sampler, transport=transport, **options)
        return made.fit(features(), y, graph=graph(True))

    once = fitted()
    full = model(layer, first_product="each", transport=transport, **options)
    full.fit(features(), y, graph=graph(True))
    with monkeypatch.context() as patched:
        patched.setattr(batch_plan, "draws_all", lambda *given: False)
        each = fitted()
    assert weights_of(once).tobytes() == weights_of(each).tobytes()
    np.testing.assert_allclose(weights_of(once), weights_of(full), rtol=1e-9, atol=1e-12)
    assert once.history_["volume"].tolist() == each.history_["volume"].tolist()
    fewer = each.plan_report_.messages_a_batch - once.plan_report_.messages_a_batch
    assert fewer > 0
    assert (each.history_["messages"] - once.history_["messages"] == fewer).all()
    assert once.plan_report_.volume <= full.plan_report_.volume


def test_mini_batches_are_drawn_once_where_no_layer_leaves_a_neighbour_out():
    y, A = labels(), graph(True)
    most = int(np.diff(A.indptr).max()) + 1  # with the loop that is added
    n_seeds = int((y >= 0).sum())
    for fanouts, size, once in (
        ((most, most), n_seeds, True),
        ((most, most - 2), n_seeds, False),
        ((1, most), n_seeds, False),
        ((most, most), n_seeds - 1, False),
    ):
        sampler = NeighbourSampler(fanouts=fanouts)
        _, plan, *_ = prepared_text(
            model("gcn", batch_size=size, sampler=sampler), features(), y, A
        )
        assert plan.batches.is_always_the_same == once


# -- gradients ---


class DenseFirst(GCN):
    """A layer that looks at no neighbour among those that do."""

    dense = 0

    @classmethod
    def place(cls, place, last, **parameters):
        return Dense(**parameters) if place == cls.dense else cls(**parameters)


class DenseSecond(DenseFirst):
    dense = 1


class DenseThird(DenseFirst):
    dense = 2


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize(
    ("sampler", "layer"),
    [*CASES, *(("neighbour", layer) for layer in (DenseFirst, DenseSecond, DenseThird))],
)
def test_gradients_of_a_mini_batch(sampler, layer, n_ranks):
    more = {} if isinstance(layer, str) else {"hidden": (6, 5), "dropout": 0.3}
    estimator = batched(sampler, layer, activation="tanh", **more)
    text, plan, _, comm = prepared_text(
        estimator, features(), labels(), graph(True), n_ranks=n_ranks
    )
    data, prepared, _ = drawn(text, plan, comm)
    check_passes(comm, data, prepared, plan.network)


def test_a_batch_of_everything_is_a_full_batch():
    """All vertices, or all neighbours: what is sampled is the graph itself."""
    every = {"vertex": N, "neighbour": int((labels() >= 0).sum())}
    options = {"dropout": 0.3, "first_product": "each", "max_iter": 3}
    for layer in LAYERS:
        full = model(layer, **options).fit(features(), labels(), graph=graph(True))
        for sampler, size in every.items():
            chosen = NeighbourSampler(fanouts=(N, N)) if sampler == "neighbour" else sampler
            found = batched(layer=layer, **options).set_params(sampler=chosen, batch_size=size)
            found.fit(features(), labels(), graph=graph(True))
            np.testing.assert_allclose(weights_of(found), weights_of(full), rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(found.history_["loss"], full.history_["loss"], rtol=1e-9)


def test_mini_batches_of_an_epoch_add_up_to_a_full_batch():
    """Of all neighbours: the loss of all, and of small steps as many times the step along it."""
    options = {"optimizer": "sgd", "weight_decay": 0.0, "dropout": 0.0, "max_iter": 1}
    n_batches = -(-int((labels() >= 0).sum()) // 9)
    assert n_batches > 2
    still, whole, cut = (
        make(initial_learning_rate=rate, **options).fit(features(), labels(), graph=graph(True))
        for make, rate in (
            (model, 1e-300),
            (model, n_batches * 1e-7),
            (partial(batched, NeighbourSampler(fanouts=(N, N))), 1e-7),
        )
    )
    assert cut.history_["loss"][0] == pytest.approx(whole.history_["loss"][0], rel=1e-5)
    along, steps = (weights_of(each) - weights_of(still) for each in (whole, cut))
    np.testing.assert_allclose(steps, along, rtol=1e-3, atol=1e-4 * abs(along).max())
    more = cut.set_params(max_iter=4).fit(features(), labels(), graph=graph(True)).history_
    assert more["volume"].nunique() > 1  # what is read together is drawn anew in each epoch


# -- what samplers keep ---


@pytest.mark.parametrize("sampler", ["vertex", NeighbourSampler(fanouts=(2, 2)), "layer"])
def test_entries_are_divided_by_their_probabilities(sampler):
    """Sums of rows, over many mini-batches, are those of the whole graph (GIN sums them)."""
    estimator = model("gin", batch_size=20, sampler=sampler, dropout=0.0)
    text, plan, problem, comm = prepared_text(
        estimator, features(), np.arange(N) % 3, graph(True), n_ranks=1
    )
    whole = problem.operator(plan.network).toarray()
    total, times = np.zeros((N, N)), np.zeros(N)
    for number in range(200):
        data, _, edges = drawn(text, plan, comm, number=number)
        (held,), (top,) = comm.gather(data[-1]), comm.gather(edges[0])
        own, (indptr, indices, values) = held.graph.own, held.graph.forward.local
        of_rows = np.repeat(own[: held.graph.forward.n_rows], np.diff(indptr))
        np.add.at(total, (of_rows, own[indices]), values)
        times[text.own[0][top.targets]] += 1
    found, diagonal = total / times[:, None], np.eye(N, dtype=bool)
    np.testing.assert_allclose(found[diagonal], whole[diagonal], rtol=1e-9)
    assert abs(times - 100).max() < 50
    entries = whole[~diagonal] != 0
    error = (found - whole)[~diagonal][entries] / whole[~diagonal][entries]
    assert abs(error).max() < 2 and abs(error.mean()) < 0.05


def test_a_neighbour_is_of_the_batch_with_the_share_of_the_others():
    """(n − 1) / (b − 1), also of the last mini-batch, here of two: a mean would not tell."""
    n, size = 17, 5
    everyone = scipy.sparse.csr_array(np.ones((n, n)) - np.eye(n))
    estimator = model("gin", batch_size=size, sampler="vertex", dropout=0.0)
    text, plan, _, comm = prepared_text(estimator, np.eye(n), np.arange(n) % 2, everyone, n_ranks=1)
    for batch, n_drawn in enumerate([5, 5, 5, 2]):
        edges = comm.gather(drawn(text, plan, comm, batch=batch)[2][0])[0]
        assert edges.counts.tolist() == [n_drawn - 1] * n_drawn
        np.testing.assert_allclose(edges.values, (n - 1) / (n_drawn - 1), rtol=1e-6)


@pytest.mark.parametrize("sampler", ["vertex", NeighbourSampler(fanouts=(2, 2)), "layer"])
@pytest.mark.parametrize("layer", ["gcn", "sage"])
def test_rows_of_means_keep_their_sums(sampler, layer):
    estimator = model(layer, batch_size=20, sampler=sampler)
    text, plan, problem, comm = prepared_text(
        estimator, features(), labels(), graph(True), n_ranks=3
    )
    sums = np.asarray(problem.operator(plan.network).sum(axis=1)).ravel()
    data, _, edges = drawn(text, plan, comm)
    for held, top, own in zip(comm.gather(data[-1]), comm.gather(edges[0]), text.own, strict=True):
        halves = held.graph.forward
        found = np.zeros(halves.n_rows)
        for indptr, _, values in (halves.local, halves.remote):
            rows = np.repeat(np.arange(halves.n_rows), np.diff(indptr))
            found += np.bincount(rows, values, minlength=halves.n_rows)
        ids = held.graph.own[: halves.n_rows]
        np.testing.assert_array_equal(ids, own[top.targets])
        alone = found == 0  # a mean of neighbours of whom none was drawn
        np.testing.assert_allclose(found[~alone], sums[ids][~alone], rtol=1e-12)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize(("sampler", "layer"), CASES)
def test_a_layer_makes_rows_for_what_the_layer_behind_reads(sampler, layer, n_ranks):
    """Which of the vertices are the first; only the lowest layer holds features."""
    estimator = batched(sampler, layer, hidden=(8, 8) if sampler == "vertex" else (8,))
    text, plan, _, comm = prepared_text(
        estimator, features(), labels(), graph(True), n_ranks=n_ranks
    )
    data, _, edges = drawn(text, plan, comm)
    seeds = comm.gather(edges[0])
    for rank, of_layers in enumerate(zip(*map(comm.gather, data), strict=True)):
        own, read = text.own[rank], seeds[rank].targets
        for each in reversed(of_layers):
            graph_of, halves = each.graph, each.graph.forward
            assert halves.n_own == len(graph_of.own) >= halves.n_rows == len(read)
            np.testing.assert_array_equal(graph_of.own[: halves.n_rows], own[read])
            assert len(np.unique(graph_of.own)) == halves.n_own
            read = np.array([own.tolist().index(each) for each in graph_of.own], int)
        assert [len(each.rows) for each in of_layers[:1]] == [len(read)]
        if sampler != "vertex":  # that has one graph for all layers
            assert not any(len(each.rows) for each in of_layers[1:])
            assert not any(len(each.targets.training) for each in of_layers[:-1])


def test_neighbours_of_others_are_drawn_as_own_ones_are():
    """The edges of a batch are the same set for any ranks, and at most `fanout` of a target."""
    sets = []
    for n_ranks in (1, 3):
        text, plan, _, comm = prepared_text(
            batched(size=15), features(), labels(), graph(True), n_ranks=n_ranks
        )
        _, _, edges = drawn(text, plan, comm)
        rows = comm.gather(text.fixed[2])
        found = []
        for index, of_ranks in enumerate(map(comm.gather, edges)):
            for held, each in zip(rows, of_ranks, strict=True):
                assert (each.counts <= (3, 2)[index]).all()
                targets = held.ids[np.repeat(each.targets, each.counts)]
                found += [(index, int(i), int(j)) for i, j in
                          zip(targets, held.ids[each.columns], strict=True)]  # fmt: skip
        sets.append(sorted(found))
        assert len(set(found)) == len(found)
    assert sets[0] == sets[1]


# -- what travels ---


@pytest.mark.parametrize("sampler", sampling.SAMPLERS)
def test_the_expected_volume_is_the_cut_of_the_stochastic_model(sampler):
    estimator = batched(sampler)
    _, plan, problem, _ = prepared_text(estimator, features(), labels(), graph(True))
    chosen = seeded(plan.batches, problem)
    generator = np.random.default_rng(3)
    layers = [each for _ in range(5) for each in chosen.draw(adjacency_of(problem), generator)]
    cut = data_models.stochastic(problem.pattern, 3, sampler=chosen, n_batches=5, random_state=3)
    found = Connectivity.from_partition(cut.hypergraph, plan.partition)
    rows = sum(len(foreign_pairs(layer, plan.partition)) for layer in layers)
    assert found.connectivity_minus_one() == rows > 0


@pytest.mark.parametrize("sampler", sampling.SAMPLERS)
def test_measured_volume_is_as_expected_in_the_mean(sampler):
    random = np.random.default_rng(0)
    A = scipy.sparse.random_array((400, 400), density=0.015, rng=random, format="csr")
    fitted = model(sampler=sampler, batch_size=60, max_iter=6)
    fitted.fit(random.normal(size=(400, 6)), np.arange(400) % 3, graph=A)
    report, measured = fitted.plan_report_, fitted.comm_report_.measured_rows.sum()
    assert measured == pytest.approx(report.volume, rel=0.06)
    assert "expected" in repr(report) and "drawn to see" in report._repr_html_()


def test_the_last_mini_batch_draws_as_many_for_a_layer():
    n, n_ranks = 12, 3
    everyone = scipy.sparse.csr_array(np.ones((n, n)))
    y = np.where(np.arange(n) < 10, np.arange(n) % 2, -1)
    made = model("sage", batch_size=9, sampler="layer", n_ranks=n_ranks, partitioner="block")
    plan = made.plan(np.eye(n), y, graph=everyone)
    # the rank of the one seed reads those drawn of 8 on others, then all ranks do
    of_one = 8 * 9 / n
    expected = np.array([of_one, n_ranks * of_one]) @ plan.batches.times
    assert plan.report().rows_of_last == pytest.approx(expected, rel=0.2)


def test_the_stochastic_partition_is_cut_for_the_sampler():
    from daskpart.datasets import load_python_source

    source = load_python_source()
    options = {"n_ranks": 4, "batch_size": 200, "sampler": "vertex", "symmetrize": True}
    volumes = {}
    for name in ("stochastic", "connectivity", "random"):
        plan = daskpart.GCNClassifier(partitioner=name, transport="local", **options).plan(
            source["counts"], source["label"], graph=source["imports"]
        )
        volumes[name] = plan.report().volume
    assert volumes["stochastic"] < 1.1 * volumes["connectivity"] < volumes["random"]


def test_nothing_of_a_mini_batch_goes_through_the_driver(monkeypatch):
    """A run of epochs is a request as long for many mini-batches and vertices as for few."""
    requests, answers = [], []

    class Counted(ThreadsCommunicator):
        def _execute(self, request, own):
            found = super()._execute(request, own)
            requests.append(len(pickle.dumps(request)) + len(pickle.dumps(own)))
            answers.append(sum(len(each.result or b"") for each in found))
            return found

    sizes, between = [], []
    for n in (100, 1500):
        random = np.random.default_rng(0)
        A = scipy.sparse.random_array((n, n), density=6 / n, rng=random, format="csr")
        made = model(batch_size=20, max_iter=1)
        monkeypatch.setattr(made, "_connection", lambda plan, client: Connected(lambda: Counted(3)))
        run = BatchText.run

        def of_epochs(self, first, last, run=run):
            requests.clear(), answers.clear()
            steps = run(self, first, last)
            sizes.append(sum(requests) + sum(answers))
            return steps

        with monkeypatch.context() as patched:
            patched.setattr(BatchText, "run", of_epochs)
            made.fit(random.normal(size=(n, 4)), np.arange(n) % 3, graph=A)
        between.append(made.comm_report_.measured_bytes)
    assert len(sizes) == 2 and abs(sizes[1] - sizes[0]) < 100
    assert between[1] > 10 * between[0] > 2 * sizes[0]


# -- fits that go on, and are kept ---


RATES = [
    {"learning_rate": "decay"},
    {"learning_rate": "invscaling", "power_t": 0.7},
    {"learning_rate": "step"},
]


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: rate["learning_rate"])
@pytest.mark.parametrize("make", [batched, model])
def test_resume_gives_the_bits_of_an_unbroken_fit(tmp_path, make, rate):
    def fit(**options):
        return make(**rate | options).fit(features(), labels(), graph=graph())

    whole = fit(max_iter=12)
    fit(max_iter=5, checkpoint_path=tmp_path / "run.npz")
    resumed = fit(max_iter=12, checkpoint_path=tmp_path / "run.npz", resume=True)
    assert weights_of(resumed).tobytes() == weights_of(whole).tobytes()
    assert resumed.history_["learning_rate"].equals(whole.history_["learning_rate"])
    with pytest.raises(InputError, match="power_t"):
        fit(power_t=0.1, checkpoint_path=tmp_path / "run.npz", resume=True)
    if make is batched:
        with pytest.raises(InputError, match="batch_size"):
            fit(size=8, checkpoint_path=tmp_path / "run.npz", resume=True)


def test_rates_of_a_schedule_count_steps_or_epochs():
    """As those of linear models: the history has the rate of an epoch's last step."""
    falling, stepped, constant = (
        batched(learning_rate=name, max_iter=21).fit(features(), labels(), graph=graph())
        for name in ("invscaling", "step", "constant")
    )
    n_batches = -(-np.count_nonzero(labels() >= 0) // 9)
    assert n_batches > 1
    steps = n_batches * np.arange(1, 22)
    np.testing.assert_allclose(falling.history_["learning_rate"], 0.01 / np.sqrt(steps))
    expected = 0.01 * 0.5 ** np.repeat([0, 1, 2], [10, 10, 1])
    assert stepped.history_["learning_rate"].tolist() == expected.tolist()
    assert (constant.history_["learning_rate"] == 0.01).all()
    losses = [each.history_["loss"].iloc[0] for each in (stepped, constant, falling)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("make", [batched, model])
def test_a_warm_start_takes_a_rate_that_is_new(make):
    def weights_after(**options):
        found = make(warm_start=True, max_iter=2).fit(features(), labels(), graph=graph())
        before = weights_of(found).copy()
        found.set_params(**options).fit(features(), labels(), graph=graph())
        return found, np.abs(weights_of(found) - before).max()

    _, moved = weights_after()
    small, moved_little = weights_after(initial_learning_rate=1e-6)
    assert small.history_["learning_rate"].iloc[-1] == 1e-6
    assert moved_little < 1e-3 * moved


def test_a_sampler_is_saved_with_the_model(tmp_path):
    fitted = batched().fit(features(), labels(), graph=graph())
    fitted.save(tmp_path / "model")
    again = daskpart.GCNClassifier.load(tmp_path / "model")
    assert again.sampler == NeighbourSampler(fanouts=(3, 2)) and again.batch_size == 9
    np.testing.assert_array_equal(again.predict(features()), fitted.predict(features()))


def test_mini_batches_of_other_targets():
    for loss in ("several", "numbers"):
        for sampler in sampling.SAMPLERS:
            fitted = batched(sampler, loss=loss, n_ranks=2)
            fitted.fit(features(), labels(loss), graph=graph())
            assert np.isfinite(fitted.history_["loss"]).all()
            assert fitted.history_["loss"].iloc[-1] < 2 * fitted.history_["loss"].iloc[0]


def test_mini_batches_learn():
    """Nearly as well as full batches: on a graph of three groups, from noisy features."""
    random = np.random.default_rng(0)
    n, y = 300, np.arange(300) % 3
    same = y[:, None] == y[None]
    A = scipy.sparse.csr_array((random.random((n, n)) < np.where(same, 0.1, 0.01)).astype(float))
    X = np.eye(3)[y] + random.normal(scale=1.5, size=(n, 3))
    options = {"symmetrize": True, "hidden": (8,), "initial_learning_rate": 0.02, "n_ranks": 2}
    full = model(max_iter=60, **options).fit(X, y, graph=A).score(X, y)
    for sampler in sampling.SAMPLERS:
        fitted = model(batch_size=100, sampler=sampler, max_iter=20, **options)
        assert fitted.fit(X, y, graph=A).score(X, y) > full - 0.1 > 0.8


# -- bad input ---

BAD = {
    "batch_size=50, and there are 40 vertices": {"sampler": "vertex", "batch_size": 50},
    "labelled vertices to train on": {"batch_size": 39},
    "'sampler' parameter": {"sampler": "cluster"},
    "'batch_size' parameter": {"batch_size": 0},
    "draws 3 layers, the network has 2": {"sampler": NeighbourSampler(fanouts=(2, 2, 2))},
    "draws 1 layers, the network has 2": {"sampler": LayerSampler(n_layers=1)},
    "a layer of several products": {"layer": "sgc"},
    "first_product='kept' is for full batches": {"first_product": "kept"},
    "communication='broadcast' is for full batches": {"communication": "broadcast"},
    "is made of mini-batches": {"partitioner": "stochastic", "batch_size": None},
    "fanout is 0": {"sampler": NeighbourSampler(fanouts=(2, 0))},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    options = {"batch_size": 9, **BAD[message]}
    with pytest.raises((InputError, ValueError), match=message):
        model(**options).fit(features(), labels(), graph=graph())


def test_a_vertex_sampler_may_be_given():
    one, other = (
        batched(sampler).fit(features(), labels(), graph=graph())
        for sampler in ("vertex", VertexSampler(3))
    )
    assert weights_of(one).tobytes() == weights_of(other).tobytes()
    share = batched("vertex", size=9 / N).fit(features(), labels(), graph=graph())
    assert weights_of(share).tobytes() == weights_of(one).tobytes()
    assert replace(VertexSampler(3), size=9).count(N) == 9


@given(drawn=st.lists(st.integers(0, 50)), more=st.sampled_from([0, 10, 10**4]), data=st.data())
def test_a_table_says_where_ids_stand_as_searching_does(drawn, more, data):
    n, ids = 51 + more, np.array(drawn, np.int64)
    known = np.array(data.draw(st.permutations(sorted(set(drawn)))), np.int64)
    places = sampling.places_in(known, ids, n)
    assert places.dtype == np.int64 and known[places].tolist() == drawn


@given(
    first=st.lists(st.integers(0, 50), unique=True),
    more=st.lists(st.lists(st.integers(0, 50)), max_size=3),
    beyond=st.sampled_from([0, 10**4]),
)
def test_ids_are_appended_that_are_not_there(first, more, beyond):
    arrays = [np.array(each, np.int64) for each in (first, *more)]
    found = sampling.appended(*arrays, n=51 + beyond).tolist()
    assert found == first + sorted({each for one in more for each in one} - set(first))
