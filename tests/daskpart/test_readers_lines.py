"""`daskpart.read` on small files of lines: dialects, labels, detection, arithmetic."""

from __future__ import annotations

import gzip
import io
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sparse
import xarray
from hypothesis import given
from hypothesis import strategies as st
from packed_files import write

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, InputError, ReadError
from daskpart.partitions import Partition
from daskpart.readers.scanning import read_rows
from daskpart.readers.streams import text_chunks

U_DATA = "196\t242\t3\t881250949\n22\t377\t1\t878887116\n196\t51\t2\t880606923\n"
RATINGS_DAT = "196::242::3::881250949\n22::377::1::878887116\n196::51::2::880606923\n"
RATINGS_CSV = (
    "userId,movieId,rating,timestamp\n196,242,3.0,881250949\n22,377,1.0,8788\n196,51,2.0,8806\n"
)


def check_the_three_ratings(ratings: xarray.DataArray) -> None:
    assert ratings.name == "rating" and ratings.dims == ("user", "item")
    assert isinstance(ratings.data, sparse.COO) and ratings.dtype == np.float32
    assert ratings.data.coords.dtype == np.int32
    assert ratings["user"].values.tolist() == [22, 196]
    assert ratings["item"].values.tolist() == [51, 242, 377]
    assert ratings.data.todense().tolist() == [[0, 0, 1], [2, 3, 0]]


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".bz2"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("u.data", U_DATA),
        ("ratings.dat", RATINGS_DAT),
        ("ratings.csv", RATINGS_CSV),
        ("ratings.csv", RATINGS_CSV.replace("\n", "\r\n")),
        ("ratings.csv", "\ufeff" + RATINGS_CSV),
        ("ratings.dat", "196::242::3\n22::377::1\n196::51::2"),
        ("mine.dat", "user item weight\n196 242 3\n\n22 377 1\n  196 51 2\n"),
        ("mine.tsv", "# by hand\n" + U_DATA),
        ("ratings.csv", '"user";"item";"rating"\n"196";"242";"3"\n"22";"377";"1"\n196;51;2\n'),
        ("ratings.csv", "rating,item,user\n3,242,196\n1,377,22\n2,51,196\n"),
        # as Excel is told what parts columns
        ("ratings.csv", "sep=;\r\nuser;item;rating\r\n196;242;3\r\n22;377;1\r\n196;51;2\r\n"),
        ("mine.csv", "\ufeffSEP=,\n" + RATINGS_CSV),
        ("mine.tsv", "sep=\t\n" + U_DATA),
    ],
)
def test_the_dialects_of_ratings(tmp_path: Path, name: str, text: str, compression: str) -> None:
    check_the_three_ratings(daskpart.read(write(tmp_path / (name + compression), text)))


def test_columns_and_header_can_be_told(tmp_path: Path) -> None:
    path = write(tmp_path / "log.txt", "a,b,c,d\n881,3,242,196\n878,1,377,22\n880,2,51,196\n")
    check_the_three_ratings(daskpart.read(path, "ratings", columns=("d", "c", "b")))
    check_the_three_ratings(daskpart.read(path, "ratings", columns=(3, 2, 1), header=True))
    implicit = daskpart.read(path, "ratings", columns=("d", "c"))
    assert implicit.data.data.tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="no column 'e'; the columns are"):
        daskpart.read(path, "ratings", columns=("d", "e"))
    with pytest.raises(InputError, match="positions 0 to 3"):
        daskpart.read(path, "ratings", columns=(0, 4), header=False)
    with pytest.raises(InputError, match="columns names user, item"):
        daskpart.read(path, "ratings", columns=("d",))


@pytest.mark.parametrize("n_lines", [1, 3])
def test_a_first_line_of_text_that_may_be_an_event_is_asked_for(
    tmp_path: Path, n_lines: int
) -> None:
    events = "".join(["ann,tea\n", "ann,milk\n", "bob,tea\n"][:n_lines])
    path = write(tmp_path / "events.csv", events)
    with pytest.raises(ReadError, match=r"first line, 'ann,tea', a header\? .* user and item"):
        daskpart.read(path)
    found = [daskpart.read(path, header=False)]
    for header, options in (
        ("user,item", {}),
        ("userId,movie", {}),
        ("who,what", {"header": True}),
        ("who,what", {"columns": ("who", "what")}),
    ):
        found.append(daskpart.read(write(path, f"{header}\n{events}"), **options))
    for ratings in found:
        assert ratings.data.nnz == n_lines and "tea" in ratings["item"].values.tolist()
    valued = read_text(tmp_path, "who,what,stars\nann,tea,5\n")
    assert valued.to_numpy().tolist() == [["ann", "tea", 5]]


def read_text(tmp_path: Path, text: str, name: str = "ratings.csv") -> pd.DataFrame:
    path = tmp_path / name
    path.write_text(text)
    return as_matrix(daskpart.read(path)).to_frame()


@pytest.mark.parametrize("large", [2**63, 2**64, 2**70])
def test_ids_beyond_64_bits_can_be_text(tmp_path: Path, large: int) -> None:
    """Which the error did not say, or it spoke of 2^53."""
    path = write(tmp_path / "ratings.csv", f"user,item,rating\n5,1,2\n{large},1,3\n")
    wanted = f"line 3 .*found '{large}'; if ids are text, say text_ids=True"
    with pytest.raises(ReadError, match=wanted):
        daskpart.read(path)
    found = daskpart.read(path, text_ids=True)["user"].values
    assert found.tolist() == sorted(["5", str(large)])


def test_a_column_is_what_its_name_says(tmp_path: Path) -> None:
    """Not what its place says, where these differ."""
    found = read_text(tmp_path, "movie,user,minutes\n1,7,4\n2,8,5\n")
    assert found.to_numpy().tolist() == [[7, 1, 4], [8, 2, 5]]
    found = read_text(tmp_path, "user,time,item,n\n1,0,7,4\n")
    assert found.to_numpy().tolist() == [[1, 7, 4]]
    for header in ("n,user,item", ",user,item", "user,n,item", "stars,member,thing"):
        with pytest.raises(ReadError, match="are user, item and, if any, rating"):
            read_text(tmp_path, f"{header}\n1,7,4\n2,8,5\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user,item,rating,timestamp\n1,2,3,2020-01-01\n2,3,4,today\n", [[1, 2, 3], [2, 3, 4]]),
        ("user,item,rating,timestamp\n1,2,3,\n2,3,4,5\n", [[1, 2, 3], [2, 3, 4]]),
        ("user,item,rating,title\n1,2,3.5,'Heat, The'\n".replace("'", '"'), [[1, 2, 3.5]]),
        ("user,item,rating,\n1,2,3,\n", [[1, 2, 3]]),
    ],
)
def test_columns_that_do_not_matter_may_be_text(
    tmp_path: Path, text: str, expected: list[list[float]]
) -> None:
    found = read_text(tmp_path, text)
    assert found.to_numpy().tolist() == expected and found["user"].dtype == np.int64
    worse = text + "x8,1,2,today\n"
    with pytest.raises(ReadError, match=r"line . .*: expected a whole user id .* found 'x8'"):
        read_text(tmp_path, worse)


def test_ids_that_float64_cannot_tell_apart(tmp_path: Path) -> None:
    large = 2**56 + 1
    lines = [f"{large + each},{each}" for each in range(4)]
    for before in ("", "7,7,1\n"):
        text = "user,item,rating\n" + before + "".join(f"{line},1\n" for line in lines)
        found = read_text(tmp_path, text)
        assert found["user"].tolist()[-4:] == [large + each for each in range(4)]
        assert found["item"].tolist()[-4:] == [0, 1, 2, 3]
    edges = tmp_path / "friends.edges"
    edges.write_text("\n".join(lines).replace(",", " "))
    assert daskpart.read(edges).coords["source"].values.tolist()[-1] == large + 3
    for wrong in (f"7.0,1,1\n{large}", f"1,1,1\n{2**63}", "1,1,1\n1e20"):
        with pytest.raises(ReadError, match=r"line 3.*: expected a whole .* 2\^63 - 1, found"):
            read_text(tmp_path, f"user,item,rating\n{wrong},2,3\n")


def test_blanks_behind_a_separator_are_no_part_of_a_name(tmp_path: Path) -> None:
    found = read_text(tmp_path, 'user, item, rating\nann, tea, 3\nbob,tea, 4\ncy, "jam", 5\n')
    assert found["item"].tolist() == ["tea", "tea", "jam"]


@pytest.mark.parametrize("delimiter", ["::", ",", " ", "|"])
def test_ids_that_are_text_stay_text(tmp_path: Path, delimiter: str) -> None:
    lines = ["# hand-made", "ann|0007|5|1", "bob|x9|2|1", "ann|x9|4|1"]
    text = "\n".join(lines).replace("|", delimiter)
    ratings = daskpart.read(write(tmp_path / "shop.ratings.csv", text))
    assert ratings["user"].values.tolist() == ["ann", "bob"]
    assert ratings["item"].values.tolist() == ["0007", "x9"]
    assert ratings.data.todense().tolist() == [[5, 4], [0, 2]]
    assert ratings.dtype == np.float32


@pytest.mark.parametrize("delimiter", ["::", ",", " ", "\t", "|"])
@pytest.mark.parametrize("n_before", [0, 900])
def test_ids_with_leading_zeros_are_text(tmp_path: Path, delimiter: str, n_before: int) -> None:
    """All of that column, whichever line shows the zeros; the other one keeps its numbers."""
    rows = [*([("7", "1", "3")] * n_before), ("7", "1", "4"), ("007", "1", "3"), ("10", "2", "0.5")]
    path = write(tmp_path / "a.ratings.csv", "\n".join(map(delimiter.join, rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskpartWarning)  # of repeated cells
        ratings = daskpart.read(path)
        assert daskpart.read(path, text_ids=False)["user"].values.tolist() == [7, 10]
    assert ratings["user"].values.tolist() == ["007", "10", "7"]
    assert ratings["item"].values.tolist() == [1, 2]
    assert ratings.data.todense().tolist() == [[3, 0], [0, 0.5], [4, 0]]
    graph = daskpart.read(write(tmp_path / "a.edges", "7 1\n7 007\n".replace(" ", delimiter)))
    assert graph["source"].values.tolist() == ["007", "1", "7"]


@pytest.mark.parametrize("mark", [",", "\t", ";", "::"])
@pytest.mark.parametrize("names", [("u1", "u2"), ("1", "2")])
def test_blanks_around_an_id_are_not_of_it(tmp_path: Path, mark, names) -> None:
    lines = ((f"{names[0]} ", "a", "1"), (names[0], " b ", "2"), (f" {names[1]}", "a  ", "3"))
    path = tmp_path / "blanks.csv"
    path.write_text("".join(f"{mark.join(line)}\n" for line in lines))
    ratings = daskpart.read(path, "ratings", header=False, text_ids=True)
    assert ratings["user"].values.tolist() == [*names]
    assert ratings["item"].values.tolist() == ["a", "b"]
    np.testing.assert_array_equal(ratings.data.todense(), [[1, 2], [3, 0]])


@pytest.mark.parametrize("others", ["", ",today"])  # read by the scanner, and by pandas
def test_a_first_word_among_numbers_is_damage_unless_ids_are_text(
    tmp_path: Path, others: str
) -> None:
    lines = ["1,195153448,3", "2,34545104X,4"]
    path = write(tmp_path / "ratings.csv", "".join(f"{line}{others}\n" for line in lines))
    with pytest.raises(ReadError, match=r"line 2.* found '34545104X'.*; if ids are text, say text"):
        daskpart.read(path)
    ratings = daskpart.read(path, text_ids=True)
    assert ratings["user"].values.tolist() == ["1", "2"]
    assert ratings["item"].values.tolist() == ["195153448", "34545104X"]
    path.write_text(f"1,0195153448,3{others}\n2,034545104X,4{others}\n")
    assert daskpart.read(path)["item"].values.tolist() == ["0195153448", "034545104X"]
    for damaged in ("1,2,x", "-1,2,3"):
        path.write_text(f"1,2,3{others}\n{damaged}{others}\n")
        with pytest.raises(ReadError, match="line 2") as caught:
            daskpart.read(path)
        assert "text_ids" not in str(caught.value)


def test_a_tab_in_an_id_parts_nothing_where_two_colons_do(tmp_path: Path) -> None:
    path = write(tmp_path / "ratings.dat", "ann\tb::tea::3\ncy::black\ttea::4\n")
    ratings = daskpart.read(path)
    assert ratings["user"].values.tolist() == ["ann\tb", "cy"]
    assert ratings["item"].values.tolist() == ["black\ttea", "tea"]


def test_addresses_are_read_and_written() -> None:
    with fsspec.open("memory://folder/u.data.gz", "wb") as file:
        file.write(gzip.compress(U_DATA.encode()))
    check_the_three_ratings(daskpart.read("memory://folder/u.data.gz"))
    partition = daskpart.partition(sp.eye_array(4), 2, method="random")
    partition.write("memory://folder/parts.xz")
    assert Partition.from_file("memory://folder/parts.xz", n_parts=2) == partition
    with pytest.raises(ReadError, match=r"memory://folder/none: there is no such file$"):
        daskpart.read("memory://folder/none")
    with pytest.raises(InputError, match="nowhere://x: Protocol not known"):
        daskpart.read("nowhere://x")


def test_names_that_mean_more_elsewhere_are_names(tmp_path: Path) -> None:
    for name in ("a::b.u.data", "ratings[1].csv", "ratings*.csv"):
        check_the_three_ratings(daskpart.read(write(tmp_path / name, U_DATA)))


def test_orders_are_told_by_their_header(tmp_path: Path) -> None:
    """However many columns there are, and wherever they stand."""
    head = "date,customer,item name,sku,quantity"
    path = write(
        tmp_path / "orders.csv", f"{head}\n2026-01-02,C 1,a tea,T-7,2\n2026-01-03,C 2,-,X,1\n"
    )
    found = daskpart.read(path)
    assert found.dims == ("user", "item")
    assert (found["user"].values.tolist(), found["item"].values.tolist()) == (
        ["C 1", "C 2"],
        ["T-7", "X"],
    )
    assert found.data.todense().tolist() == [[2, 0], [0, 1]]


def test_of_a_repeated_cell_the_last_value_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "u.data", U_DATA + "196\t242\t5\t9\n196\t242\t4\t10\n")
    with pytest.warns(DaskpartWarning, match="2 entries repeat a cell given before; the last"):
        ratings = daskpart.read(path)
    assert ratings.data.todense().tolist() == [[0, 0, 1], [2, 4, 0]]


def test_ids_far_apart_are_labels_too(tmp_path: Path) -> None:
    path = write(tmp_path / "ratings.csv", f"{2**53 - 1},7,0\n5,7,1\n")
    ratings = daskpart.read(path)
    assert ratings["user"].values.tolist() == [5, 2**53 - 1]
    assert ratings.data.nnz == 2  # a rating of 0 is a rating


def test_edges_are_square_and_labelled(tmp_path: Path) -> None:
    text = "# SNAP\n# FromNodeId\tToNodeId\n30\t10\n10\t20\n"
    graph = daskpart.read(write(tmp_path / "web.txt", text))
    assert graph.dims == ("source", "target") and graph.name == "weight"
    assert graph["source"].values.tolist() == graph["target"].values.tolist() == [10, 20, 30]
    assert graph.data.todense().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    weighted = daskpart.read(write(tmp_path / "web.edges.gz", "30 10 2.5\n10 20 -1\n"))
    assert weighted.data.todense().tolist() == [[0, -1, 0], [0, 0, 0], [2.5, 0, 0]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("web.edges", "# c\nbob ann 2.5\nann cid -1\n"),
        ("web.csv", "source,target,weight\nbob,ann,2.5\nann,cid,-1\n"),
        ("web.csv", "Weight;From;To\n2.5;bob;ann\n-1;ann;cid\n"),
        ("web.txt", "src\tdst\tw\nbob\tann\t2.5\nann\tcid\t-1\n"),
        (
            "gephi.csv",
            "Source,Target,Type,Id,Label,timeset,Weight\n"
            'bob,ann,Directed,0,"a, b",,2.5\nann,cid,Directed,1,,,-1\n',
        ),
    ],
)
def test_edges_between_names(tmp_path: Path, name: str, text: str) -> None:
    graph = daskpart.read(write(tmp_path / name, text))
    assert graph.dims == ("source", "target") and graph.name == "weight"
    for side in graph.dims:
        assert graph[side].values.tolist() == ["ann", "bob", "cid"]
    assert graph.data.todense().tolist() == [[0, 0, -1], [2.5, 0, 0], [0, 0, 0]]


def test_edges_under_a_header(tmp_path: Path) -> None:
    for header in ("source,target,weight", "FromNodeId,ToNodeId,time"):
        path = write(tmp_path / "web.edges", f"{header}\n30,10,2\n10,20,3\n")
        weight = 0 if "time" in header else 1
        expected = [[0, 3**weight, 0], [0, 0, 0], [2**weight, 0, 0]]
        assert daskpart.read(path).data.todense().tolist() == expected
    path = write(tmp_path / "again.edges", "1 2\n1 3\n1 2\n")
    with pytest.warns(DaskpartWarning, match="1 entries repeat .* values are summed"):
        assert daskpart.read(path).data.todense()[0].tolist() == [0, 2, 1]
    with pytest.warns(DaskpartWarning, match="the last value of each"):
        assert daskpart.read(path, repeats="last").data.todense()[0].tolist() == [0, 1, 1]
    for ends in ("ann,cid,2\nbob,ann,3\n", "1,3,2\n2,1,3\n"):  # no weight is called minutes
        path = write(tmp_path / "minutes.csv", f"caller,callee,minutes\n{ends}")
        graph = daskpart.read(path, "edges")
        assert graph.data.todense().tolist() == [[0, 0, 2], [3, 0, 0], [0, 0, 0]]
    path = write(tmp_path / "calls.csv", "caller,callee,day,n\n30,10,1,2\n10,20,1,3\n")
    with pytest.raises(ReadError, match="is its first line, 'caller,callee,day,n', a header"):
        daskpart.read(path, "edges")
    with pytest.raises(ReadError, match="are source, target and, if any, weight"):
        daskpart.read(path, "edges", header=True)
    graph = daskpart.read(path, "edges", columns=("callee", "caller", "n"), header=True)
    assert graph.data.todense().tolist() == [[0, 0, 2], [3, 0, 0], [0, 0, 0]]


def test_a_header_that_may_be_an_edge_is_told_of(tmp_path: Path) -> None:
    path = write(tmp_path / "web.edges", "von,nach\nann,bob\nbob,cid\n")
    with pytest.warns(DaskpartWarning, match="the first line, 'von,nach', is taken for an edge"):
        assert daskpart.read(path).shape == (5, 5)
    assert daskpart.read(path, header=True).shape == (3, 3)
    assert daskpart.read(path, header=False).shape == (5, 5)
    for others in ("", "bob,cid\n", "cid,dan\n"):
        daskpart.read(write(tmp_path / "names.edges", f"ann,bob\n{others}"))  # without a word
    daskpart.read(write(path, "von,nach,2\nann,bob,1\nbob,cid,1\n"))  # nor here, where it weighs


@given(
    st.permutations(["who", "whom", "n", "remark"]),
    st.sampled_from([("ann", "bob"), ("7", "8"), ("ann", "8"), ("007", "8")]),
    st.sampled_from(["12", "late"]),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["edges", "ratings"]),
    st.booleans(),
)
def test_columns_that_are_named_are_read_whatever_else_there_is(
    folder: Path, order: list, ids: tuple, remark: str, mark: str, format: str, by_name: bool
) -> None:
    """The remark, which nobody reads, is a number in the first line and may be text below."""
    lines = [
        {"who": ids[0], "whom": ids[1], "n": 2, "remark": "12"},
        {"who": ids[1], "whom": ids[0], "n": 3, "remark": remark},
    ]
    frame = pd.DataFrame(lines, columns=order)
    path = write(folder / "calls.txt", frame.to_csv(index=False, sep=mark))
    columns = ["who", "whom", "n"]
    places = columns if by_name else [order.index(name) for name in columns]
    graph = daskpart.read(path, format, columns=places)
    found = as_matrix(graph)
    named = zip(
        map(str, found.row_labels[found.rows]),
        map(str, found.column_labels[found.columns]),
        found.values,
        strict=True,
    )
    assert sorted(named) == sorted([(*ids, 2.0), (*ids[::-1], 3.0)])


@pytest.mark.parametrize("format", ["edges", "ratings"])
def test_columns_may_come_in_any_container(tmp_path: Path, format: str) -> None:
    frame = pd.DataFrame({"who": ["ann", "bob"], "whom": ["cid", "ann"], "n": [2, 3]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        read = partial(daskpart.read, tmp_path / name, format if name == "x.csv" else None)
        expected = read(columns=["who", "whom", "n"])
        for columns in (np.arange(3), np.array(["who", "whom", "n"]), frame.columns, ("who", 1, 2)):
            assert (read(columns=columns).data != expected.data).nnz == 0
        for columns in (3, "who", (None, 1), (0, -1), []):
            with pytest.raises(InputError, match="column"):
                read(columns=columns)


def test_tabs_at_the_end_of_the_first_line_are_empty_cells(tmp_path: Path) -> None:
    """A file without a header, whose last column may be empty."""
    for first in ("ann\ttea\t2\t\n", "ann\ttea\t2\t\t\n"):
        path = write(tmp_path / "x.ratings.tsv", first + "bob\ttea\t3\tlate\n")
        ratings = daskpart.read(path, "ratings", columns=(0, 1, 2), header=False)
        assert ratings.data.todense().tolist() == [[2], [3]]
    write(path, "\tann\ttea\t2\n1\tbob\ttea\t3\n")  # at its begin they would shift all others
    with pytest.raises(ReadError, match="line 1: expected 3 columns"):
        daskpart.read(path, "ratings", header=False)


@pytest.mark.parametrize("names", [(0, 1), ("ann", "bob")])
@pytest.mark.parametrize("attributes", [{}, {"weight": 2.5}, {"weight": 2.5, "since": "May"}])
def test_edges_as_networkx_writes_them(tmp_path: Path, names: tuple, attributes: dict) -> None:
    networkx = pytest.importorskip("networkx")
    graph, path = networkx.DiGraph(), tmp_path / "graph.edgelist"
    graph.add_edge(*names, **attributes)
    networkx.write_edgelist(graph, path)
    with pytest.raises(ReadError, match=r"attributes that networkx.* with data=False, or data="):
        daskpart.read(path, "edges")
    networkx.write_edgelist(graph, path, data=["weight"] if attributes else False)
    weight = attributes.get("weight", 1)
    assert daskpart.read(path, "edges").data.todense().tolist() == [[0, weight], [0, 0]]


def test_adjacency_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "train.txt", "0 4 8 15\n3\n1 4\n")
    ratings = daskpart.read(path, format="adjacency")
    assert ratings["user"].values.tolist() == [0, 1]
    assert ratings["item"].values.tolist() == [4, 8, 15]
    assert ratings.data.todense().tolist() == [[1, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x", "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n2 3\n", sp.csr_array),
        ("x.tns", "1 1 1 2.5\n", sparse.COO),
        ("x.tns", "1 1 1 2.5 # a remark\n2 1 1 3 % one more\n", sparse.COO),
        ("x.txt", "-1 3:1 7:0.5\n+1\n", daskpart.readers.Examples),
        ("x.txt", "1::2::3\n", xarray.DataArray),
        ("x.txt", "1\t2\t3\t881\n", xarray.DataArray),
        ("x.txt", "1 2\n3 4\n", xarray.DataArray),
    ],
)
def test_the_format_is_told_from_the_content(
    tmp_path: Path, name: str, text: str, kind: type
) -> None:
    assert isinstance(daskpart.read(write(tmp_path / name, text)), kind)


def test_the_queries_of_a_ranking_are_passed_over(tmp_path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    text = "2 qid:1 1:3 4:1 # doc\n\n0\tqid:1\t2:5\n1 qid:20\n3 4:2.5\n"
    path = write(tmp_path / "letor.txt", text)
    data, target = daskpart.read(path)
    expected, expected_target = load_svmlight_file(str(path))
    assert target.tolist() == expected_target.tolist() and (data != expected).nnz == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.txt", "1 2 3\n"), ("x", "1 2 3 4 5\n"), ("x.txt", "once upon\n")],
)
def test_what_cannot_be_told_is_asked(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ReadError, match=r"give format= one of 'ratings'.*'adjacency'.*'libsvm'"):
        daskpart.read(write(tmp_path / name, text))


@given(
    st.lists(
        st.lists(
            st.one_of(
                st.floats(allow_nan=False, allow_infinity=False),
                st.integers(-(10**20), 10**20),
                st.decimals(-1000, 1000, allow_nan=False, places=6),
            ),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 200),
)
def test_the_scanner_reads_what_float_reads(
    tmp_path_factory: pytest.TempPathFactory, table: list[list], chunk_bytes: int
) -> None:
    """Each token is the nearest double, wherever chunks are cut."""
    path = tmp_path_factory.mktemp("scan") / "numbers.txt"
    path.write_text("\n".join(" ".join(map(str, row)) for row in table))
    chunks = list(read_rows(path, "", chunk_bytes=chunk_bytes))
    found = [
        rows.numbers[begin:end].tolist()
        for rows in chunks
        for begin, end in zip(rows.pointer[:-1], rows.pointer[1:], strict=True)
    ]
    assert found == [[float(str(value)) for value in row] for row in table]


@pytest.mark.parametrize(
    "token", ["7", "-0.5", "+.5", "5.", "1e3", "1E-3", "0.1e+2", "-1.5e22", "1e300", "0007", "1e-9"]
)
def test_the_ways_to_write_a_number(tmp_path: Path, token: str) -> None:
    path = write(tmp_path / "x", f"{token} # rest of line\n% all of it\n{token}\n")
    (rows,) = read_rows(path, "")
    assert rows.numbers.tolist() == [float(token)] * 2


@pytest.mark.parametrize("token", ["1.2.3", "e5", "-", "1e", "0x10", "1_000", "12a", "."])
def test_what_is_no_number_is_refused_with_its_line(tmp_path: Path, token: str) -> None:
    path = write(tmp_path / "x", f"1\n\n2 {token}\n")
    with pytest.raises(ReadError, match="line 3: expected a number, found "):
        list(read_rows(path, ""))


@given(st.binary(max_size=200), st.integers(1, 50))
def test_chunks_are_whole_lines(data: bytes, chunk_bytes: int) -> None:
    chunks = list(text_chunks(io.BytesIO(data), chunk_bytes))
    assert b"".join(chunks) == data.removeprefix(b"\xef\xbb\xbf") or chunk_bytes < 3
    assert all(chunk.endswith(b"\n") for chunk in chunks[:-1])


def test_line_numbers_count_through_chunks(tmp_path: Path) -> None:
    path = write(tmp_path / "x", "1 2\n" * 1000 + "1 x\n" + "1 2\n" * 10)
    with pytest.raises(ReadError, match=r"line 1001: expected a number, found 'x'"):
        list(read_rows(path, "", chunk_bytes=64))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([0, 1.7, 2], "no column 1.7"),
        ([0, True], "no column True"),
        ([0, 0, 2], "give another column for each"),
        (["user", 0], "give another column for each"),
    ],
)
def test_positions_of_columns_are_whole_numbers_each_once(
    tmp_path: Path, columns: list[Any], message: str
) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,2,5\n2,1,3\n")
    with pytest.raises(InputError, match=message):
        daskpart.read(path, columns=columns)


@pytest.mark.parametrize(
    "save",
    [lambda path, X: sparse.save_npz(path, sparse.COO(X)), sp.save_npz],
    ids=["sparse", "scipy"],
)
def test_a_matrix_in_an_archive_has_no_more_rows_than_it_fills(tmp_path: Path, save: Any) -> None:
    path = tmp_path / "tall.npz"
    save(path, sp.coo_array(([1.0], ([5], [1])), shape=(2**40, 2)))
    with pytest.raises(ReadError, match="1099511627776 rows for 1 entries"):
        daskpart.read(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ratings.xlsx", "save it as CSV or Parquet, or give what pandas.read_excel"),
        ("ratings.json", "pandas.read_json"), ("g.graphml", "an edge list.* networkx.read_graphml"),
        ("ratings.tar.gz", "unpack it"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_told_what_to_do(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"PK") if ".gz" in name else b"PK\x03\x04")  # a zip, as .npz is
    with pytest.raises(ReadError, match=words):
        daskpart.read(path)
