"""Arguments of graph networks that cannot be, or that would have no effect, are refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from test_graph_convolution import features, graph, labels, model, weights_of

from daskpart import GCNClassifier, GCNRegressor
from daskpart.data_models import LayerSampler, NeighbourSampler, VertexSampler
from daskpart.errors import InputError
from daskpart.models.optimisation.optimisers import Adam

OPTIONS = [
    ("gat", {"heads": 0}, "heads is 0: it must be at least 1"),
    ("gat", {"output_heads": 0}, "output_heads is 0"),
    ("gat", {"heads": "2"}, "heads is '2': give a whole number"),
    ("gat", {"slope": np.nan}, "slope is nan: give a finite number$"),
    ("gat", {"attention_dropout": 1.0}, "attention_dropout is 1"),
    ("gat", {"attention_dropout": -0.1}, "attention_dropout is -0.1"),
    ("sgc", {"hops": 0}, "hops is 0"),
    ("sgc", {"hops": -1}, "hops is -1"),
    ("appnp", {"hops": 2.5}, "hops is 2.5: give a whole number"),
    ("appnp", {"hops": 0}, "hops is 0"),
    ("appnp", {"teleport": 7}, "teleport is 7: give a finite number above 0 and at most 1"),
    ("appnp", {"teleport": 0}, "teleport is 0"),
    ("gin", {"epsilon": "small"}, "epsilon is 'small': give a finite number$"),
]


@pytest.mark.parametrize(("layer", "options", "message"), OPTIONS)
def test_options_of_a_layer_are_checked(layer, options, message):
    with pytest.raises(InputError, match=message):
        model(layer, layer_options=options).fit(features(), labels(), graph=graph())


@pytest.mark.parametrize(
    ("layer", "options"),
    [("sgc", {"hops": 3}), ("appnp", {"hops": 3}), ("gat", {"heads": 1, "output_heads": 2})],
)
def test_whole_numbers_may_be_floats(layer, options):
    one, other = (
        model(layer, layer_options=each, max_iter=1).fit(features(), labels(), graph=graph())
        for each in (options, {name: float(value) for name, value in options.items()})
    )
    assert weights_of(one).tobytes() == weights_of(other).tobytes()


@pytest.mark.parametrize(
    ("layer", "name"),
    [("appnp", "teleport"), ("gat", "slope"), ("gat", "attention_dropout"), ("gin", "epsilon")],
)
def test_numbers_of_numpy_are_those_of_a_saved_model(layer, name):
    """Which has floats: 1 − teleport of a float32 is another number."""
    one, other = (
        model(layer, layer_options={name: number, **({"heads": 1} if layer == "gat" else {})})
        for number in (np.float32(0.1), float(np.float32(0.1)))
    )
    one.fit(features(), labels(), graph=graph())
    other.fit(features(), labels(), graph=graph())
    assert weights_of(one).tobytes() == weights_of(other).tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "vertex"}, "sampler='vertex' draws mini-batches: give batch_size"),
        ({"sampler": "layer"}, "sampler='layer' draws mini-batches"),
        ({"sampler": VertexSampler(3)}, "draws mini-batches"),
        ({"sampler": NeighbourSampler(fanouts=(2, 2))}, "draws mini-batches"),
        (
            {"sampler": NeighbourSampler(fanouts=(2, 2), seeds=np.arange(4)), "batch_size": 4},
            "the NeighbourSampler has seeds",
        ),
        (
            {"sampler": LayerSampler(n_layers=2, seeds=[1]), "batch_size": 4},
            "the LayerSampler has seeds",
        ),
        (
            {"layer": "gat", "layer_options": {"heads": 1}, "first_product": "kept"},
            "first_product='kept': layer='gat' multiplies what is learned",
        ),
        ({"layer": "appnp", "first_product": "kept"}, "first_product='kept': layer='appnp' mult"),
        (
            {"optimizer": Adam(weight_decay=0.1)},
            "weight_decay is 0.0005 and the weight_decay of the optimizer",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(options, message):
    estimator = clone(model()).set_params(**options)  # only a fit refuses
    with pytest.raises(InputError, match=message):
        estimator.fit(features(), labels(), graph=graph())


@pytest.mark.parametrize("cut", ["fine-grain", "medium-grain"])
def test_a_partition_of_edges_is_none_of_vertices(cut):
    with pytest.raises(InputError, match=r"this partition assigns \d+ vertices, the graph has 40"):
        model(partitioner={"model": cut}).fit(features(), labels(), graph=graph())


def test_an_optimizer_takes_the_weight_decay_of_the_model():
    def trained(**options):
        return weights_of(model(**options).fit(features(), labels(), graph=graph())).tobytes()

    assert trained(optimizer=Adam()) == trained()
    assert trained(optimizer=Adam(), weight_decay=(0.1, 0.0)) == trained(weight_decay=(0.1, 0.0))
    own = {"optimizer": Adam(weight_decay=0.1), "weight_decay": 0.0}
    assert trained(**own) != trained(weight_decay=0.0)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [None, 1])
def test_a_small_graph_takes_no_more_ranks_than_vertices(n, batch_size, monkeypatch):
    """Where nobody said how many: a machine may have more cores."""
    monkeypatch.setattr(GCNRegressor, "_default_ranks", lambda *_: 8)
    fitted = GCNRegressor(max_iter=1, batch_size=batch_size, transport="local")
    fitted.fit(np.ones((n, 2)), np.arange(n))
    assert fitted.partition_.n_parts == n
    with pytest.raises(InputError, match="8 ranks need as many vertices"):
        fitted.set_params(n_ranks=8).fit(np.ones((n, 2)), np.arange(n))


def test_a_plan_and_a_checkpoint_know_the_number_of_features(tmp_path):
    """The entries of sparse features alone do not tell it."""
    coordinates, y = (np.arange(12), np.arange(12) % 6), np.arange(12) % 2
    few, many = (
        scipy.sparse.csr_array((np.ones(12), coordinates), shape=(12, width)) for width in (6, 9)
    )
    for name, first, second in (("few.npz", few, many), ("many.npz", many, few)):
        network = GCNClassifier(max_iter=1, transport="local", checkpoint_path=tmp_path / name)
        with pytest.raises(InputError, match=r"other data .*vertices with \d features"):
            network.fit(second, y, plan=network.plan(first, y))
        network.fit(first, y)
        with pytest.raises(InputError, match=r"vertices with \d features"):
            network.set_params(resume=True, max_iter=2).fit(second, y)
