"""What every model keeps: scikit-learn's contract, and that of the base.

The models stand in `contract_models`.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from contract_models import EDGES, MODELS, Case, OnEdges
from fit_tools import At, assert_same, interrupt, on_threads
from sklearn.base import clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.estimator_checks import check_estimator

import daskpart
from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.models.base import trainer
from daskpart.models.base.callbacks import EarlyStopping
from daskpart.models.base.parameters import SharedParameters, check_parameters
from daskpart.models.base.state import same_bits


@pytest.fixture(params=MODELS)
def case(request) -> Case:
    return MODELS[request.param]


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
            with pytest.raises(ReadError, match=f"holds a model of class {type(model).__name__}"):
                kind.load(tmp_path / "model")


def test_resume_gives_the_bits_of_an_unbroken_fit(case, tmp_path):
    whole = case.make(max_iter=6).fit(*case.data())
    for stop, suffix in ((1, ".npz"), (3, ".zarr"), (6, ".npz")):
        kept: dict[str, Any] = {"checkpoint_path": tmp_path / f"run-{stop}{suffix}"}
        if suffix == ".zarr" and "checkpoint_every" in whole.get_params():
            kept["checkpoint_every"] = 3  # a folder takes longer to write than a step to compute
        case.make(max_iter=stop, **kept).fit(*case.data())
        resumed = case.make(max_iter=6, **kept, resume=True).fit(*case.data())
        assert_same(whole, resumed)
        assert resumed.n_iter_ == 6


@pytest.mark.parametrize("n_ranks", [2, 5])
def test_a_fit_goes_on_on_other_ranks(case, tmp_path, n_ranks):
    path = tmp_path / "run.npz"
    begun = case.make(max_iter=3, checkpoint_path=path).fit(*case.data())
    other = {"n_ranks": n_ranks, "checkpoint_path": path, "resume": True}
    with pytest.warns(DaskpartWarning, match=rf"is of 3 ranks, this fit has {n_ranks}: it goes on"):
        resumed = case.make(max_iter=5, **other).fit(*case.data())
    assert resumed.n_iter_ == 5
    measured = [name for name in begun.history_ if not name.startswith("seconds")]
    assert resumed.history_[measured][:3].equals(begun.history_[measured])
    assert resumed.state_.settings["n_ranks"] == resumed.plan_report_.n_ranks == n_ranks
    further = case.make(max_iter=6, **other).fit(*case.data())  # no other ranks any more
    assert further.n_iter_ == 6 and np.isfinite(case.answers(further)).all()


EXACT = [name for name in MODELS if name.startswith(("Implicit", "CP", "GCN", "Ridge"))]


@pytest.mark.parametrize("name", EXACT)
def test_other_ranks_find_what_the_ranks_before_would_have(name, tmp_path):
    case, path = MODELS[name], tmp_path / "run.npz"
    whole = case.make(max_iter=5).fit(*case.data())
    case.make(max_iter=2, checkpoint_path=path).fit(*case.data())
    with pytest.warns(DaskpartWarning, match="it goes on"):
        resumed = case.make(max_iter=5, n_ranks=2, checkpoint_path=path, resume=True)
        resumed.fit(*case.data())
    np.testing.assert_allclose(case.answers(resumed), case.answers(whole), rtol=1e-3, atol=1e-4)


def test_other_ranks_are_no_reason_to_go_on_with_another_fit(tmp_path, monkeypatch):
    case, path = MODELS["LogisticRegression"], tmp_path / "run.npz"
    case.make(max_iter=1, checkpoint_path=path).fit(*case.data())
    other = case.make(n_ranks=2, C=0.5, checkpoint_path=path, resume=True)
    monkeypatch.setattr(type(other), "_make_plan", None)
    with pytest.raises(InputError, match=r"another fit \(C: 1\.0 there, 0\.5 now\)"):
        other.fit(*case.data())


def test_ctrl_c_keeps_the_work(case):
    model = case.make(max_iter=50)
    model.set_callbacks(At(3, interrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*case.data())
    assert model.n_iter_ == 3
    assert_same(model, case.make(max_iter=3).fit(*case.data()))


def test_a_callback_that_had_enough_stops_a_resumed_fit_and_no_other(case, tmp_path):
    checkpoints = {"checkpoint_path": tmp_path / "run.npz", "max_iter": 30}
    stopping = EarlyStopping(2, min_delta=1e9, monitor="seconds")  # no fall counts
    model = case.make(**checkpoints).set_callbacks(stopping).fit(*case.data())
    assert model.n_iter_ == 3
    resumed = case.make(**checkpoints, resume=True).set_callbacks(stopping).fit(*case.data())
    assert resumed.n_iter_ == 3
    if hasattr(model, "partial_fit"):
        more = case.make(max_iter=30).set_callbacks(stopping).fit(*case.data())
        assert more.partial_fit(*case.data()).n_iter_ == 4


def test_a_callback_does_not_count_the_steps_of_another_fit(case):
    stopping = EarlyStopping(2, min_delta=1e9, monitor="seconds")  # no fall counts
    model = case.make(max_iter=30).set_callbacks(stopping).fit(*case.data())
    assert model.n_iter_ == 3
    if "warm_start" in model.get_params():
        model.set_params(warm_start=True, random_state=99).fit(*case.data())
        assert model.n_iter_ == 3 + 3 and stopping.waited == 2


def test_a_resumed_fit_does_not_count_the_steps_of_another_fit(case, tmp_path):
    """It stops where it would have stopped unbroken, which counted none of them."""
    model = case.make(max_iter=2)
    if "warm_start" not in model.get_params():
        pytest.skip("it has no warm start")
    other = {"random_state": 99, "checkpoint_path": tmp_path / "run.npz"}
    model.fit(*case.data()).set_params(warm_start=True, max_iter=1, **other).fit(*case.data())
    stopping = EarlyStopping(2, min_delta=1e9, monitor="seconds")  # no fall counts
    resumed = case.make(max_iter=30, resume=True, **other).set_callbacks(stopping)
    assert resumed.fit(*case.data()).n_iter_ == 3 + 2


def test_a_plan_or_a_fit_that_fails_leaves_the_model_as_it_was(case, monkeypatch):
    X, *more = case.data()
    model = case.make().fit(X, *more)
    before, answers = dict(vars(model)), case.answers(model)
    model.plan(X[..., :-1], *more)
    assert vars(model) == before
    monkeypatch.setattr(type(model), "_make_plan", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(X[..., :-1], *more)
    assert vars(model) == before
    np.testing.assert_array_equal(case.answers(model), answers)


def test_ranks_that_no_machine_has_are_refused_at_once(case):
    with pytest.raises(InputError, match=r"'n_ranks'.*\[1, 65536\].*Got 10000000"):
        case.make(n_ranks=10**12).fit(*case.data())


def test_a_bool_is_no_number(case):
    """It went through as 1 or 0, or to an error of Python's."""
    model = case.make()
    for name, allowed in type(model)._parameter_constraints.items():
        ranges = [each for each in allowed if isinstance(each, Interval)]
        if ranges and "boolean" not in allowed and name in model.get_params():
            with pytest.raises(InputError, match=rf"{name}\b.* True"):
                case.make().set_params(**{name: True}).fit(*case.data())


def test_a_number_as_the_schedule_of_the_rate_is_told_where_it_goes(case):
    if not hasattr(case.make(), "learning_rate"):
        pytest.skip("no rate")
    with pytest.raises(
        InputError, match=r"Got 0\.01 .*The rate itself is (initial_l|eta0|learning_rate_i)"
    ):
        case.make(learning_rate=0.01).fit(*case.data())


def test_a_number_may_be_the_rate_of_a_model_of_ones_own():
    class Own(SharedParameters):
        learning_rate = 0.1

        def __init__(self, max_iter=0):
            self.max_iter = max_iter

    with pytest.raises(InputError, match=r"^The 'max_iter' parameter of Own .* Got 0 instead\.$"):
        check_parameters(Own())


def test_ranks_that_are_not_said_are_those_of_the_partition(case):
    partition = case.make().plan(*case.data()).partition
    if partition is None or not hasattr(case.make(), "partitioner"):
        pytest.skip("no partition is taken")
    for given in (partition, partition.assignment, partition.assignment.tolist()):
        plan = case.make(n_ranks=None, partitioner=given).plan(*case.data())
        assert plan.n_ranks == 3
    with pytest.raises(InputError, match="partitioner names ranks 0 to 1000000000"):
        far = np.where(partition.assignment == 2, 10**9, partition.assignment)
        case.make(n_ranks=None, partitioner=far).plan(*case.data())
    masked = np.ma.array(partition.assignment, mask=np.arange(len(partition.assignment)) == 1)
    with pytest.raises(InputError, match="partitioner hold 1 masked"):
        case.make(partitioner=masked).plan(*case.data())


def test_no_rank_is_left_without_anything(case):
    partition = case.make().plan(*case.data()).partition
    if partition is None or not hasattr(case.make(), "partitioner"):
        pytest.skip("no partition is taken")
    with pytest.raises(InputError, match=r"2 of 3 ranks have no \w+ \(rank 0, 2\); take fewer"):
        case.make(partitioner=np.ones_like(partition.assignment)).plan(*case.data())


def test_ranks_that_are_not_said_are_those_of_the_checkpoint(case, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    whole = case.make(max_iter=3).fit(*case.data())
    case.make(max_iter=2, checkpoint_path=path).fit(*case.data())
    monkeypatch.setattr(type(whole), "_default_ranks", lambda *_: 2)  # another machine
    options = {"n_ranks": None, "checkpoint_path": path, "resume": True, "max_iter": 3}
    assert_same(whole, case.make(**options).fit(*case.data()))


def test_a_plan_takes_the_data_that_a_fit_takes(case, tmp_path):
    data, path, model = case.data(), tmp_path / "plan.npz", case.make()
    if isinstance(model, OnEdges):
        pytest.skip("takes any keyword")
    model.plan(*data).save(path)
    for name, value in (("grph", EDGES), ("plan", None)):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            model.plan(*data, **{name: value})
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            model.load_plan(path, *data, **{name: value})


def test_another_number_of_components_is_no_fit_that_goes_on(case, monkeypatch):
    """Which is told before anything is cut."""
    if "n_components" not in case.make().get_params():
        pytest.skip("there are no components")
    data, more = case.data(), 2
    model = case.make(max_iter=1, warm_start=True).fit(*data)
    n, before = model.n_components, dict(vars(model))
    model.set_params(n_components=n + more)
    with monkeypatch.context() as uncut:
        uncut.setattr(type(model), "_make_plan", None)
        for go_on in (model.fit, model.partial_fit):
            with pytest.raises(InputError, match=f"had {n} components, n_components is {n + more}"):
                go_on(*data)
    assert vars(model) == before | {"n_components": n + more}
    assert model.set_params(warm_start=False).fit(*data).state_.n_components == n + more


def test_what_cannot_go_on_is_refused_before_anything_is_cut(case, tmp_path, monkeypatch):
    (X, *more), path = case.data(), tmp_path / "run.npz"
    model = case.make(max_iter=1, checkpoint_path=path).fit(X, *more)
    model.set_params(checkpoint_path=None)
    monkeypatch.setattr(type(model), "_make_plan", None)
    if "warm_start" in model.get_params():
        model.set_params(warm_start=True)
        with pytest.raises(InputError, match=r"last fit|of the fit|was fitted|weights of"):
            model.fit(X[:, :-1], *more)
    resumed = case.make(checkpoint_path=path, resume=True)
    for begin in (resumed.fit, resumed.plan):
        with pytest.raises(InputError, match=r"run\.npz belongs to another fit \(the data: "):
            begin(case.other(X), *more)


def test_a_plan_is_made_once(case, monkeypatch):
    data = case.data()
    expected, model = case.make().fit(*data), case.make()
    plan = model.plan(*data)
    monkeypatch.setattr(type(model), "_make_plan", None)  # nothing plans a second time
    assert_same(expected, model.fit(*data, plan=plan))
    assert repr(plan.report()) == repr(model.plan_report_)
    assert plan._repr_html_() == model.plan_report_._repr_html_()  # what a notebook shows
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
        case.make().load_plan(path, case.other(data[0]), *data[1:])


def test_a_plan_of_other_data_is_refused(case):
    data = list(case.data())
    plan = case.make().plan(*data)
    data[0] = case.other(data[0])
    with pytest.raises(InputError, match="made for other data"):
        case.make().fit(*data, plan=plan)


@pytest.mark.parametrize(
    "make",
    [daskpart.MatrixFactorization, daskpart.ImplicitFactorization, daskpart.CPDecomposition],
)
def test_a_plan_of_the_same_entries_in_another_shape_is_refused(make):
    """Its ranks would have rows that are not there, or lack some that are."""
    rows, columns = np.arange(30) % 10, np.arange(30) % 7
    few, many = (
        scipy.sparse.coo_array((rows + 1.0, (rows, columns)), shape=shape)
        for shape in ((10, 7), (13, 9))
    )
    model = make(2, n_ranks=2, max_iter=1, transport="local")
    for planned, fitted in ((few, many), (many, few)):
        with pytest.raises(InputError, match=r"other data \(\d+ × \d, 30 .* \(\d+ × \d, 30"):
            model.fit(fitted, plan=model.plan(planned))


def test_a_plan_with_a_parameter_that_the_model_lacks_is_refused(case):
    plan = case.make().plan(*case.data())
    other = replace(plan, settings={**plan.settings, "n_layers": 2})
    with pytest.raises(InputError, match="this model has no n_layers; make the plan anew"):
        case.make().fit(*case.data(), plan=other)
    if not plan.settings:
        return
    name, *others = plan.settings
    other = replace(plan, settings={each: plan.settings[each] for each in others})
    with pytest.raises(InputError, match=f"the plan has no {name}; make the plan anew"):
        case.make().fit(*case.data(), plan=other)


def test_reports_say_what_was_planned_and_what_was_sent(case):
    model = case.make().fit(*case.data())
    for report in (model.plan_report_, model.comm_report_):
        assert repr(report) and report._repr_html_().startswith("<table")
        assert repr(type(report).from_dict(report.to_dict())) == repr(report)
    assert "memory a rank" in repr(model.plan_report_)
    assert model.comm_report_.matches and model.comm_report_.n_steps == 4
    assert len(model.plan_report_.memory_of_ranks) == 3


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_the_text_gives_the_same_bits_on_every_rank_by_itself(case, n_ranks):
    data = case.data()
    options: dict[str, Any] = {"n_ranks": n_ranks}
    if "eta" in case.make().get_params():
        options["eta"] = min(2, n_ranks)
    expected, model = case.make(**options).fit(*data), on_threads(case.make(**options))
    assert_same(expected, model.fit(*data))


def test_steps_are_run_together_where_nobody_looks(case, monkeypatch):
    """Ten short steps take fewer runs, and end with the bits of runs of one step."""
    model, lengths = case.make(max_iter=10), []
    make_text = type(model)._text

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        text = make_text(self, *arguments, **named)
        run = text.run
        text.run = lambda first, last: lengths.append(last - first + 1) or run(first, last)
        return text

    monkeypatch.setattr(type(model), "_text", counted)
    monkeypatch.setattr(trainer, "LEAST_SECONDS", 1.0)  # steps are short, also on a busy machine
    model.fit(*case.data())
    assert sum(lengths) == 10 and lengths[0] == 1 and len(lengths) < 10
    looked = case.make(max_iter=10)
    looked.set_callbacks(At(11, interrupt)).fit(*case.data())
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
def test_a_lost_worker_does_not_change_the_result(case, own_client, kill_in_next_run):
    data = case.data()
    expected = case.make(n_ranks=2, max_iter=6).fit(*data)
    model = case.make(n_ranks=2, max_iter=6, transport="auto")
    model.set_callbacks(At(2, kill_in_next_run), At(4, lambda: None))
    with pytest.warns(DaskpartWarning, match="goes on from the end of"):
        model.fit(*data, client=own_client)
    assert_same(expected, model)
