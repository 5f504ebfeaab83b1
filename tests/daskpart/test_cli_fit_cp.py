"""`daskpart fit cp`: what it writes, resumes and refuses; on worker processes too."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import sparse
from command_results import metrics_of, whole_and_resumed
from sklearn.base import clone

import daskpart
from daskpart._cli.inputs import load_tensor
from daskpart._cli.last_steps import LastSteps
from daskpart._cli.tables import read_table
from daskpart.collectives.timeline import Span, Timeline
from daskpart.errors import ReadError
from daskpart.models.base.reports import bytes_words

SMALL = ("--n-components", 3, "--max-iter", 4, "--partitioner", "random", "--ranks", 3)


@pytest.fixture(scope="module")
def tensor_file(tmp_path_factory):
    """500 nonzeros of a 30 × 20 × 10 tensor, 1-based."""
    path = tmp_path_factory.mktemp("tensor") / "X.tns"
    tensor = sparse.random((30, 20, 10), nnz=500, random_state=0)
    lines = zip(*(tensor.coords + 1).tolist(), tensor.data.tolist(), strict=True)
    path.write_text("".join(f"{i} {j} {k} {value!r}\n" for i, j, k, value in lines))
    return path


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("".join(f"word{i}\n" for i in range(10)))
    return path


def test_formats_that_are_offered_are_those_that_can_be_used(tmp_path, capsys, run_cli):
    strange = tmp_path / "strange.data"
    strange.write_text("a b c\n")
    for kind, offered in (("cp", "'tns', 'npz', 'mtx'"), ("mf", "'ratings', 'parquet'")):
        assert run_cli("fit", kind, strange) == 2
        told = capsys.readouterr().err
        assert f"give --format one of {offered}" in told
        assert "hgr" not in told and len(told) < 400


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b,v\nZoë,x,1\n".encode("latin-1"), "line 2: the text is not UTF-8"),
        ("a,b,v\nZoë,x,1\n".encode("utf-16"), "the text is UTF-16"),
        (b"a,b,v\rx,y,1\r", "carriage returns alone"),
    ],
)
def test_a_table_that_cannot_be_read(text, told, tmp_path, capsys, run_cli):
    path = tmp_path / "x.csv"
    path.write_bytes(text)
    assert run_cli("fit", "cp", path, "--value", "v") == 2
    assert f"Error: {path}" in (words := capsys.readouterr().err) and told in words


def test_a_table_of_ones_own(tmp_path, capsys, run_cli):
    """Labels in columns of any name and order; what has the values is asked for."""
    random = np.random.default_rng(0)
    trips = pd.DataFrame({
        "trips": random.integers(1, 9, 400), "day": random.integers(1, 8, 400), "weather": "rain",
        "from": [f"stop {i}" for i in random.integers(0, 9, 400)],
        "to": [f"stop {i}" for i in random.integers(0, 9, 400)],
    })  # fmt: skip
    trips = trips.drop_duplicates(["from", "to", "day"])
    table, out = tmp_path / "trips.csv", tmp_path / "run"
    trips.to_csv(table, index=False)
    assert run_cli("fit", "cp", table, "--out", out) == 2
    assert "'weather', 'from', 'to' has the values? Say --value" in capsys.readouterr().err
    assert run_cli("fit", "cp", table, "--names", "from,two", "--out", out) == 2
    assert "no column 'two'; the columns are 'trips'" in capsys.readouterr().err
    named = ("--names", "from,to,day", "--value", "trips", *SMALL, "--no-plots", "--out", out)
    assert run_cli("fit", "cp", table, *named) == 0
    assert "tensor of 9 from × 9 to × 7 day" in capsys.readouterr().out
    read = daskpart.CPDecomposition.load(out / "model")
    expected = clone(read).fit(trips[["from", "to", "day"]].assign(value=trips["trips"]))
    np.testing.assert_array_equal(read.factors_["from"], expected.factors_["from"])
    assert run_cli("fit", "cp", tmp_path / "X.tns", "--value", "trips") == 2


def test_days_of_parquet_are_told_as_those_of_csv(tmp_path, run_cli):
    """CSV has them as text, Parquet as points in time."""
    days = pd.date_range("2024-01-30", periods=4)
    sales = pd.DataFrame([(a, b, day) for a in "xyz" for b in "uvw" for day in days]).set_axis(
        ["a", "b", "day"], axis=1
    )
    sales["n"] = np.arange(len(sales)) + 1
    sales.to_csv(tmp_path / "sales.csv", index=False)
    sales.to_parquet(tmp_path / "sales.parquet", index=False)
    for kind in ("csv", "parquet"):
        more = ("--value", "n", *SMALL, "--no-plots", "--out", tmp_path / kind)
        assert run_cli("fit", "cp", tmp_path / f"sales.{kind}", *more) == 0
    told = [(tmp_path / kind / "components.csv").read_text() for kind in ("csv", "parquet")]
    assert told[0] == told[1] and ",day,2024-01-30," in told[0]


@pytest.mark.parametrize("named", [("--names", "who,task"), ()])
def test_truth_values_of_csv_tell_the_column_of_values_as_those_of_parquet(
    named, tmp_path, run_cli
):
    asked = pd.DataFrame([(who, task) for who in "abcdef" for task in "uvwxy"])
    asked = asked.set_axis(["who", "task"], axis=1).assign(passed=np.arange(30) % 3 == 0)
    asked.to_csv(tmp_path / "asked.csv", index=False)
    asked.to_parquet(tmp_path / "asked.parquet", index=False)
    how = ("--loss", "logistic", "--missing", "unknown", "--ridge", 0.1, *SMALL, "--no-plots")
    for kind in ("csv", "parquet"):
        path = tmp_path / f"asked.{kind}"
        assert run_cli("fit", "cp", path, *named, *how, "--out", tmp_path / kind) == 0
    one, other = (daskpart.CPDecomposition.load(tmp_path / k / "model") for k in ("csv", "parquet"))
    np.testing.assert_array_equal(one.factors_["who"], other.factors_["who"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "sales.csv: the file is empty"),
        ("a;b;n\nx;y;1\nx;z;2,5\n", "expected a number in column 'n', found '2,5'; decimal commas "
         "are not read: write 2.5"),
        ("a;b;n\nx;y;1\nx;z;many\n", "sales.csv: expected a number in column 'n', found 'many'"),
        ("a;b;n\nx;y;yes\nx;z;no\n", "found 'yes'; write yes and no as 1 and 0"),
        ("a,b,n\nx,y,1,5\nx,z,2,6\n", "sales.csv, first line below the header: expected 3 cells "
         "as in the header, found 4"),
        ("a,b,n\n1,2,3,\n2,2,3,\n", "expected 3 cells as in the header, found 4"),
        ("a,b,n\nx,y,1\nx,z,2,6\n", "sales.csv, line 3: expected 3 cells, found 4; put a cell that "
         "holds a separator in quotes"),
    ],
)  # fmt: skip
def test_a_table_without_numbers_is_told_in_words_of_the_file(
    text, words, tmp_path, capsys, run_cli
):
    (tmp_path / "sales.csv").write_text(text)
    assert run_cli("fit", "cp", tmp_path / "sales.csv", "--value", "n") == 2
    assert words in capsys.readouterr().err


def test_the_case_of_a_suffix_does_not_matter(tmp_path):
    sales = pd.DataFrame({"a": ["x", "x", "y"], "b": ["u", "v", "u"], "n": [1, 2, 3]})
    sales.to_csv(tmp_path / "sales.CSV", index=False)
    sales.to_parquet(tmp_path / "sales.PARQUET")
    for name in ("sales.CSV", "sales.PARQUET"):
        found = load_tensor(str(tmp_path / name), None, "a,b", [])
        assert found.shape == (2, 2) and found.dims == ("a", "b")


def test_labels_of_a_table_are_as_they_are_written(tmp_path):
    """01234 and 1234 are two, NA is a country, and of long numbers no digit is lost."""
    table = tmp_path / "sales.csv"
    table.write_text(
        "\ufeffzip;country;id;day;amount\n01234;NA;9007199254740993123;1;2.5\n"
        '1234;DE;9007199254740993124;2;1e1\n1234;"a\nb";9007199254740993124;10;NA\n'
    )
    found = read_table(table)
    assert found["zip"].tolist() == ["01234", "1234", "1234"]
    assert found["country"].tolist() == ["NA", "DE", "a\nb"]
    assert found["id"].tolist() == [9007199254740993123, 9007199254740993124, 9007199254740993124]
    assert found["day"].tolist() == [1, 2, 10]
    np.testing.assert_array_equal(found["amount"], [2.5, 10, np.nan])
    table.write_text("id,value\n1234567890123456789,1\n,2\nx,3\n")
    assert read_table(table)["id"].tolist()[::2] == ["1234567890123456789", "x"]
    table.write_text("zip,country,amount\n01234,NA,2\n1234,DE,4\n1234,NA,8\n")
    tensor = load_tensor(str(table), None, None, (), value="amount")
    assert tensor.shape == (2, 2)
    assert sorted(tensor.labels["zip"]) == ["01234", "1234"]
    assert sorted(tensor.labels["country"]) == ["DE", "NA"]
    table.write_text("one\n1\n2\n")
    assert read_table(table)["one"].tolist() == [1, 2]


def test_fit_writes_a_model_that_loads(tensor_file, words, tmp_path, capsys, run_cli):
    out = tmp_path / "out"
    named = ("--names", "user,place,word", "--labels", f"word={words}", "--tol", 0)
    arguments = (*SMALL, *named, "--model-format", "zarr", "--out", out)
    assert run_cli("fit", "cp", tensor_file, *arguments) == 0
    told = capsys.readouterr()
    assert "500 nonzeros in a tensor of 30 user × 20 place × 10 word" in told.out
    assert "; word: word" in told.out and "iteration 4/4  fit 0.0" in told.err
    assert "\nindices of user, place are counted from 0\n" in told.out  # the file's begin at 1
    metrics = metrics_of(out)
    assert metrics["ended"] == "done" and metrics["iterations"] == 4
    assert metrics["communication"]["matches"] is True
    model = daskpart.CPDecomposition.load(out / "model")
    assert model.fit_ == metrics["fit"] == pytest.approx(model.score(tensor_file), abs=1e-10)
    assert model.factors_[2].sel(word="word3").size == 3
    assert model.partitioner == "random"
    assert (out / "components.csv").read_text().count("\n") == 1 + 3 * 3 * 5
    assert (out / "factors.zarr").is_dir()
    pictures = {path.stem for path in out.glob("*.png")}
    assert pictures == {"training", "traffic", "timeline", *(f"component_{i}" for i in range(3))}
    assert (out / "report.html").read_text().count("data:image/png;base64,") == len(pictures)


def test_the_parts_of_a_fit_serve_another(tensor_file, tmp_path, run_cli):
    first, again = tmp_path / "first", tmp_path / "again"
    assert run_cli("fit", "cp", tensor_file, *SMALL, "--no-plots", "--out", first) == 0
    parts = daskpart.Partition.load(first / "partition.npz")
    assert (parts.n_vertices, parts.n_parts, parts.info["method"]) == (500, 3, "random")
    same = ("--n-components", 3, "--max-iter", 4, "--partitioner", first / "partition.npz")
    assert run_cli("fit", "cp", tensor_file, *same, "--no-plots", "--out", again) == 0
    models = [daskpart.CPDecomposition.load(folder / "model") for folder in (first, again)]
    np.testing.assert_array_equal(models[0].factors_[0], models[1].factors_[0])
    held_out = ("--validation-fraction", 0.1, "--missing", "unknown", "--no-plots")
    assert run_cli("fit", "cp", tensor_file, *SMALL, *held_out, "--out", tmp_path / "some") == 0
    assert not (tmp_path / "some" / "partition.npz").exists()  # of which nonzeros, it would not say


def test_the_page_counts_one_kind_of_rows(tensor_file, tmp_path, run_cli):
    """Of an embedded plan rows with norms and Grams ride along, which are counted, too."""
    given = ("--ranks", 4, "--components", 3, "--max-iter", 2, "--method", "emb")
    assert run_cli("fit", "cp", tensor_file, *given, "--no-plots", "--out", tmp_path) == 0
    metrics = metrics_of(tmp_path)
    n_rows = sum(metrics["communication"]["expected_rows"])
    assert n_rows > metrics["plan"]["volume"]
    page = (tmp_path / "report.html").read_text()
    (tile,) = re.findall(r"<dt>rows moved an iteration</dt>\s*<dd>(.*?)</dd>", page)
    assert tile == f"{n_rows:,}"


@pytest.mark.parametrize("method", ["p2p", "emb"])
def test_what_is_planned_and_measured_can_be_compared(
    tensor_file, tmp_path, capsys, run_cli, method
):
    options = ("--ranks", 4, "--method", method, "--max-iter", 2, "--no-plots", "--out", tmp_path)
    assert run_cli("fit", "cp", tensor_file, *options) == 0
    plan, run = (metrics_of(tmp_path)[name] for name in ("plan", "communication"))
    sent = sum(run["measured_rows"])
    assert plan["volume"] + plan["payload_volume"] == sent and run["matches"]
    assert plan["total_bytes"] == run["expected_bytes"] == run["measured_bytes"]
    words = capsys.readouterr().out.partition("Communication")[0]
    assert f"{sent:,.0f} rows" in words and bytes_words(plan["total_bytes"]) in words


def test_counts(tmp_path, capsys, run_cli):
    """The fit is told in the words of its loss; values below 0 are refused."""
    path, random = tmp_path / "counts.tns", np.random.default_rng(0)
    cells = np.argwhere(random.random((9, 8, 7)) < 0.4) + 1
    path.write_text("".join(f"{i} {j} {k} {random.integers(1, 9)}\n" for i, j, k in cells))
    out, counts = tmp_path / "out", ("--loss", "poisson", "--no-plots")
    assert run_cli("fit", "cp", path, *SMALL, *counts, "--out", out) == 0
    assert "the share of the Poisson deviance that is explained" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert "how many counts a component stands for" in page and "‖X − X̂‖" not in page
    model = daskpart.CPDecomposition.load(out / "model")
    tensor = load_tensor(str(path), "tns", None, ())
    assert metrics_of(out)["fit"] == pytest.approx(model.score(tensor), abs=1e-9)
    assert sum(metrics_of(out)["weights"]) == pytest.approx(tensor.values.sum())
    path.write_text("1 1 1 3\n2 2 2 -1\n")
    assert run_cli("fit", "cp", path, *SMALL, *counts, "--out", out) == 2
    assert "is of counts, and -1 is below 0" in capsys.readouterr().err


def test_yes_and_no(tmp_path, capsys, run_cli):
    """Told as probabilities; a loss of stored entries alone asks for them in the shell's words."""
    path, random = tmp_path / "said.tns", np.random.default_rng(0)
    cells = np.argwhere(random.random((9, 8, 7)) < 0.4) + 1
    path.write_text("".join(f"{i} {j} {k} {(i + j) % 2}\n" for i, j, k in cells))
    out, loss = tmp_path / "out", ("--loss", "logistic", "--no-plots")
    held = ("--missing", "unknown", "--validation-fraction", 0.2)
    assert run_cli("fit", "cp", path, *SMALL, *loss, *held, "--out", out) == 0
    told = capsys.readouterr().out
    assert "share of the deviance that is explained" in told and "log loss" in told
    page = (out / "report.html").read_text()
    assert "the logarithm of the odds" in page and "‖X − X̂‖" not in page
    model = daskpart.CPDecomposition.load(out / "model")
    assert model.predict([(0, 1, 0)])[0] > 0.5 > model.predict([(0, 0, 0)])[0]
    assert run_cli("fit", "cp", path, *SMALL, *loss, "--out", out) == 2
    assert "give --missing unknown" in capsys.readouterr().err
    assert run_cli("fit", "cp", path, *SMALL, *loss, *held, "--nonnegative", "--out", out) == 2
    assert "--loss logistic: leave it out\n" in capsys.readouterr().err


def test_truth_values_of_csv_are_those_of_parquet(tmp_path, run_cli):
    """They were no numbers there, while `fit mf` takes them."""
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((9, 8, 7)) < 0.4)
    table = pd.DataFrame(cells, columns=["who", "what", "day"]).assign(liked=cells.sum(1) % 2 == 0)
    table.to_parquet(tmp_path / "said.parquet")
    table.to_csv(tmp_path / "said.csv", index=False)
    for case in ("upper", "lower"):
        words = table["liked"].astype(str)
        table.assign(liked=getattr(words.str, case)()).to_csv(tmp_path / f"{case}.csv", index=False)
    found = [
        load_tensor(str(tmp_path / name), None, None, (), "unknown", "liked")
        for name in ("said.parquet", "said.csv", "upper.csv", "lower.csv")
    ]
    for tensor in found:
        np.testing.assert_array_equal(tensor.values, found[0].values)
        np.testing.assert_array_equal(tensor.coordinates, found[0].coordinates)
    said = ("--value", "liked", "--loss", "logistic", "--missing", "unknown", "--no-plots")
    assert run_cli("fit", "cp", tmp_path / "said.csv", *SMALL, *said, "--out", tmp_path / "o") == 0
    table.assign(liked=["perhaps", *["True"] * (len(table) - 1)]).to_csv(tmp_path / "said.csv")
    assert run_cli("fit", "cp", tmp_path / "said.csv", *SMALL, *said, "--out", tmp_path / "o") == 2


def test_letters_that_no_font_has_are_one_note(tensor_file, tmp_path, capsys, run_cli):
    mpl = pytest.importorskip("matplotlib")
    words = tmp_path / "words.txt"
    words.write_text("".join(f"\u5b66\u6821{chr(0x4E00 + i)}\n" for i in range(10)))
    few = ("--n-components", 2, "--max-iter", 1, "--ranks", 1)
    given = (*few, "--labels", f"mode_2={words}", "--out", tmp_path / "out")
    with mpl.rc_context({"font.family": "DejaVu Sans"}):
        assert run_cli("fit", "cp", tensor_file, *given) == 0
    told = capsys.readouterr().err
    assert told.count("note: pictures lack letters") == 1 and "Glyph" not in told


def test_missing_entries_and_held_out_ones(tmp_path, capsys, run_cli):
    """Zeros of the file are entries, where what is not in it is unknown."""
    path = tmp_path / "X.tns"
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((8, 7, 6)) < 0.5) + 1
    values = random.integers(0, 3, len(cells))
    lines = [f"{i} {j} {k} {v}\n" for (i, j, k), v in zip(cells, values, strict=True)]
    path.write_text("".join(lines))
    out = tmp_path / "out"
    options = ("--missing", "unknown", "--validation-fraction", 0.2, "--ridge", 0.01, "--tol", 0)
    assert run_cli("fit", "cp", path, *SMALL, *options, "--no-plots", "--out", out) == 0
    told = capsys.readouterr()
    assert f"{len(cells)} entries in a tensor" in told.out  # zeros among them
    assert "over the stored entries" in told.out and "held out" in told.out
    assert "validation RMSE" in told.err
    metrics = metrics_of(out)
    model = daskpart.CPDecomposition.load(out / "model")
    assert metrics["validation_rmse"] == model.history_["validation_rmse"].iloc[-1]
    assert model.missing == "unknown" and metrics["communication"]["matches"] is True
    assert "over the stored entries" in (out / "report.html").read_text()


def test_counts_of_which_some_are_known(tmp_path, capsys, run_cli):
    path, out = tmp_path / "X.tns", tmp_path / "out"
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((8, 7, 6)) < 0.5) + 1
    counts = random.poisson(cells.sum(axis=1) / 6)
    lines = [f"{i} {j} {k} {n}\n" for (i, j, k), n in zip(cells, counts, strict=True)]
    path.write_text("".join(lines))
    known = ("--loss", "poisson", "--missing", "unknown", "--validation-fraction", 0.2)
    assert run_cli("fit", "cp", path, *SMALL, *known, "--n-components", 1, "--out", out) == 0
    told = capsys.readouterr().out
    assert "over the stored entries" in told and "share of the Poisson deviance" in told
    assert "half of the mean Poisson deviance" in told
    model = daskpart.CPDecomposition.load(out / "model")
    assert metrics_of(out)["validation_loss"] == model.history_["validation_loss"].iloc[-1]
    page = (out / "report.html").read_text()
    assert "over the stored entries that is explained" in page
    assert "Training, and validation loss, over steps" in page  # it was the fit alone, twice


def test_resume_gives_the_bits_of_an_unbroken_fit(tensor_file, tmp_path, run_cli):
    paths = whole_and_resumed(run_cli, tmp_path, "cp", tensor_file, *SMALL, "--tol", 0)
    models = map(daskpart.CPDecomposition.load, paths)
    for one, other in zip(*(model.state_.factors for model in models), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.tns",), "absent.tns: no such file"),
        (("FILE", "--names", "a,b"), "--names a,b gives 2 name(s)"),
        (("FILE", "--names", "a,b\udcff,c"), "a byte of it is no UTF-8"),
        (("FILE", "--labels", "mode_0=absent.txt"), "no such file"),
        (("FILE", "--labels", "there=absent.txt"), "give MODE=FILE"),
        (("HYPERGRAPH",), "holds a hypergraph; this command takes a tensor or a matrix"),
        (("FILE", "--resume"), "--resume needs --checkpoint-path"),
        (("FILE", "--transport", "mpi"), "--transport mpi needs --cluster mpi"),
        (("FILE", "--n-init", 2, "--init", "nvecs"), "--n-init 2 needs --init random"),
        (("FILE", "--workers", 2), "--workers goes with"),
    ],
)
def test_what_cannot_be_is_refused(tensor_file, tmp_path, capsys, run_cli, arguments, words):
    hypergraph = tmp_path / "h.hgr"
    hypergraph.write_text("1 2\n1 2\n")
    files = {"FILE": tensor_file, "HYPERGRAPH": hypergraph}
    given = [files.get(argument, argument) for argument in arguments]
    assert run_cli("fit", "cp", *given, "--out", tmp_path / "out") == 2
    assert words in capsys.readouterr().err


def test_a_file_may_be_said_to_be_0_based(tmp_path, capsys, run_cli):
    """Its second mode has no index 0: it would be read as 1-based, beside the others."""
    path, table = tmp_path / "X.tns", tmp_path / "X.csv"
    path.write_text("0 1 0 1\n1 2 1 2\n2 1 1 3\n")
    assert load_tensor(str(path), None, None, (), zero_based=True).shape == (3, 3, 2)
    out, few = tmp_path / "run", ("--n-components", 1, "--max-iter", 1, "--no-plots")
    assert run_cli("fit", "cp", path, "--zero-based", *few, "--out", out) == 0
    told = capsys.readouterr()
    assert "3 × 3 × 2" in told.out and "0-based" not in told.err
    table.write_text("a,b,value\n0,1,2\n")
    for other in (table, "python-source"):
        assert run_cli("fit", "cp", other, "--zero-based", "--out", out) == 2
        assert "leave out --zero-based" in capsys.readouterr().err


def test_labels_that_end_early(tensor_file, tmp_path, capsys, run_cli):
    short = tmp_path / "short.txt"
    short.write_text("a\nb\n")
    labels = ("--labels", f"mode_2={short}", "--out", tmp_path / "out")
    assert run_cli("fit", "cp", tensor_file, *labels) == 2
    assert "2 lines, but mode_2 has 10 indices" in capsys.readouterr().err


def test_labels_in_another_encoding_are_refused(tensor_file, tmp_path):
    """Else Zürich and Zörich were one name, with a mark in place of the letter."""
    names = tmp_path / "names.txt"
    names.write_bytes("\n".join(["Bonn", "Zürich", *"abcdefgh"]).encode("latin-1"))
    with pytest.raises(ReadError, match=r"names\.txt, line 2: the text is not UTF-8"):
        load_tensor(str(tensor_file), None, None, [f"mode_2={names}"])


def test_labels_below_a_heading_are_told_of(tensor_file, tmp_path, capsys):
    """It moves each label to the next index, which nothing else would show."""
    headed = tmp_path / "headed.txt"
    headed.write_text("tag\n" + "".join(f"tag{place}\n" for place in range(10)) + "\n")
    tensor = load_tensor(str(tensor_file), None, None, [f"mode_2={headed}"])
    assert tensor.labels["mode_2"][0] == "tag"
    assert "of 11 lines the first 10 are taken as names" in capsys.readouterr().err


def test_a_name_a_line_whatever_stands_in_it(tensor_file, tmp_path):
    """Text of other systems: a byte order mark, CRLF, what Python's splitlines takes for lines."""
    names = tmp_path / "names.txt"
    expected = ["ä\u2028b", "", "c\x85", *(f"name {place}" for place in range(7))]
    names.write_bytes("\r\n".join(["\ufeffä\u2028b", *expected[1:], ""]).encode())
    tensor = load_tensor(str(tensor_file), None, None, [f"mode_2={names}"])
    assert tensor.labels["mode_2"].tolist() == expected


@pytest.mark.cluster
def test_worker_processes(tensor_file, tmp_path, run_cli, forked_workers):
    out = tmp_path / "out"
    arguments = ("--cluster", "processes", "--method", "emb", "--out", out)
    assert run_cli("fit", "cp", tensor_file, *SMALL[:-1], 2, *arguments) == 0
    metrics = metrics_of(out)
    assert metrics["communication"]["transport"] == "dask"
    assert metrics["communication"]["matches"] is True
    assert metrics["communication"]["measured_messages"] == [6.0, 6.0]
    page = (out / "report.html").read_text()
    assert (out / "timeline.png").is_file() and "The last iterations" in page
    assert "Rows per iteration from the rank" in page and "seconds blocked, all" in page
    plain = tmp_path / "plain"
    local = ("--method", "emb", "--no-plots", "--out", plain)
    assert run_cli("fit", "cp", tensor_file, *SMALL[:-1], 2, *local) == 0
    one, other = (daskpart.CPDecomposition.load(folder / "model") for folder in (out, plain))
    for factor, expected in zip(one.factors_, other.factors_, strict=True):
        assert factor.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_the_timeline_is_that_of_the_last_iterations():
    start, again = Timeline(1), Timeline(1)
    timelines = [start]
    steps = LastSteps(timelines, kept=2)
    assert steps.whole() is None
    for number in range(5):
        start.add(Span(0, 0, f"a{number}", number, number + 0.5))
        start.add(Span(0, 1, f"b{number}", number + 0.5, number + 1))
        steps.epoch_done({}, dict)
    start.add(Span(0, 0, "half an iteration", 5.0, 5.5))
    assert [span.name for span in steps.whole().spans] == ["a3", "b3", "a4", "b4"]
    assert len(start.spans) == 5  # what is older is not kept
    timelines.append(again)  # a second start of the fit
    again.add(Span(0, 0, "c0", 9.0, 9.5))
    steps.epoch_done({}, dict)
    assert [span.name for span in steps.whole().spans] == ["c0"]
