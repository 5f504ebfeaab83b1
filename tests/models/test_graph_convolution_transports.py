"""The same training on every transport, bit by bit; and the accuracy that others published."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same

import daskpart

COMMON = {"hidden": (16,), "max_iter": 3, "partitioner": "random", "validation_fraction": 0.2}
CASES = [
    {
        **{"layer": "gcn", "first_product": "each", "learning_rate": "invscaling"},
        "class_weight": "balanced",
        **COMMON,
    },
    {
        "layer": "gat",
        "layer_options": {"heads": 4, "output_heads": 2, "attention_dropout": 0.3},
        **COMMON,
    },
    {
        **{"layer": "sage", "batch_size": 20, "sampler": "neighbour"},
        **{"learning_rate": "invscaling", "power_t": 0.3},
        **COMMON,
    },
    {
        **COMMON,
        **{"layer": "gcn", "batch_size": 45, "sampler": "vertex"},
        **{"learning_rate": "step", "max_iter": 11},  # the rate of the last is halved
    },
    {
        "layer": "gat",
        **COMMON,
        "batch_size": 30,
        "sampler": "layer",
        "class_weight": {1: 0.5, 3: 4.0},
    },
    {"layer": "sage", **COMMON},
    {"layer": "gin", "layer_options": {"epsilon": 0.1}, **COMMON},
    {"layer": "sgc", **COMMON, "hidden": ()},
    {
        **COMMON,
        **{"layer": "appnp", "layer_options": {"hops": 3}, "patience": 2, "monitor": "both"},
        **{"max_iter": 20, "initial_learning_rate": 0.1},  # the fourth of seven epochs is the best
    },
]


def small_graph():
    """Features, some labels, a directed graph with weights."""
    random = np.random.default_rng(0)
    A = scipy.sparse.random_array((90, 90), density=0.06, rng=random, format="csr")
    X = random.normal(size=(90, 30))
    return X, np.where(random.random(90) < 0.2, -1, random.integers(0, 4, 90)), A


def fitted(transport, n_ranks=4, **options):
    X, y, A = small_graph()
    return daskpart.GCNClassifier(n_ranks=n_ranks, transport=transport, **options).fit(
        X, y, graph=A
    )


def assert_same_training(one, other):
    assert_same(one, other)
    assert one.best_iteration_ == other.best_iteration_
    for beside in (one.state_.last, other.state_.last):
        assert bool(beside) == (one.best_iteration_ not in (None, one.n_iter_))
    assert one.comm_report_.matches and other.comm_report_.matches
    np.testing.assert_array_equal(one.comm_report_.measured_rows, other.comm_report_.measured_rows)


def assert_same_answers(local, spmd, client):
    """Where a client is given its workers compute: with the parts of the fit, or with blocks."""
    X, y, A = small_graph()
    for graph in (None, scipy.sparse.csr_array(A.T)):
        for ask in ("predict_proba", "transform"):
            here, there = getattr(local, ask), getattr(spmd, ask)
            np.testing.assert_allclose(
                there(X, graph=graph, client=client), here(X, graph=graph), rtol=1e-4, atol=1e-6
            )
    assert spmd.score(X, y, client=client) == local.score(X, y)


@pytest.mark.parametrize("options", CASES, ids=lambda options: options["layer"])
def test_graph_on_threads_gives_the_bits_of_local(options):
    for n_ranks in (1, 3):
        assert_same_training(*(fitted(kind, n_ranks, **options) for kind in ("local", "graph")))


@pytest.mark.cluster
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_worker_processes_give_the_bits_of_local(client, n_ranks):
    """Every case on 3 and on 8 ranks, of the other numbers the first: as over MPI."""
    for options in CASES if n_ranks in (3, 8) else CASES[:1]:
        local, spmd = (fitted(kind, n_ranks, **options) for kind in ("local", "dask"))
        assert spmd.comm_report_.transport == "dask"
        assert_same_training(local, spmd)
        if n_ranks == 3:
            assert_same_answers(local, spmd, client)
    assert not client.futures  # nothing is left behind


def test_cora_is_classified_as_well_as_published(shared_data):
    """Kipf and Welling 2017: 81.5 % on the standard split."""
    cora = np.load(shared_data / "graphs" / "cora.npz")
    n = int(cora["n_nodes"])
    A = scipy.sparse.csr_array(
        (np.ones(len(cora["adj_indices"])), cora["adj_indices"], cora["adj_indptr"]), shape=(n, n)
    )
    pointer, columns = cora["feat_indptr"], cora["feat_indices"].astype(np.int32)
    lengths = np.diff(pointer)
    values = np.repeat(1 / np.maximum(lengths, 1), lengths)  # rows add up to 1
    X = scipy.sparse.csr_array((values, columns, pointer), shape=tuple(cora["feat_shape"]))
    y = np.full(n, -1)
    y[cora["train_idx"]] = cora["labels"][cora["train_idx"]]
    model = daskpart.GCNClassifier(n_ranks=2, transport="local", partitioner="block")
    model.fit(X, y, graph=A)
    assert model.score(X, cora["labels"], mask=cora["test_idx"]) > 0.80
