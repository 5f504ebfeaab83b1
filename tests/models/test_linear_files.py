"""Linear models fitted to a libsvm file, of which each rank reads its range."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import daskpart
from daskpart.errors import InputError
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.problem import encoded
from daskpart.readers import survey

N_ROWS = 240
SGD = {"solver": "sgd", "max_iter": 5, "batch_size": 8, "tol": 0.0, "transport": "local"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, one after the other, each with features of its own."""
    random, labels = np.random.default_rng(0), np.arange(N_ROWS) * 3 // N_ROWS
    own = np.arange(30) % 3 == labels[:, None]
    X = random.uniform(0.5, 1.5, own.shape) * (random.random(own.shape) < np.where(own, 0.4, 0.1))
    file = tmp_path_factory.mktemp("data") / "classes.libsvm"
    dump_svmlight_file(X, labels, str(file), zero_based=False)
    return file


def test_lbfgs_on_a_file_is_lbfgs_in_memory(path):
    X, y = daskpart.read(path)
    for n_ranks in (1, 2, 3, 5):
        shared = {"n_ranks": n_ranks, "transport": "local", "tol": 1e-7}
        here = daskpart.LogisticRegression(**shared).fit(X, y)
        there = daskpart.LogisticRegression(**shared).fit(survey(path))
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-5)
        assert there.classes_.tolist() == here.classes_.tolist() == [0, 1, 2]
        assert there.n_features_in_ == X.shape[1]
        assert (there.predict(X) == here.predict(X)).all()


def test_sgd_sees_shuffled_rows_however_the_file_is_packed(path, tmp_path):
    X, y = daskpart.read(path)
    packed = tmp_path / "classes.libsvm.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    fits = [
        daskpart.LogisticRegression(**SGD, n_ranks=3).fit(survey(each)) for each in (path, packed)
    ]
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()
    assert fits[0].score(X, y) > 0.8  # sorted by class: a rank for each class would not get there
    plan = daskpart.LogisticRegression(**SGD, n_ranks=3).plan(survey(path))
    assert sorted(np.concatenate(plan.members).tolist()) == list(range(N_ROWS))
    for own in plan.members:
        assert np.bincount(y[own].astype(int), minlength=3).min() > 10
    assert (plan.memory()["samples"] > 0).all()


def test_a_plan_knows_which_rows_a_rank_gets(path):
    X, y = daskpart.read(path)
    problem = FileSamples(survey(path), encoded, 3, np.array([0.0, 1.0, 2.0]))
    for seed in (None, 4):
        members = problem.members(4, seed)
        with daskpart.collectives.communicator_for("local", 4) as comm:
            held = comm.gather(problem.rows_on(comm, seed))
        for rows, own in zip(held, members, strict=True):
            np.testing.assert_array_equal(rows.target[:, 0], y[own])
            np.testing.assert_array_equal(rows.data, X[own].data)
            np.testing.assert_array_equal(rows.indices, X[own].indices)


@pytest.mark.parametrize("model", [daskpart.LogisticRegression, daskpart.MLPClassifier])
def test_a_plan_says_how_samples_lie_that_nobody_shuffles(path, model):
    options = {"solver": "sgd"} if model is daskpart.LogisticRegression else {}
    plain = model(shuffle=False, n_ranks=2, transport="local", **options)
    assert plain.plan(survey(path)).partitioner == "block"
    assert plain.plan(*daskpart.read(path)).partitioner == "cyclic"


def test_a_resumed_fit_and_a_regression(path, tmp_path):
    whole = daskpart.LogisticRegression(**SGD, n_ranks=2).fit(survey(path))
    kept = SGD | {"checkpoint_path": tmp_path / "run.npz", "n_ranks": 2}
    daskpart.LogisticRegression(**kept | {"max_iter": 2}).fit(survey(path))
    resumed = daskpart.LogisticRegression(**kept, resume=True).fit(survey(path))
    assert resumed.coef_.tobytes() == whole.coef_.tobytes()
    X, y = daskpart.read(path)
    shared = {"n_ranks": 2, "transport": "local", "tol": 1e-7, "alpha": 0.01}
    here = daskpart.LinearRegression(**shared).fit(X, y)
    there = daskpart.LinearRegression(**shared).fit(survey(path))
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-5)


def test_the_same_bits_on_a_cluster(path):
    import distributed

    here = daskpart.LogisticRegression(**SGD, n_ranks=2).fit(survey(path))
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as client:
        for transport in ("dask", "graph"):
            there = daskpart.LogisticRegression(**SGD | {"transport": transport}, n_ranks=2)
            there.fit(survey(path, client=client), client=client)
            assert there.coef_.tobytes() == here.coef_.tobytes()


@pytest.mark.parametrize("labels", [(0, 1), (3, 7), (-2, 5, 9)])
def test_labels_of_a_file_may_be_any_whole_numbers(tmp_path, labels):
    """In one of several ranges, too; all that occur are classes, and are predicted."""
    file = tmp_path / "x.libsvm"
    file.write_text("".join(f"{label} {1 + at}:1\n" for at, label in enumerate(labels)) * 20)
    model = daskpart.LogisticRegression(n_ranks=2, transport="local").fit(survey(file))
    assert model.classes_.tolist() == [*labels]
    assert model.predict(np.eye(len(labels))).tolist() == [*labels]


def test_bad_input(path, tmp_path):
    model = daskpart.LogisticRegression(n_ranks=2, transport="local")
    file = survey(path)
    with pytest.raises(InputError, match="a file has its own targets"):
        model.fit(file, np.zeros(N_ROWS))
    with pytest.raises(InputError, match="a file has its own targets, and no weights"):
        model.fit(file, sample_weight=np.ones(N_ROWS))
    with pytest.raises(InputError, match="values are int64"):
        (tmp_path / "whole.libsvm").write_text("1 1:1\n2 1:3\n")
        model.fit(survey(tmp_path / "whole.libsvm", dtype=int))
    (tmp_path / "one.libsvm").write_text("1 1:1\n1 2:1\n")
    with pytest.raises(InputError, match="one class only"):
        model.fit(survey(tmp_path / "one.libsvm"))
    (tmp_path / "many.libsvm").write_text("".join(f"{n} 1:1\n" for n in range(10_001)))
    with pytest.raises(InputError, match="more than 10,000 labels are no classes"):
        model.fit(survey(tmp_path / "many.libsvm"))
    (tmp_path / "real.libsvm").write_text("1 1:1\n0.5 2:1\n-1 1:2\n")
    with pytest.raises(InputError, match=r"a label is 0\.5, and classes are whole numbers"):
        model.fit(survey(tmp_path / "real.libsvm"))
    sgd = daskpart.LogisticRegression(**SGD, n_ranks=2).fit(file)
    with pytest.raises(InputError, match=r"has 2 features, .* fitted with 30"):
        sgd.partial_fit(survey(tmp_path / "one.libsvm"), None)
    with pytest.raises(InputError, match="takes samples in memory: of a file give 'parsa'"):
        daskpart.LogisticRegression(partitioner="connectivity", n_ranks=2).fit(file)
