"""Pictures: what they show is checked on the artists; that they look right is for the eye."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given

import daskpart
from daskpart import plots
from daskpart.collectives import Counters, Timeline
from daskpart.collectives.timeline import BLOCKED, COMPUTING, Span
from daskpart.errors import InputError

pd = pytest.importorskip("pandas")
figure_module = pytest.importorskip("matplotlib.figure")


def history(n_epochs: int, validation: bool = True):
    falling = np.linspace(1.2, 0.8, n_epochs)
    return pd.DataFrame(
        {
            "epoch": np.arange(1, n_epochs + 1),
            "train_rmse": falling,
            "validation_rmse": falling + 0.1 if validation else np.nan,
            "seconds": 3.0,
        }
    )


def test_convergence_against_epochs_and_seconds(ax):
    plots.convergence(history(5), ax=ax, test_rmse=0.9)
    assert [line.get_label() for line in ax.lines] == [
        "train",
        "validation",
        "test, after the fit: 0.9000",
    ]
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert ax.get_xlabel() == "epoch" and "RMSE" in ax.get_ylabel()

    losses = history(5, validation=False).rename(columns={"train_rmse": "train_loss"})
    losses = losses.drop(columns="validation_rmse")
    other = figure_module.Figure().subplots()
    plots.loss_history(losses, ax=other, test_loss=0.9)
    told = [text.get_text() for text in other.get_legend().get_texts()]
    assert told == ["train", "test, after the fit: 0.9000"]

    other = figure_module.Figure().subplots()
    plots.convergence(history(4, validation=False), "seconds", ax=other)
    assert len(other.lines) == 1
    assert other.lines[0].get_xdata().tolist() == [3, 6, 9, 12]


def test_convergence_says_what_is_wrong(ax):
    with pytest.raises(InputError, match="holds no epoch"):
        plots.convergence(history(0), ax=ax)
    with pytest.raises(InputError, match="against is 'hours': use one of 'epoch', 'seconds'"):
        plots.convergence(history(2), "hours", ax=ax)


@given(
    seed=st.integers(0, 2**31),
    n_rows=st.integers(1, 30),
    n_columns=st.integers(1, 30),
    n_parts=st.sampled_from([1, 2, 3, 5, 8]),
)
def test_bordered_form_is_fig_1(seed, n_rows, n_columns, n_parts):
    random = np.random.default_rng(seed)
    n_nonzeros = int(random.integers(1, 60))
    rows = random.integers(0, n_rows, n_nonzeros)
    columns = random.integers(0, n_columns, n_nonzeros)
    assignment = random.integers(0, n_parts, n_rows)
    owners = random.integers(0, n_parts, n_columns)
    form = plots.bordered_form(rows, columns, (n_rows, n_columns), assignment, n_parts, owners)

    assert sorted(form.row_order) == list(range(n_rows))
    assert sorted(form.column_order) == sorted(set(columns))
    row_place = np.argsort(form.row_order)[rows]
    place_of = {column: place for place, column in enumerate(form.column_order)}
    column_place = np.array([place_of[column] for column in columns])
    part = np.searchsorted(form.row_pointer, row_place, side="right") - 1
    assert np.array_equal(part, assignment[rows])
    left_of_border = column_place < form.local_pointer[-1]
    block = np.searchsorted(form.local_pointer, column_place, side="right") - 1
    # left of the border everything lies on the block diagonal; in it, every column links parts
    assert np.array_equal(block[left_of_border], part[left_of_border])
    for column in set(columns[~left_of_border]):
        assert len(set(assignment[rows[columns == column]])) > 1
    for rank in range(n_parts):
        begin, end = form.border_pointer[rank : rank + 2]
        assert set(owners[form.column_order[begin:end]]) <= {rank}


def test_bordered_form_refuses_another_matrix_s_partition():
    with pytest.raises(InputError, match="assigns 3 rows, the matrix has 4"):
        plots.bordered_form([0], [0], (4, 2), [0, 1, 0], 2)


def test_spy_draws_blocks_border_and_only_real_nonzeros(ax):
    rows = np.array([0, 1, 2, 3, 0, 3])
    columns = np.array([0, 0, 1, 1, 2, 2])
    form = plots.bordered_form(rows, columns, (4, 3), [0, 0, 1, 1], 2, [0, 1, 1])
    plots.spy_form(rows, columns, (4, 3), form, names=("user", "item"), ax=ax)
    (image,) = ax.images
    pixels = np.asarray(image.get_array())
    assert pixels.shape == (4, 3, 3)
    # distance to the lightest pixel of the paper: what is dark is a nonzero, in its rank's colour
    dark = pixels.min(axis=2) < 0.7
    expected = np.zeros((4, 3), dtype=bool)
    expected[rows, columns] = True
    assert np.array_equal(dark, expected)
    assert not np.allclose(pixels[0, 2], pixels[3, 2])
    assert "2 local to one rank | 1 linking several" in ax.get_xlabel()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["rank 0", "rank 1"]


def test_spy_takes_a_matrix_and_its_partition(ax):
    sparse_array = pytest.importorskip("scipy.sparse").coo_array
    matrix = sparse_array(np.array([[1.0, 0, 3], [0, 2, 4]]))
    partition = SimpleNamespace(assignment=np.array([0, 1]), n_parts=2, info={})
    plots.spy(matrix, partition, ax=ax)
    assert "2 local to one rank | 1 linking several" in ax.get_xlabel()

    columns_cut = SimpleNamespace(
        assignment=np.array([0, 1, 1]), n_parts=2, info={"model": "row-net"}
    )
    other = figure_module.Figure().subplots()
    plots.spy(matrix, columns_cut, names=("user", "item"), ax=other)
    assert other.get_ylabel() == "3 items, by rank"
    with pytest.raises(InputError, match="needs the partition"):
        plots.spy(matrix)


def test_spy_names_what_ranks_own(ax):
    matrix = pytest.importorskip("scipy.sparse").coo_array(np.ones((4, 3)))
    halves = daskpart.Partition([0, 0, 1, 1], 2)
    names = ("city", "class")
    plots.spy(matrix, halves, owners=[0, 1, 0], names=names, ax=ax)
    assert ax.get_title("right") == "owner of the linking class"
    assert ax.get_ylabel() == "4 cities, by rank"
    assert ax.get_xlabel() == "classes: 0 local to one rank | 3 linking several"
    other = figure_module.Figure().subplots()
    plots.spy(matrix, daskpart.Partition([0] * 4, 1), owners=[0] * 3, ax=other)
    assert other.get_title("right") == ""  # nothing links, so nobody owns it


def test_a_million_nonzeros_become_a_bounded_image(ax):
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, 50_000, 10**6), random.integers(0, 40_000, 10**6)
    assignment = random.integers(0, 64, 50_000)
    form = plots.bordered_form(rows, columns, (50_000, 40_000), assignment, 64)
    plots.spy_form(rows, columns, (50_000, 40_000), form, ax=ax)
    assert np.asarray(ax.images[0].get_array()).size < 2_000_000


def test_traffic_writes_counts_in_small_maps_only(ax):
    sent = np.array([[0, 1500], [20, 0]])
    plots.traffic(sent, ax=ax)
    assert sorted(text.get_text() for text in ax.texts) == ["1.5k", "20"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("to rank", "from rank")
    large = figure_module.Figure().subplots()
    plots.traffic(np.ones((64, 64)), ax=large)
    assert not large.texts
    with pytest.raises(InputError, match="ranks × ranks"):
        plots.traffic(np.ones((2, 3)), ax=ax)


def test_traffic_of_one_rank_is_an_empty_map(ax):
    plots.traffic(np.zeros((1, 1)), ax=ax)
    assert not ax.texts


def test_connectivity_histogram_leaves_out_empty_columns(ax):
    plots.connectivity_histogram([7, 5, 0, 2], ax=ax)
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == [5, 0, 2]
    wrapped = SimpleNamespace(histogram=lambda: np.array([0, 9000, 3]))
    other = figure_module.Figure().subplots()
    plots.connectivity_histogram(wrapped, ax=other)
    assert other.get_yscale() == "log"


def test_part_weights_states_the_imbalance(ax):
    plots.part_weights([100, 100, 130], ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [100, 100, 130]
    assert "18.2%" in ax.get_legend().get_texts()[0].get_text()


def test_no_axes_given_makes_a_figure_and_leaves_the_settings_alone():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    before = dict(pyplot.rcParams)
    drawn = plots.part_weights([1, 2])
    assert drawn.figure in map(pyplot.figure, pyplot.get_fignums())
    assert dict(pyplot.rcParams) == before
    pyplot.close(drawn.figure)


def test_without_matplotlib_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from daskpart import plots\n"
        "plots.part_weights([1, 2])"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'daskpart[plot]'" in outcome.stderr


# runs


def test_timeline_is_a_bar_a_rank(ax):
    run = Timeline(2)
    run.add(Span(0, COMPUTING, "multiply", 5.0, 8.0))
    run.add(Span(1, BLOCKED, "expand", 5.0, 9.0))
    plots.timeline(SimpleNamespace(timeline=run), ax=ax)  # as of a communicator
    (image,) = ax.images
    pixels = np.asarray(image.get_array())
    blue, grey, white = ([0.0, 114 / 255, 178 / 255], [208 / 255] * 3, [1.0] * 3)
    np.testing.assert_allclose(pixels[0, :1120], np.tile(blue, (1120, 1)), atol=1e-9)
    np.testing.assert_allclose(pixels[0, 1130:], np.tile(white, (370, 1)), atol=1e-9)
    np.testing.assert_allclose(pixels[1], np.tile(grey, (1500, 1)), atol=1e-9)
    assert ax.get_xlim() == (0.0, 4.0)
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["computing", "sending", "blocked"]
    with pytest.raises(InputError, match="record_timeline"):
        plots.timeline(SimpleNamespace(timeline=None), ax=ax)
    with pytest.raises(InputError, match="record_timeline"):
        plots.timeline(Timeline(2), ax=ax)


def test_traffic_of_a_run_and_of_a_plan(ax):
    counters = Counters(2)
    counters.record_round("expand", 0, np.array([0]), np.array([1]), [3], [1200])
    plots.traffic(SimpleNamespace(counters=counters), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["1.2k"]
    assert ax.images[0].colorbar.ax.get_ylabel() == "bytes"
    plan = SimpleNamespace(traffic=lambda: np.array([[0, 7], [0, 0]]))
    report = SimpleNamespace(traffic=np.array([[0, 8], [0, 0]]))
    other_steps = SimpleNamespace(traffic=report.traffic, unit="iteration")
    for shown, count, unit in (
        (plan, "7", "rows"),
        (report, "8", "rows an epoch"),
        (other_steps, "8", "rows an iteration"),
    ):
        other = figure_module.Figure().subplots()
        plots.traffic(shown, ax=other)
        assert [text.get_text() for text in other.texts] == [count]
        assert other.images[0].colorbar.ax.get_ylabel() == unit


def test_predicted_against_measured(ax):
    rows = [
        SimpleNamespace(algorithm=name, predicted=p, measured=m)
        for name, p, m in (("ring", 1e-3, 2e-3), ("butterfly", 2e-3, 1e-3), ("ring", 0.1, 0.2))
    ]
    plots.predicted_against_measured(SimpleNamespace(rows=rows), ax=ax)
    points = {line.get_label(): line for line in ax.lines if line.get_label()[0] != "_"}
    assert points["ring"].get_xdata().tolist() == [2e-3, 0.2]
    assert points["ring"].get_ydata().tolist() == [1e-3, 0.1]
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "measured time")
    with pytest.raises(InputError, match="nothing was compared"):
        plots.predicted_against_measured([])


def test_simulated_is_lines_over_ranks_or_bars(ax):
    lines = [
        SimpleNamespace(ranks=ranks, algorithm=name, seconds=1e-6 * ranks * cost)
        for ranks in (4, 64)
        for name, cost in (("ring", 3), ("hypercube", 1))
    ]
    plots.simulated(lines, ax=ax)
    assert [line.get_label() for line in ax.lines] == ["ring", "hypercube"]
    assert ax.lines[0].get_xdata().tolist() == [4, 64]
    other = figure_module.Figure().subplots()
    plots.simulated(lines[:2], ax=other)
    assert [bar.get_width() for bar in other.patches] == [1.2e-5, 4e-6]
    with pytest.raises(InputError, match="nothing was simulated"):
        plots.simulated([])


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_spy_of_shards_knows_what_was_cut(ax, axis):
    matrix = scipy.sparse.random_array((6, 6), density=0.5, rng=np.random.default_rng(0))
    assignment = [0, 1, 1, 0, 2, 2]
    partition = daskpart.Partition(assignment, 3)
    plots.spy(daskpart.shard(matrix, partition, axis=axis), ax=ax)
    assert ax.get_ylabel() == f"6 {axis}, by rank"


def test_legends_and_ticks_leave_small_panels_their_room():
    figure = figure_module.Figure(figsize=(6.4, 4.2), layout="constrained")
    rows = pd.DataFrame({"epoch": range(1, 11), "train_rmse": 1.0, "validation_rmse": 1.1})
    panels = figure.subplots(2, 3)
    for ax in panels[0]:
        plots.convergence(rows, test_rmse=1.2, ax=ax)
    for ax in panels[1]:
        plots.connectivity_histogram([0, 500, 300], ax=ax)
    figure.canvas.draw()
    for ax in panels.flat:
        assert ax.get_window_extent().width > figure.dpi
    for ax in panels[0]:
        labels = [each.get_window_extent() for each in ax.get_xticklabels() if each.get_text()]
        assert all(one.x1 < other.x0 for one, other in pairwise(labels))
