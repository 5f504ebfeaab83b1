"""Tables of examples, in byte ranges and row groups, are the tables read whole."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart._cli.samples import check_samples
from daskpart._cli.tables import read_table
from daskpart.errors import InputError, ReadError
from daskpart.readers import ExamplesFile, survey
from daskpart.readers.ranges import rows_between

N_ROWS = 150


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    random = np.random.default_rng(0)
    cells = random.normal(size=(N_ROWS, 5)) * (random.random((N_ROWS, 5)) < 0.6)
    table = pandas.DataFrame(cells, columns=["a", "b", "c", "d", "e"])
    table.insert(2, "rich", (cells @ np.arange(5) > 0).astype(int))
    return table.sort_values("rich")


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("tables")
    frame.to_csv(at / "x.csv", index=False)
    (at / "x.csv.gz").write_bytes(gzip.compress((at / "x.csv").read_bytes()))
    (at / "mark.csv").write_bytes(b"\xef\xbb\xbf" + (at / "x.csv").read_bytes())
    frame.to_csv(at / "x.tsv", index=False, sep="\t", header=False, lineterminator="\r\n")
    frame.to_parquet(at / "x.parquet", row_group_size=40)
    return at


FILES = {"x.csv": "rich", "x.csv.gz": "rich", "mark.csv": 2, "x.tsv": 2, "x.parquet": "rich"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 8])
def test_pieces_are_the_whole_table(folder, frame, name, n_ranks):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    file = survey(folder / name, label=FILES[name], labels=(0, 1))
    pieces = file.pieces(n_ranks).compute()
    data = sp.vstack([piece.data for piece in pieces], "csr")
    cells = frame.drop(columns="rich").to_numpy()
    np.testing.assert_array_equal(data.toarray(), cells)
    assert data.nnz == file.nnz == np.count_nonzero(cells)
    target = np.concatenate([piece.target for piece in pieces])
    assert target.tolist() == frame["rich"].tolist()
    assert file.labels.tolist() == [0, 1]
    assert file.feature_names == (None if name == "x.tsv" else ("a", "b", "c", "d", "e"))


@pytest.fixture(scope="module")
def numbers(folder) -> ExamplesFile:
    return survey(folder / "x.csv", label="rich")


@given(st.lists(st.integers(60, 12_000), max_size=4))
def test_any_cut_gives_every_row_once(numbers, frame, cuts):
    borders = [numbers.wanted.table.begin, *sorted(cuts), None]
    parts = [rows_between(numbers.path, *pair, numbers.wanted) for pair in pairwise(borders)]
    assert sum(len(part.labels) for part in parts) == N_ROWS
    assert np.concatenate([part.labels for part in parts]).tolist() == frame["rich"].tolist()


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_fit_of_a_table_is_the_fit_in_memory(folder, frame, name):
    X, y = frame.drop(columns="rich"), frame["rich"]
    shared = {"n_ranks": 3, "transport": "local", "tol": 1e-8}
    here = daskpart.LogisticRegression(**shared).fit(X, y)
    there = daskpart.LogisticRegression(**shared).fit(survey(folder / name, label="rich"))
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)
    assert there.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
    line = daskpart.LinearRegression(**shared).fit(survey(folder / name, label="e"))
    expected = daskpart.LinearRegression(**shared).fit(frame.drop(columns="e"), frame["e"])
    np.testing.assert_allclose(line.coef_, expected.coef_, atol=1e-6)


BAD = [
    ("a,y\n1,2\n3,x\n", {}, ReadError, "line 3: expected a number in column 'y', found 'x'"),
    ("a,y\n1,2\nz,3\n", {}, ReadError, "line 3: expected a number in column 'a', found 'z'"),
    ("b,y,a\n1,no,2\n3,yes,x\n", {}, ReadError, "line 3: .* in column 'a', found 'x'; .*3,yes,x"),
    ("a,y\n1,no\n3,\n", {}, ReadError, "line 3: there is no label"),
    ("a,y\n1,no\n3\n", {}, ReadError, "line 3: expected 2 cells in a line, found 1"),
    ("a,y\n1,no\n\n3,a,b\n", {}, ReadError, "line 4: expected 2 cells in a line, found 3"),
    ('a,y\n1,no\n3,"yes\n4,no\n', {}, ReadError, "line 3: a quote is not closed"),
    ("a,y\n1,no\ninf,no\n", {}, ReadError, "line 3: expected a finite value"),
    ("a,y\n1,no\n2,na\n", {"labels": ("no", "yes")}, ReadError, "line 3: .*'yes'; found 'na'"),
    ("a,y\n1,no\n", {"labels": (0, 1)}, InputError, "labels are text, too|are text; labels="),
    ("a,y\n1,no\n", {"labels": (0, "x")}, InputError, "give numbers, or give text"),
    (
        "a,y\n1,2\n3,\n",
        {},
        ReadError,
        "line 3: expected 2 numbers in a line, found 1; a cell is em",
    ),
    ("a,b,y\n1,0,2\n3,,1\n", {}, ReadError, "found 2; a cell is empty: fill in missing values"),
    ("a,y\n1,2\n3\n", {}, ReadError, "line 3: expected 2 numbers in a line, found 1; the line is"),
    ("a,y\n1,2\nnan,1\n", {}, ReadError, "line 3: expected a finite value"),
    ("a,y\n1,2\n1,3\n", {"labels": (1, 2)}, ReadError, "line 3: expected one of the labels 1, 2"),
    ("a,y\n1,2\n", {"label": "z"}, InputError, "no column 'z'"),
    ("a,y\n1,no\n", {"label": ["y"]}, InputError, r"no column \['y'\]"),
    ("a,y\n1,no\n", {"labels": "no"}, InputError, "labels is 'no': give a list of the labels"),
    ("a,y\n1,2\n", {"labels": 2}, InputError, "labels is 2: give a list of labels"),
    ("a,y\n1,2\n", {"label": None}, InputError, "is a table: say which column"),
    ("a,y\n1,2\n", {"n_features": 3}, InputError, "n_features=3, but the table has 1"),
    (",a,y\n0,3,1\n1,4,0\n", {}, InputError, "first column has no name .* index=False"),
    (",a,y\n17,3,1\n4,4,0\n", {}, InputError, "first column has no name .* index=False"),
    ("Unnamed: 0,a,y\n0,3,1\n1,4,0\n", {}, InputError, "numbers the rows"),
    ("y\n1\n2\n", {}, InputError, "no column but the label"),
    (
        "# of 2026\na,y\n1,2\n",
        {"label": 0},
        InputError,
        "only '# of 2026'; .* no line above the header",
    ),
    ("a,y\n", {}, ReadError, "no examples in it"),
]


@pytest.mark.parametrize(("content", "options", "error", "message"), BAD)
def test_bad_tables(tmp_path, content, options, error, message):
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(error, match=message):
        survey(tmp_path / "x.csv", **{"label": "y", **options})


@pytest.mark.parametrize("cells", ["0.5,3,1\n1,4,0", "2,3,1\n2,4,0"])
def test_a_first_column_without_a_name_that_numbers_no_rows_is_a_feature(tmp_path, cells):
    (tmp_path / "x.csv").write_text(f",a,y\n{cells}\n")
    assert survey(tmp_path / "x.csv", label="y").n_features == 2


def test_a_label_without_a_name_is_a_label_where_its_place_is_said(tmp_path):
    (tmp_path / "x.csv").write_text(",a,b\n17,3,1\n4,4,0\n")
    assert survey(tmp_path / "x.csv", label=0).n_features == 2


def test_a_tsv_is_a_table_for_the_shell_too(folder):
    check_samples(str(folder / "x.tsv"), {"label": "0"})
    with pytest.raises(InputError, match="is a table: say which column"):
        survey(folder / "x.tsv")


# -- labels that are text ---

WORDS = {"text": [">50K", "<=50K, or so"], "bool": [True, False]}


def text_table(frame, kind, at, name):
    table = frame.assign(rich=np.array(WORDS[kind])[frame["rich"].to_numpy()])
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        if kind == "text":
            table["rich"] = table["rich"].astype("category")
        table.to_parquet(at / name, row_group_size=40)
    else:
        table.to_csv(at / name, index=False)
    return table.drop(columns="rich"), table["rich"]


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_labels_of_text_are_classes_as_in_memory(frame, tmp_path, name, kind, on_disk):
    X, y = text_table(frame, kind, tmp_path, name)
    file = survey(tmp_path / name, label="rich", on_disk=on_disk)
    assert file.labels.tolist() == sorted(WORDS[kind])
    pieces = file.pieces(3).compute()
    assert np.concatenate([piece.target for piece in pieces]).tolist() == y.tolist()
    shared = {"n_ranks": 3, "transport": "local", "tol": 1e-8}
    here = daskpart.LogisticRegression(**shared).fit(X, np.asarray(y))
    there = daskpart.LogisticRegression(**shared).fit(file)
    assert there.classes_.tolist() == here.classes_.tolist()
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)
    assert there.predict(X).tolist() == here.predict(X).tolist()
    assert there.score(X, np.asarray(y)) > 0.9


def test_bools_are_numbers_to_a_regression_and_text_is_not(frame, tmp_path):
    shared = {"n_ranks": 2, "transport": "local"}
    X, y = text_table(frame, "bool", tmp_path, "t.csv")
    line = daskpart.LinearRegression(**shared).fit(survey(tmp_path / "t.csv", label="rich"))
    expected = daskpart.LinearRegression(**shared).fit(X, y.astype(float))
    np.testing.assert_allclose(line.coef_, expected.coef_, atol=1e-6)
    text_table(frame, "text", tmp_path, "t.csv")
    with pytest.raises(InputError, match="labels are text, such as '<=50K, or so'"):
        daskpart.LinearRegression(**shared).fit(survey(tmp_path / "t.csv", label="rich"))


def test_text_that_looks_like_numbers_is_text_where_the_user_says_so(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1,1\n2,3+\n3,2\n")
    file = survey(tmp_path / "x.csv", label="y", labels=("1", "2", "3+"))
    assert file.labels.tolist() == ["1", "2", "3+"]


@pytest.mark.parametrize(
    ("content", "n_rows", "names"),
    [
        ("39,40,yes\n50,13,no\n", 2, None),  # no header
        ("0,1,rich\n50,13,no\n", 1, ("0", "1")),  # as pandas names columns
        ("7,8,rich\n50,13,0\n", 1, ("7", "8")),
        ("39,40,yes\n", 1, None),
    ],
)
def test_a_first_line_with_a_text_label_is_a_row(tmp_path, content, n_rows, names):
    (tmp_path / "x.csv").write_text(content)
    file = survey(tmp_path / "x.csv", label=2)
    assert (file.shape[0], file.feature_names) == (n_rows, names)


@pytest.fixture(scope="module")
def texts(folder, frame) -> ExamplesFile:
    path = folder / "text.csv"
    frame.assign(rich=np.where(frame["rich"], "yes", "no")).to_csv(path, index=False)
    return survey(path, label="rich")


@given(st.lists(st.integers(10, 12_000), max_size=4))
def test_any_cut_of_a_table_with_text_gives_every_label_once(texts, frame, cuts):
    borders = [texts.wanted.table.begin, *sorted(cuts), None]
    borders = [max(each, borders[0]) if each else each for each in borders]
    parts = [rows_between(texts.path, *pair, texts.wanted) for pair in pairwise(borders)]
    labels = np.concatenate([part.labels for part in parts])
    assert labels.tolist() == frame["rich"].tolist()


def test_a_file_that_changes_and_labels_without_end(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,y\n1,no\n2,yes\n")
    file = survey(path, label="y")
    path.write_text("a,y\n1,no\n2,was\n")
    with pytest.raises(ReadError, match="'was' was not in it when it was surveyed"):
        file.pieces(1).compute()
    path.write_text("a,y\n" + "".join(f"{n},word{n}\n" for n in range(10_001)))
    with pytest.raises(InputError, match="more than 10,000 different texts, such as 'word0'"):
        survey(path, label="y")


def test_bad_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    pandas.DataFrame({"a": [1.0, np.nan], "y": [0, 1]}).to_parquet(path)
    with pytest.raises(ReadError, match="row 1: expected a finite number in column 'a', found nan"):
        survey(path, label="y")
    pandas.DataFrame({"a": ["x", "y"], "y": [0, 1]}).to_parquet(path)
    with pytest.raises(ReadError, match=r"column 'a' is .*; expected numbers"):
        survey(path, label="y")
    pandas.DataFrame({"a": [1, 2], "y": ["x", None]}).to_parquet(path)
    with pytest.raises(ReadError, match="row 1: there is no label in column 'y'"):
        survey(path, label="y")
    pandas.DataFrame({"a": [1, 2], "y": [0, 1]}).to_parquet(path)
    with pytest.raises(InputError, match="its labels are numbers; labels="):
        survey(path, label="y", labels=("0", "1"))
    with pytest.raises(InputError, match=r"labels=\('0', '1'\) should be numbers"):
        survey(path, label="y", labels=np.array(["0", "1"]))
    for value, dtype in ((1e300, "float32"), (1e-50, "float32"), (0.5, "int64")):
        pandas.DataFrame({"a": [1, value], "y": [0, 1]}).to_parquet(path)
        with pytest.raises(ReadError, match=rf"row 1: .* in column 'a', .* {dtype} cannot hold"):
            survey(path, label="y", dtype=dtype)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(ReadError, match="not a parquet file"):
        survey(path, label="y")
    with pytest.raises(InputError, match="is a table"):
        survey(path)


def test_a_table_may_have_any_number_of_columns_and_a_long_first_row(tmp_path: Path) -> None:
    names = [f"feature number {n}" for n in range(6000)]
    rows = [["0.123456789012"] * 6000 + [label] for label in ("yes", "no", "yes")]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(",".join(row) for row in [[*names, "y"], *rows]) + "\n")
    file = survey(path, label="y")
    assert file.shape == (3, 6000) and file.labels.tolist() == ["no", "yes"]
    assert file.feature_names == tuple(names)
    path.write_text("\n".join(",".join(row) for row in [["f"] * 6000 + ["y"], *rows]) + "\n")
    assert survey(path, label="y").labels.tolist() == ["no", "yes"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("labels", ["01", ["no", "yes"]])
def test_quotes_round_cells_part_nothing(tmp_path: Path, labels, mark) -> None:
    path = tmp_path / "quoted.csv"
    rows = [f'"{n}","{label}","{n / 2}"' for n, label in enumerate([*labels, *labels])]
    text = "\n".join(['"a, or b","y","c;d"', *rows]) + "\n"
    path.write_bytes((mark + text).encode())
    file = survey(path, label="y")
    assert file.feature_names == ("a, or b", "c;d")
    data = sp.vstack([piece.data for piece in file.pieces(2).compute()])
    np.testing.assert_array_equal(data.toarray(), [[n, n / 2] for n in range(4)])
    assert file.labels.astype(str).tolist() == [str(float(x)) if x in "01" else x for x in labels]


def test_one_long_name_does_not_make_all_names_long(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    lines = [f"user {n},item {n % 7},3" for n in range(3000)]
    path.write_text("\n".join([*lines, "x" * 20_000 + ",item 1,3", "12,item 1,3"]))
    labels = daskpart.read(path, columns=(0, 1, 2))["user"].to_numpy()
    assert labels.nbytes < 100_000 and len(labels) == 3002
    assert [len(label) for label in labels[-2:]] == [8, 20_000]


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("39,yes,40\n#50,no,13\n38,no,9\n", 1),  # of all its cells
        ("39,40,yes\n#50,13,no\n38,9,no\n", 2),
        ("yes,39,40\n# no row, or so\nno,38,9\n", 0),
    ],
)
def test_a_row_that_is_commented_out_leaves_no_label(tmp_path: Path, content, label) -> None:
    (tmp_path / "x.csv").write_text(content)
    file = survey(tmp_path / "x.csv", label=label)
    data, target = file.examples_of(range(len(file.blocks)))
    np.testing.assert_array_equal(data.toarray(), [[39, 40], [38, 9]])
    assert target.tolist() == ["yes", "no"]


@pytest.mark.parametrize("line", [",no,", '"",no," "', " ,no,# 13"])
def test_a_label_without_numbers_is_no_row(tmp_path: Path, line) -> None:
    (tmp_path / "x.csv").write_text(f"a,y,b\n39,yes,40\n{line}\n38,no,9\n")
    with pytest.raises(ReadError, match="line 3: there is a label, but no number"):
        survey(tmp_path / "x.csv", label="y")


@pytest.mark.parametrize("labels", [[0, 1, 0, 1], ["no", "yes", "no", "yes, or so"]])
def test_a_parquet_file_that_changes_meanwhile(tmp_path: Path, labels) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    frame = pandas.DataFrame({"a": [1.0, 0, 2, 0], "b": [0, 1.0, 0, 5], "y": labels})
    frame.to_parquet(path, row_group_size=2)
    file = survey(path, label="y")
    assert sum(len(piece.target) for piece in file.pieces(3).compute()) == 4
    others = [
        frame.assign(a=frame["b"], b=frame["a"]),  # the same values in other places
        frame.assign(a=[1.0, 0, 2.5, 0]),
        frame.assign(y=frame["y"].to_numpy()[[1, 0, 2, 3]]),
        frame.iloc[:2],
        frame.drop(columns="b"),
    ]
    for other in others:
        other.to_parquet(path, row_group_size=2)
        with pytest.raises(ReadError, match="when it was surveyed"):
            file.pieces(3).compute()
    others[0].to_parquet(path, row_group_size=2)
    assert survey(path, label="y").fingerprint() != file.fingerprint()


def blank(label: str, at: int) -> str:
    """A text with blanks on one side, on both, or on none."""
    return [label, f" {label}", f"{label} ", f"  {label} "][at % 4]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_blanks_around_text_are_none_of_its_own(suffix: str, tmp_path: Path) -> None:
    """Of labels of examples, of users and items, and in tables of the command line; also inside."""
    kinds, users = ["low end", "high"] * 3, ["b", "a c", "a"] * 2
    table = pandas.DataFrame({
        "user": [blank(user, at) for at, user in enumerate(users)],
        "kind": [blank(kind, at + 1) for at, kind in enumerate(kinds)],
        "value": np.arange(1, 7),
    })  # fmt: skip
    path = tmp_path / f"x.{suffix}"

    def write(found: pandas.DataFrame) -> None:
        if suffix == "csv":
            found.to_csv(path, index=False)
        else:
            found.to_parquet(path)

    for made in (table, table.astype({"user": "category", "kind": "category"})):
        write(made)
        ratings = daskpart.read(path, columns=("user", "kind", "value"))
        assert ratings["user"].values.tolist() == ["a", "a c", "b"]
        assert ratings["item"].values.tolist() == ["high", "low end"]
        assert ratings.data.sum() == table["value"].sum()
        for as_written in (False, True):
            found = read_table(path, as_written)
            assert found["user"].tolist() == users and found["kind"].tolist() == kinds
        write(made.drop(columns="user"))
        file = survey(path, label="kind")
        assert file.labels.tolist() == ["high", "low end"]
        assert file.label_counts.tolist() == [3, 3]


def test_a_label_of_parquet_that_is_blank_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pandas.DataFrame({"kind": ["a", "  ", "b"], "value": [1, 2, 3]}).to_parquet(path)
    with pytest.raises(ReadError, match="row group 0, row 1: there is no label in column 'kind'"):
        survey(path, label="kind")
    frame = pandas.DataFrame({"user": ["a", "  "], "item": [1, 2], "rating": [1, 2]})
    frame.to_parquet(path)
    with pytest.raises(ReadError, match="row 1: no usable user id, found"):
        daskpart.read(path)


@pytest.mark.parametrize("header", ["", "a;b;y\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_line_that_names_the_separator_to_excel_is_no_row(tmp_path: Path, mark, header) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes((mark + "sep=;\n" + header + "1;2;0\n3;4;1\n").encode())
    file = survey(path, label=2)
    (piece,) = file.pieces(1).compute()
    assert piece.data.toarray().tolist() == [[1, 2], [3, 4]] and piece.target.tolist() == [0, 1]
    assert file.feature_names == (("a", "b") if header else None)
    if header:
        assert read_table(path).to_numpy().tolist() == [[1, 2, 0], [3, 4, 1]]
    path.write_bytes(path.read_bytes().replace(b"3", b"x"))
    with pytest.raises(ReadError, match=f"line {4 if header else 3}"):
        survey(path, label=2)


def test_names_are_not_looked_through_one_by_one(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\nann,x,1\nbo,y,2\n")

    def one_by_one(series):
        raise AssertionError(f"{len(series)} cells one by one: a file may have 10^8 of them")

    monkeypatch.setattr(pandas.Series, "__iter__", one_by_one)
    assert daskpart.read(path).sizes == {"user": 2, "item": 2}


@pytest.mark.parametrize("day", ["2024-02-29", "2024-02-29 12:30:00", "29.2.2024", "2/29/2024"])
def test_dates_in_a_text_file_are_no_ratings(tmp_path: Path, day: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"user,item,ordered\na,b,{day}\nc,b,{day}\n")
    with pytest.raises(ReadError, match=r"that column says when\. Say columns=\(user, item\)"):
        daskpart.read(path)
    assert daskpart.read(path, columns=("user", "item")).data.data.tolist() == [1, 1]
