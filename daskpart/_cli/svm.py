"""`daskpart fit svm`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from .linear import SampleModel


class _SVM(SampleModel):
    """Learn from SAMPLES to tell classes apart, by a wide margin."""

    estimator = "LinearSVC"
    example = "a9a.libsvm"
    classifies = True


MODEL = _SVM()
