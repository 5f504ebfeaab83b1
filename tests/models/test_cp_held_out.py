"""Entries held out of a decomposition: measured on the ranks, as a serial program would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sparse
from fit_tools import assert_same, on_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from test_held_out import Snapshots

import daskpart
from daskpart.containers.tensor import as_tensor
from daskpart.models.cp import entries
from daskpart.models.cp.state import CPState

SHAPES = [(9, 7), (12, 5, 8), (6, 5, 4, 7)]
METHODS = ("p2p", "emb", "emb-naive")

pytestmark = pytest.mark.filterwarnings("ignore:.*have no entry to learn from")


def model(**changes: Any) -> Any:
    options = {"n_ranks": 3, "max_iter": 3, "partitioner": "random", "transport": "local"}
    options |= {"missing": "unknown", "tol": 0, "ridge": 0.1, "n_components": 2}
    return daskpart.CPDecomposition(**{**options, **changes})


def tensor(shape: tuple[int, ...], nnz: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    cells = random.choice(int(np.prod(shape)), nnz, replace=False)
    return sparse.COO(np.unravel_index(cells, shape), random.random(nnz) + 1, shape=shape)


def error(state: Any, held_out: Any) -> float:
    """RMSE, entry by entry."""
    predicted = [
        sum(
            state.weights[r]
            * np.prod([factor[i, r] for factor, i in zip(state.factors, index, strict=True)])
            for r in range(len(state.weights))
        )
        for index in held_out.coords.T
    ]
    return float(np.sqrt(np.mean((held_out.data - predicted) ** 2)))


@pytest.mark.filterwarnings("ignore:ridge=.* outweighs")
@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(SHAPES),
    st.integers(8, 60),
    st.integers(0, 100),
    st.sampled_from(METHODS),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([(), (0,), (1,)]),
)
def test_it_is_the_error_of_the_gathered_model(shape, nnz, seed, method, k, nonnegative, fixed):
    """After every iteration; also at indices that have no entry, and training is as ever."""
    train, held_out = tensor(shape, nnz, seed), tensor(shape, 15, seed + 1)
    chosen = {"n_ranks": k, "method": method, "nonnegative": nonnegative}
    chosen["fixed_modes"] = {m: np.random.default_rng(seed).random((shape[m], 2)) for m in fixed}
    seen, fitted = Snapshots(), model(**chosen)
    fitted.set_callbacks(seen).fit(train, validation=held_out)
    expected = [error(state, held_out) for state in seen.states]
    np.testing.assert_allclose(fitted.history_["validation_rmse"], expected, rtol=1e-12)
    alone = model(**chosen).fit(train)
    np.testing.assert_equal(fitted.state_.answers, alone.state_.answers)
    one, other = fitted.comm_report_, alone.comm_report_
    assert one.matches and one.measured_bytes == other.measured_bytes
    np.testing.assert_array_equal(one.traffic, other.traffic)
    np.testing.assert_array_equal(one.measured_messages, other.measured_messages)
    planned = fitted.plan_report_.validation_volume
    assert one.measured_counts.get("validation rows", 0) == planned
    np.testing.assert_array_equal(
        one.memory - other.memory, one.expected_memory - other.expected_memory
    )


@pytest.mark.parametrize(("share", "n_held"), [(0.04, 2), (0.3, 12), (0.9, 37)])
def test_a_share_is_drawn_by_the_seed(share, n_held):
    """It and the rest are all entries, each with its value; other seeds draw others."""
    whole = as_tensor(tensor(SHAPES[1], 41, 0))
    drawn = set()
    for seed in (0, 1, 2, 0, 1, 2):
        rest, held = entries.split_entries(whole, share, seed)
        assert held.values.size == n_held
        coordinates = np.hstack((rest.coordinates, held.positions))
        order = np.lexsort(coordinates[::-1])
        np.testing.assert_array_equal(coordinates[:, order], whole.coordinates)
        np.testing.assert_array_equal(np.append(rest.values, held.values)[order], whole.values)
        drawn.add(held.fingerprint())
    assert len(drawn) == 3


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_values_are_computed_some_at_a_time(chunk, monkeypatch):
    monkeypatch.setattr(entries, "_CHUNK", chunk)
    random, asked = np.random.default_rng(0), tensor(SHAPES[2], 40, 0)
    factors = [random.normal(size=(extent, 3)) for extent in SHAPES[2]]
    state = CPState(random.random(3), factors, ("a", "b", "c", "d"))
    found = entries.values_at(state, asked.coords)
    assert np.sqrt(np.mean((asked.data - found) ** 2)) == pytest.approx(error(state, asked))
    one_by_one = [entries.values_at(state, asked.coords[:, [n]])[0] for n in range(40)]
    np.testing.assert_array_equal(found, one_by_one)


@pytest.mark.filterwarnings("ignore:ridge=.* outweighs")
def test_rows_of_fixed_modes_do_not_travel():
    train, held_out = tensor(SHAPES[1], 15, 0), tensor(SHAPES[1], 100, 1)
    free = model().fit(train, validation=held_out).plan_report_.validation_volume
    for fixed in ((0,), (1,), (0, 1), (0, 2), (1, 2)):
        given = {m: np.random.default_rng(0).random((SHAPES[1][m], 2)) for m in fixed}
        fitted = model(fixed_modes=given).fit(train, validation=held_out)
        volume = fitted.plan_report_.validation_volume
        assert fitted.comm_report_.measured_counts.get("validation rows", 0) == volume < free
        assert len(fixed) == 1 or volume == 0  # each entry is where its row is solved for


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_transport_gives_the_same_bits(method, fixed):
    train = tensor(SHAPES[1], 200, 0)
    chosen = {"validation_fraction": 0.3, "patience": 1, "method": method, "max_iter": 8}
    if fixed:
        chosen["fixed_modes"] = {1: np.random.default_rng(0).random((SHAPES[1][1], 2))}
    expected = model(**chosen).fit(train)
    assert_same(expected, model(transport="graph", **chosen).fit(train))
    assert_same(expected, on_threads(model(**chosen)).fit(train))


@pytest.mark.cluster
def test_so_do_worker_processes(client):
    train, chosen = tensor(SHAPES[1], 200, 0), {"validation_fraction": 0.3, "patience": 2}
    expected = model(max_iter=8, **chosen).fit(train)
    fitted = model(max_iter=8, transport="dask", **chosen).fit(train, client=client)
    assert fitted.comm_report_.transport == "dask" and fitted.comm_report_.matches
    assert_same(expected, fitted)
    assert not client.futures


def test_ranks_keep_a_copy_of_the_rows_that_they_own():
    train = tensor(SHAPES[1], 200, 0)
    plain, watched = (
        model(validation_fraction=0.3, patience=patience).fit(train) for patience in (None, 5)
    )
    for memory in ("memory", "expected_memory"):
        one, other = (getattr(each.comm_report_, memory).sum() for each in (plain, watched))
        assert other - one == 8 * 2 * (sum(SHAPES[1]) + 3)
