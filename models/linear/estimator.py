"""Linear models over ranks: the estimators, with scikit-learn's parameters and attributes.

    LogisticRegression   log loss, softmax or one-vs-rest          C
    LinearSVC            hinge or squared hinge, one-vs-rest       C
    LinearRegression     squared or Huber loss                     alpha

All minimise the mean of the weighted losses plus λ (½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁) over
weights and an unpenalised intercept, with λ = 1 / (C Σ sample_weight), or λ = alpha: scikit-learn's
objectives, so the same optimum.
"""

from __future__ import annotations

import inspect
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from daskpart.errors import InputError
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.estimator import COUNT, DistributedEstimator
from daskpart.models.base.plan import FitPlan
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.optimisation.aggregation import (
    NAMES,
    Aggregator,
    aggregation_of,
    compressor_of,
)
from daskpart.models.optimisation.optimisers import OPTIMIZERS, optimizer_of
from daskpart.models.optimisation.schedules import SCHEDULES, schedule_of

from .lbfgs import Lbfgs
from .losses import LOSSES, Loss
from .plan import LinearPlan
from .problem import Samples, encoded, weights_of
from .rows import members_of_ranks
from .sgd import Sgd
from .state import LinearState
from .text import LinearText

_POSITIVE = Interval(Real, 0, None, closed="neither")
_AT_LEAST_0 = Interval(Real, 0, None, closed="left")
_SHARED = """\
fit_intercept : bool, default=True
    Fit an intercept, which is not penalised.
solver : {"lbfgs", "sgd"}, default="lbfgs"
    "lbfgs": full gradients, to the optimum. "sgd": batches, with sparse updates.
max_iter : int, default=100
    Iterations of L-BFGS, or epochs.
tol : float, default=1e-4
    Stop when no entry of the gradient is larger (lbfgs), or when the loss changes less (sgd).
batch_size : int, default=32
    Samples of each rank in a step of SGD: K ranks take K · batch_size.
optimizer : {"sgd", "momentum", "adagrad", "adam"}, default="sgd"
    All but "sgd" change all weights in every step.
learning_rate : {"optimal", "constant", "invscaling", "step"}, default="%s"
    1 / (λ (t0 + t)); eta0; eta0 / t^power_t; eta0 halved each 10 epochs.
eta0 : float, default=0.1
    First learning rate.
power_t : float, default=0.5
    Of "invscaling": 1 is 1/t, 0.5 is 1/√t.
average : bool, default=False
    Predict with the mean of the weights after all steps of SGD.
shuffle : bool, default=True
    Shuffle the samples over all ranks, and anew in each epoch. Data sorted by class need it.
aggregation : str, default="auto"
    How gradients are added up: "dense", an algorithm of `daskpart.collectives.sparse_allreduce`,
    or "auto", which takes the quickest at each step and gives the bits of "dense".
top_k : int or None, default=None
    Send the k largest entries of a rank's gradient only, and keep the rest for the next step.
top_k_bucket : int or None, default=None
    Choose the k largest of each so many coordinates.
top_k_approximate : bool, default=False
    Draw entries by their size, k in expectation, which is quicker than to choose.
overlap : bool, default=False
    Add up gradients while the next batch is computed: its gradient is one step stale.
n_ranks : int or None, default=None
    Ranks that hold the samples. None: as many as the workers have threads, or this process cores.
patience : int or None, default=None
    Stop after so many epochs without a lower loss on the `eval_set` of ``fit``.
transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
    How ranks send; see `MatrixFactorization`.
warm_start : bool, default=False
    Begin at the weights of the last fit.
checkpoint_path : path or None, default=None
    ``run.npz`` or ``run.zarr``; written every `checkpoint_every` epochs, the last two stay.
checkpoint_every : int, default=1
    Epochs between two checkpoints.
resume : bool, default=False
    Begin at the newest checkpoint, if there is one; gives the bits of an unbroken fit.
random_state : int, RandomState or None, default=0
    Fixes the shuffles, and what approximate TopK draws.
verbose : int, default=0
    1: progress bar with the loss.
"""
_SHARED_ATTRIBUTES = """\
n_features_in_, feature_names_in_ : int, ndarray of str
n_iter_ : int
    Epochs or iterations done.
history_ : pandas.DataFrame
    One row an epoch: loss (with the penalty; of SGD each sample's before its step), its change,
    density of the summed gradients, seconds, seconds_computing, seconds_communicating (means over
    ranks), messages, bytes.
state_ : LinearState
    All that a further epoch needs.
plan_report_, comm_report_ : PlanReport, CommunicationReport
"""


def _with_shared_words(kind: type) -> type:
    """Fill in what the docstrings of all three say alike."""
    rate = inspect.signature(kind).parameters["learning_rate"].default
    words = (kind.__doc__ or "").replace("    {shared parameters}\n", _indented(_SHARED % rate))
    kind.__doc__ = words.replace("    {shared attributes}\n", _indented(_SHARED_ATTRIBUTES))
    return kind


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _by_sgd(model: Any) -> bool:
    if model.solver != "sgd":
        raise AttributeError("partial_fit goes with solver='sgd'")
    return True


class LinearModel(DistributedEstimator):
    """What all linear models share: parameters, plan, text."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DistributedEstimator._parameter_constraints,
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"lbfgs", "sgd"})],
        "batch_size": [COUNT],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "learning_rate": [StrOptions(set(SCHEDULES))],
        "eta0": [_POSITIVE],
        "power_t": [_AT_LEAST_0],
        "average": ["boolean"],
        "shuffle": ["boolean"],
        "aggregation": [StrOptions(set(NAMES))],
        "top_k": [COUNT, None],
        "top_k_bucket": [COUNT, None],
        "top_k_approximate": ["boolean"],
        "overlap": ["boolean"],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }
    _decide_plan: ClassVar[tuple[str, ...]] = ("solver", "batch_size", "shuffle")
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *_decide_plan,
        *("l1_ratio", "fit_intercept", "optimizer", "learning_rate", "eta0", "power_t", "average"),
        *("aggregation", "top_k", "top_k_bucket", "top_k_approximate", "overlap"),
    )
    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation", "loss"),
    )
    _state_class: ClassVar[type[State]] = LinearState
    _tolerance_column: ClassVar[str | None] = "change"
    _patience_column: ClassVar[str] = "validation_loss"

    l1_ratio: float
    fit_intercept: bool
    solver: str
    batch_size: int
    optimizer: str
    learning_rate: str
    eta0: float
    power_t: float
    average: bool
    shuffle: bool
    aggregation: str
    top_k: int | None
    top_k_bucket: int | None
    top_k_approximate: bool
    overlap: bool
    state_: LinearState

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Keep the arguments of ``__init__`` under their names."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

    # -- what a model of the three says ---

    def _loss_of(self, n_outputs: int) -> Loss:
        raise NotImplementedError

    def _strength(self, problem: Any) -> float:
        """λ, of the mean loss."""
        raise NotImplementedError

    def _targets(self, y: Any, classes: Any) -> tuple[NDArray[np.float64], int, Any]:
        """Targets as kernels take them, number of outputs, classes."""
        raise NotImplementedError

    # -- fitting ---

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        plan: FitPlan | None = None,
        client: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            At least 0.
        eval_set : tuple (X, y), optional
            Samples to measure `validation_loss` on after each epoch.
        plan : LinearPlan, optional
            Of these samples, from `plan`.
        client : distributed.Client, optional
            Default: the current one.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad parameters or samples, before anything is computed.
        DivergenceError
            When weights became NaN or infinite; those of the last good epoch are kept.
        """
        return self._fit(
            X, y, plan=plan, client=client, sample_weight=sample_weight, eval_set=eval_set
        )

    def _check(self) -> None:
        sgd = self.solver == "sgd"
        if self.solver == "lbfgs":
            if not self._loss_of(1).smooth:
                raise InputError("loss='hinge' has corners, so solver='lbfgs' stops short of it; "
                                 "choose solver='sgd', or loss='squared_hinge'")  # fmt: skip
            if self.l1_ratio:
                raise InputError("l1_ratio above 0 needs solver='sgd'")
        if sgd and self.optimizer != "sgd" and (self.l1_ratio or self.average):
            raise InputError("l1_ratio and average go with optimizer='sgd' only")
        if sgd and self.average and self.l1_ratio:
            raise InputError("average goes with l1_ratio=0: a mean of sparse weights is not sparse")
        if self.top_k is None and (self.top_k_bucket is not None or self.top_k_approximate):
            raise InputError("top_k_bucket and top_k_approximate need top_k")
        if not sgd and (self.top_k is not None or self.overlap or self.average):
            raise InputError("top_k, overlap and average need solver='sgd'")
        compressor_of(self.top_k, self.top_k_bucket, self.top_k_approximate, 0)

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Samples:
        if self.patience is not None and data.get("eval_set") is None:
            raise InputError("patience needs eval_set=(X, y) in fit")
        goes_on = data.get("goes_on", False)
        problem = self._samples(X, y, data.get("sample_weight"), data.get("classes"), not goes_on)
        if data.get("eval_set") is not None:
            try:
                held_X, held_y = data["eval_set"]
            except (TypeError, ValueError):
                raise InputError("eval_set is a tuple (X, y)") from None
            problem.validation = self._samples(held_X, held_y, None, problem.classes, False)
        return problem

    def _samples(self, X: Any, y: Any, sample_weight: Any, classes: Any, reset: bool) -> Samples:
        if hasattr(X, "to_scipy_sparse"):  # pydata/sparse
            X = X.to_scipy_sparse()
        X, y = validate_data(
            self, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        target, n_outputs, classes = self._targets(y, classes)
        weight = weights_of(weight, getattr(self, "class_weight", None), y, classes)
        return Samples(X, target, n_outputs, weight, classes)

    def _make_plan(
        self, problem: Any, n_ranks: int, *, transport: str, random_state: int, kept: Any
    ) -> LinearPlan:
        sgd = self.solver == "sgd"
        batch = int(self.batch_size) if sgd else 1
        shuffle = bool(self.shuffle) and sgd
        members = members_of_ranks(problem.n_samples, n_ranks, batch, random_state, shuffle)
        size = (problem.n_features + 1) * problem.n_outputs
        vectors = 2 + bool(self.average) + bool(self.l1_ratio) if sgd else 26
        return LinearPlan(
            n_ranks=n_ranks,
            partitioner="shuffle" if shuffle else "cyclic",
            members=members,
            weight_bytes=8 * size * vectors,
            row_bytes=problem.bytes_of(members),
        )

    def _first_state(self, problem: Any, plan: Any) -> LinearState:
        size = (problem.n_features + 1) * problem.n_outputs
        return LinearState(
            weights=np.zeros(size),
            residual=self._no_residual(plan.n_ranks, size),
            n_outputs=problem.n_outputs,
        )

    def _no_residual(self, n_ranks: int, size: int) -> NDArray[np.float64]:
        return np.zeros((n_ranks, 0 if self.top_k is None else size))

    def _going_on(self, state: Any, problem: Any) -> Any:
        size = (problem.n_features + 1) * problem.n_outputs
        if len(state.weights) != size or state.n_outputs != problem.n_outputs:
            raise InputError(
                f"the last fit was of {len(state.weights) // state.n_outputs - 1} features and "
                f"{state.n_outputs} outputs, these are {problem.n_features} and "
                f"{problem.n_outputs}; begin anew with warm_start=False"
            )
        return state

    def _text(self, session: Any, plan: Any, problem: Any, state: Any) -> LinearText:
        rows = problem.rows_of(plan.members)
        return LinearText(session, rows, self._options(plan, problem), float(self.tol))

    def _options(self, plan: Any, problem: Any) -> Sgd | Lbfgs:
        loss, strength = self._loss_of(problem.n_outputs), self._strength(problem)
        aggregation = aggregation_of(self.aggregation)
        shared = {
            "loss": loss.code,
            "epsilon": float(getattr(self, "epsilon", 0.0)),
            "intercept": bool(self.fit_intercept),
            "n_outputs": problem.n_outputs,
        }
        if self.solver == "lbfgs":
            return Lbfgs(
                **shared, l2=strength, n_samples=problem.n_samples,
                aggregator=Aggregator(aggregation),
            )  # fmt: skip
        l1, l2 = strength * self.l1_ratio, strength * (1 - self.l1_ratio)
        compressor = compressor_of(
            self.top_k, self.top_k_bucket, self.top_k_approximate, plan.random_state
        )
        return Sgd(
            **shared,
            l1=l1,
            l2=l2,
            average=bool(self.average),
            overlap=bool(self.overlap),
            shuffle=bool(self.shuffle),
            batch_size=int(self.batch_size),
            random_state=plan.random_state,
            sizes=plan.sizes,
            schedule=schedule_of(
                self.learning_rate, float(self.eta0), power=float(self.power_t), strength=strength,
                steepest=loss.steepest,
            ),
            optimizer=optimizer_of(self.optimizer),
            aggregator=Aggregator(aggregation, compressor),
        )  # fmt: skip

    def _evaluation(self, problem: Any) -> Any:
        held = problem.validation
        if held is None:
            return None
        loss = self._loss_of(held.n_outputs)
        epsilon = float(getattr(self, "epsilon", 0.0))

        def evaluate(state: LinearState) -> dict[str, float]:
            scores = held.X @ state.coefficients.T + state.intercepts
            return {"validation_loss": loss.mean(scores, held.target, held.weight, epsilon)}

        return evaluate

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of shape (n_samples, n_outputs)."""
        state = self._fitted()
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return np.asarray(X @ state.coefficients.T + state.intercepts)


class LinearClassifier(ClassifierMixin, LinearModel):
    """What the two classifiers share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "C": [Interval(Real, 0, np.inf, closed="right")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearModel._decide_bits, "C", "class_weight")

    C: float
    class_weight: Any
    classes_: NDArray[Any]

    @available_if(_by_sgd)
    @with_callbacks
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
    ) -> Self:
        """Train one more epoch on these samples, from the weights so far.

        Parameters
        ----------
        X, y, sample_weight, client
            As for `fit`.
        classes : array, optional
            All classes; needed on the first call.
        """
        if hasattr(self, "classes_"):
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise InputError(
                    f"classes={np.unique(classes).tolist()} differ from those of the first call, "
                    f"{self.classes_.tolist()}"
                )
            known = self.classes_
        elif classes is None:
            raise InputError("classes must be passed on the first call to partial_fit")
        else:
            known = np.unique(classes)
        return self._fit(
            X, y, client=client, one_step=True, classes=known, sample_weight=sample_weight,
            goes_on=hasattr(self, "state_"),
        )  # fmt: skip

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: of the second class if there are two, else of every class."""
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return self.classes_[(scores.ravel() > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def _targets(self, y: Any, classes: Any) -> tuple[NDArray[np.float64], int, Any]:
        check_classification_targets(y)
        classes = np.unique(y) if classes is None else np.asarray(classes)
        target = encoded(y, classes)
        return target, 1 if len(classes) == 2 else len(classes), classes

    def _strength(self, problem: Any) -> float:
        return 1.0 / (self.C * problem.total_weight)

    def _keep_more(self, problem: Any, plan: Any) -> None:
        self.classes_ = problem.classes
        self.coef_, self.intercept_ = self.state_.coefficients, self.state_.intercepts


@_with_shared_words
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
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*LinearClassifier._decide_bits, "multi_class")

    multi_class: str

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        multi_class: str = "multinomial",
        class_weight: Any = None,
        fit_intercept: bool = True,
        solver: str = "lbfgs",
        max_iter: int = 100,
        tol: float = 1e-4,
        batch_size: int = 32,
        optimizer: str = "sgd",
        learning_rate: str = "optimal",
        eta0: float = 0.1,
        power_t: float = 0.5,
        average: bool = False,
        shuffle: bool = True,
        aggregation: str = "auto",
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
        n_ranks: int | None = None,
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
        scores = self._scores(X)
        if scores.shape[1] == 1:
            second = expit(scores)
            return np.hstack([1 - second, second])
        if self.multi_class == "multinomial":
            return softmax(scores, axis=1)
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1), 1 / each.shape[1])

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Their logarithms."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _loss_of(self, n_outputs: int) -> Loss:
        joint = n_outputs > 1 and self.multi_class == "multinomial"
        return LOSSES["multinomial" if joint else "log"]


@_with_shared_words
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
        batch_size: int = 32,
        optimizer: str = "sgd",
        learning_rate: str = "optimal",
        eta0: float = 0.1,
        power_t: float = 0.5,
        average: bool = False,
        shuffle: bool = True,
        aggregation: str = "auto",
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
        n_ranks: int | None = None,
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


@_with_shared_words
class LinearRegression(RegressorMixin, LinearModel):
    """Linear regression over `n_ranks` ranks: least squares, ridge, lasso, elastic net, Huber.

    Minimises the mean of s_i ℓ_i plus alpha (½ (1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁), with ℓ half
    the squared error or the Huber loss. With alpha=0 that is scikit-learn's LinearRegression; with
    solver="sgd" its SGDRegressor, whose parameters these are (so there is no class of that name).

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        Half the squared error, or beyond `epsilon` linear.
    alpha : float, default=0.0
        Strength of the penalty.
    l1_ratio : float, default=0.0
        Share of the L1 term in the penalty (elastic net).
    epsilon : float, default=1.35
        Residual from which the Huber loss is linear.
    {shared parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    {shared attributes}
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "loss": [StrOptions({"squared", "huber"})],
        "alpha": [_AT_LEAST_0],
        "epsilon": [_POSITIVE],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (
        *LinearModel._decide_bits,
        *("loss", "alpha", "epsilon"),
    )

    loss: str
    alpha: float
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
        batch_size: int = 32,
        optimizer: str = "sgd",
        learning_rate: str = "invscaling",
        eta0: float = 0.1,
        power_t: float = 0.5,
        average: bool = False,
        shuffle: bool = True,
        aggregation: str = "auto",
        top_k: int | None = None,
        top_k_bucket: int | None = None,
        top_k_approximate: bool = False,
        overlap: bool = False,
        n_ranks: int | None = None,
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

    @available_if(_by_sgd)
    @with_callbacks
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, client: Any = None) -> Self:
        """Train one more epoch on these samples, from the weights so far.

        Parameters are those of `fit`.
        """
        return self._fit(
            X, y, client=client, one_step=True, sample_weight=sample_weight,
            goes_on=hasattr(self, "state_"),
        )  # fmt: skip

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Targets, of shape (n_samples,)."""
        return self._scores(X).ravel()

    def _targets(self, y: Any, classes: Any) -> tuple[NDArray[np.float64], int, Any]:
        return np.asarray(y, np.float64), 1, None

    def _strength(self, problem: Any) -> float:
        return float(self.alpha)

    def _loss_of(self, n_outputs: int) -> Loss:
        return LOSSES[self.loss]

    def _keep_more(self, problem: Any, plan: Any) -> None:
        self.coef_ = self.state_.coefficients[0]
        self.intercept_ = float(self.state_.intercepts[0])
