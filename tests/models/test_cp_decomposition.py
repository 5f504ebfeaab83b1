"""The estimator as a user meets it: containers, labels, resume, interruption, bad input."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import sparse
import xarray as xr
from dense_cp import dense_cp, whole
from fit_tools import assert_same
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.base import clone

import daskpart
from daskpart.errors import DaskpartWarning, DivergenceError, InputError, ReadError
from daskpart.models.base import trainer
from daskpart.models.base.callbacks import EpochCallback
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.cp.state import CPState, better

FAST = {"n_ranks": 3, "max_iter": 4, "tol": 0, "partitioner": "random", "transport": "local"}
WORDS = np.array([f"word{i}" for i in range(10)])


def model(n_components=3, **changes):
    return daskpart.CPDecomposition(n_components, **(FAST | changes))


@pytest.fixture(scope="module")
def fitted(tensor):
    return model().fit(tensor)


@pytest.fixture(scope="module")
def exact():
    """A sparse tensor of three components that share no index, and its factors."""
    factors = [np.kron(np.eye(3), np.arange(1.0, n + 1)[:, None]) for n in (4, 3, 2)]
    return sparse.COO.from_numpy(whole(factors, np.ones(3))), factors


def assert_same_factors(one, other):
    for a, b in zip(one.state_.factors, other.state_.factors, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_container_gives_the_same_factors(tensor, fitted, tmp_path):
    import dask.array as da

    frostt = tmp_path / "tensor.tns.gz"
    lines = [f"{i + 1} {j + 1} {k + 1} {v!r}\n" for (i, j, k), v in zip(
        tensor.coords.T.tolist(), tensor.data.tolist(), strict=True)]  # fmt: skip
    frostt.write_bytes(gzip.compress("".join(lines).encode()))
    named = xr.DataArray(tensor, dims=("user", "place", "word"), coords={"word": WORDS})
    for X in (sparse.GCXS.from_coo(tensor), frostt, named):
        assert_same(fitted, model().fit(X))
    # of a Dask array the blocks stay on the workers, and random ranks are drawn otherwise
    for chunks in ((30, 20, 10), (10, 20, 5)):
        lazy = da.from_array(tensor, chunks=chunks)
        for X in (lazy, xr.DataArray(lazy, dims=("user", "place", "word"))):
            np.testing.assert_allclose(model().fit(X).fit_, fitted.fit_, atol=1e-12)
    grain = {"partitioner": {"model": "fine-grain", "epsilon": 0.3}}
    assert_same(model(**grain).fit(tensor), model(**grain).fit(lazy))


def test_a_matrix_has_two_modes(tensor):
    matrix = tensor.sum(axis=2)
    result = model().fit(matrix.to_scipy_sparse())
    singular = np.linalg.svd(matrix.todense(), compute_uv=False)
    best = 1 - np.sqrt((singular[3:] ** 2).sum() / (singular**2).sum())
    longer = model(max_iter=100).fit(matrix)
    assert result.fit_ < longer.fit_ <= best + 1e-12
    assert longer.fit_ == pytest.approx(best, abs=1e-3)


def test_names_and_labels_carry_over(tensor):
    named = xr.DataArray(tensor, dims=("user", "place", "word"), coords={"word": WORDS})
    result = model().fit(named)
    assert [factor.dims for factor in result.factors_] == [
        (dim, "component") for dim in ("user", "place", "word")
    ]
    assert result.factors_[2].sel(word="word3").shape == (3,)
    dense = whole(result.state_.factors, result.state_.weights)
    assert result.reconstruct([(4, 5, "word3")]) == pytest.approx(dense[4, 5, 3])
    with pytest.raises(InputError, match=r"unknown to the model.*or predict with unknown='nan'"):
        result.reconstruct([(4, 5, "nonsense")])
    pattern = result.reconstruct(named)
    assert pattern.dims == named.dims
    stored = pattern.data.todense()[tuple(tensor.coords)]
    np.testing.assert_allclose(stored, dense[tuple(tensor.coords)])


def test_history_and_reports(tensor, fitted):
    history = fitted.history_
    assert history["iteration"].tolist() == [1, 2, 3, 4]
    assert history["fit"].is_monotonic_increasing
    assert np.isnan(history["fit_change"].iloc[0])
    np.testing.assert_allclose(history["fit"].diff().iloc[1:], history["fit_change"].iloc[1:])
    assert fitted.n_iter_ == 4 and fitted.method_ in ("emb", "p2p")
    assert fitted.comm_report_.matches and fitted.comm_report_.transport == "local"
    assert fitted.plan_report_.volume + 0 <= history["volume"].iloc[0]
    assert fitted.fit_ == pytest.approx(fitted.score(tensor), abs=1e-12)
    for report in (fitted.plan_report_, fitted.comm_report_):
        again = type(report).from_dict(report.to_dict())
        assert repr(again) == repr(report) and "<table" in report._repr_html_()
        assert {each.name for each in fields(report)} <= set(report.to_dict())
    per_rank = fitted.plan_report_.per_rank()
    assert len(per_rank) == 3 * 2 * 3
    assert per_rank["rows"].sum() == fitted.plan_report_.volume


def test_report_with_no_run(tensor):
    wide = model(8, n_ranks=64, method="emb")
    report = wide.plan(tensor).report()
    assert report.messages_max == report.messages_mean == 2 * 3 * 6
    assert report.concurrent_volume < report.volume
    direct = wide.set_params(method="p2p").plan(tensor).report()
    assert direct.allreduce_messages == 36 and direct.volume < report.volume
    assert "64 ranks" in repr(report) and "concurrent volume" in repr(report)
    assert "concurrent volume" not in repr(direct)  # its rows move in one round


def test_an_exact_decomposition_is_found(exact):
    tensor, _ = exact
    result = model(max_iter=200, tol=1e-12, n_init=4, random_state=1).fit(tensor)
    assert result.fit_ > 1 - 1e-6
    found = whole(result.state_.factors, result.state_.weights)
    np.testing.assert_allclose(found, tensor.todense(), atol=1e-4)


def test_the_best_of_several_starts_is_kept(tensor):
    fits = [model(n_init=n, max_iter=6).fit(tensor).fit_ for n in (1, 4)]
    assert fits[1] >= fits[0]
    assert model(n_init=4, max_iter=6).fit(tensor).fit_ == fits[1]


@pytest.mark.parametrize("column", ["validation_rmse", "validation_loss"])
def test_where_steps_are_watched_a_start_is_judged_by_its_best_one(column):
    def state(fit, *errors, best):
        history = [{"epoch": at, column: each} for at, each in enumerate(errors, start=1)]
        ones = [np.ones((2, 1))] * 2
        return CPState(np.ones(1), ones, ("a", "b"), fit=fit, history=history, best_epoch=best)

    one, other = state(0.5, 3.0, 1.0, 4.0, best=2), state(0.9, 2.0, 2.5, 3.0, best=1)
    assert better(one, other) is one and better(other, one) is one


def test_a_partition_says_how_many_ranks_there_are(tensor):
    given = daskpart.partition(tensor, 4, method="random", random_state=0)
    assert model(n_ranks=None, partitioner=given).plan(tensor).n_ranks == 4


def test_one_iteration_more_is_of_one_start(tensor, monkeypatch):
    """`partial_fit` runs no fits of other starts; the best start is one of a whole fit."""
    runs, run = [], trainer.Trainer.run
    monkeypatch.setattr(
        trainer.Trainer, "run", lambda self, last: runs.append(last) or run(self, last)
    )
    several = model(n_init=3, max_iter=5).partial_fit(tensor).partial_fit(tensor)
    assert runs == [1, 2] and several.n_iter_ == 2
    one = model(n_init=1, max_iter=2).fit(tensor)
    for mine, theirs in zip(several.state_.factors, one.state_.factors, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(
    st.sampled_from([(60, 5), (40, 25), (20, 12, 1), (15, 12, 10)]),
    st.integers(1, 3),
    st.sampled_from([1, 3]),
)
def test_more_components_than_there_are_in_float32(shape, n_true, n_ranks):
    """Rounding of factors is no component: dividing by it gave a fit of minus millions."""
    random = np.random.default_rng(n_true)
    X = whole([random.random((n, n_true)) for n in shape], np.ones(n_true))
    first, n_first = X.astype(np.float32), shape[0] // 2
    fitted = model(n_true + 4, n_ranks=n_ranks, max_iter=30).fit(named_rows(first[:n_first]))
    assert fitted.history_["fit"].min() > 0.5 and fitted.fit_ > 0.95
    rows = fitted.transform(named_rows(first[n_first:]), mode=0)
    found = whole([rows.to_numpy(), *fitted.state_.factors[1:]], fitted.state_.weights)
    assert np.linalg.norm(found - X[n_first:]) < 0.05 * np.linalg.norm(X)


def named_rows(array):
    return xr.DataArray(sparse.COO.from_numpy(array), coords={"dim_0": np.arange(len(array))})


def test_given_factors_and_singular_vectors(tensor):
    start = [np.random.default_rng(5).random((n, 3)) for n in tensor.shape]
    result = model(init=start).fit(tensor)
    _, weights, fits = dense_cp(tensor.todense(), start, 4)
    assert result.history_["fit"].tolist() == pytest.approx(fits, abs=1e-12)
    np.testing.assert_allclose(result.weights_, weights)
    vectors = model(init="nvecs", max_iter=1).fit(tensor)
    assert vectors.fit_ > model(max_iter=1).fit(tensor).fit_


def test_more_components_than_a_mode_is_long(tensor):
    result = model(12, init="nvecs").fit(tensor)
    assert result.state_.is_finite() and result.factors_[2].shape == (10, 12)


def test_early_stop(tensor):
    stopped = model(max_iter=500, tol=1e-4).fit(tensor)
    changes = stopped.history_["fit_change"].abs()
    assert changes.iloc[-1] < 1e-4 <= changes.iloc[1:-1].min()


@pytest.mark.parametrize("kind", ["Bag", "Dataset"])
def test_what_is_lazy_and_no_array_is_no_tensor_and_no_matrix(kind):
    import dask.bag

    X = dask.bag.from_sequence([(0, 1, 2.0), (1, 0, 3.0)])
    if kind == "Dataset":  # as `xarray.open_zarr` gives it
        X = xr.Dataset({"counts": (("user", "item"), np.eye(4))}).chunk()
    for made in (model(), daskpart.MatrixFactorization(), daskpart.ImplicitFactorization()):
        with pytest.raises(InputError, match=f"cannot read a {kind}"):
            made.fit(X)


def test_a_warm_start_trains_on_another_tensor(tensor):
    """That the fit before had converged says nothing of it."""
    other = tensor.copy()
    other.data = other.data[::-1].copy()
    warm = model(warm_start=True, tol=0.5, max_iter=50).fit(tensor)
    done = warm.n_iter_
    assert warm.fit(tensor).n_iter_ == done < 50
    assert warm.fit(other).n_iter_ == done + 2  # the first fit to it is compared with nothing
    assert np.isnan(warm.history_["fit_change"].iloc[done])


def test_warm_start_goes_on(tensor):
    whole_fit = model(max_iter=8).fit(tensor)
    warm = model(warm_start=True).fit(tensor).fit(tensor)
    assert_same(whole_fit, warm)
    with pytest.raises(InputError, match="give a tensor of the same modes"):
        warm.fit(tensor[:5])


@pytest.mark.filterwarnings("ignore:ridge=.* outweighs")
@pytest.mark.parametrize("missing", ["zero", "unknown"])
def test_a_ridge_adds_the_squares_of_the_weights_to_what_falls(missing):
    dense = np.random.default_rng(0).random((9, 8, 7))
    dense[dense < 0.5] = 0
    found = []
    for n in range(1, 9):
        fitted = model(
            3, n_ranks=1, max_iter=n, tol=0, ridge=1.0, missing=missing, dtype="float64"
        ).fit(sparse.COO.from_numpy(dense))
        weights, factors = fitted.weights_.to_numpy(), [each.to_numpy() for each in fitted.factors_]
        off = (dense - np.einsum("ir,jr,kr,r->ijk", *factors, weights)) ** 2
        off = off if missing == "zero" else off[dense != 0]
        found.append(off.sum() + (weights**2).sum())
    assert (np.diff(found) < 1e-12).all() and found[-1] < found[0]


@pytest.mark.parametrize("suffix", [".npz", ".zarr"])
def test_resume_gives_the_bits_of_an_unbroken_fit(tensor, tmp_path, suffix):
    if suffix == ".zarr":
        pytest.importorskip("zarr")
    options = {"checkpoint_path": tmp_path / f"run{suffix}", "method": "auto"}
    expected = model(max_iter=6).fit(tensor)
    model(max_iter=3, **options).fit(tensor)
    resumed = model(max_iter=6, resume=True, **options).fit(tensor)
    assert_same(expected, resumed)
    assert resumed.method_ == expected.method_
    with pytest.raises(InputError, match="belongs to another fit"):
        model(ridge=0.1, resume=True, **options).fit(tensor)
    again = model(max_iter=6, resume=True, **options).fit(tensor)  # nothing is left to do
    np.testing.assert_array_equal(again.weights_, expected.weights_)


class InterruptAfter(EpochCallback):
    """Ctrl-C after so many iterations."""

    def __init__(self, epoch):
        self.epoch = epoch

    def epoch_done(self, row, snapshot):
        snapshot()
        if row["epoch"] == self.epoch:
            raise KeyboardInterrupt
        return False


def test_ctrl_c_keeps_a_whole_iteration(tensor, fitted):
    interrupted = model(max_iter=50).set_callbacks(InterruptAfter(4))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(tensor)
    assert_same(fitted, interrupted)


def test_divergence_keeps_the_last_good_state(tensor):
    wild = model(init=[np.full((n, 3), 1e160) for n in tensor.shape])
    with pytest.raises(DivergenceError, match="diverged"), np.errstate(all="ignore"):
        wild.fit(tensor)
    assert not hasattr(wild, "state_")


def test_score_aligns_by_name(tensor):
    """Modes and labels in another order are the same tensor; unknown ones are refused."""
    coords = {"user": [f"u{i}" for i in range(30)], "word": WORDS}
    named = xr.DataArray(tensor, dims=("user", "place", "word"), coords=coords)
    result = model().fit(named)
    random = np.random.default_rng(0)
    turned = named.isel(user=random.permutation(30), word=random.permutation(10))
    turned = turned.transpose("word", "user", "place")
    assert result.score(named) == pytest.approx(result.fit_, abs=1e-12)
    assert result.score(turned) == pytest.approx(result.fit_, abs=1e-12)
    few = named.isel(user=slice(3, 9))
    dense = whole(result.state_.factors, result.state_.weights)[3:9]
    there = few.data.todense()
    expected = 1 - np.linalg.norm(there - dense) / np.linalg.norm(there)
    assert result.score(few) == pytest.approx(expected, abs=1e-12)
    assert result.reconstruct(("u3", 4, "word6")) == result.reconstruct([("u3", 4, "word6")])[0]
    rows = result.transform(turned, mode="word").sel(word=WORDS)
    np.testing.assert_allclose(rows, result.transform(named, mode="word"), atol=1e-12)
    longer = xr.DataArray(  # a name that nothing is stored under may be unknown
        sparse.COO(tensor.coords, tensor.data, (31, *tensor.shape[1:])),
        dims=named.dims, coords={**coords, "user": [*coords["user"], "nobody"]},
    )  # fmt: skip
    found = result.transform(longer, mode="word").sel(word=WORDS)
    np.testing.assert_allclose(found, rows, atol=1e-12)
    for wrong, words in (
        (named.assign_coords(word=[f"other{i}" for i in range(10)]), "unknown to the model"),
        (named.rename(place="town"), "modes .*town"),
        (tensor[:7], "7 indices along user, the model 30"),
        (tensor[:, :, 0], "2 modes"),
    ):
        with pytest.raises(InputError, match=words):
            result.score(wrong)


@pytest.mark.parametrize("missing", ["zero", "unknown"])
def test_labels_are_positions_where_the_fit_had_none(missing):
    """A frame without the first indices is not moved to them."""
    X = sparse.random((6, 5, 4), density=0.9, random_state=0)
    fitted = model(2, n_ranks=1, missing=missing, ridge=1e-3).fit(X)
    lines = pd.DataFrame(X.coords.T, columns=["mode_0", "mode_1", "mode_2"]).assign(value=X.data)
    later = lines[lines["mode_0"] >= 2]
    there, state = later["value"].to_numpy(), fitted.state_
    found = whole(state.factors, state.weights)[tuple(later[[*state.dims]].to_numpy().T)]
    if missing == "unknown":
        expected = 1 - np.linalg.norm(there - found) / np.linalg.norm(there)
    else:
        error = X.todense()[2:] - whole(state.factors, state.weights)[2:]
        expected = 1 - np.linalg.norm(error) / np.linalg.norm(there)
    assert fitted.score(later) == pytest.approx(expected)
    np.testing.assert_allclose(fitted.transform(later), fitted.transform(X[2:]), atol=1e-6)
    with pytest.raises(InputError, match="1 mode_0 is unknown to the model: 6"):
        fitted.score(lines.assign(mode_0=lines["mode_0"] + 1))


def test_indices_may_be_read_off_the_factors(tensor):
    """As xarray gives them: arrays without a dimension."""
    labels = {"dim_0": [f"u{i}" for i in range(30)], "dim_2": WORDS}
    result = model().fit(xr.DataArray(tensor, coords=labels))
    rows, words = (result.factors_[dim][dim] for dim in ("dim_0", "dim_2"))
    expected = result.reconstruct([("u3", 4, "word6"), ("u5", 1, "word0")])
    found = result.reconstruct([(rows[3], 4, words[6]), (rows[5], 1, words[0])])
    np.testing.assert_array_equal(found, expected)
    assert result.predict((rows[3], 4, words[6])) == expected[0]


def test_a_dask_frame_lists_indices(fitted):
    import dask.dataframe

    frame = pd.DataFrame({"mode_2": [6, 0], "mode_0": [3, 5], "mode_1": [4, 1]})
    lazy = dask.dataframe.from_pandas(frame, npartitions=2)
    expected = fitted.reconstruct([(3, 4, 6), (5, 1, 0)])
    for found in (fitted.reconstruct(lazy), fitted.predict(lazy, unknown="nan")):
        np.testing.assert_array_equal(found, expected)


def test_reconstruct_one_index(tensor, fitted):
    dense = whole(fitted.state_.factors, fitted.state_.weights)
    assert fitted.reconstruct((3, 4, 6)) == pytest.approx(dense[3, 4, 6])
    with pytest.raises(InputError, match="does not name 3 indices"):
        fitted.reconstruct([3, 4, 6])
    with pytest.raises(InputError, match="does not name 3 indices"):
        fitted.reconstruct((3, 4))


@pytest.mark.parametrize("unknown", ["mean", "nan"])
def test_tuples_are_lists_of_indices(fitted, unknown):
    asked = [(3, 4, 6), (99, 4, 6)]
    expected = fitted.predict(asked, unknown=unknown)
    assert np.isnan(expected[1]) == (unknown == "nan")
    np.testing.assert_array_equal(fitted.predict(tuple(asked), unknown=unknown), expected)
    for each, value in zip(asked, expected, strict=True):
        found = fitted.predict(each, unknown=unknown)
        assert isinstance(found, float)
        np.testing.assert_equal(found, value)


def test_progress_is_shown(tensor, capsys):
    from daskpart.models import TrainingProgress

    model(max_iter=2).set_callbacks(TrainingProgress(force=True, delay=0)).fit(tensor)
    assert "2/2  fit 0.0" in capsys.readouterr().err


def test_transform_new_slices(exact):
    tensor, _ = exact
    options = {"max_iter": 100, "n_init": 4, "n_ranks": 1, "random_state": 1, "tol": 1e-9}
    result = model(**options).fit(tensor)
    new = sparse.COO.from_numpy(2 * tensor.todense()[:, :4])
    rows = result.transform(new, mode="mode_1")
    np.testing.assert_allclose(rows, 2 * result.factors_[1][:4], atol=1e-4)
    positive = model(nonnegative=True, **options).fit(tensor)
    rows = positive.transform(new, mode=1)
    np.testing.assert_allclose(rows, 2 * positive.factors_[1][:4], atol=1e-4)
    with pytest.raises(InputError, match="mode='there' is unknown"):
        result.transform(new, mode="there")


def test_dataset_round_trip(tensor, fitted):
    dataset = fitted.to_dataset()
    assert set(dataset) == {"weights", "factor_mode_0", "factor_mode_1", "factor_mode_2"}
    again = daskpart.CPDecomposition.from_dataset(dataset)
    assert again.n_components == 3 and again.fit_ == fitted.fit_
    assert again.score(tensor) == fitted.score(tensor)
    with pytest.raises(InputError, match="needs weights"):
        daskpart.CPDecomposition.from_dataset(dataset.drop_vars("weights"))


def test_a_dataset_names_what_is_a_row_of_a_factor():
    """Also where there are as many of them as components, so that no shape tells."""
    cube = sparse.random((3, 3, 3), nnz=20, random_state=0)
    fitted = model(n_ranks=1).fit(cube)
    turned = fitted.to_dataset().transpose("component", ...)
    again = daskpart.CPDecomposition.from_dataset(turned)
    assert_same_factors(fitted, again)


def test_save_and_load(fitted, tensor, tmp_path):
    fitted.save(tmp_path / "model")
    again = daskpart.CPDecomposition.load(tmp_path / "model")
    assert_same(fitted, again)
    assert again.get_params() == fitted.get_params()
    assert repr(again.comm_report_) == repr(fitted.comm_report_)
    assert again.n_iter_ == 4
    with pytest.raises(ReadError, match="holds a model of class CPDecomposition"):
        daskpart.MatrixFactorization.load(tmp_path / "model")


def test_sklearn_contract(fitted, tensor):
    copy = clone(fitted)
    assert not hasattr(copy, "state_") and copy.get_params() == fitted.get_params()
    assert_same(pickle.loads(pickle.dumps(fitted)), fitted)
    assert copy.set_params(n_components=2).fit(tensor).weights_.shape == (2,)


def test_a_damaged_checkpoint_is_passed_over(tensor, tmp_path):
    path = tmp_path / "run.npz"
    model(checkpoint_path=path).fit(tensor)
    writer = CheckpointWriter(path, CPState)
    writer.path_of(4).write_bytes(b"nonsense")
    with pytest.warns(DaskpartWarning, match="passed over"):
        assert writer.latest().epoch == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_components": 0}, "'n_components'.* Got 0"),
        ({"max_iter": 0}, "'max_iter'.* Got 0"),
        ({"tol": -1}, "'tol'.* Got -1"),
        ({"ridge": np.nan}, "'ridge'.* Got nan"),
        ({"method": "mail"}, "'method'.* Got 'mail'"),
        ({"n_ranks": 0}, "'n_ranks'.* Got 0"),
        ({"transport": "mail"}, "'transport'.* Got 'mail'"),
        ({"owners": "mine"}, "'owners'.* Got 'mine'"),
        ({"partitioner": "medium-grain", "n_ranks": 91}, "39 groups .* use 'fine-grain'"),
        ({"partitioner": "mine"}, "partitioner='mine' is unknown"),
        ({"dtype": "int8"}, "'dtype'.* Got 'int8'"),
        ({"memory": "none"}, "'memory'.* Got 'none'"),
        ({"init": "zero"}, "'init'.* Got 'zero'"),
        ({"init": [np.zeros((30, 2))]}, r"init\[0\] has shape \(30, 2\)"),
        ({"init": "nvecs", "n_init": 2}, "n_init=2 needs init='random'"),
        ({"resume": True}, "resume=True needs checkpoint_path"),
        ({"n_init": 2, "checkpoint_path": "run.npz"}, "n_init=2 begins several times"),
        ({"alpha_beta": (-1, 0)}, "alpha_beta is -1"),
        ({"alpha_beta": (0, "a")}, "alpha_beta is 'a'"),
        ({"alpha_beta": (0,)}, "alpha_beta=.* must be two"),
    ],
)
def test_bad_parameters(tensor, changes, words):
    with pytest.raises(InputError, match=words):
        model(**changes).fit(tensor)


@pytest.mark.parametrize("factors", [[30, 20], [3, 3, 3], [30, 20, 9]])
def test_a_start_of_another_shape_is_told_before_the_tensor_is_cut(tensor, factors, monkeypatch):
    monkeypatch.setattr(daskpart.CPDecomposition, "_make_plan", None)
    with pytest.raises(InputError, match=r"init has .* need one each, of \[30, 20, 10\]"):
        model(init=[np.zeros((extent, 3)) for extent in factors]).fit(tensor)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (sparse.COO([[0, 1]], [1.0, 2.0], shape=(3,)), "two modes or more"),
        (sparse.zeros((3, 3)), "stores no value but zeros"),
        (sparse.COO([[0, 1], [2, 0]], [1.0, np.nan], shape=(3, 3)), "mode_0 1, mode_1 0"),
        (np.ones((3, 3)), "dense array"),
    ],
)
def test_bad_tensors(X, words):
    with pytest.raises(InputError, match=words):
        model().fit(X)


def test_bad_lazy_tensors(tensor, monkeypatch):
    import dask.array as da

    with pytest.raises(InputError, match="dense chunks"):
        model().fit(da.ones((4, 4), chunks=2))
    with monkeypatch.context() as uncut:
        uncut.setattr(daskpart.CPDecomposition, "_make_plan", None)
        with pytest.raises(InputError, match="needs the tensor in memory"):
            model(init="nvecs").fit(da.from_array(tensor, chunks=10))
    hole = sparse.COO([[0, 1], [2, 0]], [1.0, np.inf], shape=(3, 3))
    with pytest.raises(InputError, match="mode_0 1, mode_1 0"):
        model().fit(da.from_array(hole, chunks=1))
    with pytest.raises(InputError, match="stores a nonzero"):
        model().fit(da.from_array(sparse.zeros((4, 4)), chunks=2))


def test_one_imbalance_is_told_of_one_plan():
    """Both methods are cut for, one is taken: what the other could not reach is nobody's matter."""
    random = np.random.default_rng(0)
    places = np.array([random.zipf(1.2, 400) % extent for extent in (6, 5, 4)])
    skewed = sparse.COO(places, np.ones(400), shape=(6, 5, 4))
    with pytest.warns(daskpart.errors.BalanceWarning) as told:
        chosen = model(n_ranks=4, partitioner={"epsilon": 0.03}, method="auto").plan(skewed)
    assert len(told) == 1
    assert f"imbalance {chosen.report().imbalance:.4g} " in str(told[0].message)


def test_a_decomposition_into_nothing_says_so(tensor):
    with pytest.warns(DaskpartWarning, match="all components are 0, and so is the fit"):
        fitted = model(nonnegative=True).fit(-tensor)
    assert fitted.fit_ == 0


def test_values_whose_squares_vanish_are_refused():
    """Their norm is 0, and a fit relative to it no number."""
    X = sparse.random((5, 5, 5), nnz=30, random_state=0) * 1e-200
    with pytest.raises(InputError, match="the values are too small"):
        daskpart.CPDecomposition(2, n_ranks=2, transport="local").fit(X)


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"loss": "poisson"}])
def test_given_factors_are_told_by_their_names(tensor, options):
    """As those of another fit, of the same indices in another order."""
    named = xr.DataArray(tensor, dims=("day", "user", "word"), coords={"word": WORDS})
    first = model(**options).fit(named)
    order = np.random.default_rng(0).permutation(10)
    factors = [each * first.weights_ ** (1 / 3) for each in first.factors_]
    begin = [factors[2][order], factors[0], factors[1]]
    turned = model(init=begin, **options, max_iter=1).fit(named)
    same = model(init=[each.to_numpy() for each in factors], **options, max_iter=1).fit(named)
    assert_same_factors(turned, same)
    with pytest.raises(InputError, match="the factor of word in init has no row for 'word"):
        model(init=[*factors[:2], factors[2][:9].assign_coords(word=WORDS[:9])]).fit(named)
    if options:
        with pytest.raises(InputError, match=r"init\[1\] holds negative values"):
            model(init=[begin[0], -begin[1], begin[2]], **options).fit(tensor)
    with pytest.raises(InputError, match=r"init\[0\] hold 1 masked"):
        model(init=[np.ma.masked_equal([[1.0, 2.0, 3.0]], 2)] * 3).fit(tensor)


@pytest.mark.parametrize("missing", ["zero", "unknown"])
def test_nonnegative_rows_of_new_slices_are_exact(missing):
    """Components that are much alike took coordinate descent more sweeps than it did."""
    random = np.random.default_rng(0)
    new = sparse.random((4, 25, 20), density=0.3, random_state=0)
    fitted = model(16, nonnegative=True, missing=missing, max_iter=1).fit(new)
    factors = [random.random((n, 1)) + 0.3 * random.random((n, 16)) for n in new.shape]
    fitted.state_.factors[:] = factors
    rows = fitted.transform(new).values * np.where(fitted.weights_ > 0, fitted.weights_, 1)
    products = np.einsum("jr,kr->jkr", *factors[1:])
    for row, own in zip(rows, new.todense(), strict=True):
        there = own != 0 if missing == "unknown" else np.ones_like(own, bool)
        best, _ = nnls(products[there], own[there])
        np.testing.assert_allclose(row, best, atol=1e-7)
