"""What holds the samples decides nothing: the same rows give the same bits."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
import scipy.sparse
import sparse
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart import LinearRegression, LogisticRegression, MLPClassifier
from daskpart.errors import InputError

SGD = {"solver": "sgd", "max_iter": 2, "batch_size": 3, "n_ranks": 2, "transport": "local"}
MODELS = {
    "lbfgs": LogisticRegression(max_iter=5, tol=1, n_ranks=2, transport="local"),
    "adagrad": LogisticRegression(**SGD),
    "optimal rate": LogisticRegression(optimizer="sgd", **SGD),
    "TopK": LogisticRegression(top_k=2, **SGD),
    "adam": LogisticRegression(optimizer="adam", **SGD),
    "weights on a server": LogisticRegression(aggregation="server", partitioner="random", **SGD),
    "blocks on a server": LogisticRegression(
        **{**SGD, "solver": "server"}, l1_ratio=0.3, partitioner="random"
    ),
    "huber": LinearRegression("huber", alpha=0.1, l1_ratio=0.2, **SGD),
    "mlp": MLPClassifier((3,), max_iter=2, batch_size=3, n_ranks=2, transport="local"),
}


def in_pieces(table, random):
    """Csr rows whose entries lie in no order, each in two pieces that add up to it exactly."""
    whole = scipy.sparse.coo_array(table)
    half = np.round(whole.data / 2)
    rows, columns = (np.concatenate([index, index]) for index in whole.coords)
    data = np.concatenate([half, whole.data - half])
    order = random.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    pointer = np.searchsorted(rows[order], np.arange(len(table) + 1))
    return scipy.sparse.csr_array((data[order], columns[order], pointer), shape=table.shape)


def learnt(model, X, y):
    model.fit(X, y)
    return [*model.coefs_, *model.intercepts_] if hasattr(model, "coefs_") else [model.coef_]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1 << 20), n_rows=st.integers(5, 12), n_features=st.integers(1, 6))
def test_containers_of_the_same_rows_give_the_same_bits(name, seed, n_rows, n_features):
    random = np.random.default_rng(seed)
    shape = (n_rows, n_features)
    table = np.round(random.normal(0, 5, shape)) * (random.random(shape) < 0.6)
    y, pieces = random.permutation(np.arange(n_rows) % 2), in_pieces(table, random)
    before = [array.copy() for array in (pieces.data, pieces.indices, pieces.indptr)]
    chunks = dask.array.from_array(table, chunks=(3, -1))
    expected = learnt(MODELS[name], scipy.sparse.csr_array(table), y)
    for X in (
        pieces,
        sparse.COO.from_numpy(table),
        sparse.DOK.from_numpy(table),
        xarray.DataArray(sparse.GCXS.from_numpy(table)),
        chunks.map_blocks(lambda block: in_pieces(block, random), dtype=float),
        chunks.map_blocks(sparse.DOK.from_numpy, dtype=float),
    ):
        for found, wanted in zip(learnt(MODELS[name], X, y), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    for array, was in zip((pieces.data, pieces.indices, pieces.indptr), before, strict=True):
        np.testing.assert_array_equal(array, was)  # what a caller has is not put in order for him


@pytest.mark.parametrize("fill", [1.0, np.nan])
def test_values_that_are_not_stored_are_0(fill):
    X, y = sparse.COO.from_numpy(np.full((4, 2), fill), fill_value=fill), [0, 1, 0, 1]
    model = LogisticRegression(n_ranks=1, transport="local")
    with pytest.raises(InputError, match=r"X is a sparse array with fill value .*fill_value=0"):
        model.fit(X, y)
    with pytest.raises(InputError, match="sparse array with fill value"):
        model.fit(np.eye(4, 2), y).predict(X)
