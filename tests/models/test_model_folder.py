"""A fitted model as a folder: the same model back, the old one on failure, nothing pickled."""

from __future__ import annotations

import enum
import json
from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.errors import InputError, ReadError
from daskpart.models.base import registry, saving
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.reports import Printable
from daskpart.models.base.state import same_bits
from daskpart.models.matrix_factorization.plan_report import MFPlanReport
from daskpart.models.matrix_factorization.recommending import Recommender
from daskpart.models.matrix_factorization.state import MFState
from daskpart.models.optimisation.optimisers import OPTIMIZERS
from daskpart.partitions import Partition

USERS = np.array(["ann", "bob", "cy", "dee", "eve"], dtype=object)


class Model(Recommender, DistributedEstimator):
    """As much of an estimator as saving needs."""

    _state_class = MFState
    _parameter_constraints = DistributedEstimator._parameter_constraints  # hold whatever is saved

    def __init__(self, regularization=0.1, biases=True, partitioner="power", random_state=0):
        self.regularization = regularization
        self.biases = biases
        self.partitioner = partitioner
        self.random_state = random_state

    def fit(self, X=None, y=None):
        generator = np.random.default_rng(0)
        shapes = ((5, 3), (7, 3), (5,), (7,))
        arrays = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
        self.state_ = MFState(*arrays, 3.5, user_labels=USERS, item_labels=np.arange(7) * 10)
        self.seen_ = scipy.sparse.csr_array(generator.random((5, 7)) < 0.5)
        self.n_features_in_ = np.int64(7)
        return self


def _change(folder, where, value):
    """One value of model.json is another one; `where`: its keys."""
    place = header = json.loads((folder / "model.json").read_text())
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    (folder / "model.json").write_text(json.dumps(header))


@pytest.fixture
def model() -> Model:
    return Model().fit()


def test_save_and_load_give_the_same_model(model, tmp_path):
    partition = Partition(np.array([0, 1, 0, 1, 0], np.int32), 2, np.ones(5, np.int64), {})
    model.partitioner = partition
    model.partition_ = partition
    model.plan_report_ = _plan_report(memory={"ratings": [3, 4]})
    model.classes_ = np.array(["no", "yes"], dtype=object)
    model.coef_ = np.arange(6.0).reshape(2, 3)
    model.learnt_ = {"means": [np.float32(1.5), np.zeros(2)], "names": ("a", None)}
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert same_bits(again.state_, model.state_)
    assert again.partitioner == partition and again.partition_ == partition
    assert repr(again.plan_report_) == repr(model.plan_report_)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.learnt_["names"] == ("a", None) and again.learnt_["means"][0] == 1.5
    assert (again.seen_ != model.seen_).nnz == 0
    assert again.n_features_in_ == 7 and again.regularization == 0.1
    pd.testing.assert_frame_equal(again.recommend(USERS), model.recommend(USERS))
    assert not any(file.suffix == ".pkl" for file in (tmp_path / "model").iterdir())
    model.save(tmp_path / "model")  # over the old one
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


def test_a_model_and_checkpoints_at_home_are_found_there(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    model.save("~/models/one")
    assert same_bits(Model.load("~/models/one").state_, model.state_)
    CheckpointWriter("~/steps", MFState).write(model.state_)
    assert sorted(found.name for found in (tmp_path / "home").iterdir()) == ["models", "steps"]
    assert [found.name for found in tmp_path.iterdir()] == ["home"]  # and no folder called ~


def test_save_keeps_the_old_model_when_it_fails(model, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    monkeypatch.setattr(saving, "write_arrays", _full_disk)
    with pytest.raises(OSError, match=r"was not written.*untouched"):
        model.save(tmp_path / "model")
    assert same_bits(Model.load(tmp_path / "model").state_, model.state_)


def _full_disk(*_):
    raise OSError(28, "No space left on device")


def test_save_does_not_replace_what_is_no_model(model, tmp_path):
    (tmp_path / "papers").mkdir()
    with pytest.raises(InputError, match="is there and is not a saved model"):
        model.save(tmp_path / "papers")


def test_results_of_ones_own_may_be_named_as_ours(model, tmp_path):
    model.n_samples_per_class_ = np.array([3, 4])
    model.quality_report_ = {"accuracy": 0.5}
    model.several_ = "of each"
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert again.n_samples_per_class_.tolist() == [3, 4]
    assert again.quality_report_ == {"accuracy": 0.5} and again.several_ == "of each"


def test_a_class_of_ones_own_cannot_take_a_name_of_ours():
    with pytest.raises(InputError, match=r"MFPlanReport: saved models know .*; give it another"):
        type("MFPlanReport", (Printable,), {})
    assert registry.class_named("MFPlanReport", "here") is MFPlanReport
    for _ in range(2):  # a cell of a notebook is run again
        own = type("ReportOfOnesOwn", (Printable,), {})
        assert registry.class_named("ReportOfOnesOwn", "here") is own


class Pair(NamedTuple):
    one: int
    other: int


def test_a_named_tuple_is_refused_when_it_is_saved(model, tmp_path):
    model.pairs_ = [Pair(1, 2)]
    with pytest.raises(InputError, match=r"the result pairs_\[0\]=.*a Pair is neither plain"):
        model.save(tmp_path / "model")
    assert not [*tmp_path.iterdir()]


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        np.ma.masked_equal([1, 2, 3], 2),
        np.array([(1, 2)], [("a", int), ("b", int)]).view(np.recarray),
        Counter("aab"),
        Colour.RED,
        np.longdouble(1),
        pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
        pd.DataFrame({1: [1.0, 2.0]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame({"a": [1, 2]}, pd.MultiIndex.from_tuples([(1, 2), (1, 3)])),
        pd.DataFrame({"a": [1, 2]}, pd.CategoricalIndex(["x", "y"])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_come_back_as_less_is_an_error(model, tmp_path, value):
    model.strange_ = {"inside": value}
    with pytest.raises(InputError, match=r"(?s)the result strange_: inside.* cannot be saved"):
        model.save(tmp_path / "model")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "index",
    [
        None,
        pd.Index(["ann", "bob"], name="user"),
        pd.Index([7, 3]),
        pd.Index([0, 1]),
        pd.Index([0.5, 1.5]),
        pd.to_datetime(["2024-01-01", "2024-02-01"]),
    ],
)
def test_a_table_comes_back_with_its_index(model, tmp_path, index):
    model.table_ = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, np.nan]}, index)
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model").table_
    pd.testing.assert_frame_equal(again, model.table_, check_index_type="exact", check_freq=False)


def test_a_state_with_a_mask_is_an_error(model, tmp_path):
    model.state_.user_bias = np.ma.masked_equal(model.state_.user_bias, 0)
    with pytest.raises(InputError, match="user_bias have masks"):
        model.state_.save(tmp_path / "state.npz")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("value", [Colour.RED, Counter("aab")])
def test_a_state_with_more_than_plain_values_is_an_error(model, tmp_path, value):
    model.state_.settings = {"inside": [value]}
    with pytest.raises(InputError, match=r"settings: inside=.* cannot be saved"):
        model.state_.save(tmp_path / "state.npz")
    assert not [*tmp_path.iterdir()]


def test_parameters_may_be_labelled_arrays(model, tmp_path):
    """As factors of a decomposition are, which another one begins at or keeps."""
    times = np.array(["2024-01-01", "2024-02-01"], "datetime64[ns]")
    given = xr.DataArray(
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], {"day": times}, dims=("day", "component"), name="x"
    )
    model.partitioner = {"day": given, "plain": [given.drop_vars("day")]}
    model.save(tmp_path / "model")
    found = Model.load(tmp_path / "model").partitioner
    assert found["day"].identical(given)
    assert found["plain"][0].identical(given.drop_vars("day"))
    for odd in (given.assign_attrs(unit="s"), given.assign_coords(kind=("day", ["a", "b"]))):
        model.partitioner = odd
        with pytest.raises(InputError, match=r"the parameter partitioner cannot be saved"):
            model.save(tmp_path / "model")


def test_what_cannot_be_saved_is_an_error_before_anything_is_written(model, tmp_path):
    model.save(tmp_path / "model")
    model.regularization = object()
    with pytest.raises(InputError, match=r"the parameter regularization=.* cannot be saved"):
        model.save(tmp_path / "model")
    model.regularization = 0.1
    model.strange_ = {"inside": [object()]}
    with pytest.raises(InputError, match=r"the result strange_: inside\[0\]=.* cannot be saved"):
        model.save(tmp_path / "model")
    assert not hasattr(Model.load(tmp_path / "model"), "strange_")
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


def test_parameters_that_no_fit_takes_are_refused_before_anything_is_written(model, tmp_path):
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="random_state"):
        model.set_params(random_state="seed").save(tmp_path / "model")
    assert Model.load(tmp_path / "model").random_state == 0


KEYS = st.one_of(st.text(max_size=3), st.integers(), st.floats(allow_nan=False), st.booleans())
KEYS |= st.none() | st.tuples(KEYS, KEYS) | st.integers(-9, 9).map(np.int64)


@settings(max_examples=60, deadline=None)
@given(held=st.dictionaries(KEYS, st.one_of(KEYS, st.dictionaries(KEYS, KEYS, max_size=2))))
def test_keys_of_a_dict_come_back_as_they_were(tmp_path_factory, held):
    folder, model = tmp_path_factory.getbasetemp() / "keys", Model(regularization=held).fit()
    model.save(folder)
    again = Model.load(folder).regularization
    assert again == held and [*map(type, again)] == [*map(_plain, held)]


def _plain(key):
    return int if isinstance(key, np.int64) else type(key)


@pytest.mark.parametrize("values", [3, [3], [[1, 2, 3]], [[{"form": "list", "values": []}, 1]]])
def test_pairs_that_are_none_are_refused(model, tmp_path, values):
    model.learnt_ = {0: "a"}
    model.save(tmp_path / "model")
    _change(tmp_path / "model", ("results", "learnt_", "values"), values)
    with pytest.raises(ReadError, match=r"results\.learnt_ cannot be read"):
        Model.load(tmp_path / "model")


@pytest.mark.parametrize("decay", [0.5, (0.5, 0.0, 0.1, 0.0)])
@pytest.mark.parametrize("kind", OPTIMIZERS.values())
def test_an_optimiser_is_a_parameter_that_comes_back(tmp_path, kind, decay):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    fitted = daskpart.GCNClassifier(
        (4,), optimizer=kind(weight_decay=decay), weight_decay=0.0, n_ranks=1, max_iter=1,
        transport="local",
    ).fit(X, y, graph=np.array([[0, 1], [1, 2]]))  # fmt: skip
    fitted.save(tmp_path / "model")
    assert daskpart.GCNClassifier.load(tmp_path / "model").optimizer == kind(weight_decay=decay)


def test_an_optimiser_of_another_version_is_refused(model, tmp_path):
    model.learnt_ = OPTIMIZERS["adam"]()
    model.save(tmp_path / "model")
    _change(tmp_path / "model", ("results", "learnt_", "values", "values", "gamma"), 1.0)
    with pytest.raises(ReadError, match="Adam of another version"):
        Model.load(tmp_path / "model")


def test_a_generator_is_kept_where_it_stands(model, tmp_path):
    model.random_state = np.random.RandomState(5)
    model.random_state.random(10)
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert again.random_state.random() == model.random_state.random()


def test_saved_models_name_no_module(model, tmp_path):
    """So that a file may move, and old models stay readable."""
    model.partition_ = Partition(np.array([0, 1], np.int32), 2, np.ones(2, np.int64), {})
    model.save(tmp_path / "model")
    text = (tmp_path / "model" / "model.json").read_text()
    assert "daskpart." not in text and '"Partition"' in text and '"format": 1' in text


def test_load_refuses_what_it_cannot_trust(model, tmp_path):
    with pytest.raises(ReadError, match="nothing at"):
        Model.load(tmp_path / "absent")
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    header = json.loads(file.read_text())

    class Other(Model):
        pass

    with pytest.raises(
        ReadError, match=r"holds a model of class Model, not Other: load it with Model\.load"
    ):
        Other.load(tmp_path / "model")
    for change, message in (
        ({"results": {"x_": {"form": "part", "class": "os:system", "file": "a"}}}, "does not know"),
        ({"parameters": {"depth": 3}}, "does not have: depth"),
        ({"format": 2}, "of format 2"),
    ):
        file.write_text(json.dumps({**header, **change}))
        with pytest.raises(ReadError, match=message):
            Model.load(tmp_path / "model")
    file.write_text("{")
    with pytest.raises(ReadError, match="holds no saved model"):
        Model.load(tmp_path / "model")
    with pytest.raises(
        ReadError, match=r"is the folder of a run, the model in it is .*model: load"
    ):
        Model.load(tmp_path)
    with pytest.raises(ReadError, match="is a file, and a saved model is a folder: unpack it"):
        Model.load(file)
    file.write_text(json.dumps(header))
    (tmp_path / "model" / "arrays.npz").write_bytes(b"x")
    with pytest.raises(ReadError, match=r"arrays\.npz cannot be read"):
        Model.load(tmp_path / "model")


def _plan_report(**more):
    return MFPlanReport(
        n_ranks=2, unit="epoch", partitioner="given", eta=1, axis="rows", lambda_histogram=[0, 7],
        volume=0, staleness=0, messages=0, messages_max_rank=0, imbalance=0.1, cell_imbalance=0.1,
        row_words=5, **more,
    )  # fmt: skip


def test_a_model_of_an_older_version_loads_or_says_so(model, tmp_path):
    model.plan_report_ = _plan_report(validation_volume=3)
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    header = json.loads(file.read_text())
    values = header["results"]["plan_report_"]["values"]["values"]
    del values["validation_volume"]  # as from before there was such a field
    file.write_text(json.dumps(header))
    assert repr(Model.load(tmp_path / "model").plan_report_) == repr(_plan_report())
    del values["eta"]
    file.write_text(json.dumps(header))
    with pytest.raises(ReadError, match=r"a MFPlanReport of another version .* 'eta'\. Use the"):
        Model.load(tmp_path / "model")


def test_a_form_that_a_newer_version_wrote_is_an_error_in_words(model, tmp_path):
    model.save(tmp_path / "model")
    _change(tmp_path / "model", ("results", "strange_"), {"form": "quantum"})
    with pytest.raises(ReadError, match=r"holds a quantum.*Use the version that wrote it"):
        Model.load(tmp_path / "model")


# -- model.json changed by hand, or damaged ---


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a fitted graph network, what is in model.json, and data to predict for."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(30, 4)), np.arange(30) % 3
    graph = scipy.sparse.random_array((30, 30), density=0.1, rng=random, format="csr")
    fitted = daskpart.GCNClassifier(
        (5,), n_ranks=2, max_iter=2, transport="local", partitioner="random",
        layer_options={}, weight_decay=(1e-4, 0.0),
    ).fit(X, y, graph=graph)  # fmt: skip
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted.save(folder)
    return folder, json.loads((folder / "model.json").read_text()), X


def _load_changed(saved, where, value):
    folder, header, _ = saved
    (folder / "model.json").write_text(json.dumps(header))  # another one was changed before
    _change(folder, where, value)
    return daskpart.GCNClassifier.load(folder)


@pytest.mark.parametrize(("where", "value", "message"), [
    (("parameters", "max_iter"), "abc", "'max_iter' parameter .* Got 'abc'"),
    (("parameters", "hidden"), {"form": "list"}, r"parameters\.hidden cannot be read .*'values'"),
    (("parameters", "hidden"), {"form": "list", "values": "16"}, r"parameters\.hidden .* a str"),
    (("parameters", "layer_options"), [], r"parameters\.layer_options cannot be read .* list"),
    (("parameters",), [], "parameters is a list: expected names"),
    (("results",), "", "results is a str"),
    (("results", "n_features_in_"), "4", r"results\.n_features_in_ is a str: .* whole number"),
    (("results", "classes_"), 3, r"results\.classes_ is a int: expected an array"),
    (("results", "plan_report_"), None, r"results\.plan_report_ is a NoneType: .* report"),
    (("results", "plan_report_", "values"), [], r"results\.plan_report_ cannot be read"),
    (("results", "plan_report_", "form"), "_call__", "holds a _call__"),
    (("results", "partition_", "file"), 3, r"results\.partition_ cannot be read"),
    (("results", "graph_", "shape"), ["a", 2], r"results\.graph_ cannot be read"),
])  # fmt: skip
def test_a_value_of_another_type_is_named(saved, where, value, message):
    with pytest.raises(ReadError, match=message) as caught:
        _load_changed(saved, where, value)
    assert str(saved[0]) in str(caught.value)


def _places(value, before=()):
    """The keys of all that is in some JSON."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (*before, key)
        if isinstance(each, dict | list):
            yield from _places(each, (*before, key))


STRANGE = st.sampled_from(
    ["abc", "", None, True, -1, 0, 7, 10**30, 0.5, [], [1, "a"], {}, {"form": "dict"},
     {"form": "array", "name": "array-0", "shape": [1], "labels": None}, {"a": {"b": []}}],
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(data=st.data(), value=STRANGE)
def test_a_changed_model_is_refused_or_tells_of_itself(saved, data, value):
    where = data.draw(st.sampled_from(sorted(_places(saved[1]), key=repr)))
    try:
        found = _load_changed(saved, where, value)
    except ReadError as error:
        assert str(saved[0]) in str(error)
    else:
        for each in (found, found.plan_report_, found.comm_report_, found.history_):
            assert repr(each)
        assert found.get_params()
