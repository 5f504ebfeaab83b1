"""η-PASGD against its sequential replay, bit for bit, and against eq. 8 and 9, to the unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.containers.matrix import as_matrix
from daskpart.models.matrix_factorization.pasgd import (
    RankModel,
    RankRatings,
    RowLayout,
    apply_ratings,
)
from daskpart.models.matrix_factorization.plan import plan_fit
from daskpart.models.matrix_factorization.problem import Ratings
from daskpart.models.matrix_factorization.text import MFText
from daskpart.models.optimisation.learning_rates import learning_rate

N_USERS, N_ITEMS = 60, 40


def _ratings(seed: int = 0, loss: str = "squared"):
    ratings = as_matrix(
        daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 900, random_state=seed)
    )
    if loss == "squared":
        return ratings
    return replace(ratings, values=(ratings.values > ratings.values.mean()).astype(np.float32))


def _plan(ratings, n_ranks, eta, rate="adagrad", biases=True, **changes):
    layout = RowLayout(5, biases, learning_rate(rate, None).per_row)
    settings = {
        "partitioner": "random", "axis": "rows", "averaging": "mean", "random_state": 0,
    } | changes  # fmt: skip
    return plan_fit(ratings, n_ranks, eta=eta, layout=layout, **settings)


def _text(comm, plan, ratings, initial=0.05, loss="squared"):
    """Ready for the first epoch, at a rate that stays."""
    name = "adagrad" if plan.layout.gradients else "constant"
    text = MFText(comm, plan, learning_rate(name, initial), 0.05, 0.1, unit=1.0, loss=loss)
    text.begin_from(_blank(ratings))
    return text


def _blank(ratings):
    return Ratings.of(ratings).blank(5)


def _train(plan, ratings, n_epochs=3, loss="squared"):
    """The state after some epochs, what was sent, and the epochs."""
    with LocalCommunicator(plan.n_ranks) as comm:
        text = _text(comm, plan, ratings, loss=loss)
        comm.counters.reset()
        steps = text.run(1, n_epochs)
        counters = comm.counters
        return text.gather(_blank(ratings)), counters, steps


def _replay(plan, ratings, n_epochs=3, loss="squared") -> RankModel:
    """One sequential SGD over global factors, in the order that the sub-epochs define."""
    with LocalCommunicator(plan.n_ranks, n_threads=1) as comm:
        text = _text(comm, plan, ratings, loss=loss)
        cells: list[RankRatings] = text._ratings.content
        first: list[RankModel] = text.changing[0].content
    n_users = plan.shards.partition.n_vertices
    model = RankModel(
        plan.layout,
        np.zeros((n_users, first[0].user.shape[1]), np.float32),
        np.zeros((N_ITEMS, first[0].item.shape[1]), np.float32),
        np.zeros(n_users, np.float32),
        np.zeros(N_ITEMS, np.float32),
        np.ones(n_users, np.float32),
        np.ones(N_ITEMS, np.float32),
        first[0].mean,
    )
    for cell, own in zip(cells, first, strict=True):
        model.user[cell.users], model.item[cell.items] = own.user, own.item
    for _ in range(n_epochs):
        for t in range(plan.eta):
            for cell in cells:
                in_global_ids = replace(
                    cell,
                    rows=cell.users[cell.rows].astype(np.int32),
                    columns=cell.items[cell.columns].astype(np.int32),
                )
                apply_ratings(model, in_global_ids, sub_epoch=t, rate=0.05, regularization=0.05)
    return model


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize(("biases", "rate"), [(True, "adagrad"), (False, "constant")])
@pytest.mark.parametrize(
    ("schedule", "loss"), [("pasgd", "squared"), ("dsgd", "squared"), ("pasgd", "logistic")]
)
def test_eta_equal_to_k_is_a_sequential_sgd(n_ranks, biases, rate, schedule, loss):
    """Free of staleness: the parallel run gives the bits of its sequential replay.

    So do the strata of DSGD, one after another.
    """
    ratings = _ratings(loss=loss)
    plan = _plan(ratings, n_ranks, n_ranks, rate, biases, schedule=schedule)
    state, _, steps = _train(plan, ratings, loss=loss)
    replayed = _replay(plan, ratings, loss=loss)
    assert all(step.counted["staleness"] == 0 for step in steps)
    np.testing.assert_array_equal(state.user_factors, replayed.user[:, :5])
    np.testing.assert_array_equal(state.item_factors, replayed.item[:, :5])
    np.testing.assert_array_equal(state.user_bias, replayed.user_bias)
    np.testing.assert_array_equal(state.item_gradient, replayed.item_gradient)
    assert state.item_factors.any(axis=1).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_rank_is_algorithm_1_rating_by_rating(loss):
    """K = 1 equals a loop that hands the kernel one rating at a time, in the same order."""
    ratings = _ratings(loss=loss)
    plan = _plan(ratings, 1, 1)
    state, _, steps = _train(plan, ratings, n_epochs=1, loss=loss)
    with LocalCommunicator(1, n_threads=1) as comm:
        text = _text(comm, plan, ratings, loss=loss)
        (cell,), (model,) = text._ratings.content, text.changing[0].content
    total = 0.0
    for n in range(cell.rows.size):
        model.loss = 0.0
        one = replace(cell, cell_pointer=np.array([n, n + 1]))
        apply_ratings(model, one, sub_epoch=0, rate=0.05, regularization=0.05)
        total += model.loss
    np.testing.assert_array_equal(state.user_factors[cell.users], model.user[:, :5])
    np.testing.assert_array_equal(state.item_bias[cell.items], model.item_bias)
    mean = total / cell.rows.size
    if loss == "squared":
        assert steps[0].measured["train_rmse"] == np.sqrt(mean)
    else:
        assert steps[0].measured["train_loss"] == mean


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("eta", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("partitioner", ["random", "power"])
def test_measured_traffic_equals_the_formulas(n_ranks, eta, partitioner):
    """Rows, words, messages and staleness of a real run, against eq. 8, eq. 9 and the plans."""
    eta = min(eta, n_ranks)
    ratings = _ratings(1)
    plan = _plan(ratings, n_ranks, eta, partitioner=partitioner)
    _, counters, steps = _train(plan, ratings, n_epochs=2)
    sent = {
        name: sum(int(counters.of(label)[name].sum()) for label in ("reduce", "expand"))
        for name in ("rows_sent", "bytes_sent", "messages_sent")
    }
    volume = plan.connectivity.pasgd_volume(eta)
    staleness = plan.connectivity.pasgd_staleness(eta)
    assert sent["rows_sent"] == 2 * volume
    assert sent["bytes_sent"] == 2 * volume * 4 * plan.layout.words
    messages = sum(each.total_messages for of in plan.plans().values() for each in of)
    assert sent["messages_sent"] == 2 * messages
    assert [step.counted["staleness"] for step in steps] == [staleness] * 2
    expected = plan.expected()
    assert (expected.rows.sum(), expected.messages.sum()) == (volume, messages)
    assert expected.nbytes == volume * 4 * plan.layout.words


@pytest.mark.parametrize("averaging", ["mean", "ratings"])
def test_stale_copies_are_averaged(averaging):
    """η = 1 with no learning: averages of equal copies change nothing but rounding."""
    ratings = _ratings(2)
    plan = _plan(ratings, 4, 1, averaging=averaging)
    with LocalCommunicator(4) as comm:
        text = _text(comm, plan, ratings, initial=1e-30)
        before = text.gather(_blank(ratings))
        text.run(1, 1)
        after = text.gather(_blank(ratings))
    np.testing.assert_array_equal(before.user_factors, after.user_factors)
    np.testing.assert_allclose(before.item_factors, after.item_factors, rtol=1e-6)


def test_weights_of_an_average_are_alike_or_follow_the_ratings():
    ratings = _ratings(3)
    for averaging in ("mean", "ratings"):
        plan = _plan(ratings, 4, 2, averaging=averaging)
        weighs = np.ones((4, N_ITEMS))  # a rank's copy of an item
        if averaging == "ratings":
            on_rank = plan.shards.partition.assignment[ratings.rows]
            weighs = scipy.sparse.coo_array(
                (np.ones(ratings.nnz), (on_rank, ratings.columns)), weighs.shape
            ).toarray()
            assert weighs.max() > 1  # else both averagings would be the same
        checked = 0
        for rank, own in enumerate(plan.rank_schedules):
            for t, average in enumerate(own.averages):
                if average is None:
                    continue
                items, weights = average
                (messages,) = plan.reduces[t].rounds
                mine = messages.of_rank(rank)
                copies = {rank: items} | {
                    int(source): mine.in_items[mine.in_pointer[m] : mine.in_pointer[m + 1]]
                    for m, source in enumerate(mine.sources)
                }
                total = np.zeros(N_ITEMS)
                for contributor, held in copies.items():
                    total[held] += weighs[contributor, held]
                for contributor, share in zip(sorted(copies), weights, strict=True):
                    held = copies[contributor]
                    expected = weighs[contributor, held] / total[held]
                    np.testing.assert_allclose(share, expected, rtol=1e-6)
                    checked += share.size
        assert checked == plan.schedule.staleness + sum(
            average[0].size for rank in plan.rank_schedules for average in rank.averages if average
        )


def test_seed_decides_and_partition_does_not_move_the_first_factors():
    ratings, found = _ratings(4), []
    for n_ranks in (1, 4):
        plan = _plan(ratings, n_ranks, n_ranks)
        with LocalCommunicator(n_ranks) as comm:
            found.append(_text(comm, plan, ratings).gather(_blank(ratings)))
    np.testing.assert_array_equal(found[0].user_factors, found[1].user_factors)
    np.testing.assert_array_equal(found[0].item_factors, found[1].item_factors)


def test_the_forecast_of_memory_is_what_ranks_hold():
    """To the averages that owners keep, which the forecast leaves out."""
    ratings = _ratings(5)
    plan = _plan(ratings, 4, 2)
    with LocalCommunicator(4) as comm:
        measured = np.array(_text(comm, plan, ratings).memory)
    forecast = plan.memory()
    held = forecast["ratings"] + forecast["factors"]
    assert (np.abs(measured / held - 1) < 0.2).all(), (measured, held)
    traffic = sum(each.traffic() for plans in plan.plans().values() for each in plans)
    on_way = traffic.sum(axis=0) + traffic.sum(axis=1)
    np.testing.assert_array_equal(forecast["messages"], 8 * on_way)
