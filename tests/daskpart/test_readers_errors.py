"""What `daskpart.read` says to bad files: path, line, what was found, what was expected."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import daskpart
from daskpart.containers import as_matrix
from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.partitions import Partition
from daskpart.readers.detection import separator_of

survey_clicks = partial(daskpart.readers.survey, label="clicked")
GOOD = "".join(f"{user}\t{item}\t3\t881250949\n" for user in range(30) for item in range(20))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes among files here")
@pytest.mark.parametrize("name", ["u.data", "x.libsvm", "x.tns", "u.data.gz", "x.unknown"])
def test_a_pipe_is_named_and_nobody_waits_for_it(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(ReadError, match=rf"{name}: this is a pipe.*write it to a file"):
        daskpart.read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "bad_line", "message"),
    [
        ("u.data", "5\t7\tnan\t1", "expected a finite rating that float32 can hold, found nan"),
        ("u.data", "5\t7\t-inf\t1", "expected a finite rating that float32 can hold, found -inf"),
        ("u.data", "5\t7\t1e39\t1", "expected a finite rating that float32 can hold, found 1e39"),
        ("u.data", "5\t7\t1e-50\t1", "a finite rating that float32 can hold, found 1e-50"),
        ("u.data", "5\t7\t3", "expected 4 numbers in a line, found 3"),
        ("u.data", "5\t7\t\t1", "expected 4 numbers in a line, found 3"),
        ("u.data", "-5\t7\t3\t1", "expected a whole user id from 0 to 2^53 - 1, found -5"),
        ("u.data", "5\t7.5\t3\t1", "expected a whole item id from 0 to 2^53 - 1, found 7.5"),
        ("u.data", "5\tseven\t3\t1", "expected a number, found 'seven'"),
        ("u.data", "5\t7\tgood\t1", "expected a number, found 'good'"),
        ("x.tns", "5\t-7\t3\t1", "expected a whole index of mode 2 from 0 to 2^53 - 1, found -7"),
        ("x.tns", "5\t7\t3", "expected 4 numbers in a line, found 3"),
        ("x.tns", "5\t7\t3\tinf", "expected a finite value that float64 can hold, found inf"),
    ],
)
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_a_bad_line_is_named(
    tmp_path: Path, name: str, bad_line: str, message: str, compression: str
) -> None:
    text = GOOD + bad_line + "\n" + GOOD
    path = tmp_path / (name + compression)
    path.write_bytes(gzip.compress(text.encode()) if compression else text.encode())
    with pytest.raises(ReadError) as caught:
        daskpart.read(path)
    assert str(caught.value).startswith(f"{path}, line 601: ")
    assert message in str(caught.value)
    assert repr(bad_line) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.libsvm", "1 3:1\n1 3\n", "line 2: expected a label and then index:value pairs"),
        ("a.libsvm", "1 3:1\n1 3 4:1\n", "line 2: expected a label and then index:value pairs"),
        ("a.libsvm", "1 3:1\n3:1 4:1\n", "line 2: expected a label and then index:value pairs"),
        ("a.libsvm", "1 3:1\n1 3:1 qid:4\n", "line 2: expected a number, found 'qid'"),
        ("a.libsvm", "1 3:1\n1 -3:1\n", "line 2: expected a whole feature index"),
        ("a.libsvm", "1 3:1\n1 2:1 3:nan\n", "line 2: expected a finite feature value"),
        ("a.libsvm", "1 3:1\nnan 3:1\n", "line 2: expected a finite label"),
        ("a.libsvm", "1 3:1\n1 3:1 2:1 3:2\n", "line 2: expected each feature once, found 3 twice"),
        ("a.libsvm", "# only this\n", "there are no examples in it"),
        ("a.edges", "1 2\n1 -2\n", "line 2: expected a whole node id"),
        ("a.edges", "1 2 3 4\n", "found 4 columns"),
        ("a.edges", "# only this\n", "there are no edges"),
        ("a.edges", "source target\n", "there are no edges in it, only a header"),
        ("a.edges", "ann bob\nbob\n", "no usable node id"),
        ("a.edges", "ann bob 1\nbob cid x\n", "expected a finite weight"),
        ("a.adjacency", "1 2\n1 -2\n", "line 2: expected a whole item id"),
        ("a.adjacency", "1\n2\n", "there are no items"),
        ("a.adjacency", "1 2\n# 03\n7 3\n007 4\n", "line 4: 007 would become 7; only numbers are"),
        ("a.adjacency", "1 2\n3 tea\n", "the line is '3 tea'; only numbers are ids in these lines"),
        ("a.tns", "# only this\n", "there are no entries"),
        ("a.tns", "7\n", "expected at least one index and a value"),
        ("u.data", "# only this\n", "neither the name nor the first lines"),
        ("ratings.csv", "userId,movieId,rating\n", "only a header"),
        ("a.npz", "no zip", "not an archive that can be read"),
        ("ratings.csv", "user,item\nann,2\nbob,3,4\n", "line 3: expected 2 cells, found 3; put"),
        ("ratings.csv", "1,1,50%\n2,1,30%\n", "line 1: expected a number, found '50%'"),
        ("a.edges", "1 2 3\n2 1 4 % %\n1 2 50% %\n", "line 3: expected a number, found '50%'"),
        ("a.edges", "ann bob 1e-50\nbob cid 1\n", "float32 can hold, found 1e-50"),
        ("a.edges", "0 1 2e38\n1 0 1\n0 1 2e38\n", "sum to more than float32 can hold"),
        ("a.tns", "1 2 9e307\n1 2 9e307\n1 1 1\n1 2 9e307\n", "sum to more than float64 can hold"),
    ],
)
def test_what_each_format_refuses(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ReadError, match=re.escape(message)) as caught:
        daskpart.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["u.data", "x.csv", "x.tns", "x.libsvm", "x.mtx", "x.npz", "x.edges", "x", "x.parquet"],
)
def test_empty_and_missing_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(ReadError, match="there is no such file"):
        daskpart.read(path)
    path.touch()
    with pytest.raises(ReadError, match=r"is empty|there are no examples"):
        daskpart.read(path)
    with pytest.raises(ReadError, match=r"this is a folder.* xarray.open_zarr"):
        daskpart.read(tmp_path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["u.data", "x.tns", "x.libsvm", "x.mtx", "x.npz"])
def test_a_compressed_file_cut_short(tmp_path: Path, pack: Any, name: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**6, 40_000)
    text = {
        "x.libsvm": "".join(f"1 3:{number}\n" for number in numbers),
        "x.mtx": "%%MatrixMarket matrix coordinate real general\n40000 1 40000\n"
        + "".join(f"{row + 1} 1 {number}\n" for row, number in enumerate(numbers)),
    }.get(name, "".join(f"{number}\t7\t3\t1\n" for number in numbers))
    suffix = {gzip.compress: ".gz", lzma.compress: ".xz", bz2.compress: ".bz2"}[pack]
    path = tmp_path / (name + suffix)
    packed = pack(text.encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ReadError, match=r"ends early|cannot be read") as caught:
        daskpart.read(path)
    assert str(path) in str(caught.value)


def test_a_name_that_lies_about_its_compression(tmp_path: Path) -> None:
    path = tmp_path / "u.data.gz"
    path.write_text(GOOD)
    with pytest.raises(ReadError, match="cannot be read: Not a gzipped file"):
        daskpart.read(path)


BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\nc\nd\n", "line 1: expected a Matrix Market file"),
        ("<html>\n<body>404</body>\n</html>\n", "line 1: expected a Matrix Market file"),
        (BANNER, "no line of rows, columns and entries"),
        (BANNER + "% only this\n", "no line of rows, columns and entries"),
        (BANNER + "2 2\n", "line 2: expected rows, columns and entries"),
        (BANNER + "%\n\n2 1e1 1\n1 1 1\n", "line 4: expected rows, columns and entries"),
        (BANNER + "2 -2 1\n1 1 1\n", "line 2: expected rows, columns and entries"),
        (BANNER + "2 2 9999999999\n1 1 1\n", "line 3: the file ends after 1 entries"),
        (BANNER + "9999999999 2 1\n1 1 1\n", "9999999999 rows for 1 entries"),
        (BANNER + "2 9999999999 1\n1 1 1\n", "9999999999 columns for 1 entries"),
        (BANNER + "20 20 1\n3 1e1 5\n", "line 3: expected a whole column index from 1 to 20"),
        (BANNER + "20 20 1\n4 1.5 5\n", "line 3: expected a whole column index from 1 to 20"),
        (BANNER + "20 20 1\n4 7.0 5\n", "line 3: expected a whole column index from 1 to 20"),
        (BANNER + "20 20 1\n0 1 5\n", "line 3: expected a whole row index from 1 to 20, found 0"),
        (BANNER + "20 20 1\n4 1 1.0xyz\n", "line 3: expected a number, found '1.0xyz'"),
        (BANNER + "20 20 1\n4 1\n", "line 3: expected 3 numbers in a line, found 2"),
        (BANNER + "20 20 1\n4 1 1\n4 2 1\n", "line 4: expected no more than the 1 entries"),
        (BANNER.replace("general", "symmetric") + "2 3 1\n1 1 1\n", "line 2: a symmetric matrix"),
        (BANNER.replace("real", "complex") + "2 2 1\n1 1 1 1\n", "line 1: "),
        (BANNER.replace("real", "integer") + "2 2 1\n1 1 1.5\n", "line 3: expected a finite value"),
        (BANNER + "2 2 1\n1 x 3\n", "line 3: "),
        (BANNER + "2 2 1\n1 5 3\n", "line 3: "),
        (BANNER + "2 2 2\n1 1 3\n1 2 nan\n", "line 4: expected a finite value that float64"),
        (BANNER + "2 2 2\n1 1 3\n", "line 3: the file ends after 1 entries"),
        (BANNER + "2 2 2\n1 1 1e308\n1 1 1e308\n", "sum to more than float64 can hold"),
        (BANNER.replace("coordinate", "array") + "1 1\n3\n", "a dense Matrix Market"),
        ("1 1 3\n", "expected a Matrix Market file"),
    ],
)
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_broken_matrix_market_file_is_an_error_and_no_abort(
    tmp_path: Path, text: str, message: str, start: bytes
) -> None:
    path = tmp_path / "a.mtx"
    path.write_bytes(start + text.encode())
    with pytest.raises(ReadError, match=re.escape(message)) as caught:
        daskpart.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.hgr", "1 999999999\n1 2\n", "999999999 vertices for 2 entries"),
        ("a.u", "0 999999999 1 2\n0 1\n", "999999999 vertices for 2 entries"),
    ],
)
def test_no_array_is_made_as_long_as_a_file_merely_claims(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ReadError, match=message):
        daskpart.read(path)
    path.write_text("0\n2147483646\n")
    with pytest.raises(ReadError, match="2147483646 parts for 2 entries"):
        Partition.from_file(path)


def test_of_many_columns_those_alike_are_named(tmp_path: Path) -> None:
    path = tmp_path / "wide.ratings.csv"
    names = [f"feature{number}" for number in range(80)]
    path.write_text(",".join([*names, "userId"]) + "\n" + ",".join("1" * 81) + "\n")
    with pytest.raises(
        InputError, match="no column 'userid'; the columns are 'userId', "
    ) as caught:
        daskpart.read(path, "ratings", columns=("userid", "feature1"))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"user,item,rating\n1,2,3\n"), "packed by gzip, .*: end it in .gz"),
        (bz2.compress(b"user,item,rating\n1,2,3\n"), "packed by bzip2, .*: end it in .bz2"),
        (lzma.compress(b"user,item,rating\n1,2,3\n"), "packed by xz, .*: end it in .xz"),
        (b"\x28\xb5\x2f\xfd\x04\x58", "packed by zstd, .*: unpack it"),
        (b"user,item,rating\r1,2,3\r2,3,4\r", "lines end in carriage returns alone"),
        ("user,item,größe\r1,2,3\r".encode(), "lines end in carriage returns alone"),
        ("user,item,rating\n1,2,3\n".encode("utf-16"), "the text is UTF-16, .*; save it as UTF-8"),
    ],
    ids=["gzip", "bzip2", "xz", "zstd", "returns", "returns and umlauts", "UTF-16"],
)
def test_what_is_no_text_is_told(tmp_path: Path, content: bytes, said: str) -> None:
    for name in ("ratings.csv", "samples.libsvm"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ReadError, match=said):
            daskpart.read(path)
        with pytest.raises(ReadError, match=said):
            daskpart.readers.survey(path, label="rating" if name == "ratings.csv" else None)


def test_a_zip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ratings.csv", "user,item,rating\n1,2,3\n")
    with pytest.raises(ReadError, match=r"a zip of 'ratings.csv': unpack it"):
        daskpart.read(path)
    with pytest.raises(ReadError, match="a zip: unpack it"):
        daskpart.read(path, "ratings")


@pytest.mark.parametrize(
    ("read", "text", "line"),
    [
        (daskpart.read, "user,item,rating\nann,x,5\nbjörn,y,3\n", 3),
        (daskpart.read, "user,item,rating\nZoë,Käse,3\n", 2),
        (survey_clicks, "größe,clicked\n1,0\n2,1\n", 1),
        (survey_clicks, "size,clicked\n1,no\n2,schön\n", 3),
    ],
)
def test_text_that_is_not_utf8(tmp_path: Path, read: Any, text: str, line: int) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    said = f"line {line}: the text is not UTF-8; .*; save the file as UTF-8"
    with pytest.raises(ReadError, match=said):
        read(path)


def test_unknown_formats_and_options(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text(GOOD)
    with pytest.raises(InputError, match="format is 'excel': use one of"):
        daskpart.read(path, format="excel")
    with pytest.raises(InputError, match=r"'ratings' has no options \['shape'\]; it takes"):
        daskpart.read(path, shape=(3, 3))


def test_values_must_fit_the_type_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("1\t2\t3\t9\n1\t3\t3.5\t9\n")
    with pytest.raises(ReadError, match=r"line 2: .* that int8 can hold, found 3\.5"):
        daskpart.read(path, dtype=np.int8)
    with pytest.raises(InputError, match="dtype=object; values can be"):
        daskpart.read(path, dtype=object)
    path.write_text("1\t2\t3\t9\n1\t3\tnan\t9\n")
    with pytest.raises(ReadError, match=r"line 2: .* that int8 can hold, found nan"):
        daskpart.read(path, dtype=np.int8)
    path.write_text("1\t2\t3\t9\n1\t3\t4\t9\n")
    assert daskpart.read(path, dtype=np.int8).dtype == np.int8


def test_whole_values_that_a_float64_cannot_tell_apart(tmp_path: Path) -> None:
    """int64 can hold them: the message names the limit that is meant."""
    path = tmp_path / "x.mtx"
    head = BANNER.replace("real", "integer") + "1 1 1\n"
    path.write_text(f"{head}1 1 {2**53 - 1}\n")
    assert daskpart.read(path).data.tolist() == [2**53 - 1]
    path.write_text(f"{head}1 1 {2**53 + 1}\n")
    with pytest.raises(ReadError, match=rf"int64 can hold \(up to 2\^53 - 1\), found {2**53 + 1}"):
        daskpart.read(path)
    path = tmp_path / "x.parquet"
    pandas.DataFrame({"user": [1], "item": [1], "rating": [2**53 + 1]}).to_parquet(path)
    with pytest.raises(ReadError, match=r"int64 can hold \(up to 2\^53 - 1\), found"):
        daskpart.read(path, dtype=np.int64)


@pytest.mark.parametrize("dtype", [bool, "boolean"])
@pytest.mark.parametrize("users", [["a", "b", "b"], [1, 2, 2]])  # text is read in two ways
def test_bools_are_numbers_in_every_file(tmp_path: Path, users: list, dtype: Any) -> None:
    """As in every container. Where another one is missing, or no bool, an error says so."""
    frame = pandas.DataFrame({"user": users, "item": [1, 1, 2], "rating": [True, False, True]})
    frame, path = frame.astype({"rating": dtype}), tmp_path / "x.parquet"
    frame.to_parquet(path)
    frame.to_csv(tmp_path / "x.csv", index=False)
    for ratings in (frame, daskpart.read(path), daskpart.read(tmp_path / "x.csv")):
        assert as_matrix(ratings).values.tolist() == [1, 0, 1]
    frame.astype({"rating": "boolean"}).replace({"rating": {False: None}}).to_parquet(path)
    with pytest.raises(ReadError, match=r"row 1: expected a finite rating .*, found (None|<NA>)"):
        daskpart.read(path)
    frame.assign(rating=["True", "3", "False"]).to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(ReadError, match=r"line 2.* expected a .*, found '?True"):
        daskpart.read(tmp_path / "x.csv")


def test_extents_that_are_too_small(tmp_path: Path) -> None:
    tensor, examples = tmp_path / "x.tns", tmp_path / "x.libsvm"
    tensor.write_text("2 3 1.5\n")
    examples.write_text("1 7:1\n")
    with pytest.raises(InputError, match=r"shape=\(2, 2\) cannot hold .* need \(2, 3\)"):
        daskpart.read(tensor, shape=(2, 2))
    with pytest.raises(InputError, match="cannot hold"):
        daskpart.read(tensor, shape=(2, 3, 4))
    for shape in (5, (2.5, 3)):
        with pytest.raises(InputError, match="extent"):
            daskpart.read(tensor, shape=shape)
    with pytest.raises(ReadError, match=r"line 1: expected feature indices up to 6, .*; found 7"):
        daskpart.read(examples, n_features=6)
    examples.write_text("1 0:1 6:1\n")
    with pytest.raises(InputError, match="n_features=6, but the file needs 7"):
        daskpart.read(examples, n_features=6)
    examples.write_text("1 0:1\n")
    with pytest.raises(InputError, match="the feature index 0 occurs"):
        daskpart.read(examples, zero_based=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bob,y,great", r"line 3 .*: expected a finite rating .* found 'great'"),
        ("bob,y,inf", r"line 3 .*: expected a finite rating .* found inf$"),
        ("bob,y,", "found ''; leave out lines without one"),
        ("bob,y,NA", "found 'NA'; leave out lines without one"),
        ("bob,,4", r"line 3 .*: no usable item id, found ''"),
        ("bob,y,3,4,5", "line 3"),
    ],
)
def test_text_ids_name_the_line_of_a_bad_rating(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(f"user,item,rating\nann,x,5\n{line}\n")
    with pytest.raises(ReadError, match=message):
        daskpart.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "1;2;3,5\n1;3;4,0\n",
        "1;2;4\n1;3;4,5\n",
        "user;item;rating\n1;2;3,5\n",
        "user;item;rating\na;b;3,5\n",
        "Kunde;Artikel;Note\na;b;3,5\n",
        "a;b;1.003,5\n",
    ],
)
@pytest.mark.parametrize("format", ["ratings", "edges"])
def test_decimal_commas_are_said_not_to_be_read(tmp_path, text, format):
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    said = r"line [12].*decimal commas are not read: write (100)?[134]\.5"
    with pytest.raises(ReadError, match=said):
        daskpart.read(path, format)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, r"neither the name nor.*columns=.*survey\(path, label="),
        ({"columns": ("who", "was")}, None),
    ],
)
def test_columns_that_are_named_tell_a_table_of_many(tmp_path, how, words):
    path = tmp_path / "orders.csv"
    path.write_text("nr,when,who,shop,was\n1,2026-01-02,ann,3,tea\n")
    if words is None:
        assert daskpart.read(path, **how)["item"].values.tolist() == ["tea"]
    else:
        with pytest.raises(ReadError, match=words):
            daskpart.read(path, **how)


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("1::2, b::3", "::"), ("a\tb, c, d, e", "\t"), ("a,b;c,d", ","), ("a;b,c;d", ";"),
        ('"a, b, c, d";2;3', ";"), ("1;2;3,5", ";"), ("1;3,5", ";"), ("1,5;2,5;3,5", ";"),
        ("1,5,a;b", ","), ("1 2 3", None), ("1", None), ("1|2|3,5", "|"), ("1,a|b|c", ","),
        ("sp|P1 sp|P2", None),
    ],
)  # fmt: skip
def test_what_parts_the_cells_of_a_line(line, mark):
    assert separator_of(line) == mark


@pytest.mark.parametrize("separator", [",", ";", "\t", "::"])
@pytest.mark.parametrize("between", ["", "u3{0}x{0}3\n"])
def test_a_quote_that_is_not_closed_swallows_no_ratings(tmp_path, separator, between):
    lines = ["user{0}item{0}rating\n", "u1{0}z{0}1\n", 'u2{0}"abc{0}5\n', between]
    text = "".join([*lines, 'u4{0}"def{0}4\n', "u5{0}z{0}1\n"])
    path = tmp_path / "ratings.txt"
    path.write_text(text.replace("{0}", separator))
    with pytest.raises(ReadError, match=r"line 3 .*: the item id .* is a quote not closed"):
        daskpart.read(path, "ratings")


def test_a_name_in_quotes_may_go_over_two_lines(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text('user,item,rating\nu1,z,1\nu2,"a\nb",5\nu3,"c, d",2\n')
    assert daskpart.read(path, "ratings")["item"].values.tolist() == ["a\nb", "c, d", "z"]


@pytest.mark.parametrize("header", ["user,item,rating", "source,target,weight"])
@pytest.mark.parametrize("ids", [("ann", "bob"), ("1", "2")])
@pytest.mark.parametrize("cells", [2, 4])
def test_a_header_tells_the_format_though_a_line_has_other_cells(tmp_path, header, ids, cells):
    path = tmp_path / "x.csv"
    bad = ",".join((ids * 2)[:cells])
    path.write_text(f"{header}\n{','.join(ids)},3\n{bad}\n")
    with pytest.raises(ReadError, match=r"line 3\b"):
        daskpart.read(path)


@pytest.mark.parametrize("text", ["1~2~5\n3~4~1\n", "user~item~stars\nann~tea~5\n"])
@pytest.mark.parametrize("format", ["ratings", "edges"])
def test_what_parts_columns_is_told_where_there_is_one_column(tmp_path, text, format):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ReadError, match=r"one column, .* '::' or blanks part columns"):
        daskpart.read(path, format)


def test_sums_that_a_type_of_whole_numbers_cannot_hold(tmp_path):
    path = tmp_path / "a.edges"
    path.write_text("0 1 100\n0 1 20\n1 0 1\n")
    with pytest.warns(DaskpartWarning, match="1 entries repeat"):
        assert daskpart.read(path, dtype=np.int8).data.data.tolist() == [120, 1]
    path.write_text("0 1 100\n0 1 100\n1 0 1\n")
    with pytest.raises(ReadError, match="sum to 200, which int8 cannot hold"):
        daskpart.read(path, dtype=np.int8)
