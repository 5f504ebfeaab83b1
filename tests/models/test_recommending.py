"""A fitted model in use: checked against the formulas, written out in numpy, and against labels."""

from __future__ import annotations

import datetime
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
import xarray as xr
from dask import delayed
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.labels import as_output
from daskpart.models.matrix_factorization import ranking
from daskpart.models.matrix_factorization.fold_in import solve_rows
from daskpart.models.matrix_factorization.ranking import Catalogue, top_n
from daskpart.models.matrix_factorization.recommending import Recommender, seen_pattern
from daskpart.models.matrix_factorization.state import MFState

USERS = np.array(["ann", "bob", "cy", "dee", "eve"], dtype=object)
ITEMS = np.array([10, 20, 30, 40, 50, 60, 70])


class Model(Recommender, DistributedEstimator):
    """As much of an estimator as the mixin needs; its factors are drawn, not learnt."""

    _state_class = MFState
    loss = "squared"
    score = daskpart.MatrixFactorization.score

    def __init__(self, regularization=0.1, biases=True, partitioner="power", random_state=0):
        self.regularization = regularization
        self.biases = biases
        self.partitioner = partitioner
        self.random_state = random_state

    def fit(self, X, y=None):
        matrix = as_matrix(X)
        generator = np.random.default_rng(self.random_state)

        def draw(*shape):
            return generator.normal(size=shape).astype(np.float32)

        users, items = matrix.shape
        self.state_ = MFState(
            draw(users, 3),
            draw(items, 3),
            draw(users) * np.float32(self.biases),
            draw(items) * np.float32(self.biases),
            3.5,
            user_labels=matrix.row_labels,
            item_labels=matrix.column_labels,
            user_name=matrix.row_name,
            item_name=matrix.column_name,
            history=[{"epoch": 1, "train_rmse": 0.5}],
        )
        self.seen_ = seen_pattern(matrix)
        self.n_features_in_ = items
        return self


def ratings(seed=0, shape=(5, 7), density=0.5) -> scipy.sparse.csr_array:
    generator = np.random.default_rng(seed)
    dense = generator.integers(1, 6, shape) * (generator.random(shape) < density)
    dense[0, 0] = dense[-1, -1] = 3
    return scipy.sparse.csr_array(dense.astype(np.float32))


def labelled_ratings(seed=0) -> xr.DataArray:
    coords = {"person": USERS, "film": ITEMS}
    return xr.DataArray(as_matrix(ratings(seed)).to_coo(), coords=coords, dims=("person", "film"))


@pytest.fixture
def plain_model():
    return Model().fit(ratings())


@pytest.fixture
def model():
    return Model().fit(labelled_ratings())


def full_predictions(model) -> np.ndarray:
    f = model.state_
    product = f.user_factors.astype(float) @ f.item_factors.T.astype(float)
    return f.global_mean + f.user_bias[:, None] + f.item_bias[None, :] + product


def test_attributes_are_labelled(model):
    assert model.user_factors_.dims == ("person", "component")
    assert model.item_factors_.dims == ("film", "component")
    assert model.user_factors_.sel(person="cy").shape == (3,)
    assert model.item_bias_.sel(film=30) == model.state_.item_bias[2]
    assert model.user_bias_.dims == ("person",) and model.global_mean_ == 3.5
    assert model.history_["train_rmse"].tolist() == [0.5]
    assert model.get_feature_names_out().tolist() == ["component0", "component1", "component2"]


def test_without_labels_there_are_no_coordinates(plain_model):
    assert plain_model.user_factors_.dims == ("user", "component")
    assert not plain_model.item_factors_.coords


def test_before_fit_everything_says_so():
    model = Model()
    for name in ("user_factors_", "item_bias_", "history_", "global_mean_"):
        assert not hasattr(model, name)
    for call in (
        lambda: model.predict([(0, 0)]),
        lambda: model.score(ratings()),
        lambda: model.recommend(0),
        lambda: model.similar_items(0),
        lambda: model.transform(ratings()),
        lambda: model.save("nowhere"),
    ):
        with pytest.raises(NotFittedError):
            call()


PAIRS = [("eve", 70), ("ann", 10), ("eve", 10), ("eve", 70)]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        tuple(PAIRS),
        np.array(PAIRS, dtype=object),
        pd.DataFrame(PAIRS, columns=["person", "film"]),
        pd.DataFrame(PAIRS, columns=["user", "item"]).assign(rating=1.0, time=0),
        pd.DataFrame(PAIRS),
        pd.DataFrame(PAIRS, columns=["person", "film"]).iloc[:, ::-1].assign(extra="x"),
    ],
    ids=["list", "tuple", "array", "named frame", "user, item", "by position", "reordered"],
)
def test_predict_pairs_of_labels(model, pairs):
    expected = full_predictions(model)[[4, 0, 4, 4], [6, 0, 0, 6]]
    predicted = model.predict(pairs)
    assert predicted.dtype == np.float32
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)


def test_predict_positions_where_there_are_no_labels(plain_model):
    pairs = np.array([[4, 6], [0, 0]])
    expected = full_predictions(plain_model)[[4, 0], [6, 0]]
    np.testing.assert_allclose(plain_model.predict(pairs), expected, rtol=1e-5)
    assert plain_model.predict([]).shape == plain_model.predict(np.empty((0, 2))).shape == (0,)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil"])
def test_predict_the_pattern_of_scipy(plain_model, format):
    X = ratings(seed=1).asformat(format)
    predicted = plain_model.predict(X)
    assert predicted.format == (format if format != "lil" else "csr")
    mask = ratings(seed=1).toarray() != 0
    expected = np.where(mask, full_predictions(plain_model), 0)
    np.testing.assert_allclose(predicted.toarray(), expected, rtol=1e-5)


def test_predict_the_pattern_of_other_containers(model):
    X = labelled_ratings(seed=1)
    expected = np.where(X.data.todense() != 0, full_predictions(model), 0)
    predicted = model.predict(X)
    assert isinstance(predicted, xr.DataArray) and predicted.dims == X.dims
    np.testing.assert_allclose(predicted.data.todense(), expected, rtol=1e-5)
    empty = sparse.COO.from_numpy(np.zeros((0, 0), np.float32))
    one_chunk = da.from_delayed(delayed(X.data), X.shape, X.dtype, meta=empty)
    for other in (X.data, sparse.GCXS(X.data), one_chunk):
        result = model.predict(other)
        assert isinstance(result, sparse.COO)
        np.testing.assert_allclose(result.todense(), expected, rtol=1e-5)


def test_labels_are_matched_and_not_positions(model):
    X = labelled_ratings(seed=1)
    part = as_matrix(ratings(seed=1)[[3, 0, 4]][:, [6, 1]]).to_coo()
    coords = {"person": USERS[[3, 0, 4]], "film": ITEMS[[6, 1]]}
    turned = xr.DataArray(part, coords=coords, dims=X.dims)
    expected = full_predictions(model)[np.ix_([3, 0, 4], [6, 1])]
    predicted = model.predict(turned)
    mask = turned.data.todense() != 0
    np.testing.assert_allclose(predicted.data.todense()[mask], expected[mask], rtol=1e-5)


def test_unknown_users_and_items_are_named(model, plain_model):
    with pytest.raises(InputError, match=r"2 persons are unknown to the model: 'zoe', 'yan'"):
        model.predict([("zoe", 10), ("ann", 10), ("yan", 10), ("zoe", 10)])
    with pytest.raises(InputError, match=r"1 film is unknown to the model: 15;.*7 films.*='nan'"):
        model.predict([("ann", 15)])
    with pytest.raises(InputError, match=r"1 user is unknown to the model: 5;.*0 … 4"):
        plain_model.predict([(5, 0)])
    with pytest.raises(InputError, match="item"):
        plain_model.predict([(0, -1)])
    for call in (
        lambda: plain_model.recommend("3"),
        lambda: plain_model.recommend(True),
        lambda: plain_model.similar_items("3"),
        lambda: plain_model.predict([("3", "4")]),
        lambda: plain_model.predict(np.array([["3", "4"]]), unknown="nan"),
    ):
        with pytest.raises(InputError, match=r"no (user|item) labels: give positions 0 … \d, as n"):
            call()
    larger = scipy.sparse.csr_array(([1.0], ([0], [9])), shape=(5, 10))
    for call in (plain_model.predict, plain_model.score, plain_model.transform):
        with pytest.raises(InputError, match="10 columns without labels"):
            call(larger)
    with pytest.raises(InputError, match=r"1 person is unknown to the model: 'zoe'.*of them\.$"):
        model.recommend(["ann", "zoe"])
    with pytest.raises(InputError, match="film"):
        model.similar_items(11)


def test_what_is_not_pairs_is_refused(model):
    one_side = ("ann", 3, np.int64(3), pd.Series(["ann"]), ["ab"], [1, 2])
    for wrong in (np.zeros((2, 3)), np.zeros(4), [("ann", 10, 3)], *one_side):
        with pytest.raises(InputError, match=r"pair.*give pairs as an array of shape \(n, 2\)"):
            model.predict(wrong)
    with pytest.raises(InputError, match="no columns 'person' and 'film': it has a, b, c, d"):
        model.predict(pd.DataFrame(np.zeros((1, 4)), columns=list("abcd")))
    with pytest.raises(InputError):
        model.score(np.ones((5, 7)))


@pytest.mark.parametrize("seed", range(3))
def test_score_is_minus_rmse(plain_model, seed):
    X = ratings(seed)
    mask = X.toarray() != 0
    errors = (X.toarray() - full_predictions(plain_model))[mask]
    expected = -np.sqrt(np.mean(errors**2))
    assert plain_model.score(X) == pytest.approx(expected, rel=1e-5)
    assert plain_model.score(sparse.COO.from_scipy_sparse(X)) == plain_model.score(X)
    frame = as_matrix(X).to_frame()
    assert plain_model.score(frame) == pytest.approx(expected, rel=1e-5)


def test_explicit_zeros_count_in_the_score(plain_model):
    X = scipy.sparse.csr_array((np.zeros(1), ([2], [3])), shape=(5, 7))
    assert plain_model.score(X) == pytest.approx(
        -abs(full_predictions(plain_model)[2, 3]), rel=1e-5
    )


@given(
    scores=st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.5, -np.inf]), min_size=1, max_size=60),
    n=st.integers(1, 65),
    tile=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_top_n_equals_a_stable_sort(scores, n, tile, seed):
    """For any tiles; −inf as a level and entries that are left out never come."""
    level = np.array(scores, np.float32)
    random = np.random.default_rng(seed)
    rows = random.integers(-2, 3, (5, 1)).astype(np.float32)
    items = random.integers(-1, 2, (len(level), 1)).astype(np.float32)
    outside = random.random((5, len(level))) < 0.3
    every = np.where(outside, -np.inf, rows @ items.T + level)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "ITEMS", tile)
        patch.setattr(ranking, "ROWS", 2)
        catalogue = Catalogue.of(items, level, len(rows))
        found, best = top_n(rows, catalogue, n, scipy.sparse.csr_array(outside))
    for row in range(5):
        order = np.argsort(-every[row], kind="stable")
        expected = order[np.isfinite(every[row][order])][:n]
        there = found[row] >= 0
        assert found[row][there].tolist() == expected.tolist()
        assert best[row][there].tolist() == every[row][expected].tolist()
        assert (best[row][~there] == -np.inf).all()


def test_items_that_are_too_short_are_never_multiplied(monkeypatch):
    """Nor are those that a level keeps out; and what comes is the best all the same."""
    random, multiplied = np.random.default_rng(0), []
    multiply = ranking._multiply
    monkeypatch.setattr(ranking, "ROWS", 16)
    monkeypatch.setattr(ranking, "ITEMS", 64)
    monkeypatch.setattr(ranking, "_multiply", lambda *a: [multiplied.append(a[2]), multiply(*a)])
    rows = random.standard_normal((32, 8), np.float32)
    items = random.standard_normal((1000, 8), np.float32)
    long = random.permutation(1000)[:100]
    items[long] *= 100
    level = random.normal(size=1000).astype(np.float32)
    level[long[:10]] = -np.inf
    found, _ = top_n(rows, Catalogue.of(items, level, len(rows)), 5)
    assert set(multiplied) == {0, 64}
    assert (found == np.argsort(-(rows @ items.T + level), axis=1)[:, :5]).all()


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_recommend_gives_the_best_unseen(model, exclude_seen):
    predictions = full_predictions(model)
    if exclude_seen:
        predictions[ratings().toarray() != 0] = -np.inf
    result = model.recommend(["dee", "ann"], n=3, exclude_seen=exclude_seen)
    assert result.columns.tolist() == ["person", "film", "score"]
    for person, row in (("dee", 3), ("ann", 0)):
        lines = result[result["person"] == person]
        order = np.argsort(-predictions[row])[: min(3, np.isfinite(predictions[row]).sum())]
        assert lines["film"].tolist() == ITEMS[order].tolist()
        np.testing.assert_allclose(lines["score"], predictions[row][order], rtol=1e-5)


def test_a_task_of_everybody_has_one_blas_thread(model, monkeypatch):
    """Two tasks beside each other would else start as many threads as cores each."""
    from threadpoolctl import threadpool_info

    seen, rank_rows = [], ranking._rank_rows

    def looking(*arguments):
        seen.extend(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas")
        rank_rows(*arguments)

    monkeypatch.setattr(ranking, "_rank_rows", looking)
    model.recommend_all(2).compute(scheduler="threads")
    assert seen and set(seen) == {1}


def test_recommend_one_user_or_none(model, plain_model):
    one = model.recommend("bob", n=2)
    assert one["person"].tolist() == ["bob", "bob"]
    pd.testing.assert_frame_equal(one, model.recommend(["bob"], n=2))
    assert len(model.recommend([], n=2)) == 0
    assert plain_model.recommend(1, n=99, exclude_seen=False)["item"].nunique() == 7
    unseen = 7 - int((ratings().toarray()[1] != 0).sum())
    assert len(plain_model.recommend(1, n=99)) == unseen


def test_labels_may_be_read_off_the_factors(model):
    """As xarray gives them: arrays without a dimension, single or in a list."""
    people, films = model.user_factors_["person"], model.item_factors_["film"]
    for asked, plain in ((people[1], "bob"), ([*people], [*USERS]), (people, [*USERS])):
        expected = model.recommend(plain, n=2)
        pd.testing.assert_frame_equal(model.recommend(asked, n=2), expected)
    similar = model.similar_items([*films[:2]], n=1)
    assert similar["film"].tolist() == [10, 20]
    expected = model.predict([("ann", 10), ("bob", 20)])
    np.testing.assert_array_equal(
        model.predict([*zip(people[:2], films[:2], strict=True)]), expected
    )


def test_recommend_asks_for_what_it_needs(model):
    for wrong in (0, -1, 1.5, True, "a", None):
        with pytest.raises(InputError, match=r"n is .*(whole number|must be).* at least 1"):
            model.recommend("ann", n=wrong)
    for wrong in ("others", "no", None, 0):  # which were taken for True, or for False
        for ask in (partial(model.recommend, "ann"), model.recommend_all):
            with pytest.raises(InputError, match=r"exclude_seen is .* give True or False"):
                ask(exclude_seen=wrong)
    model.seen_ = None
    with pytest.raises(InputError, match="pass exclude_seen=False"):
        model.recommend("ann")
    assert len(model.recommend("ann", n=2, exclude_seen=False)) == 2


def test_recommendations_do_not_depend_on_the_block(model, monkeypatch):
    whole = model.recommend(USERS, n=3), model.similar_items(ITEMS, n=3)
    monkeypatch.setattr(ranking, "ROWS", 1)
    monkeypatch.setattr(ranking, "_THREAD_ROWS", 2)
    pd.testing.assert_frame_equal(whole[0], model.recommend(USERS, n=3))
    pd.testing.assert_frame_equal(whole[1], model.similar_items(ITEMS, n=3))


def test_a_list_of_some_items_only(model):
    given = {"n": 7, "exclude_seen": False}
    some = model.recommend(["ann", "dee"], **given, items=[20, 50, 70], exclude=[50])
    every = model.recommend(["ann", "dee"], **given)
    expected = every[every["film"].isin([20, 70])].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, expected)
    with pytest.raises(InputError, match="unknown"):
        model.recommend("ann", items=[21])


def test_similar_users_by_cosine(model):
    w = model.state_.user_factors.astype(float)
    cosine = w @ w[2] / np.linalg.norm(w, axis=1) / np.linalg.norm(w[2])
    cosine[2] = -np.inf
    result = model.similar_users(USERS[2], n=2)
    assert result.columns.tolist() == ["person", "similar_person", "score"]
    assert result["similar_person"].tolist() == [USERS[at] for at in np.argsort(-cosine)[:2]]


def test_similar_items_by_cosine(model):
    model.state_.item_factors[3] = 0  # no direction: similar to nothing
    h = model.state_.item_factors.astype(float)
    lengths = np.maximum(np.linalg.norm(h, axis=1), 1e-30)
    cosine = h @ h[1] / lengths / lengths[1]
    cosine[1] = -np.inf
    result = model.similar_items(20, n=4)
    assert result.columns.tolist() == ["film", "similar_film", "score"]
    assert result["similar_film"].tolist() == ITEMS[np.argsort(-cosine)[:4]].tolist()
    np.testing.assert_allclose(result["score"], np.sort(cosine)[::-1][:4], rtol=1e-5)
    assert len(model.similar_items(20, n=99)) == 6
    with pytest.warns(DaskpartWarning, match="1 film had nothing in the fit, the first 40"):
        assert not len(model.similar_items(40, n=99))  # the others all score 0


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("regularization", [0.0, 0.07])
def test_transform_minimises_the_objective(biases, regularization):
    model = Model(regularization, biases).fit(ratings(shape=(5, 9)))
    f = model.state_
    new = ratings(seed=5, shape=(6, 9), density=0.7)
    rows = model.transform(new)
    assert rows.dims == ("user", "component") and rows.dtype == np.float32
    for i in range(6):
        items = np.flatnonzero(new.toarray()[i])
        features = f.item_factors[items].astype(float)
        if biases:
            features = np.column_stack([features, np.ones(len(items))])
        target = new.toarray()[i, items] - f.global_mean - f.item_bias[items]
        # ridge as least squares with γ|J| under every unknown
        below = np.sqrt(regularization * len(items)) * np.eye(features.shape[1])
        stacked = np.vstack([features, below])
        goal = np.concatenate([target, np.zeros(len(below))])
        expected = np.linalg.lstsq(stacked, goal, rcond=None)[0]
        found = [*rows.values[i], *([rows.coords["bias"].values[i]] if biases else [])]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert ("bias" in rows.coords) == biases


def test_transform_does_not_depend_on_the_block(monkeypatch):
    from daskpart.models.matrix_factorization import fold_in

    model = Model().fit(ratings())
    whole = model.transform(ratings(seed=3))
    monkeypatch.setattr(fold_in, "_BLOCK_WORDS", 1)
    np.testing.assert_array_equal(whole, model.transform(ratings(seed=3)))


def test_transform_of_a_row_without_ratings_is_zero(plain_model):
    X = scipy.sparse.csr_array(([4.0], ([1], [0])), shape=(3, 7))
    rows = plain_model.transform(X)
    assert not rows.values[[0, 2]].any() and rows.values[1].any()
    assert rows.coords["bias"].values[[0, 2]].tolist() == [0, 0]


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("regularization", [0.0, 0.1])
def test_a_row_whose_ratings_count_nothing_is_zero(plain_model, regularization, nonnegative):
    pointer, columns = np.array([0, 1, 3]), np.arange(3, dtype=np.int32)
    rows, bias = solve_rows(
        pointer, columns, np.full(3, 4.0), plain_model.state_, regularization, True, nonnegative,
        np.array([1.0, 0.0, 0.0]),
    )  # fmt: skip
    assert not rows[1].any() and bias[0] != 0 == bias[1]


def test_solve_recovers_rows_that_made_the_ratings():
    model = Model(biases=True).fit(ratings(shape=(5, 30)))
    f = model.state_
    exact = full_predictions(model)
    pointer = np.arange(6, dtype=np.int64) * 30
    columns = np.tile(np.arange(30, dtype=np.int32), 5)
    rows, bias = solve_rows(pointer, columns, exact.ravel(), f, 1e-12, True)
    np.testing.assert_allclose(rows, f.user_factors, atol=1e-4)
    np.testing.assert_allclose(bias, f.user_bias, atol=1e-4)


def test_new_users_are_matched_by_label(model):
    frame = pd.DataFrame(
        {"user": ["new1", "new2", "new1"], "item": [70, 20, 10], "rating": [5.0, 1.0, 4.0]}
    )
    rows = model.transform(frame)
    assert rows.dims == ("person", "component")
    dense = np.zeros((2, 7))
    dense[0, 6], dense[1, 1], dense[0, 0] = 5, 1, 4
    by_position = model.transform(scipy.sparse.csr_array(dense))
    np.testing.assert_allclose(rows.sel(person="new1"), by_position[0], rtol=1e-5)
    np.testing.assert_allclose(rows.sel(person="new2"), by_position[1], rtol=1e-5)
    with pytest.raises(InputError, match=r"1 film is unknown to the model: 11"):
        model.transform(frame.replace({"item": {70: 11}}))


def test_recommend_new_is_recommend_with_the_solved_row(model):
    frame = pd.DataFrame({"user": ["x", "x"], "item": [70, 20], "rating": [5.0, 1.0]})
    row = model.transform(frame)
    f = model.state_
    scores = f.global_mean + f.item_bias + row.coords["bias"].values[0]
    scores = scores + f.item_factors @ row.values[0]
    result = model.recommend_new(frame, n=7)
    assert set(result["film"]) == {10, 30, 40, 50, 60} and set(result["person"]) == {"x"}
    expected = np.sort(scores[[0, 2, 3, 4, 5]])[::-1]
    np.testing.assert_allclose(result["score"], expected, rtol=1e-5)
    assert len(model.recommend_new(frame, n=7, exclude_seen=False)) == 7
    of_a_dict = model.recommend_new({70: 5, 20: 1}, n=7)
    pd.testing.assert_frame_equal(of_a_dict, result.assign(person=0))
    for which, left in (("items", [10, 40]), ("exclude", [30, 50, 60])):
        some = model.recommend_new(frame, n=7, **{which: left})
        expected = result[result["film"].isin([10, 40])].reset_index(drop=True)
        pd.testing.assert_frame_equal(some, expected)
        with pytest.raises(InputError, match="1 film is unknown to the model: 11"):
            model.recommend_new(frame, **{which: [11]})
    assert (model.transform({70: 5, 20: 1}).values == row.values).all()


def test_scikit_learn_sees_a_sparse_unsupervised_estimator(model):
    tags = get_tags(daskpart.MatrixFactorization())
    assert tags.input_tags.sparse and not tags.input_tags.two_d_array
    assert not tags.target_tags.required
    assert not hasattr(clone(model), "state_")


def test_strangers_get_the_mean_or_nothing(model):
    pairs = [("ann", 10), ("zoe", 10), ("ann", 15), ("zoe", 15)]
    state = model.state_
    state.rating_mean = 3.25
    known = model.predict(pairs[:1])[0]
    found = model.predict(pairs, unknown="mean")
    expected = [known, 3.25 + state.item_bias[0], 3.25 + state.user_bias[0], 3.25]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = model.predict(pairs, unknown="nan")
    np.testing.assert_array_equal(np.isnan(found), [False, True, True, True])
    assert found[0] == known
    with pytest.raises(InputError, match="unknown is 'zero': use one of 'raise', 'mean', 'nan'"):
        model.predict(pairs, unknown="zero")
    frame = pd.DataFrame(pairs, columns=["person", "film"]).assign(rating=[1.0, 2.0, 3.0, 4.0])
    assert model.score(frame, unknown="nan") == pytest.approx(-abs(1 - known))
    expected = frame["rating"] - model.predict(frame, unknown="mean")
    assert model.score(frame, unknown="mean") == pytest.approx(-np.sqrt((expected**2).mean()))
    with pytest.raises(InputError, match="unknown to the model"):
        model.score(frame)
    with pytest.raises(InputError, match="knows user and item of none"):
        model.score(frame[1:], unknown="nan")


def test_unlabelled_rows_behind_those_of_the_model_are_strangers(plain_model):
    more = scipy.sparse.csr_array(scipy.sparse.vstack([ratings(), ratings(1, (2, 7))]))
    with pytest.warns(DaskpartWarning, match="7 unlabelled rows for a model of 5"):
        found = plain_model.predict(more, unknown="nan").toarray()
    known = full_predictions(plain_model) * (ratings().toarray() != 0)
    np.testing.assert_allclose(found[:5], known, rtol=1e-5)
    np.testing.assert_array_equal(np.isnan(found[5:]), more.toarray()[5:] != 0)


def test_what_is_turned_round_is_refused(model):
    turned = labelled_ratings().transpose("film", "person")
    for call in (model.predict, model.score):
        with pytest.raises(InputError, match="the other way round in the model: give the transp"):
            call(turned)


def test_columns_may_be_named():
    frame = as_matrix(labelled_ratings()).to_frame()
    odd = frame.set_axis(["who", "what", "how"], axis=1)[["how", "what", "who"]]
    named = Model()
    named.user, named.item, named.rating = "who", "what", "how"
    named.fit(labelled_ratings())
    plain = Model().fit(labelled_ratings())
    np.testing.assert_array_equal(named.predict(odd), plain.predict(frame))
    assert named.score(odd) == plain.score(frame)


def test_set_output_gives_frames(model):
    rows = model.transform(labelled_ratings(seed=5))
    model.set_output(transform="pandas")
    frame = model.transform(labelled_ratings(seed=5))
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == ["component0", "component1", "component2"]
    np.testing.assert_array_equal(frame.to_numpy(), rows.values)
    # of a table too, which has a line a rating: the index is that of the rows
    table = model.transform(as_matrix(labelled_ratings(seed=5)).to_frame())
    assert table.index.tolist() == frame.index.tolist() == rows[rows.dims[0]].values.tolist()
    np.testing.assert_array_equal(table, frame)
    # a polars frame is made by scikit-learn, of values
    model._sklearn_output_config = {"transform": "polars"}
    np.testing.assert_array_equal(as_output(rows, model), rows.values)
    assert type(as_output(rows, model)) is np.ndarray


@pytest.mark.parametrize("kind", ["numbers", "dates", "text"])
def test_everybody_is_named_as_in_the_ratings(kind):
    """Dask would make text of objects, which joins with no table of users."""
    users = {"numbers": [1, 2, 3], "text": ["a", "b", "c"],
             "dates": [datetime.date(2020, 1, day) for day in (1, 2, 3)]}[kind]  # fmt: skip
    ratings = pd.DataFrame(
        {"user": [users[i] for i in (0, 0, 1, 1, 2, 2)], "item": [10, 20, 10, 30, 20, 30],
         "rating": [1.0, 2, 3, 4, 5, 1]}
    ).astype({"user": object, "item": object})  # fmt: skip
    fitted = daskpart.MatrixFactorization(2, max_iter=2, n_ranks=1).fit(ratings)
    one = fitted.recommend(users, n=1)
    every = fitted.recommend_all(1).compute()
    assert every["user"].tolist() == one["user"].tolist() == users
    assert every["item"].tolist() == one["item"].tolist()
