"""The whole state of a CP fit between two iterations.

Weights and normalised factors are all that a later iteration reads: Grams follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.models.base.state import State, labels_of_each, replicated, rows_of_each, scalar


@dataclass(eq=False, repr=False)
class CPState(State):
    """Weights and factors of a CP decomposition, and all else that a fit needs to go on.

    Attributes
    ----------
    weights : float64 ndarray of shape (R,)
        λ.
    factors : list of ndarray of shape (I_m, R), float32 or float64
        One a mode, columns of length 1, of counts of sum 1.
    dims : tuple of str
        Names of the modes.
    labels : dict of str to ndarray
        Of the modes whose indices have names.
    fit : float
        1 − ‖X − X̂‖/‖X‖, of counts the share of deviance that is explained; NaN before the first
        iteration.
    intercept : float
        Of yes and no the log-odds of the share of yes, to which the decomposition adds; else 0.
    """

    weights: NDArray[np.float64] = replicated()
    factors: list[NDArray[Any]] = rows_of_each("dims")
    dims: tuple[str, ...] = scalar()
    labels: dict[str, NDArray[Any]] = labels_of_each("dims")
    fit: float = scalar(float("nan"))
    intercept: float = scalar(0.0)

    _unit: ClassVar[str] = "iteration"
    _answers: ClassVar[tuple[str, ...]] = ("weights", "factors", "fit")

    def __post_init__(self) -> None:
        self.dims = tuple(self.dims)
        for mode, factor in enumerate(self.factors):
            if factor.ndim != 2 or factor.shape[1] != self.weights.size:
                raise InputError(
                    f"the factor of mode {mode} has shape {factor.shape}; {self.weights.size} "
                    f"weights need ({self.dims[mode]}, {self.weights.size})"
                )
        super().__post_init__()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def n_components(self) -> int:
        """R, number of components."""
        return int(self.weights.size)


def better(state: Any, other: Any) -> Any:
    """Of two states the better one; the other one where they are equal."""
    return state if other is None or _merit(state) > _merit(other) else other


def _merit(state: Any) -> float:
    """How well a state fits: what it is judged by, where a best step was looked for."""
    if state.best_epoch is None:
        return state.fit
    (best,) = (row for row in state.history if row["epoch"] == state.best_epoch)
    return -best["validation_loss" if "validation_loss" in best else "validation_rmse"]
