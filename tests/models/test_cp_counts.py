"""CP of counts: against numpy, pyttb and scikit-learn, on every way to send, and in use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sparse
from dense_cp import assert_serial, first_factors, products, whole
from fit_tools import assert_same
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.metrics import d2_tweedie_score

import daskpart
from daskpart.errors import InputError
from daskpart.models.cp.counts import multiplied
from daskpart.models.cp.layout.layout import TensorLayout

METHODS = ("p2p", "emb-naive", "emb")
SHAPES = {2: (40, 30), 3: (20, 15, 10), 4: (12, 10, 8, 6)}
RANK = 3
OPTIONS = {"loss": "poisson", "max_iter": 5, "tol": 0, "transport": "local"}


def model(n_ranks=3, n_components=RANK, **changes):
    chosen = OPTIONS | {"n_ranks": n_ranks, "partitioner": "random"} | changes
    return daskpart.CPDecomposition(n_components, **chosen)


def drawn(n_modes, seed=0, size=4.0):
    """Counts of a tensor of some components, most of them 0; a dense array."""
    random = np.random.default_rng(seed)
    factors = [random.gamma(0.4, size=(extent, RANK)) for extent in SHAPES[n_modes]]
    expected = whole(factors, np.ones(RANK))
    return random.poisson(size * expected / expected.mean() / n_modes).astype(float)


def stored(array):
    return sparse.COO.from_numpy(array)


def explained(array, fitted):
    return d2_tweedie_score(array.ravel(), fitted.ravel(), power=1)


def dense_counts(array, factors, n_iterations):
    """The same by numpy on all cells: factors, weights and the fit after each iteration."""
    factors, weights, fits = [each.copy() for each in factors], np.ones(factors[0].shape[1]), []
    for _ in range(n_iterations):
        for mode in range(array.ndim):
            ratios = products(array / whole(factors, weights), factors, mode)
            # 1 but for the first factors
            others = np.prod([f.sum(axis=0) for k, f in enumerate(factors) if k != mode], axis=0)
            rows = factors[mode] * weights * ratios / others
            weights = rows.sum(axis=0)
            factors[mode] = rows / weights
        fits.append(explained(array, whole(factors, weights)))
    return factors, weights, fits


@pytest.fixture(scope="module", params=[2, 3, 4])
def case(request):
    array = drawn(request.param)
    start = first_factors(array.shape, RANK)
    return array, start, dense_counts(array, start, OPTIONS["max_iter"])


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_serial_result(case, method, n_ranks):
    array, start, expected = case
    result = model(n_ranks, method=method, init=start).fit(stored(array))
    assert_serial(result, stored(array), expected, 1e-10)


@pytest.mark.parametrize("memory", ["fast", "small"])
def test_many_components_and_single_precision(memory):
    """More components than lanes; each layout of the nonzeros."""
    array = drawn(3)
    start = first_factors(array.shape, 37)
    factors, weights, fits = dense_counts(array, start, 3)
    for dtype, close in (("float64", 1e-10), ("float32", 1e-4)):
        found = model(2, 37, init=start, max_iter=3, memory=memory, dtype=dtype).fit(stored(array))
        assert found.history_["fit"].tolist() == pytest.approx(fits, abs=close)
        np.testing.assert_allclose(
            whole(found.state_.factors, found.state_.weights), whole(factors, weights),
            rtol=100 * close, atol=close,
        )  # fmt: skip


@pytest.mark.parametrize("n_modes", [2, 3, 4])
def test_iterations_are_those_of_pyttb(n_modes):
    pyttb = pytest.importorskip("pyttb")
    array, start = drawn(n_modes), first_factors(SHAPES[n_modes], RANK)
    tensor = stored(array)
    theirs, *_ = pyttb.cp_apr(
        pyttb.sptensor(tensor.coords.T, tensor.data[:, None], tensor.shape),
        RANK, algorithm="mu", maxiters=4, maxinneriters=1, stoptol=1e-12, printitn=0,
        init=pyttb.ktensor([factor.copy() for factor in start]),
    )  # fmt: skip
    ours = model(init=start, max_iter=4).fit(tensor).state_
    np.testing.assert_allclose(
        whole(ours.factors, ours.weights), theirs.full().double(), rtol=1e-9, atol=1e-12
    )


@given(st.integers(0, 2**16), st.sampled_from([2, 3, 4]), st.integers(1, 5))
def test_no_iteration_explains_less(seed, n_modes, n_ranks):
    """And all cells together stand for what was counted."""
    array = drawn(n_modes, seed)
    found = model(n_ranks, random_state=seed, max_iter=8).fit(stored(array))
    assert (np.diff(found.history_["fit"]) > -1e-12).all()
    assert found.fit_ == pytest.approx(
        explained(array, np.maximum(whole(found.state_.factors, found.state_.weights), 1e-300)),
        abs=1e-9,
    )
    assert found.state_.weights.sum() == pytest.approx(array.sum(), rel=1e-10)
    for factor in found.state_.factors:
        assert (factor >= 0).all()
        assert factor.sum(axis=0) == pytest.approx(np.ones(RANK))


@pytest.mark.cluster
def test_lazy_counts(client):
    import dask.array as da

    tensor = stored(drawn(3))
    lazy = da.from_array(tensor, chunks=(10, 15, 5)).persist()
    options = {"transport": "dask", "partitioner": "random"}
    assert model(2, **options).fit(lazy).fit_ == pytest.approx(model(2).fit(tensor).fit_, abs=1e-10)
    wrong = da.from_array(-tensor, chunks=(10, 15, 5)).persist()
    with pytest.raises(InputError, match="is below 0"):
        model(2, **options).fit(wrong)


def test_entries_of_0_begin_again_where_counts_want_them():
    """Multiplication alone would leave them at 0 for good."""
    array = drawn(3)
    start = first_factors(array.shape, RANK)
    start[0][:, 0] = 0  # a whole component
    start[1][::2, 1] = 0
    found = model(init=start, max_iter=200).fit(stored(array))
    plain = model(init=first_factors(array.shape, RANK), max_iter=200).fit(stored(array))
    assert found.state_.weights.min() > 0
    assert found.fit_ == pytest.approx(plain.fit_, abs=0.05)


def test_they_begin_at_a_hundredth_of_the_mean_entry():
    rows, ratios = np.array([[0.0, 6.0], [0.0, 2.0]]), np.array([[1.5, 0.5], [0.5, 2.0]])
    found = multiplied(rows, ratios, 4.0, False, [1.0, 1.0])  # rows sum to 4 in the mean
    np.testing.assert_allclose(found, [[0.02, 3.0], [0.0, 4.0]])


def test_slices_without_counts_are_0():
    array = drawn(3)
    array[4], array[:, 3] = 0, 0
    found = model().fit(stored(array))
    assert not found.factors_[0][4].any() and not found.factors_[1][3].any()
    assert found.reconstruct((4, 0, 0)) == 0


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_rows_of_new_slices_are_the_best(mode):
    """Each is a convex problem: nothing near it is better, nor what scipy finds."""
    array = drawn(3)
    fitted = model(max_iter=50).fit(stored(array))
    new = np.moveaxis(drawn(3, seed=7), mode, 0)[:4]
    given = np.moveaxis(new, 0, mode)
    rows = fitted.transform(stored(given), mode=mode).to_numpy() * fitted.state_.weights
    others = [factor for m, factor in enumerate(fitted.state_.factors) if m != mode]
    cells = np.einsum("ir,jr->ijr", *others).reshape(-1, RANK)

    def loss(row, counts):
        expected = cells @ np.abs(row)
        return expected.sum() - counts @ np.log(np.maximum(expected, 1e-300))

    for row, counts in zip(rows, new.reshape(len(new), -1), strict=True):
        best = minimize(loss, row + 0.1, (counts,), "Nelder-Mead", options={"maxiter": 4000})
        assert loss(row, counts) <= best.fun + 1e-6 * abs(best.fun)


def test_a_mode_grows():
    array = drawn(3)
    cells = pd.DataFrame(np.argwhere(array), columns=["place", "kind", "day"])
    frame = cells.assign(n=array[array > 0], day=cells["day"].astype(str))
    old = frame[frame["day"] < "5"]
    fitted = model(max_iter=30).fit(old)
    new = frame[(frame["day"] >= "5") & frame["place"].isin(old["place"])
                & frame["kind"].isin(old["kind"])]  # fmt: skip
    rows = fitted.transform(new, mode="day") * fitted.weights_
    before, kept = fitted.factors_["day"] * fitted.weights_, fitted.state_.factors[:2]
    fitted.partial_fit(new, mode="day")
    grown = fitted.factors_["day"] * fitted.weights_
    np.testing.assert_allclose(grown.sel(day=before["day"]), before, rtol=1e-10)
    np.testing.assert_allclose(grown.sel(day=rows["day"]), rows, rtol=1e-10)
    assert fitted.factors_["day"].sum("day").to_numpy() == pytest.approx(np.ones(RANK))
    for one, other in zip(kept, fitted.state_.factors, strict=False):
        np.testing.assert_array_equal(one, other)
    assert 0 < fitted.score(pd.concat([old, new])) < 1


def test_a_model_answers_as_it_was_fitted(tmp_path):
    tensor = stored(drawn(3))
    fitted = model().fit(tensor)
    expected = fitted.score(tensor)
    fitted.save(tmp_path / "m")
    loaded = daskpart.CPDecomposition.load(tmp_path / "m")
    assert loaded.loss == "poisson" and loaded.score(tensor) == expected
    again = daskpart.CPDecomposition.from_dataset(fitted.to_dataset())
    assert again.loss == "poisson" and again.score(tensor) == pytest.approx(expected, rel=1e-12)
    fitted.set_params(loss="squared")  # of the next fit
    assert fitted.score(tensor) == expected
    assert fitted.fit(tensor).score(tensor) != expected


def test_a_fit_goes_on(tmp_path):
    tensor = stored(drawn(3))
    for method in METHODS:
        path = tmp_path / f"{method}.npz"
        whole_fit = model(method=method).fit(tensor)
        model(method=method, max_iter=2, checkpoint_path=path).fit(tensor)
        resumed = model(method=method, checkpoint_path=path, resume=True).fit(tensor)
        assert_same(whole_fit, resumed)
        with pytest.raises(InputError, match="loss"):
            model(method=method, loss="squared", checkpoint_path=path, resume=True).fit(tensor)
    warm = model(max_iter=2, warm_start=True).fit(tensor)
    assert warm.set_params(max_iter=3).fit(tensor).fit_ == pytest.approx(model().fit(tensor).fit_)


def test_more_components_are_judged():
    array = drawn(3, size=60)
    found = daskpart.cp_diagnostics(
        stored(array), [1, 3], 2, loss="poisson", max_iter=100, tol=1e-5
    )
    assert found.table["fit"].is_monotonic_increasing and found.table["match"].max() > 0.9


def test_what_counts_cannot_be():
    tensor, options = stored(drawn(3)), {"max_iter": 1}
    with pytest.raises(InputError, match=r"-1 is below 0.*squared"):
        model(**options).fit(tensor - 2 * (tensor == 1))
    for ridge in (0.1, [0, 0, 0.1], {"mode_0": 0.1}):
        with pytest.raises(InputError, match=r"ridge.* is of least squares"):
            model(ridge=ridge, **options).fit(tensor)
    assert model(ridge=[0, 0.0, 0], **options).fit(tensor).n_iter_ == 1
    with pytest.raises(InputError, match="all cells have the same value"):
        model(**options).fit(sparse.COO.from_numpy(np.full((4, 3, 2), 2.0)))
    signed = [factor - 0.5 for factor in first_factors(tensor.shape, RANK)]
    with pytest.raises(InputError, match=r"init\[0\] holds negative values"):
        model(init=signed, **options).fit(tensor)
    least = model(loss="squared", warm_start=True, **options).fit(tensor)
    with pytest.raises(InputError, match="hold negative values"):
        least.set_params(loss="poisson").fit(tensor)
    fitted = model(**options).fit(tensor)
    for answer in (fitted.score, fitted.transform):
        with pytest.raises(InputError, match="below 0"):
            answer(-tensor)


def test_singular_vectors_begin_without_signs():
    tensor = stored(drawn(3))
    assert model(init="nvecs", max_iter=20).fit(tensor).fit_ > 0.3


def test_several_starts_keep_the_best():
    tensor = stored(drawn(3))
    fits = [model(random_state=0, n_init=n).fit(tensor).fit_ for n in (1, 4)]
    assert fits[1] >= fits[0]


@given(st.integers(0, 2**16), st.sampled_from([2, 3, 4]), st.sampled_from(["fast", "small"]))
def test_layouts_know_the_values_of_a_decomposition(seed, n_modes, memory):
    array, random = drawn(n_modes, seed), np.random.default_rng(seed)
    coordinates = np.array(np.nonzero(array)).astype(np.int32)
    order = random.permutation(coordinates.shape[1])
    layout = TensorLayout.build(
        np.ascontiguousarray(coordinates[:, order]), array[array > 0][order], array.shape,
        memory=memory,
    )  # fmt: skip
    factors, weights = first_factors(array.shape, RANK, seed), random.random(RANK)
    expected = whole(factors, weights)
    for mode in range(n_modes):
        np.testing.assert_allclose(
            layout.ratios(mode, factors, weights),
            products(array / expected, factors, mode), rtol=1e-10,
        )  # fmt: skip
    assert layout.likelihood(factors, weights) == pytest.approx(
        [expected[array > 0].sum(), (array * np.log(expected)).sum()], rel=1e-10
    )
    ones = products((array > 0).astype(float), factors, 0)
    np.testing.assert_allclose(layout.products_of_ones(0, factors), ones, rtol=1e-10)
