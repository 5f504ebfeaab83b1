"""SGD with its weights on a parameter server: the steps of an allreduce, and stale ones."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fit_tools import assert_same
from sklearn.datasets import dump_svmlight_file

from daskpart import LinearRegression, LinearSVC, LogisticRegression
from daskpart.collectives import ParameterServer
from daskpart.errors import DivergenceError, InputError
from daskpart.models.linear import server, sgd_on_server
from daskpart.models.linear.losses import LOSSES
from daskpart.models.linear.sgd_on_server import ServerSgd
from daskpart.models.optimisation.schedules import schedule_of
from daskpart.models.samples.rows import rank_rows
from daskpart.readers import survey

PLAIN = {
    "solver": "sgd", "optimizer": "sgd", "average": False, "partitioner": "random",
    "batch_size": 10, "max_iter": 3, "tol": 0.0, "transport": "local",
}  # fmt: skip
MODELS = {
    "logistic": LogisticRegression,
    "ovr": partial(LogisticRegression, multi_class="ovr", C=0.3),
    "hinge": partial(LinearSVC, loss="hinge", C=10.0, fit_intercept=False),
    "huber": partial(LinearRegression, loss="huber", alpha=0.01, learning_rate="step"),
}


def samples(kind: str, n_classes: int = 2) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    X = scipy.sparse.random(150, 60, 0.15, "csr", random_state=random)
    truth = random.normal(size=(60, n_classes))
    return X, X @ truth[:, 0] if kind == "huber" else (X @ truth).argmax(axis=1)


def on_server(kind: str, **more: Any) -> Any:
    return MODELS[kind](**PLAIN | {"aggregation": "server", "n_ranks": 3} | more)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("n_ranks", "n_classes"), [(1, 2), (2, 3), (3, 2), (4, 3), (5, 2), (8, 3)])
def test_synchronous_steps_are_those_of_the_allreduce(kind, n_ranks, n_classes):
    X, y = samples(kind, n_classes)
    allreduce = MODELS[kind](**PLAIN, n_ranks=n_ranks).fit(X, y)
    server = on_server(kind, n_ranks=n_ranks).fit(X, y)
    np.testing.assert_allclose(server.coef_, allreduce.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(server.intercept_, allreduce.intercept_, rtol=1e-9, atol=1e-12)
    shared = ["loss", "learning_rate"]
    np.testing.assert_allclose(server.history_[shared], allreduce.history_[shared], rtol=1e-9)
    assert not server.history_["staleness"].any()


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("C", [1e-1, 1e-4, 1e-12])
def test_a_penalty_that_shrinks_weights_to_nothing_within_an_epoch(C, n_ranks):
    X, y = (each[:60] for each in samples("logistic"))
    strong = {"C": C, "batch_size": 1, "learning_rate": "constant", "n_ranks": n_ranks}
    allreduce = LogisticRegression(**PLAIN | strong).fit(X, y)
    server = on_server("logistic", **strong).fit(X, y)
    # a row is shrunk by a push of what it loses, so what is left of it has fewer true digits
    np.testing.assert_allclose(server.coef_, allreduce.coef_, rtol=1e-6, atol=1e-20)
    np.testing.assert_allclose(server.intercept_, allreduce.intercept_, rtol=1e-9)
    shared = ["loss", "learning_rate"]
    np.testing.assert_allclose(server.history_[shared], allreduce.history_[shared], rtol=1e-9)
    stale = on_server("logistic", **strong, delay=2).fit(X, y)
    assert np.isfinite(stale.coef_).all()
    assert (stale.history_["staleness"] <= 2).all()


@pytest.mark.parametrize("approximate", [False, True])
def test_topk_keeps_what_it_does_not_push(approximate):
    X, y = samples("logistic", 3)
    options = {"top_k": 9, "top_k_approximate": approximate, "n_ranks": 3}
    allreduce = LogisticRegression(**PLAIN, **options).fit(X, y)
    server = on_server("logistic", **options).fit(X, y)
    np.testing.assert_allclose(server.coef_, allreduce.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(server.state_.residual, allreduce.state_.residual, atol=1e-12)
    assert server.state_.residual.any()
    assert (
        server.history_["volume"].sum() < on_server("logistic").fit(X, y).history_["volume"].sum()
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 4, 7])
def test_what_is_drawn_goes_on_where_ranks_have_uneven_shares(n_ranks, tmp_path):
    """Steps of the fit are counted, not those that a rank has samples for: a checkpoint has one."""
    X, y = samples("logistic", 3)
    X, y = X[:-1], y[:-1]
    how = {"top_k": 9, "top_k_approximate": True, "n_ranks": n_ranks, "batch_size": 4}
    kept = {**how, "checkpoint_path": tmp_path / "run.npz"}
    model = on_server("logistic", **how)
    steps = {-(-size // 4) for size in model.plan(X, y).sizes}
    assert len(steps) > 1 or n_ranks < 4  # some ranks have no batch in the last step
    on_server("logistic", **kept, max_iter=1).fit(X, y)
    assert_same(on_server("logistic", **kept, resume=True).fit(X, y), model.fit(X, y))


def test_a_fit_that_diverges_goes_to_its_last_good_epoch_on_a_server_anew(monkeypatch):
    """All that were begun are closed: on a cluster one that is left holds its workers."""
    begun = []

    def recorded(*args: Any, **options: Any) -> ParameterServer:
        begun.append(ParameterServer(*args, **options))
        return begun[-1]

    X, y = samples("huber")
    model = partial(on_server, "huber", loss="squared", alpha=0.0, learning_rate="constant")
    good = model(eta0=1e6, max_iter=5).fit(X, y)
    monkeypatch.setattr(server, "ParameterServer", recorded)
    fit = model(eta0=1e6, max_iter=30)
    with pytest.raises(DivergenceError, match=r"in epoch 6:.*after epoch 5 is kept"):
        fit.fit(X, y)
    assert_same(fit, good)
    assert [each.communicator.closed for each in begun] == [True] * len(begun) != []


def test_an_epoch_pulls_what_batches_touch_and_pushes_what_they_move():
    X, y = samples("hinge")
    model = on_server("hinge", n_ranks=4, shuffle=False, max_iter=1, batch_size=5)
    plan = model.plan(X, y)
    model.fit(X, y, plan=plan)
    with ParameterServer(X.shape[1] + 1, n_ranks=4, transport="local") as server:
        owner = server.placement
    pulled = 0
    for rank, own in enumerate(plan.members):
        for batch in np.split(own, range(5, len(own), 5)):
            pulled += int((owner[np.unique(X[batch].indices)] != rank).sum())
    # at weights of 0 all hinges are open, so the first batch moves all that it touches
    assert pulled < model.history_["volume"][0] <= 2 * pulled
    sparse = model.history_["volume"][0] - pulled
    assert model.history_["bytes"][0] == pulled * (4 + 8) + sparse * (4 + 8)


def test_placed_by_parsa_less_travels_and_the_optimum_stays():
    random = np.random.default_rng(0)
    X = scipy.sparse.block_diag([scipy.sparse.random(60, 50, 0.1, random_state=random)] * 4, "csr")
    y = np.asarray(X @ random.normal(size=X.shape[1]) > 0)
    fits = {
        name: on_server("logistic", n_ranks=4, partitioner=name, max_iter=40).fit(X, y)
        for name in ("random", "auto")
    }
    assert fits["auto"].plan_report_.partitioner == "parsa"
    volume = {name: fit.history_["volume"].sum() for name, fit in fits.items()}
    assert volume["auto"] < 0.5 * volume["random"]
    ends = [fit.history_["loss"].iloc[-1] for fit in fits.values()]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)


def replayed(schedule: Any, delay: float, n_epochs: int = 1) -> tuple[Any, Any, float, int]:
    """Weights, the order of the calls, the last loss and the largest staleness."""
    X, y = samples("logistic")
    members = [np.arange(rank, len(y), 4) for rank in range(4)]
    rows = [
        rank_rows(rank, X[own], 2.0 * y[own] - 1, np.ones(len(own)))
        for rank, own in enumerate(members)
    ]
    fit = ServerSgd(
        loss=LOSSES["log"].code, epsilon=0.0, l2=1e-3, intercept=True, n_features=60, n_outputs=1,
        schedule=schedule_of("constant", 1.0), curvature=0.25, compressor=None, delay=delay,
        sizes=tuple(map(len, members)), batch_size=5, random_state=0, shuffle=True,
    )  # fmt: skip
    rates = fit.schedule.rates(1, fit.n_steps, 1)
    with ParameterServer(
        61, n_ranks=4, row_length=1, delay=delay, transport="local", schedule=schedule
    ) as server:
        nothing = {"residual": np.zeros((1, 0)), "steps": 0}
        held = server.hold([sgd_on_server.solver_of(each, nothing) for each in rows])
        for number in range(1, n_epochs + 1):
            found = server.run(sgd_on_server.epoch, held, number=number, rates=rates, fit=fit)
            order = server.schedule
            if n_epochs > 1:
                server.run(sgd_on_server.shrink, scale=fit.scales(rates)[-1])
        loss = sum(part for part, _ in found) / len(y)
        return server.values(), order, loss, server.report.max_staleness


@pytest.mark.parametrize("delay", [1, 3, math.inf])
def test_the_order_of_calls_decides_the_bits_and_the_delay_bounds_the_staleness(delay):
    first, order, _, stalest = replayed(None, delay)
    again, *_ = replayed(order, delay)
    assert again.tobytes() == first.tobytes()
    assert stalest <= delay


def test_it_converges_in_the_worst_order_of_calls():
    _, _, best, none = replayed("in turn", 0, 12)
    for delay in (1, 4):
        *_, loss, stalest = replayed("stalest", delay, 12)
        assert stalest == delay
        assert loss == pytest.approx(best, rel=0.05)
    assert none == 0


@pytest.mark.parametrize("delay", [2, math.inf])
def test_late_steps_come_to_the_loss_of_synchronous_ones(delay):
    X, y = samples("logistic")
    best = on_server("logistic", max_iter=30).fit(X, y).history_["loss"].iloc[-1]
    late = on_server("logistic", max_iter=30, delay=delay).fit(X, y)
    assert late.history_["loss"].iloc[-1] == pytest.approx(best, rel=0.02)
    assert late.history_["staleness"].max() <= delay
    assert "staleness" in late.history_


def test_values_of_float32_and_rows_on_disk(tmp_path):
    X, y = samples("logistic", 3)
    half = on_server("logistic").fit(X.astype(np.float32), y)
    np.testing.assert_allclose(half.coef_, on_server("logistic").fit(X, y).coef_, rtol=1e-4)
    path = tmp_path / "x.libsvm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    of_file = [
        on_server("logistic").fit(survey(path, n_features=60, on_disk=on_disk))
        for on_disk in (False, True)
    ]
    assert of_file[0].coef_.tobytes() == of_file[1].coef_.tobytes()


def test_partial_fit_goes_on():
    X, y = samples("logistic")
    model = on_server("logistic")
    for _ in range(3):
        model.partial_fit(X, y, classes=[0, 1])
    assert model.coef_.tobytes() == on_server("logistic").fit(X, y).coef_.tobytes()


@pytest.mark.parametrize(("given", "words"), [
    ({"solver": "lbfgs"}, "needs solver='sgd'"),
    ({"optimizer": "adagrad"}, "goes with optimizer='sgd'"),
    ({"l1_ratio": 0.5}, "l1_ratio=0; .*solver='server' takes an L1 term"),
    ({"overlap": True}, "overlap and average need another aggregation"),
    ({"average": True}, "overlap and average need another aggregation"),
    ({"delay": 1.5}, "delay is 1.5: give a whole number"),
    ({"delay": -1}, "delay"),
    ({"transport": "graph"}, "no parameter server on transport='graph'"),
    ({"aggregation": "dense", "delay": 1}, "delay goes with a parameter server"),
    ({"aggregation": "servers"}, "aggregation"),
])  # fmt: skip
def test_bad_input(given, words):
    X, y = samples("logistic")
    with pytest.raises(InputError, match=words):
        on_server("logistic", **given).fit(X, y)
