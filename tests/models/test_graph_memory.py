"""Memory of mini-batches and of the validation behind them: forecast, counted, taken."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from test_graph_convolution import model
from test_graph_minibatch import LAYERS as OF_ONE_PRODUCT
from test_graph_minibatch import prepared_text

from daskpart.data_models import NeighbourSampler
from daskpart.models.graph_convolution import text
from daskpart.models.graph_convolution.layers import LAYERS
from daskpart.models.graph_convolution.passes import RankModel


def random_graph(n, degree):
    random = np.random.default_rng(0)
    return scipy.sparse.random_array((n, n), density=degree / n, rng=random, format="csr")


@pytest.mark.parametrize("sampler", ["vertex", "neighbour", "layer"])
@pytest.mark.parametrize("layer", ["gcn", "gat"])
def test_memory_of_a_mini_batch_is_forecast(layer, sampler):
    """Also where its own features, or the entries of its graphs, are most of it."""
    random = np.random.default_rng(0)
    A = scipy.sparse.random_array((2000, 2000), density=0.004, rng=random, format="csr")
    y, wide = np.arange(2000) % 3, random.normal(size=(2000, 300))
    options = {"sampler": sampler, "hidden": (16,), "max_iter": 1}
    for X, size, dropout in ((wide[:, :20], 200, 0.3), (wide, 200, 0.3), (wide, 1000, 0.0)):
        fitted = model(layer, batch_size=size, dropout=dropout, **options).fit(X, y, graph=A)
        held, planned = fitted.comm_report_.memory, fitted.comm_report_.expected_memory
        np.testing.assert_allclose(held, planned, rtol=0.05)


@pytest.mark.parametrize("sampler", ["vertex", NeighbourSampler(fanouts=(400,) * 3)])
@pytest.mark.parametrize("layer", OF_ONE_PRODUCT)
def test_memory_of_the_validation_is_forecast(layer, sampler):
    """On the whole graph, behind mini-batches that are small, or beside one that is kept."""
    X, y = np.random.default_rng(0).normal(size=(400, 20)), np.arange(400) % 3
    held_out, size = np.arange(400) % 2 == 0, 9 if sampler == "vertex" else 200
    made = model(layer, batch_size=size, sampler=sampler, hidden=(64, 64), max_iter=1)
    A, without = random_graph(400, 8), clone(made)
    made.fit(X, y, graph=A, validation_mask=held_out)
    without.fit(X, np.where(held_out, -1, y), graph=A)
    counted, planned = made.comm_report_.memory, made.comm_report_.expected_memory
    np.testing.assert_allclose(counted, planned, rtol=0.05)
    beyond = made.plan_report_.memory.get("validation, beyond it", 0)
    more = counted - without.comm_report_.memory
    np.testing.assert_allclose(more, beyond, atol=0.05 * planned.max())
    if sampler == "vertex":
        assert (beyond > planned / 5).all() and "validation, beyond it" in repr(made.plan_report_)
    assert "validation, beyond it" not in without.plan_report_.memory


@pytest.mark.parametrize("hidden", [(16,), (8, 32)])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_validation_takes_is_known(layer, kind, hidden):
    """Of one rank, which sends nothing: by what numpy allocates."""
    n, random = 10_000, np.random.default_rng(0)
    X = random.normal(size=(n, 20))
    if kind == "sparse":
        X = scipy.sparse.random_array((n, 200), density=0.02, rng=random, format="csr")
    options = {"batch_size": 9, "sampler": "vertex", "dtype": "float32", "hidden": hidden}
    made, y = model(layer, n_ranks=1, **options), np.arange(n) % 10
    fit, plan, _, comm = prepared_text(made, X, y, random_graph(n, 3))
    (data, (there, _)), network = fit.fixed[:2], plan.network
    weights = comm.values([RankModel([*network.first_weights().values()], {})])
    text.boundary_at(comm, data, there, weights, network=network)  # compiles
    gc.collect()
    most = np.inf
    for _ in range(3):  # the least of them, as threads of other tests' clusters allocate, too
        last = None
        tracemalloc.start()
        last = text.boundary_at(comm, data, there, weights, network=network)
        most = min(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    (size,) = comm.gather(
        comm.map(text.layer_sizes, data, there.rounds[0].messages, network=network)
    )
    assert most == pytest.approx(network.validation_bytes(size), rel=0.08)
    assert np.isfinite(comm.gather(last)[0].value).all()
