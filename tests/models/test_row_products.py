"""Rows times R × R matrices, and Grams: against numpy, for any width, whatever stands beside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError
from daskpart.models.cp.kernels.row_products import gram_of, multiply_rows

rows_and_components = {"n": st.integers(0, 300), "rank": st.integers(1, 70)}


def random_rows(n: int, rank: int, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(n * 100 + rank).normal(size=(n, rank)).astype(dtype)


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-4), (np.float64, 1e-11)])
@given(**rows_and_components)
def test_products_equal_numpy(dtype, close, n, rank) -> None:
    products, matrix = random_rows(n, rank, dtype), random_rows(rank, rank)
    out = np.full_like(products, np.nan)
    multiply_rows(products, matrix, out)
    np.testing.assert_allclose(out, products.astype(float) @ matrix, rtol=0, atol=close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(**rows_and_components)
def test_grams_equal_numpy_in_double_precision(dtype, n, rank) -> None:
    rows = random_rows(n, rank, dtype)
    gram = gram_of(rows)
    assert gram.dtype == np.float64 and (gram == gram.T).all()
    np.testing.assert_allclose(gram, rows.T.astype(float) @ rows.astype(float), atol=1e-11)
    np.testing.assert_array_equal(gram_of(np.asfortranarray(rows)), gram)


@given(n=st.integers(1, 30), rank=st.integers(1, 40), start=st.integers(0, 29))
def test_a_row_has_its_bits_wherever_it_stands(n, rank, start) -> None:
    products, matrix = random_rows(n, rank), random_rows(rank, rank)
    whole, part = np.empty_like(products), np.empty_like(products[start:])
    multiply_rows(products, matrix, whole)
    multiply_rows(products[start:], matrix, part)
    assert whole[start:].tobytes() == part.tobytes()


@pytest.mark.parametrize(
    "out", [np.empty((3, 2), np.float32), np.empty((2, 2)), np.empty((3, 4))[:, ::2]]
)
def test_a_result_that_does_not_fit_never_reaches_the_kernel(out) -> None:
    with pytest.raises(InputError, match="C-contiguous float64"):
        multiply_rows(np.ones((3, 2)), np.eye(2), out)
