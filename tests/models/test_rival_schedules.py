"""DSGD and GASGD: what a cell holds, what travels, and GASGD against a replay on whole factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_pasgd import _plan, _text

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.models.matrix_factorization.copies import shards_of_nonzeros
from daskpart.models.matrix_factorization.pasgd import apply_ratings, blank_model
from daskpart.models.matrix_factorization.problem import Ratings
from daskpart.models.matrix_factorization.strata import strata_schedule

N_USERS, N_ITEMS, F = 50, 30, 5


def _ratings():
    return as_matrix(daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 600, random_state=1))


@given(st.integers(1, 7), st.integers(1, 25), st.integers(0, 2**32 - 1))
def test_a_block_of_items_is_on_one_rank_at_a_time_and_on_each_once(n_ranks, n_items, seed):
    generator = np.random.default_rng(seed)
    n_pairs = int(generator.integers(0, 100))
    connectivity = Connectivity.from_pairs(
        generator.integers(0, n_items, n_pairs),
        generator.integers(0, n_ranks, n_pairs),
        n_items,
        n_ranks,
    )
    schedule = strata_schedule(connectivity)
    used = int((np.diff(connectivity.pointer) > 0).sum())
    assert schedule.staleness == 0
    times = schedule.sub_epoch.reshape(used, n_ranks)  # by item, then rank
    np.testing.assert_array_equal(np.sort(times, axis=1), np.tile(np.arange(n_ranks), (used, 1)))
    ratings = np.zeros((n_items, n_ranks), int)
    for item in range(n_items):
        own = slice(*connectivity.pointer[item : item + 2])
        ratings[item, connectivity.parts[own]] = connectivity.counts[own]
    load = [0] * n_ranks
    cells = np.zeros((n_ranks, n_ranks), int)
    at = dict(zip(np.flatnonzero(ratings.any(axis=1)).tolist(), times, strict=True))
    # by falling ratings into the lightest block, which begins at the rank of its number
    for item in sorted(range(n_items), key=lambda item: -ratings[item].sum()):
        block = int(np.argmin(load))
        load[block] += ratings[item].sum() + 1
        for rank, t in enumerate(at.get(item, ())):
            assert (rank + t) % n_ranks == block
            cells[rank, t] += ratings[item, rank]
    np.testing.assert_array_equal(schedule.cell_nonzeros, cells)
    sent = sum(schedule.expand_plan(t).total_rows for t in range(n_ranks))
    assert sent == (n_ranks * used if n_ranks > 1 else 0)


@pytest.mark.parametrize(("schedule", "eta"), [("dsgd", 4), ("gasgd", 1), ("gasgd", 3)])
def test_what_was_sent_is_what_was_planned(schedule, eta):
    ratings = _ratings()
    plan = _plan(ratings, 4, eta, schedule=schedule)
    with LocalCommunicator(4) as comm:
        text = _text(comm, plan, ratings)
        comm.counters.reset()
        steps = text.run(1, 2)
        sent = {
            name: sum(int(comm.counters.of(label)[name].sum()) for label in ("reduce", "expand"))
            for name in ("rows_sent", "bytes_sent", "messages_sent")
        }
    report, expected = plan.report(), plan.expected()
    sharers = plan.connectivity.connectivity_minus_one()
    volume = 4 * N_ITEMS if schedule == "dsgd" else 2 * eta * sharers
    assert sent["rows_sent"] == 2 * report.volume == 2 * volume
    assert sent["bytes_sent"] == 2 * expected.nbytes
    assert sent["messages_sent"] == 2 * report.messages
    stale = 0 if schedule == "dsgd" else eta * sharers
    assert [step.counted["staleness"] for step in steps] == [report.staleness] * 2 == [stale] * 2


@pytest.mark.parametrize("averaging", ["mean", "ratings"])
@pytest.mark.parametrize("eta", [1, 3])
def test_gasgd_is_sgd_on_whole_factors_that_are_averaged(eta, averaging):
    """Each rank trains all rows of a copy; then rows are averaged over the ranks that have them."""
    n_ranks, ratings = 3, _ratings()
    plan = _plan(ratings, n_ranks, eta, schedule="gasgd", averaging=averaging)
    with LocalCommunicator(n_ranks, n_threads=1) as comm:
        text = _text(comm, plan, ratings)
        first = text.gather(Ratings.of(ratings).blank(F))
        cells = text._ratings.content
        text.run(1, 2)
        state = text.gather(Ratings.of(ratings).blank(F))
    owners = plan.connectivity.owners
    np.testing.assert_array_equal(plan.schedule.home, owners)
    assert (shards_of_nonzeros(ratings, plan.partition, 1).connectivity.owners != owners).any()
    sizes = [np.diff(cell.cell_pointer) for cell in cells]
    np.testing.assert_array_equal(plan.schedule.cell_nonzeros, sizes)
    held = np.zeros((n_ranks, N_USERS + N_ITEMS))
    every = blank_model(plan.layout, 0, N_USERS + N_ITEMS, first.global_mean)
    every.item[:, :F] = np.concatenate((first.user_factors, first.item_factors))
    for rank, cell in enumerate(cells):
        np.add.at(held[rank], cell.items[cell.rows], 1)
        np.add.at(held[rank], cell.items[cell.columns], 1)
    assert held.sum() == 2 * ratings.nnz
    weights = held if averaging == "ratings" else (held > 0).astype(float)
    weights /= np.maximum(weights.sum(axis=0), 1)
    for _ in range(2):
        for t in range(eta):
            copies = [every.copy() for _ in cells]
            for copy, cell in zip(copies, cells, strict=True):
                rows, columns = (
                    cell.items[each].astype(np.int32) for each in (cell.rows, cell.columns)
                )
                whole = replace(cell, rows=rows, columns=columns)
                apply_ratings(copy, whole, sub_epoch=t, rate=0.05, regularization=0.05)
            for name in ("item", "item_bias", "item_gradient"):
                found = np.array([getattr(copy, name) for copy in copies])
                mean = np.einsum("kn,kn...->n...", weights, found)
                used = held.any(axis=0)
                getattr(every, name)[used] = mean[used]
    np.testing.assert_allclose(state.user_factors, every.item[:N_USERS, :F], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.item_factors, every.item[N_USERS:, :F], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.user_bias, every.item_bias[:N_USERS], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.item_gradient, every.item_gradient[N_USERS:], rtol=1e-4)


def test_on_one_rank_all_schedules_are_the_same_sgd():
    ratings = daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 600, random_state=1)
    fitted = [
        daskpart.MatrixFactorization(F, n_ranks=1, schedule=schedule, max_iter=3).fit(ratings)
        for schedule in ("pasgd", "dsgd", "gasgd")
    ]
    for model in fitted[1:]:
        np.testing.assert_allclose(
            model.history_["train_rmse"], fitted[0].history_["train_rmse"], rtol=1e-5
        )


def test_a_partition_of_single_ratings_can_be_given():
    ratings = daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 600, random_state=1)
    dealt = np.arange(600) % 3
    model = daskpart.MatrixFactorization(
        F, n_ranks=3, schedule="gasgd", partitioner=dealt, max_iter=2
    ).fit(ratings)
    np.testing.assert_array_equal(model.partition_.assignment, dealt)
    assert model.comm_report_.matches


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schedule": "gasgd", "axis": "columns"}, "leave axis out"),
        ({"schedule": "gasgd", "partitioner": np.zeros(N_USERS, int)}, "nonzeros"),
    ],
)
def test_what_does_not_fit_a_schedule_is_refused(wrong, words):
    ratings = daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 600, random_state=1)
    with pytest.raises(InputError, match=words):
        daskpart.MatrixFactorization(F, n_ranks=3, **wrong).fit(ratings)
