"""Multi-layer perceptrons over ranks: the estimators, with scikit-learn's attributes.

    MLPClassifier   softmax, or a sigmoid for each of several classes: cross-entropy
    MLPRegressor    squared error

Source: Renggli, "Sparse collective operations for MPI", ETH Zürich 2017, §4.3 and §5.4, where the
largest entries of each layer's gradient travel while the layer before is computed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import column_or_1d

from daskpart.errors import InputError
from daskpart.models.base.docstrings import with_shared_words
from daskpart.models.base.progress import Measure
from daskpart.models.networks.losses import Loss, SigmoidLoss, SoftmaxLoss, SquaredLoss
from daskpart.models.samples.estimator import SampleClassifier, SampleRegressor, is_lazy_or_file

from .perceptron import SHARED_ATTRIBUTES, SHARED_PARAMETERS, Perceptron


@with_shared_words(SHARED_PARAMETERS, SHARED_ATTRIBUTES)
class MLPClassifier(SampleClassifier, Perceptron):
    """Multi-layer perceptron over `n_ranks` ranks, with TopK by layer.

    Minimises the mean cross-entropy of a softmax, each sample as much as its weight says. The
    gradients of a layer are added up over the ranks while those of the layer before are computed.
    Where a sample may have several classes, y is a table of 0 and 1 of shape (n_samples,
    n_classes), each class has a probability of its own, and the loss is the mean over the table.

    Parameters
    ----------
    {shared parameters}
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; not of a table, where a sample may have several.

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
        *Perceptron._measures,
        Measure("validation_score", "accuracy"),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Perceptron._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*Perceptron._decide_bits, "class_weight")
    _several_targets: ClassVar[bool] = True

    class_weight: Any

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        *,
        activation: str = "relu",
        class_weight: Any = None,
        alpha: float = 1e-4,
        optimizer: Any = "adam",
        learning_rate: str = "constant",
        learning_rate_init: float = 1e-3,
        power_t: float = 0.5,
        batch_size: int = 64,
        max_iter: int = 200,
        tol: float = 1e-4,
        shuffle: bool = True,
        aggregation: str = "auto",
        top_k: int | None = None,
        top_k_bucket: int | None = 512,
        top_k_approximate: bool = False,
        n_ranks: int | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        transport: str = "auto",
        warm_start: bool = False,
        checkpoint_path: Any = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest probability; of several classes a table of 0 and 1."""
        classes = self._fitted_classes()
        if is_lazy_or_file(X):
            return self._lazily("predict", X, len(classes) * self.several_, classes.dtype)
        outputs = self._outputs(X)
        if self.several_:
            return (outputs > 0).astype(np.int64)
        return classes[outputs.argmax(axis=1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, of shape (n_samples, n_classes); a row's sum is 1 but of
        several classes.
        """
        if is_lazy_or_file(X):
            return self._lazily("predict_proba", X, len(self._fitted_classes()), np.float64)
        return self._loss_of(self.several_).predicted(self._outputs(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _targets(self, y: Any, classes: Any) -> tuple[NDArray[np.float64], int, Any]:
        if y.ndim == 1 or y.shape[1] == 1:
            return super()._targets(column_or_1d(y, warn=True), classes)
        if self.class_weight is not None:
            raise InputError(
                "class_weight weighs samples by their class, and in a table a sample may have "
                "several: leave it out, or give sample_weight"
            )
        table = np.asarray(y, np.float64)
        strange = np.argwhere((table != 0) & (table != 1))
        if len(strange):
            row, column = strange[0].tolist()
            raise InputError(
                f"y[{row}, {column}] is {table[row, column]:g}: a table of several classes holds "
                "0 and 1. For several targets of more classes fit a model each, as "
                "sklearn.multioutput.MultiOutputClassifier does."
            )
        numbers = np.arange(table.shape[1])
        if classes is not None and not np.array_equal(classes, numbers):
            raise InputError(
                f"y has {len(numbers)} columns, a class each, so classes are 0 to "
                f"{len(numbers) - 1}, not {np.asarray(classes).tolist()}"
            )
        return table, len(numbers), numbers

    def _going_on(self, state: Any, problem: Any) -> Any:
        if problem.several != self.several_:  # the same weights would serve another loss
            of_model = "several classes a sample" if self.several_ else "one class a sample"
            raise InputError(
                f"the last fit was on {of_model}, y is not of that kind; give a y like it, or "
                "warm_start=False to begin anew"
            )
        return super()._going_on(state, problem)

    def _loss_of(self, several: bool) -> Loss:
        return SigmoidLoss() if several else SoftmaxLoss()

    def _score_of(self, outputs: NDArray[Any], target: NDArray[Any]) -> float:
        if target.ndim == 2:
            return float(((outputs > 0) == target).all(axis=1).mean())
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

    Examples
    --------
    >>> import daskpart, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = daskpart.MLPRegressor((8,), n_ranks=2, max_iter=5, tol=0).fit(X, X[:, 0])
    >>> model.predict(X[:4]).shape
    (4,)
    """

    _measures: ClassVar[tuple[Measure, ...]] = (
        *Perceptron._measures,
        Measure("validation_score", "R²"),
    )
    _several_targets: ClassVar[bool] = True

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Numbers, of shape (n_samples,), or (n_samples, n_outputs) for several targets."""
        if is_lazy_or_file(X):
            self._fitted()
            n_columns = 0 if self.n_outputs_ == 1 else self.n_outputs_
            return self._lazily("predict", X, n_columns, np.float64)
        outputs = self._outputs(X).astype(np.float64)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _loss_of(self, several: bool) -> Loss:
        return SquaredLoss()

    def _score_of(self, outputs: NDArray[Any], target: NDArray[Any]) -> float:
        return float(r2_score(target, outputs))
