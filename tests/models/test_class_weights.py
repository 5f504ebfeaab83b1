"""Weights of classes: counted once, of the training samples, for all that is measured."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from daskpart import LinearSVC, LogisticRegression
from daskpart.errors import InputError

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


def test_balanced_needs_all_samples():
    model = LinearSVC(solver="sgd", **BALANCED)
    with pytest.raises(InputError, match=r"partial_fit.*compute_class_weight"):
        model.partial_fit(X, Y, classes=["a", "b", "c"])
    model.set_params(class_weight={"a": 0.5, "c": 6.0}).partial_fit(X, Y, classes=["a", "b", "c"])
    assert model.partial_fit(X[:60], Y[:60]).n_iter_ == 2  # a batch of one class
