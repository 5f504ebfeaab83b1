"""The state of a perceptron between two steps: weights, optimiser, and what is not sent yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from daskpart.models.base.state import State, replicated, rows_of, scalar


@dataclass(eq=False, repr=False)
class MLPState(State):
    """Weights and what further steps need.

    Attributes
    ----------
    weights : dict of str to ndarray
        "0.weight" of shape (n_inputs, n_outputs), "0.bias", "1.weight" …
    residual : ndarray of shape (n_ranks, n_weights), or (n_ranks, 0)
        What each rank has not sent yet (TopK), layer after layer; lies with the rank.
    slots : dict of str to ndarray
        Of the optimiser: "layer.slot.0" of its matrix, "layer.slot.1" of its bias.
    steps : int
        Batches so far.
    loss : float
        Of the last epoch.
    least : ndarray of shape (n_epochs,)
        The least loss of this fit after each of its last epochs, ten at most.
    """

    weights: dict[str, np.ndarray] = replicated()
    residual: np.ndarray = rows_of("rank")
    slots: dict[str, np.ndarray] = replicated(default_factory=dict)
    steps: int = scalar(0)
    loss: float = scalar(float("nan"))
    least: np.ndarray = replicated(default_factory=partial(np.zeros, 0))

    _answers: ClassVar[tuple[str, ...]] = ("weights",)
