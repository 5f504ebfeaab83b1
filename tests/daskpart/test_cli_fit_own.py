"""`daskpart fit MODULE:CLASS`: a class of a user is fitted, written, resumed as ours are."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from command_results import metrics_of, whole_and_resumed

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
sys.path.insert(0, str(GUIDE))

Ridge = import_module("ridge_model").Ridge

NAMES = ("ridge_model:Ridge", f"{GUIDE}/ridge_model.py:Ridge")
SMALL = ("--label", "y", "--ranks", 3, "--max-iter", 8, "--tol", 0)


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(120, 4)), columns=["a", "b", "c", "d"])
    frame["y"] = frame.to_numpy() @ np.arange(4.0) + 1
    frame.to_csv(tmp_path / "X.csv", index=False)
    return tmp_path / "X.csv"


@pytest.mark.parametrize("name", NAMES)
def test_fit_writes_what_the_base_gives(name, table, tmp_path, capsys, run_cli):
    out = tmp_path / "out"
    arguments = (*SMALL, "--test", table, "--alpha", 0.1, "--out", out)
    assert run_cli("fit", name, table, *arguments) == 0
    told = capsys.readouterr().out
    assert "120 samples of 4 features" in told and "Plan: 3 ranks" in told
    assert "ridge_model.Ridge.load" in told
    model = Ridge.load(out / "model")
    X = pd.read_csv(table)
    y = X.pop("y")
    alike = Ridge(0.1, max_iter=8, tol=0, n_ranks=3, transport="local").fit(X.to_numpy(), y)
    np.testing.assert_array_equal(model.coef_, alike.coef_)
    metrics = metrics_of(out)
    assert metrics["epochs"] == 8 and metrics["loss"] == model.history_["loss"].iloc[-1]
    assert metrics["test_score"] == model.score(X.to_numpy(), y)
    assert len(pd.read_csv(out / "history.csv")) == 8
    page = (out / "report.html").read_text()
    assert "from ridge_model import Ridge" in page and "Ridge of X.csv" in page
    assert page.count("data:image/png;base64,") == 3
    run = metrics["communication"]  # sums travel, and no rows to draw
    assert "Bytes sent from each rank" in page and "bytes sent per epoch" in page
    assert np.sum(run["traffic_bytes"]) == run["measured_bytes"] > 0 == np.sum(run["traffic"])
    assert "no rows travelled" not in told and "rows an epoch" not in told


def test_resume_and_a_kept_plan_give_the_bits_of_an_unbroken_fit(table, tmp_path, run_cli):
    options = (*SMALL, "--plan", tmp_path / "plan.npz")
    whole, rest = map(Ridge.load, whole_and_resumed(run_cli, tmp_path, NAMES[0], table, *options))
    assert whole.n_iter_ == rest.n_iter_ == 4
    np.testing.assert_array_equal(whole.state_.weights, rest.state_.weights)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_the_parameters_of_the_class(name, capsys, run_cli):
    assert run_cli("fit", name, "--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Linear regression with an L2 penalty" in told and "SAMPLES is a libsvm file" in told
    assert "--alpha X [default: 0.01; x>=0]" in told
    assert "--resume Begin at the newest checkpoint" in told
    assert not [each for each in ("--names", "--patience", "--random-state") if each in told]


OTHERS = '''
from daskpart.models.base.estimator import DistributedEstimator
from ridge_model import Ridge

class Rows(DistributedEstimator):
    """Sums of rows."""

    _parameter_constraints, _state_class = Ridge._parameter_constraints, Ridge._state_class
    _measures, _keep_more = Ridge._measures, Ridge._keep_more
    _problem, _make_plan, _first_state = Ridge._problem, Ridge._make_plan, Ridge._first_state
    _text = Ridge._text

    def __init__(self, max_iter=2, n_ranks=None):
        self.max_iter, self.n_ranks, self.alpha = max_iter, n_ranks, 0

    def fit(self, X, y=None, *, plan=None, client=None):
        return self._fit(X, X.sum(axis=1), plan=plan, client=client)

    def plan(self, X, y=None, **more):
        return super().plan(X, X.sum(axis=1), **more)

class Twice(DistributedEstimator):
    _parameter_constraints = {"out": ["boolean"]}

    def __init__(self, out=True):
        self.out = out

    def fit(self, X): ...
'''


@pytest.fixture
def others(tmp_path):
    path = tmp_path / f"others_{tmp_path.name}.py"  # a module is imported once a process
    path.write_text(OTHERS)
    return path


def test_a_model_that_needs_no_target_gets_a_matrix(others, tmp_path, capsys, run_cli):
    X = scipy.sparse.random_array((40, 5), density=0.5, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(tmp_path / "X.npz", X.tocsr())
    arguments = ("--ranks", 2, "--no-plots", "--out", tmp_path / "out")
    name = f"{others}:Rows"
    assert run_cli("fit", name, tmp_path / "X.npz", *arguments) == 0
    assert "100 values in 40 users × 5 items" in capsys.readouterr().out


def test_a_matrix_is_told_how_it_is_written_as_for_our_models(others, tmp_path, capsys, run_cli):
    (tmp_path / "plain.csv").write_text("1,7,2.0\n2,8,1.0\nu3,7,3.0\n")
    (tmp_path / "table.csv").write_text("who,what,much\na,x,2.0\nb,y,1.0\na,y,1.0\n")
    shared = ("--ranks", 1, "--no-plots", "--out", tmp_path / "out")
    name = f"{others}:Rows"
    assert run_cli("fit", name, tmp_path / "plain.csv", *shared) != 0
    assert "--text-ids" in capsys.readouterr().err
    plain = (tmp_path / "plain.csv", "--no-header", "--text-ids")
    assert run_cli("fit", name, *plain, *shared) == 0
    assert "3 values in 3 users × 2 items" in capsys.readouterr().out
    columns = ("--user", "who", "--item", "what", "--rating", "much")
    assert run_cli("fit", name, tmp_path / "table.csv", *columns, *shared) == 0
    assert "3 values in 2 whos × 2 whats" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "words"), [
    ("no_such.module:Ridge", "'no_such.module' cannot be imported"),
    ("no_such.py:Ridge", "no_such.py: no such file"),
    ("ridge_model:Rigde", "'Rigde' is not there; models there: Ridge"),
    ("ridge_model:Samples", "'Samples' is no model"),
    ("ridge_model:np", "'np' is no model"),
    (":Ridge", "cannot be imported"),
    ("{others}:Twice", "its parameter 'out' has the name of an option"),
    ("{broken}:Ridge", "cannot be imported (ZeroDivisionError: division by zero)"),
])  # fmt: skip
def test_what_is_no_model_is_one_line(name, words, others, tmp_path, capsys, run_cli):
    broken = tmp_path / f"broken_{tmp_path.name}.py"
    broken.write_text("1 / 0\n")
    name = name.format(others=others, broken=broken)
    assert run_cli("fit", name, "X.csv") == 2
    complaint = capsys.readouterr().err
    assert words in complaint and len(complaint.splitlines()) == 1


def test_a_file_hidden_by_a_module_of_the_same_name_is_one_line(tmp_path, capsys, run_cli):
    (tmp_path / "ridge_model.py").write_text("class Ridge: ...\n")
    assert run_cli("fit", f"{tmp_path}/ridge_model.py:Ridge", "X.csv") == 2
    assert "ridge_model.py has the same name" in capsys.readouterr().err
