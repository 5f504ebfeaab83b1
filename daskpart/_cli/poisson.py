"""`daskpart fit poisson`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from .linear import SampleModel


class _Poisson(SampleModel):
    """Fit the logarithm of a count to SAMPLES: the count of each sample from its features."""

    estimator = "PoissonRegressor"
    example = "X.libsvm"
    score = "D²"


MODEL = _Poisson()
