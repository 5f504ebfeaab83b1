"""The models that keep the contract of `test_contract`: how each is made, fitted and asked.

A new model adds one line to `MODELS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sparse
from sklearn.utils.validation import check_array

import daskpart
from daskpart.models.matrix_factorization.recommending import Recommender

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "guide"))

from ridge_model import Ridge


def ratings() -> tuple[Any, ...]:
    return (daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0),)


def answers() -> tuple[Any, ...]:
    """Yes and no as 1 and −1, which stay so when they are multiplied by −1."""
    (X,) = ratings()
    return (X.copy(data=np.sign(X.data - X.data.data.mean() * (X.data != 0))),)


def tensor() -> tuple[Any, ...]:
    return (sparse.random((30, 20, 10), nnz=500, random_state=0),)


def yes_no_tensor() -> tuple[Any, ...]:
    (found,) = tensor()
    return (sparse.COO(found.coords, (found.data > 0.5).astype(float), shape=found.shape),)


def samples() -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 6))
    return X, X @ np.arange(6.0) + random.normal(size=90)


def labelled() -> tuple[Any, ...]:
    X, y = samples()
    return X, np.array(["no", "yes", "maybe"])[np.digitize(y, [-5, 5])]


def counted() -> tuple[Any, ...]:
    X, y = samples()
    return X, np.floor(np.exp(0.2 * y))


def labelled_graph() -> tuple[Any, ...]:
    """Features, and labels of two thirds of the vertices; the graph is `EDGES`."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 5)), np.arange(60) % 3
    return X, np.where(np.arange(60) % 3 == random.integers(0, 3, 60), -1, y)


EDGES = scipy.sparse.random_array((60, 60), density=0.08, rng=np.random.default_rng(0))


class OnEdges(daskpart.GCNClassifier):
    """A classifier of the vertices of `EDGES`, where nothing else is said."""

    def fit(self, X: Any, y: Any, *, graph: Any = EDGES, **more: Any) -> Any:
        return super().fit(X, y, graph=graph, **more)

    def plan(self, X: Any, y: Any = None, *, graph: Any = EDGES, **more: Any) -> Any:
        return super().plan(X, y, graph=graph, **more)

    def load_plan(
        self, path: Any, X: Any, y: Any = None, *, graph: Any = EDGES, **more: Any
    ) -> Any:
        return super().load_plan(path, X, y, graph=graph, **more)


class Brief(daskpart.GCNClassifier):
    """A classifier that takes 30 steps where scikit-learn's checks ask for 1000."""

    def set_params(self, **params: Any) -> Any:
        steps = params.get("max_iter")
        if isinstance(steps, int) and steps == 1000:  # to see what weights of classes do
            params["max_iter"] = 30
        return super().set_params(**params)


def rating_answers(model: Any) -> np.ndarray:
    return model.predict([(user, item) for user in range(9) for item in range(9)])


def tensor_answers(model: Any) -> np.ndarray:
    return model.reconstruct([(i, j, k) for i in range(5) for j in range(5) for k in range(5)])


# scikit-learn hands dense arrays to everything; here absent is not 0, so dense is refused. These
# see to it that every check runs all the same, on the sparse array of the same numbers.
def _sparse_of(X: Any) -> Any:
    checked = check_array(X, accept_sparse="csr", dtype="numeric")
    if not scipy.sparse.issparse(checked):
        rows, columns = np.indices(checked.shape)
        checked = scipy.sparse.coo_array(
            (checked.ravel(), (rows.ravel(), columns.ravel())), shape=checked.shape
        )
    return checked


def _positive(X: Any) -> Any:
    checked = _sparse_of(X).astype(np.float64)
    checked.data = np.exp(-np.abs(checked.data))
    return checked


def _odd(X: Any) -> Any:
    checked = _sparse_of(X).astype(np.float64)
    checked.data = np.floor(7.3 * checked.data) % 2
    return checked


class Dense:
    """A model that takes dense arrays as sparse ones with every entry stored."""

    _takes_dense = True
    _values = staticmethod(_sparse_of)

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(self._values(X))  # type: ignore[misc]

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        return super().partial_fit(self._values(X))  # type: ignore[misc]

    def transform(self, X: Any) -> Any:
        return np.asarray(super().transform(self._values(X)))  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(self._values(X))  # type: ignore[misc]

    @property
    def predict(self) -> Any:
        """Takes pairs or a sparse pattern, not rows of features: hidden from the checks."""
        raise AttributeError


class DenseRatings(Dense, daskpart.MatrixFactorization):
    """Ratings from a dense array."""


class PositiveDense(Dense):
    """Events from a dense array: what is above 0, for negative numbers are no counts."""

    _values = staticmethod(_positive)


class YesNo(Dense):
    """Yes and no from a dense array: whether a multiple of a number is odd."""

    _values = staticmethod(_odd)


class DenseYesNo(YesNo, daskpart.CPDecomposition):
    """Yes and no of two modes from a dense array."""


class DenseAnswers(YesNo, daskpart.MatrixFactorization):
    """Ratings that are yes or no from a dense array."""


class DenseEvents(PositiveDense, daskpart.ImplicitFactorization):
    """Events from a dense array."""


class DenseBPR(PositiveDense, daskpart.MatrixFactorization):
    """Events for BPR, which refuses to transform: so that checks can, as if they were ratings."""

    _new_rows = Recommender._new_rows


class DenseTensor(Dense, daskpart.CPDecomposition):
    """A tensor of two modes from a dense array."""


class DenseCounts(PositiveDense, daskpart.CPDecomposition):
    """Counts of two modes from a dense array."""


_DTYPE = "the parameter dtype says what weights and embeddings are"
_WORDS = "another number of columns is refused, in words of ratings and modes, not of features"


def twice(X: Any) -> Any:
    return 2 * X


@dataclass(frozen=True)
class Case:
    """One model of the list.

    Attributes
    ----------
    make : callable
        The estimator, small, on ranks of this process.
    data : callable
        Arguments of ``fit``.
    answers : callable
        Numbers that a fitted model gives.
    checked : callable
        The estimator that scikit-learn's checks run on.
    exceptions : dict
        Name of a check → why the model does not pass it.
    watched : dict or None
        Parameters of a fit that finds its best step early, with `held_out` of its data.
    held_out : callable or None
        ``held_out(*data())`` gives the data of such a fit and further arguments; None: as ever.
    other : callable
        Makes other data of the first of those.
    """

    make: Callable[..., Any]
    data: Callable[[], tuple[Any, ...]]
    answers: Callable[[Any], np.ndarray]
    checked: Callable[[], Any]
    exceptions: dict[str, str] = field(default_factory=dict)
    watched: dict[str, Any] | None = None
    held_out: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    other: Callable[[Any], Any] = twice


def some_wrong(X: Any, y: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Two thirds of the samples; the rest to validate by, some with targets of others."""
    random = np.random.default_rng(2)
    held = np.where(random.random(30) < 0.4, random.permutation(y[60:]), y[60:])
    return (X[:60], y[:60]), {"eval_set": (X[60:], held)}


SGD_WEIGHS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "a sample given twice makes two steps, a weight of 2 a longer one: only the optimum of "
    "SGD is the same (scikit-learn's SGDClassifier is excused, too)",
)
SMALL = {"n_ranks": 3, "max_iter": 4, "transport": "local"}
RATINGS_EXCEPTED = {
    "check_n_features_in_after_fitting": _WORDS,
    "check_transformer_preserve_dtypes": "factors are float32 whatever the ratings are",
}
HELD_OUT = {"validation_fraction": 0.3}
SLOW = {**HELD_OUT, "initial_learning_rate": 0.02}


def factorization(
    dense: type = DenseRatings,
    data: Callable[[], tuple[Any, ...]] = ratings,
    *,
    eta: int | None = None,
    watched: dict[str, Any] = SLOW,
    other: Callable[[Any], Any] = twice,
    **options: Any,
) -> Case:
    """With blocks (`eta`) where ranks are several; other options stand in all fits."""
    return Case(
        partial(daskpart.MatrixFactorization, 4, eta=eta, partitioner="random", **options, **SMALL),
        data,
        rating_answers,
        partial(dense, 2, **options, **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
        watched=watched,
        other=other,
    )


def decomposition(
    dense: type = DenseTensor,
    data: Callable[[], tuple[Any, ...]] = tensor,
    *,
    ridge: float = 0.0,
    watched: dict[str, Any] | None = None,
    other: Callable[[Any], Any] = twice,
    **options: Any,
) -> Case:
    """With a ridge in scikit-learn's checks alone."""
    return Case(
        partial(daskpart.CPDecomposition, 3, tol=0, partitioner="random", **options, **SMALL),
        data,
        tensor_answers,
        partial(dense, 1, ridge=ridge, **options, **SMALL | {"n_ranks": 1}),
        {"check_n_features_in_after_fitting": _WORDS},
        watched=watched,
        other=other,
    )


MODELS = {
    "MatrixFactorization": factorization(eta=2),
    "MatrixFactorization by DSGD": factorization(schedule="dsgd"),
    "MatrixFactorization by GASGD": factorization(eta=2, schedule="gasgd"),
    "MatrixFactorization by BPR": factorization(DenseBPR, eta=2, watched=HELD_OUT, loss="bpr"),
    "MatrixFactorization of yes and no": factorization(
        DenseAnswers, answers, eta=2, watched=HELD_OUT, other=lambda found: -found, loss="logistic"
    ),
    "MatrixFactorization, nonnegative": factorization(nonnegative=True),
    "ImplicitFactorization": Case(
        partial(daskpart.ImplicitFactorization, 4, partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseEvents, 2, solver="cholesky", **SMALL | {"n_ranks": 1}),
        {
            "check_n_features_in_after_fitting": _WORDS,
            "check_transformer_preserve_dtypes": "factors are float32 whatever the counts are",
        },
        watched=HELD_OUT,
    ),
    "ImplicitFactorization in blocks": Case(
        partial(
            daskpart.ImplicitFactorization,
            4,
            solver="subspace",
            block_size=3,
            partitioner="random",
            **SMALL,
        ),
        ratings,
        rating_answers,
        partial(DenseEvents, 2, solver="subspace", **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
        watched=HELD_OUT,
    ),
    "CPDecomposition": decomposition(ridge=1e-6),
    "CPDecomposition, absent is unknown": decomposition(
        ridge=1e-6, watched=HELD_OUT, missing="unknown"
    ),
    "CPDecomposition of counts": decomposition(DenseCounts, loss="poisson"),
    "CPDecomposition of known counts": decomposition(
        DenseCounts, watched=HELD_OUT, missing="unknown", loss="poisson"
    ),
    "CPDecomposition of yes and no": decomposition(
        DenseYesNo,
        yes_no_tensor,
        ridge=0.1,
        watched=HELD_OUT,
        other=lambda found: found[::-1],
        missing="unknown",
        loss="logistic",
    ),
    "LogisticRegression": Case(
        partial(daskpart.LogisticRegression, tol=0, **SMALL),
        labelled,
        lambda model: model.predict_proba(samples()[0]),
        partial(daskpart.LogisticRegression, n_ranks=2, transport="local"),
        watched={"C": 1e6},
        held_out=some_wrong,
    ),
    "LinearSVC": Case(
        partial(
            daskpart.LinearSVC,
            loss="hinge",
            solver="sgd",
            batch_size=4,
            tol=0,
            top_k=5,
            overlap=True,
            **SMALL,
        ),
        labelled,
        lambda model: model.decision_function(samples()[0]),
        partial(
            daskpart.LinearSVC,
            loss="hinge",
            solver="sgd",
            batch_size=1,
            max_iter=50,
            n_ranks=1,
            transport="local",
        ),
        SGD_WEIGHS,
        watched={},
        held_out=some_wrong,
    ),
    "LinearRegression": Case(
        partial(
            daskpart.LinearRegression,
            solver="sgd",
            batch_size=4,
            tol=0,
            alpha=1e-3,
            l1_ratio=0.5,
            eta0=0.05,
            **SMALL,
        ),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(daskpart.LinearRegression, n_ranks=2, transport="local"),
        watched={},
        held_out=some_wrong,
    ),
    "PoissonRegressor": Case(
        partial(daskpart.PoissonRegressor, tol=0, alpha=1e-3, l1_ratio=0.5, **SMALL),
        counted,
        lambda model: model.predict(samples()[0]),
        partial(daskpart.PoissonRegressor, n_ranks=2, transport="local"),
        watched={},
        held_out=some_wrong,
    ),
    "MLPClassifier": Case(
        partial(
            daskpart.MLPClassifier,
            (8, 5),
            batch_size=15,
            tol=0,
            learning_rate_init=0.01,
            top_k=2,
            top_k_bucket=10,
            **SMALL,
        ),
        labelled,
        lambda model: model.predict_proba(samples()[0]),
        partial(
            daskpart.MLPClassifier,
            (20,),
            learning_rate_init=0.03,
            max_iter=12,
            n_ranks=1,
            transport="local",
        ),
        SGD_WEIGHS,
        watched={"learning_rate_init": 0.05},
        held_out=some_wrong,
    ),
    "MLPRegressor": Case(
        partial(
            daskpart.MLPRegressor,
            6,
            batch_size=15,
            tol=0,
            optimizer="momentum",
            learning_rate_init=1e-3,
            top_k=3,
            top_k_approximate=True,
            **SMALL,
        ),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(
            daskpart.MLPRegressor,
            (20,),
            learning_rate_init=0.03,
            max_iter=12,
            n_ranks=1,
            transport="local",
        ),
        SGD_WEIGHS,
        watched={},
        held_out=some_wrong,
    ),
    "GCNClassifier": Case(
        partial(OnEdges, 8, partitioner="random", **SMALL),
        labelled_graph,
        lambda model: model.predict_proba(labelled_graph()[0]),
        partial(
            Brief,
            dtype="float64",
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.2,
            n_ranks=1,
            max_iter=8,
            transport="local",
        ),
        {
            "check_classifiers_classes": "−1 stands for unlabelled",
            "check_transformer_preserve_dtypes": _DTYPE,
        },
        watched={"validation_fraction": 0.3, "initial_learning_rate": 0.3, "monitor": "both"},
    ),
    "GCNClassifier, mini-batches": Case(
        partial(OnEdges, 8, batch_size=10, partitioner="random", **SMALL),
        labelled_graph,
        lambda model: model.predict_proba(labelled_graph()[0]),
        partial(
            Brief,
            batch_size=0.5,
            dtype="float64",
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.2,
            n_ranks=1,
            max_iter=4,
            transport="local",
        ),
        {
            "check_classifiers_classes": "−1 stands for unlabelled",
            "check_transformer_preserve_dtypes": _DTYPE,
        },
        watched={"validation_fraction": 0.3, "initial_learning_rate": 0.3},
    ),
    "GCNRegressor": Case(
        partial(daskpart.GCNRegressor, 8, partitioner="random", **SMALL),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(
            daskpart.GCNRegressor,
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.2,
            n_ranks=1,
            max_iter=8,
            transport="local",
        ),
        {"check_transformer_preserve_dtypes": _DTYPE},
        watched={"validation_fraction": 0.3, "initial_learning_rate": 0.3},
    ),
    "Ridge": Case(
        partial(Ridge, tol=0, **SMALL),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(Ridge, n_ranks=2, max_iter=50, transport="local"),
        {},
    ),
}
