"""CP in a few lines of numpy: what the ranks begin with, and what they must come to."""

from __future__ import annotations

import numpy as np
import pytest

_LETTERS = "abcdefgh"


def first_factors(shape, n_components, seed=1):
    random = np.random.default_rng(seed)
    return [random.random((extent, n_components)) for extent in shape]


def assert_close(state, expected, tolerance):
    """Factors, weights and the fit after each iteration, as `dense_cp` gives them."""
    factors, weights, fits = expected
    for own, factor in zip(state.factors, factors, strict=True):
        np.testing.assert_allclose(own, factor, rtol=0, atol=tolerance)
    np.testing.assert_allclose(state.weights, weights, rtol=tolerance)
    np.testing.assert_allclose([row["fit"] for row in state.history], fits, rtol=0, atol=tolerance)


def assert_serial(result, tensor, expected, tolerance):
    """A fit has the numbers of a serial one, its own score, and sent and held what was planned."""
    assert_close(result.state_, expected, tolerance)
    assert result.fit_ == pytest.approx(result.score(tensor), abs=tolerance)
    report = result.comm_report_
    assert report.matches, report
    assert report.expected_bytes == report.measured_bytes
    assert (report.memory <= report.expected_memory).all()


def dense_cp(array, factors, n_iterations, ridge=0.0, fixed=()):
    """Factors, weights and the fit after each iteration, from given factors; `fixed` ones stay.

    `ridge` is that of all modes, or one a mode.
    """
    n_modes, norm = array.ndim, np.linalg.norm(array)
    ridge = np.broadcast_to(ridge, n_modes)
    factors, fits = [factor.copy() for factor in factors], []
    for _ in range(n_iterations):
        for mode in (m for m in range(n_modes) if m not in fixed):
            others = [k for k in range(n_modes) if k != mode]
            system = np.prod([factors[k].T @ factors[k] for k in others], axis=0)
            system += ridge[mode] * np.eye(len(system))
            solved = products(array, factors, mode) @ np.linalg.pinv(system, hermitian=True)
            weights = np.linalg.norm(solved, axis=0)
            factors[mode] = solved / np.where(weights > 0, weights, 1)
        fits.append(1 - np.linalg.norm(array - whole(factors, weights)) / norm)
    return factors, weights, fits


def products(array, factors, mode):
    """MTTKRP along one mode."""
    letters = _LETTERS[: array.ndim]
    others = [k for k in range(array.ndim) if k != mode]
    terms = ",".join(f"{letters[k]}r" for k in others)
    spec = f"{letters},{terms}->{letters[mode]}r"
    return np.einsum(spec, array, *[factors[k] for k in others], optimize=True)


def rows_at(factors, cells):
    """For each cell the product of the rows of its indices, component by component."""
    return np.prod([factor[i] for factor, i in zip(factors, cells, strict=True)], axis=0)


def whole(factors, weights):
    """The array that factors and weights stand for."""
    letters = _LETTERS[: len(factors)]
    spec = ",".join(f"{letter}r" for letter in letters) + f",r->{letters}"
    return np.einsum(spec, *factors, weights, optimize=True)
