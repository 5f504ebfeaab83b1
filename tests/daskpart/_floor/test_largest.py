"""The largest of many numbers, as a sort of all gives them."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from daskpart._floor.largest import largest

_FEW = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan])


@given(st.lists(st.one_of(_FEW, st.floats(width=32)), max_size=30), st.integers(1, 12))
@example([np.nan, 1.0, np.nan], 2)
def test_they_are_those_of_a_stable_sort(numbers, n):
    values = np.array(numbers, np.float64)
    expected = np.argsort(-np.abs(values), kind="stable")[:n]
    assert largest(values, n).tolist() == expected.tolist()


def test_the_others_are_not_sorted(monkeypatch):
    sort, counts = np.argsort, []
    monkeypatch.setattr(
        np, "argsort", lambda keys, **how: counts.append(len(keys)) or sort(keys, **how)
    )
    assert largest(np.arange(1000.0), 3).tolist() == [999, 998, 997] and counts == [3]
