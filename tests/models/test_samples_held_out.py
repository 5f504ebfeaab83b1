"""Samples to measure a loss on: what does not fit those that are learnt from is refused."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart import LinearRegression, MLPClassifier, MLPRegressor
from daskpart.errors import InputError
from daskpart.readers import survey

LOCAL = {"n_ranks": 1, "transport": "local", "max_iter": 2, "tol": 0}
RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(40, 3))
Y = X @ RANDOM.normal(size=(3, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [
    lambda: LinearRegression(**LOCAL), lambda: MLPRegressor((3,), **LOCAL)
])  # fmt: skip
@pytest.mark.parametrize(("here", "there"), [(1, 2), (2, 1), (2, 4)])
def test_targets_of_another_number_are_refused(make, here, there):
    """numpy would stretch one column over many, and the loss would be that of no model."""
    with pytest.raises(InputError, match=r"eval_set have .* targets? each, those of the fit "):
        make().fit(X, Y[:, :here], eval_set=(X, Y[:, :there]))
    assert "validation_loss" in make().fit(X, Y[:, :here], eval_set=(X, Y[:, :here])).history_


def test_a_file_has_one_target(tmp_path):
    rows = [f"{y} 1:{x[0]} 2:{x[1]} 3:{x[2]}\n" for x, y in zip(X, Y[:, 0], strict=True)]
    (tmp_path / "x.libsvm").write_text("".join(rows))
    file = survey(tmp_path / "x.libsvm")
    with pytest.raises(InputError, match="one target each, those of the fit 2 targets each"):
        LinearRegression(**LOCAL).fit(X, Y[:, :2], eval_set=(file, None))


def test_one_class_is_not_several():
    with pytest.raises(InputError, match="one target each, those of the fit 4 targets each"):
        MLPClassifier((3,), **LOCAL).fit(X, Y > 0, eval_set=(X, Y.argmax(axis=1)))
