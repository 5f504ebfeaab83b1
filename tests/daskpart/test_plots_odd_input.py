"""Pictures of what is at the edge: one part, hundreds of ranks, names with dollars, no numbers."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest

from daskpart import plots
from daskpart.errors import InputError

pd = pytest.importorskip("pandas")
figure_module = pytest.importorskip("matplotlib.figure")
NAMES = ["a_b^c$$", "$x$", "50% \\frac", "<b>&amp;</b>"]  # matplotlib takes dollars for mathematics


@pytest.fixture
def ax():
    created = figure_module.Figure(figsize=(5, 4), layout="constrained").subplots()
    yield created
    created.figure.savefig(io.BytesIO(), format="png")  # a picture that cannot be drawn fails here


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


def test_confusion_of_many_classes_has_no_names(ax):
    plots.confusion(np.eye(500, dtype=int), range(500), ax=ax)
    assert not ax.get_xticklabels() and not ax.get_yticklabels()


def test_small_traffic_uses_the_whole_scale(ax):
    plots.traffic(np.array([[0, 0.004], [0.002, 0]]), ax=ax)
    assert ax.images[0].norm.vmax == pytest.approx(0.004)
    assert {text.get_text() for text in ax.texts} >= {"0.004", "0.002"}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.traffic([[0, np.nan], [1, 0]]), "1 NaN or infinite"),
        (lambda: plots.part_weights([]), "one part or more"),
        (lambda: plots.part_weights([1, np.nan]), "one part or more"),
        (lambda: plots.embedding([[np.nan, 1], [1, 2]], [0, 1]), "1 of 2 vertices have NaN"),
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


def test_simulated_seconds_close_together_still_have_labels():
    lines = [
        SimpleNamespace(ranks=ranks, algorithm="_own", seconds=seconds)
        for ranks, seconds in ((64, 4e-6), (100, 5e-6), (101, 5.5e-6), (4096, 6e-6))
    ]
    ax = plots.simulated(lines)
    ax.figure.canvas.draw()
    assert sum(bool(label.get_text()) for label in ax.get_yticklabels()) >= 2
    assert [label.get_text() for label in ax.get_xticklabels()] == ["64", "100", "", "4096"]
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_own"]
