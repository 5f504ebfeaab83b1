"""Perceptrons by an optimiser with numbers of one's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import neural_network
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from test_mlp import LOCAL, classifier, samples, weights_of

from daskpart import MLPClassifier
from daskpart.errors import InputError
from daskpart.models import AdaGrad, Adam, Momentum


def test_an_optimizer_as_it_is_by_default_has_the_bits_of_its_name():
    X, y = samples()
    for name, optimizer in (("momentum", Momentum()), ("adam", Adam())):
        of_name = weights_of(classifier(optimizer=name, alpha=0.1).fit(X, y))
        assert weights_of(classifier(optimizer=optimizer, alpha=0.1).fit(X, y)).tobytes() == (
            of_name.tobytes()
        )
        own = classifier(optimizer=replace(optimizer, weight_decay=(0.1, 0.0)), alpha=0)
        assert weights_of(own.fit(X, y)).tobytes() == of_name.tobytes()


@pytest.mark.parametrize("nesterov", [True, False])
def test_steps_are_those_of_scikit_learn(nesterov):
    X, y = samples()
    theirs = neural_network.MLPClassifier(
        (7, 5), alpha=2.0, solver="sgd", momentum=0.7, nesterovs_momentum=nesterov,
        learning_rate_init=0.1, batch_size=97, shuffle=False,
    ).partial_fit(X, y, classes=[0, 1, 2])  # fmt: skip
    ours = MLPClassifier(
        (7, 5), alpha=2.0 / 97, optimizer=Momentum(0.7, nesterov), learning_rate_init=0.1,
        batch_size=49, n_ranks=2, shuffle=False, **LOCAL,
    ).partial_fit(X, y, classes=[0, 1, 2])  # fmt: skip
    for velocity in (*theirs._optimizer.velocities, *ours.state_.slots.values()):
        velocity[...] = 0
    for place, pair in enumerate(zip(theirs.coefs_, theirs.intercepts_, strict=True)):
        for name, array in zip(("weight", "bias"), pair, strict=True):
            ours.state_.weights[f"{place}.{name}"] = array.copy()
    for _ in range(4):
        theirs.partial_fit(X, y)
        ours.partial_fit(X, y)
    for one, another in zip(ours.coefs_, theirs.coefs_, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-9, atol=1e-12)


def test_it_is_a_parameter_like_others(tmp_path):
    X, y = samples()
    model = classifier(optimizer=Momentum(0.5), alpha=0).fit(X, y)
    assert repr(clone(model).optimizer) == repr(Momentum(momentum=0.5))
    model.save(tmp_path / "model")
    loaded = MLPClassifier.load(tmp_path / "model")
    assert loaded.optimizer == model.optimizer
    for fitted in (model, loaded):
        fitted.set_params(warm_start=True).fit(X, y)  # velocities go on
    assert weights_of(loaded).tobytes() == weights_of(model).tobytes()
    grid = {"optimizer": [Momentum(0.5), Momentum(0.9), "sgd"]}
    scores = GridSearchCV(classifier(), grid, cv=2).fit(X, y).cv_results_["mean_test_score"]
    assert np.isfinite(scores).all() and len(scores) == 3


def test_a_checkpoint_knows_its_optimizer(tmp_path):
    X, y = samples()
    kept = {"checkpoint_path": tmp_path / "run.npz"}
    classifier(optimizer=Momentum(0.5), max_iter=2, **kept).fit(X, y)
    with pytest.raises(InputError, match=r"belongs to another fit \(optimizer: 'Momentum"):
        classifier(optimizer=Momentum(0.6), max_iter=4, resume=True, **kept).fit(X, y)
    resumed = classifier(optimizer=Momentum(0.5), max_iter=4, resume=True, **kept).fit(X, y)
    unbroken = classifier(optimizer=Momentum(0.5), max_iter=4).fit(X, y)
    assert weights_of(resumed).tobytes() == weights_of(unbroken).tobytes()


@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_numbers_of_numpy_are_those_of_a_saved_model(of):
    """1 − beta is computed with them, in their precision; and settings show them."""
    half = of(0.7)
    for one in (Adam(half, half, half), Momentum(half, np.True_), AdaGrad(half, weight_decay=half)):
        assert not any(isinstance(value, np.generic) for value in one.to_dict().values())


def test_nesterov_is_no_word():
    with pytest.raises(InputError, match="nesterov is 'yes': give True or False"):
        Momentum(nesterov="yes")


@pytest.mark.parametrize("number", [-0.1, 1, float("nan"), "0.5"])
def test_numbers_that_make_no_sense_are_refused(number):
    for make in (
        lambda: Momentum(number),
        lambda: Adam(beta1=number),
        lambda: Adam(beta2=number),
        lambda: Adam(epsilon=-1),
    ):
        with pytest.raises(InputError, match=r"momentum|beta|epsilon"):
            make()


def test_two_weight_decays_are_refused():
    with pytest.raises(InputError, match=r"alpha is 0.0001 and the weight_decay of the optimizer"):
        MLPClassifier(optimizer=Adam(weight_decay=0.1)).fit(*samples())


def test_another_optimizer_counts_its_steps_anew():
    """Adam's first means are of one step, however many others went before."""
    X, y = samples()
    model = classifier(optimizer="sgd", warm_start=True, shuffle=False).fit(X, y)
    adam = classifier(optimizer="adam", warm_start=True, shuffle=False)
    adam.set_coefs(model.coefs_, model.intercepts_, classes=model.classes_)
    model.set_params(optimizer="adam").fit(X, y)
    for found, wanted in zip(model.coefs_, adam.fit(X, y).coefs_, strict=True):
        np.testing.assert_array_equal(found, wanted)
