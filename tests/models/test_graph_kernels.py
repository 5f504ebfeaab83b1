"""Kernels over edges against scipy, numpy and finite differences, for any width, heads and type."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from test_graph_convolution import N, features, graph, labels, model, weights_of

from daskpart._floor.lanes import aligned_rows
from daskpart.errors import InputError
from daskpart.models.graph_convolution.kernels import (
    edge_softmax,
    edge_softmax_backward,
    sddmm,
    spmm,
    spmm_transposed,
)
from daskpart.models.graph_convolution.operators import operator_of

FLOATS = [(np.float32, 1e-4), (np.float64, 1e-12)]
shapes = {
    "n": st.integers(0, 40), "m": st.integers(1, 40), "heads": st.integers(1, 4),
    "columns": st.integers(1, 70), "seed": st.integers(0, 10**6),
    "pointers": st.sampled_from([np.int32, np.int64]),
}  # fmt: skip


def made(n, m, heads, columns, seed, pointers, dtype):
    """A matrix with a value for each head at each entry, rows G and H; some rows are empty."""
    random = np.random.default_rng(seed)
    pattern = scipy.sparse.random_array((n, m), density=random.uniform(0, 0.4), rng=random).tocsr()
    indptr, indices = pattern.indptr.astype(pointers), pattern.indices.astype(np.int32)
    values = random.normal(size=(indices.size, heads)).astype(dtype)
    rows = [random.normal(size=(k, heads * columns)).astype(dtype) for k in (n, m)]
    return indptr, indices, values, *rows


def dense_of(indptr, indices, values, m):
    """The matrix of each head."""
    shape = (indptr.size - 1, m)
    return [
        scipy.sparse.csr_array((each.astype(float), indices, indptr), shape=shape).toarray()
        for each in values.T
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 100, 127])
@pytest.mark.parametrize("multiply", [spmm, spmm_transposed])
def test_a_column_has_the_same_bits_alone_and_beside_others(dtype, columns, multiply) -> None:
    indptr, indices, values, *rows = made(30, 30, 1, columns, 5, np.int32, dtype)
    aligned = aligned_rows(30, columns, dtype)  # asked for by one request where it lies in a line
    aligned[:] = rows[multiply is spmm]
    together = np.ones((30, columns), dtype)
    multiply(indptr, indices, values, aligned, together)
    for c in range(columns):
        alone = np.ones((30, 1), dtype)
        multiply(indptr, indices, values, aligned[:, c : c + 1].copy(), alone)
        assert (alone[:, 0] == together[:, c]).all()


@pytest.mark.parametrize(("dtype", "close"), FLOATS)
@given(**shapes | {"columns": st.integers(0, 70)})
def test_products_equal_scipy(dtype, close, n, m, heads, columns, seed, pointers) -> None:
    indptr, indices, values, G, H = made(n, m, heads, columns, seed, pointers, dtype)
    out = np.ones_like(G)
    spmm(indptr, indices, values, H, out)
    into = np.ones_like(H)
    spmm_transposed(indptr, indices, values, G, into)
    dots = np.full_like(values, np.nan)
    sddmm(indptr, indices, G, H, dots)
    row_of = np.repeat(np.arange(n), np.diff(indptr))
    for h, matrix in enumerate(dense_of(indptr, indices, values, m)):
        own = slice(h * columns, (h + 1) * columns)
        g, k = G[:, own].astype(float), H[:, own].astype(float)
        np.testing.assert_allclose(out[:, own], 1 + matrix @ k, atol=close * columns)
        np.testing.assert_allclose(into[:, own], 1 + matrix.T @ g, atol=close * columns)
        wanted = (g[row_of] * k[indices]).sum(axis=1)
        np.testing.assert_allclose(dots[:, h], wanted, atol=close * columns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 16, 17, 31, 64, 128, 300, 512])
def test_rows_that_are_asked_for_ahead(dtype, columns) -> None:
    m = int(5e6) // (columns * np.dtype(dtype).itemsize)  # larger than a cache of the second level
    random = np.random.default_rng(columns)
    matrix = scipy.sparse.random_array((50, m), density=40 / m, rng=random, dtype=dtype).tocsr()
    H = random.normal(size=(m, columns)).astype(dtype)
    out = np.zeros((50, columns), dtype)
    spmm(matrix.indptr, matrix.indices.astype(np.int32), matrix.data, H, out)
    np.testing.assert_allclose(out, matrix @ H, rtol=1e-4, atol=1e-4)
    back = np.zeros_like(H)
    spmm_transposed(matrix.indptr, matrix.indices.astype(np.int32), matrix.data, out, back)
    np.testing.assert_allclose(back, matrix.T @ out, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("columns", [5, 40])
def test_a_hub_keeps_its_digits(columns) -> None:
    """Between rows of one sum, of one entry and of none; also one that is just cut."""
    n_entries = np.array([3, 300_000, 4096, 0, 65_537, 1])
    indptr, random = np.append(0, n_entries.cumsum()), np.random.default_rng(0)
    H = random.random((300_000, columns), np.float32)
    indices = random.integers(0, len(H), indptr[-1], np.int32)
    data = np.full(indptr[-1], 1 / 300, np.float32)
    out = np.ones((len(n_entries), columns), np.float32)
    spmm(indptr, indices, data, H, out)
    matrix = scipy.sparse.csr_array((data, indices, indptr), shape=(len(n_entries), len(H)))
    np.testing.assert_allclose(out, 1 + matrix.astype(float) @ H.astype(float), rtol=2e-6)


@given(n=st.integers(1, 20), m=st.integers(1, 20), seed=st.integers(0, 10**6))
def test_a_product_is_the_sum_of_both_halves(n, m, seed) -> None:
    """Local and remote columns one after the other, as ranks take them."""
    indptr, indices, values, G, H = made(n, m, 1, 5, seed, np.int64, np.float64)
    matrix = scipy.sparse.csr_array((values[:, 0], indices, indptr), shape=(n, m))
    both, whole = np.zeros_like(G), np.zeros_like(G)
    spmm(indptr, indices, values[:, 0], H, whole)
    for columns in (slice(0, m // 2), slice(m // 2, m)):
        half = matrix[:, columns]
        spmm(half.indptr, half.indices.astype(np.int32), half.data, H[columns], both)
    np.testing.assert_allclose(both, whole, atol=1e-12)


@pytest.mark.parametrize(("dtype", "close"), FLOATS)
@given(**shapes)
def test_attention_adds_up_to_one(dtype, close, n, m, heads, columns, seed, pointers) -> None:
    indptr, indices, _, G, H = made(n, m, heads, columns, seed, pointers, dtype)
    left, right = 300 * G[:, :heads], 300 * H[:, :heads]  # powers that overflow if not shifted
    found = edge_softmax(indptr, indices, left, right, 0.2)
    assert found.dtype == dtype
    for i in range(n):
        entries = slice(indptr[i], indptr[i + 1])
        scores = left[i].astype(float) + right[indices[entries]]
        scores = np.where(scores > 0, scores, np.float64(dtype(0.2)) * scores)
        if not len(scores):
            continue
        powers = np.exp(scores - scores.max(axis=0))
        np.testing.assert_allclose(found[entries], powers / powers.sum(axis=0), atol=300 * close)


@given(
    n=st.integers(1, 8), m=st.integers(1, 8), heads=st.integers(1, 3), seed=st.integers(0, 99),
    slope=st.sampled_from([{}, {"slope": 0.7}]),
)  # fmt: skip
def test_gradients_of_attention_equal_finite_differences(n, m, heads, seed, slope) -> None:
    columns = 3
    indptr, indices, _, G, H = made(n, m, heads, columns, seed, np.int32, np.float64)
    random = np.random.default_rng(seed)
    scores = [random.normal(size=(k, heads)) for k in (n, m)]

    def loss(left, right):
        out = np.zeros_like(G)
        spmm(indptr, indices, edge_softmax(indptr, indices, left, right, **slope), H, out)
        return float((out * G).sum())

    attention = edge_softmax(indptr, indices, *scores, **slope)
    of_attention = np.empty_like(attention)
    sddmm(indptr, indices, G, H, of_attention)
    gradients = [np.zeros_like(each) for each in scores]
    edge_softmax_backward(indptr, indices, *scores, attention, of_attention, *gradients, **slope)
    step = 1e-6
    for which, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            moved = [[each.copy() for each in scores] for _ in range(2)]
            moved[0][which][place] += step
            moved[1][which][place] -= step
            wanted = (loss(*moved[0]) - loss(*moved[1])) / (2 * step)
            np.testing.assert_allclose(gradient[place], wanted, atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    indptr, indices, values, G, H = made(5, 6, 2, 3, 0, np.int32, np.float64)
    with pytest.raises(InputError, match="float32"):
        spmm(indptr, indices, values.astype(np.float32), H, G)
    with pytest.raises(InputError, match="int32"):
        spmm(indptr, indices.astype(np.int64), values, H, G)
    with pytest.raises(InputError, match="C-contiguous"):
        spmm(indptr, indices, values, np.asfortranarray(H), G)
    with pytest.raises(InputError, match="does not fit"):
        spmm(indptr, indices, values, H, G[1:])
    with pytest.raises(InputError, match="does not fit"):
        spmm(indptr, indices, values, H[:, 1:].copy(), G)
    with pytest.raises(InputError, match="does not fit"):
        spmm(indptr, indices, values[1:], H, G)
    with pytest.raises(InputError, match="does not fit"):
        spmm(indptr, indices[1:], values, H, G)
    with pytest.raises(InputError, match="out: give a C-contiguous"):
        sddmm(indptr, indices, G, H, np.asfortranarray(values))
    with pytest.raises(InputError, match="heads"):
        spmm(indptr, indices, values, H[:, :5].copy(), G[:, :5].copy())


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("weights", [(-1.0, 1.0), (1.0, 0.0)])
def test_attention_goes_over_edges_of_any_weight(weights, n_ranks):
    loop, edge = weights
    ones = graph().copy()
    ones.data[:] = 1
    ones = ones + scipy.sparse.eye_array(N, format="csr")
    weighed = ones.copy()
    weighed.data[weighed.indices == np.repeat(np.arange(N), np.diff(weighed.indptr))] = loop
    weighed.data[np.flatnonzero(weighed.data == 1)[::3]] = edge
    expected, found = (
        model("gat", n_ranks=n_ranks).fit(features(), labels(), graph=each)
        for each in (ones, weighed)
    )
    np.testing.assert_array_equal(weights_of(found), weights_of(expected))


def without_loops():
    found = graph().tolil()
    found.setdiag(0)
    return scipy.sparse.csr_array(found)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("layer", ["gcn", "sgc", "appnp", "gat"])
def test_a_loop_that_is_stored_is_not_counted_twice(layer, n_ranks):
    """So a graph of DGL, which has its loops, is what PyTorch Geometric makes of one without."""
    plain = without_loops()
    looped = scipy.sparse.csr_array(plain + scipy.sparse.eye_array(N))
    expected, found = (
        model(layer, n_ranks=n_ranks).fit(features(), labels(), graph=each)
        for each in (plain, looped)
    )
    np.testing.assert_array_equal(weights_of(found), weights_of(expected))


def test_a_loop_that_is_stored_keeps_its_weight():
    """As `gcn_norm` of PyTorch Geometric has it; one of weight 0 is none."""
    plain = without_loops()
    own = np.where(np.arange(N) % 3, 0.0, 0.1 + np.arange(N))
    stored = scipy.sparse.csr_array(plain + scipy.sparse.diags_array(own))
    found = operator_of("normalised", stored, "float64").toarray()
    dense = plain.toarray() + np.diag(np.where(own, own, 1.0))
    roots = 1 / np.sqrt(dense.sum(axis=1))
    np.testing.assert_allclose(found, roots[:, None] * dense * roots, rtol=1e-12)
    explicit = scipy.sparse.csr_array(plain + scipy.sparse.eye_array(N))
    explicit.setdiag(0)
    assert explicit.nnz == plain.nnz + N
    both = (operator_of("normalised", each, "float64") for each in (plain, explicit))
    np.testing.assert_array_equal(*(each.toarray() for each in both))
