"""Splits of tables by time, and of users to folds."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskpart.containers import as_matrix
from daskpart.datasets import (
    leave_last_out,
    split_by_time,
    train_test_split_ratings,
    user_folds,
)
from daskpart.errors import DaskpartWarning, InputError

lines = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40)


def table(lines):
    users, times = np.array(lines).T
    return pd.DataFrame({"item": range(len(lines)), "timestamp": times, "userId": users})


@given(lines, st.integers(1, 3))
def test_the_last_of_each_user_are_held_out(lines, n):
    frame = table(lines)
    expected = []
    for _, own in frame.groupby("userId"):
        if len(own) > n:
            expected += own.sort_values("timestamp", kind="stable").index[-n:].tolist()
    if not expected:
        with pytest.raises(InputError, match="both sides need some"):
            leave_last_out(frame, n)
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        train, test = leave_last_out(frame, n)
    assert sorted(expected) == test.index.tolist()
    assert sorted([*train.index, *test.index]) == [*range(len(frame))]
    late = (train["timestamp"] > test["timestamp"].min()).sum()
    begin = f"training sees the future: {late} of"
    assert [str(each.message).startswith(begin) for each in told] == [True] * bool(late)


def test_lines_of_a_table_are_dealt_at_random():
    frame = table([(number % 7, number) for number in range(40)])
    train, test = train_test_split_ratings(frame, 0.25, random_state=3)
    assert len(test) == 10 and test.index.is_monotonic_increasing
    pd.testing.assert_frame_equal(pd.concat([train, test]).sort_index(), frame)
    again, _ = train_test_split_ratings(frame, 0.25, random_state=3)
    pd.testing.assert_frame_equal(again, train)


cells = st.lists(st.tuples(*[st.integers(0, 3)] * 2, st.integers(0, 5)), min_size=5, max_size=30)


@given(cells, st.sampled_from(["coo", "csr", "csc", "bsr"]), st.booleans())
def test_no_cell_is_on_both_sides(cells, form, is_array):
    rows, columns, values = np.array(cells).T
    kind = scipy.sparse.coo_array if is_array else scipy.sparse.coo_matrix
    X = kind((values, (rows, columns)), shape=(4, 4))
    if form != "coo":  # scipy adds up what it turns into another format, unless nothing repeats
        X = X.asformat("csr")
        X = X.tobsr((2, 2)) if form == "bsr" else X.asformat(form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DaskpartWarning)  # of repeats
        expected = as_matrix(X).to_scipy()
        if expected.nnz < 4:
            return
        train, test = train_test_split_ratings(X, 0.4)
    both = [side.tocoo() for side in (train, test)]
    dealt = [cell for side in both for cell in zip(side.row, side.col, side.data, strict=True)]
    known = expected.tocoo()
    assert sorted(dealt) == sorted(zip(known.row, known.col, known.data, strict=True))
    assert train.dtype == X.dtype
    assert [isinstance(side, scipy.sparse.sparray) for side in (train, test)] == [is_array] * 2


def test_what_is_stored_twice_is_told():
    X = scipy.sparse.coo_array(([3, 4, 5, 1], ([0, 0, 1, 2], [0, 0, 1, 2])), shape=(3, 3))
    with pytest.warns(DaskpartWarning, match="1 of 4 ratings repeat a position"):
        train, test = train_test_split_ratings(X, 0.5)
    assert sorted([*train.data, *test.data]) == [1, 4, 5]


@given(lines, st.floats(0.05, 0.95))
def test_nothing_that_is_trained_on_is_later(lines, fraction):
    frame = table(lines)
    try:
        train, test = split_by_time(frame, fraction)
    except InputError as error:
        assert "both sides need some" in str(error)
        times = np.sort(frame["timestamp"])
        assert times[len(times) - max(1, round(fraction * len(times)))] == times[0]
        return
    assert train["timestamp"].max() < test["timestamp"].min()
    assert len(train) + len(test) == len(frame) and len(test) >= round(fraction * len(frame))


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.7, 0.9])
def test_as_many_lines_are_held_out_as_asked_for(fraction):
    frame = table([(number, number) for number in range(10)])
    assert len(split_by_time(frame, fraction)[1]) == 10 * fraction


@pytest.mark.parametrize("dtype", [object, "string", "category"])
@pytest.mark.parametrize("split", [split_by_time, leave_last_out])
def test_times_as_text_are_refused(split, dtype):
    frame = table([(0, 999_999_999), (0, 1_000_000_000)])
    as_text = frame.assign(timestamp=frame["timestamp"].astype(str).astype(dtype))
    with pytest.raises(InputError, match=r"times as text, such as '999999999'.*to_numeric"):
        split(as_text)


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_share_the_users_out(n_folds):
    X = scipy.sparse.csr_array((7, 3))
    folds = list(user_folds(X, n_folds))
    assert sorted(np.concatenate([test for _, test in folds])) == [*range(7)]
    for train, test in folds:
        assert sorted([*train, *test]) == [*range(7)] and len(test) in (
            7 // n_folds,
            -(-7 // n_folds),
        )
    dealt = [
        [test.tolist() for _, test in each]
        for each in (folds, user_folds(X, n_folds, 0), user_folds(X, n_folds, 1))
    ]
    assert dealt[0] == dealt[1] != dealt[2]


def test_what_cannot_be_split():
    frame = table([(0, 1), (0, 2), (1, 3)])
    with pytest.warns(DaskpartWarning, match="sees the future: 1 of its 2"):
        leave_last_out(frame)
    with pytest.raises(InputError, match="n is 0: it must be at least 1"):
        leave_last_out(frame, 0)
    with pytest.raises(InputError, match="between 0 and 1"):
        split_by_time(frame, 1)
    with pytest.raises(InputError, match="no column of times among 'item', 'userId'"):
        split_by_time(frame.drop(columns="timestamp"))
    with pytest.raises(InputError, match="no column when"):
        split_by_time(frame, time="when")
    with pytest.raises(InputError, match="missing times"):
        split_by_time(frame.assign(timestamp=[1, np.nan, 2]))
    with pytest.raises(InputError, match="no columns called 'who'"):
        leave_last_out(frame, user="who")
    for wrong in (1, 8):
        with pytest.raises(InputError, match="n_folds"):
            user_folds(scipy.sparse.csr_array((7, 3)), wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda frame: leave_last_out([(0, 1, 2)]), "frame is a list: give a pandas.DataFrame"),
        (lambda frame: leave_last_out(frame, None), "n is None: give a whole number"),
        (lambda frame: leave_last_out(frame, time=["timestamp"]), "no column \\['timestamp'\\]"),
        (lambda frame: split_by_time(None), "frame is a NoneType"),
        (lambda frame: split_by_time(frame, "a tenth"), "test_fraction='a tenth'; it must be"),
        (lambda frame: train_test_split_ratings(frame, None), "test_fraction=None"),
        (lambda frame: train_test_split_ratings(frame, 0.4, -1), "random_state is -1"),
        (lambda frame: user_folds([[1, 2]]), "X is a list: give a container with a shape"),
        (lambda frame: user_folds(frame, 2.5), "n_folds is 2.5: give a whole number"),
    ],
)
def test_odd_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(table([(0, 1), (0, 2), (1, 3)]))


def test_users_are_known_and_there_are_lines():
    frame = pd.DataFrame({"user": ["a", None, "a"], "item": [1, 2, 3], "timestamp": [1, 2, 3]})
    with pytest.raises(InputError, match="column 'user' has missing users; drop these lines"):
        leave_last_out(frame)
    for split in (split_by_time, leave_last_out):
        with pytest.raises(InputError, match="there are no lines in the frame"):
            split(frame[:0])


def test_folds_are_of_users_and_not_of_lines():
    frame = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "rating": 1.0})
    with pytest.raises(InputError, match="a rating a line: give a row a user"):
        user_folds(frame, 2)
    assert len([*user_folds(as_matrix(frame).to_scipy(), 2)]) == 2
