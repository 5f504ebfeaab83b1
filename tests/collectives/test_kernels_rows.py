"""Rows added by kernels: what NumPy gives, to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.collectives import SUM, Reduction, combine_rows
from daskpart.collectives.messages import Inbox
from daskpart.errors import InputError

BY_NUMPY = Reduction("sum by NumPy", lambda low, high: low + high, 0)


@st.composite
def inboxes(draw):
    """A state, and messages to it from some other ranks."""
    n_rows, rank = draw(st.integers(1, 12)), draw(st.integers(0, 5))
    sources = sorted(draw(st.sets(st.integers(0, 5).filter(lambda source: source != rank))))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))

    def rows(n):
        return (random.normal(size=(n, *width)) * 10.0 ** random.integers(-6, 6)).astype(dtype)

    positions = [random.permutation(n_rows)[: draw(st.integers(0, n_rows))] for _ in sources]
    return rows(n_rows), Inbox(rank, sources, positions, [rows(len(at)) for at in positions])


@given(inboxes())
def test_kernels_add_in_the_order_of_ranks(given_rows):
    state, inbox = given_rows
    expected = combine_rows(state.copy(), inbox, reduction=BY_NUMPY)
    found = combine_rows(state.copy(), inbox, reduction=SUM)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("sources", [[0], [0, 1], [3], [0, 1, 3]])
def test_a_position_behind_the_end_of_the_state_is_refused(sources):
    rows, at = np.ones((2, 3)), np.array([1, 4])
    inbox = Inbox(2, sources, [at] * len(sources), [rows] * len(sources))
    with pytest.raises(InputError, match="row 4 of a state of 4 rows"):
        combine_rows(np.zeros((4, 3)), inbox)
