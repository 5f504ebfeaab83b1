"""η-PASGD against its sequential replay, bit for bit, and against eq. 8 and 9, to the unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.containers.matrix import as_matrix
from daskpart.models.fitting import Attempt, TrainingSettings
from daskpart.models.learning_rates import learning_rate
from daskpart.models.pasgd import RankModel, RankRatings, RowLayout, apply_ratings
from daskpart.models.planning import PlanSettings, check_plan_settings, plan_fit

N_USERS, N_ITEMS = 60, 40


def _ratings(seed: int = 0):
    return as_matrix(daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 900, random_state=seed))


def _plan(ratings, n_ranks, eta, **changes):
    settings = {
        "partitioner": "random", "rho": 2, "epsilon": 0.1, "engine": "multilevel",
        "axis": "rows", "averaging": "mean", "random_state": 0,
    } | changes  # fmt: skip
    return plan_fit(ratings, check_plan_settings(PlanSettings(n_ranks, eta, **settings)))


def _settings(biases=True, rate="adagrad", n_components=5):
    chosen = learning_rate(rate, None)
    layout = RowLayout(n_components, biases, chosen.per_row)
    return TrainingSettings(layout, chosen, 0.05, 0.1, 0)


def _train(plan, settings, n_epochs=3):
    """The factors after some epochs, as whole arrays, and the attempt that made them."""
    with LocalCommunicator(plan.settings.n_ranks) as comm:
        attempt = Attempt(comm, plan, settings, None)
        totals = [attempt.run(0.05) for _ in range(n_epochs)]
        return attempt, attempt.rows(), totals


def _replay(plan, settings, n_epochs=3) -> RankModel:
    """One sequential SGD over global factors, in the order that the sub-epochs define."""
    with LocalCommunicator(plan.settings.n_ranks, sequential=True) as comm:
        attempt = Attempt(comm, plan, settings, None)
        cells: list[RankRatings] = attempt._ratings.content
        first: list[RankModel] = attempt._model.content
        shards = plan.shards.compute()
    n_users = plan.shards.partition.n_vertices
    model = RankModel(
        settings.layout,
        np.zeros((n_users, first[0].user.shape[1]), np.float32),
        np.zeros((N_ITEMS, first[0].item.shape[1]), np.float32),
        np.zeros(n_users, np.float32),
        np.zeros(N_ITEMS, np.float32),
        np.ones(n_users, np.float32),
        np.ones(N_ITEMS, np.float32),
        first[0].mean,
    )
    for shard, own in zip(shards, first, strict=True):
        model.user[shard.rows], model.item[shard.items] = own.user, own.item
    for _ in range(n_epochs):
        for t in range(plan.settings.eta):
            for shard, cell in zip(shards, cells, strict=True):
                in_global_ids = replace(
                    cell,
                    rows=shard.rows[cell.rows].astype(np.int32),
                    columns=shard.items[cell.columns].astype(np.int32),
                )
                apply_ratings(model, in_global_ids, sub_epoch=t, rate=0.05, regularization=0.05)
    return model


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(("biases", "rate"), [(True, "adagrad"), (False, "constant")])
def test_eta_equal_to_k_is_a_sequential_sgd(n_ranks, biases, rate):
    """Free of staleness: the parallel run gives the bits of its sequential replay."""
    settings = _settings(biases, rate)
    plan = _plan(_ratings(), n_ranks, n_ranks)
    _, parts, totals = _train(plan, settings)
    replayed = _replay(plan, settings)
    assert all(total.stale_rows == 0 for total in totals)
    seen = np.zeros(N_ITEMS, bool)
    for part in parts:
        n_components = settings.layout.n_components
        np.testing.assert_array_equal(part.user, replayed.user[part.users, :n_components])
        np.testing.assert_array_equal(part.item, replayed.item[part.items, :n_components])
        np.testing.assert_array_equal(part.user_bias, replayed.user_bias[part.users])
        np.testing.assert_array_equal(part.item_gradient, replayed.item_gradient[part.items])
        seen[part.items] = True
    assert seen.all()


def test_one_rank_is_algorithm_1_rating_by_rating():
    """K = 1 equals a loop that hands the kernel one rating at a time, in the same order."""
    settings = _settings()
    plan = _plan(_ratings(), 1, 1)
    _, (part,), totals = _train(plan, settings, n_epochs=1)
    with LocalCommunicator(1, sequential=True) as comm:
        attempt = Attempt(comm, plan, settings, None)
        (cell,), (model,) = attempt._ratings.content, attempt._model.content
    error = 0.0
    for n in range(cell.rows.size):
        model.squared_error = 0.0
        one = replace(cell, cell_pointer=np.array([n, n + 1]))
        apply_ratings(model, one, sub_epoch=0, rate=0.05, regularization=0.05)
        error += model.squared_error
    np.testing.assert_array_equal(part.user, model.user[:, :5])
    np.testing.assert_array_equal(part.item_bias, model.item_bias[cell.home])
    assert totals[0].squared_error == error


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("eta", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("partitioner", ["random", "power"])
def test_measured_traffic_equals_the_formulas(n_ranks, eta, partitioner):
    """Rows, words, messages and staleness of a real run, against eq. 8, eq. 9 and the plans."""
    eta = min(eta, n_ranks)
    settings = _settings()
    plan = _plan(_ratings(1), n_ranks, eta, partitioner=partitioner)
    attempt, _, totals = _train(plan, settings, n_epochs=2)
    counters = attempt.comm.counters
    sent = {
        name: sum(int(counters.of(label)[name].sum()) for label in ("reduce", "expand"))
        for name in ("rows_sent", "bytes_sent", "messages_sent")
    }
    volume = plan.connectivity.pasgd_volume(eta)
    assert sent["rows_sent"] == 2 * volume
    assert sent["bytes_sent"] == 2 * volume * 4 * settings.layout.words
    assert sent["messages_sent"] == 2 * plan.n_messages
    assert [total.stale_rows for total in totals] == [plan.connectivity.pasgd_staleness(eta)] * 2


@pytest.mark.parametrize("averaging", ["mean", "ratings"])
def test_stale_copies_are_averaged(averaging):
    """η = 1 with no learning: averages of equal copies change nothing but rounding."""
    settings = _settings()
    plan = _plan(_ratings(2), 4, 1, averaging=averaging)
    with LocalCommunicator(4) as comm:
        attempt = Attempt(comm, plan, settings, None)
        before = attempt.rows()
        attempt.run(0.0)
        after = attempt.rows()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.user, other.user)
        np.testing.assert_allclose(one.item, other.item, rtol=1e-6)


def test_weights_of_an_average_sum_to_one_and_follow_the_ratings():
    ratings = _ratings(3)
    for averaging in ("mean", "ratings"):
        plan = _plan(ratings, 4, 2, averaging=averaging)
        connectivity = plan.connectivity
        checked = 0
        for rank in plan.rank_schedules:
            for t, average in enumerate(rank.averages):
                if average is None:
                    continue
                items, weights = average
                (messages,) = plan.reduces[t].rounds
                mine = messages.of_rank(rank.rank)
                total = np.zeros(N_ITEMS)
                copies = {rank.rank: items} | {
                    int(source): mine.in_items[mine.in_pointer[m] : mine.in_pointer[m + 1]]
                    for m, source in enumerate(mine.sources)
                }
                for contributor, share in zip(sorted(copies), weights, strict=True):
                    total[copies[contributor]] += share
                    checked += share.size
                np.testing.assert_allclose(total[items], 1, rtol=1e-6)
        assert checked == plan.schedule.staleness + sum(
            average[0].size for rank in plan.rank_schedules for average in rank.averages if average
        )
    heavy = connectivity.counts.max()
    assert heavy > 1  # else both averagings would be the same


def test_seed_decides_and_partition_does_not_move_the_first_factors():
    settings, ratings = _settings(), _ratings(4)
    whole = {}
    for n_ranks in (1, 4):
        plan = _plan(ratings, n_ranks, n_ranks)
        with LocalCommunicator(n_ranks) as comm:
            parts = Attempt(comm, plan, settings, None).rows()
        factors = np.zeros((N_USERS, 5), np.float32)
        for part in parts:
            factors[part.users] = part.user
        whole[n_ranks] = factors
    np.testing.assert_array_equal(whole[1], whole[4])
