"""BPR against a twin in plain Python, its sequential replay, and what its draws promise."""

from __future__ import annotations

from dataclasses import replace

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
from sklearn.base import clone

import daskpart
from daskpart.collectives import LocalCommunicator
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.matrix_factorization.kernels.bpr import bpr, draw_unseen
from daskpart.models.matrix_factorization.kernels.sgd import lanes_of, padded_width
from daskpart.models.matrix_factorization.pasgd import RowLayout
from daskpart.models.matrix_factorization.plan import plan_fit
from daskpart.models.matrix_factorization.problem import Ratings
from daskpart.models.matrix_factorization.text import MFText
from daskpart.models.optimisation.learning_rates import learning_rate

N_USERS, N_ITEMS, F = 60, 40, 5
RATE, GAMMA = 0.05, 0.02


def _events():
    ratings = daskpart.datasets.power_law_ratings(N_USERS, N_ITEMS, 700, random_state=0)
    return as_matrix(abs(as_matrix(ratings).to_scipy()))


def _text(comm, plan, events):
    name = "adagrad" if plan.layout.gradients else "constant"
    text = MFText(comm, plan, learning_rate(name, RATE), GAMMA, 0.1, unit=None, loss="bpr")
    text.begin_from(Ratings.of(events).blank(F))
    return text


def _plan(events, n_ranks, eta=None, *, schedule="pasgd", biases=True, gradients=True):
    return plan_fit(
        events, n_ranks, schedule=schedule, eta=eta or n_ranks, partitioner="random", axis="rows",
        averaging="mean", layout=RowLayout(F, biases, gradients), random_state=0,
    )  # fmt: skip


def _twin(s, triples, weights, share, biases, adagrad, n_components):
    """Descent on c (−ln σ(x) + γ/2 ‖…‖²), triple after triple, in float64; returns the loss.

    In c the share of the cell counts, too, which is not in the loss.
    """
    loss = 0.0
    for (i, j, n), weight in zip(triples, weights, strict=True):
        if n < 0:
            continue
        w, h, g = s["user"][i].copy(), s["item"][j].copy(), s["item"][n].copy()
        x = w @ (h - g) + (s["bias"][j] - s["bias"][n] if biases else 0)
        loss += weight * np.log1p(np.exp(-x))
        c = share * weight
        slope = 1 / (1 + np.exp(x))
        down = {
            ("user", i): c * (-slope * (h - g) + GAMMA * w),
            ("item", j): c * (-slope * w + GAMMA * h),
            ("item", n): c * (slope * w + GAMMA * g),
        }
        rates = {at: RATE / np.sqrt(s[f"{at[0]}_sum"][at[1]]) if adagrad else RATE for at in down}
        for (side, row), gradient in down.items():
            s[side][row] -= rates[side, row] * gradient
            s[f"{side}_sum"][row] += gradient @ gradient / n_components if adagrad else 0
        if biases:
            for row, sign in ((j, -1), (n, 1)):
                step = c * (sign * slope + GAMMA * s["bias"][row])
                s["bias"][row] -= rates["item", row] * step
    return loss


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("adagrad", [True, False])
@pytest.mark.parametrize("f", [F, 40, 100])  # held whole, and with lines behind what is held
def test_one_pass_equals_plain_python(adagrad, biases, f):
    random = np.random.default_rng(1)
    user, item = (np.zeros((n, padded_width(f)), np.float32) for n in (N_USERS, N_ITEMS))
    for rows in (user, item):
        rows[:, :f] = (F / f) ** 0.25 * random.normal(size=(len(rows), f))
    sums = [np.ones(N_USERS, np.float32), np.ones(N_ITEMS, np.float32)]
    bias = random.normal(size=N_ITEMS).astype(np.float32)
    triples = np.stack([random.integers(0, N_USERS, 200), *_two_items(random, 200)], axis=1)
    triples[::17, 2] = -1
    weights = random.uniform(0.5, 2, 200).astype(np.float32)
    s = {
        "user": user[:, :f].astype(float), "item": item[:, :f].astype(float),
        "bias": bias.astype(float), "user_sum": np.ones(N_USERS), "item_sum": np.ones(N_ITEMS),
    }  # fmt: skip
    expected = _twin(s, triples, weights, 1.5, biases, adagrad, f)
    rows, columns, unseen = triples.T.astype(np.int32)
    loss = bpr(
        lanes_of(user.shape[1]), rows, columns, unseen, weights, np.float32(1.5), user, item,
        bias, *sums, f, np.float32(RATE), np.float32(GAMMA), biases, adagrad, False,
    )  # fmt: skip
    assert loss == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(user[:, :f], s["user"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(item[:, :f], s["item"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(bias, s["bias"], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sums[0], s["user_sum"], rtol=1e-3)
    np.testing.assert_allclose(sums[1], s["item_sum"], rtol=1e-3)
    assert not user[:, f:].any() and not item[:, f:].any()


def _two_items(random, n):
    seen = random.integers(0, N_ITEMS, n)
    return seen, (seen + random.integers(1, N_ITEMS, n)) % N_ITEMS


@pytest.mark.parametrize("schedule", ["pasgd", "dsgd"])
@pytest.mark.parametrize("n_ranks", [1, 2, 4, 5])
def test_without_staleness_it_is_a_sequential_sgd(n_ranks, schedule):
    """The bits of one pass after another over whole factors, in the order of the sub-epochs."""
    events = _events()
    plan = _plan(events, n_ranks, schedule=schedule)
    with LocalCommunicator(n_ranks, n_threads=1) as comm:
        text = _text(comm, plan, events)
        blank = Ratings.of(events).blank(F)
        cells, first = text._ratings.content, text.gather(blank)
        steps = text.run(1, 3)
        state = text.gather(blank)
    user, item = (np.zeros((n, padded_width(F)), np.float32) for n in (N_USERS, N_ITEMS))
    user[:, :F], item[:, :F] = first.user_factors, first.item_factors
    bias = np.zeros(N_ITEMS, np.float32)
    sums = [np.ones(N_USERS, np.float32), np.ones(N_ITEMS, np.float32)]
    for epoch in (1, 2, 3):
        loss = 0.0
        for t in range(plan.eta):
            for cell in cells:
                own = slice(*cell.cell_pointer[t : t + 2])
                drawn = cell.negatives.draw(cell, t, epoch)
                unseen = np.where(drawn < 0, -1, cell.items[drawn]).astype(np.int32)
                weights, share = np.ones(drawn.size, np.float32), cell.negatives.weights[t]
                loss += bpr(
                    lanes_of(user.shape[1]),
                    cell.users[cell.rows[own]].astype(np.int32),
                    cell.items[cell.columns[own]].astype(np.int32), unseen, weights, share, user,
                    item, bias, *sums, F, np.float32(RATE), np.float32(GAMMA), True, True, False,
                )  # fmt: skip
        assert steps[epoch - 1].measured["train_loss"] == pytest.approx(loss / events.nnz)
    np.testing.assert_array_equal(state.user_factors, user[:, :F])
    np.testing.assert_array_equal(state.item_factors, item[:, :F])
    np.testing.assert_array_equal(state.item_bias, bias)
    np.testing.assert_array_equal(state.item_gradient, sums[1])
    assert not state.user_bias.any() and state.global_mean == 0


@pytest.mark.parametrize("schedule", ["pasgd", "dsgd"])
@pytest.mark.parametrize(("n_ranks", "eta"), [(1, 1), (3, 1), (4, 2), (4, 4)])
def test_what_is_drawn_is_unseen_and_in_the_cell(n_ranks, eta, schedule):
    events = _events()
    seen = events.to_scipy()
    plan = _plan(events, n_ranks, eta, schedule=schedule)
    with LocalCommunicator(n_ranks, n_threads=1) as comm:
        cells = _text(comm, plan, events)._ratings.content
        others = _text(comm, replace(plan, random_state=1), events)._ratings.content
    assert cells[0].negatives.seed != others[0].negatives.seed
    counted = total = 0.0
    pairs = []  # the weight of a pair of a seen and an unseen item, by cell
    for rank, cell in enumerate(cells):
        for t in range(plan.eta):
            own = slice(*cell.cell_pointer[t : t + 2])
            drawn = cell.negatives.draw(cell, t, 1)
            assert (drawn != cell.negatives.draw(cell, t, 2)).any() or drawn.size < 5
            there = drawn >= 0
            users, items = cell.users[cell.rows[own]][there], cell.items[drawn[there]]
            assert not seen[users, items].any()
            offered = plan.rank_schedules[rank].items[plan.rank_schedules[rank].sub_epoch == t]
            assert set(items) <= set(offered.tolist())
            pairs += [cell.negatives.weights[t] / offered.size] if there.any() else []
            counted += cell.negatives.weights[t] * drawn.size
            total += drawn.size
    assert counted == pytest.approx(total)  # the mean weight is 1
    np.testing.assert_allclose(pairs, pairs[0], rtol=1e-6)
    assert n_ranks > 1 or cells[0].negatives.weights.tolist() == [1.0]


def test_a_draw_depends_on_its_user_and_item_alone():
    """Of two partitions that leave all users on one rank each, with all items: the same draws."""
    events = _events()
    found = []
    for n_ranks in (1, 2):
        parts = np.zeros(N_USERS, int)
        parts[-1] = n_ranks - 1
        plan = plan_fit(
            events, n_ranks, schedule="dsgd", eta=1, partitioner=parts, axis="rows",
            averaging="mean", layout=RowLayout(F, True, True), random_state=0,
        )  # fmt: skip
        with LocalCommunicator(n_ranks, n_threads=1) as comm:
            cell = _text(comm, plan, events)._ratings.content[0]
        every = np.arange(N_ITEMS)
        place = np.empty(N_ITEMS, np.int32)
        place[cell.items] = np.arange(N_ITEMS)
        whole = cell.negatives.__class__(
            cell.negatives.seed, place[every], np.array([0, N_ITEMS]), np.ones(1, np.float32),
            cell.negatives.seen_pointer, cell.negatives.seen_items,
        )  # fmt: skip
        all_at_once = cell.__class__(
            **{**vars(cell), "cell_pointer": np.array([0, cell.rows.size]), "negatives": whole}
        )
        drawn = whole.draw(all_at_once, 0, 1)
        pairs = zip(
            cell.users[cell.rows].tolist(), cell.items[cell.columns].tolist(),
            np.where(drawn < 0, -1, cell.items[drawn]).tolist(), strict=True,
        )  # fmt: skip
        found.append({(user, item): other for user, item, other in pairs})
    assert len(found[1]) > 500
    assert all(found[0][pair] == other for pair, other in found[1].items())


def test_draws_are_even_and_differ_by_user_and_by_item_seen():
    """Users who have seen alike, two of seven on offer: the other five are drawn as often."""
    n_users, n_items = 20, 300
    rows = np.repeat(np.arange(n_users, dtype=np.int32), n_items)
    columns = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    candidates = np.array([9, 3, 8, 4, 7, 5, 6, 10, 2], np.int32)
    seen = np.tile(np.array([1, 2, 4, 8, 20], np.int32), n_users)
    drawn = np.empty(rows.size, np.int32)
    draw_unseen(
        rows, columns, np.arange(n_users), np.arange(n_items), np.uint64(7), candidates, 1, 8,
        np.arange(n_users + 1) * 5, seen, drawn,
    )  # fmt: skip
    assert set(drawn) <= {3, 5, 6, 7, 10, -1} and (drawn == -1).mean() < 1e-3
    drawn = drawn.reshape(n_users, n_items)
    for table in (drawn, drawn.T):  # of a user, of an item that was seen
        assert len(np.unique(table, axis=0)) == len(table)
    for user in drawn:
        often = np.bincount(user, minlength=11)[[3, 5, 6, 7, 10]]
        assert (np.abs(often - 60) < 35).all()  # five times the spread of such a count


def _two_tastes():
    """Users of the first half took items of the first third, the others of the last."""
    random = np.random.default_rng(0)
    taken = random.random((80, 60)) < 0.05
    taken[:40, :20] |= random.random((40, 20)) < 0.4
    taken[40:, 40:] |= random.random((40, 20)) < 0.4
    return scipy.sparse.csr_array(taken.astype(np.float32))


@pytest.mark.parametrize(("n_ranks", "eta"), [(1, 1), (4, 1), (4, 4)])
def test_it_learns_tastes(n_ranks, eta):
    train, test = daskpart.datasets.train_test_split_ratings(_two_tastes(), 0.2)
    model = daskpart.MatrixFactorization(
        8, loss="bpr", n_ranks=n_ranks, eta=eta, max_iter=30, partitioner="random"
    ).fit(train)
    assert model.history_["train_loss"].iloc[-1] < 0.45 < model.history_["train_loss"].iloc[0]
    assert model.score(test) > 0.3
    assert model.comm_report_.matches
    liked = model.recommend([0, 79], n=5)
    assert (liked["item"][liked["user"] == 0] < 20).sum() >= 4
    assert (liked["item"][liked["user"] == 79] >= 40).sum() >= 4


def test_a_table_of_clicks_grows_by_new_users():
    clicks = _two_tastes().tocoo()
    table = pd.DataFrame({"user": clicks.coords[0] + 100, "item": clicks.coords[1]})
    model = daskpart.MatrixFactorization(8, loss="bpr", n_ranks=2, max_iter=10)
    model.fit(table[table["user"] < 175])
    model.partial_fit(table[table["user"] >= 150])
    assert model.user_factors_.shape == (80, 8)
    assert model.recommend(179, n=3).shape == (3, 3)
    begun = daskpart.MatrixFactorization(8, loss="bpr", max_iter=1, learning_rate="constant",
                                         initial_learning_rate=1e-9)  # fmt: skip
    begun.fit(table[(table["user"] < 130) & (table["item"] < 30)]).partial_fit(table)
    users, items = begun.user_factors_.to_numpy(), begun.item_factors_.to_numpy()
    assert not np.allclose(users[30:40], items[30:40], atol=1e-6)  # of new ones both sides alike
    anew = clone(begun).fit(table)
    np.testing.assert_allclose(users[30:], anew.user_factors_.to_numpy()[30:], atol=1e-6)
    with pytest.raises(InputError, match="closed form"):
        model.transform(table)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"schedule": "gasgd"}, "all events of a user"),
        ({"axis": "columns"}, "all events of a user"),
        ({"clip": True}, "leave clip out"),
        ({"patience": 2}, "patience needs validation"),
    ],
)
def test_what_does_not_go_with_bpr_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        daskpart.MatrixFactorization(F, n_ranks=2, loss="bpr", **wrong).fit(_two_tastes())


def test_validation_is_the_score_and_stops_the_fit():
    clicks = _two_tastes().tocoo()
    table = pd.DataFrame({"user": clicks.coords[0] + 100, "item": clicks.coords[1]})
    inside = np.random.default_rng(1).random(len(table)) < 0.8
    options = {"loss": "bpr", "n_ranks": 2, "max_iter": 60, "partitioner": "random"}
    train = table[inside]
    test = table[~inside & table["item"].isin(train["item"])]
    model = daskpart.MatrixFactorization(8, patience=4, **options).fit(train, validation=test)
    ndcg = model.history_["validation_ndcg"]
    assert ndcg.max() == pytest.approx(model.score(test))
    assert len(ndcg) == 4 + 1 + int(ndcg.argmax()) < 60  # stopped by the fourth without a rise
    assert model.history_["validation_ndcg"].max() > ndcg.iloc[0]
    shared = daskpart.MatrixFactorization(8, validation_fraction=0.2, **options).fit(table)
    assert shared.seen_.nnz < len(table) and shared.history_["validation_ndcg"].max() > 0.3


def test_events_count_above_zero():
    clicks = _two_tastes()
    clicks.data[3] = -1
    with pytest.raises(InputError, match="count above 0"):
        daskpart.MatrixFactorization(F, n_ranks=2, loss="bpr").fit(clicks)


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_where_nothing_is_unseen_it_is_said_that_nothing_was_learnt(n_ranks):
    """All users have all items, or all that their rank holds: the loss is 0, as of a good fit."""
    clicks = scipy.sparse.csr_array(np.ones((3, 4)) if n_ranks == 1 else np.eye(3, 4))
    model = daskpart.MatrixFactorization(
        F, n_ranks=n_ranks, loss="bpr", max_iter=1, transport="local", partitioner="block"
    )
    with pytest.warns(DaskpartWarning, match="nothing was learnt"):
        model.fit(clicks)


def test_events_are_checked_where_they_are_lazy():
    clicks = sparse.COO.from_scipy_sparse(_two_tastes())
    lazy = dask.array.from_array(clicks, chunks=(40, 60))
    options = {"n_ranks": 2, "loss": "bpr", "max_iter": 1, "transport": "local"}
    with pytest.raises(InputError, match="count above 0"):
        daskpart.MatrixFactorization(F, **options).fit(-lazy)
    model = daskpart.MatrixFactorization(F, **options).fit(lazy)
    with pytest.raises(InputError, match="evaluate_ranking"):
        model.score(_two_tastes())
    with pytest.raises(InputError, match=r"validation_ndcg leaves out .* give X\.compute\(\)"):
        model.fit(lazy, validation=_two_tastes())


@pytest.mark.parametrize("weight", [2.0, 0.5])
def test_the_loss_is_a_mean_by_weight(weight):
    options = {"loss": "bpr", "n_ranks": 3, "max_iter": 2, "initial_learning_rate": 1e-9}
    clicks = _two_tastes()
    plain, weighed = (
        daskpart.MatrixFactorization(F, partitioner="random", **options).fit(
            clicks, sample_weight=given
        )
        for given in (None, np.full(clicks.nnz, weight))
    )
    for one, other in zip(
        plain.history_["train_loss"], weighed.history_["train_loss"], strict=True
    ):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize("n_ranks", [1, 2, 4])
def test_what_was_had_before_a_batch_is_not_unseen(n_ranks):
    """Users with all items but those of the batch: nothing is left to draw, so nothing moves."""
    cells = pd.DataFrame(np.argwhere(np.ones((8, 6))), columns=["user", "item"])
    had = cells["item"] < 4
    others = pd.DataFrame({"user": np.repeat(np.arange(92, 100), 6), "item": [*range(6)] * 8})
    model = daskpart.MatrixFactorization(
        3, loss="bpr", n_ranks=n_ranks, max_iter=2, partitioner=np.arange(16) % n_ranks
    )
    model.fit(pd.concat([cells[had], others[others["item"] > 3]]))
    before = model.user_factors_.sel(user=range(8)).values
    # by others each rank has items in this batch that its users had in the fit alone
    model.partial_fit(pd.concat([cells[~had], others[others["item"] < 4]]))
    np.testing.assert_array_equal(model.user_factors_.sel(user=range(8)).values, before)


@pytest.mark.parametrize("schedule", ["pasgd", "dsgd"])
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_memory_is_as_planned(n_ranks, schedule):
    """Also where users had much more in a fit before than in this one."""
    events = daskpart.datasets.power_law_ratings(600, 200, 12_000, random_state=0)
    events = abs(as_matrix(events).to_scipy()).tocsr()
    few = events.multiply(np.random.default_rng(1).random(events.shape) < 0.02).tocsr()
    few.eliminate_zeros()
    fitted = daskpart.MatrixFactorization(
        F, loss="bpr", n_ranks=n_ranks, schedule=schedule, max_iter=1, transport="local",
        partitioner="random",
    )  # fmt: skip
    for train in (fitted.fit, fitted.partial_fit):
        report = train(events if train == fitted.fit else few).comm_report_
        # of the places of messages the communicator has some, which nobody measures
        places = fitted.plan_report_.memory["messages"]
        assert (report.memory >= 0.998 * (report.expected_memory - places)).all()
        assert (report.memory <= 1.002 * report.expected_memory).all()
