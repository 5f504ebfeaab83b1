"""The table of methods × metrics × seconds: its values, its looks, its errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart import plots
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition


@pytest.fixture(scope="module")
def counts():
    return daskpart.datasets.power_law_ratings(150, 100, 3000, random_state=0)


@pytest.fixture(scope="module")
def comparison(counts):
    methods = {
        "random": "random",
        "direct": "direct",
        "power": "power",
        "cube": "hypercube",
        "relieved": {"method": "direct", "refine": "max-volume", "epsilon": 0.1},
        "mine": Partition(np.arange(150) % 8, 8),
    }
    return daskpart.compare_partitions(counts, 8, methods, random_state=3, progress=False)


def test_values_are_those_of_the_partitions(counts, comparison):
    hypergraph = Hypergraph.column_net(counts)
    assert list(comparison.values) == ["random", "direct", "power", "cube", "relieved", "mine"]
    for method, row in comparison.values.items():
        found = comparison.partitions[method]
        pairs = Connectivity.from_partition(hypergraph, found)
        assert row["connectivity"] == pairs.connectivity_minus_one()
        assert row["power"] == pairs.power(2)
        assert row["max-connectivity"] == pairs.max_connectivity()
        assert row["concurrent-volume"] == pairs.concurrent_volume()
        assert row["imbalance"] == round(found.imbalance, 4)
        assert row["seconds"] > 0 or method == "mine"
    assert np.isnan(comparison.values["mine"]["seconds"])
    again = daskpart.partition(counts, 8, method="direct", random_state=3)
    assert (again.assignment == comparison.partitions["direct"].assignment).all()
    relieved = comparison.values["relieved"]["max-volume"]
    assert relieved < comparison.values["direct"]["max-volume"]
    assert comparison.partitions["relieved"].info["refined"] == "max-volume"


def test_table(comparison):
    text = repr(comparison).splitlines()
    assert text[0] == "Partitions into 8 parts (* least)" and len(text) == 8
    assert all(name in text[1] for name in ("power", "max-volume", "imbalance", "seconds"))
    best = comparison.best("concurrent-volume")
    assert best == min(comparison.values, key=lambda m: comparison.values[m]["concurrent-volume"])
    starred = sum(
        row[metric] == comparison.values[comparison.best(metric)][metric]
        for row in comparison.values.values()
        for metric in comparison.metrics
    )
    assert starred >= len(comparison.metrics)  # of equal values each is the least
    assert "\n".join(text[2:]).count(" *") == starred
    page = comparison._repr_html_()
    assert page.count("<tr>") == 7 and page.count(" *</td>") == starred
    frame = comparison.to_frame()
    assert frame.shape == (6, 7)
    assert frame.loc["mine", "power"] == comparison.values["mine"]["power"]
    assert comparison.to_dict()["cube"] == comparison.values["cube"]
    with pytest.raises(InputError, match="metric is 'speed': use one of"):
        comparison.best("speed")


def test_rows_may_be_named_by_what_is_tried(counts):
    tried = {epsilon: {"method": "direct", "epsilon": epsilon} for epsilon in (0.01, 0.3)}
    found = daskpart.compare_partitions(counts, 4, tried, ["connectivity"], progress=False)
    assert [line.split()[0] for line in repr(found).splitlines()[2:]] == ["0.01", "0.3"]
    assert ">0.01</td>" in found._repr_html_()
    assert found.to_frame().index.tolist() == [0.01, 0.3]


def test_picture(comparison):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = comparison.plot()
    heights = [bar.get_height() for bar in ax.containers[0]]
    assert heights == [1.0] * 4 and len(ax.containers) == 6  # λ_max is 8 for all
    assert plots.partition_comparison(comparison, ax=ax) is ax
    pyplot.close(ax.figure)


def test_picture_leaves_out_what_is_the_same_for_all(counts):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    metrics = ["connectivity", "max-connectivity"]
    found = daskpart.compare_partitions(counts, 2, ["random", "direct"], metrics, progress=False)
    assert {row["max-connectivity"] for row in found.values.values()} == {2}
    ax = found.plot()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["connectivity"]
    assert "max-connectivity (2)" in ax.get_xlabel()
    pyplot.close(ax.figure)


def test_picture_of_one_method_has_bars(counts):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = daskpart.compare_partitions(counts, 2, ["random"], ["connectivity"], progress=False)
    ax = found.plot()
    assert [bar.get_height() for bar in ax.patches] == [1.0] and ax.get_xlabel() == ""
    pyplot.close(ax.figure)


def test_defaults_run(counts):
    found = daskpart.compare_partitions(counts, 4, progress=False)
    assert found.metrics[:2] == ["connectivity", "power"] and "hypercube" in found.values


def test_bad_input(counts):
    with pytest.raises(InputError, match="metric is 'speed': use one of"):
        daskpart.compare_partitions(counts, 4, ["random"], ["speed"])
    with pytest.raises(InputError, match="method is 'magic': use one of"):
        daskpart.compare_partitions(counts, 4, ["magic"])
    for odd in (None, 3, [["random"]], {"mine": ["random"]}):
        with pytest.raises(InputError, match="method"):
            daskpart.compare_partitions(counts, 8, odd)
    with pytest.raises(InputError, match="metrics is None: give a list of names"):
        daskpart.compare_partitions(counts, 8, ["random"], None)
    with pytest.raises(InputError, match="no methods"):
        daskpart.compare_partitions(counts, 4, [])
    with pytest.raises(InputError, match="n_parts is 0"):
        daskpart.compare_partitions(counts, 0)
    one = daskpart.compare_partitions(counts, 1, ["random"], ["connectivity"], progress=False)
    assert one.values["random"]["connectivity"] == 0
    for option in ("objectve", "model", "n_parts"):
        with pytest.raises(InputError, match=f"'mine' has the option '{option}': use one of"):
            daskpart.compare_partitions(counts, 4, {"mine": {"method": "direct", option: "graph"}})
    mine = {"mine": daskpart.partition(counts, 4, method="block")}
    with pytest.raises(InputError, match="'mine' has 4 parts, 8 are compared"):
        daskpart.compare_partitions(counts, 8, mine)
    with pytest.raises(InputError, match=r"made for data of shape \(150, 100\)"):
        daskpart.compare_partitions(counts[:, :90], 4, mine)


def test_fixed_vertices_are_looked_at_before_anything_is_cut(counts, monkeypatch):
    module = sys.modules[daskpart.compare_partitions.__module__]
    sizes = []

    def noted(data, *arguments, **options):
        sizes.append(getattr(data, "hypergraph", data).n_vertices)
        return daskpart.partition(data, *arguments, **options)

    monkeypatch.setattr(module, "partition", noted)
    free = np.full(150, -1)
    for how, told in [
        ({"method": "direct", "fixed": free}, "fixed vertices need method='recursive'"),
        ({"method": "recursive", "fixed": free[:9]}, "9 fixed parts were given for 150 vertices"),
        ({"method": "recursive", "fixed": free + 5}, "vertex 0 is fixed in part 4"),
        ({"method": "block", "engine": "patoh"}, "engine='patoh' is not known"),
    ]:
        with pytest.raises(InputError, match=told):
            daskpart.compare_partitions(counts, 4, {"random": "random", "mine": how})
    assert max(sizes) < 150
    fixed = np.where(np.arange(150) < 4, np.arange(150) % 4, -1)
    given = {"auto": {"fixed": fixed}, "refined": {"fixed": fixed, "refine": "power"}}
    found = daskpart.compare_partitions(counts, 4, given, ["power"], progress=False)
    for made in found.partitions.values():
        assert made.info["method"] == "recursive"
        np.testing.assert_array_equal(made.assignment[:4], np.arange(4))


def test_command(tmp_path, capsys):
    from daskpart import cli

    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        cli.main(["partition", "python-source", "--parts", "4", "--compare", "--out", str(out)])
    assert stopped.value.code == 0
    said = capsys.readouterr()
    assert "Partitions into 4 parts (* least)" in said.out + said.err
    lines = (out / "comparison.csv").read_text().splitlines()
    assert lines[0].startswith("method,connectivity,power") and len(lines) == 9
    page = (out / "report.html").read_text()
    assert "rows that the busiest rank sends and receives" in page
    assert page.count("<table>") == 6 and ">hypercube</td>" in page  # options, versions: two each


def test_options_of_one_cut_do_not_go_with_compare(capsys):
    from daskpart import cli

    with pytest.raises(SystemExit) as stopped:
        cli.main(["partition", "python-source", "--compare", "--method", "metis"])
    assert stopped.value.code == 2
    assert "--compare cuts by every method: leave out --method" in capsys.readouterr().err


def test_mini_batches_of_a_graph_are_compared_too():
    graph = scipy.sparse.random_array((40, 40), density=0.1, rng=np.random.default_rng(0))
    metrics = ["connectivity", "max-volume"]
    found = daskpart.compare_partitions(
        graph, 3, ["random", "direct"], metrics, model="stochastic", progress=False
    )
    assert found.best("connectivity") == "direct"


def test_parts_that_are_fixed_hold_for_the_data_and_not_for_what_is_compiled_with(counts):
    fixed = np.full(150, -1)
    fixed[:2] = 0, 1
    methods = {"mine": {"method": "recursive", "fixed": fixed}}
    found = daskpart.compare_partitions(counts, 2, methods, ["connectivity"], progress=False)
    assert found.partitions["mine"].assignment[:2].tolist() == [0, 1]


def test_a_row_is_refined_as_it_was_cut_and_as_it_is_measured():
    graph = scipy.sparse.random_array((80, 80), density=0.05, random_state=0)
    model = daskpart.data_models.column_net_self_loops(graph)
    start = {"method": "random", "refine": "max-send-volume"}
    found = daskpart.compare_partitions(
        model, 8, {"row": start}, "max-send-volume", owners="packed", progress=False
    )
    cut = daskpart.partition(model, 8, method="random")
    wanted = daskpart.refine(model, cut, "max-send-volume", owners="packed")
    assert found.partitions["row"] == wanted
    assert found.values["row"]["max-send-volume"] == wanted.info["metric_after"]
    start |= {"refine": "connectivity", "even": False, "epsilon": 0.5}
    found = daskpart.compare_partitions(model, 8, {"row": start}, progress=False)
    cut = daskpart.partition(model, 8, method="random", epsilon=0.5)
    wanted = daskpart.refine(model, cut, "connectivity", even=False, epsilon=0.5)
    assert found.partitions["row"] == wanted != daskpart.refine(model, cut, epsilon=0.5)
