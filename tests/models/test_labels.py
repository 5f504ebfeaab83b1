"""Labels and the positions that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex


def test_labels_are_looked_up():
    names = LabelIndex(np.array(["ann", "bob", "cy"], dtype=object), 3, "user")
    assert names.positions(["cy", "ann", "cy"]).tolist() == [2, 0, 2]
    assert names.take(np.array([1])).tolist() == ["bob"]
    with pytest.raises(InputError, match=r"2 users are unknown to the model: 'x', 'y';.*'ann'"):
        names.positions(["x", "ann", "y", "x"])
    dates = LabelIndex(np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]"), 2, "day")
    assert dates.positions(["2021-01-01"]).tolist() == [1]
    with pytest.raises(InputError, match="day labels occur more than once: 1"):
        LabelIndex(np.array([1, 1]), 2, "day")


def test_positions_stand_in_for_labels():
    positions = LabelIndex(None, 4, "item")
    assert positions.positions([3, 0.0]).tolist() == [3, 0]
    assert positions.take(np.array([2], np.int32)).tolist() == [2]
    many = r"6 items are unknown to the model: 4, 5, 6, 7, 8, …; .* are 0 … 3"
    with pytest.raises(InputError, match=many):
        positions.positions(np.arange(10))
    for wrong in ([-1], [1.5], [float("nan")], [2**40]):
        with pytest.raises(InputError, match="unknown"):
            positions.positions(wrong)
    with pytest.raises(InputError, match="has no item labels: give positions"):
        positions.positions(["a"])
