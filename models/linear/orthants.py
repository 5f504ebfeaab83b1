"""An L1 term in L-BFGS: within one orthant the sum of |w| is linear, so a step keeps to one.

    signs of w, and where w = 0 of the way down  ──►  the orthant
    direction d     0 where it does not go down
    step            w + s d, 0 where it would leave the orthant

The pseudo-gradient is the steepest way up: where w = 0 the term has two slopes, +λ and −λ, and
holds w there unless the loss falls by more. At the optimum it is 0. What the recursion knows of
the curvature comes from the gradients of the loss alone, as the term has none.

Source: Andrew and Gao, "Scalable training of L1-regularized log-linear models" (2007), OWL-QN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def pseudo_gradient(gradient: Vector, weights: Vector, l1: float, n_penalised: int) -> Vector:
    """Of a loss with `l1` times the sum of the first |weights|; without a term the gradient."""
    if not l1:
        return gradient
    own, signs = gradient[:n_penalised], np.sign(weights[:n_penalised])
    beyond = np.copysign(np.maximum(np.abs(own) - l1, 0), own)
    return np.concatenate([np.where(signs, own + l1 * signs, beyond), gradient[n_penalised:]])


def orthant_of(weights: Vector, pseudo: Vector) -> NDArray[Any]:
    """The signs that weights may have after a step."""
    signs = np.sign(weights)
    return np.where(signs, signs, -np.sign(pseudo))


def keep_signs(values: Vector, signs: NDArray[Any]) -> None:
    """Make those 0, in place, that have another sign."""
    values[np.sign(values) != signs] = 0
