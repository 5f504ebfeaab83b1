"""Factors that are given and stay: against numpy, by what they leave to be fitted, and in use."""

from __future__ import annotations

import numpy as np
import pytest
import sparse
import xarray as xr
from dense_cp import assert_close, dense_cp, rows_at, whole
from fit_tools import assert_same
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.errors import DaskpartWarning, InputError

METHODS = ("p2p", "emb-naive", "emb")
RANKS = (1, 2, 3, 4, 5, 8)
SHAPES = {2: (40, 30), 3: (20, 15, 10), 4: (9, 8, 7, 6)}
FIXED = {2: [(0,), (1,)], 3: [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], 4: [(0, 2), (1, 2, 3)]}
RANK = 3
LOSSES = {
    "squared": {},
    "nonnegative": {"nonnegative": True},
    "unknown": {"missing": "unknown"},
    "poisson": {"loss": "poisson"},
    "known counts": {"loss": "poisson", "missing": "unknown"},
    "logistic": {"loss": "logistic", "missing": "unknown", "ridge": 0.01},
}

pytestmark = pytest.mark.filterwarnings("ignore:.*have no entry to learn from")


def model(n_ranks=3, **changes):
    chosen = {"n_ranks": n_ranks, "partitioner": "random", "transport": "local", "tol": 0}
    return daskpart.CPDecomposition(RANK, **(chosen | {"max_iter": 4} | changes))


def given_factors(shape, seed=1):
    """Of any length and sum of columns."""
    random = np.random.default_rng(seed)
    return [random.random((extent, RANK)) * [0.1, 1, 7] for extent in shape]


def drawn(n_modes, loss="squared", seed=0, share=0.4):
    random, shape = np.random.default_rng(seed), SHAPES[n_modes]
    mean = whole([random.gamma(0.5, size=(extent, RANK)) for extent in shape], np.ones(RANK))
    cells = np.array(np.nonzero(random.random(shape) < share))
    counts = random.poisson(3 * mean / mean.mean())[tuple(cells)]
    values = counts > 1 if "logistic" in loss else counts
    if "missing" not in LOSSES.get(loss, {}):
        cells, values = cells[:, values != 0], values[values != 0]
    return sparse.COO(cells, values.astype(float), shape=shape)


@pytest.fixture(scope="module")
def serial():
    """Of each number of modes: for every choice of fixed ones what the ranks must come to."""
    return {
        n_modes: {
            fixed: dense_cp(drawn(n_modes).todense(), given_factors(shape), 4, fixed=fixed)
            for fixed in FIXED[n_modes]
        }
        for n_modes, shape in SHAPES.items()
    }


@pytest.mark.parametrize("n_ranks", RANKS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_modes", [2, 3, 4])
def test_every_method_gives_the_serial_result(serial, n_modes, method, n_ranks):
    """Of six choices two at a time: every pair of choice, method and number of ranks occurs."""
    tensor, start = drawn(n_modes), given_factors(SHAPES[n_modes])
    free = model(n_ranks, method=method, init=start).fit(tensor).comm_report_
    every, turn = len(FIXED[n_modes]) // 2, RANKS.index(n_ranks) + METHODS.index(method)
    for fixed in FIXED[n_modes][turn % every :: every]:
        expected = serial[n_modes][fixed]
        found = model(
            n_ranks, method=method, init=start, fixed_modes={m: start[m] for m in fixed}
        ).fit(tensor)
        assert_close(found.state_, expected, 1e-9)
        for mode in fixed:
            np.testing.assert_array_equal(found.state_.factors[mode], start[mode])
        report, plan = found.comm_report_, found.plan_report_
        assert report.matches and report.expected_bytes == report.measured_bytes
        assert (report.memory <= report.expected_memory).all()
        assert not plan.rows_sent[list(fixed)].any() and not plan.messages[list(fixed)].any()
        if n_ranks > 1:
            assert report.measured_bytes < free.measured_bytes


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_any_scale_of_what_is_fixed_gives_the_same_model(loss, method):
    """λ takes it: all other columns have length 1, or sum 1. No ridge, as that is on λ."""
    tensor, start = drawn(3, loss), given_factors(SHAPES[3])
    scale = np.array([3.0, 0.5, 10.0])
    options = LOSSES[loss] | {"method": method, "ridge": 0}
    one = model(fixed_modes={1: start[1]}, init=start, **options).fit(tensor)
    begin = [start[0] / scale, *start[1:]]  # at the same values
    other = model(fixed_modes={1: start[1] * scale}, init=begin, **options).fit(tensor)
    np.testing.assert_allclose(one.weights_, other.weights_ * scale, rtol=1e-6)
    for mode in (0, 2):
        np.testing.assert_allclose(one.factors_[mode], other.factors_[mode], atol=1e-6)
    assert one.history_["fit"].tolist() == pytest.approx(other.history_["fit"].tolist(), abs=1e-6)
    np.testing.assert_array_equal(one.factors_[1], start[1])
    for each in (one, other):
        assert each.comm_report_.matches
        assert each.comm_report_.expected_bytes == each.comm_report_.measured_bytes
        assert each.fit_ == pytest.approx(each.score(tensor), abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_where_one_mode_is_left_its_rows_are_those_of_transform(loss, mode):
    tensor, start = drawn(3, loss), given_factors(SHAPES[3])
    if LOSSES[loss].get("loss") == "poisson":  # steps are short where columns are alike
        scale = np.array([0.1, 1, 7])
        start = [
            0.1 * each + scale * (np.arange(len(each))[:, None] % 3 == [0, 1, 2]) for each in start
        ]
    fixed = {m: start[m] for m in range(3) if m != mode}
    options = LOSSES[loss] | ({"ridge": 0.1} if loss == "logistic" else {})
    found = model(fixed_modes=fixed, max_iter=200, tol=1e-13, **options).fit(tensor)
    rows = found.transform(tensor, mode).to_numpy() * found.state_.weights
    fitted = found.factors_[mode].to_numpy() * found.state_.weights
    there = [np.delete(tensor.coords, mode, axis=0), tensor.coords[mode]]
    features = rows_at(fixed.values(), there[0])
    expected, own = ((features * each[there[1]]).sum(axis=1) for each in (rows, fitted))
    np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@given(st.integers(0, 2**16), st.sampled_from(list(LOSSES)), st.sampled_from(FIXED[3]))
def test_no_iteration_fits_less(seed, loss, fixed):
    tensor, start = drawn(3, loss, seed), given_factors(SHAPES[3], seed)
    options = LOSSES[loss] | {"ridge": 0, "random_state": seed, "max_iter": 6}
    found = model(fixed_modes={m: start[m] for m in fixed}, **options).fit(tensor)
    assert (np.diff(found.history_["fit"]) > -1e-8).all()
    for mode in fixed:
        np.testing.assert_array_equal(found.factors_[mode], start[mode])


@pytest.mark.cluster
def test_a_lazy_tensor(client):
    import dask.array as da

    tensor, start = drawn(3), given_factors(SHAPES[3])
    lazy = da.from_array(tensor, chunks=(10, 15, 5)).persist()
    fixed = {"fixed_modes": {0: start[0]}}
    found = model(2, transport="dask", **fixed).fit(lazy)
    assert found.fit_ == pytest.approx(model(2, **fixed).fit(tensor).fit_, abs=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_fit_goes_on(tmp_path, loss):
    tensor, start = drawn(3, loss), given_factors(SHAPES[3])
    for method in METHODS:
        path = tmp_path / f"{method}.npz"
        options = LOSSES[loss] | {"method": method, "fixed_modes": {0: start[0]}}
        whole_fit = model(**options).fit(tensor)
        model(max_iter=2, checkpoint_path=path, **options).fit(tensor)
        resumed = model(checkpoint_path=path, resume=True, **options).fit(tensor)
        assert_same(whole_fit, resumed)
        with pytest.raises(InputError, match="fixed_modes"):
            other = options | {"fixed_modes": {0: 2 * start[0]}}
            model(checkpoint_path=path, resume=True, **other).fit(tensor)
    warm = model(max_iter=2, warm_start=True, **options).fit(tensor)
    assert warm.fit(tensor).fit_ == pytest.approx(whole_fit.fit_, abs=1e-9)
    warm.set_params(fixed_modes={1: start[1]}, max_iter=1).fit(tensor)
    np.testing.assert_array_equal(warm.factors_[1], start[1])
    assert warm.fit_ == pytest.approx(warm.score(tensor), abs=1e-9)


@pytest.mark.parametrize("missing", ["zero", "unknown"])
@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("mode", [0, 2])
def test_a_mode_grows_beside_what_is_fixed(loss, missing, mode):
    """New slices along a fixed mode, and along another; old rows of it stay."""
    tensor, start = drawn(3), given_factors(SHAPES[3])
    options = {"loss": loss, "missing": missing, "max_iter": 60, "fixed_modes": {0: start[0]}}
    fitted = model(**options).fit(tensor)
    rows = fitted.transform(tensor[:4] if mode == 0 else tensor[:, :, :4], mode)
    before = [each.to_numpy() for each in fitted.factors_]
    fitted.partial_fit(tensor[:4] if mode == 0 else tensor[:, :, :4], mode=mode)
    np.testing.assert_array_equal(fitted.factors_[0][: len(start[0])], start[0])
    if mode == 0:
        np.testing.assert_allclose(fitted.factors_[0][len(start[0]) :], rows, rtol=1e-9)
        for other in (1, 2) if (loss, missing) != ("squared", "zero") else ():
            np.testing.assert_array_equal(fitted.factors_[other], before[other])
        own = fitted.factors_[1].to_numpy()
        lengths = np.abs(own).sum(axis=0) if loss == "poisson" else np.linalg.norm(own, axis=0)
        np.testing.assert_allclose(lengths, 1, rtol=1e-9)
    assert -0.5 < fitted.score(sparse.concatenate([tensor, tensor[:4]]) if mode == 0 else
                               sparse.concatenate([tensor, tensor[:, :, :4]], axis=2))  # fmt: skip


def test_rows_are_told_by_their_labels(tmp_path):
    """A model of last year, and what else is new."""
    words = np.array([f"word{i}" for i in range(20)])
    coords = {"word": words, "day": np.arange(10)}
    tensor = xr.DataArray(drawn(3), dims=("word", "place", "day"), coords=coords)
    last = model().fit(tensor)
    turned = tensor[::-1]
    found = model(fixed_modes={"word": last.factors_["word"], "place": last.factors_["place"]})
    found.fit(turned)
    np.testing.assert_array_equal(found.factors_["word"], last.factors_["word"][::-1])
    expected = last.transform(tensor, "day") * last.weights_
    np.testing.assert_allclose(found.factors_["day"] * found.weights_, expected, atol=1e-9)
    found.save(tmp_path / "m")
    loaded = daskpart.CPDecomposition.load(tmp_path / "m")
    assert_same(loaded, found)
    assert loaded.fit(turned).fit_ == found.fit_
    fewer = {"word": last.factors_["word"][1:]}
    with pytest.raises(InputError, match=r"of word in .*fixed_modes.* has no row for 'word0'"):
        model(fixed_modes=fewer).fit(tensor)


@pytest.mark.parametrize("partitioner", ["fine-grain", "medium-grain", "hypercube", {}])
@pytest.mark.parametrize("n_ranks", [2, 4])
def test_a_cut_minimises_what_travels(n_ranks, partitioner):
    """Slices of the one mode that is left are dealt out whole; those of fixed modes need not be."""
    shape = (40, 30, 24)
    tensor, fixed = sparse.random(shape, nnz=1200, random_state=0), given_factors(shape)[:2]
    chosen = {"partitioner": partitioner, "fixed_modes": dict(enumerate(fixed))}
    plan = model(n_ranks, method="p2p", **chosen).plan(tensor)
    assert not plan.report().rows_sent.any() and plan.report().imbalance < 0.1
    free = model(n_ranks, method="p2p", partitioner=partitioner).plan(tensor)
    assert free.report().rows_sent[2].any()


def test_owners_of_rows_that_travel_are_packed_by_themselves():
    tensor = sparse.random((200, 30, 24), nnz=1200, random_state=0)
    chosen = {"fixed_modes": {0: given_factors((200,))[0]}, "method": "p2p"}
    connectivities = model(4, **chosen).plan(tensor).connectivities
    packed = daskpart.owners.packed_owners(connectivities[1:])
    for found, expected in zip(connectivities[1:], packed, strict=True):
        np.testing.assert_array_equal(found.owners, expected.owners)


@pytest.mark.parametrize("dims", [("place", "component"), ("component", "place")])
def test_a_factor_over_another_dimension_is_refused(dims):
    """Also where it has as many rows: they were taken by their place."""
    names = ("word", "place", "day")
    tensor = xr.DataArray(sparse.random((RANK,) * 3, density=0.5, random_state=0), dims=names)
    factor = xr.DataArray(np.ones((RANK, RANK)), dims=dims)
    words = r"the factor of word in .* is a DataArray over .*'place'.* rename"
    with pytest.raises(InputError, match=words):
        model(fixed_modes={"word": factor}).fit(tensor)
    with pytest.raises(InputError, match=words):
        model(init=[factor, *2 * [np.ones((RANK, RANK))]]).fit(tensor)
    by_place = {"word": factor.to_numpy()}
    assert_same(
        model(fixed_modes={"word": factor.rename(place="word")}).fit(tensor),
        model(fixed_modes=by_place).fit(tensor),
    )


@pytest.mark.parametrize("n_modes", [2, 3])
@pytest.mark.parametrize("names", [None, ("word", "place", "day")])
@pytest.mark.parametrize("of_factors", [None, "component"])
def test_what_xarray_names_by_its_place_has_no_name(n_modes, names, of_factors):
    """Its dim_0 was another mode than that of named factors, and dim_1 of a factor was one."""
    tensor, start = drawn(n_modes), given_factors(SHAPES[n_modes])
    dims = [names and [name, "r"] for name in (names or 3 * [None])]
    if of_factors:
        dims = [(name, of_factors) for name in ("word", "place", "day")]
    named = [xr.DataArray(each, dims=dim) for each, dim in zip(start, dims, strict=False)]
    array = xr.DataArray(tensor, dims=names and names[:n_modes])
    assert_same(model(init=named).fit(array), model(init=start).fit(tensor))
    fixed = model(fixed_modes={1: named[1]}).fit(array)
    assert_same(fixed, model(fixed_modes={1: start[1]}).fit(tensor))
    assert fixed.score(tensor) == fixed.score(array)


def test_a_fit_goes_on_whatever_numpy_holds_its_names_in(tmp_path):
    """Texts of any width came back from a folder as objects: parameters of another fit."""
    words = np.array([f"word{i}" for i in range(20)], np.dtypes.StringDType())
    names = ("word", "place", "day")
    tensor = xr.DataArray(drawn(3), dims=names, coords={"word": words.astype(object)})
    factor = xr.DataArray(given_factors((20,))[0], dims=("word", "r"), coords={"word": words})
    options = {"fixed_modes": {"word": factor}, "checkpoint_path": tmp_path / "fit"}
    model(max_iter=2, **options).fit(tensor).save(tmp_path / "m")
    loaded = daskpart.CPDecomposition.load(tmp_path / "m")
    assert loaded.fixed_modes["word"]["word"].dtype == words.dtype
    loaded.set_params(max_iter=4, resume=True).fit(tensor)
    assert_same(loaded, model(fixed_modes=options["fixed_modes"]).fit(tensor))


def test_names_of_some_factors_to_begin_from_are_read():
    tensor, start = drawn(3), given_factors(SHAPES[3])
    days = np.arange(10)
    named = xr.DataArray(tensor, dims=("word", "place", "day"), coords={"day": days})
    turned = xr.DataArray(start[2][::-1], dims=("day", "r"), coords={"day": days[::-1]})
    assert_same(model(init=[*start[:2], turned]).fit(named), model(init=start).fit(named))


@pytest.mark.parametrize("where", ["fixed_modes", "init"])
def test_values_beyond_the_dtype_are_refused(where):
    """They became infinite, with a warning of NumPy's."""
    start = given_factors(SHAPES[3])
    start[0][3, 1] = 1e39
    given = {"init": start, "fixed_modes": {0: start[0]}}[where]
    with pytest.raises(InputError, match=rf"{where}\[.* holds 1e\+39, beyond float32: give dtype"):
        model(dtype="float32", **{where: given}).fit(drawn(3))
    model(dtype="float64", max_iter=1, **{where: given}).fit(drawn(3))


def test_a_ridge_is_told_from_the_length_of_what_is_fixed():
    tensor, factor = drawn(3, "unknown"), given_factors(SHAPES[3])[0]
    unit = factor / np.linalg.norm(factor, axis=0)
    share = tensor.density
    options = {"missing": "unknown", "max_iter": 1}
    for length in (1.0, 100.0):
        fixed = {"fixed_modes": {0: length * unit}}
        model(ridge=0.99 * share * length**2, **options, **fixed).fit(tensor)
        model(ridge={0: 2 * share * length**2}, **options, **fixed).fit(tensor)
        with pytest.warns(DaskpartWarning, match="outweighs the entries"):
            model(ridge=1.01 * share * length**2, **options, **fixed).fit(tensor)


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({3: np.ones((20, RANK))}, "fixed_modes=3 is unknown"),
        ({0: np.ones((20, 2))}, r"fixed_modes\[0\] has shape \(20, 2\)"),
        (dict.fromkeys(("mode_0", 0), np.ones((20, RANK))), "names mode 'mode_0' twice"),
        ({0: np.ones((19, RANK))}, "has 19 rows, and the tensor 20 indices of mode_0"),
        ({0: np.full((20, RANK), np.nan)}, "NaN"),
        ({m: np.ones((n, RANK)) for m, n in enumerate(SHAPES[3])}, "leave one to be fitted"),
        ([np.ones((20, RANK))], "'fixed_modes'"),
    ],
)
def test_what_cannot_be_fixed(fixed, words):
    with pytest.raises(InputError, match=words):
        model(fixed_modes=fixed).fit(drawn(3))


def test_negative_values_where_there_may_be_none():
    below = {0: -np.ones((20, RANK))}
    for options in ({"loss": "poisson"}, {"nonnegative": True}, {"nonnegative": [0]}):
        with pytest.raises(InputError, match="holds negative values, and this mode is nonnegative"):
            model(fixed_modes=below, **options).fit(drawn(3))
    below[0][::2] = 1
    found = model(fixed_modes=below, nonnegative=[1, 2]).fit(drawn(3))
    assert (found.factors_[1] >= 0).all() and (found.factors_[0] < 0).any()
