"""Graph networks that are trained: outputs on ranks, and weights of other libraries."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.metrics import accuracy_score
from test_graph_convolution import N, features, graph, labels, model

from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.errors import InputError
from daskpart.models.graph_convolution import inference, passes, text
from daskpart.models.graph_convolution.inference import outputs_of
from daskpart.models.graph_convolution.layers import LAYERS
from daskpart.models.graph_convolution.state_dicts import coefs_from_state_dict


def threads_of(transport, n_ranks, *_, **__):
    return ThreadsCommunicator(n_ranks)


@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_of_ranks_are_those_of_one(layer, monkeypatch):
    """Of all layers and of the last hidden one; the same bits on every transport."""
    estimator = model(layer, hidden=(6, 4))
    problem = estimator._problem(features(), labels(), {"graph": graph(True)}, 0)
    network = estimator._network(problem, 0)
    weights = network.first_weights()
    for place, width in ((-1, 3), (-2, 4)):
        one = outputs_of(problem, network, weights, place)
        assert one.shape == (N, width)
        ways = {"n_ranks": 3, "partitioner": "random"}
        local, lazy = (
            outputs_of(problem, network, weights, place, transport=transport, **ways)
            for transport in ("local", "graph")
        )
        with monkeypatch.context() as patch:
            patch.setattr(
                inference, "communicator_for", lambda _, n, *__, **___: ThreadsCommunicator(n)
            )
            threads = outputs_of(problem, network, weights, place, **ways)
        np.testing.assert_allclose(local, one, rtol=1e-9, atol=1e-12)
        assert local.tobytes() == lazy.tobytes() == threads.tobytes()


def elsewhere(layer):
    """A fitted model of ours, and its weights under the names of two other libraries."""
    fitted = model(layer, max_iter=2).fit(features(), labels(), graph=graph())
    geometric, dgl = {}, {}
    for name, weight in fitted.coefs_.items():
        place, name = name.split(".")
        names = {
            "gcn": {"weight": ("lin.weight", "weight")},
            "sage": {"weight": ("lin_l.weight", "fc_neigh.weight"), "bias": ("lin_l.bias", "bias"),
                     "self_weight": ("lin_r.weight", "fc_self.weight")},
            "gat": {"weight": ("lin.weight", "fc.weight"), "attention_left": ("att_dst", "attn_r"),
                    "attention_right": ("att_src", "attn_l")},
            "gin": {"weight": ("nn.0.weight", "apply_func.0.weight"),
                    "inner_bias": ("nn.0.bias", "apply_func.0.bias"),
                    "outer_weight": ("nn.2.weight", "apply_func.2.weight"),
                    "bias": ("nn.2.bias", "apply_func.2.bias")},
            "sgc": {"weight": ("lin.weight", "fc.weight"), "bias": ("lin.bias", "fc.bias")},
            "appnp": {},
        }[layer].get(name, (name, name))  # fmt: skip
        for held, prefix, other in zip(
            (geometric, dgl), (f"conv{place}", f"layers.{place}"), names, strict=True
        ):
            turned = name.endswith("weight") and (layer != "gcn" or held is geometric)
            array = weight[None] if name.startswith("attention") else weight
            held[f"{prefix}.{other}"] = array.T if turned else array
    return fitted, geometric, dgl


@pytest.mark.parametrize("layer", LAYERS)
def test_weights_of_other_libraries_predict_here(layer):
    fitted, *others = elsewhere(layer)
    for state in others:
        mine = model(layer).set_coefs(coefs_from_state_dict(state, layer), classes=["a", "b", "c"])
        np.testing.assert_allclose(
            mine.predict_proba(features(), graph=graph()), fitted.predict_proba(features()),
            rtol=1e-9,
        )  # fmt: skip
        assert set(mine.predict(features(), graph=graph())) <= {"a", "b", "c"}


@pytest.mark.parametrize(
    ("layer", "place", "names"),
    [
        ("gin", 1, {"nn.0.": "nn.lins.0.", "nn.2.": "nn.lins.1."}),  # of an MLP of PyG
        ("sage", 2, {".bias": ".fc_self.bias"}),
        ("gcn", 1, {"conv0": "conv9", "conv1": "conv10"}),  # in the order of the dict
    ],
)
def test_other_names_of_the_same_weights(layer, place, names):
    state, renamed = elsewhere(layer)[place], {}
    for name, array in state.items():
        for old, new in names.items():
            name = name.replace(old, new)
        renamed[name] = array
    expected, found = (coefs_from_state_dict(each, layer) for each in (state, renamed))
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_weights_of_another_network_are_refused():
    _, state, _ = elsewhere("gcn")
    with pytest.raises(InputError, match="no weight of a sage layer"):
        coefs_from_state_dict({"conv1.lin.weight": np.eye(2)}, "sage")
    with pytest.raises(InputError, match="state dicts are read of"):
        coefs_from_state_dict(state, "gcn2")
    with pytest.raises(InputError, match="no weight of a gcn layer"):
        coefs_from_state_dict({"conv1.rebias": np.ones(2)})
    for eps in (0.5, -0.5):
        with pytest.raises(InputError, match=rf"'convs.1.eps' is {eps}: give .*'epsilon': {eps}}}"):
            coefs_from_state_dict(
                {"convs.0.eps": np.zeros(1), "convs.1.eps": np.array([eps])}, "gin"
            )
    with pytest.raises(InputError, match="the parameters make a network of"):
        model(hidden=(9,)).set_coefs(coefs_from_state_dict(state))
    with pytest.raises(InputError, match="lack '0"):
        model().set_coefs({})
    with pytest.raises(InputError, match="coefs is a NoneType: give a dict"):
        model().set_coefs(None)
    for wrong in ("a", np.nan):
        with pytest.raises(InputError, match=r"0\.weight values"):
            model().set_coefs({"0.weight": np.array([[wrong]])})
    for classes in (["a", "b"], [["a", "b", "c"]]):
        with pytest.raises(InputError, match="coefs have 3 outputs: name each of them"):
            model().set_coefs(coefs_from_state_dict(state), classes=classes)


def test_weights_in_any_order_of_memory_and_of_several_classes():
    fitted = model(loss="several").fit(features(), labels("several"), graph=graph())
    turned = {name: np.asfortranarray(weight) for name, weight in fitted.coefs_.items()}
    mine = model().set_coefs(turned, classes=["a", "b", "c"], several=True)
    found = mine.predict_proba(features(), graph=graph())
    np.testing.assert_allclose(found, fitted.predict_proba(features()), rtol=1e-12)
    assert mine.predict(features(), graph=graph()).shape == (N, 3)


def gat_elsewhere():
    """Weights of 2 heads of 3 columns, then 2 output heads of 3 classes: by PyG 2.4, and by DGL."""
    random = np.random.default_rng(3)
    geometric, dgl = {}, {}
    for place, n_inputs in ((0, 6), (1, 6)):
        weight, bias = random.normal(size=(6, n_inputs)), random.normal(size=6)
        reading, read = random.normal(size=(2, 1, 2, 3))
        mean = bias.reshape(2, 3).mean(axis=0)  # DGL adds the bias before heads come together
        geometric |= {f"convs.{place}.{name}": array for name, array in {
            "att_src": read, "att_dst": reading, "bias": mean if place else bias,
            "lin_src.weight": weight, "lin_dst.weight": weight,
        }.items()}  # fmt: skip
        dgl |= {f"gat_layers.{place}.{name}": array for name, array in {
            "attn_l": read, "attn_r": reading, "bias": bias, "fc.weight": weight,
        }.items()}  # fmt: skip
    return geometric, dgl


def test_attention_of_other_libraries_has_output_heads():
    one, other = (coefs_from_state_dict(state, "gat") for state in gat_elsewhere())
    assert {name: array.shape for name, array in one.items()} == {
        **{"0.weight": (6, 6), "0.attention_left": (2, 3), "0.attention_right": (2, 3)},
        **{"0.bias": (6,), "1.weight": (6, 6), "1.attention_left": (2, 3)},
        **{"1.attention_right": (2, 3), "1.bias": (3,)},
    }
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=1e-14)
    model("gat").set_coefs(one).predict(features(), graph=graph())
    geometric, _ = gat_elsewhere()
    geometric["convs.0.lin_dst.weight"] = geometric["convs.0.lin_src.weight"] + 1
    with pytest.raises(InputError, match=r"lin_dst.weight' differs from"):
        coefs_from_state_dict(geometric, "gat")


@pytest.mark.parametrize("batch_size", [None, 8])
def test_the_r2_of_a_history_is_that_of_the_predictions(batch_size, monkeypatch):
    """Columns of other scales and means than those that are trained on; one is constant."""
    monkeypatch.setattr(passes, "LOSS_ROWS", 2)  # a rank has more of them
    known = np.flatnonzero(labels() >= 0)
    held = known[::3]
    y = np.full((N, 3), np.nan)
    y[known] = np.random.default_rng(3).normal(size=(len(known), 3)) * (1, 1e-2, 1)
    y[held] = 3 * y[held] + 5
    y[held, 2] = 4.0
    fitted = model("gcn", "numbers", dropout=0.0, max_iter=2, batch_size=batch_size)
    fitted.fit(features(), y, graph=graph(), validation_mask=held)
    found = fitted.history_["validation_score"].iloc[-1]
    assert found == pytest.approx(fitted.score(features(), y, mask=held), rel=1e-9)
    if batch_size is None:  # the loss of an epoch is that of the weights before it
        trained = np.setdiff1d(known, held)
        again = model("gcn", "numbers", dropout=0.0, max_iter=1).fit(
            features(), y, graph=graph(), validation_mask=held
        )
        score = again.score(features(), y, mask=trained)
        assert fitted.history_["score"].iloc[-1] == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_a_vertex_of_several_classes_is_right_where_all_of_its_row_is(n_ranks, batch_size):
    """As scikit-learn's accuracy of such a table, in score and in the history."""
    y = labels("several")
    known = np.flatnonzero(~np.isnan(y[:, 0]))
    held, trained = known[::2], known[1::2]
    ways = {"n_ranks": n_ranks, "batch_size": batch_size, "dropout": 0, "max_iter": 2}
    fitted = model(loss="several", **ways)
    fitted.fit(features(), y, graph=graph(), validation_mask=held)
    found = np.asarray(fitted.predict(features()))
    expected = accuracy_score(y[held].astype(int), found[held])
    assert 0 < expected < (found[held] == y[held]).mean()
    assert fitted.score(features(), y, mask=held) == pytest.approx(expected)
    assert fitted.history_["validation_score"].iloc[-1] == pytest.approx(expected)
    if batch_size is None:  # the score of an epoch is that of the weights before it
        before = model(loss="several", **ways | {"max_iter": 1})
        before.fit(features(), y, graph=graph(), validation_mask=held)
        score = before.score(features(), y, mask=trained)
        assert fitted.history_["score"].iloc[-1] == pytest.approx(score)


def test_weights_of_a_regression_from_elsewhere():
    """A fit before leaves no names of columns or features behind."""
    X = pd.DataFrame(features()).rename(columns=str)
    y = pd.DataFrame({"p": X["0"], "q": X["1"]})
    fitted = model(loss="numbers", first_product="each").fit(X, y, graph=graph())
    assert fitted.predict(X).shape == (N, 2)
    again = model(loss="numbers", first_product="each").set_coefs(fitted.coefs_, classes=["p", "q"])
    found = again.predict(X.to_numpy(), graph=graph())
    np.testing.assert_array_equal(found, fitted.predict(X, graph=graph()))
    one = {name: weight[..., :1] if name[0] == "1" else weight for name, weight in
           fitted.coefs_.items()}  # fmt: skip
    other = fitted.set_coefs(one).predict(X.to_numpy(), graph=graph())
    assert other.shape == (N,) and fitted.columns_ is None
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize("kept", [True, False], ids=["dense", "sparse"])
@pytest.mark.parametrize("layer", sorted(LAYERS))
@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float32")])
def test_answers_are_in_the_dtype_of_the_fit(layer, dtypes, kept):
    """That the next one shall have another is nothing to them."""
    X = features() if kept else scipy.sparse.csr_array(features())
    fitted = model(layer, dtype=dtypes[0]).fit(X, labels(), graph=graph())
    answers = fitted.predict_proba(X), fitted.transform(X)
    fitted.set_params(dtype=dtypes[1])
    for before, after in zip(answers, (fitted.predict_proba(X), fitted.transform(X)), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("other", [{"hidden": (6, 6)}, {"hidden": ()}, {"layer": "sage"}])
def test_layers_that_the_fit_did_not_have_are_told(other):
    fitted = model("gcn").fit(features(), labels(), graph=graph())
    answers = fitted.predict(features()), fitted.transform(features())
    fitted.set_params(**other)  # they are of the next fit
    for before, ask in zip(answers, (fitted.predict, fitted.transform), strict=True):
        np.testing.assert_array_equal(ask(features()), before)
    fitted.state_ = replace(fitted.state_, settings={})  # nobody knows what the fit had
    for ask in (fitted.predict, fitted.transform):
        with pytest.raises(InputError, match=r"was fitted with others, and has 0\.weight, 0\.bias"):
            ask(features())


@pytest.mark.parametrize("more", [{}, {"batch_size": 4}])
def test_validation_keeps_no_layer_before_the_last_and_no_mini_batch(monkeypatch, more):
    """On the whole graph, beside a mini-batch, all layers took more than the mini-batch."""
    there, usual, kinds = [], text.validation_sums, (passes.Boundary, passes.RankData)

    def held_now():
        return [each for each in gc.get_objects() if type(each) in kinds]  # proxies may be dead

    before = held_now()  # by fits of other tests; kept, so that none of the fit has the id of one
    known = {id(each) for each in before}

    def looked(data, last, *, network):
        there.append(sum(id(each) not in known for each in held_now()))
        return usual(data, last, network=network)

    monkeypatch.setattr(text, "validation_sums", looked)
    held = np.arange(N) % 3 == 0
    options = {"hidden": (5, 5, 5, 5), "n_ranks": 1, "max_iter": 2}
    model(**options, **more).fit(features(), labels(), graph=graph(), validation_mask=held)
    assert len(there) == 2 and max(there) <= 3  # the whole graph is one of them
