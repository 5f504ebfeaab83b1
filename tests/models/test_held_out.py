"""Ratings held out of a factorization: measured on the ranks, as a serial program would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same, on_threads
from hypothesis import given, settings
from hypothesis import strategies as st

import daskpart
from daskpart.errors import DivergenceError
from daskpart.models.base.callbacks import EpochCallback

SHAPE = (24, 18)
WAYS = [
    {},
    {"eta": 1},
    {"axis": "columns", "eta": 2},
    {"axis": "auto"},
    {"schedule": "dsgd"},
    {"schedule": "gasgd"},
    {"schedule": "gasgd", "eta": 3},
]


def model(**changes: Any) -> Any:
    options = {"n_ranks": 3, "max_iter": 3, "partitioner": "random", "transport": "local"}
    return daskpart.MatrixFactorization(**{"n_components": 4, **options, **changes})


def ratings(density: float, seed: int, scale: float = 1.0) -> Any:
    """Without labels; of a low density some rows and columns have none."""
    random = np.random.default_rng(seed)
    found = scipy.sparse.random_array(SHAPE, density=density, rng=random, format="coo")
    found.data = scale * random.integers(1, 6, found.nnz)
    return found


def error(fitted: Any, state: Any, held_out: Any) -> float:
    """RMSE in float64, rating by rating."""
    rows, columns = held_out.coords
    predicted = np.einsum(
        "nf,nf->n",
        state.user_factors[rows].astype(np.float64),
        state.item_factors[columns].astype(np.float64),
    )
    predicted += state.global_mean + state.user_bias[rows] + state.item_bias[columns]
    if fitted.clip:
        ends = (state.lowest, state.highest) if fitted.clip is True else fitted.clip
        predicted = predicted.clip(*ends)
    return float(np.sqrt(np.mean((held_out.data - predicted) ** 2)))


class Snapshots(EpochCallback):
    """The state of every epoch."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    def epoch_done(self, row: Any, snapshot: Any) -> bool:
        self.states.append(snapshot())
        return False


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(WAYS),
    st.integers(1, 5),
    st.floats(0.1, 0.6),
    st.integers(0, 100),
    st.sampled_from([1, 4, 17]),
    st.booleans(),
    st.sampled_from([False, True, (2.0, 4.0)]),
    st.sampled_from([1.0, 1e-3, 1e4]),
)
def test_it_is_the_error_of_the_gathered_model(way, k, density, seed, f, biases, clip, scale):
    """After every epoch; also of users and items that have no rating, and training is as ever."""
    train, held_out = ratings(density, seed, scale), ratings(0.3, seed + 1, scale)
    chosen = {"n_components": f, "n_ranks": k, "biases": biases, "clip": clip, **way}
    chosen["eta"] = min(chosen.get("eta", k), k)
    seen, fitted = Snapshots(), model(**chosen)
    fitted.set_callbacks(seen).fit(train, validation=held_out)
    expected = [error(fitted, state, held_out) for state in seen.states]
    np.testing.assert_allclose(fitted.history_["validation_rmse"], expected, rtol=2e-6)
    alone = model(**chosen).fit(train)
    np.testing.assert_equal(fitted.state_.answers, alone.state_.answers)
    np.testing.assert_array_equal(fitted.state_.item_gradient, alone.state_.item_gradient)
    one, other = fitted.comm_report_, alone.comm_report_
    assert one.matches and one.measured_bytes == other.measured_bytes
    np.testing.assert_array_equal(one.traffic, other.traffic)
    assert one.measured_counts["validation rows"] == fitted.plan_report_.validation_volume
    more = one.expected_memory - other.expected_memory  # with positions of messages
    assert (one.memory - other.memory <= more).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("patience", [None, 1])
def test_every_transport_gives_the_same_bits(way, patience):
    train, chosen = ratings(0.6, 0), {"validation_fraction": 0.3, "patience": patience, **way}
    expected = model(max_iter=8, **chosen).fit(train)
    assert_same(expected, model(max_iter=8, transport="graph", **chosen).fit(train))
    assert_same(expected, on_threads(model(max_iter=8, **chosen)).fit(train))


@pytest.mark.cluster
@pytest.mark.parametrize("way", WAYS[::2])
def test_so_do_worker_processes(way, client):
    train, chosen = ratings(0.6, 0), {"validation_fraction": 0.3, "patience": 2, **way}
    expected = model(max_iter=8, **chosen).fit(train)
    fitted = model(max_iter=8, transport="dask", **chosen).fit(train, client=client)
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    assert_same(expected, fitted)
    assert not client.futures


def test_rows_of_an_earlier_fit_that_have_no_rating_now():
    """They stay as they were, and predict."""
    fitted = model(warm_start=True).fit(ratings(0.8, 0))
    few, held_out = ratings(0.1, 1), ratings(0.5, 2)
    unused = np.setdiff1d(held_out.coords[1], few.coords[1])
    before = fitted.state_.item_factors[unused]
    assert before.any(axis=1).all()
    for axis in ("rows", "columns"):
        fitted.set_params(axis=axis).fit(few, validation=held_out)
        np.testing.assert_array_equal(fitted.state_.item_factors[unused], before)
        measured = fitted.history_["validation_rmse"].iloc[-1]
        assert measured == pytest.approx(error(fitted, fitted.state_, held_out), rel=2e-6)


def test_a_plan_that_knew_of_no_validation_will_do(tmp_path):
    train, held_out = ratings(0.5, 0), ratings(0.3, 1)
    expected = model().fit(train, validation=held_out)
    plan = model().plan(train)
    plan.save(tmp_path / "plan.npz")
    for made in (plan, model().load_plan(tmp_path / "plan.npz", train)):
        fitted = model().fit(train, plan=made, validation=held_out)
        assert_same(expected, fitted)
        assert fitted.comm_report_.matches
    told = model().plan(train, validation=held_out).report()
    assert told.validation_volume == expected.plan_report_.validation_volume > 0
    assert "rows after each epoch" in repr(told)
    assert "validation rows an epoch" in repr(expected.comm_report_)


@pytest.mark.parametrize("patience", [None, 1])
def test_factors_that_diverged_are_not_measured(patience):
    wild = {"learning_rate": "constant", "initial_learning_rate": 1e4, "patience": patience}
    with pytest.raises(DivergenceError, match="diverged in epoch"):
        model(validation_fraction=0.3, max_iter=30, **wild).fit(ratings(0.6, 0))


def test_ranks_keep_a_copy_of_the_rows_that_they_answer_for():
    train = daskpart.datasets.power_law_ratings(400, 300, 9000, random_state=0)
    plain, watched = (
        model(n_components=40, validation_fraction=0.2, patience=patience).fit(train)
        for patience in (None, 5)
    )
    more = watched.comm_report_.memory - plain.comm_report_.memory
    assert more.sum() == 4 * 42 * sum(train.shape)
    planned = watched.plan_report_.memory_of_ranks - plain.plan_report_.memory_of_ranks
    np.testing.assert_array_equal(more, planned)


def test_a_saved_plan_tells_what_measuring_moves(tmp_path):
    """As the plan that was saved does: it is what a fit with this validation will do."""
    train, held_out, path = ratings(0.4, 1), ratings(0.2, 2), tmp_path / "plan.npz"
    plan = model().plan(train, validation=held_out)
    plan.save(path)
    again = model().load_plan(path, train, validation=held_out)
    assert again.report().validation_volume == plan.report().validation_volume > 0
