"""`daskpart fit logistic`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from .linear import SampleModel


class _Logistic(SampleModel):
    """Learn from SAMPLES to tell classes apart, with probabilities."""

    estimator = "LogisticRegression"
    example = "a9a.libsvm"
    classifies = True


MODEL = _Logistic()
