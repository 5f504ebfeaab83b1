"""The state of a linear model between two steps: weights, and all else that goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskpart.errors import InputError
from daskpart.models.base.state import State, replicated, rows_of, scalar


def _nothing() -> np.ndarray:
    return np.zeros(0)


def mean_weights(
    weights: np.ndarray, summed: np.ndarray, mass: float, count: float, n_outputs: int
) -> np.ndarray:
    """The mean of all weights of averaged SGD; names as in `LinearState`."""
    scale = np.repeat([mass, count], [len(weights) - n_outputs, n_outputs])
    return (scale * weights + summed) / count


@dataclass(eq=False, repr=False)
class LinearState(State):
    """Weights and what further steps need.

    Attributes
    ----------
    weights : float64 ndarray of shape (size,)
        ``size = (n_features + 1) · n_outputs``: feature j, output c at ``j · n_outputs + c``, the
        intercepts last.
    summed : float64 ndarray like weights, or empty
        Of averaged SGD: the mean of all weights is (mass · weights + summed) / count.
    slots : dict of str to ndarray
        Of the optimiser, or the pairs and the gradient of L-BFGS.
    residual : ndarray of shape (n_ranks, size), or (n_ranks, 0)
        What each rank has not sent yet (TopK); lies with the rank.
    n_outputs : int
    steps : int
        Batches so far.
    mass, count : float
        Of averaged SGD.
    loss : float
        At the weights, of L-BFGS; of SGD that of the last epoch, and of averaged SGD at the mean
        weights when they were looked at last.
    """

    weights: np.ndarray = replicated()
    residual: np.ndarray = rows_of("rank")
    summed: np.ndarray = replicated(default_factory=_nothing)
    slots: dict[str, np.ndarray] = replicated(default_factory=dict)
    n_outputs: int = scalar(1)
    steps: int = scalar(0)
    mass: float = scalar(0.0)
    count: float = scalar(0.0)
    loss: float = scalar(float("inf"))

    def check(self) -> None:
        """Refuse weights that are no whole number of rows (InputError)."""
        super().check()
        if self.weights.ndim != 1 or len(self.weights) % self.n_outputs:
            raise InputError(
                f"weights has shape {self.weights.shape}, for {self.n_outputs} outputs."
            )

    @property
    def averaged(self) -> np.ndarray:
        """The weights that predict: the mean of all so far, where that is kept."""
        if not len(self.summed) or not self.count:
            return self.weights
        return mean_weights(self.weights, self.summed, self.mass, self.count, self.n_outputs)

    @property
    def coefficients(self) -> np.ndarray:
        """Of shape (n_outputs, n_features)."""
        rows = self.averaged.reshape(-1, self.n_outputs)
        return np.ascontiguousarray(rows[:-1].T)

    @property
    def intercepts(self) -> np.ndarray:
        """Of shape (n_outputs,)."""
        return self.averaged[-self.n_outputs :].copy()
