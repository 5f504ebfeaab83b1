"""CP-ALS on one rank: against numpy on dense arrays, pyttb on real tensors, and tensorly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sparse
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from benchmarks.serial_cp import SerialCP
from daskpart.containers.tensor import as_tensor
from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.starts import first_factors, singular_vectors


def start_of(shape: tuple[int, ...], rank: int, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.random((n, rank)) for n in shape]


def layout_of(dense: np.ndarray) -> TensorLayout:
    where = np.array(np.nonzero(dense)).astype(np.int32)
    return TensorLayout.build(where, dense[dense != 0], dense.shape)


def dense_fits(dense: np.ndarray, factors: list[np.ndarray], n_iterations: int) -> list[float]:
    """By unfolding, Khatri-Rao products and least squares, with the residual itself."""
    factors, fits = [factor.copy() for factor in factors], []
    for _ in range(n_iterations):
        for mode in range(dense.ndim):
            rows = np.ones((1, factors[0].shape[1]))
            for factor in (f for k, f in enumerate(factors) if k != mode):
                rows = np.einsum("ir,jr->ijr", rows, factor).reshape(-1, factor.shape[1])
            unfolded = np.moveaxis(dense, mode, 0).reshape(dense.shape[mode], -1)
            factors[mode] = np.linalg.lstsq(rows, unfolded.T, rcond=None)[0].T
            residual = np.linalg.norm(unfolded - factors[mode] @ rows.T)
            if mode < dense.ndim - 1:  # the last one carries the scale
                factors[mode] /= np.linalg.norm(factors[mode], axis=0)
        fits.append(1 - residual / np.linalg.norm(dense))
        factors[-1] /= np.linalg.norm(factors[-1], axis=0)
    return fits


@given(
    shape=st.lists(st.integers(3, 6), min_size=2, max_size=4).map(tuple),
    seed=st.integers(0, 30),
)
def test_fits_equal_least_squares_on_a_dense_array(shape, seed) -> None:
    generator = np.random.default_rng(seed)
    dense = generator.random(shape) * (generator.random(shape) < 0.7) + np.eye(*shape[:2]).reshape(
        *shape[:2], *(1,) * (len(shape) - 2)
    )
    start = start_of(shape, 2, seed)
    wanted = dense_fits(dense, start, 4)
    np.testing.assert_allclose(
        SerialCP(layout_of(dense), start).iterate(4).fits, wanted, atol=1e-10
    )


def test_factors_are_normalised_and_rebuild_what_has_the_rank() -> None:
    true = start_of((6, 7, 5), 2, 3)
    dense = np.einsum("ir,jr,kr->ijk", *true)
    model = SerialCP(layout_of(dense), start_of(dense.shape, 2)).iterate(400)
    for factor in model.factors:
        np.testing.assert_allclose(np.linalg.norm(factor, axis=0), 1)
    rebuilt = np.einsum("ir,jr,kr,r->ijk", *model.factors, model.weights)
    np.testing.assert_allclose(rebuilt, dense, atol=1e-3)
    assert model.fits[-1] > 0.999 and (np.diff(model.fits) > -1e-6).all()


@pytest.mark.parametrize("shape", [(9, 5, 4), (4, 3), (1100, 3, 4), (1100, 2)])
def test_singular_vectors_are_those_of_the_unfolded_tensor(shape) -> None:
    """Of short modes, of long ones, of fewer columns than components; signs by the largest."""
    values = np.random.default_rng(0).normal(size=shape)
    values[1::7] = 0
    found = first_factors("nvecs", as_tensor(sparse.COO(values)), shape, 3, random_state=0)
    for mode, factor in enumerate(found):
        unfolded = np.moveaxis(values, mode, 0).reshape(shape[mode], -1)
        vectors = np.linalg.svd(unfolded, full_matrices=False)[0][:, :3]
        largest = np.abs(vectors).argmax(axis=0)
        vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
        np.testing.assert_allclose(factor[:, : vectors.shape[1]], vectors, atol=1e-6)
        drawn = factor[:, vectors.shape[1] :]
        assert ((drawn >= 0) & (drawn < 1)).all()


def test_of_more_cells_than_64_bits_number_they_are_the_same() -> None:
    tensor = as_tensor(sparse.random((6, 4, 4, 4), 0.5, random_state=0))
    apart = tensor.coordinates.copy()
    apart[1:] <<= 20
    wide = replace(tensor, coordinates=apart, shape=(6, 1 << 22, 1 << 22, 1 << 22))
    one, other = (singular_vectors(each, 0, 3, np.random.default_rng(0)) for each in (tensor, wide))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_equal_columns_make_a_gram_without_inverse_and_do_no_harm() -> None:
    dense = np.random.default_rng(0).random((5, 6, 7))
    start = [np.repeat(factor[:, :1], 3, axis=1) for factor in start_of(dense.shape, 1)]
    three = SerialCP(layout_of(dense), start).iterate(5)
    one = SerialCP(layout_of(dense), [factor[:, :1] for factor in start]).iterate(5)
    np.testing.assert_allclose(three.fits, one.fits, atol=1e-10)


def test_nonnegative_stays_so_and_ridge_shrinks() -> None:
    dense = np.random.default_rng(0).random((5, 6, 7))
    start = start_of(dense.shape, 3)
    kept = SerialCP(layout_of(dense), start, nonnegative=True).iterate(10)
    assert all((factor >= 0).all() for factor in kept.factors) and kept.fits[-1] > 0.4
    plain = SerialCP(layout_of(dense), start).iterate(1)
    ridged = SerialCP(layout_of(dense), start, ridge=1.0).iterate(1)
    assert ridged.weights.sum() < plain.weights.sum()


def test_single_precision_comes_near_double() -> None:
    dense = np.random.default_rng(0).random((8, 9, 40))
    start = start_of(dense.shape, 4)
    single = SerialCP(layout_of(dense.astype(np.float32)), start).iterate(10)
    assert single.factors[0].dtype == np.float32
    np.testing.assert_allclose(
        single.fits, SerialCP(layout_of(dense), start).iterate(10).fits, atol=1e-5
    )


REAL = ("splatt-med.tns.gz", "wikipeople-3.tns.gz", "wikipeople-4.tns.gz")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_twenty_iterations_fit_as_pyttb_does(shared_data: Path, name: str) -> None:
    pyttb = pytest.importorskip("pyttb")
    tensor = daskpart.read(shared_data / "tensors" / name)
    start = start_of(tensor.shape, 4)
    layout = TensorLayout.build(
        tensor.coords.astype(np.int32), tensor.data.astype(np.float64), tensor.shape
    )
    ours = SerialCP(layout, start).iterate(20).fits[-1]
    theirs = pyttb.cp_als(
        pyttb.sptensor(tensor.coords.T, tensor.data[:, None].astype(float), tensor.shape), 4,
        init=pyttb.ktensor([factor.copy() for factor in start]), maxiters=20, stoptol=0,
        printitn=0,
    )[2]["fit"]  # fmt: skip
    assert ours == pytest.approx(theirs, abs=1e-8)


@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_twenty_iterations_fit_as_tensorly_does() -> None:
    pytest.importorskip("tensorly")
    from tensorly.decomposition import parafac

    dense = np.random.default_rng(0).random((12, 9, 10))
    start = start_of(dense.shape, 4)
    theirs = parafac(
        dense, 4, init=(np.ones(4), [factor.copy() for factor in start]), n_iter_max=20, tol=0,
        normalize_factors=True, return_errors=True,
    )[1]  # fmt: skip
    ours = SerialCP(layout_of(dense), start).iterate(20).fits
    np.testing.assert_allclose(ours, 1 - np.array(theirs, float)[:20], atol=1e-8)
