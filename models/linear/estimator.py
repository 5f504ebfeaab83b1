"""Linear models over ranks: the estimators, with scikit-learn's parameters and attributes.

    LogisticRegression   log loss, softmax or one-vs-rest          C
    LinearSVC            hinge or squared hinge, one-vs-rest       C
    LinearRegression     squared or Huber loss                     alpha
    PoissonRegressor     half the Poisson deviance, log link       alpha

All minimise the mean of the weighted losses plus λ (½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁) over
weights and an unpenalised intercept, with λ = 1 / (C Σ sample_weight), or λ = alpha: scikit-learn's
objectives, so the same optimum.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.metrics import d2_tweedie_score
from sklearn.utils._param_validation import Interval, StrOptions

from daskpart.models.base.fitted import as_fitted
from daskpart.models.base.parameters import AT_LEAST_0, COUNT, POSITIVE
from daskpart.models.samples.estimator import SampleClassifier, SampleRegressor, is_lazy_or_file
from daskpart.models.samples.problem import counts, encoded

from .delayed_blocks import DelayedBlocks
from .linear_model import LinearModel, shared_words
from .losses import LOSSES, Loss
from .sgd_on_server import ServerSgd


class LinearClassifier(SampleClassifier, LinearModel):
    """What the two classifiers share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "C": [Interval(Real, 0, np.inf, closed="right")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearModel._decide_bits, "C", "class_weight")

    C: float
    class_weight: Any

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: of the second class if there are two, else of every class."""
        return self._scores_or_lazily("decision_function", X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score."""
        if is_lazy_or_file(X):
            return self._lazily("predict", X, 0, self._fitted_classes().dtype)
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return self.classes_[(scores.ravel() > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    _encode = staticmethod(encoded)

    def _n_outputs(self, classes: NDArray[Any]) -> int:
        return 1 if len(classes) == 2 else len(classes)

    def _strength(self, problem: Any) -> float:
        return 1.0 / (self.C * problem.total_weight)

    def _keep_more(self, problem: Any, plan: Any) -> None:
        super()._keep_more(problem, plan)
        self.coef_, self.intercept_ = self.state_.coefficients, self.state_.intercepts


@shared_words(eta0=0.3)
class LogisticRegression(LinearClassifier):
    """Logistic regression over `n_ranks` ranks, with sparse gradients.

    Minimises C Σ s_i ℓ_i + ½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁ as scikit-learn does.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the strength of the penalty; infinite for none.
    l1_ratio : float, default=0.0
        Share of the L1 term in the penalty (elastic net).
    multi_class : {"multinomial", "ovr"}, default="multinomial"
        With more than two classes: one softmax, or each class against the rest.
    n_blocks : int, default=16
        Of ``solver="server"``, which goes beside "lbfgs" and "sgd": delayed block proximal gradient
        on the parameter server, for any `l1_ratio`. Coordinates are fetched and sent in so many
        blocks. More blocks make longer steps and more messages.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    {shared parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        One output for two classes, else one a class.
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    {shared attributes}

    Examples
    --------
    >>> import daskpart, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = daskpart.LogisticRegression(n_ranks=2, transport="local").fit(X, y)
    >>> model.coef_.shape
    (1, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "multi_class": [StrOptions({"multinomial", "ovr"})],
        "solver": [StrOptions({"lbfgs", "sgd", "server"})],
        "n_blocks": [COUNT],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *LinearClassifier._decide_bits,
        *("multi_class", "n_blocks"),
    )

    multi_class: str
    n_blocks: int

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        multi_class: str = "multinomial",
        n_blocks: int = 16,
        class_weight: Any = None,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int = 128,
        optimizer: str = "auto",
        learning_rate: str = "auto",
        eta0: float = 0.3,
        power_t: float = 0.5,
        average: bool | str = "auto",
        shuffle: bool = True,
        partitioner: str = "auto",
        aggregation: str = "auto",
        delay: float = 0,
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
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

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, of shape (n_samples, n_classes)."""
        if is_lazy_or_file(X):
            return self._lazily("predict_proba", X, len(self._fitted_classes()), np.float64)
        scores = self._scores(X)
        if scores.shape[1] == 1:
            second = expit(scores)
            return np.hstack([1 - second, second])
        if as_fitted(self, "multi_class").multi_class == "multinomial":
            return softmax(scores, axis=1)
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _server_options(self, plan: Any, problem: Any) -> ServerSgd | DelayedBlocks:
        if self.solver != "server":
            return super()._server_options(plan, problem)
        l1, l2 = self._penalty(problem)
        return DelayedBlocks(
            n_samples=problem.n_samples,
            n_features=problem.n_features,
            n_outputs=problem.n_outputs,
            joint=self._is_joint(problem.n_outputs),
            intercept=bool(self.fit_intercept),
            n_blocks=int(self.n_blocks),
            delay=float(self.delay),
            l1=l1,
            l2=l2,
        )

    def _loss_of(self, n_outputs: int) -> Loss:
        return LOSSES["multinomial" if self._is_joint(n_outputs) else "log"]

    def _is_joint(self, n_outputs: int) -> bool:
        """Whether the outputs are one softmax."""
        return n_outputs > 1 and self.multi_class == "multinomial"


@shared_words(eta0=0.3)
class LinearSVC(LinearClassifier):
    """Linear support vector machine over `n_ranks` ranks, with sparse gradients.

    Minimises C Σ s_i ℓ_i + ½ ‖w‖², each class against the rest. Unlike scikit-learn's, the
    intercept is not penalised.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the strength of the penalty.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" needs solver="sgd".
    l1_ratio : float, default=0.0
        Share of the L1 term in the penalty (elastic net).
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    {shared parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        One output for two classes, else one a class.
    intercept_ : ndarray of shape (n_outputs,)
    classes_ : ndarray of shape (n_classes,)
    {shared attributes}

    Examples
    --------
    >>> import daskpart, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "above", "below")
    >>> model = daskpart.LinearSVC(n_ranks=2, transport="local").fit(X, y)
    >>> model.predict([[1.0, -1.0, 0.0]]).tolist()
    ['above']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "loss": [StrOptions({"hinge", "squared_hinge"})],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearClassifier._decide_bits, "loss")

    loss: str

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_hinge",
        l1_ratio: float = 0.0,
        class_weight: Any = None,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int = 128,
        optimizer: str = "auto",
        learning_rate: str = "auto",
        eta0: float = 0.3,
        power_t: float = 0.5,
        average: bool | str = "auto",
        shuffle: bool = True,
        partitioner: str = "auto",
        aggregation: str = "auto",
        delay: float = 0,
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
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

    def _loss_of(self, n_outputs: int) -> Loss:
        return LOSSES[self.loss]


class LinearRegressor(SampleRegressor, LinearModel):
    """What the two regressions share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alpha": [AT_LEAST_0],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearModel._decide_bits, "alpha")
    _decaying: ClassVar[str] = "invscaling"

    alpha: float

    def _strength(self, problem: Any) -> float:
        return float(self.alpha)

    def _keep_more(self, problem: Any, plan: Any) -> None:
        super()._keep_more(problem, plan)
        coefficients, intercepts = self.state_.coefficients, self.state_.intercepts
        several = problem.n_outputs > 1
        self.coef_ = coefficients if several else coefficients[0]
        self.intercept_ = intercepts if several else float(intercepts[0])


@shared_words(eta0=0.1)
class LinearRegression(LinearRegressor):
    """Linear regression over `n_ranks` ranks: least squares, ridge, lasso, elastic net, Huber.

    Minimises the mean of s_i ℓ_i plus alpha (½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁), with ℓ half
    the squared error or the Huber loss. With alpha=0 that is scikit-learn's LinearRegression (where
    many weights fit as well, fewer rows than weights, say, it has the shortest of them, and this
    need not); with solver="sgd" its SGDRegressor, whose parameters these are (so there is no class
    of that name). Lasso and ElasticNet have the same alpha and l1_ratio; that of Ridge, which adds
    losses up, is alpha · Σ s_i (alpha · n without weights).
    For several targets y has the shape (n_samples, n_outputs), and the losses of a sample add up:
    each target has the optimum that it has alone.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        Half the squared error, or beyond `epsilon` linear.
    alpha : float, default=0.0
        Strength of the penalty, on the mean loss.
    l1_ratio : float, default=0.0
        Share of the L1 term in the penalty (elastic net).
    epsilon : float, default=1.35
        Residual from which the Huber loss is linear, in the units of y as in SGDRegressor (whose
        default is 0.1); that of HuberRegressor is in units of a scale that it estimates.
    {shared parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_outputs, n_features) for several targets
    intercept_ : float, or ndarray of shape (n_outputs,)
    {shared attributes}

    Examples
    --------
    >>> import daskpart, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = daskpart.LinearRegression(n_ranks=2, transport="local").fit(X, 2 * X[:, 0] + 1)
    >>> model.coef_.round(3).tolist(), round(model.intercept_, 3)
    ([2.0, 0.0, 0.0], 1.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearRegressor._parameter_constraints,
        "loss": [StrOptions({"squared", "huber"})],
        "epsilon": [POSITIVE],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearRegressor._decide_bits, "loss", "epsilon")

    _adaptive: ClassVar[str] = "sgd"  # weights may be large, of which AdaGrad knows nothing
    _several_targets: ClassVar[bool] = True

    loss: str
    epsilon: float

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float = 0.0,
        l1_ratio: float = 0.0,
        epsilon: float = 1.35,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int = 128,
        optimizer: str = "auto",
        learning_rate: str = "auto",
        eta0: float = 0.1,
        power_t: float = 0.5,
        average: bool | str = "auto",
        shuffle: bool = True,
        partitioner: str = "auto",
        aggregation: str = "auto",
        delay: float = 0,
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
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

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Targets, of shape (n_samples,), or (n_samples, n_outputs) for several."""
        return self._scores_or_lazily("predict", X)

    def _loss_of(self, n_outputs: int) -> Loss:
        return LOSSES[self.loss]


@shared_words(eta0=0.1)
class PoissonRegressor(LinearRegressor):
    """Regression of counts and rates over `n_ranks` ranks: a generalised linear model, log link.

    Minimises the mean of s_i (e^z_i − y_i z_i) plus alpha (½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁),
    z = X w + b, as scikit-learn's PoissonRegressor does (which has no L1 term). Of counts over
    unequal times or areas give rates as y, and the times or areas as `sample_weight`.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, on the mean loss.
    l1_ratio : float, default=0.0
        Share of the L1 term in the penalty (elastic net).
    {shared parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    {shared attributes}

    Notes
    -----
    `loss` of the history is half the mean deviance: 0 where every e^z is its y.

    Examples
    --------
    >>> import daskpart, numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(500, 3))
    >>> y = random.poisson(np.exp(X[:, 0]))
    >>> model = daskpart.PoissonRegressor(alpha=0, n_ranks=2, transport="local").fit(X, y)
    >>> float(abs(model.coef_ - [1, 0, 0]).max()) < 0.1
    True
    """

    _encode = staticmethod(counts)

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int = 128,
        optimizer: str = "auto",
        learning_rate: str = "auto",
        eta0: float = 0.1,
        power_t: float = 0.5,
        average: bool | str = "auto",
        shuffle: bool = True,
        partitioner: str = "auto",
        aggregation: str = "auto",
        delay: float = 0,
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The count or rate that is expected, of shape (n_samples,)."""
        if is_lazy_or_file(X):
            return self._lazily("predict", X, 0, np.float64)
        with np.errstate(over="ignore"):  # infinite, where X is far beyond that of the fit
            return np.exp(self._scores(X)[:, 0])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """D², the share of the deviance that is explained; a file has its own y.

        Where all of y is alike, nothing is to be explained: 1 for those who say so, else 0, as R².
        """
        found, y, weight = self._to_score(X, y, sample_weight)
        y = counts(y, None)
        judged = y if weight is None else y[weight > 0]
        if len(y) > 1 and judged.min() == judged.max():
            return float((found == y).all())
        positive = np.clip(found, 1e-200, 1e200)  # so that what is made of them is finite
        return float(d2_tweedie_score(y, positive, sample_weight=weight, power=1))

    def _loss_of(self, n_outputs: int) -> Loss:
        return LOSSES["poisson"]
