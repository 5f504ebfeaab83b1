"""CP-ALS over stored entries alone: against numpy, on every way to send, and as a user meets it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sparse
import xarray as xr
from dense_cp import assert_close, assert_serial, first_factors, rows_at
from fit_tools import assert_same, on_threads
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.model_selection import KFold, cross_val_score

import daskpart
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.base.state import same_bits
from daskpart.models.cp.kernels.normal_equations import add_equations, solve_each
from daskpart.models.cp.shuffle import hashed_parts

METHODS = ("p2p", "emb-naive", "emb")
SHAPES = {2: (40, 30), 3: (30, 20, 10), 4: (12, 10, 8, 6)}
RANK = 3
OPTIONS = {"max_iter": 4, "tol": 0, "transport": "local", "partitioner": "random"}


def model(n_ranks=3, n_components=RANK, **changes):
    chosen = {"missing": "unknown", "n_ranks": n_ranks} | OPTIONS | changes
    return daskpart.CPDecomposition(n_components, **chosen)


def entries_of(n_modes, nnz=500):
    """Drawn entries, some of them stored zeros, every index with some."""
    random = np.random.default_rng(n_modes)
    shape = SHAPES[n_modes]
    cells = random.choice(np.prod(shape), nnz, replace=False)
    values = random.normal(size=nnz) + 1
    values[::50] = 0
    return sparse.COO(np.array(np.unravel_index(cells, shape)), values, shape=shape)


def planted(shape=(60, 50, 40), n_components=5, share=0.1, seed=0):
    """A share of the cells of a tensor of some components, and these."""
    random = np.random.default_rng(seed)
    factors = [random.normal(size=(extent, n_components)) for extent in shape]
    cells = np.array(np.nonzero(random.random(shape) < share))
    return sparse.COO(cells, rows_at(factors, cells).sum(axis=1), shape=shape), factors


def masked_cp(tensor, factors, n_iterations, ridge=0.0):
    """The same by numpy, a row at a time: factors, weights and the fit after each iteration."""
    factors, fits = [factor.copy() for factor in factors], []
    coordinates, values = tensor.coords, tensor.data
    ridge = np.broadcast_to(ridge, tensor.ndim)
    for _ in range(n_iterations):
        for mode, extent in enumerate(tensor.shape):
            others = factors[:mode] + factors[mode + 1 :]
            rows = rows_at(others, np.delete(coordinates, mode, axis=0))
            solved = np.zeros((extent, factors[0].shape[1]))
            for i in range(extent):
                own = coordinates[mode] == i
                normal = rows[own].T @ rows[own] + ridge[mode] * np.eye(solved.shape[1])
                right = rows[own].T @ values[own]
                solved[i] = np.linalg.solve(normal, right)
            weights = np.linalg.norm(solved, axis=0)
            factors[mode] = solved / weights
        found = rows_at(factors, coordinates) @ weights
        fits.append(1 - np.linalg.norm(values - found) / np.linalg.norm(values))
    return factors, weights, fits


def match(factors, state):
    """Smallest product of cosines over the components, each beside its best partner."""
    product = np.ones((state.n_components,) * 2)
    for planted_factor, factor in zip(factors, state.factors, strict=True):
        product *= (planted_factor / np.linalg.norm(planted_factor, axis=0)).T @ factor
    return float(product.max(axis=1).min())


@pytest.fixture(scope="module", params=[2, 3, 4])
def case(request):
    tensor = entries_of(request.param)
    start = first_factors(tensor.shape, RANK)
    return tensor, start, masked_cp(tensor, start, 4)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_serial_result(case, method, n_ranks):
    tensor, start, expected = case
    result = model(n_ranks, method=method, init=start).fit(tensor)
    assert_serial(result, tensor, expected, 1e-9)


@pytest.mark.filterwarnings("ignore::daskpart.errors.BalanceWarning")
def test_every_partition_gives_the_serial_result(case):
    tensor, start, expected = case
    for partitioner in ("medium-grain", "hypercube-fine-grain"):
        cut = {"model": partitioner.removeprefix("hypercube-"), "epsilon": 0.5}
        result = model(4, method="p2p", partitioner=cut, init=start).fit(tensor)
        assert_close(result.state_, expected, 1e-9)
        assert result.comm_report_.matches


def test_the_plan_knows_what_equations_weigh():
    tensor, _ = planted(SHAPES[3], 2)
    direct = model(4, method="p2p").plan(tensor).report()
    zero = model(4, method="p2p", missing="zero").plan(tensor).report()
    assert direct.volume == zero.volume  # the same rows go the same ways
    reduced, expanded = direct.rows_sent.sum(axis=(0, 2))
    width = RANK * (RANK + 3) // 2
    assert direct.volume_bytes == 8 * (reduced * width + expanded * RANK)
    assert zero.volume_bytes == 8 * RANK * zero.volume
    assert direct.allreduce_messages * 2 == zero.allreduce_messages  # no Grams
    assert "equations" in repr(direct)
    held = model(4, method="p2p").fit(tensor).comm_report_
    assert (held.memory <= held.expected_memory).all()
    assert (held.memory >= 0.9 * held.expected_memory).all()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("missing", ["unknown", "zero"])
def test_bytes_are_those_planned(missing, n_ranks):
    """Equations, factor rows, norms (and Grams), counted on the ranks, to the byte."""
    report = model(n_ranks, method="p2p", missing=missing).fit(entries_of(3)).comm_report_
    assert report.expected_bytes == report.measured_bytes and report.matches


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("method", METHODS)
def test_every_transport_gives_the_same_bits(method, n_ranks):
    tensor = entries_of(3)
    options = {"method": method, "max_iter": 2, "nonnegative": method == "emb"}
    local = model(n_ranks, **options).fit(tensor)
    graph = model(n_ranks, transport="graph", **options).fit(tensor)
    alone = on_threads(model(n_ranks, **options)).fit(tensor)
    for other in (graph, alone):
        assert_same(local, other)
        assert other.comm_report_.matches


def test_planted_factors_are_found_behind_nine_missing_of_ten():
    tensor, factors = planted()
    options = {"max_iter": 100, "tol": 1e-7}
    unknown = model(n_components=5, **options).fit(tensor)
    assert match(factors, unknown.state_) > 0.99
    zero = model(n_components=5, missing="zero", **options).fit(tensor)
    assert match(factors, zero.state_) < 0.8
    hidden = np.array([(1, 2, 3), (4, 5, 6), (7, 8, 9)])
    expected = rows_at(factors, hidden.T).sum(axis=1)
    np.testing.assert_allclose(unknown.predict(hidden), expected, atol=1e-4)


def test_against_tensorly():
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import parafac

    random = np.random.default_rng(1)
    factors = [random.random((extent, 2)) for extent in (9, 8, 7)]
    dense = np.einsum("ir,jr,kr->ijk", *factors)
    mask = random.random(dense.shape) < 0.5
    theirs = parafac(
        tensorly.tensor(np.where(mask, dense, 0)), 2, mask=mask.astype(float), init="random",
        random_state=0, n_iter_max=2000, tol=1e-12, normalize_factors=True,
    )  # fmt: skip
    cells = np.array(np.nonzero(mask))
    ours = model(2, 2, max_iter=500, tol=1e-12).fit(
        sparse.COO(cells, dense[mask], shape=dense.shape)
    )
    assert match(theirs.factors, ours.state_) > 0.99
    assert match(factors, ours.state_) > 0.99
    error = np.linalg.norm((dense - tensorly.cp_to_tensor(theirs))[~mask])
    every = np.array(np.nonzero(~mask)).T
    assert np.linalg.norm(ours.predict(every) - dense[~mask]) <= error + 1e-6


@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 2**16))
def test_equations_and_solutions_of_single_rows(nnz, n_components, seed):
    random = np.random.default_rng(seed)
    shape = (5, 4, 3)
    coordinates = np.array([random.integers(extent, size=nnz) for extent in shape], np.int32)
    values = random.normal(size=nnz)
    factors = tuple(random.normal(size=(extent, n_components)) for extent in shape)
    order = np.argsort(coordinates[1], kind="stable")
    pointer = np.searchsorted(coordinates[1][order], np.arange(5))
    found = add_equations(
        coordinates, values, order.astype(np.uint32), pointer, 1, factors, np.empty(0)
    )
    rows = factors[0][coordinates[0]] * factors[2][coordinates[2]]
    solved = np.zeros((4, n_components))
    solve_each(found, 0.0, solved)
    for i in range(4):
        own = coordinates[1] == i
        normal, right = rows[own].T @ rows[own], rows[own].T @ values[own]
        half = np.concatenate((normal[np.triu_indices(n_components)], right))
        np.testing.assert_allclose(found[i], half, atol=1e-12)
        residual = np.linalg.norm(normal @ solved[i] - right)
        assert residual <= 1e-6 * max(np.linalg.norm(right), 1)
        if not own.any():
            assert not solved[i].any()


@pytest.mark.filterwarnings("ignore:ridge=.* outweighs")
def test_ridge_and_signs_by_mode():
    tensor = entries_of(3)
    start = [np.random.default_rng(0).random((extent, RANK)) for extent in tensor.shape]
    options = {"method": "p2p", "init": start}
    for ridge in ([0.3, 0.3, 0.3], [0.3, 0.1, 0.0]):
        factors, *_ = masked_cp(tensor, start, 4, ridge=ridge)
        result = model(ridge=ridge, **options).fit(tensor)
        for found, expected in zip(result.state_.factors, factors, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-8)
    mixed = model(nonnegative=["mode_1"], ridge={"mode_0": 0.1}, max_iter=40, **options).fit(tensor)
    lowest = [factor.min() for factor in mixed.state_.factors]
    assert lowest[1] == 0 > max(lowest[0], lowest[2])
    rows = mixed.factors_["mode_0"].to_numpy() * mixed.weights_.to_numpy()
    i, j, k = tensor.coords
    own = j == 3
    z = rows[i[own]] * mixed.state_.factors[2][k[own]]
    best, _ = nnls(z, tensor.data[own])
    np.testing.assert_allclose(mixed.transform(tensor, mode=1)[3], best, atol=1e-6)


@pytest.mark.parametrize(("loss", "share"), [("squared", 0.1), ("logistic", 0.025)])
def test_a_ridge_that_outweighs_the_entries_is_told(loss, share):
    """Diagonals are the share of cells that are stored in the mean, so one above shrinks all."""
    random = np.random.default_rng(0)
    cells = random.choice(20 * 15 * 10, 300, replace=False)
    coords = np.array(np.unravel_index(cells, (20, 15, 10)))
    tensor = sparse.COO(coords, random.integers(2, size=300), shape=(20, 15, 10))
    model(loss=loss, ridge=0.99 * share).fit(tensor)
    with pytest.warns(DaskpartWarning, match=r"ridge=.* outweighs the entries.* weigh 0\."):
        model(loss=loss, ridge={"mode_1": 1.01 * share}).fit(tensor)


def test_rows_with_few_entries_or_none():
    coordinates = np.array([[0, 0, 0, 1, 1, 1, 2], [0, 1, 2, 0, 1, 2, 0]])
    tensor = sparse.COO(coordinates, np.arange(1.0, 8), shape=(4, 3))
    with pytest.warns(DaskpartWarning, match="1 of 4 indices of mode_0 have no entry"):
        result = model(2, 2, max_iter=30).fit(tensor)
    assert result.state_.is_finite() and result.fit_ > 0.99
    assert not result.state_.factors[0][3].any()
    assert result.predict([(2, 0)])[0] == pytest.approx(7, rel=1e-3)


def test_stored_zeros_are_entries():
    shape = (6, 5)
    cells = np.array(np.unravel_index(np.arange(30), shape))
    values = np.ones(30)
    values[:5] = 0
    tensor = sparse.COO(cells, values, shape=shape, prune=False)
    assert model(2, 2, max_iter=50).fit(tensor).predict([(0, 2)])[0] == pytest.approx(0, abs=1e-6)


def test_lazy_tensors():
    import dask.array as da

    tensor = entries_of(3)
    expected = model(4, method="p2p").fit(tensor)
    lazy = da.from_array(tensor, chunks=(10, 20, 5))
    found = model(4, method="p2p").fit(lazy)
    for one, two in zip(expected.state_.factors, found.state_.factors, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    again = model(4, method="p2p").fit(da.from_array(tensor, chunks=(15, 5, 5)))
    assert same_bits(again.state_, found.state_) or again.fit_ == pytest.approx(found.fit_)
    with pytest.raises(InputError, match="needs the tensor in memory"):
        model(validation_fraction=0.2).fit(lazy)


def test_ranks_of_a_lazy_tensor_are_drawn_by_the_seed_and_the_indices_alone():
    cells = np.array(np.unravel_index(np.arange(4000), (20, 20, 10))).astype(np.int32)
    one, other = (hashed_parts(cells, 4, seed) for seed in (0, 1))
    np.testing.assert_array_equal(one, hashed_parts(cells[:, ::-1], 4, 0)[::-1])
    assert 900 < np.bincount(one, minlength=4).min() and (one != other).mean() > 0.7


@pytest.mark.parametrize("missing", ["zero", "unknown"])
def test_what_blocks_of_a_lazy_tensor_store(missing):
    """As of a matrix in memory: no padding, and no other fill value than 0."""
    import dask.array as da
    import scipy.sparse

    dense = np.kron(np.arange(12).reshape(4, 3) % 5 > 1, [[1.0, 0, 2], [0, 3, 0]])
    matrix = sparse.COO.from_numpy(dense)

    def in_blocks(block):
        return scipy.sparse.csr_array(block.to_scipy_sparse()).tobsr((2, 3))

    lazy = da.from_array(matrix, chunks=(4, 9), asarray=False)
    padded = lazy.map_blocks(in_blocks, dtype=float, meta=scipy.sparse.csr_array((0, 0)))
    plain, found = (model(2, 2, missing=missing).fit(X) for X in (lazy, padded))
    for one, two in zip(plain.state_.factors, found.state_.factors, strict=True):
        np.testing.assert_array_equal(one, two)
    filled = sparse.COO(matrix.coords, matrix.data, shape=matrix.shape, fill_value=1.0)
    with pytest.raises(InputError, match="fill value 1"):
        model(2, 2, missing=missing).fit(da.from_array(filled, chunks=(4, 9), asarray=False))


def test_entries_held_out(tmp_path):
    tensor, _ = planted((30, 20, 10), 2, 0.3)
    noisy = sparse.COO(
        tensor.coords, tensor.data + np.random.default_rng(0).normal(size=tensor.nnz),
        shape=tensor.shape,
    )  # fmt: skip
    options = {"validation_fraction": 0.2, "max_iter": 100, "n_components": 4, "patience": 3}
    stopped = model(**options).fit(noisy)
    errors = stopped.history_["validation_rmse"]
    assert stopped.n_iter_ < 100 and errors.min() == errors.iloc[-4]
    whole = model(**options | {"max_iter": 6}).fit(noisy)
    path = {"checkpoint_path": tmp_path / "run.npz"}
    model(**options | path | {"max_iter": 3}).fit(noisy)
    resumed = model(**options | path | {"max_iter": 6}, resume=True).fit(noisy)
    for one, two in zip(whole.state_.factors, resumed.state_.factors, strict=True):
        np.testing.assert_array_equal(one, two)
    assert whole.history_["validation_rmse"].equals(resumed.history_["validation_rmse"])
    given_entries = model().fit(noisy, validation=[(0, 1, 2, 0.5), (3, 4, 5, 1.5)])
    at = np.array([0.5, 1.5]) - given_entries.predict([(0, 1, 2), (3, 4, 5)])
    rmse = given_entries.history_["validation_rmse"].iloc[-1]
    assert rmse == pytest.approx(np.sqrt(np.mean(at**2)))


def frame_of(tensor):
    places = pd.DataFrame(tensor.coords.T, columns=["user", "item", "month"])
    places["user"] = [f"u{i:02}" for i in places["user"]]
    return places, tensor.data


def test_a_frame_of_indices_and_values():
    tensor = entries_of(3)
    places, values = frame_of(tensor)
    beside = model().fit(places, values)
    within = model().fit(places.assign(rating=values)[["rating", "month", "user", "item"]])
    assert within.state_.dims == ("month", "user", "item")
    assert beside.state_.dims == ("user", "item", "month")
    named = xr.DataArray(
        tensor, dims=("user", "item", "month"), coords={"user": [f"u{i:02}" for i in range(30)]}
    )
    expected = model().fit(named)
    np.testing.assert_array_equal(beside.factors_["user"], expected.factors_[0])
    np.testing.assert_array_equal(beside.predict(places), beside.reconstruct(places))
    assert beside.score(places, values) == pytest.approx(beside.fit_, abs=1e-9)
    records = [(*place, value) for place, value in zip(places.to_numpy(), values, strict=True)]
    listed = model().fit(records)
    np.testing.assert_array_equal(listed.factors_[0], beside.factors_[0])
    dask_frame = pytest.importorskip("dask.dataframe").from_pandas(
        places.assign(value=values), npartitions=3
    )
    np.testing.assert_array_equal(model().fit(dask_frame).factors_[0], beside.factors_[0])
    dicts = places.assign(value=values).to_dict("records")
    np.testing.assert_array_equal(model().fit(dicts).factors_["item"], beside.factors_["item"])
    other = places.head(3).assign(user=["u00", "nobody", "u01"])
    with pytest.raises(InputError, match="unknown to the model: 'nobody'"):
        beside.predict(other)
    assert np.isnan(beside.predict(other, unknown="nan")).tolist() == [False, True, False]
    with pytest.raises(InputError, match="unknown is 'zero': use one of"):
        beside.predict(other, unknown="zero")
    everybody = other.iloc[[1] * 30].assign(user=beside.state_.labels["user"])
    known = beside.predict(other.iloc[[0, 2]])
    np.testing.assert_allclose(
        beside.predict(other, unknown="mean"),
        [known[0], beside.predict(everybody).mean(), known[1]],
    )


def test_cross_validation_holds_out_entries():
    tensor, _ = planted((20, 15, 10), 2, 0.5)
    places, values = frame_of(tensor)
    scores = cross_val_score(
        model(2, 2, max_iter=60, n_init=4), places.astype("category"), values, error_score="raise",
        cv=KFold(3, shuffle=True, random_state=0),
    )  # fmt: skip
    assert scores.min() > 0.99


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"missing": "none"}, "'missing'.* Got 'none'"),
        ({"missing": "zero", "validation_fraction": 0.1}, "missing='zero' takes what is held out"),
        ({"patience": 2}, "patience needs validation"),
        ({"validation_fraction": 1e-4}, "of 500 entries holds out 0"),
        ({"nonnegative": ["user"]}, "nonnegative='user' is unknown"),
        ({"nonnegative": [True]}, "nonnegative has 1 entries for the modes"),
        ({"ridge": {"user": 1.0}}, "ridge='user' is unknown"),
        ({"ridge": [1.0]}, "ridge has 1 entries"),
        ({"ridge": [1.0, -1.0, 0.0]}, "holds -1.0: give numbers of at least 0"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(InputError, match=words):
        model(**changes).fit(entries_of(3))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (pd.DataFrame({"a": [1], "b": [2], "c": [3]}), None, "call it 'value'"),
        (pd.DataFrame({"a": [1, 2], "b": [2, 3]}), [1.0], "values have shape"),
        (pd.DataFrame({"a": [1, None], "b": [2, 3], "value": [1, 2]}), None, "1 missing value, "),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1.0], "a name of their own"),
        ([(1, 2, 3.0), (1, 2)], None, "must be .index"),
        ([1, 2, 3], None, "1 is none"),
        ([], None, "0 records"),
    ],
)
def test_bad_frames(X, y, words):
    with pytest.raises(InputError, match=words):
        model().fit(X, y)


@pytest.mark.parametrize("patience", [None, 2])
def test_nothing_is_held_out_of_a_batch(patience):
    """Nor is a fraction in the way of entries to measure by."""
    tensor = entries_of(3)
    fitted = model(validation_fraction=0.2, patience=patience, max_iter=2).fit(tensor)
    fitted.partial_fit(tensor).partial_fit(tensor, validation=tensor)
    whole = model(max_iter=2).fit(tensor)
    assert whole.state_.settings["data"] == fitted.state_.settings["data"]
    rmse = fitted.history_["validation_rmse"]
    assert rmse.isna().tolist() == [False, False, True, False]
    error = (1 - fitted.score(tensor)) * np.linalg.norm(tensor.data) / np.sqrt(tensor.nnz)
    assert rmse.iloc[3] == pytest.approx(error)


def test_bad_validation():
    tensor = entries_of(3)
    with pytest.raises(InputError, match="are not in X"):
        model(missing="zero").fit(tensor, validation=tensor)
    with pytest.raises(InputError, match="unknown to the model"):
        model().fit(tensor, validation=[(99, 0, 0, 1.0)])
    with pytest.raises(InputError, match="2 modes"):
        model().fit(tensor, validation=tensor[0])
    with pytest.raises(InputError, match="validation_fraction, not both"):
        model(validation_fraction=0.1).fit(tensor, validation=tensor)
    fitted = model(max_iter=1).fit(tensor)
    with pytest.raises(InputError, match="leave validation out"):
        fitted.partial_fit(tensor, mode=0, validation=tensor)
    entries = pd.DataFrame(tensor.coords.T[:2], columns=["mode_0", "mode_1", "mode_2"])
    for wrong in (np.nan, np.inf):
        broken = entries.assign(value=[1.0, wrong])
        for call in (fitted.score, lambda it: model().fit(tensor, validation=it)):
            with pytest.raises(InputError, match=rf"1 of 2 values are NaN .*\({wrong}\) at mode_0"):
                call(broken)
    for call in (fitted.score, lambda it: model(patience=1).fit(tensor, validation=it)):
        with pytest.raises(InputError, match="the table has no lines; give at least one"):
            call(entries[:0].assign(value=0.0))
    with pytest.raises(InputError, match="all values are 0, and the fit"):
        fitted.score(entries.assign(value=0.0))
