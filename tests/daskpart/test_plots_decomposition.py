"""Pictures of a decomposition show the numbers that they were given."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from daskpart import plots
from daskpart.errors import InputError

pytest.importorskip("matplotlib")


@pytest.fixture
def history():
    return pd.DataFrame({"iteration": [1, 2, 3], "fit": [0.1, 0.3, 0.35], "seconds": [2.0, 1, 1]})


def factor(values, labels=None):
    coords = None if labels is None else {"word": labels}
    return xr.DataArray(np.array(values)[:, None], dims=("word", "component"), coords=coords)


def test_fit_over_iterations_and_seconds(ax, history):
    plots.fit_history(history, ax=ax)
    plots.fit_history(history, "seconds", ax=ax)
    first, second = (line.get_xydata() for line in ax.lines)
    np.testing.assert_array_equal(first, [[1, 0.1], [2, 0.3], [3, 0.35]])
    np.testing.assert_array_equal(second[:, 0], [2, 3, 4])
    with pytest.raises(InputError, match="against is 'weeks'"):
        plots.fit_history(history, "weeks", ax=ax)
    with pytest.raises(InputError, match="no iteration"):
        plots.fit_history(history[:0], ax=ax)


def test_the_largest_loadings_stand_first(ax):
    labels = np.array(["a", "b", "c" * 40, "d"])
    plots.loadings(factor([0.1, -0.9, 0.5, 0.0], labels), 0, n=3, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == [-0.9, 0.5, 0.1]
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["b", "c" * 23 + "…", "a"]
    with pytest.raises(InputError, match="component is 1"):
        plots.loadings(factor([0.1]), 1, ax=ax)


def test_a_mode_is_drawn_whole_in_its_own_order(ax):
    """Months are texts, and stood by their loadings, without those of 0."""
    months = np.array(["Jan", "Feb", "Mar", "Apr"])
    plots.loadings(factor([0.1, -0.9, 0.0, 0.5], months), 0, n=None, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == [0.1, -0.9, 0.0, 0.5]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == months.tolist()
    assert ax.yaxis_inverted()
    ax.clear()
    plots.loadings(factor(np.arange(300) / 300.0), 0, n=None, ax=ax)  # by position
    assert [bar.get_height() for bar in ax.patches] == [*np.arange(300) / 300.0]


@pytest.mark.parametrize(
    ("labels", "days"),
    [
        (np.array([0.1, 0.2, 0.4]), 0.08),
        (np.array(["2020-01-01", "2020-02-01", "2020-03-01"], "datetime64[ns]"), 0.8 * 29),
        (np.array([2001]), 0.8),
    ],
)
def test_bars_in_order_are_as_wide_as_labels_are_apart(ax, labels, days):
    plots.loadings(factor([0.1, -0.9, 0.5][: len(labels)], labels), 0, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([days] * len(labels))
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_xticklabels() if tick.get_text()]
    boxes.sort(key=lambda box: box.x0)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_short_modes_of_numbers_keep_their_order(ax):
    plots.loadings(factor([0.1, -0.9, 0.5], np.array([2001, 2002, 2003])), 0, ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [0.1, -0.9, 0.5]
    assert ax.get_xlabel() == "word"


@pytest.mark.parametrize("labels", [[0, 1, 2], [5], [100_001, 100_002, 100_003], [7.0, 9.0]])
def test_whole_labels_have_whole_ticks(ax, labels):
    plots.loadings(factor([1.0] * len(labels), labels), 0, ax=ax)
    ax.figure.canvas.draw()
    left, right = ax.get_xlim()
    named = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    ticks = {place: label.get_text() for place, label in named if left <= place <= right}
    assert ticks and set(ticks) <= set(range(int(labels[0]), int(labels[-1]) + 1))
    assert all(float(words) == place for place, words in ticks.items())
