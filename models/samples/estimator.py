"""The estimator over samples: rows and targets checked, spread over ranks, scores asked lazily.

    X, y ─► Samples ─► SamplesPlan ─► rows of each rank
            │ memory, a Dask collection, a file

A model says what its targets are, and what is trained on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from daskpart._floor.checks import refuse_masked, refuse_path_or_dataset
from daskpart._floor.words import not_read
from daskpart.collectives import PerRank
from daskpart.collectives.topk import ApproximateTopK, Compressor, TopK
from daskpart.errors import InputError
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.class_weights import refuse_balanced, weights_of_classes
from daskpart.models.base.docstrings import with_words_of_fit
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.labels import sorting_labels
from daskpart.models.base.parameters import COUNT, SHARE
from daskpart.models.base.plan import FitPlan
from daskpart.models.base.problem import (
    canonical_rows,
    checked_weights,
    dense_targets,
    held_by,
    in_memory,
    is_lazy,
    numbers_to_learn,
    refuse_another_order,
    refuse_times,
    refused,
    scipy_rows,
    share_held_out,
    text_objects,
)
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State
from daskpart.models.optimisation.aggregation import NAMES, Aggregator
from daskpart.readers import ExamplesFile

from .file_answers import answers_of_file
from .files import FileSamples, check_file, classes_of, label_mass
from .given import Given, classes_in
from .lazy import answered, lazy_rows, whole_targets
from .problem import (
    LazySamples,
    Samples,
    class_numbers,
    numbers,
    refuse_missing,
    weights_of,
)

# of a fitted model, that its answers for chunks, which have no names, do not need
_NOT_TO_ANSWER = ("feature_names_in_", "coef_", "intercept_", "plan_report_", "comm_report_")


class SampleModel(DistributedEstimator):
    """What all models of samples share: data, their places, how gradients are added up."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DistributedEstimator._parameter_constraints,
        "batch_size": [COUNT],
        "shuffle": ["boolean"],
        "validation_fraction": [SHARE],
        "aggregation": [StrOptions(set(NAMES))],
        "top_k": [COUNT, None],
        "top_k_bucket": [COUNT, None],
        "top_k_approximate": ["boolean"],
    }
    _measures: ClassVar[tuple[Measure, ...]] = (
        Measure("loss", "loss"),
        Measure("validation_loss", "validation", "loss"),
    )
    _tolerance_column: ClassVar[str | None] = "change"
    _patience_column: ClassVar[str] = "validation_loss"
    _several_targets: ClassVar[bool] = False  # whether y may have columns

    batch_size: int
    shuffle: bool
    validation_fraction: float
    aggregation: str
    top_k: int | None
    top_k_bucket: int | None
    top_k_approximate: bool
    class_weight: Any = None  # of classifiers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = self._several_targets
        else:
            tags.target_tags.multi_output = self._several_targets
        return tags

    # -- what a model says ---

    def _targets(self, y: Any, classes: Any) -> tuple[NDArray[np.float64], int, Any]:
        """Targets as numbers, number of outputs, classes."""
        if not is_classifier(self):
            y = numbers_to_learn(y)
            if y.ndim == 2 and y.shape[1] == 1:
                y = column_or_1d(y, warn=True)
            return self._encode(y, classes), 1 if y.ndim == 1 else y.shape[1], None
        with sorting_labels(y):
            try:
                check_classification_targets(y)
            except ValueError as error:
                raise InputError(str(error)) from error
            classes = classes_in(y) if classes is None else text_objects(np.asarray(classes))
        return self._encode(y, classes), self._n_outputs(classes), classes

    _encode = staticmethod(class_numbers)  # labels, or targets, as numbers

    def _n_outputs(self, classes: NDArray[Any]) -> int:
        """Outputs of a classifier with these classes."""
        return len(classes)

    # -- weights from elsewhere ---

    def _given_classes(self, classes: Any, n_classes: int) -> NDArray[Any] | None:
        """Classes beside weights that were trained elsewhere; None of a regression."""
        if not is_classifier(self):
            if classes is not None:
                raise InputError(
                    f"classes={classes!r}: {type(self).__name__} learns numbers and has none; "
                    "leave them out"
                )
            return None
        found = np.arange(n_classes) if classes is None else text_objects(np.asarray(classes))
        with sorting_labels(found):
            rising = np.unique(found)
        if len(rising) != n_classes or not np.array_equal(rising, found):
            raise InputError(
                f"classes are {found.tolist()}, and the weights are of {n_classes}: name each "
                "once, in rising order, as classes_ has them here and in scikit-learn, and put "
                "the weights in that order"
            )
        return found

    # -- fitting ---

    @with_callbacks
    @with_words_of_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        plan: FitPlan | None = None,
        client: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features), or ExamplesFile
            Of a file (libsvm, CSV, parquet) that `daskpart.readers.survey` went through each rank
            reads its own part; its labels are y.
        y : array of shape (n_samples,)
            In the order of the rows of X. A Series that has the index of a DataFrame X in another
            order is refused, and so are such weights.
        sample_weight : array of shape (n_samples,), optional
            At least 0.
        eval_set : tuple (X, y), optional
            Samples to measure `validation_loss` on after each epoch, instead of those that
            `validation_fraction` holds out. Of a file (X, None); it is read anew each time.
        {words of fit}
        """
        return self._fit(
            X, y, plan=plan, client=client, sample_weight=sample_weight, eval_set=eval_set
        )

    def _problem(self, X: Any, y: Any, data: dict[str, Any], random_state: int) -> Samples:
        share, eval_set = share_held_out(self, "eval_set", data), data.get("eval_set")
        goes_on, held = data.get("one_step", False) and hasattr(self, "state_"), None
        given = self._given(X, y, data.get("sample_weight"), not goes_on)
        if share:
            given, held = given.split(share, random_state)
        problem = self._samples(given, data.get("classes"))
        if held is not None and problem.classes is not None and not problem.several:
            held.refuse_classes_beyond(problem.classes)
        if eval_set is not None:
            try:
                held_X, held_y = eval_set
            except (TypeError, ValueError):
                raise InputError("eval_set is a tuple (X, y), of a file (X, None)") from None
            held = self._given(held_X, held_y, None, False)
        if held is not None:
            validation = self._samples(held, problem.classes, problem.class_weights)
            if (validation.several, validation.n_outputs) != (problem.several, problem.n_outputs):
                raise InputError(
                    f"the samples of eval_set have {_targets_in_words(validation)}, those of the "
                    f"fit {_targets_in_words(problem)}"
                )
            problem.validation = validation
        return problem

    def _given(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Given:
        """Rows, targets and weights, checked; `reset`: their features are those of the model."""
        if isinstance(X, ExamplesFile):
            self._note_features(X, _names_of(X), reset)
            return Given(X, y, sample_weight)
        if is_lazy(X):
            return self._lazily_given(X, y, sample_weight, reset)
        _refuse_another_order(X, y, sample_weight)
        y = dense_targets(y)
        if is_classifier(self):
            refuse_missing(y)
        X = plain_rows(X)
        refuse_masked(y, "targets")
        try:
            X, y = validate_data(
                self, X, y, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
                multi_output=self._several_targets,
            )  # fmt: skip
        except ValueError as error:
            raise refused(error, X, y) from error
        return Given(X, y, checked_weights(sample_weight, X))

    def _samples(
        self, given: Given, classes: Any, class_weights: NDArray[np.float64] | None = None
    ) -> Samples:
        """What is to be learnt of them; of those held out the weights of the classes are given."""
        X, y, weight, names = given
        if isinstance(X, ExamplesFile):
            return self._file_samples(X, y, weight, classes, class_weights)
        target, n_outputs, classes = self._targets(y, classes)
        if class_weights is None and self.class_weight is not None:
            mass = np.bincount(np.searchsorted(classes, y), weight, len(classes)).astype(float)
            class_weights = weights_of_classes(self.class_weight, classes, mass)
        weight = weights_of(weight, class_weights, y, classes)
        if is_lazy(X):
            return LazySamples(X, target, n_outputs, weight, classes, class_weights, columns=names)
        return Samples(canonical_rows(X), target, n_outputs, weight, classes, class_weights)

    def _note_features(self, X: Any, names: Any, reset: bool) -> None:
        """Features of a file or a lazy array are those of the model, or checked against them."""
        if not reset:
            self._check_features(X, names)
            return
        self.n_features_in_ = X.shape[1]
        if names is not None:
            self.feature_names_in_ = names

    def _file_samples(
        self, file: ExamplesFile, y: Any, sample_weight: Any, classes: Any,
        class_weights: NDArray[np.float64] | None,
    ) -> FileSamples:  # fmt: skip
        """Of a file: only its labels come here, where they are classes."""
        if classes is None and is_classifier(self):
            classes = classes_of(file)
        check_file(file, y, sample_weight, classes, self._encode)
        n_outputs = 1 if classes is None else self._n_outputs(classes)
        if class_weights is None and self.class_weight is not None:
            mass = label_mass(file, classes)
            class_weights = weights_of_classes(self.class_weight, classes, mass)
        return FileSamples(file, self._encode, n_outputs, classes, class_weights)

    def _lazily_given(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Given:
        """Of a Dask collection: X stays where it is, y and the weights come here."""
        rows, names = lazy_rows(X)
        self._note_features(rows, names, reset)
        n_samples = rows.shape[0]
        y = self._whole_targets(y, n_samples)
        return Given(rows, y, checked_weights(sample_weight, y), names)

    def _whole_targets(self, y: Any, n_samples: int) -> NDArray[Any]:
        """Targets in this process, checked, those of a regression as numbers."""
        y = whole_targets(dense_targets(y), n_samples, self._several_targets)
        if not is_classifier(self):
            return numbers_to_learn(y)
        refuse_missing(y)
        return y

    def _check_features(self, X: Any, names: Any) -> None:
        if isinstance(X, ExamplesFile) and X.n_features != self.n_features_in_:
            raise InputError(
                f"{X.path} has {X.n_features} features, {type(self).__name__} was fitted "
                f"with {self.n_features_in_}: give survey(…, n_features={self.n_features_in_})"
            )
        known = getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and not np.array_equal(names, known):
            raise InputError(
                f"the feature names are {names.tolist()[:5]} …, those of fit {known.tolist()[:5]} …"
            )
        if X.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, {type(self).__name__} was fitted with "
                f"{self.n_features_in_}"
            )

    def _beginning(self, one_step: bool, *begins: Any) -> tuple[State, int]:
        start: Any
        start, last = super()._beginning(one_step, *begins)
        if start.epoch == start.begun_behind and not one_step:
            # what ranks have not sent of other data would move weights along gradients of those;
            # batches of `partial_fit` are one stream, of which nothing is to be lost
            start = replace(start, residual=np.zeros_like(start.residual))
        return start, last

    def _in_another_fit(self, state: Any, settings: dict[str, Any]) -> Any:
        # else the first change of the loss would be between two fits, and might be told as enough
        return replace(state, loss=float("nan"))

    @staticmethod
    def _residual_on(residual: NDArray[Any], blank: NDArray[Any]) -> NDArray[Any]:
        """What ranks have not sent, on as many as `blank` has rows: their sum stays what it was."""
        if residual.shape == blank.shape:
            return residual
        if residual.shape[1:] == blank.shape[1:]:
            for rank, own in enumerate(residual):
                blank[rank % len(blank)] += own
        return blank

    def _rows(self, comm: Any, plan: Any, problem: Any, shuffle: bool) -> PerRank:
        """Rows of each rank, brought there; of a file they are read there."""
        if isinstance(problem, FileSamples):
            seed = plan.random_state if shuffle else None
            return problem.rows_on(comm, seed, plan.partition)
        return comm.settle(comm.values(problem.rows_of(plan.members)))

    def _aggregator(self, random_state: int) -> Aggregator:
        return Aggregator(self.aggregation, self._compressor(random_state))

    def _compressor(self, random_state: int) -> Compressor | None:
        if self.top_k is None:
            return None
        if self.top_k_approximate:
            return ApproximateTopK(self.top_k, random_state, self.top_k_bucket)
        return TopK(self.top_k, self.top_k_bucket)

    def _lazily(self, name: str, X: Any, n_columns: int, dtype: Any) -> Any:
        """What a method answers for a Dask collection, as a Dask array; columns 0: one answer.

        For a file it is a numpy array.
        """
        self._fitted()
        if isinstance(X, ExamplesFile):
            return self._answers_of_file(X, name)[0]
        rows, names = lazy_rows(X, known_length=False)
        self._check_features(rows, names)
        return answered(rows, names, getattr(self._answering(), name), n_columns, dtype)

    def _answers_of_file(self, file: ExamplesFile, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """What a method answers for the rows of a file, in order, and their labels."""
        self._fitted()
        self._check_features(file, _names_of(file))
        return answers_of_file(file, getattr(self._answering(), name))

    def _answering(self) -> Self:
        """A copy with what its answers need, and no more."""
        plain = copy(self)
        for each in _NOT_TO_ANSWER:
            plain.__dict__.pop(each, None)
        state: Any = self.state_
        small = {"slots": {}, "residual": state.residual[:, :0].copy(), "last": {}, "history": []}
        plain.state_ = replace(state, **small)
        return plain

    def _to_score(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Predictions, targets and weights, in memory."""
        if not isinstance(X, ExamplesFile):
            if y is None:
                raise InputError("y is None: a score needs targets beside X, unless X is a file")
            _refuse_another_order(X, y, sample_weight)
            found = in_memory(self.predict(X), "predictions")
            y = self._whole_targets(y, len(found))
        else:
            if y is not None:
                raise InputError("a file has its own targets: give X alone, with y=None")
            found, y = self._answers_of_file(X, "predict")
        weight = None if sample_weight is None else checked_weights(sample_weight, found)
        return found, y, weight

    def _checked_rows(self, X: Any) -> Any:
        """Rows to answer for, as csr or dense, of float32 or float64."""
        self._fitted()
        X = plain_rows(X)
        try:
            return validate_data(
                self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
            )
        except ValueError as error:
            raise refused(error, X) from error

    def _classes_of_partial_fit(self, classes: Any) -> NDArray[Any]:
        """All classes, given on the first call; InputError for none, or others later on."""
        if hasattr(self, "classes_"):
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise InputError(
                    f"classes={np.unique(classes).tolist()} differ from those of the first call, "
                    f"{self.classes_.tolist()}"
                )
            return self.classes_
        if classes is None:
            raise InputError("classes must be passed on the first call to partial_fit")
        return np.unique(classes)


def _refuse_another_order(X: Any, y: Any, sample_weight: Any) -> None:
    """Refuse targets or weights that have the index of the rows in another order (InputError)."""
    refuse_another_order(X, y, "y")
    refuse_another_order(X, sample_weight, "sample_weight")


def _names_of(file: ExamplesFile) -> Any:
    """Of the features of a file, where it has some."""
    return None if file.feature_names is None else np.array(file.feature_names, object)


def plain_rows(X: Any) -> Any:
    """Rows of pydata/sparse, alone or in a DataArray, as scipy has them; others as they are.

    InputError for what has no rows, such as the name of a file or a query of polars, for dates,
    durations, masked values, and values other than 0 that are not stored.
    """
    files = "rows in memory, or a file as daskpart.readers.survey(path) with y=None"
    refuse_path_or_dataset(X, "X", files)
    if not (isinstance(X, Sequence) or hasattr(X, "shape") or hasattr(X, "__array__")):
        raise InputError(not_read(X, "table of samples", "an array, sparse or not, or a DataFrame"))
    refuse_times(X)
    refuse_masked(X, "features")
    array = held_by(X)
    plain = scipy_rows(array)
    return X if plain is array else plain


def is_lazy_or_file(X: Any) -> bool:
    """Whether rows are answered for where they are, or as they are read."""
    return is_lazy(X) or isinstance(X, ExamplesFile)


def _targets_in_words(problem: Samples) -> str:
    """How many targets a sample has."""
    return f"{problem.n_outputs} targets each" if problem.several else "one target each"


def by_sgd(model: Any) -> bool:
    """Whether a model is fitted by SGD; an AttributeError tells why not."""
    if getattr(model, "solver", "sgd") != "sgd":
        raise AttributeError("partial_fit goes with solver='sgd'")
    return True


class SampleClassifier(ClassifierMixin, SampleModel):
    """What classifiers of samples share."""

    classes_: NDArray[Any]

    @available_if(by_sgd)
    @with_callbacks
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
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
        refuse_balanced(self.class_weight)
        return self._fit(
            X, y, client=client, one_step=True, classes=self._classes_of_partial_fit(classes),
            sample_weight=sample_weight,
        )  # fmt: skip

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the samples whose class is found, each with its weight; a file has its own y.

        Of a table of several classes a sample counts where all of its row is right, as in
        scikit-learn, and as in `score` and `validation_score` of the history.
        """
        found, y, weight = self._to_score(X, y, sample_weight)
        return float(accuracy_score(y, found, sample_weight=weight))

    def _going_on(self, state: Any, problem: Any) -> Any:
        if not np.array_equal(problem.classes, self.classes_):
            raise InputError(
                f"the classes are {problem.classes.tolist()}, those of the last fit "
                f"{self.classes_.tolist()}; give samples of the same classes, or "
                "warm_start=False to begin anew"
            )
        return super()._going_on(state, problem)

    def _fitted_classes(self) -> NDArray[Any]:
        self._fitted()
        return self.classes_

    def _keep_more(self, problem: Any, plan: Any) -> None:
        super()._keep_more(problem, plan)
        self.classes_ = problem.classes


class SampleRegressor(RegressorMixin, SampleModel):
    """What regressors of samples share."""

    _encode = staticmethod(numbers)

    @available_if(by_sgd)
    @with_callbacks
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, client: Any = None
    ) -> Self:
        """Train one more epoch on these samples, from the weights so far.

        Parameters are those of `fit`.
        """
        return self._fit(X, y, client=client, one_step=True, sample_weight=sample_weight)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² of the predictions, each sample with its weight; a file has its own y."""
        found, y, weight = self._to_score(X, y, sample_weight)
        return float(r2_score(y, found, sample_weight=weight))
