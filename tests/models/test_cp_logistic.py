"""CP of yes and no: against numpy and scikit-learn, on every way to send, and in use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sparse
from dense_cp import assert_serial, first_factors, rows_at, whole
from fit_tools import assert_same
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import d2_log_loss_score, log_loss, roc_auc_score

import daskpart
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.callbacks import EpochCallback
from daskpart.models.cp.kernels.normal_equations import add_equations
from daskpart.models.cp.layout.by_row import EntriesByRow
from daskpart.models.cp.layout.sorting import Nonzeros
from daskpart.models.cp.logistic import equations_of

METHODS = ("p2p", "emb-naive", "emb")
SHAPES = {2: (40, 30), 3: (20, 15, 10), 4: (9, 8, 7, 6)}
RANK = 3
RIDGE = 0.01
OPTIONS = {"loss": "logistic", "missing": "unknown", "max_iter": 4, "tol": 0, "ridge": RIDGE}


def model(n_ranks=3, n_components=RANK, **changes):
    chosen = {"n_ranks": n_ranks, "partitioner": "random", "transport": "local"}
    return daskpart.CPDecomposition(n_components, **(OPTIONS | chosen | changes))


def drawn(n_modes, seed=0, share=0.5, shape=None):
    """Yes and no at a share of the cells, of a tensor of some components; and its probabilities."""
    random = np.random.default_rng(seed)
    shape = SHAPES[n_modes] if shape is None else shape
    factors = [random.normal(size=(extent, RANK)) for extent in shape]
    chances = expit(whole(factors, np.full(RANK, 1.5)) - 0.7)
    cells = np.array(np.nonzero(random.random(shape) < share))
    values = (random.random(cells.shape[1]) < chances[tuple(cells)]).astype(float)
    return sparse.COO(cells, values, shape=shape), chances


def logits_at(factors, weights, cells):
    return rows_at(factors, cells) @ weights


def log_odds(tensor):
    share = tensor.data.mean()
    return np.log(share / (1 - share))


def loss_of(factors, weights, tensor):
    logits = log_odds(tensor) + logits_at(factors, weights, tensor.coords)
    return (np.logaddexp(0, logits) - tensor.data * logits).sum()


def serial_logistic(tensor, factors, n_iterations, ridge=RIDGE):
    """The same by numpy, a row at a time: factors, weights and the fit after each iteration."""
    factors, weights, fits = [each.copy() for each in factors], np.ones(RANK), []
    cells, values = tensor.coords, tensor.data
    null = log_loss(values, np.full(values.size, values.mean()), normalize=False)
    for _ in range(n_iterations):
        for mode, extent in enumerate(tensor.shape):
            logits = log_odds(tensor) + logits_at(factors, weights, cells)
            curvature = np.tanh(logits / 2) / (2 * logits)
            others = rows_at(factors[:mode] + factors[mode + 1 :], np.delete(cells, mode, axis=0))
            solved = np.zeros((extent, RANK))
            for i in range(extent):
                own = cells[mode] == i
                normal = (curvature[own, None] * others[own]).T @ others[own]
                right = others[own].T @ (values[own] - 0.5 - log_odds(tensor) * curvature[own])
                solved[i] = np.linalg.solve(normal + ridge * np.eye(RANK), right)
            weights = np.linalg.norm(solved, axis=0)
            factors[mode] = solved / weights
        fits.append(1 - loss_of(factors, weights, tensor) / null)
    return factors, weights, fits


@pytest.fixture(scope="module", params=[2, 3, 4])
def case(request):
    tensor, _ = drawn(request.param)
    start = first_factors(tensor.shape, RANK)
    return tensor, start, serial_logistic(tensor, start, OPTIONS["max_iter"])


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_serial_result(case, method, n_ranks):
    tensor, start, expected = case
    result = model(n_ranks, method=method, init=start).fit(tensor)
    assert_serial(result, tensor, expected, 1e-9)


@pytest.mark.filterwarnings("ignore:ridge=.* outweighs")
@given(st.integers(0, 2**16), st.sampled_from([2, 3, 4]), st.sampled_from([0.0, 0.05, 1.0]))
def test_no_iteration_raises_the_loss(seed, n_modes, ridge):
    """That of the entries and of the ridge on the weights together."""
    tensor, _ = drawn(n_modes, seed)
    losses = []

    class Note(EpochCallback):
        def epoch_done(self, row, snapshot):
            state = snapshot()
            penalty = ridge / 2 * (state.weights**2).sum()
            losses.append(loss_of(state.factors, state.weights, tensor) + penalty)
            return False

    model(ridge=ridge, random_state=seed, max_iter=6).set_callbacks(Note()).fit(tensor)
    assert len(losses) == 6 and (np.diff(losses) <= 1e-9 * losses[0]).all()


def test_the_end_is_a_minimum():
    """The gradient of the loss and the ridge is 0 there, by finite differences too."""
    tensor, _ = drawn(3)
    state = model(ridge=0.1, max_iter=300).fit(tensor).state_
    factors = [factor.copy() for factor in state.factors]
    factors[0] *= state.weights

    def penalised(first):
        return loss_of([first, *factors[1:]], np.ones(RANK), tensor) + 0.05 * (first**2).sum()

    random, least = np.random.default_rng(0), penalised(factors[0])
    for _ in range(20):
        step = 1e-4 * random.normal(size=factors[0].shape)
        sides = penalised(factors[0] + step), penalised(factors[0] - step)
        assert min(sides) >= least - 1e-9
        assert abs(sides[0] - sides[1]) < 1e-7


def test_it_learns_what_was_drawn():
    tensor, chances = drawn(3, shape=(60, 50, 40), share=0.25)
    held = np.random.default_rng(3).random(tensor.nnz) < 0.2
    learnt = sparse.COO(tensor.coords[:, ~held], tensor.data[~held], shape=tensor.shape)
    fitted = model(2, max_iter=60, tol=1e-5).fit(learnt)
    cells = tensor.coords[:, held]
    found, best = fitted.predict(cells.T), chances[tuple(cells)]
    assert (found > 0).all() and (found < 1).all()
    assert roc_auc_score(tensor.data[held], found) > roc_auc_score(tensor.data[held], best) - 0.02
    assert log_loss(tensor.data[held], found) < log_loss(tensor.data[held], best) + 0.04
    # the same share of deviance as scikit-learn's, of the entries themselves
    assert fitted.score(learnt) == pytest.approx(
        d2_log_loss_score(learnt.data, fitted.predict(learnt.coords.T)), abs=1e-9
    )
    single = model(2, max_iter=60, tol=1e-5, dtype="float32").fit(learnt)
    assert single.score(learnt) == pytest.approx(fitted.score(learnt), abs=1e-3)


@pytest.mark.cluster
def test_lazy_yes_and_no(client):
    import dask.array as da

    tensor, _ = drawn(3)
    lazy = da.from_array(tensor, chunks=(10, 15, 5)).persist()
    assert model(2, transport="dask").fit(lazy).fit_ == pytest.approx(
        model(2).fit(tensor).fit_, abs=1e-10
    )
    wrong = da.from_array(tensor * 2, chunks=(10, 15, 5)).persist()
    with pytest.raises(InputError, match="2 is neither"):
        model(2, transport="dask").fit(wrong)


@pytest.mark.filterwarnings("ignore:ridge=0.5 outweighs the entries")
@pytest.mark.parametrize("ridge", [0.5, 0.1, 1e-4])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_rows_of_new_slices_are_the_best(mode, ridge):
    tensor, _ = drawn(3)
    fitted = model(max_iter=30, ridge=ridge).fit(tensor)
    other, _ = drawn(3, seed=7)
    new = other[tuple(slice(None, 4 if m == mode else None) for m in range(3))]
    rows = fitted.transform(new, mode=mode).to_numpy() * fitted.state_.weights
    others = [f[i] for m, (f, i) in enumerate(zip(fitted.state_.factors, new.coords, strict=True))
              if m != mode]  # fmt: skip
    features = np.prod(others, axis=0)
    for i, row in enumerate(rows):
        own = new.coords[mode] == i
        yes, given = new.data[own], features[own]

        def loss(of_row, yes=yes, given=given):
            logits = fitted.intercept_ + given @ of_row
            entries = np.logaddexp(0, logits) - yes * logits
            return entries.sum() + ridge / 2 * (of_row @ of_row)

        def slope(of_row, yes=yes, given=given):
            return given.T @ (expit(fitted.intercept_ + given @ of_row) - yes) + ridge * of_row

        best = minimize(loss, row + 0.1, jac=slope, method="BFGS", options={"gtol": 1e-9})
        assert loss(row) <= best.fun * (1 + 1e-12)
        assert np.abs(slope(row)).max() < 1e-6


def test_entries_that_are_held_out():
    """Their log loss, and the best iteration by it."""
    tensor, _ = drawn(3)
    held = np.random.default_rng(3).random(tensor.nnz) < 0.3
    learnt, validation = (
        sparse.COO(tensor.coords[:, own], tensor.data[own], shape=tensor.shape)
        for own in (~held, held)
    )
    fitted = model(4, ridge=0, max_iter=80, patience=2).fit(learnt, validation=validation)
    row = fitted.history_.set_index("iteration").loc[fitted.best_iteration_]
    found = fitted.predict(validation.coords.T)
    assert row["validation_loss"] == pytest.approx(log_loss(validation.data, found), rel=1e-10)
    assert fitted.n_iter_ < 80
    assert fitted.comm_report_.matches
    drawn_out = model(2, validation_fraction=0.2).fit(tensor)
    assert drawn_out.history_["validation_loss"].between(0, 2).all()


def test_no_may_be_minus_one():
    tensor, _ = drawn(3)
    signed = sparse.COO(tensor.coords, 2 * tensor.data - 1, shape=tensor.shape)
    one, other = (
        model(validation_fraction=0.2).fit(tensor),
        model(validation_fraction=0.2).fit(signed),
    )
    assert_same(one, other)
    assert one.score(tensor) == other.score(signed)
    np.testing.assert_array_equal(one.transform(tensor), other.transform(signed))
    assert one.history_["validation_loss"].tolist() == other.history_["validation_loss"].tolist()


def test_a_mode_grows():
    tensor, _ = drawn(3)
    frame = pd.DataFrame(tensor.coords.T, columns=["who", "what", "when"])
    frame = frame.assign(said=tensor.data)
    old, new = frame[frame["when"] < 6], frame[frame["when"] >= 6]
    named = {name: "category" for name in ("who", "what")}
    old, new = (part.assign(when=part["when"].astype(str)).astype(named) for part in (old, new))
    fitted = model(max_iter=30).fit(old)
    before, rows = fitted.score(old), fitted.transform(new, mode="when") * fitted.weights_
    fitted.partial_fit(new, mode="when")
    grown = fitted.factors_["when"] * fitted.weights_
    np.testing.assert_allclose(grown.sel(when=rows["when"]), rows, rtol=1e-10)
    assert fitted.score(old) == pytest.approx(before, abs=1e-10)


def test_a_model_answers_as_it_was_fitted(tmp_path):
    tensor, _ = drawn(3)
    fitted = model().fit(tensor)
    expected, one = fitted.score(tensor), fitted.reconstruct((1, 2, 3))
    assert one == fitted.predict([(1, 2, 3)])[0] and 0 < one < 1
    np.testing.assert_array_equal(
        fitted.reconstruct(tensor).todense()[tuple(tensor.coords)],
        fitted.predict(tensor.coords.T),
    )
    mean = fitted.predict([(1, 2, 99)], unknown="mean")
    assert 0 < mean[0] < 1 and np.isnan(fitted.predict([(1, 2, 99)], unknown="nan"))
    fitted.save(tmp_path / "m")
    loaded = daskpart.CPDecomposition.load(tmp_path / "m")
    again = daskpart.CPDecomposition.from_dataset(fitted.to_dataset())
    for other in (loaded, again):
        assert other.loss == "logistic" and other.reconstruct((1, 2, 3)) == one
        assert other.score(tensor) == pytest.approx(expected, rel=1e-12)
    fitted.set_params(loss="squared")  # of the next fit
    assert fitted.score(tensor) == expected


def test_a_fit_goes_on(tmp_path):
    tensor, _ = drawn(3)
    for method in METHODS:
        path = tmp_path / f"{method}.npz"
        whole_fit = model(method=method).fit(tensor)
        model(method=method, max_iter=2, checkpoint_path=path).fit(tensor)
        resumed = model(method=method, checkpoint_path=path, resume=True).fit(tensor)
        assert_same(whole_fit, resumed)
    warm = model(max_iter=2, warm_start=True).fit(tensor)
    assert warm.fit(tensor).fit_ == pytest.approx(model().fit(tensor).fit_)
    for before, after in (("squared", "logistic"), ("logistic", "squared")):
        other = model(loss=before, max_iter=2, warm_start=True).fit(tensor)
        with pytest.raises(InputError, match="of another kind"):
            other.set_params(loss=after).fit(tensor)


def test_a_batch_adds_to_what_the_factors_add_to():
    """Its own share of yes is not that of the fit, and the fit stays what it was made of."""
    tensor, _ = drawn(3)
    chosen = tensor.data > 0
    chosen[::3] = True
    batch = sparse.COO(tensor.coords[:, chosen], tensor.data[chosen], shape=tensor.shape)
    fitted = model(max_iter=20).fit(tensor)
    before = fitted.intercept_
    assert before == pytest.approx(log_odds(tensor)) and before < log_odds(batch)
    fitted.partial_fit(batch)
    assert fitted.intercept_ == before
    assert fitted.score(batch) > model(max_iter=20).fit(tensor).score(batch)


@pytest.mark.parametrize("answer", [1.0, 0.0])
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_may_be_one_sided_and_a_first_fit_may_not(method, answer):
    tensor, _ = drawn(3)
    own = tensor.data == answer
    batch = sparse.COO(tensor.coords[:, own], tensor.data[own], shape=tensor.shape)
    words = "all stored entries say " + ("yes" if answer else "no")
    for first in (model(method=method).fit, model(warm_start=True).fit, model().partial_fit):
        with pytest.raises(InputError, match=words):
            first(batch)
    fitted = model(method=method, max_iter=20).fit(tensor)
    before, intercept = fitted.predict(batch.coords.T), fitted.intercept_
    fitted.partial_fit(batch)
    assert fitted.intercept_ == intercept and np.isnan(fitted.fit_)
    assert log_loss(batch.data, fitted.predict(batch.coords.T), labels=[0, 1]) < log_loss(
        batch.data, before, labels=[0, 1]
    )
    assert fitted.state_.is_finite() and fitted.comm_report_.matches
    assert fitted.partial_fit(tensor).fit_ == pytest.approx(fitted.score(tensor), abs=1e-9)
    again = model(max_iter=2, warm_start=True, tol=1e-5).fit(tensor)
    assert again.fit(batch).n_iter_ == 4


@pytest.mark.cluster
def test_a_lazy_batch_may_be_one_sided(client):
    import dask.array as da

    tensor, _ = drawn(3)
    yes = sparse.COO(tensor.coords[:, tensor.data > 0], 1.0, shape=tensor.shape)
    lazy, batch = (da.from_array(each, chunks=(10, 15, 5)).persist() for each in (tensor, yes))
    with pytest.raises(InputError, match="all stored entries say yes"):
        model(2, transport="dask").fit(batch)
    fitted = model(2, transport="dask").fit(lazy)
    assert np.isnan(fitted.partial_fit(batch).fit_)


def test_a_large_ridge_leaves_the_share_of_yes():
    tensor, _ = drawn(3)
    with pytest.warns(DaskpartWarning, match="outweighs"):
        fitted = model(ridge=1e6).fit(tensor)
    assert fitted.fit_ == pytest.approx(0, abs=1e-3)
    assert fitted.predict(tensor.coords.T) == pytest.approx(tensor.data.mean(), abs=1e-2)


def test_what_is_neither_yes_nor_no():
    tensor, _ = drawn(3)
    with pytest.raises(InputError, match=r"2 is neither: say yourself"):
        model().fit(2 * tensor)
    with pytest.raises(InputError, match="missing='unknown'"):
        model(missing="zero").fit(tensor)
    with pytest.raises(InputError, match="below the share of yes"):
        model(nonnegative=True).fit(tensor)
    assert model(nonnegative=[True, False, True]).fit(tensor).factors_[0].min() >= 0
    ones = sparse.COO(tensor.coords, np.ones(tensor.nnz), shape=tensor.shape)
    with pytest.raises(InputError, match="all stored entries say yes"):
        model().fit(ones)
    with pytest.raises(InputError, match="is neither"):
        model().fit(tensor, validation=tensor * 0.5)
    fitted = model().fit(tensor)
    mixed = sparse.COO(tensor.coords, np.arange(tensor.nnz) % 3 - 1, shape=tensor.shape)
    for answer in (fitted.score, fitted.transform, fitted.fit):
        with pytest.raises(InputError, match="is neither"):
            answer(tensor * 0.5)
        with pytest.raises(InputError, match="as 0 or as −1, and both"):
            answer(mixed)
    with pytest.raises(InputError, match="all stored entries say yes, and the score"):
        fitted.score(ones)
    with pytest.raises(InputError, match=r"and 1\.000000000001 is neither"):
        fitted.score(tensor * (1 + 1e-12))
    with pytest.raises(InputError, match="least squares"):
        daskpart.cp_diagnostics(tensor, [1, 2], 2, **OPTIONS)


def test_indices_without_entries_have_the_share_of_yes():
    tensor, _ = drawn(3)
    kept = tensor.coords[0] != 4
    fewer = sparse.COO(tensor.coords[:, kept], tensor.data[kept], shape=tensor.shape)
    with pytest.warns(DaskpartWarning, match="the share of yes is what is predicted"):
        fitted = model().fit(fewer)
    assert fitted.reconstruct((4, 0, 0)) == pytest.approx(fewer.data.mean())


@given(st.integers(0, 2**16), st.sampled_from(["float32", "float64"]))
def test_parabolas_touch_the_loss_from_above(seed, dtype):
    """Equations say by how much a row may move: at its own values the gradient of the loss."""
    tensor, _ = drawn(3, seed)
    random = np.random.default_rng(seed)
    factors = [np.asarray(f, dtype) for f in first_factors(tensor.shape, RANK, seed)]
    weights = random.normal(size=RANK) * random.choice([0, 1e-9, 1, 100])
    entries = EntriesByRow.of(
        Nonzeros(tensor.coords.astype(np.int32), tensor.data.astype(dtype)), tensor.shape
    )
    intercept = random.normal()
    equations = equations_of(entries, 0, factors, weights, intercept)
    half = equations.shape[1] - RANK
    above = np.triu_indices(RANK)
    logits = intercept + logits_at(factors, weights, tensor.coords)
    for i in range(tensor.shape[0]):
        own = tensor.coords[0] == i
        rows = rows_at(factors[1:], tensor.coords[1:, own])
        normal = np.zeros((RANK, RANK))
        normal[above] = equations[i, :half]
        normal = normal + np.triu(normal, 1).T
        gradient = normal @ (weights * factors[0][i]) - equations[i, half:]
        expected = rows.T @ (expit(logits[own]) - tensor.data[own])
        np.testing.assert_allclose(
            gradient, expected, rtol=1e-3 if dtype == "float32" else 1e-7,
            atol=1e-4 if dtype == "float32" else 1e-7,
        )  # fmt: skip


def test_weights_of_one_are_none():
    tensor, _ = drawn(3)
    factors = first_factors(tensor.shape, RANK)
    entries = EntriesByRow.of(Nonzeros(tensor.coords.astype(np.int32), tensor.data), tensor.shape)
    given = (entries.coordinates, entries.values, entries.orders[1], entries.pointers[1], 1)
    plain, ones = (
        add_equations(*given, tuple(factors), roots) for roots in (np.empty(0), np.ones(tensor.nnz))
    )
    np.testing.assert_array_equal(plain, ones)
