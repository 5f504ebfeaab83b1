"""CP-ALS on a dense array in a few lines of numpy: what the ranks must come to."""

from __future__ import annotations

import numpy as np

_LETTERS = "abcdefgh"


def dense_cp(array, factors, n_iterations, ridge=0.0, fixed=()):
    """Factors, weights and the fit after each iteration, from given factors; `fixed` ones stay."""
    n_modes, norm = array.ndim, np.linalg.norm(array)
    factors, fits = [factor.copy() for factor in factors], []
    for _ in range(n_iterations):
        for mode in (m for m in range(n_modes) if m not in fixed):
            others = [k for k in range(n_modes) if k != mode]
            system = np.prod([factors[k].T @ factors[k] for k in others], axis=0)
            system += ridge * np.eye(len(system))
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


def whole(factors, weights):
    """The array that factors and weights stand for."""
    letters = _LETTERS[: len(factors)]
    spec = ",".join(f"{letter}r" for letter in letters) + f",r->{letters}"
    return np.einsum(spec, *factors, weights, optimize=True)


def same_bits(one, other):
    """Weights, factors and the fit after each iteration."""
    pairs = zip(one.state_.factors, other.state_.factors, strict=True)
    return (
        all(a.tobytes() == b.tobytes() for a, b in pairs)
        and one.state_.weights.tobytes() == other.state_.weights.tobytes()
        and one.history_["fit"].tolist() == other.history_["fit"].tolist()
    )
