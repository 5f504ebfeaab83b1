"""`daskpart fit logistic|svm|linear|poisson`: what they write, resume and refuse."""

from __future__ import annotations

import dask
import fsspec
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from command_results import metrics_of, whole_and_resumed
from sklearn.datasets import dump_svmlight_file

import daskpart
from daskpart._cli import linear
from daskpart._cli.fit import FitCommand
from daskpart._cli.options import _ONLY_IN_PYTHON, in_options
from daskpart._cli.samples import READERS, SampleSet, read_samples
from daskpart.errors import InputError, ReadError
from daskpart.models.base.plan import check_partitioner
from daskpart.models.samples.given import Given
from daskpart.readers import survey

SMALL = ("--ranks", 3, "--max-iter", 4, "--tol", 0)


@pytest.fixture(scope="module")
def sample_file(tmp_path_factory):
    """200 samples of 30 features, labels −1 and +1."""
    random = np.random.default_rng(0)
    X = scipy.sparse.random(200, 30, 0.3, "csr", random_state=random)
    y = np.sign(X @ random.normal(size=30))
    path = tmp_path_factory.mktemp("samples") / "X.libsvm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.mark.parametrize(("name", "kind", "options"), [
    ("logistic", "LogisticRegression", ()),
    ("svm", "LinearSVC", ("--solver", "sgd", "--loss", "hinge", "--top-k", 5, "--batch-size", 40)),
    ("linear", "LinearRegression", ("--alpha", 0.1)),
])  # fmt: skip
def test_fit_writes_a_model_that_loads(sample_file, tmp_path, capsys, run_cli, name, kind, options):
    out, names = tmp_path / "out", tmp_path / "names.txt"
    names.write_text("".join(f"word{i}\n" for i in range(31)))
    arguments = (*SMALL, *options, "--names", names, "--out", out)
    assert run_cli("fit", name, sample_file, *arguments) == 0
    told, aside = capsys.readouterr()
    assert "of 31 lines the first 30 are taken as names" in aside
    assert "200 samples of 30 features" in told
    assert "180 to learn from, 20 held out to judge by" in told
    if name != "linear":
        n_positive = sum(line.startswith("1 ") for line in sample_file.read_text().splitlines())
        assert f"samples of each class: -1: {200 - n_positive}, 1: {n_positive}" in told
    assert "of 30 are touched by more than one rank" in told
    beside = "answering their mean" if name == "linear" else "the most frequent class makes up"
    assert beside in told
    metrics = metrics_of(out)
    assert metrics["epochs"] == 4 and 0 <= metrics["test_score"] <= 1
    model = getattr(daskpart, kind).load(out / "model")
    assert metrics["nonzero_coefficients"] == np.count_nonzero(model.coef_)
    assert "word" in (out / "coefficients.csv").read_text() and "from 0" not in told
    pictures = {path.stem for path in out.glob("*.png")}
    over = {"density"} if name == "svm" else set()
    assert pictures == {"training", "coefficients", "traffic", "timeline"} | over
    assert (out / "report.html").read_text().count("data:image/png;base64,") == len(pictures)


@pytest.mark.parametrize(
    ("option", "reader", "words"),
    [
        ("--test-fraction", "here", "--test-fraction 0.001 holds out 0 of 200 samples"),
        ("--test-fraction", "ranks", "--test-fraction 0.001 holds out 0 of 200 samples"),
        ("--validation-fraction", "here", "--validation-fraction 0.001 of 180 samples is less"),
        ("--validation-fraction", "ranks", "none is drawn at a share of 0.001"),
    ],
)
def test_a_share_of_less_than_one_sample_is_refused(
    sample_file, tmp_path, capsys, run_cli, option, reader, words
):
    more = ("--read", reader, option, 0.001, "--out", tmp_path)
    assert run_cli("fit", "logistic", sample_file, *SMALL, *more) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        ("logistic", ("--patience", 3), "--patience needs --validation-fraction above 0"),
        ("mlp", ("--patience", 3), "--patience needs --validation-fraction above 0"),
        ("mf", ("--patience", 3), "--patience needs --validation-fraction above 0"),
        ("mf", ("--ranks", 50), "take fewer ranks (--n-ranks)"),
        ("logistic", ("--C", 1e9), "or raise --max-iter or --tol"),
        ("logistic", ("--top-k", 2), "--top-k, --overlap and --average need --solver sgd"),
        ("logistic", ("--delay", 2), "--delay goes with a parameter server"),
        (
            "mf",
            ("--loss", "bpr", "--clip"),
            "scores of --loss bpr have no range to clip to: leave --clip out",
        ),
        ("mf", ("--loss", "logistic", "--clip"), "of --loss logistic are probabilities"),
        ("mf", ("--loss", "logistic", "--nonnegative", "--no-biases"), "with --no-biases are 0"),
        ("mf", ("--loss", "bpr", "--axis", "auto"), "leave --axis out, and take --schedule pasgd"),
        ("logistic", ("--ranks", 300, "--partitioner", "parsa"), "--n-ranks is 300, but there are"),
        ("cp", ("--partitioner", "method=foo"), "Error: method is 'foo'"),  # which is of partition
        ("mf", ("--initial-learning-rate", 1e20), "Lower --initial-learning-rate."),
        ("implicit", ("--solver", "cg", "--alpha", 1e38), "lower --alpha, or scale the counts"),
        ("mf", ("--partitioner", "x"), "arguments of daskpart.partition, KEY=VALUE,…, or a FILE"),
    ],
)
def test_errors_and_notes_name_options(sample_file, tmp_path, capsys, run_cli, name, typed, words):
    """The estimators name their parameters, which nobody types at a shell."""
    file = tmp_path / "max_iter.csv"
    pairs = "".join(f"{n % 5},{n % 7},{n % 3 + 1}\n" for n in range(35))
    file.write_text(f"user,item,rating\n{pairs}")
    tensor = tmp_path / "X.tns"
    tensor.write_text("1 1 1 1\n2 2 2 1\n")
    data = {"mf": file, "implicit": file, "cp": tensor}.get(name, sample_file)
    run_cli("fit", name, data, "--max-iter", 1, *typed, "--no-plots", "--out", tmp_path / "out")
    assert words in capsys.readouterr().err


def test_words_for_python_alone_are_those_of_the_estimators():
    """Else they would be looked for in vain."""
    held_out = Given(np.eye(2), np.array([0, 1]), np.ones(2), None)
    said = ""
    for refuse in (
        lambda: held_out.refuse_classes_beyond(np.zeros(1)),
        lambda: check_partitioner("x", ["block"], None),
        lambda: daskpart.CPDecomposition(loss="logistic", missing="unknown", nonnegative=True).fit(
            [(0, 0, 1), (0, 1, 0)]
        ),
    ):
        with pytest.raises(InputError) as refused:
            refuse()
        said += str(refused.value)
    assert all(python in said for python in _ONLY_IN_PYTHON)


def test_what_is_in_quotes_or_in_a_path_is_left_as_it_is():
    command = FitCommand("mf")
    with command.make_context("mf", ["u.data"]):
        same = "data/max_iter/n_ranks.csv: 'max_iter' is lost; the loss and tolls are not"
        assert in_options(same) == same
        told = in_options("schedule='dsgd' and max_iter=3: another max_iter.")
        flag = in_options("go on (resume=True), or another checkpoint_path; eta=Truest")
        drawn = in_options("drawn by validation_fraction, so: another random_state, or none")
        mine = in_options("leave out users; leave clip out, lower init_scale, a smaller eta, or so")
        theirs = in_options("it takes rho, random_state, epsilon; user and loss are as they were")
    assert told == "--schedule dsgd and --max-iter 3: another --max-iter."
    assert flag == "go on (--resume), or another --checkpoint-path; --eta Truest"
    assert drawn == "drawn by --validation-fraction, so: another --random-state, or none"
    assert mine == "leave out users; leave --clip out, lower --init-scale, a smaller --eta, or so"
    assert theirs == "it takes rho, random_state, epsilon; user and loss are as they were"


def test_classes_are_called_as_in_the_file(tmp_path, capsys, run_cli):
    """Labels are read as floats, and no page says "output 0.0"."""
    file, out = tmp_path / "X.libsvm", tmp_path / "out"
    file.write_text("0 1:1\n1 2:1\n2 3:1\n" * 9)
    more = ("--test-fraction", 0.4, "--no-plots", "--out", out)
    assert run_cli("fit", "logistic", file, *SMALL, *more) == 0
    assert "; features are counted from 0" in capsys.readouterr().out  # the file's begin at 1
    found = pd.read_csv(out / "coefficients.csv", dtype=str)
    assert found["output"].unique().tolist() == ["0", "1", "2"]
    assert found["feature"].max() == "2"
    page = (out / "report.html").read_text()
    assert "<dt>test accuracy</dt>" in page and "; features are counted from 0." in page


def test_who_reads_a_table_is_who_was_asked(tmp_path, monkeypatch):
    """Workers of a cluster may see none of what this process does, and be in other folders."""
    (tmp_path / "x.csv").write_text("a,b,y\n" + "1,2,0\n3,4,1\n" * 9)
    monkeypatch.chdir(tmp_path)
    asked = []

    def workers(graph, keys, **_):
        asked.append(keys)
        return dask.get(graph, keys)

    with dask.config.set(scheduler=workers):
        here, _, _ = read_samples("x.csv", None, "y", "here")
        assert not asked and here.X.shape == (18, 2)
        theirs, _, _ = read_samples("x.csv", None, "y", "ranks")
    assert asked and theirs.X.path == str(tmp_path / "x.csv")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["x.libsvm", "x.libsvm.gz", "x.csv"])
def test_samples_behind_an_address_are_read_as_those_of_a_file(name, reader, tmp_path):
    lines, label = ["1 1:2 2:4", "0 2:1", *["1 1:3", "0 1:1 2:5"] * 9], None
    if name.endswith(".csv"):
        lines, label = ["y,a,b", "1,2,4", "0,0,1", *["1,3,0", "0,1,5"] * 9], "y"
    found = []
    for place in (str(tmp_path), "memory://samples"):
        path = f"{place}/{name}"
        with fsspec.open(path, "wt", compression="infer") as file:
            file.write("\n".join(lines) + "\n")
        train, test, _ = read_samples(path, path, label, reader)
        for each in (train, test):
            X = each.X.examples_of(range(len(each.X.blocks)))[0] if reader == "ranks" else each.X
            found.append((X.toarray().tolist(), each.labels().tolist()))
    assert found == found[:1] * 4 and len(found[0][0]) == 20
    with pytest.raises(ReadError, match=r"memory://samples/none\.csv: there is no such file"):
        read_samples("memory://samples/none.csv", None, "y", reader)


def test_what_an_output_is_called_ends_inside_the_picture():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 3.6), layout="constrained")
    ax, names = figure.subplots(), np.array(["a name as surveys have them, in full", "b"])
    linear._draw_largest(np.array([1.0, -2.0]), names, "a class that is told in a sentence", ax=ax)
    figure.draw_without_rendering()
    assert ax.title.get_window_extent().x1 <= figure.bbox.x1


def test_the_density_of_a_sum_over_ranks(sample_file, tmp_path, capsys, run_cli):
    options = ("--solver", "sgd", "--batch-size", 1, "--test-fraction", 0, "--out", tmp_path)
    assert run_cli("fit", "logistic", sample_file, *SMALL, *options, "--no-plots") == 0
    told = capsys.readouterr().out
    over = metrics_of(tmp_path)["density_over_ranks"]
    assert list(over) == [str(2**power) for power in range(8)]
    shares = list(over.values())
    assert shares == sorted(shares) and shares[-1] == 1
    X, _ = daskpart.read(sample_file)
    assert shares[0] in np.diff(X.indptr) / 30  # of one sample
    assert f"by number of ranks: 1: {shares[0]:.2%}, 2: " in told


def test_figures_are_those_of_the_model(tmp_path, run_cli):
    """Of rows that were learnt from, of others, and of the epoch whose weights the model has."""
    random, path = np.random.default_rng(0), tmp_path / "few.libsvm"
    X = scipy.sparse.random(200, 90, 0.015, "csr", random_state=random)
    y = np.sign(X @ random.normal(size=90) + 0.1 * random.normal(size=200))
    dump_svmlight_file(X, y, str(path), zero_based=False)
    (tmp_path / "names.txt").write_text("".join(f"word{i}\n" for i in range(90)))
    options = ("--solver", "sgd", "--batch-size", 2, "--learning-rate", "constant", "--eta0", 0.5,
               "--validation-fraction", 0.2, "--patience", 3, "--max-iter", 60, "--tol", 0,
               "--ranks", 3, "--names", tmp_path / "names.txt", "--no-plots")  # fmt: skip
    assert run_cli("fit", "logistic", path, *options, "--out", tmp_path) == 0
    model, metrics = daskpart.LogisticRegression.load(tmp_path / "model"), metrics_of(tmp_path)
    history = model.history_.set_index("epoch")["loss"]
    assert metrics["best_epoch"] < metrics["epochs"] and metrics["ended"] == "stopped early"
    assert metrics["train_loss"] == pytest.approx(history[metrics["best_epoch"]], rel=1e-12)
    rest, held = SampleSet(*daskpart.read(path)).split(0.1, 0)
    assert metrics["n_test"] == held.size == 20
    assert metrics["test_score"] == model.score(*held)
    trained, _ = Given(*rest, np.ones(rest.size)).split(0.2, 0)
    of_ranks = [set(trained.X[own].indices) for own in model.plan(*rest).members]
    assert len(of_ranks) == 3
    n_ranks = np.array([sum(place in own for own in of_ranks) for place in range(90)])
    assert 0 == n_ranks.min() < sorted(n_ranks)[45] < n_ranks.max() == 3
    assert metrics["features_of_a_rank"] == pytest.approx(np.mean([*map(len, of_ranks)]))
    assert metrics["touched_features"] == (n_ranks > 0).sum()
    assert metrics["shared_features"] == (n_ranks > 1).sum()
    table, values = pd.read_csv(tmp_path / "coefficients.csv"), model.coef_.ravel()
    largest = np.argsort(-np.abs(values))[:10]
    assert table["feature"].tolist() == [f"word{place}" for place in largest]
    np.testing.assert_allclose(table["coefficient"], values[largest])
    assert set(table["output"]) == {1}  # the class that the coefficients speak for


def test_resume_gives_the_bits_of_an_unbroken_fit(sample_file, tmp_path, run_cli):
    options = ("--ranks", 2, "--solver", "sgd", "--tol", 0, "--top-k", 4)
    models = whole_and_resumed(run_cli, tmp_path, "logistic", sample_file, *options)
    whole, rest = map(daskpart.LogisticRegression.load, models)
    np.testing.assert_array_equal(whole.coef_, rest.coef_)
    np.testing.assert_array_equal(whole.state_.residual, rest.state_.residual)


@pytest.mark.parametrize("zero_based", ["train", "test"])
def test_a_file_to_judge_by_has_the_features_of_the_other(tmp_path, run_cli, zero_based):
    """The sample that has feature 0, and so tells how features are counted, is in one of them."""
    files = {name: tmp_path / f"{name}.libsvm" for name in ("train", "test")}
    for file in files.values():
        file.write_text("1 2:1\n-1 3:1\n" * 20)
    with files[zero_based].open("a") as file:
        file.write("1 0:0\n")
    more = ("--test", files["test"], "--no-plots", "--out", tmp_path / "out")
    assert run_cli("fit", "logistic", files["train"], *SMALL, *more) == 0
    found = metrics_of(tmp_path / "out")
    assert found["test_score"] > 0.97
    model = daskpart.LogisticRegression.load(tmp_path / "out" / "model")
    assert model.coef_.shape == (1, 4)


@pytest.mark.parametrize("reader", ["here", "ranks"])
def test_a_file_to_judge_by_may_have_features_that_the_other_lacks(tmp_path, run_cli, reader):
    train, test, out = (tmp_path / name for name in ("train.svm", "test.svm", "out"))
    train.write_text("1 1:1\n-1 2:1\n" * 20)
    test.write_text("1 1:1 4:1\n-1 2:1\n")
    more = ("--test", test, "--read", reader, "--no-plots", "--out", out)
    assert run_cli("fit", "logistic", train, *SMALL, *more) == 0
    assert metrics_of(out)["test_score"] == 1
    assert daskpart.LogisticRegression.load(out / "model").coef_[0, 2:].tolist() == [0, 0]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """200 samples of age, hours and height; who is rich follows from hours."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(200, 3)), columns=["age", "hours", "height"])
    frame.insert(1, "rich", (frame.hours > 0).astype(int))
    folder = tmp_path_factory.mktemp("table")
    frame.to_csv(folder / "train.csv", index=False)
    frame.to_csv(folder / "bare.csv", index=False, header=False)
    frame.to_csv(folder / "train.csv.gz", index=False)
    frame.to_parquet(folder / "train.parquet")
    frame[["hours", "rich", "age", "height"]].to_csv(folder / "other.csv", index=False)
    return folder


@pytest.mark.parametrize(("name", "label"), [
    ("train.csv", "rich"), ("train.csv.gz", "rich"), ("train.parquet", "rich"), ("bare.csv", "1"),
])  # fmt: skip
def test_tables_of_numbers(table, tmp_path, run_cli, name, label):
    options = ("--label", label, "--test", table / name, "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "logistic", table / name, *SMALL, *options) == 0
    assert metrics_of(tmp_path)["n_test"] == 200
    largest = pd.read_csv(tmp_path / "coefficients.csv").iloc[0]
    assert "hours" in [*largest] if label == "rich" else 1 in [*largest]
    model = daskpart.LogisticRegression.load(tmp_path / "model")
    assert np.abs(model.coef_).argmax() == 1


def test_tables_that_cannot_be(table, tmp_path, capsys, run_cli):
    whole = table / "train.csv"
    for arguments, told in (
        ((whole,), "is a table: say which column is to be learnt, --label COLUMN"),
        ((whole, "--label", "poor"), "no column 'poor'"),
        ((whole, "--label", 7), "no column 7"),
        ((whole, "--label", "rich", "--test", table / "other.csv"), "columns are not those of"),
    ):
        assert run_cli("fit", "logistic", *arguments, *SMALL, "--out", tmp_path) == 2
        assert told in capsys.readouterr().err


def test_what_cannot_be_is_refused(sample_file, tmp_path, capsys, run_cli):
    real = tmp_path / "real.libsvm"
    real.write_text("1 1:2\n0.5 2:1\n")
    short = tmp_path / "names.txt"
    short.write_text("a\nb\n")
    bare = tmp_path / "bare.libsvm"
    bare.write_text("1\n-1\n" * 9)
    for arguments, words in (
        (("logistic", bare), "no feature"),
        (("logistic", real), "sample 2 has the label 0.5"),
        (("svm", tmp_path / "absent"), "no such file"),
        (("svm", tmp_path), "this is a folder"),
        (("linear", sample_file, "--names", short), "2 lines, but the samples have 30 features"),
        (("svm", sample_file, "--loss", "hinge"), "corners"),
        (
            ("logistic", sample_file, "--test", sample_file, "--names", short),
            "2 lines, but the samples have 30 features",
        ),
    ):
        assert run_cli("fit", *arguments, "--out", tmp_path / "out") != 0
        assert words in capsys.readouterr().err


def test_the_picture_of_coefficients_says_which_classes_it_shows(
    sample_file, tmp_path, monkeypatch, run_cli
):
    from matplotlib.axes import Axes

    titles, set_title = [], Axes.set_title
    monkeypatch.setattr(
        Axes, "set_title", lambda ax, label: titles.append(label) or set_title(ax, label)
    )
    lines = sample_file.read_text().splitlines()
    path, out = tmp_path / "classes.libsvm", tmp_path / "out"
    numbered = (f"{place % 6} {line.split(' ', 1)[1]}" for place, line in enumerate(lines))
    path.write_text("\n".join(numbered) + "\n")
    assert run_cli("fit", "logistic", path, *SMALL, "--out", out) == 0
    assert [title for title in titles if "output" in title] == [
        f"output {label}" for label in range(4)
    ]
    assert "largest coefficients of 4 of 6 outputs" in (out / "report.html").read_text()


@pytest.mark.parametrize(("name", "kind"), [
    ("logistic", "LogisticRegression"), ("svm", "LinearSVC"), ("mlp", "MLPClassifier"),
])  # fmt: skip
def test_labels_of_a_table_may_be_text(tmp_path, capsys, run_cli, name, kind):
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 2))
    frame = pd.DataFrame(X, columns=["age", "hours"])
    frame["income"] = np.where(X.sum(axis=1) > 0, ">50K", "<=50K")
    frame[:100].to_csv(tmp_path / "x.csv", index=False)
    frame[100:].to_csv(tmp_path / "test.csv", index=False)
    where = ("--label", "income", "--test", tmp_path / "test.csv", "--out", tmp_path / "out")
    drawn = () if name == "logistic" else ("--no-plots",)
    assert run_cli("fit", name, tmp_path / "x.csv", *SMALL, *where, *drawn) == 0
    told = capsys.readouterr().out
    assert "samples of each class: <=50K: " in told and ">50K: " in told
    model = getattr(daskpart, kind).load(tmp_path / "out" / "model")
    assert model.classes_.tolist() == ["<=50K", ">50K"]
    assert set(model.predict(X)) == {"<=50K", ">50K"}
    if name == "mlp":
        assert metrics_of(tmp_path / "out")["classes"] == ["<=50K", ">50K"]
    else:
        assert ">50K" in (tmp_path / "out" / "coefficients.csv").read_text()


def test_text_that_cannot_be_learnt(tmp_path, capsys, run_cli):
    (tmp_path / "x.csv").write_text("age,work,income\n39,0,no\n40,state,yes\n")
    assert run_cli("fit", "logistic", tmp_path / "x.csv", "--label", "income") == 2
    assert "line 3: expected a number in column 'work', found 'state'" in capsys.readouterr().err
    assert run_cli("fit", "linear", tmp_path / "x.csv", "--label", "income") == 2
    assert "expected a number in column 'work'" in capsys.readouterr().err
    (tmp_path / "x.csv").write_text("age,income\n39,no\n40,yes\n")
    assert run_cli("fit", "linear", tmp_path / "x.csv", "--label", "income") == 2
    assert "label 'no': a line is fitted to numbers" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["logistic", "svm", "linear"])
@pytest.mark.parametrize("solver", ["sgd", "lbfgs"])
def test_each_rank_reads_its_own_part(sample_file, tmp_path, capsys, run_cli, name, solver):
    """The model is that of Python's `fit` on the same two files."""
    kind = {"logistic": "LogisticRegression", "svm": "LinearSVC", "linear": "LinearRegression"}
    out, options = tmp_path / "out", ("--solver", solver, "--read", "ranks", "--no-plots")
    assert run_cli("fit", name, sample_file, *SMALL, *options, "--out", out) == 0
    told = capsys.readouterr().out
    assert "each rank reads its own part" in told and "held out to judge by" in told
    rest, drawn = survey(sample_file).split(0.1, random_state=0)
    model = getattr(daskpart, kind[name])(n_ranks=3, max_iter=4, tol=0, solver=solver).fit(rest)
    np.testing.assert_array_equal(model.load(out / "model").coef_, model.coef_)
    metrics = metrics_of(out)
    assert metrics["test_score"] == model.score(drawn) and metrics["n_test"] == drawn.shape[0]
    assert "<dt>training loss</dt>" in (out / "report.html").read_text()


@pytest.mark.parametrize("reader", ["here", "ranks"])
def test_counts_are_judged_by_their_deviance(tmp_path, capsys, run_cli, reader):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(300, 3)), columns=["age", "speed", "rain"])
    table["claims"] = random.poisson(np.exp(table["speed"] - 0.5))
    table.to_csv(tmp_path / "claims.csv", index=False)
    out, options = tmp_path / "out", ("--label", "claims", "--alpha", 0.01, "--read", reader)
    arguments = (tmp_path / "claims.csv", *options, "--ranks", 2, "--out", out)
    assert run_cli("fit", "poisson", *arguments) == 0
    told = capsys.readouterr().out
    assert "D² 0." in told and "answering their mean every time gives 0" in told
    assert metrics_of(out)["test_score"] > 0.3
    assert "<dt>test D²</dt>" in (out / "report.html").read_text()
    assert (out / "coefficients.csv").read_text().splitlines()[1].find("speed") >= 0
    table["claims"] -= 1
    table.to_csv(tmp_path / "claims.csv", index=False)
    assert run_cli("fit", "poisson", *arguments) == 2
    first = table["claims"].argmin() + 1
    found = {"here": f"claims.csv: sample {first} has the label -1", "ranks": "y holds -1"}
    assert f"{found[reader]}: counts and rates are 0 or above" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "label", "told"),
    [
        ("poisson", -2.0, "has the label -2: counts and rates are 0 or above"),
        ("linear", "few", "has the label 'few': a line is fitted to numbers"),
        ("logistic", 0.5, "has the label 0.5: classes are whole numbers"),
    ],
)
def test_labels_to_judge_by_are_looked_at_before_the_fit(
    tmp_path, capsys, run_cli, kind, label, told
):
    for name, labels in (("train", [0, 1, 1]), ("test", [label] * 3)):
        table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": labels})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--label", "y"
    assert run_cli("fit", kind, *files, "--out", tmp_path / "out") == 2
    said = capsys.readouterr()
    assert "epoch" not in said.out + said.err
    assert f"test.csv: sample 1 {told}" in said.err


def test_ranks_read_the_file_to_judge_by_and_stop_early(sample_file, tmp_path, capsys, run_cli):
    options = ("--read", "ranks", "--test", sample_file, "--validation-fraction", 0.2,
               "--patience", 2, "--solver", "sgd")  # fmt: skip
    more = ("--ranks", 2, "--max-iter", 60, "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "logistic", sample_file, *options, *more) == 0
    told = capsys.readouterr().out
    assert "200 held out to judge by" in told and "to measure the loss on" in told
    assert metrics_of(tmp_path)["n_test"] == 200
    history = daskpart.LogisticRegression.load(tmp_path / "model").history_
    assert history["validation_loss"].notna().all()


def test_a_file_too_large_for_this_process_is_read_by_the_ranks(
    sample_file, tmp_path, capsys, run_cli, monkeypatch
):
    size = sample_file.stat().st_size
    for memory, by_ranks in ((4 * size - 4, True), (4 * size + 4, False)):
        monkeypatch.setattr("distributed.system.MEMORY_LIMIT", memory)
        options = ("--max-iter", 1, "--no-plots", "--out", tmp_path)
        assert run_cli("fit", "logistic", sample_file, *options) == 0
        assert ("each rank reads its own part" in capsys.readouterr().out) == by_ranks
