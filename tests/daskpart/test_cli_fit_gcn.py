"""`daskpart fit gcn`: what it writes, from files and from the built-in data."""

from __future__ import annotations

import html
import re
import shlex
import sys
from itertools import pairwise

import hypothesis
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from command_results import metrics_of
from hypothesis import strategies as st

import daskpart
from daskpart._cli import page
from daskpart._cli.classes import judged, most_frequent, no_better
from daskpart.models.graph_convolution import fitted_network
from daskpart.readers import archives

SMALL = ("--max-iter", 3, "--partitioner", "random", "--ranks", 2, "--hidden", 6)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A graph of 60 vertices, features and labels."""
    folder = tmp_path_factory.mktemp("graph")
    random = np.random.default_rng(0)
    graph = scipy.sparse.random_array((60, 60), density=0.08, rng=random)
    scipy.io.mmwrite(folder / "A.mtx", graph)
    np.save(folder / "X.npy", random.normal(size=(60, 5)))
    labels = np.where(random.random(60) < 0.2, -1, random.integers(0, 3, 60))
    (folder / "y.txt").write_text("".join(f"{label}\n" for label in labels))
    return folder


@pytest.fixture
def data(files):
    """How they are typed."""
    return files / "A.mtx", "--features", files / "X.npy", "--labels", files / "y.txt"


def test_classes_weigh_as_is_said(data, tmp_path, run_cli):
    weighed = (*SMALL, "--class-weight", "balanced", "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "gcn", *data, *weighed) == 0
    model = daskpart.GCNClassifier.load(tmp_path / "model")
    assert model.class_weight == model.state_.settings["class_weight"] == "balanced"


def test_fit_writes_a_model_that_loads(data, tmp_path, capsys, run_cli):
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", *data, *SMALL, "--hidden", 4, "--out", out) == 0
    told = capsys.readouterr()
    assert (
        "a graph of 60 vertices, 5 features" in told.out and "hidden labels are right" in told.out
    )
    metrics = metrics_of(out)
    assert metrics["communication"]["matches"] is True and metrics["epochs"] == 3
    assert 0 <= metrics["test_accuracy"] <= 1
    sets = re.search(r"(\d+) labelled vertices to train on, (\d+) to judge by", told.out)
    trained, judged_by = map(int, sets.groups())
    assert trained + judged_by == (np.loadtxt(data[-1]) >= 0).sum()
    assert judged_by == metrics["n_test"] > 0
    assert np.sum(metrics["confusion"]) == metrics["n_test"]
    model = daskpart.GCNClassifier.load(out / "model")
    assert model.hidden == (6, 4)
    assert (out / "labels.csv").read_text().count("\n") == 61
    assert told.out.count("; vertices are counted from 0") == 2  # those of an .mtx file begin at 1
    pictures = {path.stem for path in out.glob("*.png")}
    assert pictures >= {"training", "confusion", "embedding", "halo", "partition", "traffic"}
    assert (out / "report.html").read_text().count("data:image/png;base64,") == len(pictures)


def test_one_rank_has_no_traffic_to_draw(data, tmp_path, run_cli, monkeypatch):
    typed = ["daskpart", "fit", "gcn", "my graph.mtx", "--layer-options", "heads=2"]
    monkeypatch.setattr(sys, "argv", typed)
    more = (*SMALL, "--ranks", 1, "--max-iter", 1, "--test-fraction", 0, "--out", tmp_path)
    assert run_cli("fit", "gcn", *data, *more) == 0
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    assert pictures == {"training", "embedding", "timeline"}
    page = (tmp_path / "report.html").read_text()
    assert "<p>1 epoch in " in page and "has nobody to send to" in page
    assert shlex.join(typed) in html.unescape(page)
    assert "Partition</h2>" not in page and "All as planned" not in page


def test_the_page_says_who_sent_and_who_received(data, tmp_path, run_cli, monkeypatch):
    pages = []
    monkeypatch.setattr(page, "write_page", lambda *_, **content: pages.append(content) or [])
    assert run_cli("fit", "gcn", *data, *SMALL, "--no-plots", "--out", tmp_path) == 0
    (content,) = pages
    measured, lines = content["measured"], content["traffic_lines"]
    sent = measured.sent[1]
    assert sent[0, 1] != sent[1, 0]  # edges have a direction
    expected = zip(
        range(2), (sent[0, 1], sent[1, 0]), (sent[1, 0], sent[0, 1]),
        measured.seconds_computing, measured.seconds_blocked, strict=True,
    )  # fmt: skip
    assert lines == list(expected)


def test_mini_batches_from_the_shell(data, tmp_path, run_cli):
    more = ("--batch-size", 10, "--sampler", "vertex", "--partitioner", "stochastic")
    more = (*more, "--learning-rate", "invscaling", "--power-t", 1, "--no-plots")
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", *data, *SMALL, *more, "--out", out) == 0
    model = daskpart.GCNClassifier.load(out / "model")
    assert (model.batch_size, model.sampler) == (10, "vertex")
    assert model.history_["learning_rate"].iloc[0] == 0.01 / 6
    assert model.plan_report_.n_batches == 6
    assert (model.history_["rows asked for"] > 0).all()


def test_messages_of_validation_are_told_beside_those_of_mini_batches(
    data, tmp_path, capsys, run_cli
):
    more = ("--batch-size", 10, "--validation-fraction", 0.2, "--patience", 5, "--no-plots")
    assert run_cli("fit", "gcn", *data, *SMALL, *more, "--out", tmp_path) == 0
    metrics = metrics_of(tmp_path)
    plan, run = metrics["plan"], metrics["communication"]
    messages = plan["n_batches"] * plan["messages_a_batch"] + plan["validation_messages"]
    assert messages == sum(run["measured_messages"]) and plan["validation_rows"] > 0
    words = f"{plan['validation_rows']:,} rows and {plan['validation_messages']:,} messages"
    assert words in capsys.readouterr().out and words in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (("--batch-size", "0.5"), "batch_size", 0.5),
        (("--batch-size", "1e1"), "batch_size", 10),
        (("--layer", "sgc", "--hidden", 0), "hidden", ()),
        (("--layer", "gat", "--layer-options", "heads=2"), "layer_options", {"heads": 2}),
    ],
)
def test_values_that_are_no_plain_number(data, tmp_path, capsys, run_cli, given, name, value):
    run = ("--max-iter", 1, "--ranks", 2, "--partitioner", "block", "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "gcn", *data, *run, *given) == 0
    assert daskpart.GCNClassifier.load(tmp_path / "model").get_params()[name] == value
    what = "the outputs (there is no hidden layer)" if value == () else "the last hidden layer"
    assert f"{what}, one line a vertex" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--hidden", 0, "--hidden", 8), "it stands alone"),
        (("--hidden", "10,5"), "the option once for each"),
        (("--batch-size", "1.5"), "must be a whole number"),
        (("--batch-size", "0"), "is not in the range x>=1"),
        (("--layer-options", "heads"), "write name=value"),
    ],
)
def test_values_that_say_nothing(capsys, run_cli, given, message):
    assert run_cli("fit", "gcn", "A.mtx", *given) == 2
    assert message in capsys.readouterr().err


def test_the_built_in_data_have_names(tmp_path, run_cli):
    arguments = ("--symmetrize", *SMALL, "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "gcn", "python-source", *arguments) == 0
    first = (tmp_path / "labels.csv").read_text().splitlines()[1]
    assert not first[0].isdigit()


def test_some_labels_must_be_left_to_train_on(files, capsys, run_cli):
    given = ("--labels", files / "y.txt", "--test-fraction", "0.999999")
    assert run_cli("fit", "gcn", files / "A.mtx", *given, *SMALL) == 2
    assert "--test-fraction 0.999999 holds out all" in capsys.readouterr().err


def test_features_of_no_known_kind(files, tmp_path, capsys, run_cli):
    path = tmp_path / "features.txt"
    path.write_text("to be or not to be\n")
    given = ("--features", path, "--labels", files / "y.txt", "--out", tmp_path)
    assert run_cli("fit", "gcn", files / "A.mtx", *given) == 2
    assert "tell the format; give .npy, .npz, .mtx or a table\n" in capsys.readouterr().err


def test_a_graph_may_bring_its_features_and_labels(tmp_path, capsys, run_cli):
    """Those in files of their own go before them."""
    n = 30
    ring = (np.arange(n)[:, None] + [-1, 1]) % n
    of_edges = {"adj_indptr": 2 * np.arange(n + 1), "adj_indices": ring.ravel()}
    features = {"feat_indptr": np.arange(n + 1), "feat_indices": np.arange(n) % 3,
                "feat_shape": [n, 3]}  # fmt: skip
    labels = np.where(np.arange(n) < 20, np.arange(n) % 2, -1)
    graph, other = tmp_path / "graph.npz", tmp_path / "y.txt"
    np.savez(graph, **of_edges, **features, labels=labels)
    other.write_text("1\n0\n" * 15)
    given = (
        "fit",
        "gcn",
        graph,
        *SMALL,
        "--no-plots",
        "--test-fraction",
        0,
        "--out",
        tmp_path / "o",
    )
    assert run_cli(*given) == 0
    assert "30 vertices, 3 features, 20 labelled" in capsys.readouterr().out
    assert run_cli(*given, "--labels", other) == 0
    assert "30 vertices, 3 features, 30 labelled" in capsys.readouterr().out
    np.savez(graph, **of_edges)
    assert run_cli(*given) == 2
    assert "--labels is missing" in capsys.readouterr().err


def test_a_graph_may_say_what_is_held_out(tmp_path, capsys, monkeypatch, run_cli):
    """The file is read once; what is of no set is not learnt from."""
    n, graph, out = 40, tmp_path / "graph.npz", tmp_path / "o"
    ring = (np.arange(n)[:, None] + [-1, 1]) % n
    sets = {"train_idx": np.arange(20), "val_idx": np.arange(20, 28), "test_idx": np.arange(28, 35)}
    labels = np.where(np.arange(n) < 35, np.arange(n) % 2, 2)  # a class that is in no set
    np.savez(
        graph, adj_indptr=2 * np.arange(n + 1), adj_indices=ring.ravel(), labels=labels, **sets
    )
    given = ("fit", "gcn", graph, *SMALL, "--no-plots", "--out", out)
    reads, usual = [], archives.read_npz
    monkeypatch.setattr(archives, "read_npz", lambda path: reads.append(path) or usual(path))
    assert run_cli(*given, "--patience", 5) == 0
    assert len(reads) == 1
    words = "40 vertices, no features, 20 labelled vertices to train on, 8 to validate, 7 to judge"
    assert words in capsys.readouterr().out
    model, metrics = daskpart.GCNClassifier.load(out / "model"), metrics_of(out)
    assert metrics["n_test"] == 7 and model.classes_.tolist() == [0, 1]
    found, embedding = (pd.read_csv(out / f"{name}.csv") for name in ("labels", "embedding"))
    assert found["vertex"].tolist() == embedding.pop("vertex").tolist() == list(range(n))
    np.testing.assert_array_equal(found["label"], model.predict(None))
    np.testing.assert_allclose(embedding, model.transform(None), rtol=1e-6)
    right = (found["label"] == labels)[sets["test_idx"]]
    assert metrics["test_accuracy"] == pytest.approx(right.mean())
    for option in ("--test-fraction", "--validation-fraction"):
        assert run_cli(*given, option, 0.1) == 2
        assert f"leave out {option}" in capsys.readouterr().err
    np.savez(graph, adj_indptr=2 * np.arange(n + 1), adj_indices=ring.ravel(), labels=labels,
             test_idx=np.arange(40))  # fmt: skip
    assert run_cli(*given) == 2
    assert "no labelled vertex is for training" in capsys.readouterr().err


def test_a_vertex_that_labels_name_twice_is_told_as_it_is_written(files, capsys, run_cli):
    (files / "twice.csv").write_text("node,label\n1,0\n1,1\n2,0\n")
    assert run_cli("fit", "gcn", files / "A.mtx", "--labels", files / "twice.csv", *SMALL) == 2
    assert "labels name 1 more than once" in capsys.readouterr().err


def test_labels_must_be_given(files, capsys, run_cli):
    assert run_cli("fit", "gcn", files / "A.mtx", *SMALL) == 2
    assert "--labels is missing" in capsys.readouterr().err


@pytest.fixture
def named(tmp_path):
    """Edges between names under a header, labels of some vertices, features in another order."""
    names = [f"v{vertex}" for vertex in range(30)]
    edges = [f"{names[i]},{names[(i + step) % 30]}" for i in range(30) for step in (1, 2)]
    (tmp_path / "edges.csv").write_text("from,to\n" + "\n".join(edges) + "\n")
    labels = [f"{name},{'low' if at < 15 else 'high end'}" for at, name in enumerate(names[:25])]
    (tmp_path / "labels.csv").write_text("node,label\n" + "\n".join(labels) + "\n")
    rows = [f"{name},{at // 15},1" for at, name in reversed([*enumerate(names)])]
    (tmp_path / "features.csv").write_text("node,half,one\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_tables_are_matched_by_name(named, tmp_path, capsys, run_cli):
    given = ("--features", named / "features.csv", "--labels", named / "labels.csv")
    more = ("--test-fraction", 0.0, "--max-iter", 60, "--ranks", 2, "--no-plots")
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", named / "edges.csv", *given, *more, "--out", out) == 0
    told = capsys.readouterr().out
    assert "a graph of 30 vertices, 2 features, 25 labelled vertices" in told
    assert "counted from 0" not in told
    found = (out / "labels.csv").read_text().split()
    assert {"v3,low", "v20,high"} <= set(found)  # those without a label have one now, too
    assert len((out / "labels.csv").read_text().splitlines()) == 31


def test_who_has_features_and_no_edge_is_a_vertex(named, tmp_path, capsys, run_cli):
    """It was refused, while a table of edges in Python takes it."""
    with (named / "features.csv").open("a") as lines:
        lines.write("alone,1,1\n")
    with (named / "labels.csv").open("a") as lines:
        lines.write("alone,high end\n")
    given = ("--features", named / "features.csv", "--labels", named / "labels.csv")
    more = ("--test-fraction", 0.0, "--max-iter", 60, "--ranks", 2, "--no-plots")
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", named / "edges.csv", *given, *more, "--out", out) == 0
    assert "a graph of 31 vertices, 2 features, 26 labelled vertices" in capsys.readouterr().out
    assert "alone,high end" in (out / "labels.csv").read_text()


def test_a_matrix_gets_no_vertices_by_features(tmp_path, capsys, run_cli):
    ring = np.stack([(np.arange(30) + 1) % 30, (np.arange(30) - 1) % 30], axis=1)
    np.savez(tmp_path / "graph.npz", adj_indptr=2 * np.arange(31), adj_indices=ring.ravel(),
             labels=np.arange(30) % 2)  # fmt: skip
    rows = "".join(f"{vertex},{vertex % 2}\n" for vertex in range(32))
    (tmp_path / "features.csv").write_text(f"node,odd\n{rows}")
    given = (tmp_path / "graph.npz", "--features", tmp_path / "features.csv")
    assert run_cli("fit", "gcn", *given, "--out", tmp_path / "out") == 2
    assert "features.csv: 32 rows for 30 vertices; give one for each" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "useless"), [(1e-9, True), (0.05, False)])
def test_a_model_that_is_of_no_use_is_told_of(named, tmp_path, capsys, run_cli, rate, useless):
    """One that was stopped too early was right less often than the most frequent class, quietly."""
    given = ("--features", named / "features.csv", "--labels", named / "labels.csv", "--ranks", 1)
    more = ("--max-iter", 60, "--initial-learning-rate", rate, "--no-plots", "--dropout", 0)
    assert run_cli("fit", "gcn", named / "edges.csv", *given, *more, "--out", tmp_path / "o") == 0
    assert ("does no better than that" in capsys.readouterr().out) is useless


def test_nothing_is_better_than_always_right():
    """Where all that is held out is of one class, it was told to be no better than that class."""
    wanted = np.zeros(5, int)
    assert no_better(judged(wanted, wanted, [0, 1])) == []
    assert no_better(judged(wanted, np.array([0, 0, 0, 0, 1]), [0, 1]))


@hypothesis.settings(max_examples=20)
@hypothesis.given(st.lists(st.tuples(st.sampled_from("zxyw"), st.sampled_from("xyz")), min_size=1))
def test_right_and_wrong_answers_are_counted_by_class(answers):
    """Rows are true classes, in the order of the model, then those that it does not know."""
    wanted, found = map(np.array, zip(*answers, strict=True))
    seen = [each for each in "zxyw" if each in wanted or each in found]
    judgement = judged(wanted, found, [*"zxy"])
    assert judgement["classes"] == seen
    assert judgement["confusion"] == [[answers.count((a, b)) for b in seen] for a in seen]
    assert judgement["n_test"] == len(answers)
    assert judgement["test_accuracy"] == np.mean(wanted == found)
    assert most_frequent(judgement) == max(np.mean(wanted == each) for each in seen)


def test_truth_values_of_csv_are_features(named, tmp_path, run_cli):
    given = ("--features", named / "features.csv", "--labels", named / "labels.csv")
    more = ("--test-fraction", 0.0, "--max-iter", 3, "--ranks", 2, "--no-plots")
    numbers = pd.read_csv(named / "features.csv")
    for out, table in (("numbers", numbers), ("bools", numbers.assign(half=numbers["half"] == 1))):
        table.to_csv(named / "features.csv", index=False)
        edges = named / "edges.csv"
        assert run_cli("fit", "gcn", edges, *given, *more, "--out", tmp_path / out) == 0
    one, other = (
        daskpart.GCNClassifier.load(tmp_path / out / "model") for out in ("numbers", "bools")
    )
    for ours, theirs in zip(one.coefs_, other.coefs_, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("labels.csv", "", "there are no labels in it"),
        (
            "labels.csv",
            "v1,low\nw1,high\n",
            "labels name 'w1', which is no vertex of the graph (those are 'v0', 'v1', 'v10' …)",
        ),
        ("labels.csv", "v1,low\nv1,high\n", "labels name 'v1' more than once"),
        ("labels.csv", "v1,low,3\n", "3 columns; give a label a line"),
        ("labels.csv", "low\nhigh\n", "2 labels for 30 vertices"),
        ("labels.csv", "low end\nnot so high\n", "not all lines have as many columns as the first"),
        (
            "labels.csv",
            "node,label\nv1,low,v2\nv2,high,v3\n",
            "labels.csv, first line below the header: expected 2 cells as in the header, found 3",
        ),
        (
            "features.csv",
            "node,one\nv1,3,4\nv2,3,4\n",
            "expected 2 cells as in the header, found 3",
        ),
        (
            "features.csv",
            "node,one\nv1,3\n",
            "features name 1 of the 30 vertices, and not 'v0': give a row for each",
        ),
        ("edges.csv", "a,b,c,d\n1,2,3,4\n", "is its first line, 'a,b,c,d', a header"),
    ],
)
def test_tables_that_do_not_fit(named, capsys, run_cli, file, text, message):
    (named / file).write_text(text)
    given = ("--features", named / "features.csv", "--labels", named / "labels.csv")
    assert run_cli("fit", "gcn", named / "edges.csv", *given, "--ranks", 2) == 2
    assert message in capsys.readouterr().err


def test_a_header_in_words_of_ones_own(named, tmp_path, capsys, run_cli):
    """It names neither a vertex nor a class; who names a class meant a vertex."""
    rows = (named / "labels.csv").read_text().splitlines()[1:]
    given = ("fit", "gcn", named / "edges.csv", "--labels", named / "labels.csv")
    more = ("--test-fraction", 0.0, "--max-iter", 1, "--ranks", 1, "--no-plots")
    (named / "labels.csv").write_text("\n".join(["person,team", *rows]))
    assert run_cli(*given, *more, "--out", tmp_path / "out") == 0
    assert "25 labelled vertices" in capsys.readouterr().out
    (named / "labels.csv").write_text("\n".join(["person,low", *rows]))
    assert run_cli(*given, *more, "--out", tmp_path / "other") == 2
    assert "labels name 'person', which is no vertex" in capsys.readouterr().err


@pytest.mark.parametrize("head", ["node;label", '"person; its name";"team; of all"', None])
def test_a_mark_inside_quotes_parts_no_columns(named, tmp_path, run_cli, head):
    """Neither in the name of a vertex nor in a class; with or without a header."""
    names = [f"Doe; {vertex}, Jo" for vertex in range(30)]
    edges = [f'"{names[i]}"\t"{names[(i + 1) % 30]}"' for i in range(30)]
    (named / "edges.tsv").write_text("\n".join(["source\ttarget", *edges, ""]))
    rows = [f'"{name}";"{"red; hot" if at < 15 else "blue"}"' for at, name in enumerate(names)]
    (named / "labels.csv").write_text("\n".join([*([head] if head else []), *rows, ""]))
    given = (named / "edges.tsv", "--labels", named / "labels.csv", "--out", tmp_path / "out")
    more = ("--test-fraction", 0.0, "--max-iter", 1, "--ranks", 1, "--no-plots")
    assert run_cli("fit", "gcn", *given, *more) == 0
    fitted = daskpart.GCNClassifier.load(tmp_path / "out" / "model")
    assert fitted.classes_.tolist() == ["blue", "red; hot"]
    assert fitted.vertex_names_.tolist() == sorted(names)


@pytest.mark.parametrize("head", [[], ["node,label"], ["name,y"]])
@pytest.mark.parametrize("first", ["y", "class", "Target", "category", "label"])
def test_a_class_may_be_called_as_a_column_is(named, tmp_path, run_cli, first, head):
    """A first line that names a vertex is no header, and of labels alone one more is."""
    labels = [first if vertex < 15 else "n" for vertex in range(30)]
    (named / "labels.csv").write_text(
        "\n".join([*head, *(f"v{vertex},{label}" for vertex, label in enumerate(labels)), ""])
    )
    more = ("--test-fraction", 0.0, "--max-iter", 1, "--ranks", 1, "--no-plots")
    wanted = sorted({first, "n"})
    given = (named / "edges.csv", "--labels", named / "labels.csv")
    assert run_cli("fit", "gcn", *given, *more, "--out", tmp_path / "out") == 0
    fitted = daskpart.GCNClassifier.load(tmp_path / "out" / "model")
    assert fitted.classes_.tolist() == wanted and fitted.history_["loss"].notna().all()
    (named / "numbers.csv").write_text("source,target\n0,1\n1,2\n2,3\n")
    (named / "alone").write_text("\n".join([*[each[5:] for each in head], first, "n", "n", "n"]))
    given = (named / "numbers.csv", "--labels", named / "alone")
    assert run_cli("fit", "gcn", *given, *more, "--out", tmp_path / "other") == 0
    found = daskpart.GCNClassifier.load(tmp_path / "other" / "model")
    assert found.classes_.tolist() == wanted


def test_a_class_of_hidden_labels_only_is_counted(files, tmp_path, run_cli):
    """The model does not know it, so it has a line of wrong answers, and no right one."""
    labels = [f"rare{vertex}" if vertex < 8 else "ab"[vertex % 2] for vertex in range(60)]
    (tmp_path / "y.txt").write_text("\n".join(labels))
    given = ("--labels", tmp_path / "y.txt", "--test-fraction", 0.5, "--no-plots", *SMALL)
    assert run_cli("fit", "gcn", files / "A.mtx", *given, "--out", tmp_path / "out") == 0
    metrics = metrics_of(tmp_path / "out")
    known = daskpart.GCNClassifier.load(tmp_path / "out" / "model").classes_.tolist()
    assert set(metrics["classes"]) - set(known)
    assert np.sum(metrics["confusion"]) == metrics["n_test"]
    right = np.trace(metrics["confusion"]) / metrics["n_test"]
    assert right == pytest.approx(metrics["test_accuracy"])


def test_a_graph_of_metis(files, tmp_path, run_cli):
    """Both directions of each edge, with its weight; also as a graph in parts."""
    lines = ["60 60 001"]
    for v in range(60):
        before, after = (v - 1) % 60, (v + 1) % 60
        lines.append(f"{before + 1} {2 + before} {after + 1} {2 + v}")
    (tmp_path / "ring.graph").write_text("\n".join(lines) + "\n")
    given = ("--features", files / "X.npy", "--labels", files / "y.txt", "--no-plots")
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", tmp_path / "ring.graph", *given, *SMALL, "--out", out) == 0
    vertices = np.arange(60)
    wanted = np.zeros((60, 60))
    wanted[vertices, (vertices + 1) % 60] = wanted[(vertices + 1) % 60, vertices] = 2 + vertices
    fitted = daskpart.GCNClassifier.load(out / "model")
    np.testing.assert_array_equal(fitted.graph_.toarray(), wanted)
    (tmp_path / "parts").write_text("".join(f"{v // 30}\n" for v in vertices))
    parts = ("--to", "parmetis", "--partition", tmp_path / "parts")
    assert run_cli("convert", tmp_path / "ring.graph", tmp_path / "halves", *parts) == 0
    with np.load(tmp_path / "halves" / "rank1.npz") as arrays:
        assert arrays["vtxdist"].tolist() == [0, 30, 60] and len(arrays["adjncy"]) == 60


def test_rows_without_names_beside_vertices_with(files, tmp_path, capsys, run_cli):
    """Vertices called by texts have no order that a file of features could keep."""
    edges, labels = tmp_path / "calls.csv", tmp_path / "known.csv"
    names = [f"n{vertex}" for vertex in range(60)]
    pairs = [f"{one},{other}" for one, other in pairwise(names)]
    edges.write_text("\n".join(["source,target", *pairs]))
    known = [f"n{vertex},{'ab'[vertex % 2]}" for vertex in range(57)]
    labels.write_text("\n".join(["vertex,label", *known, "n57,-1"]))
    fit = ("fit", "gcn", edges, *SMALL, "--no-plots", "--out", tmp_path / "out")
    for given in (
        ("--features", files / "X.npy", "--labels", labels),
        ("--labels", files / "y.txt"),
    ):
        assert run_cli(*fit, *given) == 2
        assert "nothing says which row is whose" in capsys.readouterr().err
    assert run_cli(*fit, "--labels", labels) == 0
    assert daskpart.GCNClassifier.load(tmp_path / "out" / "model").classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("X.npy", lambda path: np.save(path, np.ones(60)), "has the shape (60,)"),
        ("X.npy", lambda path: np.save(path, np.array([{}] * 60)), "cannot be read as an array"),
        ("X.npy", lambda path: np.save(path, np.full((60, 2), "a")), "holds no numbers"),
        ("X.npy", lambda path: path.write_text("1 2\n"), "cannot be read as an array"),
        ("X.npy", None, "no such file"),
        ("X.npz", None, "no such file"),
        ("X.tns", lambda path: path.write_text("1 1 1 2.0\n"), "has the shape (1, 1, 1)"),
        ("X.hgr", lambda path: path.write_text("1 2\n1 2\n"), "holds no rows of features"),
    ],
)
def test_features_that_are_none(files, tmp_path, capsys, run_cli, name, write, message):
    if write is not None:
        write(tmp_path / name)
    given = ("--features", tmp_path / name, "--labels", files / "y.txt", *SMALL)
    assert run_cli("fit", "gcn", files / "A.mtx", *given) == 2
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told


def test_features_in_files_of_other_kinds(files, tmp_path, run_cli, monkeypatch):
    """Samples go without their labels; "~" is the home folder, of arrays too."""
    X = np.load(files / "X.npy")
    (tmp_path / "X.npy").write_bytes((files / "X.npy").read_bytes())
    lines = (" ".join(f"{at}:{value!r}" for at, value in enumerate(row.tolist(), 1)) for row in X)
    (tmp_path / "X.libsvm").write_text("".join(f"1 {line}\n" for line in lines))
    monkeypatch.setenv("HOME", str(tmp_path))
    fits = []
    for name in ("X.npy", "X.libsvm"):
        given = ("--features", f"~/{name}", "--labels", files / "y.txt", "--no-plots", *SMALL)
        out = tmp_path / f"of {name}"
        assert run_cli("fit", "gcn", files / "A.mtx", *given, "--out", out) == 0
        fits.append(daskpart.GCNClassifier.load(out / "model"))
    assert fits[0].n_features_in_ == fits[1].n_features_in_ == 5


@pytest.mark.parametrize("ask", [["NA", "None", "null", "nan"], ["0", "1", "nan", "-1"]])
def test_words_for_nothing_are_labels_where_others_are_text(tmp_path, run_cli, ask):
    """As in every table: NA is a country, where numbers stand around it nobody knows."""
    names = [f"v{vertex}" for vertex in range(39)] + ["NA"]
    edges = [f"{one},{other}" for one, other in pairwise(names)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]))
    labels = [f"{name},{ask[at % 4]}" for at, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["vertex,label", *labels, ""]))
    given = ("--labels", tmp_path / "labels.csv", "--test-fraction", 0, "--no-plots", *SMALL)
    out = tmp_path / "out"
    assert run_cli("fit", "gcn", tmp_path / "edges.csv", *given, "--out", out) == 0
    classes = daskpart.GCNClassifier.load(out / "model").classes_.tolist()
    assert classes == (sorted(ask) if "NA" in ask else [0, 1])
    assert any(line.startswith("NA,") for line in (out / "labels.csv").read_text().splitlines())


def test_a_network_is_asked_once(data, tmp_path, run_cli, monkeypatch):
    """For the judgement, the tables and the pictures: a pass to the outputs, one to the hidden."""
    asked = []
    outputs_of = fitted_network.outputs_of

    def counted(problem, network, weights, place, **where):
        asked.append(place)
        return outputs_of(problem, network, weights, place, **where)

    monkeypatch.setattr(fitted_network, "outputs_of", counted)
    assert run_cli("fit", "gcn", *data, *SMALL, "--out", tmp_path) == 0
    assert sorted(asked) == [-2, -1]


def test_edges_of_any_columns_in_parquet(tmp_path, run_cli, capsys):
    """A graph is wanted here, so a table is one of edges."""
    pytest.importorskip("pyarrow")
    names = [f"p{n}" for n in range(30)]
    table = pd.DataFrame({"caller": names, "callee": np.roll(names, 1), "minutes": 1.0})
    table.to_parquet(tmp_path / "calls.parquet")
    people = pd.DataFrame({"person": names, "team": np.arange(30) // 15})
    people.to_csv(tmp_path / "teams.csv", index=False)
    given = ("--labels", tmp_path / "teams.csv", *SMALL, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "gcn", tmp_path / "calls.parquet", *given) == 0
    assert "a graph of 30 vertices" in capsys.readouterr().out


def test_an_index_in_parquet_names_the_vertices(tmp_path, run_cli):
    """As pandas writes the rows that a DataFrame names."""
    pytest.importorskip("pyarrow")
    names = [f"p{n}" for n in np.random.default_rng(0).permutation(30)]
    pd.DataFrame({"source": names, "target": np.roll(names, 1)}).to_csv(
        tmp_path / "calls.csv", index=False
    )
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(30, 3)), index=names)
    X.columns = ["a", "b", "c"]
    X.rename_axis("person").to_csv(tmp_path / "X.csv")
    X.rename_axis("person").to_parquet(tmp_path / "named.parquet")
    X.to_parquet(tmp_path / "X.parquet")
    (tmp_path / "teams.csv").write_text("".join(f"p{n},{n // 15}\n" for n in range(30)))
    given = ("--labels", tmp_path / "teams.csv", *SMALL, "--no-plots")
    for name in ("X.csv", "named.parquet", "X.parquet"):
        features = ("--features", tmp_path / name, "--out", tmp_path / name.replace(".", "-"))
        assert run_cli("fit", "gcn", tmp_path / "calls.csv", *given, *features) == 0
    expected = (tmp_path / "X-csv" / "embedding.csv").read_text()
    for name in ("named-parquet", "X-parquet"):
        assert (tmp_path / name / "embedding.csv").read_text() == expected
