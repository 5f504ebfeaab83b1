"""The logistic loss of yes and no, from the log-odds that a model gives to yes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

_LEAST_CURVATURE = 1e-30  # where a score says all: what is divided by it is multiplied back


def log_losses(answers: NDArray[Any], scores: NDArray[Any] | float) -> NDArray[np.float64]:
    """−ln of the probability that each score gives to its answer, 1 (yes) or 0; never infinite."""
    signed = np.where(answers > 0, -1.0, 1.0) * scores
    with np.errstate(invalid="ignore"):  # of scores that went to infinity some are NaN
        return np.logaddexp(0.0, signed)


def log_loss_derivatives(
    answers: NDArray[Any], scores: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first derivative of `log_losses` by each score, and the second, never 0."""
    chance, other = expit(scores), expit(-scores)
    # no difference of numbers near 1: a score that says all is right to many digits still
    slope = np.where(answers > 0, -other, chance)
    return slope, np.maximum(chance * other, _LEAST_CURVATURE)
