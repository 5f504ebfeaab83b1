"""A module of PyTorch over parts of a graph trains as the same module on the whole of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import daskpart
from daskpart.errors import InputError
from daskpart.models.graph_convolution.operators import operator_of
from daskpart.models.graph_convolution.state_dicts import coefs_from_state_dict

torch = pytest.importorskip("torch")

N, N_EPOCHS, WIDTHS = 60, 4, (7, 5, 3)


def graph():
    """Directed, with isolated vertices."""
    random = np.random.default_rng(0)
    return scipy.sparse.random_array((N, N), density=0.06, format="csr", rng=random)


def vertices():
    """Features and classes."""
    random = np.random.default_rng(1)
    return random.normal(size=(N, WIDTHS[0])), random.integers(0, WIDTHS[-1], N)


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(*pair) for pair in pairwise(WIDTHS)]
    return torch.nn.Sequential(*layers).double()


def train(propagate, sum_gradients, X, y, net):
    """Weights after some epochs of two layers, relu(Â X W + b)."""
    step = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(N_EPOCHS):
        step.zero_grad()
        outputs = net[1](propagate(torch.relu(net[0](propagate(X)))))
        torch.nn.functional.cross_entropy(outputs, y, reduction="sum").backward()
        sum_gradients(net)
        step.step()
    return [weight.detach().numpy() for weight in net.parameters()]


def train_on_rank(exchange, X, y, *, net):
    return train(lambda H: exchange.product(exchange(H)), exchange.sum_gradients, X, y, net)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_parts_train_as_the_whole(n_ranks):
    X, y = vertices()
    run = daskpart.torch.run_on_parts(
        train_on_rank, graph(), X, y, n_ranks=n_ranks, dtype="float64", net=network()
    )
    whole = torch.from_numpy(operator_of("normalised", graph(), "float64").toarray())
    wanted = train(
        lambda H: whole @ H, lambda net: None, torch.from_numpy(X), torch.from_numpy(y), network()
    )
    for weights in run.results:
        for own, other in zip(weights, wanted, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)


def assert_as_on_threads(transport, n_ranks, client=None):
    """The same weights, to the bit, and the same messages."""
    X, y = vertices()
    threads, ranks = (
        daskpart.torch.run_on_parts(
            train_on_rank, graph(), X, y, n_ranks=n_ranks, dtype="float64", net=network(),
            transport=kind, client=client if kind != "local" else None,
        )
        for kind in ("local", transport)
    )  # fmt: skip
    assert len(ranks.results) == n_ranks
    for own, other in zip(threads.results, ranks.results, strict=True):
        for weight, same in zip(own, other, strict=True):
            np.testing.assert_array_equal(weight, same)
    for name in ("halo", "halo back"):
        sent, same = (run.counters.of(name)["rows_sent"] for run in (threads, ranks))
        np.testing.assert_array_equal(sent, same)


@pytest.mark.cluster
@pytest.mark.parametrize("n_ranks", [3, 8])
def test_worker_processes_train_with_the_same_bits(quiet_client, n_ranks):
    assert_as_on_threads("dask", n_ranks, quiet_client)
    assert not quiet_client.futures  # nothing is left behind


@pytest.mark.cluster
def test_what_a_module_raises_on_a_worker_is_told(quiet_client):
    def train_on_one(exchange, X):
        if exchange.own[0] == 0:
            raise ValueError("this rank's module has had enough")
        return exchange(X)

    X, _ = vertices()
    with pytest.raises(Exception, match="this rank's module has had enough"):
        daskpart.torch.run_on_parts(
            train_on_one, graph(), X, n_ranks=3, transport="dask", client=quiet_client
        )


def test_what_travels_is_counted_as_planned():
    X, y = vertices()
    run = daskpart.torch.run_on_parts(
        train_on_rank, graph(), X, y, n_ranks=4, dtype="float64", net=network()
    )
    model = daskpart.GCNClassifier(partitioner=run.partition, n_ranks=4)
    a_product = model.plan(X, y, graph=graph()).report().rows_of_product
    rows = {name: int(run.counters.of(name)["rows_sent"].sum()) for name in ("halo", "halo back")}
    # the features need no gradient, so the first layer sends nothing back
    assert rows == {"halo": 2 * N_EPOCHS * a_product, "halo back": N_EPOCHS * a_product}


def test_edges_are_those_of_the_matrix():
    def product_by_edges(exchange, X):
        source, reader = exchange.edge_index
        out = X.new_zeros((exchange.n_own, X.shape[1]))
        rows = exchange(X)[source] * exchange.edge_weight[:, None]
        return out.index_add(0, reader, rows).numpy(), exchange.total(len(X))

    X, _ = vertices()
    run = daskpart.torch.run_on_parts(product_by_edges, graph(), X, n_ranks=3, dtype="float64")
    wanted = operator_of("normalised", graph(), "float64") @ X
    for rank, (rows, n_vertices) in enumerate(run.results):
        np.testing.assert_allclose(rows, wanted[run.partition.members(rank)])
        assert n_vertices == N


def test_wrong_lengths_are_told():
    with pytest.raises(InputError, match=r"60 vertices.*59 rows"):
        daskpart.torch.run_on_parts(train_on_rank, graph(), np.ones((59, 2)), n_ranks=2)
    with pytest.raises(InputError, match="2 rows, but this rank has"):
        daskpart.torch.run_on_parts(lambda exchange: exchange(torch.ones(2, 3)), graph(), n_ranks=3)


def test_rows_go_with_vertices_by_name():
    ends = pd.DataFrame({"source": ["b", "c", "d"], "target": ["a", "b", "c"]})
    rows = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=list("abcd"))
    labels = pd.Series([40.0, 30.0, 20.0, 10.0], index=list("dcba"))
    networkx = pytest.importorskip("networkx")
    chain = networkx.DiGraph([("d", "c"), ("c", "b"), ("b", "a")])

    def seen(exchange, X, y):
        return exchange.product(exchange(X)).numpy(), X.numpy(), y.numpy()

    for graph_, own in ((ends, rows), (ends, rows[::-1]), (chain, rows)):
        run = daskpart.torch.run_on_parts(
            seen, graph_, own, labels, n_ranks=2, operator="sum", dtype="float64"
        )
        for sums, X, y in run.results:
            np.testing.assert_array_equal(y, 10 * X[:, 0])
            np.testing.assert_array_equal(sums, np.where(X > 1, 2 * X - 1, X))
    with pytest.raises(InputError, match="no vertex of the graph"):
        daskpart.torch.run_on_parts(seen, chain, rows, labels.rename({"a": "e"}), n_ranks=2)


def test_a_product_needs_the_rows_of_the_halo():
    for wrong in (
        lambda exchange, X: exchange.product(X),
        lambda exchange, X: exchange.product(exchange(X)[:, 0]),
    ):
        with pytest.raises(InputError, match="product takes"):
            daskpart.torch.run_on_parts(wrong, graph(), vertices()[0], n_ranks=3, dtype="float64")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operator": "normalized"}, "operator is 'normalized': use one of 'normalised', 'mean'"),
        ({"dtype": "int32"}, "dtype is 'int32'"),
        ({"transport": "graph"}, "transport is 'graph'"),
        ({"partitioner": "best"}, "'best' is unknown"),
        ({"n_ranks": 0}, "n_ranks is 0"),
    ],
)
def test_options_that_are_not_allowed_are_told(options, message):
    with pytest.raises(InputError, match=message):
        daskpart.torch.run_on_parts(lambda exchange: 0, graph(), **{"n_ranks": 2, **options})


@pytest.mark.parametrize("layer", ["gcn", "sage", "gat"])
def test_a_state_dict_of_pytorch_geometric_answers_as_its_module(layer):
    convolutions = pytest.importorskip("torch_geometric.nn")
    heads = {"heads": 2} if layer == "gat" else {}
    kind = {"gcn": "GCNConv", "sage": "SAGEConv", "gat": "GATConv"}[layer]
    made, hidden = getattr(convolutions, kind), WIDTHS[1] * heads.get("heads", 1)
    torch.manual_seed(0)
    last = {**heads, "concat": False} if heads else {}
    net = torch.nn.ModuleList(
        [made(WIDTHS[0], WIDTHS[1], **heads), made(hidden, WIDTHS[2], **last)]
    ).double()
    for weight in net.parameters():
        torch.nn.init.normal_(weight)
    pattern, (X, _) = graph(), vertices()
    pattern.data[:] = 1
    pattern.setdiag(0)
    pattern.eliminate_zeros()
    readers, read = pattern.nonzero()
    edges = torch.from_numpy(np.stack([read, readers]).astype(np.int64))
    with torch.no_grad():
        H = torch.relu(net[0](torch.from_numpy(X), edges))
        wanted = net[1](H, edges).softmax(1).numpy()
    coefs = coefs_from_state_dict({k: v.numpy() for k, v in net.state_dict().items()}, layer)
    options = {"layer_options": {"heads": 2, "output_heads": 2}} if heads else {}
    ours = daskpart.GCNClassifier(hidden, layer=layer, dtype="float64", **options).set_coefs(coefs)
    np.testing.assert_allclose(ours.predict_proba(X, graph=pattern), wanted, rtol=1e-5, atol=1e-9)
