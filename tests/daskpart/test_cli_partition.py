"""`daskpart partition`, `convert` and `simulate`: what is taken, and what is refused."""

from __future__ import annotations

import html
import json
import pickle
import re

import fsspec
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from command_results import metrics_of

import daskpart
from daskpart import cli
from daskpart.errors import ReadError
from daskpart.partitioners.refinement import METRICS
from daskpart.partitioners.refinement.goals import OF_SEVERAL_WEIGHTS


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "A.npz"
    graph = scipy.sparse.random_array((40, 40), density=0.1, rng=np.random.default_rng(0))
    scipy.sparse.save_npz(path, graph.tocsr())
    return path


@pytest.mark.parametrize("model", ["graph", "stochastic", "column-net-self-loops"])
def test_rows_are_told_of_where_some_travel(graph_file, tmp_path, capsys, run_cli, model):
    """Edges are no rows, and those of mini-batches are of all that were drawn together."""
    given = ("--parts", 3, "--model", model, "--method", "random", "--no-plots", "--out", tmp_path)
    assert run_cli("partition", graph_file, *given) == 0
    page, travel = (tmp_path / "report.html").read_text(), model == "column-net-self-loops"
    metrics = metrics_of(tmp_path)["metrics"]
    assert ("rows of one expand and reduce" in metrics) == travel
    assert ("One exchange of what is linked" in capsys.readouterr().out) == travel
    assert ("One exchange of what is linked" in page) == ("an expand sends" in page) == travel


def test_a_graph_of_metis_has_edges_and_no_rows(tmp_path, capsys, run_cli):
    path, out = tmp_path / "ring.graph", ("--no-plots", "--out", tmp_path / "out")
    path.write_text("6 6 001\n2 9 6 1\n1 9 3 1\n2 1 4 1\n3 1 5 1\n4 1 6 1\n5 1 1 1\n")
    assert run_cli("partition", path, "--parts", 3, "--objective", "cut-net", *out) == 0
    told, page = capsys.readouterr().out, (tmp_path / "out" / "report.html").read_text()
    assert "6 edges of 6 vertices" in told and "3 edges are local to one part; 3 link" in told
    assert "moves" not in told and "rows" not in page
    found = metrics_of(tmp_path / "out")["metrics"]
    assert found["cut-net"] == 3  # the edge of weight 9 is not cut
    assert run_cli("partition", path, "--parts", 2, "--compare", *out) == 0
    assert "here edges, none of which travels" in capsys.readouterr().out
    assert run_cli("simulate", "expand", path, "--parts", 2) == 2
    assert "take another --model, such as column-net-self-loops" in capsys.readouterr().err


def test_errors_of_cutting_name_options(graph_file, tmp_path, capsys, run_cli):
    wide = tmp_path / "wide.npz"
    scipy.sparse.save_npz(wide, scipy.sparse.eye_array(4, 9, format="csr"))
    for command, words in (
        (("partition", graph_file, "--parts", 99), "--parts is 99, but there are only 40 vertices"),
        (("simulate", "expand", graph_file, "--parts", 99), "--parts is 99, but"),
        (("partition", wide, "--model", "graph"), "use --model column-net or"),
        (("convert", wide, tmp_path / "x.hgr", "--model", "graph"), "use --model column-net or"),
    ):
        assert run_cli(*command) == 2
        assert words in capsys.readouterr().err


def test_a_graph_that_is_written_is_told_in_edges(graph_file, tmp_path, capsys, run_cli):
    assert run_cli("convert", graph_file, tmp_path / "x.graph") == 0
    n_vertices, n_edges = (tmp_path / "x.graph").read_text().split(maxsplit=2)[:2]
    assert f"  graph: {n_edges} edges of {n_vertices} vertices\n" in capsys.readouterr().out


def test_a_graph_of_metis_is_a_matrix_too(tmp_path, capsys, run_cli):
    path = tmp_path / "path.graph"
    path.write_text("4 3\n2\n1 3\n2 4\n3\n")
    matrix = scipy.sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(4, 4))
    scipy.sparse.save_npz(tmp_path / "path.npz", matrix.tocsr())
    how = ("--parts", 2, "--model", "column-net-self-loops", "--json")
    lines = []
    for name in ("path.graph", "path.npz"):
        assert run_cli("simulate", "expand", tmp_path / name, *how) == 0
        lines.append(json.loads(capsys.readouterr().out)["lines"])
    assert lines[0] == lines[1] and lines[0][0]["total_bytes"] == 2 * 128


def test_mini_batches_of_a_graph_are_compared(graph_file, tmp_path, capsys, run_cli):
    few = ("--parts", 3, "--no-plots", "--out", tmp_path)
    assert run_cli("partition", graph_file, "--model", "stochastic", "--compare", *few) == 0
    assert "direct" in capsys.readouterr().out


def test_a_table_with_a_header_alone_has_no_values(tmp_path, capsys, run_cli):
    path = tmp_path / "empty.csv"
    path.write_text("a,b,c,value\n")
    assert run_cli("fit", "cp", path, "--value", "value", "--out", tmp_path / "out") == 2
    assert "column 'value' is empty" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["given.npz", "given.txt"])
def test_parts_of_a_file_are_measured_or_made_better(graph_file, name, tmp_path, run_cli):
    graph = scipy.sparse.load_npz(graph_file)
    start = daskpart.partition(graph, 3, method="random", model="row-net")
    path, out = tmp_path / name, tmp_path / "out"
    start.save(path) if name.endswith("npz") else start.write(path)
    model = () if name.endswith("npz") else ("--model", "row-net")
    options = ("--start", path, *model, "--no-plots", "--out", out)
    assert run_cli("partition", graph_file, *options) == 0
    before = metrics_of(out)["metrics"]
    found = daskpart.Partition.load(out / "partition.npz")
    assert found == start and found.info["model"] == "row-net"
    assert run_cli("partition", graph_file, *options, "--refine", "connectivity") == 0
    expected = daskpart.refine(graph, start, "connectivity", model="row-net")
    assert daskpart.Partition.load(out / "partition.npz") == expected
    after = metrics_of(out)["metrics"]
    assert after["connectivity - 1"] < before["connectivity - 1"]


def test_digits_and_places_on_the_page_are_of_use(
    graph_file, tmp_path, monkeypatch, run_cli, capsys
):
    monkeypatch.chdir(tmp_path)
    more = ("--refine", "power", "--rho", 1.5, "--no-plots", "--out", "out")
    assert run_cli("partition", graph_file, "--parts", 3, "--method", "random", *more) == 0
    (before,) = re.findall(r"took \w+ from ([\d,.]+) to", capsys.readouterr().out)
    assert len(before.partition(".")[2]) <= 3
    assert str(tmp_path / "out" / "partition.npz") in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_read_is_not_overwritten(scheme, tmp_path, capsys, run_cli):
    data, target = tmp_path / "x.hgr", tmp_path / "out" / ".." / "x.hgr"
    (tmp_path / "out").mkdir()
    data.write_text("2 3\n1 2\n2 3\n")
    options = ("--parts", 2, "--out", tmp_path / "out", "--output", target)
    for words in (
        ("partition", f"{scheme}{data}", *options),
        ("convert", f"{scheme}{data}", target),
    ):
        assert run_cli(*words) == 2
        assert "is read, and would be overwritten" in capsys.readouterr().err
    assert data.read_text() == "2 3\n1 2\n2 3\n"


def test_results_do_not_take_the_place_of_what_is_read(tmp_path, monkeypatch, capsys, run_cli):
    monkeypatch.chdir(tmp_path)
    text = "user,item,rating\n" + "".join(f"{n % 5},{n % 7},1\n" for n in range(35))
    names = ("history.csv", "labels.csv", "assignment.csv", "comparison.csv")
    for name in names:
        (tmp_path / name).write_text(text)
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    few = ("--parts", 2, "--format", "ratings", "--out", ".")
    for words, name in (
        (("fit", "mf", "history.csv", "--out", "."), "history.csv"),
        (("fit", "gcn", "edges.txt", "--labels", "labels.csv", "--out", tmp_path), "labels.csv"),
        (("fit", "cp", "edges.txt", "--labels", "a=labels.csv", "--out", "."), "labels.csv"),
        (("partition", tmp_path / "assignment.csv", *few), "assignment.csv"),
        (("partition", "comparison.csv", "--compare", *few), "comparison.csv"),
    ):
        assert run_cli(*words) == 2
        assert f"{name} is read, and a result of that name" in capsys.readouterr().err
    assert all((tmp_path / name).read_text() == text for name in names)
    assert len(list(tmp_path.iterdir())) == 5
    assert run_cli("fit", "mf", "history.csv", "--max-iter", 1, "--no-plots", "--out", "out") == 0


def test_results_do_not_take_the_place_of_parts_that_are_read(tmp_path, capsys, run_cli):
    data, parts = tmp_path / "m.mtx", tmp_path / "partition.npz"
    graph = scipy.sparse.random_array((20, 20), density=0.3, rng=np.random.default_rng(0))
    scipy.io.mmwrite(data, graph)
    assert run_cli("partition", data, "--parts", 2, "--no-plots", "--out", tmp_path) == 0
    before = parts.read_bytes()
    capsys.readouterr()
    for words in (
        ("partition", data, "--start", parts, "--refine", "max-volume"),
        ("fit", "mf", data, "--ranks", 2, "--partitioner", parts),
    ):
        assert run_cli(*words, "--out", tmp_path) == 2
        assert "partition.npz is read, and a result of that name" in capsys.readouterr().err
    assert parts.read_bytes() == before


def test_nothing_is_written_where_a_result_will_be(graph_file, tmp_path, capsys, run_cli):
    out = tmp_path / "out"
    for words in (
        ("partition", graph_file, "--parts", 2, "--output", out / "assignment.csv"),
        ("fit", "mf", graph_file, "--plan", out / "partition.npz"),
        ("fit", "mf", graph_file, "--checkpoint-path", out / "partition.npz"),
    ):
        assert run_cli(*words, "--out", out) == 2
        assert f"{words[-2]} {words[-1]} is where a result" in capsys.readouterr().err
    assert not out.exists()


def test_an_output_that_cannot_be_written_is_told_before_the_data_are_cut(
    graph_file, tmp_path, capsys, run_cli
):
    (tmp_path / "file").touch()
    options = ("--parts", 2, "--out", tmp_path / "out", "--output", tmp_path / "file" / "parts")
    assert run_cli("partition", graph_file, *options) == 1
    told = capsys.readouterr()
    assert "nothing can be written to the folder" in told.err and "cutting" not in told.out


def test_parts_in_the_table_of_names_are_told_where_they_are(graph_file, tmp_path, capsys, run_cli):
    options = ("--parts", 2, "--no-plots", "--out", tmp_path)
    assert run_cli("partition", graph_file, *options) == 0
    assert run_cli("partition", graph_file, "--start", tmp_path / "assignment.csv") == 2
    assert "give partition.npz" in capsys.readouterr().err
    numbers = tmp_path / "numbers.csv"
    daskpart.Partition.load(tmp_path / "partition.npz").write(numbers)
    assert run_cli("partition", graph_file, "--start", numbers, *options[2:]) == 0


def test_an_output_in_npz_is_what_other_commands_read(graph_file, tmp_path, capsys, run_cli):
    options, parts = ("--no-plots", "--out", tmp_path / "out"), tmp_path / "parts.npz"
    assert run_cli("partition", graph_file, "--parts", 2, *options, "--output", parts) == 0
    whole = daskpart.Partition.load(tmp_path / "out" / "partition.npz")
    assert daskpart.Partition.load(parts) == whole
    assert run_cli("partition", graph_file, "--start", parts, *options) == 0
    assert "Partition.load" in capsys.readouterr().out


def test_the_engine_finds_the_new_numbers_of_parts_too(graph_file, tmp_path, monkeypatch, run_cli):
    given = daskpart.partition(scipy.sparse.load_npz(graph_file), 3, method="random")
    given.save(tmp_path / "p.npz")
    seen = []

    def refine(data, partition, metric, *, engine, **options):
        seen.append(engine)
        return partition

    monkeypatch.setattr(daskpart, "refine", refine)
    options = ("--no-plots", "--out", tmp_path / "out", "--refine", "routed-volume")
    for start in ((), ("--start", tmp_path / "p.npz")):
        assert run_cli("partition", graph_file, *start, *options, "--engine", "multilevel") == 0
    assert seen == ["multilevel"] * 2


def test_the_page_loads_the_partition_from_a_folder_of_any_name(graph_file, tmp_path, run_cli):
    out = tmp_path / """<b>&"it's\\n"""
    assert run_cli("partition", graph_file, "--parts", 2, "--no-plots", "--out", out) == 0
    page = (out / "report.html").read_text()
    (source,) = re.findall(r"<pre><code>(import daskpart.*?)</code>", page, re.DOTALL)
    names = {}
    exec(html.unescape(source), names)  # as a reader who copies it
    assert names["partition"] == daskpart.Partition.load(out / "partition.npz")


def test_a_full_disk_leaves_the_partition_that_was_there(
    graph_file, tmp_path, capsys, run_cli, small_files
):
    given = ("partition", graph_file, "--method", "random", "--no-plots", "--out", tmp_path)
    assert run_cli(*given, "--parts", 2) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    *_, others, page = sorted(map(len, before.values()))
    assert page == len(before["report.html"]) > 2 * others  # seconds in it change its length a bit
    for limit in (len(before["assignment.csv"]) - 1, (others + page) // 2):
        with small_files(limit):
            assert run_cli(*given, "--parts", 2) == 1
        assert "File too large; what was there before is untouched" in capsys.readouterr().err
        assert {path.name for path in tmp_path.iterdir()} == {*before}
    for name in ("assignment.csv", "report.html"):
        assert (tmp_path / name).read_bytes() == before[name]


@pytest.mark.parametrize("compare", [(), ("--compare",)])
def test_one_part_is_no_parts(graph_file, tmp_path, capsys, run_cli, compare):
    options = ("--parts", 1, "--no-plots", "--out", tmp_path, *compare)
    assert run_cli("partition", graph_file, *options) == 0
    out = capsys.readouterr().out
    assert "cutting into 1 part" in out and "1 parts" not in out
    assert "1 part of the rows, 160 values each:" in out or compare


def test_a_page_says_what_items_are_where_they_are_called_otherwise(graph_file, tmp_path, run_cli):
    ratings = tmp_path / "few.csv"
    ratings.write_text("user,item,rating\na,x,1\nb,y,2\n")
    pages = []
    for path, model in ((graph_file, "auto"), (ratings, "auto"), (ratings, "row-net")):
        options = ("--parts", 1, "--model", model, "--no-plots", "--out", tmp_path)
        assert run_cli("partition", path, *options) == 0
        pages.append((tmp_path / "report.html").read_text())
    assert "<p>The items are the columns. λ of an item" in pages[0]
    assert "<p>λ of an item" in pages[1]
    # parts of the items share users: "the items are the users" would call two things one
    assert "<p>The table calls items what parts share, here the users. λ of an item" in pages[2]


def test_one_of_each_is_told_in_the_singular(tmp_path, capsys, run_cli):
    path = tmp_path / "two.hgr"
    path.write_text("2 3\n1 2 3\n1\n")
    assert run_cli("partition", path, "--parts", 3, "--no-plots", "--out", tmp_path) == 0
    assert "1 net is local to one part; 1 links several (at most 3)" in capsys.readouterr().out


@pytest.mark.parametrize(("costs", "has"), [("", False), ("7 ", True)])
def test_nets_that_cost_something_are_said_to_count_so_many_times(
    costs, has, tmp_path, capsys, run_cli
):
    path = tmp_path / "nets.hgr"
    path.write_text(f"2 4 {'1' if costs else ''}\n{costs}1 2 3\n{costs}3 4\n")
    options = ("--parts", 2, "--no-plots", "--out", tmp_path)
    assert run_cli("partition", path, *options) == 0
    page = (tmp_path / "report.html").read_text()
    assert ("Items have costs here" in page) == has
    assert run_cli("partition", path, *options, "--compare") == 0
    out, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    for text in (out, page):
        assert ("counts times the cost of its net" in text) == has


def test_metrics_are_those_of_refine():
    assert cli._METRICS == METRICS and cli._OF_SEVERAL_WEIGHTS == OF_SEVERAL_WEIGHTS


def test_a_partition_tells_how_many_ranks_there_are(graph_file, tmp_path, capsys, run_cli):
    graph = scipy.sparse.load_npz(graph_file)
    daskpart.partition(graph, 5, method="random").save(tmp_path / "p.npz")
    simulate = ("simulate", "sparse-allreduce")
    options = ("--partition", tmp_path / "p.npz", "--json")
    assert run_cli(*simulate, graph_file, *options) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert {line["ranks"] for line in lines} == {5}
    assert run_cli(*simulate, "--json") == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert {line["ranks"] for line in lines} == {8, 64}


PARSA = ("partition", "A", "--method", "parsa", "--memory-limit", "1GB")
SPARSE = ("simulate", "sparse-allreduce")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((PARSA, option) for option in (
            ("--model", "row-net"), ("--objective", "power"), ("--epsilon", 0.1), ("--rho", 3),
            ("--engine", "multilevel"), ("--refine", "power"), ("--start", "parts"),
        )),
        *((("partition", "A", "--start", "parts"), option) for option in (
            ("--method", "direct"), ("--objective", "power"), ("--engine", "multilevel"),
            ("--epsilon", 0.1), ("--rho", 3), ("--parts", 7),
        )),
        (("partition", "A", "--compare"), ("--start", "parts")),
        *(((*SPARSE, "A"), option) for option in (
            ("--dimension", 9), ("--nonzeros", 9), ("--spread", "even"),
        )),
        *((SPARSE, option) for option in (
            ("--partition", "parts"), ("--model", "row-net"), ("--method", "direct"),
            ("--objective", "power"), ("--epsilon", 0.1), ("--format", "npz"),
        )),
        (("simulate", "expand", "A", "--partition", "parts"), ("--method", "direct")),
        ((*SPARSE, "A", "--partition", "parts"), ("--epsilon", 0.1)),
        (("convert", "A", "out", "--to", "dgl", "--partition", "parts"), ("--model", "row-net")),
        (("partition", "python-source"), ("--format", "npz")),
        (("simulate", "expand", "python-source"), ("--format", "npz")),
        (("fit", "mf", "python-source"), ("--format", "npz")),
        (("fit", "cp", "python-source"), ("--format", "npz")),
    ],
)  # fmt: skip
def test_an_option_that_would_be_passed_over_is_refused(
    graph_file, tmp_path, monkeypatch, capsys, run_cli, command, option
):
    monkeypatch.chdir(tmp_path)
    daskpart.Partition(np.arange(40) % 4, 4).write("parts")
    words = [graph_file if word == "A" else word for word in (*command, *option)]
    assert run_cli(*words) == 2
    assert f"leave out {option[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "columns", [("--user", "a", "--item", "b"), ("--rating", "c"), ("--no-header",)]
)
def test_the_built_in_data_are_no_table(columns, tmp_path, capsys, run_cli):
    assert run_cli("fit", "mf", "python-source", *columns, "--out", tmp_path) == 2
    assert "leave out --user, --item, --rating, --header and --text-ids" in capsys.readouterr().err


def test_advice_of_a_reader_names_no_argument_of_python(tmp_path, capsys, run_cli):
    path = tmp_path / "table.csv"
    path.write_text("first node,second node\nann,bob\n")
    assert run_cli("partition", path) == 2
    assert "a header? Name its columns user and item\n" in capsys.readouterr().err
    assert run_cli("fit", "mf", path) == 2
    asked = "Say --header or --no-header, or name its columns user and item, in the file or by "
    assert f"a header? {asked}--user and --item\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "in_python", "to_mf", "to_partition"),
    [
        ("a,b,c,d\n1,2,3,4\n", "? Say columns=(user, item, rating)",
         "? Say --user, --item, --rating", "? Call them so in the file"),
        ("from,to,c,w,w\n1,2,3,4,5\n", "? Say columns=(source, target, weight)",
         "? Say --user, --item, --rating", "? Call them so in the file"),
        ("user,item\n1,2\nann,bob\n", "; if ids are text, say text_ids=True",
         "; if ids are text, say --text-ids", "'ann,bob'"),
    ],
)  # fmt: skip
def test_advice_fits_whoever_reads_it(
    content, in_python, to_mf, to_partition, tmp_path, capsys, run_cli
):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(ReadError) as raised:
        daskpart.read(path)
    assert str(raised.value).endswith(in_python)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    for command, ending in ((("fit", "mf"), to_mf), (("partition",), to_partition)):
        assert run_cli(*command, path) == 2
        assert capsys.readouterr().err.endswith(f"{ending}\n")


def test_a_memory_limit_is_for_what_is_read_in_blocks(graph_file, tmp_path, capsys, run_cli):
    options = ("--method", "parsa", "--memory-limit", "1GB", "--out", tmp_path)
    assert run_cli("partition", graph_file, *options) == 2
    assert "--memory-limit is for libsvm files" in capsys.readouterr().err


def test_addresses_are_read_as_paths_are(graph_file, tmp_path, capsys, run_cli):
    address = f"file://{graph_file}"
    options = ("--parts", 2, "--method", "block", "--no-plots", "--out", tmp_path)
    assert run_cli("partition", address, *options) == 0
    assert run_cli("partition", "file:///absent.npz", *options) == 2
    assert "no such file" in capsys.readouterr().err


def test_tables_behind_addresses_are_read_too(tmp_path, run_cli):
    text = "a,b,c,value\n" + "".join(f"{n % 5},{n % 4},{n % 3},{n + 1}\n" for n in range(60))
    with fsspec.open("memory://tables/t.csv", "w") as file:
        file.write(text)
    options = ("--value", "value", "--max-iter", 1, "--components", 2, "--ranks", 1, "--no-plots")
    assert run_cli("fit", "cp", "memory://tables/t.csv", *options, "--out", tmp_path) == 0
    with fsspec.open("memory://tables/x.libsvm", "w") as file:
        file.write("".join(f"1 {n % 7 + 1}:1 {n % 5 + 8}:1\n" for n in range(40)))
    options = ("--method", "parsa", "--memory-limit", "68MB", "--parts", 2, "--out", tmp_path)
    assert run_cli("partition", "memory://tables/x.libsvm", *options, "--no-plots") == 0


def test_further_weights_come_from_a_file(graph_file, tmp_path, capsys, run_cli):
    labelled, path = np.arange(40) < 12, tmp_path / "weights.txt"
    path.write_text("# labelled, and in use\n" + "".join(f"{each:d} 1\n\n" for each in labelled))
    given = ("--parts", 3, "--further-weights", path, "--no-plots", "--out", tmp_path / "out")
    assert run_cli("partition", graph_file, *given) == 0
    assert "imbalance of further weight 1" in (tmp_path / "out" / "report.html").read_text()
    words = "Of further weight 0 the heaviest part has 0.0% more than the mean."
    assert words in capsys.readouterr().out
    assert run_cli("partition", graph_file, *given, "--epsilon", "0.03,0.1,0") == 0
    saved = daskpart.Partition.load(tmp_path / "out" / "partition.npz")
    assert saved.info["epsilon"] == [0.03, 0.1, 0]
    start = tmp_path / "start.npz"
    saved.save(start)
    given = (*given[2:], "--start", start)
    assert run_cli("partition", graph_file, *given, "--refine", "power") == 0
    refined = daskpart.Partition.load(tmp_path / "out" / "partition.npz")
    assert refined.info["further_imbalances"][0] == 0
    capsys.readouterr()
    assert run_cli("partition", graph_file, *given) == 2
    assert "without --refine parts stay as they are: leave out --further" in capsys.readouterr().err
    parts = daskpart.Partition.load(tmp_path / "out" / "partition.npz").assignment
    assert np.bincount(parts[labelled]).tolist() == [4, 4, 4]
    assert np.bincount(parts).max() <= 14


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("1 1\n1\n", (), "weights.txt, line 2: 1 weight, but 2 in the first line"),
        ("1 -1\n", (), "weights.txt, line 1: expected a whole number from 0"),
        ("1\n" * 40, ("--epsilon", "0.1,0.1,0.1"), "epsilon has 3 numbers, but a vertex has 2"),
        ("1\n" * 40, ("--epsilon", "0.1,,2"), "number 2 of '0.1,,2' is missing"),
        ("1\n" * 40, ("--epsilon", "0.1,-1"), "-1.0 is not in the range x>=0"),
        ("1\n" * 39, (), "39 further weights were given, 40 are needed"),
        ("0\n" * 40, (), "further weight 0 is 0 for every vertex"),
        ("1\n" * 40, ("--method", "recursive"), "--further-weights need --method direct, not"),
        ("1\n" * 40, ("--refine", "max-volume"), "--refine max-volume looks at one weight: leave"),
        ("1\n" * 40, ("--compare",), "--compare cuts by every method: leave out --further-weights"),
    ],
)
def test_further_weights_that_are_none_are_refused(
    graph_file, tmp_path, capsys, run_cli, text, more, words
):
    path = tmp_path / "weights.txt"
    path.write_text(text)
    given = ("--parts", 3, "--further-weights", path, "--out", tmp_path / "out", *more)
    assert run_cli("partition", graph_file, *given) == 2
    assert words in capsys.readouterr().err
