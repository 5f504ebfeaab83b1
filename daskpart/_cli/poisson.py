"""`daskpart fit poisson`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskpart.errors import InputError

from .linear import SampleModel


class _Poisson(SampleModel):
    """Fit the logarithm of a count to SAMPLES: the count of each sample from its features."""

    estimator = "PoissonRegressor"
    example = "X.libsvm"
    score = "D²"

    def _check_labels(self, source: str, y: Any) -> None:
        super()._check_labels(source, y)
        if y.min() < 0:
            at = int(np.argmax(y < 0))
            raise InputError(
                f"{source}: sample {at + 1} has the label {y[at]:g}: counts and rates are 0 or "
                "above; for other numbers use 'daskpart fit linear'"
            )


MODEL = _Poisson()
