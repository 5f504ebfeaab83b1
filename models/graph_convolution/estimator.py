"""Graph convolution over parts of a graph: the estimators.

    graph, features, labels ─► plan (partition, halos) ─► epochs on ranks ─► weights, predictions
                                plan_report_               history_  comm_report_

What an epoch is stands in `passes` and `text` (of mini-batches in `sampling` and `minibatch`), what
a layer is in `layers`; the loop, checkpoints and reports are those of every model (`models.base`).

Source: Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import StrOptions

from daskpart.containers.tables import table_in_memory
from daskpart.errors import InputError
from daskpart.models.base.class_weights import check_total, weights_of_classes
from daskpart.models.base.docstrings import with_shared_words
from daskpart.models.base.problem import text_objects
from daskpart.models.base.progress import Measure
from daskpart.models.networks.losses import Loss, SigmoidLoss, SoftmaxLoss, SquaredLoss

from .graph_network import GraphNetwork
from .plan import GCNPlan
from .problem import GraphProblem
from .shared_words import SHARED_ATTRIBUTES, SHARED_PARAMETERS
from .targets import Targets, class_targets, number_targets
from .vertex_names import named


def _is_table(y: Any) -> bool:
    return np.ndim(y) == 2 and np.shape(y)[1] > 1


@with_shared_words(SHARED_PARAMETERS, SHARED_ATTRIBUTES)
class GCNClassifier(ClassifierMixin, TransformerMixin, GraphNetwork):
    """Classify the vertices of a graph by graph convolution, trained on `n_ranks` ranks.

    Layer k computes Hᵏ = σ(Â Hᵏ⁻¹ Wᵏ + bᵏ). The rows of Â, of H and of their gradients are dealt
    out alike; a rank gets those rows of others that its columns name, while it multiplies its own.
    The result is that of one rank, whatever the number of ranks and the partition (to rounding).

    Parameters
    ----------
    {shared parameters}
    class_weight : dict, "balanced" or None, default=None
        By how much the loss of a vertex of each class is multiplied, as in scikit-learn: in the
        gradient, in loss and validation_loss of the history, and not in the scores. "balanced"
        counts the vertices that are trained on. The sum is divided by their number, while
        CrossEntropyLoss(weight=…) of torch divides by the sum of their weights ("balanced" is the
        same in both). Not of a table, where a vertex may have several classes.

    Attributes
    ----------
    classes_ : ndarray
    several_ : bool
        Whether a vertex has any number of classes, of a y with a column a class.
    {shared attributes}

    Examples
    --------
    >>> import daskpart
    >>> import numpy as np
    >>> ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30], axis=1)
    >>> y = np.where(np.arange(30) % 5 == 0, np.arange(30) // 15, -1)
    >>> model = daskpart.GCNClassifier(n_ranks=2, max_iter=50, symmetrize=True)
    >>> model.fit(None, y, graph=ring).predict().shape
    (30,)
    """

    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation"),
        Measure("validation_score", "accuracy"),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphNetwork._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    _decide_bits: ClassVar[tuple[str, ...]] = (*GraphNetwork._decide_bits, "class_weight")

    def __init__(
        self,
        hidden: Any = (16,),
        *,
        layer: Any = "gcn",
        layer_options: dict[str, Any] | None = None,
        activation: str = "relu",
        dropout: float = 0.5,
        class_weight: Any = None,
        optimizer: Any = "adam",
        learning_rate: str = "constant",
        initial_learning_rate: float = 0.01,
        power_t: float = 0.5,
        weight_decay: Any = 5e-4,
        batch_size: int | float | None = None,
        sampler: Any = "neighbour",
        max_iter: int = 200,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        monitor: str = "loss",
        symmetrize: bool = False,
        first_product: str = "auto",
        communication: str = "auto",
        partitioner: Any = "auto",
        n_ranks: int | None = None,
        transport: str = "auto",
        dtype: str = "float32",
        warm_start: bool = False,
        checkpoint_path: Any = None,
        checkpoint_every: int = 1,
        resume: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self._set_parameters(locals())

    def _plan_of_fit(self, plan: GCNPlan, problem: GraphProblem) -> GCNPlan:
        # weights of classes do not decide the cut, so a plan may have been made with others
        return replace(plan, network=replace(plan.network, loss=self._loss(problem)))

    def _targets(self, y: Any, classes: Any, goes_on: bool) -> Targets:
        named = None if classes is None else text_objects(np.asarray(classes))
        if named is not None and not _is_table(y):  # those of a table are in its columns' order
            read = class_targets(named.ravel())
            if not read.labelled.all():
                raise InputError(
                    f"classes are {named.tolist()}, and −1, NaN and None are none: they say that a "
                    "vertex is unlabelled; leave them out"
                )
            named = read.classes
        if not goes_on:
            return class_targets(y, named)
        found = self._known_targets(y)
        known = self.classes_ if self.several_ else np.unique(self.classes_)
        if named is not None and not np.array_equal(named, known):
            raise InputError(
                f"classes are {named.tolist()}, those of the last fit {self.classes_.tolist()}: "
                "leave them out, or begin a new fit"
            )
        return found

    def _loss(self, problem: GraphProblem) -> Loss:
        targets = problem.targets
        if targets.kind == "several":
            if self.class_weight is not None:
                raise InputError(
                    "class_weight weighs vertices by their class, and in a table a vertex may have "
                    "several: leave it out"
                )
            return SigmoidLoss()
        if self.class_weight is None or targets.classes is None:  # None: no labels, to predict
            return SoftmaxLoss()
        counts = np.bincount(targets.values[problem.training], minlength=targets.n_outputs)
        weights = weights_of_classes(self.class_weight, targets.classes, counts.astype(float))
        with np.errstate(over="ignore"):  # it is told
            check_total(float(counts @ weights), "vertices")
        return SoftmaxLoss(tuple(weights.tolist()))

    def predict(self, X: Any = None, *, graph: Any = None, client: Any = None) -> Any:
        """The class of every vertex; of several classes a table of 0 and 1.

        Parameters
        ----------
        X : container of shape (n, d), or None
            Features of the vertices, as in `fit`.
        graph : container, optional
            Another graph; default: that of the fit.
        client : distributed.Client, optional
            Compute on its workers: with the ranks and the parts of the fit, of another graph with
            `n_ranks` blocks of rows; to rounding the same. Default: in this process, layer by
            layer, which holds graph, features, and values of two layers.

        Returns
        -------
        ndarray, or Series or DataFrame where vertices have names
            In the order of the rows of X.
        """
        outputs, names = self._answers(X, graph, client)
        if self.several_:
            return named((outputs > 0).astype(np.int64), names, self.classes_)
        return named(self.classes_[outputs.argmax(axis=1)], names)

    def predict_proba(self, X: Any = None, *, graph: Any = None, client: Any = None) -> Any:
        """The probability of each class for every vertex, of shape (n, n_classes).

        Parameters and names are those of `predict`.
        """
        outputs, names = self._answers(X, graph, client)
        loss: Loss = SigmoidLoss() if self.several_ else SoftmaxLoss()
        return named(loss.predicted(outputs), names, self.classes_)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        mask: Any = None,
        graph: Any = None,
        client: Any = None,
    ) -> float:
        """Accuracy on the labelled vertices.

        Where a vertex may have several classes it counts if all of its row is right, as in
        scikit-learn and in `score` and `validation_score` of the history.

        Parameters
        ----------
        X
            As in `predict`.
        y : array-like
            As in `fit`, also by name. A label that the model does not know is never right.
        sample_weight : array, optional
            Of the labels, in the order of y.
        mask : array of bool, of positions or of names, optional
            Of the vertices to judge by, as `validation_mask`; default: all that are labelled.
        graph, client
            As in `predict`.

        Raises
        ------
        InputError
            Where nothing is left to judge by, or no label is known.
        """
        self._fitted()
        y = table_in_memory(y)
        given = self._known_targets(y, to_judge=True)
        outputs, targets, weight = self._judged(given, X, y, sample_weight, mask, graph, client)
        if self.several_:
            right = ((outputs > 0) == targets).all(axis=1)
        else:
            right = outputs.argmax(axis=1) == targets
        return float(np.average(right, weights=weight))

    def _known_targets(self, y: Any, *, to_judge: bool = False) -> Targets:
        if _is_table(y) != self.several_:
            of_model = "several classes a vertex" if self.several_ else "one class a vertex"
            raise InputError(f"the model was fitted on {of_model}, y is not of that kind")
        return class_targets(y, self.classes_, to_judge=to_judge)

    def _name_outputs(self, names: Any, n_outputs: int, several: bool) -> None:
        self.classes_: Any = np.arange(n_outputs) if names is None else names
        self.several_ = several


@with_shared_words(SHARED_PARAMETERS, SHARED_ATTRIBUTES)
class GCNRegressor(RegressorMixin, TransformerMixin, GraphNetwork):
    """Predict numbers for the vertices of a graph by graph convolution.

    As `GCNClassifier`, with the squared error as loss and R² as score; y holds one number a vertex
    or several, NaN where it is unknown.

    Parameters
    ----------
    {shared parameters}

    Attributes
    ----------
    columns_ : ndarray or None
        Names of the columns of y, of a DataFrame: also those of what is predicted.
    {shared attributes}

    Examples
    --------
    >>> import daskpart
    >>> import numpy as np
    >>> ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30], axis=1)
    >>> y = np.where(np.arange(30) % 5 == 0, np.arange(30.0), np.nan)
    >>> model = daskpart.GCNRegressor(n_ranks=2, max_iter=5, symmetrize=True)
    >>> model.fit(None, y, graph=ring).predict().shape
    (30,)
    """

    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation"),
        Measure("validation_score", "R²"),
    )

    def _targets(self, y: Any, classes: Any, goes_on: bool) -> Targets:
        if classes is not None:
            raise InputError(
                f"classes={classes!r}: GCNRegressor learns numbers and has none; leave them out"
            )
        return number_targets(y, self.columns_ if goes_on else None)

    def _loss(self, problem: GraphProblem) -> Loss:
        return SquaredLoss()

    def predict(self, X: Any = None, *, graph: Any = None, client: Any = None) -> Any:
        """Numbers of every vertex, of shape (n,) or (n, n_columns).

        Parameters and names are those of `GCNClassifier.predict`.
        """
        outputs, names = self._answers(X, graph, client)
        outputs = outputs[:, 0] if self.n_outputs_ == 1 else outputs
        return named(outputs, names, self.columns_)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        mask: Any = None,
        graph: Any = None,
        client: Any = None,
    ) -> float:
        """R² on the labelled vertices; parameters are those of `GCNClassifier.score`."""
        self._fitted()
        y = table_in_memory(y)
        given = number_targets(y, self.columns_)
        if given.n_outputs != self.n_outputs_:
            raise InputError(
                f"y has {given.n_outputs} numbers a vertex, the model predicts {self.n_outputs_}: "
                "give as many"
            )
        outputs, targets, weight = self._judged(given, X, y, sample_weight, mask, graph, client)
        return float(r2_score(targets, outputs, sample_weight=weight))

    def _name_outputs(self, names: Any, n_outputs: int, several: bool) -> None:
        self.columns_: Any = names
