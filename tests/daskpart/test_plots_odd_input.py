"""Pictures of what is at the edge: one part, hundreds of ranks, names with dollars, no numbers."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import daskpart
from daskpart import plots
from daskpart.errors import InputError
from daskpart.plots import canvas

pd = pytest.importorskip("pandas")
figure_module = pytest.importorskip("matplotlib.figure")
NAMES = ["a_b^c$$", "$x$", "50% \\frac", "<b>&amp;</b>"]  # matplotlib takes dollars for mathematics


@pytest.fixture
def close():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def points(*seconds):
    return [SimpleNamespace(algorithm="$a_$", predicted=s, measured=1.0) for s in seconds]


def loadings(ax):
    import xarray as xr

    values = np.random.default_rng(0).normal(size=(4, 2))
    factor = xr.DataArray(values, dims=("w$_$", "component"), coords={"w$_$": NAMES})
    return plots.loadings(factor, 1, ax=ax)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plots.confusion(np.eye(4, dtype=int), NAMES, ax=ax),
        lambda ax: plots.embedding(np.arange(16.0).reshape(8, 2), NAMES * 2, ax=ax),
        lambda ax: plots.connectivity_histogram([3, 4, 1], item="$w$$", ax=ax),
        lambda ax: plots.predicted_against_measured(points(1.0, 2.0), ax=ax),
        loadings,
    ],
)
def test_names_with_dollars_are_drawn_as_they_are(draw, ax):
    from matplotlib.text import Text

    draw(ax)
    ax.figure.canvas.draw()
    words = [text.get_text() for text in ax.figure.findobj(Text)]
    escaped = [word for word in words if "$" in word]
    assert escaped and all(word.count(r"\$") == word.count("$") for word in escaped)


@pytest.mark.parametrize("counts", [[0, 5], [2, 5, 0], []])
def test_a_partition_into_one_part_has_a_histogram(counts, ax):
    plots.connectivity_histogram(counts, ax=ax)
    heights = [bar.get_height() for bar in ax.patches]
    assert heights[:1] == ([5] if counts else [0]) and not any(heights[1:])


def test_none_of_500_bars_is_lost():
    heights = np.arange(1, 501)
    drawings = {
        "weights": lambda ax: plots.part_weights(heights, ax=ax),
        "halo": lambda ax: plots.halo(heights, heights, ax=ax),
    }
    for draw in drawings.values():
        axes = figure_module.Figure(figsize=(3, 2)).subplots()
        draw(axes)
        assert all(bar.get_snap() is False and bar.get_width() == 1.0 for bar in axes.patches)


def bare_spy(assignment, n_parts, n_columns=1):
    """The picture of a matrix whose rows have one nonzero each."""
    n_rows = len(assignment)
    matrix = sparse.coo_array(
        (np.ones(n_rows), (np.arange(n_rows), np.arange(n_rows) % n_columns)), (n_rows, n_columns)
    )
    axes = figure_module.Figure(figsize=(6.4, 4.4), layout="constrained").subplots()
    plots.spy(matrix, daskpart.Partition(assignment, n_parts), ax=axes)
    axes.figure.canvas.draw()
    return axes


def overlap(labels):
    boxes = [label.get_window_extent() for label in labels]
    return any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        (np.repeat([0, 15], 30), ["rank 0", "rank 15"]),  # no rows, no name
        (np.r_[np.zeros(45, int), np.arange(1, 16)], ["rank 0", "rank 1", "rank 4"]),
        (np.repeat(np.arange(16), 4), [f"rank {part}" for part in range(16)]),
    ],
)
def test_names_of_ranks_beside_a_matrix_do_not_overlap(assignment, named):
    labels = bare_spy(assignment, 16, 4).get_yticklabels()
    assert [label.get_text() for label in labels][: len(named)] == named
    assert not overlap(labels)


def test_long_numbers_under_a_matrix_do_not_overlap():
    """900,000 columns are local, 100,000 link."""
    local, linking = np.arange(900_000), np.arange(900_000, 1_000_000)
    columns = np.concatenate((local, linking, linking))
    rows = np.repeat([0, 0, 1], [len(local), len(linking), len(linking)])
    axes = figure_module.Figure(figsize=(6.4, 4.4), layout="constrained").subplots()
    matrix = sparse.coo_array((np.ones(len(rows)), (rows, columns)))
    plots.spy(matrix, daskpart.Partition([0, 1], 2), ax=axes)
    axes.figure.canvas.draw()
    assert not overlap(axes.get_xticklabels())


def test_one_row_is_one_row():
    assert bare_spy([0], 1).get_ylabel() == "1 row, by rank"


def test_confusion_of_many_classes_has_no_names(ax):
    plots.confusion(np.eye(500, dtype=int), range(500), ax=ax)
    assert not ax.get_xticklabels() and not ax.get_yticklabels()


def test_short_names_of_classes_stand_upright(ax):
    plots.confusion(np.eye(3, dtype=int), [0, 1, 10], ax=ax)
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {0}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "true")


def test_counts_and_names_of_classes_do_not_overlap(ax):
    names = [f"a name of a class that is long {place}" for place in range(20)]
    plots.confusion(np.full((20, 20), 1234), names, ax=ax)
    assert not ax.texts  # "1.23k" is wider than a cell
    labels = ax.get_xticklabels()
    assert {label.get_rotation() for label in labels} == {90}
    assert max(len(label.get_text()) for label in labels) == 24
    other = figure_module.Figure().subplots()
    plots.confusion(np.eye(45), range(45), ax=other)
    assert {label.get_rotation() for label in other.get_xticklabels()} == {90}


@pytest.mark.parametrize("n_short", [2, 5, 13])
def test_short_names_of_classes_do_not_overlap_a_long_one(n_short, ax):
    names = [*"abcdefghijklmn"[:n_short], "perhaps, as it seems"]
    names.insert(n_short // 2, names.pop())
    plots.confusion(np.full((n_short + 1, n_short + 1), 12), names, ax=ax)
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))


@pytest.mark.parametrize("n_classes", [2, 16, 17, 30, 45])
def test_names_of_classes_do_not_overlap_in_a_picture_of_their_own(n_classes, close):
    names = [f"a name of a class that is long {place}" for place in range(n_classes)]
    ax = plots.confusion(np.eye(n_classes), names)
    ax.figure.canvas.draw()
    assert not overlap(ax.get_xticklabels()) and not overlap(ax.get_yticklabels())


@pytest.mark.parametrize("n", [10, 30, 80])
def test_names_of_loadings_do_not_overlap_in_a_picture_of_their_own(n, close):
    import xarray as xr

    name, labels = (
        "a mode with a name of sixty letters, which is cut " * 2,
        list(map(str, range(80))),
    )
    factor = xr.DataArray(np.ones((80, 1)), dims=(name, "component"), coords={name: labels})
    ax = plots.loadings(factor, 0, n=n)
    ax.figure.canvas.draw()
    assert not overlap(ax.get_yticklabels())
    assert ax.yaxis.label.get_window_extent().height < ax.get_window_extent().height


def test_one_long_name_of_a_method_leaves_room_for_the_bars(close):
    names = ("connectivity", "max-connectivity", "concurrent-volume", "max-volume", "power")
    row = dict.fromkeys(names, 2) | {"seconds": 1.0}
    values = {"a method whose name has more than sixty letters, such as this": row, "other": row}
    ax = plots.partition_comparison(SimpleNamespace(metrics=[*names], values=values, n_parts=2))
    ax.figure.canvas.draw()
    assert not overlap(ax.get_xticklabels())
    assert ax.yaxis.label.get_window_extent().height < ax.get_window_extent().height


@given(
    st.lists(st.text("ab", max_size=40), unique=True, max_size=8),
    st.text("xyü", max_size=40),
    st.text("xyü", max_size=40),
)
def test_long_names_differ_where_they_are_cut(middles, before, behind):
    names = [f"{before}{middle}|{behind}" for middle in middles]
    labels = canvas.shortened(names)
    assert all(len(label) <= 24 for label in labels)
    assert all(label == name for label, name in zip(labels, names, strict=True) if len(name) <= 24)
    if all(len(middle) < 6 for middle in middles):
        assert len(set(labels)) == len(names)


def test_classes_without_a_colour_are_named_as_others(ax):
    plots.embedding(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 15, ax=ax)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(labels) == 13 and labels[-1] == "3 others"
    handles = ax.get_legend().legend_handles
    assert {float(size) for handle in handles for size in handle.get_sizes()} == {20.0}


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_the_legend_of_an_embedding_reaches_into_no_neighbour(layout):
    figure = figure_module.Figure(figsize=(8, 3), layout=layout)
    left, right = figure.subplots(1, 2)
    plots.embedding(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 9, ax=left)
    figure.draw_without_rendering()
    assert left.get_legend().get_window_extent().x1 <= right.get_tightbbox().x0
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == sorted(labels)  # of as many vertices each, here and elsewhere


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_few_rows_of_a_halo_are_counted_in_ones(n_rows, ax):
    plots.halo([n_rows], [0], ax=ax)
    ticks = ax.get_yticks()
    assert np.array_equal(ticks, np.round(ticks))


@pytest.mark.parametrize("counts", [[0, 1], [0, 0], [0, 2, 1], [0, 0, 2]])
def test_few_items_and_weights_are_counted_in_ones(counts, ax):
    for draw in (plots.connectivity_histogram, plots.part_weights):
        axes = figure_module.Figure(figsize=(6, 3.4), layout="constrained").subplots()
        draw(counts, ax=axes)
        ticks = axes.get_yticks()
        assert len(ticks) and np.array_equal(ticks, np.round(ticks))


@pytest.mark.parametrize("size", [(6, 3.4), (5, 3), (4, 2.4)])
@pytest.mark.parametrize("counts", [[123_456] * 12, [1, *[99] * 11], [1, *[10**6] * 5], [9] * 40])
def test_the_legend_of_a_histogram_covers_no_bar(counts, size):
    ax = figure_module.Figure(figsize=size, layout="constrained").subplots()
    plots.connectivity_histogram([0, *counts], ax=ax)
    ax.figure.canvas.draw()
    below = ax.get_legend().get_window_extent().y0
    drawn = [*ax.patches, *ax.texts]
    assert all(each.get_window_extent().y1 < below for each in drawn)
    assert ax.get_xlim()[0] > 0  # what nobody touches is not drawn


def test_ticks_of_ranks_are_ranks_in_round_numbers(ax):
    for n_parts, wanted in ((16, np.arange(0, 16, 2)), (512, np.arange(0, 512, 100))):
        plots.part_weights([1] * n_parts, ax=ax)
        left, right = ax.get_xlim()
        assert [tick for tick in ax.get_xticks() if left <= tick <= right] == wanted.tolist()
        ax.clear()


def test_parts_of_one_weight_are_not_minus_nothing_above_their_mean(ax):
    plots.part_weights([0.1] * 3, ax=ax)  # 0.30000000000000004 / 3 is more than 0.1
    assert ax.get_legend().get_texts()[0].get_text() == "mean; the heaviest is 0.0% above"


def test_a_map_of_no_traffic_counts_no_fifths_of_a_row(ax):
    plots.traffic(np.zeros((3, 3)), ax=ax)
    assert ax.images[0].colorbar.get_ticks().tolist() == [0]


@pytest.mark.parametrize("n_ranks", [2, 17, 23])
def test_ranks_and_few_rows_of_a_map_are_counted_in_ones(n_ranks, ax):
    plots.traffic(3 * np.eye(n_ranks, k=1, dtype=int), ax=ax)
    ticks = [ax.get_xticks(), ax.get_yticks(), ax.images[0].colorbar.get_ticks()]
    assert all(len(each) and np.array_equal(each, np.round(each)) for each in ticks)


@pytest.mark.parametrize("rows", [[700], [3, 4, 5], [0, 0]])
def test_the_legend_of_a_halo_covers_no_bar(rows, ax):
    plots.halo(rows, rows, ax=ax)
    ax.figure.canvas.draw()
    below = ax.get_legend().get_window_extent().y0
    assert all(bar.get_window_extent().y1 < below for bar in ax.patches)


def test_the_legend_of_a_halo_covers_no_bar_where_axes_share_a_scale():
    figure = figure_module.Figure()
    axes = figure.subplots(1, 2, sharey=True)
    for ax, rows in zip(axes, ([500, 510], [200, 300]), strict=True):
        plots.halo(rows, [10, 10], ax=ax)
    figure.canvas.draw()
    for ax in axes:
        below = ax.get_legend().get_window_extent().y0
        assert all(bar.get_window_extent().y1 < below for bar in ax.patches)


def test_a_curve_alone_has_no_legend(ax):
    """What was sent is of no training set."""
    plots.learning_curve(HISTORY, "loss", ax=ax)
    assert ax.get_legend() is None and ax.get_xlabel() == "epoch"
    other = figure_module.Figure().subplots()
    plots.learning_curve(HISTORY.rename(columns={"epoch": "iteration"}), "loss", ax=other)
    assert other.get_xlabel() == "iteration"


def test_few_points_of_many_steps_are_seen(ax):
    history = pd.DataFrame({"epoch": range(200), "loss": 1.0, "validation_loss": np.nan})
    history.loc[150, "validation_loss"] = 2.0  # a line needs two
    plots.learning_curve(history, ax=ax)
    assert [line.get_markersize() for line in ax.lines] == [0, 4]


def test_names_of_metrics_do_not_overlap(ax):
    names = ("connectivity", "max-connectivity", "concurrent-volume", "max-send-volume", "power")
    values = {
        method: {name: cost for name in names} | {"seconds": 1.0}
        for method, cost in (("random", 2), ("metis", 1))
    }
    compared = SimpleNamespace(metrics=[*names, "seconds"], values=values, n_parts=2)
    ax.figure.set_size_inches(8.5, 3.8)  # those of a picture of its own
    plots.partition_comparison(compared, ax=ax)
    ax.figure.canvas.draw()
    assert not overlap(ax.get_xticklabels())
    assert [label.get_text().replace("\n", "") for label in ax.get_xticklabels()] == [*names]


@pytest.mark.parametrize(
    ("losses", "scale"),
    [
        ([np.nan, np.nan], "linear"),
        ([2.0, 1.0], "linear"),
        ([2.0, 1e30, np.nan], "log"),
        ([0.0, 1e30], "linear"),
        ([1, 1e284], "linear"),
    ],
)
def test_a_loss_that_diverges_has_a_logarithmic_axis(losses, scale, ax):
    plots.loss_history(pd.DataFrame({"epoch": range(len(losses)), "loss": losses}), ax=ax)
    assert ax.get_yscale() == scale


def test_small_traffic_uses_the_whole_scale(ax):
    plots.traffic(np.array([[0, 0.004], [0.002, 0]]), ax=ax)
    assert ax.images[0].norm.vmax == pytest.approx(0.004)
    assert {text.get_text() for text in ax.texts} >= {"0.004", "0.002"}


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (999, "999"),
        (999.6, "1k"),
        (1234, "1.23k"),
        (999_600, "1M"),
        (999.6e6, "1G"),
        (3e9, "3G"),
        (1.25e13, "12.5T"),
    ],
)
def test_a_count_in_a_cell_takes_its_unit_as_it_is_rounded(count, words, ax):
    plots.traffic(np.array([[0, count], [1, 0]]), ax=ax)
    assert {text.get_text() for text in ax.texts} == {words, "1"}


def test_what_has_no_share_of_nothing_is_told_under_the_picture(ax):
    """Of a method that sends nothing every other is infinitely worse."""
    matrix = sparse.block_diag([sparse.coo_array(np.ones((4, 4)))] * 2, "csr")
    best = daskpart.Partition(np.repeat([0, 1], 4), 2)
    other = daskpart.Partition(np.tile([0, 1], 4), 2)
    compared = daskpart.compare_partitions(matrix, 2, {"best": best, "other": other})
    plots.partition_comparison(compared, ax=ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["max-\nconnectivity"]
    assert "connectivity: best 0, other 8" in ax.get_xlabel()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.traffic([[0, np.nan], [1, 0]]), "1 NaN or infinite among 4 traffic counts"),
        (lambda: plots.part_weights([]), "one part or more"),
        (lambda: plots.part_weights([1, -2]), "1 of 2 weights are below 0, the least is -2"),
        (lambda: plots.part_weights([1, np.nan]), "1 NaN or infinite among 2 weights"),
        (lambda: plots.embedding([[np.nan, 1], [1, 2]], [0, 1]), "1 NaN or infinite among 4 val"),
        (lambda: plots.embedding(np.ones((8, 2)), range(7)), "don't fit"),
        (lambda: plots.confusion(np.ones((3, 3)), ["a", "b"]), "for 2 classes"),
        (lambda: plots.predicted_against_measured(points(1.0, 0.0)), "1 of 2 points"),
        (lambda: plots.predicted_against_measured(points(np.nan)), "1 of 1 points"),
        (
            lambda: plots.convergence(pd.DataFrame({"epoch": [1], "train_rmse": [1.0]}), "seconds"),
            "no 'seconds'",
        ),
    ],
)
def test_what_has_no_place_in_a_picture_is_said(draw, message):
    with pytest.raises(InputError, match=message):
        draw()


MATRIX = sparse.random_array((6, 5), density=0.4, rng=0)
HISTORY = pd.DataFrame({"epoch": [1], "train_rmse": [1.0], "loss": [1.0]})
FORM = plots.bordered_form([0, 1], [1, 0], (2, 2), [0, 1], 2)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.spy(MATRIX, np.zeros(6, int)), "partition is a ndarray: give a Partition"),
        (lambda: plots.spy(MATRIX, daskpart.partition(MATRIX, 2), names="ab"), "names is 'ab'"),
        (lambda: plots.spy(MATRIX, daskpart.partition(MATRIX, 2), owners=[0]), "1 owners for 5"),
        (lambda: plots.bordered_form([0, 2], [1, 0], (2, 2), [0, 1], 2), "row 2 is out of range"),
        (lambda: plots.bordered_form([0], [1, 0], (2, 2), [0, 1], 2), "1 rows and 2 columns"),
        (lambda: plots.bordered_form([0], [0], 2, [0, 1], 2), "sides have 0 dimensions"),
        (lambda: plots.bordered_form([0], [0], (1, 1), [2], 2), "part number 2 is out of range"),
        (lambda: plots.bordered_form([0, 1], [0, 0], (2, 1), [0, 1], 2, [-1]), "owner -1"),
        (lambda: plots.spy_form([0], [0], (1, 1), None), "form is a NoneType"),
        (lambda: plots.spy_form([], [], (2, 2), FORM), "the 2 x 2 matrix has no nonzero to draw"),
        (lambda: plots.spy_form([0], ["a"], (2, 2), FORM), "columns are of type"),
        (lambda: plots.connectivity_histogram("counts"), "counts have 0 dimensions"),
        (lambda: plots.connectivity_histogram([1, 2.5]), "count 1 is 2.5"),
        (lambda: plots.part_weights(["a"]), "weights are of type .*: give real numbers"),
        (lambda: plots.part_weights([[1], [1, 2]]), "weights are a list of which NumPy makes no"),
        (lambda: plots.part_weights([1], ax=[None]), "ax is a list: give the axes"),
        (lambda: plots.traffic("rows"), r"traffic counts have the shape \(\)"),
        (lambda: plots.traffic(SimpleNamespace(bytes_sent=1)), r"counts have the shape \(\)"),
        (lambda: plots.traffic([[1, 1j], [1, 1]]), "traffic counts are of type complex"),
        (lambda: plots.timeline({}), "run is a dict: give a Timeline"),
        (lambda: plots.simulated(3), "lines is 3: give a sequence"),
        (lambda: plots.simulated([1]), "an entry of lines is a int: give"),
        (lambda: plots.predicted_against_measured([{}]), "an entry of comparison is a dict"),
        (lambda: plots.predicted_against_measured(points("1")), "1 of 1 points"),
        (lambda: plots.convergence(None), "history is a NoneType: give a pandas.DataFrame"),
        (lambda: plots.convergence(HISTORY, ["epoch"]), "against is .'epoch'.: use one of"),
        (lambda: plots.convergence(HISTORY, test_rmse="1"), "test_rmse is '1'"),
        (lambda: plots.loss_history({"loss": [1.0]}), "history is a dict"),
        (
            lambda: plots.fit_history(HISTORY),
            r"the history has no 'iteration', but .*: plots.learning_curve\(history, column\)",
        ),
        (lambda: plots.learning_curve(HISTORY, ["loss"]), r"the history has no \['loss'\]"),
        (lambda: plots.partition_comparison({"random": 1}), "comparison is a dict"),
        (lambda: plots.loadings(np.ones((2, 2)), 0), "factor is a ndarray: give a DataArray"),
        (lambda: plots.component_diagnostics(None), "found is a NoneType: give what"),
        (
            lambda: plots.confusion(np.full((2, 2), np.nan), "ab"),
            "4 NaN or infinite among 4 counts",
        ),
        (lambda: plots.confusion(np.eye(2), None), "classes is None: give a name for each"),
        (lambda: plots.embedding(np.ones((0, 2)), []), "don't fit"),
        (lambda: plots.embedding([[1j, 2]], [0]), "values are of type complex"),
        (lambda: plots.halo([1, 2], [1]), "1 number of halo rows were given, 2 are needed"),
        (lambda: plots.halo(None, [1]), "have 0 dimensions"),
    ],
)
def test_what_is_something_else_is_refused(draw, message):
    with pytest.raises(InputError, match=message):
        draw()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (2e-5, "20 µs"), (9.999e-4, "1 ms"), (1.5, "1.5 s"), (3600, "3,600 s")],
)
def test_a_time_has_the_unit_that_fits(seconds, words):
    assert canvas.time_words(seconds) == words


def test_simulated_seconds_close_together_still_have_labels():
    lines = [
        SimpleNamespace(ranks=ranks, algorithm="_own", seconds=seconds)
        for ranks, seconds in ((64, 4e-6), (100, 5e-6), (101, 5.5e-6), (4096, 6e-6))
    ]
    ax = plots.simulated(lines)
    ax.figure.canvas.draw()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert sum(map(bool, labels)) >= 2
    assert all(label.endswith(" µs") for label in labels)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "100", "", "4096"]
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_own"]


def test_a_rank_alone_does_not_flatten_the_seconds_of_many(ax):
    """It sends nothing, in 0 seconds, which have no place on a logarithmic axis."""
    lines = [
        SimpleNamespace(ranks=ranks, algorithm="star", seconds=seconds)
        for ranks, seconds in ((1, 0.0), (8, 1e-5), (4096, 1e-2))
    ]
    plots.simulated(lines, ax=ax)
    assert ax.get_yscale() == "log" and ax.get_ylim()[0] > 1e-6
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [np.nan, 1e-5, 1e-2])


def test_an_axis_of_no_seconds_at_all_counts_no_billionths(ax):
    plots.simulated([SimpleNamespace(ranks=1, algorithm="star", seconds=0.0)], ax=ax)
    assert ax.get_xticks().tolist() == [0]


@pytest.mark.parametrize("is_wide", [False, True])
def test_two_columns_beside_many_rows_do_not_run_into_each_other(is_wide):
    long, short = np.arange(400), np.arange(400) // 200
    rows, columns = (short, long) if is_wide else (long, short)
    matrix = sparse.coo_array((np.ones(400), (rows, columns)))
    figure = figure_module.Figure(figsize=(6, 4), layout="constrained")
    whole = daskpart.Partition(np.zeros(matrix.shape[0], np.int32), 1)
    ax = plots.spy(matrix, whole, ax=figure.subplots())
    canvas = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    for place, half in ((100, 0), (300, 1)):
        for beside in (0.1, 0.5, 0.9, 1.1, 1.5, 1.9):
            x, y = (place, beside) if is_wide else (beside, place)
            pixel = drawn[tuple(ax.transData.transform((x, y)).astype(int)[::-1])]
            ink, paper = pixel.min() < 20, pixel.min() > 200
            assert (ink, paper) == (int(beside) == half, int(beside) != half), (x, y)
