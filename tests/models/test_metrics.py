"""Metrics of rankings against their definitions, written out for one user after another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, roc_auc_score

import daskpart
from daskpart.errors import InputError
from daskpart.models import metrics
from daskpart.models.matrix_factorization import blocks, ranking
from daskpart.models.matrix_factorization.kernels.top_n import ranks_of_wanted
from daskpart.models.metrics import evaluate_ranking, most_popular


@pytest.fixture(scope="module")
def fitted():
    ratings = daskpart.datasets.power_law_ratings(60, 40, 900, random_state=0)
    train, test = daskpart.datasets.train_test_split_ratings(ratings, 0.3)
    model = daskpart.MatrixFactorization(
        4, n_ranks=1, max_iter=3, partitioner="block", transport="local"
    )
    return model.fit(train), train, test


def by_definition(scores, wanted, seen, n):
    """The metrics of one user from its row of scores."""
    candidates = np.flatnonzero(~seen)
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    wanted = wanted & ~seen
    hits = wanted[order[:n]]
    total = wanted.sum()
    gains = hits / np.log2(np.arange(len(hits)) + 2)
    ideal = (1 / np.log2(np.arange(min(n, total)) + 2)).sum()
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    everything = wanted[candidates].all()
    return {
        "precision": hits.sum() / n,
        "recall": hits.sum() / total,
        "ndcg": gains.sum() / ideal,
        "map": (precisions * hits).sum() / min(n, total),
        "mrr": 1 / (np.argmax(hits) + 1) if hits.any() else 0.0,
        "hit_rate": float(hits.any()),
        "auc": 0.5 if everything else roc_auc_score(wanted[candidates], scores[candidates]),
    }


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("ties", [False, True])
def test_metrics_are_those_of_the_definitions(fitted, exclude_seen, ties, monkeypatch):
    model, train, test = fitted
    if ties:  # equal scores: in rising position, and a half each in AUC
        state = model.state_
        for name in ("user_factors", "item_factors", "item_bias"):
            monkeypatch.setattr(state, name, np.round(3 * getattr(state, name)))
    state = model.state_
    scores = state.user_factors @ state.item_factors.T + state.item_bias
    wanted, seen = test.data.todense() != 0, train.data.todense() != 0
    if not exclude_seen:
        seen[:] = False
    users = np.flatnonzero((wanted & ~seen).any(axis=1))
    monkeypatch.setattr(metrics, "_BLOCK_WORDS", 7 * 40)
    found = evaluate_ranking(model, test, n=(1, 5, 50), exclude_seen=exclude_seen)
    for n in (1, 5, 50):
        each = pd.DataFrame([by_definition(scores[u], wanted[u], seen[u], n) for u in users])
        for name in metrics.NAMES:
            assert found.loc[n, name] == pytest.approx(each[name].mean()), (n, name)
    assert (found["n_users"] == users.size).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.permutations(range(12)))
def test_who_had_nothing_in_the_fit_finds_nothing(seed, order):
    """Else the place of an item in the container would decide, the popular ones often first."""
    X = np.random.default_rng(seed).integers(0, 2, (10, 12)).astype(np.float32)
    X[3] = 0
    events = scipy.sparse.csr_array(X[:, order])
    options = {"n_ranks": 1, "max_iter": 2, "transport": "local", "partitioner": "block"}
    test = scipy.sparse.csr_array(([1.0], ([3], [order.index(7)])), shape=X.shape)
    model = daskpart.ImplicitFactorization(3, **options).fit(events, validation=test)
    assert not model.history_["validation_ndcg"].any() and model.score(test) == 0
    found = evaluate_ranking(model, test, n=(1, 12, 50))
    assert not found.drop(columns=["auc", "n_users"]).any(axis=None)
    assert (found["auc"] == 0.5).all() and (found["n_users"] == 1).all()
    # where items have a bias of their own there is an order, and a list
    rated = daskpart.MatrixFactorization(3, **options).fit(events)
    assert evaluate_ranking(rated, test, n=12)["recall"].item() == 1


@settings(max_examples=30)
@given(st.integers(2, 20), st.integers(1, 25), st.integers(0, 99))
def test_ndcg_of_one_user_is_that_of_scikit_learn(n_items, n, seed):
    random = np.random.default_rng(seed)
    scores = random.permutation(n_items).astype(np.float32)[None]
    wanted = random.random((1, n_items)) < 0.4
    wanted[0, 0] = True
    sparse = scipy.sparse.csr_array(wanted)
    one = np.ones((1, 1), np.float32)
    sums = metrics._sums(one, sparse, None, scores.T.copy(), 0 * scores[0], lengths=[n])
    assert sums[0, 2] == pytest.approx(ndcg_score(wanted, scores, k=n))


def test_values_make_no_difference(fitted):
    model, _, test = fitted
    test = test.data.to_scipy_sparse()
    others = [(factor * test.data, test.coords) for factor in (0.0, -2.0)]
    expected = evaluate_ranking(model, test)
    for entries in others:
        found = evaluate_ranking(model, scipy.sparse.coo_array(entries, test.shape))
        pd.testing.assert_frame_equal(found, expected)


def test_what_cannot_be_judged_is_refused(fitted):
    model, train, test = fitted
    for wrong in (0, [], [3, -1], 1.5, np.nan, None, "10", {"n": 10}):
        with pytest.raises(InputError, match=r"n(=| is )"):
            evaluate_ranking(model, test, n=wrong)
    for odd in ("other", None, [True]):
        with pytest.raises(InputError, match=r"exclude_seen is .*give True, False or 'others'"):
            evaluate_ranking(model, test, exclude_seen=odd)
    with pytest.raises(InputError, match="model is a DataFrame: give a fitted"):
        evaluate_ranking(pd.DataFrame(), test)
    with pytest.raises(InputError, match="no user has a test item that it has not seen"):
        evaluate_ranking(model, train)
    unread = pd.DataFrame({"user": [0, 0], "item": [39, 1], "rating": [1.0, np.nan]})
    with pytest.raises(InputError, match="ratings are NaN or infinite"):
        evaluate_ranking(model, unread)
    stranger = pd.DataFrame({"user": [0, 999], "item": [39, 1], "rating": [1.0, 1.0]})
    with pytest.raises(InputError, match="unknown"):
        evaluate_ranking(model, stranger, exclude_seen=False)
    found = evaluate_ranking(model, stranger, exclude_seen=False, unknown="nan")
    assert found["n_users"].tolist() == [1]
    small = {"n_ranks": 1, "max_iter": 1, "transport": "local"}
    events = daskpart.ImplicitFactorization(4, **small).fit(abs(train))
    ranked = daskpart.MatrixFactorization(4, loss="bpr", **small)
    judges = (lambda *given, **how: evaluate_ranking(model, *given, **how), events.score)
    for judge in (*judges, ranked.fit(abs(train)).score):  # of a list there is no mean
        with pytest.raises(InputError, match="unknown is 'mean': use one of 'raise', 'nan'"):
            judge(stranger, unknown="mean")


def test_everybodys_recommendations_are_those_of_each(fitted, monkeypatch):
    model = fitted[0]
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 17)
    monkeypatch.setattr(
        "daskpart.models.matrix_factorization.recommending.row_blocks",
        lambda n: blocks.row_blocks(n, 17),
    )
    lazy = model.recommend_all(3)
    assert lazy.npartitions == 4
    pd.testing.assert_frame_equal(
        lazy.compute().reset_index(drop=True), model.recommend(np.arange(60), 3)
    )
    similar = model.similar_all(4).compute().reset_index(drop=True)
    pd.testing.assert_frame_equal(similar, model.similar_items(np.arange(40), 4))
    few = model.recommend_all(3, exclude_seen=False, items=[1, 2, 3, 4], exclude=[4]).compute()
    assert set(few["item"]) == {1, 2, 3} and len(few) == 180
    with pytest.raises(InputError, match="unknown"):
        model.recommend_all(3, items=[99])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pandas, to Dask
def test_everybodys_recommendations_to_parquet(fitted, tmp_path):
    pytest.importorskip("pyarrow")
    model = fitted[0]
    model.recommend_all(2).to_parquet(tmp_path / "top")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "top").reset_index(drop=True), model.recommend(np.arange(60), 2)
    )


@pytest.mark.cluster
def test_on_workers_it_is_the_same(fitted, client):
    model, _, test = fitted
    here = evaluate_ranking(model, test)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(metrics, "_BLOCK_WORDS", 7 * 40)
        pd.testing.assert_frame_equal(evaluate_ranking(model, test, client=client), here)
    pd.testing.assert_frame_equal(
        model.recommend_all(3, client=client).compute().reset_index(drop=True),
        model.recommend(np.arange(60), 3),
    )


@pytest.mark.parametrize("n_scores", [1, 2, 4, 1000])
@pytest.mark.parametrize("many", [0, 30, 100])
def test_ranks_are_those_of_a_sort_however_many_scores_are_equal(n_scores, many):
    random, shape = np.random.default_rng(n_scores), (12, 60)
    scores = random.integers(n_scores, size=shape).astype(np.float32)
    scores[random.random(shape) < 0.2] = -np.inf
    is_wanted = random.random(shape) < np.linspace(0, 1, 12)[:, None]
    wanted, counts = np.nonzero(is_wanted)[1].astype(np.int32), is_wanted.sum(axis=1)
    pointer = np.concatenate(([0], np.cumsum(counts)))
    ranks, in_order = np.empty(wanted.size, np.int64), np.empty(12)
    n_ranked = np.empty(12, np.int64)
    are_sorted = counts >= many
    at = np.where(are_sorted, np.cumsum(are_sorted) - 1, -1)
    rising = np.sort(scores[are_sorted], axis=1)
    ranks_of_wanted(scores, rising, at, wanted, pointer, ranks, in_order, n_ranked)
    assert n_ranked.tolist() == (scores > -np.inf).sum(axis=1).tolist()
    for row, (line, mine) in enumerate(zip(scores, is_wanted, strict=True)):
        known = mine & (line > -np.inf)
        place = np.empty(60, int)
        place[np.lexsort((np.arange(60), -line))] = np.arange(60)
        expected = [-1] * (mine.sum() - known.sum()) + sorted(place[known])
        assert ranks[pointer[row] : pointer[row + 1]].tolist() == expected
        better = line[known][:, None] - line[~mine & (line > -np.inf)]
        assert in_order[row] == (better > 0).sum() + 0.5 * (better == 0).sum()


@given(st.integers(1, 30), st.booleans(), st.integers(0, 99))
def test_what_is_not_multiplied_could_not_come_in(n_items, with_levels, seed):
    """What the items from each place on may score: never below the best, nor far above."""
    random = np.random.default_rng(seed)
    rows, items = random.standard_normal((4, 2)), random.standard_normal((n_items, 2), np.float32)
    level = 3 * random.standard_normal(n_items, np.float32) * with_levels
    catalogue = ranking.Catalogue.of(items, level, ranking.ROWS + 1)  # of many rows: by length
    order, lengths = catalogue.positions, np.linalg.norm(rows, axis=1)
    scores, level = (rows @ items.T + level)[:, order], level[order].astype(float)
    for first in range(n_items):
        reach = catalogue.reach(lengths, first)
        assert (reach >= scores[:, first:].max(axis=1)).all()
        products = lengths * np.linalg.norm(items[order[first]])
        most = level[first:].max()
        np.testing.assert_array_less(reach, products + most + 2e-3 * (products + abs(most)) + 1e-9)


@pytest.mark.parametrize("loss", ["squared", "bpr", None])
def test_most_popular_are_the_items_of_most_users(fitted, loss):
    _, train, test = fitted
    train = train.copy(data=abs(train.data))
    options = {"n_ranks": 1, "max_iter": 1, "transport": "local"}
    if loss is None:
        model = daskpart.ImplicitFactorization(4, **options).fit(train)
    else:
        model = daskpart.MatrixFactorization(4, loss=loss, **options).fit(train)
    before, popular = model.state_, most_popular(model)
    assert model.state_ is before
    n_users = model.seen_.toarray().sum(axis=0)
    shown = popular.recommend([*range(60)], n=5)
    for user, table in shown.groupby("user"):
        counts = np.where(model.seen_.toarray()[user], -1, n_users)
        assert counts[table["item"]].tolist() == sorted(counts)[:-6:-1]
    assert evaluate_ranking(popular, test)["hit_rate"].iloc[0] > 0


def test_who_had_what_must_be_known_to_say_what_is_popular(fitted):
    import dask.array
    import sparse

    _, train, _ = fitted
    lazy = dask.array.from_array(sparse.COO(train.data), chunks=(30, 40))
    model = daskpart.MatrixFactorization(2, n_ranks=1, max_iter=1, transport="local").fit(lazy)
    with pytest.raises(InputError, match="fit ratings in memory"):
        most_popular(model)
    with pytest.raises(InputError, match="a fitted MatrixFactorization"):
        most_popular("popular")
