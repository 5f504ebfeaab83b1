"""Weights of classes: counted once, of the training samples, for all that is measured."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from daskpart import LinearSVC, LogisticRegression, MLPClassifier
from daskpart.errors import InputError
from daskpart.readers import survey

LOCAL = {"n_ranks": 2, "transport": "local"}
RANDOM = np.random.default_rng(4)
X = RANDOM.normal(size=(90, 3))
Y = np.repeat(["a", "b", "c"], [60, 25, 5])
X[:, 0] += Y == "b"
BALANCED = {"class_weight": "balanced", "max_iter": 30, **LOCAL}


def test_held_out_samples_weigh_as_those_of_training():
    """Also where a class is rare, or not among them."""
    as_numbers = dict(zip("abc", compute_class_weight("balanced", classes=np.unique(Y), y=Y),
                          strict=True))  # fmt: skip
    held = np.arange(20, 84, 2)
    for own in (held, held[Y[held] != "c"]):
        losses = [
            LogisticRegression(**{**BALANCED, "class_weight": weights})
            .fit(X, Y, eval_set=(X[own], Y[own])).history_["validation_loss"].to_numpy()
            for weights in ("balanced", as_numbers)
        ]  # fmt: skip
        np.testing.assert_array_equal(*losses)


def test_a_class_without_weight_is_as_if_it_were_not_there():
    weight = (Y != "c").astype(float)
    model = LogisticRegression(**BALANCED).fit(X, Y, weight)
    assert np.isfinite(model.coef_).all()
    some = Y != "c"
    each = np.r_[compute_class_weight("balanced", classes=np.array(["a", "b"]), y=Y[some]), 0.0]
    same = LogisticRegression(**{**BALANCED, "class_weight": dict(zip("abc", each, strict=True))})
    # three classes are counted, so C is of weights 2/3 as large
    same.set_params(C=2 / 3).fit(X, Y, weight)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)


def test_a_weight_of_no_class_is_told_by_its_name():
    for weights in ({"d": 2.0}, {"a": 2.0, "d": 3.0}):
        model = LogisticRegression(**{**BALANCED, "class_weight": weights})
        with pytest.raises(InputError, match=r"names 'd', .* none of the 3 classes, such as 'a'"):
            model.fit(X, Y)
    model.set_params(class_weight={"a": 1, "b": 1, "c": 1, "d": 3}).fit(X, Y)  # as of a fold


@pytest.mark.parametrize("labels", [["1", "2", "3+"], ["007", "7", "b"], [1, 2, 30]])
def test_weights_go_by_the_name_of_the_class(labels):
    """Also of text that is a number, which scikit-learn takes for the number."""
    named = dict(zip(labels, (0.2, 3.0, 7.0), strict=True))
    y = np.array(labels)[np.searchsorted(["a", "b", "c"], Y)]
    for given in (named, {labels[0]: 0.2}):
        expected = LogisticRegression(max_iter=30, **LOCAL)
        expected.fit(X, y, [given.get(label, 1.0) for label in y.tolist()])
        found = LogisticRegression(class_weight=given, max_iter=30, **LOCAL).fit(X, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_a_number_names_a_class_of_text_as_in_scikit_learn():
    y = np.array(["1", "2", "b"])[np.searchsorted(["a", "b", "c"], Y)]
    by_number, by_name = (
        LogisticRegression(**{**BALANCED, "class_weight": given}).fit(X, y).coef_
        for given in ({1: 0.2, "b": 7.0}, {"1": 0.2, "b": 7.0})
    )
    np.testing.assert_array_equal(by_number, by_name)


def test_balanced_needs_all_samples():
    model = LinearSVC(solver="sgd", **BALANCED)
    with pytest.raises(InputError, match=r"partial_fit.*compute_class_weight"):
        model.partial_fit(X, Y, classes=["a", "b", "c"])
    model.set_params(class_weight={"a": 0.5, "c": 6.0}).partial_fit(X, Y, classes=["a", "b", "c"])
    assert model.partial_fit(X[:60], Y[:60]).n_iter_ == 2  # a batch of one class


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 0.2, "c": 7.0}, {"c": 0.0}])
@pytest.mark.parametrize("on_disk", [False, True])
def test_of_a_file_they_are_those_of_memory(class_weight, on_disk, tmp_path):
    """The survey counts the labels."""
    lines = [
        ",".join(map(repr, row.tolist())) + f",{label}\n" for row, label in zip(X, Y, strict=True)
    ]
    (tmp_path / "x.csv").write_text("p,q,r,kind\n" + "".join(lines))
    file = survey(tmp_path / "x.csv", label="kind", on_disk=on_disk)
    assert file.label_counts.tolist() == [60, 25, 5]
    for how in ({"tol": 1e-8}, {"tol": 1e-8, "n_ranks": 1}):
        model = LogisticRegression(
            **BALANCED | {"class_weight": class_weight, "max_iter": 200} | how
        )
        held = (X[::2], Y[::2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arrays have no names
            there = model.fit(file, eval_set=held)
        coefficients, losses = there.coef_, there.history_["validation_loss"]
        here = model.fit(X, Y, eval_set=held)
        np.testing.assert_allclose(coefficients, here.coef_, atol=1e-5)
        assert losses.iloc[-1] == pytest.approx(here.history_["validation_loss"].iloc[-1], rel=1e-5)
    if class_weight != "balanced":
        sgd = LinearSVC(solver="sgd", class_weight=class_weight, **LOCAL)
        assert sgd.partial_fit(file, classes=[*"abc"]).partial_fit(file).n_iter_ == 2


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("class_weight", ["balanced", {"a": 0.2, "c": 7.0}])
def test_of_a_perceptron_they_are_weights_of_its_samples(class_weight, n_ranks, tmp_path):
    options = {"n_ranks": n_ranks, "transport": "local", "max_iter": 8, "batch_size": 16}
    made = MLPClassifier((6,), class_weight=class_weight, **options).fit(X, Y, eval_set=(X, Y))
    given = class_weight if isinstance(class_weight, str) else {"b": 1.0} | class_weight
    each = compute_class_weight(given, classes=np.unique(Y), y=Y)[np.searchsorted([*"abc"], Y)]
    same = MLPClassifier((6,), **options).fit(X, Y, each)
    for mine, theirs in zip(made.coefs_, same.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    plain = MLPClassifier((6,), **options).fit(X, Y)
    assert (made.predict(X) == "c").sum() > (plain.predict(X) == "c").sum()
    made.save(tmp_path / "model")
    assert MLPClassifier.load(tmp_path / "model").class_weight == class_weight


def test_a_table_of_classes_has_no_weights_of_classes():
    table = np.stack([Y == "a", Y != "b"], axis=1).astype(int)
    with pytest.raises(InputError, match=r"class_weight weighs samples by their class.*leave it"):
        MLPClassifier(class_weight={0: 2.0}, **LOCAL).fit(X, table)


def test_a_file_of_classes_that_weigh_nothing(tmp_path):
    (tmp_path / "x.libsvm").write_text("0 1:1\n1 2:1\n")
    file = survey(tmp_path / "x.libsvm")
    with pytest.raises(InputError, match="weights of all samples are 0"):
        LogisticRegression(class_weight={0: 0.0, 1: 0.0}, **LOCAL).fit(file)
    bools = tmp_path / "x.csv"
    bools.write_text("p,rich\n1,true\n2,false\n3,true\n")
    assert survey(bools, label="rich").label_counts.tolist() == [1, 2]


def test_weights_whose_sum_no_float_holds(tmp_path):
    """Else all coefficients would be 0, without a word."""
    X, y = np.eye(4), [0, 1, 0, 1]
    (tmp_path / "x.libsvm").write_text("0 1:1\n1 2:1\n")
    file = survey(tmp_path / "x.libsvm")
    heavy = LogisticRegression(class_weight={0: 1e308, 1: 1e308}, **LOCAL)
    for fit in (
        lambda: heavy.fit(X, y),
        lambda: heavy.fit(file),
        lambda: LogisticRegression(**LOCAL).fit(X, y, sample_weight=[1e308] * 4),
    ):
        with pytest.raises(InputError, match="sum of the weights is too large"):
            fit()


@pytest.mark.parametrize("weight", [-0.5, np.nan, np.inf, "2"])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_weights_below_0_or_that_are_no_number_are_refused(make, weight):
    """A class that repels would have no optimum, as little as a weight that is not there."""
    with pytest.raises(InputError, match=r"class_weight\['b'\] is .*, 0 or more"):
        make(class_weight={"b": weight}, **LOCAL).fit(X, Y)
    model = make(solver="sgd", class_weight={"b": weight}, **LOCAL)
    with pytest.raises(InputError, match=r"class_weight\['b'\] is .*, 0 or more"):
        model.partial_fit(X, Y, classes=["a", "b", "c"])
