"""Linear models of a file whose rows stay on the disks of the ranks: the same bits as in memory."""

from __future__ import annotations

import os
import resource
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.collectives import communicator_for
from daskpart.errors import InputError
from daskpart.models.linear import coordinate_blocks
from daskpart.models.mlp import sgd as mlp_sgd
from daskpart.models.samples import examples, files
from daskpart.models.samples.examples_on_disk import Disk, Spool, StoredExamples
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.problem import class_numbers
from daskpart.models.samples.rows import Batches, StoredRows, in_blocks, rank_rows
from daskpart.readers import survey

N_ROWS, BLOCK_BYTES = 1800, 25_000
SERVER = {"solver": "server", "max_iter": 3, "l1_ratio": 1.0, "tol": 0.0}
SGD = {"solver": "sgd", "max_iter": 2, "batch_size": 32, "tol": 0.0}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, one after the other, with rows of 0 to 40 features."""
    random, lines = np.random.default_rng(0), []
    for row in range(N_ROWS):
        label = row * 3 // N_ROWS
        chosen = random.choice(150, random.integers(0, 40), replace=False)
        features = np.unique(chosen // 3 * 3 + np.where(random.random(len(chosen)) < 0.7, label, 0))
        pairs = " ".join(f"{each + 1}:{random.uniform(0.5, 1.5):.4f}" for each in features)
        lines.append(f"{label} {pairs}\n")
    file = tmp_path_factory.mktemp("data") / "classes.libsvm"
    file.write_text("".join(lines))
    return file


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(files, "_BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(examples, "_ROUND_BYTES", 20_000)
    monkeypatch.setattr(coordinate_blocks, "_STORED_ENTRIES", BLOCK_BYTES // 20)


def both(path: Path, make, transport: str = "local"):
    """The same fit with rows in memory and on disk."""
    return [
        make(transport=transport).fit(survey(path, on_disk=on_disk)) for on_disk in (False, True)
    ]


@pytest.mark.parametrize(
    ("n_ranks", "more"),
    [(1, {}), (2, {}), (5, {}), (1, {"average": False, "l1_ratio": 0.5}),
     (3, {"optimizer": "adam"}), (3, {"top_k": 5, "overlap": True}), (3, {"shuffle": False})],
)  # fmt: skip
def test_sgd_has_the_bits_of_memory_and_holds_a_block(path, n_ranks, more):
    here, there = both(
        path, lambda **k: daskpart.LogisticRegression(**SGD | more | k, n_ranks=n_ranks)
    )
    assert here.coef_.tobytes() == there.coef_.tobytes()
    assert here.history_["loss"].tolist() == there.history_["loss"].tolist()
    rows = np.subtract(here.comm_report_.memory, there.comm_report_.memory)
    whole = here.plan_report_.memory["samples"]
    assert (rows > 0.7 * np.array(whole) - 1.5 * BLOCK_BYTES).all()  # all of them but a block


@pytest.mark.parametrize(
    ("n_ranks", "more"), [(1, {}), (3, {"top_k": 2}), (3, {"shuffle": False, "dtype": np.float32})]
)
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_perceptrons_have_the_bits_of_memory_and_hold_a_block(
    path, n_ranks, more, share, monkeypatch
):
    monkeypatch.setattr(mlp_sgd, "FULL", share)  # rows dense, rows sparse
    dtype = more.pop("dtype", np.float64) if "dtype" in more else np.float64
    kept = {
        "hidden_layer_sizes": 5, "optimizer": "sgd", "learning_rate_init": 0.1, "max_iter": 2,
        "batch_size": 16, "tol": 0,
    }  # fmt: skip
    here, there = (
        daskpart.MLPClassifier(**kept | more, n_ranks=n_ranks, transport="local").fit(
            survey(path, on_disk=on_disk, dtype=dtype)
        )
        for on_disk in (False, True)
    )
    for one, other in zip(here.coefs_, there.coefs_, strict=True):
        assert one.dtype == dtype and one.tobytes() == other.tobytes()
    assert here.history_["loss"].tolist() == there.history_["loss"].tolist()
    rows = np.subtract(here.comm_report_.memory, there.comm_report_.memory)
    a_row = 8 * 150 if share < 1 else 12 * 20
    assert (rows > 0.6 * N_ROWS / n_ranks * a_row * np.dtype(dtype).itemsize / 8 - 8000).all()


def test_iterations_and_a_regression_have_them_too(path):
    lasso = partial(daskpart.LinearRegression, alpha=0.01, l1_ratio=1)
    for make in (daskpart.LogisticRegression, daskpart.LinearRegression, lasso):
        here, there = both(path, lambda make=make, **k: make(max_iter=5, tol=0, n_ranks=3, **k))
        assert here.coef_.tobytes() == there.coef_.tobytes()
        X, y = daskpart.read(path)
        memory = make(max_iter=5, tol=0, n_ranks=3, transport="local").fit(X, y)
        np.testing.assert_allclose(there.coef_, memory.coef_, atol=1e-9)


@pytest.mark.parametrize(
    ("n_ranks", "more"),
    [(1, {}), (2, {"multi_class": "ovr"}), (5, {"l1_ratio": 0.5, "fit_intercept": False}),
     (3, {"partitioner": "parsa"}), (3, {"n_blocks": 1, "dtype": np.float32})],
)  # fmt: skip
def test_the_server_has_the_bits_of_memory_and_holds_a_piece(path, n_ranks, more):
    more = dict(more)
    dtype = more.pop("dtype", np.float64)
    kept = SERVER | more | {"n_ranks": n_ranks, "transport": "local"}
    here, there = (
        daskpart.LogisticRegression(**kept).fit(survey(path, on_disk=on_disk, dtype=dtype))
        for on_disk in (False, True)
    )
    assert here.coef_.tobytes() == there.coef_.tobytes()
    assert here.history_["loss"].tolist() == there.history_["loss"].tolist()
    assert here.history_["bytes"].tolist() == there.history_["bytes"].tolist()
    if "partitioner" in more:
        assert there.plan_report_.partitioner == "parsa" and there.plan_report_.touched is not None
    rows = np.subtract(here.comm_report_.memory, there.comm_report_.memory)
    entries = 36_000 / n_ranks * (2 + np.dtype(dtype).itemsize)
    assert (rows > 0.7 * entries - BLOCK_BYTES / kept.get("n_blocks", 16)).all()


def test_the_server_ends_at_the_same_optimum_with_a_delay(path):
    here, there = both(
        path,
        lambda **k: daskpart.LogisticRegression(
            **SERVER | {"max_iter": 25, "delay": 2, "C": 0.1}, n_ranks=3, **k
        ),
    )
    losses = [each.history_["loss"].iloc[-1] for each in (here, there)]
    assert losses[1] == pytest.approx(losses[0], rel=0.03)


@pytest.mark.parametrize("options", [SGD, SERVER])
def test_other_transports_have_them_too(path, options):
    import distributed

    def make(**more):
        return daskpart.LogisticRegression(**options, n_ranks=2, **more)

    here, there = both(path, make, "local" if options is SERVER else "graph")
    assert here.coef_.tobytes() == there.coef_.tobytes()
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ):
        for of_cluster in both(path, make, "dask"):
            assert of_cluster.coef_.tobytes() == here.coef_.tobytes()


@pytest.mark.parametrize("options", [SGD, SERVER])
def test_a_fit_goes_on_with_the_same_bits(path, tmp_path, options):
    kept = options | {"n_ranks": 2, "transport": "local"}
    whole = daskpart.LogisticRegression(**kept).fit(survey(path, on_disk=False))
    kept["checkpoint_path"] = tmp_path / "run.npz"
    daskpart.LogisticRegression(**kept | {"max_iter": 1}).fit(survey(path, on_disk=True))
    resumed = daskpart.LogisticRegression(**kept, resume=True).fit(survey(path, on_disk=True))
    assert resumed.coef_.tobytes() == whole.coef_.tobytes()


def test_ranks_decide_by_their_memory(path, monkeypatch):
    problem = FileSamples(survey(path), class_numbers, 3, np.arange(3.0))
    own = problem.bytes_of(problem.members(2, 0))
    monkeypatch.setattr(examples, "_SMALL_BYTES", 0)
    for share, on_disk in ((0.2, False), (0.3, True)):
        monkeypatch.setattr(examples, "rank_memory", lambda n, share=share: own.mean() / share)
        with communicator_for("local", 2) as comm:
            rows = comm.gather(problem.rows_on(comm, 0))
        assert [isinstance(each, StoredRows) for each in rows] == [on_disk] * 2
    assert rows[0].between(3, 200) is rows[0].between(3, 200)
    assert 0 < rows[0].nbytes < own[0] / 3


def test_a_plan_says_when_rows_are_on_disk(path):
    model = daskpart.LogisticRegression(n_ranks=2, transport="local")
    words = [
        model.plan(survey(path, on_disk=on_disk)).report().rows().get("samples on disk")
        for on_disk in ("auto", True, False)
    ]
    assert words[0].startswith("where they take over 25% of a rank's memory, then 24.")
    assert words[1:] == ["all", None]
    samples = {
        solver: model.set_params(solver=solver).plan(survey(path, on_disk=True)).memory()["samples"]
        for solver in ("lbfgs", "server")
    }
    of_rows = (8 + 9 * 3) * N_ROWS  # a weight; of each class a score, and whether it is the row's
    assert sum(samples["server"] - samples["lbfgs"]) == of_rows


# -- blocks of an epoch ---


def rows_of(n: int, rank: int):
    X = scipy.sparse.csr_array(np.ones((n, 1)))
    return rank_rows(rank, X, np.arange(n), np.ones(n))


@pytest.mark.parametrize("sizes", [(37,), (40, 40), (61, 33), (5, 90, 0)])
@pytest.mark.parametrize("block", [None, 1, 3, 100])
def test_every_row_once_an_epoch_and_steps_as_counted(sizes, block):
    fit = Batches(sizes=sizes, batch_size=4, random_state=1, shuffle=True, block=block)
    for epoch in (1, 2):
        counted = np.zeros(fit.n_steps, int)
        for rank, size in enumerate(sizes):
            rows, taken = rows_of(size, rank), []
            for step in range(fit.n_steps):
                place, _ = divmod(step, fit.block_steps)
                number = int(fit.blocks(epoch)[place])
                own = fit.rows_of_block(rows, number)
                batch = fit.of_step(fit.order(own, epoch, number), step)
                taken.extend(own.target[batch, 0].tolist())
                counted[step] += len(batch)
            assert sorted(taken) == list(range(size))
            held = np.concatenate([each.target[:, 0] for each in in_blocks(rows, fit.block_rows)])
            assert held.tolist() == list(range(size))
        assert counted.tolist() == [fit.count(step) for step in range(fit.n_steps)]
        assert counted.all()


@pytest.mark.parametrize(("sizes", "n_whole", "n_blocks"), [((61, 33), 4, 8), ((16,), 2, 2)])
def test_whole_blocks_change_places_from_epoch_to_epoch(sizes, n_whole, n_blocks):
    """Those that are whole on all ranks; rows of a large file lie block by block else."""
    fit = Batches(sizes=sizes, batch_size=4, random_state=1, shuffle=True, block=2)
    orders = [fit.blocks(epoch).tolist() for epoch in range(20)]
    assert all(sorted(each[:n_whole]) == [*range(n_whole)] for each in orders)
    assert all(each[n_whole:] == [*range(n_whole, n_blocks)] for each in orders)
    assert {each[0] for each in orders} == {*range(n_whole)}
    assert replace(fit, shuffle=False).blocks(1).tolist() == [*range(n_blocks)]
    within = [tuple(fit.order(rows_of(8, 0), 1, block)) for block in range(n_whole)]
    assert len(set(within)) == n_whole  # each is shuffled by itself


# -- the disk ---


def test_a_file_without_a_name_takes_no_place(tmp_path):
    spool = Spool(Disk(str(tmp_path), 0), 2)
    spool.put(1, np.arange(3))
    other = spool.copy()
    spool.put(1, np.arange(5))
    other.put(0, "of the other")
    assert [len(each) for each in spool.take(1)] == [3, 5]
    assert [len(each) for each in other.take(1)] == [3]
    assert (other.take(0), spool.take(0)) == (["of the other"], [])
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_full_says_so(path, monkeypatch):
    free = np.inf
    with pytest.raises(OSError, match=r"rows could not be kept in .*: there is too little space"):
        Disk(tempfile.gettempdir(), free)
    model = daskpart.LogisticRegression(**SGD, n_ranks=2, transport="local")
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, kept[1]))  # as if the disk were full
    try:
        with pytest.raises(OSError, match=r"File too large. This rank needs about .* MB there"):
            model.fit(survey(path, on_disk=True))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert model.fit(survey(path, on_disk=True)).n_iter_ == 2


def test_a_file_that_became_shorter_is_told(tmp_path):
    stored = StoredExamples(Disk(str(tmp_path), 0), 4, np.dtype(np.float32))
    with pytest.raises(OSError, match="ends before byte"):
        stored._column(3, 0, 2)


@pytest.mark.parametrize("transport", ["local", "dask"])
def test_rows_that_do_not_fit_into_memory_are_refused_at_once(path, monkeypatch, transport):
    import distributed

    monkeypatch.setattr(examples, "rank_memory", lambda n: 50_000)
    told = r"the rows of a rank take about 205.2 kB in memory, of the 50.0 kB .* on_disk='auto'"
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ):
        for solver in ("server", "sgd"):
            model = daskpart.LogisticRegression(solver=solver, n_ranks=2, transport=transport)
            with pytest.raises(InputError, match=told):
                model.fit(survey(path, on_disk=False))


def test_bad_input(path):
    with pytest.raises(InputError, match="on_disk is 'ram': give True, False"):
        survey(path, on_disk="ram")
