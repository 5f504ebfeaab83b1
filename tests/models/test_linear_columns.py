"""Rows by columns: the gradient of all rows is that of the rows one by one, to the bit."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskpart.models.linear import columns
from daskpart.models.linear.columns import add_gradient, by_columns, column_blocks
from daskpart.models.linear.kernels import GRADIENT, WEIGHT, accumulate
from daskpart.models.linear.losses import LOG, MULTINOMIAL, SQUARED, SQUARED_HINGE
from daskpart.models.samples.rows import rank_rows

AS_IT_IS = np.array([1.0, 0.0])


def made(n_rows, n_features, n_outputs, dtype, seed, code):
    random = np.random.default_rng(seed)
    X = scipy.sparse.random_array(
        (n_rows, n_features), density=0.3, format="csr", dtype=dtype, rng=random
    )
    target = random.normal(size=n_rows) if code == SQUARED else random.choice([-1.0, 1.0], n_rows)
    if n_outputs > 1:
        target = random.integers(n_outputs, size=n_rows).astype(float)
    weights = random.normal(size=(n_features + 1) * n_outputs)
    return rank_rows(0, X, target, random.uniform(0.0, 2.0, n_rows)), weights


def by_rows(rows, weights, n_outputs, share, code, intercept):
    """(loss, gradient) by the kernel of SGD."""
    table = np.zeros((len(weights), GRADIENT + 1))
    table[:, WEIGHT] = weights
    touched = np.zeros(len(weights) // 64 + 1, np.uint64)
    _, loss = accumulate(
        *rows.arrays, np.arange(len(rows)), share, code, 0.1, 0.0, 0.0, intercept, table, AS_IT_IS,
        np.empty(n_outputs), touched,
    )  # fmt: skip
    return loss, table[:, GRADIENT]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    shape=st.tuples(st.integers(0, 40), st.integers(1, 20)),
    n_outputs=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    code=st.sampled_from([LOG, SQUARED_HINGE, SQUARED]),
    intercept=st.booleans(),
    most_rows=st.sampled_from([1, 3, 7, 65_536]),
)
def test_all_rows_at_once_are_the_rows_one_by_one(
    dtype, shape, n_outputs, seed, code, intercept, most_rows
):
    code = code if n_outputs == 1 else MULTINOMIAL
    rows, weights = made(*shape, n_outputs, dtype, seed, code)
    gradient, loss = np.zeros((len(weights) // n_outputs, n_outputs)), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MOST_ROWS", most_rows)
        held = by_columns(rows, n_outputs=n_outputs)
    for block in column_blocks(held, None):
        loss += add_gradient(
            block, 0.5, code, 0.1, intercept, weights.reshape(gradient.shape), gradient
        )
    expected, of_rows = by_rows(rows, weights, n_outputs, 0.5, code, intercept)
    assert len(held.blocks) == max(1, -(-shape[0] // most_rows))
    np.testing.assert_array_equal(gradient.ravel(), of_rows)
    assert loss == pytest.approx(expected, rel=1e-12)


def test_scores_of_a_block_fit_the_cache_however_many_outputs_there_are():
    rows, _ = made(100, 5, 1, np.float64, 0, LOG)
    assert [len(b.target) for b in by_columns(rows, n_outputs=1 << 15).blocks] == [2] * 50
    assert len(by_columns(rows, n_outputs=1 << 20).blocks) == 100
