"""CP of counts of which some are known: against numpy, all known, scikit-learn, and in use."""

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
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

import daskpart
from daskpart.errors import DaskpartWarning, InputError

METHODS = ("p2p", "emb-naive", "emb")
SHAPES = {2: (40, 30), 3: (20, 15, 10), 4: (9, 8, 7, 6)}
RANK = 3
OPTIONS = {"loss": "poisson", "missing": "unknown", "max_iter": 5, "tol": 0, "transport": "local"}

pytestmark = pytest.mark.filterwarnings("ignore:.*have no entry to learn from")


def model(n_ranks=3, n_components=RANK, **changes):
    chosen = OPTIONS | {"n_ranks": n_ranks, "partitioner": "random"} | changes
    return daskpart.CPDecomposition(n_components, **chosen)


def drawn(n_modes, seed=0, share=0.5, size=4.0):
    """Counts of some components, zeros among them, at a share of the cells; and their means."""
    random = np.random.default_rng(seed)
    factors = [random.gamma(0.4, size=(extent, RANK)) for extent in SHAPES[n_modes]]
    means = whole(factors, np.ones(RANK))
    means = size * means / means.mean() / n_modes
    cells = np.array(np.nonzero(random.random(means.shape) < share))
    counts = random.poisson(means[tuple(cells)]).astype(float)
    return sparse.COO(cells, counts, shape=means.shape), means


def explained(values, fitted):
    return d2_tweedie_score(values, np.maximum(fitted, 1e-300), power=1)


def masked_counts(tensor, factors, n_iterations):
    """The same by numpy on all cells and a mask: factors, weights, the fit of each iteration."""
    factors, weights, fits = [each.copy() for each in factors], np.ones(RANK), []
    cells = tuple(tensor.coords)
    array, mask = np.zeros(tensor.shape), np.zeros(tensor.shape)
    array[cells], mask[cells] = tensor.data, 1
    for _ in range(n_iterations):
        for mode in range(array.ndim):
            ratios = products(array / whole(factors, weights), factors, mode)
            weighing = products(mask, factors, mode)
            rows = factors[mode] * weights * ratios / np.where(weighing > 0, weighing, 1)
            weights = rows.sum(axis=0)
            factors[mode] = rows / weights
        fits.append(explained(tensor.data, whole(factors, weights)[cells]))
    return factors, weights, fits


@pytest.fixture(scope="module", params=[2, 3, 4])
def case(request):
    tensor, _ = drawn(request.param)
    start = first_factors(tensor.shape, RANK)
    return tensor, start, masked_counts(tensor, start, OPTIONS["max_iter"])


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_serial_result(case, method, n_ranks):
    tensor, start, expected = case
    result = model(n_ranks, method=method, init=start).fit(tensor)
    assert_serial(result, tensor, expected, 1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_modes", [2, 3, 4])
def test_where_all_is_known_it_is_the_fit_of_absent_zeros(n_modes, method):
    tensor, _ = drawn(n_modes, share=1.1)
    start = first_factors(tensor.shape, RANK)
    assert tensor.nnz == np.prod(tensor.shape) and not tensor.data.all()
    known, zero = (
        model(method=method, missing=missing, init=start, max_iter=20).fit(tensor)
        for missing in ("unknown", "zero")
    )
    for one, other in zip(known.state_.factors, zero.state_.factors, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)
    assert known.history_["fit"].tolist() == pytest.approx(zero.history_["fit"].tolist(), abs=1e-10)
    assert known.score(tensor) == pytest.approx(zero.score(tensor), abs=1e-10)


@given(st.integers(0, 2**16), st.sampled_from([2, 3, 4]), st.integers(1, 5), st.floats(0.05, 0.9))
def test_no_iteration_explains_less(seed, n_modes, n_ranks, share):
    tensor, _ = drawn(n_modes, seed, share)
    found = model(n_ranks, random_state=seed, max_iter=8).fit(tensor)
    assert (np.diff(found.history_["fit"]) > -1e-12).all()
    fitted = whole(found.state_.factors, found.state_.weights)[tuple(tensor.coords)]
    assert found.fit_ == pytest.approx(explained(tensor.data, fitted), abs=1e-9)
    # every update makes what is expected of the known cells as much as was counted there
    assert fitted.sum() == pytest.approx(tensor.data.sum(), rel=1e-10)


@pytest.mark.parametrize("memory", ["fast", "small"])
def test_layouts_and_single_precision(memory):
    tensor, _ = drawn(3, share=0.9)
    start = first_factors(tensor.shape, RANK)
    *_, fits = masked_counts(tensor, start, 5)
    for dtype, close in (("float64", 1e-10), ("float32", 1e-4)):
        found = model(2, init=start, memory=memory, dtype=dtype).fit(tensor)
        assert found.history_["fit"].tolist() == pytest.approx(fits, abs=close)


def test_it_learns_the_means_and_zeros_alone_would_not():
    tensor, means = drawn(3, share=0.3)
    unknown = np.ones(tensor.shape, bool)
    unknown[tuple(tensor.coords)] = False
    errors = {}
    for missing in ("unknown", "zero"):
        state = model(missing=missing, max_iter=300).fit(tensor).state_
        errors[missing] = np.abs(whole(state.factors, state.weights) - means)[unknown].mean()
    assert errors["unknown"] < 0.5 * errors["zero"]


@pytest.mark.cluster
def test_lazy_counts_with_their_zeros(client):
    import dask.array as da

    tensor, _ = drawn(3)
    lazy = da.from_array(tensor, chunks=(10, 15, 5)).persist()
    found = model(2, transport="dask").fit(lazy)
    assert found.fit_ == pytest.approx(model(2).fit(tensor).fit_, abs=1e-10)


def test_slices_without_entries_are_0():
    tensor, _ = drawn(3)
    kept = tensor.coords[0] != 4
    fewer = sparse.COO(tensor.coords[:, kept], tensor.data[kept], shape=tensor.shape)
    with pytest.warns(DaskpartWarning, match="1 of 20 indices of mode_0 have no entry"):
        found = model().fit(fewer)
    assert found.reconstruct((4, 0, 0)) == 0


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_rows_of_new_slices_are_the_best(mode):
    tensor, _ = drawn(3)
    fitted = model(max_iter=50).fit(tensor)
    other, _ = drawn(3, seed=7)
    new = other[tuple(slice(None, 4 if m == mode else None) for m in range(3))]
    rows = fitted.transform(new, mode=mode).to_numpy() * fitted.state_.weights
    both = zip(fitted.state_.factors, new.coords, strict=True)
    features = np.prod([f[i] for m, (f, i) in enumerate(both) if m != mode], axis=0)
    for i, row in enumerate(rows):
        own = new.coords[mode] == i

        def loss(of_row, counts=new.data[own], given=features[own]):
            expected = given @ np.abs(of_row)
            return expected.sum() - counts @ np.log(np.maximum(expected, 1e-300))

        best = minimize(loss, row + 0.1, method="Nelder-Mead", options={"maxiter": 4000})
        assert loss(row) <= best.fun + 1e-6 * abs(best.fun)


def test_a_mode_grows_and_a_batch_goes_on():
    tensor, _ = drawn(3)
    frame = pd.DataFrame(tensor.coords.T, columns=["place", "kind", "day"]).assign(n=tensor.data)
    named = {name: "category" for name in ("place", "kind")}
    old, new = (
        part.assign(day=part["day"].astype(str)).astype(named)
        for part in (frame[frame["day"] < 6], frame[frame["day"] >= 6])
    )
    fitted = model(max_iter=30).fit(old)
    before, rows = fitted.score(old), fitted.transform(new, mode="day") * fitted.weights_
    fitted.partial_fit(new, mode="day")
    grown = fitted.factors_["day"] * fitted.weights_
    np.testing.assert_allclose(grown.sel(day=rows["day"]), rows, rtol=1e-10)
    assert fitted.score(old) == pytest.approx(before, abs=1e-10)
    again = model(max_iter=30).fit(old)
    assert again.partial_fit(old).fit_ >= before


def test_entries_that_are_held_out():
    """Their deviance, and the best iteration by it."""
    tensor, _ = drawn(3)
    held = np.random.default_rng(3).random(tensor.nnz) < 0.3
    learnt, validation = (
        sparse.COO(tensor.coords[:, own], tensor.data[own], shape=tensor.shape)
        for own in (~held, held)
    )
    fitted = model(4, 6, max_iter=200, patience=2).fit(learnt, validation=validation)
    row = fitted.history_.set_index("iteration").loc[fitted.best_iteration_]
    found = fitted.predict(validation.coords.T)
    assert (found > 0).all()
    assert row["validation_loss"] == pytest.approx(
        mean_poisson_deviance(validation.data, found) / 2, rel=1e-10
    )
    assert fitted.n_iter_ < 200 and fitted.comm_report_.matches
    assert np.isfinite(model(validation_fraction=0.2).fit(tensor).history_["validation_loss"]).all()
    with pytest.raises(InputError, match="-1 is below 0"):
        model().fit(learnt, validation=sparse.COO(validation.coords, -1.0, shape=tensor.shape))


def test_a_model_answers_as_it_was_fitted_and_goes_on(tmp_path):
    tensor, _ = drawn(3)
    for method in METHODS:
        path = tmp_path / f"{method}.npz"
        whole_fit = model(method=method).fit(tensor)
        model(method=method, max_iter=2, checkpoint_path=path).fit(tensor)
        resumed = model(method=method, checkpoint_path=path, resume=True).fit(tensor)
        assert_same(whole_fit, resumed)
    expected = whole_fit.score(tensor)
    whole_fit.save(tmp_path / "m")
    loaded = daskpart.CPDecomposition.load(tmp_path / "m")
    again = daskpart.CPDecomposition.from_dataset(whole_fit.to_dataset())
    for other in (loaded, again):
        assert other.score(tensor) == pytest.approx(expected, rel=1e-12)
    whole_fit.set_params(missing="zero")  # of the next fit
    assert whole_fit.score(tensor) == expected


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_a_batch_of_counts_may_be_all_alike_and_a_first_fit_may_not(value):
    cells, _ = drawn(3)
    batch = sparse.COO(cells.coords, np.full(cells.nnz, value), shape=cells.shape)
    for first in (model().fit, model(warm_start=True).fit, model().partial_fit):
        with pytest.raises(InputError, match="all that are known"):
            first(batch)
    fitted = model().fit(cells)
    if not value:  # no factor would be left
        with pytest.raises(InputError, match="all that are known"):
            fitted.partial_fit(batch)
        return
    before = np.abs(fitted.predict(batch.coords.T) - value).mean()
    assert np.isnan(fitted.partial_fit(batch).fit_)
    assert np.abs(fitted.predict(batch.coords.T) - value).mean() < before
    assert fitted.partial_fit(cells).fit_ == pytest.approx(fitted.score(cells), abs=1e-12)
    with pytest.raises(InputError, match="all that are known"):
        fitted.score(batch)
