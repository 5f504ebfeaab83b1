"""Made-up ratings and the split: counts, reproducibility, popularity, and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sparse
import xarray
from hypothesis import given
from hypothesis import strategies as st

from daskpart.datasets import power_law_ratings, train_test_split_ratings
from daskpart.errors import InputError


@given(st.integers(1, 60), st.integers(2, 60), st.floats(0, 1), st.integers(0, 2**32))
def test_exactly_as_many_distinct_cells_as_asked(
    n_users: int, n_items: int, fill: float, seed: int
) -> None:
    n_ratings = max(1, int(fill * (n_users * n_items // 2)))
    ratings = power_law_ratings(n_users, n_items, n_ratings, seed)
    matrix = ratings.data
    assert matrix.shape == (n_users, n_items) and matrix.nnz == n_ratings
    keys = np.ravel_multi_index(tuple(matrix.coords), matrix.shape)
    assert (np.diff(keys) > 0).all()
    assert matrix.dtype == np.float32 and matrix.coords.dtype == np.int32
    assert np.isfinite(matrix.data).all()


def test_a_seed_fixes_all() -> None:
    first, second = (power_law_ratings(50, 40, 500, 7) for _ in range(2))
    assert first.identical(second)
    assert not first.identical(power_law_ratings(50, 40, 500, 8))
    assert ("user", "item") == first.dims and first.name == "rating"


def test_popularity_has_a_heavy_tail() -> None:
    items = power_law_ratings(5000, 1000, 100_000, 0).data.coords[1]
    popularity = np.sort(np.bincount(items, minlength=1000))[::-1]
    ranks = np.arange(10, 300)
    slope = np.polyfit(np.log(ranks), np.log(popularity[ranks]), 1)[0]
    assert slope == pytest.approx(-0.8, abs=0.12)
    assert popularity.argmax() == 0 and popularity[:100].sum() > 2 * popularity[-500:].sum()
    even = power_law_ratings(5000, 1000, 100_000, 0, user_exponent=0, item_exponent=0)
    assert np.bincount(even.data.coords[1]).max() < 160


def test_ratings_are_low_rank_plus_noise() -> None:
    clean = power_law_ratings(60, 50, 1500, 3, rank=2, noise=0.0).data
    noisy = power_law_ratings(60, 50, 1500, 3, rank=2, noise=0.25).data
    assert (noisy - clean).data.std() == pytest.approx(0.25, rel=0.1)
    assert clean.data.mean() == pytest.approx(3.5, abs=0.3)
    # two factors and two biases: rank 4; check it on a block without gaps
    users = np.bincount(clean.coords[0]).argsort()[::-1][:6]
    dense = clean.todense()[users]
    block = dense[:, (dense != 0).all(axis=0)].astype(np.float64)
    assert block.shape[1] >= 6
    assert np.linalg.svd(block, compute_uv=False)[4] < 1e-5


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((4, 4, 9), {}, "n_ratings=9 of 4 x 4 cells; it must be from 1 to 8, half of them"),
        ((4, 4, 0), {}, "n_ratings is 0: it must be at least 1"),
        ((4, None, 4), {}, "n_items is None: give a whole number"),
        ((-4, -4, 4), {}, "n_users is -4: it must be at least 1"),
        ((4, 4, 4), {"rank": -1}, "rank is -1"),
        ((4, 4, 4), {"noise": float("nan")}, "noise is nan: give a finite number of at least 0"),
        ((4, 4, 4), {"item_exponent": 1.0}, "item_exponent=1.0; it must be at least 0 and below 1"),
        ((4, 4, 4), {"user_exponent": -1}, "user_exponent is -1"),
    ],
)
def test_what_cannot_be_made(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        power_law_ratings(*arguments, **options)


FORMS: dict[str, Any] = {
    "labelled": lambda X: X,
    "COO": lambda X: X.data,
    "csr_array": lambda X: sp.csr_array(X.data.to_scipy_sparse()),
    "csc_matrix": lambda X: sp.csc_matrix(X.data.to_scipy_sparse()),
}


def as_csr(X: Any) -> sp.csr_array:
    X = X.data if isinstance(X, xarray.DataArray) else X
    return sp.csr_array(X.to_scipy_sparse() if isinstance(X, sparse.COO) else X)


@pytest.mark.parametrize("form", FORMS)
def test_the_split_deals_out_every_rating_once(form: str) -> None:
    ratings = power_law_ratings(30, 20, 200, 0)
    ratings.data.data[5] = 0  # an explicit zero is a rating
    X = FORMS[form](ratings)
    train, test = train_test_split_ratings(X, 0.2, 1)
    assert train.shape == test.shape == X.shape
    assert (as_csr(train).nnz, as_csr(test).nnz) == (160, 40)
    assert train.dtype == test.dtype == X.dtype
    both = as_csr(train) + as_csr(test)
    np.testing.assert_array_equal(both.toarray(), as_csr(X).toarray())
    again, _ = train_test_split_ratings(X, 0.2, 1)
    np.testing.assert_array_equal(as_csr(again).toarray(), as_csr(train).toarray())
    if form == "labelled":
        assert train.name == "rating" and train.coords.identical(ratings.coords)
    assert isinstance(train, sp.csr_matrix) == (form == "csc_matrix")


def test_splits_that_cannot_be() -> None:
    ratings = power_law_ratings(3, 3, 3, 0)
    with pytest.raises(InputError, match="test_fraction=1; it must be between 0 and 1"):
        train_test_split_ratings(ratings, 1)
    with pytest.raises(InputError, match="of 3 entries holds out 0"):
        train_test_split_ratings(ratings, 0.1)
    with pytest.raises(InputError, match="X is ndarray; give a DataArray"):
        train_test_split_ratings(np.ones((3, 3)), 0.5)
