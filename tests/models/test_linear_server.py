"""L1 logistic regression on the parameter server: liblinear's optimum, for any delay."""

from __future__ import annotations

import gzip
import io
import math
import re

import dask.array
import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression as Reference

import daskpart
from daskpart.collectives import ParameterServer
from daskpart.errors import InputError
from daskpart.models.linear import delayed_blocks
from daskpart.models.linear.delayed_blocks import DelayedBlocks, set_up, update_rule
from daskpart.models.samples.rows import rank_rows
from daskpart.readers import survey
from daskpart.readers.libsvm import Rows

C = 0.5
SERVER = {"C": C, "l1_ratio": 1.0, "solver": "server", "transport": "local", "tol": 0.0}


def examples(n_samples: int = 300, n_features: int = 60) -> tuple:
    """Sparse samples of four topics, each with words of its own and some for all."""
    random = np.random.default_rng(1)
    topic = random.integers(0, 4, n_samples)
    own = random.random((n_samples, n_features)) < 0.25
    own &= (np.arange(n_features) % 4 == topic[:, None]) | (np.arange(n_features) < 12)
    X = np.where(own, random.normal(size=own.shape), 0)
    truth = np.where(random.random(n_features) < 0.4, random.normal(size=n_features) * 2, 0)
    y = random.random(n_samples) < 1 / (1 + np.exp(-X @ truth))
    return scipy.sparse.csr_array(X), np.where(y, 1.0, -1.0)


@pytest.fixture(scope="module")
def samples() -> tuple:
    return examples()


def objective(X, y, weights, intercept=0.0) -> float:
    strength = 1 / (C * len(y))
    loss = np.logaddexp(0, -y * (X @ weights + intercept)).mean()
    return float(loss + strength * np.abs(weights).sum())


@pytest.fixture(scope="module")
def optimum(samples) -> np.ndarray:
    X, y = samples
    # Its order is random: with tol=1e-9 some orders stall for thousands of passes at rounding.
    model = Reference(l1_ratio=1, solver="liblinear", C=C, fit_intercept=False, tol=1e-8,
                      random_state=0)  # fmt: skip
    return model.fit(X, y).coef_[0]


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize(
    "options",
    [{"solver": "server", "l1_ratio": 1.0, "C": 0.1}, {"solver": "lbfgs"},
     {"solver": "sgd", "aggregation": "server"}, {"solver": "sgd", "partitioner": "connectivity"}],
)  # fmt: skip
def test_samples_without_any_entry_have_their_intercept(options, n_ranks, tmp_path):
    y = np.repeat([0, 1, 1], 6)
    path = tmp_path / "labels.svm"
    path.write_text("".join(f"{label}\n" for label in y))
    model = daskpart.LogisticRegression(
        **options, n_ranks=n_ranks, transport="local", max_iter=300, tol=1e-9
    )
    taken = [(scipy.sparse.csr_array((18, 4)), y)]
    if "partitioner" not in options:  # connectivity takes no file
        taken.append((survey(path, n_features=4), None))
    for X, targets in taken:
        model.fit(X, targets)
        assert not model.coef_.any()
        np.testing.assert_allclose(model.intercept_, np.log(2), rtol=1e-3)


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.parametrize(
    ("n_ranks", "delay", "max_iter"),
    [(1, 0, 40), (3, 0, 40), (3, 1, 60), (3, 4, 90), (3, math.inf, 90)],
)
def test_the_optimum_of_liblinear(samples, optimum, delay, n_ranks, max_iter):
    X, y = samples
    model = daskpart.LogisticRegression(
        **SERVER, delay=delay, fit_intercept=False, n_ranks=n_ranks, max_iter=max_iter, n_blocks=6
    ).fit(X, y)
    best = objective(X, y, optimum)
    assert best <= objective(X, y, model.coef_[0]) < best * (1 + 1e-3)
    assert model.history_["loss"].iloc[-1] == pytest.approx(best, rel=2e-3)
    np.testing.assert_allclose(model.coef_[0], optimum, atol=0.1)
    assert ((model.coef_[0] == 0) == (optimum == 0)).mean() > 0.9
    assert model.intercept_[0] == 0


def bytes_of(solver: delayed_blocks.RankSolver) -> int:
    arrays = [solver.hot, solver.weight, solver.scores]
    for block in solver.blocks:
        arrays += [block.ids, block.scale, block.share, block.weights, block.pushed]
        arrays += [array for piece in block.pieces for array in piece.entries]
    return sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("delay", [1, 4])
def test_it_converges_in_the_worst_order_of_calls(samples, optimum, delay):
    X, y = samples
    l1 = 1 / (C * len(y))
    members = [np.arange(rank, len(y), 4) for rank in range(4)]
    rows = [rank_rows(rank, X[own], y[own], np.ones(len(own))) for rank, own in enumerate(members)]
    fit = DelayedBlocks(len(y), X.shape[1], 1, False, False, 6, delay, l1, 0.0)
    with ParameterServer(
        X.shape[1] + 1, n_ranks=4, row_length=2, update=update_rule(l1, delay), delay=delay,
        transport="local", schedule="stalest",
    ) as server:  # fmt: skip
        comm = server.communicator
        solvers, scale, _ = comm.run(set_up, comm.values(rows), fit=fit)
        n_bytes = comm.fold(comm.map(bytes_of, solvers), list).result()
        held = server.hold(solvers)
        assert server.run(delayed_blocks.begin, held) == n_bytes
        for _ in range(90):
            server.run(delayed_blocks.epoch, held)
        assert server.report.max_staleness == delay
        weights = (server.values()[:, 0] / scale)[:-1]
    best = objective(X, y, optimum)
    assert objective(X, y, weights) < best * (1 + 1e-3)


def test_an_intercept_and_an_l2_penalty_are_those_of_lbfgs(samples):
    X, y = samples
    shared = {"C": 2.0, "tol": 0.0, "transport": "local", "n_ranks": 1}
    exact = daskpart.LogisticRegression(**shared | {"tol": 1e-8}, max_iter=500).fit(X, y)
    model = daskpart.LogisticRegression(**shared, solver="server", max_iter=40, n_blocks=61)
    model.fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=5e-3)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=5e-3)
    weight = np.where(y > 0, 2.0, 0.5)
    exact.fit(X, y, sample_weight=weight)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=3e-2)
    for each in (exact, model):  # a step of the loss alone would overshoot
        each.set_params(C=1e-3, max_iter=20).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-4)


def test_any_number_of_ranks_does_the_same_synchronous_steps(samples):
    X, y = samples
    fits = [
        daskpart.LogisticRegression(**SERVER, n_ranks=n_ranks, max_iter=5).fit(X, y)
        for n_ranks in (1, 2, 3, 4, 5, 8)
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, rtol=1e-9, atol=1e-12)


def test_a_resumed_fit_has_the_bits_of_an_unbroken_one(samples, tmp_path):
    X, y = samples
    kept = {"checkpoint_path": tmp_path / "run.npz", "n_ranks": 3}
    whole = daskpart.LogisticRegression(**SERVER, n_ranks=3, max_iter=8).fit(X, y)
    daskpart.LogisticRegression(**SERVER, **kept, max_iter=3).fit(X, y)
    resumed = daskpart.LogisticRegression(**SERVER, **kept, max_iter=8, resume=True).fit(X, y)
    assert_same(resumed, whole)
    assert resumed.n_iter_ == 8


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_a_warm_start_takes_features_along_that_new_samples_do_not_have(samples, delay, l1_ratio):
    """At the optimum of those their weights are 0; without a penalty any weights are optimal."""
    X, y = samples
    model = daskpart.LogisticRegression(
        **SERVER | {"l1_ratio": l1_ratio, "delay": delay}, n_ranks=2, max_iter=20, warm_start=True
    ).fit(X, y)
    gone = np.arange(X.shape[1]) < 30
    before = model.coef_[0, gone]
    assert before.any()
    some = X @ scipy.sparse.diags_array((~gone).astype(float))
    for C_, expected in ((math.inf, before), (C, np.zeros(30))):
        model.set_params(C=C_).fit(some, y)
        np.testing.assert_allclose(model.coef_[0, gone], expected, rtol=1e-12)
    assert model.coef_[0, ~gone].any()


def test_the_tolerance_ends_a_fit(samples):
    X, y = samples
    model = daskpart.LogisticRegression(**SERVER | {"tol": 1e-3}, n_ranks=2, max_iter=500)
    assert model.fit(X, y).n_iter_ < 60
    assert abs(model.history_["change"].iloc[-1]) < 1e-3


def test_traffic_is_that_of_the_placement(samples):
    """Each coordinate of each rank goes once each way an epoch, unless its shard is beside it."""
    X, y = samples
    n_ranks = 4
    for partitioner in ("parsa", "random"):
        model = daskpart.LogisticRegression(
            **SERVER, n_ranks=n_ranks, partitioner=partitioner, fit_intercept=False, max_iter=2
        )
        plan = model.plan(X, y)
        model.fit(X, y, plan=plan)
        with ParameterServer(X.shape[1] + 1, n_ranks=n_ranks, transport="local") as server:
            owner = server.placement if plan.shards is None else plan.shards
        remote = sum(
            int((owner[np.unique(X[own].indices)] != rank).sum())
            for rank, own in enumerate(plan.members)
        )
        assert model.history_["volume"].tolist() == [2 * remote] * 2
        report, history = model.comm_report_, model.history_
        assert report.measured_rows.sum() == 2 * remote
        of_ranks = report.seconds_computing + report.seconds_blocked
        assert of_ranks.max() * (1 - 1e-9) <= history.seconds.sum() < of_ranks.sum()
        assert report.seconds_blocked.all()


def test_parsa_sends_less_than_random_on_real_data(shared_data):
    path = shared_data / "linear" / "imdb-bow.test.libsvm.xz"
    X, y = daskpart.read(path)
    X, y = X[::10], np.where(y[::10] > 0, 1, -1)  # sorted by class
    sent = {}
    for partitioner in ("parsa", "random"):
        model = daskpart.LogisticRegression(
            **SERVER, n_ranks=4, partitioner=partitioner, max_iter=2, n_blocks=4
        ).fit(X, y)
        sent[partitioner] = model.history_["bytes"].sum()
        assert model.history_["loss"].is_monotonic_decreasing
    assert sent["parsa"] < 0.8 * sent["random"]


def test_the_same_bits_on_a_cluster(samples):
    import distributed

    X, y = samples
    shared = SERVER | {"n_ranks": 2, "max_iter": 4}
    here = daskpart.LogisticRegression(**shared).fit(X, y)
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as client:
        there = daskpart.LogisticRegression(**shared | {"transport": "dask"})
        there.fit(X, y, client=client)
        late = daskpart.LogisticRegression(
            **shared | {"transport": "dask", "max_iter": 30}, delay=2
        )
        late.fit(X, y, client=client)
    assert there.coef_.tobytes() == here.coef_.tobytes()
    assert there.history_["bytes"].equals(here.history_["bytes"])
    assert there.comm_report_.transport == "dask"
    assert late.history_["loss"].iloc[-1] < here.history_["loss"].iloc[1]


def test_bad_input(samples):
    X, y = samples
    model = daskpart.LogisticRegression(**SERVER, n_ranks=2)
    with pytest.raises(InputError, match="delay goes with a parameter server"):
        daskpart.LogisticRegression(delay=1).fit(X, y)
    with pytest.raises(InputError, match=r"delay is 1.5: give a whole number"):
        model.set_params(delay=1.5).fit(X, y)
    with pytest.raises(InputError, match="delay"):
        model.set_params(delay=-1).fit(X, y)
    with pytest.raises(InputError, match="no parameter server on transport='graph'"):
        model.set_params(delay=0, transport="graph").fit(X, y)
    lazy = dask.array.from_array(X.toarray())
    for partitioner in ("parsa", "connectivity"):
        with pytest.raises(InputError, match=f"{partitioner}.* looks at all rows"):
            model.set_params(transport="local", partitioner=partitioner).fit(lazy, y)
    for factor in (1e200, 1e300):
        with pytest.raises(InputError, match="so large that sums of their squares are infinite"):
            model.set_params(transport="local", partitioner="auto").fit(factor * X, y)
    with pytest.raises(InputError, match="top_k, overlap and average need solver='sgd'"):
        model.set_params(transport="local", average=True).fit(X, y)


def test_what_ranks_hold_stays_between_runs():
    def add(endpoint, own):
        own.append(endpoint.rank)
        return len(own)

    with ParameterServer(3, n_ranks=2, transport="local") as server:
        held = server.hold([[], [7]])
        assert server.run(add, held) == [1, 2]
        assert server.run(add, held) == [2, 3]
        with pytest.raises(InputError, match="give one for each of the 2 ranks"):
            server.hold([1])


# -- several classes, Dask collections, files ---


@pytest.fixture(scope="module")
def classes(samples) -> tuple:
    """The same samples, and three classes."""
    X, _ = samples
    random = np.random.default_rng(2)
    scores = X @ (random.normal(size=(X.shape[1], 3)) * (random.random((X.shape[1], 1)) < 0.4))
    return X, (scores + random.normal(size=scores.shape)).argmax(axis=1)


@pytest.mark.filterwarnings("ignore:.*:FutureWarning")
@pytest.mark.parametrize(("delay", "max_iter"), [(0, 50), (2, 90), (math.inf, 100)])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_one_softmax_of_three_classes(classes, l1_ratio, delay, max_iter):
    X, y = classes
    options = {"l1_ratio": l1_ratio, "fit_intercept": False, "n_blocks": 6}
    model = daskpart.LogisticRegression(
        **SERVER | options, delay=delay, n_ranks=3, max_iter=max_iter
    ).fit(X, y)
    solver = "saga" if l1_ratio else "lbfgs"
    expected = Reference(
        C=C, l1_ratio=l1_ratio, solver=solver, tol=1e-8, max_iter=10_000, fit_intercept=False
    ).fit(X, y)

    def loss(coef: np.ndarray) -> float:
        scores = X @ coef.T
        each = scipy.special.logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
        size = l1_ratio * np.abs(coef).sum() + (1 - l1_ratio) / 2 * (coef**2).sum()
        return each.mean() + size / (C * len(y))

    assert loss(model.coef_) < loss(expected.coef_) * (1 + 2e-3)
    assert model.history_["loss"].iloc[-1] == pytest.approx(loss(model.coef_), rel=1e-4)


def test_each_class_against_the_rest_is_a_fit_of_its_own(classes):
    X, y = classes
    shared = SERVER | {"n_ranks": 2, "max_iter": 6, "partitioner": "random"}
    model = daskpart.LogisticRegression(**shared, multi_class="ovr").fit(X, y)
    for c in range(3):
        alone = daskpart.LogisticRegression(**shared).fit(X, y == c)
        np.testing.assert_allclose(model.coef_[c], alone.coef_[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.intercept_[c], alone.intercept_[0], rtol=1e-9)


@pytest.mark.parametrize("delay", [0, 1])
def test_rows_of_dask_arrays_and_files_stay_with_the_ranks(classes, tmp_path, delay):
    X, y = classes
    dump_svmlight_file(X, y, str(tmp_path / "x.libsvm"), zero_based=False)
    file = survey(tmp_path / "x.libsvm", n_features=X.shape[1])
    shared = SERVER | {"n_ranks": 3, "max_iter": 8, "n_blocks": 4, "delay": delay}
    here = daskpart.LogisticRegression(**shared, partitioner="random").fit(X, y)
    lazy = dask.array.from_array(X.toarray(), chunks=(50, -1))
    tolerance = {"rtol": 1e-6, "atol": 1e-9} if not delay else {"atol": 0.3}
    for data in ((lazy, y), (file,)):
        model = daskpart.LogisticRegression(**shared).fit(*data)
        assert model.plan_report_.partitioner in ("random", "block")
        np.testing.assert_allclose(model.coef_, here.coef_, **tolerance)
    placed = daskpart.LogisticRegression(**shared, partitioner="parsa").fit(file)
    np.testing.assert_allclose(placed.coef_, here.coef_, **tolerance)
    assert placed.history_["volume"].sum() < model.history_["volume"].sum()


@pytest.mark.parametrize("kind", ["libsvm", "gz", "csv"])
def test_parsa_places_the_rows_that_a_file_keeps(classes, tmp_path, kind):
    X, y = classes
    path, options = tmp_path / f"x.{kind}", {"n_features": X.shape[1], "zero_based": True}
    if kind == "csv":
        options = {"label": X.shape[1]}
        np.savetxt(path, np.column_stack([X.toarray(), y]), "%.17g", ",")
    else:
        text = io.BytesIO()
        dump_svmlight_file(X, y, text, zero_based=True)
        opened = gzip.open if kind == "gz" else open
        with opened(path, "wb") as file:
            # without an index 0 nothing but zero_based=True says where features begin
            file.write(re.sub(rb" 0:\S+", b"", text.getvalue()))
    rest, held = survey(path, **options).split(0.2, random_state=1)
    own = [*rest.rows_by_block(range(len(rest.blocks)))]
    data, target = Rows.joined(own).examples(rest.first, rest.n_features)
    shared = SERVER | {"n_ranks": 3, "max_iter": 4, "n_blocks": 4, "partitioner": "parsa"}
    placed = daskpart.LogisticRegression(**shared).fit(rest, None, eval_set=(held, None))
    here = daskpart.LogisticRegression(**shared).fit(data, target)
    np.testing.assert_allclose(placed.coef_, here.coef_, rtol=1e-6, atol=1e-9)
    assert placed.history_["volume"].tolist() == here.history_["volume"].tolist()
    assert placed.history_["validation_loss"].notna().all()
