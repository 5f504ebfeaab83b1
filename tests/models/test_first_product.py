"""The kept first product: the same however many columns are made at a time, and what that costs."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.collectives import communicator_for
from daskpart.models.graph_convolution import plan as plans
from daskpart.models.graph_convolution import problem as problems
from daskpart.models.graph_convolution.plan import plan_fit
from daskpart.models.graph_convolution.problem import _some_rows as some_rows
from daskpart.models.graph_convolution.text import laid_out

from .test_graph_convolution import features, graph, labels, model


def product(layer, kind, n_ranks, options=None):
    """The kept rows of all ranks in the order of the vertices; what was sent; Âʰ X beside."""
    estimator = model(layer, first_product="kept", hidden=(1,), layer_options=options)
    if layer == "sgc":
        estimator.set_params(hidden=())
    problem = estimator._problem(features(kind), labels(), {"graph": graph()}, 0)
    network = estimator._network(problem, 0)
    plan = plan_fit(problem, network, n_ranks, partitioner="random", random_state=0)
    comm = communicator_for("local", n_ranks)
    _, data = laid_out(comm, plan, problem)
    found = np.zeros((problem.n_vertices, problem.n_inputs))
    for held in comm.gather(data):
        rows = held.rows
        if kind == "sparse":
            rows = np.zeros((len(rows), rows.n_columns))
            for row in range(len(rows)):
                entries = slice(*held.rows.indptr[row : row + 2])
                rows[row, held.rows.indices[entries]] = held.rows.data[entries]
        found[held.graph.own] = rows
    wanted = problem.inputs(network)
    for _ in range(network.layers[0].hops):
        wanted = problem.operator(network) @ wanted
    wanted = wanted.toarray() if kind == "sparse" else wanted
    return found, comm.counters, wanted, plan


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("layer", "options"), [("gcn", None), ("sage", None), ("gin", None), ("sgc", {"hops": 3})]
)
def test_some_columns_at_a_time(layer, options, kind, n_ranks, monkeypatch):
    """The product of X with the operator of the layer; the same bits one column at a time."""
    at_once, _, wanted, _ = product(layer, kind, n_ranks, options)
    np.testing.assert_allclose(at_once, wanted, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(plans, "_AT_ONCE_BYTES", 1)
    monkeypatch.setattr(plans, "_CACHE_LINE", 8)
    one_by_one, counters, _, plan = product(layer, kind, n_ranks, options)
    assert one_by_one.tobytes() == at_once.tobytes()
    if kind == "dense":
        width, hops = plan.n_columns_at_once, plan.network.layers[0].hops
        # as wide as the messages of an epoch: the only hidden column, or the outputs
        assert width == max([1, *plan.network.passes[0], *plan.network.passes[1]])
        assert width < at_once.shape[1]
        assert {record.label for record in counters.rounds} == {"forward"}
        assert len(counters.rounds) == hops * -(-at_once.shape[1] // width)
        rows = plan.forward.total_rows * hops
        assert counters.bytes_sent.sum() == 8 * rows * at_once.shape[1]


@pytest.mark.parametrize(("n_features", "dtype"), [(300, "float32"), (5, "float64")])
def test_columns_at_once(n_features, dtype, monkeypatch):
    """16 MiB, or what an epoch sends, or a cache line."""
    X = np.random.default_rng(0).normal(size=(40, n_features))

    def at_once(*hidden):
        estimator = daskpart.GCNClassifier(hidden, dtype=dtype, n_ranks=2, partitioner="block")
        return estimator.plan(X, labels(), graph=graph())

    plan, itemsize = at_once(20), np.dtype(dtype).itemsize
    n_rows = int((plan.n_own + plan.n_halo + plan.forward.traffic().sum(axis=1)).max())
    assert plan.n_columns_at_once == (16 << 20) // (itemsize * n_rows)
    monkeypatch.setattr(plans, "_AT_ONCE_BYTES", 1)
    # the second layer sends its outputs, of three classes
    assert at_once(20).n_columns_at_once == 64 // itemsize
    assert at_once(200, 100).n_columns_at_once == 100


def test_once_ranks_have_their_rows_nothing_else_has_the_matrix():
    estimator = model()
    problem = estimator._problem(features(), labels(), {"graph": graph()}, 0)
    network = estimator._network(problem, 0)
    plan = plan_fit(problem, network, 3, partitioner="random", random_state=0)
    made = [weakref.ref(each) for each in (problem.operator(network), problem.pattern)]
    comm = communicator_for("local", 3)
    kept = [laid_out(comm, plan, problem)]
    gc.collect()
    assert [each() for each in made] == [None, None]
    kept.append(laid_out(comm, plan, problem))  # as where a worker was lost
    one, again = (comm.gather(each[1]) for each in kept)
    np.testing.assert_array_equal(one[0].graph.forward.local[2], again[0].graph.forward.local[2])


@pytest.mark.parametrize(("layer", "hops"), [("gcn", 1), ("sage", 1), ("sgc", 3)])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_sparse_product_is_forecast_by_some_of_its_rows(layer, hops, n_ranks, monkeypatch):
    """Of vertices of very different degrees; answers pay for no forecast at all."""
    random, n = np.random.default_rng(1), 6000
    ends = (n * random.random((2, 3 * n)) ** 3).astype(int)
    A = scipy.sparse.csr_array((np.ones(3 * n), tuple(ends)), shape=(n, n))
    X = scipy.sparse.random_array((n, 400), density=0.02, rng=random, format="csr")
    options = {"layer_options": {"hops": hops}, "hidden": ()} if layer == "sgc" else {}
    estimator = model(
        layer, first_product="kept", n_ranks=n_ranks, max_iter=1, dropout=0.0, **options
    )
    multiplied = []
    monkeypatch.setattr(
        problems,
        "_some_rows",
        lambda *given: multiplied.append(some_rows(*given)) or multiplied[-1],
    )
    estimator.fit(X, np.arange(n) % 3, graph=A)
    assert max(len(rows) for rows, _ in multiplied) <= 512 and len(multiplied) == n_ranks
    held, planned = estimator.comm_report_.memory, estimator.comm_report_.expected_memory
    np.testing.assert_allclose(held, planned, rtol=0.05)
    estimator.predict(X)
    assert len(multiplied) == n_ranks


def test_features_without_an_entry_have_no_product():
    estimator = model(first_product="kept", n_ranks=2, max_iter=1)
    X = scipy.sparse.csr_array((3000, 7))
    A = scipy.sparse.eye_array(3000, format="csr")
    planned = estimator.fit(X, np.arange(3000) % 3, graph=A).comm_report_
    np.testing.assert_allclose(planned.memory, planned.expected_memory, rtol=0.05)
