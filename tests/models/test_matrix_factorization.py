"""The estimator as a user meets it: containers, options, resume, interruption, bad input."""

from __future__ import annotations

import concurrent.futures
import pickle
from types import SimpleNamespace

import dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sparse
from fit_tools import At, assert_same, interrupt
from sklearn.base import clone

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.data_models import build
from daskpart.errors import DaskpartWarning, DivergenceError, InputError
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.base.state import same_bits
from daskpart.models.matrix_factorization.state import MFState

FAST = {"n_ranks": 3, "max_iter": 3, "partitioner": "random", "transport": "local"}


def model(n_components=4, **changes):
    return daskpart.MatrixFactorization(n_components, **(FAST | changes))


@pytest.fixture(scope="module")
def triples(ratings):
    return as_matrix(ratings)


def factors_of(fitted):
    return fitted.state_.user_factors, fitted.state_.item_factors


def test_every_container_gives_the_same_factors(ratings, triples):
    import dask.array as da

    coo = triples.to_coo()
    csr = triples.to_scipy()
    expected = model().fit(ratings)
    for X in (
        csr,
        scipy.sparse.csc_array(csr),
        scipy.sparse.coo_matrix(csr),
        coo,
        sparse.GCXS.from_coo(coo),
        triples.to_frame(),
        da.from_array(coo, chunks=(30, 50)),
        da.from_array(coo, chunks=(30, 20)),
    ):
        assert_same(expected, model().fit(X))


def test_tables_of_ratings_as_people_have_them(triples):
    """Names in another order, other names, a column of times: the same in fit, score, predict."""
    frame = triples.to_frame().set_axis(["userId", "movieId", "rating"], axis=1)
    timed = frame.assign(timestamp=range(len(frame)))
    expected = model().fit(frame)
    for table in (timed, timed[["timestamp", "rating", "movieId", "userId"]]):
        fitted = model().fit(table)
        assert_same(expected, fitted)
        assert fitted.score(table) == expected.score(frame)
        np.testing.assert_array_equal(fitted.predict(table), expected.predict(frame))
    with pytest.raises(InputError, match="Rename, select, or say which"):
        model().fit(frame.set_axis(["someone", "rating", "something"], axis=1))


def test_unlabelled_rows_and_columns_must_be_those_of_the_fit(triples):
    csr = triples.to_scipy()
    fitted = model().fit(csr)
    with pytest.raises(InputError, match="30 columns without labels, the model knows 50"):
        fitted.transform(csr[:5, :30])
    with pytest.warns(DaskpartWarning, match="20 unlabelled rows for a model of 80"):
        fitted.score(csr[:20])


def test_explicit_zeros_are_ratings_and_absent_entries_are_not():
    X = scipy.sparse.coo_array(
        (np.array([0.0, 4.0, 4.0]), (np.array([0, 1, 2]), np.array([0, 1, 1]))), shape=(3, 2)
    )
    fitted = model(n_ranks=1, max_iter=1).fit(X)
    assert fitted.global_mean_ == pytest.approx(8 / 3)


def test_history_and_reports(ratings):
    fitted = model(eta=2, validation_fraction=0.2).fit(ratings)
    history = fitted.history_
    assert history["epoch"].tolist() == [1, 2, 3]
    assert history["train_rmse"].is_monotonic_decreasing
    assert (history["validation_rmse"] < 2).all()
    assert (history["volume"] == fitted.plan_report_.volume).all()
    assert (history["staleness"] == fitted.plan_report_.staleness).all()
    assert fitted.comm_report_.matches
    assert fitted.comm_report_.transport == "local"
    assert fitted.comm_report_.traffic.sum() == fitted.plan_report_.volume
    assert fitted.n_iter_ == 3
    report = model(eta=2).plan(ratings).report()
    assert report.lambda_max <= 3


def test_validation_rmse_is_the_score(ratings, triples):
    fitted = model(max_iter=2).fit(ratings, validation=ratings)
    expected = fitted.history_["validation_rmse"].iloc[-1]
    assert fitted.score(ratings) == pytest.approx(-expected, rel=1e-6)


def test_a_partition_of_columns_goes_with_their_axis(triples):
    """Also of a square matrix, where its length does not tell."""
    square = as_matrix(triples).to_scipy()[:30, :30]
    parts = daskpart.partition(square, 3, model="row-net", random_state=0)
    fitted = model(axis="columns", n_ranks=3, partitioner=parts).fit(square)
    np.testing.assert_array_equal(fitted.partition_.assignment, parts.assignment)
    of_rows = daskpart.partition(square.T.tocsr(), 3, model="column-net", random_state=0)
    same = model(axis="columns", n_ranks=3, partitioner=of_rows).fit(square)
    np.testing.assert_array_equal(same.state_.item_factors, fitted.state_.item_factors)
    with pytest.raises(InputError, match='give axis="columns"'):
        model(n_ranks=3, partitioner=parts).fit(square)


@pytest.mark.parametrize(("axis", "name"), [("rows", "column-net"), ("columns", "row-net")])
def test_the_partition_of_a_fit_is_one_of_its_ratings(triples, axis, name):
    """By columns it was one of the rows of the transposed ratings, and taken for one of theirs."""
    square = as_matrix(triples).to_scipy()[:30, :30]
    fitted = model(axis=axis, n_ranks=3, partitioner="connectivity").fit(square)
    parts, found = fitted.partition_, fitted.connectivity_
    assert parts.info["model"] == name and tuple(parts.info["shape"]) == square.shape
    hypergraph = build(square, parts.info["model"]).hypergraph
    volume = Connectivity.from_partition(hypergraph, parts).connectivity_minus_one()
    assert volume == found.connectivity_minus_one()
    again = model(axis=axis, n_ranks=3, partitioner=parts).fit(square)
    np.testing.assert_array_equal(again.state_.item_factors, fitted.state_.item_factors)
    wide = as_matrix(triples).to_scipy()[:30, :20]
    assert tuple(model(axis=axis, n_ranks=3).plan(wide).partition.info["shape"]) == (30, 20)


def test_columns_are_the_dual_of_rows(ratings, triples):
    by_columns = model(axis="columns").fit(ratings)
    by_rows = model(axis="rows").fit(triples.transposed().to_scipy())
    np.testing.assert_array_equal(by_columns.state_.user_factors, by_rows.state_.item_factors)
    np.testing.assert_array_equal(by_columns.state_.item_factors, by_rows.state_.user_factors)
    np.testing.assert_array_equal(by_columns.state_.user_bias, by_rows.state_.item_bias)
    assert by_columns.plan_report_.axis == "columns"


def test_auto_axis_leaves_out_one_that_is_too_short_for_the_ranks():
    wide = scipy.sparse.random_array((5, 40), density=0.5, rng=np.random.default_rng(0))
    assert model(axis="auto", n_ranks=8).fit(wide).plan_report_.axis == "columns"
    assert model(axis="auto", n_ranks=8).fit(wide.T).plan_report_.axis == "rows"
    with pytest.raises(InputError, match="41 ranks need as many rows"):
        model(axis="auto", n_ranks=41).fit(wide)


def test_auto_axis_moves_fewer_rows(ratings):
    volume = {
        axis: model(eta=2, axis=axis).plan(ratings).report().volume
        for axis in ("rows", "columns", "auto")
    }
    assert volume["auto"] == min(volume["rows"], volume["columns"])


@pytest.mark.parametrize("rate", ["adagrad", "constant", "decay", "bold-driver"])
@pytest.mark.parametrize("biases", [True, False])
def test_every_learning_rate_learns(ratings, rate, biases):
    history = model(learning_rate=rate, biases=biases, max_iter=8).fit(ratings).history_
    assert history["train_rmse"].iloc[-1] < 0.97 * history["train_rmse"].iloc[0]
    rates = history["learning_rate"]
    assert (rates.nunique() == 1) == (rate in ("adagrad", "constant"))


def test_averaging_by_ratings_differs_where_copies_are_stale(ratings):
    mean, weighted = (model(eta=1, averaging=kind).fit(ratings) for kind in ("mean", "ratings"))
    assert (mean.state_.item_factors != weighted.state_.item_factors).any()


def test_a_given_partition_is_used(ratings):
    parts = daskpart.partition(ratings, 3, method="block")
    fitted = model(partitioner=parts).fit(ratings)
    assert fitted.partition_ == parts
    assert_same(fitted, model(partitioner="block").fit(ratings))


@pytest.mark.parametrize("suffix", ["npz", "zarr"])
def test_resume_gives_the_bits_of_an_unbroken_fit(ratings, tmp_path, suffix):
    if suffix == "zarr":
        pytest.importorskip("zarr")
    options = {
        "eta": 2,
        "learning_rate": "bold-driver",
        "checkpoint_path": tmp_path / f"r.{suffix}",
    }
    unbroken = model(eta=2, learning_rate="bold-driver", max_iter=6).fit(ratings)
    model(max_iter=4, **options).fit(ratings)
    resumed = model(max_iter=6, resume=True, **options).fit(ratings)
    assert_same(unbroken, resumed)
    assert resumed.history_["epoch"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(unbroken.history_["train_rmse"], resumed.history_["train_rmse"])


def test_a_part_for_each_row_is_a_partition(ratings):
    parts = daskpart.partition(ratings, 3, method="block")
    assert_same(
        model(partitioner=parts).fit(ratings), model(partitioner=parts.assignment).fit(ratings)
    )


def test_the_arguments_of_partition_are_a_partitioner(ratings):
    named = model(partitioner="power").fit(ratings)
    given = model(partitioner={"objective": "power", "rho": 2, "epsilon": 0.03}).fit(ratings)
    assert_same(named, given)
    other = model(partitioner={"objective": "power", "rho": 2, "epsilon": 0.5}).fit(ratings)
    assert other.partition_ != named.partition_


def test_resume_refuses_another_fit(ratings, tmp_path):
    path = tmp_path / "run.npz"
    model(checkpoint_path=path).fit(ratings)
    with pytest.raises(InputError, match=r"regularization: 0\.05 there, 0\.1 now"):
        model(checkpoint_path=path, resume=True, regularization=0.1).fit(ratings)


def test_partial_fit_goes_on(ratings):
    whole = model().fit(ratings)
    stepwise = model()
    for _ in range(3):
        stepwise.partial_fit(ratings)
    assert_same(whole, stepwise)
    assert stepwise.n_iter_ == 3


def test_verbose_writes_lines_where_there_is_no_terminal(ratings, capfd, monkeypatch):
    from daskpart.models import TrainingProgress

    monkeypatch.setitem(TrainingProgress.__init__.__kwdefaults__, "delay", 0.0)
    model(verbose=1, max_iter=2).fit(ratings)
    assert "epoch 2/2  train RMSE" in capfd.readouterr().err


def test_a_client_that_a_fit_cannot_use_is_refused(ratings):
    with pytest.raises(InputError, match="this waits for its ranks: run it in a thread"):
        model(transport="auto").fit(ratings, client=SimpleNamespace(asynchronous=True))
    with pytest.raises(InputError, match="the client is closed"):
        model(transport="auto").fit(ratings, client=SimpleNamespace(status="closed"))
    with pytest.raises(InputError, match=r"client is a str: give a distributed.Client; of an add"):
        model(transport="auto").fit(ratings, client="tcp://127.0.0.1:8786")


def test_early_stopping(ratings):
    fitted = model(max_iter=60, validation_fraction=0.3, patience=2, regularization=0.0).fit(
        ratings
    )
    rmse = fitted.history_["validation_rmse"]
    assert len(rmse) < 60
    assert len(rmse) - 1 - rmse.argmin() == 2


def test_interruption_keeps_the_last_whole_epoch(ratings, tmp_path):
    interrupted = model(max_iter=9, checkpoint_path=tmp_path / "run.npz")
    interrupted.set_callbacks(At(2, interrupt))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(ratings)
    assert interrupted.n_iter_ == 2
    assert_same(interrupted, model(max_iter=2).fit(ratings))
    saved = CheckpointWriter(tmp_path / "run.npz", MFState).latest()
    assert saved is not None
    assert saved.epoch in (1, 2)


def test_interruption_in_the_middle_of_an_epoch(ratings, monkeypatch):
    """Rows half updated in place are not what is kept."""
    from daskpart.models.matrix_factorization import pasgd

    calls = {"n": 0}
    original = pasgd.apply_ratings

    def interrupt(*arguments, **options):
        calls["n"] += 1
        if calls["n"] > 3 * 3 + 4:  # 3 ranks × 3 sub-epochs, then into the second epoch
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(pasgd, "apply_ratings", interrupt)
    monkeypatch.setattr("daskpart.collectives.transports.local.n_cores", lambda: 1)
    broken = model(max_iter=5)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(ratings)
    monkeypatch.undo()
    assert_same(broken, model(max_iter=1).fit(ratings))


def test_divergence_names_epoch_and_rate(ratings):
    diverging = model(learning_rate="constant", initial_learning_rate=20.0)
    with pytest.raises(DivergenceError, match=r"diverged in epoch \d+.*learning rate 20"):
        diverging.fit(ratings)
    if hasattr(diverging, "state_"):
        assert diverging.state_.is_finite()


def test_divergence_in_the_first_epoch_promises_no_state(ratings):
    diverging = model(learning_rate="constant", initial_learning_rate=1e6)
    with pytest.raises(DivergenceError, match=r"in epoch 1: .* No state is kept"):
        diverging.fit(ratings)
    assert not hasattr(diverging, "state_")


def test_divergence_from_first_factors_that_are_too_large_names_them(ratings):
    with pytest.raises(DivergenceError, match=r"from init_scale=1e\+25\. Lower that, or the"):
        model(init_scale=1e25).fit(ratings)


def test_divergence_keeps_the_last_finite_factors(ratings):
    going = model(max_iter=2).fit(ratings)
    kept = going.state_
    going.set_params(learning_rate="constant", initial_learning_rate=50.0)
    with pytest.raises(DivergenceError):
        for _ in range(20):
            kept = going.state_
            going.partial_fit(ratings)
    assert same_bits(going.state_, kept)
    assert kept.is_finite()


def test_clone_pickle_and_parameters(ratings):
    estimator = model(eta=2)
    assert clone(estimator).get_params() == estimator.get_params()
    fitted = estimator.fit(ratings)
    again = pickle.loads(pickle.dumps(fitted))
    assert_same(fitted, again)
    np.testing.assert_array_equal(
        again.predict(ratings).data.data, fitted.predict(ratings).data.data
    )


def test_a_seed_fixes_everything(ratings):
    assert_same(model().fit(ratings), model().fit(ratings))
    other = model(random_state=1).fit(ratings)
    assert (other.state_.user_factors != model().fit(ratings).state_.user_factors).any()


def test_users_and_items_without_ratings_stay_at_the_mean():
    X = scipy.sparse.coo_array(
        (np.array([3.0, 5.0, 4.0]), (np.array([0, 1, 3]), np.array([0, 2, 2]))), shape=(5, 4)
    )
    fitted = model(n_ranks=2).fit(X)
    assert fitted.predict([(4, 3)])[0] == pytest.approx(fitted.global_mean_)
    assert not fitted.state_.user_factors[[2, 4]].any()
    assert not fitted.state_.item_factors[[1, 3]].any()


def test_eta_beyond_k_is_clipped_with_a_warning(ratings):
    with pytest.warns(DaskpartWarning, match="eta=9 is more than n_ranks=3"):
        clipped = model(eta=9).fit(ratings)
    assert_same(clipped, model(eta=3).fit(ratings))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_components": 0}, "'n_components'.* Got 0"),
        ({"n_components": 2.5}, "'n_components'.* Got 2.5"),
        ({"n_ranks": 0}, "'n_ranks'.* Got 0"),
        ({"eta": 0}, "'eta'.* Got 0"),
        ({"max_iter": 0}, "'max_iter'.* Got 0"),
        ({"learning_rate": "fast"}, "'learning_rate'.* among .*'adagrad'.* Got 'fast'"),
        ({"initial_learning_rate": -1.0}, "'initial_learning_rate'.* Got -1.0"),
        ({"initial_learning_rate": float("nan")}, "'initial_learning_rate'.* Got nan"),
        ({"regularization": -0.1}, "'regularization'.* Got -0.1"),
        ({"partitioner": "best"}, "partitioner='best' is unknown; choose one of 'auto', 'power'"),
        ({"partitioner": np.ones(80)}, "neither a name nor a dict"),
        ({"partitioner": np.arange(80)}, "names ranks 0 to 79; there are 0 to 2"),
        ({"partitioner": np.arange(7) % 3}, "shape .7,.; there are 80 rows"),
        ({"axis": "both"}, "'axis'.* Got 'both'"),
        ({"averaging": "max"}, "'averaging'.* Got 'max'"),
        ({"transport": "carrier pigeon"}, "'transport'.* Got 'carrier pigeon'"),
        ({"validation_fraction": 1.0}, "'validation_fraction'.* Got 1.0"),
        ({"random_state": "drawn"}, "'random_state'.* Got 'drawn'"),
        ({"patience": 3}, "patience needs validation"),
        ({"resume": True}, "resume=True needs checkpoint_path"),
        ({"n_ranks": 81}, "81 ranks need as many rows .*: take fewer ranks"),
    ],
)
def test_bad_parameters(ratings, changes, message):
    n_components = changes.pop("n_components", 4)
    with pytest.raises(InputError, match=message):
        model(n_components, **changes).fit(ratings)


def test_bad_ratings(ratings):
    holes = scipy.sparse.coo_array((np.array([1.0, np.nan]), ([0, 1], [1, 0])), shape=(2, 2))
    with pytest.raises(InputError, match=r"1 .*(NaN|not finite|finite)"):
        model(n_ranks=1).fit(holes)
    infinite = scipy.sparse.coo_array((np.array([1.0, np.inf]), ([0, 1], [1, 0])), shape=(2, 2))
    with pytest.raises(InputError, match=r"inf|finite"):
        model(n_ranks=1).fit(infinite)
    with pytest.raises(InputError, match=r"ratings|entries|empty"):
        model(n_ranks=1).fit(scipy.sparse.coo_array((3, 3)))
    with pytest.raises(InputError):
        model(n_ranks=1).fit(np.ones((3, 3)))
    with pytest.raises(InputError, match=r"cannot read a Delayed.*; give its compute\(\)"):
        model(n_ranks=1).fit(dask.delayed(ratings))
    with pytest.raises(InputError, match=r"cannot read a Future.*; give its result\(\)"):
        model(n_ranks=1).fit(concurrent.futures.Future())


def test_a_rank_without_rows(ratings):
    parts = daskpart.Partition(np.zeros(80, np.int32), 3, np.ones(80, np.int64), {})
    with pytest.raises(InputError, match="2 of 3 ranks have no rows"):
        model(partitioner=parts).fit(ratings)


def test_a_partition_that_does_not_fit(ratings):
    wrong_count = daskpart.partition(ratings, 2, method="block")
    with pytest.raises(InputError, match="the partition has 2 parts, n_ranks is 3"):
        model(partitioner=wrong_count).fit(ratings)
    wrong_length = daskpart.Partition(np.arange(9, dtype=np.int32) % 3, 3, np.ones(9, np.int64), {})
    with pytest.raises(InputError, match="9"):
        model(partitioner=wrong_length).fit(ratings)


def test_unknown_users_and_items_in_predict(ratings):
    fitted = model().fit(ratings)
    with pytest.raises(InputError, match="999"):
        fitted.predict([(999, 1)])
    with pytest.raises(InputError, match="-5"):
        fitted.predict([(1, -5)])


def test_validation_with_unknown_items(ratings):
    stranger = pd.DataFrame({"user": [0], "item": [10_000], "rating": [3.0]})
    with pytest.raises(InputError, match=r"10000|10,000"):
        model().fit(ratings, validation=stranger)


def test_recommended_scores_are_what_is_predicted(triples):
    frame = triples.to_frame()
    fitted = model(clip=(-0.1, 0.1), max_iter=10).fit(frame)
    free = clone(fitted).set_params(clip=False).fit(frame)
    tables = {
        "recommend": lambda of: of.recommend([3, 4], n=5),
        "recommend_new": lambda of: of.recommend_new(frame[frame["user"] < 5], n=5),
        "recommend_all": lambda of: of.recommend_all(5).compute(),
    }
    for table in tables.values():
        clipped, whole = table(fitted), table(free)
        assert clipped["item"].tolist() == whole["item"].tolist()  # ranked before
        assert (clipped["score"].to_numpy() == whole["score"].clip(-0.1, 0.1).to_numpy()).all()
        assert (whole["score"] > 0.1).any()
    given = fitted.recommend([3, 4], n=5)
    np.testing.assert_allclose(fitted.predict(given[["user", "item"]]), given["score"], rtol=1e-5)


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_of_numpy_is_a_flag(ratings, flag):
    pairs = [(user, item) for user in range(5) for item in range(5)]
    one, other = (
        model(clip=clip, validation_fraction=0.2).fit(ratings) for clip in (flag, np.bool_(flag))
    )
    np.testing.assert_array_equal(one.predict(pairs), other.predict(pairs))
    assert one.history_["validation_rmse"].equals(other.history_["validation_rmse"])
    if not flag:
        model(loss="bpr", clip=np.bool_(flag), max_iter=1).fit(ratings)


@pytest.mark.parametrize("kind", [daskpart.MatrixFactorization, daskpart.ImplicitFactorization])
def test_ranks_that_nobody_asked_for_are_no_more_than_users(kind, monkeypatch):
    monkeypatch.setattr(kind, "_default_ranks", lambda self, client: 8)
    model = kind(2, max_iter=2, transport="local").fit([("ann", "tea", 3.0), ("ann", "jam", 1.0)])
    assert model.partition_.n_parts == 1
