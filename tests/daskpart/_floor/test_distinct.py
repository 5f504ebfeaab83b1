"""Numbers, rising and each once, whether they are marked or sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daskpart._floor.distinct import distinct


@given(
    drawn=st.lists(st.integers(0, 50)),
    more=st.sampled_from([0, 10, 10**4]),
    dtype=st.sampled_from([np.int32, np.int64]),
)
def test_marks_say_what_sorting_says(drawn, more, dtype):
    found = distinct(np.array(drawn, dtype), 51 + more)
    assert found.dtype == np.int64 and found.tolist() == sorted(set(drawn))
