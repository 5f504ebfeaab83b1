"""Indices stay as narrow as they are: SciPy makes them as wide as the pointer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart._floor.compressed_rows import compressed_rows, entries_of_rows
from daskpart._incidence import group, transpose
from daskpart.models.samples.rows import rank_rows


@pytest.mark.parametrize("pointer_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_are_narrow_and_shared_where_they_were(dtype, pointer_dtype):
    values, indices = np.arange(5.0), np.array([0, 2, 1, 0, 2], dtype)
    pointer = np.array([0, 2, 2, 5], pointer_dtype)
    rows = compressed_rows(values, indices, pointer, (3, 4))
    assert rows.indices.dtype == rows.indptr.dtype == np.int32
    assert np.shares_memory(rows.data, values)
    assert np.shares_memory(rows.indices, indices) == (dtype == np.int32)
    assert not np.shares_memory(rows.indptr, pointer)  # sums of duplicates change it
    assert rows.toarray().tolist() == [[0, 0, 1, 0], [0, 0, 0, 0], [3, 2, 4, 0]]


@given(st.lists(st.integers(0, 4), max_size=8), st.data())
def test_entries_of_rows_are_those_of_a_sparse_matrix(sizes, data):
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=12)) if sizes else []
    pointer = np.cumsum([0, *sizes])
    own, places = entries_of_rows(pointer, np.array(chosen, np.int64))
    assert own.dtype == places.dtype == np.int64
    expected = [range(pointer[row], pointer[row + 1]) for row in chosen]
    assert places.tolist() == [place for each in expected for place in each]
    assert np.diff(own).tolist() == [*map(len, expected)]


def test_wide_rows_have_wide_indices():
    rows = compressed_rows(np.ones(1), np.array([2**40]), np.array([0, 1]), (1, 2**41))
    assert rows.indices.dtype == np.int64
    assert rows.indices.tolist() == [2**40]


def test_rows_of_a_rank_are_no_copy():
    """A fit asks for them block by block."""
    X = compressed_rows(np.arange(5.0), np.arange(5, dtype=np.int32), np.array([0, 2, 5]), (2, 5))
    rows = rank_rows(0, X, [0, 1], [1, 1])
    assert np.shares_memory(rows.matrix(5).indices, X.indices)


def test_transposing_takes_few_bytes_an_entry(least_peak):
    n_rows, n_columns = 3_000, 500
    pointer = np.arange(0, 100 * n_rows + 1, 100)
    indices = np.sort(np.random.default_rng(0).integers(0, n_columns, (n_rows, 100)), axis=1)
    indices = indices.astype(np.int32).ravel()
    _, most = least_peak(lambda: transpose(pointer, indices, n_columns))
    _, of_group = least_peak(lambda: group(indices, indices, n_columns))
    # a byte of truth before and behind, and four for the row
    assert most < 6.6 * len(indices)
    assert of_group < 8.4 * len(indices)
