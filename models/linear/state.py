"""The state of a linear model between two steps: weights, and all else that goes on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from daskpart.errors import InputError
from daskpart.models.base.state import State, replicated, rows_of, scalar


@dataclass(eq=False, repr=False)
class LinearState(State):
    """Weights and what further steps need.

    Attributes
    ----------
    weights : float64 ndarray of shape (size,)
        ``size = (n_features + 1) · n_outputs``: feature j, output c at ``j · n_outputs + c``, the
        intercepts last.
    mean : float64 ndarray like weights, or empty
        Of averaged SGD: the mean of the weights at the ends of epochs.
    slots : dict of str to ndarray
        Of the optimiser, or the pairs and the gradient of L-BFGS.
    residual : ndarray of shape (n_ranks, size), or (n_ranks, 0)
        What each rank has not sent yet (TopK); lies with the rank.
    n_outputs : int
    steps : int
        Batches so far.
    loss : float
        At the weights, of L-BFGS; of SGD that of the last epoch, and of averaged SGD at the mean
        weights when they were looked at last. NaN where the fit has not come to it yet, or
        never asks (averaged SGD with a tolerance of 0).
    """

    weights: np.ndarray = replicated()
    residual: np.ndarray = rows_of("rank")
    mean: np.ndarray = replicated(default_factory=partial(np.zeros, 0))
    slots: dict[str, np.ndarray] = replicated(default_factory=dict)
    n_outputs: int = scalar(1)
    steps: int = scalar(0)
    loss: float = scalar(float("nan"))

    _answers: ClassVar[tuple[str, ...]] = ("weights", "mean")

    def check(self) -> None:
        """Refuse weights that are no whole number of rows (InputError)."""
        super().check()
        if self.weights.ndim != 1 or len(self.weights) % self.n_outputs:
            raise InputError(
                f"weights has shape {self.weights.shape}, for {self.n_outputs} outputs."
            )

    @property
    def averaged(self) -> np.ndarray:
        """The weights that predict: the mean, where it is kept."""
        return self.mean if len(self.mean) else self.weights

    @property
    def coefficients(self) -> np.ndarray:
        """Of shape (n_outputs, n_features)."""
        rows = self.averaged.reshape(-1, self.n_outputs)
        return np.ascontiguousarray(rows[:-1].T)

    @property
    def intercepts(self) -> np.ndarray:
        """Of shape (n_outputs,)."""
        return self.averaged[-self.n_outputs :].copy()
