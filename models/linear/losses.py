"""Losses of a linear model: each a small function of a score and its target, a line in a table.

    scores z = X w + b ──► loss, and slope ∂loss/∂z       one kernel for all losses, chosen by code

    log            ln(1 + e^(−y z))          y = ±1        squared   ½ (z − y)²
    hinge          max(0, 1 − y z)                         huber     ½ r², beyond ε  ε |r| − ½ ε²
    squared hinge  max(0, 1 − y z)²                        poisson   e^z − y z, less its least
    multinomial    softmax over all outputs

With several outputs and one target a sample all but "multinomial" are one-vs-rest: the target of
output c is +1 where the sample is of class c, else −1. With a target for each output the loss of a
sample is the sum of theirs. Renggli 2017, §2.2 and §4.2.1.

To add one: a function, a line in `LOSSES`, a branch of `_one`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel

LOG, HINGE, SQUARED_HINGE, SQUARED, HUBER, MULTINOMIAL, POISSON = range(7)


@kernel(internal=True)
def _log(margin: float, y: float) -> tuple[float, float]:
    # e^−|m| never overflows
    small = exp(-abs(margin))
    loss = log1p(small) + (0.0 if margin > 0 else -margin)
    return loss, -y * (small if margin > 0 else 1.0) / (1.0 + small)


@kernel(internal=True)
def _hinge(margin: float, y: float) -> tuple[float, float]:
    return (1.0 - margin, -y) if margin < 1.0 else (0.0, 0.0)


@kernel(internal=True)
def _squared_hinge(margin: float, y: float) -> tuple[float, float]:
    gap = max(0.0, 1.0 - margin)
    return gap * gap, -2.0 * y * gap


@kernel(internal=True)
def _huber(residual: float, epsilon: float) -> tuple[float, float]:
    if abs(residual) <= epsilon:
        return 0.5 * residual * residual, residual
    slope = epsilon if residual > 0 else -epsilon
    return epsilon * abs(residual) - 0.5 * epsilon * epsilon, slope


@kernel(internal=True)
def _poisson(score: float, y: float) -> tuple[float, float]:
    # half the deviance: at e^z = y it is 0, and near it what large numbers would hide of each other
    mean = exp(score)
    if y > 0.0:
        beyond = score - log(y)
        return y * (expm1(beyond) - beyond), mean - y
    return mean, mean


@kernel(internal=True)
def _one(code: int, epsilon: float, score: float, y: float) -> tuple[float, float]:
    """Loss and slope of one score."""
    if code == LOG:
        return _log(y * score, y)
    if code == HINGE:
        return _hinge(y * score, y)
    if code == SQUARED_HINGE:
        return _squared_hinge(y * score, y)
    if code == HUBER:
        return _huber(score - y, epsilon)
    if code == POISSON:
        return _poisson(score, y)
    return 0.5 * (score - y) ** 2, score - y


@kernel(internal=True)
def slopes_of(
    code: int, epsilon: float, scores: NDArray[Any], target: NDArray[Any], row: int
) -> float:
    """Put the slopes of a sample in place of its scores; gives its loss."""
    n_outputs = len(scores)
    if n_outputs == target.shape[1]:
        total = 0.0
        for c in range(n_outputs):
            loss, scores[c] = _one(code, epsilon, scores[c], target[row, c])
            total += loss
        return total
    own = int(target[row, 0])
    if code != MULTINOMIAL:
        total = 0.0
        for c in range(n_outputs):
            loss, scores[c] = _one(code, epsilon, scores[c], 1.0 if c == own else -1.0)
            total += loss
        return total
    highest, own_score = scores[0], scores[own]
    for c in range(1, n_outputs):
        highest = max(highest, scores[c])
    total = 0.0
    for c in range(n_outputs):
        scores[c] = exp(scores[c] - highest)
        total += scores[c]
    for c in range(n_outputs):
        scores[c] /= total
    scores[own] -= 1.0
    return np.log(total) + highest - own_score


@kernel
def mean_loss(
    code: int, epsilon: float, scores: NDArray[Any], target: NDArray[Any], weight: NDArray[Any]
) -> float:
    """Weighted mean over samples; scores are spent."""
    total, mass = 0.0, 0.0
    for row in range(len(target)):
        total += weight[row] * slopes_of(code, epsilon, scores[row], target, row)
        mass += weight[row]
    return total / mass


def _one_at_most(typical: float) -> float:
    """Slope of a loss that is never steeper."""
    return 1.0


@dataclass(frozen=True)
class Loss:
    """What the rest has to know of a loss.

    Attributes
    ----------
    code : int
        By which kernels know it.
    smooth : bool
        Whether it has a gradient everywhere, so that L-BFGS may be used.
    steepest : callable
        ``steepest(w)``: size of the slope at a score of −w for a target of 1, for the first rate.
    curvature : float
        How fast the slope changes at most, by score; of "hinge", which has corners, as if 1, and of
        "poisson", for which there is no most, that at a score of 0.
    """

    code: int
    smooth: bool = True
    steepest: Callable[[float], float] = _one_at_most
    curvature: float = 1.0


LOSSES = {
    "log": Loss(LOG, curvature=0.25),
    "hinge": Loss(HINGE, smooth=False),
    "squared_hinge": Loss(SQUARED_HINGE, steepest=lambda typical: 2 * (1 + typical), curvature=2.0),
    "squared": Loss(SQUARED, steepest=lambda typical: 1 + typical),
    "huber": Loss(HUBER),
    "multinomial": Loss(MULTINOMIAL, curvature=0.5),
    "poisson": Loss(POISSON),
}
