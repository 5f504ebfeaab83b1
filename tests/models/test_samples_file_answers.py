"""Fitted models asked about a surveyed file: the answers of memory, in order, piece by piece."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest

from daskpart import LinearRegression, LinearSVC, LogisticRegression, MLPClassifier, MLPRegressor
from daskpart.errors import InputError
from daskpart.models.samples import file_answers
from daskpart.readers import ExamplesFile, survey

LOCAL = {"n_ranks": 2, "transport": "local", "max_iter": 3, "tol": 0}
N = 150
RANDOM = np.random.default_rng(6)
X = RANDOM.uniform(0.5, 1.5, (N, 8)).round(3) * (RANDOM.random((N, 8)) < 0.5)
X[0] = 1.0
Y = (X @ RANDOM.normal(size=(8, 3))).argmax(axis=1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The samples as libsvm, with comments between, packed, and as a table with text."""
    folder = tmp_path_factory.mktemp("data")
    text = ""
    for row, label in zip(X, Y, strict=True):
        text += f"{label} " + " ".join(f"{j + 1}:{row[j]}" for j in np.flatnonzero(row)) + "\n"
        text += "# and so on\n" * int(label == 1)
    (folder / "x.libsvm").write_text(text)
    (folder / "x.libsvm.gz").write_bytes(gzip.compress(text.encode()))
    names = ",".join(f"f{j}" for j in range(8))
    cells = [",".join(map(str, row)) for row in X]
    table = [f"{line},{'abc'[label]}\n" for line, label in zip(cells, Y, strict=True)]
    (folder / "x.csv").write_text(f"{names},kind\n" + "".join(table))
    return folder


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(file_answers, "_PIECE_BYTES", 500)


@pytest.mark.parametrize("make", [
    lambda: LogisticRegression(**LOCAL), lambda: LinearSVC(**LOCAL, solver="sgd"),
    lambda: LinearRegression(**LOCAL), lambda: MLPClassifier((4,), **LOCAL),
    lambda: MLPRegressor((4,), **LOCAL),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_answers_for_a_file_are_those_for_its_rows(make, paths):
    model = make().fit(X, Y)
    for name in ("x.libsvm", "x.libsvm.gz"):
        file = survey(paths / name)
        for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
            if hasattr(model, method):
                found, wanted = (getattr(model, method)(each) for each in (file, X))
                assert type(found) is np.ndarray and found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        weight = np.arange(N)
        assert model.score(file) == pytest.approx(model.score(X, Y), rel=1e-9)
        assert model.score(file, sample_weight=weight) == pytest.approx(
            model.score(X, Y, weight), rel=1e-9
        )


def test_a_table_has_labels_that_are_text(paths, monkeypatch):
    file = survey(paths / "x.csv", label="kind")
    model = LogisticRegression(**LOCAL).fit(file)
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)])
    assert (model.predict(file) == model.predict(frame)).all()
    assert model.score(file) == model.score(frame, np.array(list("abc"))[Y])
    (paths / "y.csv").write_text("g0,f1,f2,f3,f4,f5,f6,f7,kind\n1,2,3,4,5,6,7,8,a\n")
    with pytest.raises(InputError, match="feature names"):
        model.predict(survey(paths / "y.csv", label="kind"))
    with pytest.raises(InputError, match="feature names"):  # also of what it is measured by
        model.fit(file, eval_set=(survey(paths / "y.csv", label="kind"), None))
    sgd = LogisticRegression(solver="sgd", **LOCAL).fit(file)
    with pytest.raises(InputError, match="feature names"):  # and of what it goes on with
        sgd.partial_fit(survey(paths / "y.csv", label="kind"))


def test_no_task_has_more_than_a_piece(paths, monkeypatch):
    """Nor does the packed file, which is one task, unpack its text more than once."""
    most, unpacked = [], []
    answer, text = LogisticRegression.predict, file_answers.UnpackedText

    def counted(self, rows):
        if not isinstance(rows, ExamplesFile):
            most.append(rows.shape[0])
        return answer(self, rows)

    monkeypatch.setattr(LogisticRegression, "predict", counted)

    def counted_text(*given):
        unpacked.append(given)
        return text(*given)

    monkeypatch.setattr(file_answers, "UnpackedText", counted_text)
    model = LogisticRegression(**LOCAL).fit(X, Y)
    for name, times in (("x.libsvm", 0), ("x.libsvm.gz", 1)):
        most.clear()
        # the blocks of the same text, as one block of a packed file holds all of this one
        file = replace(survey(paths / "x.libsvm"), path=str(paths / name))
        np.testing.assert_array_equal(model.predict(file), model.predict(X))
        assert max(most[:-1]) < N / 4 and sum(most[:-1]) == N
        assert len(unpacked) == times


def test_what_cannot_be(paths):
    file = survey(paths / "x.libsvm")
    model = LogisticRegression(**LOCAL)
    with pytest.raises(Exception, match="not fitted"):
        model.predict(file)
    model.fit(X[:, :5], Y)
    with pytest.raises(InputError, match=r"has 8 features.*fitted with 5.*n_features=5"):
        model.score(file)
    model.fit(X, Y)
    with pytest.raises(InputError, match="own targets"):
        model.score(file, Y)
    with pytest.raises(InputError, match="y is None"):
        model.score(X)


@pytest.mark.parametrize("make", [
    lambda: LogisticRegression(class_weight="balanced", **LOCAL),
    lambda: LinearRegression(solver="sgd", eta0=0.01, **LOCAL),
    lambda: MLPClassifier((4,), **LOCAL),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_held_out_samples_may_be_in_a_file(make, paths):
    file, train = survey(paths / "x.libsvm"), survey(paths / "x.libsvm.gz")
    columns = [each for each in make().fit(X, Y, eval_set=(X, Y)).history_ if "valid" in each]
    assert columns
    for data in ((X, Y), (train, None)):
        there = make().fit(*data, eval_set=(file, None)).history_[columns]
        here = make().fit(*data, eval_set=(X, Y)).history_[columns]
        np.testing.assert_allclose(there, here, rtol=1e-12)
    stopped = make().set_params(patience=1, max_iter=50).fit(X, Y, eval_set=(file, None))
    assert stopped.best_iteration_ is not None
    with pytest.raises(InputError, match="own targets"):
        make().fit(X, Y, eval_set=(file, Y))
    with pytest.raises(InputError, match="has 8 features"):
        make().fit(X[:, :4], Y, eval_set=(file, None))
