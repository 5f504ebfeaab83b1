"""The whole state of a training between two epochs: weights, and what the optimiser remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from daskpart.models.base.state import State, replicated, scalar


@dataclass(eq=False, repr=False)
class GCNState(State):
    """Weights of all layers, the same on every rank.

    Attributes
    ----------
    weights : dict of str to ndarray
        "0.weight", "0.bias", "1.weight" …
    slots : dict of str to ndarray
        Of the optimiser; and, where a warm start began them anew, the epochs before as
        `optimisers.BEGAN`: not the steps, as an epoch may have more of them in the next fit.
    learning_rate_state : dict
        Memory of the learning rate.
    """

    weights: dict[str, NDArray[Any]] = replicated()
    slots: dict[str, NDArray[Any]] = replicated(default_factory=dict)
    learning_rate_state: dict[str, float] = scalar(default_factory=dict)

    _answers: ClassVar[tuple[str, ...]] = ("weights",)
