"""The logistic loss of yes and no, from the log-odds that a model gives to yes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_losses(answers: NDArray[Any], scores: NDArray[Any] | float) -> NDArray[np.float64]:
    """−ln of the probability that each score gives to its answer, 1 (yes) or 0; never infinite."""
    signed = np.where(answers > 0, -1.0, 1.0) * scores
    with np.errstate(invalid="ignore"):  # of scores that went to infinity some are NaN
        return np.logaddexp(0.0, signed)
