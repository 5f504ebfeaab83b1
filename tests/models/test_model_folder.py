"""A fitted model as a folder: the same model back, the old one on failure, nothing pickled."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator

from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.models.recommending import FactorModel
from daskpart.models.reports import PlanReport
from daskpart.models.snapshot import Factors, same_bits
from daskpart.partitions import Partition

USERS = np.array(["ann", "bob", "cy", "dee", "eve"], dtype=object)


class Model(FactorModel, BaseEstimator):
    """As much of an estimator as saving needs."""

    def __init__(self, regularization=0.1, biases=True, partitioner="power", random_state=0):
        self.regularization = regularization
        self.biases = biases
        self.partitioner = partitioner
        self.random_state = random_state

    def fit(self, X=None, y=None):
        generator = np.random.default_rng(0)
        shapes = ((5, 3), (7, 3), (5,), (7,))
        arrays = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
        self.factors_ = Factors(*arrays, 3.5, user_labels=USERS, item_labels=np.arange(7) * 10)
        self.seen_ = scipy.sparse.csr_array(generator.random((5, 7)) < 0.5)
        self.n_features_in_ = np.int64(7)
        return self


@pytest.fixture
def model() -> Model:
    return Model().fit()


def test_save_and_load_give_the_same_model(model, tmp_path):
    partition = Partition(np.array([0, 1, 0, 1, 0], np.int32), 2, np.ones(5, np.int64), {})
    model.partitioner = partition
    model.partition_ = partition
    model.plan_report_ = PlanReport(2, 1, "rows", "given", [0, 7], 0, 0, 0, 0, 0.1, 0.1, 5, 0.0)
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert same_bits(again.factors_, model.factors_)
    assert again.partitioner == partition and again.partition_ == partition
    assert repr(again.plan_report_) == repr(model.plan_report_)
    assert again.n_features_in_ == 7 and again.regularization == 0.1
    pd.testing.assert_frame_equal(again.recommend(USERS), model.recommend(USERS))
    assert not any(file.suffix == ".pkl" for file in (tmp_path / "model").iterdir())
    model.save(tmp_path / "model")  # over the old one
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


def test_save_keeps_the_old_model_when_it_fails(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    monkeypatch.setattr(scipy.sparse, "save_npz", _full_disk)
    with pytest.raises(OSError, match=r"was not written.*untouched"):
        model.save(tmp_path / "model")
    assert same_bits(Model.load(tmp_path / "model").factors_, model.factors_)


def _full_disk(*_):
    raise OSError(28, "No space left on device")


def test_save_does_not_replace_what_is_no_model(model, tmp_path):
    (tmp_path / "papers").mkdir()
    with pytest.raises(InputError, match="is there and is not a saved model"):
        model.save(tmp_path / "papers")


def test_a_parameter_without_json_form_is_left_out(model, tmp_path):
    model.random_state = np.random.RandomState(0)
    with pytest.warns(DaskpartWarning, match=r"parameter random_state=.* is not saved"):
        model.save(tmp_path / "model")
    assert Model.load(tmp_path / "model").random_state == 0


def test_load_refuses_what_it_cannot_trust(model, tmp_path):
    with pytest.raises(ReadError, match="nothing at"):
        Model.load(tmp_path / "absent")
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    header = json.loads(file.read_text())

    class Other(Model):
        pass

    with pytest.raises(ReadError, match=r"holds a Model, not a Other: load it with Model\.load"):
        Other.load(tmp_path / "model")
    for change, message in (
        ({"parts": {"x_": "os:system"}}, "not of daskpart"),
        ({"parameters": {"depth": 3}}, "does not have: depth"),
    ):
        file.write_text(json.dumps({**header, **change}))
        with pytest.raises(ReadError, match=message):
            Model.load(tmp_path / "model")
    file.write_text("{")
    with pytest.raises(ReadError, match="holds no saved model"):
        Model.load(tmp_path / "model")
    file.write_text(json.dumps(header))
    (tmp_path / "model" / "seen.npz").write_bytes(b"x")
    with pytest.raises(ReadError, match=r"seen\.npz cannot be read"):
        Model.load(tmp_path / "model")
