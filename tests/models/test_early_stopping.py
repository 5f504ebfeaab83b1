"""Early stopping: a fit ends with its best step, and goes on from its last; of every model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sparse
from contract_models import MODELS, Case
from fit_tools import At, assert_same, interrupt, on_threads
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.errors import DaskpartWarning, WorkerLostError
from daskpart.models.base import trainer
from daskpart.models.base.callbacks import EarlyStopping, EpochCallback
from daskpart.models.base.early_stopping import Seen, Watch

STOPPING = [name for name, case in MODELS.items() if case.watched is not None]
ON_RANKS = [
    name
    for name in STOPPING
    if name.startswith(("MatrixFactorization", "CP", "GCN")) and "BPR" not in name
]


@pytest.fixture(params=STOPPING, scope="module")
def case(request) -> Case:
    return MODELS[request.param]


@pytest.fixture(scope="module")
def whole(case) -> Any:
    """The fit that others are held against; nobody changes it."""
    return fit(case)


@pytest.fixture(scope="module")
def patient(case) -> Any:
    """The same with more patience."""
    return fit(case, patience=4)


def fit(case: Case, *, onto: Any = None, on_other: bool = False, **options: Any) -> Any:
    """A model that may stop early, fitted; or `onto` fitted again."""
    data, more = case.data(), {}
    if on_other:
        data = (case.other(data[0]), *data[1:])
    if case.held_out is not None:
        data, more = case.held_out(*data)
    assert case.watched is not None
    chosen = {"max_iter": 30, "patience": 2, **case.watched, **options}
    model = case.make(**chosen) if onto is None else onto.set_params(**chosen)
    return model.fit(*data, **more)


def assert_same_twice(one: Any, other: Any) -> None:
    """Equal in what they answer with, and in all that a further step needs."""
    assert one.best_iteration_ == other.best_iteration_ and one.n_iter_ == other.n_iter_
    assert_same(one, other)
    state, theirs = one.state_, other.state_
    try:
        one.state_, other.state_ = state.at_last(), theirs.at_last()
        assert_same(one, other)
    finally:
        one.state_, other.state_ = state, theirs


@pytest.mark.parametrize("patience", [None, 2])
@pytest.mark.parametrize("name", ON_RANKS)
def test_where_ranks_validate_the_client_sees_no_state_on_the_way(name, patience, monkeypatch):
    """After the first step it learns what keeping a state takes: else it keeps some, for losses."""
    monkeypatch.setattr(trainer, "KEEP_AFTER", 1e9)
    kind, gathered = type(MODELS[name].make()), []
    text_of = kind._text

    def counted(self: Any, *given: Any, **named: Any) -> Any:
        text = text_of(self, *given, **named)
        gather = text.gather
        text.gather = lambda state: gathered.append(state) or gather(state)
        return text

    monkeypatch.setattr(kind, "_text", counted)
    model = fit(MODELS[name], patience=patience)
    assert len(gathered) == 2
    measured = model.history_.filter(regex="^validation")
    assert len(measured.columns) and measured.notna().all(axis=None)
    assert (model.n_iter_ < 30) == (patience is not None)


def test_the_model_is_that_of_its_best_step(case, whole):
    model = whole
    assert len(model.history_) == model.n_iter_ < 30
    watch = model._watch()
    seen = watch.over(model.state_.history)
    assert seen.step == model.best_iteration_ < model.n_iter_ and watch.ran_out(seen)
    for patience in (None, 10):
        alone = fit(case, patience=patience, max_iter=model.best_iteration_)
        assert alone.best_iteration_ in (None, model.best_iteration_)
        np.testing.assert_array_equal(case.answers(model), case.answers(alone))
        assert alone.state_.best == alone.state_.last == {}
    longer = fit(case, patience=None, max_iter=model.n_iter_)
    last = model.state_.at_last()
    np.testing.assert_equal(last.answers, longer.state_.answers)


@pytest.mark.parametrize("stop", ["best", "next", "end"])
def test_a_resumed_fit_has_the_best_step_of_an_unbroken_one(case, whole, patient, tmp_path, stop):
    path = tmp_path / "run.npz"
    best = whole.best_iteration_
    stop = {"best": best, "next": best + 1, "end": whole.n_iter_}[stop]
    half = fit(case, checkpoint_path=path, max_iter=stop)
    assert half.best_iteration_ == whole.best_iteration_
    np.testing.assert_array_equal(case.answers(half), case.answers(whole))
    resumed = fit(case, checkpoint_path=path, resume=True)
    assert_same_twice(whole, resumed)  # of one that had run out nothing more is done
    more = fit(case, checkpoint_path=path, resume=True, patience=4)
    assert_same_twice(more, patient)


def test_a_fit_that_goes_on_has_the_best_step_of_an_unbroken_one(case, whole, tmp_path):
    model = fit(case, max_iter=1, warm_start=True)
    while model.n_iter_ < whole.n_iter_:
        model.save(tmp_path / "model")
        model = type(model).load(tmp_path / "model")
        fit(case, onto=model, max_iter=1, warm_start=True)
    assert_same_twice(whole, model)
    fit(case, onto=model, max_iter=5, warm_start=True)
    assert model.n_iter_ == whole.n_iter_  # patience has run out


def test_ctrl_c_keeps_the_best_step(case, whole):
    model = case.make()
    model.set_callbacks(At(whole.best_iteration_ + 1, interrupt))
    with pytest.raises(KeyboardInterrupt):
        fit(case, onto=model)
    assert model.n_iter_ == model.best_iteration_ + 1
    np.testing.assert_array_equal(case.answers(model), case.answers(whole))


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_every_rank_by_itself_finds_the_same(case, n_ranks):
    options: dict[str, Any] = {"n_ranks": n_ranks}
    if "eta" in case.make().get_params():
        options["eta"] = min(2, n_ranks)
    expected, model = fit(case, **options), on_threads(case.make())
    assert_same_twice(expected, fit(case, onto=model, **options))


@pytest.mark.parametrize("where", ["run", "gather"])
def test_a_loss_does_not_change_the_best_step(case, whole, monkeypatch, where):
    """Nor does it keep a row from callbacks, or tell them of one twice."""
    model, told = case.make(), []
    make_text, lost = type(model)._text, []

    def breaking(self: Any, *arguments: Any, **named: Any) -> Any:
        text = make_text(self, *arguments, **named)
        run, gather, at = text.run, text.gather, [0]

        def run_once(first: int, last: int) -> Any:
            at[0] = last
            if where == "run":
                once()
            return run(first, last)

        def gather_once(state: Any) -> Any:
            if where == "gather":
                once()
            return gather(state)

        def once() -> None:
            if not lost and at[0] > whole.best_iteration_:
                lost.append(at[0])
                raise WorkerLostError("a worker was lost.")

        text.run, text.gather = run_once, gather_once
        return text

    if where == "gather":
        monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # the state is gathered after each run
    monkeypatch.setattr(type(model), "_text", breaking)
    model.set_callbacks(Listener(told))
    with pytest.warns(DaskpartWarning, match="goes on from the end"):
        fit(case, onto=model)
    assert_same_twice(whole, model)
    assert told == [*range(1, model.n_iter_ + 1)]


class Listener(EpochCallback):
    """Hears of every step, and asks for no look at one."""

    def __init__(self, told: list[int]) -> None:
        self.told = told

    def next_look(self, epoch: int) -> None:
        """It only listens."""

    def epoch_done(self, row: dict[str, Any], snapshot: Any) -> bool:
        self.told.append(row["epoch"])
        return False


def test_on_other_data_patience_begins_anew(case):
    model = fit(case, warm_start=True)
    n = model.n_iter_
    fit(case, onto=model, warm_start=True, on_other=True)
    assert model.n_iter_ > n and n < model.best_iteration_ <= model.n_iter_
    assert model.state_.watched_behind == n


def measured_by(kind: str) -> tuple[Any, Any, Any]:
    """A model with patience, what it learns from, and two things to measure it by."""
    random = np.random.default_rng(1)
    options = {"n_ranks": 2, "transport": "local", "patience": 2, "max_iter": 30}
    if kind == "LogisticRegression":
        X, y = random.normal(size=(60, 5)), random.integers(0, 2, 60)
        model = daskpart.LogisticRegression(solver="sgd", **options)
        return (
            model,
            (X, y),
            [{"eval_set": (X[own], 1 - y[own])} for own in np.split(np.arange(60), 2)],
        )
    table = events(60, 1.0 if kind == "ImplicitFactorization" else None)
    held = table.sample(frac=0.4, random_state=0)
    more = {"missing": "unknown"} if kind == "CPDecomposition" else {}
    model = getattr(daskpart, kind)(4, **more, **options)
    halves = held.iloc[::2], held.iloc[1::2]
    return model, (table.drop(held.index),), [{"validation": half} for half in halves]


@pytest.mark.parametrize(
    "kind",
    ["MatrixFactorization", "ImplicitFactorization", "CPDecomposition", "LogisticRegression"],
)
def test_by_other_held_out_data_patience_begins_anew(kind, tmp_path):
    model, data, (first, second) = measured_by(kind)
    path = tmp_path / "run.npz"
    model.set_params(checkpoint_path=path).fit(*data, **first)
    n = model.n_iter_
    assert n < 30  # patience has run out
    resumed = model.set_params(resume=True).fit(*data, **second)
    assert resumed.n_iter_ > n and resumed.state_.watched_behind == n
    model, data, (first, second) = measured_by(kind)
    model.set_params(warm_start=True).fit(*data, **first)
    model.fit(*data, **first)
    assert model.n_iter_ == n
    model.fit(*data, **second)
    assert model.n_iter_ > n and model.state_.watched_behind == n
    assert model.best_iteration_ > n


@pytest.mark.parametrize("how", ["warm_start", "resume"])
def test_the_callback_counts_no_values_of_other_held_out_data(how, tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    scores = X @ random.normal(size=5)
    y, learnt, easy = scores > 0, slice(200, 300), slice(0, 100)
    hard = np.argsort(abs(scores))[:60]  # of which every loss is above those of the easy ones
    model = daskpart.LogisticRegression(
        n_ranks=1, transport="local", max_iter=4, tol=0, random_state=0,
        checkpoint_path=tmp_path / "run.npz" if how == "resume" else None,
    )  # fmt: skip
    model.fit(X[learnt], y[learnt], eval_set=(X[easy], y[easy]))
    stopping = EarlyStopping(3, monitor="validation_loss")
    model.set_params(max_iter=12, **{how: True}).set_callbacks(stopping)
    model.fit(X[learnt], y[learnt], eval_set=(X[hard], y[hard]))
    assert stopping.best_epoch > 4 and model.n_iter_ > 7


def test_without_patience_nothing_is_kept(case):
    model = fit(case, patience=None, max_iter=3)
    state = model.state_
    assert model.best_iteration_ is None and state.best == state.last == {}


@pytest.mark.parametrize("name", [each for each in STOPPING if each.startswith("GCNC")])
def test_ranks_hold_one_copy_more_of_the_weights(name):
    n = 3000
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    held = {"validation_fraction": 0.3, "max_iter": 2, "optimizer": "sgd"}
    if MODELS[name].make().batch_size:
        held["batch_size"] = 300
    plain, watched = (
        MODELS[name].make(**held, patience=patience).fit(None, np.arange(n) % 3, graph=chain)
        for patience in (None, 5)
    )
    copy = 4 * sum(weight.size for weight in plain.coefs_.values())
    for plan in (False, True):
        one, two = (
            each.plan_report_.memory_of_ranks if plan else np.array(each.comm_report_.memory)
            for each in (plain, watched)
        )
        np.testing.assert_allclose(two - one, copy, rtol=0.01)
    np.testing.assert_allclose(
        watched.comm_report_.memory, watched.comm_report_.expected_memory, rtol=0.15
    )


def events(n_users: int, rating: float | None = None) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"user": random.integers(0, 60, 1200), "item": random.integers(0, 40, 1200)}
    )
    table["rating"] = random.normal(size=1200) if rating is None else rating
    return table.drop_duplicates(["user", "item"])[lambda found: found["user"] < n_users]


STOPS = {"validation_fraction": 0.3, "patience": 2, "max_iter": 30, "n_ranks": 2}


@pytest.mark.parametrize(
    ("kind", "rating"), [("MatrixFactorization", None), ("ImplicitFactorization", 1.0)]
)
def test_partial_fit_goes_on_or_takes_in_who_is_new(kind, rating):
    stops = {**STOPS, "validation_fraction": 0.0}
    make = partial(getattr(daskpart, kind), 4, transport="local", **stops)
    test = events(50, rating).sample(frac=0.3, random_state=0)
    train, more = (events(n_users, rating).drop(test.index) for n_users in (50, 60))
    whole, parts = make().fit(train, validation=test), make()
    for _ in range(whole.n_iter_ + 1):  # one too many, for patience has run out
        parts.partial_fit(train, validation=test)
    assert_same_twice(whole, parts)
    n = whole.n_iter_
    whole.partial_fit(more).partial_fit(more, validation=test)
    assert whole.state_.n_users == 60 and whole.best_iteration_ > n


def test_slices_are_taken_in_behind_the_best_step():
    tensor = sparse.random((30, 20, 10), nnz=500, random_state=0)
    make = partial(daskpart.CPDecomposition, 3, tol=0, missing="unknown", transport="local")
    model = make(**STOPS).fit(tensor)
    errors = model.history_["validation_rmse"]
    assert model.fit_ == model.history_["fit"][model.best_iteration_ - 1]
    several = make(n_init=3, **STOPS).fit(tensor)
    found = several.history_["validation_rmse"]
    assert found.min() == found[several.best_iteration_ - 1] <= errors.min()
    model.partial_fit(sparse.random((3, 20, 10), nnz=60, random_state=1), mode=0)
    assert model.state_.shape == (33, 20, 10) and model.best_iteration_ is None


def test_a_column_of_the_text_will_do():
    """The trainer then looks at every step, as the text runs on."""
    case = MODELS["Ridge"]
    model = case.make(max_iter=20)
    model.patience, model._patience_column = 3, "loss_change"  # least in the first step
    model.fit(*case.data())
    assert (model.best_iteration_, model.n_iter_) == (1, 4)
    alone = case.make(max_iter=1).fit(*case.data())
    np.testing.assert_array_equal(case.answers(model), case.answers(alone))
    last = case.make(max_iter=4).fit(*case.data())
    np.testing.assert_array_equal(model.state_.at_last().weights, last.state_.weights)


# -- what is the best ---


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, float("nan")]), max_size=12), st.booleans())
def test_of_one_column_the_best_is_the_first_of_its_best_values(values, rising):
    watch = Watch(3, () if rising else ("a",), ("a",) if rising else ())
    seen = watch.over([{"epoch": 1 + at, "a": value} for at, value in enumerate(values)])
    known = [(value, at) for at, value in enumerate(values, start=1) if value == value]
    if not known:
        assert seen == Seen()
        return
    best = (max if rising else min)(value for value, _ in known)
    first = next(at for value, at in known if value == best)
    assert seen == Seen((best,), first, sum(at > first for _, at in known))


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 2), max_size=12))
def test_of_two_columns_the_best_is_the_last_that_is_nowhere_worse(pairs):
    watch = Watch(3, ("loss",), ("score",))
    rows = [{"epoch": at, "loss": a, "score": b} for at, (a, b) in enumerate(pairs, start=1)]
    seen, best, since = watch.over(rows), 0, 0
    for at, (loss, score) in enumerate(pairs, start=1):
        before = pairs[: at - 1]
        least = min((a for a, _ in before), default=np.inf)
        most = max((b for _, b in before), default=-np.inf)
        since = 0 if loss <= least or score >= most else since + 1
        if loss <= least and score >= most:
            best = at
    assert (seen.step, seen.since) == (best, since)
    assert watch.ran_out(seen) == (since >= 3)


def test_rows_behind_a_step_are_left_out():
    watch = Watch(2, ("a",))
    rows = [{"epoch": at, "a": float(at)} for at in range(1, 6)]
    assert watch.over(rows) == Seen((1.0,), 1, 4)
    assert watch.over(rows, behind=3) == Seen((4.0,), 4, 1)


@pytest.mark.parametrize("rising", [False, True])
def test_a_value_is_better_by_more_than_the_least_difference(rising):
    watch = Watch(2, () if rising else ("a",), ("a",) if rising else (), min_delta=0.5)
    values = [value if rising else -value for value in (0.0, 0.5, 0.75, 1.25)]
    seen = watch.over([{"epoch": at, "a": value} for at, value in enumerate(values, start=1)])
    assert seen == Seen((values[2],), 3, 1)
