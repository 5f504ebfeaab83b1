"""Graph convolution with weights of classes: in the loss, in its gradient, and in no score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight
from test_graph_convolution import check_gradient, features, graph, labels, model, weights_of
from test_graph_minibatch import batched

import daskpart
from daskpart.errors import InputError
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.graph_convolution.state import GCNState
from daskpart.models.networks.losses import SoftmaxLoss

SOME = {0: 0.2, 2: 7.0}
RARE = np.where(np.isin(np.arange(40), (1, 5, 9)), 2, np.minimum(labels(), 1))


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("class_weight", ["balanced", SOME])
def test_gradients(class_weight, n_ranks):
    """Against finite differences of the loss, which is another than without."""
    estimator = model(class_weight=class_weight, activation="tanh")
    check_gradient(estimator, features(), labels(), graph(), n_ranks)


def test_the_loss_of_a_row_is_that_of_its_class_times_the_weight():
    outputs = np.random.default_rng(0).normal(size=(6, 3))
    targets = np.array([0, 1, 2, 2, 1, 0])
    plain, weighed = SoftmaxLoss(), SoftmaxLoss((0.5, 1.0, 3.0))
    each = np.array([0.5, 1.0, 3.0])[targets]
    (losses, hits), (of_plain, right) = (
        np.transpose([loss.sums(outputs[[row]], targets[[row]]) for row in range(6)])
        for loss in (weighed, plain)
    )
    np.testing.assert_allclose(losses, each * of_plain)
    np.testing.assert_array_equal(hits, right)
    sums, gradient = weighed.sums_and_gradient(outputs, targets)
    np.testing.assert_allclose(
        gradient, each[:, None] * plain.sums_and_gradient(outputs, targets)[1]
    )
    np.testing.assert_array_equal(sums, weighed.sums(outputs, targets))
    assert weighed.sums_and_gradient(outputs.astype(np.float32), targets)[1].dtype == np.float32


@pytest.mark.parametrize("make", [model, batched])
def test_any_number_of_ranks_trains_the_same(make):
    def fit(**options):
        return make(class_weight="balanced", **options).fit(features(), RARE, graph=graph())

    one = fit(n_ranks=1)
    for n_ranks in (2, 3, 5):
        many = fit(n_ranks=n_ranks)
        np.testing.assert_allclose(weights_of(many), weights_of(one), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(many.history_["loss"], one.history_["loss"], rtol=1e-9)


@pytest.mark.parametrize("make", [model, batched])
def test_balanced_counts_the_vertices_that_are_trained_on(make):
    """Not those that are held out, which weigh as the others do."""
    held = np.flatnonzero(RARE >= 0)[::4]
    known = np.setdiff1d(np.flatnonzero(RARE >= 0), held)
    found = compute_class_weight("balanced", classes=np.arange(3), y=RARE[known])
    as_numbers = dict(enumerate(found.tolist()))
    fits = [
        make(class_weight=weight).fit(features(), RARE, graph=graph(), validation_mask=held)
        for weight in ("balanced", as_numbers, None)
    ]
    np.testing.assert_array_equal(weights_of(fits[0]), weights_of(fits[1]))
    for column in ("loss", "validation_loss"):
        one, same, plain = (fit.history_[column].to_numpy() for fit in fits)
        np.testing.assert_array_equal(one, same)
        assert (one != plain).all()
    assert not np.array_equal(weights_of(fits[0]), weights_of(fits[2]))


@pytest.mark.parametrize("make", [model, batched])
def test_the_history_has_the_weighted_loss_and_the_plain_score(make):
    """Of all vertices that are labelled, before the only step, and after it."""
    options = {"dropout": 0.0, "max_iter": 1, "first_product": "each"}
    mask = (RARE == 0) & (np.arange(40) % 2 == 0)
    fitted = make(class_weight=SOME, **options)
    if make is batched:
        fitted.set_params(batch_size=40, sampler="vertex")  # all of it
    fitted.fit(features(), RARE, graph=graph(), validation_mask=mask)
    row = fitted.history_.iloc[0]
    logs = np.log(fitted.predict_proba(features()))
    held = logs[mask, 0]
    assert row["validation_loss"] == pytest.approx(-0.2 * held.mean(), rel=1e-9)
    right = fitted.score(features(), RARE, mask=mask)
    assert row["validation_score"] == pytest.approx(right)
    before = model(initial_learning_rate=1e-300, optimizer="sgd", weight_decay=0.0, **options)
    before.fit(features(), RARE, graph=graph(), validation_mask=mask)
    logs, known = np.log(before.predict_proba(features())), np.flatnonzero((RARE >= 0) & ~mask)
    each = np.array([0.2, 1.0, 7.0])[RARE[known]]
    assert row["loss"] == pytest.approx(-(each * logs[known, RARE[known]]).mean(), rel=1e-9)
    assert row["score"] == pytest.approx(before.score(features(), RARE, mask=known))


@pytest.mark.parametrize("make", [model, batched])
def test_weights_of_one_are_none(make):
    one, plain = (
        make(class_weight=weight).fit(features(), labels(), graph=graph())
        for weight in (dict.fromkeys(range(3), 1.0), None)
    )
    assert weights_of(one).tobytes() == weights_of(plain).tobytes()


def test_a_rare_class_is_found_more_often():
    found = [
        model(class_weight=weight, max_iter=40).fit(features(), RARE, graph=graph()).predict(
            features()
        )
        for weight in ("balanced", None)
    ]  # fmt: skip
    assert (found[0] == 2).sum() > (found[1] == 2).sum()


@pytest.mark.parametrize("make", [model, batched])
def test_resume_goes_on_with_the_same_weights_only(make, tmp_path):
    path = tmp_path / "run.npz"

    def fit(class_weight=SOME, **options):
        made = make(class_weight=class_weight, **options)
        return made.fit(features(), labels(), graph=graph())

    whole = fit(max_iter=7)
    fit(max_iter=3, checkpoint_path=path)
    resumed = fit(max_iter=7, checkpoint_path=path, resume=True)
    assert weights_of(resumed).tobytes() == weights_of(whole).tobytes()
    for other in (None, "balanced", {0: 0.2, 2: 8.0}):
        with pytest.raises(InputError, match="class_weight"):
            fit(other, max_iter=7, checkpoint_path=path, resume=True)


def test_checkpoints_from_before_there_were_weights(tmp_path):
    """A parameter that came later has its default."""

    def fit(class_weight=None, **options):
        made = model(class_weight=class_weight, **options)
        return made.fit(features(), labels(), graph=graph())

    state = fit(max_iter=3).state_
    old = {name: value for name, value in state.settings.items() if name != "class_weight"}
    old_state = replace(state, settings=old)
    for name in ("one", "other"):
        CheckpointWriter(tmp_path / name, GCNState).write(old_state)
    resumed = fit(max_iter=5, checkpoint_path=tmp_path / "one", resume=True)
    assert weights_of(resumed).tobytes() == weights_of(fit(max_iter=5)).tobytes()
    with pytest.raises(InputError, match="class_weight: None there"):
        fit(SOME, max_iter=5, checkpoint_path=tmp_path / "other", resume=True)


def test_a_model_is_saved_with_its_weights(tmp_path):
    fitted = model(class_weight=SOME).fit(features(), labels(), graph=graph())
    fitted.save(tmp_path / "model")
    again = daskpart.GCNClassifier.load(tmp_path / "model")
    assert again.class_weight == SOME
    np.testing.assert_array_equal(again.predict(features()), fitted.predict(features()))


def test_a_plan_does_not_depend_on_weights():
    """So those of the fit count, not those that it was made with."""
    made = model(class_weight=SOME)
    given = features(), labels()
    plan = made.plan(*given, graph=graph())
    found = made.set_params(class_weight=None).fit(*given, graph=graph(), plan=plan)
    plain = model().fit(*given, graph=graph())
    assert weights_of(found).tobytes() == weights_of(plain).tobytes()
    plan = plain.plan(*given, graph=graph())
    found = plain.set_params(class_weight=SOME).fit(*given, graph=graph(), plan=plan)
    same = model(class_weight=SOME).fit(*given, graph=graph())
    assert weights_of(found).tobytes() == weights_of(same).tobytes()


def test_what_is_refused():
    given = features(), labels()
    with pytest.raises(InputError, match=r"partial_fit.*compute_class_weight"):
        model(class_weight="balanced").partial_fit(*given, graph=graph())
    part = model(class_weight=SOME).partial_fit(*given, graph=graph())
    assert part.partial_fit(*given, graph=graph()).n_iter_ == 2
    with pytest.raises(InputError, match=r"class_weight weighs vertices by their class.*leave it"):
        model(class_weight=SOME).fit(features(), labels("several"), graph=graph())
    with pytest.raises(InputError, match=r"class_weight\[1\] is -1: .*, 0 or more"):
        model(class_weight={1: -1}).fit(*given, graph=graph())
    with pytest.raises(InputError, match="weights of all vertices are 0"):
        model(class_weight=dict.fromkeys(range(3), 0.0)).fit(*given, graph=graph())
    with pytest.raises(InputError, match="sum of the weights is too large"):
        model(class_weight=dict.fromkeys(range(3), 1e308)).fit(*given, graph=graph())
    with pytest.raises(InputError, match="class_weight"):
        model(class_weight="heavy").fit(*given, graph=graph())
