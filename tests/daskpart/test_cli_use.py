"""`daskpart fit implicit`, and `daskpart recommend` and `predict` from a saved model."""

from __future__ import annotations

import datetime
import os
import sys
import threading

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from command_results import metrics_of

import daskpart
from daskpart._cli import use

SMALL = ("--ranks", 2, "--n-components", 4, "--max-iter", 3, "--partitioner", "block")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, rating_file):
    """A folder of each kind of model."""
    from daskpart import cli

    folder = tmp_path_factory.mktemp("runs")
    for kind in ("mf", "implicit"):
        plots = ("--no-plots",) if kind == "mf" else ()
        given = ["fit", kind, rating_file, *SMALL, *plots, "--out", folder / kind]
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(each) for each in given])
        assert stopped.value.code == 0
    return folder


def test_fit_implicit_writes_a_model_that_loads(runs):
    out = runs / "implicit"
    metrics = metrics_of(out)
    assert 0 < metrics["ndcg"] < 1 and metrics["communication"]["matches"] is True
    model = daskpart.ImplicitFactorization.load(out / "model")
    assert model.history_["loss"].iloc[-1] == metrics["loss"]
    page = (out / "report.html").read_text()
    assert "NDCG" in page and "ImplicitFactorization.load" in page
    assert (out / "training.png").is_file()


@pytest.mark.parametrize(
    ("kind", "more", "step"),
    [("mf", ("--loss", "bpr"), "epoch"), ("implicit", (), "iteration")],
)
def test_the_page_of_a_ranking_shows_what_was_held_out(
    rating_file, tmp_path, run_cli, kind, more, step
):
    held = ("--validation-fraction", 0.2, "--out", tmp_path)
    assert run_cli("fit", kind, rating_file, *SMALL, *more, *held) == 0
    page = (tmp_path / "report.html").read_text()
    assert f"the NDCG of events that were held out, over {step}s" in page
    assert f"<h1>{'Matrix' if kind == 'mf' else 'Implicit'} factorization of u.data</h1>" in page


def test_fit_mf_of_yes_and_no_tells_the_log_loss(tmp_path, capsys, run_cli):
    random = np.random.default_rng(0)
    taste, kind = random.normal(size=60) * 3, random.normal(size=40)
    pairs = np.argwhere(random.random((60, 40)) < 0.5)
    liked = random.random(len(pairs)) < 1 / (1 + np.exp(-taste[pairs[:, 0]] * kind[pairs[:, 1]]))
    path, out = tmp_path / "likes.csv", tmp_path / "run"
    table = pd.DataFrame(pairs, columns=["user", "item"]).assign(rating=np.where(liked, 1, -1))
    table.to_csv(path, index=False)
    options = ("--loss", "logistic", "--validation-fraction", 0.1, *SMALL, "--max-iter", 40)
    assert run_cli("fit", "mf", path, *options, "--out", out) == 0
    told, metrics = capsys.readouterr().out, metrics_of(out)
    assert f"test log loss {metrics['test_log_loss']:.4f}" in told and "better" in told
    assert metrics["test_log_loss"] < 0.8 * metrics["mean_log_loss"] < 0.8 * np.log(2.1)
    page = (out / "report.html").read_text()
    assert "log loss" in page and "The loss a rating over epochs" in page
    assert run_cli("predict", out, path, "--output", tmp_path / "told.csv") == 0
    told = pd.read_csv(tmp_path / "told.csv").iloc[:, -1]
    assert told.between(0, 1).all() and np.corrcoef(told, liked)[0, 1] > 0.5
    table.assign(rating=table["rating"] + 4).to_csv(path, index=False)
    assert run_cli("fit", "mf", path, "--loss", "logistic", "--out", out) == 2
    assert "--loss logistic takes ratings that are yes" in capsys.readouterr().err


def test_a_table_of_ones_own_from_events_to_answers(tmp_path, capsys, run_cli):
    """Columns of any name and order, labels with spaces, lines that come again."""
    random = np.random.default_rng(0)
    orders = pd.DataFrame({
        "day": "2024-01-02", "article": [f"tea no {i}" for i in random.integers(0, 20, 900)],
        "qty": random.integers(1, 4, 900), "buyer": [f"B {i}" for i in random.integers(0, 60, 900)],
        "shop": "x",
    })  # fmt: skip
    path, out = tmp_path / "orders.csv", tmp_path / "run"
    orders.to_csv(path, index=False)
    assert run_cli("fit", "implicit", path, "--out", out) == 2
    assert "columns of a table with a header: --user, --item, --rating" in capsys.readouterr().err
    assert run_cli("fit", "implicit", path, "--user", "buyer", "--out", out) == 2
    assert "together: give --user and --item, and --rating" in capsys.readouterr().err
    named = ("--user", "buyer", "--item", "article", "--rating", "qty", "--test-fraction", 0)
    assert run_cli("fit", "implicit", path, *named, *SMALL, "--no-plots", "--out", out) == 0
    assert "60 buyers × 20 articles" in capsys.readouterr().out
    model = daskpart.ImplicitFactorization.load(out / "model")
    columns = {"user": "buyer", "item": "article", "rating": "qty"}
    same = {"n_ranks": 2, "max_iter": 3, "partitioner": "block"}
    expected = daskpart.ImplicitFactorization(4, **same, **columns).fit(orders)
    np.testing.assert_array_equal(model.user_factors_, expected.user_factors_)
    assert run_cli("recommend", out, "--user", "B 3", "-n", 1) == 0
    assert capsys.readouterr().out.split()[:3] == ["buyer", "article", "score"]
    assert run_cli("predict", out, path, "--output", tmp_path / "p.csv") == 0
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "p.csv")["predicted"], model.predict(orders), rtol=1e-5
    )


def test_recommend_some_users_and_all(runs, tmp_path, capsys, run_cli):
    for kind in ("mf", "implicit"):
        assert run_cli("recommend", runs / kind, "--user", 3, "--user", 7, "-n", 2) == 0
        told = capsys.readouterr().out
        assert len(told.strip().splitlines()) == 5
    model = daskpart.ImplicitFactorization.load(runs / "implicit" / "model")
    path = tmp_path / "top.csv"
    assert run_cli("recommend", runs / "implicit", "--all", "-n", 2, "--output", path) == 0
    users = model.state_.users().take(pd.RangeIndex(model.state_.n_users).to_numpy())
    expected = model.recommend(users, 2)
    found = pd.read_csv(path)
    assert found.iloc[:, :2].to_numpy().tolist() == expected.iloc[:, :2].to_numpy().tolist()


def test_all_users_go_to_one_file_which_a_second_run_replaces(runs, tmp_path, capsys, run_cli):
    pytest.importorskip("pyarrow")
    path = tmp_path / "deeper" / "top.parquet"
    for n in (3, 2):
        assert run_cli("recommend", runs / "mf", "--all", "-n", n, "--output", path) == 0
    model = daskpart.MatrixFactorization.load(runs / "mf" / "model")
    pd.testing.assert_frame_equal(
        pd.read_parquet(path), model.recommend_all(2).compute().reset_index(drop=True)
    )
    assert [each.name for each in path.parent.iterdir()] == ["top.parquet"]


def test_as_many_blocks_of_users_as_there_are_cores_are_ranked_at_a_time(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    both = threading.Barrier(2, timeout=10)

    def ranked(block):
        both.wait()
        return pd.DataFrame({"user": [block], "score": [1.0]})

    tasks = [dask.delayed(ranked)(block) for block in range(6)]
    table = dask.dataframe.from_delayed(tasks, meta=pd.DataFrame({"user": [0], "score": [1.0]}))
    monkeypatch.setattr(use, "n_cores", lambda: 2)
    with dask.config.set(num_workers=2):
        use._write_blocks(table, tmp_path / "top.parquet")
    assert pd.read_parquet(tmp_path / "top.parquet")["user"].tolist() == [*range(6)]


@pytest.mark.parametrize("name", ["top.csv", "top.csv.gz", "top.parquet"])
def test_a_full_disk_leaves_the_answers_that_were_there(
    runs, tmp_path, capsys, run_cli, small_files, name
):
    path = tmp_path / name
    given = ("recommend", runs / "mf", "--user", 1, "-n", 99, "--output", path)
    assert run_cli(*given) == 0
    read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
    assert len(read(path)) > 9
    path.write_text("of before")
    with small_files(200):
        assert run_cli(*given) == 1
    told = capsys.readouterr().err
    assert str(path) in told and "File too large; what was there before is untouched" in told
    assert path.read_text() == "of before" and [*tmp_path.iterdir()] == [path]


def test_without_pyarrow_the_extra_that_brings_it_is_named(
    runs, tmp_path, capsys, run_cli, monkeypatch
):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,item\n1,1\n")
    for module in [name for name in sys.modules if name.startswith(("pyarrow", "dask.dataframe"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(pd, "read_parquet", _without_pyarrow)
    monkeypatch.setattr(pd.DataFrame, "to_parquet", _without_pyarrow)
    (tmp_path / "pairs.parquet").write_bytes(b"PAR1")
    for command in (
        ("predict", runs / "mf", tmp_path / "pairs.parquet"),
        ("predict", runs / "mf", pairs, "--output", tmp_path / "p.parquet"),
        ("recommend", runs / "mf", "--all"),
    ):
        assert run_cli(*command) == 2
        assert "pip install 'daskpart[io]'" in capsys.readouterr().err


def _without_pyarrow(*_: object, **__: object) -> None:
    raise ImportError("Unable to find a usable engine")  # as pandas says it


def test_predict_counts_strangers_and_goes_on(runs, tmp_path, capsys, run_cli):
    pairs, out = tmp_path / "pairs.csv", tmp_path / "predicted.csv"
    pairs.write_text("user,item\n1,1\n999999,1\n1,2\n")
    assert run_cli("predict", runs / "mf", pairs, "--output", out) == 0
    assert "1 of 3 pairs have a user or an item" in capsys.readouterr().err
    model = daskpart.MatrixFactorization.load(runs / "mf" / "model")
    found = pd.read_csv(out)["predicted"]
    assert found.tolist() == pytest.approx(
        model.predict(pd.read_csv(pairs), unknown="mean").tolist(), rel=1e-5
    )
    written = pairs.read_bytes()
    assert run_cli("predict", runs / "mf", pairs, "--output", pairs) == 2
    assert "is read, and would be overwritten" in capsys.readouterr().err
    assert pairs.read_bytes() == written
    pairs.write_text("user,item\n7,1,1\n7,1,2\n")
    assert run_cli("predict", runs / "mf", pairs) == 2
    assert "expected 2 cells as in the header, found 3" in capsys.readouterr().err
    pairs.write_text("user,item\n")
    assert run_cli("predict", runs / "mf", pairs) == 2
    assert "no pairs in it, only a header" in capsys.readouterr().err
    assert run_cli("predict", runs / "mf", tmp_path / "none.csv") == 2
    assert "Error: none.csv: there is no such file" in capsys.readouterr().err.replace(
        f"{tmp_path}{os.sep}", ""
    )
    pairs.write_text("user,item,predicted\n1,2,mine\n")
    assert run_cli("predict", runs / "mf", pairs) == 2
    assert "there is a column 'predicted'" in capsys.readouterr().err


@pytest.mark.parametrize("name", [int, "n{}".format])
def test_pairs_without_a_header_lose_none(tmp_path, capsys, run_cli, name):
    """The first would be taken for names of columns, and be left out."""
    pairs = [(name(user), name(user % 7)) for user in range(20)]
    table = pd.DataFrame(pairs, columns=["user", "item"]).assign(rating=[1.0, 2.0] * 10)
    daskpart.MatrixFactorization(2, n_ranks=1, max_iter=1).fit(table).save(tmp_path / "run")
    file, out = tmp_path / "pairs.csv", tmp_path / "p.csv"
    for header in (True, False):
        table.to_csv(file, header=header, index=False)
        code = run_cli("predict", tmp_path / "run", file, "--output", out)
        assert (code, len(pd.read_csv(out))) == (0 if header else 2, 20)
    told = f"a pair that the model knows, {name(0)!r}, {name(0)!r}, and no header"
    assert told in capsys.readouterr().err


def test_how_a_table_is_written_can_be_said(tmp_path, capsys, run_cli):
    events, out = tmp_path / "events.csv", tmp_path / "run"
    named = [(f"user {n % 7}", f"tea {n % 5}") for n in range(35)]
    lines = [f"{user},{item}" for user, item in named]
    events.write_text("\n".join(lines))
    learn = ("fit", "implicit", events, *SMALL, "--no-plots", "--out", out)
    assert run_cli(*learn) == 2
    assert "a header? Say --header or --no-header, or name" in capsys.readouterr().err
    for header, n_events in (("--no-header", 35), ("--header", 34)):
        assert run_cli(*learn, header) == 0
        assert f"{n_events} values" in capsys.readouterr().out
    events.write_text("\n".join(["1,2", *lines]))
    assert run_cli(*learn) == 2
    assert "if ids are text, say --text-ids" in capsys.readouterr().err
    assert run_cli(*learn, "--text-ids") == 0
    assert "8 users × 6 items" in capsys.readouterr().out


def test_names_that_look_like_numbers(tmp_path, capsys, run_cli):
    """Pandas takes 034, 1e3 and NA for numbers where nothing else is in a column."""
    events, pairs, out = (tmp_path / name for name in ("books.csv", "pairs.csv", "predicted.csv"))
    books = ["034", "08X", "1e3", "NA", "34"]
    lines = [f"{user},{book},{user % 3 + 1}" for user in range(1, 7) for book in books[user % 2 :]]
    events.write_text("\n".join(["user,item,rating", *lines]))
    assert run_cli("fit", "mf", events, *SMALL, "--no-plots", "--out", tmp_path / "run") == 0
    pairs.write_text("item,user\n034,2\n1e3,3\nNA,4\n34,6\n034,somebody\n")
    assert run_cli("predict", tmp_path / "run", pairs, "--output", out) == 0
    assert "1 of 5 pairs have a user" in capsys.readouterr().err
    model = daskpart.MatrixFactorization.load(tmp_path / "run" / "model")
    expected = model.predict([(2, "034"), (3, "1e3"), (4, "NA"), (6, "34")])
    found = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert found["item"].tolist() == ["034", "1e3", "NA", "34", "034"]
    assert found["predicted"].astype(float)[:4].tolist() == pytest.approx(expected.tolist())
    assert run_cli("recommend", tmp_path / "run", "--user", "2") == 0
    assert "no item is left" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("label", [int, "n{}".format])
def test_pairs_are_read_once_and_strangers_alone_are_answered_anew(
    label, suffix, tmp_path, monkeypatch, run_cli
):
    ratings = [(label(user), label(user % 7), 1.0 + user % 3) for user in range(20)]
    table = pd.DataFrame(ratings, columns=["user", "item", "rating"])
    model = daskpart.MatrixFactorization(2, n_ranks=1, max_iter=1).fit(table)
    model.save(tmp_path / "run")
    asked = pd.DataFrame({"user": map(label, [*range(18), 90, 91]), "item": map(label, range(20))})
    pairs, out = tmp_path / f"pairs.{suffix}", tmp_path / "p.parquet"
    asked.to_parquet(pairs) if suffix == "parquet" else asked.to_csv(pairs, index=False)
    reads, answers = [], []
    read_table, predict = use.read_table, daskpart.MatrixFactorization.predict
    monkeypatch.setattr(use, "read_table", lambda *given: reads.append(1) or read_table(*given))
    monkeypatch.setattr(
        daskpart.MatrixFactorization,
        "predict",
        lambda model, given, unknown: answers.append(len(given)) or predict(model, given, unknown),
    )
    assert run_cli("predict", tmp_path / "run", pairs, "--output", out) == 0
    n_strange = int(np.isnan(predict(model, asked, "nan")).sum())
    assert (len(reads), answers[-2:]) == (1, [20, n_strange]) and 2 <= n_strange < 20
    assert pd.read_parquet(out)["predicted"].tolist() == predict(model, asked, "mean").tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_stranger_does_not_round_the_ids_of_the_others(tmp_path, capsys, run_cli, suffix):
    """A missing number makes fractions of a column, and these ids have neighbours there."""
    random, first = np.random.default_rng(0), 2**56
    ratings = pd.DataFrame({
        "user": first + random.integers(0, 40, 400), "item": random.integers(0, 20, 400),
        "rating": random.integers(1, 6, 400),
    }).drop_duplicates(["user", "item"])  # fmt: skip
    path, out, pairs = tmp_path / "ratings.csv", tmp_path / "run", tmp_path / f"pairs.{suffix}"
    ratings.to_csv(path, index=False)
    assert run_cli("fit", "mf", path, *SMALL, "--no-plots", "--out", out) == 0
    model = daskpart.MatrixFactorization.load(out / "model")
    asked = ratings[["user", "item"]].astype({"user": "Int64"})
    expected = model.predict(asked)
    asked.iloc[7, 0] = pd.NA
    asked.to_parquet(pairs) if suffix == "parquet" else asked.to_csv(pairs, index=False)
    assert run_cli("predict", out, pairs, "--output", tmp_path / "p.csv") == 0
    assert "1 of " in capsys.readouterr().err
    found = pd.read_csv(tmp_path / "p.csv", dtype={"user": "Int64"})
    assert found["user"].isna().sum() == 1 and found["user"].max() == asked["user"].max()
    same = np.arange(len(asked)) != 7
    np.testing.assert_allclose(found["predicted"][same], expected[same], rtol=1e-5)


def test_strangers_to_a_model_without_biases_get_the_mean(tmp_path, capsys, run_cli):
    table, pairs, run = tmp_path / "r.csv", tmp_path / "pairs.csv", tmp_path / "run"
    ratings = pd.DataFrame({"user": np.arange(60) % 20, "item": np.arange(60) % 7, "rating": 4.0})
    ratings.to_csv(table, index=False)
    options = {"n_ranks": 1, "max_iter": 1, "biases": False}
    daskpart.MatrixFactorization(2, **options).fit(ratings).save(run)
    pd.DataFrame({"user": [999], "item": [1]}).to_csv(pairs, index=False)
    assert run_cli("predict", run, pairs, "--output", tmp_path / "p.csv") == 0
    assert "they get the mean\n" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "p.csv")["predicted"].tolist() == [4.0]
    options |= {"loss": "logistic"}  # of which a half has the score 0
    halves = ratings.assign(rating=np.arange(60) % 2)
    daskpart.MatrixFactorization(2, **options).fit(halves).save(run)
    assert run_cli("predict", run, pairs, "--output", tmp_path / "p.csv") == 0
    assert "they get the mean\n" in capsys.readouterr().err
    assert pd.read_csv(tmp_path / "p.csv")["predicted"].tolist() == [0.5]


@pytest.mark.parametrize(
    "of",
    [
        lambda n: f"u{n}".encode(),
        lambda n: datetime.date(2026, 1, n + 1),
        lambda n: pd.Timestamp("2026-01-01 12:30") + pd.Timedelta(n, "D"),
        lambda n: n > 2,
    ],
)
def test_ids_of_parquet_are_those_of_the_fit(of, tmp_path, capsys, run_cli):
    """Of bytes, dates, times and bools nobody was known, as the fit has them as text."""
    path, out = tmp_path / "pairs.parquet", tmp_path / "run"
    users, items = np.divmod(np.arange(30), 6)
    rows = {"user": [of(int(user)) for user in users], "item": items, "rating": np.arange(30.0)}
    pd.DataFrame(rows).drop_duplicates(["user", "item"]).to_parquet(path)
    few = ("--max-iter", 1, "--components", 2, "--test-fraction", 0, "--no-plots", "--ranks", 1)
    assert run_cli("fit", "mf", path, *few, "--out", out) == 0
    assert run_cli("predict", out, path) == 0
    assert "does not know" not in capsys.readouterr().err


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_blank_lines_above_the_header_are_passed_over(mark, runs, tmp_path, capsys, run_cli):
    """The first was taken for the header: of a comma it was a traceback, of others one column."""
    path, told = tmp_path / "pairs.csv", []
    for blank in ("", "\n\n"):
        path.write_text(f"{blank}user{mark}item\n1{mark}1\n{blank}2{mark}3\n")
        assert run_cli("predict", runs / "mf", path) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_ids_that_are_none_are_refused(runs, tmp_path, capsys, run_cli):
    path, out = tmp_path / "pairs.parquet", tmp_path / "run"
    table = "".join(f"u{n % 5},{n % 6},{n}\n" for n in range(30))
    (tmp_path / "named.csv").write_text(f"user,item,rating\n{table}")
    few = ("--max-iter", 1, "--components", 2, "--no-plots", "--ranks", 1, "--out", out)
    assert run_cli("fit", "mf", tmp_path / "named.csv", *few) == 0
    pd.DataFrame({"user": [[1], [2]], "item": [1, 2]}).to_parquet(path)
    assert run_cli("predict", out, path) == 2
    assert "column 'user' holds no ids" in capsys.readouterr().err


def test_pairs_may_be_parquet_and_strangers_have_no_preferences(runs, tmp_path, capsys, run_cli):
    pytest.importorskip("pyarrow")
    pairs, out = tmp_path / "pairs.parquet", tmp_path / "predicted.parquet"
    pd.DataFrame({"user": [1, 999999], "item": [1, 1]}).to_parquet(pairs)
    assert run_cli("predict", runs / "implicit", pairs, "--output", out) == 0
    assert "does not know: they get 0" in capsys.readouterr().err
    predicted = pd.read_parquet(out)["predicted"]
    assert predicted[0] != 0 and predicted[1] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("recommend", "mf"), "say for whom"),
        (("recommend", "mf", "--user", 1, "--all"), "say for whom"),
        (("recommend", "mf", "--user", "ann"), "users of this model are numbers"),
        (("recommend", "mf", "--user", 999999), "unknown to the model"),
        (("recommend", ".", "--all"), "holds no model of users and items"),
        (("predict", "mf", "nowhere.csv"), "no such file"),
    ],
)
def test_what_cannot_be_answered(runs, capsys, run_cli, arguments, words):
    command, folder, *rest = arguments
    assert run_cli(command, runs / folder, *rest) == 2
    assert words in capsys.readouterr().err


def test_a_model_of_something_else_is_named(tmp_path, capsys, run_cli):
    X = pd.DataFrame({"a": [0, 1, 1], "b": [0, 1, 0], "value": [1.0, 2.0, 3.0]})
    daskpart.CPDecomposition(1, n_ranks=1, max_iter=1).fit(X).save(tmp_path / "model")
    assert run_cli("recommend", tmp_path, "--user", 1) == 2
    assert "no model of users and items: it is a CPDecomposition" in capsys.readouterr().err


def test_few_ratings(tmp_path, capsys, run_cli):
    """A share of few is none; who has seen all is recommended nothing, and no empty table."""
    path, out = tmp_path / "ratings.csv", tmp_path / "run"
    path.write_text("user,item,rating\n1,2,3\n1,3,4\n")
    learn = ("fit", "mf", path, *SMALL, "--ranks", 1, "--no-plots", "--out", out)
    assert run_cli(*learn, "--test-fraction", 0.1) == 2
    assert "--test-fraction 0.1 holds out 0 of 2 values" in capsys.readouterr().err
    assert run_cli(*learn, "--test-fraction", 0) == 0
    capsys.readouterr()
    assert run_cli("recommend", out, "--user", 1) == 0
    told = capsys.readouterr()
    assert "no item is left" in told.err and not told.out.strip()
