"""A rank's rows cut by coordinates: the same bits wherever rows are cut, in memory and on disk."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskpart.models.linear import coordinate_blocks
from daskpart.models.linear.columns import add_products, add_scores
from daskpart.models.linear.coordinate_blocks import CoordinateBlocks, add_curvature, parts_of
from daskpart.models.samples.examples_on_disk import Disk, StoredExamples
from daskpart.models.samples.rows import RankRows, StoredRows, rank_rows
from daskpart.readers.libsvm import Rows


@st.composite
def sparse_rows(draw) -> RankRows:
    """A few rows, some of them empty, with zeros among the stored values."""
    shape = draw(st.integers(0, 12)), draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    dense = random.normal(size=shape) * (random.random(shape) < draw(st.sampled_from([0.1, 0.6])))
    X = scipy.sparse.csr_array(dense.astype(draw(st.sampled_from([np.float32, np.float64]))))
    X.data[random.random(X.nnz) < 0.1] = 0.0
    return rank_rows(0, X, random.normal(size=shape[0]), random.random(shape[0]))


def on_disk(rows: RankRows, n_features: int) -> StoredRows[RankRows]:
    stored = StoredExamples(Disk(tempfile.gettempdir(), 0), n_features, rows.dtype)
    lengths = np.diff(rows.pointer)
    stored.append(Rows(lengths, rows.indices, rows.data, rows.target[:, 0]), 0)
    return StoredRows(
        0, stored, lambda read: rank_rows(0, read.data, read.target, np.ones(len(read.target)))
    )


def cut(rows, n_features, intercept, block, n_blocks) -> CoordinateBlocks:
    parts = [matrix for _, matrix in parts_of(rows, n_features, intercept)]
    touched = sum(np.bincount(part.indices, minlength=n_features + 1) for part in parts) > 0
    found = CoordinateBlocks(rows, touched, block, n_blocks)
    for part in parts:
        found.add(part)
    return found


def products_and_scores(found: CoordinateBlocks, slopes, weights) -> list[bytes]:
    """Xᵀ s and X w, block by block."""
    scores, every = np.zeros(slopes.shape), []
    for ids, pieces in zip(found.ids, found.pieces, strict=True):
        products = np.zeros((len(ids), slopes.shape[1]))
        for piece in pieces:
            add_products(*piece.entries, slopes[piece.own], products)
            add_scores(*piece.entries, weights[ids], scores[piece.own])
        every.append(products)
    return [*every, scores]


@given(
    sparse_rows(), st.integers(1, 4), st.booleans(), st.integers(1, 3), st.integers(1, 13),
    st.integers(0, 99),
)  # fmt: skip
def test_products_are_those_of_the_matrix_wherever_rows_are_cut(
    rows, n_blocks, intercept, n_outputs, most_rows, seed
):
    random = np.random.default_rng(seed)
    n_features = int(rows.indices.max(initial=0)) + 1
    block = random.integers(0, n_blocks, n_features + 1).astype(np.int32)
    slopes = random.normal(size=(len(rows), n_outputs))
    weights = random.normal(size=(n_features + 1, n_outputs))
    shared = {"n_features": n_features, "intercept": intercept, "block": block}
    whole = cut(rows, **shared, n_blocks=n_blocks)
    wanted = products_and_scores(whole, slopes, weights)

    ones = np.full((len(rows), 1), intercept)
    dense = np.hstack([rows.matrix(n_features).toarray().astype(float), ones])
    for number, ids in enumerate(whole.ids):
        np.testing.assert_array_equal(
            ids, np.flatnonzero((block == number) & (dense != 0).any(axis=0))
        )
        np.testing.assert_allclose(wanted[number], dense[:, ids].T @ slopes, atol=1e-12)
    np.testing.assert_allclose(wanted[-1], dense @ weights, atol=1e-12)

    for held in (rows, on_disk(rows, n_features)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coordinate_blocks, "MOST_ROWS", most_rows)
            pieces = cut(held, **shared, n_blocks=n_blocks)
        found = products_and_scores(pieces, slopes, weights)
        assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]


@given(sparse_rows(), st.integers(1, 4), st.integers(1, 13), st.integers(0, 99))
def test_the_curvature_is_that_of_its_formula(rows, n_blocks, most_rows, seed):
    random = np.random.default_rng(seed)
    n_features = int(rows.indices.max(initial=0)) + 1
    block = random.integers(0, n_blocks, n_features + 1).astype(np.int32)
    found = []
    for most in (len(rows) + 1, most_rows):
        bound, mass = np.zeros(n_features + 1), np.zeros(n_blocks)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coordinate_blocks, "MOST_ROWS", most)
            for part, matrix in parts_of(rows, n_features, True):
                arrays = matrix.indptr, matrix.indices, matrix.data
                add_curvature(*arrays, part.weight, block, mass, bound)
        found.append(bound)
    assert found[0].tobytes() == found[1].tobytes()
    sizes = np.hstack([abs(rows.matrix(n_features).toarray()), np.ones((len(rows), 1))])
    sizes = sizes.astype(float)
    for j, bound in enumerate(found[0]):
        mass = sizes[:, block == block[j]].sum(axis=1)
        assert bound == pytest.approx(rows.weight @ (sizes[:, j] * mass), rel=1e-12)


def test_pieces_on_disk_are_held_one_at_a_time(monkeypatch):
    X = scipy.sparse.csr_array(np.random.default_rng(0).normal(size=(300, 20)))
    rows = rank_rows(0, X, np.zeros(300), np.ones(300))
    block = (np.arange(21) % 4).astype(np.int32)
    monkeypatch.setattr(coordinate_blocks, "_STORED_ENTRIES", 30 * 20)
    here, there = cut(rows, 20, False, block, 4), cut(on_disk(rows, 20), 20, False, block, 4)
    assert here.nbytes == sum(piece.entries.nbytes for each in here.pieces for piece in each)
    assert [len(list(pieces)) for pieces in there.pieces] == [10] * 4
    assert there.nbytes == max(piece.entries.nbytes for each in there.pieces for piece in each)
    assert there.nbytes < here.nbytes / 30
