"""Graph networks that go on from weights that are there: their classes, dtype, optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from test_graph_convolution import N, features, graph, labels, model, weights_of

from daskpart.errors import DaskpartWarning, DivergenceError, InputError


@pytest.mark.parametrize("going_on", ["partial_fit", "warm start"])
def test_classes_are_those_of_the_first_fit(going_on):
    """Fewer labels are no fewer classes, and a new label is none of them."""

    def more(fitted, y):
        if going_on == "partial_fit":
            return fitted.partial_fit(features(), y, graph=graph())
        return fitted.set_params(warm_start=True).fit(features(), y, graph=graph())

    names = np.array([10, 20, 30, -1])
    fitted = model().fit(features(), names[labels()], graph=graph())
    some = np.where(labels() == 1, -1, names[labels()])
    assert more(fitted, some).classes_.tolist() == [10, 20, 30]
    with pytest.raises(InputError, match="label 40 is out of range: the classes are"):
        more(fitted, np.where(labels() == 2, 40, names[labels()]))
    with pytest.raises(InputError, match="one class a vertex"):
        more(fitted, np.eye(3)[labels()])
    again = model().partial_fit(features(), some, [30, 20, 10], graph=graph())
    assert more(again, names[labels()]).classes_.tolist() == [10, 20, 30]
    if going_on == "partial_fit":
        held = np.flatnonzero(labels() == 0)[:1]  # class 20 is not there, so nobody held it out
        again.partial_fit(features(), some, graph=graph(), validation_mask=held)
        again.partial_fit(features(), some, [10, 20, 30], graph=graph())
        with pytest.raises(InputError, match="classes are"):
            again.partial_fit(features(), some, [10, 20], graph=graph())


@pytest.mark.parametrize("more", [{}, {"patience": 2}, {"batch_size": 3}])
def test_a_step_more_learns_from_all_labels(more):
    """As of all models: a share is held out of a fit only."""
    whole, asked = model(**more), model(validation_fraction=0.3, **more)
    for fitted in (whole, asked, whole, asked):
        fitted.partial_fit(features(), labels(), graph=graph())
    np.testing.assert_array_equal(weights_of(asked), weights_of(whole))
    assert asked.history_["validation_loss"].isna().all()
    held = np.flatnonzero(labels() == 0)[:2]
    asked.partial_fit(features(), labels(), graph=graph(), validation_mask=held)
    assert np.isfinite(asked.history_["validation_loss"].iloc[-1])


@pytest.mark.parametrize("unlabelled", [-1, np.nan, None])
def test_what_says_unlabelled_is_no_class(unlabelled):
    """As of np.unique(y): it would be an output that no label is of."""
    with pytest.raises(InputError, match="−1, NaN and None are none"):
        model().partial_fit(features(), labels(), [unlabelled, 0, 1, 2], graph=graph())


def test_classes_name_the_columns_of_a_table():
    y, names = labels("several"), ["b", "c", "a"]
    fitted = model("gcn", "several").partial_fit(features(), y, names, graph=graph())
    fitted.partial_fit(features(), y, names, graph=graph())
    fitted.partial_fit(features(), y, graph=graph())
    assert fitted.classes_.tolist() == names
    plain = model("gcn", "several", max_iter=3).fit(features(), y, graph=graph())
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    assert fitted.score(features(), y) == plain.score(features(), y)
    for other in (["a", "b", "c"], ["b", "c"], ["b", "c", "d"]):
        with pytest.raises(InputError, match="classes are"):
            fitted.partial_fit(features(), y, other, graph=graph())
    for other in (["b", "c"], ["b", "c", "b"]):
        with pytest.raises(InputError, match=r"3 columns, a class each.*name each column once"):
            model().partial_fit(features(), y, other, graph=graph())
    with pytest.raises(InputError, match="one class a vertex, y is not of that kind"):
        model().fit(features(), labels(), graph=graph()).score(features(), y[:, :2])


def test_a_step_without_features_needs_none_to_predict():
    """Behind one on features, or weights of elsewhere, of which each may be of the identity."""
    one, other = (model(hidden=(), max_iter=1) for _ in range(2))
    one.fit(np.eye(N), labels(), graph=graph())
    other.set_coefs(one.coefs_, classes=one.classes_)
    for fitted in (one, other):
        fitted.partial_fit(None, labels(), graph=graph())
        assert not hasattr(fitted, "n_features_in_")
        assert fitted.predict().shape == (N,)


def test_numbers_have_no_classes():
    with pytest.raises(InputError, match="learns numbers and has none"):
        model(loss="numbers").partial_fit(features(), labels("numbers"), [0, 1], graph=graph())


def test_names_of_outputs_from_elsewhere_keep_their_order():
    """They are in the order of the outputs, not sorted."""
    fitted = model().fit(features(), labels(), graph=graph())
    mine = model().set_coefs(fitted.coefs_, classes=["c", "a", "b"])
    known = np.array(["c", "a", "b", ""])[labels()]
    score = fitted.score(features(), labels())
    assert mine.score(features(), known, graph=graph()) == score
    mine.set_params(dropout=0.0).partial_fit(features(), known, graph=graph())
    fitted.set_params(dropout=0.0)
    plain = model(dropout=0.0).set_coefs(fitted.coefs_)
    plain.partial_fit(features(), labels(), graph=graph())
    np.testing.assert_array_equal(weights_of(mine), weights_of(plain))
    assert mine.classes_.tolist() == ["c", "a", "b"]


def test_of_weights_from_elsewhere_nothing_tells_of_the_fit_before(tmp_path):
    fitted = model().fit(features(), labels(), graph=graph())
    of_fit = {"partition_", "plan_report_", "comm_report_"}
    assert of_fit <= vars(fitted).keys()
    fresh, mine = model().set_coefs(fitted.coefs_), fitted.set_coefs(fitted.coefs_)
    assert mine.n_iter_ == fresh.n_iter_ == len(mine.history_) == 0
    assert not of_fit & vars(mine).keys() and vars(mine).keys() == vars(fresh).keys()
    mine.save(tmp_path / "model")
    loaded = type(mine).load(tmp_path / "model")
    assert loaded.partial_fit(features(), labels(), graph=graph()).n_iter_ == 1


def test_a_warm_start_takes_another_dtype():
    fitted = model(dtype="float32", warm_start=True).fit(features(), labels(), graph=graph())
    fitted.set_params(dtype="float64").fit(features(), labels(), graph=graph())
    arrays = [*fitted.coefs_.values(), *fitted.state_.slots.values()]
    assert {array.dtype for array in arrays if array.dtype.kind == "f"} == {np.dtype("float64")}
    assert fitted.n_iter_ == 8


@pytest.mark.parametrize("batches", [{}, {"batch_size": 10}])
def test_a_bold_driver_goes_on_with_its_errors_on_other_ranks(batches, tmp_path):
    """The data are the same, so the loss of the next epoch is compared with that of the last."""

    def fitted(**more):
        options = {"learning_rate": "bold-driver", "partitioner": "block", **batches, **more}
        return model(**options).fit(features(), labels(), graph=graph())

    kept = {"checkpoint_path": tmp_path / "run.npz"}
    whole, _ = fitted(max_iter=6), fitted(max_iter=3, **kept)
    with pytest.warns(DaskpartWarning, match="is of 3 ranks, this fit has 2: it goes on"):
        resumed = fitted(max_iter=6, n_ranks=2, resume=True, **kept)
    np.testing.assert_allclose(weights_of(resumed), weights_of(whole), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_adam_that_a_warm_start_begins_counts_from_its_own_first_step(batch_size, tmp_path):
    options = {"dropout": 0.0, "weight_decay": 0.0, "batch_size": batch_size, "max_iter": 1}
    fitted = model(optimizer="sgd", **options, warm_start=True).set_params(max_iter=5)
    fitted.fit(features(), labels(), graph=graph())
    before = weights_of(fitted)
    fitted.set_params(optimizer="adam", max_iter=1).fit(features(), labels(), graph=graph())
    n_steps = getattr(fitted.plan_report_, "n_batches", 1)
    assert (n_steps > 1) == (batch_size is not None)
    # a step of Adam is about its rate; with moments of zero and an old count it is 3 times that
    assert np.abs(weights_of(fitted) - before).max() < 1.1 * n_steps * 0.01
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    for each in (fitted, loaded):
        each.fit(features(), labels(), graph=graph())
    np.testing.assert_array_equal(weights_of(fitted), weights_of(loaded))
    if batch_size is None:  # masks and mini-batches are drawn by the number of the epoch
        fresh = model(optimizer="adam", **options).set_coefs(
            dict(zip(fitted.coefs_, cut(before, fitted.coefs_.values()), strict=True))
        )
        for _ in range(2):
            fresh.partial_fit(features(), labels(), graph=graph())
        np.testing.assert_allclose(weights_of(fresh), weights_of(fitted), rtol=1e-12)


def cut(flat, like):
    """Flat weights in the shapes of others."""
    ends = np.cumsum([each.size for each in like])[:-1]
    return [
        piece.reshape(each.shape) for piece, each in zip(np.split(flat, ends), like, strict=True)
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that overflow
@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize("looks", [False, True], ids=["in runs", "epoch by epoch"])
def test_a_fit_that_diverges_keeps_a_state_of_finite_outputs(batch_size, looks, tmp_path):
    """However many epochs it may have: the loss tells only in the next one."""
    options = {"optimizer": "sgd", "initial_learning_rate": 1e5, "batch_size": batch_size}
    options |= {"checkpoint_path": tmp_path / "run.npz"} if looks else {}
    ends = set()
    for max_iter in (*range(1, 8), 30):
        fitted = model(**options, dtype="float32", max_iter=max_iter)
        try:
            fitted.fit(features(), labels(), graph=graph())
        except DivergenceError as error:
            epoch = getattr(fitted, "n_iter_", None)
            kept = "No state is kept" if epoch is None else f"after epoch {epoch} is kept"
            ends.add(kept in str(error))
        if hasattr(fitted, "state_"):
            assert np.isfinite(fitted.predict_proba(features())).all()
            assert [*fitted.history_["epoch"]] == [*range(1, fitted.n_iter_ + 1)]
        for path in tmp_path.iterdir():
            path.unlink()
    assert ends == {True}


def test_weights_that_had_a_loss_are_kept_where_the_next_diverge():
    """Those of the first epoch have one, however large; the step from there has no end."""
    fitted = model(optimizer="sgd", initial_learning_rate=1e12, dtype="float32", max_iter=9)
    with pytest.raises(DivergenceError, match=r"in epoch 2.*after epoch 1 is kept"):
        fitted.fit(features(), labels(), graph=graph())
    assert np.isfinite(fitted.predict_proba(features())).all()


def test_validation_that_is_not_finite_is_divergence():
    y, X = labels("numbers"), features()
    held = np.flatnonzero(~np.isnan(y))[:1]
    X[held] *= 1e300
    with pytest.raises(DivergenceError, match="epoch 1"), np.errstate(all="ignore"):
        model("gcn", "numbers").fit(X, y, validation_mask=held)
