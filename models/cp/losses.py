"""What a fit asks of each loss beside its iterations: sums of the tensor, memory, and words.

    loss        sums over the stored values     made of each value while a mode is updated
    squared     Σ x²
    poisson     Σ x, Σ x log x                  a ratio
    logistic    how many are 1, 0, −1           a parabola, 4 numbers

What is held out is measured by the mean loss of its entries, of squares by the root of it.

The iterations are in `als` and `completion` (squared), `counts` and `logistic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.models.optimisation.log_loss import log_losses

from .counts import check_sums, count_losses, own_sums
from .logistic import check_answers, own_answers
from .ranks import RankTensor, squared_norm

SQUARED_ERROR, POISSON, LOGISTIC = LOSSES = ("squared", "poisson", "logistic")


@dataclass(frozen=True)
class Loss:
    """One of them.

    Attributes
    ----------
    own_sums : callable
        ``own_sums(tensor)`` of a rank's stored values; they add up over ranks.
    check : callable
        ``check(sums, n_cells)`` refuses a tensor, of so many cells that are known, of which nothing
        can be learnt (InputError).
    of_each : callable
        ``of_each(values, fitted)`` of entries that are held out.
    advice : str
        What to do when factors diverged.
    made, n_made : str, int
        What is made of each value while a mode is updated, and of how many numbers.
    """

    own_sums: Callable[[RankTensor], NDArray[np.float64]]
    check: Callable[[Sequence[float], float], None]
    of_each: Callable[[NDArray[Any], NDArray[np.float64]], NDArray[np.float64]]
    advice: str
    made: str = ""
    n_made: int = 0


def check_loss(loss: str, missing: str, ridge: Any) -> None:
    """Refuse what a loss has no equations for, or cannot tell apart (InputError)."""
    if loss == LOGISTIC and missing == "zero":
        raise InputError(
            "loss='logistic' is of stored entries, 1 and 0, and missing='zero' takes all that "
            "are absent for 0: give missing='unknown'"
        )
    if loss == POISSON and any(ridge.values() if isinstance(ridge, dict) else np.ravel(ridge)):
        raise InputError(
            f"ridge={ridge!r} is of least squares, and loss='poisson' has no such equations: give "
            "ridge=0"
        )


def check_norm(of_tensor: Sequence[float], n_cells: float) -> None:
    """Refuse values whose squares are out of range (InputError)."""
    (squared,) = of_tensor
    if not np.isfinite(squared):
        raise InputError(
            "the values are too large: the sum of their squares overflows. Divide the tensor by "
            "its largest value."
        )
    if not squared:
        raise InputError(
            "the values are too small, or all 0: the sum of their squares is 0 in floating point. "
            "Divide the tensor by its largest value."
        )


def squared_errors(values: NDArray[Any], fitted: NDArray[np.float64]) -> NDArray[np.float64]:
    """(x − x̂)² of each entry."""
    return np.square(values - fitted)


OF_LOSS = {
    SQUARED_ERROR: Loss(
        squared_norm, check_norm, squared_errors, "Add a ridge, or scale the tensor."
    ),
    POISSON: Loss(own_sums, check_sums, count_losses, "Scale the tensor.", "ratios", 1),
    LOGISTIC: Loss(
        own_answers,
        lambda sums, n_cells: check_answers(sums),
        log_losses,
        "Add a ridge.",
        "parabolas",
        4,
    ),
}
