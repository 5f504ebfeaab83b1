"""Multi-layer perceptrons over ranks: the estimators, with scikit-learn's attributes.

    MLPClassifier   softmax, cross-entropy        MLPRegressor   squared error

Source: Renggli, "Sparse collective operations for MPI", ETH Zürich 2017, §4.3 and §5.4, where the
largest entries of each layer's gradient travel while the layer before is computed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from daskpart.models.base.docstrings import with_shared_words
from daskpart.models.base.problem import is_lazy
from daskpart.models.base.progress import Measure
from daskpart.models.networks.losses import Loss, SoftmaxLoss, SquaredLoss
from daskpart.models.samples.estimator import SampleClassifier, SampleRegressor

from .perceptron import SHARED_ATTRIBUTES, SHARED_PARAMETERS, Perceptron


@with_shared_words(SHARED_PARAMETERS, SHARED_ATTRIBUTES)
class MLPClassifier(SampleClassifier, Perceptron):
    """Multi-layer perceptron over `n_ranks` ranks, with TopK by layer.

    Minimises the mean cross-entropy of a softmax, each sample as much as its weight says. The
    gradients of a layer are added up over the ranks while those of the layer before are computed.

    Parameters
    ----------
    {shared parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    {shared attributes}

    Examples
    --------
    >>> import daskpart
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = daskpart.MLPClassifier(n_ranks=2, transport="local", max_iter=5, top_k=2)
    >>> model.fit(X / 16, y).predict_proba(X[:3] / 16).shape
    (3, 10)
    """

    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation", "loss"),
        Measure("validation_score", "accuracy"),
    )
    _loss: ClassVar[Loss] = SoftmaxLoss()

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest probability."""
        if is_lazy(X):
            return self._lazily("predict", X, 0, self._fitted_classes().dtype)
        outputs = self._outputs(X)
        return self.classes_[outputs.argmax(axis=1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, of shape (n_samples, n_classes)."""
        if is_lazy(X):
            return self._lazily("predict_proba", X, len(self._fitted_classes()), np.float64)
        return self._loss.predicted(self._outputs(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _score_of(self, outputs: NDArray[Any], target: NDArray[Any]) -> float:
        return float((outputs.argmax(axis=1) == target).mean())


@with_shared_words(SHARED_PARAMETERS, SHARED_ATTRIBUTES)
class MLPRegressor(SampleRegressor, Perceptron):
    """Multi-layer perceptron for numbers, one or several a sample, over `n_ranks` ranks.

    As `MLPClassifier`, with the mean squared error as loss. For several targets y has the shape
    (n_samples, n_outputs); the loss is their mean, too.

    Parameters
    ----------
    {shared parameters}

    Attributes
    ----------
    {shared attributes}
    """

    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation", "loss"),
        Measure("validation_score", "R²"),
    )
    _loss: ClassVar[Loss] = SquaredLoss()
    _several_targets: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Numbers, of shape (n_samples,), or (n_samples, n_outputs) for several targets."""
        if is_lazy(X):
            self._fitted()
            n_columns = 0 if self.n_outputs_ == 1 else self.n_outputs_
            return self._lazily("predict", X, n_columns, np.float64)
        outputs = self._outputs(X).astype(np.float64)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _score_of(self, outputs: NDArray[Any], target: NDArray[Any]) -> float:
        return float(r2_score(target, outputs))
