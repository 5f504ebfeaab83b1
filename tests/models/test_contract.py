"""What every model keeps: scikit-learn's contract, and that of the base. One list of models.

A new model adds one line to `MODELS`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_array

import daskpart
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.models.base.callbacks import EpochCallback
from daskpart.models.base.state import same_bits
from daskpart.models.matrix_factorization.recommending import FactorModel

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "guide"))

from ridge_model import Ridge


def ratings() -> tuple[Any, ...]:
    return (daskpart.datasets.power_law_ratings(80, 50, 1500, random_state=0),)


def tensor() -> tuple[Any, ...]:
    return (sparse.random((30, 20, 10), nnz=500, random_state=0),)


def samples() -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 6))
    return X, X @ np.arange(6.0) + random.normal(size=90)


def labelled() -> tuple[Any, ...]:
    X, y = samples()
    return X, np.array(["no", "yes", "maybe"])[np.digitize(y, [-5, 5])]


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


class Dense:
    """A model that takes dense arrays as sparse ones with every entry stored."""

    _takes_dense = True

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(_sparse_of(X))  # type: ignore[misc]

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        return super().partial_fit(_sparse_of(X))  # type: ignore[misc]

    def transform(self, X: Any) -> Any:
        return np.asarray(super().transform(_sparse_of(X)))  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(_sparse_of(X))  # type: ignore[misc]

    @property
    def predict(self) -> Any:
        """Takes pairs or a sparse pattern, not rows of features: hidden from the checks."""
        raise AttributeError


class DenseRatings(Dense, daskpart.MatrixFactorization):
    """Ratings from a dense array."""


class PositiveDense(Dense):
    """Events from a dense array: what is above 0, for negative numbers are no counts."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(_positive(X))

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        return super().partial_fit(_positive(X))

    def transform(self, X: Any) -> Any:
        return super().transform(_positive(X))

    def score(self, X: Any, y: Any = None) -> float:
        return super().score(_positive(X))


class DenseEvents(PositiveDense, daskpart.ImplicitFactorization):
    """Events from a dense array."""


class DenseBPR(PositiveDense, daskpart.MatrixFactorization):
    """Events for BPR, which refuses to transform: so that checks can, as if they were ratings."""

    _new_rows = FactorModel._new_rows


def _positive(X: Any) -> Any:
    checked = _sparse_of(X).astype(np.float64)
    checked.data = np.exp(-np.abs(checked.data))
    return checked


class DenseTensor(Dense, daskpart.CPDecomposition):
    """A tensor of two modes from a dense array."""


_DTYPE = "the parameter dtype says what weights and embeddings are"
_WORDS = "another number of columns is refused, in words of ratings and modes, not of features"


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
    """

    make: Callable[..., Any]
    data: Callable[[], tuple[Any, ...]]
    answers: Callable[[Any], np.ndarray]
    checked: Callable[[], Any]
    exceptions: dict[str, str] = field(default_factory=dict)


SGD_WEIGHS = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "a sample given twice makes two steps, a weight of 2 a longer one: only the optimum of "
    "SGD is the same (scikit-learn's SGDClassifier is excused, too)",
)
SMALL = {"n_ranks": 3, "max_iter": 4, "transport": "local"}
PLAIN_NETWORK = {
    "dropout": 0.0, "weight_decay": 0.0, "initial_learning_rate": 0.1, "n_ranks": 1,
    "max_iter": 30, "transport": "local",
}  # fmt: skip
RATINGS_EXCEPTED = {
    "check_n_features_in_after_fitting": _WORDS,
    "check_transformer_preserve_dtypes": "factors are float32 whatever the ratings are",
}
MODELS = {
    "MatrixFactorization": Case(
        partial(daskpart.MatrixFactorization, 4, eta=2, partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseRatings, 2, **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
    ),
    "MatrixFactorization by DSGD": Case(
        partial(daskpart.MatrixFactorization, 4, schedule="dsgd", partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseRatings, 2, schedule="dsgd", **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
    ),
    "MatrixFactorization by GASGD": Case(
        partial(
            daskpart.MatrixFactorization, 4, schedule="gasgd", eta=2, partitioner="random", **SMALL
        ),
        ratings,
        rating_answers,
        partial(DenseRatings, 2, schedule="gasgd", **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
    ),
    "MatrixFactorization by BPR": Case(
        partial(daskpart.MatrixFactorization, 4, loss="bpr", eta=2, partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseBPR, 2, loss="bpr", **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
    ),
    "MatrixFactorization, nonnegative": Case(
        partial(daskpart.MatrixFactorization, 4, nonnegative=True, partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseRatings, 2, nonnegative=True, **SMALL | {"n_ranks": 1}),
        RATINGS_EXCEPTED,
    ),
    "ImplicitFactorization": Case(
        partial(daskpart.ImplicitFactorization, 4, partitioner="random", **SMALL),
        ratings,
        rating_answers,
        partial(DenseEvents, 2, solver="cholesky", **SMALL | {"n_ranks": 1}),
        {
            "check_n_features_in_after_fitting": _WORDS,
            "check_transformer_preserve_dtypes": "factors are float32 whatever the counts are",
        },
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
    ),
    "CPDecomposition": Case(
        partial(daskpart.CPDecomposition, 3, tol=0, partitioner="random", **SMALL),
        tensor,
        tensor_answers,
        partial(DenseTensor, 1, ridge=1e-6, **SMALL | {"n_ranks": 1}),
        {"check_n_features_in_after_fitting": _WORDS},
    ),
    "CPDecomposition, absent is unknown": Case(
        partial(
            daskpart.CPDecomposition, 3, tol=0, partitioner="random", missing="unknown", **SMALL
        ),
        tensor,
        tensor_answers,
        partial(DenseTensor, 1, ridge=1e-6, missing="unknown", **SMALL | {"n_ranks": 1}),
        {"check_n_features_in_after_fitting": _WORDS},
    ),
    "LogisticRegression": Case(
        partial(daskpart.LogisticRegression, tol=0, **SMALL),
        labelled,
        lambda model: model.predict_proba(samples()[0]),
        partial(daskpart.LogisticRegression, n_ranks=2, transport="local"),
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
    ),
    "MLPClassifier": Case(
        partial(
            daskpart.MLPClassifier,
            (8, 5),
            batch_size=15,
            tol=0,
            eta0=0.01,
            top_k=2,
            top_k_bucket=10,
            **SMALL,
        ),
        labelled,
        lambda model: model.predict_proba(samples()[0]),
        partial(
            daskpart.MLPClassifier, (20,), eta0=0.01, max_iter=60, n_ranks=1, transport="local"
        ),
        SGD_WEIGHS,
    ),
    "MLPRegressor": Case(
        partial(
            daskpart.MLPRegressor,
            6,
            batch_size=15,
            tol=0,
            optimizer="momentum",
            eta0=1e-3,
            top_k=3,
            top_k_approximate=True,
            **SMALL,
        ),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(daskpart.MLPRegressor, (20,), eta0=0.01, max_iter=60, n_ranks=1, transport="local"),
        SGD_WEIGHS,
    ),
    "GCNClassifier": Case(
        partial(OnEdges, 8, partitioner="random", **SMALL),
        labelled_graph,
        lambda model: model.predict_proba(labelled_graph()[0]),
        partial(
            daskpart.GCNClassifier,
            dtype="float64",
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.1,
            n_ranks=1,
            max_iter=30,
            transport="local",
        ),
        {
            "check_classifiers_classes": "−1 stands for unlabelled",
            "check_transformer_preserve_dtypes": _DTYPE,
        },
    ),
    "GCNClassifier, mini-batches": Case(
        partial(OnEdges, 8, batch_size=10, partitioner="random", **SMALL),
        labelled_graph,
        lambda model: model.predict_proba(labelled_graph()[0]),
        partial(
            daskpart.GCNClassifier,
            batch_size=0.5,
            dtype="float64",
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.1,
            n_ranks=1,
            max_iter=15,
            transport="local",
        ),
        {
            "check_classifiers_classes": "−1 stands for unlabelled",
            "check_transformer_preserve_dtypes": _DTYPE,
        },
    ),
    "GCNRegressor": Case(
        partial(daskpart.GCNRegressor, 8, partitioner="random", **SMALL),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(
            daskpart.GCNRegressor,
            dropout=0.0,
            weight_decay=0.0,
            initial_learning_rate=0.1,
            n_ranks=1,
            max_iter=30,
            transport="local",
        ),
        {"check_transformer_preserve_dtypes": _DTYPE},
    ),
    "Ridge": Case(
        partial(Ridge, tol=0, **SMALL),
        samples,
        lambda model: model.predict(samples()[0]),
        partial(Ridge, n_ranks=2, max_iter=50, transport="local"),
        {},
    ),
}


@pytest.fixture(params=MODELS)
def case(request) -> Case:
    return MODELS[request.param]


def assert_same(one: Any, other: Any) -> None:
    """Equal in every array of the state, and in the measures of the history."""
    for how in ("rows", "replicated"):
        for name in type(one.state_).declared(how):
            mine, theirs = getattr(one.state_, name), getattr(other.state_, name)
            if isinstance(mine, dict):
                assert mine.keys() == theirs.keys()
                mine, theirs = [*mine.values()], [theirs[key] for key in mine]
            pairs = zip(mine, theirs, strict=True) if isinstance(mine, list) else [(mine, theirs)]
            for a, b in pairs:
                np.testing.assert_array_equal(a, b)
    # where data decide what is sent, these are means over the steps of a run, as long as it was
    varying = {"volume", "messages", "bytes"} if not one.comm_report_.expected_rows.size else set()
    kept = [name for name in one.history_ if not name.startswith("seconds") and name not in varying]
    assert one.history_[kept].equals(other.history_[kept])


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(case):
    found = check_estimator(
        case.checked(), expected_failed_checks=case.exceptions, on_fail=None, on_skip=None
    )
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
    ran = {each["check_name"] for each in found}
    assert len(ran) > 35 and set(case.exceptions) <= ran


def test_clone_parameters_and_pickle(case):
    model = case.make().fit(*case.data())
    again = clone(model)
    assert again.get_params() == model.get_params() and not hasattr(again, "state_")
    copy = pickle.loads(pickle.dumps(model))
    assert same_bits(copy.state_, model.state_)
    np.testing.assert_array_equal(case.answers(copy), case.answers(model))


def test_save_and_load(case, tmp_path):
    model = case.make().fit(*case.data())
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(case.answers(again), case.answers(model))
    assert same_bits(again.state_, model.state_)
    assert again.get_params() == model.get_params()
    assert repr(again.comm_report_) == repr(model.comm_report_)
    assert repr(again.plan_report_) == repr(model.plan_report_)
    results = {name for name in vars(model) if name.endswith("_")}
    assert {name for name in vars(again) if name.endswith("_")} == results
    for other in MODELS.values():
        kind = type(other.make())
        if kind is not type(model):
            with pytest.raises(ReadError, match=f"holds a {type(model).__name__}"):
                kind.load(tmp_path / "model")


@pytest.mark.parametrize("stop", [1, 3, 6])
def test_resume_gives_the_bits_of_an_unbroken_fit(case, tmp_path, stop):
    path = tmp_path / "run.npz"
    whole = case.make(max_iter=6).fit(*case.data())
    case.make(max_iter=stop, checkpoint_path=path).fit(*case.data())
    resumed = case.make(max_iter=6, checkpoint_path=path, resume=True).fit(*case.data())
    assert_same(whole, resumed)
    assert resumed.n_iter_ == 6


class At(EpochCallback):
    """Does something at the end of a step."""

    def __init__(self, number: int, deed: Callable[[], Any]) -> None:
        self.number, self.deed = number, deed

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        if row["epoch"] == self.number:
            self.deed()
        return False


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_ctrl_c_keeps_the_work(case):
    model = case.make(max_iter=50)
    model.set_callbacks(At(3, _interrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*case.data())
    assert model.n_iter_ == 3
    assert_same(model, case.make(max_iter=3).fit(*case.data()))


def test_a_plan_is_made_once(case, monkeypatch):
    data = case.data()
    expected, model = case.make().fit(*data), case.make()
    plan = model.plan(*data)
    monkeypatch.setattr(type(model), "_make_plan", None)  # nothing plans a second time
    assert_same(expected, model.fit(*data, plan=plan))
    assert repr(plan.report()) == repr(model.plan_report_)
    with pytest.raises(InputError, match="n_ranks=3, the model has 2"):
        case.make(n_ranks=2).fit(*data, plan=plan)
    with pytest.raises(InputError, match="plan is a str"):
        case.make().fit(*data, plan="mine")


def test_a_saved_plan_is_made_again_without_a_cut(case, tmp_path):
    data, path = case.data(), tmp_path / "plan.npz"
    plan = case.make().plan(*data)
    plan.save(path)
    again = case.make().load_plan(path, *data)
    assert repr(again.report()) == repr(plan.report())
    assert_same(case.make().fit(*data, plan=plan), case.make().fit(*data, plan=again))
    with pytest.raises(InputError, match="the plan was made"):
        case.make(n_ranks=2).load_plan(path, *data)
    with pytest.raises(InputError, match="made for other data"):
        case.make().load_plan(path, data[0] * 2, *data[1:])


def test_a_plan_of_other_data_is_refused(case):
    data = list(case.data())
    plan = case.make().plan(*data)
    data[0] = data[0] * 2
    with pytest.raises(InputError, match="made for other data"):
        case.make().fit(*data, plan=plan)


def test_reports_say_what_was_planned_and_what_was_sent(case):
    model = case.make().fit(*case.data())
    for report in (model.plan_report_, model.comm_report_):
        assert repr(report) and report._repr_html_().startswith("<table")
        assert repr(type(report).from_dict(report.to_dict())) == repr(report)
    assert "memory a rank" in repr(model.plan_report_)
    assert model.comm_report_.matches and model.comm_report_.n_steps == 4
    assert len(model.plan_report_.memory_of_ranks) == 3


class Threads:
    """Every rank runs the text on a thread of its own: what worker processes do, without any."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks

    def open(self, after_loss: bool) -> ThreadsCommunicator:
        return ThreadsCommunicator(self.n_ranks)

    def can_go_back(self) -> bool:
        return False


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_the_text_gives_the_same_bits_on_every_rank_by_itself(case, monkeypatch, n_ranks):
    data = case.data()
    options: dict[str, Any] = {"n_ranks": n_ranks}
    if "eta" in case.make().get_params():
        options["eta"] = min(2, n_ranks)
    expected, model = case.make(**options).fit(*data), case.make(**options)
    monkeypatch.setattr(model, "_connection", lambda plan, client: Threads(plan.n_ranks))
    assert_same(expected, model.fit(*data))


def test_steps_are_run_together_where_nobody_looks(case, monkeypatch):
    """Twenty short steps take fewer runs, and end with the bits of runs of one step."""
    model, lengths = case.make(max_iter=20), []
    make_text = type(model)._text

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        text = make_text(self, *arguments, **named)
        run = text.run
        text.run = lambda first, last: lengths.append(last - first + 1) or run(first, last)
        return text

    monkeypatch.setattr(type(model), "_text", counted)
    model.fit(*case.data())
    assert sum(lengths) == 20 and lengths[0] == 1 and len(lengths) < 20
    looked = case.make(max_iter=20)
    looked.set_callbacks(At(21, _interrupt)).fit(*case.data())
    assert_same(model, looked)


def test_a_random_state_may_be_drawn(case):
    if "random_state" not in case.make().get_params():
        pytest.skip("nothing is drawn")
    data = case.data()
    given = case.make(random_state=np.random.RandomState(3)).fit(*data)
    again = case.make(random_state=np.random.RandomState(3)).fit(*data)
    assert_same(given, again)
    other = case.make(random_state=np.random.RandomState(4)).fit(*data)
    assert not same_bits(given.state_, other.state_)
    assert case.make(random_state=None).fit(*data).n_iter_ == 4


@pytest.mark.cluster
def test_a_lost_worker_does_not_change_the_result(case, own_client):
    data = case.data()
    expected = case.make(n_ranks=2, max_iter=6).fit(*data)
    process = next(iter(own_client.run(os.getpid).values()))

    def kill() -> None:
        threading.Timer(0.01, os.kill, (process, signal.SIGKILL)).start()

    model = case.make(n_ranks=2, max_iter=6, transport="auto")
    model.set_callbacks(At(2, kill), At(4, lambda: None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskpartWarning)  # the loss, if it came in time
        model.fit(*data, client=own_client)
    assert_same(expected, model)
